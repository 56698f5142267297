/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Chunk k has 64 << k entries, so an index gives its chunk by its highest bit. The mark of an
 * entry in use is part of it, and published last: the address family, or the pointer to the string.
 *
 * The hash table (open addressing, linear probing, at most 3/4 full, deletion by moving back) keeps
 * 32 bits of the hash beside the index, so that growing it touches no entry. An address has one
 * entry; how often it was inserted `again` is counted in memory of its own from the first time on.
 *
 * Indices that were given back are in a bitmap, allocated on the first removal.
 */
#include "core/av/av_table.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/hash.h"
#include "core/net/addr.h"

enum {
    FIRST_BITS = 6, /* entries of the first chunk, as a power of two */
    CHUNKS = 27,    /* 2^32 entries and more */
    FIRST_SLOTS = 64,
    MOST_SLOT_BITS = 24, /* allocated at once */
};

struct slot {
    uint32_t hash;
    uint32_t index; /* plus one; 0: free */
};

struct av_table {
    uint32_t format;
    size_t opaque; /* bytes of an address of a part's own form; 0: it is of `format` */
    size_t stride;
    size_t limit; /* indices below have been used */
    bool ids_required;
    void (*missing)(void *owner);
    void *owner;
    char *chunks[CHUNKS];
    fi_addr_t *ids[CHUNKS];
    size_t *again[CHUNKS];
    struct slot *slots;
    size_t mask, used;
    uint64_t *unused; /* bitmap of indices below limit */
    size_t unused_words, unused_count, unused_hint;
};

static unsigned chunk_of(uint64_t index, size_t *offset)
{
    uint64_t shifted = index + (1u << FIRST_BITS);
    unsigned bit = 63u - (unsigned)__builtin_clzll(shifted);

    *offset = (size_t)(shifted - (1ull << bit));
    return bit - FIRST_BITS;
}

static char *entry_at(const struct av_table *table, uint64_t index)
{
    size_t offset;
    unsigned chunk = chunk_of(index, &offset);

    return table->chunks[chunk] + offset * table->stride;
}

static bool is_text(const struct av_table *table)
{
    return table->format == FI_ADDR_STR;
}

static inline const void *get_used(const struct av_table *table, uint64_t index)
{
    char *entry = entry_at(table, index);

    if (is_text(table))
        return __atomic_load_n((char **)(void *)entry, __ATOMIC_ACQUIRE);
    return __atomic_load_n((sa_family_t *)(void *)entry, __ATOMIC_ACQUIRE) ? entry : NULL;
}

/* Apart, so that the usual way has no frame. */
static __attribute__((noinline)) const void *get_missing(const struct av_table *table,
                                                         uint64_t index)
{
    if (!table->missing)
        return NULL;
    table->missing(table->owner);
    if (index >= __atomic_load_n(&table->limit, __ATOMIC_ACQUIRE))
        return NULL;
    return get_used(table, index);
}

const void *av_table_get(const struct av_table *table, uint64_t index)
{
    if (index >= __atomic_load_n(&table->limit, __ATOMIC_ACQUIRE))
        return get_missing(table, index);
    return get_used(table, index);
}

size_t av_table_limit(const struct av_table *table)
{
    return __atomic_load_n(&table->limit, __ATOMIC_ACQUIRE);
}

/* ---- The hash table ---- */

static uint32_t hash_of(const struct av_table *table, const void *addr)
{
    if (table->opaque || is_text(table))
        return hash_fold(
            hash_bytes(HASH_START, addr, table->opaque ? table->opaque : strlen(addr)));
    return hash_fold(addr_hash(addr));
}

static bool same(const struct av_table *table, const void *a, const void *b)
{
    if (table->opaque)
        return !memcmp(a, b, table->opaque);
    return is_text(table) ? !strcmp(a, b) : addr_equal(a, b);
}

/* The slot of an address, or the free one where it would go. */
static struct slot *find_slot(const struct av_table *table, uint32_t hash, const void *addr)
{
    for (size_t i = hash & table->mask;; i = (i + 1) & table->mask) {
        struct slot *slot = &table->slots[i];

        if (!slot->index ||
            (slot->hash == hash && same(table, av_table_get(table, slot->index - 1), addr)))
            return slot;
    }
}

static int resize(struct av_table *table, size_t count)
{
    struct slot *slots = calloc(count, sizeof(*slots)), *old = table->slots;

    if (!slots)
        return -FI_ENOMEM;
    for (size_t i = 0; old && i <= table->mask; i++) {
        size_t j = old[i].hash & (count - 1);

        if (!old[i].index)
            continue;
        while (slots[j].index)
            j = (j + 1) & (count - 1);
        slots[j] = old[i];
    }
    free(old);
    table->slots = slots;
    table->mask = count - 1;
    return 0;
}

