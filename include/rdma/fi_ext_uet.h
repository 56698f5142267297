/* SPDX-License-Identifier: BSD-2-Clause */
/* Constants of Weft's transport uet (Ultra Ethernet) that libfabric does not define. */
#ifndef FI_EXT_UET_H
#define FI_EXT_UET_H

#include <rdma/fabric.h>

/* fi_ep_attr.protocol: PDS and SES of Ultra Ethernet 1.0, over UDP. It tells the profile of the
 * endpoint: HPC, AI Full or AI Base. Endpoints of different profiles speak what both have. */
#define FI_PROTO_UET (0x80000000u | 0x1755)
#define FI_PROTO_UET_AI_FULL (0x80000000u | 0x1756)
#define FI_PROTO_UET_AI_BASE (0x80000000u | 0x1757)

/* fi_info.addr_format: FI_ADDR_UET_SIZE bytes, of which weft_uet(7) has the figure. */
#define FI_ADDR_UET (0x80000000u | 0x1755)
#define FI_ADDR_UET_SIZE 32

/* fi_setopt and fi_getopt, FI_OPT_ENDPOINT, a uint32_t: the generation of an endpoint, 0 to 255,
 * which its name has from then on. Requests of another one, of peers that have an older name, are
 * refused (prov_errno 2, BAD_GENERATION). FI_UET_DISABLED instead refuses all (DISABLED, or
 * DISABLED_GEN where there is a generation) until a generation is set again, which is to be another
 * one, but for 0: so nothing that was sent before comes after. In both cases operations under way
 * go on. -FI_EOPBADSTATE: it is not enabled, and cannot be disabled. */
enum {
    FI_OPT_UET_GENERATION = -(0x755 << 16),
};
#define FI_UET_DISABLED 0x100u

/* A flag of fi_mr_reg, fi_mr_regv and fi_mr_regattr: accesses of the region are idempotent. The
 * application does not mind that a write or read of it is carried out more than once, also late,
 * after others. Its key has the bit FI_UET_KEY_IDEMPOTENT: a provider's key has it by itself, a key
 * that the application requests without it is -FI_EKEYREJECTED. Between endpoints of HPC writes
 * without data and reads of the region, where no order is asked for, go without a packet delivery
 * context then (RUDI), and its side hears nothing of them: neither a counter nor a queue. */
#define FI_UET_MR_IDEMPOTENT (1ULL << 60)
#define FI_UET_KEY_IDEMPOTENT (1ULL << 63)

#endif
