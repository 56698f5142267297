/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets: their memory, on their way to the lower, and as they come. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/layer/message_ep.h"
#include "core/layer/message_wire.h"

enum {
    QUIET_MS = 60000, /* between two lines about packets that cannot be */
    BATCH = 16,       /* receives that are posted by one call */
};

/* ---- Memory ---- */

/* Receives give way as they come back; before that all packets may be with the lower as such. */
struct message_packet *message_packet_none(struct message_ep *ep)
{
    size_t half = (ep->packets.count + 1) / 2;

    ep->narrow = ep->packets.count;
    if (ep->receives > half)
        ep->receives = (unsigned)half;
    return NULL;
}

/* There are more packets than when there were none. */
static void widen(struct message_ep *ep)
{
    ep->narrow = 0;
    ep->receives = ep->receives_most;
}

static void add_spare(struct message_ep *ep, struct message_packet *packet)
{
    list_init(&packet->link);
    list_attach(&packet->link, &ep->spare);
    ep->spares++;
}

static struct message_packet *take_spare(struct message_ep *ep)
{
    struct message_packet *packet = list_item(ep->spare.next, struct message_packet, link);

    if (!ep->spares)
        return NULL;
    list_detach(&packet->link);
    ep->spares--;
    return packet;
}

bool message_spares_fill(struct message_ep *ep)
{
    while (ep->spares < ep->spares_wanted) {
        struct message_packet *packet = malloc(ep->packets.item_size);

        if (!packet)
            return false;
        add_spare(ep, packet);
    }
    return true;
}

void message_spares_free(struct message_ep *ep)
{
    list_for_each_safe (item, after, &ep->spare)
        free(list_item(item, struct message_packet, link));
    list_init(&ep->spare);
    ep->spares = 0;
}

struct message_packet *message_packet_get_any(struct message_peer *peer)
{
    struct message_ep *ep = peer->ep;
    struct message_packet *packet = ep->bare ? NULL : message_packet_get(peer);

    if (packet)
        return packet;
    packet = malloc(ep->packets.item_size);
    if (!packet)
        packet = take_spare(ep);
    if (!packet)
        return NULL;
    message_packet_init(packet, peer);
    packet->bare = true;
    ep->bare++;
    return packet;
}

struct message_packet *message_packet_get_apart(struct message_peer *peer, size_t bytes)
{
    struct message_ep *ep = peer->ep;
    struct message_packet *packet =
        ep->apart < MESSAGE_APART ? malloc(ep->wire->packet_size + bytes) : NULL;

    if (!packet)
        return NULL;
    packet->buffer = (struct mr_buffer){0};
    message_packet_init(packet, peer);
    packet->apart = true;
    ep->apart++;
    return packet;
}

void message_packet_free(struct message_packet *packet)
{
    if (!packet->in)
        packet->ep->apart--;
    free(packet);
}

void message_packet_drop(struct message_packet *packet)
{
    struct message_ep *ep = packet->ep;

    if (!packet->bare) {
        message_packet_put(packet);
        return;
    }
    ep->outgoing--;
    ep->bare--;
    list_detach(&packet->link);
    if (ep->spares < ep->spares_wanted)
        add_spare(ep, packet);
    else
        free(packet);
}

static void copy(struct message_packet *packet, const struct message_packet *bare)
{
    const struct message_wire *wire = bare->ep->wire;
    struct mr_buffer buffer = packet->buffer;

    if (wire->packet_copy)
        wire->packet_copy(packet, bare);
    else
        memcpy(packet, bare, wire->packet_size + bare->len);
    packet->buffer = buffer;
    packet->bare = false;
}

/* False: there is none for it. */
static bool equip(struct message_packet *bare)
{
    struct message_ep *ep = bare->ep;
    struct message_packet *packet = mr_pool_get(&ep->packets);

    if (!packet) {
        message_packet_none(ep);
        return false;
    }
    copy(packet, bare);
    list_init(&packet->link);
    list_attach_before(&packet->link, &bare->link);
    ep->outgoing++;
    message_packet_drop(bare);
    return true;
}

void message_packets_equip(struct message_peer *peer, struct list *rest)
{
    bool all = true;

    list_for_each_safe (item, after, &peer->out) {
        struct message_packet *packet = list_item(item, struct message_packet, link);

        all = all && (!packet->bare || equip(packet));
        if (!all) {
            list_detach(&packet->link);
            list_attach(&packet->link, rest);
        }
    }
}

/* ---- Out ---- */

void message_packets_put(struct list *packets)
{
    list_for_each_safe (item, after, packets)
        message_packet_put(list_item(item, struct message_packet, link));
}

