/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages that arrive: matched before the payload moves, or saved, or left at the sender. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/fork.h"
#include "core/base/iov.h"
#include "core/base/log.h"
#include "core/match/match_entry.h"
#include "transports/shm/shm_op.h"

/* A message without a receive: all of it, or where it waits. */
struct shm_saved {
    struct list list;  /* of the endpoint */
    struct shm_ep *ep; /* NULL: closed */
    struct shm_link *link;
    size_t len;
    bool tagged, has_data, announced;
    uint32_t remote; /* number to answer to; with announced, or asked for */
    bool answer;
    size_t there_count;
    struct iovec there[SHM_IOV_LIMIT];
    uint64_t data;
    char bytes[];
};

enum {
    /* A line may be a message. */
    MOST_BEYOND = SHM_FLIGHT + (SHM_LINES + 1) * (int)sizeof(struct shm_saved),
};

/* Bytes that count as saved. */
static size_t kept_of(const struct shm_saved *saved)
{
    return saved->announced ? 0 : sizeof(*saved) + saved->len;
}

/* ---- The end of a receive ---- */

static void report_error(struct shm_link *link, const struct fi_peer_rx_entry *entry,
                         uint64_t flags, size_t copied, size_t len, uint64_t data, int err)
{
    struct shm_ep *ep = link->ep;
    struct fi_cq_err_entry error = match_entry_error(entry, flags, copied, len, err);

    error.data = data;
    if (ep->knows_sources)
        error.src_addr = av_source(ep->base.av, entry->addr);
    /* The address of a sender that is not in the AV, which the application may insert as it is. */
    if (err == FI_EADDRNOTAVAIL) {
        error.err_data = link->name;
        error.err_data_size = strlen(link->name) + 1;
    }
    complete_error(&ep->base.binding, BIND_RECV, &error);
}

static inline void finish(struct shm_link *link, struct fi_peer_rx_entry *entry, size_t copied,
                          size_t len, bool has_data, uint64_t data, int err)
{
    struct shm_ep *ep = link->ep;
    bool stranger = ep->source_err && link->addr == FI_ADDR_UNSPEC;
    uint64_t flags = (entry->flags & ~FI_COMPLETION) | (has_data ? FI_REMOTE_CQ_DATA : 0);
    fi_addr_t src = ep->knows_sources ? av_source(ep->base.av, entry->addr) : entry->addr;

    if (__builtin_expect(copied == len && !err && !stranger, 1))
        complete(&ep->base.binding, BIND_RECV, entry->flags & FI_COMPLETION, entry->context, flags,
                 len, entry->count ? entry->iov[0].iov_base : NULL, data, entry->tag, src);
    else
        report_error(link, entry, flags, copied, len, data,
                     err             ? err
                     : copied == len ? FI_EADDRNOTAVAIL
                                     : FI_ETRUNC);
    match_entry_free(entry);
}

static inline size_t copy_out(struct fi_peer_rx_entry *entry, const char *bytes, size_t len)
{
    struct iovec from = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};

    if (__builtin_expect(entry->count != 1 || len > entry->iov[0].iov_len, 0))
        return iov_copy(entry->iov, entry->count, &from, 1);
    if (len == sizeof(uint64_t))
        memcpy(entry->iov[0].iov_base, bytes, sizeof(uint64_t));
    else if (len)
        memcpy(entry->iov[0].iov_base, bytes, len);
    return len;
}

void shm_message_done(struct shm_op *op, int err)
{
    struct fi_peer_rx_entry *entry = op->entry;
    struct shm_link *link = op->link;
    size_t copied = err ? op->at : op->len, total = op->total;
    bool has_data = op->has_data;
    uint64_t data = op->data;

    shm_op_put(op);
    finish(link, entry, copied, total, has_data, data, err);
}

/* ---- Saving ---- */

/* Nothing waits in a ring: behind it may be what a receive waits for. So what is on its way when
 * the room is used up is taken as well, and the rest is announced, and waits at the sender. */
static bool is_within_bounds(struct shm_link *link, size_t kept)
{
    struct shm_ep *ep = link->ep;

    if (ep->saved_bytes + kept <= ep->domain->fabric->max_saved)
        return true;
    if (list_empty(&link->held)) {
        if (!ep->saved_full)
            LOG_WARN(
                ep->domain->base.fabric->part, FI_LOG_EP_DATA,
                ": %s has %zu bytes of messages that nobody receives; more wait where they are",
                ep->name, ep->saved_bytes);
        ep->saved_full = true;
        list_attach(&link->held, &ep->held);
        link->beyond = 0;
        shm_rx_hold(&link->rx, true);
    }
    link->beyond += kept;
    return link->beyond <= MOST_BEYOND;
}

