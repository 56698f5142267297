/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sends: a message of the upper's is the session's until the peer has it, and each packet of it
 * goes down as a header of ours and the upper's own segments. So a message ends when the session
 * and the lower are both through with it.
 */
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "core/base/iov.h"
#include "core/base/log.h"
#include "layers/arq/arq_ep.h"

enum {
    SMALL = 512 /* bytes of a packet that is copied to be one segment */
};

/* ---- Ends ---- */

static void finish(struct arq_ep *ep, struct arq_send *send)
{
    void *context = send->context;
    bool wanted = send->wanted;
    int err = send->err;

    if (send->copy)
        mr_pool_put(&ep->copies, send->copy);
    pool_put(&ep->up.sends, send);
    packet_ep_sent(&ep->up, context, wanted, err);
}

void arq_done(struct session *session, struct session_message *message, int err)
{
    struct arq_send *send = object_of(message, struct arq_send, message);

    send->over = true;
    send->err = err;
    if (!send->at_lower)
        finish(arq_link_of(session)->ep, send);
}

void arq_head_done(struct arq_ep *ep, struct arq_head *head)
{
    struct arq_send *send = head->send;

    ep->sends_at_lower--;
    mr_pool_put(head->pool, head);
    if (send && !--send->at_lower && send->over)
        finish(ep, send);
}

/* ---- Packets ---- */

/* Segments of a packet behind its header. */
struct slices {
    struct iovec iov[ARQ_SEGMENTS + 2];
    void *desc[ARQ_SEGMENTS + 2];
    size_t count;
};

static void slice(const struct arq_send *send, size_t at, size_t len, struct slices *slices)
{
    for (size_t i = 0; i < send->count && len; i++) {
        size_t room = send->iov[i].iov_len, take;

        if (at >= room) {
            at -= room;
            continue;
        }
        take = room - at < len ? room - at : len;
        slices->iov[slices->count].iov_base = (char *)send->iov[i].iov_base + at;
        slices->iov[slices->count].iov_len = take;
        slices->desc[slices->count++] = send->desc[i];
        len -= take;
        at = 0;
    }
}

static ssize_t post(struct arq_ep *ep, fi_addr_t to, struct slices *slices, void *context,
                    uint64_t flags)
{
    struct op op = {
        .call = OP_SENDMSG,
        .group = OP_GROUP_SEND,
        .kind = FI_MSG | FI_SEND,
        .flags = flags,
        .peer = to,
        .context = context,
        .iov = slices->iov,
        .desc = slices->desc,
        .count = slices->count,
        .len = iov_bytes(slices->iov, slices->count),
    };

    return op_post(&ep->lower.target, &op);
}

/* With the header in memory that lives on; `whole`: all of the packet is copied there. */
static ssize_t post_kept(struct arq_ep *ep, fi_addr_t to, const struct slices *packet, bool whole,
                         struct arq_send *send, uint64_t flags)
{
    struct mr_pool *pool =
        whole || packet->iov[0].iov_len > ARQ_OPEN_SIZE ? &ep->wholes : &ep->heads;
    struct arq_head *head = mr_pool_get(pool);
    struct arq_send *counted = whole ? NULL : send;
    struct slices slices = *packet;
    size_t used = whole ? packet->count : 1;
    ssize_t rc;

    if (!head)
        return -FI_EAGAIN;
    head->base.receives = false;
    head->pool = pool;
    head->send = counted;
    slices.iov[0] = (struct iovec){.iov_base = head->bytes + ep->lower.prefix,
                                   .iov_len = iov_bytes(packet->iov, used)};
    iov_copy(slices.iov, 1, packet->iov, used);
    slices.iov[0].iov_base = head->bytes;
    slices.iov[0].iov_len += ep->lower.prefix;
    slices.desc[0] = head->base.buffer.desc;
    if (whole)
        slices.count = 1;
    if (counted)
        counted->at_lower++;
    ep->sends_at_lower++;
    rc = post(ep, to, &slices, &head->base, flags | FI_COMPLETION);
    if (rc) {
        if (counted)
            counted->at_lower--;
        ep->sends_at_lower--;
        mr_pool_put(pool, head);
    }
    return rc;
}

/* The lower copies it. One segment is less work for it than several. */
static ssize_t post_copied(struct arq_ep *ep, fi_addr_t to, struct slices *slices, size_t len)
{
    uint8_t small[SMALL], *at = small;
    struct slices one;

    if (slices->count == 1 || len > sizeof(small))
        return post(ep, to, slices, NULL, FI_INJECT);
    for (size_t i = 0; i < slices->count; at += slices->iov[i++].iov_len)
        memcpy(at, slices->iov[i].iov_base, slices->iov[i].iov_len);
    one.iov[0] = (struct iovec){.iov_base = small, .iov_len = len};
    one.desc[0] = NULL;
    one.count = 1;
    return post(ep, to, &one, NULL, FI_INJECT);
}

