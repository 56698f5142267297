/* SPDX-License-Identifier: BSD-2-Clause */
/* The part table. */
#include "transports/efa/efa.h"

static const char *const fabrics[] = {"any", "efa-direct", "efa", NULL};
static const char *const uses[] = {"auto", "0", "1", NULL};

static const struct param_def params[] = {
    {
        .key = "fabric",
        .type = PARAM_CHOICE,
        .default_text = "any",
        .choices = fabrics,
        .selects = true,
        .help = "The fabric to offer: efa-direct (one work request for each operation) or efa "
                "(messages, by the layer srd; datagrams).",
    },
    {
        .key = "iface",
        .type = PARAM_LIST,
        .default_text = "all",
        .selects = true,
        .help = "Devices to use, by their names; all: each one.",
    },
    {
        .key = "tx_size",
        .type = PARAM_INT,
        .default_text = "0",
        .min = 0,
        .max = 1 << 20,
        .variable = "FI_EFA_TX_QUEUE_SIZE",
        .help = "Requests of an endpoint that may be under way; 0: as many as the device has.",
    },
    PARAM_NUMBER("rx_size", PARAM_INT, "0", 0, 1 << 20,
                 "Receives of an endpoint that may be posted; 0: as many as the device has."),
    PARAM_NUMBER(
        "rnr_retry", PARAM_INT, "7", 0, 7,
        "Times that the device asks again where a receiver is not ready; 7: without end. "
        "Then the sender is told (FI_ENORX), and a layer sends again. FI_OPT_EFA_RNR_RETRY "
        "is the same of one endpoint."),
    PARAM_NUMBER(
        "ah_cache_size", PARAM_INT, "0", 0, 65535,
        "Address handles of the device that a domain has at most, one for each host; 0: as "
        "many as the device gives. A host that is sent to without one takes that of the "
        "host that was left alone longest."),
    {
        .key = "use_device_rdma",
        .type = PARAM_CHOICE,
        .default_text = "auto",
        .choices = uses,
        .help =
            "Remote memory by the device, in fabric efa-direct: auto where the device has it; 0 "
            "never; 1 demands it, and devices without give no such endpoints.",
    },
    {
        .key = "use_unsolicited_write_recv",
        .type = PARAM_BOOL,
        .default_text = "yes",
        .help = "Data of writes takes no receive, where the device can tell it so. Both ends of "
                "a write with data must have it alike.",
    },
    {.key = NULL},
};

extern const struct part efa_part;

const struct part efa_part = {
    .name = "efa",
    .prov_name = "efa",
    .summary = "Elastic Fabric Adapters: messages, remote memory, datagrams",
    .description =
        "Queue pairs of EFA devices. libibverbs and libefa are loaded when a device is looked for; "
        "nothing is linked. Addresses are raw addresses of EFA (FI_ADDR_EFA), which applications "
        "exchange; as text they are fi_addr_efa://[GID]:QPN:QKEY.\n\n"
        "Fabric efa-direct has FI_EP_RDM endpoints of one work request for each operation: "
        "messages of at most one packet, delivered once, in any order, into receives that were "
        "posted; data for completion queues of 4 bytes; and, of devices that read and write remote "
        "memory, FI_RMA for programs that post receives for the data of writes "
        "(FI_RX_CQ_DATA), or for all where the device tells of that data without. Its "
        "tables of functions for fi_open_ops are in rdma/fi_ext_efa.h. Memory is registered "
        "(FI_MR_LOCAL).\n\n"
        "Fabric efa has messages of any size, tags, remote memory and atomics, on the wire of "
        "libfabric's efa, which the layer srd makes of the device's packets; and datagrams "
        "(FI_EP_DGRAM), with a prefix of 40 bytes. What stays in the node moves by shared memory, "
        "unless FI_EFA_ENABLE_SHM_TRANSFER is 0, FI_OPT_SHARED_MEMORY_PERMITTED is false, or hints "
        "ask for FI_REMOTE_COMM without FI_LOCAL_COMM; 'srd;efa' is without it.",
    .kind = PART_TRANSPORT,
    .rank = 1,
    .params = params,
    .provides_ep = EP_SET(FI_EP_RDM) | EP_SET(FI_EP_DGRAM) | EP_PACKETS,
    .completed = FI_PROTO_EFA,
    .offer = efa_offer,
    .open_fabric = efa_open_fabric,
};
