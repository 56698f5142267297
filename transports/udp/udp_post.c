/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting: a lone datagram leaves inside of the call; receives are queued. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "transports/udp/udp_ep.h"
#include "transports/udp/udp_group.h"

enum {
    TRIES = 8 /* of a call that fails for what was sent before */
};

/* ---- Receives ---- */

static ssize_t post_receive_locked(struct udp_ep *ep, const struct op *op)
{
    struct posted_recv *rx;
    int rc;

    if (progress_forked(ep->base.binding.progress))
        return -FI_EOPBADSTATE;
    rc = recv_queue_next(&ep->posted, &rx);
    if (!rc)
        rc = posted_recv_fill(rx, &ep->base, op);
    if (!rc && rx->multi)
        rc = udp_receive_prepare(ep, rx->room);
    if (rc)
        return rc;
    recv_queue_push(&ep->posted);
    if (__builtin_expect(ep->watched && !(ep->interest & EPOLLIN), 0))
        udp_ep_watch(ep);
    if (__builtin_expect(udp_receive_has_spilled(ep) && !ep->receiving, 0))
        udp_receive_spilled(ep);
    return 0;
}

static ssize_t post_receive(struct udp_ep *ep, const struct op *op)
{
    ssize_t rc;

    if (!ep->base.enabled)
        return -FI_EOPBADSTATE;
    if (op->count > UDP_IOV_LIMIT)
        return -FI_EINVAL;
    progress_lock(ep->base.binding.progress);
    rc = post_receive_locked(ep, op);
    progress_unlock(ep->base.binding.progress);
    return rc;
}

int udp_cancel(struct endpoint *base, void *context)
{
    return recv_queue_cancel(&udp_ep_of(base)->posted, &base->binding, context);
}

/* ---- Where to ---- */

/* A text of the AV, as an address. Progress domain locked. */
static const struct sockaddr *parse_target(struct udp_ep *ep, fi_addr_t peer, const char *text)
{
    struct udp_known *target = &ep->target;

    if (atomic_exchange(&ep->stale, false)) {
        target->addr.sa.sa_family = 0;
        ep->source_known.addr.sa.sa_family = 0;
    }
    if (target->addr.sa.sa_family && target->fi_addr == peer)
        return &target->addr.sa;
    target->fi_addr = peer;
    if (addr_from_str(text, SIZE_MAX, &target->addr)) {
        target->addr.sa.sa_family = 0;
        return NULL;
    }
    return &target->addr.sa;
}

const struct sockaddr *udp_target(struct udp_ep *ep, fi_addr_t peer, uint64_t flags)
{
    const void *addr;

    if (__builtin_expect(flags & FI_MULTICAST || udp_group_is(peer), 0))
        return udp_group_target(ep, peer);
    addr = av_addr(ep->base.av, peer);
    if (addr && __builtin_expect(ep->addr_format == FI_ADDR_STR, 0))
        return parse_target(ep, peer, addr);
    return addr;
}

/* ---- Sends ---- */

/* By the main socket; to NULL: by that of the hot peer. */
static inline ssize_t call_kernel(const struct udp_ep *ep, const struct op *op,
                                  const struct sockaddr *to)
{
    struct msghdr header;

    if (__builtin_expect(op->count == 1, 1))
        return to ? sendto(ep->main.fd, op->iov->iov_base, op->iov->iov_len, MSG_DONTWAIT, to,
                           addr_size(to))
                  : send(ep->hot.sock.fd, op->iov->iov_base, op->iov->iov_len, MSG_DONTWAIT);
    memset(&header, 0, sizeof(header));
    header.msg_name = (void *)(uintptr_t)to;
    header.msg_namelen = to ? addr_size(to) : 0;
    header.msg_iov = (struct iovec *)(uintptr_t)op->iov;
    header.msg_iovlen = op->count;
    return sendmsg(to ? ep->main.fd : ep->hot.sock.fd, &header, MSG_DONTWAIT);
}

/* The result of a post whose call was refused. 0: the datagram is lost. */
static int refused_for(struct udp_ep *ep, const struct op *op, int err)
{
    if (err == ENOBUFS && udp_refusal_lasts(&ep->refusal, op->len, clock_ns()))
        return 0;
    return udp_is_full(err) ? -FI_EAGAIN : -err;
}

/* The kernel tells of an earlier datagram's end with the next call, once. */
static __attribute__((noinline)) int send_refused(struct udp_ep *ep, const struct op *op,
                                                  const struct sockaddr *to, int err)
{
    for (int i = 0; i < TRIES && !udp_is_full(err) && ep->base.eq && udp_errors_read(ep); i++) {
        if (call_kernel(ep, op, to) >= 0)
            return 0;
        err = errno;
    }
    return refused_for(ep, op, err);
}

/* To a peer that is not hot. */
static int send_plainly(struct udp_ep *ep, const struct op *op, const struct sockaddr *to)
{
    if (__builtin_expect(call_kernel(ep, op, to) < 0, 0)) {
        int rc = send_refused(ep, op, to, errno);

        if (rc)
            return rc;
    } else {
        udp_refusal_taken(&ep->refusal, op->len);
    }
    if (!udp_group_is(op->peer))
        udp_hot_note(ep, to);
    return 0;
}

