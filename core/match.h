/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The matching engine: receives posted to one receive context, and messages that came before their
 * receive. Owner side of the peer SRX API (fi_peer(3)): lowers ask for a buffer before they move a
 * payload. Tagged and untagged, ignore bits, directed receive, multi-receive, peek, claim, discard,
 * cancel. A receive with an exact tag is found by hash; receives and messages match in the order of the
 * standard: earliest posted receive, earliest arrived message.
 *
 * Nothing here locks: every call is made with the lock of the owning unit held.
 */
#ifndef WEFT_CORE_MATCH_H
#define WEFT_CORE_MATCH_H

#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_peer.h>

#include "core/list.h"

struct match;
struct report;

struct match_attr {
    size_t size;           /* most receives outstanding; then -FI_EAGAIN */
    size_t iov_limit;      /* iovecs of one receive */
    uint64_t op_flags;     /* default op flags of the receive context (FI_COMPLETION, ...) */
    size_t min_multi_recv; /* bytes below which a multi-receive buffer is released */
    bool directed;         /* FI_DIRECTED_RECV: src_addr of receives counts */
};

/*
 * Where messages come from. Embedded in a connection (or endpoint); its `srx` is handed to the lower
 * with fi_srx_context(FI_PEER). What the lower says in attr->addr is ignored: the identity of the
 * source object decides.
 */
struct match_source {
    struct fid_peer_srx srx;
    struct match *match;
    fi_addr_t addr;        /* reported and matched; FI_ADDR_UNSPEC while unknown */
    struct list unexpected; /* its queued messages */
};

int match_create(const struct match_attr *attr, struct match **match);
/* Discards every queued message (peer_ops->discard_*) and forgets receives without completing them
 * (fi_close of the endpoint). Takes NULL. */
void match_destroy(struct match *match);
void match_set_min_multi_recv(struct match *match, size_t size);
size_t match_min_multi_recv(const struct match *match);

/* Where the engine itself reports: cancel, peek, discard, release of a multi-receive buffer. Needed
 * before the first receive. The payload completions are written by the lower, by entry->flags:
 * FI_COMPLETION is set when a completion is wanted (selective completion considered). */
void match_set_report(struct match *match, struct report *report);

void match_source_init(struct match_source *source, struct match *match, fi_addr_t addr);
/* The source got an address: queued messages of it can now match directed receives (starts them). */
void match_source_resolve(struct match_source *source, fi_addr_t addr);
/* The source is gone: its queued messages are discarded. */
void match_source_finish(struct match_source *source);

/* fi_recvmsg, fi_trecvmsg with all flags merged (op_flags defaults are added by these unless flags
 * came from a *msg call: pass final flags). May start a queued message at once. -FI_EAGAIN at the
 * size limit, -FI_EINVAL. */
ssize_t match_recv(struct match *match, const struct fi_msg *msg, uint64_t flags);
ssize_t match_trecv(struct match *match, const struct fi_msg_tagged *msg, uint64_t flags);
uint64_t match_op_flags(const struct match *match);

/* fi_cancel: 0 when a posted receive was cancelled (an FI_ECANCELED error entry is written),
 * -FI_ENOENT when none has the context. */
int match_cancel(struct match *match, void *context);
/* Every posted receive that only `source` (or anyone, when source is NULL) can satisfy ends in an
 * error entry with err (positive). */
void match_fail(struct match *match, struct match_source *source, int err);

/* Receives posted and messages queued, for statistics and tests. */
size_t match_posted(const struct match *match);
size_t match_queued(const struct match *match);

#endif
