/* SPDX-License-Identifier: BSD-2-Clause */
/* The part table. */
#include "core/layer/message_info.h"
#include "layers/rxd/rxd.h"

static const struct param_def params[] = {
    MESSAGE_SAVED_SIZE,
    {.key = NULL},
};

extern const struct part rxd_part;

const struct part rxd_part = {
    .name = "rxd",
    .prov_name = "ofi_rxd",
    .summary = "messages and remote memory over reliable packets",
    .description =
        "Gives endpoints of type FI_EP_RDM, with tags, messages of any size, remote memory and "
        "atomics, over a lower that has reliable packets: messages of at most one packet, each "
        "delivered once, in any order.\n\n"
        "Requests are carried out at their target in the order of their sender. The bytes of a "
        "large message stay with its sender until it is received, and then come in pieces, in any "
        "order, straight into the receive's buffer.\n\n"
        "fi_close goes on for up to 2 s while something that was accepted has not come to its "
        "peer. A peer in another domain of the same program is waited for, too, even where that "
        "domain is of one thread (FI_THREAD_DOMAIN with FI_PROGRESS_CONTROL_UNIFIED), which no "
        "other thread may drive: such a program reads the queues of both until its messages, sent "
        "with FI_TRANSMIT_COMPLETE, have ended, and closes then.\n\n"
        "The wire is Weft's own: its peers are of this library. Of the variables of libfabric's "
        "rxd, FI_OFI_RXD_SPIN_COUNT, RETRY, MAX_PEERS and MAX_UNACKED have no use here: who waits "
        "sleeps, what is lost is always sent again, peers are as many as there are, and how much "
        "is under way follows the network.",
    .kind = PART_LAYER,
    .nameless = true,
    .provides_ep = EP_SET(FI_EP_RDM),
    .requires_ep = EP_PACKETS,
    .params = params,
    .needs = message_needs,
    .offer = rxd_offer,
    .atomics = ATOMICS_CPU,
    .open_fabric = rxd_open_fabric,
};
