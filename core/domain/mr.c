/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keys are in a hash table with open addressing: linear probing, at most half full, deletion by
 * moving back what follows. Only regions that a peer may access are in it.
 *
 * A writer of the table holds the mutex, and `changes` is odd meanwhile. mr_find reads without the
 * mutex: its result counts if `changes` was even and has stayed the same. So the fields that
 * it reads are atomic, and tables that were outgrown stay until the map goes.
 */
#include "core/domain/mr.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "core/av/av.h"
#include "core/base/enosys.h"
#include "core/base/log.h"
#include "core/domain/mr_watch.h"
#include "core/info/abi.h"
#include "core/progress/progress.h"
#include "core/queue/binding.h"
#include "core/queue/cntr.h"

enum {
    KEY_BATCH = 32, /* random keys for each getrandom */
    FIRST_SLOTS = 16,
    RAW_KEY_SIZE = sizeof(uint64_t),
};

struct slot {
    _Atomic uint64_t key;
    _Atomic(struct mr *) mr; /* NULL: free */
    /* Of a region that mr_find knows; else access is 0. */
    _Atomic uint64_t access, start, len; /* start: the remote address of the first byte */
    _Atomic(char *) memory;
};

/* Its slots follow. */
struct table {
    struct table *outgrown;
    size_t mask;
    struct slot slots[];
};

struct mr_map {
    struct domain *domain;
    uint64_t mode; /* mr_mode with the old BASIC and SCALABLE spelt out */
    uint64_t key_mask;
    pthread_mutex_t mutex;
    _Atomic(struct table *) table;
    atomic_uint changes;
    size_t used;
    uint64_t keys[KEY_BATCH];
    size_t keys_left;
};

static const uint64_t remote_access = FI_REMOTE_READ | FI_REMOTE_WRITE;

static size_t home_of(const struct table *table, uint64_t key)
{
    key *= 0x9e3779b97f4a7c15ull;
    return (size_t)(key >> 32) & table->mask;
}

static struct mr *mr_in(const struct slot *slot)
{
    return atomic_load_explicit(&slot->mr, memory_order_acquire);
}

static uint64_t key_in(const struct slot *slot)
{
    return atomic_load_explicit(&slot->key, memory_order_acquire);
}

/* One piece, no counter to raise, and nothing that may still change. */
static bool is_plain(const struct mr *mr)
{
    return mr->iov_count == 1 && mr->enabled && !(mr->flags & MR_UNCOUNTED) &&
           !(mr->domain->info->caps & FI_RMA_EVENT);
}

/* Each store is after the one that made `changes` odd. */
static void fill(struct slot *slot, struct mr *mr)
{
    const memory_order order = memory_order_release;

    atomic_store_explicit(&slot->access, mr && is_plain(mr) ? mr->access : 0, order);
    if (mr) {
        atomic_store_explicit(&slot->key, mr->key, order);
        atomic_store_explicit(&slot->start, mr->offset, order);
        atomic_store_explicit(&slot->len, mr->len, order);
        atomic_store_explicit(&slot->memory, (char *)mr->iov[0].iov_base, order);
    }
    atomic_store_explicit(&slot->mr, mr, order);
}

static struct table *table_of(const struct mr_map *map)
{
    return atomic_load_explicit(&map->table, memory_order_acquire);
}

static struct slot *find_in(struct table *table, uint64_t key)
{
    for (size_t i = home_of(table, key);; i = (i + 1) & table->mask) {
        struct slot *slot = &table->slots[i];

        if (!mr_in(slot) || key_in(slot) == key)
            return slot;
    }
}

static struct slot *find_locked(const struct mr_map *map, uint64_t key)
{
    return find_in(table_of(map), key);
}

static void change_begin(struct mr_map *map)
{
    pthread_mutex_lock(&map->mutex);
    atomic_store_explicit(&map->changes, map->changes + 1, memory_order_relaxed);
}

static void change_end(struct mr_map *map)
{
    atomic_store_explicit(&map->changes, map->changes + 1, memory_order_release);
    pthread_mutex_unlock(&map->mutex);
}

static struct table *new_table(size_t slots)
{
    struct table *table = calloc(1, sizeof(*table) + slots * sizeof(struct slot));

