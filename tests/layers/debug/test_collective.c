/* SPDX-License-Identifier: BSD-2-Clause */
/* The buffers of collectives, of which the count is one member's share: how far they reach. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <rdma/fi_collective.h>
#include <rdma/fi_eq.h>

#include "reports.h"

enum {
    COUNT = 10, /* elements of one share */
    ONE = COUNT * sizeof(int32_t)
};

/* Two endpoints beside those of the pair, and the group of both. */
struct group {
    struct pair pair;
    struct fid_eq *eq;
    struct fid_ep *ep[2];
    struct fid_mc *mc[2];
    fi_addr_t to[2];
    struct fid_mr *one, *two; /* in `to`: room for one share, behind that room for two */
    char *in_one, *in_two;
};

static void open_endpoint(struct group *it, int i)
{
    char address[256];
    size_t len = sizeof(address);

    assert_int_equal(fi_endpoint(it->pair.domain, it->pair.info, &it->ep[i], NULL), 0);
    assert_int_equal(fi_ep_bind(it->ep[i], &it->pair.cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_ep_bind(it->ep[i], &it->pair.av->fid, 0), 0);
    assert_int_equal(fi_ep_bind(it->ep[i], &it->eq->fid, 0), 0);
    assert_int_equal(fi_enable(it->ep[i]), 0);
    assert_int_equal(fi_getname(&it->ep[i]->fid, address, &len), 0);
    assert_int_equal(fi_av_insert(it->pair.av, address, 1, &it->to[i], 0, NULL), 1);
}

static void join(struct group *it)
{
    struct fi_av_set_attr attr = {.start_addr = FI_ADDR_NOTAVAIL, .end_addr = FI_ADDR_NOTAVAIL};
    struct fi_eq_entry entry;
    struct fid_av_set *set;
    fi_addr_t addr;
    uint32_t event;
    int joined = 0;

    assert_int_equal(fi_av_set(it->pair.av, &attr, &set, NULL), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(fi_av_set_insert(set, it->to[i]), 0);
    assert_int_equal(fi_av_set_addr(set, &addr), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(fi_join_collective(it->ep[i], addr, set, 0, &it->mc[i], NULL), 0);
    for (int spins = 0; joined < 2 && spins < 1000000; spins++)
        joined += fi_eq_read(it->eq, &event, &entry, sizeof(entry), 0) > 0;
    assert_int_equal(joined, 2);
    fi_close(&set->fid);
}

static void open_group(struct group *it)
{
    struct fi_eq_attr eq = {.wait_obj = FI_WAIT_NONE};

    pair_caps = FI_COLLECTIVE;
    pair_open(&it->pair, stack(",demand=mr_local", "coll;loop"));
    assert_int_equal(fi_eq_open(it->pair.fabric, &eq, &it->eq, NULL), 0);
    for (int i = 0; i < 2; i++)
        open_endpoint(it, i);
    join(it);
    it->in_one = to;
    it->in_two = to + ONE;
    it->one = region(&it->pair, it->in_one, ONE, FI_SEND | FI_RECV);
    it->two = region(&it->pair, it->in_two, 2 * ONE, FI_SEND | FI_RECV);
}

static void close_group(struct group *it)
{
    fi_close(&it->one->fid);
    fi_close(&it->two->fid);
    for (int i = 0; i < 2; i++) {
        fi_close(&it->mc[i]->fid);
        fi_close(&it->ep[i]->fid);
    }
    fi_close(&it->eq->fid);
    pair_close(&it->pair);
}

/* Member i does it with that own and that result buffer, as the others of its kind do below. */
static ssize_t gather(struct group *it, int i, char *result, struct fid_mr *mr)
{
    return fi_gather(it->ep[i], it->in_one, COUNT, fi_mr_desc(it->one), result,
                     mr ? fi_mr_desc(mr) : NULL, fi_mc_addr(it->mc[i]), it->to[1], FI_INT32, 0,
                     it->mc[i]);
}

static ssize_t scatter(struct group *it, int i, char *own, struct fid_mr *mr)
{
    return fi_scatter(it->ep[i], own, COUNT, mr ? fi_mr_desc(mr) : NULL, it->in_one,
                      fi_mr_desc(it->one), fi_mc_addr(it->mc[i]), it->to[1], FI_INT32, 0,
                      it->mc[i]);
}

static ssize_t reduce(struct group *it, int i, char *result, struct fid_mr *mr)
{
    return fi_reduce(it->ep[i], it->in_two, COUNT, fi_mr_desc(it->two), result,
                     mr ? fi_mr_desc(mr) : NULL, fi_mc_addr(it->mc[i]), it->to[1], FI_INT32, FI_SUM,
                     0, it->mc[i]);
}

static ssize_t allgather(struct group *it, int i, char *result, struct fid_mr *mr)
{
    return fi_allgather(it->ep[i], it->in_one, COUNT, fi_mr_desc(it->one), result, fi_mr_desc(mr),
                        fi_mc_addr(it->mc[i]), FI_INT32, 0, it->mc[i]);
}

static ssize_t alltoall(struct group *it, int i, char *own, struct fid_mr *mr)
{
    return fi_alltoall(it->ep[i], own, COUNT, fi_mr_desc(mr), from, fi_mr_desc(it->two),
                       fi_mc_addr(it->mc[i]), FI_INT32, 0, it->mc[i]);
}

static ssize_t reduce_scatter(struct group *it, int i, char *own, struct fid_mr *mr)
{
    return fi_reduce_scatter(it->ep[i], own, COUNT, fi_mr_desc(mr), it->in_one, fi_mr_desc(it->one),
                             fi_mc_addr(it->mc[i]), FI_INT32, FI_SUM, 0, it->mc[i]);
}

static ssize_t broadcast(struct group *it, int i, char *buf, struct fid_mr *mr)
{
    return fi_broadcast(it->ep[i], buf, COUNT, mr ? fi_mr_desc(mr) : NULL, fi_mc_addr(it->mc[i]),
                        it->to[1], FI_INT32, 0, it->mc[i]);
}

/* Both members, the last one being the root; then what came is read. */
static void both(struct group *it, ssize_t (*member)(struct group *, int, char *, struct fid_mr *),
                 char *first, struct fid_mr *first_mr, char *second, struct fid_mr *second_mr)
{
    assert_int_equal(member(it, 0, first, first_mr), 0);
    assert_int_equal(member(it, 1, second, second_mr), 0);
    drain(&it->pair, 2);
}

static void only_the_root_has_all(void **state)
{
    struct group it;

    open_group(&it);
    both(&it, gather, NULL, NULL, it.in_two, it.two);
    both(&it, scatter, NULL, NULL, it.in_two, it.two);
    both(&it, reduce, NULL, NULL, it.in_one, it.one);
    both(&it, broadcast, it.in_one, it.one, it.in_two, it.two);
    is_silent();
    both(&it, gather, NULL, NULL, it.in_two + 4, it.two);
    reports("fi_gather", "range");
    both(&it, scatter, NULL, NULL, it.in_two + 4, it.two);
    reports("fi_scatter", "range");
    both(&it, reduce, NULL, NULL, it.in_one + 4, it.one);
    reports("fi_reduce", "range");
    both(&it, gather, NULL, NULL, it.in_two, NULL); /* what the root has, needs one */
    reports("fi_gather", "descriptor");
    both(&it, broadcast, it.in_one, NULL, it.in_two, it.two);
    reports("fi_broadcast", "descriptor");
    close_group(&it);
}

static void every_member_has_all(void **state)
{
    struct fid_mr *room;
    struct group it;

    open_group(&it);
    both(&it, allgather, it.in_two, it.two, it.in_two, it.two);
    is_silent();
    assert_int_equal(allgather(&it, 0, it.in_two + 4, it.two), 0);
    reports("fi_allgather", "range");
    assert_int_equal(allgather(&it, 1, it.in_two, it.two), 0);
    drain(&it.pair, 2);
    both(&it, reduce_scatter, it.in_two, it.two, it.in_two, it.two);
    is_silent();
    assert_int_equal(reduce_scatter(&it, 0, it.in_two, it.two), 0);
    assert_int_equal(reduce_scatter(&it, 1, it.in_two + 4, it.two), 0);
    reports("fi_reduce_scatter", "range");
    drain(&it.pair, 2);
    room = it.two;
    it.two = region(&it.pair, from, 2 * ONE, FI_RECV); /* where alltoall has its results */
    both(&it, alltoall, it.in_two, room, it.in_two, room);
    is_silent();
    assert_int_equal(alltoall(&it, 0, it.in_two, room), 0);
    assert_int_equal(alltoall(&it, 1, it.in_two + 4, room), 0);
    reports("fi_alltoall", "range");
    drain(&it.pair, 2);
    fi_close(&room->fid);
    close_group(&it);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(only_the_root_has_all),
        TEST(every_member_has_all),
    };

    return cmocka_run_group_tests_name("debug: collectives", tests, NULL, NULL);
}
