/* SPDX-License-Identifier: BSD-2-Clause */
/* Accesses, at their target: the CPU carries them out, in memory of the domain's regions. */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/op/atomic.h"
#include "layers/srd/srd.h"

/* One that takes more than its packet. */
struct srd_access {
    struct srd_handle handle;
    struct srd_taker taker; /* of a write */
    struct srd_move move;   /* of a read */
    struct list link;
    struct remote remote;
    struct srd_header header;
};

static const char *const no_memory = "an access for which there is no memory";

static struct srd_access *access_of(struct srd_handle *handle)
{
    return object_of(handle, struct srd_access, handle);
}

struct srd_move *srd_access_move(struct srd_handle *handle)
{
    return &access_of(handle)->move;
}

struct srd_taker *srd_access_taker(struct srd_handle *handle)
{
    return &access_of(handle)->taker;
}

/* ---- Its end ---- */

static bool is_write(const struct srd_header *header)
{
    switch (header->type) {
    case SRD_SHORT_RTR:
    case SRD_LONGCTS_RTR:
    case SRD_FETCH_RTA:
    case SRD_COMPARE_RTA: return false;
    default: return true;
    }
}

static void count(struct srd_peer *peer, const struct srd_header *header,
                  const struct remote *remote)
{
    bool write = is_write(header), data = header->flags & SRD_CQ_DATA;

    mr_accessed(remote->mrs, remote->mr_count, remote->access);
    if (!mr_counted(remote->mrs, remote->mr_count) && !data)
        return;
    complete(&peer->ep->base.binding, write ? BIND_REMOTE_WRITE : BIND_REMOTE_READ, data, NULL,
             FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, header->total, NULL, header->cq_data, 0,
             srd_peer_source(peer));
}

