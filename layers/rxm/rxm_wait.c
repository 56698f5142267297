/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxm/rxm_wait.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/atomic.h"
#include "core/iov.h"
#include "layers/rxm/rxm_av.h"
#include "layers/rxm/rxm_emu.h"
#include "layers/rxm/rxm_link.h"

enum {
    ALIGN = _Alignof(max_align_t)
};

/* One operation; its segments, and what was injected, follow it in memory. */
struct rxm_wait {
    struct list of_peer; /* in peer->waiting */
    struct list of_ep;   /* in ep->waits.all, oldest first */
    bool is_atomic;
    union {
        struct post post;
        struct post_atomic atomic;
    };
};

/* ---- Copies ---- */

/* Something of a post that is copied behind it; at: the pointer that leads to the copy. */
struct piece {
    void *at;
    const void *from;
    size_t size;
};

static size_t rounded(size_t size)
{
    return (size + ALIGN - 1) / ALIGN * ALIGN;
}

/* pieces lead from the scratch to what it will be a copy of. NULL without memory. */
static struct rxm_wait *copy(const struct rxm_wait *scratch, const struct piece *pieces,
                             size_t count, size_t extra)
{
    size_t size = rounded(sizeof(*scratch)) + rounded(extra);
    struct rxm_wait *wait;
    char *pos;

    for (size_t i = 0; i < count; i++)
        size += rounded(pieces[i].size);
    wait = malloc(size);
    if (!wait)
        return NULL;
    *wait = *scratch;
    pos = (char *)wait + rounded(sizeof(*wait));
    for (size_t i = 0; i < count; i++) {
        char *field = (char *)wait + ((const char *)pieces[i].at - (const char *)scratch);

        if (!pieces[i].from)
            continue;
        memcpy(pos, pieces[i].from, pieces[i].size);
        memcpy(field, &pos, sizeof(pos));
        pos += rounded(pieces[i].size);
    }
    return wait;
}

/* The last `extra` bytes of what copy made. */
static char *extra_of(struct rxm_wait *wait, const struct piece *pieces, size_t count)
{
    char *pos = (char *)wait + rounded(sizeof(*wait));

    for (size_t i = 0; i < count; i++)
        pos += pieces[i].from ? rounded(pieces[i].size) : 0;
    return pos;
}

/* len: of the payload. With FI_INJECT it becomes one segment, in our memory. */
static struct rxm_wait *copy_post(const struct post *post, size_t len)
{
    struct rxm_wait scratch = {.is_atomic = false, .post = *post}, *wait;
    bool inject = post->flags & FI_INJECT && post->count;
    const struct piece pieces[] = {
        {&scratch.post.iov, post->iov, post->count * sizeof(*post->iov)},
        {&scratch.post.desc, post->desc, post->count * sizeof(*post->desc)},
        {&scratch.post.rma, post->rma, post->rma_count * sizeof(*post->rma)},
    };
    size_t count = sizeof(pieces) / sizeof(pieces[0]);
    struct iovec *iov, one;

    wait = copy(&scratch, pieces, count, inject ? len : 0);
    if (!wait || !inject)
        return wait;
    one = (struct iovec){.iov_base = extra_of(wait, pieces, count), .iov_len = len};
    iov_copy(&one, 1, post->iov, post->count);
    iov = (struct iovec *)(uintptr_t)wait->post.iov;
    *iov = one;
    wait->post.count = 1;
    wait->post.desc = NULL;
    return wait;
}

/* Operands become one segment at `to`; returns what follows them. */
static char *take_operands(const struct fi_ioc **iov, void ***desc, size_t *count, size_t size,
                           char *to)
{
    struct fi_ioc *first = (struct fi_ioc *)(uintptr_t)*iov;
    char *start = to;

    if (!*count)
        return to;
    for (size_t i = 0; i < *count; i++) {
        if (first[i].count)
            memcpy(to, first[i].addr, first[i].count * size);
        to += first[i].count * size;
    }
    *first = (struct fi_ioc){.addr = start, .count = (size_t)(to - start) / size};
    *desc = NULL;
    *count = 1;
    return to;
}

