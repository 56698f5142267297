/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Texts of addresses in few bytes: digits and ':' are half a byte, "://" and "fi_" too, a row of up
 * to 15 zeros is two halves, any other character three. "fi_shm://1234567:1000:00000003" is 14
 * bytes. Pure.
 */
#ifndef WEFT_LAYERS_LNX_LNX_TEXT_H
#define WEFT_LAYERS_LNX_LNX_TEXT_H

#include <stddef.h>

/* Bytes written to out, at most room; 0: it does not fit. text has no control characters. */
size_t lnx_text_pack(const char *text, unsigned char *out, size_t room);
/* Bytes read of in, at most len; 0: it is no text, or with its 0 not one of size bytes. */
size_t lnx_text_unpack(const unsigned char *in, size_t len, char *text, size_t size);

#endif
