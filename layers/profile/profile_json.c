/* SPDX-License-Identifier: BSD-2-Clause */
/* The report as JSON, one line. Figures that are not known are left out. */
#include <inttypes.h>
#include <stdlib.h>

#include "layers/profile/profile.h"

static void print_head(const struct profile_facts *facts, FILE *out)
{
    fputs("{\"over\":\"", out);
    hook_report_name(facts->report->below, out);
    fprintf(out, "\",\"layer\":%u,\"program\":\"", facts->profile->number);
    hook_report_name(facts->identity.program, out);
    fputs("\",\"host\":\"", out);
    hook_report_name(facts->identity.host, out);
    fprintf(out, "\",\"pid\":%d", facts->identity.pid);
    if (facts->identity.rank >= 0)
        fprintf(out, ",\"rank\":%ld", facts->identity.rank);
    fprintf(out, ",\"started\":%.6f,\"elapsed\":%.6f,\"sample\":%" PRIu32,
            (double)facts->profile->wall_ns / 1e9, facts->elapsed, facts->profile->timer.sample);
}

static void print_sizes(const uint64_t *sizes, FILE *out)
{
    const char *comma = "";

    fputs(",\"sizes\":{", out);
    for (unsigned i = 0; i < PROFILE_SIZES; i++) {
        if (!sizes[i])
            continue;
        fprintf(out, "%s\"%" PRIu64 "\":%" PRIu64, comma, i ? (uint64_t)1 << (i - 1) : 0, sizes[i]);
        comma = ",";
    }
    fputc('}', out);
}

static void print_calls(const struct profile_counts *counts, FILE *out)
{
    const char *comma = "";

    fputs(",\"calls\":{", out);
    for (int i = 0; i < OP_CALLS; i++) {
        if (!profile_calls(counts, i))
            continue;
        fprintf(out,
                "%s\"%s\":{\"calls\":%" PRIu64 ",\"again\":%" PRIu64 ",\"failed\":%" PRIu64
                ",\"retried\":%" PRIu64,
                comma, op_name(i), profile_calls(counts, i), counts->again[i], counts->failed[i],
                counts->retried[i]);
        if (op_class(i) != OP_CLASS_RECV) {
            fprintf(out, ",\"bytes\":%" PRIu64, counts->bytes[i]);
            print_sizes(counts->sizes[i], out);
        }
        fputc('}', out);
        comma = ",";
    }
    fputc('}', out);
}

static void print_queue(const struct profile_facts *facts, FILE *out)
{
    const struct profile_counts *counts = &facts->counts;

    if (profile_received(counts)) {
        fprintf(out, ",\"received\":{\"messages\":%" PRIu64 ",\"bytes\":%" PRIu64,
                profile_received(counts), counts->received_bytes);
        print_sizes(counts->received_sizes, out);
        fputc('}', out);
    }
    fprintf(out,
            ",\"completions\":%" PRIu64 ",\"errors\":%" PRIu64 ",\"reads\":%" PRIu64
            ",\"empty_reads\":%" PRIu64,
            counts->completions, counts->errors, counts->reads, counts->empty_reads);
    if (facts->counts_by)
        fprintf(out, ",\"unexpected\":%" PRIu64, counts->unexpected);
    if (facts->knows_waits)
        fprintf(out, ",\"waiting\":%" PRIu64 ",\"most_waiting\":%" PRIu64, facts->waiting,
                facts->most_waiting);
}

static void print_times(const struct profile_times *times, FILE *out)
{
    fprintf(out, "\"timed\":%" PRIu64 ",\"ns\":{", profile_timed(times));
    for (int q = 0; q < PROFILE_QUANTILES; q++)
        fprintf(out, "%s\"%g\":%" PRIu64, q ? "," : "", profile_quantiles[q],
                profile_quantile(times, profile_quantiles[q]));
    fputc('}', out);
}

/* buckets: [the largest time in it, ns, and how many]; all end at the same times in every report.
 */
static void print_band(const struct profile_times *times, unsigned band, FILE *out)
{
    const char *comma = "";

    fputc('{', out);
    if (band < PROFILE_BANDS - 1)
        fprintf(out, "\"from\":%" PRIu64 ",", profile_band_start(band));
    if (band < PROFILE_BANDS - 2)
        fprintf(out, "\"to\":%" PRIu64 ",", profile_band_start(band + 1) - 1);
    print_times(times, out);
    fprintf(out, ",\"sum\":%" PRIu64 ",\"buckets\":[",
            (uint64_t)atomic_load_explicit(&times->sum, memory_order_relaxed));
    for (unsigned i = 0; i < PROFILE_BUCKETS; i++) {
        uint64_t count = atomic_load_explicit(&times->buckets[i], memory_order_relaxed);

        if (!count)
            continue;
        fprintf(out, "%s[%" PRIu64 ",%" PRIu64 "]", comma, profile_bucket_end(i), count);
        comma = ",";
    }
    fputs("]}", out);
}

static void print_class(struct profile *profile, int class, struct profile_times *sum, FILE *out)
{
    const struct profile_first *first = &profile->first[class];
    const char *comma = "";

    fprintf(out, "\"%s\":{", profile_class_names[class]);
    if (atomic_load(&first->count))
        fprintf(out, "\"first\":%" PRIu64 ",\"first_ns\":%" PRIu64 "%s",
                (uint64_t)atomic_load(&first->count), (uint64_t)atomic_load(&first->most),
                profile_timed(sum) ? "," : "");
    if (profile_timed(sum)) {
        print_times(sum, out);
        fputs(",\"by_size\":[", out);
        for (unsigned band = 0; band < PROFILE_BANDS; band++) {
            if (!profile_timed(&profile->times[class][band]))
                continue;
            fputs(comma, out);
            print_band(&profile->times[class][band], band, out);
            comma = ",";
        }
        fputc(']', out);
    }
    fputc('}', out);
}

static void print_classes(struct profile *profile, FILE *out)
{
    struct profile_times *sum = calloc(1, sizeof(*sum));
    const char *comma = "";

    fputs(",\"classes\":{", out);
    for (int class = 0; sum && class < OP_CLASSES; class ++) {
        profile_times_sum(profile->times[class], sum);
        if (!profile_timed(sum) && !atomic_load(&profile->first[class].count))
            continue;
        fputs(comma, out);
        print_class(profile, class, sum, out);
        comma = ",";
    }
    fputc('}', out);
    free(sum);
}

static void print_peers(const struct profile_peers *peers, FILE *out)
{
    if (peers->own_count)
        fputs(",\"addresses\":[", out);
    for (size_t i = 0; i < peers->own_count; i++)
        fprintf(out, "%s\"%s\"", i ? "," : "", peers->own[i]);
    if (peers->own_count)
        fputc(']', out);
    if (peers->count)
        fputs(",\"peers\":[", out);
    for (size_t i = 0; i < peers->count; i++) {
        const struct profile_peer *peer = &peers->list[i];

        fputs(i ? ",{" : "{", out);
        if (peer->address)
            fprintf(out, "\"address\":\"%s\",", peer->address);
        fprintf(out, "\"messages\":%" PRIu64 ",\"bytes\":%" PRIu64 "}", peer->counts.messages,
                peer->counts.bytes);
    }
    if (peers->count)
        fputc(']', out);
}

void profile_print_json(const struct profile_facts *facts, FILE *out)
{
    print_head(facts, out);
    print_calls(&facts->counts, out);
    print_queue(facts, out);
    print_classes(facts->profile, out);
    print_peers(&facts->profile->peers, out);
    fputs("}\n", out);
}
