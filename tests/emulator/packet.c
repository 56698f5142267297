/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "device.h"
#include "efa.h"
#include "multicast.h"
#include "packet.h"
#include "rc.h"

static bool is_request(unsigned kind)
{
    return kind >= WIRE_SEND && kind <= WIRE_ADD;
}

/* Tells the sender of a request that a device would have kept silent. */
static void answer_lost(const struct wire_packet *packet)
{
    struct wire_packet answer = {
        .kind = WIRE_LOST,
        .message = packet->message,
        .source_qpn = packet->target_qpn,
        .target_qpn = packet->source_qpn,
        .gid_type = packet->gid_type,
    };
    struct link *link = node_link(packet->source_qpn >> WIRE_PLACE_BITS);

    memcpy(answer.source_gid, packet->target_gid, 16);
    memcpy(answer.target_gid, packet->source_gid, 16);
    if (link)
        link_send(link, &answer, NULL, 0);
}

/* Whether the packet came from the peer, and to an address of the queue pair's port. */
static bool is_from_peer(const struct qp *qp, const struct wire_packet *packet)
{
    return packet->source_qpn == qp->attr.dest_qp_num && packet->gid_type == qp->route.gid_type &&
           memcmp(packet->source_gid, qp->route.target_gid, 16) == 0 &&
           memcmp(packet->target_gid, qp->route.source_gid, 16) == 0;
}

static bool takes_requests(const struct qp *qp)
{
    enum ibv_qp_state state = qp->ex.qp_base.state;

    return state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD;
}

static bool port_is_down(const struct qp *qp)
{
    unsigned number = qp->attr.port_num;

    return qp->device->removed || number == 0 || qp->device->ports[number - 1].down;
}

static void receive_connected(struct qp *qp, const struct wire_packet *packet, const void *payload)
{
    if (!is_request(packet->kind)) {
        if (!is_from_peer(qp, packet))
            return;
        if (port_is_down(qp))
            requester_lost(qp); /* an answer that does not come in */
        else
            requester_receive(qp, packet, payload);
        return;
    }
    if (!takes_requests(qp) || !is_from_peer(qp, packet) || port_is_down(qp))
        answer_lost(packet);
    else
        responder_receive(qp, packet, payload);
}

static void receive_datagram(struct qp *qp, const struct wire_packet *packet, const void *payload)
{
    if (qp && qp->ex.qp_base.qp_type == IBV_QPT_UD && !port_is_down(qp) &&
        device_has_gid(qp->device, qp->attr.port_num, packet->target_gid, packet->gid_type))
        datagram_receive(qp, packet, payload);
}

static void receive_srd(struct qp *qp, const struct wire_packet *packet, const void *payload)
{
    bool there = qp && qp->ex.qp_base.qp_type == IBV_QPT_DRIVER && !port_is_down(qp);

    if (packet->kind == WIRE_SRD_ANSWER || packet->kind == WIRE_SRD_DATA) {
        if (there)
            srd_answered(qp, packet, payload);
    } else if (!there) {
        srd_answer(packet, EFA_BAD_QPN);
    } else if (!device_has_gid(qp->device, qp->attr.port_num, packet->target_gid,
                               packet->gid_type)) {
        srd_answer(packet, EFA_UNREACHABLE);
    } else {
        srd_receive(qp, packet, payload);
    }
}

void packet_receive(const struct wire_packet *packet, const void *payload)
{
    if (packet->kind == WIRE_DATAGRAM && packet->target_qpn == WIRE_MULTICAST_QPN) {
        multicast_receive(packet, payload);
        return;
    }
    struct qp *qp = qp_find(packet->target_qpn);
    if (packet->kind == WIRE_DATAGRAM)
        receive_datagram(qp, packet, payload);
    else if (packet->kind >= WIRE_SRD)
        receive_srd(qp, packet, payload);
    else if (qp && qp->ex.qp_base.qp_type == IBV_QPT_RC)
        receive_connected(qp, packet, payload);
    else if (is_request(packet->kind))
        answer_lost(packet);
}

static void check_peer(struct qp *qp, void *argument)
{
    const unsigned *node = argument;

    if (qp->ex.qp_base.qp_type == IBV_QPT_DRIVER)
        srd_peer_gone(qp, *node);
    if (qp->ex.qp_base.qp_type == IBV_QPT_RC && qp->ex.qp_base.state >= IBV_QPS_RTS &&
        qp->attr.dest_qp_num >> WIRE_PLACE_BITS == *node &&
        (qp->requester.head != qp->requester.next || qp->requester.offset))
        requester_lost(qp);
}

void packet_peer_gone(unsigned node)
{
    qp_each(check_peer, &node);
}
