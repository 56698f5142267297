/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The filters are read from the environment once, at the first line asked for, and never change. A
 * line is one write, so that lines of several threads and processes do not mix. An imported logger
 * replaces the filters as well as the output.
 */
#include "core/base/clock.h"
#include "core/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>

#include "core/base/enosys.h"
#include "core/base/fid.h"

#define EXPORT __attribute__((visibility("default")))

enum {
    LINE_LIMIT = 2048,
    INTERVAL_MS = 2000,
    FILE_MODE = 0600
};

static const char *const level_names[] = {"warn", "trace", "info", "debug"};
static const char *const subsys_names[] = {"core", "fabric", "domain", "ep_ctrl", "ep_data",
                                           "av",   "cq",     "eq",     "mr",      "cntr"};

enum {
    SUBSYS_COUNT = sizeof(subsys_names) / sizeof(*subsys_names)
};

/* The imported logger calls with a fi_provider; our parts have a name only. */
struct named_provider {
    struct named_provider *next;
    struct fi_provider provider;
};

static struct {
    int level;   /* highest level shown; -1: none */
    bool silent; /* FI_LOG_LEVEL=none: log_user too */
    int fd;
    uint64_t interval_ms;
    unsigned subsys; /* bit set of those shown */
    char *parts;     /* FI_LOG_PROV without its '^', or NULL: all */
    bool parts_denied;
} filter = {.level = -1, .fd = STDERR_FILENO};

static pthread_once_t filter_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* shown, providers */
static struct shown {
    struct shown *next;
    char text[];
} * shown;
static struct named_provider *providers;
static _Atomic(struct fi_ops_log *) imported;
static struct fid_logging *imported_fid;

/* Is name one of the comma-separated list? */
static bool listed(const char *list, const char *name)
{
    size_t len = strlen(name);

    while (*list) {
        size_t word = strcspn(list, ", ");

        if (word == len && !strncasecmp(list, name, len))
            return true;
        list += word;
        list += strspn(list, ", ");
    }
    return false;
}

/* "ofi_rxm" and "rxm" name the same part, in the list and in the line. */
static const char *without_prefix(const char *part)
{
    if (!strncasecmp(part, "ofi_hook_", 9))
        return part + 9;
    return strncasecmp(part, "ofi_", 4) ? part : part + 4;
}

static bool part_listed(const char *part)
{
    char prefixed[64];
    const char *plain = without_prefix(part);

    if (listed(filter.parts, part) || listed(filter.parts, plain))
        return true;
    snprintf(prefixed, sizeof(prefixed), "ofi_%s", plain);
    return listed(filter.parts, prefixed);
}

static void read_level(void)
{
    const char *text = getenv("FI_LOG_LEVEL");

    if (!text || !*text)
        return;
    if (!strcasecmp(text, "none")) {
        filter.silent = true;
        return;
    }
    for (int level = FI_LOG_WARN; level <= FI_LOG_DEBUG; level++) {
        if (!strcasecmp(text, level_names[level]))
            filter.level = level;
    }
    if (filter.level < 0) /* params_warn_unknown shows it */
        filter.level = FI_LOG_WARN;
}

static void read_subsys(void)
{
    const char *text = getenv("FI_LOG_SUBSYS");
    bool denied = text && *text == '^';
    unsigned set = 0;

    for (unsigned i = 0; i < SUBSYS_COUNT; i++) {
        if (text && listed(text + denied, subsys_names[i]))
            set |= 1u << i;
    }
    filter.subsys = !text || !*text ? ~0u : denied ? ~set : set;
}

static void read_parts(void)
{
    const char *text = getenv("FI_LOG_PROV");

    if (!text || !*text)
        return;
    filter.parts_denied = *text == '^';
    filter.parts = strdup(text + filter.parts_denied);
}

