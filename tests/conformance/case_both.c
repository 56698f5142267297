/* SPDX-License-Identifier: BSD-2-Clause */
/* Atomics of two peers to one another at the same time, through small queues. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_atomic.h>

#include "conf.h"

enum {
    COUNT = 300, /* of each kind, by each of the two */
    KINDS = 3,
    ELEMENTS = 32, /* of a write, where so many are valid: what an answer would not hold */
};

/* Memory of one end, which the other changes. */
struct target {
    uint64_t sums[ELEMENTS]; /* by writes */
    uint64_t fetched;        /* by fetch-and-adds */
    uint64_t swapped[COUNT]; /* each by one compare-and-swap */
};

struct side {
    struct conf_ep *end;
    struct target *own;
    struct fid_mr *mr;
    uint64_t base, key; /* of the other's memory */
    uint64_t add[ELEMENTS], got[COUNT], compare[COUNT], swap[COUNT], old[COUNT];
    size_t elements; /* of a write */
    size_t posted, done;
};

static void open_memory(struct conf_pair *p, struct side *side, struct side *other, uint64_t key)
{
    int mode = p->home.info->domain_attr->mr_mode;

    side->own = calloc(1, sizeof *side->own);
    conf_check(side->own != NULL, "no memory");
    conf_check(!fi_mr_reg(p->home.domain, side->own, sizeof *side->own,
                          FI_REMOTE_READ | FI_REMOTE_WRITE, 0, key, 0, &side->mr, NULL),
               "fi_mr_reg");
    if (mode & FI_MR_ENDPOINT)
        conf_check(!fi_mr_bind(side->mr, &side->end->ep->fid, 0) && !fi_mr_enable(side->mr),
                   "fi_mr_enable");
    other->base = mode & FI_MR_VIRT_ADDR ? (uintptr_t)side->own : 0;
    other->key = fi_mr_key(side->mr);
    conf_check(!fi_atomicvalid(side->end->ep, FI_UINT64, FI_SUM, &side->elements),
               "fi_atomicvalid");
    if (side->elements > ELEMENTS)
        side->elements = ELEMENTS;
    for (size_t i = 0; i < side->elements; i++)
        side->add[i] = i + 1;
    for (size_t i = 0; i < COUNT; i++) {
        side->own->swapped[i] = i;
        side->compare[i] = i % 5 ? i : i + 1; /* each fifth finds something else */
        side->swap[i] = ~(uint64_t)i;
    }
}

/* The next of its operations, the kinds in turn. */
static ssize_t post_next(struct side *s)
{
    size_t n = s->posted / KINDS;
    uint64_t swapped = s->base + offsetof(struct target, swapped) + n * sizeof(uint64_t);

    switch (s->posted % KINDS) {
    case 0:
        return fi_atomic(s->end->ep, s->add, s->elements, NULL, s->end->peer, s->base, s->key,
                         FI_UINT64, FI_SUM, s->add);
    case 1:
        return fi_fetch_atomic(s->end->ep, s->add, 1, NULL, &s->got[n], NULL, s->end->peer,
                               s->base + offsetof(struct target, fetched), s->key, FI_UINT64,
                               FI_SUM, &s->got[n]);
    default:
        return fi_compare_atomic(s->end->ep, &s->swap[n], 1, NULL, &s->compare[n], NULL, &s->old[n],
                                 NULL, s->end->peer, swapped, s->key, FI_UINT64, FI_CSWAP,
                                 &s->old[n]);
    }
}

/* Posts as much as the endpoint takes; neither side reads a queue meanwhile. */
static bool post_all(struct side *s)
{
    ssize_t rc = 0;

    while (s->posted < (size_t)KINDS * COUNT && !(rc = post_next(s)))
        s->posted++;
    conf_check(!rc || rc == -FI_EAGAIN, "operation %zu: %s", s->posted, fi_strerror((int)-rc));
    return rc != 0;
}