    if (table)
        table->mask = slots - 1;
    return table;
}

static int grow_locked(struct mr_map *map)
{
    struct table *old = table_of(map), *table = new_table(2 * (old->mask + 1));

    if (!table)
        return -FI_ENOMEM;
    for (size_t i = 0; i <= old->mask; i++)
        if (mr_in(&old->slots[i]))
            fill(find_in(table, key_in(&old->slots[i])), mr_in(&old->slots[i]));
    table->outgrown = old;
    atomic_store_explicit(&map->table, table, memory_order_release);
    return 0;
}

static void remove_locked(struct mr_map *map, uint64_t key)
{
    struct table *table = table_of(map);
    struct slot *slots = table->slots;
    size_t hole = (size_t)(find_in(table, key) - slots), i = hole;

    for (;;) {
        fill(&slots[hole], NULL);
        do {
            i = (i + 1) & table->mask;
            if (!mr_in(&slots[i])) {
                map->used--;
                return;
            }
        } while (((i - home_of(table, key_in(&slots[i]))) & table->mask) <
                 ((i - hole) & table->mask));
        fill(&slots[hole], mr_in(&slots[i]));
        hole = i;
    }
}

/* A key that the part makes of a random number, or the number itself. */
static int new_key_locked(struct mr_map *map, const struct mr *mr, uint64_t *key)
{
    unsigned attempt = 0;

    do {
        if (!map->keys_left) {
            ssize_t got;

            do
                got = getrandom(map->keys, sizeof(map->keys), 0);
            while (got < 0 && errno == EINTR);
            if (got != (ssize_t)sizeof(map->keys))
                return -FI_EIO;
            map->keys_left = KEY_BATCH;
        }
        *key = map->keys[--map->keys_left] & map->key_mask;
        map->keys[map->keys_left] = 0;
        if (map->domain->make_key)
            *key = map->domain->make_key(map->domain, mr->flags, *key, attempt++);
    } while (*key == FI_KEY_NOTAVAIL || mr_in(find_locked(map, *key)));
    return 0;
}

static int insert_locked(struct mr_map *map, struct mr *mr)
{
    struct slot *slot;
    int rc;

    if (map->used * 2 > table_of(map)->mask) {
        rc = grow_locked(map);
        if (rc)
            return rc;
    }
    if (map->mode & FI_MR_PROV_KEY && !(mr->flags & MR_KEY_GIVEN)) {
        rc = new_key_locked(map, mr, &mr->key);
        if (rc)
            return rc;
    }
    slot = find_locked(map, mr->key);
    if (mr_in(slot))
        return -FI_ENOKEY;
    fill(slot, mr);
    map->used++;
    return 0;
}

static uint64_t mode_of(const struct fi_domain_attr *attr)
{
    switch (attr->mr_mode) {
    case FI_MR_BASIC: return FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    case FI_MR_SCALABLE: return 0;
    default: return (uint64_t)attr->mr_mode;
    }
}

int mr_map_create(struct domain *domain, struct mr_map **map)
{
    const struct fi_domain_attr *attr = domain->info->domain_attr;
    struct mr_map *made = calloc(1, sizeof(*made));

    if (!made)
        return -FI_ENOMEM;
    atomic_init(&made->table, new_table(FIRST_SLOTS));
    if (!table_of(made)) {
        free(made);
        return -FI_ENOMEM;
    }
    made->domain = domain;
    made->mode = mode_of(attr);
    made->key_mask = attr->mr_key_size && attr->mr_key_size < sizeof(uint64_t)
                         ? (1ull << attr->mr_key_size * 8) - 1
                         : UINT64_MAX;
    pthread_mutex_init(&made->mutex, NULL);
    domain->mrs = made;
    *map = made;
    return 0;
}

void mr_map_destroy(struct mr_map *map)
{
    if (!map)
        return;
    map->domain->mrs = NULL;
    pthread_mutex_destroy(&map->mutex);
    for (struct table *table = table_of(map), *next; table; table = next) {
        next = table->outgrown;
        free(table);
    }
    free(map);
}

