/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests of a ring to the kernel. */
#include <poll.h>
#include <string.h>

#include "transports/tcp/tcp_conn.h"
#include "transports/tcp/tcp_poller.h"
#include "transports/tcp/tcp_ring_kind.h"
#include "transports/tcp/tcp_rx.h"

enum {
    TRIES = 4 /* to submit, for room */
};

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

static struct io_uring_sqe *request_of(struct tcp_ring *ring, struct tcp_conn *conn)
{
    struct io_uring_sqe *sqe = request(ring);

    if (sqe)
        conn->uring->asked++;
    else
        tcp_poller_work(conn);
    return sqe;
}

bool ring_receive(struct tcp_ring *ring, struct tcp_conn *conn, size_t short_len)
{
    struct io_uring_sqe *sqe = request_of(ring, conn);

    if (!sqe)
        return false;
    if (short_len)
        io_uring_prep_recv(sqe, conn->fd, NULL, short_len, 0);
    else
        io_uring_prep_recv_multishot(sqe, conn->fd, NULL, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = RING_GROUP;
    io_uring_sqe_set_data64(sqe, ring_tag(conn, RING_RECEIVE));
    conn->uring->receiving = short_len ? TCP_URING_SHORT : TCP_URING_MULTI;
    conn->uring->cancelling = false;
    return true;
}

bool ring_receive_direct(struct tcp_ring *ring, struct tcp_conn *conn)
{
    struct tcp_direct *direct = pool_get(&ring->directs);
    struct io_uring_sqe *sqe = direct ? request_of(ring, conn) : NULL;
    size_t total;

    if (!sqe) {
        if (direct)
            pool_put(&ring->directs, direct);
        return false;
    }
    memset(&direct->message, 0, sizeof(direct->message));
    direct->message.msg_iov = direct->iov;
    direct->message.msg_iovlen =
        tcp_dest_iov(&conn->rx->dest, conn->rx->left, direct->iov, RING_SEGMENTS, &total);
    io_uring_prep_recvmsg(sqe, conn->fd, &direct->message, MSG_WAITALL);
    io_uring_sqe_set_data64(sqe, ring_tag(conn, RING_DIRECT));
    conn->uring->direct = direct;
    conn->uring->receiving = TCP_URING_DIRECT;
    return true;
}

bool ring_cancel_receive(struct tcp_ring *ring, struct tcp_conn *conn)
{
    struct io_uring_sqe *sqe = request_of(ring, conn);

    if (!sqe)
        return false;
    io_uring_prep_cancel64(sqe, ring_tag(conn, RING_RECEIVE), 0);
    io_uring_sqe_set_data64(sqe, ring_tag(conn, RING_CANCEL));
    conn->uring->cancelling = true;
    return true;
}

bool ring_poll_end(struct tcp_ring *ring, struct tcp_conn *conn)
{
    struct io_uring_sqe *sqe = request_of(ring, conn);

    if (!sqe)
        return false;
    io_uring_prep_poll_add(sqe, conn->fd, POLLERR | POLLHUP);
    io_uring_sqe_set_data64(sqe, ring_tag(conn, RING_POLL));
    conn->uring->polling = true;
    return true;
}

bool ring_send(struct tcp_ring *ring, struct tcp_flight *flight)
{
    struct io_uring_sqe *sqe = request(ring);
    int fd = flight->conn->fd;

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
    io_uring_sqe_set_data64(sqe, ring_tag(flight, RING_SEND));
    flight->conn->uring->sending = true;
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

void ring_cancel_all(struct tcp_ring *ring, int fd)
{
    struct io_uring_sync_cancel_reg reg = {
        .fd = fd,
        .flags = IORING_ASYNC_CANCEL_FD | IORING_ASYNC_CANCEL_ALL,
        .timeout = {.tv_sec = -1, .tv_nsec = -1},
    };

    ring_judge(ring, "io_uring_register", io_uring_register_sync_cancel(&ring->io, &reg));
}

void ring_reset(int fd)
{
    const struct sockaddr none = {.sa_family = AF_UNSPEC};

    (void)connect(fd, &none, sizeof(none));
}
