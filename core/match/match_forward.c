/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/match/match_forward.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/fid.h"

/* A message that waits with the owner: entry->peer_context meanwhile. */
struct record {
    struct list waiting;           /* in forward->source.unexpected */
    struct match_forward *forward; /* NULL: the source is gone */
    void *context;                 /* the lower's */
    struct fid_peer_srx srx;       /* stands in for the source's when that is gone */
    struct fid_peer_srx *owner;
};

static struct match_forward *forward_of(struct fid_peer_srx *srx)
{
    return object_of(srx, struct match_forward, source.srx);
}

/* Of forward->source.many. */
static struct match_branch *branch_of(struct match_forward *forward)
{
    return object_of(forward, struct match_branch, forward);
}

/* Messages wait with an engine in a source of this branch alone. */
static bool has_engine(struct match_forward *forward)
{
    return forward->source.many && forward->owner == &branch_of(forward)->engine.srx;
}

static fi_addr_t addr_up(struct match_forward *forward, fi_addr_t addr)
{
    if (!forward->source.many)
        return forward->source.addr;
    return addr == FI_ADDR_UNSPEC ? addr : branch_of(forward)->map->up(branch_of(forward), addr);
}

/* ---- From the lower to the owner ---- */

static int get(struct fid_peer_srx *srx, const struct fi_peer_match_attr *attr,
               struct fi_peer_rx_entry **entry,
               int (*ask)(struct fid_peer_srx *srx, struct fi_peer_match_attr *attr,
                          struct fi_peer_rx_entry **entry))
{
    struct match_forward *forward = forward_of(srx);
    struct fi_peer_match_attr mine = *attr;
    int rc;

    mine.addr = addr_up(forward, attr->addr);
    rc = ask(forward->owner, &mine, entry);
    if (rc && rc != -FI_ENOENT)
        return rc;
    (*entry)->srx = srx;
    if (forward->source.many)
        (*entry)->addr = attr->addr;
    return rc;
}

/* ---- Messages of the layer's own ---- */

static bool is_own(struct match_forward *forward, uint64_t tag)
{
    return forward->source.many && tag & branch_of(forward)->map->own_tags;
}

static int get_own(struct fid_peer_srx *srx, const struct fi_peer_match_attr *attr,
                   struct fi_peer_rx_entry **ret_entry)
{
    struct fi_peer_rx_entry *entry = calloc(1, sizeof(*entry));

    if (!entry)
        return -FI_ENOMEM;
    entry->srx = srx;
    entry->addr = attr->addr;
    entry->msg_size = attr->msg_size;
    entry->tag = attr->tag;
    entry->owner_context = srx; /* of no other entry that comes to this source */
    *ret_entry = entry;
    return -FI_ENOENT;
}

static bool is_own_entry(const struct fi_peer_rx_entry *entry)
{
    return entry->owner_context == entry->srx;
}

static int queue_own(struct fi_peer_rx_entry *entry)
{
    struct match_branch *branch = branch_of(forward_of(entry->srx));

    branch->map->own(branch, entry);
    return entry->srx->peer_ops->discard_tag(entry);
}

/* ---- Those of the owner ---- */

static int get_msg(struct fid_peer_srx *srx, struct fi_peer_match_attr *attr,
                   struct fi_peer_rx_entry **entry)
{
    if (!forward_of(srx)->owner)
        return -FI_ENOTCONN;
    return get(srx, attr, entry, forward_of(srx)->owner->owner_ops->get_msg);
}

static int get_tag(struct fid_peer_srx *srx, struct fi_peer_match_attr *attr,
                   struct fi_peer_rx_entry **entry)
{
    if (is_own(forward_of(srx), attr->tag))
        return get_own(srx, attr, entry);
    if (!forward_of(srx)->owner)
        return -FI_ENOTCONN;
    return get(srx, attr, entry, forward_of(srx)->owner->owner_ops->get_tag);
}

static int remember(struct match_forward *forward, struct fi_peer_rx_entry *entry)
{
    struct record *record = malloc(sizeof(*record));

    if (!record)
        return -FI_ENOMEM;
    list_init(&record->waiting);
    record->forward = forward;
    record->context = entry->peer_context;
    record->owner = forward->owner;
    record->srx.peer_ops = forward->source.srx.peer_ops;
    list_attach(&record->waiting, &forward->source.unexpected);
    entry->peer_context = record;
    return 0;
}

static void forget(struct fi_peer_rx_entry *entry)
{
    struct record *record = entry->peer_context;

    entry->peer_context = record->context;
    list_detach(&record->waiting);
    free(record);
}

