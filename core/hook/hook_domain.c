/* SPDX-License-Identifier: BSD-2-Clause */
/* Domains and memory regions. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/hook/hook.h"
#include "core/hook/hook_trigger.h"
#include "core/hook/hook_watch.h"
#include "core/info/abi.h"
#include "core/info/info.h"

/* ---- Domains ---- */

int hook_domain_open(struct hook_fabric *fabric, struct fi_info *info,
                     struct fid_domain **ret_domain, uint64_t flags, void *context)
{
    struct fi_info *down = hook_info_down(fabric, info);
    struct hook_domain *domain = calloc(1, sizeof(*domain));
    struct hook_opening opening = {.parent = &fabric->base.fid.fid,
                                   .context = context,
                                   .flags = flags,
                                   .info = down,
                                   .peer = flags & FI_PEER};
    int rc;

    if (!down || !domain) {
        info_free(down);
        free(domain);
        return -FI_ENOMEM;
    }
    fid_init(&domain->fid.fid, FI_CLASS_DOMAIN, context, fabric->ops.domain_fid);
    domain->fid.ops = fabric->ops.domain;
    domain->fid.mr = fabric->ops.mr;
    domain->fabric = fabric;
    domain->info = down;
    hook_works_init(domain);
    rc = hook_opening(fabric, &domain->fid.fid, &opening);
    /* With FI_PEER the context is the upper's own domain, which is no object of ours. */
    if (!rc)
        rc =
            fi_domain2(fabric->lower, down, &domain->lower, flags, opening.peer ? context : domain);
    if (rc) {
        hook_works_finish(domain);
    } else {
        pthread_mutex_lock(&fabric->mutex);
        list_attach(&domain->link, &fabric->domains);
        pthread_mutex_unlock(&fabric->mutex);
    }
    rc = hook_opened(fabric, &fabric->base.children, &domain->fid.fid, rc, &opening);
    if (rc)
        info_free(down);
    else
        *ret_domain = &domain->fid;
    return rc;
}

static struct hook_domain *domain_of(struct fid *fid)
{
    return object_of(fid, struct hook_domain, fid.fid);
}

static int domain_close(struct fid *fid)
{
    struct hook_domain *domain = domain_of(fid);
    struct hook_fabric *fabric = domain->fabric;
    struct fi_info *info = domain->info;
    int rc;

    if (children_any(&domain->children))
        return -FI_EBUSY;
    rc = fi_close(&domain->lower->fid);
    if (rc)
        return rc;
    hook_tell_closed(fabric, fid);
    pthread_mutex_lock(&fabric->mutex);
    list_detach(&domain->link);
    pthread_mutex_unlock(&fabric->mutex);
    hook_works_finish(domain);
    info_free(info);
    hook_retire(fabric, fid);
    children_release(&fabric->base.children);
    return 0;
}

static int control_work(struct hook_domain *domain, int command, void *arg)
{
    if (!domain->fabric->triggers)
        return -FI_ENOSYS;
    switch (command) {
    case FI_QUEUE_WORK: return hook_work_queue(domain, arg);
    case FI_CANCEL_WORK: return hook_work_cancel(domain, arg);
    default: return hook_work_flush(domain, arg);
    }
}

static int domain_control(struct fid *fid, int command, void *arg)
{
    switch (command) {
    case FI_QUEUE_WORK:
    case FI_CANCEL_WORK:
    case FI_FLUSH_WORK: return control_work(domain_of(fid), command, arg);
    default: return hook_control(fid, command, arg);
    }
}

struct fi_ops hook_domain_fid_ops = {
    .size = sizeof(hook_domain_fid_ops),
    .close = domain_close,
    .bind = hook_bind,
    .control = domain_control,
    .ops_open = hook_ops_open,
    .tostr = enosys_tostr,
    .ops_set = hook_ops_set,
};

HOOK_PASS(int, query_atomic, (hook_domain_of(fid)->lower, datatype, op, attr, flags),
          struct fid_domain *fid, enum fi_datatype datatype, enum fi_op op,
          struct fi_atomic_attr *attr, uint64_t flags)
HOOK_PASS(int, query_collective, (hook_domain_of(fid)->lower, coll, attr, flags),
          struct fid_domain *fid, enum fi_collective_op coll, struct fi_collective_attr *attr,
          uint64_t flags)

struct fi_ops_domain hook_domain_ops = {
    .size = sizeof(hook_domain_ops),
    .av_open = hook_av_open,
    .cq_open = hook_cq_open,
    .endpoint = hook_ep_open,
    .scalable_ep = hook_sep_open,
    .cntr_open = hook_cntr_open,
    .poll_open = hook_poll_open,
    .stx_ctx = hook_stx_open,
    .srx_ctx = hook_srx_open,
    .query_atomic = query_atomic,
    .query_collective = query_collective,
    .endpoint2 = hook_ep_open2,
};

/* ---- Memory regions ---- */

static struct hook_mr *mr_of(struct fid *fid)
{
    return object_of(fid, struct hook_mr, fid.fid);
}

/* Read inline by the application: fi_mr_desc, fi_mr_key. */
static void copy_desc_and_key(struct hook_mr *mr)
{
    mr->fid.mem_desc = fi_mr_desc(mr->lower);
    mr->fid.key = fi_mr_key(mr->lower);
}

