/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Operations become packets that have left or will. Small payloads go with the request; the rest of
 * a large one stays where it is until the peer asks.
 */
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/op/atomic.h"
#include "layers/srd/srd.h"

bool srd_op_is_over(const struct message_op *op)
{
    return !op->move.pending && (op->err || op->move.at == op->move.total);
}

void srd_op_init(struct message_op *op)
{
    srd_op_of(op)->device = 0;
    srd_op_of(op)->transfer = NULL;
    srd_op_of(op)->lent = NULL;
}

/* The lower has its memory still: it ends when that is over. */
bool srd_op_stays(struct message_op *base, int err)
{
    bool sends = base->move.direct && base->move.pending;

    if (base->handle.peer->ep->closing || (!sends && !srd_op_of(base)->transfer))
        return false;
    base->answered = true;
    base->err = err;
    message_move_stop(&base->move);
    message_handle_close(&base->handle);
    return true;
}

void srd_op_put(struct message_op *base)
{
    struct srd_op *op = srd_op_of(base);

    if (__builtin_expect(op->transfer != NULL, 0))
        op->transfer->owner = NULL;
    if (__builtin_expect(op->lent != NULL, 0))
        srd_lent_put(srd_ep_of(base->handle.peer->ep), op->lent);
}

/* ---- Requests ---- */

/* answered: no packet of the peer's is waited for but those that ask for its bytes. */
static struct message_op *op_get(struct srd_peer *peer, const struct message_posting *posting,
                                 enum message_kind kind, bool answered)
{
    struct message_op *op = message_op_get(&peer->base, posting, kind, true);

    if (!op)
        return NULL;
    op->answered = answered;
    srd_op_init(op);
    return op;
}

/* Its segments stay, and packets take their bytes there where the lower can. */
static void keep_segments(struct message_op *op, const struct op *post)
{
    const struct message_ep *ep = op->handle.peer->ep;
    struct srd_op *mine = srd_op_of(op);

    message_op_copy_segments(op, post);
    mine->device = srd_device_segments(srd_ep_of(ep), post);
    mine->gathers = mine->device || (post->len >= SRD_GATHER && srd_ep_of(ep)->gathers &&
                                     !(post->flags & FI_INJECT) && !op_is_inject(post));
    for (size_t i = 0; mine->gathers && i < post->count; i++) {
        struct fid_mr *mr = post->desc ? srd_region_below(ep, post->desc[i], &post->iov[i]) : NULL;

        mine->desc[i] = mr ? fi_mr_desc(mr) : NULL;
    }
}

static void set_data(struct srd_header *header, const struct op *post)
{
    if (!(post->flags & FI_REMOTE_CQ_DATA))
        return;
    header->flags |= SRD_CQ_DATA;
    header->cq_data = post->data;
}

bool srd_put_bytes(struct message_op *op, struct srd_header *header, size_t len, bool any)
{
    header->offset = op->move.at;
    header->len = len;
    if (!srd_out_bytes(op->handle.peer, header, &op->move, any))
        return false;
    op->move.at += len;
    return true;
}

/* ---- Messages ---- */

/* Can the peer read what is that long? Until its HANDSHAKE has come messages are sent. */
static bool may_lend(const struct srd_peer *peer, const struct op *post, size_t least)
{
    return srd_ep_of(peer->base.ep)->reads && peer->features & SRD_CAN_READ && post->len >= least &&
           !(post->flags & FI_INJECT) && !op_is_inject(post);
}

static bool lies_in_one_segment(const struct op *post)
{
    for (size_t i = 0; i < post->count; i++) {
        if (post->iov[i].iov_len == post->len)
            return true;
    }
    return !post->len;
}

/* Must its bytes go in several packets, however few they are? */
static bool is_split(const struct srd_ep *ep, const struct op *post)
{
    return __builtin_expect(ep->devices, 0) && srd_is_device(ep, post->desc, post->count) &&
           !lies_in_one_segment(post);
}

/* By size: the type without a tag, which that with one follows. Memory that the CPU does not reach
 * is read by the peer, if it can, where one packet does not take it. */
