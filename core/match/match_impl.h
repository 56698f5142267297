/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside of the matching engine: the shared part of match*.c and match_quick.h.
 *
 * A struct rx is a receive or a message. Exact receives are in a hash table by (tag, source or
 * any); receives with ignore bits in a list of their own. Which of the two kinds matches first is
 * decided by sequence numbers. Queued messages are in one list in order of arrival, in a table by
 * tag, and, with directed receives, in one by (tag, source). Untagged messages are those of tag 0
 * on a side of their own.
 *
 * In a table the first of equal keys, the leader, is in the bucket; the others are in its ring, in
 * order. So thousands of equal keys cost other keys nothing.
 */
#ifndef WEFT_CORE_MATCH_MATCH_IMPL_H
#define WEFT_CORE_MATCH_MATCH_IMPL_H

#include "core/base/pool.h"
#include "core/match/match.h"
#include "core/queue/binding.h"

enum {
    TABLE_FIRST_BITS = 3
};

struct key_link {
    struct list ring;          /* of equal keys; the leader is the head */
    struct key_link *next;     /* in the bucket; leaders only */
    struct key_link **reverse; /* what points here; NULL: not a leader */
    uint64_t tag;
    fi_addr_t src; /* FI_ADDR_UNSPEC: any */
};

struct key_table {
    struct key_link **buckets;
    unsigned shift; /* 64 - log2 of the bucket count */
    size_t leaders;
    struct key_link *first[1 << TABLE_FIRST_BITS];
};

struct side {
    uint64_t flags;  /* FI_MSG | FI_RECV, or FI_TAGGED | FI_RECV */
    size_t directed; /* exact directed receives posted */
    struct rx
        *lone; /* the only receive posted, exact and not directed: not in `exact` yet; or NULL */
    struct key_table exact;
    struct list wild;   /* receives with ignore bits, in order (rx.more) */
    struct list posted; /* all receives, in order (rx.all) */
    size_t queued;
    struct list arrived; /* messages, in order (rx.all) */
    struct key_table by_tag, by_source;
};

/* A multi-receive buffer. It ends when it is not posted, not held, and has no slices under way. */
struct multi {
    size_t offset, min, slices;
    int err;   /* positive: it ends in an error entry */
    bool held; /* by a loop that fills it */
    bool told; /* the last slice carries FI_MULTI_RECV */
};

struct rx {
    struct fi_peer_rx_entry entry;
    struct key_link key; /* posted: by (tag, src); queued: by tag */
    uint64_t seq, ignore;
    struct list all;
    struct side *side;
    struct match_source *source; /* of a message */
    struct rx *parent;           /* a slice's buffer */
    bool is_multi, is_claimed;
    struct list more;     /* posted: in wild; queued: in source->unexpected; claimed too */
    struct key_link from; /* queued: by (tag, source) */
    struct multi multi;
    struct iovec iov[]; /* iov_limit, then as many descriptors */
};

struct match {
    struct match_attr attr;
    struct binding *binding;
    struct match_watch *watch;
    uint64_t seq;
    size_t posted;
    struct side msg, tag;
    struct list claimed; /* (rx.all) */
    struct list groups;  /* struct match_groups: of all sources */
    struct pool pool;
};

static inline struct rx *rx_of(struct fi_peer_rx_entry *entry)
{
    return (struct rx *)(void *)entry;
}

/* ---- Tables ---- */

void key_table_grow(struct key_table *table);

static inline struct key_link **key_bucket(const struct key_table *table, uint64_t tag,
                                           fi_addr_t src)
{
    uint64_t hash = (tag ^ (src + 1) * 0xff51afd7ed558ccdull) * 0x9e3779b97f4a7c15ull;

    return &table->buckets[hash >> table->shift];
}

/* The leader of a key, or NULL. */
static inline struct key_link *key_find(const struct key_table *table, uint64_t tag, fi_addr_t src)
{
    struct key_link *link = *key_bucket(table, tag, src);

    while (link && (link->tag != tag || link->src != src))
        link = link->next;
    return link;
}

static inline void key_place(struct key_link **where, struct key_link *link)
{
    link->next = *where;
    link->reverse = where;
    if (link->next)
        link->next->reverse = &link->next;
    *where = link;
}

