/* SPDX-License-Identifier: BSD-2-Clause */
/* Infos of rxd, made of its lower's. */
#include <rdma/fi_errno.h>

#include "core/layer/message_info.h"
#include "layers/rxd/rxd.h"

/* Requests are carried out in the order of their sender. */
#define ALL_ORDERS                                                                                 \
    ((uint64_t)(FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_RAS | FI_ORDER_WAR | FI_ORDER_WAW |         \
                FI_ORDER_WAS | FI_ORDER_SAR | FI_ORDER_SAW | FI_ORDER_SAS | FI_ORDER_RMA_RAR |     \
                FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAR | FI_ORDER_RMA_WAW | FI_ORDER_ATOMIC_RAR |     \
                FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW))

size_t rxd_heads(const struct fi_info *lower)
{
    struct rxd_name name = {.own_len = 0};

    if (rxd_name_is_own(lower->addr_format))
        name.own_len = (uint8_t)lower->src_addrlen;
    return RXD_HEAD_SIZE + rxd_intro_size(&name);
}

size_t rxd_operand_size(const struct fi_info *lower)
{
    struct rxd_record record = {.kind = RXD_ATOMIC, .place_count = RXD_PLACES};
    size_t max = lower->ep_attr->max_msg_size, size;

    if (max > RXD_PAYLOAD_MAX)
        max = RXD_PAYLOAD_MAX;
    size = (max - rxd_heads(lower) - rxd_record_size(&record)) / 2;
    return size < REMOTE_OPERAND ? size : REMOTE_OPERAND;
}

/* An inject is in one packet, with the longest head and record. */
static size_t inject_size(const struct fi_info *lower)
{
    const struct rxd_record record = {
        .kind = RXD_WRITE, .flags = RXD_HAS_DATA | RXD_TO_CONTEXT, .place_count = RXD_PLACES};
    size_t room = lower->ep_attr->max_msg_size - rxd_heads(lower) - rxd_record_size(&record);

    return room < RXD_INJECT ? room : RXD_INJECT;
}

/* Endpoints say to their peers who they are. */
static bool address_known(const struct fi_info *lower)
{
    struct rxd_name name;

    if (!lower->src_addr)
        return !rxd_name_is_own(lower->addr_format);
    return !rxd_name_import(lower->addr_format, lower->src_addr, lower->src_addrlen, &name);
}

int rxd_offer(const struct request *req, const struct fi_info *lower, struct fi_info **info)
{
    struct message_offer offer = {
        .caps = FI_FENCE | FI_NAMED_RX_CTX,
        .order = ALL_ORDERS,
        .max_order_size = SIZE_MAX,
        .protocol = FI_PROTO_RXD,
        .protocol_version = RXD_VERSION,
        .contexts = RXD_CONTEXTS,
        .own_addresses = rxd_name_is_own(lower->addr_format),
    };
    int rc = message_check_lower(req, lower, "rxd");

    *info = NULL;
    if (rc)
        return rc;
    if (!address_known(lower)) {
        reasons_add(req->reasons,
                    "addr_format: the lower's addresses are neither IP addresses nor of a form "
                    "that packets can carry");
        return -FI_ENODATA;
    }
    offer.inject_size = inject_size(lower);
    return message_describe(req, lower, &offer, info);
}

/* With reads of remote memory, where it has them. */
int rxd_lower_info(const struct lower_fabric *fabric, const struct fi_info *info,
                   struct fi_info **lower_info)
{
    int rc = message_lower_info(fabric, info, FI_RMA | FI_READ | FI_REMOTE_READ, lower_info);

    return rc == -FI_ENODATA ? message_lower_info(fabric, info, 0, lower_info) : rc;
}
