/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/fork.h"
#include "core/log.h"
#include "core/output.h"
#include "core/part.h"
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
        log_user("perf: %s", why);
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

static void layer_destroy(struct perf_layer *layer)
{
    blocks_finish(&layer->blocks);
    free(layer->below);
    free(layer->path);
    free(layer);
}

static int layer_create(const struct open_args *args, struct perf_layer **ret_layer)
{
    const char *path = params_string(args->params, "file");
    struct perf_layer *layer = calloc(1, sizeof(*layer));
    int rc;

    if (!layer)
        return -FI_ENOMEM;
    layer->json = !strcmp(params_string(args->params, "format"), "json");
    layer->below = strdup(args->attr && args->attr->prov_name ? args->attr->prov_name : "?");
    rc = layer->below ? choose(&layer->set, args->params) : -FI_ENOMEM;
    if (!rc && path)
        rc = output_open("perf", path, &layer->path);
    if (rc) {
        layer_destroy(layer);
        return rc;
    }
    blocks_init(&layer->blocks, sizeof(struct perf_block), perf_block_taken, perf_block_left);
    *ret_layer = layer;
    return 0;
}

static void report(struct perf_layer *layer)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    int rc = -FI_ENOMEM;

    if (out) {
        perf_print(layer, out);
        rc = fclose(out) ? -FI_ENOMEM : output_append(layer->path, text, len);
        free(text);
    }
    if (rc)
        log_user("perf: cannot write the report to '%s': %s",
                 layer->path ? layer->path : "standard error", strerror(-rc));
}

/* The child of a fork has its parent's counts: it says nothing. */
static void finish(void *own)
{
    struct perf_layer *layer = own;

    if (layer->blocks.generation != fork_generation)
        return;
    report(layer);
    layer_destroy(layer);
}

static struct pass_ops ops;

static void fill_ops(void)
{
    perf_count_ops(&ops);
    ops.finish = finish;
}

static int open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct perf_layer *layer;
    int rc = layer_create(args, &layer);

    if (rc)
        return rc;
    pthread_once(&once, fill_ops);
    rc = pass_open_fabric(args, fabric, context, &ops);
    if (rc)
        layer_destroy(layer);
    else
        *pass_hook(&(*fabric)->fid) = layer;
    return rc;
}

static const char *const aliases[] = {"hook_perf", NULL};
static const char *const formats[] = {"table", "json", NULL};
static const char *const upstream_counters[] = {"cpu_cycles", "cpu_instr", NULL};

static const struct param_def params[] = {
    {
        .key = "events",
        .type = PARAM_LIST,
        .default_text = "cycles|instructions|cache_misses",
        .help = "What is counted, six at most: cycles, instructions, cache_references, "
                "cache_misses, branches, branch_misses; cpu_clock, task_clock (ns), page_faults, "
                "context_switches, migrations; or tsc alone.",
    },
    {
        .key = "cntr",
        .type = PARAM_CHOICE,
        .choices = upstream_counters,
        .help = "libfabric's name for one event (its variable FI_PERF_CNTR); counts unless events "
                "is given.",
    },
    {
        .key = "file",
        .type = PARAM_STRING,
        .help = "Where the report goes, added at the end: %p is the process, %h the host. Without "
                "it: standard error.",
    },
    {
        .key = "format",
        .type = PARAM_CHOICE,
        .default_text = "table",
        .choices = formats,
        .help = "A table to read, or JSON: one line with the sums.",
    },
    {.key = NULL},
};

extern const struct part perf_part;

const struct part perf_part = {
    .name = "perf",
    .prov_name = "ofi_hook_perf",
    .aliases = aliases,
    .summary = "counts cycles, instructions, cache misses of each call",
    .description =
        "Reads the processor's performance counters (perf_event_open(2)) before and after each "
        "data transfer, each read of a completion queue and each call on a counter, and reports "
        "the mean of each function when the fabric is closed. What a call does in the layers below "
        "is part of it; two of these layers show the difference.\n\n"
        "Hardware counters are read without a system call where the kernel allows that (rdpmc); "
        "software events, such as task_clock, take a system call for each reading. Where the "
        "kernel has none of the events, or forbids them, it says so in one line and counts TSC "
        "cycles.",
    .kind = PART_LAYER,
    .transparent = true,
    .params = params,
    .needs = part_needs_same,
    .offer = part_offer_same,
    .open_fabric = open_fabric,
};
