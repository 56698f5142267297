/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Operations become a request, in a packet that has left or will. Small payloads go with it; the
 * rest of a large one stays where it is until the peer asks.
 */
#include <rdma/fi_errno.h>

#include "core/op/atomic.h"
#include "layers/rxd/rxd.h"

/* ---- The end of an operation ---- */

bool rxd_op_is_over(const struct message_op *op)
{
    return rxd_op_of(op)->sent && !(op->move.direct && op->move.pending) &&
           !rxd_is_reading(rxd_op_of(op));
}

/* The lower has its memory still: it ends when that is over, and well if the peer had it all. */
bool rxd_op_stays(struct message_op *base, int err)
{
    struct rxd_op *op = rxd_op_of(base);
    bool there = op->sent && base->answered;

    list_detach(&op->in_packet);
    if (!((base->move.direct && base->move.pending) || rxd_is_reading(op)) ||
        base->handle.peer->ep->closing)
        return false;
    if (op->borrowed)
        rxd_borrowed_over(op);
    op->sent = base->answered = true;
    base->err = there ? base->err : err;
    message_move_stop(&base->move);
    message_handle_close(&base->handle);
    return true;
}

/* Packets that were not sent yet go on without their operation; they have copies. */
static void forget_move(struct rxd_peer *peer, const struct message_move *move)
{
    list_for_each (item, &peer->ordered) {
        struct rxd_packet *packet = list_item(item, struct rxd_packet, base.link);

        if (packet->base.move == move)
            packet->base.move = NULL;
    }
}

void rxd_op_put(struct message_op *base)
{
    struct rxd_op *op = rxd_op_of(base);
    struct rxd_peer *peer = rxd_peer_of(base->handle.peer);

    if (__builtin_expect(op->lent_count, 0))
        rxd_take_back(op->lent, op->lent_count);
    if (__builtin_expect(op->borrowed != NULL, 0))
        rxd_borrowed_put(op);
    if (list_empty(&peer->ordered))
        return;
    message_peer_attend(&peer->base); /* a fence may have waited for it */
    if (op->unasked)
        forget_move(peer, &base->move);
}

void rxd_op_give_up(struct message_op *op)
{
    if (op->move.taker)
        rxd_out_gone(op->handle.peer, op->move.taker);
}

/* ---- Requests ---- */

/* answered: it ends without an answer of the peer's. */
struct rxd_op *rxd_op_get(struct rxd_peer *peer, const struct message_posting *posting,
                          enum message_kind kind, bool answered, bool early)
{
    struct message_op *base = early ? message_op_get_brief(&peer->base, posting)
                                    : message_op_get(&peer->base, posting, kind, !answered);
    struct rxd_op *op;

    if (!base)
        return NULL;
    base->answered = answered;
    op = rxd_op_of(base);
    op->sent = false;
    op->lent_count = 0;
    op->borrowed = NULL;
    op->unasked = 0;
    op->again = op->borrows = false;
    op->owes = 0;
    list_init(&op->in_packet);
    return op;
}

/* A packet with the record, and where its payload goes. */
static uint8_t *put_request(struct rxd_op *op, const struct op *post, struct rxd_record *record,
                            bool early)
{
    struct rxd_peer *peer = rxd_peer_of(op->base.handle.peer);
    size_t size = rxd_record_size(record) + record->len;
    bool fence = post->flags & FI_FENCE, is_long = size > rxd_ep_of(peer->base.ep)->room;
    struct rxd_packet *packet =
        is_long ? rxd_out_long(peer, size, fence) : rxd_out_ordered(peer, size, fence);
    uint8_t *payload;

    if (!packet)
        return NULL;
    payload = rxd_record_put(record, packet->records + packet->base.len);
    packet->base.len += size;
    list_attach(&op->in_packet, early ? &packet->early : &packet->ops);
    return payload;
}

static void set_data(struct rxd_record *record, const struct message_posting *posting)
{
    const struct op *post = posting->op;

    if (__builtin_expect(posting->context != 0, 0)) {
        record->flags |= RXD_TO_CONTEXT;
        record->context = posting->context;
    }
    if (!(post->flags & FI_REMOTE_CQ_DATA))
        return;
    record->flags |= RXD_HAS_DATA;
    record->data = post->data;
}

/* Does it leave with its request as several packets of the lower's, which it is copied into? Where
 * more is under way, a question costs no time, and the copy may. */
