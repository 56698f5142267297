/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/shm/shm_sep.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/base/fork.h"
#include "core/base/log.h"
#include "transports/shm/shm_listener.h"

static struct shm_sep *own_of(struct sep *sep)
{
    return object_of(sep, struct shm_sep, base);
}

/* ---- Contexts ---- */

void shm_sep_leave(struct shm_ep *context)
{
    struct shm_sep *sep = context->sep;
    size_t class = context->fid.fid.fclass;

    sep_leave(&sep->base, class, context->context);
    if (class == FI_CLASS_TX_CTX || context->context || context->forks != fork_generation)
        return;
    if (shm_listener_bind(sep->name, 0, &sep->listener))
        LOG_WARN(sep->base.domain->fabric->part, FI_LOG_EP_CTRL, ": somebody else is %s now",
                 sep->name);
}

/* ---- The endpoint itself ---- */

static int sep_setname(struct sep *base, void *addr, size_t len)
{
    struct shm_sep *sep = own_of(base);
    char name[SHM_NAME_MAX];
    int rc;

    if (sep_has_contexts(&sep->base))
        return -FI_EOPBADSTATE;
    rc = addr ? shm_name_import(addr, len, name) : -FI_EINVAL;
    if (!rc)
        rc = shm_listener_open(name, &sep->listener);
    if (!rc)
        memcpy(sep->name, name, sizeof(sep->name));
    return rc;
}

static int sep_getname(struct sep *base, void *addr, size_t *len)
{
    return shm_name_give(own_of(base)->name, addr, len);
}

static void sep_close(struct sep *base)
{
    struct shm_sep *sep = own_of(base);

    if (sep->listener >= 0)
        close(sep->listener);
    sep_finish(base);
    free(sep);
}

static const struct sep_ops ops = {
    .open = shm_ep_open_context,
    .setname = sep_setname,
    .getname = sep_getname,
    .close = sep_close,
};

static int open_listener(struct shm_sep *sep)
{
    const struct fi_info *info = sep->base.info;
    int rc;

    if (info->src_addr)
        rc = shm_name_import(info->src_addr, info->src_addrlen, sep->name);
    else
        rc = shm_name_make(NULL, NULL, sep->name);
    return rc ? rc : shm_listener_open(sep->name, &sep->listener);
}

int shm_sep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ret_sep,
                 void *context)
{
    struct domain *domain = object_of(fid, struct domain, fid);
    struct shm_sep *sep = calloc(1, sizeof(*sep));
    int rc;

    if (!sep)
        return -FI_ENOMEM;
    sep->listener = -1;
    rc = sep_init(&sep->base, domain, info, &ops, context);
    if (!rc)
        rc = open_listener(sep);
    if (rc) {
        LOG_WARN(domain->fabric->part, FI_LOG_EP_CTRL, ": no scalable endpoint at '%s': %s",
                 sep->name, fi_strerror(-rc));
        sep_close(&sep->base);
        return rc;
    }
    *ret_sep = &sep->base.fid;
    return 0;
}