static uint8_t message_type(const struct srd_peer *peer, const struct srd_header *eager,
                            const struct op *post, bool dc)
{
    const struct srd_ep *ep = srd_ep_of(peer->base.ep);
    bool device = srd_is_device(ep, post->desc, post->count);

    if (post->len <= srd_out_room(peer, eager) && !is_split(ep, post))
        return dc ? SRD_DC_EAGER_MSG : SRD_EAGER_MSG;
    if (post->len <= ep->limits.medium && !(device && may_lend(peer, post, 0)))
        return dc ? SRD_DC_MEDIUM_MSG : SRD_MEDIUM_MSG;
    return dc ? SRD_DC_LONGCTS_MSG : SRD_LONGCTS_MSG;
}

/* Up to byte `end`, in pieces of one size, a multiple of 8, and what is left. Behind the first one
 * none is refused. */
static bool put_pieces(struct message_op *op, struct srd_header *header, size_t end)
{
    size_t room = srd_out_room(srd_peer_of(op->handle.peer), header);
    size_t count = (end + room - 1) / room, size = (end + count - 1) / count;

    size = (size + 7) & ~(size_t)7;
    if (size > room)
        size = room;
    srd_burst(&op->move, header, size, end);
    while (op->move.at < end) {
        size_t left = end - op->move.at;

        if (!srd_put_bytes(op, header, srd_out_most(&op->move, left < size ? left : size),
                           op->move.at))
            return false;
    }
    return true;
}

/* A message that is to be delivered is read whole; others may begin with bytes that are sent, if
 * no other one is being read. */
static bool lend_message(struct srd_peer *peer, struct message_op *op, const struct op *post,
                         struct srd_header *header)
{
    const struct srd_ep *ep = srd_ep_of(peer->base.ep);
    bool tagged = post->group == OP_GROUP_TSEND, runs;
    size_t runt = ep->limits.runt < post->len ? ep->limits.runt & ~(size_t)7 : post->len;

    runs = runt && !srd_is_dc(header->type) && peer->features & SRD_CAN_RUNT && !ep->lent_count;
    if (!srd_lend(srd_op_of(op), post, header,
                  (uint8_t)((runs ? SRD_RUNTREAD_MSG : SRD_LONGREAD_MSG) + tagged)))
        return false;
    header->runt = runs ? runt : 0;
    op->answered = false;
    return true;
}

static bool put_message(struct srd_peer *peer, struct message_op *op, const struct op *post,
                        struct srd_header *header)
{
    uint8_t base = (uint8_t)(header->type - (post->group == OP_GROUP_TSEND));
    bool device = srd_op_of(op)->device;
    size_t room;

    if (base == SRD_MEDIUM_MSG || base == SRD_DC_MEDIUM_MSG)
        return put_pieces(op, header, post->len);
    if ((base == SRD_LONGCTS_MSG || base == SRD_DC_LONGCTS_MSG) &&
        may_lend(peer, post, device ? 0 : srd_ep_of(peer->base.ep)->limits.read) &&
        lend_message(peer, op, post, header))
        return header->runt ? put_pieces(op, header, header->runt)
                            : srd_put_bytes(op, header, 0, false);
    room = srd_out_room(peer, header);
    return srd_put_bytes(op, header, srd_out_most(&op->move, post->len < room ? post->len : room),
                         false);
}

static ssize_t start_message(struct srd_peer *peer, const struct message_posting *posting)
{
    const struct op *post = posting->op;
    bool dc = post->flags & OP_DELIVERED, tagged = post->group == OP_GROUP_TSEND;
    struct srd_header header = {.type = dc ? SRD_DC_EAGER_TAG : SRD_EAGER_TAG, .total = post->len};
    struct message_op *op;
    bool put;

    set_data(&header, post);
    header.type = (uint8_t)(message_type(peer, &header, post, dc) + tagged);
    header.tag = tagged ? post->tag : 0;
    header.credits = (uint32_t)srd_ep_of(peer->base.ep)->credits;
    header.msg_id = peer->next_msg;
    op = op_get(peer, posting, MESSAGE_SEND, !dc);
    if (!op)
        return -FI_ENOMEM;
    header.send_id = message_handle_id(&op->handle);
    op->move.total = post->len;
    keep_segments(op, post);
    op->move.pending++; /* lest a packet that is gone at once ends it */
    put = put_message(peer, op, post, &header);
    op->move.limit = op->move.at;
    op->move.pending--;
    if (!put && !op->move.pending)
        return message_op_give_up(op);
    peer->next_msg++;
    if (!put)
        message_peer_break(&peer->base, FI_ENOMEM, "no memory for the rest of a message");
    else if (!op->move.pending)
        message_op_settle(op);
    return 0;
}