/* elements: of the operation. */
static struct rxm_wait *copy_atomic(const struct post_atomic *post, size_t elements)
{
    struct rxm_wait scratch = {.is_atomic = true, .atomic = *post}, *wait;
    struct post_atomic *mine = &scratch.atomic;
    size_t size = atomic_size(post->datatype);
    const struct piece pieces[] = {
        {&mine->iov, post->iov, post->count * sizeof(*post->iov)},
        {&mine->desc, post->desc, post->count * sizeof(*post->desc)},
        {&mine->compare, post->compare, post->compare_count * sizeof(*post->compare)},
        {&mine->compare_desc, post->compare_desc, post->compare_count * sizeof(*post->desc)},
        {&mine->result, post->result, post->result_count * sizeof(*post->result)},
        {&mine->result_desc, post->result_desc, post->result_count * sizeof(*post->desc)},
        {&mine->rma, post->rma, post->rma_count * sizeof(*post->rma)},
    };
    size_t count = sizeof(pieces) / sizeof(pieces[0]);
    char *pos;

    wait = copy(&scratch, pieces, count, post->flags & FI_INJECT ? 2 * elements * size : 0);
    if (!wait || !(post->flags & FI_INJECT))
        return wait;
    mine = &wait->atomic;
    pos = take_operands(&mine->iov, &mine->desc, &mine->count, size, extra_of(wait, pieces, count));
    take_operands(&mine->compare, &mine->compare_desc, &mine->compare_count, size, pos);
    return wait;
}

/* ---- Adding ---- */

static bool too_many(size_t count, size_t limit)
{
    return count > (limit ? limit : 1);
}

/* What every connection would refuse. */
static int check(const struct rxm_ep *ep, const struct post *post, size_t *len)
{
    const struct fi_tx_attr *tx = ep->info->tx_attr;

    if (too_many(post->count, tx->iov_limit) || !iov_total(post->iov, post->count, len))
        return -FI_EINVAL;
    if (post->kind & FI_RMA && too_many(post->rma_count, tx->rma_iov_limit))
        return -FI_EINVAL;
    if (*len > ep->info->ep_attr->max_msg_size)
        return -FI_EMSGSIZE;
    return post->flags & FI_INJECT && *len > tx->inject_size ? -FI_EMSGSIZE : 0;
}

static int check_atomic(struct rxm_ep *ep, const struct post_atomic *post, size_t *elements)
{
    const struct fi_tx_attr *tx = ep->info->tx_attr;
    size_t limit = tx->iov_limit > tx->rma_iov_limit ? tx->iov_limit : tx->rma_iov_limit;
    size_t size = atomic_size(post->datatype), most;
    int rc = ep->emu ? rxm_emu_atomic_count(ep, post->datatype, post->op, post->function, &most)
                     : rxm_atomic_count(ep, post->datatype, post->op, post->function, &most);

    if (!rc)
        rc = atomic_check(post, most * size, limit ? limit : 1, elements);
    if (!rc && post->flags & FI_INJECT && *elements * size > tx->inject_size)
        rc = -FI_EMSGSIZE;
    return rc;
}

static bool full(const struct rxm_ep *ep)
{
    size_t size = ep->info->tx_attr->size;

    return ep->waits.count >= (size ? size : 1024);
}

static ssize_t find(struct rxm_ep *ep, fi_addr_t dest, struct rxm_peer **peer)
{
    if (!ep->enabled || unit_forked(ep->unit))
        return -FI_EOPBADSTATE;
    if (atomic_load(&ep->changes.any))
        return rxm_ep_try_again(ep);
    return rxm_av_peer(ep, dest, peer);
}

static ssize_t add(struct rxm_ep *ep, struct rxm_peer *peer, struct rxm_wait *wait)
{
    if (!wait)
        return rxm_ep_try_again(ep);
    list_attach(&wait->of_peer, &peer->waiting);
    list_attach(&wait->of_ep, &ep->waits.all);
    ep->waits.count++;
    if (peer->waiting.next == &wait->of_peer) {
        peer->up = NULL;
        rxm_wait_wake(ep, peer);
        rxm_wait_run(ep);
    }
    rxm_ep_try_again(ep);
    return 0;
}

ssize_t rxm_wait_add(struct rxm_ep *ep, const struct post *post)
{
    struct rxm_peer *peer;
    ssize_t rc = find(ep, post->peer, &peer);
    size_t len;

    if (!rc)
        rc = check(ep, post, &len);
    if (rc)
        return rc;
    return full(ep) ? rxm_ep_try_again(ep) : add(ep, peer, copy_post(post, len));
}

ssize_t rxm_wait_add_atomic(struct rxm_ep *ep, const struct post_atomic *post)
{
    struct rxm_peer *peer;
    ssize_t rc = find(ep, post->peer, &peer);
    size_t elements;

    if (!rc)
        rc = check_atomic(ep, post, &elements);
    if (rc)
        return rc;
    return full(ep) ? rxm_ep_try_again(ep) : add(ep, peer, copy_atomic(post, elements));
}

