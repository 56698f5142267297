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

#include "core/info.h"
#include "core/no.h"
#include "core/stx.h"
#include "core/wait.h"
#include "transports/tcp/tcp_class.h"
#include "transports/tcp/tcp_ep_ops.h"
#include "transports/tcp/tcp_message.h"
#include "transports/tcp/tcp_order.h"
#include "transports/tcp/tcp_pep.h"

enum {
    SHUTDOWN_MS = 2000, /* how long fi_shutdown waits for a slow peer */
    DRAIN_READS = 64,   /* of unread input when a connection closes */
};

/* ---- The connection ---- */

/* Unread input would make close() reset the connection, and with it destroy what the peer has not
 * read of our data yet. */
static void drain(struct tcp_ep *ep)
{
    if (ep->set->ring)
        tcp_uring_quiesce(ep, SHUTDOWN_MS);
    for (int i = 0; i < DRAIN_READS; i++) {
        if (recv(ep->fd, ep->set->buffer, TCP_BUFFER, MSG_DONTWAIT) <= 0)
            return;
    }
}

static void close_socket(struct tcp_ep *ep)
{
    if (ep->fd < 0)
        return;
    tcp_tx_reclaim(ep);
    tcp_stage_leave(&ep->stage);
    if (ep->set->ring)
        tcp_uring_quiesce(ep, 0);
    tcp_set_remove(ep->set, ep);
    tcp_cm_unguard(ep->cm, ep);
    if (!unit_forked(ep->set->unit))
        shutdown(ep->fd, SHUT_RDWR);
    close(ep->fd);
    ep->fd = -1;
    tap_flow_close(ep->tx.flow);
    ep->tx.flow = NULL;
}

/* From the exchange to the connection, or back. */
static void take_flow(struct tap_flow **from, struct tap_flow **to)
{
    *to = *from;
    *from = NULL;
}

void tcp_ep_fail_receives(struct tcp_ep *ep, int err)
{
    if (ep->match)
        match_fail(ep->match, NULL, err);
    else if (ep->shared)
        match_fail(ep->shared->match, &ep->source, err);
}

/* Ends the connection and everything outstanding. Receives that nobody will send to any more are
 * cancelled, as libfabric does: programs leave some posted and take no notice of those. */
static void disconnect(struct tcp_ep *ep, int err)
{
    close_socket(ep);
    ep->state = TCP_DOWN;
    tcp_tx_finish(ep, err);
    tcp_rx_fail(ep, err);
    tcp_ep_fail_receives(ep, err == FI_ENOTCONN ? FI_ECANCELED : err);
}

static void tell_shutdown(struct tcp_ep *ep)
{
    struct fi_eq_cm_entry event = {.fid = &ep->fid.fid};

    eq_write(ep->eq, FI_SHUTDOWN, &event, sizeof(event));
}

void tcp_ep_fail(struct tcp_ep *ep, int err)
{
    if (ep->state != TCP_CONNECTED)
        return;
    disconnect(ep, err);
    tell_shutdown(ep);
}

/* The reader of the EQ learns that the peer hung up even when nobody reads the CQ. One look may not
 * be enough to read all that came before: the next reader of the EQ goes on. */
static void watch_ready(struct tcp_cm_item *item, uint32_t events)
{
    struct tcp_ep *ep = object_of(item, struct tcp_ep, watch);

    unit_lock(ep->report.unit);
    if (ep->fd >= 0 && events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
        ep->rx.readable = true;
        ep->rx.ended = true;
        if (ep->set->ring) {
            tcp_uring_read_end(ep);
        } else {
            tcp_set_work(ep->set, ep);
            tcp_set_drive(ep->set);
        }
        if (tcp_ep_ending(ep))
            tcp_cm_lull(ep->cm, ep);
    }
    unit_unlock(ep->report.unit);
}

/* A layer that lends its receive context drives the CQ, and may drive the EQ from another thread
 * than the one that this endpoint's unit belongs to. */
static bool upper_drives(const struct tcp_ep *ep)
{
    return ep->bound_srx && !ep->shared;
}

int tcp_ep_connected(struct tcp_ep *ep, int fd, bool network)
{
    tcp_class_set(fd, ep->tclass);
    unit_lock(ep->report.unit);
    ep->fd = fd;
    ep->network = network;
    if (ep->handshake)
        take_flow(&ep->handshake->flow, &ep->tx.flow);
    /* From tcp_set_add on another thread, which drives the unit, may have events of it. */
    ep->state = TCP_CONNECTED;
    int rc = tcp_set_add(ep->set, ep);
    if (rc) {
        ep->fd = -1;
        ep->state = TCP_CONNECTING;
        if (ep->handshake)
            take_flow(&ep->tx.flow, &ep->handshake->flow);
    } else if (!upper_drives(ep)) {
        tcp_cm_guard(ep->cm, ep);
    }
    unit_unlock(ep->report.unit);
    return rc;
}

