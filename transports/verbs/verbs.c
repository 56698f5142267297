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
    {.key = "tx_size",
     .type = PARAM_INT,
     .default_text = "384",
     .min = 1,
     .max = 65536,
     .help = "Operations of an endpoint that may be under way; the device may have fewer."},
    {.key = "rx_size",
     .type = PARAM_INT,
     .default_text = "384",
     .min = 1,
     .max = 65536,
     .help = "Receives of an endpoint that may be posted; the device may have fewer."},
    {.key = "tx_iov_limit",
     .type = PARAM_INT,
     .default_text = "4",
     .min = 1,
     .max = 16,
     .help = "Segments of an operation."},
    {.key = "rx_iov_limit",
     .type = PARAM_INT,
     .default_text = "4",
     .min = 1,
     .max = 16,
     .help = "Segments of a receive."},
    {.key = "inline_size",
     .type = PARAM_INT,
     .default_text = "256",
     .min = 0,
     .max = 1024,
     .help = "Bytes that an operation carries in itself: what fi_inject takes; the device may "
             "take less."},
    {.key = "cqread_bunch_size",
     .type = PARAM_INT,
     .default_text = "16",
     .min = 1,
     .max = VERBS_CQ_BATCH,
     .help = "Entries that one poll takes from a completion queue of the device."},
    {.key = "moderation_count",
     .type = PARAM_INT,
     .default_text = "0",
     .min = 0,
     .max = 65535,
     .help = "A thread that sleeps is woken at so many completions, or after moderation_time, not "
             "at each one, where the device can; 0: at each one."},
    {.key = "moderation_time",
     .type = PARAM_INT,
     .default_text = "0",
     .min = 0,
     .max = 65535,
     .help = "Microseconds for which completions may wait for more before they wake a thread that "
             "sleeps; 0: none. Without it moderation_count has no effect."},
    {.key = "gid_idx",
     .type = PARAM_INT,
     .default_text = "0",
     .min = 0,
     .max = 255,
     .help = "The entry of an InfiniBand port's GID table whose subnet names the fabric. "
             "Connections take the GID that librdmacm has for their address."},
    {.key = "min_rnr_timer",
     .type = PARAM_INT,
     .default_text = "12",
     .min = 0,
     .max = 31,
     .help = "How long a peer waits that found no receive posted, as the InfiniBand code "
             "(12: 0.64 ms)."},
    {.key = "resolve_timeout",
     .type = PARAM_TIME,
     .default_text = "2s",
     .min = 1,
     .max = 600000,
     .help = "How long an address or a route may take to be resolved."},
    {.key = "answer_timeout",
     .type = PARAM_TIME,
     .default_text = "10s",
     .min = 1,
     .max = 86400000,
     .help = "How long a peer may leave a connection request without an answer."},
    {.key = NULL},
};

extern const struct part verbs_part;

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
