/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/lnx/lnx_mr.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/domain/mr.h"
#include "core/info/abi.h"
#include "core/queue/binding.h"
#include "layers/lnx/lnx_ep.h"
#include "layers/lnx/lnx_queue.h"

struct lnx_mr {
    struct fid_mr fid;
    struct lnx_key key; /* in domain->keys, where peers ask for the branches' */
    struct lnx_domain *domain;
    struct fid_mr *branch[LNX_BRANCHES]; /* NULL: not registered there */
    /* For branches where it is registered later. */
    struct fi_mr_attr attr;
    struct iovec *iov;
    struct fi_mr_dmabuf *dmabuf; /* with FI_MR_DMABUF */
    uint64_t flags;
    struct cntr *cntrs[2];
    size_t cntr_count;
};

static const uint64_t remote_access = FI_REMOTE_READ | FI_REMOTE_WRITE;

/* ---- Registration in a branch ---- */

/* Of a region of virtual addresses, in a branch that counts from its start. */
static uint64_t offset_in(const struct lnx_mr *mr, const struct lnx_branch *branch)
{
    bool virt = mr->domain->mr_bits & FI_MR_VIRT_ADDR && mr->iov;

    if (!virt || branch->virt || !mr->attr.iov_count)
        return mr->attr.offset;
    return mr->attr.offset + (uintptr_t)mr->iov[0].iov_base;
}

static int enter(struct lnx_mr *mr, unsigned index)
{
    const struct lnx_branch *branch = &mr->domain->branch[index];
    struct fi_mr_attr attr = mr->attr;

    if (attr.base_mr) {
        struct lnx_mr *base = object_of(attr.base_mr, struct lnx_mr, fid);
        int rc = base->branch[index] ? 0 : enter(base, index);

        if (rc)
            return rc;
        attr.base_mr = base->branch[index];
    }
    if (mr->flags & FI_MR_DMABUF)
        attr.dmabuf = mr->dmabuf;
    else
        attr.mr_iov = mr->iov;
    attr.offset = offset_in(mr, branch);
    attr.requested_key = mr->fid.key;
    return fi_mr_regattr(branch->domain, &attr, mr->flags, &mr->branch[index]);
}

static int leave_all(struct lnx_mr *mr)
{
    int rc = 0;

    for (unsigned i = 0; !rc && i < mr->domain->count; i++) {
        if (mr->branch[i])
            rc = fi_close(&mr->branch[i]->fid);
        if (!rc)
            mr->branch[i] = NULL;
    }
    return rc;
}

/* The branch that insists on keys of its own, or count. */
static unsigned chooser(const struct lnx_domain *domain)
{
    unsigned i = 0;

    while (i < domain->count && !domain->branch[i].keys)
        i++;
    return i;
}

/* Of keys that a peer cannot guess, where the application leaves them to us. */
static int draw_key(const struct lnx_domain *domain, uint64_t *key)
{
    size_t size = domain->base.info->domain_attr->mr_key_size;

    if (domain->own_keys)
        return lnx_keys_draw(&domain->keys, size, key);
    if (getrandom(key, sizeof(*key), 0) != sizeof(*key))
        return -FI_EAGAIN;
    if (size && size < sizeof(*key))
        *key &= (UINT64_C(1) << 8 * size) - 1;
    if (*key == FI_KEY_NOTAVAIL)
        *key = 1;
    return 0;
}

uint64_t lnx_mr_key_in(const struct lnx_key *key, unsigned branch)
{
    const struct lnx_mr *mr = object_of((struct lnx_key *)(uintptr_t)key, struct lnx_mr, key);

    return mr->branch[branch] ? fi_mr_key(mr->branch[branch]) : FI_KEY_NOTAVAIL;
}

/* Peers may ask for it. */
static void publish(struct lnx_mr *mr)
{
    mr->key.key = mr->fid.key;
    lnx_keys_add(&mr->domain->keys, &mr->key);
}