static void send_receipt(struct srd_peer *peer, const struct srd_header *header)
{
    struct srd_header receipt = {
        .type = SRD_RECEIPT, .send_id = header->send_id, .msg_id = header->msg_id};

    if (srd_is_dc(header->type))
        srd_out_control(peer, &receipt);
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
static void refuse(struct srd_peer *peer, const struct srd_header *header, int err)
{
    if (is_write(header) && !srd_is_dc(header->type))
        LOG_WARN("srd", FI_LOG_EP_DATA, ": a %s is refused, and nobody hears of it: %s",
                 srd_type_name(header->type), fi_strerror(err));
    else
        srd_out_error(peer, is_write(header) ? header->send_id : header->recv_id, code_of(err));
}

static void access_put(struct srd_access *access)
{
    list_detach(&access->link);
    srd_take_stop(&access->taker);
    if (access->move.pending || !list_empty(&access->move.link))
        srd_move_drop(&access->move);
    srd_handle_close(&access->handle);
    remote_release(&access->remote);
    free(access);
}

static void end(struct srd_access *access)
{
    struct srd_peer *peer = access->handle.peer;

    send_receipt(peer, &access->header);
    count(peer, &access->header, &access->remote);
    access_put(access);
}

static void written(struct srd_taker *taker)
{
    end(object_of(taker, struct srd_access, taker));
}

static void has_read(struct srd_move *move)
{
    if (move->at == move->total)
        end(object_of(move, struct srd_access, move));
}

static bool alive(struct srd_taker *taker)
{
    struct srd_access *access = object_of(taker, struct srd_access, taker);

    if (!mr_any_closed(access->remote.mrs, access->remote.mr_count))
        return true;
    refuse(access->handle.peer, &access->header, FI_EACCES);
    access_put(access);
    return false;
}

/* Takes the remote's regions over. */
static struct srd_access *begin(struct srd_peer *peer, const struct srd_header *header,
                                struct remote *remote)
{
    struct srd_access *access = malloc(sizeof(*access));
    bool write = is_write(header);

    if (access &&
        srd_handle_open(&access->handle, write ? SRD_OF_WRITTEN : SRD_OF_BEING_READ, peer)) {
        free(access);
        access = NULL;
    }
    if (!access) {
        remote_release(remote);
        return NULL;
    }
    access->remote = *remote;
    access->header = *header;
    access->taker = (struct srd_taker){
        .iov = access->remote.iov,
        .iov_count = remote->count,
        .ended = written,
        .alive = alive,
    };
    access->move = (struct srd_move){
        .peer = peer,
        .iov = access->remote.iov,
        .iov_count = remote->count,
        .total = header->total,
        .taker = header->recv_id,
        .held = &access->remote,
        .idle = has_read,
    };
    list_init(&access->move.link);
    list_attach(&access->link, &peer->accesses);
    return access;
}

/* ---- Writes and reads ---- */

static const char *write_memory(struct srd_peer *peer, const struct srd_header *header,
                                struct remote *remote)
{
    struct srd_access *access;

    iov_scatter(remote->iov, remote->count, 0, header->payload, header->len);
    if (header->len == header->total) {
        send_receipt(peer, header);
        count(peer, header, remote);
        remote_release(remote);
        return NULL;
    }
    access = begin(peer, header, remote);
    if (!access)
        return no_memory;
    srd_take(&access->taker, &access->handle, header->send_id, header->len, 0, header->total);
    return NULL;
}

/* The first bytes leave with the response, the rest as it is asked for. */
static const char *read_memory(struct srd_peer *peer, const struct srd_header *header,
                               struct remote *remote)
{
    size_t room = peer->ep->mtu - SRD_RESPONSE_HEAD;
    size_t limit = header->window < header->total ? header->window : header->total;
    struct srd_header answer = {.type = SRD_READRSP, .recv_id = header->recv_id};
    struct srd_access *access;
    uint8_t *payload;

    if (header->total && !limit) {
        remote_release(remote);
        return "a read of no window";
    }
    access = begin(peer, header, remote);
    if (!access)
        return no_memory;
    answer.len = limit < room ? limit : room;
    answer.send_id = srd_handle_id(&access->handle);
    payload = srd_out(peer, &answer, &access->move);
    if (!payload) {
        access_put(access);
        return no_memory;
    }
    iov_gather(access->remote.iov, access->remote.count, 0, payload, answer.len);
    access->move.at = answer.len;
    access->move.limit = limit;
    if (access->move.at < limit)
        list_attach(&access->move.link, &peer->ep->moving);
    srd_peer_attend(peer);
    return NULL;
}

static const char *access_memory(struct srd_peer *peer, const struct srd_header *header)
{
    bool write = is_write(header);
    struct fi_rma_iov rma[SRD_PLACES];
    struct op op = {
        .group = OP_GROUP_RMA,
        .kind = FI_RMA | (write ? FI_WRITE : FI_READ),
        .rma = rma,
        .rma_count = header->place_count,
    };
    struct remote remote;
    int rc;

    for (unsigned i = 0; i < header->place_count; i++)
        rma[i] = (struct fi_rma_iov){header->places[i].addr, header->places[i].len,
                                     header->places[i].key};
    rc = remote_resolve(peer->ep->domain->base.mrs, &op, &remote);
    if (rc) {
        refuse(peer, header, -rc);
        return NULL;
    }
    return write ? write_memory(peer, header, &remote) : read_memory(peer, header, &remote);
}

/* ---- Atomics ---- */

static uint64_t function_of(uint8_t type)
{
    return type == SRD_FETCH_RTA     ? FI_FETCH_ATOMIC
           : type == SRD_COMPARE_RTA ? FI_COMPARE_ATOMIC
                                     : 0;
}

/* Cuts the payload into operands. False where it is of another size. */
static bool set_operands(const struct srd_header *header, struct op *op, struct fi_ioc ioc[3],
                         void *result)
{
    size_t bytes = header->total;
    bool reads = op->op == FI_ATOMIC_READ, compares = header->type == SRD_COMPARE_RTA;
    uint8_t *payload = (uint8_t *)(uintptr_t)header->payload;

    if (bytes > REMOTE_OPERAND || header->len != (reads ? 0 : bytes) + (compares ? bytes : 0))
        return false;
    ioc[0] = (struct fi_ioc){payload, op->len};
    ioc[1] = (struct fi_ioc){payload + (reads ? 0 : bytes), op->len};
    ioc[2] = (struct fi_ioc){result, op->len};
    op->ioc = &ioc[0];
    op->count = !reads;
    op->compare = (struct op_operand){&ioc[1], NULL, compares};
    op->result = (struct op_operand){&ioc[2], NULL, op->function != 0};
    return true;
}

/* The elements of its places. False: bytes that are no whole elements. */
static bool set_elements(const struct srd_header *header, struct op *op, struct fi_rma_ioc *rma)
{
    size_t unit = atomic_size(op->datatype);

    for (unsigned i = 0; i < header->place_count; i++) {
        if (header->places[i].len % unit)
            return false;
        rma[i] = (struct fi_rma_ioc){header->places[i].addr, header->places[i].len / unit,
                                     header->places[i].key};
        op->len += rma[i].count;
    }
    return op->len;
}

static const char *answer_atomic(struct srd_peer *peer, const struct srd_header *header,
                                 const uint8_t *result)
{
    struct srd_header answer = {
        .type = SRD_ATOMRSP, .recv_id = header->recv_id, .len = header->total};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)result, .iov_len = header->total};
    uint8_t *payload;

    if (is_write(header)) {
        send_receipt(peer, header);
        return NULL;
    }
    payload = srd_out(peer, &answer, NULL);
    if (!payload)
        return no_memory;
    iov_gather(&iov, 1, 0, payload, header->total);
    srd_peer_attend(peer);
    return NULL;
}

