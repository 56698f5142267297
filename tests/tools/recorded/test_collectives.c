/* SPDX-License-Identifier: BSD-2-Clause */
/* Collectives of several processes under trace, and fi_trace and fi_replay over what they did. */
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "said.h"

enum {
    MEMBERS = 4,
    COUNT = 5, /* elements */
    SPINS = 400000
};

static char dir[] = "/tmp/weft-collectives.XXXXXX";

/* ---- The program that is recorded: no assertions of cmocka in its processes ---- */

struct shared {
    atomic_int met[4];
    size_t len;
    char names[MEMBERS][256];
};

struct member {
    struct shared *shared;
    int rank, size;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_eq *eq;
    struct fid_ep *ep;
    fi_addr_t addrs[MEMBERS];
    int64_t in[MEMBERS * COUNT], out[MEMBERS * COUNT];
    struct fi_context2 context;
};

static void must(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "%s\n", what);
    _exit(1);
}

#define MUST(condition) must(condition, #condition)

static void meet(struct member *member, int point)
{
    atomic_fetch_add(&member->shared->met[point], 1);
    for (int spins = 0; atomic_load(&member->shared->met[point]) < member->size; spins++) {
        MUST(spins < SPINS);
        usleep(100);
    }
}

static void open_endpoint(struct member *it)
{
    MUST(!fi_endpoint(it->domain, it->info, &it->ep, NULL));
    MUST(!fi_ep_bind(it->ep, &it->cq->fid, FI_TRANSMIT | FI_RECV));
    MUST(!fi_ep_bind(it->ep, &it->av->fid, 0));
    MUST(!fi_ep_bind(it->ep, &it->eq->fid, 0));
    MUST(!fi_enable(it->ep));
}

static void open_member(struct member *it, const char *stack)
{
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .size = 64};
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    struct fi_eq_attr eq = {.wait_obj = FI_WAIT_NONE};
    struct fi_info *hints = fi_allocinfo();
    char spec[256];

    snprintf(spec, sizeof(spec), "trace(file=%s/trace.%d);%s", dir, it->rank, stack);
    hints->caps = FI_TAGGED | FI_COLLECTIVE;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = strdup(spec);
    MUST(!fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &it->info));
    fi_freeinfo(hints);
    MUST(!fi_fabric(it->info->fabric_attr, &it->fabric, NULL));
    MUST(!fi_domain(it->fabric, it->info, &it->domain, NULL));
    MUST(!fi_cq_open(it->domain, &cq, &it->cq, NULL));
    MUST(!fi_av_open(it->domain, &av, &it->av, NULL));
    MUST(!fi_eq_open(it->fabric, &eq, &it->eq, NULL));
    open_endpoint(it);
}

/* Everybody inserts itself first: numbers differ between the processes. */
static void insert_names(struct member *it)
{
    size_t len = sizeof(it->shared->names[0]);

    MUST(!fi_getname(&it->ep->fid, it->shared->names[it->rank], &len));
    meet(it, 0);
    for (int i = 0; i < it->size; i++) {
        int who = (it->rank + i) % it->size;

        MUST(fi_av_insert(it->av, it->shared->names[who], 1, &it->addrs[who], 0, NULL) == 1);
    }
}

static void close_member(struct member *it)
{
    fi_close(&it->ep->fid);
    fi_close(&it->eq->fid);
    fi_close(&it->av->fid);
    fi_close(&it->cq->fid);
    fi_close(&it->domain->fid);
    fi_close(&it->fabric->fid);
    fi_freeinfo(it->info);
}

static void complete(struct member *it, ssize_t rc, int count)
{
    struct fi_cq_tagged_entry entry;

    MUST(rc == 0);
    for (int spins = 0; count; spins++) {
        rc = fi_cq_read(it->cq, &entry, 1);
        MUST(rc == 1 || rc == -FI_EAGAIN);
        MUST(spins < SPINS);
        count -= rc == 1;
        if (rc < 0)
            usleep(50);
    }
}

/* Of every step-th process, from the highest down. */
static struct fid_mc *begin_join(struct member *it, int step)
{
    struct fi_av_set_attr attr = {.start_addr = FI_ADDR_NOTAVAIL, .end_addr = FI_ADDR_NOTAVAIL};
    struct fid_av_set *set;
    struct fid_mc *group;
    fi_addr_t addr;

