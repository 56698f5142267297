/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One buffer for each set takes what arrives; records are cut out of it, and small payloads copied
 * to where they go. The rest of a large one is received straight into place, with the start of what
 * follows behind it in the same call. A connection that must not go on (an unexpected message that
 * may not be saved, answers that do not leave) keeps what was already read in a stash.
 */
#include "transports/tcp/tcp_receive.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/domain/mr_watch.h"
#include "transports/tcp/tcp_acks.h"
#include "transports/tcp/tcp_answer.h"
#include "transports/tcp/tcp_atomic.h"
#include "transports/tcp/tcp_conn.h"
#include "transports/tcp/tcp_fault.h"
#include "transports/tcp/tcp_message.h"
#include "transports/tcp/tcp_poller.h"
#include "transports/tcp/tcp_send.h"

enum {
    BUDGET = 16,       /* reads of one endpoint before others get their turn */
    LARGE = 4096,      /* payloads from here on make reads short: most bytes go into place */
    SHORT_READ = 512,  /* enough for the next header */
    DIRECT_MIN = 1024, /* rest of a payload that is worth a segment of its own */
    DIRECT_SEGMENTS = 20,
};

void tcp_receive_init(struct tcp_rx *rx, struct tcp_conn *conn)
{
    memset(rx, 0, sizeof(*rx));
    rx->conn = conn;
    rx->tx = conn->tx;
    rx->tagged = conn->base->caps & FI_TAGGED;
    rx->eager = true;
    list_init(&rx->inbounds);
}

static int protocol_error(struct tcp_rx *rx, const char *why)
{
    tcp_conn_say_closed(rx->conn, why);
    return -FI_EPROTO;
}

/* ---- Remote memory access ---- */

static int refuse_access(struct tcp_rx *rx, const struct tcp_wire_iov *iov, uint64_t access, int rc)
{
    LOG_WARN(tcp_conn_part(rx->conn), FI_LOG_EP_DATA,
             "connection closed: remote %s of %zu bytes at 0x%zx with key 0x%zx: %s",
             access == FI_REMOTE_READ ? "read" : "write", (size_t)iov->len, (size_t)iov->addr,
             (size_t)iov->key, fi_strerror(-rc));
    return rc;
}

/* The region is closed while the kernel may be at its memory for us. */
static void revoke(void *arg)
{
    struct tcp_conn *conn = ((struct tcp_target *)arg)->conn;

    if (conn->fd < 0)
        return;
    tcp_fault_closed(conn->tx);
    conn->poller->io->quiesce(conn, 0);
}

static bool watch(struct tcp_target *target)
{
    for (unsigned i = 0; i < target->mr_count; i++) {
        if (!target->mr[i])
            continue;
        target->watch[i] =
            mr_watch_open(target->mr[i], target->conn->poller->progress, revoke, target);
        if (!target->watch[i])
            return false;
    }
    return true;
}

static int resolve(struct tcp_rx *rx, const struct tcp_wire *wire, uint64_t access,
                   struct tcp_target **result)
{
    struct tcp_target *target = pool_get(&rx->conn->poller->targets);

    if (!target)
        return -FI_ENOMEM;
    target->conn = rx->conn;
    target->mr_count = 0;
    target->iov_count = 0;
    for (unsigned i = 0; i < wire->iov_count; i++) {
        const struct tcp_wire_iov *iov = &wire->iov[i];
        size_t count = TCP_MR_IOV_MAX;
        struct mr *mr;

        int rc =
            rx->conn->base->caps & access || !iov->len
                ? mr_resolve(rx->conn->base->domain->mrs, iov->key, iov->addr, (size_t)iov->len,
                             access, target->iov + target->iov_count, &count, &mr)
                : -FI_EACCES;
        if (rc) {
            tcp_target_release(rx->conn->poller, target);
            return refuse_access(rx, iov, access, rc);
        }
        target->watch[target->mr_count] = NULL;
        target->mr[target->mr_count++] = mr;
        target->iov_count += count;
    }
    if (rx->conn->poller->io && !watch(target)) {
        tcp_target_release(rx->conn->poller, target);
        return -FI_ENOMEM;
    }
    *result = target;
    return 0;
}

