/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An AV as one of several with the same name: each has a table of its own, as every AV does, and
 * makes the changes to it that the journal of the name has. Changes of other processes are taken in
 * when an index or address is not known, at control calls, while a progress domain is driven at
 * most once in a few milliseconds, and before it sleeps. Source: fi_av(3); docs/design/av.md.
 */
#ifndef WEFT_CORE_AV_AV_SHARED_H
#define WEFT_CORE_AV_AV_SHARED_H

#include "core/av/av.h"
#include "core/av/av_journal.h"

/* attr has a name. Applies published changes, and answers map_addr. Errors of av_segment_open, with
 * a line in the log; -FI_EIO, -FI_ENOMEM. */
int av_shared_open(struct av *av, struct fi_av_attr *attr);
void av_shared_close(struct av *av); /* of an unnamed one nothing */

/* The rest with the AV locked. Takes in the changes that others have published, tells listeners,
 * and returns how many; -FI_ENOMEM: they wait; -FI_EIO: the file is damaged, and not looked at
 * again. */
int av_shared_catch_up(struct av *av);

/* Around changes: other processes make none between them. -FI_EPERM for a reader, -FI_EBUSY, and
 * the errors of av_shared_catch_up. av_shared_end makes them visible: 0, or -FI_EIO. */
int av_shared_begin(struct av *av, const char *call);
int av_shared_end(struct av *av);
/* Insertion into the table and the journal. As av_table_insert; -FI_ENOSPC, -FI_EIO. */
int av_shared_insert(struct av *av, const void *addr, uint64_t *index, bool *fresh);
/* Tells the journal of a removal; the table is the caller's. -FI_ENOSPC, -FI_EIO. */
int av_shared_removed(struct av *av, uint64_t index);

#endif