static bool counts(const struct mr *mr, const struct cntr *cntr, uint64_t access)
{
    return mr && ((access & FI_REMOTE_WRITE && mr->remote_write == cntr) ||
                  (access & FI_REMOTE_READ && mr->remote_read == cntr));
}

static void count_once(struct cntr *cntr, struct mr *const *before, size_t count, uint64_t access)
{
    for (size_t i = 0; cntr && i < count; i++)
        if (counts(before[i], cntr, access))
            return;
    if (cntr)
        cntr_add_one(cntr);
}

void mr_accessed(struct mr *const *mrs, size_t count, uint64_t access)
{
    for (size_t i = 0; i < count; i++) {
        if (mrs[i] && access & FI_REMOTE_WRITE)
            count_once(mrs[i]->remote_write, mrs, i, access);
        if (mrs[i] && access & FI_REMOTE_READ &&
            !(access & FI_REMOTE_WRITE && mrs[i]->remote_read == mrs[i]->remote_write))
            count_once(mrs[i]->remote_read, mrs, i, access);
    }
}

bool mr_counted(struct mr *const *mrs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!mrs[i] || !(mrs[i]->flags & MR_UNCOUNTED))
            return true;
    return !count;
}

void mr_release(struct mr *mr)
{
    if (!mr || atomic_fetch_sub_explicit(&mr->users, 1, memory_order_acq_rel) != 1)
        return;
    if (mr->remote_write)
        children_release(&mr->remote_write->children);
    if (mr->remote_read)
        children_release(&mr->remote_read->children);
    if (mr->base)
        children_release(&mr->base->children);
    if (mr->grant.av)
        children_release(&mr->grant.av->children);
    children_release(&mr->domain->children);
    free(mr);
}

bool mr_any_closed(struct mr *const *mrs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (mrs[i] && atomic_load_explicit(&mrs[i]->closed, memory_order_acquire))
            return true;
    return false;
}

static int mr_close(struct fid *fid)
{
    struct mr *mr = object_of(fid, struct mr, fid.fid);
    struct mr_map *map = mr->map;

    if (children_any(&mr->children))
        return -FI_EBUSY;
    if (mr->access & remote_access) {
        change_begin(map);
        remove_locked(map, mr->key);
        change_end(map);
    }
    if (mr->below)
        fi_close(&mr->below->fid);
    atomic_store(&mr->closed, true);
    mr_watches_tell(mr);
    if (mr->access & remote_access)
        progress_group_sync(mr->domain->progress_group);
    mr_release(mr);
    return 0;
}

static int bind_cntr(struct mr *mr, struct fid *fid, uint64_t flags)
{
    struct cntr *cntr = object_of(fid, struct cntr, fid.fid);
    int rc;

    if (!(mr->domain->info->caps & FI_RMA_EVENT))
        return -FI_ENOSYS;
    if (!flags || flags & ~(FI_REMOTE_WRITE | FI_REMOTE_READ))
        return -FI_EBADFLAGS;
    if (cntr->domain != mr->domain || (flags & FI_REMOTE_WRITE && mr->remote_write) ||
        (flags & FI_REMOTE_READ && mr->remote_read))
        return -FI_EINVAL;
    if (mr->map->mode & FI_MR_RMA_EVENT && (mr->enabled || !(mr->flags & FI_RMA_EVENT)))
        return -FI_EOPBADSTATE;
    rc = binding_share(mr->domain, cntr->progress);
    if (rc)
        return rc;
    if (flags & FI_REMOTE_WRITE) {
        children_hold(&cntr->children);
        mr->remote_write = cntr;
    }
    if (flags & FI_REMOTE_READ) {
        children_hold(&cntr->children);
        mr->remote_read = cntr;
    }
    return 0;
}

static int mr_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
    struct mr *mr = object_of(fid, struct mr, fid.fid);

    switch (bfid->fclass) {
    case FI_CLASS_CNTR: return bind_cntr(mr, bfid, flags);
    case FI_CLASS_EP:
    case FI_CLASS_SEP:
    case FI_CLASS_RX_CTX:
        if (flags)
            return -FI_EBADFLAGS;
        if (mr->map->mode & FI_MR_ENDPOINT && mr->enabled)
            return -FI_EOPBADSTATE;
        mr->bound = true;
        if (mr->map->mode & FI_MR_ENDPOINT)
            mr->grant.ep = bfid;
        return 0;
    default: return -FI_EINVAL;
    }
}

