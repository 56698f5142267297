/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_getopt and fi_setopt of struct endpoint. */
#ifndef WEFT_CORE_EP_ENDPOINT_OPTION_H
#define WEFT_CORE_EP_ENDPOINT_OPTION_H

#include <stddef.h>

#include <rdma/fabric.h>

/* Entries of struct fi_ops_ep of a struct endpoint. Every one answers FI_OPT_MIN_MULTI_RECV,
 * FI_OPT_TX_SIZE, FI_OPT_RX_SIZE, the options of core/ep/limits.h, OPT_UNEXPECTED and
 * OPT_UNEXPECTED_QUEUE, and takes FI_OPT_MIN_MULTI_RECV, those limits and OPT_MATCH_WATCH; the
 * part's table is asked first. -FI_ENOPROTOOPT, -FI_ETOOSMALL (*len: bytes needed), -FI_EINVAL. */
int endpoint_getopt(fid_t fid, int level, int name, void *value, size_t *len);
int endpoint_setopt(fid_t fid, int level, int name, const void *value, size_t len);

#endif
