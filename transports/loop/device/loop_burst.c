/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * With shape=srd: messages of a layer above, several in one call, and their completions to its
 * queue, as devices have them (struct ep.send, struct cq_sink). Calls that take a part only are
 * frequent, so that layers show what they do then.
 */
#include <stdlib.h>
#include <string.h>

#include "core/queue/cq.h"
#include "transports/loop/device/loop_device.h"

enum {
    BURST = 16,    /* completions that are told in one call */
    CUT_ONE_IN = 4 /* calls, on average, that take a part */
};

struct loop_burst {
    struct cq_sink *sink;
    size_t count;
    struct cq_done done[BURST];
};

static struct loop_ep *ep_of(struct ep *base)
{
    return object_of(base, struct loop_ep, base.base);
}

unsigned loop_random(struct loop_ep *ep)
{
    ep->random = ep->random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(ep->random >> 33);
}

/* ---- Sends ---- */

static ssize_t send_one(struct loop_ep *ep, fi_addr_t dest, const struct ep_send *send)
{
    struct iovec iov[] = {{send->buf, send->len}, send->slice};
    void *desc[] = {send->desc, send->slice_desc};
    struct op op = {
        .call = OP_SENDMSG,
        .group = OP_GROUP_SEND,
        .kind = FI_MSG | FI_SEND,
        .flags = FI_COMPLETION,
        .peer = dest,
        .context = send->context,
        .iov = iov,
        .desc = desc,
        .count = send->slice.iov_len ? 2 : 1,
        .len = send->len + send->slice.iov_len,
    };

    return loop_post(&ep->base.base, &op);
}

static size_t burst_send(struct ep *base, fi_addr_t dest, const struct ep_send *sends, size_t count)
{
    struct loop_ep *ep = ep_of(base);
    size_t taken = 0;

    if (count > 1 && loop_random(ep) % CUT_ONE_IN == 0)
        count = loop_random(ep) % count;
    while (taken < count && !send_one(ep, dest, &sends[taken]))
        taken++;
    return taken;
}

/* ---- Completions ---- */

void loop_burst_tell(struct loop_ep *ep)
{
    struct loop_burst *burst = ep->burst;
    struct cq_done done[BURST];
    size_t count = burst->count;

    if (!count)
        return;
    memcpy(done, burst->done, count * sizeof(*done));
    burst->count = 0; /* the layer posts */
    burst->sink->take(burst->sink, done, count);
}

void loop_burst_done(struct loop_ep *ep, void *context, size_t len, fi_addr_t src)
{
    struct loop_burst *burst = ep->burst;

    if (burst->count == BURST)
        loop_burst_tell(ep);
    burst->done[burst->count++] = (struct cq_done){context, len, src};
}

/* ---- Its endpoint ---- */

/* The layer's queue, if it hears of all messages; else NULL. */
static struct cq_sink *sink_of(const struct loop_ep *ep)
{
    const struct binding *binding = &ep->base.binding;

    if (!binding->tx || binding->tx != binding->rx || binding->rx_selective ||
        binding->cntr[BIND_SEND] || binding->cntr[BIND_RECV])
        return NULL;
    return cq_sink_of(binding->tx);
}

void loop_burst_enable(struct loop_ep *ep)
{
    struct cq_sink *sink = sink_of(ep);

    if (!ep->packets || !ep->domain->fabric->bursts || !sink)
        return;
    ep->burst = calloc(1, sizeof(*ep->burst));
    if (!ep->burst)
        return; /* it goes without */
    ep->burst->sink = sink;
    ep->base.base.send = burst_send;
}
