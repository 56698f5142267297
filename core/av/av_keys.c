/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/av/av_impl.h"
#include "core/av/av_table.h"
#include "core/base/log.h"

enum {
    NO_ADDRESS = 0xff /* the bytes of a key's entry, but for its number */
};

struct av_keys *av_keys_create(size_t most)
{
    size_t room = most < AV_KEYS_MAX ? most : AV_KEYS_MAX;
    struct av_keys *keys = calloc(1, sizeof(*keys) + room * sizeof(struct av_key));

    if (keys)
        keys->most = room;
    return keys;
}

size_t av_key_limit(const struct av *av)
{
    return av->keys ? __atomic_load_n(&av->keys->count, __ATOMIC_ACQUIRE) : 0;
}

static uint32_t number_in(const struct av *av, const void *entry)
{
    uint32_t number;

    memcpy(&number, (const uint8_t *)entry + av->kind->size, sizeof(number));
    return number;
}

const struct av_key *av_key_of(const struct av *av, fi_addr_t addr)
{
    const void *entry = av->keys ? av_addr(av, addr) : NULL;
    uint32_t number = entry ? number_in(av, entry) : UINT32_MAX;

    return number < av_key_limit(av) ? &av->keys->keys[number] : NULL;
}

const struct av_key *av_key_find(const struct av *av, const void *bytes, size_t size, size_t limit)
{
    size_t count = av_key_limit(av);

    for (size_t i = 0; i < count && i < limit; i++) {
        const struct av_key *key = &av->keys->keys[i];

        if (key->addr != FI_ADDR_NOTAVAIL && key->size == size && !memcmp(key->bytes, bytes, size))
            return key;
    }
    return NULL;
}

int av_keyed_entry(const struct av *av, const void *addr, fi_addr_t key,
                   uint8_t entry[AV_KEYED_MAX])
{
    const struct av_key *found = av_key_of(av, key);
    uint32_t number;

    if (!found || found->addr != key)
        return -FI_EINVAL;
    number = (uint32_t)(found - av->keys->keys);
    memcpy(entry, addr, av->kind->size);
    memcpy(entry + av->kind->size, &number, sizeof(number));
    return 0;
}

void av_key_use(struct av *av, fi_addr_t addr, int change)
{
    const struct av_key *key = av_key_of(av, addr);

    if (key)
        av->keys->keys[key - av->keys->keys].users += (size_t)change;
}

/* A number that is free; SIZE_MAX: none. */
static size_t free_number(const struct av_keys *keys)
{
    for (size_t i = 0; i < keys->count; i++)
        if (keys->keys[i].addr == FI_ADDR_NOTAVAIL)
            return i;
    return keys->count < keys->most ? keys->count : SIZE_MAX;
}

static int add_key(struct av *av, const void *bytes, size_t size, fi_addr_t *fi_addr)
{
    struct av_keys *keys = av->keys;
    size_t number = free_number(keys);
    uint32_t in_entry = (uint32_t)number;
    uint8_t entry[AV_KEYED_MAX];
    uint64_t index;
    bool fresh;
    int rc;

    if (number == SIZE_MAX)
        return -FI_ENOSPC;
    memset(entry, NO_ADDRESS, av->kind->size);
    memcpy(entry + av->kind->size, &in_entry, sizeof(in_entry));
    rc = av_table_insert(av->table, entry, &index, &fresh);
    if (rc)
        return rc;
    keys->keys[number] = (struct av_key){.addr = index, .size = size};
    memcpy(keys->keys[number].bytes, bytes, size);
    if (number == keys->count)
        __atomic_store_n(&keys->count, number + 1, __ATOMIC_RELEASE);
    *fi_addr = index;
    return 0;
}

int av_insert_auth_key(struct fid_av *fid, const void *bytes, size_t size, fi_addr_t *fi_addr,
                       uint64_t flags)
{
    struct av *av = av_of(fid);
    const struct av_key *key;
    int rc = 0;

    if (flags)
        return -FI_EBADFLAGS;
    if (!av->keys || !bytes || !size || size > AV_KEY_MAX || !fi_addr) {
        LOG_WARN(av->domain->fabric->part, FI_LOG_AV, "fi_av_insert_auth_key: %s",
                 av->keys ? "no key, or one that is too long"
                          : "the domain is not of FI_AV_AUTH_KEY");
        return -FI_EINVAL;
    }
    pthread_mutex_lock(&av->mutex);
    if (av->kind->key_usable && !av->kind->key_usable(av, bytes, size))
        rc = -FI_EINVAL;
    key = av_key_find(av, bytes, size, SIZE_MAX);
    if (key)
        *fi_addr = key->addr;
    else if (!rc)
        rc = add_key(av, bytes, size, fi_addr);
    pthread_mutex_unlock(&av->mutex);
    return rc;
}

int av_lookup_auth_key(struct fid_av *fid, fi_addr_t addr, void *bytes, size_t *size)
{
    struct av *av = av_of(fid);
    const struct av_key *key;
    size_t room;
    int rc = -FI_EINVAL;

    pthread_mutex_lock(&av->mutex);
    key = av_key_of(av, addr);
    if (key && size && (bytes || !*size)) {
        room = *size;
        *size = key->size;
        if (bytes)
            memcpy(bytes, key->bytes, room < key->size ? room : key->size);
        rc = room < key->size ? -FI_ETOOSMALL : 0;
    }
    pthread_mutex_unlock(&av->mutex);
    return rc;
}

int av_remove_auth_key(struct av *av, fi_addr_t addr)
{
    const struct av_key *key = av_key_of(av, addr);

    if (!key || key->addr != addr)
        return -FI_EINVAL;
    if (key->users || children_any(&av->children))
        return -FI_EBUSY;
    av->keys->keys[key - av->keys->keys].addr = FI_ADDR_NOTAVAIL;
    av_table_remove(av->table, addr);
    return 0;
}
