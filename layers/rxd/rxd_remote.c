/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Accesses of a peer to memory here. The next request of the peer waits until an access is done, so
 * that each sees, and is seen by, the others in their order.
 */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/op/atomic.h"
#include "layers/rxd/rxd.h"

/* One that takes more than its packet. */
struct access {
    struct rxd_taker taker; /* of a write */
    struct rxd_move move;   /* of a read */
    struct list link;
    struct rxd_peer *peer;
    struct remote remote;
    struct rxd_record record;
};

static void count(struct rxd_peer *peer, const struct rxd_record *record,
                  const struct remote *remote)
{
    bool write =
        record->kind == RXD_WRITE || (record->kind == RXD_ATOMIC && record->function == RXD_PLAIN);
    bool data = record->flags & RXD_HAS_DATA;

    mr_accessed(remote->mrs, remote->mr_count, remote->access);
    if (!mr_counted(remote->mrs, remote->mr_count) && !data)
        return;
    complete(&peer->ep->base.binding, write ? BIND_REMOTE_WRITE : BIND_REMOTE_READ, data, NULL,
             FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, record->size, NULL, record->data, 0,
             rxd_peer_source(peer));
}

static void access_put(struct access *access)
{
    struct rxd_peer *peer = access->peer;

    list_detach(&access->link);
    rxd_take_stop(&access->taker);
    if (access->move.pending || !list_empty(&access->move.link))
        rxd_move_drop(&access->move);
    remote_release(&access->remote);
    free(access);
    peer->busy--;
    rxd_peer_attend(peer);
}

static void end(struct access *access)
{
    if (access->record.kind == RXD_WRITE)
        rxd_out_done(access->peer, access->record.id, 0);
    count(access->peer, &access->record, &access->remote);
    access_put(access);
}

static void written(struct rxd_taker *taker)
{
    end(object_of(taker, struct access, taker));
}

static void has_read(struct rxd_move *move)
{
    end(object_of(move, struct access, move));
}

static bool alive(struct rxd_taker *taker)
{
    const struct access *access = object_of(taker, struct access, taker);

    return !mr_any_closed(access->remote.mrs, access->remote.mr_count);
}

/* Takes the remote's regions over. */
static struct access *begin(struct rxd_peer *peer, const struct rxd_record *record,
                            struct remote *remote)
{
    struct access *access = malloc(sizeof(*access));

    if (!access) {
        remote_release(remote);
        return NULL;
    }
    access->peer = peer;
    access->remote = *remote;
    access->record = *record;
    access->taker = (struct rxd_taker){
        .id = IDS_NONE,
        .peer = peer,
        .iov = access->remote.iov,
        .iov_count = remote->count,
        .ended = written,
        .alive = alive,
    };
    access->move = (struct rxd_move){
        .peer = peer,
        .iov = access->remote.iov,
        .iov_count = remote->count,
        .taker = record->taker,
        .held = &access->remote,
        .idle = has_read,
    };
    list_init(&access->move.link);
    list_attach(&access->link, &peer->accesses);
    peer->busy++;
    return access;
}

/* ---- Writes and reads ---- */

static const char *no_memory = "an access for which there is no memory";

static const char *write_memory(struct rxd_peer *peer, const struct rxd_record *record,
                                const struct op *op, struct remote *remote)
{
    struct access *access;

    if (record->len == record->size) {
        remote_access(op, remote);
        rxd_out_done(peer, record->id, 0);
        count(peer, record, remote);
        remote_release(remote);
        return NULL;
    }
    access = begin(peer, record, remote);
    if (!access)
        return no_memory;
    iov_scatter(access->remote.iov, access->remote.count, 0, record->payload, record->len);
    if (!rxd_take(&access->taker, peer, record->id, record->len, record->size))
        return NULL;
    access_put(access);
    return no_memory;
}

/* The bytes leave in one packet, or step by step. */
static const char *read_memory(struct rxd_peer *peer, const struct rxd_record *record,
                               struct remote *remote)
{
    struct rxd_record answer = {.kind = RXD_DATA, .id = record->taker, .len = record->size};
    size_t head = rxd_record_size(&answer);
    struct access *access;
    struct rxd_packet *packet;

    if (record->size > peer->ep->room - head) {
        access = begin(peer, record, remote);
        if (!access)
            return no_memory;
        rxd_move_start(&access->move, record->size);
        return NULL;
    }
    if (!record->size) {
        rxd_out_done(peer, record->id, 0);
    } else {
        packet = rxd_out_urgent(peer, head + record->size);
        if (!packet) {
            remote_release(remote);
            return no_memory;
        }
        iov_gather(remote->iov, remote->count, 0,
                   rxd_record_put(&answer, packet->records + packet->len), record->size);
        packet->len += head + record->size;
        rxd_peer_attend(peer);
    }
    count(peer, record, remote);
    remote_release(remote);
    return NULL;
}

