/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/monitor/monitor.h"

#include <stdio.h>
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/hook/hook_part.h"
#include "core/part/part.h"
#include "layers/monitor/monitor_file.h"

static void page_destroy(void *own)
{
    monitor_page_stop(own);
    monitor_file_close(own);
    free(own);
}

/* Of a file or folder. */
static int check_mode(const char *text, char *why, size_t why_size)
{
    char *end;
    unsigned long value = strtoul(text, &end, 8);

    if (end != text && !*end && value <= 07777)
        return 0;
    snprintf(why, why_size, "'%s' is no mode (octal: 0600)", text);
    return -FI_EINVAL;
}

static unsigned read_mode(const struct open_args *args, const char *key)
{
    return (unsigned)strtoul(params_string(args->params, key), NULL, 8);
}

static int page_create(const struct open_args *args, void **own)
{
    struct monitor_place_wanted wanted = {.base = params_string(args->params, "basepath"),
                                          .whole = args->whole ? args->whole : ""};
    const char *below = args->attr && args->attr->prov_name ? args->attr->prov_name : "?";
    struct monitor_page *page;
    char why[5000];
    int rc;

    wanted.dir_mode = read_mode(args, "dir_mode");
    wanted.file_mode = read_mode(args, "file_mode");
    wanted.base_mode = params_given(args->params, "dir_mode") ? wanted.dir_mode : 01777;
    page = calloc(1, sizeof(*page));
    if (!page)
        return -FI_ENOMEM;
    rc = monitor_file_open(&wanted, below, page, why, sizeof(why));
    if (rc) {
        log_user("monitor: %s", why);
        free(page);
        return rc;
    }
    page->lingers = params_bool(args->params, "linger");
    page->header->lingers = page->lingers;
    page->timer.sample = page->header->sample = (uint32_t)params_int(args->params, "sample");
    monitor_page_start(page);
    *own = page;
    return 0;
}

static void fill_ops(struct hook_ops *ops)
{
    monitor_data_ops(ops);
    ops->finish = page_destroy;
}

static struct hook_part hook = {.fill = fill_ops, .create = page_create, .destroy = page_destroy};

static const char *const aliases[] = {"hook_monitor", NULL};

static const struct param_def params[] = {
    {
        .key = "basepath",
        .type = PARAM_STRING,
        .default_text = "/dev/shm/ofi",
        .help = "The folder for page files, which are in <uid>/<host> below it. It should be in "
                "memory.",
    },
    PARAM_CHECKED(
        "dir_mode", PARAM_STRING, "01700", check_mode,
        "Mode of folders that are made (octal). Where it is not given, basepath itself is "
        "made with 01777, so that users can share it."),
    PARAM_CHECKED("file_mode", PARAM_STRING, "0600", check_mode, "Mode of page files (octal)."),
    PARAM_NUMBER("tick_max", PARAM_INT, "1024", 1, INT32_MAX,
                 "Taken, and without effect: pages are always current."),
    PARAM_SWITCH("linger", "0",
                 "Leave the page file when the fabric is closed; fi_top --clean removes it."),
    PARAM_NUMBER("sample", PARAM_INT, "64", 0, 1000000000,
                 "The time to the completion is taken of one in so many operations of a thread on "
                 "an endpoint; 0: of none."),
    {.key = NULL},
};

const struct part monitor_part = {
    .name = "monitor",
    .prov_name = "ofi_hook_monitor",
    .aliases = aliases,
    .summary = "counts into shared pages, for fi_top and fi_mon_sampler",
    .description =
        "Counts calls, bytes, sizes, completions, -FI_EAGAIN and errors of each endpoint, queue "
        "and domain into a file in memory that other programs read while the program runs: "
        "fi_top(1) as a live view, fi_mon_sampler(1) for series of samples. Readers cost the "
        "program nothing. The format is public: weft/monitor.h.\n\n"
        "The file is <basepath>/<uid>/<host>/<ppid>_<pid>_<number>_<job>_<what it stands on>. "
        "It is removed when the fabric is closed and when the process ends; that of a process "
        "that was killed stays, and is shown as stale. A file that cannot be written is an "
        "error of fi_fabric.\n\n"
        "Times are too large by at most 1/8 (12.5 %). An operation is recognized by its "
        "context: those with a null context, or none, are not timed.",
    .hook = &hook,
    HOOK_PART,
    .params = params,
    .offer = part_offer_same,
};
