/* SPDX-License-Identifier: BSD-2-Clause */
/* Collectives: groups of endpoints of one process. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_collective.h>

#include "conf.h"

enum {
    MEMBERS_MAX = 9,
    BYTES_MAX = 4 << 20,
};

struct member {
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_eq *eq;
    struct fid_cntr *written, *messages;
    struct fid_av_set *set;
    struct fid_mc *mc;
    size_t done;
    int err;
    bool joined;
};

struct team {
    struct conf_fabric home;
    struct fid_av *av;
    fi_addr_t addrs[MEMBERS_MAX];
    struct member members[MEMBERS_MAX];
    int count;
    int64_t *buffers; /* two of size bytes, for run_kind */
    size_t size;
};

static void open_member(struct team *team, int i)
{
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE, .size = 1024};
    struct fi_cntr_attr cntr = {.events = FI_CNTR_EVENTS_COMP};
    struct fi_eq_attr eq = {.wait_obj = FI_WAIT_NONE};
    struct member *m = &team->members[i];
    char address[256];
    size_t len = sizeof address;

    must("fi_endpoint", fi_endpoint(team->home.domain, team->home.info, &m->ep, NULL));
    must("fi_cq_open", fi_cq_open(team->home.domain, &cq, &m->cq, NULL));
    must("fi_cntr_open", fi_cntr_open(team->home.domain, &cntr, &m->written, NULL));
    must("fi_eq_open", fi_eq_open(team->home.fabric, &eq, &m->eq, NULL));
    must("bind cq", fi_ep_bind(m->ep, &m->cq->fid, FI_TRANSMIT | FI_RECV));
    must("fi_cntr_open", fi_cntr_open(team->home.domain, &cntr, &m->messages, NULL));
    must("bind cntr", fi_ep_bind(m->ep, &m->written->fid, FI_WRITE));
    must("bind cntr", fi_ep_bind(m->ep, &m->messages->fid, FI_SEND | FI_RECV));
    must("bind eq", fi_ep_bind(m->ep, &m->eq->fid, 0));
    must("bind av", fi_ep_bind(m->ep, &team->av->fid, 0));
    must("fi_enable", fi_enable(m->ep));
    must("fi_getname", fi_getname(&m->ep->fid, address, &len));
    conf_check(fi_av_insert(team->av, address, 1, &team->addrs[i], 0, NULL) == 1, "fi_av_insert");
}

static struct team *team_open(int count, enum fi_progress progress)
{
    struct conf_want want = {.caps = FI_MSG | FI_TAGGED | FI_COLLECTIVE,
                             .threading = progress == FI_PROGRESS_AUTO ? FI_THREAD_SAFE : 0,
                             .progress = progress};
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    struct team *team;

    conf_need("collectives");
    team = calloc(1, sizeof *team);
    conf_check(team != NULL, "no memory");
    conf_fabric_open(&team->home, &want);
    conf_check(team->home.info->caps & FI_COLLECTIVE, "granted");
    must("fi_av_open", fi_av_open(team->home.domain, &av, &team->av, NULL));
    team->count = count;
    for (int i = 0; i < count; i++)
        open_member(team, i);
    return team;
}

static void drive(struct team *team)
{
    for (int i = 0; i < team->count; i++) {
        struct member *m = &team->members[i];
        struct fi_cq_tagged_entry entry;
        struct fi_cq_err_entry error = {0};
        ssize_t n;

        if (!m->cq)
            continue;
        n = fi_cq_read(m->cq, &entry, 1);
        if (n == 1) {
            conf_check(entry.flags & FI_COLLECTIVE, "flags %llx", (unsigned long long)entry.flags);
            conf_check(entry.op_context == m, "context");
            m->done++;
        } else if (n == -FI_EAVAIL) {
            conf_check(fi_cq_readerr(m->cq, &error, 0) == 1, "fi_cq_readerr");
            conf_check(error.op_context == m, "context of an error");
            m->err = error.err;
            m->done++;
        } else {
            conf_check(n == -FI_EAGAIN, "fi_cq_read: %zd", n);
        }
    }
}

