/* SPDX-License-Identifier: BSD-2-Clause */
/* The functions that an endpoint's upper calls: its post, its tables, and the functions in them
 * that belong to its life. */
#ifndef WEFT_TCP_EP_OPS_H
#define WEFT_TCP_EP_OPS_H

#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "core/ep/ep.h"

struct endpoint;
struct tcp_ep;

enum {
    TCP_MIN_MULTI_RECV = 64
};

/* Fills in what every endpoint has. */
void tcp_ep_ops_init(struct tcp_ep *ep, const struct fi_info *info, void *context);

/* tcp_ep.c */
int tcp_ep_enable(struct endpoint *base);
int tcp_ep_close(struct endpoint *base);
int tcp_ep_shutdown(struct fid_ep *fid, uint64_t flags);

/* struct ep.post and struct ep.atomic_valid of its endpoints: tcp_msg.c. */
ssize_t tcp_ep_post(struct ep *ep, struct op *op);
int tcp_ep_atomic_valid(struct ep *ep, uint64_t function, enum fi_datatype datatype, enum fi_op op,
                        size_t *count);

#endif
