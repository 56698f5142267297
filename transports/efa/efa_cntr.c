/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters of the device (cntr_open_ext): it counts what the queue pairs of the endpoints that they
 * are bound to end, in its own memory or the application's. The library counts the same as it polls
 * completions, for those who wait; those who read are told what the device has.
 */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/base/log.h"
#include "core/base/table.h"
#include "core/queue/cntr.h"
#include "transports/efa/efa.h"

/* As newer releases of verbs.h have them. */
struct init_attr {
    uint32_t comp_mask, type, flags;
};

struct attach_attr {
    uint32_t comp_mask, op_mask;
};

struct efa_cntr {
    struct cntr base;
    struct ibv_comp_cntr *ibv;
};

static const struct fi_ops_cntr *base_ops;
static struct fi_ops_cntr ops;

static struct efa_cntr *of(struct fid_cntr *fid)
{
    return object_of(fid, struct efa_cntr, base.fid);
}

/* ---- Values ---- */

static uint64_t read_value(struct fid_cntr *fid)
{
    uint64_t value = base_ops->read(fid); /* drives */

    verbs_lib.read_comp_cntr(of(fid)->ibv, &value);
    return value;
}

static uint64_t read_errors(struct fid_cntr *fid)
{
    uint64_t value = base_ops->readerr(fid);

    verbs_lib.read_err_comp_cntr(of(fid)->ibv, &value);
    return value;
}

static int add(struct fid_cntr *fid, uint64_t value)
{
    int rc = verbs_error(verbs_lib.inc_comp_cntr(of(fid)->ibv, value));

    return rc ? rc : base_ops->add(fid, value);
}

static int add_errors(struct fid_cntr *fid, uint64_t value)
{
    int rc = verbs_error(verbs_lib.inc_err_comp_cntr(of(fid)->ibv, value));

    return rc ? rc : base_ops->adderr(fid, value);
}

static int set(struct fid_cntr *fid, uint64_t value)
{
    int rc = verbs_error(verbs_lib.set_comp_cntr(of(fid)->ibv, value));

    return rc ? rc : base_ops->set(fid, value);
}

static int set_errors(struct fid_cntr *fid, uint64_t value)
{
    int rc = verbs_error(verbs_lib.set_err_comp_cntr(of(fid)->ibv, value));

    return rc ? rc : base_ops->seterr(fid, value);
}

static struct fi_ops_cntr ops = {
    .size = sizeof(ops),
    .read = read_value,
    .readerr = read_errors,
    .add = add,
    .adderr = add_errors,
    .set = set,
    .seterr = set_errors,
};

/* ---- Life ---- */

static int cntr_close(struct fid *fid)
{
    struct efa_cntr *cntr = object_of(fid, struct efa_cntr, base.fid.fid);
    int rc = cntr_close_check(&cntr->base);

    if (!rc)
        rc = verbs_error(verbs_lib.destroy_comp_cntr(cntr->ibv));
    if (rc)
        return rc;
    cntr_finish(&cntr->base);
    free(cntr);
    return 0;
}

static struct fi_ops fid_ops = {
    .size = sizeof(fid_ops),
    .close = cntr_close,
    .bind = enosys_bind,
    .control = cntr_control,
    .ops_open = enosys_ops_open,
    .tostr = enosys_tostr,
    .ops_set = enosys_ops_set,
};

const char *efa_cntr_lacking(const struct efa_domain *domain)
{
    if (!efa_direct.create_comp_cntr)
        return "libefa.so.1 has no efadv_create_comp_cntr";
    if (!verbs_lib.qp_attach_comp_cntr || !verbs_lib.read_comp_cntr ||
        !verbs_lib.read_err_comp_cntr || !verbs_lib.set_comp_cntr || !verbs_lib.set_err_comp_cntr ||
        !verbs_lib.inc_comp_cntr || !verbs_lib.inc_err_comp_cntr || !verbs_lib.destroy_comp_cntr)
        return "libibverbs.so.1 has no counters of devices";
    if (!(domain->device->efa.device_caps & EFA_CAP_COUNTERS))
        return "the device has no counters";
    return NULL;
}

int efa_cntr_open(struct efa_domain *domain, const struct fi_cntr_attr *attr, const void *places,
                  size_t places_size, struct fid_cntr **ret_cntr, void *context)
{
    struct efa_cntr *cntr = calloc(1, sizeof(*cntr));
    struct init_attr init = {.comp_mask = 0};
    int rc;

    if (!cntr)
        return -FI_ENOMEM;
    rc = attr && attr->flags & FI_PEER
             ? -FI_EINVAL
             : cntr_init(&cntr->base, &domain->base, attr, &fid_ops, context);
    if (rc) {
        free(cntr);
        return rc;
    }
    cntr->ibv =
        efa_direct.create_comp_cntr(domain->device->context, &init, places, (uint32_t)places_size);
    if (!cntr->ibv) {
        rc = verbs_error(-1);
        LOG_WARN("efa", FI_LOG_CNTR, "%s gives no counter: %s", domain->device->name,
                 fi_strerror(-rc));
        cntr_finish(&cntr->base);
        free(cntr);
        return rc;
    }
    cntr->base.early = true; /* the device counts from the beginning of a queue pair on */
    __atomic_store_n(&base_ops, cntr->base.fid.ops, __ATOMIC_RELEASE);
    cntr->base.fid.ops = table_inherit(&ops, cntr->base.fid.ops);
    *ret_cntr = &cntr->base.fid;
    return 0;
}

/* ---- Of endpoints ---- */

static struct efa_cntr *device_counter(struct cntr *cntr)
{
    return cntr && cntr->fid.ops == &ops ? object_of(cntr, struct efa_cntr, base) : NULL;
}

/* A counter that is bound for several kinds is attached for all of them at once. */
int efa_cntr_attach(struct efa_ep *ep)
{
    static const uint32_t masks[BIND_KINDS] = {
        [BIND_SEND] = 1 << 0,  [BIND_RECV] = 1 << 1,        [BIND_READ] = 1 << 2,
        [BIND_WRITE] = 1 << 4, [BIND_REMOTE_READ] = 1 << 3, [BIND_REMOTE_WRITE] = 1 << 5,
    };
    struct cntr **bound = ep->base.binding.cntr;
    int rc = 0;

    for (int i = 0; i < BIND_KINDS && !rc; i++) {
        struct efa_cntr *cntr = device_counter(bound[i]);
        struct attach_attr attr = {.op_mask = 0};

        for (int j = 0; j < BIND_KINDS && cntr; j++) {
            if (bound[j] == bound[i])
                attr.op_mask |= masks[j];
            if (j < i && bound[j] == bound[i])
                cntr = NULL; /* it has been */
        }
        if (cntr)
            rc = verbs_error(verbs_lib.qp_attach_comp_cntr(ep->qp, cntr->ibv, &attr));
        if (rc)
            LOG_WARN("efa", FI_LOG_EP_CTRL, "%s does not count all that a counter is bound for: %s",
                     ep->domain->device->name, fi_strerror(-rc));
    }
    return rc;
}
