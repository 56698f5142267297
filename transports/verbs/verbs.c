/* SPDX-License-Identifier: BSD-2-Clause */
/* The part table. */
#include "transports/verbs/verbs_cq.h"
#include "transports/verbs/verbs_fabric.h"
#include "transports/verbs/verbs_info.h"

static const struct param_def params[] = {
    {.key = "device_name",
     .type = PARAM_LIST,
     .selects = true,
     .help = "Devices to use, by the beginning of their names."},
    {.key = "iface",
     .type = PARAM_LIST,
     .selects = true,
     .help = "Interfaces whose addresses to use: beginnings of names, addresses, networks; '!' "
             "excludes."},
    PARAM_NUMBER("tx_size", PARAM_INT, "384", 1, 65536,
                 "Operations of an endpoint that may be under way; the device may have fewer."),
    PARAM_NUMBER("rx_size", PARAM_INT, "384", 1, 65536,
                 "Receives of an endpoint that may be posted; the device may have fewer."),
    PARAM_NUMBER("tx_iov_limit", PARAM_INT, "4", 1, 16, "Segments of an operation."),
    PARAM_NUMBER("rx_iov_limit", PARAM_INT, "4", 1, 16, "Segments of a receive."),
    PARAM_NUMBER("inline_size", PARAM_INT, "256", 0, 1024,
                 "Bytes that an operation carries in itself: what fi_inject takes; the device may "
                 "take less."),
    PARAM_NUMBER("cqread_bunch_size", PARAM_INT, "16", 1, VERBS_CQ_BATCH,
                 "Entries that one poll takes from a completion queue of the device."),
    PARAM_NUMBER(
        "moderation_count", PARAM_INT, "0", 0, 65535,
        "A thread that sleeps is woken at so many completions, or after moderation_time, not "
        "at each one, where the device can; 0: at each one."),
    PARAM_NUMBER(
        "moderation_time", PARAM_INT, "0", 0, 65535,
        "Microseconds for which completions may wait for more before they wake a thread that "
        "sleeps; 0: none. Without it moderation_count has no effect."),
    PARAM_NUMBER("gid_idx", PARAM_INT, "0", 0, 255,
                 "The entry of an InfiniBand port's GID table whose subnet names the fabric. "
                 "Connections take the GID that librdmacm has for their address."),
    PARAM_NUMBER("min_rnr_timer", PARAM_INT, "12", 0, 31,
                 "How long a peer waits that found no receive posted, as the InfiniBand code "
                 "(12: 0.64 ms)."),
    PARAM_NUMBER("resolve_timeout", PARAM_TIME, "2s", 1, 600000,
                 "How long an address or a route may take to be resolved."),
    PARAM_NUMBER("answer_timeout", PARAM_TIME, "10s", 1, 86400000,
                 "How long a peer may leave a connection request without an answer."),
    {.key = NULL},
};

const struct part verbs_part = {
    .name = "verbs",
    .prov_name = "verbs",
    .summary = "connected endpoints on RDMA devices",
    .description =
        "Messages, remote memory access and immediate data over reliable connections of RDMA "
        "devices: InfiniBand and RoCE. libibverbs and librdmacm are loaded when there are any; "
        "nothing is linked. Atomics are those of the device: FI_SUM, FI_ATOMIC_READ and FI_CSWAP "
        "on aligned FI_INT64 and FI_UINT64. Shared receive contexts are the device's. One info is "
        "offered for each IP address that librdmacm has on an active port. The exchange of a "
        "connection is that of libfabric's verbs provider.",
    .kind = PART_TRANSPORT,
    .rank = 1,
    .provides_ep = EP_SET(FI_EP_MSG),
    .params = params,
    .offer = verbs_offer,
    .open_fabric = verbs_open_fabric,
};
