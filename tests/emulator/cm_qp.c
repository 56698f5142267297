/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs of identifiers, and the attributes that a connection gives them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/rdma_verbs.h>

#include "cm.h"
#include "context.h"
#include "report.h"

static void fill_path(const struct cm_id *id, struct ibv_ah_attr *path)
{
    memset(path, 0, sizeof(*path));
    path->is_global = 1;
    path->port_num = id->id.port_num;
    path->grh.sgid_index = (uint8_t)id->sgid_index;
    path->grh.hop_limit = 64;
    memcpy(&path->grh.dgid, id->peer.source_gid, 16);
}

static int fill_init(const struct cm_id *id, struct ibv_qp_attr *attr)
{
    attr->port_num = id->id.port_num;
    if (id->id.qp_type == IBV_QPT_UD) {
        attr->qkey = id->qkey;
        return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
    }
    attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    if (id->responder_resources)
        attr->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
}

int cm_fill_attributes(struct cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
    enum ibv_qp_state state = attr->qp_state;
    bool has_peer = id->state >= CM_CONNECTING && id->peer.magic == CM_MAGIC;

    memset(attr, 0, sizeof(*attr));
    attr->qp_state = state;
    if (!id->id.verbs)
        return EINVAL;
    if (state == IBV_QPS_INIT) {
        *mask = fill_init(id, attr);
        return 0;
    }
    if (id->id.qp_type == IBV_QPT_UD) {
        *mask = state == IBV_QPS_RTS ? IBV_QP_STATE | IBV_QP_SQ_PSN : IBV_QP_STATE;
        return 0;
    }
    if (!has_peer)
        return EINVAL;
    if (state == IBV_QPS_RTR) {
        fill_path(id, &attr->ah_attr);
        attr->path_mtu = IBV_MTU_4096;
        attr->dest_qp_num = id->peer.qpn;
        attr->rq_psn = id->peer.psn;
        attr->max_dest_rd_atomic = id->responder_resources;
        *mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        return 0;
    }
    if (state != IBV_QPS_RTS)
        return EINVAL;
    attr->timeout = id->ack_timeout;
    attr->retry_cnt = id->retry;
    attr->rnr_retry = id->peer.rnr_retry;
    attr->sq_psn = id->psn;
    attr->max_rd_atomic = id->initiator_depth;
    *mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
            IBV_QP_MAX_QP_RD_ATOMIC;
    return 0;
}

int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
    loop_lock();
    int rc = cm_fill_attributes(cm_of(id), attr, mask);
    loop_unlock();
    return cm_result(rc);
}

static int change_state(struct cm_id *id, enum ibv_qp_state state)
{
    struct ibv_qp_attr attr = {.qp_state = state};
    int mask;
    int rc = cm_fill_attributes(id, &attr, &mask);

    return rc ? rc : ibv_modify_qp(id->id.qp, &attr, mask);
}

int cm_qp_to_ready(struct cm_id *id)
{
    if (!id->id.qp || id->id.qp_type == IBV_QPT_UD)
        return 0;
    /* Once more INIT: now it is known whether the peer may read. */
    int rc = change_state(id, IBV_QPS_INIT);
    if (!rc)
        rc = change_state(id, IBV_QPS_RTR);
    return rc ? rc : change_state(id, IBV_QPS_RTS);
}

int cm_qp_to_error(struct cm_id *id)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    if (!id->id.qp || id->id.qp_type == IBV_QPT_UD)
        return 0;
    return ibv_modify_qp(id->id.qp, &attr, IBV_QP_STATE);
}

static int prepare(struct cm_id *id)
{
    int rc = change_state(id, IBV_QPS_INIT);

    if (id->id.qp_type != IBV_QPT_UD)
        return rc;
    if (!rc)
        rc = change_state(id, IBV_QPS_RTR);
    return rc ? rc : change_state(id, IBV_QPS_RTS);
}

static void destroy_queues(struct cm_id *id)
{
    struct rdma_cm_id *public = &id->id;

    if (public->send_cq_channel && public->send_cq)
        ibv_destroy_cq(public->send_cq);
    if (public->recv_cq_channel && public->recv_cq)
        ibv_destroy_cq(public->recv_cq);
    if (public->send_cq_channel)
        ibv_destroy_comp_channel(public->send_cq_channel);
    if (public->recv_cq_channel)
        ibv_destroy_comp_channel(public->recv_cq_channel);
    public->send_cq = public->recv_cq = NULL;
    public->send_cq_channel = public->recv_cq_channel = NULL;
}

