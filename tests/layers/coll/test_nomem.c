/* SPDX-License-Identifier: BSD-2-Clause */
/* Allocation number N fails, for N = 1, 2, ... until none does, in the life of a group of two: an
 * error at the call concerned, or at the end of what was accepted; no hang, nothing left behind. */
#include "nomem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_errno.h>

#if NOMEM_WORKS
enum {
    LIMIT_MS = 60000,
    COUNT = 3
};

struct member {
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_eq *eq;
    struct fid_mc *mc;
    fi_addr_t addr;
    bool over, failed; /* what was accepted last */
    int32_t in[2 * COUNT], out[2 * COUNT];
};

struct life {
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_av_set *set;
    struct member members[2];
};

static long long now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int open_member(struct life *life, struct fi_info *info, struct member *m)
{
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE};
    struct fi_eq_attr eq = {.wait_obj = FI_WAIT_NONE};
    char name[128];
    size_t len = sizeof(name);
    int rc = fi_endpoint(life->domain, info, &m->ep, NULL);

    if (!rc)
        rc = fi_cq_open(life->domain, &cq, &m->cq, NULL);
    if (!rc)
        rc = fi_eq_open(life->fabric, &eq, &m->eq, NULL);
    if (!rc)
        rc = fi_ep_bind(m->ep, &m->cq->fid, FI_TRANSMIT | FI_RECV);
    if (!rc)
        rc = fi_ep_bind(m->ep, &m->eq->fid, 0);
    if (!rc)
        rc = fi_ep_bind(m->ep, &life->av->fid, 0);
    if (!rc)
        rc = fi_enable(m->ep);
    if (!rc)
        rc = fi_getname(&m->ep->fid, name, &len);
    if (!rc)
        rc = fi_av_insert(life->av, name, 1, &m->addr, 0, NULL) == 1 ? 0 : -FI_ENOMEM;
    return rc;
}

static void look(struct member *m)
{
    struct fi_cq_err_entry error = {0};
    struct fi_eq_err_entry eq_error = {0};
    struct fi_cq_tagged_entry entry;
    struct fi_eq_entry event;
    uint32_t number;
    ssize_t n = fi_cq_read(m->cq, &entry, 1);

    if (n == -FI_EAVAIL)
        assert_int_equal(fi_cq_readerr(m->cq, &error, 0), 1);
    m->over = m->over || n != -FI_EAGAIN;
    m->failed = m->failed || n == -FI_EAVAIL;
    n = fi_eq_read(m->eq, &number, &event, sizeof(event), 0);
    if (n == -FI_EAVAIL)
        assert_true(fi_eq_readerr(m->eq, &eq_error, 0) > 0);
    m->over = m->over || n != -FI_EAGAIN;
    m->failed = m->failed || n == -FI_EAVAIL;
}

/* Waits for the ends of what was accepted at each member; false: one of them failed. */
static bool finish(struct life *life, bool a, bool b)
{
    struct member *m = life->members;
    long long limit = now_ms() + LIMIT_MS;

    m[0].over = !a;
    m[1].over = !b;
    m[0].failed = m[1].failed = false;
    while (!m[0].over || !m[1].over) {
        look(&m[0]);
        look(&m[1]);
        if (now_ms() > limit)
            fail_msg("what was accepted does not end");
    }
    return a && b && !m[0].failed && !m[1].failed;
}

static bool join(struct life *life)
{
    bool accepted[2];
    fi_addr_t addr;

    fi_av_set_addr(life->set, &addr);
    for (int i = 0; i < 2; i++) {
        struct member *m = &life->members[i];

        accepted[i] = !fi_join_collective(m->ep, addr, life->set, 0, &m->mc, NULL);
    }
    /* A member that could not join leaves the other waiting for it, until it closes. */
    return accepted[0] && accepted[1] && finish(life, true, true);
}

