/* SPDX-License-Identifier: BSD-2-Clause */
/* CRC-32C (Castagnoli), the trailer of packets without security. */
#ifndef WEFT_UET_WIRE_CRC_H
#define WEFT_UET_WIRE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* Of bytes that follow those whose CRC is `crc`; 0: nothing is before them. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t len);
/* The same on a processor without an instruction for it. */
uint32_t crc32c_portable(uint32_t crc, const void *bytes, size_t len);

#endif
