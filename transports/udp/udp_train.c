/* SPDX-License-Identifier: BSD-2-Clause */
/* Trains (OPT_TRAINS of core/base/seam.h): many datagrams of one length by one call, which the
 * kernel or the device cuts (UDP_SEGMENT). */
#include <errno.h>
#include <netinet/udp.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "core/base/iov.h"
#include "core/base/log.h"
#include "transports/udp/udp_ep.h"
#include "transports/udp/udp_group.h"

enum {
    TRIES = 8 /* of a call that fails for what was sent before */
};

/* The note to the kernel of how long each datagram is. */
union cut {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(uint16_t))];
};

/* The train in one segment, whole, if there is memory for it: the kernel copies many small ones in
 * up to twice the time that this copy and its own take (docs/decisions). */
static struct train gather(struct udp_ep *ep, const struct train *train, struct iovec *whole)
{
    struct train gathered = *train;

    if (train->count == 1 || train->len > DATAGRAM_MEMORY)
        return gathered;
    datagram_memory(&ep->memory);
    if (!ep->memory)
        return gathered;
    *whole = (struct iovec){ep->memory, train->len};
    iov_gather(train->iov, train->count, 0, ep->memory, train->len);
    gathered.iov = whole;
    gathered.count = 1;
    return gathered;
}

/* With a note of the length; to NULL: fd is connected. */
static ssize_t call_with_note(int fd, const struct train *train, const struct sockaddr *to)
{
    uint16_t segment = (uint16_t)train->segment;
    union cut cut;
    struct msghdr header = {
        .msg_name = (void *)(uintptr_t)to,
        .msg_namelen = to ? addr_size(to) : 0,
        .msg_iov = (struct iovec *)(uintptr_t)train->iov,
        .msg_iovlen = train->count,
        .msg_control = cut.bytes,
        .msg_controllen = sizeof(cut.bytes),
    };

    memset(&cut, 0, sizeof(cut));
    cut.header.cmsg_level = SOL_UDP;
    cut.header.cmsg_type = UDP_SEGMENT;
    cut.header.cmsg_len = CMSG_LEN(sizeof(segment));
    memcpy(CMSG_DATA(&cut.header), &segment, sizeof(segment));
    return sendmsg(fd, &header, MSG_DONTWAIT);
}

/* By the socket of the hot peer, whose trains have one length most of the time: a call of few
 * arguments takes the kernel 0.15 us less than a note of the length with each. */
static ssize_t call_for_hot(struct udp_hot *hot, const struct train *train)
{
    if (train->count > 1)
        return call_with_note(hot->sock.fd, train, NULL);
    if (train->segment != hot->cut && !udp_hot_cut(hot, train->segment))
        return -1;
    return send(hot->sock.fd, train->iov->iov_base, train->iov->iov_len, MSG_DONTWAIT);
}

/* Errors by which the kernel says that a socket or device cannot cut at all. */
static bool is_final(int err)
{
    return err == EIO || err == EOPNOTSUPP || err == ENOPROTOOPT;
}

static ssize_t refused(struct udp_ep *ep, const struct train *train, int err)
{
    if (err == ENOBUFS && udp_refusal_lasts(&ep->refusal, train->segment, clock_ns()))
        return 0; /* lost */
    if (udp_is_full(err))
        return -FI_EAGAIN;
    if (is_final(err)) {
        ep->gso = false;
        LOG_INFO(ep->fabric->base.part, FI_LOG_EP_DATA,
                 "datagrams are sent one by one: UDP_SEGMENT: %s", strerror(err));
        return -FI_ENOSYS;
    }
    return -err;
}

static ssize_t send_train(struct udp_ep *ep, const struct train *train, const struct sockaddr *to)
{
    bool hot = udp_hot_is(&ep->hot, to);
    ssize_t rc = hot ? call_for_hot(&ep->hot, train) : call_with_note(ep->main.fd, train, to);

    if (rc < 0 && hot && !udp_is_full(errno)) {
        udp_hot_cool(&ep->hot);
        rc = call_with_note(ep->main.fd, train, to);
    }
    /* The kernel tells of an earlier datagram's end with the next call, once. */
    for (int i = 0; rc < 0 && i < TRIES && !udp_is_full(errno) && ep->base.eq; i++) {
        int err = errno;

        if (!udp_errors_read(ep))
            return refused(ep, train, err);
        rc = call_with_note(ep->main.fd, train, to);
    }
    if (rc < 0)
        return refused(ep, train, errno);
    udp_refusal_taken(&ep->refusal, train->segment);
    if (!udp_hot_is(&ep->hot, to) && !udp_group_is(train->peer))
        udp_hot_note(ep, to);
    for (size_t at = 0; pcap_on(ep->main.flow) && at < train->len; at += train->segment)
        pcap_datagram(ep->main.flow, false, to, train->iov, train->count, at,
                      train->len - at < train->segment ? train->len - at : train->segment);
    return 0;
}

static ssize_t send_locked(struct udp_ep *ep, const struct train *train)
{
    const struct sockaddr *to = udp_target(ep, train->peer, 0);
    struct train gathered;
    struct iovec whole;

    if (progress_forked(ep->base.binding.progress))
        return -FI_EOPBADSTATE;
    if (!to)
        return -FI_EINVAL;
    if (!ep->gso)
        return -FI_ENOSYS;
    if (udp_batch_waiting(ep->batch))
        udp_batch_flush(ep);
    if (udp_batch_waiting(ep->batch))
        return -FI_EAGAIN;
    gathered = gather(ep, train, &whole);
    return send_train(ep, &gathered, to);
}

static ssize_t post_train(void *lower, const struct train *train)
{
    struct udp_ep *ep = lower;
    ssize_t rc;

    if (!ep->base.enabled)
        return -FI_EOPBADSTATE;
    progress_lock(ep->base.binding.progress);
    rc = send_locked(ep, train);
    progress_unlock(ep->base.binding.progress);
    return rc;
}

/* The memory is that of batches, too: one that waits leaves before. */
static void *memory(void *lower)
{
    struct udp_ep *ep = lower;
    bool waiting;

    progress_lock(ep->base.binding.progress);
    if (udp_batch_waiting(ep->batch))
        udp_batch_flush(ep);
    waiting = udp_batch_waiting(ep->batch);
    if (!waiting)
        datagram_memory(&ep->memory);
    progress_unlock(ep->base.binding.progress);
    return waiting ? NULL : ep->memory;
}

int udp_train_ask(struct endpoint *base, void *value, size_t *len)
{
    struct udp_ep *ep = udp_ep_of(base);
    struct train_port *port = value;

    if (*len != sizeof(*port))
        return -FI_EINVAL;
    if (port->of != &ep->fid)
        return -FI_ENOPROTOOPT;
    port->send = ep->gso ? post_train : NULL;
    port->memory = memory;
    port->lower = ep;
    return 0;
}

int udp_train_set(struct endpoint *base, const void *value, size_t len)
{
    struct udp_ep *ep = udp_ep_of(base);
    const struct train_port *port = value;

    if (len != sizeof(*port) || base->enabled)
        return -FI_EINVAL;
    if (port->of != &ep->fid)
        return -FI_ENOPROTOOPT;
    ep->train_came = port->came;
    ep->train_arg = port->arg;
    return 0;
}
