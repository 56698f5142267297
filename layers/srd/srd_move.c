/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bytes that do not fit their request: who takes them asks, a window at a time, and they come with
 * their place in any order.
 */
#include <rdma/fi_errno.h>

#include "layers/srd/srd.h"

/* ---- Out ---- */

void srd_move_drop(struct srd_move *move)
{
    struct list *queues[] = {&move->peer->flying, &move->peer->out};

    list_detach(&move->link);
    for (int i = 0; move->pending && i < 2; i++) {
        list_for_each (item, queues[i]) {
            struct srd_packet *packet = list_item(item, struct srd_packet, link);

            if (packet->move == move)
                packet->move = NULL;
        }
    }
    move->pending = 0;
}

void srd_move_sent(struct srd_move *move)
{
    move->pending--;
    if (move->at < move->limit && list_empty(&move->link))
        list_attach(&move->link, &move->peer->ep->moving);
    else if (!move->pending)
        move->idle(move);
}

static bool send_piece(struct srd_move *move)
{
    struct srd_peer *peer = move->peer;
    size_t left = move->limit - move->at, room = peer->ep->mtu - SRD_DATA_HEAD;
    struct srd_header header = {.type = SRD_CTSDATA,
                                .recv_id = move->taker,
                                .offset = move->at,
                                .len = left < room ? left : room};
    uint8_t *payload = srd_out(peer, &header, move);

    if (!payload)
        return false;
    iov_gather(move->iov, move->iov_count, move->at, payload, header.len);
    move->at += header.len;
    return true;
}

static void run_one(struct srd_move *move)
{
    struct srd_peer *peer = move->peer;

    while (move->at < move->limit && move->pending < SRD_AHEAD && list_empty(&peer->broken)) {
        if (!list_empty(&peer->out))
            srd_out_flush(peer, true);
        if (!list_empty(&peer->out))
            return; /* the lower is full */
        if (move->held && mr_any_closed(move->held->mrs, move->held->mr_count)) {
            srd_peer_break(peer, FI_EIO, "memory that is being read was closed");
            return;
        }
        if (!send_piece(move)) {
            srd_peer_break(peer, FI_ENOMEM, "no memory for a packet");
            return;
        }
        srd_out_flush(peer, move->at < move->limit && move->pending < SRD_AHEAD);
    }
}

void srd_move_run(struct srd_ep *ep)
{
    struct list all;

    list_init(&all);
    list_join(&ep->moving, &all);
    while (!list_empty(&all)) {
        struct srd_move *move = list_item(all.next, struct srd_move, link);

        list_detach(&move->link);
        run_one(move);
        if (move->at < move->limit && move->pending < SRD_AHEAD)
            list_attach(&move->link, &ep->moving);
    }
}

/* The peer asks for bytes of a send, or (SRD_CTS_READ) of its read. */
static struct srd_move *move_of(const struct srd_peer *peer, const struct srd_header *header)
{
    const unsigned sends = 1U << SRD_OF_MESSAGE | 1U << SRD_OF_WRITE;
    bool read = header->flags & SRD_CTS_READ;
    struct srd_handle *handle =
        srd_handle_find(peer, header->send_id, read ? 1U << SRD_OF_BEING_READ : sends);

    if (!handle)
        return NULL;
    return read ? srd_access_move(handle) : &object_of(handle, struct srd_op, handle)->move;
}

const char *srd_move_cts(struct srd_peer *peer, const struct srd_header *header)
{
    struct srd_move *move = move_of(peer, header);

    if (!move)
        return NULL; /* it has ended since */
    if (header->window > move->total - move->limit)
        return "a CTS for bytes that a request does not have";
    move->taker = header->recv_id;
    move->limit += header->window;
    if (list_empty(&move->link))
        list_attach(&move->link, &peer->ep->moving);
    srd_peer_attend(peer);
    return NULL;
}

/* ---- In ---- */

static void ask(struct srd_taker *taker)
{
    struct srd_peer *peer = taker->handle->peer;
    size_t left = taker->want - taker->got;
    struct srd_header header = {
        .type = SRD_CTS,
        .flags = taker->reads ? SRD_CTS_READ : 0,
        .send_id = taker->from,
        .recv_id = srd_handle_id(taker->handle),
        .window = left < peer->ep->window ? left : peer->ep->window,
    };

    taker->granted = header.window;
    srd_out_control(peer, &header);
}

void srd_take(struct srd_taker *taker, struct srd_handle *handle, uint32_t from, size_t got,
              size_t granted, size_t want)
{
    taker->handle = handle;
    taker->from = from;
    taker->got = got;
    taker->granted = granted;
    taker->want = want;
    handle->peer->takes++;
    handle->peer->ep->takes++;
    if (!granted && want > got)
        ask(taker);
}

void srd_take_stop(struct srd_taker *taker)
{
    if (!taker->handle)
        return;
    taker->handle->peer->takes--;
    taker->handle->peer->ep->takes--;
    taker->handle = NULL;
}

static struct srd_taker *taker_of(const struct srd_peer *peer, uint32_t id, unsigned kinds)
{
    struct srd_handle *handle = srd_handle_find(peer, id, kinds);

    if (!handle)
        return NULL;
    switch (handle->kind) {
    case SRD_OF_READ: return &object_of(handle, struct srd_op, handle)->taker;
    case SRD_OF_INBOUND: return &object_of(handle, struct srd_inbound, handle)->taker;
    default: return srd_access_taker(handle);
    }
}

static const char *take_bytes(struct srd_taker *taker, const struct srd_header *header)
{
    if (!taker->handle || header->len > taker->granted || header->offset > taker->want ||
        header->len > taker->want - header->offset)
        return "data that nobody asked for";
    if (taker->alive && !taker->alive(taker))
        return NULL; /* its memory was closed, and the access has ended */
    iov_scatter(taker->iov, taker->iov_count, header->offset, header->payload, header->len);
    taker->got += header->len;
    taker->granted -= header->len;
    if (taker->got == taker->want) {
        srd_take_stop(taker);
        taker->ended(taker);
    } else if (!taker->granted) {
        ask(taker);
    }
    return NULL;
}

const char *srd_take_data(struct srd_peer *peer, const struct srd_header *header)
{
    const unsigned kinds = 1U << SRD_OF_READ | 1U << SRD_OF_INBOUND | 1U << SRD_OF_WRITTEN;
    struct srd_taker *taker = taker_of(peer, header->recv_id, kinds);

    return taker ? take_bytes(taker, header) : NULL; /* it has ended since it asked */
}

/* The first bytes of a read; the rest is asked for from the access that it names. */
const char *srd_take_response(struct srd_peer *peer, const struct srd_header *header)
{
    struct srd_taker *taker = taker_of(peer, header->recv_id, 1U << SRD_OF_READ);

    if (!taker)
        return NULL;
    taker->from = header->send_id;
    if (header->len || taker->want)
        return header->len ? take_bytes(taker, header) : "an answer without bytes";
    srd_take_stop(taker);
    taker->ended(taker);
    return NULL;
}
