/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Small operations that take one line of the ring, to a peer that there is a link to, with room in
 * it: short enough to be inlined into the entries of the tables. A refused caller has done nothing,
 * and takes the way of shm_post.c, which knows everything else.
 */
#ifndef WEFT_SHM_FAST_H
#define WEFT_SHM_FAST_H

#include "core/base/fork.h"
#include "core/match/match_quick.h"
#include "transports/shm/shm_op.h"

enum {
    SHM_ACCESS_WORDS = 4 * sizeof(uint64_t), /* of an access without data to one segment */
};

/* Flags that ask for more than a line. */
#define SHM_NOT_FAST (OP_DELIVERED | FI_FENCE | FI_REMOTE_CQ_DATA)

/* The link to an address that nothing has to be done about first, or NULL. Progress domain locked.
 */
static inline struct shm_link *shm_fast_link(const struct shm_ep *ep, fi_addr_t dest)
{
    struct shm_link *link;

    if (__builtin_expect(dest >= ep->peer_count || ep->forks != fork_generation, 0))
        return NULL;
    link = ep->peers[dest];
    if (__builtin_expect(!link || link->behind || link->tx.held ||
                             atomic_load_explicit(&ep->stale_peers, memory_order_relaxed),
                         0))
        return NULL;
    return link;
}

static inline void shm_fast_copy(void *to, const void *from, size_t len)
{
    if (__builtin_expect(len == sizeof(uint64_t), 1))
        __builtin_memcpy(to, from, sizeof(uint64_t));
    else if (len)
        __builtin_memcpy(to, from, len);
}

/* post: one buffer, no data. */
static inline __attribute__((always_inline)) bool shm_fast_send_locked(struct shm_ep *ep,
                                                                       const struct op *post)
{
    const bool tagged = post->kind & FI_TAGGED;
    const size_t header = tagged ? sizeof(uint64_t) : 0, len = post->iov->iov_len;
    const uint16_t bytes = (uint16_t)(header + len);
    const struct shm_head head = {.op = SHM_MSG, .flags = tagged ? SHM_TAGGED : 0, .bytes = bytes};
    struct shm_link *link = shm_fast_link(ep, post->peer);
    char *line = NULL, *body = NULL;

    if (link && __builtin_expect(bytes > SHM_BODY_LINE, 0))
        body = shm_tx_reserve(&link->tx, bytes);
    else if (link && (line = shm_tx_line(&link->tx)))
        body = line + SHM_WORD;
    if (__builtin_expect(!body, 0))
        return false;
    if (tagged)
        body = shm_put(body, post->tag);
    shm_fast_copy(body, post->iov->iov_base, len);
    if (line)
        shm_tx_publish_line(&link->tx, line, head);
    else
        shm_tx_publish(&link->tx, head);
    shm_ep_sent(ep, &link->tx, bytes);
    shm_link_notify(link);
    complete(&ep->base.binding, BIND_SEND,
             !op_is_inject(post) && completion_wanted(ep->base.binding.tx_selective, post->flags),
             post->context, post->kind, 0, NULL, 0, 0, FI_ADDR_NOTAVAIL);
    return true;
}

static inline __attribute__((always_inline)) bool shm_fast_send(struct shm_ep *ep,
                                                                const struct op *post)
{
    struct progress *progress = ep->base.binding.progress;
    bool done;

    if (__builtin_expect(post->iov->iov_len > SHM_INLINE || post->flags & SHM_NOT_FAST || !progress,
                         0))
        return false;
    progress_lock(progress);
    done = shm_fast_send_locked(ep, post);
    progress_unlock(progress);
    return done;
}

/* How long an access may be, on the line. */
enum shm_fast_size {
    SHM_FAST_LINE,  /* one line */
    SHM_FAST_LINES, /* as many as a payload in lines takes */
};

/* A write of one buffer to one place; or a read, of which nothing travels but where it is. */
static inline __attribute__((always_inline)) bool shm_fast_access_locked(struct shm_ep *ep,
                                                                         const struct op *post,
                                                                         enum shm_role role,
                                                                         enum shm_fast_size size)
{
    const bool write = role == SHM_OUT;
    const size_t len = post->iov->iov_len;
    const uint16_t bytes = (uint16_t)(SHM_ACCESS_WORDS + (write ? len : 0));
    struct shm_link *link = shm_fast_link(ep, post->peer);
    char *body = NULL, *line = NULL;
    struct shm_op *op;

