/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Entries are in chunks of 64, which a directory leads to. A directory that is full is followed by
 * one of twice the room, and stays, since others may be reading in it. The mark of an entry in use
 * is part of it, and published last: the address family, or the pointer to the string.
 *
 * The hash table is open addressing without wrapping. A slot has 32 bits of an entry's hash and its
 * index, so that growing touches no entry; slots lie in the order of hashes, each at its home or
 * behind it, so that a look-up ends at the first larger one; behind the last home is a tail, whose
 * last slot is always free. The table is at most 21/32 full and grows by an eighth, one pass over
 * it, so that an entry costs at most 14 bytes of it.
 *
 * An address has one entry; how often it was inserted `again` is counted in memory of its own from
 * the first time on, as user ids are: there part k is of 64 << k entries, so an index gives its
 * part by its highest bit.
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
    CHUNK = 64,           /* entries */
    FIRST_BITS = 6,       /* of ids and `again`, as a power of two */
    PARTS = 27,           /* 2^32 of them and more */
    MOST_SLOTS = 1 << 24, /* allocated at once */
    FIRST_TAIL = 8,
};

struct directory {
    struct directory *before; /* the one that it follows, or NULL */
    size_t room;
    char *chunks[];
};

struct av_table {
    uint32_t format;
    size_t opaque; /* bytes of an address of a part's own form; 0: it is of `format` */
    size_t stride;
    size_t limit; /* indices below have been used */
    bool ids_required;
    void (*missing)(void *owner);
    void *owner;
    struct directory *directory;
    fi_addr_t *ids[PARTS];
    size_t *again[PARTS];
    uint64_t *slots; /* hash and, in the lower half, index plus one; 0: free */
    size_t homes, tail, used;
    uint64_t *unused; /* bitmap of indices below limit */
    size_t unused_words, unused_count, unused_hint;
};

/* Of ids and `again`. */
static unsigned part_of(uint64_t index, size_t *offset)
{
    uint64_t shifted = index + (1u << FIRST_BITS);
    unsigned bit = 63u - (unsigned)__builtin_clzll(shifted);

    *offset = (size_t)(shifted - (1ull << bit));
    return bit - FIRST_BITS;
}

