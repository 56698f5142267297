/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receives. A message that has come is copied into the first receive that is posted; without one
 * the buffer that it lies in is kept, up to a bound, and beyond that the message is refused, so
 * that its sender has it still. Senders are told of the room: arq_credit.
 */
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/iov.h"
#include "layers/arq/arq_ep.h"

#define TALKER_NS UINT64_C(1000000000) /* who was silent for longer has no share of the room */

/* ---- Room ---- */

void arq_talks(struct arq_link *link, uint64_t now)
{
    struct arq_ep *ep = link->ep;

    link->talked = now;
    if (list_empty(&link->talker))
        ep->talker_count++;
    list_detach(&link->talker);
    list_attach(&link->talker, &ep->talkers);
    while (!list_empty(&ep->talkers)) {
        struct arq_link *oldest = list_item(ep->talkers.next, struct arq_link, talker);

        if (oldest->talked + TALKER_NS >= now)
            break;
        list_detach(&oldest->talker);
        ep->talker_count--;
    }
}

uint64_t arq_credit(struct arq_ep *ep)
{
    size_t room = recv_queue_count(&ep->posted) + ep->saved_most - ep->saved_count;
    size_t share;

    if (room > ep->lower.holds)
        room = ep->lower.holds;
    share = ep->talker_count > 1 ? room / ep->talker_count : room;
    return share || !room ? share : 1;
}

/* Senders that were told of no room hear that there is some. */
static void wake_senders(struct arq_ep *ep)
{
    ep->woken = false;
    list_for_each (pos, &ep->talkers) {
        struct arq_link *link = list_item(pos, struct arq_link, talker);

        if (session_is_shut(&link->session))
            arq_ready(link);
    }
}

/* ---- One message ---- */

struct message {
    const uint8_t *bytes;
    size_t len;
    fi_addr_t src;
};

/* Where the receive that is first takes it. */
static struct iovec place(const struct posted_recv *recv)
{
    return (struct iovec){.iov_base = (char *)recv->iov[0].iov_base + recv->offset,
                          .iov_len = recv->iov[0].iov_len - recv->offset};
}

static void report(struct arq_ep *ep, const struct message *message, size_t copied, void *context,
                   void *buf, uint64_t flags, bool wanted)
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

static void into_plain(struct arq_ep *ep, const struct message *message)
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

static void into_multi(struct arq_ep *ep, const struct message *message)
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
static void release_multi(struct arq_ep *ep)
{
    void *context = recv_queue_at(&ep->posted, 0)->context;

    recv_queue_pop(&ep->posted);
    if (ep->base.binding.rx)
        cq_write(ep->base.binding.rx, context, FI_MULTI_RECV, 0, NULL, 0, 0, FI_ADDR_NOTAVAIL);
}

/* False: there is no receive. */
static bool receive(struct arq_ep *ep, const struct message *message)
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

/* ---- Messages without a receive ---- */

/* The bytes are those of the buffer that has just been read, which is kept; or of a message that
 * came in pieces, which needs one. */
static bool save(struct arq_ep *ep, const struct message *message, const struct arq_peer *peer)
{
    struct arq_buffer *buffer = ep->current;
    const uint8_t *begin = buffer ? buffer->bytes : NULL;
    bool mine = begin && message->bytes >= begin &&
                message->bytes < begin + ep->lower.prefix + ep->lower.most;

    if (ep->saved_count >= ep->saved_most)
        return false;
    if (!mine) {
        if (message->len > ep->lower.prefix + ep->lower.most)
            return false;
        buffer = mr_pool_get(&ep->buffers);
        if (!buffer)
            return false;
        memcpy(buffer->bytes, message->bytes, message->len);
        buffer->base.receives = true;
        buffer->at = 0;
        list_init(&buffer->link);
    } else {
        buffer->at = (size_t)(message->bytes - begin);
        ep->current = NULL;
    }
    buffer->len = message->len;
    buffer->from.len = 0;
    if (peer)
        buffer->from = peer->name;
    list_attach(&buffer->link, &ep->saved);
    ep->saved_count++;
    return true;
}

/* As the AV has it now: it may have changed while the message waited. */
static fi_addr_t source_of_saved(const struct arq_ep *ep, const struct arq_buffer *buffer)
{
    fi_addr_t addr = FI_ADDR_NOTAVAIL;

    if (buffer->from.len && ep->base.caps & FI_SOURCE)
        addr = av_find(ep->base.av, buffer->from.bytes);
    return addr == FI_ADDR_NOTAVAIL ? addr : av_source(ep->base.av, addr);
}

static void take_saved(struct arq_ep *ep)
{
    while (!list_empty(&ep->saved) && recv_queue_count(&ep->posted)) {
        struct arq_buffer *buffer = list_item(ep->saved.next, struct arq_buffer, link);
        struct message message = {.bytes = buffer->bytes + buffer->at,
                                  .len = buffer->len,
                                  .src = source_of_saved(ep, buffer)};

        list_detach(&buffer->link);
        ep->saved_count--;
        if (receive(ep, &message)) {
            mr_pool_put(&ep->buffers, buffer);
            continue;
        }
        list_attach_before(&buffer->link, ep->saved.next); /* it released the last receive */
        ep->saved_count++;
    }
}

bool arq_deliver(struct session *session, const uint8_t *bytes, size_t len)
{
    struct arq_link *link = arq_link_of(session);
    struct arq_ep *ep = link->ep;
    struct message message = {.bytes = bytes, .len = len, .src = FI_ADDR_NOTAVAIL};

    if (__builtin_expect(av_watch_any(&ep->watch), 0))
        arq_take_av_changes(ep); /* the upper may have learnt of the peer from the last message */
    if (link->peer && link->peer->addr != FI_ADDR_NOTAVAIL && ep->base.caps & FI_SOURCE)
        message.src = av_source(ep->base.av, link->peer->addr);
    if (list_empty(&ep->saved) && receive(ep, &message))
        return true;
    if (save(ep, &message, link->peer))
        return true;
    ep->woken = true;
    return false;
}

/* ---- Posting ---- */

static ssize_t post_locked(struct arq_ep *ep, const struct op *op)
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
    if (__builtin_expect(ep->running, 0))
        return 0; /* arq_run looks again */
    if (__builtin_expect(!list_empty(&ep->saved) || ep->woken, 0))
        arq_run(ep, 0);
    return 0;
}

void arq_receive_run(struct arq_ep *ep)
{
    if (!list_empty(&ep->saved))
        take_saved(ep);
    if (ep->woken && arq_credit(ep))
        wake_senders(ep);
}

ssize_t arq_post_receive(struct arq_ep *ep, struct op *op)
{
    ssize_t rc;

    if (!ep->base.enabled)
        return -FI_EOPBADSTATE;
    if (op->count > RECV_QUEUE_IOV)
        return -FI_EINVAL;
    progress_lock(ep->progress);
    rc = post_locked(ep, op);
    progress_unlock(ep->progress);
    return rc;
}
