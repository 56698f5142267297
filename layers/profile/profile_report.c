/* SPDX-License-Identifier: BSD-2-Clause */
/* Reports: a table to read, JSON (one line each), Prometheus text. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/output.h"
#include "layers/profile/profile.h"

static const char *const class_names[CALL_CLASSES] = {
    [CALL_CLASS_RECV] = "receive",  [CALL_CLASS_SEND] = "send",
    [CALL_CLASS_READ] = "read",     [CALL_CLASS_WRITE] = "write",
    [CALL_CLASS_ATOMIC] = "atomic", [CALL_CLASS_COLLECTIVE] = "collective",
};

static const double quantiles[] = {0.5, 0.9, 0.99, 0.999, 1};
enum {
    QUANTILES = sizeof(quantiles) / sizeof(*quantiles)
};

static uint64_t timed(struct profile *profile, int class)
{
    return atomic_load_explicit(&profile->times[class].count, memory_order_relaxed);
}

static uint64_t waiting(struct profile *profile)
{
    return atomic_load(&profile->depth.asked) + atomic_load(&profile->depth.passed);
}

static uint64_t most_waiting(struct profile *profile)
{
    return atomic_load(&profile->depth.most);
}

/* ---- A table ---- */

static void print_size(unsigned class, FILE *out)
{
    static const char *const units[] = {"", "k", "M", "G", "T", "P", "E"};

    if (!class)
        fprintf(out, " 0");
    else
        fprintf(out, " %u%s..", 1u << ((class - 1) % 10), units[(class - 1) / 10]);
}

static void table_calls(const struct profile_counts *counts, FILE *out)
{
    fprintf(out, "%-22s %14s %14s %14s %14s %18s\n", "call", "accepted", "FI_EAGAIN", "retried",
            "failed", "bytes");
    for (int i = 0; i < CALL_KINDS; i++)
        if (counts->calls[i])
            fprintf(out,
                    "%-22s %14" PRIu64 " %14" PRIu64 " %14" PRIu64 " %14" PRIu64 " %18" PRIu64 "\n",
                    call_name(i), counts->calls[i] - counts->again[i] - counts->failed[i],
                    counts->again[i], counts->retried[i], counts->failed[i], counts->bytes[i]);
}

static void table_sizes(const struct profile_counts *counts, FILE *out)
{
    for (int call = 0; call < CALL_KINDS; call++) {
        bool any = false;

        for (unsigned i = 0; i < PROFILE_SIZES; i++) {
            if (!counts->sizes[call][i])
                continue;
            if (!any)
                fprintf(out, "sizes of %s:", call_name(call));
            print_size(i, out);
            fprintf(out, " %" PRIu64, counts->sizes[call][i]);
            any = true;
        }
        if (any)
            fputc('\n', out);
    }
}

static void table_times(struct profile *profile, FILE *out)
{
    bool any = false;

    for (int class = 0; class < CALL_CLASSES; class ++) {
        if (!timed(profile, class))
            continue;
        if (!any)
            fprintf(out,
                    "%-22s %8s %10s %10s %10s %10s %10s   one of %" PRIu32 ", +3.2%% at most\n",
                    "call to completion, us", "timed", "p50", "p90", "p99", "p99.9", "max",
                    profile->sample);
        any = true;
        fprintf(out, "%-22s %8" PRIu64, class_names[class], timed(profile, class));
        for (int q = 0; q < QUANTILES; q++)
            fprintf(out, " %10.2f",
                    (double)profile_quantile(&profile->times[class], quantiles[q]) / 1000);
        fputc('\n', out);
    }
}

static void print_table(struct profile *profile, const struct profile_counts *counts,
                        const char *below, FILE *out)
{
    fprintf(out, "profile over %s, process %d\n", below, (int)getpid());
    table_calls(counts, out);
    fprintf(out,
            "completions: %" PRIu64 ", errors: %" PRIu64 ", reads: %" PRIu64 " and %" PRIu64
            " empty\n",
            counts->completions, counts->errors, counts->reads, counts->empty_reads);
    fprintf(out,
            "unexpected messages: %" PRIu64 " came by, %" PRIu64 " wait, %" PRIu64
            " at most were seen to wait\n",
            counts->unexpected, waiting(profile), most_waiting(profile));
    table_sizes(counts, out);
    table_times(profile, out);
    fputc('\n', out);
}