static bool is_whole(const struct rxd_peer *peer, const struct op *post)
{
    return post->len <= (peer->in_flight < RXD_CORK ? RXD_WHOLE : RXD_WHOLE / 2) &&
           peer->base.ep->apart < MESSAGE_APART && rxd_makes_trains(peer);
}

/* Of bytes that do not fit a packet: a short last packet is none, and goes with the request. */
static size_t lead_of(const struct rxd_peer *peer, const struct rxd_follow *follow, size_t len)
{
    size_t piece = follow->most ? follow->room : rxd_ep_of(peer->base.ep)->room - RXD_RECORD_SIZE;
    size_t last;

    if (follow->trains)
        return RXD_LEAD;
    if (len <= RXD_FIRST)
        return len;
    last = (len - RXD_FIRST) % piece;
    return last <= RXD_FIRST && last <= piece / RXD_SHORT ? RXD_FIRST + last : RXD_FIRST;
}

/* Bytes that go with a request: all that fit, or a little of a larger one. The rest is read, leaves
 * right behind it, or is asked for, and a small packet is there sooner than a large one; over
 * several rails nothing else could leave while the large one takes one of them. */
static struct rxd_follow divide(struct rxd_peer *peer, const struct op *post,
                                struct rxd_record *record, struct rxd_lent *lent)
{
    struct rxd_follow follow = {.most = 0};
    struct rxd_ep *ep = rxd_ep_of(peer->base.ep);
    bool message = record->kind == RXD_MSG;
    size_t room = ep->room - rxd_record_size(record), first;

    record->size = record->len = post->len;
    if (__builtin_expect(post->len <= room, 1) || is_whole(peer, post))
        return follow;
    if (((!message && !ep->stops) || !rxd_read_lend(peer, post, record, lent)) && message)
        follow = rxd_may_follow(peer, post);
    if (follow.most)
        record->flags |= RXD_FOLLOWED;
    room = ep->room - rxd_record_size(record);
    first = lead_of(peer, &follow, post->len);
    record->len = room < first ? room : first;
    record->follows = (uint32_t)rxd_follow_len(&follow, rxd_record_size(record) + record->len,
                                               post->len - record->len);
    return follow;
}

/* Packets for the bytes that follow. Without memory none do. */
static void reserve(struct rxd_peer *peer, const struct rxd_follow *follow,
                    struct rxd_record *record, struct list *packets)
{
    size_t request = rxd_record_size(record) + record->len;

    if (rxd_follow_reserve(peer, follow, request, record->follows, packets))
        return;
    record->flags &= (uint8_t)~RXD_FOLLOWED;
    record->follows = 0;
}

/* A message or a write. */
static ssize_t start_bytes(struct rxd_peer *peer, const struct message_posting *posting,
                           struct rxd_record *record)
{
    const struct op *post = posting->op;
    bool message = record->kind == RXD_MSG;
    size_t len = post->len;
    struct rxd_follow follow;
    struct list behind;
    struct rxd_lent lent;
    bool answered, early;
    struct rxd_op *op;
    uint8_t *payload;

    list_init(&behind);
    lent.count = 0;
    follow = divide(peer, post, record, &lent);
    if (post->flags & OP_DELIVERED && message)
        record->flags |= RXD_WANTS_DONE;
    answered = message && record->len == len && !(record->flags & RXD_WANTS_DONE);
    early = answered && rxd_ends_early(peer, post);
    op = rxd_op_get(peer, posting, message ? MESSAGE_SEND : MESSAGE_WRITE, answered, early);
    if (!op) {
        rxd_take_back(lent.mr, lent.count);
        return -FI_ENOMEM;
    }
    op->lent_count = lent.count;
    for (unsigned i = 0; i < lent.count; i++)
        op->lent[i] = lent.mr[i];
    op->base.len = op->base.move.total = len;
    record->id = message_handle_id(&op->base.handle);
    op->base.move.direct = record->len < len && rxd_ep_of(peer->base.ep)->gathers;
    if (record->follows)
        reserve(peer, &follow, record, &behind);
    payload = put_request(op, post, record, early);
    if (!payload) {
        message_packets_put(&behind);
        return message_op_give_up(&op->base);
    }
    iov_gather(post->iov, post->count, 0, payload, record->len);
    if (record->len == len)
        return 0;
    message_op_copy_segments(&op->base, post);
    op->base.move.at = op->base.move.limit = record->len;
    if (record->follows)
        rxd_follow(op, &follow, record->follows, &behind);
    return 0;
}

