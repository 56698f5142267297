/* SPDX-License-Identifier: BSD-2-Clause */
/* The part table. */
#include "core/part/part.h"
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
        .help = "The carrier of tags: 'pass' leaves them to the lower, whose peers speak "
                "FI_PROTO_XNET; 'emulate' puts them into rxm's own packets (FI_PROTO_RXM), "
                "which any lower can carry; 'any' offers both, packets first, and the protocol "
                "of the info that an endpoint is opened with decides.",
    },
    PARAM_NUMBER("buffer_size", PARAM_SIZE, "16k", 512, 1 << 20,
                 "tags=emulate: bytes of the largest message that is sent as one packet (eager). "
                 "Peers must have the same."),
    {
        .key = "sar_limit",
        .type = PARAM_SIZE,
        .default_text = "0",
        .automatic = "as measured over the lower",
        .help = "tags=emulate: bytes of the largest message that is sent in pieces of buffer_size "
                "without asking; larger ones wait at the sender until they are received. 0 is as "
                "measured over the lower: 8 times buffer_size where that is tcp.",
    },
    PARAM_SWITCH("use_rndv_write", "no",
                 "tags=emulate: the sender writes large messages, instead of the receiver reading "
                 "them. Peers must have the same, unless they are of this library."),
    PARAM_SWITCH("use_srx", "yes",
                 "tags=emulate: receive buffers are shared by all connections where the lower can "
                 "do that; else each connection has its own, msg_rx_size at most, and senders "
                 "count."),
    PARAM_NUMBER(
        "msg_rx_size", PARAM_INT, "128", 8, 1024,
        "tags=emulate: receive buffers of a connection, where they are not shared. It begins "
        "with 8, and has more while its peer uses them up."),
    PARAM_NUMBER("saved_size", PARAM_SIZE, "64m", 65536, INT64_MAX,
                 "tags=emulate: bytes of messages without a receive that an endpoint keeps; beyond "
                 "them it takes no more packets until some are received."),
    PARAM_NUMBER(
        "retry_pause", PARAM_TIME, "10ms", 1, 60000,
        "Pause before a failed connection is dialled again; it doubles with each failure."),
    PARAM_NUMBER("retry_pause_max", PARAM_TIME, "1s", 1, 600000,
                 "The longest pause between two dials of a peer."),
    PARAM_NUMBER("unreachable_timeout", PARAM_TIME, "5s", 0, 86400000,
                 "How long a peer is dialled again where nothing listens or no route leads; then "
                 "operations to it end in the error, and later dials without pauses, until one "
                 "succeeds."),
    PARAM_NUMBER("connect_timeout", PARAM_TIME, "10m", 1, 86400000,
                 "How long a peer that can be reached may leave a connection request without an "
                 "answer, which it does while its application computes and makes no progress."),
    PARAM_NUMBER("max_dials", PARAM_INT, "64", 1, 65535,
                 "The most connections that an endpoint starts to dial at once (each counts for a "
                 "second at most)."),
    {.key = NULL},
};

/* The meaning of a bare transport name for FI_EP_RDM. */
static const struct param_text unnamed[] = {{"tags", "pass"}, {NULL, NULL}};

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
    .provides_ep = EP_SET(FI_EP_RDM),
    .requires_ep = EP_SET(FI_EP_MSG),
    .params = params,
    .unnamed = unnamed,
    .needs = rxm_needs,
    .offer = rxm_offer,
    .atomics = ATOMICS_CPU,
    .open_fabric = rxm_open_fabric,
};