    MUST(!fi_av_set(it->av, &attr, &set, NULL));
    for (int i = it->size; i--;)
        MUST(i % step || !fi_av_set_insert(set, it->addrs[i]));
    MUST(!fi_av_set_addr(set, &addr));
    MUST(!fi_join_collective(it->ep, addr, set, 0, &group, &it->context));
    MUST(!fi_close(&set->fid));
    return group;
}

static void end_join(struct member *it)
{
    struct fi_eq_entry entry;
    uint32_t event = 0;

    for (int spins = 0; event != FI_JOIN_COMPLETE; spins++) {
        ssize_t rc = fi_eq_read(it->eq, &event, &entry, sizeof(entry), 0);

        MUST(rc > 0 || rc == -FI_EAGAIN);
        MUST(spins < SPINS);
        if (rc < 0)
            usleep(50);
    }
}

static struct fid_mc *join(struct member *it, int step)
{
    struct fid_mc *group = begin_join(it, step);

    end_join(it);
    return group;
}

static void do_all(struct member *it, fi_addr_t group, int root)
{
    const fi_addr_t to = it->addrs[root];
    int64_t *out = it->rank == root ? it->out : NULL, *in = it->rank == root ? it->in : NULL;
    struct fi_ioc iov = {it->in, COUNT}, result = {it->out, COUNT};
    struct fi_msg_collective msg = {.msg_iov = &iov,
                                    .iov_count = 1,
                                    .coll_addr = group,
                                    .coll = FI_ALLREDUCE,
                                    .datatype = FI_INT64,
                                    .op = FI_MAX,
                                    .context = &it->context};

    complete(it, fi_barrier(it->ep, group, &it->context), 1);
    complete(it, fi_broadcast(it->ep, it->in, COUNT, NULL, group, to, FI_INT64, 0, &it->context),
             1);
    complete(
        it,
        fi_alltoall(it->ep, it->in, COUNT, NULL, it->out, NULL, group, FI_INT64, 0, &it->context),
        1);
    complete(it,
             fi_allreduce(it->ep, it->in, COUNT, NULL, it->out, NULL, group, FI_INT64, FI_SUM, 0,
                          &it->context),
             1);
    complete(
        it,
        fi_allgather(it->ep, it->in, COUNT, NULL, it->out, NULL, group, FI_INT64, 0, &it->context),
        1);
    complete(it,
             fi_reduce_scatter(it->ep, it->in, COUNT, NULL, it->out, NULL, group, FI_INT64, FI_SUM,
                               0, &it->context),
             1);
    complete(it,
             fi_reduce(it->ep, it->in, COUNT, NULL, out, NULL, group, to, FI_INT64, FI_SUM, 0,
                       &it->context),
             1);
    complete(
        it,
        fi_scatter(it->ep, in, COUNT, NULL, it->out, NULL, group, to, FI_INT64, 0, &it->context),
        1);
    complete(
        it, fi_gather(it->ep, it->in, COUNT, NULL, out, NULL, group, to, FI_INT64, 0, &it->context),
        1);
    complete(it, it->ep->collective->msg(it->ep, &msg, &result, NULL, 1, 0), 1);
}

/* Between the first and the third, who call each other by different numbers. */
static void exchange(struct member *it)
{
    static struct fi_context2 contexts[2];
    const fi_addr_t to = it->addrs[(it->rank + 2) % it->size];

    MUST(!fi_trecv(it->ep, it->out, 8, NULL, FI_ADDR_UNSPEC, 7, 0, &contexts[0]));
    complete(it, fi_tsend(it->ep, it->in, 8, NULL, to, 7, &contexts[1]), 2);
}

/* All, the even ones, and all again; the last barrier is the first process's alone with `uneven`,
 * which cancels it by closing the group. */
