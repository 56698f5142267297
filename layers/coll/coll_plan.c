/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Trees are over virtual ranks, in which the root is 0. The children of v are v + m for the powers
 * of two m below v's lowest bit (below all for the root): the subtree of v + m is the m virtual
 * ranks from there, as far as they exist.
 */
#include "layers/coll/coll_plan.h"

#include <assert.h>

enum {
    ALLTOALL_PAIRS = 4 /* of one round */
};

/* A round in the making. */
struct round {
    const struct coll_plan *plan;
    struct coll_step *steps;
    unsigned count;
};

static uint32_t log2_up(uint32_t n)
{
    uint32_t bits = 0;

    while (bits < 32 && (uint64_t)1 << bits < n)
        bits++;
    return bits;
}

static uint32_t log2_down(uint32_t n)
{
    uint32_t bits = log2_up(n);

    return bits && (uint64_t)1 << bits > n ? bits - 1 : bits;
}

static struct coll_place in(size_t at)
{
    return (struct coll_place){COLL_IN, at};
}

static struct coll_place out(size_t at)
{
    return (struct coll_place){COLL_OUT, at};
}

static struct coll_place scratch(size_t at)
{
    return (struct coll_place){COLL_SCRATCH, at};
}

static void add(struct round *round, struct coll_step step)
{
    assert(round->count < COLL_STEPS_MAX);
    round->steps[round->count++] = step;
}

static void copy(struct round *round, struct coll_place to, struct coll_place from, size_t count)
{
    if (count)
        add(round, (struct coll_step){.kind = COLL_COPY, .to = to, .from = from, .count = count});
}

static void fold(struct round *round, struct coll_place to, struct coll_place from, size_t count)
{
    if (count)
        add(round, (struct coll_step){.kind = COLL_FOLD, .to = to, .from = from, .count = count});
}

static void send(struct round *round, uint32_t peer, struct coll_place from, size_t count)
{
    add(round, (struct coll_step){.kind = COLL_SEND, .peer = peer, .from = from, .count = count});
}

static void recv(struct round *round, uint32_t peer, struct coll_place to, size_t count)
{
    add(round, (struct coll_step){.kind = COLL_RECV, .peer = peer, .to = to, .count = count});
}

static uint32_t virtual_rank(const struct coll_plan *plan)
{
    return (plan->rank + plan->size - plan->root) % plan->size;
}

static uint32_t real_rank(const struct coll_plan *plan, uint32_t v)
{
    return (uint32_t)(((uint64_t)v + plan->root) % plan->size);
}

/* The member that is `by` ranks further on, or back. */
static uint32_t after(const struct coll_plan *plan, uint64_t by)
{
    return (uint32_t)((plan->rank + by) % plan->size);
}

static uint32_t before(const struct coll_plan *plan, uint64_t by)
{
    return (uint32_t)((plan->rank + plan->size - by % plan->size) % plan->size);
}

/* Virtual ranks of the subtree of v + mask, which exists. */
static uint32_t subtree(const struct coll_plan *plan, uint32_t v, uint32_t mask)
{
    uint32_t left = plan->size - v;

    return left < mask ? left : mask;
}

/* ---- Barrier and broadcast ---- */

static void barrier_round(struct round *round, uint32_t n)
{
    send(round, after(round->plan, (uint64_t)1 << n), out(0), 0);
    recv(round, before(round->plan, (uint64_t)1 << n), out(0), 0);
}

static void broadcast_round(struct round *round, uint32_t n)
{
    const struct coll_plan *plan = round->plan;
    uint32_t v = virtual_rank(plan), mask = (uint32_t)1 << n;

    if (v < mask && v + mask < plan->size)
        send(round, real_rank(plan, v + mask), out(0), plan->count);
    else if (v >= mask && v - mask < mask)
        recv(round, real_rank(plan, v - mask), out(0), plan->count);
}

/* ---- All to all, reduce-scatter: every pair ---- */