static void wait_done(struct team *team, size_t each)
{
    long long deadline = conf_now_ms() + CONF_TIMEOUT_MS;
    bool all = false;

    while (!all) {
        all = true;
        drive(team);
        for (int i = 0; i < team->count; i++)
            all = all && (!team->members[i].ep || team->members[i].done >= each);
        conf_check(conf_now_ms() < deadline, "collectives do not end");
    }
    for (int i = 0; i < team->count; i++) {
        conf_check(!team->members[i].ep || team->members[i].done == each, "member %d: %zu of %zu",
                   i, team->members[i].done, each);
        team->members[i].done = 0;
    }
}

static struct fid_av_set *universe(struct team *team)
{
    struct fi_av_set_attr attr = {
        .start_addr = FI_ADDR_NOTAVAIL, .end_addr = FI_ADDR_NOTAVAIL, .flags = FI_UNIVERSE};
    struct fid_av_set *set;

    must("fi_av_set", fi_av_set(team->av, &attr, &set, NULL));
    return set;
}

/* Reads queues until so many joins have ended; the error of the last that failed. The context of
 * each is where its mc is. */
static int wait_joins(struct team *team, int left)
{
    long long deadline = conf_now_ms() + CONF_TIMEOUT_MS;
    int err = 0;

    while (left) {
        for (int i = 0; i < team->count; i++) {
            struct fi_eq_entry entry;
            struct fi_eq_err_entry error = {0};
            uint32_t event;
            ssize_t n = fi_eq_read(team->members[i].eq, &event, &entry, sizeof entry, 0);

            if (n == -FI_EAVAIL) {
                must("fi_eq_readerr", fi_eq_readerr(team->members[i].eq, &error, 0));
                conf_check(error.fid == &(*(struct fid_mc **)error.context)->fid, "fid");
                err = error.err;
                left--;
            } else if (n != -FI_EAGAIN) {
                must("fi_eq_read", n);
                conf_check(event == FI_JOIN_COMPLETE &&
                               entry.fid == &(*(struct fid_mc **)entry.context)->fid,
                           "event %u", event);
                left--;
            }
        }
        conf_check(conf_now_ms() < deadline, "joins do not end");
    }
    return err;
}

static void join_all(struct team *team, struct fid_av_set *set, struct fid_mc **mcs)
{
    fi_addr_t addr;

    must("fi_av_set_addr", fi_av_set_addr(set, &addr));
    for (int i = 0; i < team->count; i++)
        must("fi_join_collective",
             fi_join_collective(team->members[i].ep, addr, set, 0, &mcs[i], &mcs[i]));
    conf_check(wait_joins(team, team->count) == 0, "a join failed");
}

static void close_all(struct team *team, struct fid_mc **mcs)
{
    for (int i = 0; i < team->count; i++)
        must("fi_close(mc)", fi_close(&mcs[i]->fid));
}

static void close_member(struct member *m)
{
    must("fi_close(ep)", fi_close(&m->ep->fid));
    must("fi_close(cq)", fi_close(&m->cq->fid));
    must("fi_close(cntr)", fi_close(&m->written->fid));
    must("fi_close(cntr)", fi_close(&m->messages->fid));
    must("fi_close(eq)", fi_close(&m->eq->fid));
    m->ep = NULL;
    m->cq = NULL;
}

/* The last packets between members are acknowledged while all members are open: a closing member
 * waits for the acknowledgements, and no thread drives the others meanwhile. */
static void settle(struct team *team)
{
    for (long long end = conf_now_ms() + 30; conf_now_ms() < end;)
        drive(team);
}

static void team_close(struct team *team)
{
    settle(team);
    for (int i = 0; i < team->count; i++)
        if (team->members[i].ep)
            close_member(&team->members[i]);
    must("fi_close(av)", fi_close(&team->av->fid));
    conf_fabric_close(&team->home);
    free(team->buffers);
    free(team);
}

