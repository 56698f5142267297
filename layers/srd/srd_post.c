/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Operations as they are posted: receives go to the matching engine, the others become packets that
 * have left or will. Small payloads go with the request; the rest of a large one stays where it is
 * until the peer asks.
 */
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/op/atomic.h"
#include "layers/srd/srd.h"

static struct srd_ep *ep_of(struct ep *base)
{
    return object_of(base, struct srd_ep, base);
}

/* ---- The end of an operation ---- */

static void report(struct srd_ep *ep, const struct srd_op *op, int err)
{
    struct fi_cq_err_entry error = {
        .op_context = op->context,
        .flags = op->kind,
        .err = err,
        .prov_errno = op->prov_errno ? op->prov_errno : err,
        .src_addr = FI_ADDR_NOTAVAIL,
    };

    if (ep->closing)
        return;
    if (__builtin_expect(!err, 1))
        complete(&ep->base.binding, binding_kind_of(op->kind), op->wanted, op->context, op->kind, 0,
                 NULL, 0, 0, FI_ADDR_NOTAVAIL);
    else
        complete_error(&ep->base.binding, binding_kind_of(op->kind), &error);
}

static void op_put(struct srd_op *op)
{
    struct srd_ep *ep = op->handle.peer->ep;

    list_detach(&op->of_peer);
    if (op->move.pending || !list_empty(&op->move.link))
        srd_move_drop(&op->move);
    srd_take_stop(&op->taker);
    srd_handle_close(&op->handle);
    ep->used--;
    pool_put(&ep->ops, op);
}

void srd_op_end(struct srd_op *op, int err)
{
    struct srd_ep *ep = op->handle.peer->ep;
    struct srd_op ended = *op;

    op_put(op);
    report(ep, &ended, err);
}

void srd_op_settle(struct srd_op *op)
{
    if (op->answered && !op->move.pending && (op->err || op->move.at == op->move.total))
        srd_op_end(op, op->err);
}

void srd_op_answered(struct srd_op *op, int err, int prov_errno)
{
    op->answered = true;
    op->err = err;
    op->prov_errno = prov_errno;
    if (err) { /* the peer wants no more */
        op->move.limit = op->move.at;
        list_detach(&op->move.link);
    }
    srd_op_settle(op);
}

static void op_read(struct srd_taker *taker)
{
    srd_op_answered(object_of(taker, struct srd_op, taker), 0, 0);
}

static void op_moved(struct srd_move *move)
{
    srd_op_settle(object_of(move, struct srd_op, move));
}

/* ---- Requests ---- */

/* answered: no packet of the peer's is waited for but those that ask for its bytes. */
static struct srd_op *op_get(struct srd_peer *peer, const struct op *post, enum srd_kind kind,
                             bool answered)
{
    struct srd_ep *ep = peer->ep;
    struct srd_op *op = pool_get(&ep->ops);

    if (!op)
        return NULL;
    op->context = post->context;
    op->kind = post->kind;
    op->wanted =
        !op_is_inject(post) && completion_wanted(ep->base.binding.tx_selective, post->flags);
    op->answered = answered;
    op->err = op->prov_errno = 0;
    op->iov_count = 0;
    op->move = (struct srd_move){.peer = peer, .idle = op_moved};
    list_init(&op->move.link);
    op->taker = (struct srd_taker){.ended = op_read, .reads = true};
    if (srd_handle_open(&op->handle, kind, peer)) {
        pool_put(&ep->ops, op);
        return NULL;
    }
    list_attach(&op->of_peer, &peer->ops);
    ep->used++;
    return op;
}

/* What was queued of it goes, but means nothing any more. */
static ssize_t give_up(struct srd_op *op)
{
    op_put(op);
    return -FI_ENOMEM;
}

static void copy_segments(struct srd_op *op, const struct op *post)
{
    op->iov_count = post->count;
    for (size_t i = 0; i < post->count; i++)
        op->iov[i] = post->iov[i];
    op->move.iov = op->taker.iov = op->iov;
    op->move.iov_count = op->taker.iov_count = op->iov_count;
}

static void set_data(struct srd_header *header, const struct op *post)
{
    if (!(post->flags & FI_REMOTE_CQ_DATA))
        return;
    header->flags |= SRD_CQ_DATA;
    header->cq_data = post->data;
}

