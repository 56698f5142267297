/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keys of regions where several branches insist on their own. The join draws a key; a peer that
 * accesses a region by such a branch asks the region's endpoint for the branch's key, once, in a
 * message of the join's own: no bytes, a tag with LNX_KEY_TAGS, which applications do not have
 * (mem_tag_format).
 *
 *   bit 63      LNX_KEY_TAGS
 *   bits 56-62  what it is: enum lnx_key_message
 *   bits 0-55   the join's key, or of LNX_KEY_ADDRESS what lnx_stranger.h says
 *   data        LNX_KEY_TOLD: the branch's key; LNX_KEY_ASKED: how the endpoint that asks names
 *               itself; 32 bits where a branch has no more
 *
 * Until the answer is there fi_write and its kin return -FI_EAGAIN. All calls: progress domain
 * locked.
 */
#ifndef WEFT_LAYERS_LNX_LNX_KEYS_H
#define WEFT_LAYERS_LNX_LNX_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include <rdma/fi_domain.h>
#include <rdma/fi_rma.h>

#include "core/base/list.h"
#include "core/progress/progress.h"

#define LNX_KEY_TAGS (UINT64_C(1) << 63)

enum {
    LNX_KEY_BITS = 56, /* of the join's keys */
    LNX_KEY_BUCKETS = 64,
    LNX_KEYS_KNOWN = 4096, /* answers that are kept; then the oldest goes, and is asked for again */
    LNX_KEYS_WAITING = 1024, /* questions of peers; more are dropped, and asked again */
    LNX_KEY_AGAIN_MS = 20,   /* a question is repeated after this, then after twice as long, ... */
    LNX_KEY_AGAIN_MOST_MS = 1000,
    LNX_KEY_PATIENCE_MS = 10000, /* and given up after that */
};

enum lnx_key_message {
    LNX_KEY_ASKED = 1,
    LNX_KEY_TOLD,
    LNX_KEY_UNKNOWN, /* no region has that key */
    LNX_KEY_ADDRESS, /* of the asking endpoint, for a peer that does not answer: it may lack it */
};

struct lnx_domain;
struct lnx_ep;
struct lnx_path;
struct fi_peer_rx_entry;
struct op;

/* Of a region: entry of its domain's table. */
struct lnx_key {
    struct list link;
    uint64_t key;
};

/* Of a domain: its regions, and the questions that peers have asked. */
struct lnx_keys {
    struct list regions[LNX_KEY_BUCKETS];
    struct list asked; /* questions */
    size_t asked_count;
    struct progress_source source; /* answers them */
};

/* The answers of an address vector's peers. */
struct lnx_answers {
    struct list known[LNX_KEY_BUCKETS];
    struct list by_age;
    size_t count;
};

/* Room for the remote segments of one operation as its branch has them. */
struct lnx_remote {
    union {
        struct fi_rma_iov rma[16];
        struct fi_rma_ioc ioc[16];
    };
};

/* Attaches the source to progress. */
int lnx_keys_init(struct lnx_keys *keys, struct progress *progress);
void lnx_keys_finish(struct lnx_keys *keys, struct progress *progress);

/* A key that none of the domain's regions has and that a peer cannot guess, of `size` bytes at
 * most. -FI_EAGAIN. */
int lnx_keys_draw(const struct lnx_keys *keys, size_t size, uint64_t *key);
/* The branch's, of a region in the table; FI_KEY_NOTAVAIL. */
uint64_t lnx_mr_key_in(const struct lnx_key *key, unsigned branch);
void lnx_keys_add(struct lnx_keys *keys, struct lnx_key *key);
void lnx_keys_remove(struct lnx_key *key); /* takes one that was never added */

void lnx_answers_init(struct lnx_answers *answers);
void lnx_answers_finish(struct lnx_answers *answers);
/* The branch has the number for another peer now. */
void lnx_answers_forget(struct lnx_answers *answers, unsigned branch, fi_addr_t addr);

/* The endpoint is closing: questions to it get no answer. */
void lnx_keys_leave(struct lnx_ep *ep);

/* A message of the join's own has come by a branch of ep. */
void lnx_keys_message(struct lnx_ep *ep, unsigned branch, const struct fi_peer_rx_entry *message);

/* Exchanges the keys of op's remote segments for the branch's. -FI_EAGAIN: asked for, not known
 * yet; -FI_ETIMEDOUT: the peer has not answered; or why it cannot be asked. */
ssize_t lnx_keys_translate(struct lnx_ep *ep, const struct lnx_path *path, struct op *op,
                           struct lnx_remote *room);

#endif