/* The key of a domain of FI_AV_AUTH_KEY names an address vector, which is the lower's below. */
static void translate_key(const struct hook_domain *domain, struct fi_mr_attr *attr,
                          struct fi_mr_auth_key *key)
{
    if (domain->info->domain_attr->auth_key_size != FI_AV_AUTH_KEY ||
        attr->auth_key_size != sizeof(*key) || !attr->auth_key)
        return;
    memcpy(key, attr->auth_key, sizeof(*key));
    if (key->av)
        key->av = object_of(key->av, struct hook_av, fid)->lower;
    attr->auth_key = (uint8_t *)key;
}

static int regattr_lower(struct hook_mr *mr, const struct fi_mr_attr *attr, uint64_t flags)
{
    struct fi_mr_attr down = *attr;
    struct fi_mr_auth_key key;

    down.context = mr;
    if (down.base_mr)
        down.base_mr = object_of(down.base_mr, struct hook_mr, fid)->lower;
    translate_key(mr->domain, &down, &key);
    return fi_mr_regattr(mr->domain->lower, &down, flags, &mr->lower);
}

/* reg and regv go down as what they are: not every lower treats all three alike. */
static int reg_lower(struct hook_mr *mr, enum hook_mr_call call, const struct fi_mr_attr *attr,
                     uint64_t flags)
{
    struct fid_domain *lower = mr->domain->lower;
    const struct iovec *iov = attr->mr_iov;

    if (call == HOOK_MR_REGATTR)
        return regattr_lower(mr, attr, flags);
    if (attr->iov_count != 1)
        return fi_mr_regv(lower, iov, attr->iov_count, attr->access, attr->offset,
                          attr->requested_key, flags, &mr->lower, mr);
    return fi_mr_reg(lower, iov->iov_base, iov->iov_len, attr->access, attr->offset,
                     attr->requested_key, flags, &mr->lower, mr);
}

/* attr: in the current layout. */
static int open_mr(struct fid *fid, enum hook_mr_call call, const struct fi_mr_attr *attr,
                   uint64_t flags, struct fid_mr **ret_mr)
{
    struct hook_domain *domain = domain_of(fid);
    struct hook_mr *mr = calloc(1, sizeof(*mr));
    struct hook_opening opening = {
        .parent = fid, .context = attr->context, .flags = flags, .mr = attr, .mr_call = call};
    int rc;

    if (!mr)
        return -FI_ENOMEM;
    fid_init(&mr->fid.fid, FI_CLASS_MR, attr->context, domain->fabric->ops.mr_fid);
    mr->domain = domain;
    if (!(flags & FI_MR_DMABUF) && attr->mr_iov) {
        opening.iov = attr->mr_iov;
        opening.iov_count = attr->iov_count;
    }
    rc = hook_opening(domain->fabric, &mr->fid.fid, &opening);
    if (!rc)
        rc = reg_lower(mr, call, attr, flags);
    if (!rc)
        copy_desc_and_key(mr);
    rc = hook_opened(domain->fabric, &domain->children, &mr->fid.fid, rc, &opening);
    if (!rc)
        *ret_mr = &mr->fid;
    return rc;
}

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
                      struct fid_mr **mr)
{
    struct fi_mr_attr current;

    abi_mr_attr_import(attr, domain_of(fid)->fabric->base.abi, &current);
    return open_mr(fid, HOOK_MR_REGATTR, &current, flags, mr);
}

static int mr_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access,
                   uint64_t offset, uint64_t requested_key, uint64_t flags, struct fid_mr **mr,
                   void *context)
{
    const struct fi_mr_attr attr = {.mr_iov = iov,
                                    .iov_count = count,
                                    .access = access,
                                    .offset = offset,
                                    .requested_key = requested_key,
                                    .context = context};

    return open_mr(fid, HOOK_MR_REGV, &attr, flags, mr);
}

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
                  uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context)
{
    const struct iovec iov = {.iov_base = (void *)buf, .iov_len = len};
    const struct fi_mr_attr attr = {.mr_iov = &iov,
                                    .iov_count = 1,
                                    .access = access,
                                    .offset = offset,
                                    .requested_key = requested_key,
                                    .context = context};

    return open_mr(fid, HOOK_MR_REG, &attr, flags, mr);
}

struct fi_ops_mr hook_mr_ops = {
    .size = sizeof(hook_mr_ops),
    .reg = mr_reg,
    .regv = mr_regv,
    .regattr = mr_regattr,
};

static int mr_control(struct fid *fid, int command, void *arg)
{
    struct hook_mr *mr = mr_of(fid);
    int rc = hook_control(fid, command, arg);

    copy_desc_and_key(mr); /* FI_ENABLE and FI_REFRESH may have given new ones */
    return rc;
}

struct fi_ops hook_mr_fid_ops = {
    .size = sizeof(hook_mr_fid_ops),
    .close = hook_object_close,
    .bind = hook_bind,
    .control = mr_control,
    .ops_open = enosys_ops_open,
    .tostr = enosys_tostr,
    .ops_set = hook_ops_set,
};