/* A write comes in parts, between which its region may be closed. */
static bool lost_target(const struct tcp_rx *rx)
{
    return rx->target && mr_any_closed(rx->target->mr, rx->target->mr_count);
}

static int refuse_rest(struct tcp_rx *rx)
{
    tcp_conn_say_closed(rx->conn, "the memory that the peer writes is not there any more");
    return -FI_EACCES;
}

static int begin_read(struct tcp_rx *rx, const struct tcp_wire *wire)
{
    struct tcp_target *target;
    int rc = resolve(rx, wire, FI_REMOTE_READ, &target);

    if (rc)
        return rc;
    rc = tcp_answer_read(rx->tx, wire, target);
    if (rc)
        tcp_target_release(rx->conn->poller, target);
    rx->active = false;
    return rc;
}

static int begin_write(struct tcp_rx *rx, const struct tcp_wire *wire)
{
    int rc = resolve(rx, wire, FI_REMOTE_WRITE, &rx->target);

    if (!rc)
        tcp_dest_set(&rx->dest, rx->target->iov, rx->target->iov_count);
    return rc;
}

static int finish_write(struct tcp_rx *rx)
{
    struct tcp_target *target = rx->target;
    bool data = rx->flags & TCP_FLAG_CQ_DATA;

    rx->target = NULL;
    mr_accessed(target->mr, target->mr_count, FI_REMOTE_WRITE);
    bool counted = mr_counted(target->mr, target->mr_count);
    tcp_target_release(rx->conn->poller, target);
    int rc = rx->flags & (TCP_FLAG_DELIVERY | TCP_FLAG_COMMIT) ? tcp_answer_ack(rx->tx) : 0;
    if (counted || data)
        complete(&rx->conn->base->binding, BIND_REMOTE_WRITE, data, NULL,
                 FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, (size_t)rx->done, NULL,
                 data ? rx->cq_data : 0, 0, FI_ADDR_NOTAVAIL);
    return rc;
}

static int begin_response(struct tcp_rx *rx, const struct tcp_wire *wire)
{
    struct tcp_op *op = tcp_acks_response(rx->tx);

    if (!op || op->kind != TCP_KIND_READ)
        return protocol_error(rx, "read response without a read");
    if (wire->payload != op->len)
        return protocol_error(rx, "read response of another length than the read");
    tcp_dest_set(&rx->dest, op->iov, op->iov_count);
    return 0;
}

/* ---- Records ---- */

static int begin_plain(struct tcp_rx *rx, const struct tcp_wire *wire)
{
    if (wire->op_data != TCP_WIRE_ACK)
        return (int)tcp_message_begin(rx, wire, NULL, 0);
    rx->active = false;
    return tcp_acks_ack(rx->tx) ? protocol_error(rx, "acknowledgement of nothing") : 0;
}

static int begin_tagged(struct tcp_rx *rx, const struct tcp_wire *wire)
{
    if (!rx->tagged && !(rx->tags_plain && wire->op == TCP_OP_TAG))
        return protocol_error(rx, "tagged message for an endpoint without FI_TAGGED");
    return wire->op == TCP_OP_TAG ? (int)tcp_message_begin(rx, wire, NULL, 0)
                                  : tcp_message_offer(rx, wire);
}

static int begin_clear(struct tcp_rx *rx, const struct tcp_wire *wire)
{
    rx->active = false;
    return tcp_acks_clear(rx->tx, wire->op_data)
               ? protocol_error(rx, "clear-to-send for no request of ours")
               : 0;
}

static void note_record(struct tcp_rx *rx, const struct tcp_wire *wire)
{
    rx->active = true;
    rx->op = wire->op;
    rx->flags = wire->flags;
    rx->tag = wire->tag;
    rx->cq_data = wire->cq_data;
    rx->left = wire->payload;
    rx->done = 0;
    rx->eager = wire->payload < LARGE;
}