static ssize_t post(struct life *life, struct member *m, int which)
{
    fi_addr_t group = fi_mc_addr(m->mc), root = life->members[0].addr;
    ssize_t rc = -FI_EAGAIN;

    for (int tries = 0; tries < 100 && rc == -FI_EAGAIN; tries++) {
        switch (which) {
        case 0: rc = fi_barrier(m->ep, group, NULL); break;
        case 1:
            rc = fi_allreduce(m->ep, m->in, COUNT, NULL, m->out, NULL, group, FI_INT32, FI_SUM, 0,
                              NULL);
            break;
        case 2:
            rc = fi_reduce(m->ep, m->in, COUNT, NULL, m->out, NULL, group, root, FI_INT32, FI_MAX,
                           0, NULL);
            break;
        default:
            rc = fi_allgather(m->ep, m->in, COUNT, NULL, m->out, NULL, group, FI_INT32, 0, NULL);
            break;
        }
        look(&life->members[0]);
        look(&life->members[1]);
    }
    return rc;
}

static bool collect(struct life *life)
{
    for (int which = 0; which < 4; which++) {
        struct member *m = life->members;
        bool first;

        m[0].over = m[1].over = false;
        m[0].failed = m[1].failed = false;
        first = !post(life, &m[0], which);
        if (!first || post(life, &m[1], which))
            return false;
        if (!m[0].over || !m[1].over)
            if (!finish(life, !m[0].over, !m[1].over) && (m[0].failed || m[1].failed))
                return false;
        if (m[0].failed || m[1].failed)
            return false;
    }
    return true;
}

static void close_fid(struct fid *fid)
{
    if (fid)
        assert_int_equal(fi_close(fid), 0);
}

static void close_life(struct life *life)
{
    for (int i = 0; i < 2; i++) {
        struct member *m = &life->members[i];

        close_fid(m->mc ? &m->mc->fid : NULL);
        close_fid(m->ep ? &m->ep->fid : NULL);
        close_fid(m->cq ? &m->cq->fid : NULL);
        close_fid(m->eq ? &m->eq->fid : NULL);
    }
    close_fid(life->set ? &life->set->fid : NULL);
    close_fid(life->av ? &life->av->fid : NULL);
    close_fid(life->domain ? &life->domain->fid : NULL);
    close_fid(life->fabric ? &life->fabric->fid : NULL);
}

static bool live(struct fi_info *info)
{
    struct fi_av_set_attr set = {
        .start_addr = FI_ADDR_NOTAVAIL, .end_addr = FI_ADDR_NOTAVAIL, .flags = FI_UNIVERSE};
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    struct life life = {NULL};
    bool done = false;
    int rc = fi_fabric(info->fabric_attr, &life.fabric, NULL);

    if (!rc)
        rc = fi_domain(life.fabric, info, &life.domain, NULL);
    if (!rc)
        rc = fi_av_open(life.domain, &av, &life.av, NULL);
    for (int i = 0; !rc && i < 2; i++)
        rc = open_member(&life, info, &life.members[i]);
    if (!rc)
        rc = fi_av_set(life.av, &set, &life.set, NULL);
    if (!rc)
        done = join(&life) && collect(&life);
    close_life(&life);
    return done;
}

static struct fi_info *get_info(void)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;

    hints->caps = FI_TAGGED | FI_COLLECTIVE;
    hints->ep_attr->type = FI_EP_RDM;
    setenv("FI_PROVIDER", "loop", 1);
    assert_int_equal(fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &info), 0);
    fi_freeinfo(hints);
    free(info->src_addr);
    info->src_addr = NULL;
    info->src_addrlen = 0;
    return info;
}

static void every_allocation_may_fail(void **state)
{
    struct fi_info *info = get_info();
    long before, failed = 0;
    int n = 0;

    assert_true(live(info)); /* what is made once is made */
    before = nomem_live;
    do {
        nomem_at = ++n;
        if (!live(info))
            failed++;
        if (nomem_live > before)
            fail_msg("allocation %d: %ld left behind", n, nomem_live - before);
    } while (!nomem_at && n < 5000);
    nomem_at = 0;
    print_message("%d allocations, %ld lives failed\n", n, failed);
    assert_in_range(n, 50, 4999);
    assert_in_range(failed, 10, n);
    fi_freeinfo(info);
}
#endif

int main(void)
{
#if NOMEM_WORKS
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests_name("coll_nomem", tests, NULL, NULL);
#else
    return 77;
#endif
}
