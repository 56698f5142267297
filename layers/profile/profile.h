/* SPDX-License-Identifier: BSD-2-Clause */
/* The layer: which tables it replaces, and how it reports. */
#ifndef WEFT_PROFILE_H
#define WEFT_PROFILE_H

#include <pthread.h>
#include <semaphore.h>

#include "core/hook/hook.h"
#include "core/hook/hook_report.h"
#include "layers/profile/profile_count.h"

enum profile_format {
    PROFILE_TABLE,
    PROFILE_JSON,
    PROFILE_PROMETHEUS
};

/* Behind `hook` of a fabric. */
struct profile_layer {
    struct profile *profile; /* first: that is what its endpoints and queues have behind theirs */
    struct hook_report report;
    enum profile_format format;
    int64_t every_ms; /* 0: not by time */
    int signo;        /* 0: not by a signal */
    bool threaded;
    pthread_t thread;
    sem_t own_wake, *wake; /* posted by a signal, or when it ends */
    atomic_bool ending;
};

/* The first line for Prometheus: whose the file is. */
#define PROFILE_CLAIM(pid, host) "# weft profile, process " pid " on " host "\n"

void profile_data_ops(struct hook_ops *ops);

/* The report of a struct profile_layer in its format, for hook_report_write. Takes the lock of its
 * peers. */
void profile_print(void *layer, FILE *out);

/* ---- Between the formats ---- */

/* The parts of a report beside the times. */
struct profile_facts {
    struct identity identity;
    struct profile *profile;
    const struct hook_report *report;
    struct profile_counts counts;
    double elapsed;   /* seconds */
    bool knows_waits; /* of messages before their receive: some part can tell */
    bool counts_by;   /* they come by here, and each is counted */
    uint64_t waiting, most_waiting;
};

enum {
    PROFILE_QUANTILES = 5
};
extern const char *const profile_class_names[OP_CLASSES];
extern const double profile_quantiles[PROFILE_QUANTILES];

uint64_t profile_timed(const struct profile_times *times);
/* Not accepted, too. */
uint64_t profile_calls(const struct profile_counts *counts, int kind);

void profile_print_table(const struct profile_facts *facts, FILE *out);
void profile_print_json(const struct profile_facts *facts, FILE *out);
void profile_print_prometheus(const struct profile_facts *facts, FILE *out);

#endif
