/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * struct fid_nic, to which fi_info->nic points. Source: fi_nic(3). One made here is a fid of
 * FI_CLASS_NIC that closes itself; one of an external provider keeps that provider's operations.
 */
#ifndef WEFT_CORE_INFO_NIC_H
#define WEFT_CORE_INFO_NIC_H

#include <rdma/fabric.h>

/* A nic with its device, bus and link attributes zeroed; its strings are malloc'd. NULL: no memory.
 */
struct fid_nic *nic_create(void);

/* A deep copy. prov_attr is copied by the provider's own FI_DUP, and left out where it has none. */
struct fid_nic *nic_dup(const struct fid_nic *nic);

/* Calls the nic's own close. NULL is fine. */
void nic_close(struct fid_nic *nic);

#endif
