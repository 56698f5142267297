/* SPDX-License-Identifier: BSD-2-Clause */
/* The report as text for Prometheus. */
#include <inttypes.h>
#include <stdlib.h>

#include "layers/profile/profile.h"

struct metrics {
    const struct profile_facts *facts;
    FILE *out;
};

static void type(const struct metrics *metrics, const char *name, const char *kind)
{
    fprintf(metrics->out, "# TYPE weft_%s %s\n", name, kind);
}

static void metric(const struct metrics *metrics, const char *name, const char *label,
                   const char *value)
{
    const struct identity *identity = &metrics->facts->identity;
    FILE *out = metrics->out;

    fprintf(out, "weft_%s{program=\"", name);
    hook_report_name(identity->program, out);
    fputs("\",host=\"", out);
    hook_report_name(identity->host, out);
    fprintf(out, "\",pid=\"%d\"", identity->pid);
    if (identity->rank >= 0)
        fprintf(out, ",rank=\"%ld\"", identity->rank);
    fputs(",over=\"", out);
    hook_report_name(metrics->facts->report->below, out);
    fputc('"', out);
    if (label)
        fprintf(out, ",%s=\"%s\"", label, value);
}

enum by_call {
    BY_CALLS,
    BY_AGAIN,
    BY_FAILED,
    BY_RETRIED,
    BY_BYTES
};

static uint64_t value_of(const struct profile_counts *counts, enum by_call which, int call)
{
    switch (which) {
    case BY_CALLS: return profile_calls(counts, call);
    case BY_AGAIN: return counts->again[call];
    case BY_FAILED: return counts->failed[call];
    case BY_RETRIED: return counts->retried[call];
    default: return counts->bytes[call];
    }
}

static void by_call(const struct metrics *metrics, const char *name, enum by_call which)
{
    const struct profile_counts *counts = &metrics->facts->counts;

    type(metrics, name, "counter");
    for (int i = 0; i < OP_CALLS; i++) {
        if (!profile_calls(counts, i) || (which == BY_BYTES && op_class(i) == OP_CLASS_RECV))
            continue;
        metric(metrics, name, "call", op_name(i));
        fprintf(metrics->out, "} %" PRIu64 "\n", value_of(counts, which, i));
    }
}

static void single(const struct metrics *metrics, const char *name, const char *kind,
                   uint64_t count)
{
    type(metrics, name, kind);
    metric(metrics, name, NULL, NULL);
    fprintf(metrics->out, "} %" PRIu64 "\n", count);
}

/* Buckets end at 0, 1, 3, 7, ... bytes, the last one where there is something. */
static void sizes_of(const struct metrics *metrics, const char *call, const uint64_t *sizes,
                     uint64_t bytes)
{
    unsigned last = PROFILE_SIZES;
    uint64_t count = 0;

    while (last && !sizes[last - 1])
        last--;
    for (unsigned i = 0; i < last; i++) {
        count += sizes[i];
        metric(metrics, "message_bytes_bucket", "call", call);
        fprintf(metrics->out, ",le=\"%" PRIu64 "\"} %" PRIu64 "\n", ((uint64_t)1 << i) - 1, count);
    }
    metric(metrics, "message_bytes_bucket", "call", call);
    fprintf(metrics->out, ",le=\"+Inf\"} %" PRIu64 "\n", count);
    metric(metrics, "message_bytes_sum", "call", call);
    fprintf(metrics->out, "} %" PRIu64 "\n", bytes);
    metric(metrics, "message_bytes_count", "call", call);
    fprintf(metrics->out, "} %" PRIu64 "\n", count);
}

static void message_sizes(const struct metrics *metrics)
{
    const struct profile_counts *counts = &metrics->facts->counts;

    type(metrics, "message_bytes", "histogram");
    for (int i = 0; i < OP_CALLS; i++)
        if (profile_calls(counts, i) && op_class(i) != OP_CLASS_RECV)
            sizes_of(metrics, op_name(i), counts->sizes[i], counts->bytes[i]);
    if (profile_received(counts))
        sizes_of(metrics, "received", counts->received_sizes, counts->received_bytes);
}

static void quantiles_of(const struct metrics *metrics, int class,
                         const struct profile_times *times)
{
    for (int q = 0; q < PROFILE_QUANTILES; q++) {
        metric(metrics, "latency_seconds", "class", profile_class_names[class]);
        fprintf(metrics->out, ",quantile=\"%g\"} %.9f\n", profile_quantiles[q],
                (double)profile_quantile(times, profile_quantiles[q]) / 1e9);
    }
    metric(metrics, "latency_seconds_sum", "class", profile_class_names[class]);
    fprintf(metrics->out, "} %.9f\n",
            (double)atomic_load_explicit(&times->sum, memory_order_relaxed) / 1e9);
    metric(metrics, "latency_seconds_count", "class", profile_class_names[class]);
    fprintf(metrics->out, "} %" PRIu64 "\n", profile_timed(times));
}

static void latencies(const struct metrics *metrics)
{
    struct profile *profile = metrics->facts->profile;
    struct profile_times *sum = calloc(1, sizeof(*sum));

    type(metrics, "latency_seconds", "summary");
    for (int class = 0; sum && class < OP_CLASSES; class ++) {
        profile_times_sum(profile->times[class], sum);
        if (profile_timed(sum))
            quantiles_of(metrics, class, sum);
    }
    free(sum);
    type(metrics, "first_latency_seconds", "gauge");
    for (int class = 0; class < OP_CLASSES; class ++) {
        if (!atomic_load(&profile->first[class].count))
            continue;
        metric(metrics, "first_latency_seconds", "class", profile_class_names[class]);
        fprintf(metrics->out, "} %.9f\n", (double)atomic_load(&profile->first[class].most) / 1e9);
    }
}

void profile_print_prometheus(const struct profile_facts *facts, FILE *out)
{
    const struct metrics metrics = {facts, out};
    const struct profile_counts *counts = &facts->counts;

    fprintf(out, PROFILE_CLAIM("%d", "%s"), facts->identity.pid, facts->identity.host);
    type(&metrics, "elapsed_seconds", "gauge");
    metric(&metrics, "elapsed_seconds", NULL, NULL);
    fprintf(out, "} %.3f\n", facts->elapsed);
    by_call(&metrics, "calls_total", BY_CALLS);
    by_call(&metrics, "again_total", BY_AGAIN);
    by_call(&metrics, "failed_total", BY_FAILED);
    by_call(&metrics, "retried_total", BY_RETRIED);
    by_call(&metrics, "bytes_total", BY_BYTES);
    message_sizes(&metrics);
    single(&metrics, "completions_total", "counter", counts->completions);
    single(&metrics, "errors_total", "counter", counts->errors);
    single(&metrics, "cq_reads_total", "counter", counts->reads);
    single(&metrics, "cq_empty_reads_total", "counter", counts->empty_reads);
    if (facts->counts_by)
        single(&metrics, "unexpected_total", "counter", counts->unexpected);
    if (facts->knows_waits) {
        single(&metrics, "unexpected_waiting", "gauge", facts->waiting);
        single(&metrics, "unexpected_waiting_most", "gauge", facts->most_waiting);
    }
    latencies(&metrics);
}
