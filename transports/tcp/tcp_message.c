/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A message that matches at once needs nothing of its own: tcp_rx holds its entry. Any other has a
 * struct tcp_inbound, which the owner of the receive context gives back with start or discard,
 * perhaps while the payload is still arriving:
 *
 *   saved      complete in memory                       start copies and completes
 *   arriving   the current record, saved so far         start moves it, the rest follows into place
 *   paused     the current record, no room to save it   start lets the stream go on
 *   offered    a request to send                        start answers with a clear-to-send
 */
#include "transports/tcp/tcp_message.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/match/match_entry.h"
#include "transports/tcp/tcp_answer.h"
#include "transports/tcp/tcp_conn.h"
#include "transports/tcp/tcp_poller.h"
#include "transports/tcp/tcp_rx.h"
#include "transports/tcp/tcp_send.h"

enum {
    OVERHEAD = 256
}; /* memory of a message besides its payload */

static uint64_t completion_flags(uint8_t op, uint16_t flags)
{
    return FI_RECV | (op == TCP_OP_MSG ? FI_MSG : FI_TAGGED) |
           (flags & TCP_FLAG_CQ_DATA ? FI_REMOTE_CQ_DATA : 0);
}

/* The fields of a message's completion. */
struct arrival {
    uint64_t tag, cq_data;
    size_t len;
    uint16_t flags;
    uint8_t op;
};

static void deliver(struct tcp_rx *rx, struct fi_peer_rx_entry *entry,
                    const struct arrival *arrival)
{
    /* The owner may have more to say: that this was the last message of a buffer. */
    uint64_t flags =
        (entry->flags & ~FI_COMPLETION) | completion_flags(arrival->op, arrival->flags);
    uint64_t data = arrival->flags & TCP_FLAG_CQ_DATA ? arrival->cq_data : 0;
    void *buf = entry->count ? entry->iov[0].iov_base : NULL;
    size_t room = match_entry_room(entry);

    if (arrival->len <= room) {
        complete(&rx->conn->base->binding, BIND_RECV, entry->flags & FI_COMPLETION, entry->context,
                 flags, arrival->len, buf, data, arrival->tag, entry->addr);
    } else {
        struct fi_cq_err_entry error =
            match_entry_error(entry, flags, room, arrival->len, FI_ETRUNC);

        error.data = data;
        error.tag = arrival->tag;
        complete_error(&rx->conn->base->binding, BIND_RECV, &error);
    }
    match_entry_free(entry);
}

static void fail_entry(struct tcp_rx *rx, struct fi_peer_rx_entry *entry, uint8_t op, int err)
{
    struct fi_cq_err_entry error = match_entry_error(entry, completion_flags(op, 0), 0, 0, err);

    if (err)
        complete_error(&rx->conn->base->binding, BIND_RECV, &error);
    match_entry_free(entry);
}

static struct arrival arrival_of_inbound(const struct tcp_inbound *inbound)
{
    return (struct arrival){
        .tag = inbound->tag,
        .cq_data = inbound->cq_data,
        .len = inbound->len,
        .flags = inbound->flags,
        .op = inbound->op,
    };
}

static void resume(struct tcp_rx *rx)
{
    rx->paused = false;
    tcp_poller_work(rx->conn);
    if (rx->conn->ended) /* the reader of the EQ waits for what is behind this message */
        tcp_cm_lull(&rx->conn->guard);
}

/* An empty record has no byte that could finish it later. */
static void finish_if_empty(struct tcp_rx *rx)
{
    if (rx->left)
        return;
    rx->active = false;
    if (tcp_message_finish(rx))
        rx->conn->fail(rx->conn, FI_ENOMEM);
}

static size_t cost(const struct tcp_inbound *inbound)
{
    return OVERHEAD + (inbound->data ? inbound->len : 0);
}

static bool fits(const struct tcp_rx *rx, size_t len)
{
    size_t limit = rx->conn->settings->saved_size;

    return len <= limit && rx->saved_bytes + OVERHEAD <= limit - len;
}

