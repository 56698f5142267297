/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the lower reads memory of peers, the sender of a large message tells where it is, and the
 * receiver has the rest of it read into its receive; and where the lower stops a read when it is
 * told to (OPT_STOP_READ), the target of a large write has it read into its region, which may be
 * closed meanwhile. Where anything stands in the way, the rest is asked for as over any lower.
 * Reads of the application's are rxd_lend.c's.
 */
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "core/base/seam.h"
#include "core/domain/mr_watch.h"
#include "core/info/info.h"
#include "layers/rxd/rxd.h"

/* Registers the segments that have bytes: how many; 0: none, or not all. */
static unsigned lend_segments(struct rxd_ep *ep, const struct op *op, struct rxd_lent *lent)
{
    for (size_t i = 0; i < op->count; i++) {
        if (!op->iov[i].iov_len)
            continue;
        if (lent->count == RXD_PLACES ||
            !rxd_lend_segment(ep, &op->iov[i], &lent->mr[lent->count], &lent->place[lent->count]))
            return 0;
        lent->count++;
    }
    return lent->count;
}

void rxd_take_back(struct fid_mr **mr, unsigned count)
{
    while (count)
        fi_close(&mr[--count]->fid);
}

/* Segments that fit a packet are not worth a question each. */
bool rxd_read_lend(struct rxd_peer *peer, const struct op *op, struct rxd_record *record,
                   struct rxd_lent *lent)
{
    struct rxd_ep *ep = rxd_ep_of(peer->base.ep);

    lent->count = 0;
    if (!ep->reads || op->count > (peer->lends ? RXD_PLACES : 1) ||
        (op->count > 1 && op->len / op->count <= ep->room))
        return false;
    switch (lend_segments(ep, op, lent)) {
    case 0:
        rxd_take_back(lent->mr, lent->count);
        lent->count = 0;
        return false;
    case 1:
        record->flags |= RXD_READABLE;
        record->addr = lent->place[0].addr;
        record->key = lent->place[0].key;
        return true;
    default:
        record->flags |= RXD_SEGMENTS;
        record->segment_count = (uint8_t)lent->count;
        record->segments = lent->place;
        return true;
    }
}

void rxd_unwatch(struct mr_watch *watch[REMOTE_SEGMENTS])
{
    for (size_t i = 0; i < REMOTE_SEGMENTS; i++) {
        mr_watch_close(watch[i]);
        watch[i] = NULL;
    }
}

static void put(struct rxd_packet *packet)
{
    list_detach(&packet->base.link);
    rxd_unwatch(packet->watch);
    if (packet->mr)
        fi_close(&packet->mr->fid);
    mr_pool_put(&packet->base.ep->packets, packet);
}

static void stop_read(struct rxd_packet *packet)
{
    void *context = packet;

    fi_setopt(&packet->base.ep->lower->fid, FI_OPT_ENDPOINT, OPT_STOP_READ, &context,
              sizeof(context));
}

/* The region that it writes to is being closed. */
static void stop(void *arg)
{
    struct rxd_packet *packet = arg;
    struct message_ep *ep = packet->base.ep;

    stop_read(packet);
    message_run(ep);
    progress_posted(ep->progress);
}

static bool has_before(const struct remote *remote, size_t at)
{
    for (size_t i = 0; i < at; i++) {
        if (remote->mrs[i] == remote->mrs[at])
            return true;
    }
    return false;
}

bool rxd_watch(struct mr_watch *watch[REMOTE_SEGMENTS], const struct remote *remote,
               struct progress *progress, void (*closed)(void *arg), void *arg)
{
    for (size_t i = 0; i < remote->mr_count; i++) {
        if (!remote->mrs[i] || has_before(remote, i))
            continue;
        watch[i] = mr_watch_open(remote->mrs[i], progress, closed, arg);
        if (!watch[i])
            return false;
    }
    return true;
}

/* Registers what is written to, where the lower wants that. */
static struct rxd_packet *context_of(const struct reading *reading)
{
    struct rxd_ep *ep = rxd_ep_of(reading->handle->peer->ep);
    struct rxd_packet *packet = mr_pool_get(&ep->base.packets);

    if (!packet)
        return NULL;
    packet->base.ep = &ep->base;
    packet->base.in = false;
    packet->base.other = true;
    packet->reads = reading->handle;
    packet->mr = NULL;
    memset(packet->watch, 0, sizeof(packet->watch));
    packet->read_len = reading->to.iov_len;
    list_init(&packet->base.link);
    list_attach(&packet->base.link, &ep->reading);
    if (!(info_mr_bits(ep->base.lower_info) & FI_MR_LOCAL) ||
        !fi_mr_reg(ep->base.domain->lower, reading->to.iov_base, reading->to.iov_len, FI_READ, 0,
                   ++ep->last_key, 0, &packet->mr, NULL))
        return packet;
    packet->mr = NULL;
    put(packet);
    return NULL;
}

static ssize_t post(struct rxd_packet *packet, const struct reading *reading)
{
    void *desc = packet->mr ? fi_mr_desc(packet->mr) : NULL;
    struct op op = {
        .call = OP_READMSG,
        .group = OP_GROUP_RMA,
        .kind = FI_RMA | FI_READ,
        .flags = FI_COMPLETION,
        .peer = reading->handle->peer->lower,
        .context = packet,
        .iov = &reading->to,
        .desc = &desc,
        .count = 1,
        .len = reading->to.iov_len,
        .rma = &reading->from,
        .rma_count = 1,
    };

    return op_post(&packet->base.ep->target, &op);
}

/* All regions of an access are watched, also those that this read does not write to: a write of
 * which a region is closed is over. */
