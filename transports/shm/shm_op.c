/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/shm/shm_op.h"

#include <stdlib.h>
#include <string.h>

#include "core/domain/mr.h"

enum {
    ZERO_FROM = offsetof(struct shm_op, behind),
    ZERO_BYTES = offsetof(struct shm_op, total) - ZERO_FROM,
};

void shm_ops_init(struct shm_ep *ep)
{
    pool_init(&ep->ops, sizeof(struct shm_op), 0);
    ids_init(&ep->ids, SHM_INDEX_BITS, SHM_ID_BITS);
}

void shm_ops_finish(struct shm_ep *ep)
{
    pool_finish(&ep->ops);
    ids_finish(&ep->ids);
}

/* Not one that serves the peer. */
static bool is_own(enum shm_role role)
{
    return role == SHM_OUT || role == SHM_IN;
}

struct shm_op *shm_op_get(struct shm_link *link, enum shm_role role)
{
    struct shm_ep *ep = link->ep;
    struct shm_op *op = pool_get(&ep->ops);
    uint64_t id = op ? ids_add(&ep->ids, op) : IDS_NONE;

    if (__builtin_expect(id == IDS_NONE, 0)) {
        if (op)
            pool_put(&ep->ops, op);
        return NULL;
    }
    op->id = (uint32_t)id;
    memset((char *)op + ZERO_FROM, 0, ZERO_BYTES);
    list_init(&op->work);
    list_attach(&op->link_ops, &link->ops);
    op->link = link;
    op->role = role;
    ep->tx_used += is_own(role);
    link->served += !is_own(role);
    return op;
}

static inline void put(struct shm_op *op)
{
    struct shm_ep *ep = op->link->ep;

    if (__builtin_expect(op->timed, 0))
        shm_cma_timed(op, false);
    ids_remove(&ep->ids, op->id);
    op->link->behind -= op->behind;
    ep->tx_used -= is_own(op->role);
    op->link->served -= !is_own(op->role);
    /* op is freed below: no need to reset its own pointers, as list_detach does. */
    op->link_ops.prev->next = op->link_ops.next;
    op->link_ops.next->prev = op->link_ops.prev;
    if (__builtin_expect(!list_empty(&op->work), 0))
        list_detach(&op->work);
    for (size_t i = 0; i < op->mr_count; i++)
        mr_release(op->mrs[i]);
    if (__builtin_expect(op->own != NULL, 0))
        free(op->own);
    pool_put(&ep->ops, op);
}

void shm_op_put(struct shm_op *op)
{
    put(op);
}

void shm_op_end(struct shm_op *op, int err)
{
    struct shm_ep *ep = op->link->ep;
    struct fi_cq_err_entry entry;
    enum binding_kind kind = op->kind;
    bool wanted = op->wanted;
    void *context = op->context;
    uint64_t flags = op->flags;

    if (__builtin_expect(op->timed && !err, 0))
        shm_cma_timed(op, true);
    put(op);
    if (__builtin_expect(!err, 1)) {
        complete(&ep->base.binding, kind, wanted, context, flags, 0, NULL, 0, 0, FI_ADDR_NOTAVAIL);
        return;
    }
    memset(&entry, 0, sizeof(entry));
    entry.op_context = context;
    entry.flags = flags;
    entry.err = err;
    entry.prov_errno = err;
    entry.src_addr = FI_ADDR_NOTAVAIL;
    complete_error(&ep->base.binding, kind, &entry);
}

void shm_op_abort(struct shm_op *op, int err)
{
    switch (op->role) {
    case SHM_OUT:
    case SHM_IN: shm_op_end(op, err); return;
    case SHM_FETCHER:
        if (op->message) {
            shm_message_done(op, err);
            return;
        }
        /* fall through */
    case SHM_GIVER: shm_op_put(op); return;
    }
}
