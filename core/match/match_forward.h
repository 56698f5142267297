/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receives of a context that is an upper's (FI_PEER): a layer forwards its lower's questions to
 * the owner with the source added, and the owner's calls to the lower's source that a message waits
 * in. Not locked: the owner's progress domain lock covers it. Source: fi_peer(3).
 *
 * An entry carries the context that it belongs to and the lower's own pointer. Both are exchanged
 * at every crossing; a message that waits with the owner has a record in between, which outlives
 * its source.
 */
#ifndef WEFT_CORE_MATCH_MATCH_FORWARD_H
#define WEFT_CORE_MATCH_MATCH_FORWARD_H

#include "core/match/match.h"

/* One source of messages of a layer, mostly a connection; embedded. */
struct match_forward {
    struct match_source source; /* its srx is the lower's to ask, its peer_ops the lower's; it has
                                   no match; unexpected: records of what waits with the owner */
    struct fid_peer_srx *owner; /* the upper's context; NULL: not in use */
};

struct match_branch;

/* Numbers of peers, the lower's and the owner's; neither gets FI_ADDR_UNSPEC. */
struct match_branch_map {
    fi_addr_t (*up)(const struct match_branch *branch, fi_addr_t addr);
    fi_addr_t (*down)(const struct match_branch *branch, fi_addr_t addr);
    /* Messages with any of these bits in their tag are the layer's own: they have no bytes, and the
     * owner does not see them. `own` is called for each, inside of the lower's call: it may not
     * post. 0: there are none. */
    uint64_t own_tags;
    void (*own)(struct match_branch *branch, const struct fi_peer_rx_entry *message);
};

/* One of several lowers that share an owner, each of which has many peers; embedded, zeroed. The
 * numbers of peers are exchanged at every crossing, too. */
struct match_branch {
    struct match_forward forward; /* its source.srx is the lower's to ask */
    struct match_source engine;   /* of an owner that is an engine of the layer's own: no records */
    const struct match_branch_map *map;
    bool direct; /* what meets a receive of the engine completes where the engine's binding says */
    fi_addr_t (*get_addr)(struct fi_peer_rx_entry *entry); /* while the lower resolves sources */
};

/* The owner calls these for messages that wait: peer_ops of its context. */
extern struct fi_ops_srx_peer match_forward_peer_ops;

/* Makes source.srx ask owner. addr: the source's, which is passed to the owner, or
 * FI_ADDR_UNSPEC. */
void match_forward_init(struct match_forward *forward, struct fid_peer_srx *owner, fi_addr_t addr);
/* The source has another address now: unless that is FI_ADDR_UNSPEC, passes it to the owner for
 * waiting messages. */
void match_forward_resolve(struct match_forward *forward, fi_addr_t addr);
/* The source is gone; messages that wait with the owner stay there without it. Their start and
 * discard are still the lower's peer_ops, which get an entry whose srx is none of the lower's: it
 * ends the message with owner_ops->free_entry. */
void match_forward_finish(struct match_forward *forward);

/* The engine that a lower finds behind its receive context, and may take receives from by
 * core/match/match_quick.h, completions and all; their source is the owner's number. NULL: there is
 * none, or what it completes goes elsewhere. */
struct match *match_branch_direct(struct fid_peer_srx *srx);

/* The same for a lower that has many sources, connections, and makes them in the engine itself
 * (match_source_init): with match_branch_up of the numbers that it has for them. NULL, too, where
 * messages of the layer's own may come by the lower, which the engine must not see. */
struct match *match_branch_engine(struct fid_peer_srx *srx);
/* The owner's number of a peer, of such a context; FI_ADDR_UNSPEC: it has none. It stays while the
 * lower's address vector has the peer at addr. */
fi_addr_t match_branch_up(struct fid_peer_srx *srx, fi_addr_t addr);

/* match: the engine that owns receives, or NULL: upper does. Neither: none but the layer's own
 * messages are taken. */
void match_branch_init(struct match_branch *branch, struct match *match, struct fid_peer_srx *upper,
                       const struct match_branch_map *map);
/* Messages that wait with the engine are discarded, while the lower is still open; for those that
 * wait with an upper there is match_forward_finish. Takes one that was never made. */
void match_branch_discard(struct match_branch *branch);

#endif