/* ---- Ends ---- */

static uint64_t kind_of(const struct rxm_wait *wait)
{
    return wait->is_atomic ? wait->atomic.kind : wait->post.kind;
}

static void *context_of(const struct rxm_wait *wait)
{
    return wait->is_atomic ? wait->atomic.context : wait->post.context;
}

static bool is_silent(const struct rxm_wait *wait)
{
    return wait->is_atomic ? wait->atomic.silent : wait->post.silent;
}

static enum report_kind report_of(uint64_t kind)
{
    if (kind & (FI_RMA | FI_ATOMIC))
        return kind & FI_READ ? REPORT_READ : REPORT_WRITE;
    return REPORT_SEND;
}

static void take(struct rxm_wait *wait)
{
    list_detach(&wait->of_peer);
    list_detach(&wait->of_ep);
}

static void end(struct rxm_ep *ep, struct rxm_wait *wait)
{
    ep->waits.count--;
    free(wait);
}

static void end_failed(struct rxm_ep *ep, struct rxm_wait *wait, int err, const char *why)
{
    const struct fi_cq_err_entry entry = {
        .op_context = context_of(wait),
        .flags = kind_of(wait),
        .err = err,
        .prov_errno = err,
        .err_data = (void *)(uintptr_t)why,
        .err_data_size = why ? strlen(why) + 1 : 0,
        .src_addr = FI_ADDR_NOTAVAIL,
    };

    take(wait);
    end(ep, wait);
    report_failed(&ep->report, report_of(entry.flags), &entry);
}

/* What an upper posts from inside of the errors is not among them. */
void rxm_wait_fail(struct rxm_ep *ep, struct rxm_peer *peer, int err, const char *why)
{
    struct list failed;

    list_init(&failed);
    list_join(&peer->waiting, &failed);
    list_detach(&peer->ready);
    while (!list_empty(&failed))
        end_failed(ep, list_item(failed.next, struct rxm_wait, of_peer), err, why);
}

int rxm_wait_cancel(struct rxm_ep *ep, const void *context)
{
    list_for_each (item, &ep->waits.all) {
        struct rxm_wait *wait = list_item(item, struct rxm_wait, of_ep);

        if (is_silent(wait) || context_of(wait) != context)
            continue;
        end_failed(ep, wait, FI_ECANCELED, NULL);
        return 0;
    }
    return -FI_ENOENT;
}

void rxm_wait_drop(struct rxm_ep *ep)
{
    while (!list_empty(&ep->waits.all)) {
        struct rxm_wait *wait = list_item(ep->waits.all.next, struct rxm_wait, of_ep);

        take(wait);
        end(ep, wait);
    }
}

/* ---- Posting ---- */

static ssize_t pass_silent(struct fid_ep *to, const struct post *post)
{
    const struct iovec *iov = post->iov;
    bool data = post->flags & FI_REMOTE_CQ_DATA;

    if (post->kind & FI_RMA)
        return data ? fi_inject_writedata(to, iov->iov_base, iov->iov_len, post->data,
                                          FI_ADDR_UNSPEC, post->rma->addr, post->rma->key)
                    : fi_inject_write(to, iov->iov_base, iov->iov_len, FI_ADDR_UNSPEC,
                                      post->rma->addr, post->rma->key);
    if (post->kind & FI_TAGGED)
        return data ? fi_tinjectdata(to, iov->iov_base, iov->iov_len, post->data, FI_ADDR_UNSPEC,
                                     post->tag)
                    : fi_tinject(to, iov->iov_base, iov->iov_len, FI_ADDR_UNSPEC, post->tag);
    return data ? fi_injectdata(to, iov->iov_base, iov->iov_len, post->data, FI_ADDR_UNSPEC)
                : fi_inject(to, iov->iov_base, iov->iov_len, FI_ADDR_UNSPEC);
}

static ssize_t pass_rma(struct fid_ep *to, const struct post *post)
{
    const struct fi_msg_rma msg = {
        .msg_iov = post->iov,
        .desc = post->desc,
        .iov_count = post->count,
        .addr = FI_ADDR_UNSPEC,
        .rma_iov = post->rma,
        .rma_iov_count = post->rma_count,
        .context = post->context,
        .data = post->data,
    };

    return post->kind & FI_READ ? fi_readmsg(to, &msg, post->flags)
                                : fi_writemsg(to, &msg, post->flags);
}

