/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The store of an address vector: index -> address, and address -> index. Entries never move
 * (chunks), so that reading needs no lock; everything else needs the owner's. An entry costs its
 * address and at most 16 bytes, from some hundreds of them on.
 */
#ifndef WEFT_CORE_AV_AV_TABLE_H
#define WEFT_CORE_AV_AV_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>

struct av_table;

/* format: FI_SOCKADDR*, or FI_ADDR_STR (entries are private copies of strings). expected: entries
 * to make room for at once. -FI_ENOSYS for another format, -FI_ENOMEM. */
int av_table_create(uint32_t format, size_t expected, struct av_table **table);
/* The same for addresses of `size` bytes, of which the first two are not both 0. */
int av_table_create_opaque(size_t size, size_t expected, struct av_table **table);
void av_table_destroy(struct av_table *table); /* takes NULL */

/* Puts an address (a sockaddr, or a string) at the lowest unused index, or, not fresh, counts one
 * more insertion of the entry that there is. -FI_ENOMEM. */
int av_table_insert(struct av_table *table, const void *addr, uint64_t *index, bool *fresh);
/* Makes room in the hash table for count further addresses; without memory it grows step by step.
 */
void av_table_reserve(struct av_table *table, size_t count);
/* Takes back one insertion of an entry in use that has several; false when it has one. */
bool av_table_remove_again(struct av_table *table, uint64_t index);
/* The entry must be in use, with one insertion left. */
void av_table_remove(struct av_table *table, uint64_t index);
/* The index of an address, or FI_ADDR_NOTAVAIL. */
uint64_t av_table_find(const struct av_table *table, const void *addr);

/* The address at index, or NULL when unused. No lock. */
const void *av_table_get(const struct av_table *table, uint64_t index);
/* For tables that other processes fill, too: from now on av_table_get calls missing before it
 * reports an index that was never used as empty, and the index of a removed address is not
 * reused. */
void av_table_share(struct av_table *table, void (*missing)(void *owner), void *owner);
/* All indices ever used are below. No lock. */
size_t av_table_limit(const struct av_table *table);

/*
 * User ids, in memory of their own from the first one on that is not its index. An entry without
 * one reports its own index, or FI_ADDR_NOTAVAIL after av_table_require_ids. -FI_ENOMEM.
 */
void av_table_require_ids(struct av_table *table);
int av_table_set_id(struct av_table *table, uint64_t index, fi_addr_t id);
/* No lock. */
fi_addr_t av_table_id(const struct av_table *table, uint64_t index);

#endif
