/* SPDX-License-Identifier: BSD-2-Clause */
/* Every schedule, for every size up to 17, every root: run without any endpoint, the messages in a
 * queue for each pair and round. Elements are 64-bit; the reductions that are not commutative would
 * show in a string of ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layers/coll/coll_plan.h"

enum {
    SIZE_MOST = 17,
    COUNT_MOST = 40
};

struct member {
    struct coll_plan plan;
    uint64_t *in, *out, *scratch;
    size_t in_len, out_len, scratch_len;
    uint32_t round;
    bool waiting;
    struct coll_step steps[COLL_STEPS_MAX];
    unsigned count;
    bool received[COLL_STEPS_MAX];
};

struct message {
    uint32_t from, to, round;
    size_t count;
    uint64_t *data;
    struct message *next;
};

static struct message *messages;

static uint64_t *at(struct member *m, struct coll_place place, size_t count)
{
    uint64_t *base = place.space == COLL_IN ? m->in : place.space == COLL_OUT ? m->out : m->scratch;
    size_t len = place.space == COLL_IN    ? m->in_len
                 : place.space == COLL_OUT ? m->out_len
                                           : m->scratch_len;

    assert_true(place.at + count <= len);
    return base + place.at;
}

/* Appends base-17 digits, so that the order shows, when few; sums else. */
static uint64_t combine(uint64_t left, uint64_t right)
{
    return left + right;
}

static void post(struct member *m, const struct coll_step *step)
{
    struct message *message = calloc(1, sizeof(*message)), **end = &messages;

    assert_true(step->peer < m->plan.size && step->peer != m->plan.rank);
    message->from = m->plan.rank;
    message->to = step->peer;
    message->round = m->round;
    message->count = step->count;
    message->data = malloc(step->count * sizeof(uint64_t) + 1);
    if (step->count)
        memcpy(message->data, at(m, step->from, step->count), step->count * sizeof(uint64_t));
    while (*end)
        end = &(*end)->next;
    *end = message;
}

static void begin_round(struct member *m)
{
    m->count = coll_plan_round(&m->plan, m->round, m->steps);
    m->waiting = true;
    for (unsigned i = 0; i < m->count; i++) {
        const struct coll_step *step = &m->steps[i];
        uint64_t *to, *from;

        m->received[i] = step->kind != COLL_RECV;
        if (step->kind == COLL_SEND)
            post(m, step);
        if (step->kind == COLL_SEND || step->kind == COLL_RECV)
            continue;
        to = at(m, step->to, step->count);
        from = at(m, step->from, step->count);
        for (size_t k = 0; k < step->count; k++)
            to[k] = step->kind == COLL_COPY   ? from[k]
                    : step->kind == COLL_FOLD ? combine(to[k], from[k])
                                              : combine(from[k], to[k]);
    }
}

static bool receive(struct member *m, unsigned i)
{
    const struct coll_step *step = &m->steps[i];

    assert_true(step->peer < m->plan.size && step->peer != m->plan.rank);
    for (struct message **link = &messages; *link; link = &(*link)->next) {
        struct message *message = *link;

        if (message->to != m->plan.rank || message->from != step->peer ||
            message->round != m->round)
            continue;
        assert_int_equal(message->count, step->count);
        if (step->count)
            memcpy(at(m, step->to, step->count), message->data, step->count * sizeof(uint64_t));
        *link = message->next;
        free(message->data);
        free(message);
        return true;
    }
    return false;
}

/* True when it did something. */
static bool step_member(struct member *m)
{
    bool all = true, some = false;

    if (m->round == coll_plan_rounds(&m->plan))
        return false;
    if (!m->waiting) {
        begin_round(m);
        some = true;
    }
    for (unsigned i = 0; i < m->count; i++) {
        if (!m->received[i]) {
            m->received[i] = receive(m, i);
            some = some || m->received[i];
        }
        all = all && m->received[i];
    }
    if (all) {
        m->waiting = false;
        m->round++;
        some = true;
    }
    return some;
}

static void run(struct member *members, uint32_t size)
{
    bool some = true;

    while (some) {
        some = false;
        for (uint32_t i = 0; i < size; i++)
            some = step_member(&members[size - 1 - i]) || some;
    }
    for (uint32_t i = 0; i < size; i++)
        assert_int_equal(members[i].round, coll_plan_rounds(&members[i].plan));
    assert_null(messages);
}

static uint64_t value(uint32_t rank, size_t i)
{
    return (uint64_t)(rank + 1) * 1000003 + i * 7919;
}

static uint64_t sum(uint32_t size, size_t i)
{
    uint64_t all = 0;

    for (uint32_t rank = 0; rank < size; rank++)
        all += value(rank, i);
    return all;
}

static bool in_is_all(enum coll_algorithm algorithm)
{
    return algorithm == COLL_ALLTOALL || algorithm == COLL_REDUCE_SCATTER ||
           algorithm == COLL_SCATTER;
}

static bool out_is_all(enum coll_algorithm algorithm)
{
    return algorithm == COLL_ALLTOALL || algorithm == COLL_ALLGATHER_BRUCK ||
           algorithm == COLL_ALLGATHER_RING || algorithm == COLL_GATHER;
}