/* Tries again as long as it is told to. */
#define POST(team, call)                                                                           \
    do {                                                                                           \
        ssize_t rc_;                                                                               \
        while ((rc_ = (call)) == -FI_EAGAIN)                                                       \
            drive(team);                                                                           \
        conf_check(rc_ == 0, "%s: %s", #call, fi_strerror((int)-rc_));                             \
    } while (0)

static int64_t value(int rank, size_t i)
{
    return (int64_t)((rank + 1) * 1000) + (int64_t)(i % 977);
}

static int64_t total(int size, size_t i)
{
    int64_t sum = 0;

    for (int rank = 0; rank < size; rank++)
        sum += value(rank, i);
    return sum;
}

/* Posts one member's part of a collective, with its buffers. */
static void post_kind(struct team *team, fi_addr_t group, enum fi_collective_op kind, size_t count,
                      int rank, int root, int64_t *from, int64_t *to)
{
    struct member *m = &team->members[rank];
    struct fid_ep *ep = m->ep;
    fi_addr_t at = team->addrs[root];

    switch (kind) {
    case FI_BARRIER: POST(team, fi_barrier(ep, group, m)); break;
    case FI_BROADCAST:
        POST(team, fi_broadcast(ep, from, count, NULL, group, at, FI_INT64, 0, m));
        break;
    case FI_ALLTOALL:
        POST(team, fi_alltoall(ep, from, count, NULL, to, NULL, group, FI_INT64, 0, m));
        break;
    case FI_ALLREDUCE:
        POST(team, fi_allreduce(ep, from, count, NULL, to, NULL, group, FI_INT64, FI_SUM, 0, m));
        break;
    case FI_ALLGATHER:
        POST(team, fi_allgather(ep, from, count, NULL, to, NULL, group, FI_INT64, 0, m));
        break;
    case FI_REDUCE_SCATTER:
        POST(team,
             fi_reduce_scatter(ep, from, count, NULL, to, NULL, group, FI_INT64, FI_SUM, 0, m));
        break;
    case FI_REDUCE:
        POST(team, fi_reduce(ep, from, count, NULL, to, NULL, group, at, FI_INT64, FI_SUM, 0, m));
        break;
    case FI_SCATTER:
        POST(team, fi_scatter(ep, from, count, NULL, to, NULL, group, at, FI_INT64, 0, m));
        break;
    case FI_GATHER:
        POST(team, fi_gather(ep, from, count, NULL, to, NULL, group, at, FI_INT64, 0, m));
        break;
    }
}

/* Is element k of the result (of a broadcast: of the one buffer) of that member right? */
static bool is_right(enum fi_collective_op kind, int n, size_t count, int rank, int root, size_t k,
                     int64_t got)
{
    int block = (int)(k / (count ? count : 1));
    size_t rest = k % (count ? count : 1);

    switch (kind) {
    case FI_BROADCAST: return k >= count || got == value(root, k);
    case FI_ALLTOALL: return got == value(block, (size_t)rank * count + rest);
    case FI_ALLREDUCE: return k >= count || got == total(n, k);
    case FI_ALLGATHER: return got == value(block, rest);
    case FI_REDUCE_SCATTER: return k >= count || got == total(n, (size_t)rank * count + k);
    case FI_REDUCE: return rank != root || k >= count || got == total(n, k);
    case FI_SCATTER: return k >= count || got == value(root, (size_t)rank * count + k);
    case FI_GATHER: return rank != root || got == value(block, rest);
    default: return true;
    }
}

/* Two of size bytes. They are kept: new pages for each collective are most of what it takes under
 * the sanitizer of threads, which has as many again beside each. */
static int64_t *buffers(struct team *team, size_t size)
{
    if (size > team->size) {
        free(team->buffers);
        team->buffers = malloc(2 * size);
        team->size = size;
    }
    conf_check(team->buffers != NULL, "no memory");
    return team->buffers;
}

/* All members, the later ones first. */
static void run_kind(struct team *team, struct fid_mc **mcs, enum fi_collective_op kind,
                     size_t count, int root)
{
    int n = team->count;
    size_t all = count * (size_t)n, len = (all + 1) * sizeof(int64_t);
    int64_t *in = buffers(team, len * (size_t)n), *out = in + (all + 1) * (size_t)n;

    memset(out, 0, len * (size_t)n);
    for (int i = 0; i < n; i++)
        for (size_t k = 0; k <= all; k++)
            in[(size_t)i * (all + 1) + k] = value(i, k);
    for (int i = 0; i < n; i++) {
        int rank = (i + 1) % n;

        post_kind(team, fi_mc_addr(mcs[rank]), kind, count, rank, root,
                  in + (size_t)rank * (all + 1), out + (size_t)rank * (all + 1));
    }
    wait_done(team, 1);
    for (int rank = 0; rank < n; rank++) {
        const int64_t *to = (kind == FI_BROADCAST ? in : out) + (size_t)rank * (all + 1);

        for (size_t k = 0; k < all; k++)
            conf_check(is_right(kind, n, count, rank, root, k, to[k]),
                       "kind %d, %d members, root %d, count %zu: member %d, element %zu", kind, n,
                       root, count, rank, k);
        conf_check(out[(size_t)rank * (all + 1) + all] == 0, "wrote behind the result");
    }
}

static bool has_root(enum fi_collective_op kind)
{
    return kind == FI_BROADCAST || kind == FI_REDUCE || kind == FI_SCATTER || kind == FI_GATHER;
}

static void every_kind(int members, const size_t *counts, size_t count)
{
    struct team *team = team_open(members, FI_PROGRESS_MANUAL);
    struct fid_av_set *set = universe(team);
    struct fid_mc *mcs[MEMBERS_MAX] = {0};
    uint64_t written = 0;

    join_all(team, set, mcs);
    for (int kind = FI_BARRIER; kind <= FI_GATHER; kind++) {
        int roots = has_root((enum fi_collective_op)kind) ? members : 1;

        for (int root = 0; root < roots; root++) {
            for (size_t i = 0; i < count; i++, written++)
                run_kind(team, mcs, (enum fi_collective_op)kind, counts[i], root);
        }
    }
    for (int i = 0; i < members; i++)
        conf_check(fi_cntr_read(team->members[i].written) == written &&
                       fi_cntr_read(team->members[i].messages) == 0 &&
                       fi_cntr_readerr(team->members[i].messages) == 0,
                   "counted: %u of %u, %u messages, %u errors",
                   (unsigned)fi_cntr_read(team->members[i].written), (unsigned)written,
                   (unsigned)fi_cntr_read(team->members[i].messages),
                   (unsigned)fi_cntr_readerr(team->members[i].messages));
    close_all(team, mcs);
    must("fi_close(set)", fi_close(&set->fid));
    team_close(team);
}

static void small_groups(void)
{
    static const size_t counts[] = {0, 1, 5, 300};

    for (int members = 1; members <= 5; members++)
        every_kind(members, counts, sizeof counts / sizeof *counts);
}

static void larger_groups(void)
{
    static const size_t counts[] = {1, 20000};

    every_kind(7, counts, 2);
    every_kind(8, counts, 2);
}

static void large_data(void)
{
    static const size_t counts[] = {BYTES_MAX / 8};

    every_kind(3, counts, 1);
}

/* Several at once, on two groups, in another order at each member as far as the groups go. */
static void several_at_once(void)
{
    enum {
        N = 4,
        DEPTH = 20
    };
    struct team *team = team_open(N, FI_PROGRESS_MANUAL);
    struct fid_av_set *set = universe(team);
    struct fid_mc *a[MEMBERS_MAX] = {0}, *b[MEMBERS_MAX] = {0};
    static int32_t in[N], out[N][2][DEPTH];
    fi_addr_t addr;

    must("fi_av_set_addr", fi_av_set_addr(set, &addr));
    for (int i = 0; i < N; i++) {
        must("join", fi_join_collective(team->members[i].ep, addr, set, 0, &a[i], &a[i]));
        must("join", fi_join_collective(team->members[i].ep, addr, set, 0, &b[i], &b[i]));
    }
    conf_check(!wait_joins(team, 2 * N), "joins");
    for (int i = 0; i < N; i++)
        in[i] = 1 << i;
    for (int i = N - 1; i >= 0; i--) {
        struct member *m = &team->members[i];

        for (int d = 0; d < DEPTH; d++) {
            for (int g = 0; g < 2; g++) {
                int which = (g + i) % 2;
                fi_addr_t group = fi_mc_addr(which ? b[i] : a[i]);

                POST(team, fi_allreduce(m->ep, &in[i], 1, NULL, &out[i][which][d], NULL, group,
                                        FI_INT32, which ? FI_MAX : FI_SUM, 0, m));
            }
        }
    }
    wait_done(team, 2 * DEPTH);
    for (int i = 0; i < N; i++)
        for (int d = 0; d < DEPTH; d++)
            conf_check(out[i][0][d] == (1 << N) - 1 && out[i][1][d] == 1 << (N - 1), "results");
    close_all(team, a);
    close_all(team, b);
    must("fi_close(set)", fi_close(&set->fid));
    team_close(team);
}

/* Messages of the application and of collectives do not meet. */
static void beside_messages(void)
{
    struct team *team = team_open(2, FI_PROGRESS_MANUAL);
    struct fid_av_set *set = universe(team);
    struct fid_mc *mcs[MEMBERS_MAX] = {0};
    struct member *m = team->members;
    struct fi_cq_tagged_entry entry;
    char in[2] = {0}, out = 'm';
    int got = 0;

    must("trecv", fi_trecv(m[0].ep, &in[0], 1, NULL, FI_ADDR_UNSPEC, 0, ~0ull, &in[0]));
    join_all(team, set, mcs);
    run_kind(team, mcs, FI_ALLREDUCE, 10, 0);
    run_kind(team, mcs, FI_BARRIER, 0, 0);
    while (fi_tsend(m[1].ep, &out, 1, NULL, team->addrs[0], 7, &out) == -FI_EAGAIN)
        drive(team);
    for (long long end = conf_now_ms() + CONF_TIMEOUT_MS; got < 2;) {
        for (int i = 0; i < 2; i++) {
            ssize_t n = fi_cq_read(m[i].cq, &entry, 1);

            conf_check(n == -FI_EAGAIN || (n == 1 && (entry.op_context == &out ||
                                                      (entry.op_context == &in[0] &&
                                                       entry.tag == 7 && in[0] == 'm'))),
                       "fi_cq_read: %zd", n);
            got += n == 1;
        }
        conf_check(conf_now_ms() < end, "the message is lost");
    }
    conf_check(fi_tsend(m[1].ep, &out, 1, NULL, team->addrs[0], 1ull << 63, &out) == -FI_EINVAL,
               "a tag that is the layer's");
    close_all(team, mcs);
    must("fi_close(set)", fi_close(&set->fid));
    team_close(team);
}

static void set_arguments(void)
{
    struct team *team = team_open(3, FI_PROGRESS_MANUAL);
    struct fi_av_set_attr none = {.start_addr = FI_ADDR_NOTAVAIL, .end_addr = FI_ADDR_NOTAVAIL};
    struct fi_av_set_attr small = {
        .count = 2, .start_addr = team->addrs[0], .end_addr = team->addrs[2], .stride = 1};
    struct fi_av_set_attr strange = none;
    struct fid_av_set *set, *other;
    struct fid_mc *mc;
    fi_addr_t addr;

    strange.flags = 1;
    conf_check(fi_av_set(team->av, &small, &set, NULL) == -FI_EINVAL, "more than said");
    conf_check(fi_av_set(team->av, &strange, &set, NULL) < 0, "unknown flags");
    must("fi_av_set", fi_av_set(team->av, &none, &set, NULL));
    must("fi_av_set", fi_av_set(team->av, &none, &other, NULL));
    must("insert", fi_av_set_insert(set, team->addrs[1]));
    conf_check(fi_av_set_insert(set, team->addrs[1]) < 0, "twice");
    conf_check(fi_av_set_insert(set, 99) < 0, "no address");
    conf_check(fi_av_set_remove(set, team->addrs[2]) < 0, "not there");
    must("addr", fi_av_set_addr(set, &addr));
    conf_check(fi_join_collective(team->members[0].ep, addr, set, 0, &mc, NULL) < 0,
               "one that is not in the set");
    conf_check(fi_join_collective(team->members[1].ep, addr + 999, set, 0, &mc, NULL) < 0,
               "an address that is none");
    conf_check(fi_join_collective(team->members[1].ep, addr, other, 0, &mc, NULL) < 0,
               "the address of another set");
    must("close", fi_close(&other->fid));
    must("close", fi_close(&set->fid));
    team_close(team);
}

/* The members 1, 4, 0, in this order, by all operations of sets. */
static struct fid_av_set *set_of_three(struct team *team)
{
    struct fi_av_set_attr range = {
        .count = 3, .start_addr = team->addrs[0], .end_addr = team->addrs[4], .stride = 2};
    struct fi_av_set_attr none = {.start_addr = FI_ADDR_NOTAVAIL, .end_addr = FI_ADDR_NOTAVAIL};
    struct fid_av_set *even, *some, *all = universe(team);

    must("fi_av_set", fi_av_set(team->av, &range, &even, NULL));
    must("fi_av_set", fi_av_set(team->av, &none, &some, NULL));
    must("insert", fi_av_set_insert(some, team->addrs[4]));
    must("insert", fi_av_set_insert(some, team->addrs[1]));
    must("union", fi_av_set_union(some, even)); /* 4 1 0 2 */
    must("remove", fi_av_set_remove(some, team->addrs[2]));
    must("diff", fi_av_set_diff(all, even));           /* 1 3 */
    must("intersect", fi_av_set_intersect(all, some)); /* 1 */
    must("union", fi_av_set_union(all, some));         /* 1 4 0 */
    must("close", fi_close(&some->fid));
    must("close", fi_close(&even->fid));
    return all;
}

static void sets(void)
{
    static const int members[] = {1, 4, 0};
    struct team *team = team_open(5, FI_PROGRESS_MANUAL);
    struct fid_av_set *set = set_of_three(team);
    struct fid_mc *mcs[3];
    static int64_t in[3], out[3][3];
    fi_addr_t addr;

    must("addr", fi_av_set_addr(set, &addr));
    for (int i = 0; i < 3; i++)
        must("join",
             fi_join_collective(team->members[members[i]].ep, addr, set, 0, &mcs[i], &mcs[i]));
    conf_check(wait_joins(team, 3) == 0, "join");
    for (int i = 0; i < 3; i++) {
        struct member *m = &team->members[members[i]];

        in[i] = 10 + i;
        POST(team, fi_allgather(m->ep, &in[i], 1, NULL, out[i], NULL, fi_mc_addr(mcs[i]), FI_INT64,
                                0, m));
    }
    while (!team->members[0].done || !team->members[1].done || !team->members[4].done)
        drive(team);
    for (int i = 0; i < 3; i++)
        conf_check(out[i][0] == 10 && out[i][1] == 11 && out[i][2] == 12, "the order of the set");
    conf_check(fi_barrier(team->members[1].ep, fi_mc_addr(mcs[0]) + 1, NULL) == -FI_EINVAL,
               "no such group");
    for (int i = 0; i < 3; i++)
        must("fi_close(mc)", fi_close(&mcs[i]->fid));
    must("close", fi_close(&set->fid));
    team_close(team);
}

static void queries(void)
{
    struct team *team = team_open(1, FI_PROGRESS_MANUAL);
    struct fi_collective_attr attr = {.op = FI_SUM, .datatype = FI_DOUBLE};
    struct fid_domain *domain = team->home.domain;

    must("query", fi_query_collective(domain, FI_ALLREDUCE, &attr, 0));
    conf_check(attr.datatype_attr.size == sizeof(double) && attr.datatype_attr.count >= 1000000 &&
                   attr.max_members >= 1000,
               "limits");
    must("query", fi_query_collective(domain, FI_ALLREDUCE, &attr, FI_SCATTER));
    attr.op = FI_BOR;
    conf_check(fi_query_collective(domain, FI_REDUCE, &attr, 0) == -FI_EOPNOTSUPP,
               "bits of floats");
    attr.op = FI_CSWAP;
    attr.datatype = FI_INT32;
    conf_check(fi_query_collective(domain, FI_REDUCE, &attr, 0) == -FI_EOPNOTSUPP, "swaps");
    attr.op = FI_NOOP;
    must("query", fi_query_collective(domain, FI_GATHER, &attr, 0));
    attr.datatype = FI_VOID;
    must("query", fi_query_collective(domain, FI_BARRIER, &attr, 0));
    conf_check(fi_query_collective(domain, (enum fi_collective_op)99, &attr, 0) < 0, "no such one");
    team_close(team);
}

/* With FI_PROGRESS_AUTO members that read nothing do not hold up another. */
static void automatic(void)
{
    struct team *team = team_open(3, FI_PROGRESS_AUTO);
    struct fid_av_set *set = universe(team);
    struct fid_mc *mcs[MEMBERS_MAX] = {0};
    static int32_t in[3] = {1, 2, 3}, out[3];
    struct fi_cq_tagged_entry entry;
    long long deadline;

    join_all(team, set, mcs);
    for (int i = 0; i < 3; i++)
        while (fi_allreduce(team->members[i].ep, &in[i], 1, NULL, &out[i], NULL, fi_mc_addr(mcs[i]),
                            FI_INT32, FI_SUM, 0, &team->members[i]) == -FI_EAGAIN)
            continue;
    deadline = conf_now_ms() + CONF_TIMEOUT_MS;
    while (fi_cntr_read(team->members[2].written) < 1)
        conf_check(conf_now_ms() < deadline, "not without the others' reading");
    while (fi_cq_read(team->members[2].cq, &entry, 1) == -FI_EAGAIN)
        conf_check(conf_now_ms() < deadline, "no completion");
    conf_check(out[2] == 6, "result");
    close_all(team, mcs);
    must("fi_close(set)", fi_close(&set->fid));
    team_close(team);
}

/* When a member leaves its group, or closes its endpoint, the group breaks for the others; none
 * hangs. */
static void leaving(void)
{
    struct team *team = team_open(3, FI_PROGRESS_MANUAL);
    struct fid_av_set *set = universe(team);
    struct fid_mc *mcs[MEMBERS_MAX] = {0};
    long long deadline;

    join_all(team, set, mcs);
    for (int i = 0; i < 2; i++)
        POST(team, fi_barrier(team->members[i].ep, fi_mc_addr(mcs[i]), &team->members[i]));
    for (int i = 0; i < 100; i++)
        drive(team);
    conf_check(!team->members[0].done && !team->members[1].done, "a barrier that held nobody");
    must("fi_close(mc)", fi_close(&mcs[0]->fid));
    deadline = conf_now_ms() + CONF_TIMEOUT_MS;
    while (!team->members[0].done || !team->members[1].done) {
        drive(team);
        conf_check(conf_now_ms() < deadline, "they hang");
    }
    conf_check(team->members[0].err == FI_ECANCELED && team->members[1].err, "errors %d, %d",
               team->members[0].err, team->members[1].err);
    while (fi_barrier(team->members[2].ep, fi_mc_addr(mcs[2]), &team->members[2]) == 0 &&
           !team->members[2].done)
        drive(team);
    conf_check(fi_barrier(team->members[1].ep, fi_mc_addr(mcs[1]), NULL) == -FI_ECONNABORTED,
               "a broken group");
    must("fi_close(mc)", fi_close(&mcs[1]->fid));
    must("fi_close(mc)", fi_close(&mcs[2]->fid));
    must("fi_close(set)", fi_close(&set->fid));
    team_close(team);
}

static void closing(void)
{
    struct fid_mc *mcs[MEMBERS_MAX] = {0};
    struct fid_av_set *set;
    struct team *team;
    long long deadline;

    /* A member that asks the closed one for a sign of life need not wait for it to come back. */
    setenv("FI_RXM_UNREACHABLE_TIMEOUT", "100ms", 1);
    setenv("FI_SHM_CONNECT_TIMEOUT", "100ms", 1);
    setenv("FI_ARQ_PATIENCE", "1s", 1);
    team = team_open(3, FI_PROGRESS_MANUAL);
    set = universe(team);
    join_all(team, set, mcs);
    for (int i = 0; i < 3; i++)
        POST(team, fi_barrier(team->members[i].ep, fi_mc_addr(mcs[i]), &team->members[i]));
    wait_done(team, 1);
    for (int i = 0; i < 2; i++)
        POST(team, fi_barrier(team->members[i].ep, fi_mc_addr(mcs[i]), &team->members[i]));
    close_member(&team->members[2]);
    deadline = conf_now_ms() + CONF_TIMEOUT_MS;
    while (!team->members[0].done || !team->members[1].done) {
        drive(team);
        conf_check(conf_now_ms() < deadline, "they hang");
    }
    conf_check(team->members[0].err && team->members[1].err, "no errors");
    /* With a collective outstanding an endpoint closes too, and nothing is told. */
    close_all(team, mcs);
    must("fi_close(set)", fi_close(&set->fid));
    team_close(team);
}

/* Members are endpoints of their own; an info without is not told to have collectives. */
static void contexts(void)
{
    struct conf_want want = {
        .caps = FI_MSG | FI_TAGGED | FI_COLLECTIVE, .tx_ctx_cnt = 2, .rx_ctx_cnt = 2};
    struct fi_av_attr av = {.type = FI_AV_TABLE, .rx_ctx_bits = 1};
    struct fi_collective_addr addr = {.coll_addr = 0};
    struct fid_ep *sep, *tx;
    struct team team = {0};
    struct fi_info *info;
    struct fid_mc *mc;

    conf_need("collectives");
    conf_need("scalable_endpoints");
    conf_fabric_open(&team.home, &want);
    must("fi_av_open", fi_av_open(team.home.domain, &av, &team.av, NULL));
    must("fi_scalable_ep", fi_scalable_ep(team.home.domain, team.home.info, &sep, NULL));
    must("bind av", fi_scalable_ep_bind(sep, &team.av->fid, 0));
    must("fi_tx_context", fi_tx_context(sep, 0, team.home.info->tx_attr, &tx, NULL));
    must("fi_enable", fi_enable(tx));
    addr.set = universe(&team);
    conf_check(fi_join(sep, &addr, FI_COLLECTIVE, &mc, NULL) == -FI_EOPNOTSUPP, "it joins");
    conf_check(fi_join(tx, &addr, FI_COLLECTIVE, &mc, NULL) == -FI_EOPNOTSUPP, "a context joins");
    conf_check(fi_barrier(tx, 0, NULL) < 0, "a context has a barrier");
    must("fi_close(set)", fi_close(&((struct fid_av_set *)addr.set)->fid));
    must("fi_close(tx)", fi_close(&tx->fid));
    must("fi_close(sep)", fi_close(&sep->fid));
    must("fi_close(av)", fi_close(&team.av->fid));
    conf_fabric_close(&team.home);
    want.rx_ctx_cnt = FI_SHARED_CONTEXT;
    conf_check(conf_getinfo(&want, &info) == -FI_ENODATA, "offered with a shared context");
}

const struct conf_case conf_coll_cases[] = {
    {"coll: every collective, groups of 1 to 5", small_groups},
    {"coll: groups of 7 and 8", larger_groups},
    {"coll: 4 MiB", large_data},
    {"coll: several at once on two groups", several_at_once},
    {"coll: beside messages", beside_messages},
    {"coll: AV sets", sets},
    {"coll: arguments of sets and joins", set_arguments},
    {"coll: queries", queries},
    {"coll: automatic progress", automatic},
    {"coll: leaving a group", leaving},
    {"coll: closing an endpoint", closing},
    {"coll: contexts have none", contexts},
    {0},
};
