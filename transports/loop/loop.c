/* SPDX-License-Identifier: BSD-2-Clause */
/* The part table of loop. */
#include "transports/loop/loop.h"

static const char *const deliver_choices[] = {"progress", "post", NULL};

static const struct param_def loop_params[] = {
    {.key = "deliver",
     .type = PARAM_CHOICE,
     .choices = deliver_choices,
     .default_text = "progress",
     .help = "When a message reaches its receiver: when the receiver makes progress, or inside of "
             "the sender's post (then all endpoints belong to one thread)."},
    {.key = NULL},
};

const struct part loop_part = {
    .name = "loop",
    .prov_name = "loop",
    .summary = "endpoints inside one process, for tests",
    .description =
        "Connected and reliable-datagram endpoints that reach each other through memory of the "
        "process: no wire, no system call. A base for tests and for measuring what layers cost. "
        "Addresses are loop://N or any IPv4 address and port; none of them is looked up. Never "
        "chosen unless named.",
    .kind = PART_TRANSPORT,
    .hidden = true,
    .gives = EP_SET(FI_EP_RDM) | EP_SET(FI_EP_MSG),
    .params = loop_params,
    .offer = loop_offer,
    .open_fabric = loop_open_fabric,
};
