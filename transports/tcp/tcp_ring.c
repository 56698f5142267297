/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * user_data of a request is a pointer (to a connection, or a flight) with what it is in the low
 * bits; 0 is of nobody. A pointer stays valid because connections and flights are kept until their
 * last answer. Task work is left for the next system call (COOP_TASKRUN) unless a thread drives the
 * unit: who submitted may then compute while another waits for the answer.
 */
#include "transports/tcp/tcp_ring.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/log.h"
#include "transports/tcp/tcp_domain.h"
#include "transports/tcp/tcp_ep.h"

/* Younger than the oldest liburing that this is built with. */
#ifndef IORING_SEND_ZC_REPORT_USAGE
#define IORING_SEND_ZC_REPORT_USAGE (1U << 3)
#endif
#ifndef IORING_NOTIF_USAGE_ZC_COPIED
#define IORING_NOTIF_USAGE_ZC_COPIED (1U << 31)
#endif

enum {
    SQ_ENTRIES = 256,
    CQ_ENTRIES = 4096,
    GROUP = 1, /* of the buffers */
    TRIES = 4, /* to submit, for room */
};

enum kind {
    KIND_RECEIVE = 1,
    KIND_DIRECT,
    KIND_CANCEL,
    KIND_POLL,
    KIND_SEND,
    KIND_MASK = 7
};

static uint64_t tag(const void *pointer, enum kind kind)
{
    return (uint64_t)(uintptr_t)pointer | kind;
}

/* ---- Buffers ---- */

static size_t buffers_size(void)
{
    return (size_t)RING_BUFFERS * RING_BUFFER + RING_BUFFERS * sizeof(struct io_uring_buf);
}

static void give(struct tcp_ring *ring, uint16_t id, int offset)
{
    io_uring_buf_ring_add(ring->entries, ring->buffers + (size_t)id * RING_BUFFER, RING_BUFFER, id,
                          io_uring_buf_ring_mask(RING_BUFFERS), offset);
}

