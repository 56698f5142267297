/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Operations as they are posted: receives go to the matching engine, the wire makes packets of the
 * others. Small payloads go with the request; the rest of a large one stays where it is until the
 * peer asks.
 */
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/layer/message_ep.h"
#include "core/layer/message_wire.h"
#include "core/op/atomic.h"

static struct message_context *context_of(struct ep *base)
{
    return object_of(base, struct message_context, endpoint.base);
}

/* ---- The end of an operation ---- */

int message_code_of(const struct message_ep *ep, int err)
{
    return ep->wire->code ? ep->wire->code(ep, err) : err;
}

static void report(struct message_context *from, void *context, uint64_t kind, bool wanted, int err,
                   int prov_errno)
{
    struct fi_cq_err_entry error;

    if (from->closing)
        return;
    if (__builtin_expect(!err, 1)) {
        complete(&from->endpoint.binding, binding_kind_of(kind), wanted, context, kind, 0, NULL, 0,
                 0, FI_ADDR_NOTAVAIL);
        return;
    }
    error = (struct fi_cq_err_entry){
        .op_context = context,
        .flags = kind,
        .err = err,
        .prov_errno = prov_errno ? prov_errno : message_code_of(from->ep, err),
        .src_addr = FI_ADDR_NOTAVAIL,
    };
    complete_error(&from->endpoint.binding, binding_kind_of(kind), &error);
}

static void op_put(struct message_op *op)
{
    struct message_ep *ep = op->handle.peer->ep;

    list_detach(&op->of_peer);
    if (op->move.pending || !list_empty(&op->move.link))
        message_move_drop(&op->move);
    message_take_stop(&op->taker);
    message_handle_close(&op->handle);
    ep->used--;
    op->from->used--;
    if (ep->wire->op_put)
        ep->wire->op_put(op);
    pool_put(&ep->ops, op);
}

void message_op_end(struct message_op *op, int err)
{
    struct message_ep *ep = op->handle.peer->ep;
    struct message_context *from = op->from;
    void *context = op->context;
    uint64_t kind = op->kind;
    bool wanted = op->wanted;
    int prov_errno = op->prov_errno;

    if (ep->wire->op_stays && ep->wire->op_stays(op, err)) {
        list_detach(&op->of_peer);
        return;
    }
    op_put(op);
    report(from, context, kind, wanted, err, prov_errno);
}

void message_op_end_brief(struct message_op *op)
{
    struct message_ep *ep = op->handle.peer->ep;
    struct message_context *from = op->from;
    void *context = op->context;
    uint64_t kind = op->kind;
    bool wanted = op->wanted;

    list_detach(&op->of_peer);
    ep->used--;
    from->used--;
    pool_put(&ep->ops, op);
    if (!from->closing)
        complete(&from->endpoint.binding, BIND_SEND, wanted, context, kind, 0, NULL, 0, 0,
                 FI_ADDR_NOTAVAIL);
}

void message_op_settle(struct message_op *op)
{
    if (op->answered && op->handle.peer->ep->wire->is_over(op))
        message_op_end(op, op->err);
}

void message_op_answered(struct message_op *op, int err, int prov_errno)
{
    op->answered = true;
    op->err = err;
    op->prov_errno = prov_errno;
    if (err) /* the peer wants no more */
        message_move_stop(&op->move);
    message_op_settle(op);
}

/* ---- A packet that is an operation ---- */

static bool is_wanted(const struct message_context *from, const struct op *post)
{
    return !op_is_inject(post) &&
           completion_wanted(from->endpoint.binding.tx_selective, post->flags);
}

void message_packet_is_op(struct message_packet *packet, const struct message_posting *posting)
{
    packet->from = posting->from;
    packet->context = posting->op->context;
    packet->kind = posting->op->kind;
    packet->wanted = is_wanted(posting->from, posting->op);
    packet->ep->used++;
    posting->from->used++;
}

