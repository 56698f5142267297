/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints: a queue pair and its completion queue, driven by the progress domain. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "core/base/enosys.h"
#include "core/base/log.h"
#include "core/domain/base.h"
#include "core/info/info.h"
#include "transports/efa/efa.h"

enum {
    BATCH = 16, /* completions of one look */
    RNR_ENDLESS = 7,
};

static struct efa_ep *ep_of(const struct endpoint *base)
{
    return object_of(base, struct efa_ep, base);
}

/* ---- Completions ---- */

/* The device's codes, as libfabric's efa reports them. */
static int errno_of(const struct ibv_wc *wc)
{
    switch (wc->vendor_err) {
    case 1: return FI_ECANCELED;
    case 6:
    case 11: return FI_EMSGSIZE;
    case 8:
    case 13: return FI_ECONNABORTED;
    case 9:
    case 14: return FI_ENOTCONN;
    case 10: return FI_ENORX;
    case 12: return FI_EREMOTEIO;
    case 15: return FI_EHOSTUNREACH;
    default: return FI_EINVAL;
    }
}

static void end_error(struct efa_ep *ep, const struct efa_wr *wr, const struct ibv_wc *wc)
{
    struct fi_cq_err_entry error = {
        .op_context = wr->context,
        .flags = FI_MSG | (wr->receives ? FI_RECV : FI_SEND),
        .err = errno_of(wc),
        .prov_errno = (int)wc->vendor_err,
        .src_addr = FI_ADDR_NOTAVAIL,
    };

    complete_error(&ep->base.binding, wr->receives ? BIND_RECV : BIND_SEND, &error);
}

static void end(struct efa_ep *ep, const struct ibv_wc *wc)
{
    struct efa_wr *entry = (struct efa_wr *)(uintptr_t)wc->wr_id, wr = *entry;

    pool_put(&ep->wrs, entry);
    if (wr.receives)
        ep->receives--;
    else
        ep->sends--;
    if (wc->status)
        end_error(ep, &wr, wc);
    else if (wr.receives)
        complete(&ep->base.binding, BIND_RECV, wr.wanted, wr.context, FI_MSG | FI_RECV,
                 wc->byte_len, wr.buf, 0, 0, efa_av_source(ep->base.av, wc->slid, wc->src_qp));
    else
        complete(&ep->base.binding, BIND_SEND, wr.wanted, wr.context, FI_MSG | FI_SEND, 0, NULL, 0,
                 0, FI_ADDR_NOTAVAIL);
}

static int poll_queue(struct efa_ep *ep)
{
    struct ibv_wc wc[BATCH];
    int count = ibv_poll_cq(ep->cq, BATCH, wc);

    for (int i = 0; i < count; i++)
        end(ep, &wc[i]);
    return count;
}

static void poll_device(struct progress_source *source)
{
    poll_queue(object_of(source, struct efa_ep, source));
}

/* Events that were shown are taken, and the next completion asks for one. Earlier completions are
 * read here. */
static int trywait(struct progress_source *source)
{
    struct efa_ep *ep = object_of(source, struct efa_ep, source);
    struct ibv_cq *cq;
    void *context;

    if (!ep->channel)
        return 0;
    while (!verbs_lib.get_cq_event(ep->channel, &cq, &context))
        verbs_lib.ack_cq_events(cq, 1);
    if (ibv_req_notify_cq(ep->cq, 0))
        return -FI_EAGAIN;
    return poll_queue(ep) ? -FI_EAGAIN : 0;
}

/* ---- Operations ---- */

/* The segments for the device. Local memory is registered, unless all of it is sent inline. */
static int set_segments(const struct op *op, bool is_inline, struct ibv_sge *sges)
{
    for (size_t i = 0; i < op->count; i++) {
        const struct ibv_mr *mr = op->desc ? op->desc[i] : NULL;

        if (!mr && !is_inline && op->iov[i].iov_len)
            return -FI_EINVAL;
        sges[i] = (struct ibv_sge){.addr = (uintptr_t)op->iov[i].iov_base,
                                   .length = (uint32_t)op->iov[i].iov_len,
                                   .lkey = mr ? mr->lkey : 0};
    }
    return 0;
}

