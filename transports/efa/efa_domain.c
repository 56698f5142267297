/* SPDX-License-Identifier: BSD-2-Clause */
/* Fabric and domain: a protection domain. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/base/log.h"
#include "core/domain/domain.h"
#include "core/domain/mr.h"
#include "core/info/abi.h"
#include "transports/efa/efa.h"

/* ---- Domain ---- */

static int domain_close(struct fid *fid)
{
    struct efa_domain *domain = object_of(fid, struct efa_domain, base.fid.fid);
    int rc;

    if (children_any(&domain->base.children))
        return -FI_EBUSY;
    rc = verbs_lib.dealloc_pd(domain->pd);
    if (rc)
        return verbs_error(rc);
    domain_finish(&domain->base);
    pthread_mutex_destroy(&domain->mutex);
    free(domain->by_number);
    free(domain);
    return 0;
}

/* Of the device's codes (efa_cq.c). */
static const char *code_text(const struct domain *domain, int code)
{
    static const char *const texts[] = {
        [1] = "the queue pair was flushed",
        [2] = "an error of the own queue pair",
        [3] = "an operation that the queue pair does not know",
        [4] = "the address handle is not valid",
        [5] = "the local key is not valid",
        [6] = "longer than the device or the local segments take",
        [7] = "the remote address is not valid",
        [8] = "the peer's device gave up",
        [9] = "the peer has no such queue pair: its process may have ended",
        [10] = "the peer has no receive posted",
        [11] = "longer than the peer's receive",
        [12] = "the peer's device answered with a status that does not belong there",
        [13] = "the peer does not answer",
        [14] = "the peer does not know this address",
        [15] = "the peer cannot be reached",
        [18] =
            "the ends of a write with data take it in two ways (FI_EFA_USE_UNSOLICITED_WRITE_RECV)",
    };

    return code > 0 && code < (int)(sizeof(texts) / sizeof(*texts)) ? texts[code] : NULL;
}

static int domain_control(struct fid *fid, int command, void *arg)
{
    const struct own_addr *addr = arg;
    struct error_text *error = arg;

    if (command == CONTROL_ERROR_TEXT) {
        error->text = code_text(NULL, error->code);
        return error->text ? 0 : -FI_ENOSYS;
    }
    if (command != CONTROL_ADDR)
        return efa_ops_own(fid, command, arg);
    return addr->len == EFA_ADDR_SIZE && efa_av_usable(addr->bytes) ? 0 : -FI_EINVAL;
}

static struct fi_ops fid_ops = {
    .size = sizeof(fid_ops),
    .close = domain_close,
    .bind = enosys_bind,
    .control = domain_control,
    .ops_open = efa_ops_open_domain,
    .tostr = enosys_tostr,
    .ops_set = enosys_ops_set,
};

static struct fi_ops_domain domain_ops = {
    .size = sizeof(domain_ops),
    .av_open = efa_av_open,
    .cq_open = efa_quick_cq_open,
    .endpoint = efa_ep_open,
};

/* "efa_0" of "efa_0-rdm". */
static struct efa_device *device_of(const struct fi_info *info)
{
    const char *name = info->domain_attr->name, *end = name ? strrchr(name, '-') : NULL;

    return end ? efa_device_find(name, (size_t)(end - name)) : NULL;
}

static int fabric_domain(struct fid_fabric *fid, struct fi_info *info,
                         struct fid_domain **ret_domain, void *context)
{
    struct efa_domain *domain = calloc(1, sizeof(*domain));
    int rc;

    if (!domain)
        return -FI_ENOMEM;
    rc = domain_init(&domain->base, object_of(fid, struct fabric, fid), info, &fid_ops,
                     domain_table(&domain_ops), &efa_mr_table, context);
    if (rc) {
        free(domain);
        return rc;
    }
    domain->base.error_text = code_text;
    domain->made_most = (size_t)params_int(efa_params(domain), "ah_cache_size");
    list_init(&domain->recent);
    domain->device = device_of(domain->base.info);
    domain->pd = domain->device ? verbs_lib.alloc_pd(domain->device->context) : NULL;
    if (!domain->pd) {
        rc = domain->device ? verbs_error(-1) : -FI_ENODEV;
        domain_finish(&domain->base);
        free(domain);
        return rc;
    }
    pthread_mutex_init(&domain->mutex, NULL);
    *ret_domain = &domain->base.fid;
    return 0;
}

int efa_open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context)
{
    struct efa_fabric *efa;
    struct plain_fabric *plain;
    int rc = plain_fabric_create(sizeof(*efa), args, fabric_domain, &plain, context);

    if (rc)
        return rc;
    efa = object_of(plain, struct efa_fabric, plain);
    efa->direct = efa_is_direct(args->attr);
    efa->fid_ops = *plain->base.fid.fid.ops;
    efa->fid_ops.control = efa_ops_own;
    efa->fid_ops.ops_open = efa_ops_open_fabric;
    plain->base.fid.fid.ops = &efa->fid_ops;
    *fabric = &plain->base.fid;
    return 0;
}