static void alltoall_round(struct round *round, uint32_t n)
{
    const struct coll_plan *plan = round->plan;
    uint64_t first = (uint64_t)n * ALLTOALL_PAIRS + 1;

    if (!n)
        copy(round, out(plan->rank * plan->count), in(plan->rank * plan->count), plan->count);
    for (uint64_t i = first; i < first + ALLTOALL_PAIRS && i < plan->size; i++) {
        uint32_t to = after(plan, i), from = before(plan, i);

        send(round, to, in(to * plan->count), plan->count);
        recv(round, from, out(from * plan->count), plan->count);
    }
}

static void reduce_scatter_round(struct round *round, uint32_t n)
{
    const struct coll_plan *plan = round->plan;
    uint32_t to = after(plan, n + 1);

    if (!n)
        copy(round, out(0), in(plan->rank * plan->count), plan->count);
    else
        fold(round, out(0), scratch(0), plan->count);
    if (n + 1 == plan->size)
        return;
    send(round, to, in(to * plan->count), plan->count);
    recv(round, before(plan, n + 1), scratch(0), plan->count);
}

/* ---- All reduce ---- */

/*
 * Of size members the largest power of two exchange. The first `rest` pairs of neighbours beyond
 * that fold into their odd member before, and the even one gets the result after.
 */
static void doubling_exchange(struct round *round, uint32_t mask, uint32_t rest)
{
    const struct coll_plan *plan = round->plan;
    uint32_t mine = plan->rank < 2 * rest ? plan->rank / 2 : plan->rank - rest;
    uint32_t other = mine ^ mask;
    uint32_t peer = other < rest ? 2 * other + 1 : other + rest;

    send(round, peer, out(0), plan->count);
    recv(round, peer, scratch(0), plan->count);
}

/* The result of the exchange with that mask, in the order of ranks: all members get the same bits.
 */
static void doubling_fold(struct round *round, uint32_t mask, uint32_t rest)
{
    const struct coll_plan *plan = round->plan;
    uint32_t mine = plan->rank < 2 * rest ? plan->rank / 2 : plan->rank - rest;

    if (plan->count)
        add(round, (struct coll_step){.kind = mine & mask ? COLL_FOLD_L : COLL_FOLD,
                                      .to = out(0),
                                      .from = scratch(0),
                                      .count = plan->count});
}

static void doubling_round(struct round *round, uint32_t n)
{
    const struct coll_plan *plan = round->plan;
    uint32_t bits = log2_down(plan->size), rest = plan->size - ((uint32_t)1 << bits);
    bool paired = plan->rank < 2 * rest, idle = paired && !(plan->rank & 1);

    if (!n) {
        copy(round, out(0), in(0), plan->count);
        if (idle)
            send(round, plan->rank + 1, in(0), plan->count);
        else if (paired)
            recv(round, plan->rank - 1, scratch(0), plan->count);
        return;
    }
    if (idle) {
        if (n == bits + 1)
            recv(round, plan->rank + 1, out(0), plan->count);
        return;
    }
    if (n > 1)
        doubling_fold(round, (uint32_t)1 << (n - 2), rest);
    else if (paired && plan->count)
        add(round,
            (struct coll_step){
                .kind = COLL_FOLD_L, .to = out(0), .from = scratch(0), .count = plan->count});
    if (n <= bits)
        doubling_exchange(round, (uint32_t)1 << (n - 1), rest);
    else if (paired)
        send(round, plan->rank - 1, out(0), plan->count);
}

/* The ring cuts the data into a piece for each member, the first ones an element longer. */
static size_t piece_at(const struct coll_plan *plan, uint32_t piece)
{
    size_t extra = plan->count % plan->size;

    return piece * (plan->count / plan->size) + (piece < extra ? piece : extra);
}

static size_t piece_len(const struct coll_plan *plan, uint32_t piece)
{
    return plan->count / plan->size + (piece < plan->count % plan->size);
}

