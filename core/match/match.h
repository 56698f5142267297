/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The matching engine: receives posted to one receive context, and messages that came before their
 * receive. Owner side of the peer SRX API (fi_peer(3)): lowers ask for a buffer before they move a
 * payload. Tagged and untagged, ignore bits, directed receive, multi-receive, peek, claim, discard,
 * cancel. A receive with an exact tag is found by hash; receives and messages match in the order of
 * the standard: earliest posted receive, earliest arrived message.
 *
 * No function here locks: the caller holds the lock of the owning progress domain.
 */
#ifndef WEFT_CORE_MATCH_MATCH_H
#define WEFT_CORE_MATCH_MATCH_H

#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_peer.h>

#include "core/base/list.h"
#include "core/base/seam.h"
#include "core/op/op.h"

struct match;
struct binding;

struct match_attr {
    size_t size;           /* most receives posted and unmatched; then -FI_EAGAIN; 0: no limit */
    size_t iov_limit;      /* iovecs of one receive; 0 counts as 1 */
    uint64_t op_flags;     /* default op flags of the receive context (FI_COMPLETION, ...) */
    size_t min_multi_recv; /* bytes below which a multi-receive buffer is released */
    bool directed;         /* FI_DIRECTED_RECV: src_addr of receives counts */
};

/*
 * Where messages come from. Embedded in a connection (or endpoint); its `srx` is handed to the
 * lower with fi_srx_context(FI_PEER). The lower's attr->addr is ignored: the identity of the
 * source object decides, unless `many` is set (by the embedder, after match_source_init): then
 * one lower endpoint stands for many peers, and attr->addr says which, FI_ADDR_UNSPEC for unknown
 * ones.
 *
 * The lower owns an entry from get (match) or start or discard on, whatever those return, until it
 * calls free_entry: after it wrote the completion, and also for a discarded entry (at once or
 * later, but before match_destroy). entry->flags is what the completion reports, FI_COMPLETION
 * taken off: it already says FI_MULTI_RECV on the last message of a buffer. Before queue_* the
 * lower may set cq_data and add FI_REMOTE_CQ_DATA to entry->flags; both are reported by FI_PEEK.
 * entry->iov and entry->desc are private copies, desc an array of count (NULL where none was
 * given).
 */
struct match_source {
    struct fid_peer_srx srx;
    struct match *match;
    fi_addr_t addr;              /* reported and matched; FI_ADDR_UNSPEC while unknown */
    bool many;                   /* attr->addr names the source, message by message */
    struct list unexpected;      /* its queued messages, claimed ones too */
    struct match_groups *groups; /* or NULL */
};

int match_create(const struct match_attr *attr, struct match **match);
/* Discards every queued message (peer_ops->discard_*) and forgets receives without completing them
 * (fi_close of the endpoint). Takes NULL. */
void match_destroy(struct match *match);
void match_set_min_multi_recv(struct match *match, size_t size); /* of receives posted later */
size_t match_min_multi_recv(const struct match *match);

/*
 * The engine reports each match to a layer, before the message or the receive completes: for a
 * layer above that wants its own context in the completion, and the order of matches.
 */
struct match_watch {
    /* entry->context and entry->flags are the receive's, entry->addr says whose message it is; both
     * of the former may be changed. May not post. */
    void (*matched)(struct match_watch *watch, struct fi_peer_rx_entry *entry);
};

/* watch: outlives match; NULL: none. The quick ways of core/match/match_quick.h are closed by it.
 */
void match_set_watch(struct match *match, struct match_watch *watch);
/* Answers OPT_MATCH_WATCH (core/part/part.h), of a lower that is called with its progress domain
 * locked; match may be NULL: nothing matches here. */
static inline int match_watch_option(struct match *match, const void *watch)
{
    if (match)
        match_set_watch(match, (struct match_watch *)(uintptr_t)watch);
    return 0;
}

/*
 * A second identity of peers: a receive may name one of them, or a group (an authorization key,
 * fi_av(3)), by an fi_addr_t of its own. Endpoints that share a receive context have groups each,
 * and a message is of those of its endpoint.
 */
struct match_groups {
    /* The group that the peer is of, a group's own name for itself; FI_ADDR_UNSPEC: of none. */
    fi_addr_t (*of)(const struct match_groups *groups, fi_addr_t peer);
    struct list link; /* the engine's */
};

/* Of a source of many peers, before its first message; groups: the source's until
 * match_source_finish, or until match_destroy. */
void match_source_set_groups(struct match_source *source, struct match_groups *groups);

/* From inside `matched`: a multi-receive buffer of which entry is a slice is not given back before
 * match_release of the result. NULL: entry is none. */
void *match_hold(struct fi_peer_rx_entry *entry);
void match_release(struct match *match, void *held);

/* Where the engine itself reports: cancel, peek, discard, release of a multi-receive buffer. Needed
 * before the first receive. The payload completions are written by the lower, by entry->flags:
 * FI_COMPLETION is set when a completion is wanted (selective completion considered). */
void match_set_binding(struct match *match, struct binding *binding);

/* srx.ep_fid is zeroed but for its class and context (the source); srx.owner_ops is the engine's.
 */
void match_source_init(struct match_source *source, struct match *match, fi_addr_t addr);
/* The source got an address: queued messages of it can now match directed receives (starts them).
 */
void match_source_resolve(struct match_source *source, fi_addr_t addr);
/* The source is gone: its queued messages are discarded. */
void match_source_finish(struct match_source *source);

/* A receive, with or without tag; the default flags of the context are merged here. May start a
 * queued message at once. -FI_EAGAIN at the size limit, -FI_EINVAL (too many iovecs, FI_CLAIM of an
 * unclaimed message), -FI_ENOMEM. */
ssize_t match_receive(struct match *match, const struct op *op);

/* fi_cancel: 0 when a posted receive was cancelled (an FI_ECANCELED error entry is written; for a
 * multi-receive buffer after its messages under way), -FI_ENOENT when none has the context. */
int match_cancel(struct match *match, void *context);
/* Every posted receive that only `source` (or anyone, when source is NULL) can satisfy ends in an
 * error entry with err (positive). */
void match_fail(struct match *match, struct match_source *source, int err);

/* Receives posted and messages queued, for statistics and tests. */
size_t match_posted(const struct match *match);
size_t match_queued(const struct match *match);
/* Answers OPT_UNEXPECTED_QUEUE (core/part/part.h): untagged messages first, then tagged ones, each
 * in their order. match may be NULL: there are none. */
int match_tell_queued(const struct match *match, void *value, size_t *len);

#endif
