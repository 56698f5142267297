/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Small operations that take one line of the ring, to a peer that there is a link to, with room in
 * it: short enough to be inlined into the entries of the tables. Who is refused has done nothing,
 * and takes the way of shm_post.c, which knows everything else.
 */
#ifndef WEFT_SHM_QUICK_H
#define WEFT_SHM_QUICK_H

#include "core/fork.h"
#include "core/match_quick.h"
#include "core/post.h"
#include "transports/shm/shm_op.h"

enum {
    SHM_ACCESS_WORDS = 4 * sizeof(uint64_t), /* of an access without data to one segment */
};

/* Flags that ask for more than a line. */
#define SHM_NOT_QUICK (FI_DELIVERY_COMPLETE | FI_FENCE | FI_REMOTE_CQ_DATA)

/* The link to an address that nothing has to be done about first, or NULL. Unit locked. */
static inline struct shm_link *shm_quick_link(const struct shm_ep *ep, fi_addr_t dest)
{
    struct shm_link *link;

    if (__builtin_expect(dest >= ep->peer_count || ep->forks != fork_generation, 0))
        return NULL;
    link = ep->peers[dest];
    if (__builtin_expect(!link || link->big_writes || link->reads || link->tx.held ||
                             atomic_load_explicit(&ep->stale_peers, memory_order_relaxed),
                         0))
        return NULL;
    return link;
}

static inline void shm_quick_copy(void *to, const void *from, size_t len)
{
    if (__builtin_expect(len == sizeof(uint64_t), 1))
        __builtin_memcpy(to, from, sizeof(uint64_t));
    else if (len)
        __builtin_memcpy(to, from, len);
}

/* post: one buffer, no data. */
static inline __attribute__((always_inline)) bool shm_quick_send_locked(struct shm_ep *ep,
                                                                        const struct post *post)
{
    const bool tagged = post->kind & FI_TAGGED;
    const size_t header = tagged ? sizeof(uint64_t) : 0, len = post->iov->iov_len;
    struct shm_link *link = shm_quick_link(ep, post->peer);
    char *line = link ? shm_tx_line(&link->tx) : NULL, *body;

    if (__builtin_expect(!line, 0))
        return false;
    body = line + SHM_WORD;
    if (tagged)
        body = shm_put(body, post->tag);
    shm_quick_copy(body, post->iov->iov_base, len);
    ep->idle = 0;
    shm_tx_publish_line(&link->tx, line,
                        (struct shm_head){.op = SHM_MSG,
                                          .flags = tagged ? SHM_TAGGED : 0,
                                          .bytes = (uint16_t)(header + len)});
    shm_link_notify(link);
    report_done(&ep->report, REPORT_SEND,
                !post->silent && report_wanted(ep->report.tx_selective, post->flags), post->context,
                post->kind, 0, NULL, 0, 0, FI_ADDR_NOTAVAIL);
    return true;
}

static inline __attribute__((always_inline)) bool shm_quick_send(struct shm_ep *ep,
                                                                 const struct post *post)
{
    struct unit *unit = ep->report.unit;
    bool done;

    if (__builtin_expect(post->iov->iov_len > SHM_BODY_LINE - sizeof(uint64_t) ||
                             post->flags & SHM_NOT_QUICK || !unit,
                         0))
        return false;
    unit_lock(unit);
    done = shm_quick_send_locked(ep, post);
    unit_unlock(unit);
    return done;
}

/* A write of one buffer to one place; or a read, of which nothing travels but where it is. */
static inline __attribute__((always_inline)) bool
shm_quick_access_locked(struct shm_ep *ep, const struct post *post, enum shm_role role)
{
    const bool write = role == SHM_OUT;
    const size_t len = post->iov->iov_len;
    struct shm_link *link = shm_quick_link(ep, post->peer);
    char *line = link ? shm_tx_line(&link->tx) : NULL, *body;
    struct shm_op *op = line && ep->tx_used < ep->tx_size ? shm_op_get(link, role) : NULL;

    if (__builtin_expect(!op, 0))
        return false;
    if (!write && __builtin_expect(ep->orders_reads, 0)) {
        op->ahead = true;
        link->reads++;
    }
    op->kind = write ? REPORT_WRITE : REPORT_READ;
    op->context = post->context;
    op->flags = post->kind;
    op->wanted = !post->silent && report_wanted(ep->report.tx_selective, post->flags);
    if (!write) {
        op->count = 1;
        op->iov[0] = post->iov[0];
        op->len = op->total = len;
    }
    body = shm_put(line + SHM_WORD, op->id | 1ull << 32);
    body = shm_put(body, post->rma->addr);
    body = shm_put(body, len);
    body = shm_put(body, post->rma->key);
    if (write)
        shm_quick_copy(body, post->iov->iov_base, len);
    ep->idle = 0;
    shm_tx_publish_line(
        &link->tx, line,
        (struct shm_head){.op = write ? SHM_WRITE : SHM_READ,
                          .bytes = (uint16_t)(SHM_ACCESS_WORDS + (write ? len : 0))});
    shm_link_notify(link);
    return true;
}

static inline __attribute__((always_inline)) bool
shm_quick_access(struct shm_ep *ep, const struct post *post, enum shm_role role)
{
    const size_t most = role == SHM_OUT ? SHM_BODY_LINE - SHM_ACCESS_WORDS : SHM_CHUNK;
    struct unit *unit = ep->report.unit;
    bool done;

    if (__builtin_expect(post->iov->iov_len > most || post->flags & SHM_NOT_QUICK || !unit, 0))
        return false;
    unit_lock(unit);
    done = shm_quick_access_locked(ep, post, role);
    unit_unlock(unit);
    return done;
}

/* Takes a message of one line without data, to a receive of this endpoint's own. */
static inline __attribute__((always_inline)) bool
shm_quick_take(struct shm_link *link, struct shm_head head, const char *body)
{
    struct match *match = link->ep->match;
    const bool tagged = head.flags & SHM_TAGGED;
    const unsigned header = tagged ? sizeof(uint64_t) : 0;
    size_t len = (size_t)head.bytes - header;
    uint64_t tag = 0;
    struct rx *rx;

    if (__builtin_expect(head.op != SHM_MSG || head.flags & ~SHM_TAGGED || !link->ep->delivers ||
                             head.bytes < header || head.bytes > SHM_BODY_LINE,
                         0))
        return false;
    if (tagged)
        tag = __atomic_load_n((const uint64_t *)(const void *)body, __ATOMIC_RELAXED);
    rx = match_quick_take(match, tagged ? &match->tag : &match->msg, tag, len);
    if (__builtin_expect(!rx, 0))
        return false;
    shm_quick_copy(rx->iov[0].iov_base, body + header, len);
    shm_rx_consume_line(&link->rx);
    match_quick_done(match, rx, len, tag,
                     link->ep->knows_sources ? av_source(link->ep->av, link->addr) : link->addr);
    return true;
}

#endif
