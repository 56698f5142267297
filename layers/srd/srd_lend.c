/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Large messages and writes whose receiver reads them here: it is told where they are. EOR ends
 * them; after a READ_NACK they are sent as those that are asked for.
 */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "layers/srd/srd.h"

/* Every region of the application's may be read by peers of its messages: srd_region.c. */
static bool lend_segment(struct message_ep *ep, void *desc, const struct iovec *iov,
                         struct fid_mr **own, struct fi_rma_iov *place)
{
    struct fid_mr *mr = srd_region_below(ep, desc, iov);

    *own = NULL;
    if (!mr && fi_mr_reg(ep->domain->lower, iov->iov_base, iov->iov_len, FI_REMOTE_READ, 0, 0, 0,
                         own, NULL))
        return false;
    *place = (struct fi_rma_iov){(uintptr_t)iov->iov_base, iov->iov_len, fi_mr_key(mr ? mr : *own)};
    return true;
}

bool srd_lend(struct srd_op *op, const struct op *post, struct srd_header *header, uint8_t type)
{
    struct message_ep *ep = op->base.handle.peer->ep;
    struct srd_lent *lent = post->count <= SRD_PLACES ? calloc(1, sizeof(*lent)) : NULL;
    unsigned count = 0;

    if (!lent)
        return false;
    lent->request = *header;
    srd_ep_of(ep)->lent_count++;
    for (size_t i = 0; i < post->count; i++) {
        if (!post->iov[i].iov_len)
            continue;
        if (!lend_segment(ep, post->desc ? post->desc[i] : NULL, &post->iov[i], &lent->mrs[count],
                          &header->reads[count])) {
            srd_lent_put(srd_ep_of(ep), lent);
            return false;
        }
        count++;
    }
    header->read_count = (uint8_t)count;
    header->type = type;
    op->lent = lent;
    return true;
}

void srd_lent_put(struct srd_ep *ep, struct srd_lent *lent)
{
    if (!lent)
        return;
    for (unsigned i = 0; i < SRD_PLACES; i++) {
        if (lent->mrs[i])
            fi_close(&lent->mrs[i]->fid);
    }
    ep->lent_count--;
    free(lent);
}

/* ---- From the peer ---- */

static const unsigned lending = 1U << MESSAGE_SEND | 1U << MESSAGE_WRITE;

static const char *const not_lent = "an answer to a question that was not asked";

/* Late packets of a beginning that is sent may still be with the lower. */
const char *srd_take_eor(struct message_peer *peer, const struct srd_header *header)
{
    struct message_op *base = message_op_find(peer, header->send_id, lending);
    struct srd_op *op = base ? srd_op_of(base) : NULL;

    if (!op)
        return NULL;
    if (!op->lent)
        return not_lent;
    srd_lent_put(srd_ep_of(peer->ep), op->lent);
    op->lent = NULL;
    base->move.at = base->move.limit = base->move.total;
    message_op_answered(base, 0, 0);
    return NULL;
}

/* A write's first bytes go with its request, as if it were new. */
static bool send_anew(struct srd_op *op, struct srd_header *request)
{
    struct message_move *move = &op->base.move;
    size_t room;

    if (!request->place_count) {
        request->flags |= SRD_AFTER_NACK;
        return srd_out_answer(move->peer, request, move);
    }
    room = srd_out_room(srd_peer_of(move->peer), request);
    if (!srd_put_bytes(&op->base, request,
                       srd_out_most(move, move->total < room ? move->total : room), true))
        return false;
    move->limit = move->at;
    return true;
}

const char *srd_take_nack(struct message_peer *peer, const struct srd_header *header)
{
    struct message_op *base = message_op_find(peer, header->send_id, lending);
    struct srd_op *op = base ? srd_op_of(base) : NULL;
    struct srd_header request;

    if (!op)
        return NULL;
    if (!op->lent)
        return not_lent;
    request = op->lent->request;
    srd_lent_put(srd_ep_of(peer->ep), op->lent);
    op->lent = NULL;
    base->answered = !srd_is_dc(request.type);
    op->gathers = op->device;
    for (size_t i = 0; i < base->iov_count; i++) {
        if (!(op->device >> i & 1))
            op->desc[i] = NULL; /* the application may have closed it, so it was not read */
    }
    if (send_anew(op, &request))
        message_peer_attend(peer);
    else
        message_peer_break(peer, FI_ENOMEM, "no memory for a message that is sent anew");
    return NULL;
}