/* Memory has become free: the message that waits for it can be saved, and the stream goes on. */
static void save_paused(struct tcp_rx *rx)
{
    struct tcp_inbound *inbound = rx->inbound;

    if (!rx->paused || !inbound || !fits(rx, inbound->len))
        return;
    inbound->data = malloc(inbound->len + 1);
    if (!inbound->data)
        return;
    rx->saved_bytes += inbound->len;
    rx->saved = (struct iovec){.iov_base = inbound->data, .iov_len = inbound->len};
    tcp_dest_set(&rx->dest, &rx->saved, 1);
    resume(rx);
    finish_if_empty(rx);
}

static void free_inbound(struct tcp_inbound *inbound)
{
    struct tcp_rx *rx = inbound->rx;

    if (rx)
        rx->saved_bytes -= cost(inbound);
    list_detach(&inbound->link);
    if (inbound->data != inbound->bytes)
        free(inbound->data);
    free(inbound);
    if (rx)
        save_paused(rx);
}

static struct tcp_inbound *make_inbound(struct tcp_rx *rx, const struct tcp_wire *wire, size_t len,
                                        bool save)
{
    struct tcp_inbound *inbound = malloc(sizeof(*inbound) + (save ? len : 0));

    if (!inbound)
        return NULL;
    memset(inbound, 0, sizeof(*inbound));
    inbound->rx = rx;
    inbound->len = len;
    inbound->tag = wire->tag;
    inbound->cq_data = wire->cq_data;
    inbound->flags = wire->flags;
    inbound->op = wire->op;
    inbound->context = wire->op_data;
    if (save)
        inbound->data = inbound->bytes;
    list_init(&inbound->link);
    list_attach(&inbound->link, &rx->inbounds);
    rx->saved_bytes += cost(inbound);
    return inbound;
}

static bool matches_tags(const struct tcp_rx *rx, uint8_t op)
{
    return op != TCP_OP_MSG && rx->tagged;
}

/* Gives an unmatched message to the owner of the receive context. */
static int queue(struct tcp_rx *rx, struct tcp_inbound *inbound, struct fi_peer_rx_entry *entry)
{
    inbound->entry = entry;
    int rc = match_entry_queue(entry, matches_tags(rx, inbound->op), inbound,
                               inbound->flags & TCP_FLAG_CQ_DATA, inbound->cq_data);
    if (rc) {
        if (rx->inbound == inbound)
            rx->inbound = NULL;
        free_inbound(inbound);
        match_entry_free(entry);
    }
    return rc;
}

static void say_limit(struct tcp_rx *rx)
{
    if (rx->limit_said)
        return;
    rx->limit_said = true;
    LOG_WARN(tcp_conn_part(rx->conn), FI_LOG_EP_DATA,
             "%zu bytes of unexpected messages are saved; the connection waits until some are "
             "received (saved_size is %zu)",
             rx->saved_bytes, rx->conn->settings->saved_size);
}

static int begin_unexpected(struct tcp_rx *rx, const struct tcp_wire *wire,
                            struct fi_peer_rx_entry *entry)
{
    bool save = fits(rx, (size_t)wire->payload);
    struct tcp_inbound *inbound = make_inbound(rx, wire, (size_t)wire->payload, save);

    if (!inbound) {
        match_entry_free(entry);
        return -FI_ENOMEM;
    }
    rx->inbound = inbound;
    if (save) {
        rx->saved = (struct iovec){.iov_base = inbound->bytes, .iov_len = inbound->len};
        tcp_dest_set(&rx->dest, &rx->saved, 1);
    } else {
        rx->paused = true;
        say_limit(rx);
    }
    return queue(rx, inbound, entry);
}

static int find_entry(struct tcp_rx *rx, const struct tcp_wire *wire, size_t len,
                      struct fi_peer_rx_entry **entry)
{
    struct fi_peer_match_attr attr = {
        .addr = FI_ADDR_UNSPEC,
        .msg_size = len,
        .tag = wire->tag,
    };

    return match_entry_get(rx->conn->base->in, matches_tags(rx, wire->op), &attr, entry);
}

/* All of a message, into its receive of one piece. */
static ssize_t take_whole(struct tcp_rx *rx, const struct tcp_wire *wire,
                          struct fi_peer_rx_entry *entry, const uint8_t *payload)
{
    uint64_t flags = (entry->flags & ~FI_COMPLETION) | completion_flags(wire->op, 0);
    size_t len = (size_t)wire->payload;