/* FI_LOG_LOCATION: stdout, stderr, a directory (ofi_<pid>.log in it) or a file that must be new. */
static void open_location(void)
{
    const char *location = getenv("FI_LOG_LOCATION");
    const char *mode_text = getenv("FI_LOG_LOCATION_MODE");
    long mode = mode_text && *mode_text ? strtol(mode_text, NULL, 8) : FILE_MODE;
    char path[4096];
    struct stat st;
    int fd;

    if (!location || !*location || !strcasecmp(location, "stderr"))
        return;
    if (!strcasecmp(location, "stdout")) {
        filter.fd = STDOUT_FILENO;
        return;
    }
    if (!stat(location, &st) && S_ISDIR(st.st_mode))
        snprintf(path, sizeof(path), "%s/ofi_%d.log", location, (int)getpid());
    else
        snprintf(path, sizeof(path), "%s", location);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, (mode_t)mode);
    if (fd < 0)
        dprintf(STDERR_FILENO, "FI_LOG_LOCATION: cannot create '%s': %s (logging to stderr)\n",
                path, fi_strerror(errno));
    else
        filter.fd = fd;
}

static void read_interval(void)
{
    const char *text = getenv("FI_LOG_INTERVAL");
    char *end;
    unsigned long long ms = text ? strtoull(text, &end, 0) : 0;

    filter.interval_ms = text && *text && !*end ? ms : INTERVAL_MS;
}

static void read_filter(void)
{
    int saved = errno;

    read_level();
    read_subsys();
    read_parts();
    read_interval();
    open_location();
    errno = saved;
}

static bool part_shown(const char *part)
{
    return !filter.parts || part_listed(part) != filter.parts_denied;
}

static bool shows(const char *part, enum fi_log_level level, enum fi_log_subsys subsys)
{
    if ((int)level > filter.level || (unsigned)subsys >= SUBSYS_COUNT)
        return false;
    return (filter.subsys & (1u << subsys)) && part_shown(part);
}

/* A fi_provider of that name for the imported logger; NULL without memory. */
static const struct fi_provider *provider_of(const char *part)
{
    struct named_provider *named;

    pthread_mutex_lock(&lock);
    for (named = providers; named; named = named->next) {
        if (!strcmp(named->provider.name, part))
            break;
    }
    if (!named && (named = calloc(1, sizeof(*named)))) {
        named->provider.name = strdup(part);
        named->next = providers;
        if (named->provider.name)
            providers = named;
        else {
            free(named);
            named = NULL;
        }
    }
    pthread_mutex_unlock(&lock);
    return named ? &named->provider : NULL;
}

static uint64_t filtered_flag(const char *part)
{
    return part_shown(part) ? 0 : FI_LOG_PROV_FILTERED;
}

static bool enabled(const char *part, const struct fi_provider *provider, enum fi_log_level level,
                    enum fi_log_subsys subsys)
{
    struct fi_ops_log *ops = atomic_load_explicit(&imported, memory_order_acquire);

    pthread_once(&filter_once, read_filter);
    if (!ops || !ops->enabled)
        return shows(part, level, subsys);
    if (!provider)
        provider = provider_of(part);
    return provider && ops->enabled(provider, level, subsys, filtered_flag(part));
}

bool log_enabled(const char *part, enum fi_log_level level, enum fi_log_subsys subsys)
{
    return enabled(part, NULL, level, subsys);
}

static void put(const char *text, size_t len)
{
    int saved = errno;

    while (len) {
        ssize_t ret = write(filter.fd, text, len);

        if (ret < 0 && errno == EINTR)
            continue;
        if (ret <= 0)
            break;
        text += ret;
        len -= (size_t)ret;
    }
    errno = saved;
}

static void emit(const char *part, const struct fi_provider *provider, enum fi_log_level level,
                 enum fi_log_subsys subsys, const char *func, int line, const char *text)
{
    struct fi_ops_log *ops = atomic_load_explicit(&imported, memory_order_acquire);
    char out[LINE_LIMIT + 256];
    int len;

    if (ops && ops->log) {
        if (!provider)
            provider = provider_of(part);
        if (provider)
            ops->log(provider, level, subsys, func, line, text);
        return;
    }
    len = snprintf(out, sizeof(out) - 1, "libfabric:%d:%lld::%s:%s:%s():%d<%s> %s", (int)getpid(),
                   (long long)time(NULL), part,
                   (unsigned)subsys < SUBSYS_COUNT ? subsys_names[subsys] : "?", func, line,
                   (unsigned)level <= FI_LOG_DEBUG ? level_names[level] : "?", text);
    if (len < 0)
        return;
    if ((size_t)len >= sizeof(out) - 1)
        len = sizeof(out) - 2;
    if (out[len - 1] != '\n')
        out[len++] = '\n';
    put(out, (size_t)len);
}

