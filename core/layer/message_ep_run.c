/* SPDX-License-Identifier: BSD-2-Clause */
/* The progress of endpoints, and their sleeps. */
#include <rdma/fi_errno.h>

#include "core/layer/message_ep.h"
#include "core/layer/message_wire.h"

enum {
    ROUNDS = 16 /* of one run */
};

static void end_broken(struct message_ep *ep)
{
    while (!list_empty(&ep->broken)) {
        struct message_peer *peer = list_item(ep->broken.next, struct message_peer, broken);

        list_detach(&peer->broken);
        ep->code = peer->code;
        ep->wire->peer_reset(peer, peer->err);
        ep->code = 0;
    }
}

static void attend_all(struct message_ep *ep)
{
    struct list all;

    list_init(&all);
    list_join(&ep->attention, &all);
    while (!list_empty(&all)) {
        struct message_peer *peer = list_item(all.next, struct message_peer, attended);

        list_detach(&peer->attended);
        ep->wire->run(peer);
    }
}

void message_run_all(struct message_ep *ep)
{
    if (ep->running)
        return;
    ep->running = true;
    for (int i = 0; i < ROUNDS; i++) {
        attend_all(ep);
        if (__builtin_expect(ep->narrow, 0) && message_in_lacks(ep))
            message_in_fill(ep); /* else bytes that move would take all packets */
        message_move_run(ep);
        end_broken(ep);
        if (list_empty(&ep->attention))
            break;
    }
    ep->running = false;
}

void message_poll_lower(struct progress_source *source)
{
    struct message_ep *ep = object_of(source, struct message_ep, cq.source);

    if (__builtin_expect(!ep->driven, 0))
        return;
    lower_cq_progress(ep->cq.cq);
    if (__builtin_expect(av_watch_any(&ep->watch), 0))
        message_peers_take_changes(ep);
    if (__builtin_expect(!list_empty(&ep->deferred), 0))
        message_in_deferred(ep);
    ep->polls++;
    if (ep->counts)
        message_seconds_run(ep);
    if (ep->used || ep->takes || ep->ask_ms)
        message_silence_run(ep);
    if (__builtin_expect(!ep->flying && !list_empty(&ep->stalled), 0))
        list_join(&ep->stalled, &ep->attention); /* no completion of the lower's does it */
    message_run(ep);
    if (message_in_lacks(ep))
        message_in_fill(ep);
}

/* Something is to be done that nothing below tells of: receives that are missing, too, for which
 * the lower may have messages already. A lower that is full wakes when it is done. */
static bool has_work(struct message_ep *ep)
{
    if (!list_empty(&ep->attention) || !list_empty(&ep->broken) || atomic_load(&ep->watch.any))
        return true;
    if (message_in_lacks(ep) || !list_empty(&ep->deferred))
        return true;
    return !ep->flying && (!list_empty(&ep->stalled) || !list_empty(&ep->moving));
}

/* The lower may complete from inside of its own. */
int message_trywait(struct progress_source *source)
{
    struct message_ep *ep = object_of(source, struct message_ep, cq.source);
    int rc;

    if (!ep->driven)
        return 0;
    if (has_work(ep) || message_silence_sleep(ep))
        return -FI_EAGAIN;
    rc = lower_cq_trywait(ep->domain->fabric->lower, ep->cq.cq);
    return !rc && has_work(ep) ? -FI_EAGAIN : rc;
}

/* ---- Completions of the lower ---- */

static ssize_t sink_write(struct fid_peer_cq *peer, void *context, uint64_t flags, size_t len,
                          void *buf, uint64_t data, uint64_t tag, fi_addr_t src)
{
    struct message_packet *packet = context;

    if (!packet->in) {
        packet->ep->wire->sent(packet, 0);
        return 0;
    }
    packet->ep->posted--;
    if (__builtin_expect(flags & FI_REMOTE_WRITE && packet->ep->wire->written, 0))
        packet->ep->wire->written(packet->ep, len, data, src);
    if (__builtin_expect(flags & FI_REMOTE_WRITE || !packet->ep->buckets, 0))
        message_packet_put(packet); /* the lower is being closed, and there are no peers any more */
    else
        message_in(packet, len, src);
    return 0;
}

static ssize_t sink_writeerr(struct fid_peer_cq *peer, const struct fi_cq_err_entry *error)
{
    struct message_packet *packet = error->op_context;

    if (!packet)
        return 0;
    if (!packet->in) {
        struct message_ep *ep = packet->ep;

        ep->code = error->prov_errno;
        ep->wire->sent(packet, error->err);
        ep->code = 0;
        return 0;
    }
    packet->ep->posted--;
    message_packet_put(packet);
    return 0;
}

struct fi_ops_cq_owner message_sink_ops = {
    .size = sizeof(message_sink_ops),
    .write = sink_write,
    .writeerr = sink_writeerr,
};
