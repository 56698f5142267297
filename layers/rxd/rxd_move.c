/* SPDX-License-Identifier: BSD-2-Clause */
/* Bytes that do not fit the packet of their request, in records. */
#include <rdma/fi_errno.h>

#include "core/base/seam.h"
#include "layers/rxd/rxd.h"

static size_t lesser(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t rxd_slice(const struct iovec *iov, size_t count, size_t at, size_t len, struct iovec *slices)
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

/* Memory of an access may be closed at any time, so its bytes are copied; so are few bytes, if they
 * are no more than a packet has. */
static void fill(struct rxd_packet *packet, const struct message_move *move, uint8_t *payload,
                 size_t len)
{
    size_t room = rxd_ep_of(packet->base.ep)->room - packet->base.len - RXD_RECORD_SIZE;

    if (!move->direct || (len < RXD_DIRECT && len <= room)) {
        iov_gather(move->iov, move->iov_count, move->at, payload, len);
        packet->base.len += len;
    } else {
        packet->slice_count = rxd_slice(move->iov, move->iov_count, move->at, len, packet->slices);
    }
}

/* Of a packet that goes to that peer in one piece, as far as the lower tells, and of several that
 * leave together: bytes of both with our heads. */
static struct packet_room room_to(const struct message_peer *peer)
{
    const struct rxd_ep *ep = rxd_ep_of(peer->ep);
    struct packet_room room = {.addr = peer->lower};
    size_t len = sizeof(room), most = ep->heads + ep->room;

    if (fi_getopt(&ep->base.lower->fid, FI_OPT_ENDPOINT, OPT_PACKET_ROOM, &room, &len))
        return (struct packet_room){.size = most};
    if (room.size < MESSAGE_LEAST_PACKET || room.size > most)
        room.size = most;
    if (room.train > RXD_PAYLOAD_MAX)
        room.train = RXD_PAYLOAD_MAX;
    return room;
}

static size_t piece_of(const struct message_peer *peer, const struct packet_room *room)
{
    return room->size - rxd_ep_of(peer->ep)->heads - RXD_RECORD_SIZE;
}

/* The same of several packets that leave as one message of the lower's; 0: none do. */
static size_t train_of(const struct message_peer *peer, const struct packet_room *room)
{
    if (!rxd_peer_of(peer)->trains || room->train <= room->size)
        return 0;
    return room->train - rxd_ep_of(peer->ep)->heads - RXD_RECORD_SIZE;
}

bool rxd_makes_trains(const struct rxd_peer *peer)
{
    struct packet_room room = room_to(&peer->base);

    return train_of(&peer->base, &room) > 0;
}

/* Of memory of the application's, trains. */
size_t rxd_piece_room(const struct message_move *move)
{
    struct packet_room room = room_to(move->peer);
    size_t train = move->direct ? train_of(move->peer, &room) : 0;

    return train ? train : piece_of(move->peer, &room);
}

static void put_piece(struct rxd_packet *packet, struct message_move *move,
                      const struct rxd_record *record)
{
    fill(packet, move, rxd_record_put(record, packet->records + packet->base.len), record->len);
    packet->base.len += RXD_RECORD_SIZE;
    packet->base.move = move;
    move->pending++;
}

size_t rxd_piece(struct message_move *move, size_t len)
{
    struct rxd_record record = {.kind = RXD_DATA, .id = move->taker, .size = move->at, .len = len};
    struct rxd_packet *packet =
        rxd_out_urgent(rxd_peer_of(move->peer), RXD_RECORD_SIZE + len, false);

    if (packet)
        put_piece(packet, move, &record);
    return packet ? len : 0;
}

/* ---- Out, unasked ---- */

/* Where more is under way, a question costs no time, and the window is for requests; so is half of
 * it in any case. */
struct rxd_follow rxd_may_follow(const struct rxd_peer *peer, const struct op *post)
{
    struct rxd_follow follow = {.most = (size_t)peer->unasked * RXD_UNASKED_UNIT};
    uint32_t used = peer->next_out - peer->acked + 1;
    struct packet_room room;
    size_t window, train;

    if (!follow.most || !peer->theirs || peer->known != RXD_KNOWS_US || post->flags & FI_FENCE ||
        peer->in_flight >= RXD_CORK || !list_empty(&peer->ordered) || used >= RXD_WINDOW / 2)
        return (struct rxd_follow){0};
    room = room_to(&peer->base);
    train = rxd_ep_of(peer->base.ep)->gathers ? train_of(&peer->base, &room) : 0;
    follow.trains = train;
    follow.room = train ? train : piece_of(&peer->base, &room);
    window = (RXD_WINDOW / 2 - used) * follow.room;
    follow.most = lesser(lesser(follow.most, RXD_UNASKED), window);
    return follow;
}

/* Bytes in the request's own packet. */
static size_t along(const struct rxd_follow *follow, size_t request)
{
    return follow->trains && follow->room > request ? follow->room - request : 0;
}

/* The rest of the last packet is asked for with what is behind it. */
size_t rxd_follow_len(const struct rxd_follow *follow, size_t request, size_t left)
{
    size_t first = along(follow, request), most = follow->most;

    if (left <= most || most < first || most <= follow->room)
        return lesser(left, most);
    return most - (most - first) % follow->room;
}

bool rxd_follow_reserve(struct rxd_peer *peer, const struct rxd_follow *follow, size_t request,
                        size_t len, struct list *packets)
{
    for (size_t at = along(follow, request); at < len; at += follow->room) {
        struct message_packet *packet = message_packet_get(&peer->base);

        if (!packet) {
            message_packets_put(packets);
            return false;
        }
        list_attach(&packet->link, packets);
    }
    return true;
}

/* Returns how many. */
static size_t put_follow(struct rxd_packet *packet, struct rxd_op *op, size_t len)
{
    struct message_move *move = &op->base.move;
    struct rxd_record record = {.kind = RXD_FOLLOW,
                                .id = message_handle_id(&op->base.handle),
                                .size = move->at,
                                .len = len};

    put_piece(packet, move, &record);
    move->at = move->limit = move->at + len;
    return len;
}

void rxd_follow(struct rxd_op *op, const struct rxd_follow *follow, size_t len,
                struct list *packets)
{
    struct rxd_peer *peer = rxd_peer_of(op->base.handle.peer);
    struct rxd_packet *request = list_item(peer->ordered.prev, struct rxd_packet, base.link);
    size_t first = along(follow, request->base.len);

    op->unasked = op->base.move.at;
    if (first)
        len -= put_follow(request, op, lesser(first, len));
    while (len) {
        struct message_packet *packet = list_item(packets->next, struct message_packet, link);

        list_detach(&packet->link);
        len -= put_follow(rxd_out_behind(peer, packet), op, lesser(follow->room, len));
    }
}

/* ---- In ---- */

/* Bytes of it that had come unasked were not kept: it; or NULL. */
static struct rxd_inbound *asks_again(struct message_taker *taker)
{
    struct rxd_inbound *inbound;

    if (taker->handle->kind != MESSAGE_INBOUND)
        return NULL;
    inbound = rxd_inbound_of(object_of(taker, struct message_inbound, taker));
    return inbound->dropped ? inbound : NULL;
}

/* Of trains there are few. */
static size_t pull_window(const struct message_peer *peer)
{
    const struct rxd_ep *ep = rxd_ep_of(peer->ep);

    if (ep->in_place && rxd_peer_of(peer)->trains)
        return RXD_AHEAD;
    return peer->ep->ahead * (ep->room - RXD_RECORD_SIZE);
}

/* Again when half of a window has come. */
void rxd_pull(struct message_taker *taker)
{
    struct rxd_peer *peer = rxd_peer_of(taker->handle->peer);
    size_t window = pull_window(&peer->base);
    struct rxd_inbound *again = asks_again(taker);
    struct rxd_record question = {.kind = RXD_PULL,
                                  .flags = again ? RXD_AGAIN : 0,
                                  .id = taker->from,
                                  .taker = message_handle_id(taker->handle),
                                  .size = taker->got + window};

    if (taker->asked == taker->want || taker->asked > taker->got + window / 2)
        return;
    if (question.size > taker->want)
        question.size = taker->want;
    if (!rxd_out_try(peer, &question)) {
        rxd_owe(peer);
        return;
    }
    taker->asked = question.size;
    if (again)
        again->dropped = false;
}

/* Its sender has closed a context, and goes on. Of a taker that has ended itself: nothing. */
void rxd_take_gone(struct rxd_peer *peer, const struct rxd_record *record)
{
    const unsigned kinds = 1U << MESSAGE_INBOUND | 1U << MESSAGE_WRITTEN | 1U << MESSAGE_READ;
    struct message_handle *handle = message_handle_find(&peer->base, record->id, kinds);
    struct message_inbound *inbound;

    if (!handle)
        return;
    if (handle->kind == MESSAGE_WRITTEN) {
        message_access_put(object_of(handle, struct message_access, handle));
        return;
    }
    if (handle->kind == MESSAGE_READ) {
        rxd_borrowed_gone(object_of(handle, struct message_op, handle));
        return;
    }
    inbound = object_of(handle, struct message_inbound, handle);
    inbound->lost = true;
    message_inbound_end(inbound, FI_ECONNRESET);
}

const char *rxd_take_parts(struct rxd_peer *peer, const struct rxd_record *record,
                           const struct iovec *parts, size_t count)
{
    const unsigned kinds =
        1U << MESSAGE_READ | 1U << MESSAGE_ATOMIC | 1U << MESSAGE_INBOUND | 1U << MESSAGE_WRITTEN;
    struct message_handle *handle = message_handle_find(&peer->base, record->id, kinds);
    struct message_taker *taker = handle ? message_taker_of(handle) : NULL;

    if (!taker || !taker->handle)
        return NULL; /* it has ended since it asked */
    return message_take_parts(taker, record->size, parts, count);
}

const char *rxd_take_data(struct rxd_peer *peer, const struct rxd_record *record)
{
    const struct iovec part = {(void *)(uintptr_t)record->payload, record->len};

    return rxd_take_parts(peer, record, &part, 1);
}
