/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/hook/hook_report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/base/output.h"
#include "core/part/part.h"

int hook_report_open(struct hook_report *report, const char *part, const struct open_args *args)
{
    const char *path = params_string(args->params, "file");

    report->part = part;
    report->below = strdup(args->attr && args->attr->prov_name ? args->attr->prov_name : "?");
    if (!report->below)
        return -FI_ENOMEM;
    return path ? output_open(part, path, &report->path) : 0;
}

void hook_report_finish(struct hook_report *report)
{
    free(report->below);
    free(report->path);
}

static int print_to(const struct hook_report *report, bool replace,
                    void (*print)(void *arg, FILE *out), void *arg)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    int rc = -ENOMEM;

    if (!out)
        return rc;
    print(arg, out);
    if (!fclose(out))
        rc = replace && report->path ? output_replace(report->path, text, len)
                                     : output_append(report->path, text, len);
    free(text);
    return rc;
}

void hook_report_write(const struct hook_report *report, bool replace,
                       void (*print)(void *arg, FILE *out), void *arg)
{
    int rc = print_to(report, replace, print, arg);

    if (rc)
        log_user("%s: cannot write the report to '%s': %s", report->part,
                 report->path ? report->path : "standard error", strerror(-rc));
}

void hook_report_name(const char *name, FILE *out)
{
    for (; *name; name++) {
        if (*name == '"' || *name == '\\')
            fputc('\\', out);
        fputc((unsigned char)*name < ' ' ? '?' : *name, out);
    }
}

void hook_report_head(const struct hook_report *report, const struct identity *identity, FILE *out)
{
    fprintf(out, "%s over %s: %s", report->part, report->below, identity->program);
    if (identity->rank >= 0)
        fprintf(out, ", rank %ld", identity->rank);
    fprintf(out, ", process %d on %s", identity->pid, identity->host);
}
