/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Atomics are done by the target, for all regions and all peers: FI_PROTO_RXM has no other way, and
 * a lower's own would not be atomic together with it. Every one of them is answered.
 */

#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>

#include "core/op/atomic.h"
#include "layers/rxm/msgproto/msgproto.h"
#include "layers/rxm/msgproto/rxm_region.h"

enum {
    WAITING = 8, /* rxm_op.state of one that waits for its answer, */
    ANSWERED,
    FLUSHING, /* and of one that waits for any */
    ROOM = MSGPROTO_INJECT,
    STATUS_MAX = 4095, /* the largest error number that an answer may carry */
};

/* The wire has numbers for these; requests come from peers that send more than we do
 * (atomic_is_common). */
static bool on_wire(unsigned datatype, unsigned op)
{
    return datatype <= FI_LONG_DOUBLE_COMPLEX && op <= FI_MSWAP;
}

static uint8_t wire_op(uint64_t function)
{
    switch (function) {
    case FI_FETCH_ATOMIC: return RXM_OP_ATOMIC_FETCH;
    case FI_COMPARE_ATOMIC: return RXM_OP_ATOMIC_COMPARE;
    default: return RXM_OP_ATOMIC_WRITE;
    }
}

static uint64_t function_of(uint8_t op)
{
    switch (op) {
    case RXM_OP_ATOMIC_FETCH: return FI_FETCH_ATOMIC;
    case RXM_OP_ATOMIC_COMPARE: return FI_COMPARE_ATOMIC;
    default: return 0;
    }
}

static size_t operand_size(size_t eager_limit, uint64_t function)
{
    size_t operands = eager_limit - RXM_TARGETS_SIZE;

    return function & FI_COMPARE_ATOMIC ? operands / 2 : operands;
}

int msgproto_atomic_count(struct rxm_ep *ep, enum fi_datatype datatype, enum fi_op op,
                          uint64_t function, size_t *count)
{
    if (!atomic_is_common(datatype, op))
        return -FI_EOPNOTSUPP;
    return atomic_count(datatype, op, function, operand_size(ep->msgproto->eager_limit, function),
                        count);
}

int msgproto_query_atomic(const struct params *params, enum fi_datatype datatype, enum fi_op op,
                          struct fi_atomic_attr *attr, uint64_t flags)
{
    if (!atomic_is_common(datatype, op))
        return -FI_EOPNOTSUPP;
    return atomic_query(datatype, op, attr, flags,
                        operand_size(params_size(params, "buffer_size"), flags));
}

/* ---- The initiator ---- */

/* Where len bytes of a packet's payload can be written; NULL without memory. */
static uint8_t *payload_room(struct rxm_op *op, size_t len)
{
    struct mr_buffer *bounce;

    op->byte_count = RXM_PACKET_SIZE + len;
    if (len <= ROOM)
        return op->bytes + RXM_PACKET_SIZE;
    bounce = mr_pool_get(&op->conn->owner->msgproto->bounces);
    op->bounce = bounce;
    return bounce ? (uint8_t *)(bounce + 1) : NULL;
}

static int put_request(struct rxm_op *op, const struct op *post, size_t count)
{
    size_t size = atomic_size(post->datatype), bytes = count * size;
    size_t operands = (post->count ? bytes : 0) + (post->compare.count ? bytes : 0);
    uint8_t *payload = payload_room(op, RXM_TARGETS_SIZE + operands);
    struct rxm_place places[RXM_PLACES];

    if (!payload)
        return -FI_ENOMEM;
    for (size_t i = 0; i < post->rma_count; i++)
        places[i] =
            (struct rxm_place){post->rma_ioc[i].addr, post->rma_ioc[i].count, post->rma_ioc[i].key};
    rxm_targets_put(places, (unsigned)post->rma_count, payload);
    payload = atomic_gather(payload + RXM_TARGETS_SIZE, post->ioc, post->count, size);
    atomic_gather(payload, post->compare.ioc, post->compare.count, size);
    op->packet = (struct rxm_packet){
        .type = RXM_ATOMIC,
        .op = wire_op(post->function),
        .conn_id = op->conn->cm.other.id,
        .msg_id = op->id,
        .size = RXM_TARGETS_SIZE + operands,
        .datatype = (uint8_t)post->datatype,
        .atomic_op = (uint8_t)post->op,
        .targets = (uint8_t)post->rma_count,
    };
    rxm_packet_put(&op->packet, op->bytes);
    return 0;
}

static void fill_op(struct rxm_op *op, const struct op *post, size_t count)
{
    size_t size = atomic_size(post->datatype);

    rxm_op_fill(op, post, post->function ? BIND_READ : BIND_WRITE,
                post->function ? count * size : 0);
    op->state = WAITING;
    op->iov_count = (unsigned)post->result.count;
    for (size_t i = 0; i < post->result.count; i++)
        op->iov[i] = (struct iovec){.iov_base = post->result.ioc[i].addr,
                                    .iov_len = post->result.ioc[i].count * size};
}

static void atomic_end(struct rxm_op *op, int err)
{
    op->conn->msgproto.atomics--;
    rxm_op_report(op, err);
}