static void ring_reduce_round(struct round *round, uint32_t n)
{
    const struct coll_plan *plan = round->plan;
    uint32_t gathering = plan->size - 1; /* the first round of the second ring */
    uint32_t send_piece, recv_piece;

    if (!n)
        copy(round, out(0), in(0), plan->count);
    else if (n <= gathering)
        fold(round, out(piece_at(plan, before(plan, n))), scratch(0),
             piece_len(plan, before(plan, n)));
    if (plan->size == 1)
        return;
    if (n < gathering) {
        send_piece = before(plan, n);
        recv_piece = before(plan, (uint64_t)n + 1);
    } else {
        send_piece = before(plan, (uint64_t)(n - gathering) + plan->size - 1);
        recv_piece = before(plan, n - gathering);
    }
    send(round, after(plan, 1), out(piece_at(plan, send_piece)), piece_len(plan, send_piece));
    recv(round, before(plan, 1), n < gathering ? scratch(0) : out(piece_at(plan, recv_piece)),
         piece_len(plan, recv_piece));
}

/* ---- All gather ---- */

static void bruck_round(struct round *round, uint32_t n)
{
    const struct coll_plan *plan = round->plan;
    uint32_t have = (uint32_t)1 << n, more;
    size_t tail = plan->size - plan->rank;

    if (!n)
        copy(round, scratch(0), in(0), plan->count);
    if (have >= plan->size) {
        copy(round, out(plan->rank * plan->count), scratch(0), tail * plan->count);
        copy(round, out(0), scratch(tail * plan->count), plan->rank * plan->count);
        return;
    }
    more = plan->size - have < have ? plan->size - have : have;
    send(round, before(plan, have), scratch(0), more * plan->count);
    recv(round, after(plan, have), scratch(have * plan->count), more * plan->count);
}

static void ring_gather_round(struct round *round, uint32_t n)
{
    const struct coll_plan *plan = round->plan;

    if (!n)
        copy(round, out(plan->rank * plan->count), in(0), plan->count);
    if (plan->size == 1)
        return;
    send(round, after(plan, 1), out(before(plan, n) * plan->count), plan->count);
    recv(round, before(plan, 1), out(before(plan, (uint64_t)n + 1) * plan->count), plan->count);
}

/* ---- Reduce, scatter, gather ---- */

/* The root collects in OUT, others behind the scratch that they receive into. */
static struct coll_place reduced(const struct coll_plan *plan)
{
    return plan->rank == plan->root ? out(0) : scratch(plan->count);
}

static void reduce_round(struct round *round, uint32_t n)
{
    const struct coll_plan *plan = round->plan;
    uint32_t v = virtual_rank(plan), mask = (uint32_t)1 << n;

    if (!n)
        copy(round, reduced(plan), in(0), plan->count);
    else if (!(v & (mask - 1)) && v + mask / 2 < plan->size)
        fold(round, reduced(plan), scratch(0), plan->count);
    if (mask >= plan->size || v & (mask - 1))
        return;
    if (v & mask)
        send(round, real_rank(plan, v - mask), reduced(plan), plan->count);
    else if (v + mask < plan->size)
        recv(round, real_rank(plan, v + mask), scratch(0), plan->count);
}

/* Between OUT or IN, in the order of ranks, and scratch, in that of virtual ranks. */
static void rotate(struct round *round, bool to_scratch)
{
    const struct coll_plan *plan = round->plan;
    size_t head = (plan->size - plan->root) * plan->count, all = plan->size * plan->count;
    size_t root_at = plan->root * plan->count;

    if (to_scratch) {
        copy(round, scratch(0), in(root_at), head);
        copy(round, scratch(head), in(0), all - head);
    } else {
        copy(round, out(root_at), scratch(0), head);
        copy(round, out(0), scratch(head), all - head);
    }
}

/* From the widest mask to 1; then a round that copies what arrived for this member. */
static void scatter_round(struct round *round, uint32_t n)
{
    const struct coll_plan *plan = round->plan;
    uint32_t v = virtual_rank(plan), bits = log2_up(plan->size), mask;
    bool direct = !v && !plan->root; /* the root's data is in virtual order as it is */

    if (!n && !v && !direct)
        rotate(round, true);
    if (n == bits) {
        if (direct || !(v & 1))
            copy(round, out(0), direct ? in(0) : scratch(0), plan->count);
        return;
    }
    mask = (uint32_t)1 << (bits - 1 - n);
    if (v & (mask - 1))
        return;
    if (v & mask) {
        recv(round, real_rank(plan, v - mask), v & 1 ? out(0) : scratch(0),
             subtree(plan, v, mask) * plan->count);
    } else if (v + mask < plan->size) {
        send(round, real_rank(plan, v + mask),
             direct ? in(mask * plan->count) : scratch(mask * plan->count),
             subtree(plan, v + mask, mask) * plan->count);
    }
}