static int begin_record(struct tcp_rx *rx, const struct tcp_wire *wire)
{
    note_record(rx, wire);
    switch ((enum tcp_record)wire->op) {
    case TCP_OP_MSG: return begin_plain(rx, wire);
    case TCP_OP_TAG:
    case TCP_OP_RTS: return begin_tagged(rx, wire);
    case TCP_OP_READ_REQ: return begin_read(rx, wire);
    case TCP_OP_READ_RSP: return begin_response(rx, wire);
    case TCP_OP_WRITE: return begin_write(rx, wire);
    case TCP_OP_CTS: return begin_clear(rx, wire);
    case TCP_OP_DATA:
        return tcp_message_data(rx, wire) ? protocol_error(rx, "data that was not asked for") : 0;
    case TCP_OP_ATOMIC: return tcp_atomic_begin(rx, wire);
    case TCP_OP_ATOMIC_RSP: return tcp_atomic_begin_answer(rx, wire);
    case TCP_OP_COUNT: break;
    }
    return -FI_EPROTO;
}

static int finish_record(struct tcp_rx *rx)
{
    rx->active = false;
    switch ((enum tcp_record)rx->op) {
    case TCP_OP_MSG:
    case TCP_OP_TAG:
    case TCP_OP_DATA: return tcp_message_finish(rx);
    case TCP_OP_WRITE: return finish_write(rx);
    case TCP_OP_READ_RSP: tcp_acks_done(rx->tx); return 0;
    case TCP_OP_ATOMIC: return tcp_atomic_finish(rx);
    case TCP_OP_ATOMIC_RSP: tcp_atomic_finish_answer(rx); return 0;
    default: return 0;
    }
}

/* A record without a payload has no byte that could finish it later. */
static inline int finish_if_empty(struct tcp_rx *rx)
{
    return rx->active && !rx->left && !rx->paused ? finish_record(rx) : 0;
}

/* Completes a header that came in pieces, or reads one where it is. Returns the bytes used: 0 if
 * its record has to wait. */
static ssize_t take_header(struct tcp_rx *rx, const uint8_t *bytes, size_t len)
{
    struct tcp_wire wire = {0};
    const char *why = NULL;
    size_t kept = rx->head_len;
    size_t have = len;

    if (kept || len < TCP_WIRE_BASE) {
        have = len < TCP_WIRE_MAX - kept ? len : TCP_WIRE_MAX - kept;
        memcpy(rx->head + kept, bytes, have);
        bytes = rx->head;
        have += kept;
    }
    int rc = tcp_wire_decode(bytes, have, rx->conn->network, &wire, &why);
    if (rc < 0)
        return protocol_error(rx, why);
    if (rc == 0) {
        if (bytes != rx->head)
            memcpy(rx->head, bytes, have);
        rx->head_len = (uint8_t)have;
        return (ssize_t)(have - kept);
    }
    rx->behind_reads = rx->tx->from_regions && tcp_wire_fetches(&wire);
    if (rx->behind_reads) {
        rx->head_len = (uint8_t)kept;
        return 0;
    }
    rx->head_len = 0;
    size_t used = (size_t)rc - kept;
    rc = begin_record(rx, &wire);
    if (!rc)
        rc = finish_if_empty(rx);
    return rc ? rc : (ssize_t)used;
}

/* Takes a record that begins here: mostly a small message, all of it. Returns the bytes used. */
static inline ssize_t take_record(struct tcp_rx *rx, const uint8_t *bytes, size_t len)
{
    struct tcp_wire wire;
    size_t head = rx->head_len || rx->conn->network ? 0 : tcp_wire_decode_plain(bytes, len, &wire);

    if (!head || (wire.op == TCP_OP_TAG && !rx->tagged))
        return take_header(rx, bytes, len);
    note_record(rx, &wire);
    ssize_t used = tcp_message_begin(rx, &wire, bytes + head, len - head);
    if (used < 0)
        return used;
    int rc = finish_if_empty(rx);
    return rc ? rc : (ssize_t)head + used;
}

static ssize_t take_payload(struct tcp_rx *rx, const uint8_t *bytes, size_t len)
{
    size_t part = rx->left < len ? (size_t)rx->left : len;

    if (__builtin_expect(lost_target(rx), 0))
        return refuse_rest(rx);
    tcp_dest_put(&rx->dest, bytes, part);
    rx->left -= part;
    rx->done += part;
    int rc = rx->left ? 0 : finish_record(rx);
    return rc ? rc : (ssize_t)part;
}

