/* SPDX-License-Identifier: BSD-2-Clause */
/* The part table of loop. */
#include "transports/loop/loop.h"

static const char *const deliver_choices[] = {"progress", "post", NULL};
static const char *const shape_choices[] = {"full", "rdma", NULL};

static const struct param_def loop_params[] = {
    {.key = "deliver",
     .type = PARAM_CHOICE,
     .choices = deliver_choices,
     .default_text = "progress",
     .help = "When a message reaches its receiver: when the receiver makes progress, or inside of "
             "the sender's post (then all endpoints belong to one thread)."},
    {.key = "shape",
     .type = PARAM_CHOICE,
     .selects = true,
     .choices = shape_choices,
     .default_text = "full",
     .help = "'rdma' has connected endpoints only, as RDMA devices have them: no tags, no shared "
             "receive contexts, registered local memory, keys and addresses of the device's "
             "choice; a write with CQ data takes a receive; and a message that finds no receive "
             "posted ends in an error at its sender."},
    {.key = NULL},
};

const struct part loop_part = {
    .name = "loop",
    .prov_name = "loop",
    .summary = "endpoints inside one process, for tests",
    .description =
        "Connected, reliable-datagram and datagram endpoints that reach each other through memory "
        "of the process: no wire, no system call. A base for tests and for measuring what layers "
        "cost. A datagram has 4096 bytes at most, and is lost when no receive waits for it. "
        "Addresses are loop://N or any IPv4 address and port; none of them is looked up. Never "
        "chosen unless named.",
    .kind = PART_TRANSPORT,
    .hidden = true,
    .gives = EP_SET(FI_EP_RDM) | EP_SET(FI_EP_MSG) | EP_SET(FI_EP_DGRAM),
    .params = loop_params,
    .offer = loop_offer,
    .open_fabric = loop_open_fabric,
};