static const char *do_atomic(struct srd_peer *peer, const struct srd_header *header)
{
    struct fi_rma_ioc rma[SRD_PLACES];
    struct fi_ioc ioc[3];
    _Alignas(16) uint8_t result[REMOTE_OPERAND];
    struct op op = {
        .group = OP_GROUP_ATOMIC,
        .kind = FI_ATOMIC | (is_write(header) ? FI_WRITE : FI_READ),
        .function = function_of(header->type),
        .datatype = (enum fi_datatype)header->datatype,
        .op = (enum fi_op)header->op,
        .rma_ioc = rma,
        .rma_count = header->place_count,
    };
    struct remote remote;
    const char *wrong;
    int rc = atomic_valid(op.datatype, op.op, op.function) ? 0 : -FI_EOPNOTSUPP;

    if (!rc && (!set_elements(header, &op, rma) || !set_operands(header, &op, ioc, result) ||
                header->total > peer->ep->mtu - SRD_RESPONSE_HEAD))
        return "an atomic of another size than its operands";
    if (!rc)
        rc = remote_resolve(peer->ep->domain->base.mrs, &op, &remote);
    if (rc) {
        refuse(peer, header, -rc);
        return NULL;
    }
    remote_access(&op, &remote);
    wrong = answer_atomic(peer, header, result);
    count(peer, header, &remote);
    remote_release(&remote);
    return wrong;
}

/* We cannot read for a write: the bytes are to be sent. */
static const char *refuse_to_read(struct srd_peer *peer, const struct srd_header *header)
{
    struct srd_header nack = {.type = SRD_READ_NACK, .send_id = header->send_id};

    srd_out_control(peer, &nack);
    return NULL;
}

const char *srd_remote(struct srd_peer *peer, const struct srd_header *header)
{
    if (srd_has_msg_id(header->type))
        return do_atomic(peer, header);
    if (header->type == SRD_LONGREAD_RTW)
        return refuse_to_read(peer, header);
    if (header->type == SRD_EAGER_RTW && !header->place_count)
        return NULL; /* it asked for our HANDSHAKE, and has it */
    return access_memory(peer, header);
}

void srd_remote_fail(struct srd_peer *peer)
{
    list_for_each_safe (pos, after, &peer->accesses)
        access_put(list_item(pos, struct srd_access, link));
}
