/* SPDX-License-Identifier: BSD-2-Clause */
/* AV sets: ordered lists of addresses of an AV. Guarded by the domain's progress domain. Source:
 * fi_av_set(3).
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/net/addr.h"
#include "layers/coll/coll.h"

/* fi_av_set_addr gives this and a number of the process. */
#define SET_ADDR (0xc1ull << 56)

#define ALL_SETS                                                                                   \
    (FI_BARRIER_SET | FI_BROADCAST_SET | FI_ALLTOALL_SET | FI_ALLREDUCE_SET | FI_ALLGATHER_SET |   \
     FI_REDUCE_SCATTER_SET | FI_REDUCE_SET | FI_SCATTER_SET | FI_GATHER_SET)

enum {
    NAME_MAX_BYTES = 256,
    GAP_MAX = 4096 /* removed addresses in a row, in an AV that others fill */
};

/* The hook of an AV: all its addresses are below `inserted`, since an fi_addr_t is an index; those
 * of a named one may be other processes' and end where none follows for long. */
struct coll_av {
    atomic_size_t inserted;
    bool named;
};

static struct coll_set *set_of(struct fid_av_set *fid)
{
    return object_of(fid, struct coll_set, fid);
}

/* ---- Members ---- */

static bool is_member(const struct coll_set *set, fi_addr_t addr)
{
    for (size_t i = 0; i < set->count; i++) {
        if (set->addrs[i] == addr)
            return true;
    }
    return false;
}

static int append(struct coll_set *set, fi_addr_t addr)
{
    size_t room = set->room ? 2 * set->room : 16;
    fi_addr_t *grown;

    if (set->count == set->room) {
        grown = realloc(set->addrs, room * sizeof(*grown));
        if (!grown)
            return -FI_ENOMEM;
        set->addrs = grown;
        set->room = room;
    }
    set->addrs[set->count++] = addr;
    return 0;
}

/* The bytes of an address of the AV, or nothing: 0. */
static size_t look_up(const struct coll_set *set, fi_addr_t addr, char name[NAME_MAX_BYTES])
{
    size_t len = NAME_MAX_BYTES;

    return fi_av_lookup(set->av->lower, addr, name, &len) || len > NAME_MAX_BYTES ? 0 : len;
}

/* Keeps those that are in both, or in dst only. */
static void keep(struct coll_set *dst, const struct coll_set *src, bool both)
{
    size_t kept = 0;

    for (size_t i = 0; i < dst->count; i++) {
        if (is_member(src, dst->addrs[i]) == both)
            dst->addrs[kept++] = dst->addrs[i];
    }
    dst->count = kept;
}

/* ---- Operations ---- */

static int set_union(struct fid_av_set *dst_fid, const struct fid_av_set *src_fid)
{
    const struct coll_set *src = coll_set_of(src_fid);
    struct coll_set *dst = set_of(dst_fid);
    int rc = 0;

    if (!src || src->av != dst->av)
        return -FI_EINVAL;
    progress_lock(dst->domain->progress);
    for (size_t i = 0; !rc && i < src->count; i++) {
        if (!is_member(dst, src->addrs[i]))
            rc = append(dst, src->addrs[i]);
    }
    progress_unlock(dst->domain->progress);
    return rc;
}

static int keep_locked(struct fid_av_set *dst_fid, const struct fid_av_set *src_fid, bool both)
{
    const struct coll_set *src = coll_set_of(src_fid);
    struct coll_set *dst = set_of(dst_fid);

    if (!src || src->av != dst->av)
        return -FI_EINVAL;
    progress_lock(dst->domain->progress);
    keep(dst, src, both);
    progress_unlock(dst->domain->progress);
    return 0;
}

static int set_intersect(struct fid_av_set *dst, const struct fid_av_set *src)
{
    return keep_locked(dst, src, true);
}

static int set_diff(struct fid_av_set *dst, const struct fid_av_set *src)
{
    return keep_locked(dst, src, false);
}

static int set_insert(struct fid_av_set *fid, fi_addr_t addr)
{
    struct coll_set *set = set_of(fid);
    char name[NAME_MAX_BYTES];
    int rc = -FI_EINVAL;

    progress_lock(set->domain->progress);
    if (look_up(set, addr, name) && !is_member(set, addr))
        rc = append(set, addr);
    progress_unlock(set->domain->progress);
    return rc;
}

