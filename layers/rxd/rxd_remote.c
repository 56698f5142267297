/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Accesses of a peer to memory here, as records ask for them, and the answers. The next request of
 * the peer waits until an access is done, so that each sees, and is seen by, the others in their
 * order.
 */
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/op/atomic.h"
#include "layers/rxd/rxd.h"

static const char *const no_memory = "an access for which there is no memory";

void rxd_access_done(struct message_peer *peer, const struct message_request *request)
{
    rxd_out_done(peer, request->id, 0);
}

void rxd_access_refuse(struct message_peer *peer, const struct message_request *request, int err)
{
    rxd_out_done(peer, request->id, err);
}

/* The initiator may have longer packets than this side. */
const char *rxd_access_result(struct message_peer *peer, const struct message_request *request,
                              const uint8_t *bytes, size_t len)
{
    size_t room = peer->ep->result_room;

    for (size_t at = 0; at < len; at += room) {
        struct rxd_record answer = {.kind = RXD_DATA,
                                    .id = request->taker,
                                    .size = at,
                                    .len = len - at < room ? len - at : room};
        uint8_t *payload = rxd_out_record(rxd_peer_of(peer), &answer);

        if (!payload)
            return no_memory;
        memcpy(payload, bytes + at, answer.len);
    }
    return NULL;
}

/* The bytes leave step by step, or are lent to the requester's lower. */
static const char *read_more(struct message_peer *peer, const struct message_request *request,
                             struct remote *remote)
{
    struct message_access *access = message_access_begin(peer, request, remote);

    if (!access)
        return no_memory;
    if (!request->borrows || !rxd_lend(access))
        message_move_start(&access->move, request->size);
    return NULL;
}

const char *rxd_access_read(struct message_peer *peer, const struct message_request *request,
                            struct remote *remote)
{
    struct rxd_record answer = {.kind = RXD_DATA, .id = request->taker, .len = request->size};
    const char *wrong = NULL;
    uint8_t *payload;

    if (request->size > peer->ep->result_room)
        return read_more(peer, request, remote);
    if (!request->size) {
        rxd_out_done(peer, request->id, 0);
    } else {
        payload = rxd_out_record(rxd_peer_of(peer), &answer);
        if (payload)
            iov_gather(remote->iov, remote->count, 0, payload, request->size);
        else
            wrong = no_memory;
    }
    if (!wrong)
        message_access_count(peer, request, remote);
    remote_release(remote);
    return wrong;
}

const char *rxd_access_lost(struct message_access *access)
{
    return "data for memory that was closed";
}

static uint64_t function_of(uint8_t function)
{
    return function == RXD_FETCH     ? FI_FETCH_ATOMIC
           : function == RXD_COMPARE ? FI_COMPARE_ATOMIC
                                     : 0;
}

const char *rxd_remote(struct rxd_peer *peer, const struct rxd_record *record)
{
    bool atomic = record->kind == RXD_ATOMIC;
    size_t unit = atomic ? atomic_size((enum fi_datatype)record->datatype) : 1;
    struct fi_rma_iov places[RXD_PLACES], lent[RXD_PLACES];
    struct message_request request = {
        .kind = atomic                      ? MESSAGE_ATOMIC
                : record->kind == RXD_WRITE ? MESSAGE_WRITE
                                            : MESSAGE_READ,
        .function = atomic ? function_of(record->function) : 0,
        .has_data = record->flags & RXD_HAS_DATA,
        .context = (uint8_t)record->context,
        .id = record->id,
        .taker = record->taker,
        .datatype = record->datatype,
        .op = record->op,
        .size = record->size,
        .data = record->data,
        .place_count = record->place_count,
        .places = places,
        .payload = record->payload,
        .len = record->len,
        .borrows = record->kind == RXD_READ && record->flags & RXD_BORROWS,
        .lent_count = rxd_read_places(record, lent),
        .lent = lent,
    };

    if (atomic && record->function > RXD_COMPARE)
        return "an atomic of no kind";
    if (__builtin_expect(!message_context_at(peer->base.ep, record->context), 0) &&
        !message_context_may_come(peer->base.ep, record->context)) {
        rxd_access_refuse(&peer->base, &request, FI_ECONNREFUSED);
        return NULL;
    }
    for (unsigned i = 0; i < record->place_count; i++) {
        places[i] = record->places[i];
        places[i].len *= unit; /* at most RXD_PAYLOAD_MAX elements */
    }
    return message_remote(&peer->base, &request);
}
