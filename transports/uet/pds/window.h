/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How many bytes a PDC may have under way. An algorithm is a struct window_ops in a file of its
 * own, and changes `bytes` and nothing else. `fixed` is the only one; the congestion control of
 * Ultra Ethernet (NSCC) will be another.
 */
#ifndef WEFT_UET_PDS_WINDOW_H
#define WEFT_UET_PDS_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

struct window;

/* One acknowledgement. */
struct window_ack {
    uint64_t now;
    uint64_t bytes; /* that it acknowledges for the first time */
    bool marked;    /* what caused it came with a congestion mark */
    uint64_t state; /* of the acknowledgement, where it has one: struct pds_nscc; 0 */
};

/* Entries may be NULL. */
struct window_ops {
    const char *name;
    const char *summary;
    void (*acked)(struct window *window, const struct window_ack *ack);
    /* A packet of so many bytes is lost, or its receiver refuses it. */
    void (*lost)(struct window *window, uint64_t now, uint64_t bytes);
};

struct window {
    const struct window_ops *ops;
    uint64_t bytes;
};

extern const struct window_ops window_fixed;

static inline void window_acked(struct window *window, const struct window_ack *ack)
{
    if (window->ops->acked)
        window->ops->acked(window, ack);
}

static inline void window_lost(struct window *window, uint64_t now, uint64_t bytes)
{
    if (window->ops->lost)
        window->ops->lost(window, now, bytes);
}

#endif