/* Adds link as the last of its key. */
static inline void key_add(struct key_table *table, struct key_link *link, uint64_t tag,
                           fi_addr_t src)
{
    struct key_link *leader = key_find(table, tag, src);

    link->tag = tag;
    link->src = src;
    if (leader) {
        link->reverse = NULL;
        list_attach(&link->ring, &leader->ring);
        return;
    }
    list_init(&link->ring);
    key_place(key_bucket(table, tag, src), link);
    if (++table->leaders >> (64 - table->shift))
        key_table_grow(table);
}

/* The next of its key, if there is one, becomes the leader in its place. */
static inline void key_remove_leader(struct key_table *table, struct key_link *link)
{
    struct key_link *next = link->next, *heir;

    if (list_empty(&link->ring)) {
        table->leaders--;
        *link->reverse = next;
        if (next)
            next->reverse = link->reverse;
        return;
    }
    heir = list_item(link->ring.next, struct key_link, ring);
    list_detach(&link->ring);
    heir->next = next;
    heir->reverse = link->reverse;
    *heir->reverse = heir;
    if (next)
        next->reverse = &heir->next;
}

static inline void key_remove(struct key_table *table, struct key_link *link)
{
    if (link->reverse)
        key_remove_leader(table, link);
    else
        list_detach(&link->ring);
}

/* Another receive is about to be posted: a lone one takes its place in the table. */
static inline void side_settle(struct side *side)
{
    struct rx *lone = side->lone;

    if (!lone)
        return;
    side->lone = NULL;
    key_add(&side->exact, &lone->key, lone->key.tag, FI_ADDR_UNSPEC);
}

/* ---- Functions between the files ---- */

/* A receive as the application asked for it. */
struct want {
    struct side *side;
    const struct iovec *iov;
    size_t count;
    void **desc;
    fi_addr_t src; /* FI_ADDR_UNSPEC: any */
    uint64_t tag, ignore, flags;
    void *context;
};

static inline struct want match_want(struct side *side, const struct iovec *iov, size_t count,
                                     void **desc, fi_addr_t src, uint64_t flags, void *context)
{
    return (struct want){.side = side,
                         .iov = iov,
                         .count = count,
                         .desc = desc,
                         .src = src,
                         .flags = flags,
                         .context = context};
}

/* The earliest message that a receive matches, or NULL. */
struct rx *match_find_queued(const struct match *match, const struct want *want);
/* Takes a message out of its queue; its source keeps it. */
void match_unqueue(struct rx *rx);
/* Gives a receive's buffer to an entry. */
void match_fill(const struct match *match, struct rx *rx, const struct want *want);
/* Hands a message that is out of its queue to its lower. */
void match_start(struct rx *rx);
void match_discard(struct rx *rx);
/* Puts a new receive last. -FI_EAGAIN, -FI_ENOMEM. */
int match_post(struct match *match, const struct want *want, struct rx **rx);
/* Takes a receive out of the posted ones. */
void match_unpost(struct match *match, struct rx *rx);
static inline bool match_is_posted(const struct rx *rx)
{
    return !list_empty(&rx->all);
}
/* An entry with nothing but its own memory set. NULL without memory. */
static inline struct rx *match_new_rx(struct match *match)
{
    struct rx *rx = pool_get(&match->pool);

    if (!rx)
        return NULL;
    rx->entry.iov = rx->iov;
    rx->entry.desc = (void **)(rx->iov + match->attr.iov_limit);
    rx->entry.cq_data = 0;
    rx->entry.peer_context = NULL;
    rx->entry.owner_context = match;
    rx->parent = NULL;
    rx->is_multi = false;
    rx->is_claimed = false;
    return rx;
}
/* Writes an error entry for a receive that is out of all lists. */
void match_report_error(struct match *match, const struct side *side, void *context, uint64_t tag,
                        uint64_t more_flags, int err);

/* FI_PEEK, FI_CLAIM, FI_DISCARD. */
ssize_t match_probe(struct match *match, const struct want *want);

/* FI_MULTI_RECV: posts, and takes queued messages. */
ssize_t match_post_multi(struct match *match, const struct want *want);
/* Can the buffer take a message of len bytes? If not, it is released: look for another. */
bool match_multi_fits(struct match *match, struct rx *parent, size_t len);
/* Gives the next slice to a message's entry. */
void match_multi_carve(struct match *match, struct rx *parent, struct rx *child, size_t len);
/* A slice is done. */
void match_multi_drop(struct match *match, struct rx *parent);
/* Ends a posted buffer in an error (positive), at once or after its last slice. */
void match_multi_fail(struct match *match, struct rx *parent, int err);

#endif