    if (len)
        memcpy(entry->iov->iov_base, payload, len);
    rx->active = false;
    complete(&rx->conn->base->binding, BIND_RECV, entry->flags & FI_COMPLETION, entry->context,
             flags, len, entry->iov->iov_base, 0, wire->tag, entry->addr);
    match_entry_free(entry);
    return (ssize_t)len;
}

ssize_t tcp_message_begin(struct tcp_rx *rx, const struct tcp_wire *wire, const uint8_t *payload,
                          size_t have)
{
    struct fi_peer_rx_entry *entry;
    int rc = find_entry(rx, wire, (size_t)wire->payload, &entry);

    if (rc == -FI_ENOENT)
        return begin_unexpected(rx, wire, entry);
    if (rc)
        return rc;
    if (wire->payload <= have && !wire->flags && entry->count == 1 &&
        wire->payload <= entry->iov->iov_len)
        return take_whole(rx, wire, entry, payload);
    rx->entry = entry;
    tcp_dest_set(&rx->dest, entry->iov, entry->count);
    return 0;
}

static int clear(struct tcp_rx *rx, struct tcp_inbound *inbound)
{
    inbound->started = true;
    return tcp_answer_cts(rx->tx, inbound->context);
}

static struct tcp_inbound *find_offer(const struct list *inbounds, uint8_t context)
{
    list_for_each (pos, inbounds) {
        struct tcp_inbound *inbound = list_item(pos, struct tcp_inbound, link);

        if (inbound->op == TCP_OP_RTS && inbound->context == context)
            return inbound;
    }
    return NULL;
}

int tcp_message_offer(struct tcp_rx *rx, const struct tcp_wire *wire)
{
    struct fi_peer_rx_entry *entry;

    rx->active = false;
    if (find_offer(&rx->inbounds, wire->op_data))
        return -FI_EPROTO;
    int rc = find_entry(rx, wire, (size_t)wire->msg_size, &entry);
    if (rc && rc != -FI_ENOENT)
        return rc;
    struct tcp_inbound *inbound = make_inbound(rx, wire, (size_t)wire->msg_size, false);
    if (!inbound) {
        fail_entry(rx, entry, TCP_OP_RTS, rc ? 0 : FI_ENOMEM); /* a receive has to end */
        return -FI_ENOMEM;
    }
    if (rc)
        return queue(rx, inbound, entry);
    inbound->entry = entry;
    return clear(rx, inbound);
}

int tcp_message_data(struct tcp_rx *rx, const struct tcp_wire *wire)
{
    struct tcp_inbound *inbound = find_offer(&rx->inbounds, wire->op_data);

    if (!inbound || !inbound->started || inbound->len != wire->payload)
        return -FI_EPROTO;
    rx->inbound = inbound;
    if (inbound->discarded)
        tcp_dest_set(&rx->dest, NULL, 0);
    else
        tcp_dest_set(&rx->dest, inbound->entry->iov, inbound->entry->count);
    return 0;
}

int tcp_message_finish(struct tcp_rx *rx)
{
    struct fi_peer_rx_entry *entry = rx->entry;
    struct tcp_inbound *inbound = rx->inbound;
    struct arrival arrival = {
        .tag = rx->tag,
        .cq_data = rx->cq_data,
        .len = (size_t)rx->done,
        .flags = rx->flags,
        .op = rx->op,
    };

    rx->entry = NULL;
    rx->inbound = NULL;
    int rc = rx->flags & TCP_FLAG_DELIVERY ? tcp_answer_ack(rx->tx) : 0;
    if (rx->op == TCP_OP_DATA) {
        arrival = arrival_of_inbound(inbound);
        entry = inbound->discarded ? NULL : inbound->entry;
        free_inbound(inbound);
    }
    if (entry)
        deliver(rx, entry, &arrival);
    return rc;
}

/* ---- From the owner of the receive context ---- */

/* The current record is matched now: its saved bytes are copied, the rest goes into place. */
static void start_current(struct tcp_rx *rx, struct tcp_inbound *inbound,
                          struct fi_peer_rx_entry *entry)
{
    rx->inbound = NULL;
    rx->entry = entry;
    tcp_dest_set(&rx->dest, entry->iov, entry->count);
    if (rx->done)
        tcp_dest_put(&rx->dest, inbound->data, (size_t)rx->done);
    free_inbound(inbound);
    if (rx->paused)
        resume(rx);
    finish_if_empty(rx);
}

