/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/tcp/tcp_ep.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/domain/base.h"
#include "core/info/info.h"
#include "core/net/tclass.h"
#include "core/queue/wait.h"
#include "transports/tcp/tcp_drive.h"
#include "transports/tcp/tcp_order.h"
#include "transports/tcp/tcp_pep.h"
#include "transports/tcp/tcp_poller.h"
#include "transports/tcp/tcp_receive.h"
#include "transports/tcp/tcp_send.h"

enum {
    SHUTDOWN_MS = 2000, /* how long fi_shutdown and fi_close wait for a slow peer */
    DRAIN_READS = 64,   /* of unread input when a connection closes */
};

/* ---- The connection ---- */

/* Unread input would make close() reset the connection, and with it destroy what the peer has not
 * read of our data yet. */
static void drain(struct tcp_conn *conn)
{
    if (conn->poller->io)
        conn->poller->io->quiesce(conn, SHUTDOWN_MS);
    for (int i = 0; i < DRAIN_READS; i++) {
        if (recv(conn->fd, conn->poller->buffer, TCP_BUFFER, MSG_DONTWAIT) <= 0)
            return;
    }
}

static void close_socket(struct tcp_conn *conn)
{
    if (conn->fd < 0)
        return;
    tcp_send_reclaim(conn->tx);
    tcp_coalesce_leave(&conn->tx->coalesce);
    if (conn->poller->io)
        conn->poller->io->quiesce(conn, 0);
    tcp_poller_remove(conn);
    tcp_cm_unguard(&conn->guard);
    if (!progress_forked(conn->poller->progress))
        shutdown(conn->fd, SHUT_RDWR);
    close(conn->fd);
    conn->fd = -1;
    pcap_flow_close(conn->flow);
    conn->flow = NULL;
}

/* From the exchange to the connection, or back. */
static void take_flow(struct pcap_flow **from, struct pcap_flow **to)
{
    *to = *from;
    *from = NULL;
}

/* Ends the connection and everything outstanding. When the peer closed, posted receives end with
 * FI_ECANCELED, as libfabric's do: applications leave some posted and ignore that error. */
static void disconnect(struct tcp_ep *ep, int err)
{
    close_socket(&ep->conn);
    ep->state = TCP_DOWN;
    tcp_send_finish(&ep->tx, err);
    tcp_receive_fail(&ep->rx, err);
    endpoint_fail_receives(&ep->base, err == FI_ENOTCONN ? FI_ECANCELED : err);
}

static void tell_shutdown(struct tcp_ep *ep)
{
    struct fi_eq_cm_entry event = {.fid = &ep->fid.fid};

    eq_write(ep->base.eq, FI_SHUTDOWN, &event, sizeof(event));
}

static void fail(struct tcp_conn *conn, int err)
{
    struct tcp_ep *ep = object_of(conn, struct tcp_ep, conn);

    if (ep->state != TCP_CONNECTED)
        return;
    disconnect(ep, err);
    tell_shutdown(ep);
}

/* The reader of the EQ learns that the peer hung up even when the application does not read the CQ.
 * One look may not be enough to read all that came before: the next reader of the EQ goes on. */
static void watch_ready(struct tcp_cm_item *item, uint32_t events)
{
    struct tcp_ep *ep = object_of(item, struct tcp_ep, conn.guard.item);
    struct tcp_conn *conn = &ep->conn;

    progress_lock(ep->base.binding.progress);
    if (conn->fd >= 0 && events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
        conn->readable = true;
        conn->ended = true;
        if (conn->poller->io) {
            conn->poller->io->read_end(conn);
        } else {
            tcp_poller_work(conn);
            tcp_drive_pending(conn->poller);
        }
        if (tcp_receive_ending(conn))
            tcp_cm_lull(&conn->guard);
    }
    progress_unlock(ep->base.binding.progress);
}

/* A layer that lends its receive context drives the CQ, and may drive the EQ from another thread
 * than the one that this endpoint's progress domain belongs to. */
static bool upper_drives(const struct tcp_ep *ep)
{
    return ep->base.srx && ep->base.srx->peer;
}

