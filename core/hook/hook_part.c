/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/hook/hook_part.h"

static void fill_once(struct hook_part *part)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

    pthread_mutex_lock(&mutex);
    if (!part->filled)
        part->fill(&part->ops);
    part->filled = true;
    pthread_mutex_unlock(&mutex);
}

int hook_part_open(const struct open_args *args, struct fid_fabric **fabric, void *context)
{
    struct hook_part *part = args->part->hook;
    void *own;
    int rc;

    if (!part)
        return hook_open_fabric(args, fabric, context, NULL);
    rc = part->create(args, &own);
    if (rc)
        return rc;
    fill_once(part);
    rc = hook_open_fabric(args, fabric, context, &part->ops);
    if (rc)
        part->destroy(own);
    else
        *hook_own(&(*fabric)->fid) = own;
    return rc;
}