/* ---- Remote memory ---- */

static void set_places(struct srd_header *header, const struct op *post)
{
    header->place_count = (uint8_t)post->rma_count;
    for (size_t i = 0; i < post->rma_count; i++)
        header->places[i] = post->rma[i];
}

bool srd_wants_receipt(const struct srd_peer *peer, const struct op *post)
{
    return post->flags & OP_DELIVERED || peer->features & SRD_CAN_ERROR;
}

static ssize_t start_write(struct srd_peer *peer, const struct message_posting *posting)
{
    const struct op *post = posting->op;
    bool dc = srd_wants_receipt(peer, post), put;
    struct srd_header header = {.type = dc ? SRD_DC_EAGER_RTW : SRD_EAGER_RTW,
                                .total = post->len,
                                .credits = (uint32_t)srd_ep_of(peer->base.ep)->credits};
    size_t room;
    struct message_op *op;

    set_places(&header, post);
    set_data(&header, post);
    if (post->len > srd_out_room(peer, &header) || is_split(srd_ep_of(peer->base.ep), post))
        header.type = dc ? SRD_DC_LONGCTS_RTW : SRD_LONGCTS_RTW;
    room = srd_out_room(peer, &header);
    op = op_get(peer, posting, MESSAGE_WRITE, !dc);
    if (!op)
        return -FI_ENOMEM;
    header.send_id = message_handle_id(&op->handle);
    op->move.total = post->len;
    keep_segments(op, post);
    if (post->len > room && may_lend(peer, post, srd_ep_of(peer->base.ep)->limits.read_write) &&
        srd_lend(srd_op_of(op), post, &header, SRD_LONGREAD_RTW)) {
        op->answered = false;
        put = srd_put_bytes(op, &header, 0, false);
    } else {
        put = srd_put_bytes(op, &header,
                            srd_out_most(&op->move, post->len < room ? post->len : room), false);
    }
    if (!put)
        return message_op_give_up(op);
    op->move.limit = op->move.at;
    return 0;
}

static ssize_t start_read(struct srd_peer *peer, const struct message_posting *posting)
{
    const struct op *post = posting->op;
    size_t most = srd_ep_of(peer->base.ep)->window;
    bool is_short = post->len < peer->base.ep->result_room;
    size_t window = post->len < most || is_short ? post->len : most;
    struct srd_header header = {
        .type = is_short ? SRD_SHORT_RTR : SRD_LONGCTS_RTR, .total = post->len, .window = window};
    struct message_op *op;

    set_places(&header, post);
    op = op_get(peer, posting, MESSAGE_READ, false);
    if (!op)
        return -FI_ENOMEM;
    message_op_copy_segments(op, post);
    header.recv_id = message_handle_id(&op->handle);
    if (!srd_out(&peer->base, &header, &op->move))
        return message_op_give_up(op);
    message_take(&op->taker, &op->handle, 0, 0, window, post->len);
    return 0;
}

/* One for which the device has no memory, or no room, goes in packets. */
static ssize_t start_access(struct srd_peer *peer, const struct message_posting *posting)
{
    if (srd_is_native(peer, posting->op) && !srd_start_native(peer, posting))
        return 0;
    if (posting->op->kind & FI_READ && srd_op_is_device(srd_ep_of(peer->base.ep), posting->op))
        return -FI_EAGAIN;
    return posting->op->kind & FI_READ ? start_read(peer, posting) : start_write(peer, posting);
}

/* ---- Atomics ---- */

