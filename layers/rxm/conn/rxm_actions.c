/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxm/conn/rxm_actions.h"

#include <stdio.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/base/seam.h"
#include "core/info/info.h"
#include "layers/rxm/conn/rxm_av.h"
#include "layers/rxm/conn/rxm_conn.h"
#include "layers/rxm/conn/rxm_wait.h"
#include "layers/rxm/conn/rxm_wire.h"

static struct rxm_ep *ep_of(struct rxm_cm *cm)
{
    return object_of(cm, struct rxm_ep, cm);
}

static struct rxm_peer *peer_of(struct rxm_cm_peer *cm)
{
    return object_of(cm, struct rxm_peer, cm);
}

static struct rxm_conn *conn_of(struct rxm_cm_conn *cm)
{
    return object_of(cm, struct rxm_conn, cm);
}

static struct rxm_cm_peer *cm_peer(struct rxm_cm *cm, const union addr *addr, unsigned context)
{
    struct rxm_peer *peer = rxm_av_peer_of(ep_of(cm), addr, context);

    return peer ? &peer->cm : NULL;
}

static int set_source(const struct rxm_ep *ep, const struct rxm_cm_peer *peer, struct fi_info *info)
{
    union addr from = ep->cm.config.any ? peer->own : ep->cm.config.self;
    _Alignas(union addr) char raw[ADDR_TEXT_MAX];

    if (from.sa.sa_family == AF_UNSPEC)
        return info_set_src(info, NULL, 0); /* as the kernel reaches the peer */
    addr_set_port(&from.sa, 0);
    return info_set_src(info, raw, rxm_addr_export(info->addr_format, &from, raw));
}

/* The lower's info for a connection to the peer, from the address that it knows this endpoint by:
 * the exchange carries only a port, so the peer knows us by where we come from. */
static struct fi_info *dial_info(struct rxm_ep *ep, const struct rxm_cm_peer *peer)
{
    struct fi_info *info = info_dup(ep->lower_info);
    _Alignas(union addr) char raw[ADDR_TEXT_MAX];

    if (info && !set_source(ep, peer, info) &&
        !info_set_dest(info, raw, rxm_addr_export(info->addr_format, &peer->addr, raw)))
        return info;
    info_free(info);
    return NULL;
}

static int cm_dial(struct rxm_cm *cm, struct rxm_cm_peer *peer, const void *data, size_t len,
                   struct rxm_cm_conn **ret_conn)
{
    struct rxm_ep *ep = ep_of(cm);
    struct fi_info *info = dial_info(ep, peer);
    uint32_t answer_ms = (uint32_t)cm->config.deadline_ms;
    struct rxm_conn *conn;
    int rc;

    if (!info)
        return -FI_ENOMEM;
    rc = rxm_conn_open(ep, peer_of(peer), info, &conn);
    if (rc) {
        info_free(info);
        return rc;
    }
    /* The manager has its own deadline; a lower that does not know the option has its own. */
    fi_setopt(&conn->ep->fid, FI_OPT_ENDPOINT, OPT_ANSWER_TIMEOUT, &answer_ms, sizeof(answer_ms));
    rc = fi_connect(conn->ep, info->dest_addr, data, len);
    if (rc)
        rxm_conn_close(conn);
    else
        *ret_conn = &conn->cm;
    return rc;
}

static int cm_accept(struct rxm_cm *cm, struct rxm_cm_peer *peer, void *request, const void *data,
                     size_t len, struct rxm_cm_conn **ret_conn)
{
    struct rxm_ep *ep = ep_of(cm);
    struct fi_info *info = request;
    struct rxm_conn *conn;
    int rc = rxm_conn_open(ep, peer_of(peer), info, &conn);

    if (rc) {
        if (info->handle)
            fi_reject(ep->pep, info->handle, NULL, 0);
        info_free(info);
        return rc;
    }
    rc = fi_accept(conn->ep, data, len);
    if (rc)
        rxm_conn_close(conn);
    else
        *ret_conn = &conn->cm;
    return rc;
}

/* libfabric's native endpoints dial again at once, some dozens of times in a second. */
static void tell_refused(struct rxm_ep *ep, const union addr *from, const char *why)
{
    char text[ADDR_TEXT_MAX];

    addr_text(&from->sa, text, sizeof(text));
    if (rxm_refused_tell(&ep->refused, from, why, clock_ms()))
        LOG_WARN("rxm", FI_LOG_EP_CTRL, ": refused %s, which speaks %s", text, why);
    else
        LOG_INFO("rxm", FI_LOG_EP_CTRL, ": refused %s, which speaks %s", text, why);
}

