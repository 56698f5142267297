/* SPDX-License-Identifier: BSD-2-Clause */
/* The part table. */
#include "core/part.h"
#include "layers/rxm/rxm_domain.h"
#include "layers/rxm/rxm_info.h"

static const char *const tags_choices[] = {"pass", "emulate", NULL};

static const struct param_def params[] = {
    {
        .key = "tags",
        .type = PARAM_CHOICE,
        .selects = true,
        .default_text = "pass",
        .choices = tags_choices,
        .help =
            "Who carries tags: 'pass' leaves them to the lower, whose peers speak FI_PROTO_XNET; "
            "'emulate' is rxm's own packets for lowers without tags, which this release does "
            "not have yet.",
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
        "The first operations to a peer answer -FI_EAGAIN until the connection is there. When it "
        "cannot be made the next operation is accepted and completes with the error.",
    .kind = PART_LAYER,
    .gives = EP_SET(FI_EP_RDM),
    .stands_on = EP_SET(FI_EP_MSG),
    .params = params,
    .unnamed = unnamed,
    .needs = rxm_needs,
    .offer = rxm_offer,
    .open_fabric = rxm_open_fabric,
};
