/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * crowd RANKS [ROUNDS]: that many processes, usually more than there are cores, send each other 8
 * bytes, every one to every one. Prints the time, and what a mapped peer costs in memory: resident
 * pages (RSS), and with those that two processes share counted by halves (PSS).
 */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

/* Sanitizers have memory of their own for each page. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

enum {
    NAME = 256,
    SECONDS = 600,
    /* Bytes for a mapped peer, of 16 KiB that are shared by two. Resident ones (RSS) are more where
     * the kernel maps pages around a fault that the peer has touched before. */
    MEMORY_MAX = 8 << 10,
};

/* Before the fork. */
struct common {
    _Atomic unsigned arrived;
    double seconds;
    long rss, pss; /* KiB more in rank 0 */
    char names[][NAME];
};

struct rank {
    struct common *common;
    unsigned me, count;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    fi_addr_t *addrs;
};

static void must(const char *what, ssize_t rc)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "%s: %s\n", what, fi_strerror((int)-rc));
    _exit(1);
}

static double seconds(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Everybody comes here `phase` times before anybody leaves for the phase-th time. */
static void meet(struct rank *rank, unsigned phase)
{
    atomic_fetch_add(&rank->common->arrived, 1);
    while (atomic_load(&rank->common->arrived) < phase * rank->count) {
        if (rank->cq)
            fi_cq_read(rank->cq, NULL, 0);
        sched_yield();
    }
}

static void open_rank(struct rank *rank)
{
    struct fi_info *hints = fi_allocinfo();
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    size_t len = NAME;

    hints->caps = FI_TAGGED;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->fabric_attr->prov_name = strdup("shm");
    must("fi_getinfo", fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &rank->info));
    fi_freeinfo(hints);
    must("fi_fabric", fi_fabric(rank->info->fabric_attr, &rank->fabric, NULL));
    must("fi_domain", fi_domain(rank->fabric, rank->info, &rank->domain, NULL));
    must("fi_endpoint", fi_endpoint(rank->domain, rank->info, &rank->ep, NULL));
    must("fi_cq_open", fi_cq_open(rank->domain, &cq, &rank->cq, NULL));
    must("fi_av_open", fi_av_open(rank->domain, &av, &rank->av, NULL));
    must("bind", fi_ep_bind(rank->ep, &rank->cq->fid, FI_TRANSMIT | FI_RECV));
    must("bind", fi_ep_bind(rank->ep, &rank->av->fid, 0));
    must("fi_enable", fi_enable(rank->ep));
    must("fi_getname", fi_getname(&rank->ep->fid, rank->common->names[rank->me], &len));
}

static void know_all(struct rank *rank)
{
    rank->addrs = calloc(rank->count, sizeof(*rank->addrs));
    for (unsigned i = 0; i < rank->count; i++)
        must("fi_av_insert",
             fi_av_insert(rank->av, rank->common->names[i], 1, &rank->addrs[i], 0, NULL) - 1);
}

static void take(struct rank *rank, unsigned *left)
{
    struct fi_cq_tagged_entry entries[16];
    ssize_t n = fi_cq_read(rank->cq, entries, 16);

    if (n != -FI_EAGAIN)
        must("fi_cq_read", n);
    if (n > 0)
        *left -= (unsigned)n;
}

static void all_to_all(struct rank *rank, uint64_t round)
{
    uint64_t *in = calloc(rank->count, sizeof(*in)), sum = 0, me = rank->me;
    unsigned left = rank->count - 1;
    ssize_t rc;

    for (unsigned i = 0; i + 1 < rank->count; i++)
        must("fi_trecv",
             fi_trecv(rank->ep, &in[i], sizeof(*in), NULL, FI_ADDR_UNSPEC, round, 0, NULL));
    for (unsigned i = 1; i < rank->count; i++) {
        while ((rc = fi_tinject(rank->ep, &me, sizeof(me),
                                rank->addrs[(rank->me + i) % rank->count], round)) == -FI_EAGAIN) {
            if (left)
                take(rank, &left);
            else
                fi_cq_read(rank->cq, NULL, 0);
        }
        must("fi_tinject", rc);
    }
    while (left)
        take(rank, &left);
    for (unsigned i = 0; i + 1 < rank->count; i++)
        sum += in[i];
    if (sum + me != (uint64_t)rank->count * (rank->count - 1) / 2) {
        fprintf(stderr, "rank %u: wrong sum\n", rank->me);
        _exit(1);
    }
    free(in);
}

/* A line of smaps_rollup, in KiB. */
static long memory(const char *key)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    long value = 0;

    while (file && fgets(line, sizeof(line), file)) {
        if (!strncmp(line, key, strlen(key)))
            value = atol(line + strlen(key));
    }
    if (file)
        fclose(file);
    return value;
}

static void close_rank(struct rank *rank)
{
    fi_close(&rank->ep->fid);
    fi_close(&rank->cq->fid);
    fi_close(&rank->av->fid);
    fi_close(&rank->domain->fid);
    fi_close(&rank->fabric->fid);
    fi_freeinfo(rank->info);
    free(rank->addrs);
}

static void run(struct common *common, unsigned me, unsigned count, unsigned rounds)
{
    struct rank rank = {.common = common, .me = me, .count = count};
    long rss, pss;
    double begin;

    alarm(SECONDS);
    open_rank(&rank);
    meet(&rank, 1);
    know_all(&rank);
    rss = memory("Rss:");
    pss = memory("Pss:");
    meet(&rank, 2);
    begin = seconds();
    for (unsigned round = 0; round < rounds; round++)
        all_to_all(&rank, round);
    meet(&rank, 3);
    if (!me) {
        common->seconds = seconds() - begin;
        common->rss = memory("Rss:") - rss;
        common->pss = memory("Pss:") - pss;
    }
    meet(&rank, 4);
    close_rank(&rank);
    _exit(0);
}

/* Every rank has a descriptor for each other one. */
static int room(unsigned count)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_max >= 2 * count + 64;
}

int main(int argc, char **argv)
{
    unsigned count = argc > 1 ? (unsigned)atoi(argv[1]) : 8;
    unsigned rounds = argc > 2 ? (unsigned)atoi(argv[2]) : 3;
    size_t size = sizeof(struct common) + (size_t)count * NAME;
    struct common *common =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status, failed = 0;

    if (count < 2 || !room(count)) {
        fprintf(stderr, "not that many ranks: too few, or too few descriptors (ulimit -n)\n");
        return 77;
    }
    setpgid(0, 0);
    for (unsigned i = 0; i < count; i++) {
        pid_t pid = fork();

        if (!pid)
            run(common, i, count, rounds);
        failed += pid < 0;
    }
    while (wait(&status) > 0) {
        if (status && !failed++)
            kill(0, SIGKILL); /* the others would wait for the dead */
    }
    printf("%u ranks: %.1f ms for a round of 8 bytes from all to all\n", count,
           common->seconds * 1000 / rounds);
    if (count > 2)
        printf("a mapped peer: RSS %.1f KiB, PSS %.1f KiB\n", (double)common->rss / (count - 1),
               (double)common->pss / (count - 1));
    if (!failed && !SANITIZED && count >= 64 && common->pss * 1024 / (count - 1) > MEMORY_MAX) {
        fprintf(stderr, "a mapped peer must not cost more than %d bytes\n", MEMORY_MAX);
        failed++;
    }
    return failed != 0;
}
