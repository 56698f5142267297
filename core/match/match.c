/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The two meetings: a message with the receives that are posted (get), and a receive with the
 * messages that are queued (match_receive). Every call out (start, discard, completions)
 * is made when the engine's own state is settled, since posting and freeing may follow from inside;
 * loops that call out begin again afterwards.
 */
#include "core/match/match_quick.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

/* ---- Tables ---- */

static void table_init(struct key_table *table)
{
    memset(table, 0, sizeof(*table));
    table->buckets = table->first;
    table->shift = 64 - TABLE_FIRST_BITS;
}

static void table_finish(struct key_table *table)
{
    if (table->buckets != table->first)
        free(table->buckets);
}

/* Without memory the table stays as it is, and becomes slower. */
void key_table_grow(struct key_table *table)
{
    size_t old_count = (size_t)1 << (64 - table->shift);
    struct key_link **old = table->buckets;
    struct key_link **buckets = calloc(old_count * 4, sizeof(struct key_link *));

    if (!buckets)
        return;
    table->buckets = buckets;
    table->shift -= 2;
    for (size_t i = 0; i < old_count; i++) {
        struct key_link *link = old[i], *next;

        for (; link; link = next) {
            next = link->next;
            key_place(key_bucket(table, link->tag, link->src), link);
        }
    }
    if (old != table->first)
        free(old);
}

/* ---- Receives ---- */

void match_fill(const struct match *match, struct rx *rx, const struct want *want)
{
    struct fi_peer_rx_entry *entry = &rx->entry;
    const struct binding *binding = match->binding;

    entry->context = want->context;
    entry->count = want->count;
    entry->flags |= want->side->flags;
    if (binding->rx && completion_wanted(binding->rx_selective, want->flags))
        entry->flags |= FI_COMPLETION;
    for (size_t i = 0; i < want->count; i++) {
        entry->iov[i] = want->iov[i];
        entry->desc[i] = want->desc ? want->desc[i] : NULL;
    }
}

int match_post(struct match *match, const struct want *want, struct rx **posted)
{
    struct side *side = want->side;
    struct rx *rx;

    if (match->posted == match->attr.size)
        return -FI_EAGAIN;
    rx = match_new_rx(match);
    if (!rx)
        return -FI_ENOMEM;
    rx->entry.flags = 0;
    match_fill(match, rx, want);
    rx->seq = match->seq++;
    rx->ignore = want->ignore;
    rx->side = side;
    side_settle(side);
    list_attach(&rx->all, &side->posted);
    if (want->ignore) {
        rx->key.tag = want->tag;
        rx->key.src = want->src;
        list_attach(&rx->more, &side->wild);
    } else {
        key_add(&side->exact, &rx->key, want->tag, want->src);
        side->directed += want->src != FI_ADDR_UNSPEC;
    }
    match->posted++;
    *posted = rx;
    return 0;
}

void match_unpost(struct match *match, struct rx *rx)
{
    list_detach(&rx->all);
    if (rx == rx->side->lone) {
        rx->side->lone = NULL;
    } else if (rx->ignore) {
        list_detach(&rx->more);
    } else {
        key_remove(&rx->side->exact, &rx->key);
        rx->side->directed -= rx->key.src != FI_ADDR_UNSPEC;
    }
    match->posted--;
}

static fi_addr_t group_of(const struct match_source *source, fi_addr_t src)
{
    return source->groups && src != FI_ADDR_UNSPEC ? source->groups->of(source->groups, src)
                                                   : FI_ADDR_UNSPEC;
}

/* Is it the name of a group, of any source? */
static bool is_group(const struct match *match, fi_addr_t name)
{
    list_for_each (pos, &match->groups) {
        const struct match_groups *groups = list_item(pos, struct match_groups, link);

        if (name != FI_ADDR_UNSPEC && groups->of(groups, name) == name)
            return true;
    }
    return false;
}

/* Does a receive that names `wanted` take messages of src, which came to source? */
static bool is_from(const struct match_source *source, fi_addr_t wanted, fi_addr_t src)
{
    return wanted == FI_ADDR_UNSPEC || wanted == src || group_of(source, src) == wanted;
}