static int enable(struct mr *mr)
{
    if (mr->map->mode & FI_MR_ENDPOINT && !mr->bound)
        return -FI_EOPBADSTATE;
    pthread_mutex_lock(&mr->map->mutex);
    mr->enabled = true;
    pthread_mutex_unlock(&mr->map->mutex);
    return 0;
}

static int raw_attr(const struct mr *mr, const struct fi_mr_raw_attr *attr)
{
    size_t room;

    if (!attr || !attr->key_size)
        return -FI_EINVAL;
    if (attr->flags)
        return -FI_EBADFLAGS;
    room = *attr->key_size;
    *attr->key_size = RAW_KEY_SIZE;
    if (room < RAW_KEY_SIZE)
        return -FI_ETOOSMALL;
    if (!attr->raw_key)
        return -FI_EINVAL;
    memcpy(attr->raw_key, &mr->key, RAW_KEY_SIZE);
    if (attr->base_addr)
        *attr->base_addr = mr->offset;
    return 0;
}

static int mr_control(struct fid *fid, int command, void *arg)
{
    struct mr *mr = object_of(fid, struct mr, fid.fid);

    switch (command) {
    case FI_ENABLE: return enable(mr);
    case FI_GET_RAW_MR: return raw_attr(mr, arg);
    case FI_REFRESH: return 0; /* the CPU's own page tables are used: never stale */
    default: return -FI_ENOSYS;
    }
}

int mr_domain_control(struct fid *domain, int command, void *arg)
{
    struct fi_mr_map_raw *map = arg;

    switch (command) {
    case FI_MAP_RAW_MR:
        if (!map || !map->raw_key || !map->key || map->key_size != RAW_KEY_SIZE)
            return -FI_EINVAL;
        memcpy(map->key, map->raw_key, RAW_KEY_SIZE);
        return 0;
    case FI_UNMAP_KEY: return arg ? 0 : -FI_EINVAL;
    default: return -FI_ENOSYS;
    }
}

static struct fi_ops mr_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = mr_close,
    .bind = mr_bind,
    .control = mr_control,
    NO_FID_TABLES,
};

/* Length of the whole region; no piece may wrap. A region may start at NULL and span the whole
 * address space: peers must know which parts of it are memory. */
static int measure(const struct iovec *iov, size_t count, size_t *len)
{
    size_t total = 0;

    for (size_t i = 0; i < count; i++) {
        if ((uintptr_t)iov[i].iov_base + iov[i].iov_len < (uintptr_t)iov[i].iov_base ||
            total + iov[i].iov_len < total)
            return -FI_EINVAL;
        total += iov[i].iov_len;
    }
    *len = total;
    return 0;
}

static bool covered(const struct mr *base, const struct iovec *piece)
{
    for (size_t i = 0; i < base->iov_count; i++) {
        uintptr_t start = (uintptr_t)base->iov[i].iov_base;
        uintptr_t wanted = (uintptr_t)piece->iov_base;

        if (wanted >= start && wanted - start <= base->iov[i].iov_len &&
            piece->iov_len <= base->iov[i].iov_len - (wanted - start))
            return true;
    }
    return false;
}