/* Without an initializer: the op's fields behind `data` mean nothing here. */
static inline ssize_t post(struct message_packet *packet, const void *start, size_t len,
                           const struct message_slices *slices, bool more)
{
    struct iovec iov[MESSAGE_IOV + 1];
    void *desc[MESSAGE_IOV + 1];
    struct op op;

    iov[0] = (struct iovec){.iov_base = (void *)(uintptr_t)start, .iov_len = len};
    desc[0] = packet->buffer.desc;
    for (size_t i = 0; i < slices->count; i++) {
        iov[i + 1] = slices->iov[i];
        desc[i + 1] = slices->desc ? slices->desc[i] : NULL;
        len += slices->iov[i].iov_len;
    }
    op.call = OP_SENDMSG;
    op.group = OP_GROUP_SEND;
    op.kind = FI_MSG | FI_SEND;
    op.flags = FI_COMPLETION | (more ? FI_MORE : 0);
    op.defaults = false;
    op.peer = packet->peer->lower;
    op.context = packet;
    op.iov = iov;
    op.desc = desc;
    op.count = 1 + slices->count;
    op.len = len;
    op.data = 0;
    return op_post(&packet->ep->target, &op);
}

bool message_packet_send(struct message_packet *packet, struct list *queue, const void *start,
                         size_t len, const struct message_slices *slices, bool more)
{
    struct message_peer *peer = packet->peer;
    struct message_ep *ep = peer->ep;
    ssize_t rc;

    list_detach(&packet->link);
    list_attach(&packet->link, &peer->flying);
    ep->flying++;
    rc = post(packet, start, len, slices, more);
    if (!rc) /* the packet may have been sent, and gone, already */
        return true;
    if (__builtin_expect(!packet->peer, 0)) { /* ended while the lower looked at what came */
        ep->wire->sent(packet, (int)-rc);
        return true;
    }
    ep->flying--;
    list_detach(&packet->link);
    list_attach_before(&packet->link, queue->next);
    if (rc != -FI_EAGAIN && rc != -FI_ENOMEM)
        message_peer_break(peer, (int)-rc, NULL);
    return false;
}

bool message_packet_send_lone(struct message_packet *packet, const void *start, size_t len)
{
    struct message_peer *peer = packet->peer;
    struct message_ep *ep = peer->ep;
    ssize_t rc;

    list_attach(&packet->link, &peer->flying);
    ep->flying++;
    rc = fi_send(ep->lower, start, len, packet->buffer.desc, peer->lower, packet);
    if (!rc)
        return true;
    ep->flying--;
    list_detach(&packet->link);
    if (rc != -FI_EAGAIN && rc != -FI_ENOMEM)
        message_peer_break(peer, (int)-rc, NULL);
    return false;
}

size_t message_packets_send(struct message_peer *peer, const struct ep_send *sends, size_t count)
{
    struct message_ep *ep = peer->ep;
    size_t taken;

    for (size_t i = 0; i < count; i++) {
        struct message_packet *packet = sends[i].context;

        list_detach(&packet->link);
        list_attach(&packet->link, &peer->flying);
    }
    ep->flying += (unsigned)count;
    taken = op_send(&ep->target, peer->lower, sends, count);
    ep->flying -= (unsigned)(count - taken);
    for (size_t i = taken; i < count; i++)
        list_detach(&((struct message_packet *)sends[i].context)->link);
    return taken;
}

/* Of an operation that is one packet the receiver may have had no room for it alone. A move ends
 * with the peer, and stays pending until then. */
__attribute__((noinline)) static void failed(struct message_packet *packet, int err)
{
    struct message_ep *ep = packet->ep;
    struct message_peer *peer = packet->peer;
    struct message_move *move = packet->move;
    bool breaks = peer && !(packet->from && err == FI_ENORX);

    if (packet->from)
        message_packet_end_op(packet, err);
    message_packet_put(packet);
    if (breaks)
        message_peer_break(peer, err, NULL);
    else if (move && ep->buckets)
        message_move_sent(move, peer);
}

void message_packet_sent(struct message_packet *packet, int err)
{
    struct message_ep *ep = packet->ep;
    struct message_peer *peer = packet->peer;
    struct message_move *move = packet->move;

    ep->flying--;
    list_join(&ep->stalled, &ep->attention);
    if (__builtin_expect(err, 0)) {
        failed(packet, err);
        return;
    }
    if (packet->from)
        message_packet_end_op(packet, 0);
    message_packet_put(packet);
    if (move && ep->buckets)
        message_move_sent(move, peer);
}

/* ---- In ---- */

/* The log is not told each time of things that peers can bring about again and again. last: when it
 * was, or 0. */
static bool may_tell(long long *last)
{
    long long now = clock_ms();

    if (*last && now - *last < QUIET_MS)
        return false;
    *last = now;
    return true;
}

void message_say_wrong(struct message_ep *ep, const char *wrong)
{
    if (may_tell(&ep->told_ms))
        LOG_WARN(ep->wire->name, FI_LOG_EP_DATA,
                 ": %s came, and is dropped; further ones within a minute are not told", wrong);
}