/* The peer fetches when the request arrives; the lower there may still have to take from memory
 * what was read before. */
static bool behind_reads(const struct rxm_conn *conn, const struct op *post)
{
    return post->function && conn->msgproto.reads &&
           conn->owner->info->tx_attr->msg_order & FI_ORDER_RAR;
}

ssize_t msgproto_atomic(struct rxm_conn *conn, const struct op *post)
{
    struct msgproto *msgproto = conn->owner->msgproto;
    struct rxm_op *op;
    size_t count;
    int rc = -FI_EOPNOTSUPP;

    if (atomic_is_common(post->datatype, post->op))
        rc = atomic_check_op(post, operand_size(msgproto->eager_limit, post->function),
                             MSGPROTO_IOV, &count);
    if (!rc && post->flags & FI_INJECT && count * atomic_size(post->datatype) > msgproto->inject)
        rc = -FI_EMSGSIZE;
    if (rc)
        return rc;
    if (!list_empty(&conn->msgproto.waiting) ||
        (post->flags & FI_FENCE && !list_empty(&conn->msgproto.ops)) || behind_reads(conn, post))
        return -FI_EAGAIN;
    op = rxm_op_get_counted(conn);
    if (!op)
        return -FI_EAGAIN;
    op->id = ids_add(&msgproto->ids, op);
    fill_op(op, post, count);
    rc = op->id == IDS_NONE ? -FI_ENOMEM : put_request(op, post, count);
    op->pending++; /* until the answer */
    if (!rc)
        rc = (int)rxm_op_send_bytes(op);
    if (rc) {
        rxm_op_put(op);
        return rc;
    }
    op->end = atomic_end;
    conn->msgproto.atomics++;
    op->posted = true;
    return 0;
}

/* A fetching read of no elements: it changes nothing, every peer answers it in its turn, and the
 * answer tells the same if it is a refusal. */
static int put_flush(struct rxm_op *op)
{
    struct rxm_place place = {.addr = op->places[0].addr, .key = op->places[0].key};

    if (op->id == IDS_NONE)
        op->id = ids_add(&op->conn->owner->msgproto->ids, op);
    if (op->id == IDS_NONE)
        return FI_ENOMEM;
    if (op->bounce)
        mr_pool_put(&op->conn->owner->msgproto->bounces, op->bounce);
    op->bounce = NULL;
    rxm_targets_put(&place, 1, op->bytes + RXM_PACKET_SIZE);
    op->packet = (struct rxm_packet){
        .type = RXM_ATOMIC,
        .op = RXM_OP_ATOMIC_FETCH,
        .conn_id = op->conn->cm.other.id,
        .msg_id = op->id,
        .size = RXM_TARGETS_SIZE,
        .datatype = FI_UINT8,
        .atomic_op = FI_ATOMIC_READ,
        .targets = 1,
    };
    rxm_packet_put(&op->packet, op->bytes);
    op->byte_count = RXM_PACKET_SIZE + RXM_TARGETS_SIZE;
    return 0;
}

void msgproto_flush(struct rxm_op *op, int err)
{
    op->end = rxm_op_report;
    if (!err && op->conn->msgproto.dead)
        err = op->conn->msgproto.err;
    if (!err)
        err = put_flush(op);
    if (err) {
        rxm_op_report(op, err);
        return;
    }
    op->len = 0;
    op->lower_flags = 0;
    op->state = FLUSHING;
    op->posted = false;
    op->pending++; /* until the answer */
    op->step = rxm_op_step_bytes;
    rxm_op_start(op);
}

const char *msgproto_atomic_done(struct rxm_conn *conn, const struct rxm_packet *packet,
                                 const uint8_t *payload)
{
    struct rxm_op *op = ids_find(&conn->owner->msgproto->ids, packet->msg_id);
    struct iovec from = {.iov_base = (void *)(uintptr_t)(payload + RXM_RESULT_SIZE)};
    int32_t status;
    uint32_t len;

    if (!op || op->conn != conn || (op->state != WAITING && op->state != FLUSHING) ||
        op->packet.type != RXM_ATOMIC || op->packet.op != packet->op)
        return "the answer to an atomic that there is not";
    rxm_result_get(payload, &status, &len);
    if (status > 0 || status < -STATUS_MAX || len != packet->size - RXM_RESULT_SIZE ||
        (!status && len != op->len))
        return "a wrong answer to an atomic";
    if (status) {
        op->err = op->state == FLUSHING ? 0 : -status;
    } else if (len) {
        from.iov_len = len;
        iov_copy(op->iov, op->iov_count, &from, 1);
    }
    op->state = ANSWERED;
    op->pending--;
    rxm_op_settle(op);
    return NULL;
}

/* ---- The target ---- */

/* A request, cut into its parts. */
struct atomic_request {
    const struct rxm_packet *packet;
    struct rxm_place places[RXM_PLACES];
    uint64_t access;
    size_t size, count; /* of an element; elements of all places */
    const uint8_t *operand, *compare;
};

