/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses of EFA (FI_ADDR_EFA), and their text. Pure. */
#ifndef WEFT_EFA_NAME_H
#define WEFT_EFA_NAME_H

#include <stdbool.h>
#include <stdint.h>

/* A raw address, as applications have it. */
struct efa_addr {
    uint8_t gid[16];
    uint16_t qpn, pad;
    uint32_t qkey;
    uint64_t reserved;
};

enum {
    EFA_NAME_TEXT = 96
};

/* fi_addr_efa://[GID]:QPN:QKEY, or a GID alone, whose other fields are then 0. False: it is
 * neither. */
bool efa_name_parse(const char *text, struct efa_addr *addr);
void efa_name_print(const struct efa_addr *addr, char text[EFA_NAME_TEXT]);

#endif
