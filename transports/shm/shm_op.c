/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/shm/shm_op.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/mr.h"

enum {
    FIRST_SLOTS = 64,
    ZERO_FROM = offsetof(struct shm_op, wanted),
    ZERO_BYTES = offsetof(struct shm_op, total) - ZERO_FROM,
};

static const uint32_t none = UINT32_MAX;

void shm_ops_init(struct shm_ep *ep)
{
    pool_init(&ep->ops, sizeof(struct shm_op), 0);
    ep->slot_free = none;
}

void shm_ops_finish(struct shm_ep *ep)
{
    pool_finish(&ep->ops);
    free(ep->slots);
}

static bool grow(struct shm_ep *ep)
{
    uint32_t count = ep->slot_count ? 2 * ep->slot_count : FIRST_SLOTS;
    struct shm_slot *slots;

    if (count > 1u << SHM_INDEX_BITS)
        return false;
    slots = realloc(ep->slots, count * sizeof(*slots));
    if (!slots)
        return false;
    for (uint32_t i = count; i-- > ep->slot_count;) {
        slots[i] = (struct shm_slot){.next = ep->slot_free};
        ep->slot_free = i;
    }
    ep->slots = slots;
    ep->slot_count = count;
    return true;
}

/* Not one that serves the peer. */
static bool is_own(enum shm_role role)
{
    return role == SHM_OUT || role == SHM_IN;
}

struct shm_op *shm_op_get(struct shm_link *link, enum shm_role role)
{
    struct shm_ep *ep = link->ep;
    struct shm_slot *slot;
    struct shm_op *op;

    if (ep->slot_free == none && !grow(ep))
        return NULL;
    op = pool_get(&ep->ops);
    if (!op)
        return NULL;
    slot = &ep->slots[ep->slot_free];
    op->id = slot->uses << SHM_INDEX_BITS | ep->slot_free;
    ep->slot_free = slot->next;
    slot->op = op;
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
    uint32_t index = op->id & ((1u << SHM_INDEX_BITS) - 1);
    struct shm_slot *slot = &ep->slots[index];

    if (__builtin_expect(op->timed, 0))
        shm_cross_timed(op, false);
    slot->op = NULL;
    slot->uses++;
    slot->next = ep->slot_free;
    ep->slot_free = index;
    op->link->big_writes -= op->big;
    op->link->reads -= op->ahead;
    ep->tx_used -= is_own(op->role);
    op->link->served -= !is_own(op->role);
    /* Nobody looks at it again. */
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
    enum report_kind kind = op->kind;
    bool wanted = op->wanted;
    void *context = op->context;
    uint64_t flags = op->flags;

    if (__builtin_expect(op->timed && !err, 0))
        shm_cross_timed(op, true);
    put(op);
    if (__builtin_expect(!err, 1)) {
        report_done(&ep->report, kind, wanted, context, flags, 0, NULL, 0, 0, FI_ADDR_NOTAVAIL);
        return;
    }
    memset(&entry, 0, sizeof(entry));
    entry.op_context = context;
    entry.flags = flags;
    entry.err = err;
    entry.prov_errno = err;
    entry.src_addr = FI_ADDR_NOTAVAIL;
    report_failed(&ep->report, kind, &entry);
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