static ssize_t pass_message(struct fid_ep *to, const struct post *post)
{
    const struct fi_msg msg = {
        .msg_iov = post->iov,
        .desc = post->desc,
        .iov_count = post->count,
        .addr = FI_ADDR_UNSPEC,
        .context = post->context,
        .data = post->data,
    };
    const struct fi_msg_tagged tagged = {
        .msg_iov = post->iov,
        .desc = post->desc,
        .iov_count = post->count,
        .addr = FI_ADDR_UNSPEC,
        .tag = post->tag,
        .context = post->context,
        .data = post->data,
    };

    return post->kind & FI_TAGGED ? fi_tsendmsg(to, &tagged, post->flags)
                                  : fi_sendmsg(to, &msg, post->flags);
}

static ssize_t emulate(struct rxm_link *link, const struct rxm_wait *wait)
{
    if (wait->is_atomic)
        return rxm_emu_atomic(link, &wait->atomic);
    return wait->post.kind & FI_RMA ? rxm_emu_rma(link, &wait->post)
                                    : rxm_emu_send(link, &wait->post);
}

static ssize_t post_one(struct rxm_link *link, const struct rxm_wait *wait)
{
    if (link->owner->emu)
        return emulate(link, wait);
    if (wait->is_atomic)
        return rxm_atomic_pass(link->ep, &wait->atomic);
    if (wait->post.silent)
        return pass_silent(link->ep, &wait->post);
    return wait->post.kind & FI_RMA ? pass_rma(link->ep, &wait->post)
                                    : pass_message(link->ep, &wait->post);
}

/* The peer is connected. Stops where the lower is full; an upper may post meanwhile, behind. */
static bool flush(struct rxm_ep *ep, struct rxm_peer *peer)
{
    struct rxm_link *link = object_of(peer->cm.link, struct rxm_link, cm);
    bool done = false;

    while (!list_empty(&peer->waiting)) {
        struct rxm_wait *wait = list_item(peer->waiting.next, struct rxm_wait, of_peer);
        ssize_t rc;

        take(wait);
        rc = post_one(link, wait);
        if (rxm_ep_passes(rc)) {
            list_attach_before(&wait->of_peer, peer->waiting.next);
            list_attach_before(&wait->of_ep, ep->waits.all.next);
            ep->skip = 0; /* the connection may have ended */
            return done;
        }
        done = true;
        if (rc)
            end_failed(ep, wait, (int)-rc, NULL);
        else
            end(ep, wait);
    }
    list_detach(&peer->ready);
    peer->up = link->ep;
    return done;
}

void rxm_wait_wake(struct rxm_ep *ep, struct rxm_peer *peer)
{
    if (!list_empty(&peer->waiting) && list_empty(&peer->ready))
        list_attach(&peer->ready, &ep->waits.ready);
}

bool rxm_wait_run(struct rxm_ep *ep)
{
    bool done = false;

    if (ep->waits.running)
        return false; /* an upper posts from inside */
    ep->waits.running = true;
    list_for_each_safe (item, after, &ep->waits.ready) {
        struct rxm_peer *peer = list_item(item, struct rxm_peer, ready);
        int rc = rxm_cm_want(&ep->cm, &peer->cm, clock_ms());

        if (!rc) {
            done |= flush(ep, peer);
            continue;
        }
        list_detach(&peer->ready); /* the connection's next change brings it back */
        ep->skip = 0;
        if (rc != -FI_EAGAIN)
            rxm_wait_fail(ep, peer, -rc, peer->cm.why);
        done |= rc != -FI_EAGAIN;
    }
    ep->waits.running = false;
    return done;
}

/* ---- The forms of a post ---- */

static uint64_t tx_flags(struct fid_ep *fid)
{
    return rxm_ep_of(fid)->info->tx_attr->op_flags;
}

static ssize_t post_send(struct fid_ep *fid, const struct post *post)
{
    return rxm_wait_add(rxm_ep_of(fid), post);
}

static ssize_t post_rma(struct fid_ep *fid, const struct post *post)
{
    return rxm_wait_add(rxm_ep_of(fid), post);
}

#include "core/post_rma.inc"
#include "core/post_send.inc"
#include "core/post_tsend.inc"

struct fi_ops_msg rxm_wait_msg = {.size = sizeof(rxm_wait_msg), NO_RECV, POST_SEND};
struct fi_ops_tagged rxm_wait_tagged = {.size = sizeof(rxm_wait_tagged), NO_TRECV, POST_TSEND};
struct fi_ops_rma rxm_wait_rma = {.size = sizeof(rxm_wait_rma), POST_RMA};
