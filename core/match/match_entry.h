/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A part that receives messages asks the owner of its receive context: an engine of ours, or an
 * upper (FI_PEER). These are the calls to it, for messages with and without a tag alike. Progress
 * domain locked. Source: fi_peer(3).
 */
#ifndef WEFT_CORE_MATCH_MATCH_ENTRY_H
#define WEFT_CORE_MATCH_MATCH_ENTRY_H

#include <stdbool.h>

#include <rdma/fi_eq.h>
#include <rdma/providers/fi_peer.h>

#include "core/base/iov.h"

/* 0: *entry is the receive of the message. -FI_ENOENT: there is none; *entry is to be queued or
 * freed. Another error: there is no entry. */
static inline int match_entry_get(struct fid_peer_srx *srx, bool tagged,
                                  struct fi_peer_match_attr *attr, struct fi_peer_rx_entry **entry)
{
    return tagged ? srx->owner_ops->get_tag(srx, attr, entry)
                  : srx->owner_ops->get_msg(srx, attr, entry);
}

/* Gives an entry back, received or not. */
static inline void match_entry_free(struct fi_peer_rx_entry *entry)
{
    entry->srx->owner_ops->free_entry(entry);
}

/* Leaves an unmatched message with the owner, which calls peer_ops->start_* or discard_* for it,
 * perhaps from inside of this call. message: the part's, entry->peer_context; data: of the CQ, with
 * has_data. 0, or an error: then the entry is the caller's still. */
int match_entry_queue(struct fi_peer_rx_entry *entry, bool tagged, void *message, bool has_data,
                      uint64_t data);

/* Bytes that fit the receive. */
static inline size_t match_entry_room(const struct fi_peer_rx_entry *entry)
{
    return iov_bytes(entry->iov, entry->count);
}

/* The completion in error of a receive that a message of len bytes has met, of which `copied` were
 * delivered: err is a positive FI_E code. Tag and source are the entry's, data is 0; the caller
 * changes what it knows better. */
struct fi_cq_err_entry match_entry_error(const struct fi_peer_rx_entry *entry, uint64_t flags,
                                         size_t copied, size_t len, int err);

#endif