/* In all branches, the one that insists first. */
static int enter_all(struct lnx_mr *mr)
{
    struct lnx_domain *domain = mr->domain;
    unsigned first = chooser(domain);
    int rc = 0;

    mr->fid.key = mr->attr.requested_key;
    if (first < domain->count && !domain->own_keys) {
        rc = enter(mr, first);
        if (!rc)
            mr->fid.key = fi_mr_key(mr->branch[first]);
    } else if (domain->mr_bits & FI_MR_PROV_KEY) {
        rc = draw_key(domain, &mr->fid.key);
    }
    for (unsigned i = 0; !rc && i < domain->count; i++) {
        if (!mr->branch[i])
            rc = enter(mr, i);
    }
    if (rc)
        leave_all(mr);
    else if (domain->own_keys)
        publish(mr);
    return rc;
}

/* ---- Descriptors ---- */

static int translate_list(struct lnx_domain *domain, unsigned branch, void ***descs, size_t count,
                          void **room)
{
    bool wanted = domain->branch[branch].local_mr;

    if (!*descs)
        return 0;
    if (count > LNX_DESCS)
        return -FI_EINVAL;
    for (size_t i = 0; i < count; i++) {
        struct lnx_mr *mr = (*descs)[i];
        int rc = wanted && mr && !mr->branch[branch] ? enter(mr, branch) : 0;

        if (rc)
            return rc;
        room[i] = wanted && mr ? fi_mr_desc(mr->branch[branch]) : NULL;
    }
    *descs = room;
    return 0;
}

int lnx_mr_translate(struct lnx_domain *domain, unsigned branch, struct op *op,
                     struct lnx_descs *room)
{
    int rc = translate_list(domain, branch, &op->desc, op->count, room->local);

    if (!rc && op->group == OP_GROUP_ATOMIC) {
        rc = translate_list(domain, branch, &op->result.desc, op->result.count, room->result);
        if (!rc)
            rc =
                translate_list(domain, branch, &op->compare.desc, op->compare.count, room->compare);
    }
    return rc;
}

/* ---- The object ---- */

static struct lnx_mr *mr_of(struct fid *fid)
{
    return object_of(fid, struct lnx_mr, fid.fid);
}

static void destroy(struct lnx_mr *mr)
{
    free(mr->dmabuf);
    free(mr->iov);
    free(mr);
}

static int mr_close(struct fid *fid)
{
    struct lnx_mr *mr = mr_of(fid);
    int rc;

    progress_lock(mr->domain->progress);
    rc = leave_all(mr);
    if (!rc)
        lnx_keys_remove(&mr->key);
    progress_unlock(mr->domain->progress);
    if (rc)
        return rc;
    if (mr->attr.access & remote_access)
        progress_group_sync(
            mr->domain->base.progress_group); /* for branches, which our lock locks */
    for (size_t i = 0; i < mr->cntr_count; i++)
        children_release(&mr->cntrs[i]->children);
    children_release(&mr->domain->base.children);
    destroy(mr);
    return 0;
}

static int bind_cntr(struct lnx_mr *mr, struct cntr *cntr, uint64_t flags)
{
    struct lnx_domain *domain = mr->domain;
    int rc = 0;

    if (!cntr || cntr->domain != &domain->base || mr->cntr_count == 2)
        return -FI_EINVAL;
    progress_lock(domain->progress);
    for (unsigned i = 0; !rc && i < domain->count; i++) {
        struct fid_cntr *below;

        if (!mr->branch[i])
            continue;
        rc = lnx_cntr_below(domain, cntr, i, &below);
        if (!rc)
            rc = fi_mr_bind(mr->branch[i], &below->fid, flags);
    }
    progress_unlock(domain->progress);
    if (rc)
        return rc;
    mr->cntrs[mr->cntr_count++] = cntr;
    children_hold(&cntr->children);
    return 0;
}

static int bind_ep(struct lnx_mr *mr, struct lnx_ep *ep, uint64_t flags)
{
    int rc = 0;

    if (ep->domain != mr->domain)
        return -FI_EINVAL;
    progress_lock(mr->domain->progress);
    for (unsigned i = 0; !rc && i < mr->domain->count; i++) {
        if (mr->branch[i] && ep->branch[i].ep)
            rc = fi_mr_bind(mr->branch[i], &ep->branch[i].ep->fid, flags);
    }
    progress_unlock(mr->domain->progress);
    return rc;
}

static int mr_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct lnx_mr *mr = mr_of(fid);

    if (other->fclass == FI_CLASS_EP)
        return bind_ep(mr, object_of(other, struct lnx_ep, fid.fid), flags);
    return bind_cntr(mr, cntr_of(other), flags);
}

