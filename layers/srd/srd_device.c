/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that the CPU does not reach (FI_HMEM). Bytes that are sent of it leave as a segment that
 * the lower takes behind a header, or the peer reads them. Bytes that come in packets are collected
 * in host memory, from where the lower reads them into their place: our endpoint reads itself.
 */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/domain/mr.h"
#include "core/match/match_entry.h"
#include "layers/srd/srd.h"

struct srd_bounce {
    struct fid_mr *mr;
    struct iovec
        iov;     /* all bytes of the message that its receive has room for, from the first on */
    size_t from; /* of them: those before have their place */
    uint8_t bytes[];
};

bool srd_is_device(const struct srd_ep *ep, void *const *desc, size_t count)
{
    if (__builtin_expect(!ep->devices, 1) || !desc)
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct mr *mr = desc[i];

        if (mr && mr->device)
            return true;
    }
    return false;
}

bool srd_op_is_device(const struct srd_ep *ep, const struct op *op)
{
    if (__builtin_expect(!ep->devices, 1))
        return false;
    return srd_is_device(ep, op->desc, op->count) ||
           (op->group == OP_GROUP_ATOMIC &&
            (srd_is_device(ep, op->compare.desc, op->compare.count) ||
             srd_is_device(ep, op->result.desc, op->result.count)));
}

uint8_t srd_device_segments(const struct srd_ep *ep, const struct op *op)
{
    unsigned bits = 0;

    if (__builtin_expect(!ep->devices, 1) || !op->desc)
        return 0;
    for (size_t i = 0; i < op->count; i++)
        bits |= (unsigned)srd_is_device(ep, op->desc + i, 1) << i;
    return (uint8_t)bits;
}

/* ---- Out ---- */

static bool has_regions(const struct srd_ep *ep, const struct op *op)
{
    for (size_t i = 0; i < op->count; i++) {
        if (op->desc[i] && !srd_region_below(&ep->base, op->desc[i], &op->iov[i]))
            return false;
    }
    return true;
}

/* Sends and writes go by the device, or in packets of one segment each; reads by the device. */
static bool has_a_way(const struct srd_peer *peer, const struct op *op)
{
    return op->group != OP_GROUP_RMA || op->kind & FI_WRITE || !op->len || srd_is_native(peer, op);
}

int srd_device_admit(struct srd_peer *peer, const struct op *op)
{
    int rc;

    if (op->group == OP_GROUP_ATOMIC || op->flags & FI_INJECT)
        return -FI_EOPNOTSUPP;
    if (!has_regions(srd_ep_of(peer->base.ep), op))
        return -FI_EINVAL;
    rc = srd_life_await(peer);
    if (rc)
        return rc;
    if (has_a_way(peer, op))
        return 0;
    LOG_WARN("srd", FI_LOG_EP_DATA,
             ": memory of a device is read into by devices that access remote memory, which the "
             "peer's does not");
    return -FI_EOPNOTSUPP;
}

/* ---- In ---- */

bool srd_bounce_open(struct srd_inbound *inbound, size_t from, size_t end)
{
    struct message_inbound *base = &inbound->base;
    size_t room = match_entry_room(base->entry), len = room < end ? room : end;
    struct srd_bounce *bounce;

    if (len <= from)
        return true;
    bounce = calloc(1, sizeof(*bounce) + len);
    if (!bounce)
        return false;
    bounce->iov = (struct iovec){bounce->bytes, len};
    bounce->from = from;
    if (fi_mr_reg(base->handle.peer->ep->domain->lower, bounce->bytes, len, FI_REMOTE_READ, 0, 0, 0,
                  &bounce->mr, NULL)) {
        free(bounce);
        return false;
    }
    inbound->bounce = bounce;
    return true;
}

void srd_bounce_close(struct srd_bounce *bounce)
{
    if (!bounce)
        return;
    fi_close(&bounce->mr->fid);
    free(bounce);
}

const struct iovec *srd_bounce_iov(const struct srd_bounce *bounce, size_t *count)
{
    *count = bounce ? 1 : 0;
    return bounce ? &bounce->iov : NULL;
}

/* Its record may be freed. */
static void copied(struct srd_transfer *transfer)
{
    struct srd_inbound *inbound = transfer->owner;
    struct message_inbound *base = &inbound->base;

    inbound->transfer = NULL;
    base->lost = base->lost || transfer->lost;
    if (base->lost)
        message_inbound_end(base, FI_ECONNRESET);
    else if (transfer->err)
        message_inbound_end(base, transfer->err);
    else
        srd_message_go_on(base);
}

/* The memory is the transfer's from now on. */
void srd_bounce_copy(struct srd_inbound *inbound)
{
    struct message_inbound *base = &inbound->base;
    const struct fi_peer_rx_entry *entry = base->entry;
    struct srd_bounce *bounce = inbound->bounce;
    struct srd_transfer *transfer =
        srd_transfer_get(base->handle.peer, entry->iov, entry->count, entry->desc, bounce->from,
                         bounce->iov.iov_len - bounce->from, FI_READ);
    struct fi_rma_iov place = {(uintptr_t)bounce->bytes, bounce->iov.iov_len,
                               fi_mr_key(bounce->mr)};

    inbound->bounce = NULL;
    if (!transfer) {
        srd_bounce_close(bounce);
        message_inbound_end(base, FI_ENOMEM);
        return;
    }
    srd_transfer_to(transfer, &place, 1, bounce->from);
    transfer->to = srd_ep_of(base->handle.peer->ep)->self;
    transfer->bounce = bounce;
    transfer->owner = inbound;
    transfer->ended = copied;
    inbound->transfer = transfer;
    srd_transfer_start(transfer);
}
