/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

const char *bench_host[2] = {"127.0.0.1", "127.0.0.1"};
bool bench_at;

void pipe_write(int fd, const void *data, size_t len)
{
    const char *from = data;

    while (len) {
        ssize_t n = write(fd, from, len);

        if (n <= 0)
            bench_die("the other end of a pipe is gone");
        from += n;
        len -= (size_t)n;
    }
}

void pipe_read(int fd, void *data, size_t len)
{
    char *to = data;

    while (len) {
        ssize_t n = read(fd, to, len);

        if (n <= 0)
            bench_die("the other end of a pipe is gone");
        to += n;
        len -= (size_t)n;
    }
}

bool pipe_has_bytes(int fd)
{
    struct pollfd pollfd = {.fd = fd, .events = POLLIN};

    return poll(&pollfd, 1, 0) > 0;
}

const char *bench_netns[2];

void bench_enter(const char *netns)
{
    char path[128];
    int fd;

    snprintf(path, sizeof path, "/run/netns/%s", netns);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET))
        bench_die("%s: %s", path, strerror(errno));
    close(fd);
}

uint64_t bench_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

long bench_resident(void)
{
    long pages = 0, resident = 0;
    FILE *statm = fopen("/proc/self/statm", "r");

    if (statm) {
        if (fscanf(statm, "%ld %ld", &pages, &resident) != 2)
            resident = 0;
        fclose(statm);
    }
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

void bench_die(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    fputs("fi_bench: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

uint32_t bench_tclass;
bool bench_datagrams;

void bench_buffer_fit(struct bench_buffer *buffer, const struct bench_window *window)
{
    size_t need = window->size > window->room ? window->size : window->room;

    if (buffer->allocated >= need)
        return;
    free(buffer->base);
    buffer->base = malloc(need);
    if (!buffer->base)
        bench_die("out of memory");
    memset(buffer->base, 1, need);
    buffer->allocated = need;
    buffer->next = 0;
}

char *bench_buffer_next(struct bench_buffer *buffer, const struct bench_window *window)
{
    size_t limit = window->size > window->room ? window->size : window->room;
    size_t at = buffer->next + window->size <= limit ? buffer->next : 0;

    /* Each on cache lines of its own, as an application's mostly are. */
    buffer->next = at + ((window->size + 63) & ~(size_t)63);
    return buffer->base + at;
}

static struct {
    _Alignas(64) atomic_uint ping;
    _Alignas(64) atomic_uint pong;
} line;

static void pin(int core)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(core, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

enum {
    LINE_ROUNDS = 20000
};

static void *line_partner(void *core)
{
    pin(*(int *)core);
    for (unsigned i = 1; i <= LINE_ROUNDS; i++) {
        while (atomic_load_explicit(&line.ping, memory_order_acquire) != i)
            ;
        atomic_store_explicit(&line.pong, i, memory_order_release);
    }
    return NULL;
}

double bench_cache_line(int core_a, int core_b)
{
    pthread_t partner;
    uint64_t start;

    pin(core_a);
    atomic_store(&line.ping, 0);
    atomic_store(&line.pong, 0);
    if (pthread_create(&partner, NULL, line_partner, &core_b))
        bench_die("cannot start a thread");
    start = bench_now();
    for (unsigned i = 1; i <= LINE_ROUNDS; i++) {
        atomic_store_explicit(&line.ping, i, memory_order_release);
        while (atomic_load_explicit(&line.pong, memory_order_acquire) != i)
            ;
    }
    start = bench_now() - start;
    pthread_join(partner, NULL);
    return (double)start / LINE_ROUNDS / 2;
}

int bench_ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}
