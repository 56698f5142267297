/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/base/reorder.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/hash.h"

struct reorder_far {
    uint32_t serial;
    struct list items;
    UT_hash_handle hh;
};

static void drop_far(struct reorder *reorder, struct reorder_far *far)
{
    HASH_DEL(reorder->far, far);
    free(far);
}

void reorder_reset(struct reorder *reorder, struct list *items)
{
    struct reorder_far *far, *next;

    for (size_t i = 0; reorder->near && i < REORDER_NEAR; i++)
        list_join(&reorder->near[i], items);
    HASH_ITER (hh, reorder->far, far, next) {
        list_join(&far->items, items);
        drop_far(reorder, far);
    }
    reorder->next = 0;
    reorder->count = 0;
}

void reorder_finish(struct reorder *reorder, struct list *items)
{
    reorder_reset(reorder, items);
    free(reorder->near);
    reorder->near = NULL;
}

static struct reorder_far *find_far(const struct reorder *reorder, uint32_t serial)
{
    struct reorder_far *far;

    HASH_FIND(hh, reorder->far, &serial, sizeof(serial), far);
    return far;
}

static struct reorder_far *add_far(struct reorder *reorder, uint32_t serial)
{
    struct reorder_far *far = malloc(sizeof(*far));

    if (!far)
        return NULL;
    far->serial = serial;
    list_init(&far->items);
    HASH_ADD(hh, reorder->far, serial, sizeof(far->serial), far);
    if (hash_has(far))
        return far;
    free(far);
    return NULL;
}

static bool make_ring(struct reorder *reorder)
{
    reorder->near = malloc(REORDER_NEAR * sizeof(struct list));
    for (size_t i = 0; reorder->near && i < REORDER_NEAR; i++)
        list_init(&reorder->near[i]);
    return reorder->near;
}

int reorder_keep(struct reorder *reorder, uint32_t serial, struct list *item)
{
    struct reorder_far *far;

    if (serial - reorder->next < REORDER_NEAR) {
        if (!reorder->near && !make_ring(reorder))
            return -FI_ENOMEM;
        list_attach(item, &reorder->near[serial % REORDER_NEAR]);
    } else {
        far = find_far(reorder, serial);
        if (!far)
            far = add_far(reorder, serial);
        if (!far)
            return -FI_ENOMEM;
        list_attach(item, &far->items);
    }
    reorder->count++;
    return 0;
}

bool reorder_ready(const struct reorder *reorder)
{
    if (!reorder->count)
        return false;
    return (reorder->near && !list_empty(&reorder->near[reorder->next % REORDER_NEAR])) ||
           (reorder->far && find_far(reorder, reorder->next));
}

struct list *reorder_take(struct reorder *reorder)
{
    struct list *place, *item;
    struct reorder_far *far = NULL;

    if (!reorder->count)
        return NULL;
    place = reorder->near ? &reorder->near[reorder->next % REORDER_NEAR] : NULL;
    if (!place || list_empty(place)) {
        far = reorder->far ? find_far(reorder, reorder->next) : NULL;
        if (!far)
            return NULL;
        place = &far->items;
    }
    item = place->next;
    list_detach(item);
    if (far && list_empty(place))
        drop_far(reorder, far);
    reorder->count--;
    return item;
}
