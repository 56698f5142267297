/* SPDX-License-Identifier: BSD-2-Clause */
/* The part table of arq. */
#include "core/part/part.h"
#include "layers/arq/arq_domain.h"
#include "layers/arq/arq_info.h"

static const char *const cc_choices[] = {"delay", "ecn", "cubic", NULL};

static const struct param_def params[] = {
    {
        .key = "cc",
        .type = PARAM_CHOICE,
        .choices = cc_choices,
        .default_text = "delay",
        .help = "Congestion control: 'delay' keeps the round trip near its least; 'ecn' answers "
                "the network's congestion marks in proportion (it needs switches that mark); "
                "'cubic' fills the network's queues until packets are lost, as TCP does.",
    },
    {
        .key = "patience",
        .type = PARAM_TIME,
        .default_text = "10m",
        .min = 1,
        .max = 86400000,
        .help = "How long a peer may be silent while there is something to send to it, before "
                "that ends with FI_ETIMEDOUT. A peer that computes is silent; one whose port is "
                "said to be closed has a second.",
    },
    {
        .key = "saved",
        .type = PARAM_INT,
        .default_text = "256",
        .min = 1,
        .max = 65536,
        .help = "Messages without a receive that an endpoint keeps, of all peers together; beyond "
                "them peers wait.",
    },
    {
        .key = "buffers",
        .type = PARAM_INT,
        .default_text = "64",
        .min = 4,
        .max = 4096,
        .help = "Receives of its own that an endpoint keeps posted to a lower whose receives take "
                "one datagram each.",
    },
    {
        .key = "max_sessions",
        .type = PARAM_INT,
        .default_text = "65536",
        .min = 1,
        .max = 1048575,
        .help = "The most peers that an endpoint has sessions with at the same time.",
    },
    {.key = NULL},
};

const struct part arq_part = {
    .name = "arq",
    .prov_name = "arq",
    .summary = "reliable packets over datagrams",
    .description =
        "Gives endpoints of type FI_EP_RDM whose messages are packets: up to max_msg_size bytes, "
        "each delivered once, in any order, over a lower that has FI_EP_DGRAM. No tags, no remote "
        "memory: what stands on it (rxd) makes them.\n\n"
        "A send completes when the peer has acknowledged it. Lost packets are sent again, the "
        "window follows the network's state, and a receiver tells its senders how much it has "
        "room for. A message that does not fit the path goes in pieces.\n\n"
        "A peer that restarted, or has gone, ends the operations to it in FI_ECONNRESET, "
        "FI_ECONNREFUSED or, after a long silence, FI_ETIMEDOUT; the next operation opens a new "
        "session.",
    .kind = PART_LAYER,
    .nameless = true,
    .provides_ep = EP_PACKETS,
    .requires_ep = EP_SET(FI_EP_DGRAM),
    .params = params,
    .peer = arq_peer_traits,
    .needs = arq_needs,
    .offer = arq_offer,
    .open_fabric = arq_open_fabric,
};