static bool unsent(const struct tcp_ep *ep)
{
    return (ep->tx.current || ep->tx.urgent.first || ep->tx.normal.first) && !ep->tx.error;
}

/* Sends what is queued, for as long as the peer keeps reading and the deadline allows. */
static void flush_all(struct tcp_ep *ep)
{
    long long start = clock_ms();

    if (ep->set->ring) {
        tcp_uring_send_all(ep, SHUTDOWN_MS);
        return;
    }
    tcp_tx_flush(ep);
    while (unsent(ep) && ep->tx.blocked) {
        struct pollfd wait = {.fd = ep->fd, .events = POLLOUT};
        int left = wait_left(SHUTDOWN_MS, start);

        if (left <= 0 || poll(&wait, 1, left) <= 0 || wait.revents & (POLLERR | POLLHUP))
            return;
        ep->tx.blocked = false;
        ep->set->blocked--;
        tcp_tx_flush(ep);
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
    if (unit_forked(ep->set->unit))
        return -FI_EOPBADSTATE;
    unit_lock(ep->report.unit);
    if (ep->state == TCP_CONNECTED) {
        if (upper_drives(ep))
            tcp_tx_flush(ep); /* it must not wait inside of its progress */
        else
            flush_all(ep);
        drain(ep);
        disconnect(ep, FI_ECANCELED);
        /* Two ends that shut down at once would else both wait for the other's. */
        tell_shutdown(ep);
        rc = 0;
    } else if (ep->state == TCP_DOWN) {
        rc = 0;
    }
    unit_unlock(ep->report.unit);
    return rc;
}

/* ---- Life ---- */

static int enable_receive(struct tcp_ep *ep)
{
    struct match_attr attr = {
        .size = ep->rx_size,
        .iov_limit = TCP_IOV_LIMIT,
        .op_flags = ep->rx_op_flags,
        .min_multi_recv = ep->min_multi_recv,
    };
    int rc;

    if (ep->bound_srx && !ep->shared)
        return 0;
    rc = ep->shared ? srx_attach(ep->shared, &ep->shared_use, &ep->source, &ep->report)
                    : match_create(&attr, &ep->match);
    if (rc)
        return rc;
    if (!ep->shared) {
        match_set_report(ep->match, &ep->report);
        match_source_init(&ep->source, ep->match, FI_ADDR_NOTAVAIL);
        ep->source.srx.peer_ops = &tcp_srx_peer_ops;
    }
    ep->srx = &ep->source.srx;
    return 0;
}

static void disable_receive(struct tcp_ep *ep)
{
    if (ep->shared)
        srx_detach(ep->shared, &ep->shared_use);
    if (ep->match) {
        match_source_finish(&ep->source);
        match_destroy(ep->match);
        ep->match = NULL;
    }
}

int tcp_ep_enable(struct tcp_ep *ep)
{
    if (ep->state != TCP_IDLE)
        return 0;
    if (!ep->eq)
        return -FI_ENOEQ;
    if (!ep->report.unit)
        return -FI_ENOCQ;
    if (ep->needs_srx && !ep->srx && !ep->shared)
        return -FI_ENORX;
    if (ep->needs_stx && !ep->stx)
        return -FI_EOPBADSTATE;
    int rc = enable_receive(ep);
    if (rc)
        return rc;
    unit_lock(ep->report.unit);
    rc = tcp_set_join(ep->domain, ep->report.unit, &ep->set);
    if (!rc)
        ep->state = TCP_ENABLED;
    else
        disable_receive(ep);
    unit_unlock(ep->report.unit);
    return rc;
}

/* Units locked: the fabric's, and the endpoint's if it has one. */
static struct unit *close_locked(struct tcp_ep *ep)
{
    struct unit *unit = NULL;

    tcp_handshake_destroy(ep->handshake);
    ep->handshake = NULL;
    if (ep->cm)
        tcp_cm_arm(ep->cm);
    if (!ep->set)
        return NULL;
    if (ep->fd >= 0 && !unit_forked(ep->set->unit)) {
        tcp_tx_flush(ep);
        drain(ep);
    }
    close_socket(ep);
    ep->state = TCP_DOWN;
    tcp_tx_finish(ep, 0);
    tcp_rx_fail(ep, 0);
    disable_receive(ep);
    tcp_rx_finish(ep);
    unit = tcp_set_leave(ep->set);
    return unit;
}

int tcp_ep_close(struct fid *fid)
{
    struct tcp_ep *ep = object_of(fid, struct tcp_ep, fid.fid);
    struct unit *set_unit;

    if (ep->cm)
        unit_lock(ep->cm->unit);
    if (ep->report.unit)
        unit_lock(ep->report.unit);
    set_unit = close_locked(ep);
    if (ep->report.unit)
        unit_unlock(ep->report.unit);
    if (ep->cm)
        unit_unlock(ep->cm->unit);
    if (set_unit)
        unit_release(set_unit);
    report_finish(&ep->report);
    if (ep->bound_srx)
        children_release(&ep->bound_srx->children);
    if (ep->eq) {
        eq_forget(ep->eq, fid);
        children_release(&ep->eq->children);
    }
    stx_release(ep->stx);
    children_release(&ep->domain->base.children);
    free(ep);
    return 0;
}

static int bind_srx(struct tcp_ep *ep, struct fid *fid)
{
    struct srx *srx = object_of(fid, struct srx, fid.fid);

    if (srx->domain != &ep->domain->base || ep->bound_srx || !ep->needs_srx)
        return -FI_EINVAL;
    ep->bound_srx = srx;
    if (srx->peer)
        ep->srx = srx->peer;
    else
        ep->shared = srx;
    children_hold(&srx->children);
    return 0;
}

static int bind_eq(struct tcp_ep *ep, struct fid *fid)
{
    struct eq *eq = eq_of(fid);

    if (!eq || ep->eq || eq->fabric != &ep->domain->fabric->base)
        return -FI_EINVAL;
    ep->eq = eq;
    ep->cm = tcp_cm_of(eq);
    children_hold(&eq->children);
    return 0;
}

int tcp_ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
    struct tcp_ep *ep = object_of(fid, struct tcp_ep, fid.fid);

    if (ep->state != TCP_IDLE)
        return -FI_EOPBADSTATE;
    switch (bfid->fclass) {
    case FI_CLASS_EQ: return bind_eq(ep, bfid);
    case FI_CLASS_SRX_CTX: return bind_srx(ep, bfid);
    case FI_CLASS_STX_CTX:
        return ep->needs_stx ? stx_bind(&ep->domain->base, bfid, &ep->stx) : -FI_EINVAL;
    default: return report_bind(&ep->report, &ep->domain->base, bfid, flags);
    }
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

static int read_info(struct tcp_ep *ep, const struct fi_info *info)
{
    int rc = 0;

    if (info->ep_attr->type != FI_EP_MSG)
        return -FI_EINVAL;
    if (info->src_addr)
        rc = addr_import(info->addr_format, info->src_addr, info->src_addrlen, &ep->src);
    if (rc)
        return rc;
    ep->addr_format = info->addr_format;
    ep->caps = caps_expand(info->caps ? info->caps : FI_MSG | FI_RMA);
    ep->needs_srx = info->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT;
    ep->needs_stx = info->ep_attr->tx_ctx_cnt == FI_SHARED_CONTEXT;
    ep->tclass = info->tx_attr->tclass;
    if (ep->tclass == FI_TC_UNSPEC)
        ep->tclass = ep->domain->base.info->domain_attr->tclass;
    ep->tx_op_flags = info->tx_attr->op_flags;
    ep->rx_op_flags = info->rx_attr->op_flags;
    ep->rx_size = info->rx_attr->size ? info->rx_attr->size : TCP_PLAIN_SIZE;
    size_t tx_size = info->tx_attr->size ? info->tx_attr->size : TCP_PLAIN_SIZE;
    tcp_tx_init(&ep->tx, tx_size < UINT32_MAX ? (unsigned)tx_size : UINT32_MAX);
    ep->tx.behind_reads = tcp_order_behind_reads(info->tx_attr->msg_order);
    if (!info->handle)
        return 0;
    if (info->handle->fclass == FI_CLASS_PEP)
        return inherit_address(ep, object_of(info->handle, struct tcp_pep, fid.fid));
    return claim_request(ep, info->handle);
}

int tcp_ep_open(struct fid_domain *domain_fid, struct fi_info *user_info, struct fid_ep **result,
                void *context)
{
    struct tcp_domain *domain = object_of(domain_fid, struct tcp_domain, base.fid);
    struct fi_info *info = fabric_info(domain->base.fabric, user_info);
    struct tcp_ep *ep = calloc(1, sizeof(*ep));
    int rc = -FI_ENOMEM;

    if (!info || !ep)
        goto free_ep;
    ep->domain = domain;
    ep->fd = -1;
    ep->watch.ready = watch_ready;
    ep->min_multi_recv = TCP_MIN_MULTI_RECV;
    list_init(&ep->hot);
    list_init(&ep->work);
    list_init(&ep->ended);
    list_init(&ep->unwatched);
    list_init(&ep->inbounds);
    list_init(&ep->shared_use.link);
    tcp_rx_init(&ep->rx);
    tcp_uring_init(&ep->uring);
    tcp_stage_init(&ep->stage, ep);
    rc = read_info(ep, info);
    if (rc)
        goto free_ep;
    tcp_ep_ops_init(ep, context);
    children_hold(&domain->base.children);
    info_free(info);
    *result = &ep->fid;
    return 0;

free_ep:
    free(ep);
    info_free(info);
    return rc;
}
