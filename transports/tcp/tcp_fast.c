/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/tcp/tcp_fast.h"

#include <string.h>
#include <sys/socket.h>

#include "transports/tcp/tcp_poller.h"
#include "transports/tcp/tcp_send.h"

enum {
    HEAD_MAX = 24,
};

/* Nothing is to be sent, and nothing keeps a record from leaving now. */
static inline bool is_idle(const struct tcp_ep *ep)
{
    const struct tcp_tx *tx = &ep->tx;
    const struct tcp_poller *poller = ep->conn.poller;

    return ep->state == TCP_CONNECTED && !ep->tx.coalesce.open && !tx->normal.first &&
           !tx->urgent.first && !tx->current && !tx->flushing && !ep->conn.blocked &&
           !ep->conn.error && !tx->behind_reads && tx->posted < tx->limit && !poller->driving &&
           !poller->ring && !ep->conn.network && !progress_forked(poller->progress);
}

/* The part that has not left is a record as others are. */
static void keep(struct tcp_ep *ep, const struct op *post, const uint8_t *bytes, size_t size,
                 size_t sent, bool wanted)
{
    struct tcp_op *op = tcp_op_get(&ep->tx);

    op->context = post->context;
    op->flags = post->kind;
    op->len = post->iov->iov_len;
    op->tag = post->group == OP_GROUP_TSEND ? post->tag : 0;
    op->wanted = wanted;
    op->wire_flags = 0;
    op->head = (uint16_t)size;
    memcpy(op->bytes, bytes, size);
    tcp_send_began(&ep->tx, op, sent);
}

bool tcp_fast_send(struct tcp_ep *ep, const struct op *post)
{
    const uint64_t plain = FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE;
    const bool wanted =
        !op_is_inject(post) && completion_wanted(ep->base.binding.tx_selective, post->flags);
    struct tcp_tx *tx = &ep->tx;
    uint8_t bytes[HEAD_MAX + TCP_FAST_ROOM];
    const bool tagged = post->group == OP_GROUP_TSEND;
    size_t len = post->iov->iov_len, size;

    if (post->flags & ~plain || len > TCP_FAST_ROOM || !is_idle(ep) || !ep->conn.poller->ops.free ||
        (post->flags & FI_INJECT && len > ep->conn.settings->max_inject) ||
        !tcp_coalesce_passes(&ep->tx.coalesce, ep->conn.poller->epoch))
        return false;
    size = tcp_wire_encode_plain(bytes, tagged, tx->id, tagged ? post->tag : 0, len);
    if (len)
        memcpy(bytes + size, post->iov->iov_base, len);
    size += len;
    ssize_t sent = send(ep->conn.fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (__builtin_expect(sent <= 0, 0)) {
        ep->tx.coalesce.run--;
        return false;
    }
    tx->id++;
    if (pcap_on(ep->conn.flow))
        pcap_sent_buffer(ep->conn.flow, bytes, (size_t)sent);
    if (__builtin_expect((size_t)sent < size, 0)) {
        keep(ep, post, bytes, size, (size_t)sent, wanted);
        return true;
    }
    /* Posts of the upper from inside the report go out behind it. */
    tx->flushing = true;
    complete(&ep->base.binding, BIND_SEND, wanted, post->context, post->kind, 0, NULL, 0, 0,
             FI_ADDR_NOTAVAIL);
    tx->flushing = false;
    if (tx->normal.first || tx->urgent.first)
        tcp_send_flush(&ep->tx);
    return true;
}
