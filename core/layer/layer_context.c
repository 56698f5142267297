/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared contexts, scalable endpoints and their contexts. All but shared transmit contexts, on
 * which nothing is posted, are endpoints to the rest of the room: core/layer/layer_ep.c. */
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/info/abi.h"
#include "core/info/info.h"
#include "core/layer/layer.h"

static struct layer_ep *own_of(struct fid_ep *fid)
{
    return *hook_own(&fid->fid);
}

/* ---- Contexts of scalable endpoints ---- */

/* The attr is the application's, in its layout of `size` bytes, and is filled in. */
static int open_context(struct fid_ep *fid, int index, void *attr, size_t size, bool transmits,
                        struct fid_ep **ep, void *context)
{
    union {
        uint64_t caps; /* the first member of both */
        struct fi_tx_attr tx;
        struct fi_rx_attr rx;
    } down = {.tx = {0}};
    struct layer_ep *sep = own_of(fid);
    struct layer_domain *domain = sep->domain;
    struct layer_ep *own = layer_ep_create(domain, info_dup(sep->info));
    uint64_t added = 0;
    int rc;

    if (!own)
        return -FI_ENOMEM;
    if (attr) {
        memcpy(&down, attr, size);
        added = down.caps & domain->ops->adds;
        down.caps &= ~added;
    }
    progress_lock(domain->progress);
    rc = transmits ? hook_ep_ops.tx_ctx(fid, index, attr ? &down.tx : NULL, ep, context)
                   : hook_ep_ops.rx_ctx(fid, index, attr ? &down.rx : NULL, ep, context);
    progress_unlock(domain->progress);
    rc = layer_ep_adopt(own, rc, ep);
    if (!rc && attr) {
        down.caps |= added;
        memcpy(attr, &down, size);
    }
    return rc;
}

int layer_tx_open(struct fid_ep *fid, int index, struct fi_tx_attr *attr, struct fid_ep **ep,
                  void *context)
{
    size_t size = abi_tx_attr_size(own_of(fid)->domain->base.fabric->abi);

    return open_context(fid, index, attr, size, true, ep, context);
}

int layer_rx_open(struct fid_ep *fid, int index, struct fi_rx_attr *attr, struct fid_ep **ep,
                  void *context)
{
    return open_context(fid, index, attr, sizeof(*attr), false, ep, context);
}

/* ---- Shared contexts ---- */

/* A context of an upper's (FI_PEER) would get the layer's own messages too. */
int layer_srx_open(struct fid_domain *fid, struct fi_rx_attr *attr, struct fid_ep **srx,
                   void *context)
{
    struct layer_domain *domain = layer_domain_of(fid);
    struct fi_rx_attr down = {0};
    struct layer_ep *own;
    int rc;

    if (attr && attr->op_flags & FI_PEER) {
        LOG_WARN(domain->base.fabric->part, FI_LOG_DOMAIN,
                 ": a receive context with FI_PEER would see this layer's own messages; open one "
                 "without, or place the layer above");
        return -FI_ENOSYS;
    }
    own = layer_ep_create(domain, info_dup(domain->base.info));
    if (!own)
        return -FI_ENOMEM;
    if (attr) {
        down = *attr;
        down.caps &= ~domain->ops->adds;
    }
    progress_lock(domain->progress);
    rc = hook_srx_open(fid, attr ? &down : NULL, srx, context);
    progress_unlock(domain->progress);
    return layer_ep_adopt(own, rc, srx);
}

int layer_stx_open(struct fid_domain *fid, struct fi_tx_attr *attr, struct fid_stx **stx,
                   void *context)
{
    struct layer_domain *domain = layer_domain_of(fid);
    struct fi_tx_attr down = {0};
    int rc;

    if (attr) {
        memcpy(&down, attr, abi_tx_attr_size(domain->base.fabric->abi));
        down.caps &= ~domain->ops->adds;
    }
    progress_lock(domain->progress);
    rc = hook_stx_open(fid, attr ? &down : NULL, stx, context);
    progress_unlock(domain->progress);
    return rc;
}

static int stx_close(struct fid *fid)
{
    struct layer_domain *domain = object_of(fid, struct hook_stx, fid.fid)->domain->own;
    int rc;

    progress_lock(domain->progress);
    rc = hook_object_fid_ops.close(fid);
    progress_unlock(domain->progress);
    return rc;
}

struct fi_ops layer_stx_fid_ops = {.size = sizeof(layer_stx_fid_ops), .close = stx_close};
