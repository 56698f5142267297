/* SPDX-License-Identifier: BSD-2-Clause */
/* Which addresses of a vector are valid. Beyond the bitmap, or where they come without a call that
 * says so, all are. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_collective.h>
#include <rdma/fi_errno.h>

#include "layers/debug/debug.h"

enum {
    ADDRESSES = 1 << 24
};

static bool grow(struct debug_av *av, uint64_t addr)
{
    size_t size = av->size ? av->size : 1024;
    uint8_t *bits;

    while (size <= addr)
        size *= 2;
    if (size == av->size)
        return true;
    bits = size > ADDRESSES ? NULL : realloc(av->bits, size / 8);
    if (!bits) {
        av->open = true;
        return false;
    }
    memset(bits + av->size / 8, 0, (size - av->size) / 8);
    av->bits = bits;
    av->size = size;
    return true;
}

/* Mutex held. */
static void set(struct debug_av *av, fi_addr_t addr, bool valid)
{
    if (addr == FI_ADDR_NOTAVAIL || av->open || (addr < ADDRESSES && !grow(av, addr)))
        return;
    if (addr >= ADDRESSES)
        av->open = true;
    else if (valid)
        av->bits[addr / 8] |= (uint8_t)(1 << addr % 8);
    else
        av->bits[addr / 8] &= (uint8_t) ~(1 << addr % 8);
}

static bool is_valid(const struct debug_av *av, fi_addr_t addr)
{
    if (av->rx_ctx_bits > 0)
        addr &= UINT64_MAX >> av->rx_ctx_bits;
    if (av->open)
        return true;
    return addr < av->size && av->bits[addr / 8] & (1 << addr % 8);
}

void debug_check_address(struct debug_ep *ep, const struct op *op, const char *whom)
{
    enum op_class class = op_class(op->call);
    struct debug_layer *layer = ep->object.layer;
    bool valid;

    if (!ep->av || ep->joined || class == OP_CLASS_COLLECTIVE || op->flags & FI_MULTICAST)
        return;
    if (class == OP_CLASS_RECV &&
        (op->peer == FI_ADDR_UNSPEC || !(ep->caps & (FI_DIRECTED_RECV | FI_TAGGED_DIRECTED_RECV))))
        return;
    pthread_mutex_lock(&layer->mutex);
    valid = is_valid(ep->av, op->peer);
    pthread_mutex_unlock(&layer->mutex);
    if (!valid)
        debug_report(layer->reporter, DEBUG_ADDRESS, op_name(op->call), whom,
                     "address %lld is not in the address vector: it was removed, or never inserted",
                     (long long)op->peer);
}

/* ---- The calls that change it ---- */

static struct debug_av *own_of(struct fid_av *fid)
{
    struct debug_object *object = debug_of(&fid->fid);

    return object ? object_of(object, struct debug_av, object) : NULL;
}

/* A caller that passes no array knows the addresses: a table counts them from 0. */
static int inserted(struct fid_av *fid, int rc, const fi_addr_t *addrs, size_t count)
{
    struct debug_av *av = own_of(fid);

    if (!av || rc < 0)
        return rc;
    pthread_mutex_lock(&av->object.layer->mutex);
    if (!addrs)
        av->open = true;
    for (size_t i = 0; addrs && i < count; i++)
        set(av, addrs[i], true);
    pthread_mutex_unlock(&av->object.layer->mutex);
    return rc;
}

static int insert(struct fid_av *av, const void *addr, size_t count, fi_addr_t *fi_addr,
                  uint64_t flags, void *context)
{
    return inserted(av, hook_av_ops.insert(av, addr, count, fi_addr, flags, context), fi_addr,
                    count);
}

static int insertsvc(struct fid_av *av, const char *node, const char *service, fi_addr_t *fi_addr,
                     uint64_t flags, void *context)
{
    return inserted(av, hook_av_ops.insertsvc(av, node, service, fi_addr, flags, context), fi_addr,
                    1);
}

static int insertsym(struct fid_av *av, const char *node, size_t nodecnt, const char *service,
                     size_t svccnt, fi_addr_t *fi_addr, uint64_t flags, void *context)
{
    int rc = hook_av_ops.insertsym(av, node, nodecnt, service, svccnt, fi_addr, flags, context);

    return inserted(av, rc, fi_addr, nodecnt * svccnt);
}

static int insert_auth_key(struct fid_av *av, const void *key, size_t size, fi_addr_t *fi_addr,
                           uint64_t flags)
{
    return inserted(av, hook_av_ops.insert_auth_key(av, key, size, fi_addr, flags), fi_addr, 1);
}

/* That an address is removed which is not there is the same mistake. */
static void check_removal(struct debug_av *av, const fi_addr_t *addrs, size_t count)
{
    char whom[DEBUG_NAME];

    for (size_t i = 0; i < count; i++) {
        bool valid;

        pthread_mutex_lock(&av->object.layer->mutex);
        valid = is_valid(av, addrs[i]);
        pthread_mutex_unlock(&av->object.layer->mutex);
        if (!valid)
            debug_report(av->object.layer->reporter, DEBUG_ADDRESS, "fi_av_remove",
                         debug_name(&av->object, whom), "address %lld is not in it",
                         (long long)addrs[i]);
    }
}

static int av_remove(struct fid_av *fid, fi_addr_t *addrs, size_t count, uint64_t flags)
{
    struct debug_av *av = own_of(fid);
    int rc;

    if (av && addrs)
        check_removal(av, addrs, count);
    rc = hook_av_ops.remove(fid, addrs, count, flags);
    if (rc || !av || !addrs)
        return rc;
    pthread_mutex_lock(&av->object.layer->mutex);
    for (size_t i = 0; i < count; i++)
        set(av, addrs[i], false);
    pthread_mutex_unlock(&av->object.layer->mutex);
    return 0;
}

/* ---- Sets ---- */

static int unite(struct fid_av_set *set, const struct fid_av_set *other)
{
    if (debug_is_closed(debug_of(&set->fid), "fi_av_set_union", &other->fid))
        return -FI_EINVAL;
    return hook_av_set_ops.set_union(set, other);
}

static int intersect(struct fid_av_set *set, const struct fid_av_set *other)
{
    if (debug_is_closed(debug_of(&set->fid), "fi_av_set_intersect", &other->fid))
        return -FI_EINVAL;
    return hook_av_set_ops.intersect(set, other);
}

static int subtract(struct fid_av_set *set, const struct fid_av_set *other)
{
    if (debug_is_closed(debug_of(&set->fid), "fi_av_set_diff", &other->fid))
        return -FI_EINVAL;
    return hook_av_set_ops.diff(set, other);
}

static struct fi_ops_av av_ops = {
    .size = sizeof(av_ops),
    .insert = insert,
    .insertsvc = insertsvc,
    .insertsym = insertsym,
    .insert_auth_key = insert_auth_key,
    .remove = av_remove,
};
static struct fi_ops_av_set set_ops = {
    .size = sizeof(set_ops), .set_union = unite, .intersect = intersect, .diff = subtract};

void debug_address_ops(struct hook_ops *ops)
{
    ops->av = &av_ops;
    ops->av_set = &set_ops;
}
