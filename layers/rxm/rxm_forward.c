/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxm/rxm_forward.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

/* A message that waits with the owner: entry->peer_context meanwhile. */
struct record {
    struct list waiting;     /* in link->source.unexpected; detached: the connection is gone */
    struct rxm_link *link;   /* NULL: gone */
    void *context;           /* the lower's */
    struct fid_peer_srx srx; /* stands in for the connection's when that is gone */
    struct fid_peer_srx *owner;
};

static struct rxm_link *link_of(struct fid_peer_srx *srx)
{
    return object_of(srx, struct rxm_link, source.srx);
}

/* ---- From the lower to the owner ---- */

static int get_msg(struct fid_peer_srx *srx, struct fi_peer_match_attr *attr,
                   struct fi_peer_rx_entry **entry)
{
    struct rxm_link *link = link_of(srx);
    struct fi_peer_match_attr mine = *attr;
    int rc;

    mine.addr = rxm_link_addr(link);
    rc = link->upper->owner_ops->get_msg(link->upper, &mine, entry);
    if (!rc || rc == -FI_ENOENT)
        (*entry)->srx = srx;
    return rc;
}

static int get_tag(struct fid_peer_srx *srx, struct fi_peer_match_attr *attr,
                   struct fi_peer_rx_entry **entry)
{
    struct rxm_link *link = link_of(srx);
    struct fi_peer_match_attr mine = *attr;
    int rc;

    mine.addr = rxm_link_addr(link);
    rc = link->upper->owner_ops->get_tag(link->upper, &mine, entry);
    if (!rc || rc == -FI_ENOENT)
        (*entry)->srx = srx;
    return rc;
}

static int queue(struct fi_peer_rx_entry *entry, int (*up)(struct fi_peer_rx_entry *entry))
{
    struct fid_peer_srx *srx = entry->srx;
    struct rxm_link *link = link_of(srx);
    struct record *record = malloc(sizeof(*record));
    int rc;

    if (!record)
        return -FI_ENOMEM;
    list_init(&record->waiting);
    record->link = link;
    record->context = entry->peer_context;
    record->owner = link->upper;
    record->srx.peer_ops = srx->peer_ops;
    list_attach(&record->waiting, &link->source.unexpected);
    entry->peer_context = record;
    entry->srx = link->upper;
    rc = up(entry);
    if (rc) {
        entry->peer_context = record->context;
        entry->srx = srx;
        list_detach(&record->waiting);
        free(record);
    }
    return rc;
}

static int queue_msg(struct fi_peer_rx_entry *entry)
{
    return queue(entry, link_of(entry->srx)->upper->owner_ops->queue_msg);
}

static int queue_tag(struct fi_peer_rx_entry *entry)
{
    return queue(entry, link_of(entry->srx)->upper->owner_ops->queue_tag);
}

static void free_entry(struct fi_peer_rx_entry *entry)
{
    struct fid_peer_srx *owner = link_of(entry->srx)->upper;

    entry->srx = owner;
    owner->owner_ops->free_entry(entry);
}

/* A connection has one source, which rxm resolves itself. */
static void foreach_unspec_addr(struct fid_peer_srx *srx,
                                fi_addr_t (*get_addr)(struct fi_peer_rx_entry *entry))
{
}

static struct fi_ops_srx_owner owner_ops = {
    .size = sizeof(owner_ops),
    .get_msg = get_msg,
    .get_tag = get_tag,
    .queue_msg = queue_msg,
    .queue_tag = queue_tag,
    .foreach_unspec_addr = foreach_unspec_addr,
    .free_entry = free_entry,
};

/* ---- Entries whose connection is gone ---- */

static int orphan_get(struct fid_peer_srx *srx, struct fi_peer_match_attr *attr,
                      struct fi_peer_rx_entry **entry)
{
    return -FI_ENOTCONN;
}

static int orphan_queue(struct fi_peer_rx_entry *entry)
{
    return -FI_ENOTCONN;
}

static void orphan_free_entry(struct fi_peer_rx_entry *entry)
{
    struct record *record = object_of(entry->srx, struct record, srx);

    entry->srx = record->owner;
    free(record);
    entry->srx->owner_ops->free_entry(entry);
}

static struct fi_ops_srx_owner orphan_ops = {
    .size = sizeof(orphan_ops),
    .get_msg = orphan_get,
    .get_tag = orphan_get,
    .queue_msg = orphan_queue,
    .queue_tag = orphan_queue,
    .foreach_unspec_addr = foreach_unspec_addr,
    .free_entry = orphan_free_entry,
};

/* ---- From the owner to the lower ---- */

/* The entry is the lower's again. */
static struct fi_ops_srx_peer *give_back(struct fi_peer_rx_entry *entry)
{
    struct record *record = entry->peer_context;
    struct fi_ops_srx_peer *peer_ops = record->srx.peer_ops;

    entry->peer_context = record->context;
    if (record->link) {
        entry->srx = &record->link->source.srx;
        list_detach(&record->waiting);
        free(record);
    } else {
        record->srx.owner_ops = &orphan_ops;
        entry->srx = &record->srx; /* freed with the entry */
    }
    return peer_ops;
}

static int start_msg(struct fi_peer_rx_entry *entry)
{
    return give_back(entry)->start_msg(entry);
}

static int start_tag(struct fi_peer_rx_entry *entry)
{
    return give_back(entry)->start_tag(entry);
}

static int discard_msg(struct fi_peer_rx_entry *entry)
{
    return give_back(entry)->discard_msg(entry);
}

static int discard_tag(struct fi_peer_rx_entry *entry)
{
    return give_back(entry)->discard_tag(entry);
}

struct fi_ops_srx_peer rxm_forward_peer_ops = {
    .size = sizeof(rxm_forward_peer_ops),
    .start_msg = start_msg,
    .start_tag = start_tag,
    .discard_msg = discard_msg,
    .discard_tag = discard_tag,
};

/* ---- The life of a connection ---- */

void rxm_forward_init(struct rxm_link *link, struct fid_peer_srx *owner, fi_addr_t addr)
{
    link->upper = owner;
    link->source.addr = addr;
    list_init(&link->source.unexpected);
    link->source.srx.owner_ops = &owner_ops;
    fid_init(&link->source.srx.ep_fid.fid, FI_CLASS_SRX_CTX, link, NULL);
}

/* Asked of all messages without a source that wait in this context: they are all ours. */
static fi_addr_t addr_of_entry(struct fi_peer_rx_entry *entry)
{
    struct record *record = entry->peer_context;

    return record->link ? rxm_link_addr(record->link) : FI_ADDR_UNSPEC;
}

void rxm_forward_resolve(struct rxm_link *link, fi_addr_t addr)
{
    link->source.addr = addr;
    link->upper->owner_ops->foreach_unspec_addr(link->upper, addr_of_entry);
}

void rxm_forward_finish(struct rxm_link *link)
{
    list_for_each_safe (item, after, &link->source.unexpected) {
        struct record *record = list_item(item, struct record, waiting);

        list_detach(&record->waiting);
        record->link = NULL;
    }
}