static struct efa_wr *wr_get(struct efa_ep *ep, const struct op *op, bool receives)
{
    struct efa_wr *wr = pool_get(&ep->wrs);

    if (!wr)
        return NULL;
    *wr = (struct efa_wr){.ep = ep, .context = op->context, .receives = receives};
    wr->buf = op->count ? op->iov[0].iov_base : NULL;
    return wr;
}

static ssize_t start_send(struct efa_ep *ep, const struct op *op)
{
    bool is_inline = op->len <= ep->domain->device->efa.inline_buf_size;
    struct ibv_sge sges[EFA_SEGMENTS];
    struct ibv_send_wr send = {.sg_list = sges,
                               .num_sge = (int)op->count,
                               .opcode = IBV_WR_SEND,
                               .send_flags = IBV_SEND_SIGNALED | (is_inline ? IBV_SEND_INLINE : 0)},
                       *bad;
    struct efa_route route;
    struct efa_wr *wr;
    int rc = set_segments(op, is_inline, sges);

    if (rc)
        return rc;
    if (!efa_av_route(ep->base.av, op->peer, &route))
        return -FI_EINVAL;
    if (ep->sends == ep->base.tx_size)
        return -FI_EAGAIN;
    wr = wr_get(ep, op, false);
    if (!wr)
        return -FI_ENOMEM;
    wr->wanted = !op_is_inject(op) && completion_wanted(ep->base.binding.tx_selective, op->flags);
    send.wr_id = (uintptr_t)wr;
    send.wr.ud.ah = route.ah;
    send.wr.ud.remote_qpn = route.qpn;
    send.wr.ud.remote_qkey = route.qkey;
    rc = ibv_post_send(ep->qp, &send, &bad);
    if (!rc) {
        ep->sends++;
        return 0;
    }
    pool_put(&ep->wrs, wr);
    return rc == ENOMEM ? -FI_EAGAIN : verbs_error(rc);
}

static ssize_t start_receive(struct efa_ep *ep, const struct op *op)
{
    struct ibv_sge sges[EFA_SEGMENTS];
    struct ibv_recv_wr receive = {.sg_list = sges, .num_sge = (int)op->count}, *bad;
    struct efa_wr *wr;
    int rc = set_segments(op, false, sges);

    if (rc)
        return rc;
    if (ep->receives == ep->base.rx_size)
        return -FI_EAGAIN;
    wr = wr_get(ep, op, true);
    if (!wr)
        return -FI_ENOMEM;
    wr->wanted =
        completion_wanted(ep->base.binding.rx_selective, op_final_flags(op, ep->base.rx_op_flags));
    receive.wr_id = (uintptr_t)wr;
    rc = ibv_post_recv(ep->qp, &receive, &bad);
    if (!rc) {
        ep->receives++;
        return 0;
    }
    pool_put(&ep->wrs, wr);
    return rc == ENOMEM ? -FI_EAGAIN : verbs_error(rc);
}

static ssize_t check(const struct efa_ep *ep, const struct op *op)
{
    if (op->count > EFA_SEGMENTS)
        return -FI_EINVAL;
    if (op->group == OP_GROUP_SEND &&
        (op->len > ep->max ||
         (op->flags & FI_INJECT && op->len > ep->domain->device->efa.inline_buf_size)))
        return -FI_EMSGSIZE;
    return op->flags & FI_REMOTE_CQ_DATA && op->group == OP_GROUP_SEND ? -FI_EOPNOTSUPP : 0;
}

static ssize_t post(struct ep *base, struct op *op)
{
    struct efa_ep *ep = object_of(base, struct efa_ep, base);
    ssize_t rc = op->group == OP_GROUP_SEND ? endpoint_settle(&ep->base, op) : 0;

    if (!rc)
        rc = ep->base.enabled ? check(ep, op) : -FI_EOPBADSTATE;
    if (rc)
        return rc;
    progress_lock(ep->progress);
    rc = op->group == OP_GROUP_SEND ? start_send(ep, op) : start_receive(ep, op);
    progress_unlock(ep->progress);
    return rc;
}

