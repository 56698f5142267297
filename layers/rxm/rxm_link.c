/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxm/rxm_link.h"

#include <stdlib.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/log.h"
#include "layers/rxm/rxm_cntr.h"
#include "layers/rxm/rxm_emu.h"
#include "layers/rxm/rxm_forward.h"

/* ---- What the lower writes about received messages ---- */

static void write_unknown(struct rxm_link *link, void *context, uint64_t flags, size_t len,
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
        .err_data = &link->addr,
        .err_data_size = addr_size(&link->addr.sa),
        .src_addr = FI_ADDR_UNSPEC,
    };

    link->owner->rx_sink->owner_ops->writeerr(link->owner->rx_sink, &entry);
}

fi_addr_t rxm_link_addr(const struct rxm_link *link)
{
    if (link->owner->user_ids && link->source.addr != FI_ADDR_UNSPEC)
        return av_source(link->owner->av, link->source.addr);
    return link->source.addr;
}

void rxm_link_received(struct rxm_link *link, void *context, uint64_t flags, size_t len, void *buf,
                       uint64_t data, uint64_t tag)
{
    struct fid_peer_cq *sink = link->owner->rx_sink;

    if (!sink)
        return;
    if (__builtin_expect(link->owner->source_err && link->source.addr == FI_ADDR_UNSPEC, 0))
        write_unknown(link, context, flags, len, buf, data, tag);
    else
        sink->owner_ops->write(sink, context, flags, len, buf, data, tag, rxm_link_addr(link));
}

void rxm_link_receive_failed(struct rxm_link *link, const struct fi_cq_err_entry *entry)
{
    struct fid_peer_cq *sink = link->owner->rx_sink;
    struct fi_cq_err_entry mine = *entry;

    if (!sink)
        return;
    mine.src_addr = rxm_link_addr(link);
    sink->owner_ops->writeerr(sink, &mine);
}

static ssize_t rx_write(struct fid_peer_cq *peer, void *context, uint64_t flags, size_t len,
                        void *buf, uint64_t data, uint64_t tag, fi_addr_t src)
{
    rxm_link_received(object_of(peer, struct rxm_link, rx_peer), context, flags, len, buf, data,
                      tag);
    return 0;
}

static ssize_t rx_writeerr(struct fid_peer_cq *peer, const struct fi_cq_err_entry *entry)
{
    rxm_link_receive_failed(object_of(peer, struct rxm_link, rx_peer), entry);
    return 0;
}

static struct fi_ops_cq_owner rx_ops = {
    .size = sizeof(rx_ops),
    .write = rx_write,
    .writeerr = rx_writeerr,
};

/* ---- Opening ---- */

static int open_rx(struct rxm_link *link)
{
    struct rxm_ep *owner = link->owner;
    struct fi_cq_attr cq_attr = {
        .size = 1,
        .flags = FI_PEER,
        .format = FI_CQ_FORMAT_TAGGED,
        .wait_obj = FI_WAIT_NONE,
    };
    struct fi_peer_cq_context cq_context = {.size = sizeof(cq_context), .cq = &link->rx_peer};
    struct fi_peer_srx_context srx_context = {.size = sizeof(srx_context),
                                              .srx = &link->source.srx};
    struct fi_rx_attr rx_attr = *owner->lower_info->rx_attr;
    int rc = 0;

    link->rx_peer.owner_ops = &rx_ops;
    fid_init(&link->rx_peer.fid, FI_CLASS_PEER_CQ, link, NULL);
    if (owner->emu) {
        rxm_emu_link_init(link);
        srx_context.srx = &link->emu.feed;
    }
    if (owner->domain->fabric->lower->peer)
        rc = fi_cq_open(owner->domain->lower, &cq_attr, &link->rx_cq, &cq_context);
    if (rc || (owner->emu && owner->emu->feed != RXM_FEED_ASKED))
        return rc;
    rx_attr.op_flags |= FI_PEER;
    return fi_srx_context(owner->domain->lower, &rx_attr, &link->srx, &srx_context);
}

static int bind_cntrs(struct rxm_link *link)
{
    static const uint64_t flags[REPORT_KINDS] = {
        [REPORT_SEND] = FI_SEND,
        [REPORT_RECV] = FI_RECV,
        [REPORT_READ] = FI_READ,
        [REPORT_WRITE] = FI_WRITE,
        [REPORT_REMOTE_READ] = FI_REMOTE_READ,
        [REPORT_REMOTE_WRITE] = FI_REMOTE_WRITE,
    };
    struct fid_cntr *lower;
    int rc = 0;

    for (int kind = 0; !rc && kind < REPORT_KINDS; kind++) {
        /* Packets are not messages: those are counted here. */
        if (!link->owner->report.cntr[kind] || (link->owner->emu && kind < REPORT_REMOTE_READ))
            continue;
        rc = rxm_cntr_lower(link->owner->report.cntr[kind], &lower);
        if (!rc)
            rc = fi_ep_bind(link->ep, &lower->fid, flags[kind]);
    }
    return rc;
}