int tcp_receive_keep(struct tcp_rx *rx, const uint8_t *bytes, size_t len)
{
    size_t before = rx->stash ? rx->stash_len - rx->stash_used : 0;

    if (before && rx->stash_used)
        memmove(rx->stash, rx->stash + rx->stash_used, before);
    uint8_t *stash = realloc(rx->stash, before + len);
    if (!stash) {
        rx->stash_used = 0;
        rx->stash_len = before;
        return -FI_ENOMEM;
    }
    memcpy(stash + before, bytes, len);
    rx->stash = stash;
    rx->stash_len = before + len;
    rx->stash_used = 0;
    return 0;
}

/* The rest of a stash becomes it again, where it is: one message at a time may be taken. */
static int keep_rest(struct tcp_rx *rx, const uint8_t *bytes, size_t len)
{
    if (!rx->taking)
        return tcp_receive_keep(rx, bytes, len);
    rx->stash = rx->taking;
    rx->stash_used = (size_t)(bytes - rx->stash);
    rx->stash_len = rx->stash_used + len;
    rx->taking = NULL;
    return 0;
}

int tcp_receive_consume(struct tcp_rx *rx, const uint8_t *bytes, size_t len)
{
    while (len) {
        if (rx->paused || (!rx->active && tcp_rx_choked(rx)))
            return keep_rest(rx, bytes, len);
        ssize_t used = rx->active ? take_payload(rx, bytes, len) : take_record(rx, bytes, len);
        if (used < 0)
            return (int)used;
        bytes += used;
        len -= (size_t)used;
    }
    return 0;
}

/* ---- The socket ---- */

/* Receives into place and, behind that, into the buffer. Returns what came; *direct is how much of
 * it is in place. */
static ssize_t receive_large(struct tcp_rx *rx, size_t spare, size_t *asked, size_t *direct)
{
    struct iovec iov[DIRECT_SEGMENTS + 1];
    size_t count = tcp_dest_iov(&rx->dest, rx->left, iov, DIRECT_SEGMENTS, direct);
    struct msghdr message = {.msg_iov = iov};

    *asked = *direct;
    if (*direct == rx->left || *direct == rx->dest.room) {
        iov[count].iov_base = rx->conn->poller->buffer;
        iov[count++].iov_len = spare;
        *asked += spare;
    }
    message.msg_iovlen = count;
    ssize_t got = recvmsg(rx->conn->fd, &message, MSG_DONTWAIT);
    if (pcap_on(rx->conn->flow) && got > 0)
        pcap_received(rx->conn->flow, iov, count, (size_t)got);
    return got;
}

int tcp_receive_placed(struct tcp_rx *rx, size_t got)
{
    tcp_dest_skip(&rx->dest, got);
    rx->left -= got;
    rx->done += got;
    return rx->left ? 0 : finish_record(rx);
}

/* One system call. Bytes received, 0 at the end of the stream, or a negative error. */
static ssize_t receive(struct tcp_rx *rx, size_t *asked)
{
    uint64_t spare = rx->eager ? TCP_BUFFER : SHORT_READ;
    size_t direct = 0;
    ssize_t got;

    if (rx->active && rx->left >= DIRECT_MIN && rx->dest.room >= DIRECT_MIN) {
        if (__builtin_expect(lost_target(rx), 0))
            return refuse_rest(rx);
        got = receive_large(rx, (size_t)spare, asked, &direct);
    } else {
        if (rx->active)
            spare += rx->left;
        *asked = spare < TCP_BUFFER ? (size_t)spare : TCP_BUFFER;
        got = recv(rx->conn->fd, rx->conn->poller->buffer, *asked, MSG_DONTWAIT);
        if (pcap_on(rx->conn->flow) && got > 0)
            pcap_received_buffer(rx->conn->flow, rx->conn->poller->buffer, (size_t)got);
    }
    if (got <= 0)
        return got < 0 ? -errno : 0;
    if ((size_t)got < direct)
        direct = (size_t)got;
    int rc = direct ? tcp_receive_placed(rx, direct) : 0;
    if (!rc)
        rc = tcp_receive_consume(rx, rx->conn->poller->buffer, (size_t)got - direct);
    return rc ? rc : got;
}

