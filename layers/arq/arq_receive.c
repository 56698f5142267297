/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages that have come go to the first receive that is posted (packet_ep_receive); without one
 * the buffer that they lie in is kept, up to a bound, and beyond that the message is refused, so
 * that its sender has it still. Senders are told of the room: arq_credit.
 */
#include <string.h>

#include "layers/arq/arq_ep.h"

#define TALKER_NS UINT64_C(1000000000) /* who was silent for longer has no share of the room */

/* ---- Room ---- */

void arq_talks(struct arq_link *link, uint64_t now)
{
    struct arq_ep *ep = link->ep;

    link->talked = now;
    if (list_empty(&link->talker))
        ep->talker_count++;
    list_detach(&link->talker);
    list_attach(&link->talker, &ep->talkers);
    while (!list_empty(&ep->talkers)) {
        struct arq_link *oldest = list_item(ep->talkers.next, struct arq_link, talker);

        if (oldest->talked + TALKER_NS >= now)
            break;
        list_detach(&oldest->talker);
        ep->talker_count--;
    }
}

/* Messages that may come; a reader takes each. */
static size_t room_of(const struct arq_ep *ep)
{
    size_t room = ep->up.saved_most - ep->up.saved_count;

    return room + (ep->reader.read ? ep->reader.room : recv_queue_count(&ep->up.posted));
}

uint64_t arq_credit(struct arq_ep *ep)
{
    size_t room = room_of(ep), share;

    if (room > ep->lower.holds)
        room = ep->lower.holds;
    share = ep->talker_count > 1 ? room / ep->talker_count : room;
    return share || !room ? share : 1;
}

/* Senders that were told of no room hear that there is some. */
static void wake_senders(struct arq_ep *ep)
{
    ep->up.woken = false;
    list_for_each (pos, &ep->talkers) {
        struct arq_link *link = list_item(pos, struct arq_link, talker);

        if (session_is_shut(&link->session))
            arq_ready(link);
    }
}

/* ---- Messages without a receive ---- */

/* The bytes are those of the buffer that has just been read, which is kept; or of a message in a
 * chunk, or that came in pieces, which needs one. */
static bool save(struct arq_ep *ep, const struct packet_message *message,
                 const struct arq_peer *peer)
{
    struct arq_buffer *buffer = ep->current;
    const uint8_t *begin = buffer && !buffer->chunk ? buffer->bytes : NULL;
    bool mine = begin && message->bytes >= begin &&
                message->bytes < begin + ep->lower.prefix + ep->lower.most;

    if (ep->up.saved_count >= ep->up.saved_most)
        return false;
    if (!mine) {
        if (message->len > ep->lower.prefix + ep->lower.most)
            return false;
        buffer = mr_pool_get(&ep->buffers);
        if (!buffer)
            return false;
        memcpy(buffer->bytes, message->bytes, message->len);
        buffer->chunk = NULL;
        buffer->at = 0;
        list_init(&buffer->link);
    } else {
        buffer->at = (size_t)(message->bytes - begin);
        ep->current = NULL;
    }
    buffer->len = message->len;
    buffer->from.len = 0;
    if (peer)
        arq_addr_copy(&buffer->from, &peer->name);
    list_attach(&buffer->link, &ep->up.saved);
    ep->up.saved_count++;
    return true;
}

/* As the AV has it now: it may have changed while the message waited. */
static fi_addr_t source_of_saved(const struct arq_ep *ep, const struct arq_buffer *buffer)
{
    fi_addr_t addr = FI_ADDR_NOTAVAIL;

    if (buffer->from.len && ep->up.base.caps & FI_SOURCE)
        addr = av_find(ep->up.base.av, buffer->from.bytes);
    return addr == FI_ADDR_NOTAVAIL ? addr : av_source(ep->up.base.av, addr);
}

static void take_saved(struct arq_ep *ep)
{
    while (packet_ep_has_saved(&ep->up)) {
        struct arq_buffer *buffer = list_item(ep->up.saved.next, struct arq_buffer, link);
        struct packet_message message = {.bytes = buffer->bytes + buffer->at,
                                         .len = buffer->len,
                                         .src = source_of_saved(ep, buffer)};

        list_detach(&buffer->link);
        ep->up.saved_count--;
        if (packet_ep_receive(&ep->up, &message)) {
            mr_pool_put(&ep->buffers, buffer);
            continue;
        }
        list_attach_before(&buffer->link, ep->up.saved.next); /* it released the last receive */
        ep->up.saved_count++;
    }
}

fi_addr_t arq_source(struct session *session)
{
    const struct arq_link *link = arq_link_of(session);
    struct arq_ep *ep = link->ep;

    if (__builtin_expect(av_watch_any(&ep->up.watch), 0))
        arq_take_av_changes(ep); /* the upper may have learnt of the peer from the last message */
    if (link->peer && link->peer->addr != FI_ADDR_NOTAVAIL && ep->up.base.caps & FI_SOURCE)
        return av_source(ep->up.base.av, link->peer->addr);
    return FI_ADDR_NOTAVAIL;
}

bool arq_deliver(struct session *session, const uint8_t *bytes, size_t len)
{
    struct arq_link *link = arq_link_of(session);
    struct arq_ep *ep = link->ep;
    struct packet_message message = {.bytes = bytes, .len = len, .src = arq_source(session)};

    if (ep->reader.read)
        return ep->reader.read(ep->reader.arg, bytes, len, message.src);
    if (list_empty(&ep->up.saved) && packet_ep_receive(&ep->up, &message))
        return true;
    if (save(ep, &message, link->peer))
        return true;
    ep->up.woken = true;
    return false;
}

void arq_receive_run(struct arq_ep *ep)
{
    if (!list_empty(&ep->up.saved))
        take_saved(ep);
    if (ep->up.woken && arq_credit(ep))
        wake_senders(ep);
}
