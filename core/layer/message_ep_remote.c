/* SPDX-License-Identifier: BSD-2-Clause */
/* Accesses of a peer to memory here, which the CPU carries out in the domain's regions. */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/layer/message_ep.h"
#include "core/layer/message_wire.h"
#include "core/op/atomic.h"

static const char *const no_memory = "an access for which there is no memory";

static bool is_write(const struct message_request *request)
{
    return request->kind == MESSAGE_WRITE ||
           (request->kind == MESSAGE_ATOMIC && !request->function);
}

void message_access_count(struct message_peer *peer, const struct message_request *request,
                          const struct remote *remote)
{
    struct message_context *context = message_context_at(peer->ep, request->context);
    bool write = is_write(request), data = request->has_data;

    mr_accessed(remote->mrs, remote->mr_count, remote->access);
    if (!mr_counted(remote->mrs, remote->mr_count) && !data)
        return;
    if (!context)
        return; /* it was not opened yet, or is closed: nothing is there to tell */
    complete(&context->endpoint.binding, write ? BIND_REMOTE_WRITE : BIND_REMOTE_READ, data, NULL,
             FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, request->size, NULL, request->data, 0,
             message_peer_source(peer));
}

/* ---- Those that take more than their packet ---- */

void message_access_put(struct message_access *access)
{
    struct message_peer *peer = access->handle.peer;

    list_detach(&access->link);
    if (access->loan)
        peer->ep->wire->unlend(access);
    message_take_stop(&access->taker);
    if (access->move.pending || !list_empty(&access->move.link))
        message_move_drop(&access->move);
    message_handle_close(&access->handle);
    remote_release(&access->remote);
    free(access);
    peer->busy--;
    message_peer_attend(peer);
}

void message_access_end(struct message_access *access)
{
    struct message_peer *peer = access->handle.peer;

    if (access->request.kind == MESSAGE_WRITE)
        peer->ep->wire->done(peer, &access->request);
    message_access_count(peer, &access->request, &access->remote);
    message_access_put(access);
}

static void written(struct message_taker *taker)
{
    message_access_end(object_of(taker, struct message_access, taker));
}

static void has_read(struct message_move *move)
{
    if (move->at == move->total)
        message_access_end(object_of(move, struct message_access, move));
}

static bool alive(struct message_taker *taker)
{
    const struct message_access *access = object_of(taker, struct message_access, taker);

    return !mr_any_closed(access->remote.mrs, access->remote.mr_count);
}

static void init_access(struct message_access *access, const struct message_request *request)
{
    access->request = *request;
    access->request.places = NULL;
    access->request.payload = NULL;
    access->request.lent = NULL;
    access->reading = access->lost = false;
    access->fetched = 0;
    access->loan = NULL;
    access->lent_count = request->lent_count;
    for (unsigned i = 0; i < request->lent_count; i++)
        access->lent[i] = request->lent[i];
    access->taker = (struct message_taker){
        .iov = access->remote.iov,
        .iov_count = access->remote.count,
        .ended = written,
        .alive = alive,
    };
    access->move = (struct message_move){
        .peer = access->handle.peer,
        .iov = access->remote.iov,
        .iov_count = access->remote.count,
        .total = request->size,
        .taker = request->taker,
        .held = &access->remote,
        .idle = has_read,
    };
    list_init(&access->link);
    list_init(&access->move.link);
}

struct message_access *message_access_begin(struct message_peer *peer,
                                            const struct message_request *request,
                                            struct remote *remote)
{
    struct message_access *access = malloc(sizeof(*access));
    bool write = request->kind == MESSAGE_WRITE;

    if (access) {
        access->handle = (struct message_handle){
            .kind = write ? MESSAGE_WRITTEN : MESSAGE_BEING_READ, .peer = peer};
        access->remote = *remote;
    }
    if (!access || message_handle_open(&access->handle)) {
        free(access);
        remote_release(remote);
        return NULL;
    }
    init_access(access, request);
    list_attach(&access->link, &peer->accesses);
    peer->busy++;
    return access;
}

/* One that the lower writes for stays until that is over: its peer's next state waits for it. */
static void fail(struct message_access *access)
{
    struct message_ep *ep = access->handle.peer->ep;

    access->lost = true;
    if (access->reading && !ep->closing)
        return;
    if (access->reading)
        ep->wire->unfetch(access);
    message_access_put(access);
}

void message_remote_fail(struct message_peer *peer)
{
    list_for_each_safe (pos, after, &peer->accesses)
        fail(list_item(pos, struct message_access, link));
}

/* ---- Writes and reads ---- */

static void ask_for_rest(struct message_access *access)
{
    const struct message_request *request = &access->request;

    message_take(&access->taker, &access->handle, request->id, request->len, request->len,
                 request->size);
}

