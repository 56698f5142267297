/* SPDX-License-Identifier: BSD-2-Clause */
/* The library's warnings, kept for a test to read. For one file of a program, linked with the
 * static library, or, where it defines WARNINGS_PUBLIC, with the shared one. */
#ifndef WEFT_TESTS_WARNINGS_H
#define WEFT_TESTS_WARNINGS_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef WARNINGS_PUBLIC
#include <rdma/fi_ext.h>
#else
#include <rdma/providers/fi_prov.h>

#include "core/base/log.h"
#endif

static char warnings[4096]; /* a line each */
static unsigned warning_count;

static inline int warnings_enabled(const struct fi_provider *prov, enum fi_log_level level,
                                   enum fi_log_subsys subsys, uint64_t flags)
{
    return level == FI_LOG_WARN;
}

static inline void warnings_keep(const struct fi_provider *prov, enum fi_log_level level,
                                 enum fi_log_subsys subsys, const char *func, int line,
                                 const char *msg)
{
    size_t used = strlen(warnings);

    snprintf(warnings + used, sizeof(warnings) - used, "%s\n", msg);
    warning_count++;
}

static inline int warnings_ready(const struct fi_provider *prov, enum fi_log_level level,
                                 enum fi_log_subsys subsys, uint64_t flags, uint64_t *showtime)
{
    return 0;
}

static inline void warnings_forget(void)
{
    warnings[0] = 0;
    warning_count = 0;
}

/* From now on they are kept. 0, or as fi_import_log. */
static inline int warnings_import(void)
{
    static struct fi_ops_log ops = {.size = sizeof(ops),
                                    .enabled = warnings_enabled,
                                    .ready = warnings_ready,
                                    .log = warnings_keep};
    static struct fid_logging logger = {.fid.fclass = FI_CLASS_LOG, .ops = &ops};

#ifdef WARNINGS_PUBLIC
    return fi_import_log(FI_VERSION(2, 6), 0, &logger);
#else
    return log_import(&logger);
#endif
}

#endif
