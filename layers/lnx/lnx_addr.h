/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The address of an endpoint: the kind of each of its branches, the token of its reach, and its
 * address there. Foreign bytes: everything is checked. Pure.
 *
 *   byte 0   version (2)
 *   byte 1   sum of all other bytes and of their number
 *   byte 2   count of branches (1 to LNX_BRANCHES)
 *   then for each branch
 *     2      kind: hash of protocol and form of addresses (lnx_addr_kind), low byte first; not 0
 *     1      form of its address (3 bits), length of its token (5 bits)
 *     n      the token (core/base/seam.h, struct reach)
 *     m      the address: FORM_IN 2 of port, 4 of address, in network order; FORM_IN6 2 and 16,
 *            FORM_IN6_SCOPE 4 of scope behind them; FORM_TEXT lnx_text_pack; FORM_EFA the last 8
 *            bytes of a GID that begins with fe80::, FORM_EFA_WIDE 16 of any other, and 2 of queue
 *            pair number and 4 of key behind; FORM_RAW 1 of length, and so many
 *   zeros up to the size, which is the same for all endpoints of a bracket (lnx_addr_size)
 */
#ifndef WEFT_LAYERS_LNX_LNX_ADDR_H
#define WEFT_LAYERS_LNX_LNX_ADDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>

#include "core/base/seam.h"

/* fi_info.addr_format of these addresses. */
#define LNX_ADDR_FORMAT (UINT32_C(1) << 31 | 0x117e)

enum {
    LNX_ADDR_VERSION = 2,
    LNX_BRANCHES = 8,   /* most of a bracket */
    LNX_ADDR_TWO = 56,  /* bytes of an address of up to two branches: aws-ofi-nccl's buffer */
    LNX_ADDR_MORE = 32, /* for each branch more */
    LNX_ADDR_MAX = LNX_ADDR_TWO + (LNX_BRANCHES - 2) * LNX_ADDR_MORE,
    LNX_BRANCH_ADDR_MAX = 256, /* of a branch's own address */
};

/* One branch's part of an address. */
struct lnx_addr_branch {
    uint16_t kind;
    struct reach reach; /* len 0: it reaches all peers */
    /* FI_SOCKADDR_IN, FI_SOCKADDR_IN6, FI_ADDR_STR, FI_ADDR_EFA; else FI_FORMAT_UNSPEC */
    uint32_t format;
    size_t len; /* 0: it has no address; lnx_addr_decode has none of these */
    _Alignas(8) unsigned char addr[LNX_BRANCH_ADDR_MAX];
};

struct lnx_addr {
    size_t count;
    struct lnx_addr_branch branch[LNX_BRANCHES];
};

/* Branches that speak with each other have the same. */
uint16_t lnx_addr_kind(const struct fi_info *branch);
/* Bytes of an address of a bracket of so many branches. */
size_t lnx_addr_size(size_t branches);

/* Writes `size` bytes. A branch without an address, or for which there is no room behind those in
 * front of it, is left out. Returns how many are in. */
size_t lnx_addr_encode(const struct lnx_addr *addr, unsigned char *raw, size_t size);
/* One branch's address alone, without kind and reach, in the shortest form: bytes written to `to`,
 * at most room; 0: it does not fit. */
size_t lnx_addr_pack(const struct lnx_addr_branch *branch, unsigned char *to, size_t room);
/* The address and its format again, of all of these bytes. */
bool lnx_addr_unpack(const unsigned char *from, size_t len, struct lnx_addr_branch *branch);

/* Reads `size` bytes; why gets a sentence. -FI_EINVAL. */
int lnx_addr_decode(const unsigned char *raw, size_t size, struct lnx_addr *addr, char *why,
                    size_t why_size);

#endif
