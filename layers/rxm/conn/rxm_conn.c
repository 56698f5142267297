/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxm/conn/rxm_conn.h"

#include <stdlib.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/info/info.h"
#include "layers/rxm/msgproto/msgproto.h"

/* ---- What the lower writes about received messages ---- */

static void write_unknown(struct rxm_conn *conn, void *context, uint64_t flags, size_t len,
                          void *buf, uint64_t data, uint64_t tag)
{
    struct fi_cq_err_entry entry = {
        .op_context = context,
        .flags = flags,
        .len = len,
        .buf = buf,
        .data = data,
        .tag = tag,
        .err = FI_EADDRNOTAVAIL,
        .err_data = &conn->addr,
        .err_data_size = addr_size(&conn->addr.sa),
        .src_addr = FI_ADDR_UNSPEC,
    };

    conn->owner->rx_sink->owner_ops->writeerr(conn->owner->rx_sink, &entry);
}

void rxm_conn_received(struct rxm_conn *conn, void *context, uint64_t flags, size_t len, void *buf,
                       uint64_t data, uint64_t tag)
{
    struct fid_peer_cq *sink = conn->owner->rx_sink;

    if (!sink)
        return;
    if (__builtin_expect(conn->owner->source_err && conn->number == FI_ADDR_UNSPEC, 0))
        write_unknown(conn, context, flags, len, buf, data, tag);
    else
        sink->owner_ops->write(sink, context, flags, len, buf, data, tag, rxm_conn_addr(conn));
}

void rxm_conn_receive_failed(struct rxm_conn *conn, const struct fi_cq_err_entry *entry)
{
    struct fid_peer_cq *sink = conn->owner->rx_sink;
    struct fi_cq_err_entry mine = *entry;

    if (!sink)
        return;
    mine.src_addr = rxm_conn_addr(conn);
    sink->owner_ops->writeerr(sink, &mine);
}

static ssize_t rx_write(struct fid_peer_cq *peer, void *context, uint64_t flags, size_t len,
                        void *buf, uint64_t data, uint64_t tag, fi_addr_t src)
{
    rxm_conn_received(object_of(peer, struct rxm_conn, rx_peer), context, flags, len, buf, data,
                      tag);
    return 0;
}

static ssize_t rx_writeerr(struct fid_peer_cq *peer, const struct fi_cq_err_entry *entry)
{
    rxm_conn_receive_failed(object_of(peer, struct rxm_conn, rx_peer), entry);
    return 0;
}

static struct fi_ops_cq_owner rx_ops = {
    .size = sizeof(rx_ops),
    .write = rx_write,
    .writeerr = rx_writeerr,
};

/* ---- Opening ---- */

static int open_rx(struct rxm_conn *conn)
{
    struct rxm_ep *owner = conn->owner;
    struct fi_cq_attr cq_attr = {
        .size = 1,
        .flags = FI_PEER,
        .format = FI_CQ_FORMAT_TAGGED,
        .wait_obj = FI_WAIT_NONE,
    };
    struct fi_peer_cq_context cq_context = {.size = sizeof(cq_context), .cq = &conn->rx_peer};
    struct fi_peer_srx_context srx_context = {.size = sizeof(srx_context),
                                              .srx = &conn->source.srx};
    struct fi_rx_attr rx_attr = *owner->lower_info->rx_attr;
    int rc = 0;

    conn->rx_peer.owner_ops = &rx_ops;
    fid_init(&conn->rx_peer.fid, FI_CLASS_PEER_CQ, conn, NULL);
    if (owner->msgproto) {
        msgproto_conn_init(conn);
        srx_context.srx = &conn->msgproto.feed;
    }
    if (owner->domain->fabric->lower->peer)
        rc = fi_cq_open(owner->domain->lower, &cq_attr, &conn->rx_cq, &cq_context);
    if (rc || (owner->msgproto && owner->msgproto->feed != RXM_FEED_ASKED))
        return rc;
    rx_attr.op_flags |= FI_PEER;
    return fi_srx_context(owner->domain->lower, &rx_attr, &conn->srx, &srx_context);
}

int rxm_conn_bind_cntrs(struct rxm_conn *conn, uint64_t kinds)
{
    static const uint64_t flags[BIND_KINDS] = {
        [BIND_SEND] = FI_SEND,
        [BIND_RECV] = FI_RECV,
        [BIND_READ] = FI_READ,
        [BIND_WRITE] = FI_WRITE,
        [BIND_REMOTE_READ] = FI_REMOTE_READ,
        [BIND_REMOTE_WRITE] = FI_REMOTE_WRITE,
    };
    struct fid_cntr *lower;
    int rc = 0;

    for (int kind = 0; !rc && kind < BIND_KINDS; kind++) {
        struct cntr *cntr = conn->owner->base.binding.cntr[kind];

        /* Packets are not messages: those are counted here. */
        if (!cntr || !(kinds & flags[kind]) || (conn->owner->msgproto && kind < BIND_REMOTE_READ))
            continue;
        rc = peer_cntr_lower(peer_cntr_of(cntr), conn->owner->domain->lower, cntr->sink, &lower);
        if (!rc)
            rc = fi_ep_bind(conn->ep, &lower->fid, flags[kind]);
    }
    return rc;
}

