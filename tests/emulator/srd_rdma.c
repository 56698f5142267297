/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads and writes of remote memory on queue pairs of SRD. A request leaves in pieces, each of
 * which is answered by itself: they come in any order, as other datagrams do. Immediate data leaves
 * when all pieces are in place, and takes a receive of the target's.
 */
#include <string.h>

#include "context.h"
#include "efa.h"
#include "memory.h"
#include "qp.h"

enum {
    PIECES = 64
};

bool srd_is_rdma(enum ibv_wr_opcode opcode)
{
    return opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_RDMA_WRITE ||
           opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* ---- Requests ---- */

static bool has_left(const struct send_wr *wr)
{
    return wr->begun && wr->sent == wr->length;
}

static void send_piece(struct qp *qp, struct send_wr *wr, uint32_t mark, struct link *link)
{
    struct wire_packet packet = qp_packet(qp, &wr->route, wr->remote_qpn);
    uint32_t left = wr->length - wr->sent;
    uint32_t length = left < WIRE_PAYLOAD ? left : WIRE_PAYLOAD;
    struct iovec pieces[PIECES];
    int count = 0;

    packet.message = mark;
    packet.qkey = wr->remote_qkey;
    packet.rkey = wr->rkey;
    packet.remote_address = wr->remote_address;
    packet.offset = wr->sent;
    packet.total = wr->length;
    packet.operand[0] = length;
    packet.kind = WIRE_SRD_READ;
    if (wr->opcode != IBV_WR_RDMA_READ) {
        packet.kind = WIRE_SRD_WRITE;
        packet.length = length;
        count = qp_gather(qp, wr, wr->sent, length, 0, pieces);
    }
    wr->begun = true;
    wr->sent += length;
    wr->out++;
    link_send(link, &packet, pieces, count);
}

static void send_immediate(struct qp *qp, struct send_wr *wr, uint32_t mark, struct link *link)
{
    struct wire_packet packet = qp_packet(qp, &wr->route, wr->remote_qpn);

    packet.kind = WIRE_SRD_WRITE;
    packet.flags = WIRE_IMMEDIATE;
    packet.immediate = wr->immediate;
    packet.message = mark;
    packet.qkey = wr->remote_qkey;
    packet.operand[0] = wr->length;
    packet.operand[1] = qp->unsolicited;
    wr->told = true;
    wr->out++;
    link_send(link, &packet, NULL, 0);
}

bool srd_rdma_send(struct qp *qp, struct send_wr *wr, uint32_t mark, struct link *link)
{
    while (!has_left(wr)) {
        if (!link_ready(link)) {
            srd_await_link(qp, link);
            return false;
        }
        send_piece(qp, wr, mark, link);
    }
    if (!wr->out && wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM && !wr->told)
        send_immediate(qp, wr, mark, link);
    return true;
}

enum srd_end srd_rdma_answered(struct qp *qp, struct send_wr *wr, const struct wire_packet *packet,
                               const void *payload)
{
    if (!wr->out)
        return SRD_GOES_ON;
    if (packet->kind == WIRE_SRD_DATA &&
        (wr->opcode != IBV_WR_RDMA_READ || packet->total != wr->length ||
         !qp_scatter(qp, wr->sges, wr->num_sge, packet->offset, payload, packet->length)))
        return SRD_GOES_ON;
    wr->out--;
    if (packet->status == EFA_RNR)
        wr->told = false;
    if (packet->status != EFA_OK || wr->out || !has_left(wr))
        return SRD_GOES_ON;
    return wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM && !wr->told ? SRD_SENDS_AGAIN : SRD_ENDS;
}

/* ---- At the target ---- */

static void execute_write(struct qp *qp, const struct wire_packet *packet, const void *payload)
{
    char *at = NULL;

    if (packet->length)
        at = memory_remote(qp->ex.qp_base.pd, packet->rkey, packet->remote_address + packet->offset,
                           packet->length, IBV_ACCESS_REMOTE_WRITE);
    if (packet->length && !at) {
        srd_answer(packet, EFA_BAD_ADDRESS);
        return;
    }
    if (packet->length)
        memcpy(at, payload, packet->length);
    srd_answer(packet, EFA_OK);
}

static void execute_read(struct qp *qp, const struct wire_packet *packet)
{
    uint32_t length = (uint32_t)packet->operand[0];
    struct iovec piece = {.iov_len = length};

    if (packet->operand[0] > WIRE_PAYLOAD || packet->operand[0] > packet->total - packet->offset) {
        srd_answer(packet, EFA_BAD_LENGTH);
        return;
    }
    if (length)
        piece.iov_base =
            memory_remote(qp->ex.qp_base.pd, packet->rkey, packet->remote_address + packet->offset,
                          length, IBV_ACCESS_REMOTE_READ);
    if (length && !piece.iov_base)
        srd_answer(packet, EFA_BAD_ADDRESS);
    else
        srd_answer_data(packet, &piece);
}

void srd_rdma_receive(struct qp *qp, const struct wire_packet *packet, const void *payload)
{
    if (efa_ah_find(qp->ex.qp_base.pd, packet->source_gid) == EFA_NO_AHN)
        srd_answer(packet, EFA_UNKNOWN_PEER);
    else if (packet->kind == WIRE_SRD_READ)
        execute_read(qp, packet);
    else
        execute_write(qp, packet, payload);
}