/* Refuses flags that the domain lacks, and wrong arguments. */
static int check(const struct mr_map *map, const struct fi_mr_attr *attr, uint64_t flags)
{
    const struct domain *domain = map->domain;
    const uint64_t known =
        FI_RMA_EVENT | FI_RMA_PMEM | FI_AUTH_KEY | MR_UNCOUNTED | MR_KEY_GIVEN | domain->mr_flags;
    const char *part = domain->fabric->part;
    size_t limit = domain->info->domain_attr->mr_iov_limit;

    if (flags & ~known) {
        LOG_WARN(part, FI_LOG_MR, "memory registration: flags %#llx are not supported",
                 (unsigned long long)(flags & ~known));
        return -FI_EBADFLAGS;
    }
    if (!attr->iov_count || !attr->mr_iov || attr->iov_count > (limit ? limit : 1)) {
        LOG_WARN(part, FI_LOG_MR, "memory registration: %zu pieces, 1 to %zu are possible",
                 attr->iov_count, limit ? limit : 1);
        return -FI_EINVAL;
    }
    /* Older programs left the fields that their release did not define as they were. */
    if (FI_VERSION_GE(domain->fabric->api_version, FI_VERSION(1, 9)) &&
        attr->iface != FI_HMEM_SYSTEM) {
        LOG_WARN(part, FI_LOG_MR,
                 "memory registration: device memory (iface %d) is not supported, only "
                 "FI_HMEM_SYSTEM",
                 (int)attr->iface);
        return -FI_ENOSYS;
    }
    if (!(map->mode & FI_MR_PROV_KEY) && attr->access & remote_access &&
        (attr->requested_key & ~map->key_mask || attr->requested_key == FI_KEY_NOTAVAIL)) {
        LOG_WARN(part, FI_LOG_MR, "memory registration: key %#llx does not fit in %zu bytes",
                 (unsigned long long)attr->requested_key, domain->info->domain_attr->mr_key_size);
        return -FI_EKEYREJECTED;
    }
    return 0;
}

static struct mr *make(struct mr_map *map, const struct fi_mr_attr *attr, uint64_t flags,
                       size_t len)
{
    struct mr *mr = calloc(1, sizeof(*mr) + attr->iov_count * sizeof(struct iovec));

    if (!mr)
        return NULL;
    fid_init(&mr->fid.fid, FI_CLASS_MR, attr->context, &mr_fid_ops);
    mr->fid.mem_desc = mr;
    mr->domain = map->domain;
    mr->map = map;
    mr->key = attr->requested_key;
    mr->access = attr->access;
    mr->offset = attr->offset;
    if (map->mode & FI_MR_VIRT_ADDR)
        mr->offset += (uintptr_t)attr->mr_iov[0].iov_base;
    mr->flags = flags;
    mr->len = len;
    mr->iov_count = attr->iov_count;
    mr->iov = (struct iovec *)(mr + 1);
    memcpy(mr->iov, attr->mr_iov, attr->iov_count * sizeof(struct iovec));
    mr->enabled =
        !(map->mode & FI_MR_ENDPOINT) && !(map->mode & FI_MR_RMA_EVENT && flags & FI_RMA_EVENT);
    atomic_init(&mr->users, 1);
    list_init(&mr->watches);
    return mr;
}

/* attr is in the current layout. */
static int register_region(struct mr_map *map, const struct fi_mr_attr *attr, uint64_t flags,
                           struct fid_mr **fid)
{
    struct mr *base = NULL, *mr;
    struct mr_grant grant = {.source = FI_ADDR_UNSPEC};
    size_t len;
    int rc = check(map, attr, flags);

    if (!rc)
        rc = mr_grant_read(map->domain, attr, flags, &grant);
    if (rc)
        return rc;
    rc = measure(attr->mr_iov, attr->iov_count, &len);
    if (rc)
        return rc;
    if (attr->base_mr) {
        base = (struct mr *)(uintptr_t)attr->base_mr;
        for (size_t i = 0; i < attr->iov_count; i++)
            if (base->map != map || !covered(base, &attr->mr_iov[i]))
                return -FI_EINVAL;
    }
    mr = make(map, attr, flags, len);
    if (!mr)
        return -FI_ENOMEM;
    mr->grant = grant;
    if (mr->access & remote_access) {
        change_begin(map);
        rc = insert_locked(map, mr);
        change_end(map);
        if (rc) {
            free(mr);
            return rc;
        }
    }
    if (grant.av)
        children_hold(&grant.av->children);
    mr->fid.key = map->mode & FI_MR_RAW ? FI_KEY_NOTAVAIL : mr->key;
    mr->base = base;
    if (base)
        children_hold(&base->children);
    children_hold(&map->domain->children);
    *fid = &mr->fid;
    return 0;
}

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
                      struct fid_mr **mr)
{
    struct domain *domain = object_of(fid, struct domain, fid.fid);
    struct fi_mr_attr current;

