/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/fork.h"
#include "core/base/log.h"
#include "core/base/path.h"
#include "core/hook/hook_part.h"
#include "core/part/part.h"
#include "layers/perf/perf.h"

/* ---- What is counted ---- */

static void give_up(struct perf_set *set, int rc)
{
    log_user("perf: this kernel gives no counter for these events (%s): counting TSC cycles "
             "instead",
             fi_strerror(-rc));
    perf_set_clock(set);
}

/* Whether this kernel counts that is found out now, once. */
static int choose(struct perf_set *set, const struct params *params)
{
    const char *upstream = params_string(params, "cntr"), *text = params_string(params, "events");
    struct perf_group group;
    char why[160];
    int rc;

    if (upstream && !params_given(params, "events"))
        text = strcmp(upstream, "cpu_cycles") ? "instructions" : "cycles";
    rc = perf_set_parse(set, text ? text : "", why, sizeof(why));
    if (rc) {
        log_user("perf: events: %s", why);
        return rc;
    }
    rc = perf_group_open(&group, set);
    if (rc)
        give_up(set, rc);
    else
        perf_group_close(&group);
    return 0;
}

/* ---- The fabric ---- */

static void layer_destroy(void *own)
{
    struct perf_layer *layer = own;

    per_thread_finish(&layer->per_thread);
    hook_report_finish(&layer->report);
    free(layer);
}

static int layer_create(const struct open_args *args, void **own)
{
    struct perf_layer *layer = calloc(1, sizeof(*layer));
    int rc;

    if (!layer)
        return -FI_ENOMEM;
    layer->json = !strcmp(params_string(args->params, "format"), "json");
    rc = choose(&layer->set, args->params);
    if (!rc)
        rc = hook_report_open(&layer->report, "perf", args);
    if (rc) {
        layer_destroy(layer);
        return rc;
    }
    per_thread_init(&layer->per_thread, sizeof(struct perf_block), perf_block_taken,
                    perf_block_left);
    *own = layer;
    return 0;
}

/* The child of a fork has its parent's counts: it says nothing. */
static void finish(void *own)
{
    struct perf_layer *layer = own;

    if (layer->per_thread.generation != fork_generation)
        return;
    hook_report_write(&layer->report, false, perf_print, layer);
    layer_destroy(layer);
}

static void fill_ops(struct hook_ops *ops)
{
    perf_count_ops(ops);
    ops->finish = finish;
}

static struct hook_part hook = {.fill = fill_ops, .create = layer_create, .destroy = layer_destroy};

static const char *const aliases[] = {"hook_perf", NULL};
static const char *const formats[] = {"table", "json", NULL};
static const char *const upstream_counters[] = {"cpu_cycles", "cpu_instr", NULL};

static const struct param_def params[] = {
    PARAM_CHECKED("events", PARAM_LIST, "cycles|instructions|cache_misses", perf_set_check,
                  "Events to count, six at most: cycles, instructions, cache_references, "
                  "cache_misses, branches, branch_misses; cpu_clock, task_clock (ns), "
                  "page_faults, context_switches, migrations; or tsc alone."),
    PARAM_PICK("cntr", NULL, upstream_counters,
               "libfabric's name for one event (its variable FI_PERF_CNTR); counts unless events "
               "is given."),
    PARAM_CHECKED(
        "file", PARAM_STRING, NULL, path_check,
        "Where the report goes, added at the end: %p is the process, %h the host. Without "
        "it: standard error."),
    PARAM_PICK("format", "table", formats, "A table to read, or JSON: one line with the sums."),
    {.key = NULL},
};

const struct part perf_part = {
    .name = "perf",
    .prov_name = "ofi_hook_perf",
    .aliases = aliases,
    .summary = "counts cycles, instructions, cache misses of each call",
    .description =
        "Reads the processor's performance counters (perf_event_open(2)) before and after each "
        "data transfer, each read of a completion queue and each call on a counter, and reports "
        "the mean of each function when the fabric is closed. The layers below are included; "
        "two of these layers show the difference.\n\n"
        "Hardware counters are read without a system call where the kernel allows that (rdpmc); "
        "software events, such as task_clock, take a system call for each reading. Where the "
        "kernel has none of the events, or forbids them, it says so in one line and counts TSC "
        "cycles.",
    .hook = &hook,
    HOOK_PART,
    .params = params,
    .offer = part_offer_same,
};
