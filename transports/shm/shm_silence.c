/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/shm/shm_silence.h"

#include "core/queue/wait.h"
#include "transports/shm/shm_op.h"

/* The peer's library answers these whatever its program does. */
static bool is_answered(const struct shm_op *op)
{
    return op->role == SHM_IN || (op->role == SHM_OUT && op->kind != BIND_SEND);
}

static bool owes(const struct shm_link *link)
{
    if (!list_empty(&link->busy))
        return true;
    list_for_each (pos, &link->ops) {
        const struct shm_op *op = list_item(pos, struct shm_op, link_ops);

        if (!op->entry && is_answered(op))
            return true;
    }
    return false;
}

static void look_at(struct shm_link *link, long long now_ms)
{
    struct shm_silence *silence = &link->silence;
    uint64_t moved = link->tx.limit + link->tx.bulk_limit + link->rx.pos;

    if (!owes(link)) {
        silence->wait.start_ms = 0;
        return;
    }
    if (!silence->wait.start_ms || silence->moved != moved) {
        silence->moved = moved;
        silence->wait.start_ms = now_ms;
        silence->wait.limit_ms = SILENCE_NO_LIMIT;
        return;
    }
    silence_over(&silence->wait, now_ms, link->ep->domain->base.fabric->part,
                 link->name ? link->name : "a peer");
}

void shm_silence_look(struct shm_ep *ep)
{
    long long now_ms = clock_ms();

    if (now_ms < ep->silence_due_ms)
        return;
    ep->silence_due_ms = now_ms + silence_after_ms / 2;
    list_for_each (pos, &ep->links) {
        struct shm_link *link = list_item(pos, struct shm_link, all);

        if (!link->dead)
            look_at(link, now_ms);
    }
}
