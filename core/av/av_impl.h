/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of core/av. The caller holds the AV's lock unless a function says
 * otherwise. */
#ifndef WEFT_CORE_AV_AV_IMPL_H
#define WEFT_CORE_AV_AV_IMPL_H

#include "core/av/av.h"
#include "core/net/addr.h"

enum {
    AV_STR_MAX = 512
}; /* of an FI_ADDR_STR address, with its 0 */

/* Can an endpoint have this address? */
bool av_usable(const struct av *av, const void *addr);
/* Bytes of an address in the AV's format, strings with their 0. */
size_t av_addr_size(const struct av *av, const void *addr);
void av_tell_inserted(struct av *av, fi_addr_t addr);
void av_tell_removed(struct av *av, fi_addr_t addr);

static inline struct av *av_of(struct fid_av *fid)
{
    return object_of(fid, struct av, fid);
}

/* ---- Changing. Named AVs have files of their own; the others do not pay for them. ---- */

int av_lock_shared(struct av *av, const char *call);
int av_unlock_shared(struct av *av);

/* Locks an AV that is not, for what `call` changes. */
static inline int av_lock_for_change(struct av *av, const char *call)
{
    if (av->shared)
        return av_lock_shared(av, call);
    pthread_mutex_lock(&av->mutex);
    return 0;
}

static inline int av_unlock_changed(struct av *av)
{
    if (av->shared)
        return av_unlock_shared(av);
    pthread_mutex_unlock(&av->mutex);
    return 0;
}

/* ---- av_insert.c: calls of fi_ops_av, of an AV that is not locked ---- */

int av_insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *fi_addr,
              uint64_t flags, void *context);
int av_insertsvc(struct fid_av *fid, const char *node, const char *service, fi_addr_t *fi_addr,
                 uint64_t flags, void *context);
int av_insertsym(struct fid_av *fid, const char *node, size_t nodecnt, const char *service,
                 size_t svccnt, fi_addr_t *fi_addr, uint64_t flags, void *context);

/* ---- av_keys.c ----
 *
 * An entry of the table is the address and the number of its key, so that one address under two
 * keys is two peers. The entry of a key itself is bytes that no address has. */

enum {
    AV_KEYS_MAX = 256,                 /* of an AV */
    AV_KEY_NUMBER = sizeof(uint32_t),  /* behind an address */
    AV_KEYED_MAX = 128 + AV_KEY_NUMBER /* bytes of an address with its key's number */
};

struct av_keys {
    size_t most;  /* max_ep_auth_key of the domain, at most AV_KEYS_MAX */
    size_t count; /* numbers that were ever used; atomic */
    struct av_key keys[];
};

/* NULL without memory. */
struct av_keys *av_keys_create(size_t most);
/* Calls of fi_ops_av, of an AV that is not locked; -FI_EINVAL where the AV has no keys. */
int av_insert_auth_key(struct fid_av *fid, const void *key, size_t size, fi_addr_t *fi_addr,
                       uint64_t flags);
int av_lookup_auth_key(struct fid_av *fid, fi_addr_t addr, void *key, size_t *size);
/* fi_av_remove with FI_AUTH_KEY. -FI_EBUSY: endpoints are bound, or addresses are under the key. */
int av_remove_auth_key(struct av *av, fi_addr_t addr);
/* addr, of the kind's size, and the number of the key that `key` names, as an entry of the table.
 * -FI_EINVAL: that is no key. */
int av_keyed_entry(const struct av *av, const void *addr, fi_addr_t key,
                   uint8_t entry[AV_KEYED_MAX]);
/* The address has come (+1) or is gone (-1). */
void av_key_use(struct av *av, fi_addr_t addr, int change);

static inline bool av_is_key(const struct av *av, fi_addr_t addr)
{
    const struct av_key *key = av->keys ? av_key_of(av, addr) : NULL;

    return key && key->addr == addr;
}

/* ---- av_symmetric.c ---- */

/* The address of the node `step` places after node. Negative: there is none; it has been said. */
int av_symmetric_node(const struct av *av, const char *node, const char *service, size_t step,
                      union addr *addr);

#endif