/* By the socket of the hot peer; the main one says whether what that is refused for is so. */
static inline int send_hot(struct udp_ep *ep, const struct op *op, const struct sockaddr *to)
{
    udp_hot_spare(&ep->hot, op->len);
    if (__builtin_expect(call_kernel(ep, op, NULL) >= 0, 1)) {
        udp_refusal_taken(&ep->refusal, op->len);
        return 0;
    }
    if (udp_is_full(errno))
        return refused_for(ep, op, errno);
    udp_hot_cool(&ep->hot);
    if (ep->base.eq)
        udp_errors_read(ep);
    return send_plainly(ep, op, to);
}

static ssize_t send_now(struct udp_ep *ep, const struct op *op, const struct sockaddr *to)
{
    int rc = udp_hot_is(&ep->hot, to) ? send_hot(ep, op, to) : send_plainly(ep, op, to);

    if (__builtin_expect(rc, 0))
        return rc;
    if (pcap_on(ep->main.flow))
        pcap_datagram(ep->main.flow, false, to, op->iov, op->count, 0, op->len);
    complete(&ep->base.binding, BIND_SEND,
             !op_is_inject(op) && completion_wanted(ep->base.binding.tx_selective, op->flags),
             op->context, FI_MSG | FI_SEND, 0, NULL, 0, 0, FI_ADDR_NOTAVAIL);
    return 0;
}

static void fill_send(const struct udp_ep *ep, const struct op *op, const struct sockaddr *to,
                      struct udp_send *send)
{
    struct datagram *datagram = &send->datagram;

    memcpy(&datagram->to, to, addr_size(to));
    datagram->len = op->len;
    datagram->count = op->count;
    for (size_t i = 0; i < op->count; i++)
        datagram->iov[i] = op->iov[i];
    send->context = op->context;
    send->wanted = completion_wanted(ep->base.binding.tx_selective, op->flags);
}

/* The last of a batch. It must be copied, so it is not kept: it leaves now, or never. */
static ssize_t send_last(struct udp_ep *ep, const struct op *op, const struct sockaddr *to,
                         struct udp_send *send)
{
    fill_send(ep, op, to, send);
    send->wanted = send->wanted && !op_is_inject(op);
    ep->batch->count++;
    udp_batch_flush(ep);
    if (!udp_batch_waiting(ep->batch))
        return 0;
    ep->batch->count--;
    return -FI_EAGAIN;
}

/* Behind others, or in front of them. */
static __attribute__((noinline)) ssize_t gather_send(struct udp_ep *ep, const struct op *op,
                                                     const struct sockaddr *to)
{
    struct udp_send *send;

    if (!ep->batch)
        ep->batch = calloc(1, sizeof(*ep->batch));
    if (!ep->batch)
        return -FI_ENOMEM;
    send = udp_batch_next(ep->batch);
    if (!send) {
        udp_batch_flush(ep);
        send = udp_batch_next(ep->batch);
    }
    if (!send || udp_batch_waiting(ep->batch) >= ep->base.tx_size)
        return -FI_EAGAIN;
    if (op->flags & FI_INJECT)
        return send_last(ep, op, to, send);
    fill_send(ep, op, to, send);
    ep->batch->count++;
    if (!(op->flags & FI_MORE) || ep->batch->count == UDP_BATCH_MAX)
        udp_batch_flush(ep);
    else if (udp_batch_waiting(ep->batch) == 1 && progress_has_thread(ep->base.binding.progress))
        progress_wake(ep->base.binding.progress);
    return 0;
}

static inline ssize_t send_locked(struct udp_ep *ep, const struct op *op)
{
    const struct sockaddr *to = udp_target(ep, op->peer, op->flags);

    if (__builtin_expect(progress_forked(ep->base.binding.progress), 0))
        return -FI_EOPBADSTATE;
    if (__builtin_expect(!to, 0))
        return -FI_EINVAL;
    if (__builtin_expect(op->flags & FI_MORE || udp_batch_waiting(ep->batch), 0))
        return gather_send(ep, op, to);
    return send_now(ep, op, to);
}

static ssize_t post_send(struct udp_ep *ep, struct op *op)
{
    /* A bare payload has no room for data, and no peer confirms its end. */
    const uint64_t impossible = FI_REMOTE_CQ_DATA | FI_DELIVERY_COMPLETE | FI_COMMIT_COMPLETE;
    ssize_t rc = endpoint_settle(&ep->base, op);

    if (rc)
        return rc;
    if (__builtin_expect(!ep->base.enabled, 0))
        return -FI_EOPBADSTATE;
    if (__builtin_expect(!!(op->flags & impossible), 0))
        return -FI_EOPNOTSUPP;
    if (__builtin_expect(op->count > UDP_IOV_LIMIT, 0))
        return -FI_EINVAL;
    if (__builtin_expect(op->len > ep->message_max, 0))
        return -FI_EMSGSIZE;
    progress_lock(ep->base.binding.progress);
    rc = send_locked(ep, op);
    progress_unlock(ep->base.binding.progress);
    return rc;
}

ssize_t udp_post(struct ep *base, struct op *op)
{
    struct udp_ep *ep = object_of(base, struct udp_ep, base.base);

    return op->group == OP_GROUP_RECV ? post_receive(ep, op) : post_send(ep, op);
}
