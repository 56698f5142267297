/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The page file that the layer `monitor` writes, and fi_top, fi_mon_sampler and others read: a
 * header, then blocks of counters. Numbers are in the byte order of the machine. Version 2.
 *
 * One thread writes each block, for one object, with plain stores; a reader may copy it at any
 * time, and neither waits for the other. Counters only grow. Totals of an object, or of the layer,
 * are sums over its blocks. Counts of objects that have closed move to object 0; while they do,
 * `moving` is odd, and a copy is good if it was even and the same before and after.
 */
#ifndef WEFT_MONITOR_H
#define WEFT_MONITOR_H

#include <stdint.h>

#define WEFT_MONITOR_MAGIC "WEFTMON" /* 8 bytes with the zero */

enum {
    WEFT_MONITOR_VERSION = 2,
    WEFT_MONITOR_CALLS = 64,
    WEFT_MONITOR_SIZES = 9, /* below 64, 512, 1k, 4k, 64k, 256k, 1M, 4M bytes, and above */
    WEFT_MONITOR_OBJECTS = 1024,
    WEFT_MONITOR_BLOCKS = 4096,
    WEFT_MONITOR_SUB =
        8, /* buckets of times for each power of two: 1/8 (12.5 %) too large at most */
    WEFT_MONITOR_BUCKETS = 40 * WEFT_MONITOR_SUB,
};

enum weft_monitor_state {
    WEFT_MONITOR_OPEN = 1,
    WEFT_MONITOR_CLOSED, /* and the file lingers */
};

enum weft_monitor_class {
    WEFT_MONITOR_RECEIVE,
    WEFT_MONITOR_SEND,
    WEFT_MONITOR_READ,
    WEFT_MONITOR_WRITE,
    WEFT_MONITOR_ATOMIC,
    WEFT_MONITOR_COLLECTIVE,
    WEFT_MONITOR_CLASSES,
};

enum weft_monitor_count {
    WEFT_MONITOR_AWAITED_TX, /* operations accepted that owe a completion */
    WEFT_MONITOR_AWAITED_RX,
    WEFT_MONITOR_DONE_TX, /* completions, those in error too */
    WEFT_MONITOR_DONE_RX,
    WEFT_MONITOR_DONE,        /* of a queue whose entries do not say which */
    WEFT_MONITOR_REMOTE,      /* remote events of peers' reads and writes */
    WEFT_MONITOR_ERRORS,      /* completions in error, */
    WEFT_MONITOR_CANCELLED,   /* and those that were cancelled */
    WEFT_MONITOR_READS,       /* of a completion queue, that gave something */
    WEFT_MONITOR_EMPTY_READS, /* and that did not */
    WEFT_MONITOR_UNEXPECTED,  /* messages before their receive */
    WEFT_MONITOR_COUNTS = 16,
};

/* Accepted calls of one function, of one class of sizes. */
struct weft_monitor_cell {
    uint64_t count, bytes; /* elements of atomics and collectives */
};

struct weft_monitor_block {
    uint32_t object; /* 0: of all that have no entry of their own */
    uint32_t thread; /* as gettid(2); 0: it has ended */
    uint64_t counts[WEFT_MONITOR_COUNTS];
    uint64_t again[WEFT_MONITOR_CALLS];  /* -FI_EAGAIN */
    uint64_t failed[WEFT_MONITOR_CALLS]; /* any other error */
    struct weft_monitor_cell cells[WEFT_MONITOR_CALLS][WEFT_MONITOR_SIZES];
};

struct weft_monitor_object {
    uint64_t serial; /* 0: closed, the entry is free */
    uint32_t fclass; /* FI_CLASS_EP, ... */
    uint32_t parent; /* object n is objects[n - 1]; 0: none */
    char name[48];
};

/* From call to completion, of one operation in `sample`; ns. */
struct weft_monitor_times {
    uint64_t count, sum;
    uint64_t buckets[WEFT_MONITOR_BUCKETS];
};

struct weft_monitor_header {
    char magic[8];
    uint32_t version;
    uint32_t state;
    uint64_t header_size; /* where the first block is */
    uint64_t block_size;  /* from one block to the next */
    uint32_t block_count; /* in use */
    uint32_t object_count;
    uint32_t call_count;
    uint32_t sample; /* 0: no times */
    uint32_t pid, ppid;
    uint64_t pid_space;     /* inode of /proc/self/ns/pid */
    uint64_t process_start; /* as field 22 of /proc/PID/stat */
    uint64_t boot;          /* differs between boots and machines */
    uint64_t opened_ns;     /* time of day */
    uint64_t moving;
    uint64_t lost;    /* calls and reads that were not counted: no block was left */
    uint64_t multi;   /* not 0: receives for several messages, so that the counts of awaited and
                         done receives do not match */
    uint64_t lingers; /* not 0: the file stays after the process */
    char host[64];
    char program[64];
    char job[32];
    char stack[256]; /* the layer's lower, */
    char whole[512]; /* and the stack that it is part of, but for hooks of FI_HOOK; cut short */
    char names[WEFT_MONITOR_CALLS][24];
    struct weft_monitor_times times[WEFT_MONITOR_CLASSES];
    struct weft_monitor_object objects[WEFT_MONITOR_OBJECTS];
};

static inline unsigned weft_monitor_size_class(uint64_t len)
{
    /* by the number of bits that len needs */
    static const unsigned char classes[24] = {0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 3,
                                              3, 4, 4, 4, 4, 5, 5, 6, 6, 7, 7, 8};

    return classes[len >> 23 ? 23 : 63 - (unsigned)__builtin_clzll(len * 2 + 1)];
}

static inline unsigned weft_monitor_bucket(uint64_t ns)
{
    unsigned power, bucket;

    if (ns < WEFT_MONITOR_SUB)
        return (unsigned)ns;
    power = 63 - (unsigned)__builtin_clzll(ns);
    bucket = (power - 2) * WEFT_MONITOR_SUB + (unsigned)((ns >> (power - 3)) % WEFT_MONITOR_SUB);
    return bucket < WEFT_MONITOR_BUCKETS ? bucket : WEFT_MONITOR_BUCKETS - 1;
}

/* The largest time in a bucket. */
static inline uint64_t weft_monitor_bucket_end(unsigned bucket)
{
    unsigned power = bucket / WEFT_MONITOR_SUB + 2;

    if (bucket < WEFT_MONITOR_SUB)
        return bucket;
    return (((uint64_t)WEFT_MONITOR_SUB + bucket % WEFT_MONITOR_SUB + 1) << (power - 3)) - 1;
}

#endif