void message_access_fetched(struct message_access *access, int err)
{
    struct message_peer *peer = access->handle.peer;
    const char *wrong;

    if (access->lost) {
        message_access_put(access);
    } else if (!err) {
        message_access_end(access);
    } else if (alive(&access->taker)) {
        ask_for_rest(access);
    } else {
        wrong = peer->ep->wire->lost(access);
        if (wrong)
            message_peer_break(peer, FI_EIO, wrong);
    }
}

static const char *write_memory(struct message_peer *peer, const struct message_request *request,
                                struct remote *remote)
{
    struct message_access *access;

    iov_scatter(remote->iov, remote->count, 0, request->payload, request->len);
    if (request->len == request->size) {
        peer->ep->wire->done(peer, request);
        message_access_count(peer, request, remote);
        remote_release(remote);
        return NULL;
    }
    access = message_access_begin(peer, request, remote);
    if (!access)
        return no_memory;
    if (!request->lent_count || !peer->ep->wire->fetch || !peer->ep->wire->fetch(access))
        ask_for_rest(access);
    return NULL;
}

static const char *access_memory(struct message_peer *peer, const struct message_request *request)
{
    bool write = request->kind == MESSAGE_WRITE;
    struct op op = {
        .group = OP_GROUP_RMA,
        .kind = FI_RMA | (write ? FI_WRITE : FI_READ),
        .rma = request->places,
        .rma_count = request->place_count,
    };
    struct remote remote;
    int rc = remote_resolve(peer->ep->domain->base.mrs, &op, &remote);

    if (rc) {
        peer->ep->wire->refuse(peer, request, -rc);
        return NULL;
    }
    return write ? write_memory(peer, request, &remote)
                 : peer->ep->wire->read(peer, request, &remote);
}

/* ---- Atomics ---- */

/* Cuts the payload into operands. False where it is of another size. */
static bool set_operands(const struct message_request *request, struct op *op, struct fi_ioc ioc[3],
                         void *result)
{
    size_t bytes = request->size;
    bool reads = op->op == FI_ATOMIC_READ, compares = op->function == FI_COMPARE_ATOMIC;
    uint8_t *payload = (uint8_t *)(uintptr_t)request->payload;

    if (bytes > REMOTE_OPERAND || request->len != (reads ? 0 : bytes) + (compares ? bytes : 0))
        return false;
    ioc[0] = (struct fi_ioc){payload, op->len};
    ioc[1] = (struct fi_ioc){payload + (reads ? 0 : bytes), op->len};
    ioc[2] = (struct fi_ioc){result, op->len};
    op->ioc = &ioc[0];
    op->count = !reads;
    op->compare = (struct op_operand){&ioc[1], NULL, compares};
    op->result = (struct op_operand){&ioc[2], NULL, op->function != 0};
    return true;
}

/* The elements of its places. False: bytes that are no whole elements, or not those that it says.
 */
static bool set_elements(const struct message_request *request, struct op *op,
                         struct fi_rma_ioc *rma)
{
    size_t unit = atomic_size(op->datatype);

    for (unsigned i = 0; i < request->place_count; i++) {
        if (request->places[i].len % unit)
            return false;
        rma[i] = (struct fi_rma_ioc){request->places[i].addr, request->places[i].len / unit,
                                     request->places[i].key};
        op->len += rma[i].count;
    }
    return op->len && op->len * unit == request->size;
}

static const char *do_atomic(struct message_peer *peer, const struct message_request *request)
{
    const struct message_wire *wire = peer->ep->wire;
    struct fi_rma_ioc rma[MESSAGE_PLACES];
    struct fi_ioc ioc[3];
    _Alignas(16) uint8_t result[REMOTE_OPERAND];
    struct op op = {
        .group = OP_GROUP_ATOMIC,
        .kind = FI_ATOMIC | (is_write(request) ? FI_WRITE : FI_READ),
        .function = request->function,
        .datatype = (enum fi_datatype)request->datatype,
        .op = (enum fi_op)request->op,
        .rma_ioc = rma,
        .rma_count = request->place_count,
    };
    struct remote remote;
    const char *wrong = NULL;
    int rc = atomic_valid(op.datatype, op.op, op.function) ? 0 : -FI_EOPNOTSUPP;

    if (!rc && (!set_elements(request, &op, rma) || !set_operands(request, &op, ioc, result) ||
                (op.function && request->size > peer->ep->result_most)))
        return "an atomic of another size than its operands";
    if (!rc)
        rc = remote_resolve(peer->ep->domain->base.mrs, &op, &remote);
    if (rc) {
        wire->refuse(peer, request, -rc);
        return NULL;
    }
    remote_access(&op, &remote);
    if (is_write(request))
        wire->done(peer, request);
    else
        wrong = wire->result(peer, request, result, request->size);
    message_access_count(peer, request, &remote);
    remote_release(&remote);
    return wrong;
}

const char *message_remote(struct message_peer *peer, const struct message_request *request)
{
    return request->kind == MESSAGE_ATOMIC ? do_atomic(peer, request)
                                           : access_memory(peer, request);
}
