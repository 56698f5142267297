/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "transports/verbs/verbs_atomic.h"
#include "transports/verbs/verbs_ep.h"
#include "transports/verbs/verbs_srx.h"
#include "transports/verbs/verbs_wr.h"

enum {
    ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
    SIGNAL_EVERY_MOST = 32,
};

int verbs_ring_init(struct verbs_ring *ring, size_t limit)
{
    uint32_t size = 1;

    if (limit > 1 << 20)
        return -FI_EINVAL;
    while (size < limit)
        size *= 2;
    *ring = (struct verbs_ring){.mask = size - 1, .limit = (uint32_t)limit};
    return 0;
}

static int open_rings(struct verbs_ep *ep)
{
    int rc = verbs_ring_init(&ep->tx, ep->base.tx_size);

    if (!rc)
        rc = verbs_ring_init(&ep->rx, ep->srx ? 0 : ep->base.rx_size);
    if (rc)
        return rc;
    ep->sends = calloc(ep->tx.mask + 1, sizeof(*ep->sends));
    ep->recvs = calloc(ep->rx.mask + 1, sizeof(*ep->recvs));
    ep->signal_every = ep->tx.limit / 4 < SIGNAL_EVERY_MOST ? ep->tx.limit / 4 : SIGNAL_EVERY_MOST;
    return ep->sends && ep->recvs ? 0 : -FI_ENOMEM;
}

static int create_qp(struct verbs_ep *ep)
{
    struct ibv_qp_init_attr attr = {
        .qp_context = ep,
        .send_cq = ep->cq->ibv,
        .recv_cq = ep->cq->ibv,
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = 0,
        .srq = ep->srx ? ep->srx->ibv : NULL,
        .cap = {.max_send_wr = ep->tx.limit,
                .max_recv_wr = ep->rx.limit,
                .max_send_sge = (uint32_t)ep->tx_iov_limit,
                .max_recv_sge = ep->srx ? 0 : (uint32_t)ep->rx_iov_limit,
                .max_inline_data = (uint32_t)ep->inline_size},
    };

    int rc = verbs_wr_create_qp(ep, &attr);

    if (!rc)
        return 0;
    LOG_WARN("verbs", FI_LOG_EP_CTRL,
             "%s makes no queue pair with %u sends, %u receives, %zu bytes inline: %s",
             ep->domain->device->name, ep->tx.limit, ep->rx.limit, ep->inline_size,
             fi_strerror(-rc));
    return rc;
}

static unsigned access_of(const struct verbs_ep *ep)
{
    return ACCESS |
           (verbs_has_atomics(ep->domain->device) ? (unsigned)IBV_ACCESS_REMOTE_ATOMIC : 0);
}

/* The port that the source address is on is not known here where there is none; rdma_cm says it
 * later, and a queue pair may go from this state to itself. */
static int to_init(struct verbs_ep *ep)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .pkey_index = 0, .port_num = 1, .qp_access_flags = access_of(ep)};

    return verbs_error(verbs_lib.modify_qp(
        ep->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

/* Sends and receives have one queue of the device. */
static int vector_of(const struct binding *binding)
{
    if (binding->tx && binding->tx->vector >= 0)
        return binding->tx->vector;
    return binding->rx ? binding->rx->vector : -1;
}

int verbs_qp_open(struct verbs_ep *ep)
{
    size_t entries = ep->base.tx_size + (ep->srx ? ep->srx->size : ep->base.rx_size);
    int rc = open_rings(ep);

    if (!rc)
        rc = verbs_cq_join(ep->domain, ep->base.binding.progress, ep, entries,
                           vector_of(&ep->base.binding), &ep->cq, &ep->number);
    if (!rc) {
        ep->entries = entries;
        rc = create_qp(ep);
    }
    if (!rc)
        rc = to_init(ep);
    if (!rc)
        rc = verbs_chain_open(ep);
    if (!rc)
        rc = verbs_srx_join(ep);
    if (!rc)
        rc = verbs_atomic_open(ep);
    if (rc)
        verbs_qp_close(ep);
    return rc;
}

void verbs_qp_close(struct verbs_ep *ep)
{
    verbs_srx_leave(ep);
    if (ep->qp)
        verbs_lib.destroy_qp(ep->qp);
    verbs_atomic_close(ep);
    verbs_chain_close(ep);
    if (ep->cq)
        verbs_cq_leave(ep->cq, ep->number, ep->entries);
    free(ep->sends);
    free(ep->recvs);
    ep->qp = NULL;
    ep->cq = NULL;
    ep->sends = NULL;
    ep->recvs = NULL;
}

void verbs_qp_abandon(struct verbs_ep *ep)
{
    ep->qp = NULL;
    ep->discard_mr = NULL;
    verbs_qp_close(ep);
}

static int move_to(struct verbs_ep *ep, enum ibv_qp_state state, struct ibv_qp_attr *attr,
                   int *mask)
{
    memset(attr, 0, sizeof(*attr));
    attr->qp_state = state;
    if (verbs_cm_lib.init_qp_attr(ep->id, attr, mask))
        return verbs_error(-1);
    return 0;
}

/* The address may have been taken off its interface since the connection was asked for. */
static int name_lost_gid(const struct verbs_ep *ep, const struct ibv_qp_attr *attr, int rc)
{
    static const union ibv_gid none;
    unsigned index = attr->ah_attr.grh.sgid_index;
    union ibv_gid gid;

    if (!rc || !attr->ah_attr.is_global)
        return rc;
    gid = none;
    if (!verbs_lib.query_gid(ep->domain->device->context, attr->ah_attr.port_num, (int)index,
                             &gid) &&
        memcmp(&gid, &none, sizeof(gid)) != 0)
        return rc;
    LOG_WARN("verbs", FI_LOG_EP_CTRL,
             "%s has lost GID %u of its port %u: is the address still on its interface?",
             ep->domain->device->name, index, attr->ah_attr.port_num);
    return -FI_EADDRNOTAVAIL;
}

int verbs_qp_connect(struct verbs_ep *ep, int initiator_depth, int responder_resources)
{
    struct ibv_qp_attr attr;
    int mask, rc = move_to(ep, IBV_QPS_INIT, &attr, &mask);

    attr.qp_access_flags = access_of(ep);
    if (!rc)
        rc = verbs_error(verbs_lib.modify_qp(ep->qp, &attr, mask));
    if (!rc)
        rc = move_to(ep, IBV_QPS_RTR, &attr, &mask);
    if (rc)
        return rc;
    if (mask & IBV_QP_MIN_RNR_TIMER)
        attr.min_rnr_timer = ep->rnr_timer;
    if (responder_resources >= 0 && mask & IBV_QP_MAX_DEST_RD_ATOMIC)
        attr.max_dest_rd_atomic = (uint8_t)responder_resources;
    rc = name_lost_gid(ep, &attr, verbs_error(verbs_lib.modify_qp(ep->qp, &attr, mask)));
    if (!rc)
        rc = move_to(ep, IBV_QPS_RTS, &attr, &mask);
    if (rc)
        return rc;
    if (initiator_depth >= 0 && mask & IBV_QP_MAX_QP_RD_ATOMIC)
        attr.max_rd_atomic = (uint8_t)initiator_depth;
    return verbs_error(verbs_lib.modify_qp(ep->qp, &attr, mask));
}

void verbs_qp_fail(struct verbs_ep *ep)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    if (ep->qp)
        verbs_lib.modify_qp(ep->qp, &attr, IBV_QP_STATE);
}
