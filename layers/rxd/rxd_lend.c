/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads of the application's, where the lower reads memory of peers: the target of a large one
 * lends the memory, and the requester has it read into its own, piece by piece. The bytes land at
 * the end that decides, as with messages and writes (rxd_read.c), so none comes late. Until the
 * loan is back the target carries out no later request of that peer; a region that is closed under
 * it ends it, as it ends a read in packets. Where anything stands in the way, the requester asks
 * for packets.
 */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/seam.h"
#include "core/info/info.h"
#include "layers/rxd/rxd.h"

/* Memory that a target lends to a read. */
struct rxd_loan {
    unsigned count;
    struct fid_mr *mr[RXD_PLACES];
    struct mr_watch *watch[REMOTE_SEGMENTS];
};

/* ---- The target's ---- */

bool rxd_lend_segment(struct rxd_ep *ep, const struct iovec *iov, struct fid_mr **ret_mr,
                      struct fi_rma_iov *ret_place)
{
    bool virtual = info_mr_bits(ep->base.lower_info) & FI_MR_VIRT_ADDR;

    if (fi_mr_reg(ep->base.domain->lower, iov->iov_base, iov->iov_len, FI_REMOTE_READ, 0,
                  ++ep->last_key, 0, ret_mr, NULL))
        return false;
    fi_mr_bind(*ret_mr, &ep->base.lower->fid, 0); /* a lower's regions may be an endpoint's */
    *ret_place = (struct fi_rma_iov){.addr = virtual ? (uint64_t)(uintptr_t)iov->iov_base : 0,
                                     .len = iov->iov_len,
                                     .key = fi_mr_key(*ret_mr)};
    return true;
}

static void take_back(struct rxd_loan *loan)
{
    rxd_take_back(loan->mr, loan->count);
    loan->count = 0;
}

void rxd_loan_end(struct message_access *access)
{
    struct message_peer *peer = access->handle.peer;
    struct rxd_loan *loan = access->loan;

    access->loan = NULL;
    rxd_unwatch(loan->watch);
    take_back(loan);
    free(loan);
    peer->takes--;
    peer->ep->takes--;
}

/* The region is being closed: nothing reads it any more, and its reader hears of it as of one that
 * is read in packets. */
static void closed(void *arg)
{
    struct message_access *access = arg;
    struct message_ep *ep = access->handle.peer->ep;

    take_back(access->loan);
    message_peer_break(access->handle.peer, FI_EIO, "memory that is being read was closed");
    message_run(ep);
    progress_posted(ep->progress);
}

static bool lend_all(struct rxd_ep *ep, const struct message_access *access, struct rxd_loan *loan,
                     struct rxd_record *record)
{
    const struct remote *remote = &access->remote;

    for (size_t i = 0; i < remote->count; i++) {
        if (!remote->iov[i].iov_len)
            continue;
        if (loan->count == RXD_PLACES ||
            !rxd_lend_segment(ep, &remote->iov[i], &loan->mr[loan->count],
                              &record->places[loan->count]))
            return false;
        record->place_count = (uint8_t)++loan->count;
    }
    return loan->count && record->size / loan->count > (loan->count > 1 ? ep->room : 0);
}

bool rxd_lend(struct message_access *access)
{
    struct message_peer *peer = access->handle.peer;
    struct rxd_ep *ep = rxd_ep_of(peer->ep);
    struct rxd_record record = {.kind = RXD_LENT,
                                .id = access->request.id,
                                .taker = message_handle_id(&access->handle),
                                .size = access->request.size};
    struct rxd_loan *loan = ep->reads && rxd_may_watch(ep) ? calloc(1, sizeof(*loan)) : NULL;

    if (!loan)
        return false;
    access->loan = loan;
    peer->takes++; /* a requester that says nothing is asked for a sign of life */
    peer->ep->takes++;
    if (lend_all(ep, access, loan, &record) &&
        rxd_watch(loan->watch, &access->remote, peer->ep->progress, closed, access) &&
        rxd_out_try(rxd_peer_of(peer), &record))
        return true;
    rxd_loan_end(access);
    return false;
}

static struct message_access *lent(struct message_peer *peer, uint32_t id)
{
    struct message_handle *handle = message_handle_find(peer, id, 1U << MESSAGE_BEING_READ);
    struct message_access *access =
        handle ? object_of(handle, struct message_access, handle) : NULL;

    return access && access->loan ? access : NULL;
}

void rxd_loan_back(struct message_peer *peer, const struct rxd_record *record)
{
    struct message_access *access = lent(peer, record->id);

    if (access && record->size)
        message_access_put(access); /* it could not use it */
    else if (access)
        message_access_end(access);
}

