/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/srx.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/part.h"
#include "core/post.h"

static struct srx *srx_of(struct fid_ep *fid)
{
    return object_of(fid, struct srx, fid);
}

static void add_user(struct srx *srx, struct srx_user *user, struct report *report)
{
    user->report = report;
    if (list_empty(&srx->users))
        match_set_report(srx->match, report);
    list_attach(&user->link, &srx->users);
}

int srx_join(struct srx *srx, struct srx_user *user, struct report *report)
{
    int rc = unit_merge(srx->unit, report->unit);

    if (rc)
        return rc;
    unit_lock(srx->unit);
    add_user(srx, user, report);
    unit_unlock(srx->unit);
    return 0;
}

int srx_attach(struct srx *srx, struct srx_user *user, struct match_source *source,
               struct report *report)
{
    int rc = unit_merge(srx->unit, report->unit);

    if (rc)
        return rc;
    unit_lock(srx->unit);
    match_source_init(source, srx->match, FI_ADDR_NOTAVAIL);
    source->srx.peer_ops = srx->peer_ops;
    user->source = source;
    add_user(srx, user, report);
    unit_unlock(srx->unit);
    return 0;
}

void srx_detach(struct srx *srx, struct srx_user *user)
{
    if (list_empty(&user->link))
        return;
    if (user->source)
        match_source_finish(user->source);
    list_detach(&user->link);
    match_set_report(srx->match, list_empty(&srx->users)
                                     ? &srx->unbound
                                     : list_item(srx->users.next, struct srx_user, link)->report);
}

/* ---- Receives ---- */

static uint64_t rx_flags(struct fid_ep *fid)
{
    return match_op_flags(srx_of(fid)->match);
}

static ssize_t msg_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    struct srx *srx = srx_of(fid);

    unit_lock(srx->unit);
    ssize_t rc = match_recv(srx->match, msg, flags);
    unit_unlock(srx->unit);
    return rc;
}

static ssize_t tagged_recvmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
    struct srx *srx = srx_of(fid);

    unit_lock(srx->unit);
    ssize_t rc = match_trecv(srx->match, msg, flags);
    unit_unlock(srx->unit);
    return rc;
}

#include "core/post_recv.inc"
#include "core/post_trecv.inc"

static struct fi_ops_msg msg_ops = {.size = sizeof(struct fi_ops_msg), POST_RECV, NO_SEND};
static struct fi_ops_tagged tagged_ops = {
    .size = sizeof(struct fi_ops_tagged), POST_TRECV, NO_TSEND};

/* ---- Other operations ---- */

static ssize_t srx_cancel(fid_t fid, void *context)
{
    struct srx *srx = object_of(fid, struct srx, fid.fid);

    unit_lock(srx->unit);
    ssize_t rc = match_cancel(srx->match, context);
    unit_unlock(srx->unit);
    return rc;
}

static int srx_getopt(fid_t fid, int level, int optname, void *optval, size_t *optlen)
{
    struct srx *srx = object_of(fid, struct srx, fid.fid);

    if (level != FI_OPT_ENDPOINT || optname != FI_OPT_MIN_MULTI_RECV)
        return -FI_ENOPROTOOPT;
    if (*optlen < sizeof(size_t))
        return -FI_ETOOSMALL;
    *(size_t *)optval = match_min_multi_recv(srx->match);
    *optlen = sizeof(size_t);
    return 0;
}

static int srx_setopt(fid_t fid, int level, int optname, const void *optval, size_t optlen)
{
    struct srx *srx = object_of(fid, struct srx, fid.fid);

    if (level == FI_OPT_ENDPOINT && optname == OPT_MATCH_WATCH)
        return match_watch_option(srx->match, optval);
    if (level != FI_OPT_ENDPOINT || optname != FI_OPT_MIN_MULTI_RECV)
        return -FI_ENOPROTOOPT;
    if (optlen != sizeof(size_t))
        return -FI_EINVAL;
    unit_lock(srx->unit);
    match_set_min_multi_recv(srx->match, *(const size_t *)optval);
    unit_unlock(srx->unit);
    return 0;
}

static struct fi_ops_ep own_ep_ops = {
    .size = sizeof(struct fi_ops_ep),
    .cancel = srx_cancel,
    .getopt = srx_getopt,
    .setopt = srx_setopt,
    .tx_ctx = no_ep_tx_ctx,
    .rx_ctx = no_ep_rx_ctx,
    .rx_size_left = no_ep_rx_size_left,
    .tx_size_left = no_ep_tx_size_left,
};

static int srx_close(struct fid *fid)
{
    struct srx *srx = object_of(fid, struct srx, fid.fid);

    if (children_any(&srx->children))
        return -FI_EBUSY;
    if (srx->unit) {
        unit_lock(srx->unit);
        match_destroy(srx->match);
        unit_unlock(srx->unit);
        unit_release(srx->unit);
    }
    children_release(&srx->domain->children);
    free(srx);
    return 0;
}

/* fi_enable of a receive context has nothing to do. */
static int srx_control(struct fid *fid, int command, void *arg)
{
    return command == FI_ENABLE ? 0 : -FI_ENOSYS;
}

static struct fi_ops fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = srx_close,
    .bind = no_bind,
    .control = srx_control,
    .ops_open = no_ops_open,
    .tostr = no_tostr,
    .ops_set = no_ops_set,
};

static int open_own(struct srx *srx, const struct match_attr *own, const struct fi_rx_attr *attr)
{
    struct match_attr match_attr = *own;
    int rc = unit_create(srx->domain->info->domain_attr, srx->domain->fabric->part, &srx->unit);

    if (rc)
        return rc;
    if (attr && attr->size)
        match_attr.size = attr->size;
    if (attr)
        match_attr.op_flags = attr->op_flags;
    rc = match_create(&match_attr, &srx->match);
    if (rc) {
        unit_release(srx->unit);
        return rc;
    }
    match_set_report(srx->match, &srx->unbound);
    srx->fid.ops = &own_ep_ops;
    srx->fid.msg = &msg_ops;
    srx->fid.tagged = &tagged_ops;
    return 0;
}

static int open_peer(struct srx *srx, const struct fi_peer_srx_context *context)
{
    if (!context || context->size < sizeof(*context) || !context->srx)
        return -FI_EINVAL;
    srx->peer = context->srx;
    srx->peer->peer_ops = srx->peer_ops;
    srx->fid.ops = &no_ep_ops;
    srx->fid.msg = &no_msg_ops;
    srx->fid.tagged = &no_tagged_ops;
    return 0;
}

int srx_open(struct domain *domain, const struct match_attr *own, struct fi_ops_srx_peer *peer_ops,
             const struct fi_rx_attr *attr, struct fid_ep **result, void *context)
{
    bool peer = attr && attr->op_flags & FI_PEER;
    struct srx *srx;

    if (!peer && !own)
        return -FI_ENOSYS;
    srx = calloc(1, sizeof(*srx));
    if (!srx)
        return -FI_ENOMEM;
    srx->domain = domain;
    srx->peer_ops = peer_ops;
    list_init(&srx->users);
    fid_init(&srx->fid.fid, FI_CLASS_SRX_CTX, peer ? NULL : context, &fid_ops);
    srx->fid.cm = &no_cm_ops;
    srx->fid.rma = &no_rma_ops;
    srx->fid.atomic = &no_atomic_ops;
    srx->fid.collective = &no_collective_ops;
    int rc = peer ? open_peer(srx, context) : open_own(srx, own, attr);
    if (rc) {
        free(srx);
        return rc;
    }
    children_hold(&domain->children);
    *result = &srx->fid;
    return 0;
}
