/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/profile/profile.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/fork.h"
#include "core/log.h"
#include "core/output.h"
#include "core/part.h"
#include "layers/profile/profile_signal.h"

/* ---- Reports ---- */

static void report(struct profile_layer *layer)
{
    int rc = profile_report(layer);

    if (rc)
        log_user("profile: cannot write the report to '%s': %s",
                 layer->path ? layer->path : "standard error", strerror(-rc));
}

static struct timespec later(struct timespec time, int64_t ms)
{
    int64_t ns = time.tv_nsec + ms % 1000 * 1000000;

    time.tv_sec += (time_t)(ms / 1000 + ns / 1000000000);
    time.tv_nsec = ns % 1000000000;
    return time;
}

/* A signal is a report, and each end of an interval is. */
static void *report_often(void *arg)
{
    struct profile_layer *layer = arg;
    struct timespec next;
    int rc;

    clock_gettime(CLOCK_MONOTONIC, &next);
    next = later(next, layer->every_ms);
    while (!atomic_load(&layer->ending)) {
        rc = layer->every_ms ? sem_clockwait(layer->wake, CLOCK_MONOTONIC, &next)
                             : sem_wait(layer->wake);
        if (rc && errno == EINTR)
            continue;
        if (rc)
            next = later(next, layer->every_ms);
        if (!atomic_load(&layer->ending))
            report(layer);
    }
    return NULL;
}

/* Signals are the application's: its threads get them. */
static int start_thread(struct profile_layer *layer)
{
    sigset_t all, old;
    int rc = 0;

    layer->wake = &layer->own_wake;
    if (!layer->every_ms && !layer->signo)
        return 0;
    if (layer->signo)
        rc = profile_signal_take(layer->signo, &layer->wake);
    if (rc) {
        log_user("profile: cannot wait for the signal: %s (parameter signal)", fi_strerror(-rc));
        return rc;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&layer->thread, NULL, report_often, layer);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    layer->threaded = !rc;
    if (rc && layer->signo)
        profile_signal_release(layer->wake);
    return -rc;
}

static void stop_thread(struct profile_layer *layer)
{
    if (!layer->threaded)
        return;
    atomic_store(&layer->ending, true);
    sem_post(layer->wake);
    pthread_join(layer->thread, NULL);
    if (layer->signo)
        profile_signal_release(layer->wake);
    layer->threaded = false;
}

/* ---- The fabric ---- */

static void layer_destroy(struct profile_layer *layer)
{
    profile_destroy(layer->profile);
    sem_destroy(&layer->own_wake);
    free(layer->below);
    free(layer->path);
    free(layer);
}

static enum profile_format format_of(const char *text)
{
    if (!strcmp(text, "json"))
        return PROFILE_JSON;
    return strcmp(text, "prometheus") ? PROFILE_TABLE : PROFILE_PROMETHEUS;
}

static int layer_create(const struct open_args *args, struct profile_layer **ret_layer)
{
    const char *path = params_string(args->params, "file");
    struct profile_layer *layer = calloc(1, sizeof(*layer));
    int rc = 0;

    if (!layer)
        return -FI_ENOMEM;
    sem_init(&layer->own_wake, 0, 0);
    layer->format = format_of(params_string(args->params, "format"));
    layer->every_ms = params_time_ms(args->params, "every");
    layer->signo = profile_signal_number(params_string(args->params, "signal"));
    layer->profile = profile_create((uint32_t)params_int(args->params, "sample"));
    layer->below = strdup(args->attr && args->attr->prov_name ? args->attr->prov_name : "?");
    if (!layer->profile || !layer->below)
        rc = -FI_ENOMEM;
    if (!rc && path)
        rc = output_open("profile", path, &layer->path);
    if (rc)
        layer_destroy(layer);
    else
        *ret_layer = layer;
    return rc;
}

/* The child of a fork has its parent's counts and no thread of it: it says nothing. */
static void finish(void *own)
{
    struct profile_layer *layer = own;

    if (layer->profile->blocks.generation != fork_generation)
        return;
    stop_thread(layer);
    report(layer);
    layer_destroy(layer);
}

static struct pass_ops ops;

static void fill_ops(void)
{
    profile_data_ops(&ops);
    ops.finish = finish;
}

static int open_fabric(const struct open_args *args, struct fid_fabric **ret_fabric, void *context)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct profile_layer *layer;
    int rc = layer_create(args, &layer);

    if (rc)
        return rc;
    pthread_once(&once, fill_ops);
    rc = start_thread(layer);
    if (rc) {
        layer_destroy(layer);
        return rc;
    }
    rc = pass_open_fabric(args, ret_fabric, context, &ops);
    if (rc) {
        stop_thread(layer);
        layer_destroy(layer);
        return rc;
    }
    *pass_hook(&(*ret_fabric)->fid) = layer;
    return 0;
}

static const char *const aliases[] = {"hook_profile", NULL};
static const char *const signals[] = {"USR1", "USR2", "HUP", NULL};
static const char *const formats[] = {"table", "json", "prometheus", NULL};

static const struct param_def params[] = {
    {
        .key = "file",
        .type = PARAM_STRING,
        .help =
            "Where reports go: %p is the process, %h the host. Tables and JSON are added at the "
            "end, for Prometheus the file is replaced. Without it: standard error.",
    },
    {
        .key = "format",
        .type = PARAM_CHOICE,
        .default_text = "table",
        .choices = formats,
        .help = "A table to read, JSON (one line for each report), or Prometheus text.",
    },
    {
        .key = "every",
        .type = PARAM_TIME,
        .default_text = "0",
        .min = 0,
        .max = 86400000,
        .help = "Time from one report to the next, 0: a report only when the fabric is closed.",
    },
    {
        .key = "signal",
        .type = PARAM_CHOICE,
        .choices = signals,
        .help = "A report at each such signal: USR1, USR2 or HUP. A handler that the application "
                "has installed before is called as well; one that it installs later takes the "
                "place of this.",
    },
    {
        .key = "sample",
        .type = PARAM_INT,
        .default_text = "64",
        .min = 0,
        .max = 1000000000,
        .help = "The time to the completion is taken of one in so many operations of a thread; 0: "
                "of none.",
    },
    {.key = NULL},
};

extern const struct part profile_part;

const struct part profile_part = {
    .name = "profile",
    .prov_name = "ofi_hook_profile",
    .aliases = aliases,
    .summary = "counts calls, bytes, sizes and times",
    .description =
        "Counts, for each function that transfers data, calls, bytes, sizes, -FI_EAGAIN and "
        "errors; completions, reads of queues that gave something and that did not, and messages "
        "that came before their receive (where it stands below the layer that matches). Of some "
        "operations it takes the time from the call to the completion. It reports when the fabric "
        "is closed, and at intervals if asked to.\n\n"
        "Percentiles of times come from buckets, and are too large by at most 1/32 (3.2 %). An "
        "operation is recognized by its context: those with a null context, or none, are not "
        "timed, nor is one of which the context is used again before it completes.",
    .kind = PART_LAYER,
    .transparent = true,
    .params = params,
    .needs = part_needs_same,
    .offer = part_offer_same,
    .open_fabric = open_fabric,
};