/* The earlier of best and the receive of exactly that tag and source. */
static struct rx *earlier(const struct side *side, struct rx *best, uint64_t tag, fi_addr_t src)
{
    struct key_link *link = key_find(&side->exact, tag, src);
    struct rx *rx = link ? list_item(link, struct rx, key) : NULL;

    return rx && (!best || rx->seq < best->seq) ? rx : best;
}

/* The earliest posted receive that a message matches, or NULL. */
static struct rx *find_posted(const struct match_source *source, const struct side *side,
                              fi_addr_t src, uint64_t tag)
{
    struct key_link *link = key_find(&side->exact, tag, FI_ADDR_UNSPEC);
    struct rx *best = link ? list_item(link, struct rx, key) : NULL;
    fi_addr_t group;

    if (side->lone)
        return side->lone->key.tag == tag ? side->lone : NULL;
    if (side->directed && src != FI_ADDR_UNSPEC) {
        best = earlier(side, best, tag, src);
        group = group_of(source, src);
        if (group != FI_ADDR_UNSPEC)
            best = earlier(side, best, tag, group);
    }
    list_for_each (pos, &side->wild) {
        struct rx *rx = list_item(pos, struct rx, more);

        if (best && best->seq < rx->seq)
            break;
        if (!((tag ^ rx->key.tag) & ~rx->ignore) && is_from(source, rx->key.src, src))
            return rx;
    }
    return best;
}

/* ---- Messages ---- */

struct rx *match_find_queued(const struct match *match, const struct want *want)
{
    const struct side *side = want->side;
    const uint64_t tag = want->tag, ignore = want->ignore;
    fi_addr_t src = want->src;
    struct key_link *link;

    if (!ignore && src == FI_ADDR_UNSPEC) {
        link = key_find(&side->by_tag, tag, FI_ADDR_UNSPEC);
        return link ? list_item(link, struct rx, key) : NULL;
    }
    if (!ignore && !is_group(match, src)) {
        link = key_find(&side->by_source, tag, src);
        return link ? list_item(link, struct rx, from) : NULL;
    }
    list_for_each (pos, &side->arrived) {
        struct rx *rx = list_item(pos, struct rx, all);

        if (!((tag ^ rx->entry.tag) & ~ignore) && is_from(rx->source, src, rx->entry.addr))
            return rx;
    }
    return NULL;
}

static bool in_by_source(const struct rx *rx)
{
    const struct match *match = rx->entry.owner_context;

    return match->attr.directed && rx->entry.addr != FI_ADDR_UNSPEC;
}

void match_unqueue(struct rx *rx)
{
    list_detach(&rx->all);
    key_remove(&rx->side->by_tag, &rx->key);
    if (in_by_source(rx))
        key_remove(&rx->side->by_source, &rx->from);
    rx->side->queued--;
}

static void tell_matched(struct rx *rx)
{
    const struct match *match = rx->entry.owner_context;

    if (match->watch)
        match->watch->matched(match->watch, &rx->entry);
}

void match_start(struct rx *rx)
{
    struct fi_ops_srx_peer *ops = rx->source->srx.peer_ops;

    list_detach(&rx->more);
    tell_matched(rx);
    if (rx->side->flags & FI_TAGGED)
        ops->start_tag(&rx->entry);
    else
        ops->start_msg(&rx->entry);
}

void match_discard(struct rx *rx)
{
    struct fi_ops_srx_peer *ops = rx->source->srx.peer_ops;

    list_detach(&rx->more);
    if (rx->side->flags & FI_TAGGED)
        ops->discard_tag(&rx->entry);
    else
        ops->discard_msg(&rx->entry);
}

/* A message that the lower holds gets the buffer of a posted receive, which is used up. */
static void adopt(struct match *match, struct rx *message, struct rx *posted)
{
    struct fi_peer_rx_entry *entry = &message->entry;

    match_unpost(match, posted);
    entry->context = posted->entry.context;
    entry->flags |= posted->entry.flags;
    entry->count = posted->entry.count;
    memcpy(entry->iov, posted->entry.iov, entry->count * sizeof(*entry->iov));
    memcpy(entry->desc, posted->entry.desc, entry->count * sizeof(*entry->desc));
    pool_put(&match->pool, posted);
}

