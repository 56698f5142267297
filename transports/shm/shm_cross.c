/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copying from another process, in one piece: the kernel does it (cross-memory attach), from the
 * process that it says the peer is, or this side, from memory that XPMEM maps. Only from memory
 * that the peer named in a message.
 */
#include <errno.h>
#include <poll.h>
#include <sys/uio.h>
#include <time.h>

#include <rdma/fi_errno.h>

#include "core/log.h"
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

static bool may_cross(const struct shm_link *link)
{
    return link->pid && link->ep->domain->fabric->cma != SHM_OFF;
}

static bool has(unsigned ways, enum shm_way way)
{
    return ways & 1u << way;
}

static unsigned ways_of(const struct shm_op *op)
{
    const struct shm_link *link = op->link;
    unsigned ways = 1u << SHM_STREAM;

    if (link->cross_read && may_cross(link))
        ways |= 1u << SHM_CROSS;
    if (link->segment && op->len >= SHM_MAPS_LEAST)
        ways |= 1u << SHM_MAPPED;
    return ways;
}

static struct shm_choice *choice_of(const struct shm_op *op)
{
    return op->role == SHM_IN ? &op->link->reading : &op->link->fetching;
}

/* Chooses; false: it is to be streamed. */
static bool attaches(struct shm_op *op)
{
    const struct shm_fabric *fabric = op->link->ep->domain->fabric;
    struct shm_choice *choice = choice_of(op);
    unsigned ways = ways_of(op);

    if (ways == 1u << SHM_STREAM)
        return false;
    if (fabric->xpmem == SHM_ON && has(ways, SHM_MAPPED)) {
        op->way = SHM_MAPPED;
    } else if (fabric->cma == SHM_ON && has(ways, SHM_CROSS)) {
        op->way = SHM_CROSS;
    } else {
        op->way = shm_choice_next(choice, ways);
        op->timed = true;
        shm_choice_begin(choice, op->way, now_ns());
    }
    return op->way != SHM_STREAM;
}

bool shm_cross_fetches(struct shm_op *op)
{
    return op->there_count && op->len > SHM_CHUNK && attaches(op);
}

/* The target's answers are in the order of the questions; who attaches has no place among them. */
bool shm_cross_reads(struct shm_op *op)
{
    const uint64_t order = FI_ORDER_RAR | FI_ORDER_RMA_RAR;

    return op->len > SHM_CHUNK && !(op->link->ep->order & order) && op->link->cross_tells &&
           attaches(op);
}

bool shm_cross_tells(const struct shm_op *op)
{
    return op->len > SHM_CHUNK && op->count <= SHM_IOV_LIMIT &&
           (op->link->ep->segment || may_cross(op->link));
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

/* How many bytes, or why not. */
static ssize_t copy(struct shm_op *op)
{
    struct shm_link *link = op->link;
    size_t most = op->len - op->at < STEP ? op->len - op->at : STEP;
    struct iovec here[SHM_PIECES], there[SHM_IOV_LIMIT];
    size_t here_count = rest(op->iov, op->count, op->at, most, here);
    size_t there_count = rest(op->there, op->there_count, op->at, most, there);
    ssize_t rc;

    if (op->way == SHM_CROSS) {
        rc = process_vm_readv(link->pid, here, here_count, there, there_count, 0);
        return rc < 0 ? -errno : rc;
    }
    if (!link->segment)
        return -ENODEV;
    rc = link->maps ? 0 : shm_maps_open(link->segment, &link->maps);
    return rc ? rc : shm_maps_readv(link->maps, here, here_count, there, there_count);
}

/* Not this way any more, on this link, for bytes that come from there. */
static void give_up(struct shm_op *op, ssize_t rc)
{
    struct shm_link *link = op->link;

    if (op->way == SHM_CROSS) {
        link->cross_read = false;
        return;
    }
    if (!link->segment)
        return; /* for another transfer, before */
    shm_link_unmap(link);
    LOG_INFO(link->ep->domain->base.fabric->part, FI_LOG_EP_DATA,
             ": %s: XPMEM is not used with %s (pid %d) any more: %s", link->ep->name, link->name,
             (int)link->pid,
             rc == -EBUSY ? "the handlers of SIGBUS and SIGSEGV are somebody else's"
                          : fi_strerror(rc ? (int)-rc : EFAULT));
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
    if (has(ways_of(op), op->way))
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
    ssize_t n = op->link->dead || shm_op_is_revoked(op) ? 0 : copy(op);

    if (op->link->dead) {
        list_detach(&op->work); /* it ends with the link */
    } else if (op->revoked) {
        shm_op_refuse(op);
    } else if (n <= 0) {
        give_up(op, n);
        stream(op);
    } else if ((op->at += (size_t)n) == op->len) {
        finish(op);
    } else {
        list_detach(&op->work);
        list_attach(&op->work, &ep->crosses);
    }
}
