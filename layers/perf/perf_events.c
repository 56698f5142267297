/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/perf/perf_events.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rdma/fi_errno.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "core/base/clock.h"
#include "core/param/param.h"
#include "layers/perf/perf_page.h"

#define HARDWARE(what) PERF_TYPE_HARDWARE, PERF_COUNT_HW_##what
#define SOFTWARE(what) PERF_TYPE_SOFTWARE, PERF_COUNT_SW_##what

static const struct perf_event known[] = {
    {"cycles", HARDWARE(CPU_CYCLES)},
    {"instructions", HARDWARE(INSTRUCTIONS)},
    {"cache_references", HARDWARE(CACHE_REFERENCES)},
    {"cache_misses", HARDWARE(CACHE_MISSES)},
    {"branches", HARDWARE(BRANCH_INSTRUCTIONS)},
    {"branch_misses", HARDWARE(BRANCH_MISSES)},
    {"cpu_clock", SOFTWARE(CPU_CLOCK)},
    {"task_clock", SOFTWARE(TASK_CLOCK)},
    {"page_faults", SOFTWARE(PAGE_FAULTS)},
    {"context_switches", SOFTWARE(CONTEXT_SWITCHES)},
    {"migrations", SOFTWARE(CPU_MIGRATIONS)},
    {"tsc", PERF_TSC, 0},
};
enum {
    KNOWN = sizeof(known) / sizeof(*known)
};

/* ---- Which ---- */

static const struct perf_event *find(const char *name, size_t len)
{
    for (int i = 0; i < KNOWN; i++)
        if (strlen(known[i].name) == len && !strncmp(known[i].name, name, len))
            return &known[i];
    return NULL;
}

static int unknown(const char *name, size_t len, char *why, size_t why_size)
{
    const char *names[KNOWN + 1] = {NULL};
    char word[32];

    for (int i = 0; i < KNOWN; i++)
        names[i] = known[i].name;
    snprintf(word, sizeof(word), "%.*s", (int)len, name);
    suggest_explain("event", word, names, why, why_size);
    return -FI_EINVAL;
}

int perf_set_parse(struct perf_set *set, const char *text, char *why, size_t why_size)
{
    set->count = 0;
    for (; *text; text += *text != 0) {
        size_t len = strcspn(text, "|,");
        const struct perf_event *event = find(text, len);

        if (!event)
            return unknown(text, len, why, why_size);
        if (set->count == PERF_EVENTS) {
            snprintf(why, why_size, "%d at most", PERF_EVENTS);
            return -FI_EINVAL;
        }
        set->events[set->count++] = *event;
        text += len;
    }
    for (unsigned i = 0; set->count > 1 && i < set->count; i++)
        if (set->events[i].type == PERF_TSC) {
            snprintf(why, why_size, "'tsc' stands alone");
            return -FI_EINVAL;
        }
    if (!set->count)
        perf_set_clock(set);
    return 0;
}

int perf_set_check(const char *text, char *why, size_t why_size)
{
    struct perf_set set;

    return perf_set_parse(&set, text, why, why_size);
}

void perf_set_clock(struct perf_set *set)
{
    set->events[0] = known[KNOWN - 1];
    set->count = 1;
}

/* ---- Open ---- */

/* The kernel's own part of a call counts where one may see it. */
static int open_event(const struct perf_event *event, int leader, uint64_t format)
{
    struct perf_event_attr attr = {
        .size = sizeof(attr),
        .type = event->type,
        .config = event->config,
        .read_format = format,
        .exclude_hv = 1,
    };
    int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, leader, PERF_FLAG_FD_CLOEXEC);

    if (fd < 0 && (errno == EACCES || errno == EPERM)) {
        attr.exclude_kernel = 1;
        fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, leader, PERF_FLAG_FD_CLOEXEC);
    }
    return fd < 0 ? -errno : fd;
}

static void *map_page(int fd)
{
    void *page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, fd, 0);

    return page == MAP_FAILED ? NULL : page;
}

static bool readable(const void *page)
{
#if defined(__x86_64__)
    const struct perf_event_mmap_page *state = page;

    return state && state->cap_user_rdpmc && state->index;
#else
    return false;
#endif
}

int perf_group_open(struct perf_group *group, const struct perf_set *set)
{
    bool by_page = true, hardware = true;

    memset(group, 0, sizeof(*group));
    if (set->events[0].type == PERF_TSC) {
        group->way = PERF_BY_CLOCK;
        return 0;
    }
    for (unsigned i = 0; i < set->count; i++)
        hardware = hardware && set->events[i].type == PERF_TYPE_HARDWARE;
    for (unsigned i = 0; i < set->count; i++) {
        int fd = open_event(&set->events[i], i && hardware ? group->fds[0] : -1,
                            hardware ? PERF_FORMAT_GROUP : 0);

        if (fd < 0) {
            perf_group_close(group);
            return fd;
        }
        group->fds[i] = fd;
        group->count++;
        group->pages[i] = map_page(fd);
        by_page = by_page && readable(group->pages[i]);
    }
    group->way = by_page ? PERF_BY_PAGE : hardware ? PERF_BY_READ : PERF_ONE_BY_ONE;
    return 0;
}

void perf_group_close(struct perf_group *group)
{
    for (unsigned i = 0; i < group->count; i++) {
        if (group->pages[i])
            munmap(group->pages[i], (size_t)sysconf(_SC_PAGESIZE));
        close(group->fds[i]);
    }
    memset(group, 0, sizeof(*group));
}

/* ---- Read ---- */

static uint64_t ticks(void)
{
#if defined(__x86_64__)
    return __rdtsc();
#else
    return clock_ns();
#endif
}

static void read_group(const struct perf_group *group, uint64_t values[PERF_EVENTS])
{
    uint64_t answer[1 + PERF_EVENTS] = {0}; /* their number, and they */

    if (read(group->fds[0], answer, sizeof(answer)) < 0)
        answer[0] = 0;
    memcpy(values, answer + 1, sizeof(uint64_t) * PERF_EVENTS);
}

static void read_each(const struct perf_group *group, uint64_t values[PERF_EVENTS])
{
    for (unsigned i = 0; i < group->count; i++)
        if (read(group->fds[i], &values[i], sizeof(values[i])) < 0)
            values[i] = 0;
}

#if defined(__x86_64__)
static inline uint64_t pmc(uint32_t number)
{
    return (uint64_t)__rdpmc((int)number);
}

static bool read_page(const void *page, uint64_t *value)
{
    return perf_page_read(page, pmc, value);
}
#else
static bool read_page(const void *page, uint64_t *value)
{
    return false;
}
#endif

void perf_group_read(const struct perf_group *group, uint64_t values[PERF_EVENTS])
{
    if (group->way == PERF_BY_CLOCK) {
        values[0] = ticks();
        return;
    }
    if (group->way == PERF_BY_PAGE) {
        unsigned done = 0;

        while (done < group->count && read_page(group->pages[done], &values[done]))
            done++;
        if (done == group->count)
            return;
    }
    if (group->way == PERF_ONE_BY_ONE)
        read_each(group, values);
    else
        read_group(group, values);
}