/* Its first bytes: len of them, from move.at on. */
static bool put_bytes(struct srd_op *op, const struct op *post, struct srd_header *header,
                      size_t len)
{
    struct srd_header copy = *header;
    uint8_t *payload;

    copy.offset = op->move.at;
    copy.len = len;
    payload = srd_out(op->handle.peer, &copy, &op->move);
    if (!payload)
        return false;
    iov_gather(post->iov, post->count, op->move.at, payload, len);
    op->move.at += len;
    return true;
}

/* ---- Messages ---- */

/* By size: the type without a tag, which that with one follows. */
static uint8_t message_type(const struct srd_peer *peer, const struct srd_header *eager, size_t len,
                            bool dc)
{
    if (len <= srd_out_room(peer, eager))
        return dc ? SRD_DC_EAGER_MSG : SRD_EAGER_MSG;
    if (len <= peer->ep->medium)
        return dc ? SRD_DC_MEDIUM_MSG : SRD_MEDIUM_MSG;
    return dc ? SRD_DC_LONGCTS_MSG : SRD_LONGCTS_MSG;
}

/* Pieces of one size, a multiple of 8, and what is left. */
static bool put_medium(struct srd_op *op, const struct op *post, struct srd_header *header)
{
    size_t room = srd_out_room(op->handle.peer, header);
    size_t count = (post->len + room - 1) / room, size = (post->len + count - 1) / count;

    size = (size + 7) & ~(size_t)7;
    if (size > room)
        size = room;
    while (op->move.at < post->len) {
        size_t left = post->len - op->move.at;

        if (!put_bytes(op, post, header, left < size ? left : size))
            return false;
    }
    return true;
}

static ssize_t start_message(struct srd_peer *peer, const struct op *post)
{
    bool dc = post->flags & OP_DELIVERED, tagged = post->group == OP_GROUP_TSEND;
    struct srd_header header = {.type = dc ? SRD_DC_EAGER_TAG : SRD_EAGER_TAG, .total = post->len};
    struct srd_op *op;
    size_t room;
    bool put;

    set_data(&header, post);
    header.type = (uint8_t)(message_type(peer, &header, post->len, dc) + tagged);
    header.tag = tagged ? post->tag : 0;
    header.credits = (uint32_t)peer->ep->credits;
    header.msg_id = peer->next_msg;
    op = op_get(peer, post, SRD_OF_MESSAGE, !dc);
    if (!op)
        return -FI_ENOMEM;
    header.send_id = srd_handle_id(&op->handle);
    op->move.total = post->len;
    room = srd_out_room(peer, &header);
    if (header.type == SRD_MEDIUM_MSG + tagged || header.type == SRD_DC_MEDIUM_MSG + tagged) {
        put = put_medium(op, post, &header);
    } else {
        put = put_bytes(op, post, &header, post->len < room ? post->len : room);
        copy_segments(op, post);
    }
    op->move.limit = op->move.at;
    if (!put && !op->move.at)
        return give_up(op);
    peer->next_msg++;
    if (!put)
        srd_peer_break(peer, FI_ENOMEM, "no memory for the rest of a message");
    return 0;
}

/* ---- Remote memory ---- */

static void set_places(struct srd_header *header, const struct op *post)
{
    header->place_count = (uint8_t)post->rma_count;
    for (size_t i = 0; i < post->rma_count; i++)
        header->places[i] =
            (struct srd_place){post->rma[i].addr, post->rma[i].len, post->rma[i].key};
}

/* Where the peer tells of failures a write has an id that it can name. */
static bool wants_receipt(const struct srd_peer *peer, const struct op *post)
{
    return post->flags & OP_DELIVERED || peer->features & SRD_CAN_ERROR;
}

