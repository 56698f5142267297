/* SPDX-License-Identifier: BSD-2-Clause */
/* The objects of the device that an endpoint has: channel, completion queue, queue pair. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>

#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "transports/efa/efa.h"

enum {
    LOW_LATENCY = 8, /* service level */
    /* Newer than verbs.h of rdma-core 44, whose libraries answer 0 to the flag. */
    ORDER_BY_MASK = 1 << 0, /* flag of ibv_query_qp_data_in_order */
    ORDER_OF_ALL = 1 << 0,
    ORDER_OF_BLOCKS = 1 << 1,
};

/* As newer releases of efadv.h have it; rdma-core 44 wants 0 in the last four bytes. */
struct efa_qp_attr {
    uint64_t comp_mask;
    uint32_t type;
    uint16_t flags;
    uint8_t service_level, reserved;
};

_Static_assert(sizeof(struct efa_qp_attr) == sizeof(struct efadv_qp_init_attr), "efadv.h");

static int make_ready(struct efa_ep *ep)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .rnr_retry = ep->rnr_retry, .qkey = ep->name.qkey};
    bool retries =
        !ep->prefix && ep->domain->device->efa.device_caps & EFADV_DEVICE_ATTR_CAPS_RNR_RETRY;
    int rc = verbs_lib.modify_qp(ep->qp, &attr,
                                 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);

    attr.qp_state = IBV_QPS_RTR;
    if (!rc)
        rc = verbs_lib.modify_qp(ep->qp, &attr, IBV_QP_STATE);
    attr.qp_state = IBV_QPS_RTS;
    if (!rc)
        rc = verbs_lib.modify_qp(ep->qp, &attr,
                                 IBV_QP_STATE | IBV_QP_SQ_PSN | (retries ? IBV_QP_RNR_RETRY : 0));
    return verbs_error(rc);
}

void efa_qp_close(struct efa_ep *ep)
{
    if (ep->qp)
        verbs_lib.destroy_qp(ep->qp);
    if (ep->cq)
        verbs_lib.destroy_cq(ep->cq);
    if (ep->channel)
        verbs_lib.destroy_comp_channel(ep->channel);
    ep->channel = NULL;
    ep->qp = NULL;
    ep->ex = NULL;
    ep->cq = NULL;
    ep->extended = NULL;
    ep->fields = NULL;
}

/* Its events are taken with the progress domain locked: never waited for. Older devices have none.
 */
static void open_channel(struct efa_ep *ep)
{
    int flags;

    ep->channel = verbs_lib.create_comp_channel(ep->domain->device->context);
    if (!ep->channel)
        return;
    flags = fcntl(ep->channel->fd, F_GETFL);
    if (flags >= 0 && !fcntl(ep->channel->fd, F_SETFL, flags | O_NONBLOCK))
        return;
    verbs_lib.destroy_comp_channel(ep->channel);
    ep->channel = NULL;
}

/* A queue that tells the GID of senders without a handle and, if the endpoint wants that, data of
 * writes without a receive. NULL: the device or the library has none. */
static struct ibv_cq *create_extended(struct efa_ep *ep, int size, int vector)
{
    struct ibv_cq_init_attr_ex attr = {
        .cqe = (uint32_t)size,
        .channel = ep->channel,
        .comp_vector = (uint32_t)vector,
        .wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_SRC_QP |
                    IBV_WC_EX_WITH_SLID,
    };
    struct efadv_cq_init_attr efa = {
        .wc_flags = EFADV_WC_EX_WITH_SGID | (ep->unsolicited ? (uint64_t)EFA_CQ_UNSOLICITED : 0)};
    const struct efa_device *device = ep->domain->device;

    if (!efa_direct.create_cq || !efa_direct.cq_from_ibv_cq_ex ||
        !(device->efa.device_caps & EFADV_DEVICE_ATTR_CAPS_CQ_WITH_SGID))
        return NULL;
    ep->extended = efa_direct.create_cq(device->context, &attr, &efa, sizeof(efa));
    if (!ep->extended)
        return NULL;
    ep->fields = efa_direct.cq_from_ibv_cq_ex(ep->extended);
    return ibv_cq_ex_to_cq(ep->extended);
}

static struct ibv_cq *create_queue(struct efa_ep *ep, int size, int vector)
{
    struct ibv_cq *cq = create_extended(ep, size, vector);

    if (cq || ep->unsolicited)
        return cq;
    return verbs_lib.create_cq(ep->domain->device->context, size, NULL, ep->channel, vector);
}

/* A queue with events, or, of a device that does not give them, without. */
static struct ibv_cq *open_queue(struct efa_ep *ep, int size, int vector)
{
    struct ibv_cq *cq;

    open_channel(ep);
    cq = create_queue(ep, size, vector);
    if (!ep->channel || (cq && !ibv_req_notify_cq(cq, 0)))
        return cq;
    if (cq)
        verbs_lib.destroy_cq(cq);
    verbs_lib.destroy_comp_channel(ep->channel);
    ep->channel = NULL;
    return create_queue(ep, size, vector);
}