static int mr_control(struct fid *fid, int command, void *arg)
{
    struct lnx_mr *mr = mr_of(fid);
    int rc = 0;

    if (command == FI_GET_RAW_MR)
        return -FI_ENOSYS;
    progress_lock(mr->domain->progress);
    for (unsigned i = 0; !rc && i < mr->domain->count; i++) {
        if (!mr->branch[i])
            continue;
        rc = fi_control(&mr->branch[i]->fid, command, arg);
        if (command == FI_ENABLE && rc == -FI_ENOSYS)
            rc = 0; /* usable from the start */
    }
    progress_unlock(mr->domain->progress);
    return rc;
}

static struct fi_ops mr_fid_ops = {
    .size = sizeof(mr_fid_ops),
    .close = mr_close,
    .bind = mr_bind,
    .control = mr_control,
    .ops_open = enosys_ops_open,
    .tostr = enosys_tostr,
    .ops_set = enosys_ops_set,
};

static int keep_dmabuf(struct lnx_mr *mr, const struct fi_mr_attr *attr)
{
    mr->dmabuf = calloc(attr->iov_count, sizeof(*mr->dmabuf));
    if (!mr->dmabuf)
        return -FI_ENOMEM;
    memcpy(mr->dmabuf, attr->dmabuf, attr->iov_count * sizeof(*mr->dmabuf));
    return 0;
}

/* Copies attr with its segments, which belong to the caller. */
static int keep_attr(struct lnx_mr *mr, const struct fi_mr_attr *attr)
{
    mr->attr = *attr;
    if (mr->flags & FI_MR_DMABUF)
        return keep_dmabuf(mr, attr);
    mr->iov = calloc(attr->iov_count ? attr->iov_count : 1, sizeof(*mr->iov));
    if (!mr->iov)
        return -FI_ENOMEM;
    if (attr->iov_count)
        memcpy(mr->iov, attr->mr_iov, attr->iov_count * sizeof(*mr->iov));
    mr->attr.mr_iov = mr->iov;
    return 0;
}

/* Memory of devices is for a face that has it, beside which no branch is then. */
static int check_attr(const struct lnx_domain *domain, const struct fi_mr_attr *attr,
                      uint64_t flags)
{
    if ((!domain->devices && (flags & FI_MR_DMABUF || attr->iface != FI_HMEM_SYSTEM)) ||
        attr->auth_key_size)
        return -FI_ENOSYS;
    if (flags & FI_MR_DMABUF)
        return attr->iov_count && attr->dmabuf ? 0 : -FI_EINVAL;
    return attr->iov_count && !attr->mr_iov ? -FI_EINVAL : 0;
}

static int regattr(struct fid *fid, const struct fi_mr_attr *theirs, uint64_t flags,
                   struct fid_mr **ret_mr)
{
    struct lnx_domain *domain = object_of(fid, struct lnx_domain, base.fid.fid);
    struct fi_mr_attr attr;
    struct lnx_mr *mr;
    int rc;

    abi_mr_attr_import(theirs, domain->base.fabric->abi, &attr);
    rc = check_attr(domain, &attr, flags);
    if (rc)
        return rc;
    mr = calloc(1, sizeof(*mr));
    if (!mr)
        return -FI_ENOMEM;
    mr->domain = domain;
    mr->flags = flags;
    rc = keep_attr(mr, &attr);
    fid_init(&mr->fid.fid, FI_CLASS_MR, attr.context, &mr_fid_ops);
    mr->fid.key = attr.requested_key;
    progress_lock(domain->progress);
    /* The first branch says whether it can be registered at all. */
    if (!rc)
        rc = attr.access & remote_access || !domain->local_mr ? enter_all(mr) : enter(mr, 0);
    progress_unlock(domain->progress);
    if (rc) {
        destroy(mr);
        return rc;
    }
    mr->fid.mem_desc = domain->local_mr ? mr : NULL;
    children_hold(&domain->base.children);
    *ret_mr = &mr->fid;
    return 0;
}

struct fi_ops_mr lnx_mr_ops = {
    .size = sizeof(lnx_mr_ops),
    .reg = mr_reg,
    .regv = mr_regv,
    .regattr = regattr,
};