void av_table_reserve(struct av_table *table, size_t count)
{
    size_t slots = table->mask + 1;

    while (slots / 4 * 3 <= table->used + count && slots < (size_t)1 << MOST_SLOT_BITS)
        slots *= 2;
    if (slots > table->mask + 1)
        (void)resize(table, slots);
}

static void free_slot(struct av_table *table, struct slot *slot)
{
    size_t hole = (size_t)(slot - table->slots), i = hole;

    table->used--;
    for (;;) {
        table->slots[hole].index = 0;
        do {
            i = (i + 1) & table->mask;
            if (!table->slots[i].index)
                return;
        } while (((i - table->slots[i].hash) & table->mask) < ((i - hole) & table->mask));
        table->slots[hole] = table->slots[i];
        hole = i;
    }
}

uint64_t av_table_find(const struct av_table *table, const void *addr)
{
    struct slot *slot = find_slot(table, hash_of(table, addr), addr);

    return slot->index ? slot->index - 1 : FI_ADDR_NOTAVAIL;
}

/* ---- Entries ---- */

/* The lowest unused index, with memory behind it. */
static int pick_index(struct av_table *table, uint64_t *index)
{
    size_t offset, word = table->unused_hint;
    unsigned chunk;

    if (table->unused_count) {
        while (!table->unused[word])
            word++;
        table->unused_hint = word;
        *index = word * 64 + (unsigned)__builtin_ctzll(table->unused[word]);
        return 0;
    }
    if (table->limit >= UINT32_MAX - 1)
        return -FI_ENOMEM;
    chunk = chunk_of(table->limit, &offset);
    if (!table->chunks[chunk]) {
        table->chunks[chunk] = calloc((size_t)1 << (chunk + FIRST_BITS), table->stride);
        if (!table->chunks[chunk])
            return -FI_ENOMEM;
    }
    *index = table->limit;
    return 0;
}

static int store(struct av_table *table, uint64_t index, const void *addr)
{
    char *entry = entry_at(table, index), *copy;
    sa_family_t first;

    if (is_text(table)) {
        copy = strdup(addr);
        if (!copy)
            return -FI_ENOMEM;
        __atomic_store_n((char **)(void *)entry, copy, __ATOMIC_RELEASE);
        return 0;
    }
    memcpy(&first, addr, sizeof(first));
    memcpy(entry + sizeof(first), (const char *)addr + sizeof(first),
           (table->opaque ? table->opaque : addr_size(addr)) - sizeof(first));
    __atomic_store_n((sa_family_t *)(void *)entry, first, __ATOMIC_RELEASE);
    return 0;
}

static void take_index(struct av_table *table, uint64_t index)
{
    size_t offset;
    unsigned chunk = chunk_of(index, &offset);

    if (index == table->limit) {
        __atomic_store_n(&table->limit, (size_t)index + 1, __ATOMIC_RELEASE);
        return;
    }
    table->unused[index / 64] &= ~(1ull << index % 64);
    table->unused_count--;
    if (table->ids[chunk])
        __atomic_store_n(&table->ids[chunk][offset], table->ids_required ? FI_ADDR_NOTAVAIL : index,
                         __ATOMIC_RELAXED);
}

static int insert_again(struct av_table *table, uint64_t index)
{
    size_t offset;
    unsigned chunk = chunk_of(index, &offset);

    if (!table->again[chunk]) {
        table->again[chunk] = calloc((size_t)1 << (chunk + FIRST_BITS), sizeof(size_t));
        if (!table->again[chunk])
            return -FI_ENOMEM;
    }
    table->again[chunk][offset]++;
    return 0;
}

int av_table_insert(struct av_table *table, const void *addr, uint64_t *index, bool *fresh)
{
    uint32_t hash = hash_of(table, addr);
    struct slot *slot;
    int rc;

    if (table->used * 4 >= table->mask * 3) {
        rc = resize(table, (table->mask + 1) * 2);
        if (rc)
            return rc;
    }
    slot = find_slot(table, hash, addr);
    *fresh = !slot->index;
    if (slot->index) {
        *index = slot->index - 1;
        return insert_again(table, *index);
    }
    rc = pick_index(table, index);
    if (!rc)
        rc = store(table, *index, addr);
    if (rc)
        return rc;
    take_index(table, *index);
    slot->hash = hash;
    slot->index = (uint32_t)*index + 1;
    table->used++;
    return 0;
}

bool av_table_remove_again(struct av_table *table, uint64_t index)
{
    size_t offset;
    unsigned chunk = chunk_of(index, &offset);

    if (!table->again[chunk] || !table->again[chunk][offset])
        return false;
    table->again[chunk][offset]--;
    return true;
}

