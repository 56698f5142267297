/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/tcp/tcp_ep.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/domain/base.h"
#include "core/ep/stx.h"
#include "core/info/info.h"
#include "core/net/tclass.h"
#include "core/queue/wait.h"
#include "transports/tcp/tcp_ep_ops.h"
#include "transports/tcp/tcp_order.h"
#include "transports/tcp/tcp_pep.h"
#include "transports/tcp/tcp_receive.h"
#include "transports/tcp/tcp_send.h"

enum {
    SHUTDOWN_MS = 2000, /* how long fi_shutdown and fi_close wait for a slow peer */
    DRAIN_READS = 64,   /* of unread input when a connection closes */
};

/* ---- The connection ---- */

/* Unread input would make close() reset the connection, and with it destroy what the peer has not
 * read of our data yet. */
static void drain(struct tcp_ep *ep)
{
    if (ep->poller->ring)
        tcp_uring_quiesce(ep, SHUTDOWN_MS);
    for (int i = 0; i < DRAIN_READS; i++) {
        if (recv(ep->fd, ep->poller->buffer, TCP_BUFFER, MSG_DONTWAIT) <= 0)
            return;
    }
}

static void close_socket(struct tcp_ep *ep)
{
    if (ep->fd < 0)
        return;
    tcp_send_reclaim(ep);
    tcp_coalesce_leave(&ep->coalesce);
    if (ep->poller->ring)
        tcp_uring_quiesce(ep, 0);
    tcp_poller_remove(ep->poller, ep);
    tcp_cm_unguard(ep->cm, ep);
    if (!progress_forked(ep->poller->progress))
        shutdown(ep->fd, SHUT_RDWR);
    close(ep->fd);
    ep->fd = -1;
    pcap_flow_close(ep->tx.flow);
    ep->tx.flow = NULL;
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
    close_socket(ep);
    ep->state = TCP_DOWN;
    tcp_send_finish(ep, err);
    tcp_receive_fail(ep, err);
    endpoint_fail_receives(&ep->base, err == FI_ENOTCONN ? FI_ECANCELED : err);
}

static void tell_shutdown(struct tcp_ep *ep)
{
    struct fi_eq_cm_entry event = {.fid = &ep->fid.fid};

    eq_write(ep->base.eq, FI_SHUTDOWN, &event, sizeof(event));
}

void tcp_ep_fail(struct tcp_ep *ep, int err)
{
    if (ep->state != TCP_CONNECTED)
        return;
    disconnect(ep, err);
    tell_shutdown(ep);
}

/* The reader of the EQ learns that the peer hung up even when the application does not read the CQ.
 * One look may not be enough to read all that came before: the next reader of the EQ goes on. */