void message_packet_end_op(struct message_packet *packet, int err)
{
    struct message_context *from = packet->from;

    packet->from = NULL;
    packet->ep->used--;
    from->used--;
    report(from, packet->context, packet->kind, packet->wanted, err, 0);
}

/* ---- The end of its answers ---- */

static void op_read(struct message_taker *taker)
{
    message_op_answered(object_of(taker, struct message_op, taker), 0, 0);
}

static void op_moved(struct message_move *move)
{
    message_op_settle(object_of(move, struct message_op, move));
}

/* ---- Its record ---- */

/* The fields that each has. */
static inline void op_init(struct message_op *op, struct message_peer *peer,
                           const struct message_posting *posting, enum message_kind kind)
{
    const struct op *post = posting->op;

    op->handle = (struct message_handle){.kind = kind, .peer = peer, .id = IDS_NONE};
    op->from = posting->from;
    op->context = post->context;
    op->kind = post->kind;
    op->wanted = is_wanted(op->from, post);
    op->err = op->prov_errno = 0;
}

static inline void op_begin(struct message_op *op, struct message_peer *peer)
{
    list_attach(&op->of_peer, &peer->ops);
    peer->ep->used++;
    op->from->used++;
}

struct message_op *message_op_get_brief(struct message_peer *peer,
                                        const struct message_posting *posting)
{
    struct message_op *op = pool_get(&peer->ep->ops);

    if (!op)
        return NULL;
    op_init(op, peer, posting, MESSAGE_SEND);
    op->answered = true;
    /* No bytes of it move: as much as its end by message_op_end looks at. */
    op->move.pending = 0;
    op->move.direct = false;
    op->move.taker = 0;
    list_init(&op->move.link);
    op->taker.handle = NULL;
    op_begin(op, peer);
    return op;
}

struct message_op *message_op_get(struct message_peer *peer, const struct message_posting *posting,
                                  enum message_kind kind, bool named)
{
    struct message_ep *ep = peer->ep;
    struct message_op *op = pool_get(&ep->ops);

    if (!op)
        return NULL;
    op_init(op, peer, posting, kind);
    op->answered = false;
    op->iov_count = 0;
    op->move = (struct message_move){.peer = peer, .idle = op_moved};
    list_init(&op->move.link);
    op->taker = (struct message_taker){.ended = op_read, .reads = true};
    if (named && message_handle_open(&op->handle)) {
        pool_put(&ep->ops, op);
        return NULL;
    }
    op_begin(op, peer);
    return op;
}

ssize_t message_op_refuse(const struct message_ep *ep)
{
    bool held = ep->packets.used > ep->posted;

    return ep->outgoing || held ? -FI_EAGAIN : -FI_ENOMEM;
}

ssize_t message_op_give_up(struct message_op *op)
{
    struct message_ep *ep = op->handle.peer->ep;

    op_put(op);
    return message_op_refuse(ep);
}

struct message_op *message_op_find(const struct message_peer *peer, uint32_t id, unsigned kinds)
{
    struct message_handle *handle = message_handle_find(peer, id, kinds);

    return handle ? object_of(handle, struct message_op, handle) : NULL;
}

void message_op_copy_segments(struct message_op *op, const struct op *post)
{
    op->iov_count = post->count;
    for (size_t i = 0; i < post->count; i++)
        op->iov[i] = post->iov[i];
    op->move.iov = op->taker.iov = op->iov;
    op->move.iov_count = op->taker.iov_count = op->iov_count;
}

/* ---- Atomics ---- */

size_t message_op_set_result(struct message_op *op, const struct op *post)
{
    size_t unit = atomic_size(post->datatype), elements = 0;

    for (size_t i = 0; i < post->rma_count; i++)
        elements += post->rma_ioc[i].count;
    op->iov_count = post->result.count;
    for (size_t i = 0; i < post->result.count; i++)
        op->iov[i] = (struct iovec){.iov_base = post->result.ioc[i].addr,
                                    .iov_len = post->result.ioc[i].count * unit};
    op->taker.iov = op->iov;
    op->taker.iov_count = op->iov_count;
    return elements * unit;
}