/* ---- JSON ---- */

static void json_sizes(const uint64_t *sizes, FILE *out)
{
    const char *comma = "";

    for (unsigned i = 0; i < PROFILE_SIZES; i++) {
        if (!sizes[i])
            continue;
        fprintf(out, "%s\"%" PRIu64 "\":%" PRIu64, comma, i ? (uint64_t)1 << (i - 1) : 0, sizes[i]);
        comma = ",";
    }
}

static void json_class(struct profile *profile, int class, FILE *out)
{
    const struct profile_times *times = &profile->times[class];

    fprintf(out, "\"%s\":{\"timed\":%" PRIu64 ",\"ns\":{", class_names[class],
            timed(profile, class));
    for (int q = 0; q < QUANTILES; q++)
        fprintf(out, "%s\"%g\":%" PRIu64, q ? "," : "", quantiles[q],
                profile_quantile(times, quantiles[q]));
    fputs("}}", out);
}

/* Names of stacks have no character that JSON or Prometheus would want escaped but these. */
static void print_name(const char *name, FILE *out)
{
    for (; *name; name++) {
        if (*name == '"' || *name == '\\')
            fputc('\\', out);
        fputc(*name, out);
    }
}

static void print_json(struct profile *profile, const struct profile_counts *counts,
                       const char *below, FILE *out)
{
    const char *comma = "";

    fprintf(out, "{\"over\":\"");
    print_name(below, out);
    fprintf(out, "\",\"pid\":%d,\"sample\":%" PRIu32 ",\"calls\":{", (int)getpid(),
            profile->sample);
    for (int i = 0; i < CALL_KINDS; i++) {
        if (!counts->calls[i])
            continue;
        fprintf(out,
                "%s\"%s\":{\"calls\":%" PRIu64 ",\"again\":%" PRIu64 ",\"failed\":%" PRIu64
                ",\"bytes\":%" PRIu64 ",\"retried\":%" PRIu64 ",\"sizes\":{",
                comma, call_name(i), counts->calls[i], counts->again[i], counts->failed[i],
                counts->bytes[i], counts->retried[i]);
        json_sizes(counts->sizes[i], out);
        fputs("}}", out);
        comma = ",";
    }
    fprintf(out,
            "},\"completions\":%" PRIu64 ",\"errors\":%" PRIu64 ",\"reads\":%" PRIu64
            ",\"empty_reads\":%" PRIu64 ",\"unexpected\":%" PRIu64 ",\"waiting\":%" PRIu64
            ",\"most_waiting\":%" PRIu64 ",\"classes\":{",
            counts->completions, counts->errors, counts->reads, counts->empty_reads,
            counts->unexpected, waiting(profile), most_waiting(profile));
    for (int class = 0; class < CALL_CLASSES; class ++) {
        fputs(class ? "," : "", out);
        json_class(profile, class, out);
    }
    fputs("}}\n", out);
}

/* ---- Prometheus ---- */

struct metrics {
    const char *below;
    FILE *out;
};

static void type(const struct metrics *metrics, const char *name, const char *kind)
{
    fprintf(metrics->out, "# TYPE weft_%s %s\n", name, kind);
}

static void metric(const struct metrics *metrics, const char *name, const char *label,
                   const char *value)
{
    fprintf(metrics->out, "weft_%s{pid=\"%d\",over=\"", name, (int)getpid());
    print_name(metrics->below, metrics->out);
    fputc('"', metrics->out);
    if (label)
        fprintf(metrics->out, ",%s=\"%s\"", label, value);
}

