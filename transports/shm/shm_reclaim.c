/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/shm/shm_reclaim.h"

#include <sys/mman.h>

#include <rdma/fi_errno.h>

#include "transports/shm/shm_ep.h"

void shm_reclaim_visit(struct shm_reclaim *rest, struct shm_tx *tx, struct shm_rx *rx, uint64_t now)
{
    /* The credits of the last quarter would come with the next. */
    if (rx->bulk_pos == rest->taken)
        shm_rx_bulk_tell(rx);
    rest->taken = rx->bulk_pos;
    if (tx->bulk_pos == rest->clean)
        return;
    if (tx->bulk_pos != rest->sent) {
        rest->sent = tx->bulk_pos;
        rest->since = now;
        return;
    }
    if (now - rest->since < SHM_RECLAIM_TICKS || !shm_tx_bulk_is_empty(tx))
        return;
    /* Both sides find zeroes there, and new pages where they write. Where it is refused (pages that
     * are larger than a half, filters) they stay, until the next try after the next use. */
    madvise(tx->bulk, SHM_BULK, MADV_REMOVE);
    tx->bulk_pages = 0;
    rest->clean = tx->bulk_pos;
}

void shm_reclaim_some(struct shm_ep *ep, uint64_t now)
{
    for (int i = 0; i < SHM_RECLAIM_LINKS && ep->number_count; i++) {
        struct shm_link *link;

        ep->rest_at = (ep->rest_at + 1) % ep->number_count;
        link = ep->numbers[ep->rest_at];
        if (!link || !link->region || link->dead)
            continue;
        shm_reclaim_visit(&link->rest, &link->tx, &link->rx, now);
        if (link->tx.broken)
            shm_link_fail(link, FI_EIO);
    }
}