static int bind_all(struct rxm_link *link)
{
    struct rxm_ep *owner = link->owner;
    struct fid_cq *tx_cq = lower_cq_fid(owner->tx_lower);
    uint64_t tx = FI_TRANSMIT, rx = FI_RECV;
    int rc;

    if (owner->report.tx_selective && !owner->emu)
        tx |= FI_SELECTIVE_COMPLETION;
    if (owner->report.rx_selective && !owner->emu)
        rx |= FI_SELECTIVE_COMPLETION;
    if (!link->rx_cq)
        tx |= FI_RECV;
    rc = fi_ep_bind(link->ep, &owner->eq->fid, 0);
    if (!rc)
        rc = fi_ep_bind(link->ep, &tx_cq->fid, tx);
    if (!rc && link->rx_cq)
        rc = fi_ep_bind(link->ep, &link->rx_cq->fid, rx);
    if (!rc && link->srx)
        rc = fi_ep_bind(link->ep, &link->srx->fid, 0);
    return rc ? rc : bind_cntrs(link);
}

int rxm_link_open(struct rxm_ep *owner, const struct rxm_peer *peer, struct fi_info *info,
                  struct rxm_link **ret_link)
{
    struct rxm_link *link = calloc(1, sizeof(*link));
    int rc;

    if (!link)
        return -FI_ENOMEM;
    link->owner = owner;
    link->addr = peer->cm.addr;
    link->context = peer->cm.context;
    list_init(&link->lingering);
    list_init(&link->all);
    list_attach(&link->all, &owner->links);
    if (owner->match)
        match_source_init(&link->source, owner->match, peer->addr);
    else
        rxm_forward_init(link, owner->srx->peer, peer->addr);
    rc = open_rx(link);
    if (!rc)
        rc = fi_endpoint(owner->domain->lower, info, &link->ep, link);
    if (!rc) {
        info->handle = NULL;
        if (owner->emu)
            rxm_emu_ask(owner->emu, link->ep);
        rc = bind_all(link);
    }
    if (!rc)
        rc = fi_enable(link->ep);
    if (!rc && owner->emu)
        rc = rxm_emu_link_fill(link);
    if (rc) {
        rxm_link_close(link);
        return rc;
    }
    *ret_link = link;
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

void rxm_link_resolve(struct rxm_link *link, fi_addr_t addr)
{
    if (addr == FI_ADDR_UNSPEC)
        link->source.addr = addr;
    else if (link->upper)
        rxm_forward_resolve(link, addr);
    else
        match_source_resolve(&link->source, addr);
}

/* Nothing more is written afterwards. */
static void close_lower(struct rxm_link *link)
{
    if (link->ep)
        close_fid(&link->ep->fid, "the endpoint");
    if (link->srx)
        close_fid(&link->srx->fid, "the receive context");
    if (link->rx_cq)
        close_fid(&link->rx_cq->fid, "the receive queue");
    link->ep = NULL;
    link->srx = NULL;
    link->rx_cq = NULL;
}

void rxm_link_close(struct rxm_link *link)
{
    if (link->owner->emu)
        rxm_emu_link_drop(link);
    if (link->upper)
        rxm_forward_finish(link);
    else
        match_source_finish(&link->source);
    close_lower(link);
    if (link->owner->emu) {
        rxm_emu_link_end(link, true);
        rxm_emu_recv_orphan(link);
    }
    list_detach(&link->lingering);
    list_detach(&link->all);
    free(link);
}

/* What is under way in packets of ours ends here, not in the lower. */
static void end_emulated(struct rxm_link *link)
{
    rxm_emu_link_drop(link);
    close_lower(link);
    rxm_emu_link_end(link, false);
}

void rxm_link_end(struct rxm_link *link)
{
    fi_shutdown(link->ep, 0);
    if (link->owner->emu)
        end_emulated(link);
    if (list_empty(&link->source.unexpected))
        rxm_link_close(link);
    else
        list_attach(&link->lingering, &link->owner->lingering);
}

void rxm_link_reap(struct rxm_ep *owner)
{
    list_for_each_safe (item, after, &owner->lingering) {
        struct rxm_link *link = list_item(item, struct rxm_link, lingering);

        if (list_empty(&link->source.unexpected))
            rxm_link_close(link);
    }
}