static void be_member(struct shared *shared, int rank, int size, bool uneven)
{
    static struct member it;
    struct fid_mc *all, *even = NULL, *again;

    it.shared = shared;
    it.rank = rank;
    it.size = size;
    open_member(&it, "coll;tcp");
    insert_names(&it);
    all = join(&it, 1);
    do_all(&it, fi_mc_addr(all), 1);
    if (size > 1 && rank % 2 == 0) {
        even = join(&it, 2);
        do_all(&it, fi_mc_addr(even), size > 2 ? 2 : 0);
        exchange(&it);
    }
    again = join(&it, 1);
    complete(&it, fi_barrier(it.ep, fi_mc_addr(again), &it.context), 1);
    meet(&it, 1);
    if (uneven && !rank)
        MUST(!fi_barrier(it.ep, fi_mc_addr(again), &it.context));
    meet(&it, 2);
    fi_close(&again->fid);
    if (even)
        fi_close(&even->fid);
    fi_close(&all->fid);
    meet(&it, 3);
    close_member(&it);
}

/* Two endpoints of one domain, and a group of both. */
static void be_two_members(void)
{
    static struct member it[2];
    struct fid_mc *groups[2];

    it[0].size = 2;
    open_member(&it[0], "coll;loop");
    it[1] = it[0];
    free(it[1].info->src_addr);
    it[1].info->src_addr = NULL;
    it[1].info->src_addrlen = 0;
    open_endpoint(&it[1]);
    for (int i = 0; i < 2; i++) {
        char name[256];
        size_t len = sizeof(name);

        MUST(!fi_getname(&it[i].ep->fid, name, &len));
        MUST(fi_av_insert(it->av, name, 1, &it[0].addrs[i], 0, NULL) == 1);
        it[1].addrs[i] = it[0].addrs[i];
    }
    for (int i = 0; i < 2; i++)
        groups[i] = begin_join(&it[i], 1);
    for (int i = 0; i < 2; i++)
        end_join(&it[i]);
    for (int i = 0; i < 2; i++)
        MUST(!fi_allgather(it[i].ep, it[i].in, COUNT, NULL, it[i].out, NULL, fi_mc_addr(groups[i]),
                           FI_INT64, 0, &it[i].context));
    complete(&it[0], 0, 2);
    for (int i = 0; i < 2; i++)
        fi_close(&groups[i]->fid);
    fi_close(&it[1].ep->fid);
    close_member(&it[0]);
}

