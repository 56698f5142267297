/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many connected endpoints, in two processes. Side 1, the hub, has `peers / REMOTES` endpoints (at
 * least one), side 0 has REMOTES, and every endpoint of the hub sends to every one of side 0. Told
 * are memory of a connection on the hub's side, connections in a second, and the rate of 8-byte
 * messages to one peer before and after the others have connected.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stack.h"

enum {
    REMOTES = 1000,
    NAME = 128,
    DIALS = 256, /* first messages that are tried at a time */
    WINDOW = 64,
    MESSAGES = 20000,
    WINDOWS = 15
};

struct ends {
    struct bench_stack stack;
    struct fid_cq *one; /* of the endpoints that the rate is measured on */
    struct fid_ep *ep[REMOTES];
    fi_addr_t to[REMOTES];
    char data[8];
};

struct tally {
    long connected; /* KiB resident */
    uint64_t connect_ns;
    double alone_ns, among_ns; /* of CPU, for a message */
};

static double cpu_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static int take(struct ends *ends, struct fid_cq *cq)
{
    struct fi_cq_tagged_entry entries[16];
    ssize_t n = fi_cq_read(cq, entries, 16);

    if (n == -FI_EAVAIL) {
        struct fi_cq_err_entry error = {0};

        fi_cq_readerr(cq, &error, 0);
        bench_die("%s: completion: %s", ends->stack.spec, bench_lib.strerror(error.err));
    }
    if (n < 0 && n != -FI_EAGAIN)
        bench_check(&ends->stack, "fi_cq_read", n);
    return n > 0 ? (int)n : 0;
}

static void post_recv(struct ends *ends, int i)
{
    ssize_t rc = fi_trecv(ends->ep[i], ends->data, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL);

    bench_check(&ends->stack, "fi_trecv", rc);
}

static void open_ends(struct ends *ends, const char *spec, int count)
{
    bench_stack_open(&ends->stack, spec, "127.0.0.1");
    ends->one = bench_stack_cq(&ends->stack);
    for (int i = 0; i < count; i++)
        ends->ep[i] = bench_stack_ep(&ends->stack, i ? NULL : ends->one);
}

/* ---- Side 0 ---- */

static void receive(struct ends *ends, int count)
{
    int posted = 0, done = 0;

    while (done < count) {
        while (posted < count && posted - done < WINDOW) {
            post_recv(ends, 0);
            posted++;
        }
        done += take(ends, ends->one);
    }
}

static void remote_side(struct ends *ends, int pipe, int hubs)
{
    char name[NAME];
    char go = 0;

    for (int i = 0; i < REMOTES; i++) {
        size_t len = sizeof name;

        memset(name, 0, sizeof name);
        bench_check(&ends->stack, "fi_getname", fi_getname(&ends->ep[i]->fid, name, &len));
        pipe_write(pipe, name, sizeof name);
    }
    receive(ends, 1 + WINDOWS * MESSAGES);
    for (int i = 0; i < REMOTES; i++)
        for (int h = i ? 0 : 1; h < hubs; h++)
            post_recv(ends, i);
    for (int left = REMOTES * hubs - 1; left;)
        left -= take(ends, ends->stack.cq) + take(ends, ends->one);
    pipe_write(pipe, &go, 1);
    receive(ends, WINDOWS * MESSAGES);
    pipe_write(pipe, &go, 1);
}

/* ---- Side 1 ---- */

static void insert(struct ends *ends, int pipe)
{
    char *names = malloc((size_t)REMOTES * NAME);

    pipe_read(pipe, names, (size_t)REMOTES * NAME);
    for (int i = 0; i < REMOTES; i++)
        if (fi_av_insert(ends->stack.av, names + (size_t)i * NAME, 1, &ends->to[i], 0, NULL) != 1)
            bench_die("%s: fi_av_insert fails", ends->stack.spec);
    free(names);
}