static ssize_t start_write(struct srd_peer *peer, const struct op *post)
{
    bool dc = wants_receipt(peer, post);
    struct srd_header header = {.type = dc ? SRD_DC_EAGER_RTW : SRD_EAGER_RTW,
                                .total = post->len,
                                .credits = (uint32_t)peer->ep->credits};
    size_t room;
    struct srd_op *op;

    set_places(&header, post);
    set_data(&header, post);
    if (post->len > srd_out_room(peer, &header))
        header.type = dc ? SRD_DC_LONGCTS_RTW : SRD_LONGCTS_RTW;
    room = srd_out_room(peer, &header);
    op = op_get(peer, post, SRD_OF_WRITE, !dc);
    if (!op)
        return -FI_ENOMEM;
    header.send_id = srd_handle_id(&op->handle);
    op->move.total = post->len;
    copy_segments(op, post);
    if (!put_bytes(op, post, &header, post->len < room ? post->len : room))
        return give_up(op);
    op->move.limit = op->move.at;
    return 0;
}

static ssize_t start_read(struct srd_peer *peer, const struct op *post)
{
    struct srd_ep *ep = peer->ep;
    bool is_short = post->len < ep->mtu - SRD_RESPONSE_HEAD;
    size_t window = post->len < ep->window || is_short ? post->len : ep->window;
    struct srd_header header = {
        .type = is_short ? SRD_SHORT_RTR : SRD_LONGCTS_RTR, .total = post->len, .window = window};
    struct srd_op *op;

    set_places(&header, post);
    op = op_get(peer, post, SRD_OF_READ, false);
    if (!op)
        return -FI_ENOMEM;
    copy_segments(op, post);
    header.recv_id = srd_handle_id(&op->handle);
    if (!srd_out(peer, &header, &op->move))
        return give_up(op);
    srd_take(&op->taker, &op->handle, 0, 0, window, post->len);
    return 0;
}

/* ---- Atomics ---- */

static uint8_t *put_elements(uint8_t *to, const struct fi_ioc *ioc, size_t count, size_t unit)
{
    for (size_t i = 0; i < count; i++) {
        if (ioc[i].count)
            memcpy(to, ioc[i].addr, ioc[i].count * unit);
        to += ioc[i].count * unit;
    }
    return to;
}

static uint8_t atomic_type(const struct srd_peer *peer, const struct op *post)
{
    if (post->function)
        return post->function == FI_COMPARE_ATOMIC ? SRD_COMPARE_RTA : SRD_FETCH_RTA;
    return wants_receipt(peer, post) ? SRD_DC_WRITE_RTA : SRD_WRITE_RTA;
}

static void set_targets(struct srd_header *header, const struct op *post, size_t unit)
{
    header->place_count = (uint8_t)post->rma_count;
    header->datatype = (uint32_t)post->datatype;
    header->op = (uint32_t)post->op;
    for (size_t i = 0; i < post->rma_count; i++) {
        header->places[i] = (struct srd_place){post->rma_ioc[i].addr, post->rma_ioc[i].count * unit,
                                               post->rma_ioc[i].key};
        header->total += post->rma_ioc[i].count * unit;
    }
}

static ssize_t start_atomic(struct srd_peer *peer, const struct op *post)
{
    size_t unit = atomic_size(post->datatype);
    struct srd_header header = {.type = atomic_type(peer, post), .msg_id = peer->next_msg};
    struct srd_op *op = op_get(peer, post, SRD_OF_ATOMIC, header.type == SRD_WRITE_RTA);
    uint8_t *payload;

    if (!op)
        return -FI_ENOMEM;
    set_targets(&header, post, unit);
    header.send_id = header.recv_id = srd_handle_id(&op->handle);
    header.len = header.total * ((post->count ? 1u : 0u) + (post->compare.count ? 1u : 0u));
    op->iov_count = post->result.count;
    for (size_t i = 0; i < post->result.count; i++)
        op->iov[i] = (struct iovec){.iov_base = post->result.ioc[i].addr,
                                    .iov_len = post->result.ioc[i].count * unit};
    payload = srd_out(peer, &header, &op->move);
    if (!payload)
        return give_up(op);
    peer->next_msg++;
    payload = put_elements(payload, post->ioc, post->count, unit);
    put_elements(payload, post->compare.ioc, post->compare.count, unit);
    return 0;
}

int srd_atomic_valid(struct ep *base, uint64_t function, enum fi_datatype datatype, enum fi_op op,
                     size_t *count)
{
    return atomic_count(datatype, op, function, srd_operand_size(ep_of(base)->mtu), count);
}

/* ---- The call ---- */

