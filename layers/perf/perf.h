/* SPDX-License-Identifier: BSD-2-Clause */
/* The sums of the layer, for each thread in a block of its own (core/base/per_thread.h). */
#ifndef WEFT_PERF_H
#define WEFT_PERF_H

#include <stdbool.h>
#include <stdio.h>

#include "core/base/per_thread.h"
#include "core/hook/hook.h"
#include "core/hook/hook_report.h"
#include "core/op/op.h"
#include "layers/perf/perf_events.h"

/* Behind the data transfers: the other calls of the fast path. */
enum perf_kind {
    PERF_CQ_READ = OP_CALLS,
    PERF_CQ_READ_EMPTY,
    PERF_CQ_READERR,
    PERF_CQ_SREAD,
    PERF_CQ_SIGNAL,
    PERF_CNTR_READ,
    PERF_CNTR_READERR,
    PERF_CNTR_ADD,
    PERF_CNTR_SET,
    PERF_CNTR_WAIT,
    PERF_KINDS,
};

enum {
    PERF_NESTED = 8 /* calls inside of calls of one layer and thread; deeper ones are not counted */
};

struct perf_counts {
    uint64_t calls[PERF_KINDS];
    uint64_t sums[PERF_KINDS][PERF_EVENTS];
    uint64_t most[PERF_KINDS]; /* of the first event */
};

struct perf_block {
    struct block block;
    struct perf_group group;
    unsigned depth;
    uint64_t starts[PERF_NESTED][PERF_EVENTS];
    struct perf_counts counts;
};

/* Behind `hook` of a fabric, its endpoints, queues and counters. */
struct perf_layer {
    struct per_thread per_thread;
    struct perf_set set;
    bool json;
    struct hook_report report;
};

/* A block with counters that are open; without them it counts ticks. */
void perf_block_taken(struct per_thread *per_thread, struct block *block);
void perf_block_left(struct block *block);

void perf_count_ops(struct hook_ops *ops);

/* The report of a struct perf_layer, for hook_report_write. */
void perf_print(void *layer, FILE *out);

#endif