/* Gives a message that is in no queue the buffer, or the slice, that it matched. */
static void give(struct match *match, struct rx *message, struct rx *posted)
{
    if (posted->is_multi)
        match_multi_carve(match, posted, message, message->entry.msg_size);
    else
        adopt(match, message, posted);
}

/* As find_posted, but releases the multi-receive buffers that are in the way. The message must be
 * in no queue, since their release calls out. */
static struct rx *find_fitting(const struct match_source *source, const struct side *side,
                               fi_addr_t src, uint64_t tag, size_t msg_size)
{
    struct rx *rx;

    do
        rx = find_posted(source, side, src, tag);
    while (rx && rx->is_multi && !match_multi_fits(source->match, rx, msg_size));
    return rx;
}

/* ---- Calls of the lower ---- */

static struct match_source *source_of(struct fid_peer_srx *srx)
{
    return object_of(srx, struct match_source, srx);
}

/* The entry of a message, from a receive, a slice of one, or new. 0, -FI_ENOENT, -FI_ENOMEM. */
static int entry_for(const struct match_source *source, struct side *side, fi_addr_t src,
                     uint64_t tag, size_t msg_size, struct rx **found)
{
    struct rx *posted = find_fitting(source, side, src, tag, msg_size), *rx;
    struct match *match = source->match;

    if (posted && !posted->is_multi) {
        match_unpost(match, posted);
        *found = posted;
        return 0;
    }
    rx = match_new_rx(match);
    if (!rx)
        return -FI_ENOMEM;
    *found = rx;
    if (posted) {
        rx->entry.flags = 0;
        match_multi_carve(match, posted, rx, msg_size);
        return 0;
    }
    rx->entry.flags = side->flags;
    rx->entry.context = NULL;
    rx->entry.count = 0;
    rx->seq = match->seq;
    return -FI_ENOENT;
}

static inline int get(struct match_source *source, struct side *side,
                      const struct fi_peer_match_attr *attr, uint64_t tag,
                      struct fi_peer_rx_entry **entry)
{
    fi_addr_t src = source->many ? attr->addr : source->addr;
    struct rx *rx = match_quick_take(source->match, side, tag, attr->msg_size);
    int rc = 0;

    if (!rx)
        rc = entry_for(source, side, src, tag, attr->msg_size, &rx);
    if (rc && rc != -FI_ENOENT)
        return rc;
    rx->side = side;
    rx->source = source;
    rx->entry.srx = &source->srx;
    rx->entry.addr = src;
    rx->entry.msg_size = attr->msg_size;
    rx->entry.tag = tag;
    list_init(&rx->more);
    *entry = &rx->entry;
    if (!rc)
        tell_matched(rx);
    return rc;
}

static int get_msg(struct fid_peer_srx *srx, struct fi_peer_match_attr *attr,
                   struct fi_peer_rx_entry **entry)
{
    struct match_source *source = source_of(srx);

    return get(source, &source->match->msg, attr, 0, entry);
}

static int get_tag(struct fid_peer_srx *srx, struct fi_peer_match_attr *attr,
                   struct fi_peer_rx_entry **entry)
{
    struct match_source *source = source_of(srx);

    return get(source, &source->match->tag, attr, attr->tag, entry);
}

static int queue(struct fi_peer_rx_entry *entry)
{
    struct rx *rx = rx_of(entry);
    struct match *match = entry->owner_context;
    struct side *side = rx->side;
    struct rx *posted;

    /* A receive may have been posted since get, if the lower took its time. */
    if (rx->seq != match->seq) {
        posted = find_fitting(rx->source, side, entry->addr, entry->tag, entry->msg_size);
        if (posted) {
            give(match, rx, posted);
            match_start(rx);
            return 0;
        }
    }
    rx->seq = match->seq++;
    list_attach(&rx->all, &side->arrived);
    list_attach(&rx->more, &rx->source->unexpected);
    key_add(&side->by_tag, &rx->key, entry->tag, FI_ADDR_UNSPEC);
    if (in_by_source(rx))
        key_add(&side->by_source, &rx->from, entry->tag, entry->addr);
    side->queued++;
    return 0;
}