static ssize_t check(struct srd_ep *ep, const struct op *op)
{
    size_t remote = 0, elements, len = op->len;
    int rc;

    if (op->group == OP_GROUP_ATOMIC) {
        rc = atomic_check_op(op, srd_operand_size(ep->mtu), SRD_IOV, &elements);
        if (rc)
            return rc;
        len = elements * atomic_size(op->datatype);
    } else if (op->count > SRD_IOV || !iov_total(op->iov, op->count, &len)) {
        return -FI_EINVAL;
    }
    if (op->flags & FI_INJECT && len > ep->info->tx_attr->inject_size)
        return -FI_EMSGSIZE;
    if (op->group != OP_GROUP_RMA)
        return 0;
    if (!op->rma_count || op->rma_count > SRD_PLACES)
        return -FI_EINVAL;
    for (size_t i = 0; i < op->rma_count; i++)
        remote += op->rma[i].len;
    return remote == len ? 0 : -FI_EINVAL;
}

/* Which packets an access may have, and whether it is told when something is delivered, a peer says
 * in its HANDSHAKE. -FI_EAGAIN until then. */
static ssize_t await_features(struct srd_peer *peer, const struct op *op)
{
    bool access = op->group & (OP_GROUP_RMA | OP_GROUP_ATOMIC);

    if (!access && !(op->flags & OP_DELIVERED))
        return 0;
    if (!peer->introduced) {
        if (!peer->forced)
            srd_out_force(peer);
        srd_out_flush(peer, false);
        return -FI_EAGAIN;
    }
    if (op->flags & OP_DELIVERED && !(peer->features & SRD_CAN_DC))
        return -FI_EOPNOTSUPP;
    return 0;
}

static ssize_t start(struct srd_ep *ep, const struct op *op)
{
    struct srd_peer *peer;
    ssize_t rc;

    if (!ep->base.enabled || progress_forked(ep->progress))
        return -FI_EOPBADSTATE;
    if (__builtin_expect(av_watch_any(&ep->watch), 0))
        srd_peers_take_changes(ep);
    rc = srd_peer_at(ep, op->peer, &peer);
    if (rc)
        return rc;
    if (peer->dead)
        return -FI_ECONNABORTED;
    if (ep->used >= ep->base.tx_size || !list_empty(&peer->broken))
        return -FI_EAGAIN;
    rc = await_features(peer, op);
    if (rc)
        return rc;
    if (op->group == OP_GROUP_ATOMIC)
        rc = start_atomic(peer, op);
    else if (op->group != OP_GROUP_RMA)
        rc = start_message(peer, op);
    else
        rc = op->kind & FI_READ ? start_read(peer, op) : start_write(peer, op);
    if (!rc && op->flags & FI_MORE)
        srd_peer_attend(peer);
    else if (!rc)
        srd_out_flush(peer, false);
    return rc;
}

static ssize_t post_receive(struct srd_ep *ep, struct op *op)
{
    ssize_t rc = -FI_EOPBADSTATE;

    progress_lock(ep->progress);
    if (__builtin_expect(ep->base.enabled && ep->match, 1)) {
        rc = match_receive(ep->match, op);
        if (!list_empty(&ep->attention)) /* a message was asked for */
            progress_wake(ep->progress);
        if (!list_empty(&ep->attention) && ep->top)
            srd_run(ep);
    }
    progress_unlock(ep->progress);
    return rc;
}

ssize_t srd_post(struct ep *base, struct op *op)
{
    struct srd_ep *ep = ep_of(base);
    ssize_t rc;

    if (op->group & (OP_GROUP_RECV | OP_GROUP_TRECV))
        return post_receive(ep, op);
    rc = endpoint_settle(&ep->base, op);
    if (!rc)
        rc = check(ep, op);
    if (rc)
        return rc;
    progress_lock(ep->progress);
    rc = start(ep, op);
    if (__builtin_expect(rc == -FI_EAGAIN, 0)) {
        if (ep->top) /* a poster that does nothing but try again makes progress too */
            progress_poll(ep->progress);
        progress_wake(ep->progress);
    }
    if (ep->top)
        progress_posted(ep->progress);
    progress_unlock(ep->progress);
    return rc;
}
