/* SPDX-License-Identifier: BSD-2-Clause */
/* Behaviour of the device shapes: offers, the order of packets, receives. */
#include "transports/loop/device/loop_device.h"

#include <stdio.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/match/match_entry.h"

/* ---- Parameters ---- */

const char *const loop_shapes[] = {"full", "rdma", "srd", "ud", NULL};

enum loop_shape loop_shape_of(const struct params *params)
{
    const char *shape = params ? params_string(params, "shape") : "full";
    int i = 0;

    while (strcmp(shape, loop_shapes[i]))
        i++;
    return (enum loop_shape)i;
}

unsigned loop_device_traits(const struct params *params)
{
    switch (loop_shape_of(params)) {
    case LOOP_FULL: return PEER_ASKS | PEER_IN_TURN;
    case LOOP_SRD: return PEER_PACKETS;
    default: return 0;
    }
}

/* With deliver=post a packet arrives inside of the post, so that none could overtake it, which
 * shape=srd is there to show. */
bool loop_device_agree(const struct params *params, struct param_conflict *conflict)
{
    if (loop_shape_of(params) != LOOP_SRD || strcmp(params_string(params, "deliver"), "post"))
        return true;
    conflict->key = "deliver";
    snprintf(conflict->why, sizeof(conflict->why), "'post' does not go with shape=srd");
    snprintf(conflict->used, sizeof(conflict->used), "packets are delivered with progress");
    return false;
}

/* ---- Infos ---- */

/* Orders that a device does not keep: a read may be answered after the next operation is done. */
#define BEHIND_READS                                                                               \
    ((uint64_t)(FI_ORDER_WAR | FI_ORDER_SAR | FI_ORDER_RMA_WAR | FI_ORDER_ATOMIC_WAR))

static void set_caps(struct fi_info *info, uint64_t caps)
{
    info->caps = info->tx_attr->caps = info->rx_attr->caps = caps;
}

static void set_order(struct fi_info *info, uint64_t order, size_t max)
{
    info->tx_attr->msg_order = info->rx_attr->msg_order = order;
    info->ep_attr->max_order_raw_size = order & FI_ORDER_RAW ? max : 0;
    info->ep_attr->max_order_war_size = order & FI_ORDER_WAR ? max : 0;
    info->ep_attr->max_order_waw_size = order & FI_ORDER_WAW ? max : 0;
}

/* As devices have it. */
void loop_device_restrict(struct fi_info *info, enum loop_shape shape)
{
    info->domain_attr->mr_mode |= FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY | FI_MR_ALLOCATED;
    info->domain_attr->max_ep_stx_ctx = 0;
    info->domain_attr->max_ep_srx_ctx = 0;
    info->tx_attr->iov_limit = LOOP_DEVICE_IOV;
    info->rx_attr->iov_limit = LOOP_DEVICE_IOV;
    switch (shape) {
    case LOOP_RDMA:
        info->mode |= FI_RX_CQ_DATA;
        info->tx_attr->rma_iov_limit = 1;
        info->tx_attr->op_flags &= ~FI_DELIVERY_COMPLETE;
        info->rx_attr->size = 64;
        info->ep_attr->max_msg_size = LOOP_DEVICE_MAX;
        set_caps(info, info->caps & ~FI_RMA_EVENT);
        set_order(info, info->tx_attr->msg_order & ~BEHIND_READS, LOOP_DEVICE_MAX);
        break;
    case LOOP_SRD:
        info->tx_attr->rma_iov_limit = 1;
        info->ep_attr->max_msg_size = LOOP_PACKET;
        info->ep_attr->mem_tag_format = 0;
        set_caps(info, (info->caps & (LOOP_DGRAM_CAPS | FI_SOURCE_ERR | FI_SHARED_AV)) | FI_RMA |
                           FI_READ | FI_REMOTE_READ);
        set_order(info, FI_ORDER_NONE, 0);
        break;
    default:
        info->mode |= FI_MSG_PREFIX;
        info->tx_attr->mode |= FI_MSG_PREFIX;
        info->rx_attr->mode |= FI_MSG_PREFIX;
        info->ep_attr->msg_prefix_size = LOOP_PREFIX;
        info->domain_attr->mr_mode = FI_MR_LOCAL;
        set_caps(info, info->caps & ~FI_MULTI_RECV);
        info->rx_attr->op_flags &= ~FI_MULTI_RECV;
        break;
    }
}

/* The kind of endpoint that a device has. */
enum loop_offer loop_device_offer(enum loop_shape shape)
{
    return shape == LOOP_RDMA  ? LOOP_OFFER_MSG
           : shape == LOOP_SRD ? LOOP_OFFER_RDM
                               : LOOP_OFFER_DGRAM;
}

/* ---- Data ---- */

/* With shape=srd: any of the first in the queue. A message does not come before its receive. */
struct loop_op *loop_shuffled(struct loop_ep *ep, const struct list *inbox)
{
    bool receives = ep->base.match && match_posted(ep->base.match);
    struct loop_op *chosen = NULL;
    unsigned count = 0;

    list_for_each (pos, inbox) {
        struct loop_op *op = list_item(pos, struct loop_op, queue);

        if (op->post->group == OP_GROUP_SEND && !receives)
            continue;
        if (loop_random(ep) % ++count == 0)
            chosen = op;
        if (count == LOOP_SHUFFLE)
            break;
    }
    return chosen;
}

void loop_receive_posted(struct loop_ep *ep)
{
    struct loop_port *port = ep->port;
    bool empty;

    loop_port_lock(port);
    empty = list_empty(&port->inbox);
    loop_port_unlock(port);
    if (empty)
        return;
    atomic_store(&port->work, true);
    loop_port_wake(port);
}

/* A write with CQ data takes a receive, as RDMA devices have it (FI_RX_CQ_DATA). */
int loop_device_take_receive(struct loop_ep *ep, void **context)
{
    struct fi_peer_match_attr attr = {.addr = FI_ADDR_UNSPEC};
    struct fi_peer_rx_entry *entry;
    int rc = ep->base.in->owner_ops->get_msg(ep->base.in, &attr, &entry);

    if (rc && rc != -FI_ENOENT)
        return rc;
    if (!rc)
        *context = entry->context;
    match_entry_free(entry);
    return rc;
}
