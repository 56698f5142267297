/* SPDX-License-Identifier: BSD-2-Clause */
/* Accesses of a peer to memory here, as packets ask for them, and the answers. */
#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/op/atomic.h"
#include "layers/srd/srd.h"

static const char *const no_memory = "an access for which there is no memory";

void srd_access_done(struct message_peer *peer, const struct message_request *request)
{
    if (request->receipt)
        srd_out_receipt(peer, request->id, request->number);
}

static int code_of(int err)
{
    switch (err) {
    case FI_EOPNOTSUPP: return SRD_ERR_DATATYPE;
    case FI_ENOMEM: return SRD_ERR_NO_MEMORY;
    case FI_EINVAL: return SRD_ERR_SIZE;
    default: return SRD_ERR_ADDRESS;
    }
}

/* The requester is told where it can be; else the log is. */
void srd_access_refuse(struct message_peer *peer, const struct message_request *request, int err)
{
    bool answered = request->receipt || request->kind == MESSAGE_READ || request->function;

    if (answered)
        srd_out_error(srd_peer_of(peer), request->id, code_of(err));
    else
        LOG_WARN("srd", FI_LOG_EP_DATA, ": %s is refused, and its sender does not hear of it: %s",
                 request->kind == MESSAGE_WRITE ? "a write" : "an atomic", fi_strerror(err));
}

const char *srd_access_lost(struct message_access *access)
{
    srd_access_refuse(access->handle.peer, &access->request, FI_EACCES);
    message_access_put(access);
    return NULL;
}

/* The first bytes leave with the response, the rest as it is asked for. */
const char *srd_access_read(struct message_peer *peer, const struct message_request *request,
                            struct remote *remote)
{
    size_t room = peer->ep->result_room;
    size_t limit = request->window < request->size ? request->window : request->size;
    struct srd_header answer = {
        .type = SRD_READRSP, .recv_id = request->id, .len = limit < room ? limit : room};
    struct message_access *access;
    uint8_t *payload;

    if (request->size && !limit) {
        remote_release(remote);
        return "a read of no window";
    }
    access = message_access_begin(peer, request, remote);
    if (!access)
        return no_memory;
    answer.send_id = message_handle_id(&access->handle);
    payload = srd_out_answer(peer, &answer, &access->move);
    if (!payload) {
        message_access_put(access);
        return no_memory;
    }
    iov_gather(access->remote.iov, access->remote.count, 0, payload, answer.len);
    access->move.at = answer.len;
    message_move_start(&access->move, limit);
    return NULL;
}

const char *srd_access_result(struct message_peer *peer, const struct message_request *request,
                              const uint8_t *bytes, size_t len)
{
    struct srd_header answer = {.type = SRD_ATOMRSP, .recv_id = request->id, .len = len};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};
    uint8_t *payload = srd_out_answer(peer, &answer, NULL);

    if (!payload)
        return no_memory;
    iov_gather(&iov, 1, 0, payload, len);
    message_peer_attend(peer);
    return NULL;
}

/* ---- Requests ---- */

static enum message_kind kind_of(uint8_t type)
{
    if (srd_has_msg_id(type))
        return MESSAGE_ATOMIC;
    return type == SRD_SHORT_RTR || type == SRD_LONGCTS_RTR ? MESSAGE_READ : MESSAGE_WRITE;
}

static uint64_t function_of(uint8_t type)
{
    return type == SRD_FETCH_RTA     ? FI_FETCH_ATOMIC
           : type == SRD_COMPARE_RTA ? FI_COMPARE_ATOMIC
                                     : 0;
}

/* An operand of what only reads says nothing. */
static size_t operand_bytes(const struct srd_header *header)
{
    bool reads = header->type == SRD_FETCH_RTA && header->op == FI_ATOMIC_READ;

    return reads && header->len == header->total ? 0 : header->len;
}

/* Answers to writes name their send_id, those to reads the recv_id. */
static const char *access_memory(struct message_peer *peer, const struct srd_header *header)
{
    enum message_kind kind = kind_of(header->type);
    uint64_t function = function_of(header->type);
    struct message_request request = {
        .kind = kind,
        .function = function,
        .has_data = header->flags & SRD_CQ_DATA,
        .receipt = srd_is_dc(header->type) || header->read_count,
        .id = kind == MESSAGE_READ || function ? header->recv_id : header->send_id,
        .number = header->msg_id,
        .taker = header->recv_id,
        .datatype = header->datatype,
        .op = header->op,
        .size = header->total,
        .window = header->window,
        .data = header->cq_data,
        .place_count = header->place_count,
        .places = header->places,
        .payload = header->payload,
        .len = operand_bytes(header),
    };

    return header->read_count ? srd_read_write(peer, header, &request)
                              : message_remote(peer, &request);
}

const char *srd_remote(struct message_peer *peer, const struct srd_header *header)
{
    if (header->type == SRD_EAGER_RTW && !header->place_count)
        return NULL; /* it asked for our HANDSHAKE, and has it */
    return access_memory(peer, header);
}