static int set_remove(struct fid_av_set *fid, fi_addr_t addr)
{
    struct coll_set *set = set_of(fid);
    size_t kept = 0;
    bool found;

    progress_lock(set->domain->progress);
    for (size_t i = 0; i < set->count; i++) {
        if (set->addrs[i] != addr)
            set->addrs[kept++] = set->addrs[i];
    }
    found = kept < set->count;
    set->count = kept;
    progress_unlock(set->domain->progress);
    return found ? 0 : -FI_EINVAL;
}

static int set_addr(struct fid_av_set *fid, fi_addr_t *addr)
{
    *addr = set_of(fid)->addr;
    return 0;
}

static struct fi_ops_av_set set_ops = {
    .size = sizeof(set_ops),
    .set_union = set_union,
    .intersect = set_intersect,
    .diff = set_diff,
    .insert = set_insert,
    .remove = set_remove,
    .addr = set_addr,
};

const struct coll_set *coll_set_of(const struct fid_av_set *fid)
{
    return fid && fid->ops == &set_ops ? set_of((struct fid_av_set *)(uintptr_t)fid) : NULL;
}

/* ---- Whose is which ---- */

/* An address in a form that is the same for all members. */
static size_t canonical(uint32_t format, const char *raw, size_t len, char text[NAME_MAX_BYTES])
{
    union addr addr;

    if (format != FI_ADDR_STR && !addr_import(format, raw, len, &addr))
        return addr_to_str(&addr.sa, text, NAME_MAX_BYTES);
    if (format == FI_ADDR_STR)
        len = strnlen(raw, len);
    memcpy(text, raw, len);
    return len;
}

static uint32_t hash_more(uint32_t hash, const void *data, size_t len)
{
    const unsigned char *bytes = data;

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ bytes[i]) * 16777619u;
    return hash;
}

/* FNV-1a */
static const uint32_t hash_start = 2166136261u;

int coll_set_rank(const struct coll_set *set, struct coll_ep *ep, uint32_t *rank, uint32_t *hash)
{
    uint32_t format = ep->cover.info->addr_format, all = hash_start;
    char raw[NAME_MAX_BYTES], own[NAME_MAX_BYTES], member[NAME_MAX_BYTES];
    size_t len = sizeof(raw), own_len;
    bool found = false;

    if (fi_getname(&ep->cover.hook->lower->fid, raw, &len) || len > sizeof(raw))
        return -FI_EINVAL;
    own_len = canonical(format, raw, len, own);
    for (size_t i = 0; i < set->count; i++) {
        len = look_up(set, set->addrs[i], raw);
        if (!len)
            return -FI_EINVAL;
        len = canonical(format, raw, len, member);
        all = hash_more(all, member, len);
        if (!found && len == own_len && !memcmp(member, own, len)) {
            *rank = (uint32_t)i;
            found = true;
        }
    }
    *hash = set->has_key ? set->key : all;
    return found ? 0 : -FI_EINVAL;
}

/* ---- Opening and closing ---- */

static int add_range(struct coll_set *set, fi_addr_t start, fi_addr_t end, uint64_t stride)
{
    const struct coll_av *av = set->av->own;
    size_t limit = av ? atomic_load(&av->inserted) : 0, missing = 0;
    char name[NAME_MAX_BYTES];
    int rc = 0;

    for (fi_addr_t addr = start; !rc && addr <= end; addr += stride) {
        if (av && av->named ? missing >= GAP_MAX : addr >= limit)
            break;
        missing++;
        if (look_up(set, addr, name)) {
            rc = append(set, addr);
            missing = 0;
        }
        if (addr + stride < addr)
            break;
    }
    return rc;
}

static int add_initial(struct coll_set *set, const struct fi_av_set_attr *attr)
{
    fi_addr_t start = attr->start_addr, end = attr->end_addr;

    if (attr->flags & FI_UNIVERSE)
        return add_range(set, 0, FI_ADDR_NOTAVAIL - 1, 1);
    if (start == FI_ADDR_NOTAVAIL && end == FI_ADDR_NOTAVAIL)
        return 0;
    if (start > end || end == FI_ADDR_NOTAVAIL || !attr->stride ||
        (attr->count && (end - start) / attr->stride >= attr->count))
        return -FI_EINVAL;
    return add_range(set, start, end, attr->stride);
}

