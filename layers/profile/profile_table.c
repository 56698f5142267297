/* SPDX-License-Identifier: BSD-2-Clause */
/* The report as a table to read. */
#include <inttypes.h>
#include <stdlib.h>

#include "layers/profile/profile.h"

enum {
    PEERS_SHOWN = 16
};

static const char *power_text(unsigned power, char *text, size_t size)
{
    static const char *const prefixes[] = {"", "k", "M", "G", "T", "P", "E"};

    snprintf(text, size, "%u%s", 1u << (power % 10), prefixes[power / 10]);
    return text;
}

/* "8-15", "16k-32k": the end of a class that has a unit is the beginning of the next. */
static void print_size(unsigned class, FILE *out)
{
    char from[16], to[16];

    if (class < 2)
        fprintf(out, "%u", class);
    else if (class <= 10)
        fprintf(out, "%u-%u", 1u << (class - 1), (1u << class) - 1);
    else
        fprintf(out, "%s-%s", power_text(class - 1, from, sizeof(from)),
                power_text(class, to, sizeof(to)));
}

static void print_head(const struct profile_facts *facts, FILE *out)
{
    hook_report_head(facts->report, &facts->identity, out);
    fprintf(out, ", %.3f s\n", facts->elapsed);
}

static void print_calls(const struct profile_counts *counts, FILE *out)
{
    fprintf(out, "%-22s %14s %14s %14s %14s %18s\n", "call", "accepted", "FI_EAGAIN", "retried",
            "failed", "bytes");
    for (int i = 0; i < OP_CALLS; i++) {
        if (!profile_calls(counts, i))
            continue;
        fprintf(out, "%-22s %14" PRIu64 " %14" PRIu64 " %14" PRIu64 " %14" PRIu64, op_name(i),
                profile_accepted(counts, i), counts->again[i], counts->retried[i],
                counts->failed[i]);
        if (op_class(i) == OP_CLASS_RECV)
            fprintf(out, " %18s\n", "-");
        else
            fprintf(out, " %18" PRIu64 "\n", counts->bytes[i]);
    }
}

static void print_sizes(const char *what, const uint64_t *sizes, FILE *out)
{
    const char *comma = "";

    fprintf(out, "sizes of %s, bytes:", what);
    for (unsigned i = 0; i < PROFILE_SIZES; i++) {
        if (!sizes[i])
            continue;
        fprintf(out, "%s ", comma);
        print_size(i, out);
        fprintf(out, ": %" PRIu64, sizes[i]);
        comma = ",";
    }
    fputc('\n', out);
}

static void print_all_sizes(const struct profile_counts *counts, FILE *out)
{
    for (int call = 0; call < OP_CALLS; call++)
        if (op_class(call) != OP_CLASS_RECV && profile_accepted(counts, call))
            print_sizes(op_name(call), counts->sizes[call], out);
    if (profile_received(counts))
        print_sizes("received messages", counts->received_sizes, out);
}

static void print_queue(const struct profile_facts *facts, FILE *out)
{
    const struct profile_counts *counts = &facts->counts;

    if (profile_received(counts))
        fprintf(out, "received: %" PRIu64 " messages, %" PRIu64 " bytes\n",
                profile_received(counts), counts->received_bytes);
    fprintf(out,
            "completions: %" PRIu64 ", and %" PRIu64 " in error; queue reads: %" PRIu64
            " that gave some, %" PRIu64 " that found nothing\n",
            counts->completions, counts->errors, counts->reads, counts->empty_reads);
    if (facts->counts_by)
        fprintf(out,
                "messages before their receive: %" PRIu64 " came, %" PRIu64
                " still wait, at most %" PRIu64 " waited at once\n",
                counts->unexpected, facts->waiting, facts->most_waiting);
    else if (facts->knows_waits)
        fprintf(out,
                "messages before their receive: %" PRIu64 " wait now, at most %" PRIu64
                " were seen to wait at once (by a look in every %d reads)\n",
                facts->waiting, facts->most_waiting, PROFILE_ASK);
}

static const char *band_text(unsigned band, char *text, size_t size)
{
    static const char *const names[PROFILE_BANDS] = {
        "0-63", "64-511", "512-1023", "1k-4k", "4k-64k", "64k-256k", "256k-1M", "1M-4M", "4M-", "?",
    };

    snprintf(text, size, "%s", names[band]);
    return text;
}

static void print_time(const char *what, const char *size, const struct profile_times *times,
                       FILE *out)
{
    fprintf(out, "%-11s %10s %8" PRIu64, what, size, profile_timed(times));
    for (int q = 0; q < PROFILE_QUANTILES; q++)
        fprintf(out, " %10.2f", (double)profile_quantile(times, profile_quantiles[q]) / 1000);
    fputc('\n', out);
}

static void print_times(const struct profile_facts *facts, FILE *out)
{
    struct profile *profile = facts->profile;
    bool any = false;
    char size[16];

    for (int class = 0; class < OP_CLASSES; class ++) {
        for (unsigned band = 0; band < PROFILE_BANDS; band++) {
            const struct profile_times *times = &profile->times[class][band];

            if (!profile_timed(times))
                continue;
            if (!any)
                fprintf(out,
                        "%-22s %8s %10s %10s %10s %10s %10s   one of %" PRIu32 ", +3.2%% at most\n",
                        "call to completion, us", "timed", "p50", "p90", "p99", "p99.9", "max",
                        profile->timer.sample);
            any = true;
            print_time(profile_class_names[class], band_text(band, size, sizeof(size)), times, out);
        }
    }
    for (int class = 0; class < OP_CLASSES; class ++) {
        const struct profile_first *first = &profile->first[class];

        if (atomic_load(&first->count))
            fprintf(out, "first %s: %.2f us; not counted above, it may have had to connect\n",
                    profile_class_names[class], (double)atomic_load(&first->most) / 1000);
    }
}

static int by_bytes(const void *a, const void *b)
{
    const struct profile_peer *const *x = a, *const *y = b;

    if ((*x)->counts.bytes != (*y)->counts.bytes)
        return (*x)->counts.bytes > (*y)->counts.bytes ? -1 : 1;
    return (*x)->counts.messages > (*y)->counts.messages ? -1 : 1;
}

static void print_peers(const struct profile_peers *peers, FILE *out)
{
    const struct profile_peer **order = calloc(peers->count + 1, sizeof(struct profile_peer *));

    for (size_t i = 0; order && i < peers->count; i++)
        order[i] = &peers->list[i];
    if (order)
        qsort(order, peers->count, sizeof(struct profile_peer *), by_bytes);
    for (size_t i = 0; order && i < peers->count && i < PEERS_SHOWN; i++)
        fprintf(out, "to %s: %" PRIu64 " operations, %" PRIu64 " bytes\n",
                order[i]->address ? order[i]->address : "others", order[i]->counts.messages,
                order[i]->counts.bytes);
    if (order && peers->count > PEERS_SHOWN)
        fprintf(out, "to %zu more peers: see format=json\n", peers->count - PEERS_SHOWN);
    free(order);
}

void profile_print_table(const struct profile_facts *facts, FILE *out)
{
    print_head(facts, out);
    print_calls(&facts->counts, out);
    print_queue(facts, out);
    print_all_sizes(&facts->counts, out);
    print_times(facts, out);
    print_peers(&facts->profile->peers, out);
    fputc('\n', out);
}
