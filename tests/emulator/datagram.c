/* SPDX-License-Identifier: BSD-2-Clause */
/* Unreliable datagrams: one without a receive is dropped, and the sender does not know. */
#include <string.h>

#include "ah.h"
#include "context.h"
#include "efa.h"
#include "fault.h"
#include "loop.h"
#include "multicast.h"
#include "rc.h"
#include "report.h"

enum {
    HEADER = sizeof(struct ibv_grh),
};

static enum ibv_wc_status check(struct qp *qp, const struct send_wr *wr)
{
    struct iovec pieces[64];
    enum ibv_wc_status fault = fault_request(qp->device, wr->opcode);

    if (fault != IBV_WC_SUCCESS)
        return fault;
    if (wr->length > (qp->device->efa ? EFA_MTU : DEVICE_MTU))
        return IBV_WC_LOC_LEN_ERR;
    return qp_gather(qp, wr, 0, wr->length, 0, pieces) < 0 ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS;
}

static void send_datagram(struct qp *qp, struct link *link, const struct send_wr *wr)
{
    struct wire_packet packet = qp_packet(qp, &wr->route, wr->remote_qpn);
    struct iovec pieces[64];

    packet.kind = WIRE_DATAGRAM;
    packet.total = packet.length = wr->length;
    /* The highest bit asks for the key of the queue pair. */
    packet.qkey = wr->remote_qkey >> 31 ? qp->attr.qkey : wr->remote_qkey;
    if (wr->flags & IBV_SEND_SOLICITED)
        packet.flags |= WIRE_SOLICITED;
    if (wr->opcode == IBV_WR_SEND_WITH_IMM) {
        packet.flags |= WIRE_IMMEDIATE;
        packet.immediate = wr->immediate;
    }
    int count = qp_gather(qp, wr, 0, wr->length, 0, pieces);
    link_send(link, &packet, pieces, count);
}

static bool is_multicast(const struct send_wr *wr)
{
    return wr->remote_qpn == WIRE_MULTICAST_QPN;
}

/* Sends one request; false if the peer's link is full. */
static bool send_request(struct qp *qp, const struct send_wr *wr)
{
    if (fault_drop(qp->device) || qp->device->ports[qp->attr.port_num - 1].down)
        return true;
    if (is_multicast(wr)) {
        unsigned nodes[WIRE_NODES];
        unsigned count = node_list(nodes, WIRE_NODES);
        for (unsigned i = 0; i < count; i++) {
            struct link *link = node_link(nodes[i]);
            if (link && link_ready(link))
                send_datagram(qp, link, wr);
        }
        return true;
    }
    struct link *link = node_link(wr->remote_qpn >> WIRE_PLACE_BITS);
    if (link && !link_ready(link)) {
        link_wait(link, &qp->waiter);
        return false;
    }
    if (link)
        send_datagram(qp, link, wr);
    return true;
}

void datagram_pump(struct qp *qp)
{
    struct requester *requester = &qp->requester;
    const struct ibv_qp *public = qp_public(qp);

    while (requester->head != requester->tail) {
        struct send_wr *wr = qp_request(qp, requester->head);
        if (public->state == IBV_QPS_ERR || public->state == IBV_QPS_SQE) {
            qp_complete_send(qp, IBV_WC_WR_FLUSH_ERR);
            return;
        }
        if (public->state != IBV_QPS_RTS)
            return;
        if (!wr->checked) {
            wr->checked = true;
            wr->failed = check(qp, wr);
        }
        if (!wr->failed && !send_request(qp, wr))
            return;
        requester->next++;
        qp_complete_send(qp, wr->failed);
    }
}

static uint64_t receive_room(const struct recv_wr *wr)
{
    uint64_t room = 0;

    for (int i = 0; i < wr->num_sge; i++)
        room += wr->sges[i].length;
    return room;
}

static enum ibv_wc_status deliver(struct qp *qp, const struct wire_packet *packet,
                                  const void *payload)
{
    struct responder *responder = &qp->responder;
    char header[HEADER];

    if (receive_room(&responder->wr) < (uint64_t)packet->length + HEADER)
        return IBV_WC_LOC_LEN_ERR;
    ah_write_header(packet, header);
    if (!qp_scatter(qp, responder->wr.sges, responder->wr.num_sge, 0, header, HEADER) ||
        !qp_scatter(qp, responder->wr.sges, responder->wr.num_sge, HEADER, payload, packet->length))
        return IBV_WC_LOC_PROT_ERR;
    return IBV_WC_SUCCESS;
}

void datagram_receive(struct qp *qp, const struct wire_packet *packet, const void *payload)
{
    const struct ibv_qp *public = qp_public(qp);
    struct ibv_wc wc = {
        .opcode = IBV_WC_RECV,
        .byte_len = packet->length + HEADER,
        .src_qp = qp->device->efa ? efa_number(packet->source_qpn) : packet->source_qpn,
        .wc_flags = IBV_WC_GRH,
    };

    if (public->state < IBV_QPS_RTR || public->state == IBV_QPS_ERR ||
        packet->qkey != qp->attr.qkey) {
        report_why("queue pair %#x: a datagram with the key %#x is dropped", public->qp_num,
                   packet->qkey);
        return;
    }
    if (fault_not_ready(qp->device) || !qp_take_receive(qp)) {
        report_why("queue pair %#x: a datagram finds no receive", public->qp_num);
        return;
    }
    wc.status = deliver(qp, packet, payload);
    if (qp->device->efa)
        wc.slid = (uint16_t)efa_ah_find(public->pd, packet->source_gid);
    if (packet->flags & WIRE_IMMEDIATE) {
        wc.wc_flags |= IBV_WC_WITH_IMM;
        wc.imm_data = packet->immediate;
    }
    qp_complete_receive(qp, &wc, packet->flags & WIRE_SOLICITED);
    if (wc.status != IBV_WC_SUCCESS)
        qp_fail(qp);
}
