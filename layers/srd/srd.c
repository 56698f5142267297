/* SPDX-License-Identifier: BSD-2-Clause */
/* The part table. */
#include "core/layer/message_info.h"
#include "layers/srd/srd.h"

static const struct param_def params[] = {
    {
        .key = "window",
        .type = PARAM_INT,
        .default_text = "32",
        .min = 1,
        .max = 65536,
        .variable = "FI_EFA_TX_MIN_CREDITS|FI_EFA_RX_WINDOW_SIZE",
        .help = "Packets of a large message that its receiver asks for at a time.",
    },
    {
        .key = "medium",
        .type = PARAM_SIZE,
        .default_text = "64k",
        .min = 0,
        .max = 16 << 20,
        .variable = "FI_EFA_INTER_MAX_MEDIUM_MESSAGE_SIZE",
        .help = "Messages up to this size are sent whole, in several packets, without waiting for "
                "their receive. Larger ones are asked for by their receiver.",
    },
    {
        .key = "read_size",
        .type = PARAM_SIZE,
        .default_text = "1m",
        .min = 1,
        .max = INT64_MAX,
        .variable = "FI_EFA_INTER_MIN_READ_MESSAGE_SIZE",
        .help = "Messages from this size on, and larger than 'medium', are read by their receiver, "
                "where the lower reads remote memory at both ends.",
    },
    {
        .key = "read_write_size",
        .type = PARAM_SIZE,
        .default_text = "64k",
        .min = 1,
        .max = INT64_MAX,
        .variable = "FI_EFA_INTER_MIN_READ_WRITE_SIZE",
        .help = "Writes from this size on are read by their target, where the lower reads remote "
                "memory at both ends and does not write it.",
    },
    {
        .key = "runt_size",
        .type = PARAM_SIZE,
        .default_text = "0",
        .min = 0,
        .max = 16 << 20,
        .variable = "FI_EFA_RUNT_SIZE",
        .help = "Bytes at the beginning of a message that is read which are sent meanwhile, if no "
                "other message of the endpoint is being read.",
    },
    {
        .key = "rnr_pause",
        .type = PARAM_INT,
        .default_text = "0",
        .min = 0,
        .max = 1000000,
        .variable = "FI_EFA_TIMEOUT_INTERVAL",
        .help = "Microseconds before a peer that was not ready for a packet twice gets it again, "
                "doubled each further time; 0: between 40 and 120. Counts where the device does "
                "not ask again without end (FI_OPT_EFA_RNR_RETRY).",
    },
    {
        .key = "rnr_pause_most",
        .type = PARAM_INT,
        .default_text = "1000000",
        .min = 1,
        .max = INT32_MAX / 2,
        .variable = "FI_EFA_MAX_TIMEOUT",
        .help = "The longest of these pauses, in microseconds.",
    },
    {
        .key = "implicit_av_size",
        .type = PARAM_SIZE,
        .default_text = "0",
        .min = 0,
        .max = INT32_MAX,
        .variable = "FI_EFA_IMPLICIT_AV_SIZE",
        .help = "Peers of an endpoint that send to it and are not in its address vector; 0: any "
                "number. Beyond it the one that was silent longest is put aside: what is left of "
                "it is what its next message needs to be taken in its turn.",
    },
    {
        .key = "shm_transfer",
        .type = PARAM_BOOL,
        .default_text = "yes",
        .variable = "FI_EFA_ENABLE_SHM_TRANSFER",
        .help =
            "Under the bare name of the transport (efa): whether shared memory moves what stays in "
            "the node, as lnx(face=2);[shm + srd;efa] does; and whether "
            "FI_OPT_SHARED_MEMORY_PERMITTED may be set to true.",
    },
    MESSAGE_SAVED_SIZE,
    {.key = NULL},
};

extern const struct part srd_part;

const struct part srd_part = {
    .name = "srd",
    .prov_name = "srd",
    .summary = "messages and remote memory over reliable packets, on the wire of libfabric's efa",
    .description =
        "Gives endpoints of type FI_EP_RDM, with tags, messages of any size, remote memory and "
        "atomics, over a lower that has reliable packets: messages of at most one packet, each "
        "delivered once, in any order.\n\n"
        "The wire is FI_PROTO_EFA, version 4: that of libfabric's provider efa. Messages and "
        "atomics are taken in the order of their sender where the application asks for an order "
        "(FI_ORDER_SAS, FI_ORDER_ATOMIC_*), else as they come.\n\n"
        "A small message is one packet; one up to 'medium' is sent whole; a larger one is asked "
        "for by its receiver, window by window. Accesses of remote memory are carried out by the "
        "CPU of their target.",
    .kind = PART_LAYER,
    .hidden = true,
    .provides_ep = EP_SET(FI_EP_RDM),
    .requires_ep = EP_PACKETS,
    .completes = FI_PROTO_EFA,
    .inside = "shm",
    .inside_permitted = "shm_transfer",
    .params = params,
    .needs = srd_needs,
    .offer = srd_offer,
    .atomics = ATOMICS_CPU,
    .open_fabric = srd_open_fabric,
};