static ssize_t start_message(struct rxd_peer *peer, const struct message_posting *posting)
{
    const struct op *post = posting->op;
    struct rxd_record record;

    rxd_record_init(&record, RXD_MSG);
    if (post->group == OP_GROUP_TSEND) {
        record.flags = RXD_TAGGED;
        record.tag = post->tag;
    }
    set_data(&record, posting);
    return start_bytes(peer, posting, &record);
}

/* A request whose answer is bytes for op's segments. */
static ssize_t start_fetch(struct rxd_op *op, const struct op *post, struct rxd_record *record,
                           size_t want, uint8_t **payload)
{
    if (want)
        message_take(&op->base.taker, &op->base.handle, 0, 0, want, want);
    record->id = message_handle_id(&op->base.handle);
    record->taker = want ? record->id : 0;
    *payload = put_request(op, post, record, false);
    return *payload ? 0 : message_op_give_up(&op->base);
}

static ssize_t start_rma(struct rxd_peer *peer, const struct message_posting *posting)
{
    const struct op *post = posting->op;
    struct rxd_record record = {.kind = post->kind & FI_READ ? RXD_READ : RXD_WRITE,
                                .place_count = (uint8_t)post->rma_count};
    struct rxd_op *op;
    uint8_t *payload;

    for (size_t i = 0; i < post->rma_count; i++)
        record.places[i] = post->rma[i];
    set_data(&record, posting);
    if (record.kind == RXD_WRITE)
        return start_bytes(peer, posting, &record);
    op = rxd_op_get(peer, posting, MESSAGE_READ, false, false);
    if (!op)
        return -FI_ENOMEM;
    message_op_copy_segments(&op->base, post);
    record.size = op->base.len = post->len;
    op->borrows = rxd_may_borrow(peer, post);
    record.flags |= op->borrows ? RXD_BORROWS : 0;
    return start_fetch(op, post, &record, post->len, &payload);
}

static void set_targets(struct rxd_record *record, const struct op *post)
{
    record->place_count = (uint8_t)post->rma_count;
    record->datatype = (uint8_t)post->datatype;
    record->op = (uint8_t)post->op;
    record->function = post->function == FI_COMPARE_ATOMIC ? RXD_COMPARE
                       : post->function                    ? RXD_FETCH
                                                           : RXD_PLAIN;
    for (size_t i = 0; i < post->rma_count; i++)
        record->places[i] = (struct fi_rma_iov){post->rma_ioc[i].addr, post->rma_ioc[i].count,
                                                post->rma_ioc[i].key};
}

static ssize_t start_atomic(struct rxd_peer *peer, const struct message_posting *posting)
{
    const struct op *post = posting->op;
    struct rxd_record record = {.kind = RXD_ATOMIC};
    struct rxd_op *op = rxd_op_get(peer, posting, MESSAGE_ATOMIC, false, false);
    uint8_t *payload;
    ssize_t rc;

    if (!op)
        return -FI_ENOMEM;
    set_data(&record, posting);
    set_targets(&record, post);
    record.size = op->base.len = message_op_set_result(&op->base, post);
    record.len = record.size * ((post->count ? 1u : 0u) + (post->compare.count ? 1u : 0u));
    rc = start_fetch(op, post, &record, post->function ? record.size : 0, &payload);
    if (!rc)
        message_op_put_operands(post, payload);
    return rc;
}

/* All but the quick ones. */
static ssize_t start(struct rxd_peer *peer, const struct message_posting *posting)
{
    if (__builtin_expect(peer->known & (RXD_DOUBTED | RXD_LEFT), 0))
        return rxd_life_admit(peer);
    switch (posting->op->group) {
    case OP_GROUP_RMA: return start_rma(peer, posting);
    case OP_GROUP_ATOMIC: return start_atomic(peer, posting);
    default: return start_message(peer, posting);
    }
}

ssize_t rxd_start(struct message_peer *base, const struct message_posting *posting)
{
    const struct op *op = posting->op;
    struct rxd_peer *peer = rxd_peer_of(base);
    ssize_t rc;

    switch (op->group) {
    case OP_GROUP_RMA:
    case OP_GROUP_ATOMIC: rc = start(peer, posting); break;
    default: rc = rxd_is_quick(peer, op) ? rxd_start_quick(peer, posting) : start(peer, posting);
    }
    if (!rc && !list_empty(&peer->ordered))
        rxd_out_added(peer, op->flags & FI_MORE);
    return rc;
}
