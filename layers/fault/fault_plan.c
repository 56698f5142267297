/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/fault/fault_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

static const char *const names[] = {
    [FAULT_SEND] = "send",     [FAULT_RECV] = "recv",
    [FAULT_READ] = "read",     [FAULT_WRITE] = "write",
    [FAULT_ATOMIC] = "atomic", [FAULT_COLLECTIVE] = "collective",
    [FAULT_DOMAIN] = "domain", [FAULT_ENDPOINT] = "endpoint",
    [FAULT_CQ] = "cq",         [FAULT_CNTR] = "cntr",
    [FAULT_AV] = "av",         [FAULT_MR] = "mr",
    [FAULT_EQ] = "eq",         [FAULT_CONNECT] = "connect",
    [FAULT_CALLS] = NULL,
};

static int find_call(const char *name)
{
    for (int i = 0; i < FAULT_CALLS; i++)
        if (!strcmp(names[i], name))
            return i;
    return -1;
}

static int parse_item(struct fault_plan *plan, char *item, char *why, size_t why_size)
{
    char *colon = strchr(item, ':'), *end;
    unsigned long long number;
    int call;

    if (colon)
        *colon = 0;
    call = find_call(item);
    if (call < 0) {
        suggest_explain("call", item, names, why, why_size);
        return -FI_EINVAL;
    }
    number = colon && colon[1] >= '0' && colon[1] <= '9' ? strtoull(colon + 1, &end, 10) : 0;
    if (!number || *end) {
        snprintf(why, why_size, "'%s' needs the number of the call, as in %s:17", item, item);
        return -FI_EINVAL;
    }
    if (plan->failure_count == FAULT_FAILURES) {
        snprintf(why, why_size, "no more than %d calls can be named", FAULT_FAILURES);
        return -FI_EINVAL;
    }
    plan->failures[plan->failure_count++] = (struct fault_failure){(enum fault_call)call, number};
    plan->fails[call] = true;
    return 0;
}

static int parse_fail(struct fault_plan *plan, const char *text, char *why, size_t why_size)
{
    char *copy = strdup(text), *rest = copy, *item;
    int rc = copy ? 0 : -FI_ENOMEM;

    while (!rc && (item = strsep(&rest, "|,")))
        rc = parse_item(plan, item, why, why_size);
    free(copy);
    return rc;
}

int fault_plan_check_fail(const char *text, char *why, size_t why_size)
{
    struct fault_plan plan = {0};

    return parse_fail(&plan, text, why, why_size);
}

int fault_plan_init(struct fault_plan *plan, const struct params *params, char *why,
                    size_t why_size)
{
    const char *fail = params_string(params, "fail");

    memset(plan, 0, sizeof(*plan));
    pthread_mutex_init(&plan->mutex, NULL);
    list_init(&plan->copies);
    list_init(&plan->held);
    list_init(&plan->done);
    plan->seed = (uint64_t)params_int(params, "seed");
    plan->chance[FAULT_REFUSE] = params_millionths(params, "eagain");
    plan->chance[FAULT_DROP] = params_millionths(params, "drop");
    plan->chance[FAULT_DUP] = params_millionths(params, "dup");
    plan->chance[FAULT_REORDER] = params_millionths(params, "reorder");
    plan->chance[FAULT_CORRUPT] = params_millionths(params, "corrupt");
    plan->force = params_bool(params, "force");
    plan->delay_ns = (uint64_t)params_time_ms(params, "delay") * 1000000;
    plan->kill_conn = (uint64_t)params_int(params, "kill_conn");
    plan->loses = plan->chance[FAULT_DROP] || plan->chance[FAULT_DUP] ||
                  plan->chance[FAULT_REORDER] || plan->chance[FAULT_CORRUPT];
    return fail ? parse_fail(plan, fail, why, why_size) : 0;
}

void fault_plan_finish(struct fault_plan *plan)
{
    pthread_mutex_destroy(&plan->mutex);
}

bool fault_plan_fails(struct fault_plan *plan, enum fault_call call)
{
    uint64_t number;

    if (!plan->fails[call])
        return false;
    number = atomic_fetch_add_explicit(&plan->calls[call], 1, memory_order_relaxed) + 1;
    for (unsigned i = 0; i < plan->failure_count; i++)
        if (plan->failures[i].call == call && plan->failures[i].number == number)
            return true;
    return false;
}

/* The finalizer of splitmix64. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t draw(const struct fault_plan *plan, uint64_t salt, uint64_t ep, uint64_t n)
{
    const uint64_t golden = 0x9e3779b97f4a7c15u;

    return mix(mix(plan->seed + salt * 0xd1342543de82ef95u + ep * golden) + n * golden);
}

bool fault_plan_happens(const struct fault_plan *plan, enum fault_chance chance, uint64_t ep,
                        uint64_t n)
{
    return draw(plan, chance, ep, n) % 1000000 < plan->chance[chance];
}

uint64_t fault_plan_random(const struct fault_plan *plan, uint64_t ep, uint64_t n)
{
    return draw(plan, FAULT_CHANCES, ep, n);
}

/* fi_endpoint(3): only FI_EP_DGRAM is unreliable; no endpoint changes what it carries. */
const char *fault_plan_objection(const struct fault_plan *plan, const struct fi_info *info)
{
    bool dgram = info->ep_attr->type == FI_EP_DGRAM;
    bool ordered = info->tx_attr && info->tx_attr->msg_order & FI_ORDER_SAS;

    if (plan->kill_conn && info->ep_attr->type != FI_EP_MSG)
        return "kill_conn needs endpoints with connections (FI_EP_MSG)";
    if (plan->force)
        return NULL;
    if (plan->chance[FAULT_CORRUPT])
        return "corrupt: no lower may change a message by its contract; it is done with 'force'";
    if (plan->chance[FAULT_DROP] && !dgram)
        return "drop: only FI_EP_DGRAM may lose messages by its contract; it is done with 'force'";
    if (plan->chance[FAULT_DUP] && !dgram)
        return "dup: only FI_EP_DGRAM may double messages by its contract; it is done with "
               "'force'";
    if (plan->chance[FAULT_REORDER] && !dgram && ordered)
        return "reorder: the lower offers FI_ORDER_SAS, so it may not do that by its contract; it "
               "is done with 'force'";
    return NULL;
}

bool fault_plan_kills(struct fault_plan *plan)
{
    if (!plan->kill_conn)
        return false;
    return atomic_fetch_add_explicit(&plan->sends, 1, memory_order_relaxed) + 1 == plan->kill_conn;
}