void log_line(const char *part, enum fi_log_level level, enum fi_log_subsys subsys,
              const char *func, int line, const char *fmt, ...)
{
    char text[LINE_LIMIT];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    pthread_once(&filter_once, read_filter);
    emit(part, NULL, level, subsys, func, line, text);
}

/* True the first time that this text is seen, and when there is no memory to remember it. */
static bool first_time(const char *text)
{
    size_t size = strlen(text) + 1;
    struct shown *entry;
    bool first = true;

    pthread_mutex_lock(&lock);
    for (entry = shown; entry && first; entry = entry->next)
        first = strcmp(entry->text, text) != 0;
    if (first && (entry = malloc(sizeof(*entry) + size))) {
        memcpy(entry->text, text, size);
        entry->next = shown;
        shown = entry;
    }
    pthread_mutex_unlock(&lock);
    return first;
}

void log_user(const char *fmt, ...)
{
    struct fi_ops_log *ops = atomic_load_explicit(&imported, memory_order_acquire);
    char text[LINE_LIMIT * 2];
    va_list args;
    int len;

    pthread_once(&filter_once, read_filter);
    if (filter.silent)
        return;
    va_start(args, fmt);
    len = vsnprintf(text, sizeof(text) - 1, fmt, args);
    va_end(args);
    if (len < 0 || !first_time(text))
        return;
    if (ops && ops->log) {
        emit("core", NULL, FI_LOG_WARN, FI_LOG_CORE, __func__, __LINE__, text);
        return;
    }
    if ((size_t)len >= sizeof(text) - 1)
        len = sizeof(text) - 2;
    if (!len || text[len - 1] != '\n')
        text[len++] = '\n';
    put(text, (size_t)len);
}

/* fi_close of the importer's fid: the logger is its own again. */
static int close_import(struct fid *fid)
{
    log_forget(object_of(fid, struct fid_logging, fid));
    return 0;
}

static struct fi_ops import_fid_ops = {
    .size = sizeof(import_fid_ops),
    .close = close_import,
    FID_CLOSES_ONLY,
};

int log_import(struct fid_logging *logging)
{
    const struct fi_ops_log *ops = logging->ops;
    int ret = 0;

    if (logging->fid.fclass != FI_CLASS_LOG || !ops ||
        ops->size < offsetof(struct fi_ops_log, log) + sizeof(ops->log))
        return -FI_EINVAL;
    pthread_mutex_lock(&lock);
    if (imported_fid) {
        ret = -FI_EALREADY;
    } else {
        logging->fid.ops = &import_fid_ops;
        imported_fid = logging;
        atomic_store_explicit(&imported, logging->ops, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return ret;
}

void log_forget(const struct fid_logging *logging)
{
    pthread_mutex_lock(&lock);
    if (!logging || logging == imported_fid) {
        imported_fid = NULL;
        atomic_store_explicit(&imported, NULL, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
}

static const char *name_of(const struct fi_provider *prov)
{
    return prov && prov->name ? prov->name : "core";
}

EXPORT int fi_log_enabled(const struct fi_provider *prov, enum fi_log_level level,
                          enum fi_log_subsys subsys)
{
    return enabled(name_of(prov), prov, level, subsys);
}

/* *showtime is the caller's, zero at first: when that very line may be shown again. */
EXPORT int fi_log_ready(const struct fi_provider *prov, enum fi_log_level level,
                        enum fi_log_subsys subsys, uint64_t *showtime)
{
    struct fi_ops_log *ops = atomic_load_explicit(&imported, memory_order_acquire);
    uint64_t now;

    pthread_once(&filter_once, read_filter);
    if (ops && ops->ready)
        return ops->ready(prov ? prov : provider_of("core"), level, subsys,
                          filtered_flag(name_of(prov)), showtime);
    if (!enabled(name_of(prov), prov, level, subsys))
        return 0;
    now = (uint64_t)clock_ms();
    if (now < *showtime)
        return 0;
    *showtime = now + filter.interval_ms;
    return 1;
}

EXPORT void fi_log(const struct fi_provider *prov, enum fi_log_level level,
                   enum fi_log_subsys subsys, const char *func, int line, const char *fmt, ...)
{
    char text[LINE_LIMIT];
    va_list args;
    int len;

    va_start(args, fmt);
    len = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (len < 0)
        return;
    pthread_once(&filter_once, read_filter);
    emit(name_of(prov), prov, level, subsys, func, line, text);
}