/* 0; a negative status to answer with; positive: no peer that keeps the protocol sends this. */
static int read_request(const struct rxm_packet *packet, const uint8_t *payload,
                        struct atomic_request *request)
{
    size_t given = packet->size - RXM_TARGETS_SIZE, bytes, expected;
    bool compares = packet->op == RXM_OP_ATOMIC_COMPARE,
         reads = packet->atomic_op == FI_ATOMIC_READ;

    *request = (struct atomic_request){
        .packet = packet,
        .access = atomic_access(packet->atomic_op, function_of(packet->op)),
    };
    if (!on_wire(packet->datatype, packet->atomic_op) ||
        !atomic_valid(packet->datatype, packet->atomic_op, function_of(packet->op)))
        return -FI_EOPNOTSUPP;
    request->size = atomic_size(packet->datatype);
    rxm_targets_get(payload, packet->targets, request->places);
    for (unsigned i = 0; i < packet->targets; i++) {
        if (__builtin_add_overflow(request->count, request->places[i].len, &request->count))
            return 1;
    }
    if (__builtin_mul_overflow(request->count, request->size, &bytes) || bytes > UINT32_MAX)
        return 1;
    expected = reads ? 0 : compares ? 2 * bytes : bytes;
    if (given != expected)
        return 1;
    request->operand = reads ? NULL : payload + RXM_TARGETS_SIZE;
    request->compare = compares ? payload + RXM_TARGETS_SIZE + bytes : NULL;
    return 0;
}

/* Elements of one place. at: how many elements are done; result may be NULL. */
static int apply_place(const struct atomic_request *request, const struct rxm_region *region,
                       const struct rxm_place *place, size_t at, uint8_t *result)
{
    uint64_t addr = place->addr;
    size_t left = place->len;

    while (left) {
        size_t room, count, byte = at * request->size;
        void *target = rxm_region_at(region, addr, &room);

        count = room / request->size < left ? room / request->size : left;
        if (!count)
            return -FI_EINVAL; /* an element across two pieces of memory */
        atomic_apply(request->packet->atomic_op, request->packet->datatype, target,
                     request->operand ? request->operand + byte : NULL,
                     request->compare ? request->compare + byte : NULL,
                     result ? result + byte : NULL, count);
        at += count;
        addr += count * request->size;
        left -= count;
    }
    return 0;
}

/* An atomic with a result counts as a read of the memory, as in tcp. */
static bool fetches(const struct atomic_request *request)
{
    return request->packet->op != RXM_OP_ATOMIC_WRITE;
}

static int apply(struct rxm_conn *conn, const struct atomic_request *request, uint8_t *result)
{
    struct rxm_regions *regions = rxm_regions_of(conn->owner->domain);
    size_t at = 0;
    int rc = 0;

    for (unsigned i = 0; !rc && i < request->packet->targets; i++) {
        const struct rxm_place *place = &request->places[i];
        struct rxm_region *region;

        rc = rxm_regions_lock(regions, place->key, place->addr, place->len * request->size,
                              request->access, &region);
        if (rc)
            break;
        rc = apply_place(request, region, place, at, result);
        if (!rc && request->count)
            rxm_mr_accessed(region->owner, request->access);
        rxm_regions_unlock(regions);
        at += place->len;
    }
    return rc;
}

static void count_access(struct rxm_conn *conn, const struct atomic_request *request)
{
    bool reads = fetches(request);
    struct cntr *cntr =
        conn->owner->base.binding.cntr[reads ? BIND_REMOTE_READ : BIND_REMOTE_WRITE];

    if (cntr)
        cntr_add_one(cntr);
}

const char *msgproto_atomic_request(struct rxm_conn *conn, const struct rxm_packet *packet,
                                    const uint8_t *payload)
{
    struct atomic_request request;
    int status = read_request(packet, payload, &request);
    bool fetches = packet->op != RXM_OP_ATOMIC_WRITE;
    size_t len = status || !fetches ? 0 : request.count * request.size;
    struct rxm_op *op;
    uint8_t *answer;

    if (status > 0 || RXM_RESULT_SIZE + len > conn->owner->msgproto->eager_limit)
        return "an atomic of another size than its operands";
    op = rxm_op_get_answer(conn);
    answer = op ? payload_room(op, RXM_RESULT_SIZE + len) : NULL;
    if (!answer) {
        if (op)
            rxm_op_put(op);
        return "no memory for an answer";
    }
    if (!status)
        status = apply(conn, &request, fetches ? answer + RXM_RESULT_SIZE : NULL);
    if (status) {
        len = 0;
        op->byte_count = RXM_PACKET_SIZE + RXM_RESULT_SIZE;
    } else if (request.count) {
        count_access(conn, &request);
    }
    rxm_result_put(status, (uint32_t)len, answer);
    op->packet = (struct rxm_packet){
        .type = RXM_ATOMIC_DONE,
        .op = packet->op,
        .msg_id = packet->msg_id,
        .size = RXM_RESULT_SIZE + len,
        .datatype = packet->datatype,
        .atomic_op = packet->atomic_op,
    };
    op->step = rxm_op_step_answer;
    rxm_op_start(op);
    return NULL;
}