static int buffers_open(struct tcp_ring *ring)
{
    void *memory =
        mmap(NULL, buffers_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return -errno;
    /* A child has no use for it, and the parent's pages are not to be copied. */
    madvise(memory, buffers_size(), MADV_DONTFORK);
    ring->buffers = memory;
    ring->entries = (void *)(ring->buffers + (size_t)RING_BUFFERS * RING_BUFFER);
    struct io_uring_buf_reg reg = {
        .ring_addr = (uint64_t)(uintptr_t)ring->entries,
        .ring_entries = RING_BUFFERS,
        .bgid = GROUP,
    };
    int rc = io_uring_register_buf_ring(&ring->io, &reg, 0);
    if (rc) {
        munmap(memory, buffers_size());
        ring->buffers = NULL;
        return rc;
    }
    io_uring_buf_ring_init(ring->entries);
    for (unsigned i = 0; i < RING_BUFFERS; i++)
        give(ring, (uint16_t)i, (uint16_t)i);
    io_uring_buf_ring_advance(ring->entries, RING_BUFFERS);
    return 0;
}

void ring_return_first(struct tcp_ring *ring, struct tcp_ep *ep)
{
    uint16_t id = ep->uring.first;

    if (id == ep->uring.last)
        ep->uring.chained = false;
    ep->uring.first = ring->next[id];
    give(ring, id, 0);
    io_uring_buf_ring_advance(ring->entries, 1);
}

/* ---- The ring ---- */

/* Multishot receives came with the release that brought sends without a copy. */
static int check_features(struct tcp_ring *ring, const char **why)
{
    struct io_uring_probe *probe = io_uring_get_probe_ring(&ring->io);

    if (!probe) {
        *why = "io_uring_register (probe)";
        return -ENOMEM;
    }
    bool have = io_uring_opcode_supported(probe, IORING_OP_SEND_ZC);
    ring->zero_copy = io_uring_opcode_supported(probe, IORING_OP_SENDMSG_ZC);
    io_uring_free_probe(probe);
    *why = "multishot receives, which came with Linux 6.0";
    return have ? 0 : -EOPNOTSUPP;
}

static int setup(struct tcp_ring *ring, const char **why)
{
    struct io_uring_params params = {
        .flags = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP,
        .cq_entries = CQ_ENTRIES,
    };

    if (!unit_has_thread(ring->set->unit))
        params.flags |= IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG;
    *why = "io_uring_setup";
    int rc = io_uring_queue_init_params(SQ_ENTRIES, &ring->io, &params);
    if (rc)
        return rc;
    rc = check_features(ring, why);
    if (!rc) {
        *why = "a ring of provided buffers";
        rc = buffers_open(ring);
    }
    if (rc)
        io_uring_queue_exit(&ring->io);
    return rc;
}

int ring_open(struct tcp_set *set, struct tcp_ring **result, const char **why)
{
    struct tcp_ring *ring = calloc(1, sizeof(*ring));

    *why = "memory";
    if (!ring)
        return -ENOMEM;
    ring->set = set;
    list_init(&ring->members);
    int rc = setup(ring, why);
    if (rc) {
        free(ring);
        return rc;
    }
    pool_init(&ring->flights, sizeof(struct tcp_flight), 0);
    pool_init(&ring->directs, sizeof(struct tcp_direct), 0);
    *result = ring;
    return 0;
}

void ring_close(struct tcp_ring *ring)
{
    /* The buffers go last: the kernel may know them until then. In a child they are not mapped. */
    io_uring_queue_exit(&ring->io);
    if (!unit_forked(ring->set->unit))
        munmap(ring->buffers, buffers_size());
    pool_finish(&ring->flights);
    pool_finish(&ring->directs);
    free(ring);
}

/* ---- A kernel that refuses ---- */

static bool passes(int rc)
{
    switch (-rc) {
    case EAGAIN:
    case EBUSY:
    case EINTR:
    case ENOMEM:
    case ETIME:
    case ENOENT:
    case EALREADY: return true;
    default: return rc >= 0;
    }
}

/* A program may have forbidden itself the call since, or closed a descriptor that is not its own.
 * What the kernel has will not be heard of any more, so that all connections end. */
static void judge(struct tcp_ring *ring, const char *what, int rc)
{
    if (passes(rc) || ring->refused)
        return;
    ring->refused = rc;
    LOG_WARN(ring->set->domain->base.fabric->part, FI_LOG_EP_DATA,
             "io=uring: %s is refused now, but was not when the ring was made; its connections "
             "end: %s",
             what, fi_strerror(-rc));
    list_for_each (pos, &ring->members)
        tcp_set_work(ring->set, list_item(pos, struct tcp_ep, uring.member));
}

/* ---- Requests ---- */

void ring_submit(struct tcp_ring *ring)
{
    if (!ring->refused && io_uring_sq_ready(&ring->io))
        judge(ring, "io_uring_enter", io_uring_submit(&ring->io));
}

static struct io_uring_sqe *request(struct tcp_ring *ring)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->io);

    for (int i = 0; !sqe && i < TRIES && !ring->refused; i++) {
        ring_submit(ring);
        ring_reap(ring); /* the kernel takes nothing while answers have no room */
        sqe = io_uring_get_sqe(&ring->io);
    }
    return sqe;
}

static struct io_uring_sqe *request_of(struct tcp_ring *ring, struct tcp_ep *ep)
{
    struct io_uring_sqe *sqe = request(ring);

    if (sqe)
        ep->uring.asked++;
    else
        tcp_set_work(ring->set, ep);
    return sqe;
}

