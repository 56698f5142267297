/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the lower reads memory of peers, the sender of a large message tells where it is, and the
 * receiver has the rest of it read into its receive. Where anything stands in the way, the rest
 * is asked for as over any lower.
 */
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "core/info/info.h"
#include "layers/rxd/rxd.h"

bool rxd_read_lend(struct rxd_ep *ep, const struct op *op, struct rxd_record *record,
                   struct fid_mr **ret_mr)
{
    bool virtual = info_mr_bits(ep->base.lower_info) & FI_MR_VIRT_ADDR;

    if (!ep->reads || op->count != 1 ||
        fi_mr_reg(ep->base.domain->lower, op->iov->iov_base, op->len, FI_REMOTE_READ, 0,
                  ++ep->last_key, 0, ret_mr, NULL))
        return false;
    fi_mr_bind(*ret_mr, &ep->base.lower->fid, 0); /* a lower's regions may be an endpoint's */
    record->flags |= RXD_READABLE;
    record->addr = virtual ? (uint64_t)(uintptr_t)op->iov->iov_base : 0;
    record->key = fi_mr_key(*ret_mr);
    return true;
}

static void put(struct rxd_packet *packet)
{
    list_detach(&packet->base.link);
    if (packet->mr)
        fi_close(&packet->mr->fid);
    mr_pool_put(&packet->base.ep->packets, packet);
}

/* Registers what is written to, where the lower wants that. */
static struct rxd_packet *context_of(struct rxd_inbound *inbound, const struct iovec *to)
{
    struct rxd_ep *ep = rxd_ep_of(inbound->base.handle.peer->ep);
    struct rxd_packet *packet = mr_pool_get(&ep->base.packets);

    if (!packet)
        return NULL;
    packet->base.ep = &ep->base;
    packet->base.in = false;
    packet->base.other = true;
    packet->reads = inbound;
    packet->mr = NULL;
    list_init(&packet->base.link);
    list_attach(&packet->base.link, &ep->reading);
    if (!(info_mr_bits(ep->base.lower_info) & FI_MR_LOCAL) ||
        !fi_mr_reg(ep->base.domain->lower, to->iov_base, to->iov_len, FI_READ, 0, ++ep->last_key, 0,
                   &packet->mr, NULL))
        return packet;
    packet->mr = NULL;
    put(packet);
    return NULL;
}

static ssize_t post(struct rxd_packet *packet, const struct rxd_inbound *inbound,
                    const struct iovec *to)
{
    const struct fi_rma_iov from = {
        .addr = inbound->addr + inbound->first, .len = to->iov_len, .key = inbound->key};
    void *desc = packet->mr ? fi_mr_desc(packet->mr) : NULL;
    struct op op = {
        .call = OP_READMSG,
        .group = OP_GROUP_RMA,
        .kind = FI_RMA | FI_READ,
        .flags = FI_COMPLETION,
        .peer = inbound->base.handle.peer->lower,
        .context = packet,
        .iov = to,
        .desc = &desc,
        .count = 1,
        .len = to->iov_len,
        .rma = &from,
        .rma_count = 1,
    };

    return op_post(&packet->base.ep->target, &op);
}

bool rxd_read_start(struct rxd_inbound *inbound, size_t want)
{
    struct message_peer *peer = inbound->base.handle.peer;
    const struct rxd_ep *ep = rxd_ep_of(peer->ep);
    const struct fi_peer_rx_entry *entry = inbound->base.entry;
    struct iovec to[MESSAGE_IOV];
    struct rxd_packet *packet;

    if (!ep->reads || !inbound->readable || want - inbound->first > ep->read_max ||
        rxd_slice(entry->iov, entry->count, inbound->first, want - inbound->first, to) != 1)
        return false;
    packet = context_of(inbound, to);
    if (!packet)
        return false;
    inbound->reading = true;
    peer->takes++;
    peer->ep->takes++;
    if (!post(packet, inbound, to))
        return true;
    inbound->reading = false;
    peer->takes--;
    peer->ep->takes--;
    put(packet);
    return false;
}

void rxd_read_done(struct rxd_packet *packet, int err)
{
    struct rxd_inbound *inbound = packet->reads;

    put(packet);
    if (!inbound)
        return;
    inbound->reading = false;
    inbound->base.handle.peer->takes--;
    inbound->base.handle.peer->ep->takes--;
    rxd_message_read(inbound, err);
}

void rxd_read_forget(struct rxd_inbound *inbound)
{
    struct rxd_ep *ep = rxd_ep_of(inbound->base.handle.peer->ep);

    list_for_each (pos, &ep->reading) {
        struct rxd_packet *packet = list_item(pos, struct rxd_packet, base.link);

        if (packet->reads == inbound)
            packet->reads = NULL;
    }
}

void rxd_read_finish(struct rxd_ep *ep)
{
    while (!list_empty(&ep->reading))
        put(list_item(ep->reading.next, struct rxd_packet, base.link));
}
