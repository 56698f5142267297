/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/tcp/tcp_atomic.h"

#include <float.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/op/atomic.h"
#include "transports/tcp/tcp_acks.h"
#include "transports/tcp/tcp_answer.h"
#include "transports/tcp/tcp_conn.h"
#include "transports/tcp/tcp_poller.h"
#include "transports/tcp/tcp_rx.h"

struct tcp_atomic *tcp_atomic_get(struct tcp_poller *poller)
{
    struct tcp_atomic *atomic = pool_get(&poller->atomics);

    if (!atomic)
        return NULL;
    atomic->status = 0;
    atomic->mr_count = 0;
    atomic->iov_count = 0;
    return atomic;
}

void tcp_atomic_put(struct tcp_poller *poller, struct tcp_atomic *atomic)
{
    if (!atomic)
        return;
    for (unsigned i = 0; i < atomic->mr_count; i++)
        mr_release(atomic->mr[i]);
    pool_put(&poller->atomics, atomic);
}

uint8_t tcp_atomic_precision(unsigned datatype)
{
    return datatype == FI_LONG_DOUBLE || datatype == FI_LONG_DOUBLE_COMPLEX ? LDBL_MANT_DIG : 0;
}

/* ---- The request, at its target ---- */

static uint64_t kind_of(const struct tcp_atomic *atomic)
{
    switch (atomic->function) {
    case TCP_ATOMIC_FETCH: return FI_FETCH_ATOMIC;
    case TCP_ATOMIC_COMPARE: return FI_COMPARE_ATOMIC;
    default: return 0;
    }
}

static uint64_t access_of(const struct tcp_atomic *atomic)
{
    return atomic_access(atomic->operation, kind_of(atomic));
}

/* Is it an operation of ours, on elements that are the same here and there? */
static bool known(const struct tcp_rx *rx, const struct tcp_wire *wire,
                  const struct tcp_atomic *atomic)
{
    enum fi_datatype datatype = atomic->datatype;
    enum fi_op op = atomic->operation;

    return !rx->conn->network && atomic_valid(datatype, op, kind_of(atomic)) &&
           wire->atomic.size == atomic_size(datatype) &&
           wire->atomic.precision == tcp_atomic_precision(datatype) &&
           (op == FI_ATOMIC_READ) == !wire->payload;
}

static int resolve_one(struct tcp_rx *rx, struct tcp_atomic *atomic, const struct tcp_wire_iov *iov)
{
    size_t size = atomic_size((enum fi_datatype)atomic->datatype);
    struct iovec *pieces = atomic->iov + atomic->iov_count;
    size_t count = TCP_MR_IOV_MAX;
    struct mr *mr;
    int rc = mr_resolve(rx->conn->base->domain->mrs, iov->key, iov->addr, (size_t)iov->len * size,
                        access_of(atomic), pieces, &count, &mr);

    if (rc)
        return rc;
    atomic->mr[atomic->mr_count++] = mr;
    atomic->iov_count += count;
    return atomic_is_whole(atomic->datatype, pieces, count) ? 0 : -FI_EINVAL;
}

static int resolve(struct tcp_rx *rx, struct tcp_atomic *atomic, const struct tcp_wire *wire)
{
    uint64_t caps = FI_ATOMIC | access_of(atomic);
    int rc = (rx->conn->base->caps & caps) == caps ? 0 : -FI_EACCES;

    if (!known(rx, wire, atomic))
        return -FI_EOPNOTSUPP;
    for (unsigned i = 0; !rc && i < wire->iov_count; i++) {
        if (wire->iov[i].len)
            rc = resolve_one(rx, atomic, &wire->iov[i]);
    }
    return rc;
}

int tcp_atomic_begin(struct tcp_rx *rx, const struct tcp_wire *wire)
{
    struct tcp_atomic *atomic = tcp_atomic_get(rx->conn->poller);

    if (!atomic)
        return -FI_ENOMEM;
    rx->atomic = atomic;
    atomic->function = wire->op_data;
    atomic->datatype = wire->atomic.datatype;
    atomic->operation = wire->atomic.operation;
    atomic->len = tcp_wire_atomic_len(wire);
    atomic->bytes = (struct iovec){.iov_base = atomic->data, .iov_len = (size_t)wire->payload};
    atomic->status = -resolve(rx, atomic, wire);
    if (atomic->status)
        LOG_INFO(tcp_conn_part(rx->conn), FI_LOG_EP_DATA,
                 "remote atomic of %zu bytes at 0x%zx with key 0x%zx refused: %s", atomic->len,
                 (size_t)wire->iov[0].addr, (size_t)wire->iov[0].key, fi_strerror(atomic->status));
    tcp_dest_set(&rx->dest, &atomic->bytes, atomic->status ? 0 : 1);
    return 0;
}

/* The results take the place of the operands. */
static void apply(struct tcp_atomic *atomic)
{
    uint8_t *data = atomic->data;
    bool reads = atomic->operation == FI_ATOMIC_READ;

    atomic_apply_pieces(atomic->operation, atomic->datatype, atomic->iov, atomic->iov_count,
                        reads ? NULL : data,
                        atomic->function == TCP_ATOMIC_COMPARE ? data + atomic->len : NULL,
                        atomic->function == TCP_ATOMIC_WRITE ? NULL : data);
}

int tcp_atomic_finish(struct tcp_rx *rx)
{
    struct tcp_atomic *atomic = rx->atomic;
    bool done = !atomic->status, fetches = atomic->function != TCP_ATOMIC_WRITE;

    rx->atomic = NULL;
    if (done && mr_any_closed(atomic->mr, atomic->mr_count)) {
        atomic->status = FI_EACCES;
        done = false;
    }
    if (done) {
        apply(atomic);
        mr_accessed(atomic->mr, atomic->mr_count, access_of(atomic));
    }
    atomic->bytes.iov_len = done && fetches ? atomic->len : 0;
    int rc = tcp_answer_atomic(rx->tx, atomic);
    if (done)
        complete(&rx->conn->base->binding, fetches ? BIND_REMOTE_READ : BIND_REMOTE_WRITE, false,
                 NULL, 0, 0, NULL, 0, 0, FI_ADDR_NOTAVAIL);
    return rc;
}

/* ---- The answer, at the initiator ---- */

int tcp_atomic_begin_answer(struct tcp_rx *rx, const struct tcp_wire *wire)
{
    struct tcp_op *op = tcp_acks_response(rx->tx);
    const char *why = NULL;

    if (!op || op->kind != TCP_KIND_ATOMIC)
        why = "answer to no atomic operation";
    else if (!wire->status && wire->payload != (op->flags & FI_READ ? op->len : 0))
        why = "result of another length than the atomic operation";
    if (why) {
        tcp_conn_say_closed(rx->conn, why);
        return -FI_EPROTO;
    }
    rx->status = (int)wire->status;
    tcp_dest_set(&rx->dest, op->iov, op->iov_count);
    return 0;
}

void tcp_atomic_finish_answer(struct tcp_rx *rx)
{
    if (rx->status)
        tcp_acks_failed(rx->tx, rx->status);
    else
        tcp_acks_done(rx->tx);
}