static void start_saved(struct tcp_rx *rx, struct tcp_inbound *inbound,
                        struct fi_peer_rx_entry *entry)
{
    struct arrival arrival = arrival_of_inbound(inbound);
    struct tcp_dest dest;

    tcp_dest_set(&dest, entry->iov, entry->count);
    tcp_dest_put(&dest, inbound->data, inbound->len);
    free_inbound(inbound);
    deliver(rx, entry, &arrival);
}

static int start(struct fi_peer_rx_entry *entry)
{
    struct tcp_inbound *inbound = entry->peer_context;
    struct tcp_rx *rx = inbound->rx;

    inbound->entry = entry;
    if (!rx) {
        free_inbound(inbound);
        match_entry_free(entry);
        return -FI_ENOTCONN;
    }
    if (inbound->error) {
        int err = inbound->error;
        uint8_t op = inbound->op;

        free_inbound(inbound);
        fail_entry(rx, entry, op, err);
    } else if (inbound->op == TCP_OP_RTS) {
        int rc = clear(rx, inbound);

        tcp_send_flush(rx->tx);
        return rc;
    } else if (rx->inbound == inbound) {
        start_current(rx, inbound, entry);
    } else {
        start_saved(rx, inbound, entry);
    }
    return 0;
}

static void discard_current(struct tcp_rx *rx, struct tcp_inbound *inbound)
{
    rx->inbound = NULL;
    tcp_dest_set(&rx->dest, NULL, 0);
    free_inbound(inbound);
    if (rx->paused)
        resume(rx);
    finish_if_empty(rx);
}

static int discard(struct fi_peer_rx_entry *entry)
{
    struct tcp_inbound *inbound = entry->peer_context;
    struct tcp_rx *rx = inbound->rx;

    inbound->entry = NULL;
    match_entry_free(entry);
    if (!rx || inbound->error || rx->conn->fd < 0) {
        free_inbound(inbound);
    } else if (inbound->op == TCP_OP_RTS) {
        /* The protocol cannot tell the sender; it gets its answer, and the data is dropped. */
        inbound->discarded = true;
        int rc = clear(rx, inbound);
        tcp_send_flush(rx->tx);
        return rc;
    } else if (rx->inbound == inbound) {
        discard_current(rx, inbound);
    } else {
        free_inbound(inbound);
    }
    return 0;
}

struct fi_ops_srx_peer tcp_srx_peer_ops = {
    .size = sizeof(struct fi_ops_srx_peer),
    .start_msg = start,
    .start_tag = start,
    .discard_msg = discard,
    .discard_tag = discard,
};

/* ---- The end of the connection ---- */

void tcp_message_fail(struct tcp_rx *rx, int err)
{
    struct fi_peer_rx_entry *entry = rx->entry;
    struct tcp_inbound *current = rx->inbound;
    struct list all;

    rx->entry = NULL;
    rx->inbound = NULL;
    if (entry)
        fail_entry(rx, entry, rx->op, err);
    /* A report may call back and start any of the others. */
    list_init(&all);
    if (!list_empty(&rx->inbounds)) {
        list_attach(&all, &rx->inbounds);
        list_detach(&rx->inbounds);
    }
    while (!list_empty(&all)) {
        struct tcp_inbound *inbound = list_item(all.next, struct tcp_inbound, link);

        list_detach(&inbound->link);
        if (inbound->started) {
            entry = inbound->discarded ? NULL : inbound->entry;
            free_inbound(inbound);
            if (entry)
                fail_entry(rx, entry, TCP_OP_RTS, err);
            continue;
        }
        if (inbound == current || inbound->op == TCP_OP_RTS)
            inbound->error = err ? err : FI_ECANCELED;
        list_attach(&inbound->link, &rx->inbounds);
    }
}

void tcp_message_finish_all(struct tcp_rx *rx)
{
    list_for_each_safe (pos, after, &rx->inbounds) {
        struct tcp_inbound *inbound = list_item(pos, struct tcp_inbound, link);

        inbound->rx = NULL;
        list_detach(&inbound->link);
    }
}
