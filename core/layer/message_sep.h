/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scalable endpoints of layers of message_ep.h, whose wire says how many contexts they may have.
 * The contexts share one struct message_ep that the application does not see: one endpoint of the
 * lower's, one address, one state for each peer. Packets name the receive context that they are
 * for. All contexts are one progress domain, whose lock lets threads on two of them take turns,
 * with FI_THREAD_COMPLETION too. Source: fi_endpoint(3).
 */
#ifndef WEFT_CORE_LAYER_MESSAGE_SEP_H
#define WEFT_CORE_LAYER_MESSAGE_SEP_H

#include <rdma/fi_domain.h>

/* fi_scalable_ep. -FI_ENOSYS: the wire has no contexts; -FI_EINVAL: more than it has. */
int message_sep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep,
                     void *context);

#endif
