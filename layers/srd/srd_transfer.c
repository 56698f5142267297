/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads and writes of the lower: between segments here and places at the peer, one request for each
 * pair of them, as far as the lower takes. The last completion ends it.
 */
#include <rdma/fi_errno.h>

#include "layers/srd/srd.h"

/* ---- Memory ---- */

static void close_regions(struct srd_transfer *transfer)
{
    for (unsigned i = 0; i < transfer->local_count; i++) {
        if (transfer->mrs[i])
            fi_close(&transfer->mrs[i]->fid);
    }
    srd_bounce_close(transfer->bounce);
}

static bool add_segment(struct srd_transfer *transfer, const struct iovec *iov, void *desc,
                        uint64_t access)
{
    struct message_ep *ep = transfer->base.ep;
    unsigned i = transfer->local_count;
    struct fid_mr *mr = NULL;

    if (i == MESSAGE_IOV)
        return false;
    transfer->local[i] = *iov;
    transfer->mrs[i] = NULL;
    if (srd_ep_of(ep)->registers) {
        mr = srd_region_below(ep, desc, iov);
        if (!mr && fi_mr_reg(ep->domain->lower, iov->iov_base, iov->iov_len, access, 0, 0, 0,
                             &transfer->mrs[i], NULL))
            return false;
        if (!mr)
            mr = transfer->mrs[i];
    }
    transfer->desc[i] = mr ? fi_mr_desc(mr) : NULL;
    transfer->local_count++;
    return true;
}

/* The part of a segment between `skip` and skip + len, which count from the first; both move on. */
static struct iovec cut(const struct iovec *iov, size_t *skip, size_t *len)
{
    size_t from = *skip < iov->iov_len ? *skip : iov->iov_len, room = iov->iov_len - from;
    struct iovec part = {(char *)iov->iov_base + from, room < *len ? room : *len};

    *skip -= from;
    *len -= part.iov_len;
    return part;
}

/* ---- Life ---- */

struct srd_transfer *srd_transfer_get(struct message_peer *peer, const struct iovec *iov,
                                      size_t count, void *const *desc, size_t skip, size_t len,
                                      uint64_t kind)
{
    struct srd_ep *ep = srd_ep_of(peer->ep);
    struct srd_transfer *transfer = pool_get(&ep->transfer_pool);
    bool has_all = true;

    if (!transfer)
        return NULL;
    *transfer = (struct srd_transfer){
        .base = {.ep = peer->ep, .peer = peer, .other = true},
        .kind = kind,
        .to = peer->lower,
        .total = len,
    };
    list_init(&transfer->base.link);
    for (size_t i = 0; i < count && has_all && len; i++) {
        struct iovec part = cut(&iov[i], &skip, &len);

        if (part.iov_len)
            has_all =
                add_segment(transfer, &part, desc ? desc[i] : NULL, kind & (FI_READ | FI_WRITE));
    }
    if (has_all && !len) {
        list_attach(&transfer->base.link, &ep->transfers);
        return transfer;
    }
    close_regions(transfer);
    pool_put(&ep->transfer_pool, transfer);
    return NULL;
}

void srd_transfer_to(struct srd_transfer *transfer, const struct fi_rma_iov *places, unsigned count,
                     size_t skip)
{
    for (unsigned i = 0; i < count; i++) {
        size_t from = skip < places[i].len ? skip : places[i].len;

        skip -= from;
        transfer->remote[i] =
            (struct fi_rma_iov){places[i].addr + from, places[i].len - from, places[i].key};
    }
    transfer->remote_count = count;
}

static void end(struct srd_transfer *transfer)
{
    struct srd_ep *ep = srd_ep_of(transfer->base.ep);

    list_detach(&transfer->base.link);
    close_regions(transfer);
    if (transfer->owner)
        transfer->ended(transfer);
    pool_put(&ep->transfer_pool, transfer);
}

/* ---- Requests ---- */

static ssize_t post(struct srd_transfer *transfer, struct iovec *local, void *desc,
                    const struct fi_rma_iov *remote)
{
    bool reads = transfer->kind & FI_READ;
    struct op op = {
        .call = reads ? OP_READMSG : OP_WRITEMSG,
        .group = OP_GROUP_RMA,
        .kind = FI_RMA | (transfer->kind & (FI_READ | FI_WRITE)),
        .flags = FI_COMPLETION | (transfer->kind & FI_REMOTE_CQ_DATA),
        .peer = transfer->to,
        .context = &transfer->base,
        .iov = local,
        .desc = &desc,
        .count = 1,
        .len = local->iov_len,
        .data = transfer->data,
        .rma = remote,
        .rma_count = 1,
    };

    return op_post(&transfer->base.ep->target, &op);
}