static void record(int size, bool uneven)
{
    struct shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pids[MEMBERS];
    int status;

    assert_true(shared != MAP_FAILED);
    for (int i = 0; i < size; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (!pids[i]) {
            be_member(shared, i, size, uneven);
            _exit(0);
        }
    }
    for (int i = 0; i < size; i++) {
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    munmap(shared, sizeof(*shared));
}

/* ---- What the tools make of it ---- */

/* Eleven collectives of four processes, ten and a message each of two of them. */
static void collectives_are_done_again(void **state)
{
    static const char *const others[] = {"broadcast", "alltoall", "allgather", "reduce_scatter",
                                         "reduce",    "scatter",  "gather"};
    char line[128];

    record(MEMBERS, false);
    assert_int_equal(run(dir, "fi_replay", "-t 60 -s 'coll;tcp' -s 'tcp' trace.*"), 0);
    must_say("4 processes, 68 operations");
    must_say("\nbarrier  coll;tcp                                   10 ");
    must_say("\nallreduce coll;tcp                                  12 ");
    for (int i = 0; i < 7; i++) {
        snprintf(line, sizeof(line), "\n%-8s ", others[i]);
        must_say(line);
    }
    must_say("\nsend     coll;tcp                                    2 ");
    must_not_say("left out");
    must_not_say("other lengths");
}

static void they_are_done_again_over_shm(void **state)
{
    if (run(dir, "fi_info", "-p shm")) {
        print_message("there is no shm here\n");
        return;
    }
    assert_int_equal(run(dir, "fi_replay", "-t 60 -p -s 'coll;shm' trace.*"), 0);
    must_say("4 processes, 68 operations");
    must_not_say("left out");
}

/* The groups of all have members that are not there, that of the even ones has not. */
static void groups_without_a_member_are_left_out(void **state)
{
    assert_int_equal(run(dir, "fi_replay", "-t 60 -s 'coll;tcp' trace.0 trace.2"), 0);
    must_say("2 processes, 24 operations");
    must_say("\nallgather coll;tcp                                   2 ");
    must_say(
        "trace.0: left out: 11 collectives: of groups with members whose traces are not given");
    must_say(
        "trace.2: left out: 11 collectives: of groups with members whose traces are not given");
    assert_int_not_equal(run(dir, "fi_replay", "-t 60 -s 'coll;tcp' trace.0 trace.1 trace.2"), 0);
    must_say("trace.1: none of its operations can be replayed (collectives: of groups with members "
             "whose traces are not given)");
}

static void fi_trace_shows_groups(void **state)
{
    assert_int_equal(run(dir, "fi_trace", "--text trace.1"), 0);
    must_say("fi_av_set_insert(addr 0x0) = 0");
    must_say("event(FI_JOIN_COMPLETE, mc ");
    must_say(", member 2 of 4: 2 1 0 3)");
    must_say("fi_barrier(group 0x");
    must_say("fi_scatter(group 0x");
    must_say(", FI_INT64, root 0, context 0x");
    must_say(", FI_SUM of FI_INT64, context 0x");
    must_say("fi_collective_msg(allreduce, group 0x");
    assert_int_equal(run(dir, "fi_trace", "--csv trace.1"), 0);
    must_say(",key,elements,members\n");
    must_say(",2 1 0 3\n");
    assert_int_equal(run(dir, "fi_trace", "--json trace.1"), 0);
    must_say("\"members\":[2,1,0,3]");
    must_say("\"root\":0,\"datatype\":6,\"op\":");
}

/* The version of a file stands behind its magic. */
static void older_files_have_no_groups(void **state)
{
    const uint32_t version = 2;
    char name[128];

    for (int i = 0; i < MEMBERS; i++) {
        FILE *it;

        snprintf(name, sizeof(name), "%s/trace.%d", dir, i);
        it = fopen(name, "r+");
        assert_non_null(it);
        assert_int_equal(fseek(it, 8, SEEK_SET), 0);
        assert_int_equal(fwrite(&version, sizeof(version), 1, it), 1);
        fclose(it);
    }
    assert_int_equal(run(dir, "fi_replay", "-t 60 -s tcp trace.0 trace.2"), 0);
    must_say("2 processes, 4 operations");
    must_say("left out: 21 collectives: traces before version 3 lack groups");
    assert_int_equal(run(dir, "fi_trace", "--text trace.1"), 0);
    must_say("event(FI_JOIN_COMPLETE)");
}

static void what_one_member_called_alone_is_left_out(void **state)
{
    record(2, true);
    assert_int_equal(run(dir, "fi_replay", "-t 60 -s 'coll;tcp' trace.0 trace.1"), 0);
    must_say("trace.0: left out: 1 collectives: not all members have done the same");
    must_not_say("trace.1: left out");
}

static void endpoints_of_one_process_are_members(void **state)
{
    pid_t pid = fork();
    int status;

    if (!pid) {
        be_two_members();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(run(dir, "fi_replay", "-t 60 -s 'coll;loop' -s 'coll;tcp' trace.0"), 0);
    must_say("1 process, 2 operations");
    must_say("\nallgather coll;loop                                  2 ");
    must_not_say("left out");
}

static int setup(void **state)
{
    assert_non_null(mkdtemp(dir));
    return 0;
}

static int teardown(void **state)
{
    char pattern[128];
    glob_t found;

    snprintf(pattern, sizeof(pattern), "%s/*", dir);
    if (!glob(pattern, 0, NULL, &found)) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            unlink(found.gl_pathv[i]);
        globfree(&found);
    }
    rmdir(dir);
    return 0;
}

/* Each looks at the files of the one before. */
int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(collectives_are_done_again),
        cmocka_unit_test(they_are_done_again_over_shm),
        cmocka_unit_test(groups_without_a_member_are_left_out),
        cmocka_unit_test(fi_trace_shows_groups),
        cmocka_unit_test(older_files_have_no_groups),
        cmocka_unit_test(what_one_member_called_alone_is_left_out),
        cmocka_unit_test(endpoints_of_one_process_are_members),
    };

    return tools_are_built() ? cmocka_run_group_tests(tests, setup, teardown) : 77;
}
