/* SPDX-License-Identifier: BSD-2-Clause */
/* Accesses that the device carries out, where both ends have said that theirs does. */
#include <rdma/fi_errno.h>

#include "core/info/info.h"
#include "layers/srd/srd.h"

/* Data goes with the last byte of one write; the device has fewer bytes of it than a packet. */
static bool carries_data(const struct srd_ep *ep, const struct op *op)
{
    size_t bytes = ep->base.lower_info->domain_attr->cq_data_size;

    if (op->count != 1 || op->rma_count != 1 || op->len > ep->read_max)
        return false;
    return bytes >= sizeof(uint64_t) || !(op->data >> 8 * bytes);
}

/* Memory of an injected write is the application's again when the call returns. */
bool srd_is_native(const struct srd_peer *peer, const struct op *op)
{
    const struct srd_ep *ep = srd_ep_of(peer->base.ep);
    bool reads = op->kind & FI_READ;

    if (!op->len || !(peer->features & (reads ? SRD_CAN_READ : SRD_CAN_WRITE)) ||
        !(reads ? ep->reads : ep->writes))
        return false;
    if (reads)
        return true;
    return !(op->flags & FI_INJECT) && !op_is_inject(op) &&
           (!(op->flags & FI_REMOTE_CQ_DATA) || carries_data(ep, op));
}

static void ended(struct srd_transfer *transfer)
{
    struct srd_op *op = transfer->owner;
    int err = op->base.err ? op->base.err : transfer->err;
    bool device = srd_ep_of(transfer->base.ep)->efa && !op->base.err;

    op->transfer = NULL;
    message_op_answered(&op->base, err, device ? transfer->code : 0);
}

ssize_t srd_start_native(struct srd_peer *peer, const struct message_posting *posting)
{
    const struct op *op = posting->op;
    bool reads = op->kind & FI_READ;
    uint64_t kind = (op->kind & (FI_READ | FI_WRITE)) | (op->flags & FI_REMOTE_CQ_DATA);
    struct srd_transfer *transfer =
        srd_transfer_get(&peer->base, op->iov, op->count, op->desc, 0, op->len, kind);
    struct message_op *record =
        transfer ? message_op_get(&peer->base, posting, reads ? MESSAGE_READ : MESSAGE_WRITE, false)
                 : NULL;

    if (!transfer)
        return -FI_ENOMEM;
    srd_transfer_to(transfer, op->rma, (unsigned)op->rma_count, 0);
    transfer->data = op->data;
    if (!record) {
        transfer->err = FI_ENOMEM; /* without an owner it just goes */
        srd_transfer_start(transfer);
        return -FI_ENOMEM;
    }
    srd_op_init(record);
    srd_op_of(record)->transfer = transfer;
    transfer->owner = srd_op_of(record);
    transfer->ended = ended;
    srd_transfer_start(transfer);
    return 0;
}

void srd_written(struct message_ep *base, size_t len, uint64_t data, fi_addr_t src)
{
    struct srd_ep *ep = srd_ep_of(base);
    const struct message_peer *peer =
        src == FI_ADDR_NOTAVAIL ? NULL : peer_map_at(&ep->by_lower, src);

    if (base->closing || !base->buckets)
        return;
    complete(&base->endpoint.binding, BIND_REMOTE_WRITE, true, NULL,
             FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, len, NULL, data, 0,
             peer ? message_peer_source(peer) : FI_ADDR_NOTAVAIL);
}