bool message_is_full(struct message_ep *ep)
{
    if (__builtin_expect(ep->saved <= ep->saved_limit, 1))
        return false;
    if (!ep->saved_said && may_tell(&ep->full_ms))
        LOG_WARN(ep->wire->name, FI_LOG_EP_DATA,
                 ": %zu bytes of unexpected messages are kept; no more are taken until some are "
                 "received (saved_size is %zu)",
                 ep->saved, ep->saved_limit);
    ep->saved_said = true;
    return true;
}

/* So many as there are; *count. False: without memory there are fewer than were wanted. */
static bool get_receives(struct message_ep *ep, struct ep_receive *receives, unsigned *count)
{
    unsigned wanted = ep->receives - ep->posted, i = 0;

    if (wanted > BATCH)
        wanted = BATCH;
    for (; i < wanted; i++) {
        struct message_packet *packet = mr_pool_get(&ep->packets);

        if (!packet)
            break;
        packet->ep = ep;
        packet->peer = NULL;
        packet->from = NULL;
        packet->in = true;
        packet->apart = false;
        list_init(&packet->link);
        receives[i] = (struct ep_receive){.buf = (char *)packet + ep->wire->packet_size,
                                          .desc = packet->buffer.desc,
                                          .context = packet,
                                          .len = ep->prefix + ep->packet_size};
    }
    *count = i;
    return i == wanted;
}

/* 0: all were taken. */
static int post_receives(struct message_ep *ep, const struct ep_receive *receives, unsigned count)
{
    const struct ep_receive *pointers[BATCH];
    unsigned taken;
    int rc = 0;

    for (unsigned i = 0; i < count; i++)
        pointers[i] = &receives[i];
    ep->posted += count;
    taken = (unsigned)op_receive(&ep->target, pointers, count);
    while (__builtin_expect(taken < count, 0) && !rc) {
        rc = op_receive_one(&ep->target, pointers[taken]);
        taken += !rc;
    }
    ep->posted -= count - taken;
    for (unsigned i = taken; i < count; i++)
        message_packet_put(receives[i].context);
    return rc;
}

int message_in_fill(struct message_ep *ep)
{
    if (__builtin_expect(ep->narrow && ep->narrow != ep->packets.count, 0))
        widen(ep);
    while (ep->posted < ep->receives && !(ep->wire->holds_back && message_is_full(ep))) {
        struct ep_receive receives[BATCH];
        unsigned count;
        bool all = get_receives(ep, receives, &count);
        int rc = post_receives(ep, receives, count);

        if (rc)
            return rc == -FI_EAGAIN ? 0 : rc; /* the next drive goes on */
        if (!all)
            return -FI_ENOMEM;
    }
    return 0;
}

/* Packets that the wire keeps until others come do not keep the memory that these come into, nor
 * that of answers: where the lower has refused to register more, copies have their places. */
static void save(struct message_packet *packet)
{
    struct message_ep *ep = packet->ep;
    struct message_packet *copied;

    if (__builtin_expect(!ep->packets.skips, 1) || packet->apart)
        return;
    copied = malloc(ep->wire->packet_size + packet->len);
    if (!copied)
        return;
    memcpy(copied, packet, ep->wire->packet_size + packet->len);
    copied->buffer = (struct mr_buffer){0};
    copied->apart = true;
    list_attach_before(&copied->link, &packet->link);
    message_packet_put(packet);
}

/* Of a packet for later the lower has told its sender that it has come. */
static void take(struct message_packet *packet, fi_addr_t src)
{
    struct message_ep *ep = packet->ep;
    enum message_fate fate = MESSAGE_OVER;

    if (packet->len < ep->prefix)
        message_say_wrong(ep, "a packet shorter than its prefix");
    else
        fate = ep->wire->packet(packet, src);
    if (fate == MESSAGE_LATER && packet->tries--) {
        packet->src = src;
        list_attach(&packet->link, &ep->deferred);
    } else if (fate == MESSAGE_KEPT) {
        save(packet);
    } else {
        message_packet_put_in(packet);
    }
}

void message_in(struct message_packet *packet, size_t len, fi_addr_t src)
{
    packet->len = len;
    packet->tries = MESSAGE_TRIES;
    take(packet, src);
}

/* Messages alone: no writes of peers. */
void message_sink_take(struct cq_sink *sink, const struct cq_done *done, size_t count)
{
    struct message_ep *ep = object_of(sink, struct message_ep, sink);

    for (size_t i = 0; i < count; i++) {
        struct message_packet *packet = done[i].context;

        if (!packet->in) {
            ep->wire->sent(packet, 0);
            continue;
        }
        ep->posted--;
        packet->len = done[i].len;
        packet->tries = MESSAGE_TRIES;
        if (__builtin_expect(ep->buckets != NULL, 1))
            take(packet, done[i].src);
        else /* the lower is being closed, and there are no peers any more */
            message_packet_put(packet);
    }
}

void message_in_deferred(struct message_ep *ep)
{
    struct list all;

    list_init(&all);
    list_join(&ep->deferred, &all);
    while (!list_empty(&all)) {
        struct message_packet *packet = list_item(all.next, struct message_packet, link);

        list_detach(&packet->link);
        take(packet, packet->src);
    }
}