static void cm_reject(struct rxm_cm *cm, void *request, const void *data, size_t len,
                      const char *why)
{
    struct rxm_ep *ep = ep_of(cm);
    struct fi_info *info = request;
    union addr from;

    if (why && !rxm_addr_import(info->addr_format, info->dest_addr, &from))
        tell_refused(ep, &from, why);
    fi_reject(ep->pep, info->handle, data, len);
    info_free(info);
}

static void cm_close(struct rxm_cm *cm, struct rxm_cm_conn *cm_conn)
{
    struct rxm_conn *conn = conn_of(cm_conn);
    struct rxm_peer *peer = rxm_peers_find(&ep_of(cm)->peers, &conn->addr, conn->context);
    bool was_up = ep_of(cm)->msgproto && conn->msgproto.up;
    int err = conn->msgproto.err;

    if (peer && peer->up == conn) {
        peer->up = NULL;
        progress_new_round();
        lower_cq_progress(ep_of(cm)->tx_lower); /* the peer's messages from before its restart */
    }
    rxm_conn_end(conn);
    if (peer && was_up && !peer->cm.conn)
        rxm_wait_fail(ep_of(cm), peer, err, NULL); /* they waited for room on it */
    if (peer)
        rxm_wait_wake(ep_of(cm), peer);
}

/* Lowers that have all features natively, or know no peers without them, do not know the option. */
static void tell_features(struct rxm_conn *conn)
{
    uint32_t features = conn->cm.other.extensions & RXM_WIRE_ATOMICS ? OPT_FEATURE_ATOMICS : 0;
    int rc =
        fi_setopt(&conn->ep->fid, FI_OPT_ENDPOINT, OPT_PEER_FEATURES, &features, sizeof(features));

    if (rc && rc != -FI_ENOPROTOOPT)
        LOG_WARN("rxm", FI_LOG_EP_CTRL, ": the lower refuses the features of a peer: %s",
                 fi_strerror(-rc));
}

/* Operations that wait for the connection go first. */
static void set_up(struct rxm_peer *peer, struct rxm_conn *conn)
{
    if (list_empty(&peer->waiting))
        peer->up = conn;
    else
        rxm_wait_wake(conn->owner, peer);
}

static void cm_up(struct rxm_cm *cm, struct rxm_cm_conn *cm_conn)
{
    struct rxm_conn *conn = conn_of(cm_conn);
    struct rxm_cm_peer *peer = cm_conn->peer;
    uint32_t version = cm_conn->other.version;
    int rc = fi_setopt(&conn->ep->fid, FI_OPT_ENDPOINT, OPT_PEER_WIRE_VERSION, &version,
                       sizeof(version));

    if (rc && rc != -FI_ENOPROTOOPT)
        LOG_WARN("rxm", FI_LOG_EP_CTRL, ": the lower refuses wire version %u: %s", version,
                 fi_strerror(-rc));
    tell_features(conn);
    if (cm_conn == peer->conn)
        set_up(peer_of(peer), conn);
    if (conn->owner->msgproto)
        msgproto_conn_up(conn);
}

void rxm_failure_text(const struct rxm_cm_peer *peer, int err, char *text)
{
    char addr[ADDR_TEXT_MAX];

    addr_text(&peer->addr.sa, addr, sizeof(addr));
    snprintf(text, RXM_FAILURE_TEXT_MAX, "cannot connect to %s: %s", addr,
             peer->why ? peer->why : fi_strerror(err));
}

static void cm_failed(struct rxm_cm *cm, struct rxm_cm_peer *peer, int err, const char *why)
{
    char text[RXM_FAILURE_TEXT_MAX];

    rxm_failure_text(peer, err, text);
    LOG_WARN("rxm", FI_LOG_EP_CTRL, ": %s", text);
    rxm_wait_wake(ep_of(cm), peer_of(peer));
}

/* Peers in the AV stay, with their history. */
static void cm_idle(struct rxm_cm *cm, struct rxm_cm_peer *peer)
{
    if (!peer_of(peer)->slots)
        rxm_peers_remove(&ep_of(cm)->peers, peer_of(peer));
}

const struct rxm_cm_ops rxm_actions = {
    .peer = cm_peer,
    .dial = cm_dial,
    .accept = cm_accept,
    .reject = cm_reject,
    .close = cm_close,
    .up = cm_up,
    .failed = cm_failed,
    .idle = cm_idle,
};
