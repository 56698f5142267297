/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copying from another process, in one piece: the kernel does it (cross-memory attach), from the
 * process that it says the peer is, or this side, from memory that XPMEM maps. Only from memory
 * that the peer named in a message.
 */
#include <errno.h>
#include <sys/uio.h>

#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "transports/shm/shm_op.h"

enum {
    STEP = 512 << 10, /* bytes of one operation in a round */
};

/* ---- Which way? ---- */

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
        ways |= 1u << SHM_CMA;
    if (link->segment && op->len >= SHM_MAPS_LEAST)
        ways |= 1u << SHM_MAPPED;
    return ways;
}

static struct shm_choice *choice_of(const struct shm_op *op)
{
    return op->role == SHM_IN ? &op->link->reading : &op->link->fetching;
}

/* The way that the configuration, or the lack of others, leaves; SHM_WAYS: one is to be chosen. */
static enum shm_way only_way(const struct shm_op *op)
{
    const struct shm_fabric *fabric = op->link->ep->domain->fabric;
    unsigned ways = ways_of(op);

    if (ways == 1u << SHM_STREAM)
        return SHM_STREAM;
    if (fabric->xpmem == SHM_ON && has(ways, SHM_MAPPED))
        return SHM_MAPPED;
    return fabric->cma == SHM_ON && has(ways, SHM_CMA) ? SHM_CMA : SHM_WAYS;
}

/* Chooses; false: it is to be streamed. */
static bool attaches(struct shm_op *op)
{
    enum shm_way way = only_way(op);

    if (way == SHM_WAYS) {
        way = shm_choice_next(choice_of(op), ways_of(op));
        op->timed = true;
        shm_choice_begin(choice_of(op), way, op->len, clock_ns());
    }
    op->way = (uint8_t)way;
    return way != SHM_STREAM;
}

static bool may_attach(const struct shm_op *op)
{
    return op->there_count && op->len > SHM_CHUNK;
}

static void begin_fetch(struct shm_op *op)
{
    if (may_attach(op) && attaches(op))
        shm_cma_start(op);
    else
        shm_control_cts(op);
}

/* Begins the fetches that the choice has room for. */
static void begin_undecided(struct shm_link *link)
{
    while (!link->dead && !list_empty(&link->undecided)) {
        struct shm_op *op = list_item(link->undecided.next, struct shm_op, work);

        if (only_way(op) == SHM_WAYS && shm_choice_is_full(&link->fetching, ways_of(op)))
            return;
        list_detach(&op->work);
        begin_fetch(op);
    }
}

void shm_cma_fetch(struct shm_op *op)
{
    if (!may_attach(op)) {
        begin_fetch(op);
        return;
    }
    list_attach(&op->work, &op->link->undecided);
    begin_undecided(op->link);
}

/* The target answers reads in their order; a reader that attaches would not keep it. */
bool shm_cma_reads(struct shm_op *op)
{
    const uint64_t order = FI_ORDER_RAR | FI_ORDER_RMA_RAR;

    return op->len > SHM_CHUNK && !(op->link->ep->order & order) && op->link->cross_tells &&
           attaches(op);
}

bool shm_cma_tells(const struct shm_op *op)
{
    return op->len > SHM_CHUNK && op->count <= SHM_IOV_LIMIT &&
           (op->link->ep->segment || may_cross(op->link));
}

void shm_cma_timed(struct shm_op *op, bool done)
{
    op->timed = false;
    if (done)
        shm_choice_end(choice_of(op), op->way, op->len, clock_ns());
    else
        shm_choice_drop(choice_of(op), op->way, op->len);
    begin_undecided(op->link);
}

void shm_cma_declined(struct shm_op *op)
{
    op->asks = false;
    op->link->cross_tells = false;
    if (op->timed)
        shm_cma_timed(op, false);
}

/* ---- Doing it ---- */

void shm_cma_start(struct shm_op *op)
{
    struct shm_ep *ep = op->link->ep;

    list_attach(&op->work, &ep->crosses);
    if (!ep->in_progress)
        shm_wake(ep);
}

/* The rest of a list of segments behind `at` bytes, at most STEP bytes of it. The addresses may
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

/* The segments of one step's copy, on both sides. */
struct step {
    size_t bytes;
    struct iovec here[SHM_PIECES + 1], there[SHM_IOV_LIMIT + 1]; /* and the stamp */
    size_t here_count, there_count;
    uint64_t stamp;
};

/* The stamp follows the last bytes in the same call; to ask the kernel afterwards whether the peer
 * is there would cost another one. */
static ssize_t copy_by_kernel(struct shm_op *op, struct step *step)
{
    const struct shm_link *link = op->link;
    bool last = step->bytes == op->len - op->at && link->peer_stamp;
    ssize_t rc;

    if (last) {
        step->here[step->here_count++] = (struct iovec){&step->stamp, sizeof(step->stamp)};
        step->there[step->there_count++] =
            (struct iovec){(void *)(uintptr_t)link->peer_stamp_at, sizeof(step->stamp)};
    }
    rc = process_vm_readv(link->pid, step->here, step->here_count, step->there, step->there_count,
                          0);
    if (rc < 0)
        return -errno;
    op->stamped =
        (size_t)rc == step->bytes + sizeof(step->stamp) && step->stamp == link->peer_stamp;
    return (size_t)rc < step->bytes ? rc : (ssize_t)step->bytes;
}

/* Bytes copied, or a negative error. */
static ssize_t copy(struct shm_op *op)
{
    struct shm_link *link = op->link;
    struct step step = {.bytes = op->len - op->at < STEP ? op->len - op->at : STEP};
    int rc;

    step.here_count = rest(op->iov, op->count, op->at, step.bytes, step.here);
    step.there_count = rest(op->there, op->there_count, op->at, step.bytes, step.there);
    if (op->way == SHM_CMA)
        return copy_by_kernel(op, &step);
    if (!link->segment)
        return -ENODEV;
    rc = link->maps ? 0 : shm_maps_open(link->segment, &link->maps);
    return rc ? rc
              : shm_maps_readv(link->maps, step.here, step.here_count, step.there,
                               step.there_count);
}

/* Stops using op's method on this link for bytes that come from the peer. */
static void give_up(struct shm_op *op, ssize_t rc)
{
    struct shm_link *link = op->link;

    if (op->way == SHM_CMA) {
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

/* Asks the sender to stream the operation from its start. */
static void stream(struct shm_op *op)
{
    list_detach(&op->work);
    op->at = op->index = op->offset = 0;
    op->there_count = 0;
    if (op->timed)
        shm_cma_timed(op, false);
    shm_control_cts(op);
}

void shm_cma_read(struct shm_op *op)
{
    if (has(ways_of(op), op->way))
        shm_cma_start(op);
    else
        stream(op);
}

/* All bytes are copied. If the peer has gone, and no stamp proves that they are its own, they may
 * not be those that it sent or offered: the operation fails. */
static void finish(struct shm_op *op)
{
    list_detach(&op->work);
    if (!op->stamped && shm_link_has_gone(op->link)) {
        shm_op_abort(op, FI_ECONNRESET);
    } else if (op->role == SHM_IN) {
        shm_control_fin(op->link, op->remote);
        shm_op_end(op, 0);
    } else {
        shm_fetched(op);
    }
}

/* One step of the oldest transfer: messages behind large transfers wait no longer for many than for
 * one. */
void shm_cma_step(struct shm_ep *ep)
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