static void give_back(struct av_table *table, uint64_t index)
{
    size_t word = (size_t)index / 64, words;
    uint64_t *grown;

    if (table->missing)
        return; /* others may still mean by it what it was */
    if (word >= table->unused_words) {
        words = table->limit / 64 + 1;
        words += words / 2;
        grown = realloc(table->unused, words * sizeof(*grown));
        if (!grown)
            return; /* the index is not used again */
        memset(grown + table->unused_words, 0, (words - table->unused_words) * sizeof(*grown));
        table->unused = grown;
        table->unused_words = words;
    }
    table->unused[word] |= 1ull << index % 64;
    table->unused_count++;
    if (word < table->unused_hint || table->unused_count == 1)
        table->unused_hint = word;
}

void av_table_remove(struct av_table *table, uint64_t index)
{
    const void *addr = av_table_get(table, index);
    char *entry = entry_at(table, index);

    free_slot(table, find_slot(table, hash_of(table, addr), addr));
    if (is_text(table)) {
        __atomic_store_n((char **)(void *)entry, NULL, __ATOMIC_RELEASE);
        free((void *)(uintptr_t)addr);
    } else {
        __atomic_store_n((sa_family_t *)(void *)entry, 0, __ATOMIC_RELEASE);
    }
    give_back(table, index);
}

/* ---- User ids ---- */

void av_table_require_ids(struct av_table *table)
{
    table->ids_required = true;
}

int av_table_set_id(struct av_table *table, uint64_t index, fi_addr_t id)
{
    size_t offset, count;
    unsigned chunk = chunk_of(index, &offset);
    fi_addr_t *ids = table->ids[chunk];

    if (!ids && id == index && !table->ids_required)
        return 0;
    if (!ids) {
        count = (size_t)1 << (chunk + FIRST_BITS);
        ids = malloc(count * sizeof(*ids));
        if (!ids)
            return -FI_ENOMEM;
        for (size_t i = 0; i < count; i++)
            ids[i] = table->ids_required ? FI_ADDR_NOTAVAIL : index - offset + i;
        __atomic_store_n(&table->ids[chunk], ids, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&ids[offset], id, __ATOMIC_RELAXED);
    return 0;
}

fi_addr_t av_table_id(const struct av_table *table, uint64_t index)
{
    size_t offset;
    fi_addr_t *ids;

    if (index >= __atomic_load_n(&table->limit, __ATOMIC_ACQUIRE))
        return index;
    ids = __atomic_load_n(&table->ids[chunk_of(index, &offset)], __ATOMIC_ACQUIRE);
    if (!ids)
        return table->ids_required ? FI_ADDR_NOTAVAIL : index;
    return __atomic_load_n(&ids[offset], __ATOMIC_RELAXED);
}

/* ---- The table ---- */

void av_table_share(struct av_table *table, void (*missing)(void *owner), void *owner)
{
    table->missing = missing;
    table->owner = owner;
}

static size_t stride_of(uint32_t format)
{
    switch (format) {
    case FI_SOCKADDR_IN: return sizeof(struct sockaddr_in);
    case FI_SOCKADDR:
    case FI_SOCKADDR_IP:
    case FI_SOCKADDR_IN6: return sizeof(struct sockaddr_in6);
    case FI_ADDR_STR: return sizeof(char *);
    default: return 0;
    }
}

static int create(uint32_t format, size_t opaque, size_t expected, struct av_table **table)
{
    struct av_table *made = calloc(1, sizeof(*made));
    size_t slots = FIRST_SLOTS;

    if (!made)
        return -FI_ENOMEM;
    made->format = format;
    made->opaque = opaque;
    made->stride = opaque ? opaque + opaque % 2 : stride_of(format);
    while (slots / 4 * 3 < expected && slots < (size_t)1 << MOST_SLOT_BITS)
        slots *= 2;
    if (resize(made, slots)) {
        free(made);
        return -FI_ENOMEM;
    }
    *table = made;
    return 0;
}

int av_table_create(uint32_t format, size_t expected, struct av_table **table)
{
    return stride_of(format) ? create(format, 0, expected, table) : -FI_ENOSYS;
}

int av_table_create_opaque(size_t size, size_t expected, struct av_table **table)
{
    return create(FI_FORMAT_UNSPEC, size, expected, table);
}

void av_table_destroy(struct av_table *table)
{
    if (!table)
        return;
    for (uint64_t i = 0; is_text(table) && i < table->limit; i++)
        free(*(char **)(void *)entry_at(table, i));
    for (unsigned i = 0; i < CHUNKS; i++) {
        free(table->chunks[i]);
        free(table->ids[i]);
        free(table->again[i]);
    }
    free(table->unused);
    free(table->slots);
    free(table);
}