/* ---- Enabling ---- */

static int make_ready(struct efa_ep *ep)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .rnr_retry = RNR_ENDLESS, .qkey = ep->name.qkey};
    bool retries = ep->domain->device->efa.device_caps & EFADV_DEVICE_ATTR_CAPS_RNR_RETRY;
    int rc = verbs_lib.modify_qp(ep->qp, &attr,
                                 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);

    attr.qp_state = IBV_QPS_RTR;
    if (!rc)
        rc = verbs_lib.modify_qp(ep->qp, &attr, IBV_QP_STATE);
    attr.qp_state = IBV_QPS_RTS;
    if (!rc)
        rc = verbs_lib.modify_qp(ep->qp, &attr,
                                 IBV_QP_STATE | IBV_QP_SQ_PSN | (retries ? IBV_QP_RNR_RETRY : 0));
    return verbs_error(rc);
}

static void close_device(struct efa_ep *ep)
{
    if (ep->qp)
        verbs_lib.destroy_qp(ep->qp);
    if (ep->cq)
        verbs_lib.destroy_cq(ep->cq);
    if (ep->channel)
        verbs_lib.destroy_comp_channel(ep->channel);
    ep->channel = NULL;
    ep->qp = NULL;
    ep->cq = NULL;
}

/* Its events are taken with the progress domain locked: never waited for. Older devices have none.
 */
static void open_channel(struct efa_ep *ep)
{
    int flags;

    ep->channel = verbs_lib.create_comp_channel(ep->domain->device->context);
    if (!ep->channel)
        return;
    flags = fcntl(ep->channel->fd, F_GETFL);
    if (flags >= 0 && !fcntl(ep->channel->fd, F_SETFL, flags | O_NONBLOCK))
        return;
    verbs_lib.destroy_comp_channel(ep->channel);
    ep->channel = NULL;
}

/* A queue with events, or, of a device that does not give them, without. */
static struct ibv_cq *open_queue(struct efa_ep *ep, int size)
{
    struct ibv_context *context = ep->domain->device->context;
    struct ibv_cq *cq;

    open_channel(ep);
    cq = verbs_lib.create_cq(context, size, NULL, ep->channel, 0);
    if (!ep->channel || (cq && !ibv_req_notify_cq(cq, 0)))
        return cq;
    if (cq)
        verbs_lib.destroy_cq(cq);
    verbs_lib.destroy_comp_channel(ep->channel);
    ep->channel = NULL;
    return verbs_lib.create_cq(context, size, NULL, NULL, 0);
}

static int open_device(struct efa_ep *ep)
{
    const struct efa_device *device = ep->domain->device;
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_DRIVER,
        .sq_sig_all = 1,
        .cap = {.max_send_wr = (uint32_t)ep->base.tx_size,
                .max_recv_wr = (uint32_t)ep->base.rx_size,
                .max_send_sge = EFA_SEGMENTS,
                .max_recv_sge = device->efa.max_rq_sge < EFA_SEGMENTS ? 1 : EFA_SEGMENTS,
                .max_inline_data = device->efa.inline_buf_size},
    };

    ep->cq = open_queue(ep, (int)(ep->base.tx_size + ep->base.rx_size));
    attr.send_cq = attr.recv_cq = ep->cq;
    if (ep->cq)
        ep->qp = efa_direct.create_driver_qp(ep->domain->pd, &attr, EFADV_QP_DRIVER_TYPE_SRD);
    return ep->qp ? make_ready(ep) : verbs_error(-1);
}

/* Of numbers below 2^31, which programs may choose from. */
static uint32_t new_qkey(void)
{
    uint32_t qkey;

    if (getrandom(&qkey, sizeof(qkey), 0) != sizeof(qkey))
        qkey = (uint32_t)clock_ns();
    return qkey & INT32_MAX;
}