static void gather_round(struct round *round, uint32_t n)
{
    const struct coll_plan *plan = round->plan;
    uint32_t v = virtual_rank(plan), bits = log2_up(plan->size), mask = (uint32_t)1 << n;
    bool direct = !v && !plan->root;

    if (!n && !(v & 1))
        copy(round, direct ? out(0) : scratch(0), in(0), plan->count);
    if (n == bits) {
        if (!v && !direct)
            rotate(round, false);
        return;
    }
    if (v & (mask - 1))
        return;
    if (v & mask) {
        send(round, real_rank(plan, v - mask), v & 1 ? in(0) : scratch(0),
             subtree(plan, v, mask) * plan->count);
    } else if (v + mask < plan->size) {
        recv(round, real_rank(plan, v + mask),
             direct ? out(mask * plan->count) : scratch(mask * plan->count),
             subtree(plan, v + mask, mask) * plan->count);
    }
}

/* ---- All of them ---- */

uint32_t coll_plan_rounds(const struct coll_plan *plan)
{
    uint32_t size = plan->size, up = log2_up(size);

    switch (plan->algorithm) {
    case COLL_BARRIER:
    case COLL_BROADCAST: return up ? up : 1;
    case COLL_ALLTOALL: return size > 1 ? (size - 1 + ALLTOALL_PAIRS - 1) / ALLTOALL_PAIRS : 1;
    case COLL_ALLREDUCE_DOUBLING: return log2_down(size) + 2;
    case COLL_ALLREDUCE_RING: return size > 1 ? 2 * (size - 1) : 1;
    case COLL_ALLGATHER_RING: return size > 1 ? size - 1 : 1;
    case COLL_REDUCE_SCATTER: return size;
    default: return up + 1;
    }
}

size_t coll_plan_scratch(const struct coll_plan *plan)
{
    uint32_t v = virtual_rank(plan);

    switch (plan->algorithm) {
    case COLL_ALLREDUCE_DOUBLING:
    case COLL_REDUCE_SCATTER: return plan->count;
    case COLL_ALLREDUCE_RING: return piece_len(plan, 0);
    case COLL_ALLGATHER_BRUCK: return plan->size * plan->count;
    case COLL_REDUCE: return 2 * plan->count;
    case COLL_SCATTER:
    case COLL_GATHER:
        if (!v)
            return plan->root ? plan->size * plan->count : 0;
        return subtree(plan, v, v & -v) * plan->count;
    default: return 0;
    }
}

unsigned coll_plan_round(const struct coll_plan *plan, uint32_t n,
                         struct coll_step steps[COLL_STEPS_MAX])
{
    struct round round = {plan, steps, 0};

    switch (plan->algorithm) {
    case COLL_BARRIER:
        if (plan->size > 1)
            barrier_round(&round, n);
        break;
    case COLL_BROADCAST: broadcast_round(&round, n); break;
    case COLL_ALLTOALL: alltoall_round(&round, n); break;
    case COLL_ALLREDUCE_DOUBLING: doubling_round(&round, n); break;
    case COLL_ALLREDUCE_RING: ring_reduce_round(&round, n); break;
    case COLL_ALLGATHER_BRUCK: bruck_round(&round, n); break;
    case COLL_ALLGATHER_RING: ring_gather_round(&round, n); break;
    case COLL_REDUCE_SCATTER: reduce_scatter_round(&round, n); break;
    case COLL_REDUCE: reduce_round(&round, n); break;
    case COLL_SCATTER: scatter_round(&round, n); break;
    case COLL_GATHER: gather_round(&round, n); break;
    }
    return round.count;
}
