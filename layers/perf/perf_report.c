/* SPDX-License-Identifier: BSD-2-Clause */
/* The report: a table to read, or JSON in one line. */
#include <inttypes.h>

#include "layers/perf/perf.h"

static const char *const names[] = {
    [PERF_CQ_READ - OP_CALLS] = "fi_cq_read",
    [PERF_CQ_READ_EMPTY - OP_CALLS] = "fi_cq_read, empty",
    [PERF_CQ_READERR - OP_CALLS] = "fi_cq_readerr",
    [PERF_CQ_SREAD - OP_CALLS] = "fi_cq_sread",
    [PERF_CQ_SIGNAL - OP_CALLS] = "fi_cq_signal",
    [PERF_CNTR_READ - OP_CALLS] = "fi_cntr_read",
    [PERF_CNTR_READERR - OP_CALLS] = "fi_cntr_readerr",
    [PERF_CNTR_ADD - OP_CALLS] = "fi_cntr_add",
    [PERF_CNTR_SET - OP_CALLS] = "fi_cntr_set",
    [PERF_CNTR_WAIT - OP_CALLS] = "fi_cntr_wait",
};

static const char *kind_name(int kind)
{
    return kind < OP_CALLS ? op_name((enum op_call)kind) : names[kind - OP_CALLS];
}

static uint64_t look(const uint64_t *count)
{
    return __atomic_load_n(count, __ATOMIC_RELAXED);
}

static void add_up(struct perf_layer *layer, struct perf_counts *sum)
{
    *sum = (struct perf_counts){0};
    per_thread_lock();
    for (struct block *block = layer->per_thread.first; block; block = block->next) {
        const struct perf_counts *counts = &((struct perf_block *)block)->counts;

        for (int kind = 0; kind < PERF_KINDS; kind++) {
            uint64_t most = look(&counts->most[kind]);

            sum->calls[kind] += look(&counts->calls[kind]);
            sum->most[kind] = most > sum->most[kind] ? most : sum->most[kind];
            for (unsigned i = 0; i < PERF_EVENTS; i++)
                sum->sums[kind][i] += look(&counts->sums[kind][i]);
        }
    }
    per_thread_unlock();
}

static void print_table(const struct perf_layer *layer, const struct perf_counts *sum, FILE *out)
{
    struct identity identity;

    identity_read(&identity);
    hook_report_head(&layer->report, &identity, out);
    fputs(": mean of a call, what is below it included\n", out);
    fprintf(out, "%-22s %12s", "call", "calls");
    for (unsigned i = 0; i < layer->set.count; i++)
        fprintf(out, " %16s", layer->set.events[i].name);
    fprintf(out, " %16s\n", "most of the 1st");
    for (int kind = 0; kind < PERF_KINDS; kind++) {
        if (!sum->calls[kind])
            continue;
        fprintf(out, "%-22s %12" PRIu64, kind_name(kind), sum->calls[kind]);
        for (unsigned i = 0; i < layer->set.count; i++)
            fprintf(out, " %16.1f", (double)sum->sums[kind][i] / (double)sum->calls[kind]);
        fprintf(out, " %16" PRIu64 "\n", sum->most[kind]);
    }
    fputc('\n', out);
}

static void print_json(const struct perf_layer *layer, const struct perf_counts *sum, FILE *out)
{
    struct identity identity;
    const char *comma = "";

    identity_read(&identity);
    fputs("{\"over\":\"", out);
    hook_report_name(layer->report.below, out);
    fputs("\",\"program\":\"", out);
    hook_report_name(identity.program, out);
    fputs("\",\"host\":\"", out);
    hook_report_name(identity.host, out);
    fprintf(out, "\",\"pid\":%d", identity.pid);
    if (identity.rank >= 0)
        fprintf(out, ",\"rank\":%ld", identity.rank);
    fputs(",\"calls\":{", out);
    for (int kind = 0; kind < PERF_KINDS; kind++) {
        if (!sum->calls[kind])
            continue;
        fprintf(out, "%s\"%s\":{\"calls\":%" PRIu64, comma, kind_name(kind), sum->calls[kind]);
        for (unsigned i = 0; i < layer->set.count; i++)
            fprintf(out, ",\"%s\":%" PRIu64, layer->set.events[i].name, sum->sums[kind][i]);
        fprintf(out, ",\"most\":%" PRIu64 "}", sum->most[kind]);
        comma = ",";
    }
    fputs("}}\n", out);
}

void perf_print(void *arg, FILE *out)
{
    struct perf_layer *layer = arg;
    struct perf_counts sum;

    add_up(layer, &sum);
    if (layer->json)
        print_json(layer, &sum, out);
    else
        print_table(layer, &sum, out);
}