static int bind_all(struct rxm_conn *conn)
{
    struct rxm_ep *owner = conn->owner;
    struct fid_cq *tx_cq = lower_cq_fid(owner->tx_lower);
    uint64_t tx = FI_TRANSMIT, rx = FI_RECV;
    int rc;

    if (owner->base.binding.tx_selective && !owner->msgproto)
        tx |= FI_SELECTIVE_COMPLETION;
    if (owner->base.binding.rx_selective && !owner->msgproto)
        rx |= FI_SELECTIVE_COMPLETION;
    if (!conn->rx_cq)
        tx |= FI_RECV;
    rc = fi_ep_bind(conn->ep, &owner->eq->fid, 0);
    if (!rc)
        rc = fi_ep_bind(conn->ep, &tx_cq->fid, tx);
    if (!rc && conn->rx_cq)
        rc = fi_ep_bind(conn->ep, &conn->rx_cq->fid, rx);
    if (!rc && conn->srx)
        rc = fi_ep_bind(conn->ep, &conn->srx->fid, 0);
    return rc ? rc : rxm_conn_bind_cntrs(conn, ~0ULL);
}

/* Where messages of the connection meet receives: in an engine of ours, or one that is found behind
 * the upper's context, or there. */
static void init_source(struct rxm_conn *conn, fi_addr_t addr)
{
    const struct rxm_ep *owner = conn->owner;

    conn->number = addr;
    if (owner->match)
        match_source_init(&conn->source, owner->match, addr);
    else if (owner->behind)
        match_source_init(&conn->source, owner->behind,
                          match_branch_up(owner->base.srx->peer, addr));
    else
        match_forward_init(&conn->forward, owner->base.srx->peer, addr);
}

int rxm_conn_open(struct rxm_ep *owner, const struct rxm_peer *peer, struct fi_info *info,
                  struct rxm_conn **ret_conn)
{
    struct rxm_conn *conn = calloc(1, sizeof(*conn));
    int rc;

    if (!conn)
        return -FI_ENOMEM;
    conn->owner = owner;
    conn->addr = peer->cm.addr;
    conn->context = peer->cm.context;
    list_init(&conn->lingering);
    list_init(&conn->all);
    list_attach(&conn->all, &owner->conns);
    init_source(conn, peer->addr);
    rc = open_rx(conn);
    if (!rc)
        rc = fi_endpoint(owner->domain->lower, info, &conn->ep, conn);
    if (!rc) {
        info->handle = NULL;
        if (owner->msgproto)
            msgproto_ask(owner->msgproto, conn->ep);
        rc = bind_all(conn);
    }
    if (!rc)
        rc = fi_enable(conn->ep);
    if (!rc)
        conn->target = op_target_of(conn->ep);
    if (!rc && owner->msgproto)
        rc = msgproto_conn_fill(conn);
    if (rc) {
        rxm_conn_close(conn);
        return rc;
    }
    conn->info = info;
    *ret_conn = conn;
    return 0;
}

/* ---- Closing ---- */

static void close_fid(struct fid *fid, const char *what)
{
    int rc = fi_close(fid);

    if (rc)
        LOG_WARN("rxm", FI_LOG_EP_CTRL, ": cannot close %s of a connection: %s", what,
                 fi_strerror(-rc));
}

void rxm_conn_resolve(struct rxm_conn *conn, fi_addr_t addr)
{
    conn->number = addr;
    if (!conn->forward.owner && conn->owner->behind)
        addr = match_branch_up(conn->owner->base.srx->peer, addr);
    if (conn->forward.owner)
        match_forward_resolve(&conn->forward, addr);
    else if (addr == FI_ADDR_UNSPEC)
        conn->source.addr = addr;
    else
        match_source_resolve(&conn->source, addr);
}

/* Nothing more is written afterwards. */
static void close_lower(struct rxm_conn *conn)
{
    if (conn->ep)
        close_fid(&conn->ep->fid, "the endpoint");
    if (conn->srx)
        close_fid(&conn->srx->fid, "the receive context");
    if (conn->rx_cq)
        close_fid(&conn->rx_cq->fid, "the receive queue");
    conn->ep = NULL;
    conn->srx = NULL;
    conn->rx_cq = NULL;
}

void rxm_conn_close(struct rxm_conn *conn)
{
    if (conn->owner->msgproto)
        msgproto_conn_drop(conn);
    if (conn->forward.owner)
        match_forward_finish(&conn->forward);
    else
        match_source_finish(&conn->source);
    close_lower(conn);
    if (conn->owner->msgproto) {
        msgproto_conn_end(conn, true);
        msgproto_recv_orphan(conn);
    }
    list_detach(&conn->lingering);
    list_detach(&conn->all);
    info_free(conn->info);
    free(conn);
}

/* Operations in packets of ours end here, not in the lower. */
static void end_emulated(struct rxm_conn *conn)
{
    msgproto_conn_drop(conn);
    close_lower(conn);
    msgproto_conn_end(conn, false);
}

void rxm_conn_end(struct rxm_conn *conn)
{
    fi_shutdown(conn->ep, 0);
    if (conn->owner->msgproto)
        end_emulated(conn);
    if (list_empty(&conn->source.unexpected))
        rxm_conn_close(conn);
    else
        list_attach(&conn->lingering, &conn->owner->lingering);
}

void rxm_conn_reap(struct rxm_ep *owner)
{
    list_for_each_safe (item, after, &owner->lingering) {
        struct rxm_conn *conn = list_item(item, struct rxm_conn, lingering);

        if (list_empty(&conn->source.unexpected))
            rxm_conn_close(conn);
    }
}