static void free_entry(struct fi_peer_rx_entry *entry)
{
    struct match *match = entry->owner_context;
    struct rx *parent = rx_of(entry)->parent;

    pool_put(&match->pool, entry);
    if (parent)
        match_multi_drop(match, parent);
}

static void set_addr(struct rx *rx, fi_addr_t addr)
{
    rx->entry.addr = addr;
    if (in_by_source(rx) && !rx->is_claimed)
        key_add(&rx->side->by_source, &rx->from, rx->entry.tag, addr);
}

/* The first message of a source, and the receive that it can now have. */
static struct rx *find_startable(const struct match_source *source, struct rx **posted)
{
    list_for_each (pos, &source->unexpected) {
        struct rx *rx = list_item(pos, struct rx, more);

        if (rx->is_claimed)
            continue;
        *posted = find_posted(source, rx->side, rx->entry.addr, rx->entry.tag);
        if (*posted)
            return rx;
    }
    return NULL;
}

/* Messages of a source whose address has come to be known meet the directed receives. */
static void start_resolved(struct match_source *source)
{
    struct match *match = source->match;
    struct rx *rx, *posted;

    while (match->posted && (rx = find_startable(source, &posted))) {
        if (posted->is_multi && !match_multi_fits(match, posted, rx->entry.msg_size))
            continue;
        match_unqueue(rx);
        give(match, rx, posted);
        match_start(rx);
    }
}

static void foreach_unspec_addr(struct fid_peer_srx *srx,
                                fi_addr_t (*get_addr)(struct fi_peer_rx_entry *entry))
{
    struct match_source *source = source_of(srx);

    list_for_each (pos, &source->unexpected) {
        struct rx *rx = list_item(pos, struct rx, more);
        fi_addr_t addr;

        if (rx->entry.addr != FI_ADDR_UNSPEC)
            continue;
        addr = get_addr(&rx->entry);
        if (addr != FI_ADDR_UNSPEC)
            set_addr(rx, addr);
    }
    start_resolved(source);
}

static struct fi_ops_srx_owner owner_ops = {
    .size = sizeof(struct fi_ops_srx_owner),
    .get_msg = get_msg,
    .get_tag = get_tag,
    .queue_msg = queue,
    .queue_tag = queue,
    .foreach_unspec_addr = foreach_unspec_addr,
    .free_entry = free_entry,
};

void match_source_init(struct match_source *source, struct match *match, fi_addr_t addr)
{
    memset(source, 0, sizeof(*source));
    fid_init(&source->srx.ep_fid.fid, FI_CLASS_SRX_CTX, source, NULL);
    source->srx.owner_ops = &owner_ops;
    source->match = match;
    source->addr = addr;
    list_init(&source->unexpected);
}

void match_source_resolve(struct match_source *source, fi_addr_t addr)
{
    source->addr = addr;
    list_for_each (pos, &source->unexpected) {
        struct rx *rx = list_item(pos, struct rx, more);

        if (rx->entry.addr == FI_ADDR_UNSPEC)
            set_addr(rx, addr);
    }
    start_resolved(source);
}

void match_source_finish(struct match_source *source)
{
    while (!list_empty(&source->unexpected)) {
        struct rx *rx = list_item(source->unexpected.next, struct rx, more);

        if (rx->is_claimed)
            list_detach(&rx->all);
        else
            match_unqueue(rx);
        match_discard(rx);
    }
    if (source->groups)
        list_detach(&source->groups->link);
    source->groups = NULL;
}

/* ---- Calls of the application ---- */

