/* SPDX-License-Identifier: BSD-2-Clause */
/* Bytes between user memory and the rings. */
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/domain/mr.h"
#include "transports/shm/shm_fast.h"
#include "transports/shm/shm_op.h"

enum {
    STREAM_CHUNKS = 2, /* of a link in one round of progress */
};

/* The next piece of op's memory, of at most len bytes; moves on. */
static char *next_piece(struct shm_op *op, size_t *len)
{
    struct iovec *iov = &op->iov[op->index];
    char *piece = (char *)iov->iov_base + op->offset;

    if (*len > iov->iov_len - op->offset)
        *len = iov->iov_len - op->offset;
    op->offset += *len;
    if (op->offset == iov->iov_len) {
        op->index++;
        op->offset = 0;
    }
    return piece;
}

/* The next len bytes of op's memory, from or to a buffer. */
static void fill(struct shm_op *op, const char *from, size_t len)
{
    op->at += len;
    while (len) {
        size_t piece = len;
        char *to = next_piece(op, &piece);

        memcpy(to, from, piece);
        from += piece;
        len -= piece;
    }
}

static void drain(struct shm_op *op, char *to, size_t len)
{
    struct shm_store store = shm_store_begin(&op->link->stores, len);

    op->at += len;
    while (len) {
        size_t piece = len;
        const char *from = next_piece(op, &piece);

        shm_store_piece(&store, to, from, piece);
        to += piece;
        len -= piece;
    }
    shm_store_end(&op->link->stores, &store);
}

bool shm_op_is_revoked(struct shm_op *op)
{
    op->revoked = op->revoked || mr_any_closed(op->mrs, op->mr_count);
    return op->revoked;
}

void shm_op_refuse(struct shm_op *op)
{
    shm_control_error(op->link, op->remote, FI_ENOKEY);
    shm_op_put(op);
}

/* ---- Getting ---- */

void shm_fetched(struct shm_op *op)
{
    struct shm_link *link = op->link;

    if (op->revoked) {
        shm_op_refuse(op);
        return;
    }
    if (op->timed)
        shm_cma_timed(op, true);
    shm_control_fin(link, op->remote);
    if (op->message)
        shm_message_done(op, 0);
    else
        shm_remote_done(link->ep, op);
}

void shm_fetch(struct shm_op *op)
{
    if (!op->len)
        shm_fetched(op);
    else
        shm_cma_fetch(op);
}

/* The answer to a small read, in one line, for one buffer. */
static inline bool quick_data(struct shm_link *link, struct shm_head head, const char *body)
{
    struct shm_words words = {.at = body, .end = body + SHM_WORD};
    size_t len = head.bytes - (size_t)SHM_WORD;
    struct shm_op *op;

    if (__builtin_expect(head.flags || head.bytes <= SHM_WORD || head.bytes > SHM_BODY_LINE, 0))
        return false;
    op = shm_op_find(link, (uint32_t)shm_get(&words), SHM_IN, SHM_IN);
    if (__builtin_expect(!op || op->count != 1 || op->iov[0].iov_len != len || op->len != len ||
                             op->at || op->asks,
                         0))
        return false;
    shm_fast_copy(op->iov[0].iov_base, words.at, len);
    shm_rx_consume_line(&link->rx);
    shm_op_end(op, 0);
    return true;
}

bool shm_take_data(struct shm_link *link, struct shm_head head, const char *body)
{
    struct shm_words words = shm_words(body, head);
    struct shm_payload payload;
    struct shm_op *op;
    uint32_t id;

    if (__builtin_expect(quick_data(link, head, body), 1))
        return true;
    id = (uint32_t)shm_get(&words);
    op = shm_op_find(link, id, SHM_FETCHER, SHM_IN);
    if (!shm_payload(link, head, &words, &payload) || !op || payload.len > op->len - op->at) {
        shm_link_fail(link, FI_EIO);
        return false;
    }
    if (__builtin_expect(op->asks, 0))
        shm_cma_declined(op);
    if (__builtin_expect(op->mr_count && shm_op_is_revoked(op), 0))
        op->at += payload.len;
    else
        fill(op, payload.bytes, payload.len);
    shm_taken(link, head, &payload);
    if (op->at < op->len)
        return true;
    if (op->role == SHM_IN)
        shm_op_end(op, 0);
    else
        shm_fetched(op);
    return true;
}

/* ---- Giving ---- */

void shm_give(struct shm_op *op)
{
    struct shm_link *link = op->link;

    if (!op->len) {
        shm_control_fin(link, op->remote);
        shm_remote_done(link->ep, op);
    } else {
        op->streaming = true;
        list_attach(&op->work, &link->streams);
        shm_link_busy(link);
    }
}

bool shm_take_cts(struct shm_link *link, struct shm_head head, const char *body)
{
    struct shm_words words = shm_words(body, head);
    uint32_t id = (uint32_t)shm_get(&words), remote = (uint32_t)shm_get(&words);
    uint64_t len = shm_get(&words);
    struct shm_op *op = shm_op_find(link, id, SHM_OUT, SHM_GIVER);

    if (words.bad || !op || op->streaming || op->at || !op->count || len > op->total) {
        shm_link_fail(link, FI_EIO);
        return false;
    }
    shm_rx_consume(&link->rx, head);
    op->remote = remote;
    op->len = len;
    op->streaming = true;
    list_attach(&op->work, &link->streams);
    shm_link_busy(link);
    return true;
}

bool shm_send_data(struct shm_link *link, struct shm_op *op)
{
    size_t left = op->len - op->at, len = left < SHM_CHUNK ? left : SHM_CHUNK;
    bool bulk = len > SHM_INLINE;
    struct shm_head head = {
        .op = SHM_DATA,
        .flags = bulk ? SHM_IN_BULK : 0,
        .bytes = (uint16_t)(bulk ? 3 * sizeof(uint64_t) : sizeof(uint64_t) + len),
    };
    char *body = shm_tx_reserve(&link->tx, head.bytes), *to;
    uint64_t pos;

    if (!body)
        return false;
    body = shm_put(body, op->remote);
    if (bulk) {
        to = shm_tx_bulk(&link->tx, len, &pos);
        if (!to)
            return false;
        drain(op, to, len);
        shm_tx_bulk_commit(&link->tx, pos, len);
        body = shm_put(body, pos);
        shm_put(body, len);
    } else {
        drain(op, body, len);
    }
    link->ep->idle = 0;
    shm_tx_publish(&link->tx, head);
    shm_link_notify(link);
    return true;
}

bool shm_stream(struct shm_link *link)
{
    for (int i = 0; i < STREAM_CHUNKS && !list_empty(&link->streams); i++) {
        struct shm_op *op = list_item(link->streams.next, struct shm_op, work);

        if (op->mr_count && shm_op_is_revoked(op)) {
            shm_op_refuse(op);
            continue;
        }
        if (!shm_send_data(link, op))
            return false;
        if (op->at < op->len)
            continue;
        list_detach(&op->work);
        if (op->role == SHM_GIVER)
            shm_remote_done(link->ep, op);
    }
    return list_empty(&link->streams);
}
