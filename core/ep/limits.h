/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Options of an endpoint that say how large transfers may be: FI_OPT_MAX_MSG_SIZE, its kin, and
 * those for injected ones. Until the endpoint is enabled an application may lower them; fi_getopt
 * returns the lowered values, but larger transfers are not refused. Source: fi_endpoint(3).
 */
#ifndef WEFT_CORE_EP_LIMITS_H
#define WEFT_CORE_EP_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

enum {
    LIMITS_FIRST = FI_OPT_MAX_MSG_SIZE,
    LIMITS_COUNT = FI_OPT_INJECT_ATOMIC_SIZE - LIMITS_FIRST + 1
};

/* Zeroed at first; a connection, of which there may be thousands, pays for a pointer. */
struct limits {
    size_t *size; /* LIMITS_COUNT, SIZE_MAX where none is set; NULL until one is */
};

static inline void limits_finish(struct limits *limits)
{
    free(limits->size);
    limits->size = NULL;
}

static inline bool limits_has(int option)
{
    return option >= LIMITS_FIRST && option < LIMITS_FIRST + LIMITS_COUNT;
}

/* The value that was set, else `most`, the endpoint's own. */
static inline size_t limits_get(const struct limits *limits, int option, size_t most)
{
    size_t size = limits->size ? limits->size[option - LIMITS_FIRST] : SIZE_MAX;

    return size < most ? size : most;
}

/* fi_setopt. -FI_EINVAL: more than `most`, or no size_t; -FI_EOPBADSTATE: the endpoint is enabled;
 * -FI_ENOMEM. */
static inline int limits_set(struct limits *limits, int option, size_t most, bool enabled,
                             const void *value, size_t len)
{
    size_t size;

    if (len != sizeof(size))
        return -FI_EINVAL;
    if (enabled)
        return -FI_EOPBADSTATE;
    memcpy(&size, value, sizeof(size));
    if (size > most)
        return -FI_EINVAL;
    if (!limits->size) {
        limits->size = malloc(LIMITS_COUNT * sizeof(size));
        if (!limits->size)
            return -FI_ENOMEM;
        memset(limits->size, 0xff, LIMITS_COUNT * sizeof(size));
    }
    limits->size[option - LIMITS_FIRST] = size;
    return 0;
}

#endif