    if (link && size == SHM_FAST_LINES)
        body = shm_tx_reserve(&link->tx, bytes);
    else if (link && (line = shm_tx_line(&link->tx)))
        body = line + SHM_WORD;
    op = body && ep->tx_used < ep->base.tx_size ? shm_op_get(link, role) : NULL;

    if (__builtin_expect(!op, 0))
        return false;
    if (!write && __builtin_expect(ep->orders_reads, 0)) {
        op->behind = SHM_A_READ;
        link->behind += SHM_A_READ;
    }
    op->kind = write ? BIND_WRITE : BIND_READ;
    op->context = post->context;
    op->flags = post->kind;
    op->wanted =
        !op_is_inject(post) && completion_wanted(ep->base.binding.tx_selective, post->flags);
    if (!write) {
        op->count = 1;
        op->iov[0] = post->iov[0];
        op->len = op->total = len;
    }
    body = shm_put(body, op->id | 1ull << 32);
    body = shm_put(body, post->rma->addr);
    body = shm_put(body, len);
    body = shm_put(body, post->rma->key);
    if (write)
        shm_fast_copy(body, post->iov->iov_base, len);
    if (size == SHM_FAST_LINES)
        shm_tx_publish(&link->tx, (struct shm_head){.op = SHM_WRITE, .bytes = bytes});
    else
        shm_tx_publish_line(&link->tx, line,
                            (struct shm_head){.op = write ? SHM_WRITE : SHM_READ, .bytes = bytes});
    shm_ep_sent(ep, &link->tx, bytes);
    shm_link_notify(link);
    return true;
}

static inline __attribute__((always_inline)) bool shm_fast_access(struct shm_ep *ep,
                                                                  const struct op *post,
                                                                  enum shm_role role,
                                                                  enum shm_fast_size size)
{
    const size_t most = role != SHM_OUT          ? SHM_CHUNK
                        : size == SHM_FAST_LINES ? SHM_INLINE
                                                 : SHM_BODY_LINE - SHM_ACCESS_WORDS;
    struct progress *progress = ep->base.binding.progress;
    bool done;

    if (__builtin_expect(post->iov->iov_len > most || post->flags & SHM_NOT_FAST || !progress, 0))
        return false;
    progress_lock(progress);
    done = shm_fast_access_locked(ep, post, role, size);
    progress_unlock(progress);
    return done;
}

/* Takes a message in lines without data, to a receive of this endpoint's own. */
static inline __attribute__((always_inline)) bool
shm_fast_take(struct shm_link *link, struct shm_head head, const char *body)
{
    struct match *match = link->ep->direct;
    const bool tagged = head.flags & SHM_TAGGED;
    const unsigned header = tagged ? sizeof(uint64_t) : 0;
    size_t len = (size_t)head.bytes - header;
    uint64_t tag = 0;
    struct rx *rx;

    if (__builtin_expect(head.op != SHM_MSG || head.flags & ~SHM_TAGGED || !match ||
                             head.bytes < header ||
                             (head.bytes > SHM_BODY_LINE && !shm_rx_fits(&link->rx, head)),
                         0))
        return false;
    if (tagged)
        tag = __atomic_load_n((const uint64_t *)(const void *)body, __ATOMIC_RELAXED);
    rx = match_quick_take(match, tagged ? &match->tag : &match->msg, tag, len);
    if (__builtin_expect(!rx, 0))
        return false;
    shm_fast_copy(rx->iov[0].iov_base, body + header, len);
    if (__builtin_expect(head.bytes <= SHM_BODY_LINE, 1))
        shm_rx_consume_line(&link->rx);
    else
        shm_rx_consume(&link->rx, head);
    match_quick_done(match, rx, len, tag,
                     link->ep->knows_sources ? av_source(link->ep->base.av, link->addr)
                                             : link->addr);
    return true;
}

#endif
