/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A layer's completion queue on its lower: a peer CQ where the lower speaks our fi_peer.h, else an
 * ordinary CQ that is polled with fi_cq_readfrom and fed into the same fid_peer_cq. One adaptor, so
 * that no layer knows which it has.
 */
#ifndef WEFT_CORE_LAYER_LOWER_H
#define WEFT_CORE_LAYER_LOWER_H

#include <rdma/fi_domain.h>
#include <rdma/providers/fi_peer.h>

#include "core/part/part.h"

struct lower_cq;
struct progress;

/* attr: flags and size are taken, format and wait object are chosen here (TAGGED, FI_WAIT_FD when
 * want_fd and the lower has it). sink must outlive the result. */
int lower_cq_open(const struct lower *lower, struct fid_domain *domain,
                  const struct fi_cq_attr *attr, bool want_fd, struct fid_peer_cq *sink,
                  struct lower_cq **lower_cq);
int lower_cq_close(struct lower_cq *lower_cq); /* takes NULL */

/* The queue that the lower's endpoints bind to. */
struct fid_cq *lower_cq_fid(struct lower_cq *lower_cq);
/* The progress domain, without a lock, that drives it, where it is a queue of ours, or NULL. */
struct progress *lower_cq_driven(const struct lower_cq *lower_cq);
/* Drives the lower; completions come out of sink's write before it returns. */
void lower_cq_progress(struct lower_cq *lower_cq);
struct progress_source;

/* Fills fd and below of a source that drives the lower, from the lower's wait fd, if it has one. */
void lower_cq_watch(const struct lower_cq *lower_cq, struct progress_source *source);
/* 0 when it is safe to sleep on that, or there is nothing to sleep on, and the source is one
 * without an fd; -FI_EAGAIN. */
int lower_cq_trywait(const struct lower *lower, struct lower_cq *lower_cq);

#endif
