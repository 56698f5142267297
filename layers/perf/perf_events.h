/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel's performance counters, of the thread that reads them (perf_event_open(2)). Hardware
 * counters are a group, counted together or not at all. Hardware counters are read without a system
 * call where the kernel allows that, else by one; software events take one each.
 */
#ifndef WEFT_PERF_EVENTS_H
#define WEFT_PERF_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PERF_EVENTS = 6 /* of a group, at most */
};

/* An event that is counted; `type` of PERF_TSC: ticks of the clock, without the kernel. */
#define PERF_TSC UINT32_MAX

struct perf_event {
    const char *name;
    uint32_t type;
    uint64_t config;
};

struct perf_set {
    struct perf_event events[PERF_EVENTS];
    unsigned count;
};

/* Open counters of one thread. */
struct perf_group {
    int fds[PERF_EVENTS];
    void *pages[PERF_EVENTS]; /* to read without a call; NULL: there is none */
    unsigned count;
    enum {
        PERF_BY_CLOCK,
        PERF_BY_READ,    /* all by one call */
        PERF_ONE_BY_ONE, /* software events: their clocks stand still in a group */
        PERF_BY_PAGE
    } way;
};

/* From a '|'- or ','-separated list of names. -FI_EINVAL with a sentence in why. */
int perf_set_parse(struct perf_set *set, const char *text, char *why, size_t why_size);
/* Is it such a list? The same errors; for the table of parameters. */
int perf_set_check(const char *text, char *why, size_t why_size);
void perf_set_clock(struct perf_set *set);

/* For the calling thread. A negative errno: this kernel does not count that. */
int perf_group_open(struct perf_group *group, const struct perf_set *set);
void perf_group_close(struct perf_group *group);
/* The values now, in the order of the set. By the thread that it is of. */
void perf_group_read(const struct perf_group *group, uint64_t values[PERF_EVENTS]);

#endif