static const char *access_memory(struct rxd_peer *peer, const struct rxd_record *record)
{
    bool write = record->kind == RXD_WRITE;
    struct iovec iov = {.iov_base = (void *)(uintptr_t)record->payload, .iov_len = record->len};
    struct fi_rma_iov rma[RXD_PLACES];
    struct op op = {
        .group = OP_GROUP_RMA,
        .kind = FI_RMA | (write ? FI_WRITE : FI_READ),
        .iov = &iov,
        .count = 1,
        .rma = rma,
        .rma_count = record->place_count,
    };
    struct remote remote;
    int rc;

    for (unsigned i = 0; i < record->place_count; i++)
        rma[i] = (struct fi_rma_iov){record->places[i].addr, record->places[i].len,
                                     record->places[i].key};
    rc = remote_resolve(peer->ep->domain->base.mrs, &op, &remote);
    if (rc) {
        rxd_out_done(peer, record->id, -rc);
        return NULL;
    }
    return write ? write_memory(peer, record, &op, &remote) : read_memory(peer, record, &remote);
}

/* ---- Atomics ---- */

static uint64_t function_of(uint8_t function)
{
    return function == RXD_FETCH     ? FI_FETCH_ATOMIC
           : function == RXD_COMPARE ? FI_COMPARE_ATOMIC
                                     : 0;
}

/* Cuts the payload into operands. False where it is of another size. */
static bool set_operands(const struct rxd_record *record, struct op *op, struct fi_ioc ioc[3],
                         void *result)
{
    size_t unit = atomic_size(op->datatype), bytes = op->len * unit;
    bool reads = op->op == FI_ATOMIC_READ, compares = record->function == RXD_COMPARE;
    uint8_t *payload = (uint8_t *)(uintptr_t)record->payload;

    if (bytes > REMOTE_OPERAND || record->len != (reads ? 0 : bytes) + (compares ? bytes : 0))
        return false;
    ioc[0] = (struct fi_ioc){payload, op->len};
    ioc[1] = (struct fi_ioc){payload + (reads ? 0 : bytes), op->len};
    ioc[2] = (struct fi_ioc){result, op->len};
    op->ioc = &ioc[0];
    op->count = !reads;
    op->compare = (struct op_operand){&ioc[1], NULL, compares};
    op->result = (struct op_operand){&ioc[2], NULL, record->function != RXD_PLAIN};
    return true;
}

static void answer_atomic(struct rxd_peer *peer, const struct rxd_record *record,
                          const uint8_t *result, size_t len)
{
    struct rxd_record answer = {.kind = RXD_DATA, .id = record->taker, .len = len};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)result, .iov_len = len};
    struct rxd_packet *packet;

    if (record->function == RXD_PLAIN) {
        rxd_out_done(peer, record->id, 0);
        return;
    }
    packet = rxd_out_urgent(peer, rxd_record_size(&answer) + len);
    if (!packet) {
        rxd_peer_break(peer, FI_ENOMEM, no_memory);
        return;
    }
    iov_gather(&iov, 1, 0, rxd_record_put(&answer, packet->records + packet->len), len);
    packet->len += rxd_record_size(&answer) + len;
    rxd_peer_attend(peer);
}

static const char *do_atomic(struct rxd_peer *peer, const struct rxd_record *record)
{
    struct fi_rma_ioc rma[RXD_PLACES];
    struct fi_ioc ioc[3];
    uint8_t result[REMOTE_OPERAND];
    struct op op = {
        .group = OP_GROUP_ATOMIC,
        .kind = FI_ATOMIC | (record->function == RXD_PLAIN ? FI_WRITE : FI_READ),
        .function = function_of(record->function),
        .datatype = record->datatype,
        .op = record->op,
        .rma_ioc = rma,
        .rma_count = record->place_count,
    };
    struct remote remote;
    int rc = 0;

    for (unsigned i = 0; i < record->place_count; i++) {
        rma[i] = (struct fi_rma_ioc){record->places[i].addr, record->places[i].len,
                                     record->places[i].key};
        op.len += record->places[i].len;
    }
    if (record->function > RXD_COMPARE || !op.len)
        return "an atomic of no kind";
    if (!atomic_valid(op.datatype, op.op, op.function))
        rc = -FI_EOPNOTSUPP;
    else if (!set_operands(record, &op, ioc, result) ||
             op.len * atomic_size(op.datatype) > peer->ep->room - RXD_RECORD_SIZE)
        return "an atomic of another size than its operands";
    if (!rc)
        rc = remote_resolve(peer->ep->domain->base.mrs, &op, &remote);
    if (rc) {
        rxd_out_done(peer, record->id, -rc);
        return NULL;
    }
    remote_access(&op, &remote);
    answer_atomic(peer, record, result, op.len * atomic_size(op.datatype));
    count(peer, record, &remote);
    remote_release(&remote);
    return NULL;
}

const char *rxd_remote(struct rxd_peer *peer, const struct rxd_record *record)
{
    return record->kind == RXD_ATOMIC ? do_atomic(peer, record) : access_memory(peer, record);
}

void rxd_remote_fail(struct rxd_peer *peer)
{
    list_for_each_safe (pos, after, &peer->accesses)
        access_put(list_item(pos, struct access, link));
}
