/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_bench: the protocol of the driver and its workers.
 *
 * A subject is one thing to measure: the raw socket floor, or a library and a stack. It has two
 * worker processes, pinned to the two cores given, which hold their connection open for the whole
 * run and sleep on a pipe unless the driver has them run one short window. So windows of several
 * subjects interleave (A B C A B C ...), and a machine that slows down slows all of them.
 */
#ifndef WEFT_BENCH_H
#define WEFT_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum bench_kind {
    BENCH_LATENCY,   /* ping-pong; result: ns of half a round trip */
    BENCH_BANDWIDTH, /* one way, `window` messages outstanding; result: ns a message */
    BENCH_WRITE,     /* the same with remote writes, and with reads */
    BENCH_READ,
    BENCH_WINDOW,  /* `window` messages, then a reply, and so on; result: ns a message */
    BENCH_MEMORY,  /* no transfer; result: KiB resident, see worker_memory */
    BENCH_GETINFO, /* no transfer; result: ns of one fi_getinfo */
    BENCH_REST, /* the other side has ended its window, too: no more progress for it; no result */
    BENCH_QUIT,
};

struct bench_window {
    uint32_t kind;
    uint32_t window; /* messages outstanding */
    uint64_t size;   /* bytes a message */
    uint64_t count;  /* messages, or round trips; of BENCH_WINDOW a multiple of window */
    uint64_t
        room; /* bytes that the buffers of messages take turns in; less than size: one buffer */
};

/* Memory for messages: the same bytes again and again, or each time the next ones of `room`. */
struct bench_buffer {
    char *base;
    size_t allocated, next;
};

/* Makes it large enough for the window. */
void bench_buffer_fit(struct bench_buffer *buffer, const struct bench_window *window);
/* Where the next message goes. */
char *bench_buffer_next(struct bench_buffer *buffer, const struct bench_window *window);

/* Resident KiB at three points of a worker's life. */
struct bench_memory {
    long start; /* library loaded, nothing opened */
    long idle;  /* endpoint enabled */
    long peer;  /* first message exchanged */
};

/* Functions of one kind of worker. Every function runs in the worker; `side` is 0 or 1. */
struct bench_worker {
    void *(*open)(const char *library, const char *spec, int side, int pipe);
    /* Runs the window; ns taken, as seen by this side. */
    uint64_t (*run)(void *state, const struct bench_window *window);
    /* After a window, until BENCH_REST: a reply that was lost, or waits for room, needs this
     * side's progress to reach the other. Without blocking. */
    void (*progress)(void *state);
    void (*memory)(void *state, struct bench_memory *memory);
    /* ns of one fi_getinfo, 0 where there is none. */
    uint64_t (*getinfo)(void *state, uint64_t count);
    void (*close)(void *state);
};

/* Traffic class of the endpoints; set before workers start. */
extern uint32_t bench_tclass;
/* Where each side is: the address of its interface, whether the caller named it, and the network
 * namespace (of `ip netns`) or NULL: that of the caller. Set before workers start. */
extern const char *bench_host[2];
extern bool bench_at;
extern const char *bench_netns[2];

/* Datagram endpoints and untagged messages, rather than reliable ones; set before workers start. */
extern bool bench_datagrams;

extern const struct bench_worker bench_socket_worker;
extern const struct bench_worker bench_datagram_worker;
extern const struct bench_worker bench_ofi_worker;

/* Whole transfers on a pipe; exits the process with a message when the other end is gone. */
void pipe_write(int fd, const void *data, size_t len);
void pipe_read(int fd, void *data, size_t len);
/* Is there something to read, or has the other end gone? */
bool pipe_has_bytes(int fd);

/* Into a network namespace of `ip netns`. */
void bench_enter(const char *netns);
uint64_t bench_now(void);  /* ns, monotonic */
long bench_resident(void); /* KiB */
_Noreturn void bench_die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ns that a cache line takes one way between the two cores, now. */
double bench_cache_line(int core_a, int core_b);

/* Layers: `fi_bench --layers SPEC...` in one process over the in-memory transport. */
int bench_layers(const char *library, char **specs, int count);

/* `fi_bench --sizes SPEC...`: messages of each size, in one process. */
struct bench_sizes {
    const uint64_t *sizes;
    int size_count, windows, percent;
    uint64_t window_us;
};

int bench_sizes(const char *library, const struct bench_sizes *what, char **specs, int count);

/* `fi_bench --rounds COUNT SPEC`: see rounds.c. */
struct bench_rounds {
    uint64_t rounds, size;
    int messages; /* of a round, before the one that comes back */
};

int bench_rounds(const char *library, const struct bench_rounds *what, char **specs, int count);

/* `fi_bench --calls ROUNDS SPEC`: see calls.c. */
int bench_calls(const char *library, uint64_t rounds, char **specs, int count);

/* Of numbers of type double, for qsort. */
int bench_ascending(const void *a, const void *b);

/* `fi_bench --threads SPEC...`, `--av SPEC...`, `--peers SPEC...`: see threads.c, av.c, peers.c. */
int bench_peers(const char *library, const int core[2], char **specs, int count);
int bench_threads(const char *library, const int core[2], char **specs, int count);
int bench_av(const char *library, char **specs, int count);

#endif
