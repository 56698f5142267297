/* SPDX-License-Identifier: BSD-2-Clause */
/* Bytes that do not fit their request: the peer that takes them grants a window at a time. */
#include <rdma/fi_errno.h>

#include "layers/srd/srd.h"

/* ---- Out ---- */

size_t srd_piece_room(const struct message_move *move)
{
    return move->peer->ep->packet_size - SRD_DATA_HEAD;
}

size_t srd_piece(struct message_move *move, size_t len)
{
    struct srd_header header = {.type = SRD_CTSDATA,
                                .recv_id = move->taker,
                                .offset = move->at,
                                .len = srd_out_most(move, len)};

    return srd_out_bytes(move->peer, &header, move, false) ? header.len : 0;
}

/* The peer asks for bytes of a send, or (SRD_CTS_READ) of its read. */
const char *srd_move_cts(struct message_peer *peer, const struct srd_header *header)
{
    const unsigned sends = 1U << MESSAGE_SEND | 1U << MESSAGE_WRITE;
    bool read = header->flags & SRD_CTS_READ;
    struct message_handle *handle =
        message_handle_find(peer, header->send_id, read ? 1U << MESSAGE_BEING_READ : sends);
    struct message_move *move = handle ? message_move_of(handle) : NULL;

    if (!move)
        return NULL; /* it has ended since */
    if (header->window > move->total - move->limit)
        return "a CTS for bytes that a request does not have";
    move->taker = header->recv_id;
    message_move_start(move, move->limit + header->window);
    return NULL;
}

/* ---- In ---- */

/* When all that was granted has come. */
void srd_pull(struct message_taker *taker)
{
    struct message_peer *peer = taker->handle->peer;
    size_t left = taker->want - taker->got, window = srd_ep_of(peer->ep)->window;
    struct srd_header header;

    taker->pull_at = taker->asked;
    if (taker->asked > taker->got)
        return;
    header = (struct srd_header){
        .type = SRD_CTS,
        .flags = taker->reads ? SRD_CTS_READ : 0,
        .send_id = taker->from,
        .recv_id = message_handle_id(taker->handle),
        .window = left < window ? left : window,
    };
    taker->asked += header.window;
    taker->pull_at = taker->asked;
    srd_out_control(peer, &header);
}

const char *srd_take_data(struct message_peer *peer, const struct srd_header *header)
{
    struct message_handle *handle = message_handle_find(peer, header->recv_id, SRD_TAKING);

    if (!handle)
        return NULL; /* it has ended since it asked */
    return message_take_bytes(message_taker_of(handle), header->offset, header->payload,
                              header->len);
}

/* The first bytes of a read; the rest is asked for from the access that it names. */
const char *srd_take_response(struct message_peer *peer, const struct srd_header *header)
{
    struct message_op *op = message_op_find(peer, header->recv_id, 1U << MESSAGE_READ);
    struct message_taker *taker = op ? &op->taker : NULL;

    if (!taker)
        return NULL;
    taker->from = header->send_id;
    if (header->len)
        return message_take_bytes(taker, header->offset, header->payload, header->len);
    if (taker->want)
        return "an answer without bytes";
    message_take_stop(taker);
    taker->ended(taker);
    return NULL;
}