int tcp_ep_connected(struct tcp_ep *ep, int fd, bool network)
{
    tclass_set("tcp", fd, ep->tclass);
    tcp_socket_connected(ep->conn.settings, fd);
    progress_lock(ep->base.binding.progress);
    ep->conn.fd = fd;
    ep->conn.network = network;
    if (ep->handshake)
        take_flow(&ep->handshake->flow, &ep->conn.flow);
    /* From tcp_poller_add on, another thread that drives the progress domain may have events. */
    ep->state = TCP_CONNECTED;
    int rc = tcp_poller_add(&ep->conn);
    if (rc) {
        ep->conn.fd = -1;
        ep->state = TCP_CONNECTING;
        if (ep->handshake)
            take_flow(&ep->conn.flow, &ep->handshake->flow);
    } else if (!upper_drives(ep)) {
        tcp_cm_guard(&ep->conn.guard, ep->conn.fd);
    }
    progress_unlock(ep->base.binding.progress);
    return rc;
}

static bool unsent(const struct tcp_conn *conn)
{
    const struct tcp_tx *tx = conn->tx;

    return (tx->current || tx->urgent.first || tx->normal.first) && !conn->error;
}

/* Sends what is queued, for as long as the peer keeps reading and the deadline allows. */
static void flush_all(struct tcp_conn *conn, int limit_ms)
{
    long long start = clock_ms();

    if (conn->poller->io) {
        conn->poller->io->send_all(conn, limit_ms);
        return;
    }
    tcp_send_flush(conn->tx);
    while (unsent(conn) && conn->blocked) {
        struct pollfd wait = {.fd = conn->fd, .events = POLLOUT};
        int left = wait_left(limit_ms, start);

        if (left <= 0 || poll(&wait, 1, left) <= 0 || wait.revents & (POLLERR | POLLHUP))
            return;
        tcp_poller_unblock(conn);
        tcp_send_flush(conn->tx);
    }
}

int tcp_ep_shutdown(struct fid_ep *fid, uint64_t flags)
{
    struct tcp_ep *ep = tcp_ep_of(fid);
    int rc = -FI_ENOTCONN;

    if (flags)
        return -FI_EBADFLAGS;
    if (ep->state < TCP_ENABLED)
        return rc;
    if (progress_forked(ep->conn.poller->progress))
        return -FI_EOPBADSTATE;
    progress_lock(ep->base.binding.progress);
    if (ep->state == TCP_CONNECTED) {
        if (upper_drives(ep))
            tcp_send_flush(&ep->tx); /* it must not wait inside of its progress */
        else
            flush_all(&ep->conn, SHUTDOWN_MS);
        drain(&ep->conn);
        disconnect(ep, FI_ECANCELED);
        /* Two ends that shut down at once would else both wait for the other's. */
        tell_shutdown(ep);
        rc = 0;
    } else if (ep->state == TCP_DOWN) {
        rc = 0;
    }
    progress_unlock(ep->base.binding.progress);
    return rc;
}

/* ---- Life ---- */

int tcp_ep_enable(struct endpoint *base)
{
    struct tcp_ep *ep = object_of(base, struct tcp_ep, base);
    int rc;

    progress_lock(base->binding.progress);
    rc = tcp_drive_join(ep->domain, base->binding.progress, &ep->conn.poller);
    if (!rc)
        ep->state = TCP_ENABLED;
    progress_unlock(base->binding.progress);
    return rc;
}

/* Progress domains locked: the fabric's, and the endpoint's if it has one. */
static struct progress *close_locked(struct tcp_ep *ep)
{
    struct progress *progress = NULL;

    tcp_handshake_destroy(ep->handshake);
    ep->handshake = NULL;
    if (ep->conn.guard.cm)
        tcp_cm_arm(ep->conn.guard.cm);
    if (!ep->conn.poller)
        return NULL;
    if (ep->conn.fd >= 0 && !progress_forked(ep->conn.poller->progress)) {
        tcp_send_flush(&ep->tx);
        drain(&ep->conn);
    }
    close_socket(&ep->conn);
    ep->state = TCP_DOWN;
    tcp_send_finish(&ep->tx, 0);
    tcp_receive_fail(&ep->rx, 0);
    endpoint_close_receives(&ep->base);
    tcp_receive_finish(&ep->rx);
    progress = tcp_drive_leave(ep->conn.poller);
    return progress;
}

