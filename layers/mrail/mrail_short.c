/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_send of a small message with nothing before it: past struct op, and its end is told with the
 * next look. The function refuses all others, of which nothing has changed, and calls the general
 * one.
 */
#include "core/base/clock.h"
#include "core/base/table.h"
#include "core/ep/ep.h"
#include "layers/mrail/mrail_ep.h"

/* fi_send asks for nothing more than that it ends. */
static inline bool is_short(const struct mrail_ep *ep, size_t len)
{
    const uint64_t plain = FI_COMPLETION | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE;

    return ep->enabled && len <= ep->config.small && !(ep->up.base.tx_op_flags & ~plain) &&
           !progress_forked(ep->up.progress);
}

/* A lone message leaves, or nothing has happened. */
static bool send_short(struct mrail_ep *ep, const void *buf, size_t len, fi_addr_t dest,
                       void *context)
{
    const struct mrail_peer *peer = peer_map_at(&ep->map, dest);
    struct mrail_session *session = peer ? mrail_session_of(peer) : NULL;
    struct mrail_send *send;
    uint64_t now;
    unsigned rail;

    if (!session || ep->up.running || packet_ep_is_ready(&ep->up) || av_watch_any(&ep->up.watch))
        return false;
    send = pool_get(&ep->up.sends);
    if (!send)
        return false;
    send->context = context;
    send->wanted = completion_wanted(ep->up.base.binding.tx_selective, ep->up.base.tx_op_flags);
    send->message = (struct flow_message){.len = (uint32_t)len, .patient = true};
    send->copy = NULL;
    send->count = 1;
    send->iov[0] = (struct iovec){.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    rail = flow_send_lone(&session->flow, &send->message);
    if (__builtin_expect(rail == FLOW_NO_RAIL, 0)) {
        pool_put(&ep->up.sends, send);
        return false;
    }
    now = clock_ns();
    mrail_note_due(session, flow_sent(&session->flow, &send->message, rail, now), now);
    if (__builtin_expect(packet_ep_is_ready(&ep->up), 0))
        mrail_run(ep);
    return true;
}

static ssize_t short_send(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                          fi_addr_t dest, void *context)
{
    struct mrail_ep *ep = object_of(fid, struct mrail_ep, up.fid);
    struct progress *root;
    bool done = false;

    if (__builtin_expect(is_short(ep, len), 1)) {
        root = progress_enter_post(ep->up.progress);
        done = send_short(ep, buf, len, dest, context);
        if (ep->up.top)
            progress_posted(ep->up.progress);
        progress_leave_post(root);
    }
    return done ? 0 : ep_msg_ops.send(fid, buf, len, desc, dest, context);
}

static struct fi_ops_msg msg_ops = {.size = sizeof(msg_ops), .send = short_send};

void mrail_short_init(struct mrail_ep *ep)
{
    ep->up.fid.msg = table_inherit(&msg_ops, &ep_msg_ops);
}