/* The next request: the segment and the place that byte `at` lies in. */
static void *next_piece(const struct srd_transfer *transfer, struct iovec *local,
                        struct fi_rma_iov *remote)
{
    size_t most = srd_ep_of(transfer->base.ep)->read_max, at = transfer->at;
    unsigned i = 0, j = 0;

    while (at >= transfer->local[i].iov_len)
        at -= transfer->local[i++].iov_len;
    local->iov_base = (char *)transfer->local[i].iov_base + at;
    local->iov_len = transfer->local[i].iov_len - at;
    at = transfer->at;
    while (at >= transfer->remote[j].len)
        at -= transfer->remote[j++].len;
    *remote = transfer->remote[j];
    remote->addr += at;
    remote->len -= at;
    if (local->iov_len > remote->len)
        local->iov_len = remote->len;
    if (local->iov_len > most)
        local->iov_len = most;
    remote->len = local->iov_len;
    return transfer->desc[i];
}

static void ask(struct srd_transfer *transfer)
{
    struct message_ep *ep = transfer->base.ep;
    struct fi_rma_iov remote;
    struct iovec local;
    ssize_t rc = 0;

    transfer->waits = false;
    while (!rc && !transfer->err && transfer->at < transfer->total) {
        void *desc = next_piece(transfer, &local, &remote);

        transfer->at += local.iov_len;
        transfer->left++;
        ep->flying++;
        rc = post(transfer, &local, desc, &remote);
        if (!rc)
            continue;
        transfer->at -= local.iov_len;
        transfer->left--;
        ep->flying--;
    }
    if (rc == -FI_EAGAIN) {
        transfer->waits = true;
        message_peer_stall(transfer->base.peer);
    } else if (rc) {
        transfer->err = (int)-rc;
    }
}

static bool is_over(const struct srd_transfer *transfer)
{
    return !transfer->left && (transfer->err || transfer->at == transfer->total);
}

/* `left` is raised meanwhile, lest a completion from inside of the call end it. */
static void go_on(struct srd_transfer *transfer)
{
    transfer->left++;
    ask(transfer);
    transfer->left--;
    if (is_over(transfer))
        end(transfer);
}

void srd_transfer_start(struct srd_transfer *transfer)
{
    go_on(transfer);
}

void srd_transfers_run(struct message_peer *peer)
{
    struct srd_ep *ep = srd_ep_of(peer->ep);

    list_for_each_safe (item, after, &ep->transfers) {
        struct srd_transfer *transfer = list_item(item, struct srd_transfer, base.link);

        if (transfer->waits && transfer->base.peer == peer)
            go_on(transfer);
    }
}

/* ---- Ends ---- */

static void request_ended(struct srd_transfer *transfer, int err)
{
    struct message_ep *ep = transfer->base.ep;

    ep->flying--;
    list_join(&ep->stalled, &ep->attention);
    transfer->left--;
    if (err && !transfer->err) {
        transfer->err = err;
        transfer->code = ep->code;
    }
    if (is_over(transfer) && ep->buckets)
        end(transfer);
}

/* Of a packet that fails, its peer ends, but an operation whose memory the lower had waits for
 * others with it. */
__attribute__((noinline)) static void sent_otherwise(struct message_packet *packet, int err)
{
    struct message_move *move = packet->move;

    if (err)
        srd_error_refine(packet);
    if (packet->other) {
        request_ended(object_of(packet, struct srd_transfer, base), err);
        return;
    }
    if (err == FI_ENORX && srd_rest(packet))
        return;
    if (!err && packet->peer)
        srd_rest_over(srd_peer_of(packet->peer));
    if (err && move && move->direct && packet->peer) {
        move->pending--;
        packet->move = NULL;
    }
    message_packet_sent(packet, err);
}

void srd_sent(struct message_packet *packet, int err)
{
    if (__builtin_expect(err || packet->other || srd_ep_of(packet->ep)->rested, 0))
        sent_otherwise(packet, err);
    else
        message_packet_sent(packet, 0);
}

void srd_transfers_lose(struct message_peer *peer, int err)
{
    struct srd_ep *ep = srd_ep_of(peer->ep);

    list_for_each_safe (item, after, &ep->transfers) {
        struct srd_transfer *transfer = list_item(item, struct srd_transfer, base.link);

        if (transfer->base.peer != peer)
            continue;
        transfer->lost = true;
        if (!transfer->err)
            transfer->err = err;
        if (is_over(transfer))
            end(transfer);
    }
}

void srd_transfers_finish(struct srd_ep *ep)
{
    while (ep->transfers.next && !list_empty(&ep->transfers)) {
        struct srd_transfer *transfer =
            list_item(ep->transfers.next, struct srd_transfer, base.link);

        transfer->lost = true;
        transfer->err = FI_ECANCELED;
        end(transfer);
    }
    pool_finish(&ep->transfer_pool);
}