/* Completion queues for an application that gave none. */
static struct ibv_cq *make_queue(struct cm_id *id, uint32_t entries,
                                 struct ibv_comp_channel **channel)
{
    *channel = ibv_create_comp_channel(id->id.verbs);
    return *channel ? ibv_create_cq(id->id.verbs, entries ? (int)entries : 1, &id->id, *channel, 0)
                    : NULL;
}

static int complete_attributes(struct cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
    struct rdma_cm_id *public = &id->id;

    if (!public->verbs || public->qp)
        return EINVAL;
    if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd) {
        attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
        attr->pd = public->pd ? public->pd : cm_default_pd(public->verbs);
    }
    if (attr->pd->context != public->verbs) {
        report_why("rdma_create_qp: the protection domain is of another device context");
        return EINVAL;
    }
    if (attr->qp_type != public->qp_type)
        return EINVAL;
    if (!attr->recv_cq)
        attr->recv_cq = public->recv_cq =
            make_queue(id, attr->cap.max_recv_wr, &public->recv_cq_channel);
    if (!attr->send_cq)
        attr->send_cq = public->send_cq =
            make_queue(id, attr->cap.max_send_wr, &public->send_cq_channel);
    return attr->recv_cq && attr->send_cq ? 0 : ENOMEM;
}

int rdma_create_qp_ex(struct rdma_cm_id *public, struct ibv_qp_init_attr_ex *attr)
{
    struct cm_id *id = cm_of(public);

    loop_lock();
    int rc = complete_attributes(id, attr);
    if (!rc) {
        if (!attr->srq)
            attr->srq = public->srq;
        public->qp = ibv_create_qp_ex(public->verbs, attr);
        rc = public->qp ? prepare(id) : errno;
    }
    if (rc && public->qp) {
        ibv_destroy_qp(public->qp);
        public->qp = NULL;
    }
    if (rc) {
        destroy_queues(id);
    } else {
        public->pd = attr->pd;
        if (!public->send_cq)
        public->send_cq = attr->send_cq;
        if (!public->recv_cq)
        public->recv_cq = attr->recv_cq;
    }
    loop_unlock();
    return cm_result(rc);
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct ibv_qp_init_attr_ex extended = {
        .qp_context = attr->qp_context,
        .send_cq = attr->send_cq,
        .recv_cq = attr->recv_cq,
        .srq = attr->srq,
        .cap = attr->cap,
        .qp_type = attr->qp_type,
        .sq_sig_all = attr->sq_sig_all,
        .comp_mask = pd ? IBV_QP_INIT_ATTR_PD : 0,
        .pd = pd,
    };
    int rc = rdma_create_qp_ex(id, &extended);

    if (!rc)
        attr->cap = extended.cap;
    return rc;
}

void rdma_destroy_qp(struct rdma_cm_id *public)
{
    if (!public->qp)
        return;
    cm_leave_groups(cm_of(public));
    ibv_destroy_qp(public->qp);
    public->qp = NULL;
    destroy_queues(cm_of(public));
}

int rdma_create_srq_ex(struct rdma_cm_id *public, struct ibv_srq_init_attr_ex *attr)
{
    if (public->srq || !public->verbs)
        return cm_result(EINVAL);
    if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd) {
        attr->pd = public->pd ? public->pd : cm_default_pd(public->verbs);
        attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
    }
    public->srq = ibv_create_srq_ex(public->verbs, attr);
    if (!public->srq)
        return -1;
    public->pd = attr->pd;
    return 0;
}

int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    struct ibv_srq_init_attr_ex extended = {
        .srq_context = attr->srq_context,
        .attr = attr->attr,
        .comp_mask = pd ? IBV_SRQ_INIT_ATTR_PD : 0,
        .pd = pd,
    };

    return rdma_create_srq_ex(id, &extended);
}

void rdma_destroy_srq(struct rdma_cm_id *id)
{
    if (id->srq)
        ibv_destroy_srq(id->srq);
    id->srq = NULL;
}

int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
    return cm_result(ece && !ece->vendor_id && !ece->options ? 0 : EOPNOTSUPP);
}

int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
    memset(ece, 0, sizeof(*ece));
    return 0;
}
