/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxm/rxm_wait.h"

#include <string.h>

#include <rdma/fi_errno.h>

#include "core/atomic.h"
#include "core/iov.h"
#include "layers/rxm/rxm_av.h"
#include "layers/rxm/rxm_emu.h"
#include "layers/rxm/rxm_link.h"
#include "layers/rxm/rxm_wait_copy.h"

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
    if (atomic_load(&ep->changes.any)) {
        rxm_ep_try_again(ep);
        return -FI_EAGAIN;
    }
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
    struct rxm_peer *peer = NULL;
    ssize_t rc = find(ep, post->peer, &peer);
    size_t len;

    if (!rc)
        rc = check(ep, post, &len);
    if (rc)
        return rc;
    return full(ep) ? rxm_ep_try_again(ep) : add(ep, peer, rxm_wait_copy_post(post, len));
}

ssize_t rxm_wait_add_atomic(struct rxm_ep *ep, const struct post_atomic *post)
{
    struct rxm_peer *peer = NULL;
    ssize_t rc = find(ep, post->peer, &peer);
    size_t elements;

    if (!rc)
        rc = check_atomic(ep, post, &elements);
    if (rc)
        return rc;
    return full(ep) ? rxm_ep_try_again(ep) : add(ep, peer, rxm_wait_copy_atomic(post, elements));
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

void rxm_wait_take(struct rxm_wait *wait)
{
    list_detach(&wait->of_peer);
    list_detach(&wait->of_ep);
}

void rxm_wait_end(struct rxm_ep *ep, struct rxm_wait *wait)
{
    ep->waits.count--;
    rxm_wait_free(wait);
}

void rxm_wait_end_failed(struct rxm_ep *ep, struct rxm_wait *wait, int err, const char *why)
{
    const struct fi_cq_err_entry entry = {
        .op_context = context_of(wait),
        .flags = kind_of(wait),
        .err = err,
        .prov_errno = why ? CQ_ERR_TEXT + err : err,
        .err_data = (void *)(uintptr_t)why,
        .err_data_size = why ? strlen(why) + 1 : 0,
        .src_addr = FI_ADDR_NOTAVAIL,
    };

    rxm_wait_take(wait);
    rxm_wait_end(ep, wait);
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
        rxm_wait_end_failed(ep, list_item(failed.next, struct rxm_wait, of_peer), err, why);
}

int rxm_wait_cancel(struct rxm_ep *ep, const void *context)
{
    list_for_each (item, &ep->waits.all) {
        struct rxm_wait *wait = list_item(item, struct rxm_wait, of_ep);

        if (is_silent(wait) || context_of(wait) != context)
            continue;
        rxm_wait_end_failed(ep, wait, FI_ECANCELED, NULL);
        return 0;
    }
    return -FI_ENOENT;
}

void rxm_wait_drop(struct rxm_ep *ep)
{
    while (!list_empty(&ep->waits.all)) {
        struct rxm_wait *wait = list_item(ep->waits.all.next, struct rxm_wait, of_ep);

        rxm_wait_take(wait);
        rxm_wait_end(ep, wait);
    }
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