static int queue(struct fi_peer_rx_entry *entry, int (*up)(struct fi_peer_rx_entry *entry))
{
    struct fid_peer_srx *srx = entry->srx;
    struct match_forward *forward = forward_of(srx);
    fi_addr_t addr = entry->addr;
    int rc = has_engine(forward) ? 0 : remember(forward, entry);

    if (rc)
        return rc;
    if (forward->source.many)
        entry->addr = addr_up(forward, addr);
    entry->srx = forward->owner;
    rc = up(entry);
    if (!rc)
        return 0;
    entry->srx = srx;
    entry->addr = addr;
    if (!has_engine(forward))
        forget(entry);
    return rc;
}

static int queue_msg(struct fi_peer_rx_entry *entry)
{
    return queue(entry, forward_of(entry->srx)->owner->owner_ops->queue_msg);
}

static int queue_tag(struct fi_peer_rx_entry *entry)
{
    return is_own_entry(entry) ? queue_own(entry)
                               : queue(entry, forward_of(entry->srx)->owner->owner_ops->queue_tag);
}

static void free_entry(struct fi_peer_rx_entry *entry)
{
    struct fid_peer_srx *owner = forward_of(entry->srx)->owner;

    if (is_own_entry(entry)) {
        free(entry);
        return;
    }
    entry->srx = owner;
    owner->owner_ops->free_entry(entry);
}

/* Asks the lower about a message that waits with the engine. */
static fi_addr_t engine_addr(struct fi_peer_rx_entry *entry)
{
    struct fid_peer_srx *owner = entry->srx;
    struct match_branch *branch = object_of(owner, struct match_branch, engine.srx);
    fi_addr_t addr;

    entry->srx = &branch->forward.source.srx;
    addr = branch->get_addr(entry);
    entry->srx = owner;
    return addr_up(&branch->forward, addr);
}

/* The same about one that waits with an upper: of another branch it is not known here. */
static fi_addr_t record_addr(struct fi_peer_rx_entry *entry)
{
    struct record *record = entry->peer_context;
    struct match_forward *forward = record->forward;
    struct fid_peer_srx *owner = entry->srx;
    fi_addr_t addr;

    if (!forward || !branch_of(forward)->get_addr)
        return FI_ADDR_UNSPEC;
    entry->srx = &forward->source.srx;
    entry->peer_context = record->context;
    addr = branch_of(forward)->get_addr(entry);
    entry->peer_context = record;
    entry->srx = owner;
    return addr_up(forward, addr);
}

