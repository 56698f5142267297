/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pages of endpoints that shared a port (nic/share.h) and whose processes were all killed: no
 * process has a lock on their files any more. The next one of that user that shares a port,
 * whichever it is, takes the files away.
 */
#ifndef WEFT_UET_NIC_SWEEP_H
#define WEFT_UET_NIC_SWEEP_H

#include <stddef.h>

/* How the path of each page of this user begins. */
void uet_sweep_prefix(char *path, size_t size);
/* Takes away those pages of this user that are of no process, but for the one at `kept`. */
void uet_sweep(const char *kept);

#endif
