/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A lower that has receives posted on each connection. There are few at first, and more while the
 * peer uses them up (rxm_credit.h: struct rxm_window); credits say how many packets may come. Used
 * ones are posted again together (struct rxm_credit.batch).
 */
#include <string.h>

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "core/queue/wait.h"
#include "layers/rxm/msgproto/msgproto_plain.h"

/* Counted first: the lower may complete it before it returns. */
static int post_one(struct rxm_conn *conn, struct rxm_packet_buffer *buffer)
{
    int rc;

    list_attach(&buffer->held, &conn->msgproto.receives);
    conn->msgproto.window.posted++;
    rxm_credit_posted(&conn->msgproto.credit, 1);
    rc = op_receive_one(&conn->target, &buffer->receive);
    if (__builtin_expect(rc != 0, 0)) {
        rxm_credit_unposted(&conn->msgproto.credit, 1);
        conn->msgproto.window.posted--;
        list_detach(&buffer->held);
    }
    return rc;
}

__attribute__((noinline)) static void give(struct rxm_conn *conn, uint32_t due)
{
    const struct rxm_packet packet = {.type = RXM_CREDIT, .credits = due};

    if (!conn->msgproto.up || conn->msgproto.dead)
        return;
    rxm_credit_gave(&conn->msgproto.credit, due);
    rxm_send_control(conn, &packet, NULL, 0);
}

static inline void grant(struct rxm_conn *conn)
{
    uint32_t due = rxm_credit_due(&conn->msgproto.credit);

    if (__builtin_expect(due, 0))
        give(conn, due);
}

/* The lower has ended a receive. */
static inline void taken_back(struct rxm_conn *conn, struct rxm_packet_buffer *buffer)
{
    list_detach(&buffer->held);
    conn->msgproto.window.posted--;
}

/* The buffer is not posted again. */
__attribute__((noinline)) static void put_back(struct rxm_conn *conn,
                                               struct rxm_packet_buffer *buffer, bool missing)
{
    taken_back(conn, buffer);
    if (missing)
        msgproto_set_refill(conn->owner->msgproto);
    rxm_packet_buffer_put(buffer);
}

__attribute__((noinline)) static void turn_window(struct rxm_conn *conn)
{
    struct rxm_window *window = &conn->msgproto.window;

    rxm_window_turn(window, clock_ms());
    rxm_credit_resize(&conn->msgproto.credit, window->size);
    msgproto_post_more(conn);
}

static struct rxm_packet_buffer *buffer_of(const struct ep_receive *receive)
{
    return object_of((struct ep_receive *)(uintptr_t)receive, struct rxm_packet_buffer, receive);
}

/* Of used receives those that are to be posted again, from the first on. */
static unsigned keep(struct rxm_conn *conn, const struct ep_receive *const *receives,
                     unsigned count)
{
    const struct msgproto_conn *mine = &conn->msgproto;

    if (__builtin_expect(mine->dead || msgproto_stopped(conn), 0)) {
        while (count)
            put_back(conn, buffer_of(receives[--count]), !mine->dead);
        return 0;
    }
    while (count && __builtin_expect(mine->window.posted > mine->window.size, 0))
        put_back(conn, buffer_of(receives[--count]), false); /* there are to be fewer */
    return count;
}

/* Counted first: the lower may complete them before it returns. */
static inline void post_kept(struct rxm_conn *conn, const struct ep_receive *const *receives,
                             unsigned count)
{
    size_t posted;

    rxm_credit_posted(&conn->msgproto.credit, count);
    posted = op_receive(&conn->target, receives, count);
    if (__builtin_expect(posted == count, 1))
        return;
    rxm_credit_unposted(&conn->msgproto.credit, count - (unsigned)posted);
    while (posted < count)
        put_back(conn, buffer_of(receives[posted++]), true);
}

/* Taken from the connection first, for the same reason. */
__attribute__((noinline)) static void post_batch(struct rxm_conn *conn)
{
    struct msgproto_conn *mine = &conn->msgproto;
    const struct ep_receive *receives[RXM_BATCH];
    unsigned used = mine->again_count, count;

    memcpy(receives, mine->again, used * sizeof(*receives));
    mine->again_count = 0;
    count = keep(conn, receives, used);
    if (count)
        post_kept(conn, receives, count);
    if (__builtin_expect(rxm_window_used(&mine->window, used), 0))
        turn_window(conn);
    else
        grant(conn);
}

