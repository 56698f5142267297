/* SPDX-License-Identifier: BSD-2-Clause */
/* The part table. */
#include "core/part/part.h"
#include "layers/lnx/lnx_domain.h"
#include "layers/lnx/lnx_info.h"

static const char *const rails_choices[] = {"per_peer", "per_msg", NULL};

static const struct param_def params[] = {
    {
        .key = "rails",
        .type = PARAM_CHOICE,
        .default_text = "per_peer",
        .choices = rails_choices,
        .help =
            "Several networks of one kind: 'per_peer' gives each peer one of them, in turn, for "
            "all that is sent to it; 'per_msg' takes them in turn, so that nothing comes in "
            "order.",
    },
    PARAM_SWITCH("same", "no", "Allows several branches that are the same device."),
    PARAM_SWITCH("strict", "no",
                 "Refuses where a branch of the bracket has nothing, instead of going on with the "
                 "others."),
    {.key = NULL},
};

const struct part lnx_part = {
    .name = "lnx",
    .prov_name = "lnx",
    .summary = "joins shared memory and networks: one endpoint, a branch for each peer",
    .description =
        "Stands on several lowers at once, as in 'lnx;[shm + rxm;tcp]', each of which gives "
        "FI_EP_RDM and FI_PEER. Each peer is reached by the first of them that reaches it, which "
        "is chosen when its address is inserted: shared memory inside a node, the network outside. "
        "Receives are matched in one place, whichever branch a message comes by, and the branches "
        "complete what they carry straight into the queues of the application. Alone, 'lnx' "
        "stands for shared memory and the networks.",
    .kind = PART_JOIN,
    .provides_ep = EP_SET(FI_EP_RDM),
    .requires_ep = EP_SET(FI_EP_RDM),
    .params = params,
    .needs = lnx_needs,
    .join = lnx_join,
    .open_fabric = lnx_open_fabric,
};
