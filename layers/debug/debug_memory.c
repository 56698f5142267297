/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory regions, and the descriptors of buffers where the lower requires them. */
#include "layers/debug/debug.h"

static bool covers(const struct debug_mr *mr, const void *buf, size_t len)
{
    uintptr_t from = (uintptr_t)buf;

    for (size_t i = 0; i < mr->count; i++) {
        uintptr_t base = (uintptr_t)mr->iov[i].iov_base;

        if (from >= base && from - base <= mr->iov[i].iov_len &&
            len <= mr->iov[i].iov_len - (from - base))
            return true;
    }
    return !mr->count;
}

struct debug_mr *debug_region_of(const struct debug_domain *domain, const void *desc,
                                 const struct iovec *iov)
{
    struct debug_mr *found = NULL;

    list_for_each (pos, &domain->regions) {
        struct debug_mr *mr = list_item(pos, struct debug_mr, region);

        if (object_of(mr->object.fid, struct fid_mr, fid)->mem_desc != desc)
            continue;
        found = mr;
        if (covers(mr, iov->iov_base, iov->iov_len))
            break;
    }
    return found;
}

static void check_buffer(struct debug_ep *ep, const struct op *op, const char *whom,
                         const struct debug_buffer *buffer)
{
    struct debug_layer *layer = ep->object.layer;
    const struct iovec *iov = &buffer->iov;
    uint64_t access = buffer->access, given = 0;
    bool inside = false;
    const struct debug_mr *mr;

    pthread_mutex_lock(&layer->mutex);
    mr = debug_region_of(ep->domain, buffer->desc, iov);
    if (mr) {
        inside = covers(mr, iov->iov_base, iov->iov_len);
        given = mr->access;
    }
    pthread_mutex_unlock(&layer->mutex);
    if (!mr)
        debug_report(layer->reporter, DEBUG_DESCRIPTOR, op_name(op->call), whom,
                     "buffer %p of %zu bytes has descriptor %p, which is of no open region",
                     iov->iov_base, iov->iov_len, buffer->desc);
    else if (!inside)
        debug_report(layer->reporter, DEBUG_RANGE, op_name(op->call), whom,
                     "buffer %p of %zu bytes is not inside of the region of its descriptor",
                     iov->iov_base, iov->iov_len);
    else if (access && given && !(given & access))
        debug_report(layer->reporter, DEBUG_ACCESS, op_name(op->call), whom,
                     "the region was registered without %s", fi_tostr(&access, FI_TYPE_CAPS));
}

void debug_check_memory(struct debug_ep *ep, const struct op *op,
                        const struct debug_buffers *buffers, const char *whom)
{
    for (size_t i = 0; i < buffers->count; i++)
        check_buffer(ep, op, whom, &buffers->list[i]);
}

/* ---- Registration ---- */

/* A lower that asks for no descriptors may give none. */
void debug_region_named(struct fid_mr *fid)
{
    struct debug_object *object = debug_of(&fid->fid);

    if (object && object->layer->demand_mr && !fid->mem_desc)
        fid->mem_desc = object;
}

void debug_region_opened(struct fid *fid, const struct hook_opening *opening)
{
    struct debug_mr *mr = debug_opened(fid, opening->parent, sizeof(*mr));

    if (!mr)
        return;
    mr->domain = object_of(mr->object.parent, struct debug_domain, object);
    mr->access = opening->mr->access;
    debug_region_named(object_of(fid, struct fid_mr, fid));
    list_init(&mr->region);
    if (opening->iov_count <= DEBUG_IOVS)
        for (; mr->count < opening->iov_count; mr->count++)
            mr->iov[mr->count] = opening->iov[mr->count];
    pthread_mutex_lock(&mr->object.layer->mutex);
    list_attach(&mr->region, &mr->domain->regions);
    pthread_mutex_unlock(&mr->object.layer->mutex);
}
