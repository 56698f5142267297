/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/profile/profile.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/deadline.h"
#include "core/base/fork.h"
#include "core/base/log.h"
#include "core/base/path.h"
#include "core/hook/hook_part.h"
#include "core/part/part.h"
#include "layers/profile/profile_signal.h"

/* ---- Reports ---- */

static void report(struct profile_layer *layer)
{
    hook_report_write(&layer->report, layer->format == PROFILE_PROMETHEUS, profile_print, layer);
}

/* A signal is a report, and each end of an interval is. */
static void *report_often(void *arg)
{
    struct profile_layer *layer = arg;
    struct timespec next = deadline_in(layer->every_ms * INT64_C(1000000));
    int rc;

    while (!atomic_load(&layer->ending)) {
        rc = layer->every_ms ? deadline_wait_sem(layer->wake, &next) : sem_wait(layer->wake);
        if (rc && errno == EINTR)
            continue;
        if (rc)
            next = deadline_after(next, layer->every_ms * INT64_C(1000000));
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

static void layer_destroy(void *own)
{
    struct profile_layer *layer = own;

    stop_thread(layer);
    profile_destroy(layer->profile);
    sem_destroy(&layer->own_wake);
    hook_report_finish(&layer->report);
    free(layer);
}

static enum profile_format format_of(const char *text)
{
    if (!strcmp(text, "json"))
        return PROFILE_JSON;
    return strcmp(text, "prometheus") ? PROFILE_TABLE : PROFILE_PROMETHEUS;
}

/* Does another process that lives replace this file? Its reports say whose they are. */
static bool is_taken(int fd, const struct identity *identity)
{
    char text[256] = "", host[64] = "";
    ssize_t len = pread(fd, text, sizeof(text) - 1, 0);
    int pid = 0;

    if (len <= 0 || sscanf(text, PROFILE_CLAIM("%d", "%63s"), &pid, host) != 2)
        return false;
    return pid > 0 && pid != identity->pid && !strcmp(host, identity->host) &&
           (!kill(pid, 0) || errno == EPERM);
}

/* "x.prom" becomes "x.4711.prom". */
static int take_other_name(struct hook_report *report, const struct identity *identity)
{
    const char *slash = strrchr(report->path, '/'), *dot = strrchr(report->path, '.');
    char *name;
    int fd;

    if (!dot || (slash && dot < slash))
        dot = report->path + strlen(report->path);
    if (asprintf(&name, "%.*s.%d%s", (int)(dot - report->path), report->path, identity->pid, dot) <
        0)
        return -FI_ENOMEM;
    log_user("profile: another process writes '%s': this one writes '%s' (parameter file)",
             report->path, name);
    free(report->path);
    report->path = name;
    fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return -errno;
    close(fd);
    return 0;
}

/* A file for Prometheus is replaced by each report: of two processes each gets its own. Pipes
 * and devices are not looked at. */
static int claim(struct hook_report *report)
{
    int fd = open(report->path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    struct identity identity;
    struct stat info;
    bool taken = false;

    identity_read(&identity);
    if (fd >= 0 && !fstat(fd, &info) && S_ISREG(info.st_mode)) {
        flock(fd, LOCK_EX);
        taken = is_taken(fd, &identity);
        if (!taken && !ftruncate(fd, 0))
            dprintf(fd, PROFILE_CLAIM("%d", "%s"), identity.pid, identity.host);
    }
    if (fd >= 0)
        close(fd);
    return taken ? take_other_name(report, &identity) : 0;
}

static int layer_create(const struct open_args *args, void **own)
{
    struct profile_layer *layer = calloc(1, sizeof(*layer));
    int rc;

    if (!layer)
        return -FI_ENOMEM;
    sem_init(&layer->own_wake, 0, 0);
    layer->format = format_of(params_string(args->params, "format"));
    layer->every_ms = params_time_ms(args->params, "every");
    layer->signo = profile_signal_number(params_string(args->params, "signal"));
    layer->profile = profile_create((uint32_t)params_int(args->params, "sample"));
    rc = layer->profile ? hook_report_open(&layer->report, "profile", args) : -FI_ENOMEM;
    if (!rc && layer->report.path && layer->format == PROFILE_PROMETHEUS)
        rc = claim(&layer->report);
    if (!rc)
        rc = start_thread(layer);
    if (rc)
        layer_destroy(layer);
    else
        *own = layer;
    return rc;
}

/* The child of a fork has its parent's counts and no thread of it: it says nothing. */
static void finish(void *own)
{
    struct profile_layer *layer = own;

    if (layer->profile->per_thread.generation != fork_generation)
        return;
    stop_thread(layer);
    report(layer);
    layer_destroy(layer);
}

static void fill_ops(struct hook_ops *ops)
{
    profile_data_ops(ops);
    ops->finish = finish;
}

static struct hook_part hook = {.fill = fill_ops, .create = layer_create, .destroy = layer_destroy};

static const char *const aliases[] = {"hook_profile", NULL};
static const char *const signals[] = {"USR1", "USR2", "HUP", NULL};
static const char *const formats[] = {"table", "json", "prometheus", NULL};

static const struct param_def params[] = {
    PARAM_CHECKED(
        "file", PARAM_STRING, NULL, path_check,
        "Where reports go: %p is the process, %h the host. Tables and JSON are added at the "
        "end, for Prometheus the file is replaced; where another process does so, this one "
        "adds its number to the name. Without it: standard error."),
    PARAM_PICK("format", "table", formats,
               "A table to read, JSON (one line for each report), or Prometheus text."),
    PARAM_NUMBER("every", PARAM_TIME, "0", 0, 86400000,
                 "Time from one report to the next, 0: a report only when the fabric is closed."),
    PARAM_PICK("signal", NULL, signals,
               "A report at each such signal: USR1, USR2 or HUP. A handler that the application "
               "has installed before is called as well; one that it installs later takes the "
               "place of this."),
    PARAM_NUMBER("sample", PARAM_INT, "64", 0, 1000000000,
                 "The time to the completion is taken of one in so many operations of a thread; 0: "
                 "of none."),
    {.key = NULL},
};

const struct part profile_part = {
    .name = "profile",
    .prov_name = "ofi_hook_profile",
    .aliases = aliases,
    .summary = "counts calls, bytes, sizes and times",
    .description =
        "Counts, for each function that transfers data, calls, bytes, sizes, -FI_EAGAIN and "
        "errors; completions, reads of queues that gave completions and that did not, and "
        "unexpected messages (where it stands below the layer that matches). Of some operations "
        "it takes the time from the call to the completion. It reports when the fabric is "
        "closed, and at intervals if asked to.\n\n"
        "Percentiles of times come from buckets, and are too large by at most 1/32 (3.2 %). An "
        "operation is recognized by its context: those with a null context, or none, are not "
        "timed, nor is one of which the context is used again before it completes.",
    .hook = &hook,
    HOOK_PART,
    .params = params,
    .offer = part_offer_same,
};