static uint8_t atomic_type(const struct srd_peer *peer, const struct op *post)
{
    if (post->function)
        return post->function == FI_COMPARE_ATOMIC ? SRD_COMPARE_RTA : SRD_FETCH_RTA;
    return srd_wants_receipt(peer, post) ? SRD_DC_WRITE_RTA : SRD_WRITE_RTA;
}

static void set_targets(struct srd_header *header, const struct op *post)
{
    size_t unit = atomic_size(post->datatype);

    header->place_count = (uint8_t)post->rma_count;
    header->datatype = (uint32_t)post->datatype;
    header->op = (uint32_t)post->op;
    for (size_t i = 0; i < post->rma_count; i++)
        header->places[i] = (struct fi_rma_iov){
            post->rma_ioc[i].addr, post->rma_ioc[i].count * unit, post->rma_ioc[i].key};
}

/* Of what only reads, libfabric's targets want the bytes of an operand as well. */
static unsigned operands(const struct op *post)
{
    return (post->count || post->function ? 1u : 0u) + (post->compare.count ? 1u : 0u);
}

static ssize_t start_atomic(struct srd_peer *peer, const struct message_posting *posting)
{
    const struct op *post = posting->op;
    struct srd_header header = {.type = atomic_type(peer, post), .msg_id = peer->next_msg};
    struct message_op *op = op_get(peer, posting, MESSAGE_ATOMIC, header.type == SRD_WRITE_RTA);
    uint8_t *payload;

    if (!op)
        return -FI_ENOMEM;
    set_targets(&header, post);
    header.send_id = header.recv_id = message_handle_id(&op->handle);
    header.total = message_op_set_result(op, post);
    header.len = header.total * operands(post);
    payload = srd_out(&peer->base, &header, &op->move);
    if (!payload)
        return message_op_give_up(op);
    peer->next_msg++;
    if (!post->count)
        memset(payload, 0, header.len);
    message_op_put_operands(post, payload);
    return 0;
}

/* ---- The call ---- */

/* Which packets an access may have, and whether it is told when something is delivered, a peer says
 * in its HANDSHAKE. -FI_EAGAIN until then. */
static ssize_t await_features(struct srd_peer *peer, const struct op *op)
{
    bool access = op->group & (OP_GROUP_RMA | OP_GROUP_ATOMIC);
    int rc;

    if (!access && !(op->flags & OP_DELIVERED))
        return 0;
    rc = srd_life_await(peer);
    if (!rc && op->flags & OP_DELIVERED && !(peer->features & SRD_CAN_DC))
        return -FI_EOPNOTSUPP;
    return rc;
}

static ssize_t may_begin(struct srd_peer *peer, const struct op *op)
{
    ssize_t rc = peer->dead ? -FI_ECONNABORTED : 0;

    if (!rc && __builtin_expect(peer->doubted || peer->leaving, 0))
        rc = srd_life_admit(peer);
    if (!rc && __builtin_expect(!srd_life_is_sure(peer), 0))
        srd_life_ask(peer);
    return rc ? rc : await_features(peer, op);
}

ssize_t srd_start(struct message_peer *base, const struct message_posting *posting)
{
    const struct op *op = posting->op;
    struct srd_peer *peer = srd_peer_of(base);
    ssize_t rc = may_begin(peer, op);
    bool device = srd_op_is_device(srd_ep_of(base->ep), op);

    if (!rc && __builtin_expect(device, 0))
        rc = srd_device_admit(peer, op);
    if (rc)
        return rc;
    if (op->group & (OP_GROUP_SEND | OP_GROUP_TSEND) && !device && srd_is_quick(peer, op))
        rc = srd_start_quick(peer, posting);
    else if (op->group == OP_GROUP_ATOMIC)
        rc = start_atomic(peer, posting);
    else if (op->group != OP_GROUP_RMA)
        rc = start_message(peer, posting);
    else
        rc = start_access(peer, posting);
    if (!rc && op->flags & FI_MORE)
        message_peer_attend(base);
    else if (!rc && !list_empty(&base->out))
        srd_flush(base, false);
    return rc;
}