/* Only "not now" stops a session: all else is a packet that is lost, and the session finds out. */
static bool has_left(ssize_t rc)
{
    if (rc && rc != -FI_EAGAIN)
        LOG_INFO("arq", FI_LOG_EP_DATA, "a packet was refused by the lower: %s",
                 fi_strerror((int)-rc));
    return rc != -FI_EAGAIN;
}

static bool send_slices(struct arq_ep *ep, fi_addr_t to, struct slices *slices,
                        struct arq_send *send, bool more)
{
    size_t len = iov_bytes(slices->iov, slices->count);
    bool whole = slices->count > ep->lower.segments;

    if (len <= ep->lower.inject && !whole && !(more && send))
        return has_left(post_copied(ep, to, slices, len));
    return has_left(post_kept(ep, to, slices, whole, send, more ? FI_MORE : 0));
}

bool arq_transmit(struct session *session, const struct session_packet *packet)
{
    struct arq_link *link = arq_link_of(session);
    struct arq_send *send = NULL;
    struct slices slices;

    slices.iov[0] = (struct iovec){(void *)(uintptr_t)packet->bytes, packet->len};
    slices.desc[0] = NULL;
    slices.count = 1;
    if (packet->message) {
        send = object_of(packet->message, struct arq_send, message);
        slice(send, packet->at, packet->count, &slices);
    }
    return send_slices(link->ep, link->peer->lower, &slices, send, packet->more);
}

bool arq_send_bare(struct arq_ep *ep, fi_addr_t to, const uint8_t *bytes, size_t len)
{
    struct slices slices = {
        .iov = {{.iov_base = (void *)(uintptr_t)bytes, .iov_len = len}},
        .count = 1,
    };

    return send_slices(ep, to, &slices, NULL, false);
}

/* ---- Posting ---- */

static int copy_payload(struct arq_ep *ep, const struct op *op, struct arq_send *send)
{
    const struct iovec to = {.iov_len = op->len};
    struct iovec room = to;

    send->copy = mr_pool_get(&ep->copies);
    if (!send->copy)
        return -FI_ENOMEM;
    room.iov_base = send->copy->bytes;
    iov_copy(&room, 1, op->iov, op->count);
    send->iov[0] = room;
    send->desc[0] = send->copy->buffer.desc;
    send->count = 1;
    return 0;
}

static void take_segments(const struct op *op, struct arq_send *send)
{
    send->count = op->count;
    for (size_t i = 0; i < op->count; i++) {
        send->iov[i] = op->iov[i];
        send->desc[i] = op->desc ? op->desc[i] : NULL;
    }
}

static int fill(struct arq_ep *ep, const struct op *op, struct arq_send *send)
{
    send->context = op->context;
    send->wanted = packet_ep_wanted(&ep->up, op);
    send->over = false;
    send->err = 0;
    send->at_lower = 0;
    send->copy = NULL;
    send->message = (struct session_message){.len = op->len};
    if (op->len && (op->flags & FI_INJECT || ep->copies_all))
        return copy_payload(ep, op, send);
    take_segments(op, send);
    return 0;
}

/* The session that leads to the peer, open or opening. */
static int find_link(struct arq_ep *ep, fi_addr_t addr, struct arq_link **link)
{
    struct arq_peer *peer = peer_map_at(&ep->peers.map, addr);
    int rc = peer ? 0 : arq_peer_of(ep, addr, &peer);

    if (rc)
        return rc;
    /* It has ended just now, and this is posted from inside of a completion that says so. */
    if (peer->link && __builtin_expect(peer->link->session.state == SESSION_ENDED, 0)) {
        peer->link->peer = NULL;
        peer->link = NULL;
    }
    if (__builtin_expect(!peer->link, 0))
        rc = arq_link_open(ep, peer, 0, clock_ns());
    *link = peer->link;
    return rc;
}

/* Nothing else is to be done for the peer, as far as is known. */
static void send_alone(struct arq_ep *ep, struct arq_link *link, struct arq_send *send)
{
    uint64_t due;

    ep->up.running = true;
    due = session_send_now(&link->session, &send->message, clock_ns());
    ep->up.running = false;
    if (due)
        packet_ep_set_timer(&ep->up, &link->timer, due);
    else
        arq_ready(link);
}

int arq_send(struct packet_ep *up, const struct op *op)
{
    struct arq_ep *ep = arq_ep_of_packets(up);
    struct arq_link *link;
    struct arq_send *send;
    void *memory;
    int rc = find_link(ep, op->peer, &link);

    if (!rc)
        rc = packet_ep_get_send(up, &memory);
    if (rc)
        return rc;
    send = memory;
    rc = fill(ep, op, send);
    if (rc) {
        pool_put(&up->sends, send);
        return rc;
    }
    if (up->running || op->flags & FI_MORE || !list_empty(&link->ready)) {
        session_send(&link->session, &send->message);
        arq_ready(link);
        return 0;
    }
    send_alone(ep, link, send);
    return 0;
}