/* The lower has ended a receive: its buffer is posted again, soon, and stays in the connection's
 * list. */
static inline __attribute__((always_inline)) void post_again(struct rxm_conn *conn,
                                                             struct rxm_packet_buffer *buffer)
{
    struct msgproto_conn *mine = &conn->msgproto;

    mine->again[mine->again_count++] = &buffer->receive;
    if (mine->again_count >= mine->credit.batch)
        post_batch(conn);
}

__attribute__((noinline)) static void receive_failed(struct rxm_conn *conn,
                                                     struct rxm_packet_buffer *buffer, int err)
{
    if (err == FI_ETRUNC)
        msgproto_conn_break(conn, "a packet longer than the limit");
    if (conn->owner->msgproto->feed != RXM_FEED_POSTED)
        return; /* the lower gives it back */
    taken_back(conn, buffer);
    conn->msgproto.window.size -= conn->msgproto.window.size > 0; /* and it is not posted again */
    rxm_credit_resize(&conn->msgproto.credit, conn->msgproto.window.size);
    rxm_packet_buffer_put(buffer);
}

/* posted: our receive, which is posted again; else the lower gives it back. */
static inline __attribute__((always_inline)) void received(struct rxm_context *context, size_t len,
                                                           bool posted)
{
    struct rxm_packet_buffer *buffer = object_of(context, struct rxm_packet_buffer, context);
    struct rxm_conn *conn = buffer->conn;

    if (!msgproto_take_plain(conn, buffer->bytes, len))
        msgproto_packet(conn, buffer->bytes, len);
    if (posted)
        post_again(conn, buffer);
}

/* A packet has come, or not (error). */
static void packet_received(struct rxm_context *context, size_t len,
                            const struct fi_cq_err_entry *error)
{
    struct rxm_packet_buffer *buffer = object_of(context, struct rxm_packet_buffer, context);

    if (__builtin_expect(error != NULL, 0))
        receive_failed(buffer->conn, buffer, error->err);
    else
        received(context, len, buffer->conn->owner->msgproto->feed == RXM_FEED_POSTED);
}

/* A message of a lower that has tags, in place of a packet; data: of the CQ, or NULL. */
static void received_bare(struct rxm_conn *conn, struct rxm_context *context, const void *buf,
                          size_t len, uint64_t tag, const uint64_t *data)
{
    bool posted = conn->owner->msgproto->feed == RXM_FEED_POSTED;
    struct rxm_packet_buffer *buffer = object_of(context, struct rxm_packet_buffer, context);

    msgproto_bare(conn, posted ? buffer->bytes : buf, len, tag, data);
    if (posted)
        post_again(conn, buffer);
}

static int fill_one(struct rxm_conn *conn)
{
    struct rxm_packet_buffer *buffer = rxm_packet_buffer_get(conn);
    int rc;

    if (!buffer)
        return -FI_ENOMEM;
    buffer->context.done = packet_received;
    buffer->receive = (struct ep_receive){.buf = buffer->bytes,
                                          .len = buffer->iov.iov_len,
                                          .desc = buffer->buffer.desc,
                                          .context = &buffer->context};
    rc = post_one(conn, buffer);
    if (rc)
        rxm_packet_buffer_put(buffer);
    return rc;
}

int msgproto_conn_fill(struct rxm_conn *conn)
{
    struct msgproto *msgproto = conn->owner->msgproto;
    const struct rxm_window *window = &conn->msgproto.window;
    int rc = 0;

    if (msgproto->feed != RXM_FEED_POSTED)
        return 0;
    while (!rc && window->posted < window->size)
        rc = fill_one(conn);
    if (window->posted < window->size)
        msgproto_set_refill(msgproto);
    return rc == -FI_EAGAIN ? 0 : rc;
}

void msgproto_post_more(struct rxm_conn *conn)
{
    const struct rxm_window *window = &conn->msgproto.window;

    if (conn->msgproto.dead || msgproto_stopped(conn))
        return;
    while (window->posted < window->size && !fill_one(conn))
        continue;
    if (window->posted < window->size)
        msgproto_set_refill(conn->owner->msgproto);
    grant(conn);
}

