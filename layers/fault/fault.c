/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/fault/fault.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/hook/hook_part.h"
#include "core/part/part.h"

static void plan_destroy(void *own)
{
    fault_plan_finish(own);
    free(own);
}

static void fill_ops(struct hook_ops *ops)
{
    ops->post = fault_post;
    fault_queue_ops(ops);
    fault_control_ops(ops);
    ops->finish = plan_destroy;
}

static int plan_create(const struct open_args *args, void **own)
{
    struct fault_plan *plan = malloc(sizeof(*plan));
    char why[256] = "";
    int rc = plan ? fault_plan_init(plan, args->params, why, sizeof(why)) : -FI_ENOMEM;

    if (why[0])
        log_user("fault: fail: %s", why);
    if (rc && plan)
        plan_destroy(plan);
    else
        *own = plan;
    return rc;
}

static struct hook_part hook = {.fill = fill_ops, .create = plan_create, .destroy = plan_destroy};

/* Refuses faults that the lower's contract excludes, with the reason. */
static int offer(const struct request *req, const struct fi_info *lower, struct fi_info **info)
{
    struct fault_plan plan;
    const char *objection;
    char why[256] = "";
    int rc = fault_plan_init(&plan, req->params, why, sizeof(why));

    *info = NULL;
    if (rc) { /* fi_fabric says so */
        fault_plan_finish(&plan);
        return part_offer_same(req, lower, info);
    }
    objection = fault_plan_objection(&plan, lower);
    fault_plan_finish(&plan);
    if (!objection)
        return part_offer_same(req, lower, info);
    reasons_add(req->reasons, "%s", objection);
    return 0;
}

static const char *const aliases[] = {"hook_fault", NULL};

static const struct param_def params[] = {
    PARAM_NUMBER("eagain", PARAM_PERCENT, "0", 0, 0,
                 "How many of the data transfers are answered -FI_EAGAIN, to be tried again."),
    PARAM_NUMBER("delay", PARAM_TIME, "0", 0, 60000,
                 "How long a completion queue is silent, and what is below it at rest, after each "
                 "batch of completions."),
    {
        .key = "fail",
        .type = PARAM_LIST,
        .check = fault_plan_check_fail,
        .help =
            "Calls that fail once, by their number in this layer: send:17|mr:3. There are send, "
            "recv, read, write, atomic, collective (-FI_EIO), domain, endpoint, cq, cntr, av, "
            "mr, eq (-FI_ENOMEM) and connect (-FI_ENETUNREACH).",
    },
    PARAM_NUMBER(
        "kill_conn", PARAM_INT, "0", 0, INT64_MAX,
        "After the send of this number in this layer its connection is shut down; 0: none. "
        "Only over FI_EP_MSG."),
    PARAM_NUMBER("drop", PARAM_PERCENT, "0", 0, 0,
                 "How many of the messages that are sent, and of RMA and atomics, get lost; "
                 "operations that need no answer succeed."),
    PARAM_NUMBER("dup", PARAM_PERCENT, "0", 0, 0,
                 "How many of the messages that are sent arrive twice."),
    PARAM_NUMBER("reorder", PARAM_PERCENT, "0", 0, 0,
                 "How many of the messages that are sent wait until the next of their endpoint "
                 "has overtaken them, or until a thread waits for a completion."),
    PARAM_NUMBER("corrupt", PARAM_PERCENT, "0", 0, 0,
                 "How many of the messages that are sent arrive with one bit changed."),
    PARAM_SWITCH(
        "force", "0",
        "Also inject faults that the lower's contract forbids: lose, double, reorder messages "
        "over FI_EP_MSG and FI_EP_RDM, change them over any."),
    PARAM_NUMBER(
        "seed", PARAM_INT, "1", 0, INT64_MAX,
        "Seed of the random choices: with the same seed and the same calls on each endpoint the "
        "same faults occur."),
    {.key = NULL},
};

const struct part fault_part = {
    .name = "fault",
    .prov_name = "ofi_hook_fault",
    .aliases = aliases,
    .summary = "makes calls fail, messages get lost and completions come late",
    .description =
        "The layer or application above it sees the worst that the lower's contract permits: "
        "calls to be tried again, late completions, calls that fail, connections that end; over "
        "FI_EP_DGRAM messages that are lost, doubled and overtaken. fi_getinfo refuses faults "
        "that the contract forbids, with the reason, unless 'force' is set. Messages are those "
        "of fi_msg(3) and fi_tagged(3), and the writes of fi_rma(3); reads and atomics only get "
        "lost. Lost writes succeed; reads, fetching atomics and operations that were to "
        "complete at the target (FI_DELIVERY_COMPLETE) end in FI_ETIMEDOUT. The seed, the "
        "number of the endpoint and that of the message decide which fault a message meets. "
        "Without parameters it does nothing.\n\n"
        "Doubled, overtaken and changed messages are copies: an endpoint without a completion "
        "queue for its sends has none of them, nor have messages of more than 16 MiB.",
    .hook = &hook,
    HOOK_PART,
    .params = params,
    .offer = offer,
};
