/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files of rings (weft/trace.h). One for each path and process: layers that name the same path
 * write into the same file, which stays open until the library is unloaded, so that a fabric that
 * is opened later goes on where another has ended.
 *
 * A record is one cache line, written by its thread alone: no lock, no atomic instruction, no call.
 * The ring of a thread is made at its first record, and that may lock, allocate and block.
 */
#ifndef WEFT_TRACE_FILE_H
#define WEFT_TRACE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include <weft/trace.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "core/base/clock.h"

struct trace_file;

/* A thread's ring, mapped. */
struct trace_ring {
    struct trace_file *file;
    struct weft_trace_record *records;
    struct weft_trace_ring *shared;
    uint64_t head, mask;
    uint64_t read_time; /* of the read that the entries which are recorded now came by */
    uint64_t clock_due; /* ticks: when the clocks are to be read again */
    bool tsc;
    /* Not on the path. */
    struct trace_ring *next;    /* of the thread, or of the file's that are free */
    struct trace_ring *sibling; /* all of the file's */
    size_t size;
};

/* Of no file. */
extern struct trace_ring trace_no_ring;

/* The ring that this thread wrote to last; trace_no_ring at first, and in the child of a fork. */
extern _Thread_local struct trace_ring *trace_ring_last __attribute__((tls_model("initial-exec")));

/* Opens, or joins, the file for `path`, in which %p is the process and %h the host. bytes: of the
 * records of one thread. On an error the sentence that says what is wrong is in why. */
int trace_file_open(const char *path, size_t bytes, unsigned threads, struct trace_file **file,
                    char *why, size_t why_size);
/* The number of a layer that stands on `below`: one that no open layer has, while there are any. */
unsigned trace_file_layer(struct trace_file *file, const char *below);
void trace_file_layer_done(struct trace_file *file, unsigned layer);
/* Another object; its number. Any thread. */
uint32_t trace_file_object(struct trace_file *file, unsigned layer, size_t fclass, uint32_t parent);

/* The slow way to a ring: NULL when this thread has none. */
struct trace_ring *trace_ring_find(struct trace_file *file);

static inline struct trace_ring *trace_ring_of(struct trace_file *file)
{
    struct trace_ring *ring = trace_ring_last;

    return __builtin_expect(ring->file == file, 1) ? ring : trace_ring_find(file);
}

static inline uint64_t trace_ticks(bool tsc)
{
#if defined(__x86_64__)
    if (__builtin_expect(tsc, 1))
        return __rdtsc();
#endif
    return clock_ns();
}

enum {
    TRACE_CLOCK_TICKS = 1 << 30 /* a second, or half of one */
};

/* Reads the clocks again: the longer ago the first reading was, the better the two tell how long a
 * tick is, also when nothing else comes before a crash. No lock; of two at once one does nothing.
 */
void trace_file_clock(struct trace_file *file);

static inline void trace_ring_clock(struct trace_ring *ring, uint64_t now)
{
    if (__builtin_expect(now < ring->clock_due, 1))
        return;
    ring->clock_due = now + TRACE_CLOCK_TICKS;
    trace_file_clock(ring->file);
}

/* The next record, to be filled; trace_ring_publish makes it part of the file, and prefetches the
 * lines of the next ones: a ring is larger than a cache, and stores would wait for them. */
static inline struct weft_trace_record *trace_ring_next(struct trace_ring *ring)
{
    return &ring->records[ring->head & ring->mask];
}

static inline void trace_ring_publish(struct trace_ring *ring)
{
    ring->head++;
    __builtin_prefetch(&ring->records[(ring->head + 4) & ring->mask], 1);
    __atomic_store_n(&ring->shared->head, ring->head, __ATOMIC_RELEASE);
}

#endif
