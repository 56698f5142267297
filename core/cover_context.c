/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared contexts, scalable endpoints and their contexts. All but shared transmit contexts, on
 * which nothing is posted, are endpoints to the rest of the room: core/cover_ep.c. */
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/abi.h"
#include "core/cover.h"
#include "core/info.h"
#include "core/log.h"

static struct cover_ep *own_of(struct fid_ep *fid)
{
    return *pass_hook(&fid->fid);
}

/* ---- Contexts of scalable endpoints ---- */

/* The attr is the application's, in its layout, and is filled in. */
int cover_tx_open(struct fid_ep *fid, int index, struct fi_tx_attr *attr, struct fid_ep **ep,
                  void *context)
{
    struct cover_ep *sep = own_of(fid);
    struct cover_domain *domain = sep->domain;
    struct cover_ep *own = cover_ep_create(domain, info_dup(sep->info));
    size_t size = abi_tx_attr_size(domain->base.fabric->abi);
    struct fi_tx_attr down = {0};
    uint64_t added = 0;
    int rc;

    if (!own)
        return -FI_ENOMEM;
    if (attr) {
        memcpy(&down, attr, size);
        added = down.caps & domain->ops->adds;
        down.caps &= ~added;
    }
    unit_lock(domain->unit);
    rc = pass_ep_ops.tx_ctx(fid, index, attr ? &down : NULL, ep, context);
    unit_unlock(domain->unit);
    rc = cover_ep_adopt(own, rc, ep);
    if (!rc && attr) {
        down.caps |= added;
        memcpy(attr, &down, size);
    }
    return rc;
}

int cover_rx_open(struct fid_ep *fid, int index, struct fi_rx_attr *attr, struct fid_ep **ep,
                  void *context)
{
    struct cover_ep *sep = own_of(fid);
    struct cover_domain *domain = sep->domain;
    struct cover_ep *own = cover_ep_create(domain, info_dup(sep->info));
    struct fi_rx_attr down = {0};
    uint64_t added = 0;
    int rc;

    if (!own)
        return -FI_ENOMEM;
    if (attr) {
        down = *attr;
        added = down.caps & domain->ops->adds;
        down.caps &= ~added;
    }
    unit_lock(domain->unit);
    rc = pass_ep_ops.rx_ctx(fid, index, attr ? &down : NULL, ep, context);
    unit_unlock(domain->unit);
    rc = cover_ep_adopt(own, rc, ep);
    if (!rc && attr) {
        down.caps |= added;
        *attr = down;
    }
    return rc;
}

/* ---- Shared contexts ---- */

/* A context of an upper's (FI_PEER) would get the layer's own messages too. */
int cover_srx_open(struct fid_domain *fid, struct fi_rx_attr *attr, struct fid_ep **srx,
                   void *context)
{
    struct cover_domain *domain = cover_domain_of(fid);
    struct fi_rx_attr down = {0};
    struct cover_ep *own;
    int rc;

    if (attr && attr->op_flags & FI_PEER) {
        LOG_WARN(domain->base.fabric->part, FI_LOG_DOMAIN,
                 ": a receive context with FI_PEER would see this layer's own messages; open one "
                 "without, or place the layer above");
        return -FI_ENOSYS;
    }
    own = cover_ep_create(domain, info_dup(domain->base.info));
    if (!own)
        return -FI_ENOMEM;
    if (attr) {
        down = *attr;
        down.caps &= ~domain->ops->adds;
    }
    unit_lock(domain->unit);
    rc = pass_srx_open(fid, attr ? &down : NULL, srx, context);
    unit_unlock(domain->unit);
    return cover_ep_adopt(own, rc, srx);
}

int cover_stx_open(struct fid_domain *fid, struct fi_tx_attr *attr, struct fid_stx **stx,
                   void *context)
{
    struct cover_domain *domain = cover_domain_of(fid);
    struct fi_tx_attr down = {0};
    int rc;

    if (attr) {
        memcpy(&down, attr, abi_tx_attr_size(domain->base.fabric->abi));
        down.caps &= ~domain->ops->adds;
    }
    unit_lock(domain->unit);
    rc = pass_stx_open(fid, attr ? &down : NULL, stx, context);
    unit_unlock(domain->unit);
    return rc;
}

static int stx_close(struct fid *fid)
{
    struct cover_domain *domain = object_of(fid, struct pass_stx, fid.fid)->domain->hook;
    int rc;

    unit_lock(domain->unit);
    rc = pass_stx_fid_ops.close(fid);
    unit_unlock(domain->unit);
    return rc;
}

static struct fi_ops stx_fid_ops;

void cover_context_tables(struct pass_ops *tables)
{
    stx_fid_ops = pass_stx_fid_ops;
    stx_fid_ops.close = stx_close;
    tables->stx_fid = &stx_fid_ops;
}
