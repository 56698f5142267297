/* SPDX-License-Identifier: BSD-2-Clause */
/* The part table of loop. */
#include "transports/loop/device/loop_device.h"

static const char *const deliver_choices[] = {"progress", "post", NULL};

static const struct param_def loop_params[] = {
    PARAM_PICK(
        "deliver", "progress", deliver_choices,
        "When a message reaches its receiver: when the receiver makes progress, or inside of "
        "the sender's post (then all endpoints belong to one thread)."),
    {.key = "shape",
     .type = PARAM_CHOICE,
     .selects = true,
     .choices = loop_shapes,
     .default_text = "full",
     .help = "'rdma' has connected endpoints only, as RDMA devices have them: no tags, no shared "
             "receive contexts, no counters of remote accesses, messages up to 1 MiB; local memory "
             "is registered, and descriptors are checked; keys and addresses are of the device's "
             "choice; a write with CQ data takes a receive; and a message that finds no receive "
             "posted ends in an error at its sender. 'srd' has reliable packets of the same "
             "registered memory: messages up to 8192 bytes, each delivered once, in any order, "
             "that wait at their sender for a posted receive; and reads of remote memory. 'ud' has "
             "datagrams of registered memory, with 40 bytes of the device's in front of each "
             "buffer (FI_MSG_PREFIX) and no multi-receive."},
    PARAM_NUMBER("seed", PARAM_INT, "1", 1, INT32_MAX,
                 "shape=srd: decides the order in which packets are delivered."),
    PARAM_SWITCH("bursts", "no",
                 "shape=srd: a layer above sends several messages in one call, and hears of "
                 "several, as with devices."),
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
    .peer = loop_device_traits,
    .hidden = true,
    .provides_ep = EP_SET(FI_EP_RDM) | EP_SET(FI_EP_MSG) | EP_SET(FI_EP_DGRAM),
    .params = loop_params,
    .agree = loop_device_agree,
    .offer = loop_offer,
    .atomics = ATOMICS_CPU,
    .open_fabric = loop_open_fabric,
};