static char *entry_at(const struct av_table *table, uint64_t index)
{
    const struct directory *directory = __atomic_load_n(&table->directory, __ATOMIC_ACQUIRE);

    return directory->chunks[index / CHUNK] + index % CHUNK * table->stride;
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

/* The upper bits choose a home. */
static uint32_t hash_of(const struct av_table *table, const void *addr)
{
    uint64_t hash;

    if (!table->opaque && !is_text(table))
        return hash_fold(addr_hash(addr));
    hash = hash_bytes(HASH_START, addr, table->opaque ? table->opaque : strlen(addr));
    return (uint32_t)(hash * UINT64_C(0x9E3779B97F4A7C15) >> 32);
}

/* Is it the address of the entry at index, which is in use? */
static bool has(const struct av_table *table, uint64_t index, const void *addr)
{
    const void *entry = entry_at(table, index);

    if (table->opaque)
        return !memcmp(entry, addr, table->opaque);
    return is_text(table) ? !strcmp(*(char *const *)entry, addr) : addr_equal(entry, addr);
}

/* Where an entry of that hash is looked for first. */
static inline size_t home_of(uint32_t hash, size_t homes)
{
    return (size_t)((uint64_t)hash * homes >> 32);
}

static inline uint32_t slot_hash(uint64_t slot)
{
    return (uint32_t)(slot >> 32);
}

static inline uint64_t slot_index(uint64_t slot)
{
    return (uint32_t)slot - 1;
}

/* The slot of an address; or, *index FI_ADDR_NOTAVAIL, the place where its slot would go. */
static uint64_t *find_slot(const struct av_table *table, uint32_t hash, const void *addr,
                           uint64_t *index)
{
    uint64_t *slot = table->slots + home_of(hash, table->homes), least = (uint64_t)hash << 32;

    while (*slot - 1 < least) /* not for a free one */
        slot++;
    for (; *slot && slot_hash(*slot) == hash; slot++) {
        *index = slot_index(*slot);
        if (has(table, *index, addr))
            return slot;
    }
    *index = FI_ADDR_NOTAVAIL;
    return slot;
}

/* Takes all slots to the end of `total`; where they begin. */
static size_t gather_slots(uint64_t *slots, size_t count, size_t total)
{
    size_t first = total;

    for (size_t i = count; i-- > 0;) {
        if (slots[i])
            slots[--first] = slots[i];
    }
    return first;
}

/* homes: at least as many as now. Fewer entries are behind the last home then, or one more. In
 * place, so that the memory of large tables is moved by pages, and is never there twice. */
static int resize(struct av_table *table, size_t homes)
{
    size_t count = table->homes + table->tail, at = 0, from, end;
    size_t tail = table->tail + (table->slots[count - 2] != 0), total = homes + tail;
    uint64_t *slots = realloc(table->slots, total * sizeof(*slots));

    if (!slots)
        return -FI_ENOMEM;
    for (from = gather_slots(slots, count, total); from < total; from++) {
        uint64_t slot = slots[from];

        for (end = home_of(slot_hash(slot), homes); at < end; at++)
            slots[at] = 0;
        slots[at++] = slot; /* before `from`: all that are behind it have a place */
    }
    memset(slots + at, 0, (total - at) * sizeof(*slots));
    table->slots = slots;
    table->homes = homes;
    table->tail = tail;
    return 0;
}

static int lengthen_tail(struct av_table *table)
{
    size_t count = table->homes + table->tail;
    uint64_t *slots = realloc(table->slots, (count + table->tail) * sizeof(*slots));

    if (!slots)
        return -FI_ENOMEM;
    memset(slots + count, 0, table->tail * sizeof(*slots));
    table->slots = slots;
    table->tail *= 2;
    return 0;
}

/* Does the hash table hold so many? */
static bool has_room(const struct av_table *table, size_t entries)
{
    return entries <= table->homes * 21 / 32;
}

/* Homes for so many entries, of a table that has some. */
static size_t homes_for(size_t entries, size_t homes)
{
    size_t count = entries < MOST_SLOTS / 32 * 21 ? (entries / 21 + 1) * 32 : MOST_SLOTS;
    size_t least = homes + homes / 8;

    return count > least ? count : least;
}

void av_table_reserve(struct av_table *table, size_t count)
{
    if (!has_room(table, table->used + count))
        (void)resize(table, homes_for(table->used + count, table->homes));
}

/* Room for one entry more. */
static int reserve_one(struct av_table *table)
{
    int rc = 0;

    if (!has_room(table, table->used + 1))
        rc = resize(table, homes_for(table->used + 1, table->homes));
    if (!rc && table->slots[table->homes + table->tail - 2])
        rc = lengthen_tail(table);
    return rc;
}

static void put_slot(struct av_table *table, uint64_t *place, uint32_t hash, uint64_t index)
{
    uint64_t moved, slot = (uint64_t)hash << 32 | (index + 1);

    for (; slot; slot = moved) {
        moved = *place;
        *place++ = slot;
    }
    table->used++;
}

static void free_slot(struct av_table *table, uint64_t *slot)
{
    uint64_t *next = slot + 1;

    for (; *next && table->slots + home_of(slot_hash(*next), table->homes) != next; next++)
        next[-1] = *next;
    next[-1] = 0;
    table->used--;
}

uint64_t av_table_find(const struct av_table *table, const void *addr)
{
    uint64_t index;

    find_slot(table, hash_of(table, addr), addr, &index);
    return index;
}

/* ---- Entries ---- */

/* Room for one more chunk. */
static int grow_directory(struct av_table *table)
{
    struct directory *old = table->directory, *grown;
    size_t room = old ? 2 * old->room : 1;

    grown = calloc(1, sizeof(*grown) + room * sizeof(*grown->chunks));
    if (!grown)
        return -FI_ENOMEM;
    grown->before = old;
    grown->room = room;
    if (old)
        memcpy(grown->chunks, old->chunks, old->room * sizeof(*old->chunks));
    __atomic_store_n(&table->directory, grown, __ATOMIC_RELEASE);
    return 0;
}

/* Memory for the entry at an index that was never used. */
static int back(struct av_table *table, size_t index)
{
    size_t chunk = index / CHUNK;
    char *entries;

    if ((!table->directory || chunk >= table->directory->room) && grow_directory(table))
        return -FI_ENOMEM;
    if (table->directory->chunks[chunk])
        return 0;
    entries = calloc(CHUNK, table->stride);
    table->directory->chunks[chunk] = entries;
    return entries ? 0 : -FI_ENOMEM;
}

/* The lowest unused index, with memory behind it. */
static int pick_index(struct av_table *table, uint64_t *index)
{
    size_t word = table->unused_hint;

    if (table->unused_count) {
        while (!table->unused[word])
            word++;
        table->unused_hint = word;
        *index = word * 64 + (unsigned)__builtin_ctzll(table->unused[word]);
        return 0;
    }
    if (table->limit >= UINT32_MAX - 1)
        return -FI_ENOMEM;
    if (back(table, table->limit))
        return -FI_ENOMEM;
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
    unsigned part = part_of(index, &offset);

    if (index == table->limit) {
        __atomic_store_n(&table->limit, (size_t)index + 1, __ATOMIC_RELEASE);
        return;
    }
    table->unused[index / 64] &= ~(1ull << index % 64);
    table->unused_count--;
    if (table->ids[part])
        __atomic_store_n(&table->ids[part][offset], table->ids_required ? FI_ADDR_NOTAVAIL : index,
                         __ATOMIC_RELAXED);
}

static int insert_again(struct av_table *table, uint64_t index)
{
    size_t offset;
    unsigned part = part_of(index, &offset);

    if (!table->again[part]) {
        table->again[part] = calloc((size_t)1 << (part + FIRST_BITS), sizeof(size_t));
        if (!table->again[part])
            return -FI_ENOMEM;
    }
    table->again[part][offset]++;
    return 0;
}

int av_table_insert(struct av_table *table, const void *addr, uint64_t *index, bool *fresh)
{
    uint32_t hash = hash_of(table, addr);
    int rc = reserve_one(table);
    uint64_t *place;

    if (rc)
        return rc;
    place = find_slot(table, hash, addr, index);
    *fresh = *index == FI_ADDR_NOTAVAIL;
    if (!*fresh)
        return insert_again(table, *index);
    rc = pick_index(table, index);
    if (!rc)
        rc = store(table, *index, addr);
    if (rc)
        return rc;
    take_index(table, *index);
    put_slot(table, place, hash, *index);
    return 0;
}

bool av_table_remove_again(struct av_table *table, uint64_t index)
{
    size_t offset;
    unsigned part = part_of(index, &offset);

    if (!table->again[part] || !table->again[part][offset])
        return false;
    table->again[part][offset]--;
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
    uint64_t found;

    free_slot(table, find_slot(table, hash_of(table, addr), addr, &found));
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
    unsigned part = part_of(index, &offset);
    fi_addr_t *ids = table->ids[part];

    if (!ids && id == index && !table->ids_required)
        return 0;
    if (!ids) {
        count = (size_t)1 << (part + FIRST_BITS);
        ids = malloc(count * sizeof(*ids));
        if (!ids)
            return -FI_ENOMEM;
        for (size_t i = 0; i < count; i++)
            ids[i] = table->ids_required ? FI_ADDR_NOTAVAIL : index - offset + i;
        __atomic_store_n(&table->ids[part], ids, __ATOMIC_RELEASE);
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
    ids = __atomic_load_n(&table->ids[part_of(index, &offset)], __ATOMIC_ACQUIRE);
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

    if (!made)
        return -FI_ENOMEM;
    made->format = format;
    made->opaque = opaque;
    made->stride = opaque ? opaque + opaque % 2 : stride_of(format);
    made->homes = homes_for(expected, 0);
    made->tail = FIRST_TAIL;
    made->slots = calloc(made->homes + made->tail, sizeof(*made->slots));
    if (!made->slots) {
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

static void free_entries(struct av_table *table)
{
    struct directory *directory = table->directory, *before;

    for (uint64_t i = 0; is_text(table) && i < table->limit; i++)
        free(*(char **)(void *)entry_at(table, i));
    for (size_t i = 0; directory && i < directory->room; i++)
        free(directory->chunks[i]);
    for (; directory; directory = before) {
        before = directory->before;
        free(directory);
    }
}

void av_table_destroy(struct av_table *table)
{
    if (!table)
        return;
    free_entries(table);
    for (unsigned i = 0; i < PARTS; i++) {
        free(table->ids[i]);
        free(table->again[i]);
    }
    free(table->unused);
    free(table->slots);
    free(table);
}