bool ring_receive(struct tcp_ring *ring, struct tcp_ep *ep, size_t short_len)
{
    struct io_uring_sqe *sqe = request_of(ring, ep);

    if (!sqe)
        return false;
    if (short_len)
        io_uring_prep_recv(sqe, ep->fd, NULL, short_len, 0);
    else
        io_uring_prep_recv_multishot(sqe, ep->fd, NULL, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = GROUP;
    io_uring_sqe_set_data64(sqe, tag(ep, KIND_RECEIVE));
    ep->uring.receiving = short_len ? TCP_URING_SHORT : TCP_URING_MULTI;
    ep->uring.cancelling = false;
    return true;
}

bool ring_receive_direct(struct tcp_ring *ring, struct tcp_ep *ep)
{
    struct tcp_direct *direct = pool_get(&ring->directs);
    struct io_uring_sqe *sqe = direct ? request_of(ring, ep) : NULL;
    size_t total;

    if (!sqe) {
        if (direct)
            pool_put(&ring->directs, direct);
        return false;
    }
    memset(&direct->message, 0, sizeof(direct->message));
    direct->message.msg_iov = direct->iov;
    direct->message.msg_iovlen =
        tcp_dest_iov(&ep->rx.dest, ep->rx.left, direct->iov, RING_SEGMENTS, &total);
    io_uring_prep_recvmsg(sqe, ep->fd, &direct->message, MSG_WAITALL);
    io_uring_sqe_set_data64(sqe, tag(ep, KIND_DIRECT));
    ep->uring.direct = direct;
    ep->uring.receiving = TCP_URING_DIRECT;
    return true;
}

bool ring_cancel_receive(struct tcp_ring *ring, struct tcp_ep *ep)
{
    struct io_uring_sqe *sqe = request_of(ring, ep);

    if (!sqe)
        return false;
    io_uring_prep_cancel64(sqe, tag(ep, KIND_RECEIVE), 0);
    io_uring_sqe_set_data64(sqe, tag(ep, KIND_CANCEL));
    ep->uring.cancelling = true;
    return true;
}

bool ring_poll_end(struct tcp_ring *ring, struct tcp_ep *ep)
{
    struct io_uring_sqe *sqe = request_of(ring, ep);

    if (!sqe)
        return false;
    io_uring_prep_poll_add(sqe, ep->fd, POLLERR | POLLHUP);
    io_uring_sqe_set_data64(sqe, tag(ep, KIND_POLL));
    ep->uring.polling = true;
    return true;
}

bool ring_send(struct tcp_ring *ring, struct tcp_flight *flight)
{
    struct io_uring_sqe *sqe = request(ring);
    int fd = flight->ep->fd;

    if (!sqe)
        return false;
    memset(&flight->message, 0, sizeof(flight->message));
    flight->message.msg_iov = flight->gather.iov;
    flight->message.msg_iovlen = flight->gather.iov_count;
    if (flight->zero_copy) {
        io_uring_prep_sendmsg_zc(sqe, fd, &flight->message, MSG_NOSIGNAL | MSG_WAITALL);
        sqe->ioprio |= IORING_SEND_ZC_REPORT_USAGE;
    } else {
        io_uring_prep_sendmsg(sqe, fd, &flight->message, MSG_NOSIGNAL | MSG_WAITALL);
    }
    io_uring_sqe_set_data64(sqe, tag(flight, KIND_SEND));
    flight->ep->uring.sending = true;
    return true;
}

void ring_poke(struct tcp_ring *ring)
{
    struct io_uring_sqe *sqe = request(ring);

    if (!sqe)
        return;
    io_uring_prep_nop(sqe);
    io_uring_sqe_set_data64(sqe, 0);
    ring_submit(ring);
}

void ring_cancel_all(struct tcp_ring *ring, struct tcp_ep *ep)
{
    struct io_uring_sync_cancel_reg reg = {
        .fd = ep->fd,
        .flags = IORING_ASYNC_CANCEL_FD | IORING_ASYNC_CANCEL_ALL,
        .timeout = {.tv_sec = -1, .tv_nsec = -1},
    };

    judge(ring, "io_uring_register", io_uring_register_sync_cancel(&ring->io, &reg));
}

/* ---- Answers ---- */

static void chain(struct tcp_ring *ring, struct tcp_ep *ep, uint16_t id, uint32_t len)
{
    struct tcp_uring *uring = &ep->uring;

    ring->len[id] = len;
    if (uring->chained)
        ring->next[uring->last] = id;
    else
        uring->first = id;
    uring->last = id;
    uring->chained = true;
}

/* A request that ended for want of buffers, or with the thread that made it, is made again. */
static void note_end(struct tcp_uring *uring, int result)
{
    if (result > 0 || result == -ENOBUFS || result == -ECANCELED || result == -EINTR ||
        result == -EAGAIN)
        return;
    uring->ended = true;
    uring->error = result;
}

static void note_received(struct tcp_ring *ring, struct tcp_ep *ep, const struct io_uring_cqe *cqe)
{
    struct tcp_uring *uring = &ep->uring;

    if (cqe->flags & IORING_CQE_F_BUFFER) {
        uint16_t id = (uint16_t)(cqe->flags >> IORING_CQE_BUFFER_SHIFT);

        chain(ring, ep, id, cqe->res > 0 ? (uint32_t)cqe->res : 0);
    }
    if (cqe->flags & IORING_CQE_F_MORE)
        return;
    uring->asked--;
    uring->receiving = TCP_URING_NONE;
    uring->cancelling = false;
    note_end(uring, cqe->res);
}

static void note_placed(struct tcp_ring *ring, struct tcp_ep *ep, int result)
{
    struct tcp_uring *uring = &ep->uring;

    uring->asked--;
    uring->receiving = TCP_URING_NONE;
    pool_put(&ring->directs, uring->direct);
    uring->direct = NULL;
    if (result > 0)
        uring->placed = result;
    note_end(uring, result);
}

static void note_sent(struct tcp_ring *ring, struct tcp_flight *flight,
                      const struct io_uring_cqe *cqe)
{
    struct tcp_ep *ep = flight->ep;

    if (cqe->flags & IORING_CQE_F_NOTIF) {
        flight->lent = false;
        flight->returned = true;
        if (ep && (uint32_t)cqe->res & IORING_NOTIF_USAGE_ZC_COPIED)
            ep->uring.copying = true;
    } else {
        flight->answered = true;
        flight->result = cqe->res;
        flight->lent = cqe->flags & IORING_CQE_F_MORE && !flight->returned;
    }
    if (!ep) {
        pool_put(&ring->flights, flight);
        return;
    }
    if (!(cqe->flags & IORING_CQE_F_NOTIF))
        ep->uring.sending = false;
    tcp_set_work(ring->set, ep);
}

static void note(struct tcp_ring *ring, const struct io_uring_cqe *cqe)
{
    void *pointer = (void *)(uintptr_t)(cqe->user_data & ~(uint64_t)KIND_MASK);
    struct tcp_ep *ep = pointer;

    if (!pointer)
        return;
    switch ((enum kind)(cqe->user_data & KIND_MASK)) {
    case KIND_SEND: note_sent(ring, pointer, cqe); return;
    case KIND_RECEIVE: note_received(ring, ep, cqe); break;
    case KIND_DIRECT: note_placed(ring, ep, cqe->res); break;
    case KIND_POLL:
        ep->uring.polling = false;
        ep->uring.hung_up = cqe->res > 0;
        ep->uring.asked--;
        break;
    case KIND_CANCEL:
    default:
        ep->uring.asked--;
        if (cqe->res < 0) /* it was not found where it was: again, if it is there still */
            ep->uring.cancelling = false;
        break;
    }
    tcp_set_work(ring->set, ep);
}

void ring_reap(struct tcp_ring *ring)
{
    struct io_uring_cqe *cqe;
    unsigned head, count = 0;

    if (ring->refused) { /* what it is for may be gone; the fd must not stay readable */
        io_uring_cq_advance(&ring->io, io_uring_cq_ready(&ring->io));
        return;
    }
    io_uring_for_each_cqe(&ring->io, head, cqe)
    {
        note(ring, cqe);
        count++;
    }
    io_uring_cq_advance(&ring->io, count);
}

void ring_collect(struct tcp_ring *ring)
{
    unsigned flags = IO_URING_READ_ONCE(*ring->io.sq.kflags);

    if (!ring->refused && flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW))
        judge(ring, "io_uring_enter", io_uring_get_events(&ring->io));
}

void ring_wait(struct tcp_ring *ring, int wait_ms)
{
    struct __kernel_timespec time = {.tv_sec = wait_ms / 1000,
                                     .tv_nsec = wait_ms % 1000 * 1000000LL};
    struct io_uring_cqe *cqe;

    ring_submit(ring);
    if (!ring->refused)
        judge(ring, "io_uring_enter", io_uring_wait_cqe_timeout(&ring->io, &cqe, &time));
    ring_reap(ring);
}
