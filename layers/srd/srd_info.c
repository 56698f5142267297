/* SPDX-License-Identifier: BSD-2-Clause */
/* Infos of srd, made of its lower's. */
#include <rdma/fi_errno.h>

#include "core/layer/message_info.h"
#include "layers/srd/srd.h"

/* Messages and atomics have one sequence of numbers; writes and reads have none. */
#define ORDERS                                                                                     \
    ((uint64_t)(FI_ORDER_SAS | FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR |   \
                FI_ORDER_ATOMIC_WAW))

size_t srd_operand_size(const struct fi_info *lower)
{
    size_t max = lower->ep_attr->max_msg_size;
    size_t size = ((max < SRD_PACKET_MOST ? max : SRD_PACKET_MOST) - SRD_REQUEST_HEAD) / 2;

    return size < REMOTE_OPERAND ? size : REMOTE_OPERAND;
}

/* Hints that say something and nothing of orders want none: then nothing is held back. */
static uint64_t orders(const struct fi_info *hints)
{
    bool asked = hints->tx_attr->msg_order || hints->rx_attr->msg_order;

    return asked || !hints->caps ? ORDERS : FI_ORDER_NONE;
}

int srd_offer(const struct request *req, const struct fi_info *lower, struct fi_info **info)
{
    size_t packet = lower->ep_attr->max_msg_size, room = packet - SRD_REQUEST_HEAD;
    const struct message_offer offer = {
        .order = orders(req->hints),
        .inject_size = room < SRD_INJECT ? room : SRD_INJECT,
        .max_order_size = srd_operand_size(lower),
        .protocol = FI_PROTO_EFA,
        .protocol_version = SRD_VERSION,
        .contexts = 1,
        .own_addresses = lower->addr_format == FI_ADDR_EFA,
    };
    int rc = message_check_lower(req, lower, "srd");

    *info = NULL;
    if (rc)
        return rc;
    if (!srd_name_has_format(lower->addr_format)) {
        reasons_add(
            req->reasons,
            "addr_format: srd carries addresses of EFA and of IP; the lower's are of another form");
        return -FI_ENODATA;
    }
    return message_describe(req, lower, &offer, info);
}

int srd_lower_info(const struct lower_fabric *fabric, const struct fi_info *info,
                   struct fi_info **lower_info)
{
    return message_lower_info(fabric, info, 0, lower_info);
}
