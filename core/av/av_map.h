/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The array that map_addr of a named AV points to: the fi_addr_t of the i-th address at i, for
 * programs that take them from there. Memory of this process, which no other can change; an element
 * is there before its address is, so that a program need not call us in between. The array does not
 * move. Source: fi_av(3), and the practice of programs.
 */
#ifndef WEFT_CORE_AV_AV_MAP_H
#define WEFT_CORE_AV_AV_MAP_H

#include <stddef.h>

#include <rdma/fabric.h>

struct av_map {
    fi_addr_t *entries; /* NULL: there is none */
    size_t filled;      /* entries that say something */
    size_t room;        /* entries that there are addresses for */
};

/* With entries for `count` addresses and more. at: where it shall be, or NULL; when it cannot be
 * there there is none, and that is no error. -FI_ENOMEM. */
int av_map_open(struct av_map *map, void *at, size_t count);
/* `limit` addresses are known: entries for at least twice as many, as far as there is room. */
void av_map_cover(struct av_map *map, size_t limit);
void av_map_close(struct av_map *map); /* also a zeroed one */

#endif
