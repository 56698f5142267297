/* SPDX-License-Identifier: BSD-2-Clause */
/* Groups of processes of which one dies: the collectives of the others end, in error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_errno.h>

enum {
    MEMBERS = 4,
    ADDRESS_MAX = 128,
    SECONDS = 600
};

struct member {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_eq *eq;
    struct fid_av *av;
    struct fid_av_set *set;
    struct fid_mc *mc;
    fi_addr_t addrs[MEMBERS];
};

/* In a child a failure is its exit status, the line of it. */
#define CHECK(ok)                                                                                  \
    do {                                                                                           \
        if (!(ok))                                                                                 \
            _exit(__LINE__ % 200 + 10);                                                            \
    } while (0)

static void open_member(struct member *m)
{
    struct fi_info *hints = fi_allocinfo();
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_FD};
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    struct fi_eq_attr eq = {.wait_obj = FI_WAIT_NONE};

    CHECK(hints);
    hints->caps = FI_TAGGED | FI_COLLECTIVE;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    CHECK(!fi_getinfo(FI_VERSION(1, 15), "127.0.0.1", NULL, FI_SOURCE, hints, &m->info));
    fi_freeinfo(hints);
    CHECK(!fi_fabric(m->info->fabric_attr, &m->fabric, NULL));
    CHECK(!fi_domain(m->fabric, m->info, &m->domain, NULL));
    CHECK(!fi_endpoint(m->domain, m->info, &m->ep, NULL));
    CHECK(!fi_cq_open(m->domain, &cq, &m->cq, NULL));
    CHECK(!fi_eq_open(m->fabric, &eq, &m->eq, NULL));
    CHECK(!fi_av_open(m->domain, &av, &m->av, NULL));
    CHECK(!fi_ep_bind(m->ep, &m->cq->fid, FI_TRANSMIT | FI_RECV));
    CHECK(!fi_ep_bind(m->ep, &m->eq->fid, 0));
    CHECK(!fi_ep_bind(m->ep, &m->av->fid, 0));
    CHECK(!fi_enable(m->ep));
}

/* Tells the parent its address, and is told those of all. */
static void introduce(struct member *m, int to_parent, int from_parent)
{
    struct fi_av_set_attr attr = {
        .start_addr = FI_ADDR_NOTAVAIL, .end_addr = FI_ADDR_NOTAVAIL, .flags = FI_UNIVERSE};
    char address[ADDRESS_MAX] = "", all[MEMBERS][ADDRESS_MAX];
    size_t len = sizeof(address), got = 0;

    CHECK(!fi_getname(&m->ep->fid, address, &len));
    CHECK(write(to_parent, address, sizeof(address)) == sizeof(address));
    while (got < sizeof(all)) {
        ssize_t n = read(from_parent, (char *)all + got, sizeof(all) - got);

        CHECK(n > 0);
        got += (size_t)n;
    }
    for (int i = 0; i < MEMBERS; i++)
        CHECK(fi_av_insert(m->av, all[i], 1, &m->addrs[i], 0, NULL) == 1);
    CHECK(!fi_av_set(m->av, &attr, &m->set, NULL));
}

static int join(struct member *m)
{
    struct fi_eq_err_entry error = {0};
    struct fi_eq_entry entry;
    fi_addr_t addr;
    uint32_t event;
    ssize_t n;

    CHECK(!fi_av_set_addr(m->set, &addr));
    CHECK(!fi_join_collective(m->ep, addr, m->set, 0, &m->mc, m));
    while ((n = fi_eq_sread(m->eq, &event, &entry, sizeof(entry), 1000, 0)) == -FI_EAGAIN)
        continue;
    if (n == -FI_EAVAIL) {
        CHECK(fi_eq_readerr(m->eq, &error, 0) > 0);
        CHECK(error.fid == &m->mc->fid && error.context == m);
        return error.err;
    }
    CHECK(n == sizeof(entry) && event == FI_JOIN_COMPLETE && entry.fid == &m->mc->fid);
    return 0;
}

/* The error of a barrier, waiting asleep. */
static int barrier(struct member *m)
{
    struct fi_cq_err_entry error = {0};
    struct fi_cq_tagged_entry entry;
    ssize_t n = fi_barrier(m->ep, fi_mc_addr(m->mc), m);

    if (n == -FI_ECONNABORTED)
        return FI_ECONNABORTED;
    CHECK(!n);
    while ((n = fi_cq_sread(m->cq, &entry, 1, NULL, 1000)) == -FI_EAGAIN)
        continue;
    if (n == 1)
        return 0;
    CHECK(n == -FI_EAVAIL && fi_cq_readerr(m->cq, &error, 0) == 1 && error.op_context == m);
    return error.err;
}

static void close_member(struct member *m)
{
    CHECK(!fi_close(&m->mc->fid));
    CHECK(!fi_close(&m->set->fid));
    CHECK(!fi_close(&m->ep->fid));
    CHECK(!fi_close(&m->cq->fid));
    CHECK(!fi_close(&m->eq->fid));
    CHECK(!fi_close(&m->av->fid));
    CHECK(!fi_close(&m->domain->fid));
    CHECK(!fi_close(&m->fabric->fid));
    fi_freeinfo(m->info);
}

/* The last member dies before the join, or between two barriers. */
static void be(int rank, bool early, int to_parent, int from_parent)
{
    struct member m = {0};
    int err;

    alarm(SECONDS);
    open_member(&m);
    introduce(&m, to_parent, from_parent);
    if (early && rank == MEMBERS - 1)
        raise(SIGKILL);
    err = join(&m);
    CHECK(!err == !early);
    if (!early) {
        CHECK(barrier(&m) == 0);
        if (rank == MEMBERS - 1)
            raise(SIGKILL);
        CHECK(barrier(&m) != 0);
        CHECK(barrier(&m) == FI_ECONNABORTED);
    }
    close_member(&m);
    _exit(0);
}

static void run(bool early)
{
    int up[MEMBERS][2], down[MEMBERS][2], status;
    char all[MEMBERS][ADDRESS_MAX];
    pid_t pids[MEMBERS];

    for (int i = 0; i < MEMBERS; i++) {
        assert_int_equal(pipe(up[i]), 0);
        assert_int_equal(pipe(down[i]), 0);
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (!pids[i])
            be(i, early, up[i][1], down[i][0]);
        close(up[i][1]);
    }
    for (int i = 0; i < MEMBERS; i++)
        assert_int_equal(read(up[i][0], all[i], ADDRESS_MAX), ADDRESS_MAX);
    for (int i = 0; i < MEMBERS; i++)
        assert_int_equal(write(down[i][1], all, sizeof(all)), sizeof(all));
    for (int i = 0; i < MEMBERS; i++) {
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        if (i == MEMBERS - 1)
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        else if (!WIFEXITED(status) || WEXITSTATUS(status))
            fail_msg("member %d: status %x", i, (unsigned)status);
        close(up[i][0]);
        close(down[i][0]);
        close(down[i][1]);
    }
}

static void others_of_a_barrier_are_told(void **state)
{
    run(false);
}

static void others_of_a_join_are_told(void **state)
{
    run(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(others_of_a_barrier_are_told),
        cmocka_unit_test(others_of_a_join_are_told),
    };

    setenv("FI_PROVIDER", "rxm(tags=pass,unreachable_timeout=1s);tcp", 1);
    return cmocka_run_group_tests_name("coll_death", tests, NULL, NULL);
}
