/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/udp/udp_batch.h"

#include <errno.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "transports/udp/udp_ep.h"

enum {
    TRIES = 8 /* of a call that fails for what was sent before */
};

bool udp_is_full(int err)
{
    return err == EAGAIN || err == ENOBUFS || err == EINTR;
}

struct udp_send *udp_batch_next(struct udp_batch *batch)
{
    if (batch->count == UDP_BATCH_MAX && batch->first) {
        batch->count -= batch->first;
        memmove(batch->sends, batch->sends + batch->first, batch->count * sizeof(*batch->sends));
        batch->first = 0;
    }
    return batch->count < UDP_BATCH_MAX ? &batch->sends[batch->count] : NULL;
}

/* ---- Ends ---- */

static void sent(struct udp_ep *ep, unsigned count)
{
    struct udp_batch *batch = ep->batch;

    for (unsigned i = 0; i < count; i++) {
        struct udp_send *send = &batch->sends[batch->first++];

        if (pcap_on(ep->main.flow))
            pcap_datagram(ep->main.flow, false, &send->datagram.to.sa, send->datagram.iov,
                          send->datagram.count, 0, send->datagram.len);
        complete(&ep->base.binding, BIND_SEND, send->wanted, send->context, FI_MSG | FI_SEND, 0,
                 NULL, 0, 0, FI_ADDR_NOTAVAIL);
    }
}

/* The kernel has the first ones. */
static void taken(struct udp_ep *ep, unsigned count)
{
    const struct udp_batch *batch = ep->batch;

    for (unsigned i = 0; ep->refusal.len && i < count; i++)
        udp_refusal_taken(&ep->refusal, batch->sends[batch->first + i].datagram.len);
}

/* The first datagram, or the run of it, is lost. */
static bool is_lost(struct udp_ep *ep, int err)
{
    return err == ENOBUFS &&
           udp_refusal_lasts(&ep->refusal, ep->batch->sends[ep->batch->first].datagram.len,
                             clock_ns());
}

static void failed(struct udp_ep *ep, unsigned count, int err)
{
    struct udp_batch *batch = ep->batch;

    for (unsigned i = 0; i < count; i++) {
        struct fi_cq_err_entry entry = {
            .op_context = batch->sends[batch->first++].context,
            .flags = FI_MSG | FI_SEND,
            .err = err,
            .prov_errno = err,
        };

        complete_error(&ep->base.binding, BIND_SEND, &entry);
    }
}

/* A run that is refused as a whole may be no fault of its datagrams. */
static bool give_up_offload(struct udp_ep *ep, unsigned run, int err)
{
    if (run == 1 || !ep->gso)
        return false;
    ep->gso = false;
    if (!atomic_exchange(&ep->fabric->said_no_offload, true))
        LOG_INFO(ep->fabric->base.part, FI_LOG_EP_DATA,
                 "datagrams are sent one by one: UDP_SEGMENT: %s", strerror(err));
    return true;
}

void udp_batch_flush(struct udp_ep *ep)
{
    struct udp_batch *batch = ep->batch;
    unsigned tries = 0, refused;

    if (batch->count > 1)
        datagram_memory(&ep->memory);
    while (batch->first < batch->count) {
        const struct datagrams left = {
            .first = &batch->sends[batch->first].datagram,
            .stride = sizeof(*batch->sends),
            .count = batch->count - batch->first,
            .memory = ep->memory,
        };
        int rc = datagrams_send(ep->main.fd, &left, ep->gso, &refused);
        int err = errno;

        if (rc > 0)
            taken(ep, (unsigned)rc);
        if (rc > 0 || is_lost(ep, err)) {
            sent(ep, rc > 0 ? (unsigned)rc : refused);
            continue;
        }
        if (udp_is_full(err))
            return;
        if (ep->base.eq && tries++ < TRIES && udp_errors_read(ep))
            continue;
        if (!give_up_offload(ep, refused, err))
            failed(ep, refused, err);
    }
    batch->first = batch->count = 0;
}
