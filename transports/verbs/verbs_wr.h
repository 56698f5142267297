/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting in two ways: ibv_wr_* on a queue pair of ibv_create_qp_ex, where library and device have
 * it, else ibv_post_send (siw, mlx4, libraries before rdma-core 22).
 */
#ifndef WEFT_VERBS_WR_H
#define WEFT_VERBS_WR_H

#include "core/net/verbs_lib.h"

struct verbs_ep;

/* A queue pair for ibv_wr_*, or without; ep->qp, and ep->qp_ex or NULL. -errno. */
int verbs_wr_create_qp(struct verbs_ep *ep, struct ibv_qp_init_attr *attr);
/* Posts a chain. A positive error, with the first that was not taken in *bad; ibv_wr_* takes all or
 * none. */
int verbs_wr_post(struct verbs_ep *ep, struct ibv_send_wr *wr, struct ibv_send_wr **bad);

#endif
