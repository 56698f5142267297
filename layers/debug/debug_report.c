/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/debug/debug_report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/output.h"

static const struct {
    const char *name, *source;
} rules[DEBUG_RULES] = {
    [DEBUG_GRANTED] = {"granted", "fi_getinfo(3), FI_INFO"},
    [DEBUG_CAPS] = {"caps", "fi_getinfo(3), CAPABILITIES"},
    [DEBUG_IOV_LIMIT] = {"iov_limit", "fi_endpoint(3), iov_limit"},
    [DEBUG_RMA_IOV_LIMIT] = {"rma_iov_limit", "fi_endpoint(3), rma_iov_limit"},
    [DEBUG_INJECT_SIZE] = {"inject_size", "fi_endpoint(3), inject_size"},
    [DEBUG_MAX_MSG_SIZE] = {"max_msg_size", "fi_endpoint(3), max_msg_size"},
    [DEBUG_FENCE] = {"fence", "fi_getinfo(3), CAPABILITIES, FI_FENCE"},
    [DEBUG_MULTI_RECV] = {"multi_recv", "fi_getinfo(3), CAPABILITIES, FI_MULTI_RECV"},
    [DEBUG_CQ_DATA] = {"cq_data_size", "fi_domain(3), cq_data_size"},
    [DEBUG_ATOMIC_OP] = {"atomic_op", "fi_atomic(3), fi_atomicvalid"},
    [DEBUG_ATOMIC_COUNT] = {"atomic_count", "fi_atomic(3), fi_atomicvalid"},
    [DEBUG_OPERANDS] = {"operands", "fi_atomic(3), compare_count and result_count"},
    [DEBUG_COLLECTIVE_COUNT] = {"collective_count", "fi_collective(3), fi_query_collective"},
    [DEBUG_GROUP] = {"group", "fi_collective(3), fi_join_collective"},
    [DEBUG_DESCRIPTOR] = {"descriptor", "fi_mr(3), FI_MR_LOCAL"},
    [DEBUG_RANGE] = {"range", "fi_mr(3), FI_MR_LOCAL"},
    [DEBUG_ACCESS] = {"access", "fi_mr(3), access"},
    [DEBUG_REGION_IN_USE] = {"region_in_use", "fi_mr(3), fi_close"},
    [DEBUG_NO_CONTEXT] = {"no_context", "fi_getinfo(3), MODE, FI_CONTEXT"},
    [DEBUG_CONTEXT_IN_USE] = {"context_in_use", "fi_getinfo(3), MODE, FI_CONTEXT"},
    [DEBUG_UNREAD] = {"unread", "fi_cq(3), fi_close"},
    [DEBUG_FORMAT] = {"format", "fi_cq(3), format"},
    [DEBUG_WAIT] = {"wait_obj", "fi_cq(3), fi_cq_sread"},
    [DEBUG_CLOSE_ORDER] = {"close_order", "fi_close in the page of the object, -FI_EBUSY"},
    [DEBUG_CLOSED] = {"closed", "fi_fabric(3), fi_close"},
    [DEBUG_THREADS] = {"threading", "fi_domain(3), threading"},
    [DEBUG_ADDRESS] = {"address", "fi_av(3), fi_av_insert, fi_av_remove"},
    [DEBUG_ENABLED] = {"enabled", "fi_endpoint(3), fi_enable"},
    [DEBUG_BOUND_LATE] = {"bound_late", "fi_endpoint(3), fi_ep_bind"},
};

struct debug_reporter *debug_reporter_create(void)
{
    struct debug_reporter *reporter = calloc(1, sizeof(*reporter));

    if (reporter)
        atomic_init(&reporter->holds, 1);
    return reporter;
}

struct debug_reporter *debug_reporter_hold(struct debug_reporter *reporter)
{
    atomic_fetch_add(&reporter->holds, 1);
    return reporter;
}

void debug_reporter_release(struct debug_reporter *reporter)
{
    if (atomic_fetch_sub(&reporter->holds, 1) != 1)
        return;
    free(reporter->path);
    free(reporter);
}

/* On a disk that is full the counts stay. */
static void append(struct debug_reporter *reporter, const char *line)
{
    int rc = output_append(reporter->path, line, strlen(line));

    if (rc && !atomic_exchange(&reporter->failed, true))
        log_user("debug: cannot write to '%s': %s; what it finds is lost",
                 reporter->path ? reporter->path : "standard error", strerror(-rc));
}

void debug_report(struct debug_reporter *reporter, enum debug_rule rule, const char *call,
                  const char *whom, const char *fmt, ...)
{
    unsigned count = atomic_fetch_add(&reporter->counts[rule], 1);
    char what[512], line[1024];
    va_list args;

    if (count >= reporter->limit)
        return;
    va_start(args, fmt);
    vsnprintf(what, sizeof(what), fmt, args);
    va_end(args);
    snprintf(line, sizeof(line), "debug: %s on %s: %s (%s: %s)\n", call, whom, what,
             rules[rule].name, rules[rule].source);
    append(reporter, line);
    if (reporter->aborts)
        abort();
}

void debug_report_rest(struct debug_reporter *reporter)
{
    char line[256];

    for (int i = 0; i < DEBUG_RULES; i++) {
        unsigned count = atomic_load(&reporter->counts[i]);

        if (count <= reporter->limit)
            continue;
        snprintf(line, sizeof(line), "debug: %s: %u more like these\n", rules[i].name,
                 count - reporter->limit);
        append(reporter, line);
    }
}
