/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fabrics and domains of parts whose address vectors, queues, counters and regions are those of
 * core: entries of their tables, as they are. The objects begin with struct fabric and struct
 * domain.
 */
#ifndef WEFT_CORE_DOMAIN_DOMAIN_H
#define WEFT_CORE_DOMAIN_DOMAIN_H

#include "core/domain/base.h"

/* Functions that a part's table lacks become those below, or answer -FI_ENOSYS; `endpoint` it has.
 * Returns ops. The functions that open domains do so for their callers. */
struct fi_ops_domain *domain_table(struct fi_ops_domain *ops);

/* domain_init, with mr_ops and a map of regions. -FI_ENOMEM. */
int domain_init_mapped(struct domain *domain, struct fabric *fabric, const struct fi_info *info,
                       struct fi_ops *fid_ops, struct fi_ops_domain *ops, void *context);

/* Zeroed memory of `size` bytes for the part's object, which begins with a struct domain:
 * domain_init with those regions, or with NULL domain_init_mapped. -FI_ENOMEM. */
int domain_create(size_t size, struct fid_fabric *fabric, const struct fi_info *info,
                  struct fi_ops *fid_ops, struct fi_ops_domain *ops, struct fi_ops_mr *regions,
                  struct domain **domain, void *context);
/* The same with core's regions. */
int domain_create_mapped(size_t size, struct fid_fabric *fabric, const struct fi_info *info,
                         struct fi_ops *fid_ops, struct fi_ops_domain *ops, struct domain **domain,
                         void *context);

/* Of a domain made so, in memory of malloc, that has nothing else to give back. */
extern struct fi_ops domain_fid_ops;

int domain_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av,
                   void *context);
int domain_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                   void *context);
/* The same; reads of contexts alone, of a queue that is no upper's, go by the part's own table, the
 * rest of which becomes cq_ops'. */
int domain_cq_open_read(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                        void *context, struct fi_ops_cq *reads);
int domain_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
                     void *context);
int domain_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **set);
int fabric_trywait(struct fid_fabric *fabric, struct fid **fids, int count);

/* The part's own entry without flags, which knows none: else -FI_EBADFLAGS. */
int domain_endpoint2(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                     uint64_t flags, void *context);
int fabric_domain2(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                   uint64_t flags, void *context);

#endif
