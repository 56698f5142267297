/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private data of the connection exchange, as libfabric's verbs provider has it: a byte that says
 * how many follow. The network pads private data and does not say how long it was. Pure.
 */
#ifndef WEFT_VERBS_PRIVATE_H
#define WEFT_VERBS_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    VERBS_CM_DATA = 55, /* bytes of the application's: 56 is what RDMA_PS_TCP has for a request */
    VERBS_PRIVATE = VERBS_CM_DATA + 1,
};

/* Returns the bytes used. len: at most VERBS_CM_DATA. */
size_t verbs_private_put(const void *data, size_t len, uint8_t raw[VERBS_PRIVATE]);

/* Reads a peer's bytes, of any length. False: they say that there is more than there is; then, and
 * for none at all, *len is 0. */
bool verbs_private_get(const void *raw, size_t raw_len, const uint8_t **data, size_t *len);

#endif
