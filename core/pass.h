/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Defaults for fi_ops tables. `no_*` answer -FI_ENOSYS. `pass_*` call the lower: objects of a layer
 * that passes through start with one of the structs below, and its tables are copies of pass_* with
 * what it changes replaced. pass_* is everything that `noop` is, and what every hook starts from.
 *
 * The pass_* operations translate every fid that crosses (fi_ep_bind, trywait, domain and fabric
 * pointers in infos, info->handle, EQ entries, peer objects and their entries) and count children.
 */
#ifndef WEFT_CORE_PASS_H
#define WEFT_CORE_PASS_H

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_peer.h>

#include "core/fid.h"

/* Single functions for a table's empty slots, and whole tables. */
int no_bind(struct fid *fid, struct fid *bfid, uint64_t flags);
int no_control(struct fid *fid, int command, void *arg);
int no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);
int no_ops_set(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context);

extern struct fi_ops_fabric no_fabric_ops;
extern struct fi_ops_domain no_domain_ops;
extern struct fi_ops_mr no_mr_ops;
extern struct fi_ops_ep no_ep_ops;
extern struct fi_ops_cm no_cm_ops;
extern struct fi_ops_msg no_msg_ops;
extern struct fi_ops_tagged no_tagged_ops;
extern struct fi_ops_rma no_rma_ops;
extern struct fi_ops_atomic no_atomic_ops;
extern struct fi_ops_collective no_collective_ops;
extern struct fi_ops_cq no_cq_ops;
extern struct fi_ops_cntr no_cntr_ops;
extern struct fi_ops_eq no_eq_ops;
extern struct fi_ops_av no_av_ops;

#endif
