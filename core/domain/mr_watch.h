/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transfers into a region that the CPU does not carry out piece by piece, as those of a layer's
 * lower: fi_close of the region has them stopped, and returns when no byte of them lands any more.
 */
#ifndef WEFT_CORE_DOMAIN_MR_WATCH_H
#define WEFT_CORE_DOMAIN_MR_WATCH_H

#include "core/domain/mr.h"

struct mr_watch;
struct progress;

/* Until it is closed, fi_close of the region, which the caller holds, calls `closed`, once, with
 * the progress domain locked. NULL: the region is closed already, or there is no memory. The caller
 * knows that fi_close may lock the progress domain: it has a lock, or is the application's own, not
 * one of a layer above, whose lock is not held while it closes a region. Progress domain locked,
 * here and below. */
struct mr_watch *mr_watch_open(struct mr *mr, struct progress *progress, void (*closed)(void *arg),
                               void *arg);
/* The caller's hold of the progress domain is not the last one. Takes NULL. */
void mr_watch_close(struct mr_watch *watch);

/* The region is closed: tells all of its watches. No progress domain is locked. */
void mr_watches_tell(struct mr *mr);

#endif