static void let_come(struct shm_ep *ep)
{
    while (!list_empty(&ep->held)) {
        struct shm_link *link = list_item(ep->held.next, struct shm_link, held);

        list_detach(&link->held);
        if (link->region && ep->forks == fork_generation)
            shm_rx_hold(&link->rx, false);
    }
}

/* NULL: the link has failed, and the entry is given back. */
static struct shm_saved *save(struct shm_link *link, struct fi_peer_rx_entry *entry,
                              const struct shm_saved *what, const char *bytes)
{
    size_t kept = kept_of(what);
    struct shm_ep *ep = link->ep;
    struct shm_saved *saved = NULL;

    if (what->announced ? link->waiting == SHM_MOST_WAITING : !is_within_bounds(link, kept))
        shm_link_fail(link, FI_EIO); /* it sends on though told to hold */
    else
        saved = malloc(what->announced ? sizeof(*saved) : kept);
    if (!saved) {
        match_entry_free(entry);
        return NULL;
    }
    *saved = *what;
    saved->ep = ep;
    saved->link = link;
    link->refs++;
    link->waiting += what->announced;
    if (!what->announced && what->len)
        memcpy(saved->bytes, bytes, what->len);
    ep->saved_bytes += kept;
    list_attach(&saved->list, &ep->saved);
    return saved;
}

static void queue(struct fi_peer_rx_entry *entry, struct shm_saved *saved)
{
    match_entry_queue(entry, saved->tagged, saved, saved->has_data, saved->data);
}

static void free_saved(struct shm_saved *saved)
{
    list_detach(&saved->list);
    if (saved->ep) {
        saved->ep->saved_bytes -= kept_of(saved);
        saved->link->waiting -= saved->announced;
        if (saved->ep->saved_bytes <= saved->ep->domain->fabric->max_saved / 2)
            let_come(saved->ep);
        shm_link_release(saved->link);
    }
    free(saved);
}

fi_addr_t shm_saved_source(struct fi_peer_rx_entry *entry)
{
    const struct shm_saved *saved = entry->peer_context;

    return saved->ep ? saved->link->addr : FI_ADDR_UNSPEC;
}

void shm_saved_close(struct shm_ep *ep)
{
    list_for_each_safe (pos, after, &ep->saved) {
        struct shm_saved *saved = list_item(pos, struct shm_saved, list);

        list_detach(&saved->list);
        shm_link_release(saved->link);
        saved->ep = NULL;
    }
}

/* ---- Announced messages ---- */

static void fetch(struct shm_link *link, struct fi_peer_rx_entry *entry,
                  const struct shm_saved *what)
{
    struct shm_op *op = link->dead ? NULL : shm_op_get(link, SHM_FETCHER);
    size_t room = 0;

    if (!op) {
        if (!link->dead)
            shm_link_fail(link, FI_ENOMEM);
        finish(link, entry, 0, what->len, what->has_data, what->data, FI_ECONNRESET);
        return;
    }
    op->message = true;
    op->entry = entry;
    op->remote = what->remote;
    op->has_data = what->has_data;
    op->data = what->data;
    op->total = what->len;
    op->count = entry->count < SHM_PIECES ? entry->count : SHM_PIECES;
    for (size_t i = 0; i < op->count; i++) {
        op->iov[i] = entry->iov[i];
        room += entry->iov[i].iov_len;
    }
    op->len = what->len < room ? what->len : room;
    op->there_count = what->there_count;
    memcpy(op->there, what->there, sizeof(op->there));
    shm_fetch(op);
}

static int start(struct fi_peer_rx_entry *entry)
{
    struct shm_saved *saved = entry->peer_context;
    struct shm_ep *ep = saved->ep;

    int rc = ep ? 0 : -FI_ENOTCONN;

    if (!ep) {
        match_entry_free(entry);
    } else if (saved->announced) {
        fetch(saved->link, entry, saved);
    } else {
        size_t copied = copy_out(entry, saved->bytes, saved->len);

        if (saved->answer)
            shm_control_fin(saved->link, saved->remote);
        finish(saved->link, entry, copied, saved->len, saved->has_data, saved->data, 0);
    }
    free_saved(saved);
    return rc;
}

