/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/fault/fault.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/log.h"
#include "core/part.h"

static struct pass_ops ops, losing_ops;

static void fill_ops(void)
{
    fault_data_ops(&ops);
    fault_queue_ops(&ops);
    fault_control_ops(&ops);
    losing_ops = ops;
    fault_wire_ops(&losing_ops);
}

static int open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct fault_plan *plan = malloc(sizeof(*plan));
    char why[256] = "";
    int rc;

    pthread_once(&once, fill_ops);
    rc = plan ? fault_plan_init(plan, args->params, why, sizeof(why)) : -FI_ENOMEM;
    if (why[0])
        log_user("fault: %s", why);
    if (!rc)
        rc = pass_open_fabric(args, fabric, context, fault_plan_loses(plan) ? &losing_ops : &ops);
    if (rc && plan)
        fault_plan_finish(plan);
    if (rc)
        free(plan);
    else
        *pass_hook(&(*fabric)->fid) = plan;
    return rc;
}

/* What a lower never does by its contract is refused here, so that the application is told why. */
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
    {
        .key = "eagain",
        .type = PARAM_PERCENT,
        .default_text = "0",
        .help = "How many of the data transfers are answered -FI_EAGAIN, to be tried again.",
    },
    {
        .key = "delay",
        .type = PARAM_TIME,
        .default_text = "0",
        .min = 0,
        .max = 60000,
        .help = "How long a completion queue is silent, and what is below it at rest, after each "
                "batch of completions.",
    },
    {
        .key = "fail",
        .type = PARAM_LIST,
        .help =
            "Calls that fail once, by their number in this layer: send:17|mr:3. There are send, "
            "recv, read, write, atomic, collective (-FI_EIO), domain, endpoint, cq, cntr, av, "
            "mr, eq (-FI_ENOMEM) and connect (-FI_ENETUNREACH).",
    },
    {
        .key = "kill_conn",
        .type = PARAM_INT,
        .default_text = "0",
        .min = 0,
        .max = INT64_MAX,
        .help = "After the send of this number in this layer its connection is shut down; 0: none. "
                "Only over FI_EP_MSG.",
    },
    {
        .key = "drop",
        .type = PARAM_PERCENT,
        .default_text = "0",
        .help = "How many of the messages that are sent, and of RMA and atomics, get lost; what "
                "only had to leave succeeds.",
    },
    {
        .key = "dup",
        .type = PARAM_PERCENT,
        .default_text = "0",
        .help = "How many of the messages that are sent arrive twice.",
    },
    {
        .key = "reorder",
        .type = PARAM_PERCENT,
        .default_text = "0",
        .help = "How many of the messages that are sent wait until the next of their endpoint has "
                "overtaken them, or until somebody waits for a completion.",
    },
    {
        .key = "corrupt",
        .type = PARAM_PERCENT,
        .default_text = "0",
        .help = "How many of the messages that are sent arrive with one bit changed.",
    },
    {
        .key = "force",
        .type = PARAM_BOOL,
        .default_text = "0",
        .help = "Do also what the lower may not do by its contract: lose, double, reorder messages "
                "over FI_EP_MSG and FI_EP_RDM, change them over any.",
    },
    {
        .key = "seed",
        .type = PARAM_INT,
        .default_text = "1",
        .min = 0,
        .max = INT64_MAX,
        .help = "Another one is another course; the same, with the same calls on each endpoint, is "
                "the same.",
    },
    {.key = NULL},
};

extern const struct part fault_part;

const struct part fault_part = {
    .name = "fault",
    .prov_name = "ofi_hook_fault",
    .aliases = aliases,
    .summary = "makes calls fail, messages get lost and completions come late",
    .description =
        "What stands on it sees its lower at its worst, as far as the lower's contract goes: calls "
        "to be tried again, late completions, calls that fail, connections that end; over "
        "FI_EP_DGRAM messages that are lost, doubled and overtaken. What the lower may not do by "
        "its contract is refused by fi_getinfo with its reason, unless 'force' is set. Messages "
        "are those of fi_msg(3) and fi_tagged(3), and the writes of fi_rma(3); reads and atomics "
        "only get lost. Lost writes succeed; reads, fetching atomics and what was to complete at "
        "the target (FI_DELIVERY_COMPLETE) end in FI_ETIMEDOUT. What happens to which is decided "
        "by the seed, the number of the endpoint and that of the message. Without parameters it "
        "does nothing.\n\n"
        "Doubled, overtaken and changed messages are copies: an endpoint without a completion "
        "queue for its sends has none of them, nor have messages of more than 16 MiB.",
    .kind = PART_LAYER,
    .transparent = true,
    .params = params,
    .needs = part_needs_same,
    .offer = offer,
    .open_fabric = open_fabric,
};