/* The completion vector that one of its queues asks for. */
static int vector_of(const struct efa_ep *ep, int *vector)
{
    const struct binding *binding = &ep->base.binding;
    int most = ep->domain->device->context->num_comp_vectors;

    *vector = 0;
    if (binding->tx && binding->tx->vector >= 0)
        *vector = binding->tx->vector;
    else if (binding->rx && binding->rx->vector >= 0)
        *vector = binding->rx->vector;
    if (*vector < most || !*vector)
        return 0;
    LOG_WARN("efa", FI_LOG_CQ, "signaling_vector %d; %s has %d, from 0", *vector,
             ep->domain->device->name, most);
    return -FI_EINVAL;
}

static struct ibv_qp *create(struct efa_ep *ep, struct ibv_qp_init_attr_ex *attr, uint8_t level)
{
    struct efa_qp_attr named = {.type = EFADV_QP_DRIVER_TYPE_SRD,
                                .flags = ep->unsolicited ? EFA_QP_UNSOLICITED : 0,
                                .service_level = level};
    struct efadv_qp_init_attr efa;
    struct ibv_context *context = ep->domain->device->context;

    if (ep->prefix) {
        struct verbs_context *verbs = verbs_get_ctx_op(context, create_qp_ex);

        errno = EOPNOTSUPP;
        return verbs ? verbs->create_qp_ex(context, attr) : NULL;
    }
    memcpy(&efa, &named, sizeof(efa));
    return efa_direct.create_qp_ex(context, attr, &efa, sizeof(efa));
}

static int open_queue_pair(struct efa_ep *ep)
{
    const struct efa_device *device = ep->domain->device;
    bool access = ep->base.caps & FI_RMA;
    struct ibv_qp_init_attr_ex attr = {
        .qp_type = ep->prefix ? IBV_QPT_UD : IBV_QPT_DRIVER,
        .sq_sig_all = 1,
        .cap = {.max_send_wr = (uint32_t)ep->base.tx_size,
                .max_recv_wr = (uint32_t)ep->base.rx_size,
                .max_send_sge = device->efa.max_sq_sge < EFA_SEGMENTS ? 1 : EFA_SEGMENTS,
                .max_recv_sge = device->efa.max_rq_sge < EFA_SEGMENTS ? 1 : EFA_SEGMENTS,
                .max_inline_data = (uint32_t)ep->inline_max},
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                          (access ? IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_RDMA_WRITE |
                                        IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM
                                  : 0),
        .pd = ep->domain->pd,
        .send_cq = ep->cq,
        .recv_cq = ep->cq,
    };
    bool fast = ep->tclass == FI_TC_LOW_LATENCY && !ep->prefix;

    ep->qp = create(ep, &attr, fast ? LOW_LATENCY : 0);
    if (!ep->qp && fast) {
        LOG_INFO("efa", FI_LOG_EP_CTRL, "%s has no service level for low latency", device->name);
        ep->qp = create(ep, &attr, 0);
    }
    if (!ep->qp)
        return verbs_error(-1);
    ep->ex = verbs_lib.qp_to_qp_ex(ep->qp);
    return ep->ex ? 0 : -FI_EOPNOTSUPP;
}

/* Of numbers below 2^31, which programs may choose from. */
static uint32_t new_qkey(void)
{
    uint32_t qkey;

    if (getrandom(&qkey, sizeof(qkey), 0) != sizeof(qkey))
        qkey = (uint32_t)clock_ns();
    return qkey & INT32_MAX;
}

int efa_qp_open(struct efa_ep *ep)
{
    int vector, rc = vector_of(ep, &vector);

    if (rc)
        return rc;
    if (!verbs_lib.qp_to_qp_ex) {
        LOG_WARN("efa", FI_LOG_EP_CTRL, "libibverbs.so.1 has no ibv_wr_*: it is too old");
        return -FI_EOPNOTSUPP;
    }
    ep->name.qkey = ep->prefix ? 0 : new_qkey(); /* that of all datagrams is 0 */
    ep->cq = open_queue(ep, (int)(ep->base.tx_size + ep->base.rx_size), vector);
    rc = ep->cq ? open_queue_pair(ep) : verbs_error(-1);
    if (!rc)
        rc = efa_cntr_attach(ep);
    if (!rc)
        rc = make_ready(ep);
    if (rc) {
        LOG_WARN("efa", FI_LOG_EP_CTRL, "%s gives no %s of %zu sends and %zu receives: %s%s",
                 ep->domain->device->name, ep->cq ? "queue pair" : "completion queue",
                 ep->base.tx_size, ep->base.rx_size, fi_strerror(-rc),
                 rc == -FI_ENOMEM ? " (too many endpoints, or see `ulimit -l`)" : "");
        efa_qp_close(ep);
        return rc;
    }
    ep->name.qpn = (uint16_t)ep->qp->qp_num;
    return 0;
}

bool efa_qp_is_in_order(struct efa_ep *ep, enum ibv_wr_opcode opcode)
{
    bool is_open = ep->qp;
    int mask;

    if (!verbs_lib.query_qp_data_in_order || (!is_open && efa_qp_open(ep)))
        return false;
    mask = verbs_lib.query_qp_data_in_order(ep->qp, opcode, ORDER_BY_MASK);
    if (!is_open)
        efa_qp_close(ep);
    return mask > 0 && mask & (ORDER_OF_ALL | ORDER_OF_BLOCKS);
}
