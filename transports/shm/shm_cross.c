/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cross-memory attach: the kernel copies from another process. Only from memory that the peer named
 * in a message, of the process that the kernel says the peer is.
 */
#include <poll.h>
#include <sys/uio.h>
#include <time.h>

#include <rdma/fi_errno.h>

#include "transports/shm/shm_op.h"

enum {
    STEP = 512 << 10, /* bytes of one operation in a round */
};

/* ---- Which way? ---- */

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static bool is_allowed(const struct shm_link *link, bool accepted)
{
    return accepted && link->pid && link->ep->domain->fabric->cma != SHM_CMA_OFF;
}

static struct shm_choice *choice_of(const struct shm_op *op)
{
    return op->role == SHM_IN ? &op->link->reading : &op->link->fetching;
}

static bool chooses_cross(struct shm_op *op)
{
    struct shm_choice *choice = choice_of(op);

    if (op->link->ep->domain->fabric->cma == SHM_CMA_ON)
        return true;
    op->way = shm_choice_next(choice);
    op->timed = true;
    shm_choice_begin(choice, op->way, now_ns());
    return op->way == SHM_CROSS;
}

bool shm_cross_fetches(struct shm_op *op)
{
    return op->there_count && op->len > SHM_CHUNK && is_allowed(op->link, op->link->cross_read) &&
           chooses_cross(op);
}

/* The target's answers are in the order of the questions; who attaches has no place among them. */
bool shm_cross_reads(struct shm_op *op)
{
    const uint64_t order = FI_ORDER_RAR | FI_ORDER_RMA_RAR;

    return op->len > SHM_CHUNK && !(op->link->ep->order & order) && op->link->cross_tells &&
           is_allowed(op->link, op->link->cross_read) && chooses_cross(op);
}

bool shm_cross_tells(const struct shm_op *op)
{
    return op->len > SHM_CHUNK && op->count <= SHM_IOV_LIMIT && is_allowed(op->link, true);
}

void shm_cross_timed(struct shm_op *op, bool done)
{
    op->timed = false;
    if (done)
        shm_choice_end(choice_of(op), op->way, op->len, now_ns());
    else
        shm_choice_drop(choice_of(op), op->way);
}

void shm_cross_declined(struct shm_op *op)
{
    op->asks = false;
    op->link->cross_tells = false;
    if (op->timed)
        shm_cross_timed(op, false);
}

/* ---- Doing it ---- */

void shm_cross_start(struct shm_op *op)
{
    struct shm_ep *ep = op->link->ep;

    list_attach(&op->work, &ep->crosses);
    if (!ep->in_progress)
        shm_wake(ep);
}

/* What is left of a list of segments behind `at` bytes, at most STEP bytes of it. The addresses may
 * be a peer's, which are only numbers here: they may wrap, and the kernel refuses them. */
static size_t rest(const struct iovec *all, size_t count, size_t at, size_t most,
                   struct iovec *left)
{
    size_t used = 0;

    for (size_t i = 0; i < count && most; i++) {
        if (at >= all[i].iov_len) {
            at -= all[i].iov_len;
            continue;
        }
        left[used].iov_base = (void *)((uintptr_t)all[i].iov_base + at);
        left[used].iov_len = all[i].iov_len - at < most ? all[i].iov_len - at : most;
        at = 0;
        most -= left[used++].iov_len;
    }
    return used;
}

static ssize_t attach(struct shm_op *op)
{
    size_t most = op->len - op->at < STEP ? op->len - op->at : STEP;
    struct iovec here[SHM_PIECES], there[SHM_IOV_LIMIT];
    size_t here_count = rest(op->iov, op->count, op->at, most, here);
    size_t there_count = rest(op->there, op->there_count, op->at, most, there);

    return process_vm_readv(op->link->pid, here, here_count, there, there_count, 0);
}

/* From now on the link copies, this operation from its start. */
static void stream(struct shm_op *op)
{
    list_detach(&op->work);
    op->at = op->index = op->offset = 0;
    op->there_count = 0;
    if (op->timed)
        shm_cross_timed(op, false);
    shm_control_cts(op);
}

void shm_cross_read(struct shm_op *op)
{
    if (is_allowed(op->link, op->link->cross_read))
        shm_cross_start(op);
    else
        stream(op);
}

/* Before it closes, whose memory it is shuts the socket down; what is there after that is not what
 * was sent, or is to be read. */
static bool has_gone(const struct shm_link *link)
{
    struct pollfd state = {.fd = link->fd, .events = POLLRDHUP};

    return poll(&state, 1, 0) == 1 && state.revents & (POLLRDHUP | POLLHUP | POLLERR);
}

static void finish(struct shm_op *op)
{
    list_detach(&op->work);
    if (has_gone(op->link)) {
        shm_op_abort(op, FI_ECONNRESET);
    } else if (op->role == SHM_IN) {
        shm_control_fin(op->link, op->remote);
        shm_op_end(op, 0);
    } else {
        shm_fetched(op);
    }
}

/* One step of one of them: what comes behind large transfers waits no longer for many than for
 * one. */
void shm_cross_step(struct shm_ep *ep)
{
    struct shm_op *op = list_item(ep->crosses.next, struct shm_op, work);
    ssize_t n = op->link->dead || shm_op_is_revoked(op) ? 0 : attach(op);

    if (op->link->dead) {
        list_detach(&op->work); /* it ends with the link */
    } else if (op->revoked) {
        shm_op_refuse(op);
    } else if (n <= 0) {
        op->link->cross_read = false;
        stream(op);
    } else if ((op->at += (size_t)n) == op->len) {
        finish(op);
    } else {
        list_detach(&op->work);
        list_attach(&op->work, &ep->crosses);
    }
}
