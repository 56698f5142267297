/* SPDX-License-Identifier: BSD-2-Clause */
/* Receives of an endpoint that gives reliable packets: each packet is copied once, into the first
 * receive that is posted. */
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/iov.h"
#include "core/layer/packet_ep.h"

/* Where the receive that is first takes it. */
static struct iovec place(const struct posted_recv *recv)
{
    return (struct iovec){.iov_base = (char *)recv->iov[0].iov_base + recv->offset,
                          .iov_len = recv->iov[0].iov_len - recv->offset};
}

static void report(struct packet_ep *ep, const struct packet_message *message, size_t copied,
                   void *context, void *buf, uint64_t flags, bool wanted)
{
    struct fi_cq_err_entry entry = {
        .op_context = context,
        .flags = flags,
        .len = copied,
        .buf = buf,
        .olen = message->len - copied,
        .err = FI_ETRUNC,
        .prov_errno = FI_ETRUNC,
        .src_addr = message->src,
    };

    if (__builtin_expect(copied < message->len, 0))
        complete_error(&ep->base.binding, BIND_RECV, &entry);
    else
        complete(&ep->base.binding, BIND_RECV, wanted, context, flags, copied, buf, 0, 0,
                 message->src);
}

static void into_plain(struct packet_ep *ep, const struct packet_message *message)
{
    const struct posted_recv *recv = recv_queue_at(&ep->posted, 0);
    const struct iovec from = {.iov_base = (void *)(uintptr_t)message->bytes,
                               .iov_len = message->len};
    size_t copied = iov_copy(recv->iov, recv->count, &from, 1);
    void *context = recv->context, *buf = recv->count ? recv->iov[0].iov_base : NULL;
    bool wanted = recv->wanted;

    recv_queue_pop(&ep->posted);
    report(ep, message, copied, context, buf, FI_MSG | FI_RECV, wanted);
}

static void into_multi(struct packet_ep *ep, const struct packet_message *message)
{
    struct posted_recv *recv = recv_queue_at(&ep->posted, 0);
    struct iovec to = place(recv);
    size_t copied = message->len < to.iov_len ? message->len : to.iov_len;
    uint64_t flags = FI_MSG | FI_RECV;
    void *context = recv->context;
    bool wanted = recv->wanted;

    if (copied)
        memcpy(to.iov_base, message->bytes, copied);
    recv->offset += copied;
    if (recv->offset == recv->room || recv->room - recv->offset < recv->min) {
        flags |= FI_MULTI_RECV;
        wanted = true;
        recv_queue_pop(&ep->posted);
    }
    report(ep, message, copied, context, to.iov_base, flags, wanted);
}

/* A multi-receive buffer that the message does not fit any more is given back. */
static void release_multi(struct packet_ep *ep)
{
    void *context = recv_queue_at(&ep->posted, 0)->context;

    recv_queue_pop(&ep->posted);
    if (ep->base.binding.rx)
        cq_write(ep->base.binding.rx, context, FI_MULTI_RECV, 0, NULL, 0, 0, FI_ADDR_NOTAVAIL);
}

bool packet_ep_receive(struct packet_ep *ep, const struct packet_message *message)
{
    while (recv_queue_count(&ep->posted)) {
        const struct posted_recv *recv = recv_queue_at(&ep->posted, 0);

        if (!recv->multi) {
            into_plain(ep, message);
            return true;
        }
        if (!recv->offset || message->len <= recv->room - recv->offset) {
            into_multi(ep, message);
            return true;
        }
        release_multi(ep);
    }
    return false;
}

/* ---- Posting ---- */

static ssize_t receive_locked(struct packet_ep *ep, const struct op *op)
{
    struct posted_recv *recv;
    int rc;

    if (progress_forked(ep->progress))
        return -FI_EOPBADSTATE;
    rc = recv_queue_next(&ep->posted, &recv);
    if (!rc)
        rc = posted_recv_fill(recv, &ep->base, op);
    if (rc)
        return rc;
    recv_queue_push(&ep->posted);
    if (__builtin_expect((!list_empty(&ep->saved) || ep->woken) && !ep->running, 0))
        ep->ops->run(ep); /* a run that goes on looks again */
    return 0;
}

ssize_t packet_ep_post_receive(struct packet_ep *ep, struct op *op)
{
    ssize_t rc;

    if (!ep->base.enabled)
        return -FI_EOPBADSTATE;
    if (op->count > RECV_QUEUE_IOV || (op->flags & FI_MULTI_RECV && !ep->takes_multi))
        return -FI_EINVAL;
    progress_lock(ep->progress);
    rc = receive_locked(ep, op);
    progress_unlock(ep->progress);
    return rc;
}
