/* SPDX-License-Identifier: BSD-2-Clause */
/* The layer: which tables it replaces, and how it reports. */
#ifndef WEFT_PROFILE_H
#define WEFT_PROFILE_H

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

#include "core/pass.h"
#include "layers/profile/profile_count.h"

enum profile_format {
    PROFILE_TABLE,
    PROFILE_JSON,
    PROFILE_PROMETHEUS
};

/* Behind `hook` of a fabric. */
struct profile_layer {
    struct profile *profile; /* first: that is what its endpoints and queues have behind theirs */
    char *below;             /* what it stands on */
    char *path;              /* NULL: standard error */
    enum profile_format format;
    int64_t every_ms; /* 0: not by time */
    int signo;        /* 0: not by a signal */
    bool threaded;
    pthread_t thread;
    sem_t own_wake, *wake; /* posted by a signal, or when it ends */
    atomic_bool ending;
};

void profile_data_ops(struct pass_ops *ops);

/* Writes a report where the parameters say. A negative errno. */
int profile_report(struct profile_layer *layer);
/* In one format. */
void profile_print(struct profile *profile, const char *below, enum profile_format format,
                   FILE *out);

#endif