bool rxd_loan_pulled(struct message_peer *peer, const struct rxd_record *record)
{
    struct message_access *access = lent(peer, record->id);

    if (!access)
        return false;
    if (record->flags || record->size != access->request.size ||
        record->taker != access->request.taker) {
        message_peer_break(peer, FI_EPROTO, "a question for other bytes than those that are lent");
        return true;
    }
    rxd_loan_end(access);
    message_move_start(&access->move, access->request.size);
    return true;
}

/* ---- The requester's ---- */

/* The same, for its requester. */
struct rxd_borrowed {
    uint32_t loan; /* the target's number */
    bool reading;  /* the lower writes to the operation's memory */
    bool over;     /* its peer has ended meanwhile */
    unsigned count;
    struct fi_rma_iov places[RXD_PLACES];
    size_t at; /* bytes that are there */
};

bool rxd_may_borrow(const struct rxd_peer *peer, const struct op *post)
{
    const struct rxd_ep *ep = rxd_ep_of(peer->base.ep);

    return ep->reads && ep->read_max && peer->lends && post->len > ep->base.result_room;
}

bool rxd_is_reading(const struct rxd_op *op)
{
    return op->borrowed && op->borrowed->reading;
}

/* It ends when the lower is through. */
void rxd_borrowed_over(struct rxd_op *op)
{
    op->borrowed->over = true;
}

void rxd_borrowed_put(struct rxd_op *op)
{
    if (rxd_is_reading(op))
        rxd_read_forget(&op->base.handle);
    free(op->borrowed);
}

static bool read_next(struct rxd_op *op)
{
    struct rxd_borrowed *borrowed = op->borrowed;
    struct reading reading = {.handle = &op->base.handle, .goes_on = borrowed->at};

    return rxd_read_piece(&reading, op->base.iov, op->base.iov_count, borrowed->places,
                          borrowed->count, borrowed->at, op->base.len) &&
           rxd_read_begin(&reading, NULL, &borrowed->reading);
}

/* Says something of a loan; false: later. */
static bool say(struct rxd_op *op, const struct rxd_record *record)
{
    struct rxd_peer *peer = rxd_peer_of(op->base.handle.peer);
    bool said = rxd_out_try(peer, record);

    op->loan = record->id;
    op->owes = said ? 0 : record->kind;
    if (!said)
        rxd_owe(peer);
    return said;
}

/* Asks for all bytes in packets. */
static void pull(struct rxd_op *op, uint32_t loan)
{
    struct message_op *base = &op->base;
    struct rxd_record question = {
        .kind = RXD_PULL, .id = loan, .taker = message_handle_id(&base->handle), .size = base->len};

    if (!base->taker.handle)
        message_take(&base->taker, &base->handle, 0, 0, base->len, base->len);
    say(op, &question);
}

/* All bytes are there. */
static void give_back(struct rxd_op *op, uint32_t loan)
{
    const struct rxd_record done = {.kind = RXD_DONE, .id = loan};

    if (say(op, &done))
        message_op_answered(&op->base, 0, 0);
}

void rxd_borrowed_pay(struct rxd_op *op)
{
    if (op->owes == RXD_PULL)
        pull(op, op->loan);
    else
        give_back(op, op->loan);
}

const char *rxd_borrow(struct rxd_peer *peer, const struct rxd_record *record)
{
    struct message_op *base = message_op_find(&peer->base, record->id, 1U << MESSAGE_READ);
    struct rxd_op *op;

    if (!base || base->answered) { /* it has ended since */
        rxd_out_done(&peer->base, record->taker, FI_ECANCELED);
        return NULL;
    }
    op = rxd_op_of(base);
    if (!op->borrows || base->taker.got || record->size != base->len)
        return "a loan that was not asked for, or of another size";
    op->borrows = false; /* once */
    op->borrowed = calloc(1, sizeof(*op->borrowed));
    if (!op->borrowed) {
        pull(op, record->taker);
        return NULL;
    }
    op->borrowed->loan = record->taker;
    op->borrowed->count = record->place_count;
    memcpy(op->borrowed->places, record->places, record->place_count * sizeof(record->places[0]));
    message_take_stop(&base->taker);
    if (!read_next(op))
        pull(op, record->taker);
    return NULL;
}

void rxd_borrowed_read(struct message_op *base, size_t len, int err)
{
    struct rxd_op *op = rxd_op_of(base);
    struct rxd_borrowed *borrowed = op->borrowed;

    borrowed->reading = false;
    if (borrowed->over || base->answered) {
        message_op_settle(base);
        return;
    }
    borrowed->at += err ? 0 : len;
    if (err || (borrowed->at < base->len && !read_next(op))) {
        pull(op, borrowed->loan);
    } else if (borrowed->at == base->len) {
        give_back(op, borrowed->loan);
    }
}

void rxd_borrowed_gone(struct message_op *base)
{
    if (!base->taker.handle)
        return; /* it asks for nothing */
    message_take_stop(&base->taker);
    message_op_answered(base, FI_EIO, 0);
}
