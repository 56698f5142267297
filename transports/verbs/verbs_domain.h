/* SPDX-License-Identifier: BSD-2-Clause */
/* A domain is a device, with a protection domain of its own. */
#ifndef WEFT_VERBS_DOMAIN_H
#define WEFT_VERBS_DOMAIN_H

#include "core/base/fid.h"
#include "core/base/fork.h"
#include "transports/verbs/verbs_device.h"
#include "transports/verbs/verbs_fabric.h"

struct verbs_qp_table;

struct verbs_domain {
    struct domain base;
    struct verbs_fabric *fabric;
    struct verbs_device *device;
    struct ibv_pd *pd;
    unsigned forks;             /* the process whose pd and regions they are: fork_generation */
    pthread_mutex_t mutex;      /* of cqs */
    struct list cqs;            /* struct verbs_cq */
    struct verbs_qp_table *qps; /* endpoints of shared receive contexts; NULL: none yet */
};

int verbs_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                      void *context);

static inline struct verbs_domain *verbs_domain_of(struct fid_domain *fid)
{
    return object_of(fid, struct verbs_domain, base.fid);
}

/* In a forked child: the device's objects are the parent's, and stay. */
static inline bool verbs_domain_forked(const struct verbs_domain *domain)
{
    return domain->forks != fork_generation;
}

/* ---- verbs_mr.c ---- */

/* Descriptors are struct ibv_mr, keys those of the device. */
extern struct fi_ops_mr verbs_mr_ops;

#endif