/* CPU time of a message to the first peer, the best of some windows. */
static double rate(struct ends *ends)
{
    double best = 1e9;

    for (int w = 0; w < WINDOWS; w++) {
        double start = cpu_ns();
        int posted = 0, done = 0;

        while (done < MESSAGES) {
            while (posted < MESSAGES && posted - done < WINDOW &&
                   !fi_tsend(ends->ep[0], ends->data, 8, NULL, ends->to[0], 1, NULL))
                posted++;
            done += take(ends, ends->one);
        }
        start = (cpu_ns() - start) / MESSAGES;
        if (start < best)
            best = start;
    }
    return best;
}

/* One message from each endpoint to each peer; pair 0 has had its own. */
static void connect_all(struct ends *ends, int hubs)
{
    int pending[DIALS], count = 0, next = 1, done = 1, total = hubs * REMOTES;

    while (done < total) {
        while (count < DIALS && next < total)
            pending[count++] = next++;
        for (int i = 0; i < count;) {
            int hub = pending[i] / REMOTES, remote = pending[i] % REMOTES;
            ssize_t rc = fi_tsend(ends->ep[hub], ends->data, 8, NULL, ends->to[remote], 1, NULL);

            if (rc == -FI_EAGAIN) {
                i++;
                continue;
            }
            bench_check(&ends->stack, "fi_tsend", rc);
            pending[i] = pending[--count];
        }
        done += take(ends, ends->one) + take(ends, ends->stack.cq);
    }
}

/* The other side has all: packets that were lost leave again until then. */
static void drive_until_told(struct ends *ends, int pipe)
{
    char told;

    while (!pipe_has_bytes(pipe))
        for (int i = 0; i < DIALS; i++)
            (void)(take(ends, ends->one) + take(ends, ends->stack.cq));
    pipe_read(pipe, &told, 1);
}

static void hub_side(struct ends *ends, int pipe, int hubs, struct tally *tally)
{
    insert(ends, pipe);
    while (fi_tsend(ends->ep[0], ends->data, 8, NULL, ends->to[0], 1, NULL))
        take(ends, ends->one);
    while (!take(ends, ends->one))
        ;
    tally->alone_ns = rate(ends);
    long before = bench_resident();
    uint64_t start = bench_now();
    connect_all(ends, hubs);
    drive_until_told(ends, pipe);
    tally->connect_ns = bench_now() - start;
    tally->connected = bench_resident() - before;
    tally->among_ns = rate(ends);
    drive_until_told(ends, pipe);
}

static void run_side(const char *spec, int side, int core, int pipe, int hubs)
{
    struct ends *ends = calloc(1, sizeof *ends);
    struct tally tally = {0};
    double total = hubs * REMOTES;
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(core, &set);
    sched_setaffinity(0, sizeof set, &set);
    open_ends(ends, spec, side ? hubs : REMOTES);
    if (!side) {
        remote_side(ends, pipe, hubs);
        exit(0);
    }
    hub_side(ends, pipe, hubs, &tally);
    printf("peers      %-20s %6.0f: %.0f bytes a connection, %.0f connections/s, "
           "%.0f ns of CPU a message alone, %.0f among all (%.3f)\n",
           spec, total, (double)tally.connected * 1024 / total,
           total / ((double)tally.connect_ns / 1e9), tally.alone_ns, tally.among_ns,
           tally.among_ns / tally.alone_ns);
    exit(0);
}

/* Every connection is a file of each process. */
static void raise_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit))
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static int measure(const char *library, const int core[2], const char *spec, int hubs)
{
    int pair[2], status, failed = 0;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
        bench_die("socketpair: %s", strerror(errno));
    fflush(NULL);
    for (int side = 0; side < 2; side++) {
        if (fork())
            continue;
        bench_load(library);
        run_side(spec, side, core[side], pair[side], hubs);
    }
    close(pair[0]);
    close(pair[1]);
    for (int i = 0; i < 2; i++) {
        wait(&status);
        failed |= status;
    }
    return failed ? 1 : 0;
}

int bench_peers(const char *library, const int core[2], char **specs, int count)
{
    static const int hubs[] = {1, 10};
    int failed = 0;

    raise_limit();
    for (int s = 0; s < count; s++)
        for (int i = 0; i < 2 && !failed; i++)
            failed = measure(library, core, specs[s], hubs[i]);
    return failed;
}