static int discard(struct fi_peer_rx_entry *entry)
{
    struct shm_saved *saved = entry->peer_context;

    match_entry_free(entry);
    /* To the sender it is a message that was taken. */
    if (saved->ep && (saved->announced || saved->answer))
        shm_control_fin(saved->link, saved->remote);
    free_saved(saved);
    return 0;
}

struct fi_ops_srx_peer shm_srx_peer_ops = {
    .size = sizeof(struct fi_ops_srx_peer),
    .start_msg = start,
    .start_tag = start,
    .discard_msg = discard,
    .discard_tag = discard,
};

/* ---- Arrival ---- */

static inline int match(struct shm_link *link, bool tagged, uint64_t tag, size_t len,
                        struct fi_peer_rx_entry **entry)
{
    struct fid_peer_srx *in = link->ep->base.in;
    struct fi_peer_match_attr attr = {.addr = link->addr, .msg_size = len, .tag = tag};

    return match_entry_get(in, tagged, &attr, entry);
}

static bool broken(struct shm_link *link)
{
    shm_link_fail(link, FI_EIO);
    return false;
}

/* flags: those of head, which the compiler knows where it matters. */
static inline __attribute__((always_inline)) bool
take_message(struct shm_link *link, struct shm_head head, uint8_t flags, const char *body)
{
    struct shm_words words = shm_words(body, head);
    bool tagged = flags & SHM_TAGGED, has_data = flags & SHM_CQ_DATA, answer = flags & SHM_ANSWER;
    uint64_t tag = tagged ? shm_get(&words) : 0;
    uint64_t data = has_data ? shm_get(&words) : 0;
    uint32_t remote = answer ? (uint32_t)shm_get(&words) : 0;
    struct fi_peer_rx_entry *entry;
    struct shm_payload payload;
    struct shm_saved *saved;
    size_t copied;
    int rc;

    head.flags = flags;
    if (__builtin_expect(!shm_payload(link, head, &words, &payload), 0))
        return broken(link);
    rc = match(link, tagged, tag, payload.len, &entry);
    if (__builtin_expect(!rc, 1)) {
        copied = copy_out(entry, payload.bytes, payload.len);
        shm_taken(link, head, &payload);
        if (answer)
            shm_control_fin(link, remote);
        finish(link, entry, copied, payload.len, has_data, data, 0);
        return true;
    }
    if (rc != -FI_ENOENT)
        return false;
    saved = save(link, entry,
                 &(struct shm_saved){.len = payload.len,
                                     .tagged = tagged,
                                     .has_data = has_data,
                                     .data = data,
                                     .answer = answer,
                                     .remote = remote},
                 payload.bytes);
    if (!saved)
        return false;
    shm_taken(link, head, &payload);
    queue(entry, saved);
    link->pause = payload.bulk;
    return true;
}

bool shm_take_message(struct shm_link *link, struct shm_head head, const char *body)
{
    if (__builtin_expect(head.flags == SHM_TAGGED, 1))
        return take_message(link, head, SHM_TAGGED, body);
    return take_message(link, head, head.flags, body);
}

bool shm_take_announced(struct shm_link *link, struct shm_head head, const char *body)
{
    struct shm_words words = shm_words(body, head);
    struct shm_saved what = {
        .announced = true, .tagged = head.flags & SHM_TAGGED, .has_data = head.flags & SHM_CQ_DATA};
    struct fi_peer_rx_entry *entry;
    struct shm_saved *saved;
    uint64_t tag = what.tagged ? shm_get(&words) : 0, number;
    int rc;

    what.data = what.has_data ? shm_get(&words) : 0;
    number = shm_get(&words);
    what.remote = (uint32_t)number;
    what.there_count = number >> 32;
    what.len = shm_get(&words);
    if (what.there_count > SHM_IOV_LIMIT)
        return broken(link);
    for (size_t i = 0; i < what.there_count; i++) {
        what.there[i].iov_base = (void *)(uintptr_t)shm_get(&words);
        what.there[i].iov_len = shm_get(&words);
    }
    if (words.bad)
        return broken(link);
    rc = match(link, what.tagged, tag, what.len, &entry);
    if (rc == -FI_ENOENT) {
        saved = save(link, entry, &what, NULL);
        if (!saved)
            return false;
        shm_rx_consume(&link->rx, head);
        queue(entry, saved);
        return true;
    }
    if (rc)
        return false;
    shm_rx_consume(&link->rx, head);
    fetch(link, entry, &what);
    return true;
}
