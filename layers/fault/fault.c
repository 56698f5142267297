/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/fault/fault.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/log.h"
#include "core/part.h"

static struct pass_ops ops;

static void fill_ops(void)
{
    fault_data_ops(&ops);
    fault_control_ops(&ops);
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
        rc = pass_open_fabric(args, fabric, context, &ops);
    if (rc)
        free(plan);
    else
        *pass_hook(&(*fabric)->fid) = plan;
    return rc;
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
    .summary = "makes calls fail and completions come late",
    .description =
        "What stands on it sees its lower at its worst, as far as the contract of a reliable lower "
        "goes: calls to be tried again, late completions, calls that fail, connections that end. "
        "It loses, doubles, reorders and changes no message. Without parameters it does nothing.",
    .kind = PART_LAYER,
    .transparent = true,
    .params = params,
    .needs = part_needs_same,
    .offer = part_offer_same,
    .open_fabric = open_fabric,
};