static void watch_ready(struct tcp_cm_item *item, uint32_t events)
{
    struct tcp_ep *ep = object_of(item, struct tcp_ep, watch);

    progress_lock(ep->base.binding.progress);
    if (ep->fd >= 0 && events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
        ep->rx.readable = true;
        ep->rx.ended = true;
        if (ep->poller->ring) {
            tcp_uring_read_end(ep);
        } else {
            tcp_poller_work(ep->poller, ep);
            tcp_poller_drive(ep->poller);
        }
        if (tcp_ep_ending(ep))
            tcp_cm_lull(ep->cm, ep);
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
    tcp_socket_connected(&ep->domain->fabric->settings, fd);
    progress_lock(ep->base.binding.progress);
    ep->fd = fd;
    ep->network = network;
    if (ep->handshake)
        take_flow(&ep->handshake->flow, &ep->tx.flow);
    /* From tcp_poller_add on, another thread that drives the progress domain may have events. */
    ep->state = TCP_CONNECTED;
    int rc = tcp_poller_add(ep->poller, ep);
    if (rc) {
        ep->fd = -1;
        ep->state = TCP_CONNECTING;
        if (ep->handshake)
            take_flow(&ep->tx.flow, &ep->handshake->flow);
    } else if (!upper_drives(ep)) {
        tcp_cm_guard(ep->cm, ep);
    }
    progress_unlock(ep->base.binding.progress);
    return rc;
}

static bool unsent(const struct tcp_tx *tx)
{
    return (tx->current || tx->urgent.first || tx->normal.first) && !tx->error;
}

/* Sends what is queued, for as long as the peer keeps reading and the deadline allows. */
static void flush_all(struct tcp_ep *ep, int limit_ms)
{
    long long start = clock_ms();

    if (ep->poller->ring) {
        tcp_uring_send_all(ep, limit_ms);
        return;
    }
    tcp_send_flush(ep);
    while (unsent(&ep->tx) && ep->tx.blocked) {
        struct pollfd wait = {.fd = ep->fd, .events = POLLOUT};
        int left = wait_left(limit_ms, start);

        if (left <= 0 || poll(&wait, 1, left) <= 0 || wait.revents & (POLLERR | POLLHUP))
            return;
        ep->tx.blocked = false;
        ep->poller->blocked--;
        tcp_send_flush(ep);
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
    if (progress_forked(ep->poller->progress))
        return -FI_EOPBADSTATE;
    progress_lock(ep->base.binding.progress);
    if (ep->state == TCP_CONNECTED) {
        if (upper_drives(ep))
            tcp_send_flush(ep); /* it must not wait inside of its progress */
        else
            flush_all(ep, SHUTDOWN_MS);
        drain(ep);
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
    rc = tcp_poller_join(ep->domain, base->binding.progress, &ep->poller);
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
    if (ep->cm)
        tcp_cm_arm(ep->cm);
    if (!ep->poller)
        return NULL;
    if (ep->fd >= 0 && !progress_forked(ep->poller->progress)) {
        tcp_send_flush(ep);
        drain(ep);
    }
    close_socket(ep);
    ep->state = TCP_DOWN;
    tcp_send_finish(ep, 0);
    tcp_receive_fail(ep, 0);
    endpoint_close_receives(&ep->base);
    tcp_receive_finish(ep);
    progress = tcp_poller_leave(ep->poller);
    return progress;
}

/* Injected data is not lost when its caller closes at once and the socket is full. */
static void flush_before_close(struct tcp_ep *ep)
{
    int limit_ms = upper_drives(ep) ? (int)ep->close_ms : SHUTDOWN_MS;

    if (!limit_ms || !ep->base.binding.progress)
        return;
    progress_lock(ep->base.binding.progress);
    if (ep->state == TCP_CONNECTED && ep->fd >= 0 && !progress_forked(ep->poller->progress))
        flush_all(ep, limit_ms);
    progress_unlock(ep->base.binding.progress);
}

int tcp_ep_close(struct endpoint *base)
{
    struct tcp_ep *ep = object_of(base, struct tcp_ep, base);
    struct progress *set_unit;

    flush_before_close(ep);
    if (ep->cm)
        progress_lock(ep->cm->progress);
    if (ep->base.binding.progress)
        progress_lock(ep->base.binding.progress);
    set_unit = close_locked(ep);
    if (ep->base.binding.progress)
        progress_unlock(ep->base.binding.progress);
    if (ep->cm)
        progress_unlock(ep->cm->progress);
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

static void init(struct tcp_ep *ep, const struct fi_info *info, void *context)
{
    uint32_t tclass = info->tx_attr->tclass;

    ep->fd = -1;
    ep->watch.ready = watch_ready;
    ep->addr_format = info->addr_format;
    ep->tclass = tclass != FI_TC_UNSPEC ? tclass : ep->domain->base.info->domain_attr->tclass;
    list_init(&ep->hot);
    list_init(&ep->work);
    list_init(&ep->ended);
    list_init(&ep->unwatched);
    list_init(&ep->inbounds);
    tcp_receive_init(&ep->rx);
    tcp_uring_init(&ep->uring);
    tcp_coalesce_init(&ep->coalesce, ep);
    tcp_ep_ops_init(ep, info, context);
    tcp_send_init(&ep->tx, ep->base.tx_size < UINT32_MAX ? (unsigned)ep->base.tx_size : UINT32_MAX);
    ep->tx.behind_reads = tcp_order_behind_reads(info->tx_attr->msg_order);
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
