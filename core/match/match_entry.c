/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/match/match_entry.h"

int match_entry_queue(struct fi_peer_rx_entry *entry, bool tagged, void *message, bool has_data,
                      uint64_t data)
{
    struct fi_ops_srx_owner *ops = entry->srx->owner_ops;

    entry->peer_context = message;
    entry->cq_data = data;
    if (has_data)
        entry->flags |= FI_REMOTE_CQ_DATA;
    return tagged ? ops->queue_tag(entry) : ops->queue_msg(entry);
}

struct fi_cq_err_entry match_entry_error(const struct fi_peer_rx_entry *entry, uint64_t flags,
                                         size_t copied, size_t len, int err)
{
    return (struct fi_cq_err_entry){
        .op_context = entry->context,
        .flags = flags,
        .len = copied,
        .buf = entry->count ? entry->iov[0].iov_base : NULL,
        .tag = entry->tag,
        .olen = len - copied,
        .err = err,
        .prov_errno = err,
        .src_addr = entry->addr,
    };
}
