/* SPDX-License-Identifier: BSD-2-Clause */
/* The part table. */
#include "transports/efa/efa.h"

static unsigned traits(const struct params *params)
{
    return PEER_PACKETS;
}

extern const struct part efa_part;

const struct part efa_part = {
    .name = "efa",
    .prov_name = "efa",
    .summary = "reliable packets on Elastic Fabric Adapters",
    .description =
        "Packets of SRD queue pairs of EFA devices: each is delivered once, in any order, into a "
        "receive that was posted. libibverbs and libefa are loaded when a device is looked for; "
        "nothing is linked. Layers make messages of the packets: srd on the wire of libfabric's "
        "efa. Addresses are raw addresses of EFA (FI_ADDR_EFA), which applications exchange. "
        "Remote memory and datagrams are not there yet.",
    .kind = PART_TRANSPORT,
    .hidden = true,
    .rank = 1,
    .peer = traits,
    .provides_ep = EP_PACKETS,
    .offer = efa_offer,
    .open_fabric = efa_open_fabric,
};