void message_op_put_operands(const struct op *post, uint8_t *payload)
{
    size_t unit = atomic_size(post->datatype);

    payload = atomic_gather(payload, post->ioc, post->count, unit);
    atomic_gather(payload, post->compare.ioc, post->compare.count, unit);
}

int message_atomic_valid(struct ep *base, uint64_t function, enum fi_datatype datatype,
                         enum fi_op op, size_t *count)
{
    const struct message_ep *ep = context_of(base)->ep;

    if (ep->wire->common_atomics && !atomic_is_common(datatype, op))
        return -FI_EOPNOTSUPP;
    return atomic_count(datatype, op, function, ep->operand, count);
}

/* ---- The call ---- */

static ssize_t check(struct message_ep *ep, const struct op *op)
{
    size_t remote = 0, elements, len = op->len;
    int rc;

    if (op->group == OP_GROUP_ATOMIC) {
        if (ep->wire->common_atomics && !atomic_is_common(op->datatype, op->op))
            return -FI_EOPNOTSUPP;
        rc = atomic_check_op(op, ep->operand, MESSAGE_IOV, &elements);
        if (rc)
            return rc;
        len = elements * atomic_size(op->datatype);
    } else if (op->count > MESSAGE_IOV || !iov_total(op->iov, op->count, &len)) {
        return -FI_EINVAL;
    }
    if (op->flags & FI_INJECT && len > ep->info->tx_attr->inject_size)
        return -FI_EMSGSIZE;
    if (op->group != OP_GROUP_RMA)
        return 0;
    if (!op->rma_count || op->rma_count > MESSAGE_PLACES)
        return -FI_EINVAL;
    for (size_t i = 0; i < op->rma_count; i++)
        remote += op->rma[i].len;
    return remote == len ? 0 : -FI_EINVAL;
}

static ssize_t start(struct message_context *from, const struct op *op)
{
    struct message_ep *ep = from->ep;
    struct message_posting posting = {.op = op, .from = from};
    struct message_peer *peer;
    ssize_t rc;

    if (!from->endpoint.enabled || progress_forked(ep->progress))
        return -FI_EOPBADSTATE;
    if (__builtin_expect(av_watch_any(&ep->watch), 0))
        message_peers_take_changes(ep);
    rc = message_peer_at(ep, op->peer, &peer, &posting.context);
    if (rc)
        return rc;
    if (from->used >= from->endpoint.tx_size || !list_empty(&peer->broken))
        return -FI_EAGAIN;
    return ep->wire->start(peer, &posting);
}

static ssize_t post_receive(struct message_context *context, struct op *op)
{
    struct message_ep *ep = context->ep;
    ssize_t rc = -FI_EOPBADSTATE;

    progress_lock(ep->progress);
    if (__builtin_expect(context->endpoint.enabled && context->match, 1)) {
        rc = match_receive(context->match, op);
        if (!list_empty(&ep->attention)) /* a message was asked for */
            progress_wake(ep->progress);
        if (!list_empty(&ep->attention) && context->top)
            message_run(ep);
    }
    progress_unlock(ep->progress);
    return rc;
}

ssize_t message_post(struct ep *base, struct op *op)
{
    struct message_context *from = context_of(base);
    struct message_ep *ep = from->ep;
    ssize_t rc;

    if (op->group & (OP_GROUP_RECV | OP_GROUP_TRECV))
        return post_receive(from, op);
    rc = endpoint_settle(&from->endpoint, op);
    if (!rc)
        rc = check(ep, op);
    if (rc)
        return rc;
    progress_lock(ep->progress);
    rc = start(from, op);
    if (__builtin_expect(rc == -FI_EAGAIN, 0)) {
        if (from->top) /* a poster that does nothing but try again makes progress too */
            progress_poll(ep->progress);
        progress_wake(ep->progress);
    }
    if (from->top)
        progress_posted(ep->progress);
    progress_unlock(ep->progress);
    return rc;
}
