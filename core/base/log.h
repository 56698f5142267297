/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Logging. FI_LOG_LEVEL (warn, trace, info, debug), FI_LOG_PROV and FI_LOG_SUBSYS (comma lists, `^`
 * negates) filter; a program may import a logger (fi_import_log, fi_open("logging")). Also
 * implements the public fi_log_enabled, fi_log, fi_log_ready. Never called on the data path.
 *
 * Without FI_LOG_LEVEL only log_user shows anything. Lines have upstream's form, for tools that
 * parse it: "libfabric:PID:TIME::tcp:ep_ctrl:func():line<warn> text". FI_LOG_LOCATION (stdout,
 * stderr, file, directory), FI_LOG_LOCATION_MODE and FI_LOG_INTERVAL are those of fabric(7).
 */
#ifndef WEFT_CORE_BASE_LOG_H
#define WEFT_CORE_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include <rdma/fabric.h>
#include <rdma/fi_ext.h>
#include <rdma/providers/fi_log.h>

/* True when a line of that part, level and subsystem would be shown. part: "tcp", "core", ... */
bool log_enabled(const char *part, enum fi_log_level level, enum fi_log_subsys subsys);

/* One line; `fmt` without part prefix or newline: "[3]: cannot connect to 10.0.0.1:7471: ..." */
void log_line(const char *part, enum fi_log_level level, enum fi_log_subsys subsys,
              const char *func, int line, const char *fmt, ...)
    __attribute__((format(printf, 6, 7)));

/*
 * From now on this logger decides and shows (fi_import_log; fi_open("logging") calls it); a call
 * that it lacks is done here, as without it. It must stay valid until log_forget, which fi_close of
 * its fid does. -FI_EINVAL: not a FI_CLASS_LOG fid, or without calls; -FI_EALREADY: there is one.
 */
int log_import(struct fid_logging *logging);
/* Back to our own, if `logging` is the one in use; NULL: whichever is. */
void log_forget(const struct fid_logging *logging);

/* For a text that the user typed wrong: always shown on stderr, whatever the level
 * (FI_LOG_LEVEL=none silences it); may have several lines; equal text is shown once a process. */
void log_user(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#define LOG(part, level, subsys, ...)                                                              \
    do {                                                                                           \
        if (log_enabled(part, level, subsys))                                                      \
            log_line(part, level, subsys, __func__, __LINE__, __VA_ARGS__);                        \
    } while (0)
#define LOG_WARN(part, subsys, ...) LOG(part, FI_LOG_WARN, subsys, __VA_ARGS__)
#define LOG_INFO(part, subsys, ...) LOG(part, FI_LOG_INFO, subsys, __VA_ARGS__)
#define LOG_DEBUG(part, subsys, ...) LOG(part, FI_LOG_DEBUG, subsys, __VA_ARGS__)

#endif