static void by_call(const struct metrics *metrics, const char *name, const uint64_t *counts,
                    const uint64_t *calls)
{
    type(metrics, name, "counter");
    for (int i = 0; i < CALL_KINDS; i++) {
        if (!calls[i])
            continue;
        metric(metrics, name, "call", call_name(i));
        fprintf(metrics->out, "} %" PRIu64 "\n", counts[i]);
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
static void sizes_of(const struct metrics *metrics, int call, const struct profile_counts *counts)
{
    const uint64_t *sizes = counts->sizes[call];
    unsigned last = PROFILE_SIZES;
    uint64_t count = 0;

    while (last && !sizes[last - 1])
        last--;
    for (unsigned i = 0; i < last; i++) {
        count += sizes[i];
        metric(metrics, "message_bytes_bucket", "call", call_name(call));
        fprintf(metrics->out, ",le=\"%" PRIu64 "\"} %" PRIu64 "\n",
                i < 64 ? ((uint64_t)1 << i) - 1 : UINT64_MAX, count);
    }
    metric(metrics, "message_bytes_bucket", "call", call_name(call));
    fprintf(metrics->out, ",le=\"+Inf\"} %" PRIu64 "\n", count);
    metric(metrics, "message_bytes_sum", "call", call_name(call));
    fprintf(metrics->out, "} %" PRIu64 "\n", counts->bytes[call]);
    metric(metrics, "message_bytes_count", "call", call_name(call));
    fprintf(metrics->out, "} %" PRIu64 "\n", count);
}

static void message_sizes(const struct metrics *metrics, const struct profile_counts *counts)
{
    type(metrics, "message_bytes", "histogram");
    for (int i = 0; i < CALL_KINDS; i++)
        if (counts->calls[i])
            sizes_of(metrics, i, counts);
}

static void latencies(const struct metrics *metrics, struct profile *profile)
{
    type(metrics, "latency_seconds", "summary");
    for (int class = 0; class < CALL_CLASSES; class ++) {
        const struct profile_times *times = &profile->times[class];

        if (!timed(profile, class))
            continue;
        for (int q = 0; q < QUANTILES; q++) {
            metric(metrics, "latency_seconds", "class", class_names[class]);
            fprintf(metrics->out, ",quantile=\"%g\"} %.9f\n", quantiles[q],
                    (double)profile_quantile(times, quantiles[q]) / 1e9);
        }
        metric(metrics, "latency_seconds_sum", "class", class_names[class]);
        fprintf(metrics->out, "} %.9f\n",
                (double)atomic_load_explicit(&times->sum, memory_order_relaxed) / 1e9);
        metric(metrics, "latency_seconds_count", "class", class_names[class]);
        fprintf(metrics->out, "} %" PRIu64 "\n", timed(profile, class));
    }
}

static void print_prometheus(struct profile *profile, const struct profile_counts *counts,
                             const char *below, FILE *out)
{
    const struct metrics metrics = {below, out};

    by_call(&metrics, "calls_total", counts->calls, counts->calls);
    by_call(&metrics, "again_total", counts->again, counts->calls);
    by_call(&metrics, "failed_total", counts->failed, counts->calls);
    by_call(&metrics, "retried_total", counts->retried, counts->calls);
    by_call(&metrics, "bytes_total", counts->bytes, counts->calls);
    message_sizes(&metrics, counts);
    single(&metrics, "completions_total", "counter", counts->completions);
    single(&metrics, "errors_total", "counter", counts->errors);
    single(&metrics, "cq_reads_total", "counter", counts->reads);
    single(&metrics, "cq_empty_reads_total", "counter", counts->empty_reads);
    single(&metrics, "unexpected_total", "counter", counts->unexpected);
    single(&metrics, "unexpected_waiting", "gauge", waiting(profile));
    single(&metrics, "unexpected_waiting_most", "gauge", most_waiting(profile));
    latencies(&metrics, profile);
}

void profile_print(struct profile *profile, const char *below, enum profile_format format,
                   FILE *out)
{
    struct profile_counts counts;

    profile_sum(profile, &counts);
    switch (format) {
    case PROFILE_TABLE: print_table(profile, &counts, below, out); break;
    case PROFILE_JSON: print_json(profile, &counts, below, out); break;
    case PROFILE_PROMETHEUS: print_prometheus(profile, &counts, below, out); break;
    }
}

/* ---- Where it goes ---- */

int profile_report(struct profile_layer *layer)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    int rc = -ENOMEM;

    if (!out)
        return rc;
    profile_print(layer->profile, layer->below, layer->format, out);
    if (fclose(out))
        rc = -ENOMEM;
    else if (layer->path && layer->format == PROFILE_PROMETHEUS)
        rc = output_replace(layer->path, text, len);
    else
        rc = output_append(layer->path, text, len);
    free(text);
    return rc;
}