static void take(struct side *s)
{
    for (size_t i = 0; i < s->end->seen_count; i++)
        conf_check(!s->end->seen[i].err, "%s", fi_strerror(s->end->seen[i].err));
    s->done += s->end->seen_count;
    s->end->seen_count = 0;
}

/* Checks the values that s has fetched, and the other side's changes of s's memory. */
static void check(const struct side *s)
{
    static bool taken[COUNT];

    memset(taken, 0, sizeof taken);
    for (size_t i = 0; i < COUNT; i++) {
        bool swaps = s->compare[i] == i;

        conf_check(s->got[i] < COUNT && !taken[s->got[i]], "fetch %zu got %lu", i,
                   (unsigned long)s->got[i]);
        taken[s->got[i]] = true;
        conf_check(s->old[i] == i, "swap %zu found %lu", i, (unsigned long)s->old[i]);
        conf_check(s->own->swapped[i] == (swaps ? s->swap[i] : i), "word %zu is %lu", i,
                   (unsigned long)s->own->swapped[i]);
    }
    conf_check(s->own->fetched == COUNT, "%lu fetches", (unsigned long)s->own->fetched);
    for (size_t i = 0; i < s->elements; i++)
        conf_check(s->own->sums[i] == COUNT * (i + 1), "sum %zu is %lu", i,
                   (unsigned long)s->own->sums[i]);
}

/* queue: operations of each side that may be under way. Returns how often a queue was full. */
static unsigned both_ways_once(size_t queue)
{
    static struct side sides[2];
    struct side *a = &sides[0], *b = &sides[1];
    unsigned refused = 0;
    struct conf_pair *p;

    memset(sides, 0, sizeof sides);
    p = conf_pair_open((struct conf_want){
        .caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC, .tx_size = queue, .rx_size = queue});
    a->end = &p->a;
    b->end = &p->b;
    open_memory(p, a, b, 0x51);
    open_memory(p, b, a, 0x52);
    for (long long end = conf_now_ms() + CONF_TIMEOUT_MS;
         a->done + b->done < (size_t)2 * KINDS * COUNT;) {
        refused += post_all(a);
        refused += post_all(b);
        conf_drive_pair(p);
        take(a);
        take(b);
        conf_check(conf_now_ms() < end, "%zu of %zu and %zu of %zu are done", a->done, a->posted,
                   b->done, b->posted);
    }
    /* Writes may be complete before they are done; fetches of both behind them are not. */
    for (int i = 0; i < 2; i++) {
        struct side *s = &sides[i];
        uint64_t got = 0;

        conf_post(p, fi_fetch_atomic(s->end->ep, NULL, 1, NULL, &got, NULL, s->end->peer, s->base,
                                     s->key, FI_UINT64, FI_ATOMIC_READ, &got));
        conf_check(!conf_wait(p, s->end, &got).err && got == COUNT, "read behind all: %lu",
                   (unsigned long)got);
    }
    conf_quiet(p, 5);
    for (int i = 0; i < 2; i++) {
        check(&sides[i]);
        conf_check(!fi_close(&sides[i].mr->fid), "fi_close(mr)");
        free(sides[i].own);
    }
    conf_pair_close(p);
    return refused;
}

/* A post makes progress, and a caller that the kernel holds up may find all that it posted done:
 * such a run proves nothing of full queues. */
static void both_ways_with(size_t queue)
{
    unsigned refused = 0;

    for (int runs = 0; !refused && runs < 5; runs++)
        refused = both_ways_once(queue);
    conf_check(refused, "the queues of %zu were never full", queue);
}

static void both_ways(void)
{
    conf_need("ATOMIC");
    /* Fewer, and more, than what a connection may have under way. */
    both_ways_with(8);
    both_ways_with(128);
}

const struct conf_case conf_both_cases[] = {
    {"atomic: both ways at the same time, small queues", both_ways},
    {0},
};
