/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the lower reads memory of peers, the sender of a large message tells where it is, and the
 * receiver has the rest of it read into its receive; and where the lower stops a read when it is
 * told to (OPT_STOP_READ), the target of a large write has it read into its region, which may be
 * closed meanwhile. Where anything stands in the way, the rest is asked for as over any lower.
 */
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "core/base/seam.h"
#include "core/domain/mr_watch.h"
#include "core/info/info.h"
#include "layers/rxd/rxd.h"

bool rxd_read_lend(struct rxd_ep *ep, const struct op *op, struct rxd_record *record,
                   struct fid_mr **ret_mr)
{
    bool virtual = info_mr_bits(ep->base.lower_info) & FI_MR_VIRT_ADDR;

    if (!ep->reads || op->count != 1 ||
        fi_mr_reg(ep->base.domain->lower, op->iov->iov_base, op->len, FI_REMOTE_READ, 0,
                  ++ep->last_key, 0, ret_mr, NULL))
        return false;
    fi_mr_bind(*ret_mr, &ep->base.lower->fid, 0); /* a lower's regions may be an endpoint's */
    record->flags |= RXD_READABLE;
    record->addr = virtual ? (uint64_t)(uintptr_t)op->iov->iov_base : 0;
    record->key = fi_mr_key(*ret_mr);
    return true;
}

static void unwatch(struct rxd_packet *packet)
{
    for (size_t i = 0; i < REMOTE_SEGMENTS; i++) {
        mr_watch_close(packet->watch[i]);
        packet->watch[i] = NULL;
    }
}

static void put(struct rxd_packet *packet)
{
    list_detach(&packet->base.link);
    unwatch(packet);
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

/* All regions of the access, also those that this read does not write to: a write of which a region
 * is closed is over. False: one is closed, or there is no memory. */
static bool watch(struct rxd_packet *packet, const struct remote *remote)
{
    for (size_t i = 0; i < remote->mr_count; i++) {
        if (!remote->mrs[i] || has_before(remote, i))
            continue;
        packet->watch[i] = mr_watch_open(remote->mrs[i], packet->base.ep->progress, stop, packet);
        if (!packet->watch[i])
            return false;
    }
    return true;
}

/* The rest of a message, or of a write of a peer's, read into one piece of memory. */
struct reading {
    struct message_handle *handle;
    struct fi_rma_iov from;
    struct iovec to;
};

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

/* `flag` is set, before the lower may be through. remote: memory that may be closed, or NULL. */
static bool start(const struct reading *reading, const struct remote *remote, bool *flag)
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
    if ((!remote || watch(packet, remote)) && !post(packet, reading))
        return true;
    *flag = false;
    peer->takes--;
    peer->ep->takes--;
    put(packet);
    return false;
}

bool rxd_read_start(struct rxd_inbound *inbound, size_t want)
{
    const struct rxd_ep *ep = rxd_ep_of(inbound->base.handle.peer->ep);
    const struct fi_peer_rx_entry *entry = inbound->base.entry;
    size_t len = want - inbound->first;
    struct reading reading = {
        .handle = &inbound->base.handle,
        .from = {.addr = inbound->addr + inbound->first, .len = len, .key = inbound->key}};
    struct iovec to[MESSAGE_IOV];

    if (!ep->reads || !inbound->readable ||
        rxd_slice(entry->iov, entry->count, inbound->first, len, to) != 1)
        return false;
    reading.to = to[0];
    return start(&reading, NULL, &inbound->reading);
}

/* May fi_close of a region stop a read? Under a layer no lock keeps it from driving us then. */
static bool may_be_stopped(const struct rxd_ep *ep)
{
    return ep->stops && (ep->base.own.top || ep->base.progress->locked);
}

/* The first of the pieces that are missing; one after the other is read. Pieces that fit a packet
 * are not worth a question each: when the first is about to be read, they are looked at together.
 */
bool rxd_read_write(struct message_access *access)
{
    const struct rxd_ep *ep = rxd_ep_of(access->handle.peer->ep);
    const struct message_request *request = &access->request;
    size_t at = request->len + access->fetched, len = request->size - at, count;
    struct reading reading = {.handle = &access->handle,
                              .from = {.addr = request->lent_addr + at, .key = request->lent_key}};
    struct iovec to[MESSAGE_IOV];

    if (!may_be_stopped(ep) || access->remote.count > MESSAGE_IOV)
        return false;
    count = rxd_slice(access->remote.iov, access->remote.count, at, len, to);
    if (!count || (count > 1 && !access->fetched && len / count <= ep->room))
        return false;
    reading.to = to[0];
    reading.from.len = to[0].iov_len;
    return start(&reading, &access->remote, &access->reading);
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
    } else {
        rxd_inbound_of(object_of(handle, struct message_inbound, handle))->reading = false;
        rxd_message_read(rxd_inbound_of(object_of(handle, struct message_inbound, handle)), err);
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
    unwatch(packet);
    stop_read(packet);
}

void rxd_read_finish(struct rxd_ep *ep)
{
    while (!list_empty(&ep->reading))
        put(list_item(ep->reading.next, struct rxd_packet, base.link));
}