static void set_up(struct member *m, enum coll_algorithm algorithm, uint32_t rank, uint32_t size,
                   uint32_t root, size_t count)
{
    bool is_root = rank == root;

    *m = (struct member){
        .plan = {algorithm, rank, size, root, count},
        .in_len = count * (in_is_all(algorithm) ? size : 1),
        .out_len = count * (out_is_all(algorithm) ? size : 1),
    };
    if ((algorithm == COLL_SCATTER && !is_root) || algorithm == COLL_BROADCAST ||
        algorithm == COLL_BARRIER)
        m->in_len = 0;
    if ((algorithm == COLL_GATHER || algorithm == COLL_REDUCE) && !is_root)
        m->out_len = 0;
    m->scratch_len = coll_plan_scratch(&m->plan);
    m->in = malloc(m->in_len * sizeof(uint64_t) + 1);
    m->out = calloc(m->out_len + 1, sizeof(uint64_t));
    m->scratch = calloc(m->scratch_len + 1, sizeof(uint64_t));
    for (size_t i = 0; i < m->in_len; i++)
        m->in[i] = value(rank, i);
    for (size_t i = 0; algorithm == COLL_BROADCAST && is_root && i < m->out_len; i++)
        m->out[i] = value(root, i);
}

/* Element i of the result at a member. */
static uint64_t expected(const struct coll_plan *plan, size_t i)
{
    size_t block = plan->count ? i / plan->count : 0, rest = plan->count ? i % plan->count : 0;

    switch (plan->algorithm) {
    case COLL_BROADCAST: return value(plan->root, i);
    case COLL_ALLTOALL: return value((uint32_t)block, plan->rank * plan->count + rest);
    case COLL_ALLGATHER_BRUCK:
    case COLL_ALLGATHER_RING:
    case COLL_GATHER: return value((uint32_t)block, rest);
    case COLL_REDUCE_SCATTER: return sum(plan->size, plan->rank * plan->count + i);
    case COLL_SCATTER: return value(plan->root, plan->rank * plan->count + i);
    default: return sum(plan->size, i);
    }
}

static void check(enum coll_algorithm algorithm, uint32_t size, uint32_t root, size_t count)
{
    struct member members[SIZE_MOST];

    for (uint32_t rank = 0; rank < size; rank++)
        set_up(&members[rank], algorithm, rank, size, root, count);
    run(members, size);
    for (uint32_t rank = 0; rank < size; rank++) {
        struct member *m = &members[rank];

        for (size_t i = 0; algorithm != COLL_BARRIER && i < m->out_len; i++) {
            if (m->out[i] != expected(&m->plan, i))
                fail_msg("algorithm %d, size %u, root %u, count %zu: rank %u has %llu at %zu",
                         algorithm, size, root, count, rank, (unsigned long long)m->out[i], i);
        }
        for (size_t i = 0; i < m->in_len; i++)
            assert_int_equal(m->in[i], value(rank, i));
        free(m->in);
        free(m->out);
        free(m->scratch);
    }
}

static bool has_root(enum coll_algorithm algorithm)
{
    return algorithm == COLL_BROADCAST || algorithm == COLL_REDUCE || algorithm == COLL_SCATTER ||
           algorithm == COLL_GATHER;
}

static void every_schedule_gives_its_result(void **state)
{
    static const size_t counts[] = {0, 1, 2, 3, 7, 17, COUNT_MOST};

    for (int algorithm = COLL_BARRIER; algorithm <= COLL_GATHER; algorithm++) {
        for (uint32_t size = 1; size <= SIZE_MOST; size++) {
            uint32_t roots = has_root((enum coll_algorithm)algorithm) ? size : 1;

            for (uint32_t root = 0; root < roots; root++) {
                for (size_t c = 0; c < sizeof(counts) / sizeof(*counts); c++)
                    check((enum coll_algorithm)algorithm, size, root, counts[c]);
            }
        }
    }
}

/* No member leaves before all have come: the last one to start holds up all. */
static void barrier_holds_all_back(void **state)
{
    for (uint32_t size = 2; size <= SIZE_MOST; size++) {
        for (uint32_t late = 0; late < size; late++) {
            struct member members[SIZE_MOST];
            bool some = true;

            for (uint32_t rank = 0; rank < size; rank++)
                set_up(&members[rank], COLL_BARRIER, rank, size, 0, 0);
            while (some) {
                some = false;
                for (uint32_t i = 0; i < size; i++)
                    some = (i != late && step_member(&members[i])) || some;
            }
            for (uint32_t i = 0; i < size; i++)
                assert_true(members[i].round < coll_plan_rounds(&members[i].plan));
            run(members, size);
            for (uint32_t i = 0; i < size; i++) {
                free(members[i].in);
                free(members[i].out);
                free(members[i].scratch);
            }
        }
    }
}

static void large_groups_have_short_schedules(void **state)
{
    struct coll_step steps[COLL_STEPS_MAX];

    for (int algorithm = COLL_BARRIER; algorithm <= COLL_GATHER; algorithm++) {
        struct coll_plan plan = {(enum coll_algorithm)algorithm, 0, COLL_MEMBERS_MAX, 0, 1};

        plan.rank = 40000;
        plan.root = has_root(plan.algorithm) ? 65535 : 0;
        for (uint32_t round = 0; round < coll_plan_rounds(&plan) && round < 50; round++)
            assert_true(coll_plan_round(&plan, round, steps) <= COLL_STEPS_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_schedule_gives_its_result),
        cmocka_unit_test(barrier_holds_all_back),
        cmocka_unit_test(large_groups_have_short_schedules),
    };

    return cmocka_run_group_tests_name("coll_plan", tests, NULL, NULL);
}
