/* SPDX-License-Identifier: BSD-2-Clause */
/* The facts of all reports. */
#include <string.h>

#include "layers/profile/profile.h"

const char *const profile_class_names[OP_CLASSES] = {
    [OP_CLASS_RECV] = "receive", [OP_CLASS_SEND] = "send",     [OP_CLASS_READ] = "read",
    [OP_CLASS_WRITE] = "write",  [OP_CLASS_ATOMIC] = "atomic", [OP_CLASS_COLLECTIVE] = "collective",
};

const double profile_quantiles[PROFILE_QUANTILES] = {0.5, 0.9, 0.99, 0.999, 1};

uint64_t profile_timed(const struct profile_times *times)
{
    return atomic_load_explicit(&times->count, memory_order_relaxed);
}

uint64_t profile_calls(const struct profile_counts *counts, int kind)
{
    return profile_accepted(counts, (enum op_call)kind) + counts->again[kind] +
           counts->failed[kind];
}

static void gather(const struct profile_layer *layer, struct profile_facts *facts)
{
    struct profile *profile = layer->profile;
    struct profile_depth *depth = &profile->depth;

    memset(facts, 0, sizeof(*facts));
    identity_read(&facts->identity);
    facts->profile = profile;
    facts->report = &layer->report;
    facts->elapsed = (double)(clock_ns() - profile->opened_ns) / 1e9;
    facts->counts_by = atomic_load(&profile->handles.matches_above);
    facts->knows_waits = facts->counts_by || atomic_load(&depth->ever);
    facts->waiting = atomic_load(&depth->asked) + atomic_load(&depth->passed);
    facts->most_waiting = atomic_load(&depth->most);
    profile_sum(profile, &facts->counts);
}

void profile_print(void *arg, FILE *out)
{
    const struct profile_layer *layer = arg;
    struct profile_facts facts;

    gather(layer, &facts);
    pthread_mutex_lock(&layer->profile->peers.mutex);
    switch (layer->format) {
    case PROFILE_TABLE: profile_print_table(&facts, out); break;
    case PROFILE_JSON: profile_print_json(&facts, out); break;
    case PROFILE_PROMETHEUS: profile_print_prometheus(&facts, out); break;
    }
    pthread_mutex_unlock(&layer->profile->peers.mutex);
}
