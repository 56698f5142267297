/* SPDX-License-Identifier: BSD-2-Clause */
/* What waited is posted. */
#include <rdma/fi_errno.h>

#include "layers/rxm/rxm_actions.h"
#include "layers/rxm/rxm_emu.h"
#include "layers/rxm/rxm_link.h"
#include "layers/rxm/rxm_wait.h"
#include "layers/rxm/rxm_wait_copy.h"

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

        rxm_wait_take(wait);
        rc = post_one(link, wait);
        if (rxm_ep_passes(rc)) {
            list_attach_before(&wait->of_peer, peer->waiting.next);
            list_attach_before(&wait->of_ep, ep->waits.all.next);
            ep->skip = 0; /* the connection may have ended */
            return done;
        }
        done = true;
        if (rc)
            rxm_wait_end_failed(ep, wait, (int)-rc, NULL);
        else
            rxm_wait_end(ep, wait);
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

static void fail(struct rxm_ep *ep, struct rxm_peer *peer, int err)
{
    char text[RXM_FAILURE_TEXT_MAX];

    rxm_failure_text(&peer->cm, err, text);
    rxm_wait_fail(ep, peer, err, text);
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
            fail(ep, peer, -rc);
        done |= rc != -FI_EAGAIN;
    }
    ep->waits.running = false;
    return done;
}