static inline ssize_t receive(struct match *match, const struct want *want)
{
    struct rx *rx;

    if (__builtin_expect(want->count == 1 && want->desc, 1) && match_quick_post(match, want))
        return 0;
    if (want->count > match->attr.iov_limit)
        return -FI_EINVAL;
    if (want->flags & (FI_PEEK | FI_CLAIM | FI_DISCARD))
        return match_probe(match, want);
    if (want->flags & FI_MULTI_RECV)
        return match_post_multi(match, want);
    if (want->side->queued) {
        rx = match_find_queued(match, want);
        if (rx) {
            match_unqueue(rx);
            match_fill(match, rx, want);
            match_start(rx);
            return 0;
        }
    }
    return match_post(match, want, &rx);
}

ssize_t match_receive(struct match *match, const struct op *op)
{
    bool tagged = op->group == OP_GROUP_TRECV;
    struct want want = match_want(tagged ? &match->tag : &match->msg, op->iov, op->count, op->desc,
                                  match->attr.directed ? op->peer : FI_ADDR_UNSPEC,
                                  op_final_flags(op, match->attr.op_flags), op->context);

    if (tagged) {
        want.tag = op->tag;
        want.ignore = op->ignore;
    }
    return receive(match, &want);
}

/* ---- The engine ---- */

static void side_init(struct side *side, uint64_t flags)
{
    side->flags = flags;
    list_init(&side->wild);
    list_init(&side->posted);
    list_init(&side->arrived);
    table_init(&side->exact);
    table_init(&side->by_tag);
    table_init(&side->by_source);
}

int match_create(const struct match_attr *attr, struct match **match)
{
    struct match *made = calloc(1, sizeof(*made));

    if (!made)
        return -FI_ENOMEM;
    made->attr = *attr;
    if (!attr->size)
        made->attr.size = SIZE_MAX;
    if (!attr->iov_limit)
        made->attr.iov_limit = 1;
    side_init(&made->msg, FI_MSG | FI_RECV);
    side_init(&made->tag, FI_TAGGED | FI_RECV);
    list_init(&made->claimed);
    list_init(&made->groups);
    pool_init(&made->pool,
              sizeof(struct rx) + made->attr.iov_limit * (sizeof(struct iovec) + sizeof(void *)),
              0);
    *match = made;
    return 0;
}

static void side_finish(struct side *side)
{
    while (!list_empty(&side->arrived)) {
        struct rx *rx = list_item(side->arrived.next, struct rx, all);

        match_unqueue(rx);
        match_discard(rx);
    }
    table_finish(&side->exact);
    table_finish(&side->by_tag);
    table_finish(&side->by_source);
}

void match_destroy(struct match *match)
{
    if (!match)
        return;
    while (!list_empty(&match->claimed)) {
        struct rx *rx = list_item(match->claimed.next, struct rx, all);

        list_detach(&rx->all);
        match_discard(rx);
    }
    side_finish(&match->msg);
    side_finish(&match->tag);
    pool_finish(&match->pool);
    free(match);
}

void match_set_min_multi_recv(struct match *match, size_t size)
{
    match->attr.min_multi_recv = size;
}

size_t match_min_multi_recv(const struct match *match)
{
    return match->attr.min_multi_recv;
}

void match_set_binding(struct match *match, struct binding *binding)
{
    match->binding = binding;
}

/* With a directed receive about, which there is none of, nothing is quick. */
void match_set_watch(struct match *match, struct match_watch *watch)
{
    size_t before = match->watch ? 1 : 0, after = watch ? 1 : 0;

    match->msg.directed += after - before;
    match->tag.directed += after - before;
    match->watch = watch;
}

void *match_hold(struct fi_peer_rx_entry *entry)
{
    struct rx *parent = rx_of(entry)->parent;

    if (parent)
        parent->multi.slices++;
    return parent;
}

void match_release(struct match *match, void *held)
{
    match_multi_drop(match, held);
}

void match_source_set_groups(struct match_source *source, struct match_groups *groups)
{
    list_init(&groups->link);
    list_attach(&groups->link, &source->match->groups);
    source->groups = groups;
}

size_t match_posted(const struct match *match)
{
    return match->posted;
}

size_t match_queued(const struct match *match)
{
    return match->msg.queued + match->tag.queued;
}
