/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/ep/srx.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/base/seam.h"
#include "core/part/part.h"

static void add_user(struct srx *srx, struct srx_user *user, struct binding *binding)
{
    user->binding = binding;
    if (list_empty(&srx->users))
        match_set_binding(srx->match, binding);
    list_attach(&user->link, &srx->users);
}

int srx_join(struct srx *srx, struct srx_user *user, struct binding *binding)
{
    int rc = progress_merge(srx->progress, binding->progress);

    if (rc)
        return rc;
    progress_lock(srx->progress);
    add_user(srx, user, binding);
    progress_unlock(srx->progress);
    return 0;
}

int srx_attach(struct srx *srx, struct srx_user *user, struct match_source *source,
               struct binding *binding)
{
    int rc = progress_merge(srx->progress, binding->progress);

    if (rc)
        return rc;
    progress_lock(srx->progress);
    match_source_init(source, srx->match, FI_ADDR_NOTAVAIL);
    source->srx.peer_ops = srx->peer_ops;
    user->source = source;
    add_user(srx, user, binding);
    progress_unlock(srx->progress);
    return 0;
}

void srx_detach(struct srx *srx, struct srx_user *user)
{
    if (list_empty(&user->link))
        return;
    if (user->source)
        match_source_finish(user->source);
    list_detach(&user->link);
    match_set_binding(srx->match, list_empty(&srx->users)
                                      ? &srx->unbound
                                      : list_item(srx->users.next, struct srx_user, link)->binding);
}

/* ---- Receives ---- */

static ssize_t post(struct ep *ep, struct op *op)
{
    struct srx *srx = object_of(ep, struct srx, base);

    progress_lock(srx->progress);
    ssize_t rc = match_receive(srx->match, op);
    progress_unlock(srx->progress);
    return rc;
}

/* ---- Other operations ---- */

static ssize_t srx_cancel(fid_t fid, void *context)
{
    struct srx *srx = object_of(fid, struct srx, fid.fid);

    progress_lock(srx->progress);
    ssize_t rc = match_cancel(srx->match, context);
    progress_unlock(srx->progress);
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
    progress_lock(srx->progress);
    match_set_min_multi_recv(srx->match, *(const size_t *)optval);
    progress_unlock(srx->progress);
    return 0;
}

static struct fi_ops_ep own_ep_ops = {
    .size = sizeof(struct fi_ops_ep),
    .cancel = srx_cancel,
    .getopt = srx_getopt,
    .setopt = srx_setopt,
    NO_EP_CONTEXTS,
};

static int srx_close(struct fid *fid)
{
    struct srx *srx = object_of(fid, struct srx, fid.fid);

    if (children_any(&srx->children))
        return -FI_EBUSY;
    if (srx->progress) {
        progress_lock(srx->progress);
        match_destroy(srx->match);
        progress_unlock(srx->progress);
        progress_release(srx->progress);
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
    .bind = enosys_bind,
    .control = srx_control,
    .ops_open = ep_ops_open,
    .tostr = enosys_tostr,
    .ops_set = enosys_ops_set,
};

static int open_own(struct srx *srx, const struct match_attr *own, const struct fi_rx_attr *attr)
{
    struct match_attr match_attr = *own;
    int rc = progress_create(srx->domain->info->domain_attr, srx->domain->fabric->part,
                             srx->domain->progress_group, &srx->progress);

    if (rc)
        return rc;
    if (attr && attr->size)
        match_attr.size = attr->size;
    if (attr)
        match_attr.op_flags = attr->op_flags;
    rc = match_create(&match_attr, &srx->match);
    if (rc) {
        progress_release(srx->progress);
        return rc;
    }
    match_set_binding(srx->match, &srx->unbound);
    srx->fid.ops = &own_ep_ops;
    srx->base.post = post;
    srx->base.groups = OP_GROUP_RECV | OP_GROUP_TRECV;
    return 0;
}

static int open_peer(struct srx *srx, const struct fi_peer_srx_context *context)
{
    if (!context || context->size < sizeof(*context) || !context->srx)
        return -FI_EINVAL;
    srx->peer = context->srx;
    srx->peer->peer_ops = srx->peer_ops;
    srx->fid.ops = &enosys_ep_ops;
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
    srx->fid.cm = &enosys_cm_ops;
    ep_set_data_ops(&srx->base);
    int rc = peer ? open_peer(srx, context) : open_own(srx, own, attr);
    if (rc) {
        free(srx);
        return rc;
    }
    children_hold(&domain->children);
    *result = &srx->fid;
    return 0;
}

int srx_open_usual(struct fid_domain *fid, size_t min_multi_recv, struct fi_ops_srx_peer *peer_ops,
                   const struct fi_rx_attr *attr, struct fid_ep **srx, void *context)
{
    struct domain *domain = object_of(fid, struct domain, fid);
    const struct fi_rx_attr *usual = domain->info->rx_attr;
    const struct match_attr own = {
        .size = usual->size,
        .iov_limit = usual->iov_limit,
        .op_flags = usual->op_flags,
        .min_multi_recv = min_multi_recv,
        .directed = true,
    };

    return srx_open(domain, &own, peer_ops, attr, srx, context);
}
