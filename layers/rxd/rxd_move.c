/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bytes that do not fit the packet of their request: a taker asks for them, a few packets in
 * advance, and they come with their place in any order.
 */
#include <rdma/fi_errno.h>

#include "core/base/seam.h"
#include "layers/rxd/rxd.h"

size_t rxd_slice(const struct iovec *iov, size_t count, size_t at, size_t len,
                 struct iovec slices[RXD_IOV])
{
    size_t used = 0;

    for (size_t i = 0; i < count && len; i++) {
        size_t room = iov[i].iov_len, take;

        if (at >= room) {
            at -= room;
            continue;
        }
        take = room - at < len ? room - at : len;
        slices[used].iov_base = (char *)iov[i].iov_base + at;
        slices[used++].iov_len = take;
        len -= take;
        at = 0;
    }
    return used;
}

/* ---- Out ---- */

void rxd_move_start(struct rxd_move *move, size_t limit)
{
    if (limit > move->limit)
        move->limit = limit;
    if (move->at < move->limit && list_empty(&move->link))
        list_attach(&move->link, &move->peer->ep->moving);
    rxd_peer_attend(move->peer);
}

void rxd_move_drop(struct rxd_move *move)
{
    list_detach(&move->link);
    list_for_each (item, &move->peer->flying) {
        struct rxd_packet *packet = list_item(item, struct rxd_packet, link);

        if (packet->move == move)
            packet->move = NULL;
    }
    list_for_each (item, &move->peer->urgent) {
        struct rxd_packet *packet = list_item(item, struct rxd_packet, link);

        if (packet->move == move)
            packet->move = NULL;
    }
}

/* Memory of an access may be closed at any time, so its bytes are copied. */
static void fill(struct rxd_packet *packet, const struct rxd_move *move, uint8_t *payload,
                 size_t len)
{
    if (!move->direct || len < RXD_DIRECT) {
        iov_gather(move->iov, move->iov_count, move->at, payload, len);
        packet->len += len;
    } else {
        packet->slice_count = rxd_slice(move->iov, move->iov_count, move->at, len, packet->slices);
    }
}

/* Bytes for records of a packet that goes to that peer in one piece, as far as the lower tells. */
static size_t room_on_path(const struct rxd_peer *peer)
{
    const struct rxd_ep *ep = peer->ep;
    struct packet_room room = {.addr = peer->lower};
    size_t len = sizeof(room);

    if (fi_getopt(&ep->lower->fid, FI_OPT_ENDPOINT, OPT_PACKET_ROOM, &room, &len) ||
        room.size < RXD_LEAST_PACKET || room.size - ep->heads > ep->room)
        return ep->room;
    return room.size - ep->heads;
}

/* most: bytes of the packet, for records. */
static bool send_piece(struct rxd_move *move, size_t most)
{
    struct rxd_peer *peer = move->peer;
    struct rxd_record record = {.kind = RXD_DATA, .id = move->taker, .size = move->at};
    size_t head = rxd_record_size(&record), room = most - head;
    struct rxd_packet *packet;

    record.len = move->limit - move->at < room ? move->limit - move->at : room;
    packet = rxd_out_urgent(peer, head + record.len);
    if (!packet)
        return false;
    fill(packet, move, rxd_record_put(&record, packet->records + packet->len), record.len);
    packet->len += head;
    packet->move = move;
    move->at += record.len;
    move->pending++;
    return true;
}

static void run_one(struct rxd_move *move)
{
    struct rxd_peer *peer = move->peer;
    size_t most = room_on_path(peer);

    while (move->at < move->limit && move->pending < peer->ep->ahead && list_empty(&peer->broken)) {
        if (!list_empty(&peer->urgent))
            rxd_out_flush(peer, true);
        if (!list_empty(&peer->urgent))
            return; /* the lower is full */
        if (move->held && mr_any_closed(move->held->mrs, move->held->mr_count)) {
            rxd_peer_break(peer, FI_EIO, "memory that is being read was closed");
            return;
        }
        if (!send_piece(move, most)) {
            rxd_peer_break(peer, FI_ENOMEM, "no memory for a packet");
            return;
        }
        rxd_out_flush(peer, move->at < move->limit && move->pending < peer->ep->ahead);
    }
}

void rxd_move_run(struct rxd_ep *ep)
{
    struct list all;

    list_init(&all);
    list_join(&ep->moving, &all);
    while (!list_empty(&all)) {
        struct rxd_move *move = list_item(all.next, struct rxd_move, link);

        list_detach(&move->link);
        run_one(move);
        if (move->at < move->limit && move->pending < ep->ahead)
            list_attach(&move->link, &ep->moving);
    }
}

/* ---- In ---- */

static void ask(struct rxd_taker *taker)
{
    const struct rxd_ep *ep = taker->peer->ep;
    size_t window = ep->ahead * (ep->room - RXD_RECORD_SIZE);
    size_t limit = taker->got + window < taker->want ? taker->got + window : taker->want;
    struct rxd_record record = {
        .kind = RXD_PULL, .id = taker->from, .taker = (uint32_t)taker->id, .size = limit};

    if (!taker->from || taker->asked == taker->want || taker->asked > taker->got + window / 2)
        return;
    taker->asked = limit;
    rxd_out_control(taker->peer, &record);
}

int rxd_take(struct rxd_taker *taker, struct rxd_peer *peer, uint32_t from, size_t got, size_t want)
{
    taker->id = ids_add(&peer->ep->takers, taker);
    if (taker->id == IDS_NONE)
        return -FI_ENOMEM;
    taker->peer = peer;
    peer->takes++;
    peer->ep->takes++;
    taker->from = from;
    taker->got = taker->asked = got;
    taker->want = want;
    ask(taker);
    return 0;
}

void rxd_take_stop(struct rxd_taker *taker)
{
    if (taker->id == IDS_NONE)
        return;
    ids_remove(&taker->peer->ep->takers, taker->id);
    taker->id = IDS_NONE;
    taker->peer->takes--;
    taker->peer->ep->takes--;
}

const char *rxd_take_data(struct rxd_peer *peer, const struct rxd_record *record)
{
    struct rxd_taker *taker = rxd_find(&peer->ep->takers, record->id);

    if (!taker || taker->peer != peer)
        return NULL; /* it has ended since it asked */
    if (record->size > taker->want || record->len > taker->want - record->size ||
        record->len > taker->want - taker->got)
        return "data that nobody asked for";
    if (taker->alive && !taker->alive(taker))
        return "data for memory that was closed";
    iov_scatter(taker->iov, taker->iov_count, record->size, record->payload, record->len);
    taker->got += record->len;
    if (taker->got < taker->want) {
        ask(taker);
        return NULL;
    }
    rxd_take_stop(taker);
    taker->ended(taker);
    return NULL;
}
