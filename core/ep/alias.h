/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_ep_alias: an endpoint under another fid with other default flags, which are final for the
 * endpoint. Source: fi_endpoint(3).
 */
#ifndef WEFT_CORE_EP_ALIAS_H
#define WEFT_CORE_EP_ALIAS_H

#include <rdma/fi_endpoint.h>

struct children;

/*
 * FI_ALIAS of fi_control: *request->fid gets the alias. Its flags of the direction that the request
 * names (FI_TRANSMIT or FI_RECV, exactly one) are the request's, the others as given. children, the
 * endpoint's, counts it until it is closed. -FI_EINVAL, -FI_ENOMEM.
 */
int alias_open(struct fid_ep *ep, struct children *children, uint64_t tx_op_flags,
               uint64_t rx_op_flags, struct fi_alias *request);

#endif
