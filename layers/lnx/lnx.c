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
            "all operations to it; 'per_msg' takes them in turn, without any order.",
    },
    PARAM_NUMBER("face", PARAM_INT, "0", 0, LNX_BRANCHES,
                 "The number of a branch, from 1, that gives the endpoints all of their address, "
                 "and their names and attributes, so that peers without lnx know them by it; a "
                 "peer that is one of lnx, on this node, is found there by it. 0: addresses of "
                 "all branches together."),
    PARAM_SWITCH("same", "no", "Allows several branches that are the same device."),
    PARAM_SWITCH("strict", "no",
                 "fi_getinfo fails when a branch of the bracket offers nothing, instead of "
                 "going on with the others."),
    {.key = NULL},
};

const struct part lnx_part = {
    .name = "lnx",
    .prov_name = "lnx",
    .summary = "joins shared memory and networks: one endpoint, a branch for each peer",
    .description =
        "Stands on several lowers at once, as in 'lnx;[shm + rxm;tcp]', each of which gives "
        "FI_EP_RDM and FI_PEER. Each peer is reached by the first of them that can reach it, "
        "chosen when its address is inserted: shared memory inside a node, the network outside. "
        "Receives are matched in one place, whichever branch a message comes by, and the "
        "branches complete their operations straight into the queues of the application. "
        "Without a bracket 'lnx' stands for shared memory and the networks.",
    .kind = PART_JOIN,
    .provides_ep = EP_SET(FI_EP_RDM),
    .requires_ep = EP_SET(FI_EP_RDM),
    .params = params,
    .needs = lnx_needs,
    .join = lnx_join,
    .face = lnx_face,
    .open_fabric = lnx_open_fabric,
};