/* Injected data is not lost when its caller closes at once and the socket is full. */
static void flush_before_close(struct tcp_ep *ep)
{
    int limit_ms = upper_drives(ep) ? (int)ep->close_ms : SHUTDOWN_MS;

    if (!limit_ms || !ep->base.binding.progress)
        return;
    progress_lock(ep->base.binding.progress);
    if (ep->state == TCP_CONNECTED && ep->conn.fd >= 0 &&
        !progress_forked(ep->conn.poller->progress))
        flush_all(&ep->conn, limit_ms);
    progress_unlock(ep->base.binding.progress);
}

int tcp_ep_close(struct endpoint *base)
{
    struct tcp_ep *ep = object_of(base, struct tcp_ep, base);
    struct progress *set_unit;

    flush_before_close(ep);
    if (ep->conn.guard.cm)
        progress_lock(ep->conn.guard.cm->progress);
    if (ep->base.binding.progress)
        progress_lock(ep->base.binding.progress);
    set_unit = close_locked(ep);
    if (ep->base.binding.progress)
        progress_unlock(ep->base.binding.progress);
    if (ep->conn.guard.cm)
        progress_unlock(ep->conn.guard.cm->progress);
    if (set_unit)
        progress_release(set_unit);
    endpoint_finish(base);
    free(ep);
    return 0;
}

/* An endpoint for a connection request takes the request over. */
static int claim_request(struct tcp_ep *ep, const struct fid *handle)
{
    ep->handshake = tcp_handshake_claim(ep->domain->fabric, handle);
    return ep->handshake ? 0 : -FI_EINVAL;
}

/* An endpoint for the address of a passive one: its host; the port is taken. */
static int inherit_address(struct tcp_ep *ep, const struct tcp_pep *pep)
{
    ep->src = pep->src;
    if (pep->listening) /* its port stays with it */
        addr_set_port(&ep->src.sa, 0);
    return 0;
}

static int read_source(struct tcp_ep *ep, const struct fi_info *info)
{
    if (info->ep_attr->type != FI_EP_MSG)
        return -FI_EINVAL;
    if (info->src_addr) {
        int rc = addr_import(info->addr_format, info->src_addr, info->src_addrlen, &ep->src);
        if (rc)
            return rc;
    }
    if (!info->handle)
        return 0;
    if (info->handle->fclass == FI_CLASS_PEP)
        return inherit_address(ep, object_of(info->handle, struct tcp_pep, base.fid.fid));
    return claim_request(ep, info->handle);
}

static void init_conn(struct tcp_ep *ep)
{
    struct tcp_conn *conn = &ep->conn;

    conn->base = &ep->base;
    conn->settings = &ep->domain->fabric->settings;
    conn->tx = &ep->tx;
    conn->rx = &ep->rx;
    conn->uring = &ep->uring;
    conn->fd = -1;
    conn->fail = fail;
    conn->guard.item.ready = watch_ready;
    list_init(&conn->hot);
    list_init(&conn->work);
    list_init(&conn->ending);
    list_init(&conn->guard.unwatched);
}

static void init(struct tcp_ep *ep, const struct fi_info *info, void *context)
{
    uint32_t tclass = info->tx_attr->tclass;

    ep->addr_format = info->addr_format;
    ep->tclass = tclass != FI_TC_UNSPEC ? tclass : ep->domain->base.info->domain_attr->tclass;
    tcp_ep_ops_init(ep, info, context);
    init_conn(ep);
    tcp_send_init(&ep->tx, &ep->conn,
                  ep->base.tx_size < UINT32_MAX ? (unsigned)ep->base.tx_size : UINT32_MAX);
    ep->tx.behind_reads = tcp_order_behind_reads(info->tx_attr->msg_order);
    tcp_receive_init(&ep->rx, &ep->conn);
    tcp_uring_init(&ep->uring, &ep->conn);
}

int tcp_ep_open(struct fid_domain *domain_fid, struct fi_info *user_info, struct fid_ep **result,
                void *context)
{
    struct tcp_domain *domain = object_of(domain_fid, struct tcp_domain, base.fid);
    struct fi_info *info = fabric_info(domain->base.fabric, user_info);
    struct tcp_ep *ep = calloc(1, sizeof(*ep));
    int rc = -FI_ENOMEM;

    if (info && ep) {
        ep->domain = domain;
        rc = read_source(ep, info);
        if (!rc)
            init(ep, info, context);
    }
    info_free(info);
    if (rc)
        free(ep);
    else
        *result = &ep->fid;
    return rc;
}
