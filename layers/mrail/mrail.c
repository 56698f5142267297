/* SPDX-License-Identifier: BSD-2-Clause */
/* The part table. */
#include "core/part/part.h"
#include "layers/mrail/mrail_domain.h"
#include "layers/mrail/mrail_info.h"
#include "layers/mrail/mrail_policy.h"

static const struct param_def params[] = {
    {
        .key = "packet_size",
        .type = PARAM_SIZE,
        .default_text = "60k",
        .min = 2048,
        .max = 65536,
        .help = "Bytes of the largest packet; larger messages go in several, by all rails. It must "
                "not be larger than that of a peer.",
    },
    {
        .key = "small",
        .type = PARAM_SIZE,
        .default_text = "4k",
        .min = 0,
        .max = 65536,
        .help = "Packets of up to so many bytes keep to one rail of a peer while it lives, and is "
                "not much slower than another.",
    },
    {
        .key = "rail_timeout",
        .type = PARAM_TIME,
        .default_text = "1s",
        .min = 20,
        .max = 3600000,
        .help = "A rail that acknowledges nothing for so long, nor answers when it is asked, is "
                "down, provided that the peer is heard by another.",
    },
    {
        .key = "patience",
        .type = PARAM_TIME,
        .default_text = "10m",
        .min = 1,
        .max = 86400000,
        .help = "How long a peer may be silent on all rails while there is something to send to "
                "it, before that ends with FI_ETIMEDOUT.",
    },
    {
        .key = "buffers",
        .type = PARAM_INT,
        .default_text = "32",
        .min = 4,
        .max = 4096,
        .help = "Receives that an endpoint keeps posted on each rail.",
    },
    {
        .key = "saved",
        .type = PARAM_INT,
        .default_text = "1024",
        .min = 1,
        .max = 65536,
        .help = "Packets without a receive that an endpoint keeps, of all peers together, before "
                "it lets peers wait.",
    },
    {
        .key = "strangers",
        .type = PARAM_INT,
        .default_text = "16384",
        .min = 16,
        .max = 1000000,
        .help = "Peers that an endpoint knows and its address vector does not. When there are so "
                "many, those with nothing under way are forgotten, once a second; one that sends "
                "again then has to begin anew.",
    },
    {
        .key = "policy",
        .type = PARAM_LIST,
        .check = mrail_policy_check,
        .help = "Pairs <size>:<policy>, in ascending order: packets up to that size go by one rail "
                "('fixed'), by each in turn ('round-robin'), or by the shortest expected end "
                "('striping'), as all others do.",
    },
    PARAM_SWITCH(
        "reads", "yes",
        "The rails fetch the bytes of large messages, writes and reads from the memory that "
        "has them, where all rails read memory of peers; else they go in packets."),
    PARAM_SWITCH("same", "no", "Allows several rails that are the same device."),
    PARAM_SWITCH("strict", "no",
                 "Refuses where a rail of the bracket has nothing, instead of going on with the "
                 "others."),
    {.key = NULL},
};

const struct part mrail_part = {
    .name = "mrail",
    .prov_name = "ofi_mrail",
    .summary = "several rails as one endpoint: they add up, and outlive each other",
    .description =
        "Stands on several lowers at once, its rails, as in "
        "'mrail;[rxm;tcp(iface=eth0) + rxm;tcp(iface=eth1)]': endpoints of type FI_EP_RDM, or of "
        "reliable packets, of any parts and speeds. It gives reliable packets, and rxd, which "
        "nobody needs to write, makes messages, remote memory and atomics of them.\n\n"
        "Each packet goes by the rail that is expected to have it at the peer first, by the rate "
        "and latency that were measured; small ones begin with a rail that is near to the "
        "process's CPUs (by sysfs, or by hwloc, where it is installed and HWLOC_XMLFILE names a "
        "topology), each process of a node with another. A rail that fails, falls silent, or "
        "is an interface whose link is down, is down: what was on it goes by the others, and it is "
        "asked until it answers. With no rail left operations wait for one, for 'patience'. Alone, "
        "'mrail' stands for a rail on each network interface, or what libfabric's "
        "FI_OFI_MRAIL_ADDR (or FI_OFI_MRAIL_ADDR_STRC) says, with the policies of "
        "FI_OFI_MRAIL_CONFIG; a stack that they made is named ofi_mrail.",
    .kind = PART_JOIN,
    .provides_ep = EP_PACKETS,
    .requires_ep = EP_SET(FI_EP_RDM) | EP_PACKETS,
    .params = params,
    .peer = mrail_peer_traits,
    .needs = mrail_needs,
    .join = mrail_join,
    .open_fabric = mrail_open_fabric,
};