    if (flags & FI_MR_DMABUF) {
        LOG_WARN(domain->fabric->part, FI_LOG_MR, "memory registration: no DMA-buf regions");
        return -FI_ENOSYS;
    }
    abi_mr_attr_import(attr, (enum abi_level)domain->fabric->abi, &current);
    return register_region(domain->mrs, &current, flags, mr);
}

int mr_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access,
            uint64_t offset, uint64_t requested_key, uint64_t flags, struct fid_mr **mr,
            void *context)
{
    struct domain *domain = object_of(fid, struct domain, fid.fid);
    struct fi_mr_attr attr = {
        .mr_iov = iov,
        .iov_count = count,
        .access = access,
        .offset = offset,
        .requested_key = requested_key,
        .context = context,
    };

    return domain->fid.mr->regattr(fid, &attr, flags, mr);
}

int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
           uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};

    return mr_regv(fid, &iov, 1, access, offset, requested_key, flags, mr, context);
}

struct fi_ops_mr mr_ops = {
    .size = sizeof(struct fi_ops_mr),
    .reg = mr_reg,
    .regv = mr_regv,
    .regattr = mr_regattr,
};

/* The pieces of [start, start + len) of a region. */
static int slice(const struct mr *mr, size_t start, size_t len, struct iovec *iov, size_t *count)
{
    size_t used = 0;

    for (size_t i = 0; i < mr->iov_count && len; i++) {
        size_t have = mr->iov[i].iov_len;

        if (start >= have) {
            start -= have;
            continue;
        }
        have -= start;
        if (used == *count)
            return -FI_ETOOSMALL;
        iov[used].iov_base = (void *)((uintptr_t)mr->iov[i].iov_base + start);
        iov[used].iov_len = len < have ? len : have;
        len -= iov[used].iov_len;
        start = 0;
        used++;
    }
    *count = used;
    return 0;
}

static int resolve_locked(struct mr *mr, uint64_t addr, size_t len, uint64_t access,
                          struct iovec *iov, size_t *count)
{
    uint64_t start;
    int rc;

    if (!mr || !mr->enabled || access & ~mr->access)
        return -FI_EACCES;
    start = addr - mr->offset;
    if (addr < mr->offset || start > mr->len || len > mr->len - start)
        return -FI_EINVAL;
    rc = slice(mr, (size_t)start, len, iov, count);
    if (!rc)
        atomic_fetch_add_explicit(&mr->users, 1, memory_order_relaxed);
    return rc;
}

int mr_resolve(struct mr_map *map, uint64_t key, uint64_t addr, size_t len, uint64_t access,
               struct iovec *iov, size_t *count, struct mr **mr)
{
    struct mr *found;
    int rc;

    pthread_mutex_lock(&map->mutex);
    found = mr_in(find_locked(map, key));
    rc = resolve_locked(found, addr, len, access, iov, count);
    pthread_mutex_unlock(&map->mutex);
    if (!rc) {
        *mr = found;
    } else if (!len) {
        *mr = NULL;
        *count = 0;
        rc = 0;
    }
    return rc;
}

void *mr_find(const struct mr_map *map, uint64_t key, uint64_t addr, size_t len, uint64_t access)
{
    const memory_order order = memory_order_acquire;
    unsigned changes = atomic_load_explicit(&map->changes, order);
    struct table *table = table_of(map);
    size_t home = home_of(table, key);
    const struct slot *slot = &table->slots[home];
    uint64_t granted, at, room;
    char *memory;

    if (key_in(slot) != key)
        slot = &table->slots[(home + 1) & table->mask]; /* collided once, or rare enough */
    granted = atomic_load_explicit(&slot->access, order);
    at = addr - atomic_load_explicit(&slot->start, order);
    room = atomic_load_explicit(&slot->len, order);
    memory = atomic_load_explicit(&slot->memory, order);
    if (__builtin_expect(key_in(slot) != key || !granted || access & ~granted || at >= room ||
                             len > room - at || changes & 1 ||
                             atomic_load_explicit(&map->changes, memory_order_relaxed) != changes,
                         0))
        return NULL;
    return (void *)((uintptr_t)memory + (uintptr_t)at);
}
