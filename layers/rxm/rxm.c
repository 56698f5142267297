/* SPDX-License-Identifier: BSD-2-Clause */
/* The part table. */
#include "core/part.h"
#include "layers/rxm/rxm_domain.h"
#include "layers/rxm/rxm_info.h"

static const char *const tags_choices[] = {"any", "pass", "emulate", NULL};

static const struct param_def params[] = {
    {
        .key = "tags",
        .type = PARAM_CHOICE,
        .selects = true,
        .default_text = "any",
        .choices = tags_choices,
        .help = "Who carries tags: 'pass' leaves them to the lower, whose peers speak "
                "FI_PROTO_XNET; 'emulate' puts them into rxm's own packets (FI_PROTO_RXM), which "
                "any lower can carry; 'any' offers both, packets first, and the protocol of the "
                "info that an endpoint is opened with decides.",
    },
    {
        .key = "buffer_size",
        .type = PARAM_SIZE,
        .default_text = "16k",
        .min = 512,
        .max = 1 << 20,
        .help = "tags=emulate: bytes of the largest message that is sent as one packet (eager). "
                "Peers must have the same.",
    },
    {
        .key = "sar_limit",
        .type = PARAM_SIZE,
        .default_text = "0",
        .help = "tags=emulate: bytes of the largest message that is sent in pieces of buffer_size "
                "without asking; larger ones wait at the sender until they are received. 0 is as "
                "measured over the lower: 8 times buffer_size where that is tcp.",
    },
    {
        .key = "use_rndv_write",
        .type = PARAM_BOOL,
        .default_text = "no",
        .help = "tags=emulate: the sender writes large messages, instead of the receiver reading "
                "them. Peers must have the same, unless they are of this library.",
    },
    {
        .key = "use_srx",
        .type = PARAM_BOOL,
        .default_text = "yes",
        .help = "tags=emulate: receive buffers are shared by all connections where the lower can "
                "do that; else each connection has its own, msg_rx_size at most, and senders "
                "count.",
    },
    {
        .key = "msg_rx_size",
        .type = PARAM_INT,
        .default_text = "128",
        .min = 8,
        .max = 1024,
        .help =
            "tags=emulate: receive buffers of a connection, where they are not shared. It begins "
            "with 8, and has more while its peer uses them up.",
    },
    {
        .key = "saved_size",
        .type = PARAM_SIZE,
        .default_text = "64m",
        .min = 65536,
        .max = INT64_MAX,
        .help = "tags=emulate: bytes of messages without a receive that an endpoint keeps; beyond "
                "them it takes no more packets until some are received.",
    },
    {
        .key = "retry_pause",
        .type = PARAM_TIME,
        .default_text = "10ms",
        .min = 1,
        .max = 60000,
        .help = "Pause before a failed connection is dialled again; it doubles with each failure.",
    },
    {
        .key = "retry_pause_max",
        .type = PARAM_TIME,
        .default_text = "1s",
        .min = 1,
        .max = 600000,
        .help = "The longest pause between two dials of a peer.",
    },
    {
        .key = "unreachable_timeout",
        .type = PARAM_TIME,
        .default_text = "5s",
        .min = 0,
        .max = 86400000,
        .help = "How long a peer is dialled again where nothing listens or no route leads; then an "
                "operation to it ends in the error.",
    },
    {
        .key = "connect_timeout",
        .type = PARAM_TIME,
        .default_text = "10m",
        .min = 1,
        .max = 86400000,
        .help = "How long a peer that can be reached may leave a connection request without an "
                "answer, which it does while its application computes and makes no progress.",
    },
    {
        .key = "max_dials",
        .type = PARAM_INT,
        .default_text = "64",
        .min = 1,
        .max = 65535,
        .help = "The most connections that an endpoint starts to dial at once (each counts for a "
                "second at most).",
    },
    {.key = NULL},
};

/* What a bare transport name means for FI_EP_RDM. */
static const struct param_text unnamed[] = {{"tags", "pass"}, {NULL, NULL}};

extern const struct part rxm_part;

const struct part rxm_part = {
    .name = "rxm",
    .prov_name = "ofi_rxm",
    .summary = "reliable datagrams over connections",
    .description =
        "Gives endpoints of type FI_EP_RDM over a lower that has FI_EP_MSG: it finds the "
        "connection of an address, makes it on the first use, and hands the operation to it.\n\n"
        "Where the lower carries tags and shares receive contexts, nothing else is added: payloads "
        "land in the buffers of the application and completions in its queues, and the peer may be "
        "any that speaks FI_PROTO_XNET, libfabric's own reliable datagrams over tcp among them.\n\n"
        "The first operations to a peer wait until the connection is there, as many as an endpoint "
        "may have under way. When it cannot be made they complete with the error.\n\n"
        "With FI_SHARED_AV in the hints, address vectors that processes open with the same name in "
        "the same domain hold the same addresses at the same indices.",
    .kind = PART_LAYER,
    .gives = EP_SET(FI_EP_RDM),
    .stands_on = EP_SET(FI_EP_MSG),
    .params = params,
    .unnamed = unnamed,
    .needs = rxm_needs,
    .offer = rxm_offer,
    .open_fabric = rxm_open_fabric,
};