/* A peer without credits may send at once as much as upstream has room for: there is as much room
 * here, unless the lower itself makes senders wait. */
void msgproto_post_up(struct rxm_conn *conn)
{
    struct rxm_window *window = &conn->msgproto.window;
    struct msgproto *msgproto = conn->owner->msgproto;

    if (msgproto->feed != RXM_FEED_POSTED)
        return;
    if (!conn->msgproto.credit.on && !msgproto->lower_waits) {
        window->least = window->most;
        window->size = window->most;
    }
    msgproto_post_more(conn);
}

void msgproto_post_end(struct rxm_conn *conn)
{
    conn->msgproto.again_count = 0; /* they are in the list, too */
    while (!list_empty(&conn->msgproto.receives)) {
        struct rxm_packet_buffer *buffer =
            list_item(conn->msgproto.receives.next, struct rxm_packet_buffer, held);

        taken_back(conn, buffer);
        rxm_packet_buffer_put(buffer);
    }
}

/* One queue for all connections, without addresses: only a receive would tell whose it was. */
static void written_by_somebody(struct msgproto *msgproto, uint64_t flags, size_t len,
                                uint64_t data)
{
    struct fid_peer_cq *sink = msgproto->ep->rx_sink;

    if (sink)
        sink->owner_ops->write(sink, NULL, flags, len, NULL, data, 0, FI_ADDR_NOTAVAIL);
}

void msgproto_written(struct msgproto *msgproto, struct rxm_conn *conn, struct rxm_context *context,
                      uint64_t flags, size_t len, uint64_t data)
{
    struct rxm_packet_buffer *buffer = NULL;

    if (context && msgproto->data_takes_receive && msgproto->feed == RXM_FEED_POSTED) {
        buffer = object_of(context, struct rxm_packet_buffer, context);
        conn = buffer->conn;
    }
    if (!conn) {
        written_by_somebody(msgproto, flags, len, data);
        return;
    }
    rxm_conn_received(conn, NULL, flags, len, NULL, data, 0);
    if (buffer)
        post_again(conn, buffer);
}

/* ---- What the lower writes ---- */

__attribute__((noinline)) static void write_special(struct rxm_conn *conn, void *context,
                                                    uint64_t flags, size_t len, void *buf,
                                                    uint64_t data, uint64_t tag)
{
    if (flags & FI_REMOTE_WRITE)
        msgproto_written(conn->owner->msgproto, conn, context, flags, len, data);
    else
        received_bare(conn, context, buf, len, tag, flags & FI_REMOTE_CQ_DATA ? &data : NULL);
}

static inline __attribute__((always_inline)) ssize_t write_one(struct fid_peer_cq *peer,
                                                               void *context, uint64_t flags,
                                                               size_t len, void *buf, uint64_t data,
                                                               uint64_t tag, bool posted)
{
    if (__builtin_expect(flags & (FI_REMOTE_WRITE | FI_TAGGED), 0))
        write_special(object_of(peer, struct rxm_conn, rx_peer), context, flags, len, buf, data,
                      tag);
    else
        received(context, len, posted);
    return 0;
}

static ssize_t write_posted(struct fid_peer_cq *peer, void *context, uint64_t flags, size_t len,
                            void *buf, uint64_t data, uint64_t tag, fi_addr_t src)
{
    return write_one(peer, context, flags, len, buf, data, tag, true);
}

static ssize_t write_asked(struct fid_peer_cq *peer, void *context, uint64_t flags, size_t len,
                           void *buf, uint64_t data, uint64_t tag, fi_addr_t src)
{
    return write_one(peer, context, flags, len, buf, data, tag, false);
}

static ssize_t rx_writeerr(struct fid_peer_cq *peer, const struct fi_cq_err_entry *error)
{
    packet_received(error->op_context, 0, error);
    return 0;
}

struct fi_ops_cq_owner msgproto_rx_ops[] = {
    [RXM_FEED_ASKED] = {.size = sizeof(struct fi_ops_cq_owner),
                        .write = write_asked,
                        .writeerr = rx_writeerr},
    [RXM_FEED_POSTED] = {.size = sizeof(struct fi_ops_cq_owner),
                         .write = write_posted,
                         .writeerr = rx_writeerr},
};
