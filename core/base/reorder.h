/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A reorder buffer: items arrive in any order and are taken in the order of their serial numbers,
 * which are 32 bits and wrap. Items that are up to REORDER_NEAR ahead of the next number have a
 * place in a ring; those farther ahead are found by hash, so nothing is ever scanned. Several items
 * may have one number. Not locked.
 */
#ifndef WEFT_CORE_BASE_REORDER_H
#define WEFT_CORE_BASE_REORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/list.h"

enum {
    REORDER_NEAR = 16, /* a power of two */
};

struct reorder_far;

/* Zeroed it begins at number 0. */
struct reorder {
    uint32_t next;     /* the number whose turn it is */
    size_t count;      /* items that are kept */
    struct list *near; /* REORDER_NEAR lists of items, made with the first one that waits */
    struct reorder_far *far;
};

/* Moves all items to `items`, in any order, and starts again at 0. */
void reorder_reset(struct reorder *reorder, struct list *items);
/* The same, and frees its memory. Takes a zeroed one. */
void reorder_finish(struct reorder *reorder, struct list *items);

/* Keeps an item whose turn has not come: serial is ahead of `next`. -FI_ENOMEM. */
int reorder_keep(struct reorder *reorder, uint32_t serial, struct list *item);
/* An item whose turn it is, taken out, or NULL. */
struct list *reorder_take(struct reorder *reorder);
/* Is there an item whose turn it is? */
bool reorder_ready(const struct reorder *reorder);

/* How far a number is ahead of the one whose turn it is; negative: it is behind. */
static inline int32_t reorder_ahead(const struct reorder *reorder, uint32_t serial)
{
    return (int32_t)(serial - reorder->next);
}

#endif
