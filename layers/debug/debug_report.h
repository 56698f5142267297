/* SPDX-License-Identifier: BSD-2-Clause */
/* The rules, and reports of their breach. */
#ifndef WEFT_DEBUG_REPORT_H
#define WEFT_DEBUG_REPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* In the order of the table in debug_report.c, which says where each is written down. */
enum debug_rule {
    DEBUG_GRANTED,
    DEBUG_CAPS,
    DEBUG_IOV_LIMIT,
    DEBUG_RMA_IOV_LIMIT,
    DEBUG_INJECT_SIZE,
    DEBUG_MAX_MSG_SIZE,
    DEBUG_FENCE,
    DEBUG_MULTI_RECV,
    DEBUG_CQ_DATA,
    DEBUG_ATOMIC_OP,
    DEBUG_ATOMIC_COUNT,
    DEBUG_OPERANDS,
    DEBUG_COLLECTIVE_COUNT,
    DEBUG_GROUP,
    DEBUG_DESCRIPTOR,
    DEBUG_RANGE,
    DEBUG_ACCESS,
    DEBUG_REGION_IN_USE,
    DEBUG_NO_CONTEXT,
    DEBUG_CONTEXT_IN_USE,
    DEBUG_UNREAD,
    DEBUG_FORMAT,
    DEBUG_WAIT,
    DEBUG_CLOSE_ORDER,
    DEBUG_CLOSED,
    DEBUG_THREADS,
    DEBUG_ADDRESS,
    DEBUG_ENABLED,
    DEBUG_BOUND_LATE,
    DEBUG_RULES,
};

/* Of a layer, and of objects that outlive it. */
struct debug_reporter {
    atomic_uint holds;
    char *path; /* NULL: standard error */
    bool aborts;
    unsigned limit;                  /* reports of one rule */
    atomic_uint counts[DEBUG_RULES]; /* breaches */
    atomic_bool failed;              /* a report could not be written, and that was said */
};

struct debug_reporter *debug_reporter_create(void); /* NULL without memory */
struct debug_reporter *debug_reporter_hold(struct debug_reporter *reporter);
void debug_reporter_release(struct debug_reporter *reporter);
/* One line: "debug: CALL on WHOM: <fmt> (RULE: where it is written)". Not beyond the limit. */
void debug_report(struct debug_reporter *reporter, enum debug_rule rule, const char *call,
                  const char *whom, const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* The reports that the limit has kept back. */
void debug_report_rest(struct debug_reporter *reporter);

#endif
