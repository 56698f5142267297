/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Operations as they are posted: receives go to the matching engine, the others become a request,
 * in a packet that has left or will. Small payloads go with it; the rest of a large one stays where
 * it is until the peer asks.
 */
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/op/atomic.h"
#include "layers/rxd/rxd.h"

static struct rxd_ep *ep_of(struct ep *base)
{
    return object_of(base, struct rxd_ep, base);
}

/* ---- The end of an operation ---- */

static void report(struct rxd_ep *ep, const struct rxd_op *op, int err)
{
    struct fi_cq_err_entry error = {
        .op_context = op->context,
        .flags = op->kind,
        .err = err,
        .prov_errno = err,
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

/* The lower has its memory still: it ends when that is over. */
static void end_later(struct rxd_op *op, int err)
{
    op->sent = op->answered = true;
    op->err = err;
    op->move.limit = op->move.at;
    list_detach(&op->move.link);
    ids_remove(&op->peer->ep->requests, op->id);
    op->id = IDS_NONE;
}

void rxd_op_end(struct rxd_op *op, int err)
{
    struct rxd_peer *peer = op->peer;
    struct rxd_ep *ep = peer->ep;
    struct rxd_op ended = *op;

    list_detach(&op->of_peer);
    list_detach(&op->in_packet);
    if (op->move.direct && op->move.pending && !ep->closing) {
        end_later(op, err);
        return;
    }
    if (op->move.pending || !list_empty(&op->move.link))
        rxd_move_drop(&op->move);
    rxd_take_stop(&op->taker);
    if (op->id != IDS_NONE)
        ids_remove(&ep->requests, op->id);
    if (op->lent)
        fi_close(&op->lent->fid);
    pool_put(&ep->ops, op);
    ep->used--;
    if (!list_empty(&peer->out)) /* a fence may have waited for it */
        rxd_peer_attend(peer);
    report(ep, &ended, err);
}

void rxd_op_settle(struct rxd_op *op)
{
    if (op->sent && op->answered && !(op->move.direct && op->move.pending))
        rxd_op_end(op, op->err);
}

void rxd_op_done(struct rxd_op *op, int err)
{
    op->answered = true;
    op->err = err;
    op->move.limit = op->move.at; /* the peer wants no more */
    list_detach(&op->move.link);
    rxd_op_settle(op);
}

static void op_read(struct rxd_taker *taker)
{
    rxd_op_done(object_of(taker, struct rxd_op, taker), 0);
}

static void op_moved(struct rxd_move *move)
{
    rxd_op_settle(object_of(move, struct rxd_op, move));
}

/* ---- Requests ---- */

static struct rxd_op *op_get(struct rxd_peer *peer, const struct op *post, bool answered)
{
    struct rxd_ep *ep = peer->ep;
    struct rxd_op *op = pool_get(&ep->ops);

    if (!op)
        return NULL;
    op->peer = peer;
    op->context = post->context;
    op->kind = post->kind;
    op->wanted =
        !op_is_inject(post) && completion_wanted(ep->base.binding.tx_selective, post->flags);
    op->sent = op->early = false;
    op->answered = answered;
    op->err = 0;
    op->id = op->taker.id = IDS_NONE;
    op->move = (struct rxd_move){.idle = op_moved};
    op->taker.alive = NULL;
    op->taker.peer = peer;
    op->lent = NULL;
    op->iov_count = 0;
    list_init(&op->move.link);
    list_init(&op->in_packet);
    list_attach(&op->of_peer, &peer->ops);
    ep->used++;
    if (answered)
        return op;
    op->id = ids_add(&ep->requests, op);
    if (op->id != IDS_NONE)
        return op;
    op->peer->ep->used--;
    list_detach(&op->of_peer);
    pool_put(&ep->ops, op);
    return NULL;
}

/* Nothing was sent of it. */
static ssize_t op_put(struct rxd_op *op)
{
    struct rxd_ep *ep = op->peer->ep;

    list_detach(&op->of_peer);
    rxd_take_stop(&op->taker);
    if (op->id != IDS_NONE)
        ids_remove(&ep->requests, op->id);
    ep->used--;
    if (op->lent)
        fi_close(&op->lent->fid);
    pool_put(&ep->ops, op);
    return -FI_ENOMEM;
}

/* A packet with the record, and where its payload goes. */
static uint8_t *put_request(struct rxd_op *op, const struct op *post, struct rxd_record *record)
{
    size_t size = rxd_record_size(record) + record->len;
    struct rxd_packet *packet = rxd_out_ordered(op->peer, size, post->flags & FI_FENCE);
    uint8_t *payload;

    if (!packet)
        return NULL;
    payload = rxd_record_put(record, packet->records + packet->len);
    packet->len += size;
    list_attach(&op->in_packet, &packet->ops);
    return payload;
}

static void copy_segments(struct rxd_op *op, const struct op *post)
{
    op->iov_count = post->count;
    for (size_t i = 0; i < post->count; i++)
        op->iov[i] = post->iov[i];
}

static void set_data(struct rxd_record *record, const struct op *post)
{
    if (!(post->flags & FI_REMOTE_CQ_DATA))
        return;
    record->flags |= RXD_HAS_DATA;
    record->data = post->data;
}

/* A message that is in one packet is ours when that is written. So unless its application asks for
 * more (FI_TRANSMIT_COMPLETE) its end does not depend on when the peer looks: one that has what it
 * waited for may not look for long. Whether there is a peer at all is waited for. */
static bool ends_early(const struct rxd_peer *peer, const struct op *post)
{
    const uint64_t more = FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_COMMIT_COMPLETE;

    return peer->introduced && !(post->flags & more);
}

/* What goes with a request: all that fits, or a little of what does not. The rest is asked for
 * anyway, and a small packet is there sooner than a large one; over several rails nothing else
 * could leave while the large one takes one of them. */
static size_t goes_with_request(size_t len, size_t room)
{
    if (len <= room)
        return len;
    return room < RXD_FIRST ? room : RXD_FIRST;
}

/* A message or a write. */
static ssize_t start_bytes(struct rxd_peer *peer, const struct op *post, struct rxd_record *record)
{
    size_t room = peer->ep->room - rxd_record_size(record), len = post->len;
    struct fid_mr *lent = NULL;
    struct rxd_op *op;
    uint8_t *payload;

    if (__builtin_expect(len > room && record->kind == RXD_MSG, 0) &&
        rxd_read_lend(peer->ep, post, record, &lent))
        room = peer->ep->room - rxd_record_size(record);
    record->size = len;
    record->len = goes_with_request(len, room);
    if (post->flags & FI_DELIVERY_COMPLETE && record->kind == RXD_MSG)
        record->flags |= RXD_WANTS_DONE;
    op = op_get(peer, post,
                record->kind == RXD_MSG && len <= room && !(record->flags & RXD_WANTS_DONE));
    if (!op) {
        if (lent)
            fi_close(&lent->fid);
        return -FI_ENOMEM;
    }
    op->lent = lent;
    op->len = len;
    op->early = op->answered && ends_early(peer, post);
    record->id = op->id == IDS_NONE ? 0 : (uint32_t)op->id;
    payload = put_request(op, post, record);
    if (!payload)
        return op_put(op);
    iov_gather(post->iov, post->count, 0, payload, record->len);
    if (record->len == len)
        return 0;
    copy_segments(op, post);
    op->move.peer = peer;
    op->move.iov = op->iov;
    op->move.iov_count = op->iov_count;
    op->move.direct = peer->ep->gathers;
    op->move.at = op->move.limit = record->len;
    return 0;
}

/* Nothing is to be remembered of a message that ends early, and has nothing before it: it leaves in
 * a packet of its own. */
static bool send_alone(struct rxd_peer *peer, const struct op *post, struct rxd_record *record)
{
    struct rxd_ep *ep = peer->ep;
    bool alone = list_empty(&peer->out) && list_empty(&peer->urgent) && peer->theirs &&
                 peer->in_flight < RXD_CORK && peer->next_out - peer->acked < RXD_WINDOW;

    if (!alone || post->flags & (FI_MORE | FI_FENCE) || !ends_early(peer, post) ||
        post->len > ep->room - rxd_record_size(record))
        return false;
    record->size = record->len = post->len;
    if (!rxd_out_alone(peer, record, post))
        return false;
    if (!ep->closing)
        complete(&ep->base.binding, BIND_SEND,
                 !op_is_inject(post) &&
                     completion_wanted(ep->base.binding.tx_selective, post->flags),
                 post->context, post->kind, 0, NULL, 0, 0, FI_ADDR_NOTAVAIL);
    return true;
}

static ssize_t start_message(struct rxd_peer *peer, const struct op *post)
{
    struct rxd_record record = {.kind = RXD_MSG};

    if (post->group == OP_GROUP_TSEND) {
        record.flags = RXD_TAGGED;
        record.tag = post->tag;
    }
    set_data(&record, post);
    return send_alone(peer, post, &record) ? 0 : start_bytes(peer, post, &record);
}

static void set_places(struct rxd_record *record, const struct op *post)
{
    record->place_count = (uint8_t)post->rma_count;
    for (size_t i = 0; i < post->rma_count; i++)
        record->places[i] =
            (struct rxd_place){post->rma[i].addr, post->rma[i].len, post->rma[i].key};
}

/* A request whose answer is bytes for op's segments. */
static ssize_t start_fetch(struct rxd_op *op, const struct op *post, struct rxd_record *record,
                           size_t want, uint8_t **payload)
{
    op->taker.iov = op->iov;
    op->taker.iov_count = op->iov_count;
    op->taker.ended = op_read;
    if (want && rxd_take(&op->taker, op->peer, 0, 0, want))
        return -FI_ENOMEM;
    record->id = (uint32_t)op->id;
    record->taker = want ? (uint32_t)op->taker.id : 0;
    *payload = put_request(op, post, record);
    return *payload ? 0 : -FI_ENOMEM;
}

static ssize_t start_rma(struct rxd_peer *peer, const struct op *post)
{
    struct rxd_record record = {.kind = post->kind & FI_READ ? RXD_READ : RXD_WRITE};
    struct rxd_op *op;
    uint8_t *payload;

    set_places(&record, post);
    set_data(&record, post);
    if (record.kind == RXD_WRITE)
        return start_bytes(peer, post, &record);
    op = op_get(peer, post, false);
    if (!op)
        return -FI_ENOMEM;
    copy_segments(op, post);
    record.size = op->len = post->len;
    return start_fetch(op, post, &record, post->len, &payload) ? op_put(op) : 0;
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

static void set_targets(struct rxd_record *record, const struct op *post)
{
    record->place_count = (uint8_t)post->rma_count;
    record->datatype = (uint8_t)post->datatype;
    record->op = (uint8_t)post->op;
    record->function = post->function == FI_COMPARE_ATOMIC ? RXD_COMPARE
                       : post->function                    ? RXD_FETCH
                                                           : RXD_PLAIN;
    for (size_t i = 0; i < post->rma_count; i++)
        record->places[i] =
            (struct rxd_place){post->rma_ioc[i].addr, post->rma_ioc[i].count, post->rma_ioc[i].key};
}

static ssize_t start_atomic(struct rxd_peer *peer, const struct op *post)
{
    size_t unit = atomic_size(post->datatype), elements = 0;
    struct rxd_record record = {.kind = RXD_ATOMIC};
    struct rxd_op *op = op_get(peer, post, false);
    uint8_t *payload;

    if (!op)
        return -FI_ENOMEM;
    set_targets(&record, post);
    for (size_t i = 0; i < post->rma_count; i++)
        elements += post->rma_ioc[i].count;
    record.size = op->len = elements * unit;
    record.len = record.size * ((post->count ? 1u : 0u) + (post->compare.count ? 1u : 0u));
    op->iov_count = post->result.count;
    for (size_t i = 0; i < post->result.count; i++)
        op->iov[i] = (struct iovec){.iov_base = post->result.ioc[i].addr,
                                    .iov_len = post->result.ioc[i].count * unit};
    if (start_fetch(op, post, &record, post->function ? op->len : 0, &payload))
        return op_put(op);
    payload = put_elements(payload, post->ioc, post->count, unit);
    put_elements(payload, post->compare.ioc, post->compare.count, unit);
    return 0;
}

int rxd_atomic_valid(struct ep *base, uint64_t function, enum fi_datatype datatype, enum fi_op op,
                     size_t *count)
{
    size_t max = rxd_operand_size(ep_of(base)->heads + ep_of(base)->room, ep_of(base)->heads);

    return atomic_count(datatype, op, function, max, count);
}

/* ---- The call ---- */

static ssize_t check(struct rxd_ep *ep, const struct op *op)
{
    size_t remote = 0, elements, len = op->len;
    int rc;

    if (op->group == OP_GROUP_ATOMIC) {
        rc = atomic_check_op(op, rxd_operand_size(ep->heads + ep->room, ep->heads), RXD_IOV,
                             &elements);
        if (rc)
            return rc;
        len = elements * atomic_size(op->datatype);
    } else if (op->count > RXD_IOV || !iov_total(op->iov, op->count, &len)) {
        return -FI_EINVAL;
    }
    if (op->flags & FI_INJECT && len > ep->info->tx_attr->inject_size)
        return -FI_EMSGSIZE;
    if (op->group != OP_GROUP_RMA)
        return 0;
    if (!op->rma_count || op->rma_count > RXD_PLACES)
        return -FI_EINVAL;
    for (size_t i = 0; i < op->rma_count; i++)
        remote += op->rma[i].len;
    return remote == len ? 0 : -FI_EINVAL;
}

static ssize_t start(struct rxd_ep *ep, const struct op *op)
{
    struct rxd_peer *peer;
    ssize_t rc;

    if (!ep->base.enabled)
        return -FI_EOPBADSTATE;
    if (progress_forked(ep->progress))
        return -FI_EOPBADSTATE;
    if (__builtin_expect(av_watch_any(&ep->watch), 0))
        rxd_peers_take_changes(ep);
    rc = rxd_peer_at(ep, op->peer, &peer);
    if (rc)
        return rc;
    if (ep->used >= ep->base.tx_size || !list_empty(&peer->broken))
        return -FI_EAGAIN;
    switch (op->group) {
    case OP_GROUP_RMA: rc = start_rma(peer, op); break;
    case OP_GROUP_ATOMIC: rc = start_atomic(peer, op); break;
    default: rc = start_message(peer, op); break;
    }
    if (!rc && !list_empty(&peer->out))
        rxd_out_added(peer, op->flags & FI_MORE);
    return rc;
}

static ssize_t post_receive(struct rxd_ep *ep, struct op *op)
{
    ssize_t rc = -FI_EOPBADSTATE;

    progress_lock(ep->progress);
    if (__builtin_expect(ep->base.enabled && ep->match, 1)) {
        rc = match_receive(ep->match, op);
        if (!list_empty(&ep->attention)) /* a message was asked for */
            progress_wake(ep->progress);
        if (!list_empty(&ep->attention) && ep->top)
            rxd_run(ep);
    }
    progress_unlock(ep->progress);
    return rc;
}

ssize_t rxd_post(struct ep *base, struct op *op)
{
    struct rxd_ep *ep = ep_of(base);
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