static int enable(struct endpoint *base)
{
    struct efa_ep *ep = ep_of(base);
    int rc;

    memcpy(ep->name.gid, &ep->domain->device->gid, sizeof(ep->name.gid));
    ep->name.qkey = new_qkey();
    rc = open_device(ep);
    if (rc) {
        close_device(ep);
        return rc;
    }
    ep->name.qpn = (uint16_t)ep->qp->qp_num;
    ep->progress = base->binding.progress;
    ep->source.fd = ep->channel ? ep->channel->fd : -1;
    progress_lock(ep->progress);
    rc = progress_attach(ep->progress, &ep->source);
    ep->attached = !rc;
    progress_unlock(ep->progress);
    if (rc)
        close_device(ep);
    return rc;
}

/* ---- The rest ---- */

static size_t limit(struct endpoint *base, int option)
{
    const struct efa_ep *ep = ep_of(base);

    switch (option) {
    case FI_OPT_MAX_MSG_SIZE: return ep->max;
    case FI_OPT_INJECT_MSG_SIZE: return ep->domain->device->efa.inline_buf_size;
    default: return 0;
    }
}

static size_t tx_used(const struct endpoint *base)
{
    return ep_of(base)->sends;
}

static size_t rx_used(struct endpoint *base)
{
    return ep_of(base)->receives;
}

static int close_ep(struct endpoint *base)
{
    struct efa_ep *ep = ep_of(base);

    if (ep->attached) {
        progress_lock(ep->progress);
        progress_detach(ep->progress, &ep->source);
        progress_unlock(ep->progress);
    }
    close_device(ep);
    endpoint_finish(base);
    pool_finish(&ep->wrs);
    free(ep);
    return 0;
}

/* There is none. */
static int set_shared_memory(struct endpoint *base, const void *value, size_t len)
{
    return len == sizeof(bool) ? 0 : -FI_EINVAL;
}

static const struct endpoint_option options[] = {
    {.name = FI_OPT_SHARED_MEMORY_PERMITTED, .kind = OPTION_FUNCTION, .set = set_shared_memory},
    {.name = 0},
};

static int ep_getname(fid_t fid, void *addr, size_t *len)
{
    struct efa_ep *ep = object_of(fid, struct efa_ep, fid.fid);
    size_t room = *len;

    *len = sizeof(ep->name);
    if (addr && room)
        memcpy(addr, &ep->name, room < sizeof(ep->name) ? room : sizeof(ep->name));
    return room < sizeof(ep->name) ? -FI_ETOOSMALL : 0;
}

static const struct endpoint_ops ops = {
    .post = post,
    .limit = limit,
    .enable = enable,
    .close = close_ep,
    .tx_used = tx_used,
    .rx_used = rx_used,
    .options = options,
    .own_sources = true,
};

static struct fi_ops_cm cm_ops = {
    .size = sizeof(cm_ops),
    .setname = enosys_cm_setname,
    .getname = ep_getname,
    NO_CM_CONNECTION,
};

int efa_ep_open(struct fid_domain *fid, struct fi_info *user_info, struct fid_ep **ret_ep,
                void *context)
{
    struct efa_domain *domain = efa_domain_of(fid);
    struct fi_info *info = fabric_info(domain->base.fabric, user_info);
    struct efa_ep *ep = calloc(1, sizeof(*ep));
    struct endpoint_attr attr = {
        .ops = &ops,
        .domain = &domain->base,
        .info = info,
        .fclass = FI_CLASS_EP,
        .context = context,
        .size = EFA_QUEUE,
        .iov_limit = EFA_SEGMENTS,
    };

    if (!info || !ep) {
        info_free(info);
        free(ep);
        return -FI_ENOMEM;
    }
    ep->domain = domain;
    ep->progress = &progress_none;
    ep->max = info->ep_attr->max_msg_size;
    ep->source.poll = poll_device;
    ep->source.trywait = trywait;
    ep->source.fd = -1;
    list_init(&ep->source.link);
    pool_init(&ep->wrs, sizeof(struct efa_wr), 0);
    attr.caps = caps_expand(info->caps);
    endpoint_init(&ep->base, &attr);
    ep->fid.cm = &cm_ops;
    ep->base.needs_av = true;
    info_free(info);
    *ret_ep = &ep->fid;
    return 0;
}
