/* SPDX-License-Identifier: BSD-2-Clause */
/* The datagrams of a capture that the tap wrote (pcapng, packets of IP without anything around
 * them). */
#ifndef WEFT_TESTS_UET_CAPTURE_H
#define WEFT_TESTS_UET_CAPTURE_H

#include <stddef.h>
#include <stdint.h>

#include "core/net/addr.h"

struct captured {
    uint64_t ns;
    union addr from, to;
    uint8_t *bytes; /* behind the UDP header, in `file` */
    size_t len;
};

struct capture {
    uint8_t *file;
    struct captured *packets;
    size_t count, left_out; /* left_out: other than UDP, or cut by the tap */
};

/* 0, or -1 with a sentence in why. */
int capture_read(const char *path, struct capture *capture, char *why, size_t why_size);
void capture_free(struct capture *capture);

#endif
