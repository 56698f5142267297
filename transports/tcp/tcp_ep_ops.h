/* SPDX-License-Identifier: BSD-2-Clause */
/* The endpoint's operation tables, and the functions in them that belong to its life. */
#ifndef WEFT_TCP_EP_OPS_H
#define WEFT_TCP_EP_OPS_H

#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

struct tcp_ep;

enum {
    TCP_MIN_MULTI_RECV = 64
};

/* Fills in the fid. */
void tcp_ep_ops_init(struct tcp_ep *ep, void *context);

/* tcp_ep.c */
int tcp_ep_close(struct fid *fid);
int tcp_ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags);
int tcp_ep_shutdown(struct fid_ep *fid, uint64_t flags);

/* tcp_msg.c, tcp_rma.c */
extern struct fi_ops_msg tcp_msg_ops;        /* with its own receives */
extern struct fi_ops_msg tcp_msg_shared_ops; /* receives are posted to the shared context */
extern struct fi_ops_tagged tcp_tagged_ops;
extern struct fi_ops_tagged tcp_tagged_shared_ops; /* no receives of its own */
extern struct fi_ops_rma tcp_rma_ops;
extern struct fi_ops_atomic tcp_atomic_ops;

#endif
