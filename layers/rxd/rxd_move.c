/* SPDX-License-Identifier: BSD-2-Clause */
/* Bytes that do not fit the packet of their request, in records. */
#include <rdma/fi_errno.h>

#include "core/base/seam.h"
#include "layers/rxd/rxd.h"

size_t rxd_slice(const struct iovec *iov, size_t count, size_t at, size_t len,
                 struct iovec slices[MESSAGE_IOV])
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

/* Memory of an access may be closed at any time, so its bytes are copied. */
static void fill(struct rxd_packet *packet, const struct message_move *move, uint8_t *payload,
                 size_t len)
{
    if (!move->direct || len < RXD_DIRECT) {
        iov_gather(move->iov, move->iov_count, move->at, payload, len);
        packet->base.len += len;
    } else {
        packet->slice_count = rxd_slice(move->iov, move->iov_count, move->at, len, packet->slices);
    }
}

/* Of a packet that goes to that peer in one piece, as far as the lower tells. */
size_t rxd_piece_room(const struct message_peer *peer)
{
    const struct rxd_ep *ep = rxd_ep_of(peer->ep);
    struct packet_room room = {.addr = peer->lower};
    size_t len = sizeof(room);

    if (fi_getopt(&ep->base.lower->fid, FI_OPT_ENDPOINT, OPT_PACKET_ROOM, &room, &len) ||
        room.size < MESSAGE_LEAST_PACKET || room.size - ep->heads > ep->room)
        return ep->room - RXD_RECORD_SIZE;
    return room.size - ep->heads - RXD_RECORD_SIZE;
}

bool rxd_piece(struct message_move *move, size_t len)
{
    struct rxd_record record = {.kind = RXD_DATA, .id = move->taker, .size = move->at, .len = len};
    size_t head = rxd_record_size(&record);
    struct rxd_packet *packet = rxd_out_urgent(rxd_peer_of(move->peer), head + len);

    if (!packet)
        return false;
    fill(packet, move, rxd_record_put(&record, packet->records + packet->base.len), len);
    packet->base.len += head;
    packet->base.move = move;
    move->pending++;
    return true;
}

/* ---- In ---- */

/* Again when half of a window has come. */
void rxd_pull(struct message_taker *taker)
{
    struct message_peer *peer = taker->handle->peer;
    size_t window = peer->ep->ahead * (rxd_ep_of(peer->ep)->room - RXD_RECORD_SIZE);

    if (taker->asked == taker->want || taker->asked > taker->got + window / 2)
        return;
    taker->asked = taker->got + window < taker->want ? taker->got + window : taker->want;
    rxd_out_control(rxd_peer_of(peer),
                    &(struct rxd_record){.kind = RXD_PULL,
                                         .id = taker->from,
                                         .taker = message_handle_id(taker->handle),
                                         .size = taker->asked});
}

/* Its sender has closed a context, and goes on. Of a taker that has ended itself: nothing. */
void rxd_take_gone(struct rxd_peer *peer, const struct rxd_record *record)
{
    const unsigned kinds = 1U << MESSAGE_INBOUND | 1U << MESSAGE_WRITTEN;
    struct message_handle *handle = message_handle_find(&peer->base, record->id, kinds);
    struct message_inbound *inbound;

    if (!handle)
        return;
    if (handle->kind == MESSAGE_WRITTEN) {
        message_access_put(object_of(handle, struct message_access, handle));
        return;
    }
    inbound = object_of(handle, struct message_inbound, handle);
    inbound->lost = true;
    message_inbound_end(inbound, FI_ECONNRESET);
}

const char *rxd_take_data(struct rxd_peer *peer, const struct rxd_record *record)
{
    const unsigned kinds =
        1U << MESSAGE_READ | 1U << MESSAGE_ATOMIC | 1U << MESSAGE_INBOUND | 1U << MESSAGE_WRITTEN;
    struct message_handle *handle = message_handle_find(&peer->base, record->id, kinds);
    struct message_taker *taker = handle ? message_taker_of(handle) : NULL;

    if (!taker || !taker->handle)
        return NULL; /* it has ended since it asked */
    return message_take_bytes(taker, record->size, record->payload, record->len);
}