int tcp_receive_end(const struct tcp_rx *rx)
{
    return rx->active || rx->head_len ? -FI_ECONNRESET : -FI_ENOTCONN;
}

/* The outcome of a receipt: one of these, or negative: the connection broke. */
enum {
    GO_ON,
    NO_MORE_NOW,
    STREAM_END,
};

static int judge(struct tcp_rx *rx, ssize_t got, size_t asked, bool *came)
{
    if (got == -EINTR)
        return GO_ON;
    if (got == -EAGAIN || got == -EWOULDBLOCK) {
        rx->conn->readable = false;
        return NO_MORE_NOW;
    }
    if (got == 0)
        return tcp_receive_end(rx) == -FI_ENOTCONN ? STREAM_END : -FI_ECONNRESET;
    if (got < 0)
        return (int)got;
    *came = true;
    /* The socket was empty then; later bytes raise a new event. */
    if ((size_t)got < asked && !rx->conn->ended) {
        rx->conn->readable = false;
        return NO_MORE_NOW;
    }
    rx->conn->readable = true;
    return GO_ON;
}

static int receive_once(struct tcp_rx *rx, bool *came)
{
    size_t asked = 0;
    ssize_t got = receive(rx, &asked);

    return judge(rx, got, asked, came);
}

static int take_stash(struct tcp_rx *rx)
{
    uint8_t *stash = rx->stash;

    rx->stash = NULL;
    rx->taking = stash;
    int rc = tcp_receive_consume(rx, stash + rx->stash_used, rx->stash_len - rx->stash_used);
    free(rx->taking);
    rx->taking = NULL;
    return rc;
}

int tcp_receive_unstash(struct tcp_rx *rx)
{
    return rx->stash && !rx->paused && !tcp_rx_choked(rx) ? take_stash(rx) : 0;
}

/* Reads while there is something to read, and answers. */
static bool go_on(struct tcp_rx *rx, int rc, bool came)
{
    for (int budget = BUDGET; !rc && budget && !rx->paused && !rx->stash; budget--)
        rc = receive_once(rx, &came);
    if (rc == STREAM_END) {
        tcp_poller_end(rx->conn);
        return came;
    }
    if (rc < 0) {
        tcp_conn_fail(rx->conn, -rc);
        return true;
    }
    if (rx->paused && rx->conn->error)
        tcp_send_finish(rx->tx, rx->conn->error);
    else if (rc == 0 && !rx->paused && !rx->stash)
        tcp_poller_work(rx->conn);
    if (rx->tx->urgent.first || rx->tx->normal.first)
        tcp_send_flush(rx->tx);
    return came;
}

bool tcp_receive_progress(struct tcp_rx *rx)
{
    if (rx->conn->fd < 0)
        return false;
    tcp_send_reclaim(rx->tx);
    return go_on(rx, tcp_receive_unstash(rx), false);
}

bool tcp_receive_got(struct tcp_rx *rx, ssize_t got)
{
    bool came = false;

    tcp_send_reclaim(rx->tx);
    if (got > 0) {
        if (pcap_on(rx->conn->flow))
            pcap_received_buffer(rx->conn->flow, rx->conn->poller->buffer, (size_t)got);
        int rc = tcp_receive_consume(rx, rx->conn->poller->buffer, (size_t)got);
        if (rc)
            got = rc;
    }
    return go_on(rx, judge(rx, got, TCP_BUFFER, &came), came);
}

void tcp_receive_fail(struct tcp_rx *rx, int err)
{
    if (rx->target)
        tcp_target_release(rx->conn->poller, rx->target);
    rx->target = NULL;
    tcp_atomic_put(rx->conn->poller, rx->atomic);
    rx->atomic = NULL;
    free(rx->stash);
    rx->stash = NULL;
    rx->head_len = 0;
    tcp_message_fail(rx, err);
    rx->active = false;
    rx->paused = false;
}

void tcp_receive_finish(struct tcp_rx *rx)
{
    tcp_receive_fail(rx, 0);
    tcp_message_finish_all(rx);
}