bool rxd_read_begin(const struct reading *reading, const struct remote *remote, bool *flag)
{
    struct message_peer *peer = reading->handle->peer;
    struct rxd_packet *packet;

    if (reading->to.iov_len > rxd_ep_of(peer->ep)->read_max)
        return false;
    packet = context_of(reading);
    if (!packet)
        return false;
    *flag = true;
    peer->takes++;
    peer->ep->takes++;
    if ((!remote || rxd_watch(packet->watch, remote, packet->base.ep->progress, stop, packet)) &&
        !post(packet, reading))
        return true;
    *flag = false;
    peer->takes--;
    peer->ep->takes--;
    put(packet);
    return false;
}

unsigned rxd_read_places(const struct rxd_record *record, struct fi_rma_iov places[RXD_PLACES])
{
    if (record->flags & RXD_SEGMENTS) {
        rxd_segments(record, places);
        return record->segment_count;
    }
    if (!(record->flags & RXD_READABLE))
        return 0;
    places[0] = (struct fi_rma_iov){.addr = record->addr, .len = record->size, .key = record->key};
    return 1;
}

bool rxd_may_watch(const struct rxd_ep *ep)
{
    return ep->base.own.top || ep->base.progress->locked;
}

/* One after the other is read. Pieces that fit a packet are not worth a question each: when the
 * first is about to be read, they are looked at together. */
bool rxd_read_piece(struct reading *reading, const struct iovec *iov, size_t count,
                    const struct fi_rma_iov *places, unsigned place_count, size_t at, size_t size)
{
    const struct rxd_ep *ep = rxd_ep_of(reading->handle->peer->ep);
    struct iovec to[MESSAGE_IOV];
    size_t place_at = at, pieces;

    if (count > MESSAGE_IOV || !ep->read_max)
        return false;
    while (place_count && place_at >= places->len) {
        place_at -= places->len;
        places++;
        place_count--;
    }
    pieces = rxd_slice(iov, count, at, size - at, to);
    if (!pieces || !place_count)
        return false;
    pieces += place_count - 1;
    if (pieces > 1 && (size - at) / pieces <= ep->room && !reading->goes_on)
        return false;
    reading->from = (struct fi_rma_iov){
        .addr = places->addr + place_at, .len = places->len - place_at, .key = places->key};
    if (reading->from.len > to[0].iov_len)
        reading->from.len = to[0].iov_len;
    if (reading->from.len > ep->read_max)
        reading->from.len = ep->read_max;
    reading->to = (struct iovec){to[0].iov_base, reading->from.len};
    return true;
}

bool rxd_read_start(struct rxd_inbound *inbound, size_t want)
{
    const struct rxd_ep *ep = rxd_ep_of(inbound->base.handle.peer->ep);
    const struct fi_peer_rx_entry *entry = inbound->base.entry;
    struct reading reading = {.handle = &inbound->base.handle, .goes_on = inbound->fetched};

    return ep->reads &&
           rxd_read_piece(&reading, entry->iov, entry->count, inbound->places, inbound->place_count,
                          inbound->first + inbound->fetched, want) &&
           rxd_read_begin(&reading, NULL, &inbound->reading);
}

bool rxd_read_write(struct message_access *access)
{
    const struct rxd_ep *ep = rxd_ep_of(access->handle.peer->ep);
    const struct message_request *request = &access->request;
    struct reading reading = {.handle = &access->handle, .goes_on = access->fetched};

    return ep->stops && rxd_may_watch(ep) &&
           rxd_read_piece(&reading, access->remote.iov, access->remote.count, access->lent,
                          access->lent_count, request->len + access->fetched, request->size) &&
           rxd_read_begin(&reading, &access->remote, &access->reading);
}

/* After an error all but what came with the request is asked for: the peer has no other place to
 * begin at. */
static void piece_done(struct message_access *access, size_t len, int err)
{
    const struct message_request *request = &access->request;

    access->reading = false;
    access->fetched += err ? 0 : len;
    if (!err && !access->lost && request->len + access->fetched < request->size) {
        if (rxd_read_write(access))
            return;
        err = FI_EOPNOTSUPP;
    }
    message_access_fetched(access, err);
}

void rxd_read_done(struct rxd_packet *packet, int err)
{
    struct message_handle *handle = packet->reads;
    size_t len = packet->read_len;

    put(packet);
    if (!handle)
        return;
    handle->peer->takes--;
    handle->peer->ep->takes--;
    if (handle->kind == MESSAGE_WRITTEN) {
        piece_done(object_of(handle, struct message_access, handle), len, err);
    } else if (handle->kind == MESSAGE_READ) {
        rxd_borrowed_read(object_of(handle, struct message_op, handle), len, err);
    } else {
        rxd_message_read(rxd_inbound_of(object_of(handle, struct message_inbound, handle)), len,
                         err);
    }
}

/* The read for a handle, or NULL. */
static struct rxd_packet *find(const struct message_handle *handle)
{
    struct rxd_ep *ep = rxd_ep_of(handle->peer->ep);

    list_for_each (pos, &ep->reading) {
        struct rxd_packet *packet = list_item(pos, struct rxd_packet, base.link);

        if (packet->reads == handle)
            return packet;
    }
    return NULL;
}

void rxd_read_forget(struct message_handle *handle)
{
    struct rxd_packet *packet = find(handle);

    if (packet)
        packet->reads = NULL;
}

/* The region is let go of, and may be closed before the lower is. */
void rxd_unread_write(struct message_access *access)
{
    struct rxd_packet *packet = find(&access->handle);

    if (!packet)
        return;
    packet->reads = NULL;
    rxd_unwatch(packet->watch);
    stop_read(packet);
}

void rxd_read_finish(struct rxd_ep *ep)
{
    while (!list_empty(&ep->reading))
        put(list_item(ep->reading.next, struct rxd_packet, base.link));
}