static void set_destroy(struct coll_set *set)
{
    free(set->addrs);
    free(set);
}

static int set_close(struct fid *fid)
{
    struct coll_set *set = object_of(fid, struct coll_set, fid.fid);

    children_release(&set->av->domain->children);
    set_destroy(set);
    return 0;
}

static struct fi_ops set_fid_ops = {
    .size = sizeof(set_fid_ops),
    .close = set_close,
    FID_CLOSES_ONLY,
};

static int av_set(struct fid_av *fid, struct fi_av_set_attr *attr, struct fid_av_set **ret_set,
                  void *context)
{
    static atomic_uint_fast64_t number;
    struct coll_set *set;
    int rc;

    if (!attr || (attr->comm_key_size && !attr->comm_key))
        return -FI_EINVAL;
    if (attr->flags & ~(FI_UNIVERSE | ALL_SETS))
        return -FI_EBADFLAGS;
    set = calloc(1, sizeof(*set));
    if (!set)
        return -FI_ENOMEM;
    fid_init(&set->fid.fid, FI_CLASS_AV_SET, context, &set_fid_ops);
    set->fid.ops = &set_ops;
    set->av = object_of(fid, struct hook_av, fid);
    set->domain = set->av->domain->own;
    set->allowed = attr->flags & ALL_SETS;
    set->has_key = attr->comm_key_size;
    set->key = hash_more(hash_start, attr->comm_key, attr->comm_key_size);
    set->addr = SET_ADDR | (atomic_fetch_add(&number, 1) & ~(0xffull << 56));
    rc = add_initial(set, attr);
    if (rc) {
        set_destroy(set);
        return rc;
    }
    children_hold(&set->av->domain->children);
    *ret_set = &set->fid;
    return 0;
}

/* ---- AVs ---- */

static void count_inserted(struct fid_av *fid, size_t count)
{
    struct coll_av *av = object_of(fid, struct hook_av, fid)->own;

    if (av)
        atomic_fetch_add(&av->inserted, count);
}

static int av_insert(struct fid_av *av, const void *addr, size_t count, fi_addr_t *fi_addr,
                     uint64_t flags, void *context)
{
    count_inserted(av, count);
    return layer_av_ops.insert(av, addr, count, fi_addr, flags, context);
}

static int av_insertsvc(struct fid_av *av, const char *node, const char *service,
                        fi_addr_t *fi_addr, uint64_t flags, void *context)
{
    count_inserted(av, 1);
    return layer_av_ops.insertsvc(av, node, service, fi_addr, flags, context);
}

static int av_insertsym(struct fid_av *av, const char *node, size_t nodes, const char *service,
                        size_t services, fi_addr_t *fi_addr, uint64_t flags, void *context)
{
    count_inserted(av, nodes * services);
    return layer_av_ops.insertsym(av, node, nodes, service, services, fi_addr, flags, context);
}

static int av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av,
                   void *context)
{
    struct coll_av *own = calloc(1, sizeof(*own));
    int rc = own ? hook_av_open(domain, attr, av, context) : -FI_ENOMEM;

    if (rc) {
        free(own);
        return rc;
    }
    own->named = attr->name;
    *hook_own(&(*av)->fid) = own;
    return 0;
}

static int av_close(struct fid *fid)
{
    struct coll_av *own = *hook_own(fid);
    int rc = hook_object_fid_ops.close(fid);

    if (!rc)
        free(own);
    return rc;
}

struct fi_ops coll_av_fid_ops = {.size = sizeof(coll_av_fid_ops), .close = av_close};
struct fi_ops_domain coll_domain_ops = {
    .size = sizeof(coll_domain_ops), .av_open = av_open, .query_collective = coll_query};
struct fi_ops_av coll_av_ops = {
    .size = sizeof(coll_av_ops),
    .insert = av_insert,
    .insertsvc = av_insertsvc,
    .insertsym = av_insertsym,
    .av_set = av_set,
};
