/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages and writes of a peer that the lower reads into their place. Where it cannot, they are
 * asked for with READ_NACK.
 */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/match/match_entry.h"
#include "layers/srd/srd.h"

bool srd_out_nack(struct message_peer *peer, uint32_t send_id, uint32_t recv_id)
{
    struct srd_header header = {.type = SRD_READ_NACK, .send_id = send_id, .recv_id = recv_id};

    if (srd_peer_of(peer)->introduced && !(srd_peer_of(peer)->features & SRD_CAN_NACK))
        return false;
    srd_out_control(peer, &header);
    return true;
}

void srd_out_eor(struct message_peer *peer, uint32_t send_id, uint32_t recv_id)
{
    struct srd_header header = {.type = SRD_EOR, .send_id = send_id, .recv_id = recv_id};

    srd_out_control(peer, &header);
}

/* ---- Messages ---- */

/* Its record may be freed. */
static void message_read(struct srd_transfer *transfer)
{
    struct srd_inbound *inbound = transfer->owner;
    struct message_inbound *base = &inbound->base;

    inbound->transfer = NULL;
    if (base->lost || transfer->lost)
        message_inbound_end(base, FI_ECONNRESET);
    else if (!transfer->err)
        message_inbound_end(base, 0);
    else
        srd_message_ask(inbound);
}

/* A receive may be shorter than the message. */
bool srd_read_message(struct srd_inbound *inbound)
{
    struct message_inbound *base = &inbound->base;
    struct message_peer *peer = base->handle.peer;
    const struct fi_peer_rx_entry *entry = base->entry;
    size_t at = base->taker.got, room = entry ? match_entry_room(entry) : 0;
    size_t want = room < base->told.size ? room : base->told.size;
    struct srd_transfer *transfer;

    if (want <= at) {
        message_inbound_end(base, 0);
        return true;
    }
    if (!srd_ep_of(peer->ep)->reads)
        return false;
    transfer = srd_transfer_get(peer, entry->iov, entry->count,
                                inbound->to_device ? entry->desc : NULL, at, want - at, FI_READ);
    if (!transfer)
        return false;
    srd_transfer_to(transfer, inbound->source->places, inbound->source->count, at);
    transfer->owner = inbound;
    transfer->ended = message_read;
    inbound->transfer = transfer;
    srd_transfer_start(transfer);
    return true;
}

/* ---- Writes ---- */

struct read_write {
    struct message_request request;
    struct remote remote;
};

static void write_read(struct srd_transfer *transfer)
{
    struct read_write *write = transfer->owner;
    struct message_peer *peer = transfer->base.peer;

    if (!transfer->lost && !transfer->err) {
        srd_out_eor(peer, write->request.id, 0);
        message_access_count(peer, &write->request, &write->remote);
    } else if (!transfer->lost && !srd_out_nack(peer, write->request.id, 0)) {
        srd_access_refuse(peer, &write->request, FI_EIO);
    }
    remote_release(&write->remote);
    free(write);
}

/* Takes its regions over, in any case. */
static bool begin(struct message_peer *peer, const struct srd_header *header,
                  const struct message_request *request, struct remote *remote)
{
    struct read_write *write = malloc(sizeof(*write));
    struct srd_transfer *transfer =
        write ? srd_transfer_get(peer, remote->iov, remote->count, NULL, 0, request->size, FI_READ)
              : NULL;

    if (!transfer) {
        free(write);
        remote_release(remote);
        return false;
    }
    write->request = *request;
    write->request.places = NULL;
    write->request.payload = NULL;
    write->remote = *remote;
    srd_transfer_to(transfer, header->reads, header->read_count, 0);
    transfer->owner = write;
    transfer->ended = write_read;
    srd_transfer_start(transfer);
    return true;
}

const char *srd_read_write(struct message_peer *peer, const struct srd_header *header,
                           const struct message_request *request)
{
    struct op op = {
        .group = OP_GROUP_RMA,
        .kind = FI_RMA | FI_WRITE,
        .rma = request->places,
        .rma_count = request->place_count,
    };
    struct remote remote;
    int rc = remote_resolve(peer->ep->domain->base.mrs, &op, &remote);

    if (rc) {
        srd_access_refuse(peer, request, -rc);
        return NULL;
    }
    if (!srd_ep_of(peer->ep)->reads)
        remote_release(&remote);
    else if (begin(peer, header, request, &remote))
        return NULL;
    return srd_out_nack(peer, header->send_id, 0) ? NULL : "a write that cannot be read";
}
