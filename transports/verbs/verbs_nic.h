/* SPDX-License-Identifier: BSD-2-Clause */
/* What fi_info->nic says of a device and its port. Source: fi_nic(3). */
#ifndef WEFT_VERBS_NIC_H
#define WEFT_VERBS_NIC_H

#include "transports/verbs/verbs_device.h"

struct fid_nic *verbs_nic(const struct verbs_place *place); /* NULL without memory */

/* Bits per second of a port; 0: codes that nobody knows. */
size_t verbs_speed(uint8_t active_speed, uint8_t active_width);
/* Bytes of an enum ibv_mtu; 0: none. */
size_t verbs_mtu(enum ibv_mtu mtu);

#endif
