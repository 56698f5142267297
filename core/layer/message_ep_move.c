/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bytes that do not fit the packet of their request: a taker asks for them, some packets in
 * advance, and they come with their place in any order.
 */
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/layer/message_ep.h"
#include "core/layer/message_wire.h"

/* ---- Out ---- */

void message_move_start(struct message_move *move, size_t limit)
{
    if (limit > move->limit)
        move->limit = limit;
    if (move->at < move->limit && list_empty(&move->link))
        list_attach(&move->link, &move->peer->ep->moving);
    message_peer_attend(move->peer);
}

void message_move_stop(struct message_move *move)
{
    move->limit = move->at;
    list_detach(&move->link);
}

void message_move_drop(struct message_move *move)
{
    struct list *queues[] = {&move->peer->flying, &move->peer->out};

    list_detach(&move->link);
    for (int i = 0; move->pending && i < 2; i++) {
        list_for_each (item, queues[i]) {
            struct message_packet *packet = list_item(item, struct message_packet, link);

            if (packet->move == move)
                packet->move = NULL;
        }
    }
    move->pending = 0;
}

void message_move_sent(struct message_move *move, bool more)
{
    move->pending--;
    if (more && move->at < move->limit && list_empty(&move->link))
        list_attach(&move->link, &move->peer->ep->moving);
    else if (!move->pending && move->at == move->limit)
        move->idle(move);
}

static bool has_room(const struct message_move *move)
{
    return move->at < move->limit && move->pending < move->peer->ep->ahead;
}

/* There was no memory for a packet, and none of those on their way has come back. */
static bool is_starved(struct message_ep *ep)
{
    if (ep->outgoing < ep->starved)
        ep->starved = 0;
    return ep->starved;
}

static void run_one(struct message_move *move)
{
    struct message_peer *peer = move->peer;
    const struct message_wire *wire = peer->ep->wire;
    size_t room = wire->piece_room(move);

    while (has_room(move) && list_empty(&peer->broken) && !is_starved(peer->ep)) {
        size_t left = move->limit - move->at, made;

        if (!list_empty(&peer->out))
            wire->flush(peer, true);
        if (!list_empty(&peer->out))
            return; /* the lower is full */
        if (move->held && mr_any_closed(move->held->mrs, move->held->mr_count)) {
            message_peer_break(peer, FI_EIO, "memory that is being read was closed");
            return;
        }
        if (wire->burst && wire->burst(move))
            continue;
        made = wire->piece(move, left < room ? left : room);
        if (!made) { /* it goes on when a packet comes back; or, if none is under way, comes */
            peer->ep->starved = peer->ep->outgoing;
            return;
        }
        move->at += made;
        wire->flush(peer, has_room(move));
    }
}

void message_move_run(struct message_ep *ep)
{
    struct list all;

    list_init(&all);
    list_join(&ep->moving, &all);
    while (!list_empty(&all)) {
        struct message_move *move = list_item(all.next, struct message_move, link);

        list_detach(&move->link);
        run_one(move);
        if (has_room(move))
            list_attach(&move->link, &ep->moving);
    }
}

struct message_move *message_move_of(struct message_handle *handle)
{
    if (handle->kind == MESSAGE_BEING_READ)
        return &object_of(handle, struct message_access, handle)->move;
    return &object_of(handle, struct message_op, handle)->move;
}

/* ---- In ---- */

void message_take(struct message_taker *taker, struct message_handle *handle, uint32_t from,
                  size_t got, size_t asked, size_t want)
{
    taker->handle = handle;
    taker->from = from;
    taker->got = got;
    taker->asked = asked;
    taker->want = want;
    taker->pull_at = 0;
    handle->peer->takes++;
    handle->peer->ep->takes++;
    if (asked == got && want > got)
        handle->peer->ep->wire->pull(taker);
}

void message_take_stop(struct message_taker *taker)
{
    if (!taker->handle)
        return;
    taker->handle->peer->takes--;
    taker->handle->peer->ep->takes--;
    taker->handle = NULL;
}

static void put_bytes(const struct message_taker *taker, size_t offset, const uint8_t *bytes,
                      size_t len)
{
    const struct iovec *iov = taker->iov;

    if (__builtin_expect(taker->iov_count == 1 && offset + len <= iov->iov_len, 1))
        memcpy((char *)iov->iov_base + offset, bytes, len);
    else
        iov_scatter(iov, taker->iov_count, offset, bytes, len);
}

const char *message_take_parts(struct message_taker *taker, size_t offset,
                               const struct iovec *parts, size_t count)
{
    size_t len = iov_bytes(parts, count);

    if (!taker->handle || len > taker->asked - taker->got || offset > taker->want ||
        len > taker->want - offset)
        return "data that was not asked for";
    if (taker->alive && !taker->alive(taker))
        return taker->handle->peer->ep->wire->lost(
            object_of(taker->handle, struct message_access, handle));
    for (size_t i = 0; i < count; offset += parts[i++].iov_len)
        put_bytes(taker, offset, parts[i].iov_base, parts[i].iov_len);
    taker->got += len;
    if (taker->got < taker->want) {
        if (taker->got >= taker->pull_at)
            taker->handle->peer->ep->wire->pull(taker);
        return NULL;
    }
    message_take_stop(taker);
    taker->ended(taker);
    return NULL;
}

const char *message_take_bytes(struct message_taker *taker, size_t offset, const uint8_t *bytes,
                               size_t len)
{
    const struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};

    return message_take_parts(taker, offset, &part, 1);
}
