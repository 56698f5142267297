/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fabric and domain of a layer that has one of its lower's under each of its own, and neither
 * queues nor operations in common with it: the layer adds only its table of a domain's calls.
 */
#ifndef WEFT_CORE_LAYER_LOWER_DOMAIN_H
#define WEFT_CORE_LAYER_LOWER_DOMAIN_H

#include "core/domain/plain_fabric.h"
#include "core/part/part.h"

struct lower_domain;
struct lower_fabric;

/* A layer's description of its domains. */
struct lower_domain_type {
    size_t size;               /* of its struct, which begins with a lower_domain */
    struct fi_ops *fid_ops;    /* close is lower_domain_close; NULL: nothing besides */
    struct fi_ops_domain *ops; /* fi_cq_open and its kind */
    struct fi_ops_mr *regions; /* NULL: core's map of them (core/domain/mr.h) */
    /* The lower's info for one of the layer's, the first that fits; info_free. */
    int (*lower_info)(const struct lower_fabric *fabric, const struct fi_info *info,
                      struct fi_info **lower_info);
    void (*init)(struct lower_domain *domain);   /* of the layer's own fields, or NULL */
    void (*finish)(struct lower_domain *domain); /* NULL as init */
};

struct lower_fabric {
    union {
        struct plain_fabric plain; /* its control: of the EQs that the application opens */
        struct fabric base;        /* plain.base */
    };
    const struct lower_domain_type *type;
    struct lower *lower;
    struct fi_ops fid_ops;
};

struct lower_domain {
    struct domain base;
    struct lower_fabric *fabric;
    struct fid_domain *lower;
    struct fi_info *lower_info; /* that it was opened with, which it may keep pointers into */
};

/* For part.open_fabric. */
int lower_fabric_open(const struct open_args *args, const struct lower_domain_type *type,
                      struct fid_fabric **fabric, void *context);

/* Entries of fid_ops. -FI_EBUSY with children. */
int lower_domain_close(struct fid *fid);
/* Tables of the lower's that take handles of covers (CONTROL_OWN). */
int lower_domain_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops,
                          void *context);
/* CONTROL_OWN of such a one. */
int lower_domain_own(struct fid *fid, struct own_object *own);

static inline struct lower_domain *lower_domain_of(struct fid_domain *fid)
{
    return object_of(fid, struct lower_domain, base.fid);
}

#endif