/* A lower with one source is resolved from above: match_forward_resolve. */
static void foreach_unspec_addr(struct fid_peer_srx *srx,
                                fi_addr_t (*get_addr)(struct fi_peer_rx_entry *entry))
{
    struct match_forward *forward = forward_of(srx);

    if (!forward->source.many || !forward->owner)
        return;
    branch_of(forward)->get_addr = get_addr;
    forward->owner->owner_ops->foreach_unspec_addr(forward->owner,
                                                   has_engine(forward) ? engine_addr : record_addr);
    branch_of(forward)->get_addr = NULL;
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

/* ---- Entries whose source is gone ---- */

static int orphan_get(struct fid_peer_srx *srx, struct fi_peer_match_attr *attr,
                      struct fi_peer_rx_entry **entry)
{
    return -FI_ENOTCONN;
}

static int orphan_queue(struct fi_peer_rx_entry *entry)
{
    return -FI_ENOTCONN;
}

static void orphan_foreach(struct fid_peer_srx *srx,
                           fi_addr_t (*get_addr)(struct fi_peer_rx_entry *entry))
{
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
    .foreach_unspec_addr = orphan_foreach,
    .free_entry = orphan_free_entry,
};

/* ---- From the owner to the lower ---- */

/* The entry is the lower's again. */
static struct fi_ops_srx_peer *give_back(struct match_forward *forward,
                                         struct fi_peer_rx_entry *entry)
{
    entry->srx = &forward->source.srx;
    if (forward->source.many && entry->addr != FI_ADDR_UNSPEC)
        entry->addr = branch_of(forward)->map->down(branch_of(forward), entry->addr);
    return entry->srx->peer_ops;
}

static struct fi_ops_srx_peer *from_upper(struct fi_peer_rx_entry *entry)
{
    struct record *record = entry->peer_context;
    struct match_forward *forward = record->forward;

    if (forward) {
        forget(entry);
        return give_back(forward, entry);
    }
    entry->peer_context = record->context;
    record->srx.owner_ops = &orphan_ops;
    entry->srx = &record->srx; /* freed with the entry */
    return record->srx.peer_ops;
}

static int start_msg(struct fi_peer_rx_entry *entry)
{
    return from_upper(entry)->start_msg(entry);
}

static int start_tag(struct fi_peer_rx_entry *entry)
{
    return from_upper(entry)->start_tag(entry);
}

static int discard_msg(struct fi_peer_rx_entry *entry)
{
    return from_upper(entry)->discard_msg(entry);
}

static int discard_tag(struct fi_peer_rx_entry *entry)
{
    return from_upper(entry)->discard_tag(entry);
}

struct fi_ops_srx_peer match_forward_peer_ops = {
    .size = sizeof(match_forward_peer_ops),
    .start_msg = start_msg,
    .start_tag = start_tag,
    .discard_msg = discard_msg,
    .discard_tag = discard_tag,
};

static struct fi_ops_srx_peer *from_engine(struct fi_peer_rx_entry *entry)
{
    struct match_branch *branch = object_of(entry->srx, struct match_branch, engine.srx);

    return give_back(&branch->forward, entry);
}

static int engine_start_msg(struct fi_peer_rx_entry *entry)
{
    return from_engine(entry)->start_msg(entry);
}

static int engine_start_tag(struct fi_peer_rx_entry *entry)
{
    return from_engine(entry)->start_tag(entry);
}

static int engine_discard_msg(struct fi_peer_rx_entry *entry)
{
    return from_engine(entry)->discard_msg(entry);
}

static int engine_discard_tag(struct fi_peer_rx_entry *entry)
{
    return from_engine(entry)->discard_tag(entry);
}

static struct fi_ops_srx_peer engine_peer_ops = {
    .size = sizeof(engine_peer_ops),
    .start_msg = engine_start_msg,
    .start_tag = engine_start_tag,
    .discard_msg = engine_discard_msg,
    .discard_tag = engine_discard_tag,
};

/* ---- The life of a source ---- */

void match_forward_init(struct match_forward *forward, struct fid_peer_srx *owner, fi_addr_t addr)
{
    forward->owner = owner;
    forward->source.addr = addr;
    forward->source.many = false;
    list_init(&forward->source.unexpected);
    forward->source.srx.owner_ops = &owner_ops;
    fid_init(&forward->source.srx.ep_fid.fid, FI_CLASS_SRX_CTX, forward, NULL);
}

/* Asked of all messages without a source that wait in this context: they are all ours. */
static fi_addr_t addr_of_entry(struct fi_peer_rx_entry *entry)
{
    struct record *record = entry->peer_context;

    return record->forward ? record->forward->source.addr : FI_ADDR_UNSPEC;
}

void match_forward_resolve(struct match_forward *forward, fi_addr_t addr)
{
    forward->source.addr = addr;
    if (addr != FI_ADDR_UNSPEC)
        forward->owner->owner_ops->foreach_unspec_addr(forward->owner, addr_of_entry);
}

void match_forward_finish(struct match_forward *forward)
{
    list_for_each_safe (item, after, &forward->source.unexpected) {
        struct record *record = list_item(item, struct record, waiting);

        list_detach(&record->waiting);
        record->forward = NULL;
    }
}

void match_branch_init(struct match_branch *branch, struct match *match, struct fid_peer_srx *upper,
                       const struct match_branch_map *map)
{
    match_forward_init(&branch->forward, upper, FI_ADDR_UNSPEC);
    branch->forward.source.many = true;
    branch->map = map;
    branch->get_addr = NULL;
    if (!match)
        return;
    match_source_init(&branch->engine, match, FI_ADDR_UNSPEC);
    branch->engine.many = true;
    branch->engine.srx.peer_ops = &engine_peer_ops;
    branch->forward.owner = &branch->engine.srx;
}

struct match *match_branch_direct(struct fid_peer_srx *srx)
{
    struct match_forward *forward = forward_of(srx);

    if (srx->owner_ops != &owner_ops || !forward->owner || !has_engine(forward) ||
        !branch_of(forward)->direct)
        return NULL;
    return branch_of(forward)->engine.match;
}

struct match *match_branch_engine(struct fid_peer_srx *srx)
{
    struct match *match = match_branch_direct(srx);

    return match && !branch_of(forward_of(srx))->map->own_tags ? match : NULL;
}

fi_addr_t match_branch_up(struct fid_peer_srx *srx, fi_addr_t addr)
{
    return addr_up(forward_of(srx), addr);
}

void match_branch_discard(struct match_branch *branch)
{
    if (branch->forward.owner && has_engine(&branch->forward))
        match_source_finish(&branch->engine);
}
