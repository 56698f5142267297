/* SPDX-License-Identifier: BSD-2-Clause */
/* Which attributes a change of state needs and allows (InfiniBand specification, 11.2.5.2). */
#include <errno.h>
#include <string.h>

#include "ah.h"
#include "context.h"
#include "fault.h"
#include "qp.h"
#include "report.h"
#include "settings.h"

enum {
    /* Shorter names for the table. */
    CUR = IBV_QP_CUR_STATE,
    ACC = IBV_QP_ACCESS_FLAGS,
    PKEY = IBV_QP_PKEY_INDEX,
    PORT = IBV_QP_PORT,
    QKEY = IBV_QP_QKEY,
    AV = IBV_QP_AV,
    RNRT = IBV_QP_MIN_RNR_TIMER,
    ALT = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE,
    TIMES = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY,
    READS_IN = IBV_QP_MAX_DEST_RD_ATOMIC,
    READS_OUT = IBV_QP_MAX_QP_RD_ATOMIC,
};

static const struct transition {
    enum ibv_qp_type type;
    enum ibv_qp_state from, to;
    int needs, allows;
} transitions[] = {
    {IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT, PKEY | PORT | ACC, 0},
    {IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_INIT, 0, PKEY | PORT | ACC},
    {IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR,
     AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | READS_IN | RNRT, ALT | ACC | PKEY},
    {IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS, TIMES | IBV_QP_SQ_PSN | READS_OUT,
     CUR | ALT | ACC | RNRT},
    {IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_RTS, 0, CUR | ALT | ACC | RNRT},
    {IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPT_RC, IBV_QPS_SQD, IBV_QPS_RTS, 0, CUR | ALT | ACC | RNRT},
    {IBV_QPT_RC, IBV_QPS_SQD, IBV_QPS_SQD, 0,
     PORT | AV | TIMES | READS_IN | READS_OUT | ALT | ACC | PKEY | RNRT},
    {IBV_QPT_DRIVER, IBV_QPS_RESET, IBV_QPS_INIT, PKEY | PORT | QKEY, 0},
    {IBV_QPT_DRIVER, IBV_QPS_INIT, IBV_QPS_RTR, 0, PKEY | QKEY},
    {IBV_QPT_DRIVER, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, CUR | QKEY | IBV_QP_RNR_RETRY},
    {IBV_QPT_UD, IBV_QPS_RESET, IBV_QPS_INIT, PKEY | PORT | QKEY, 0},
    {IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_INIT, 0, PKEY | PORT | QKEY},
    {IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_RTR, 0, PKEY | QKEY},
    {IBV_QPT_UD, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, CUR | QKEY},
    {IBV_QPT_UD, IBV_QPS_RTS, IBV_QPS_RTS, 0, CUR | QKEY},
    {IBV_QPT_UD, IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPT_UD, IBV_QPS_SQD, IBV_QPS_RTS, 0, CUR | QKEY},
    {IBV_QPT_UD, IBV_QPS_SQD, IBV_QPS_SQD, 0, PKEY | QKEY},
    {IBV_QPT_UD, IBV_QPS_SQE, IBV_QPS_RTS, 0, CUR | QKEY},
};

static const char *state_name(enum ibv_qp_state state)
{
    static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

    return state <= IBV_QPS_ERR ? names[state] : "?";
}

static const struct transition *find_transition(const struct ibv_qp *qp, enum ibv_qp_state to)
{
    for (size_t i = 0; i < sizeof(transitions) / sizeof(*transitions); i++)
        if (transitions[i].type == qp->qp_type && transitions[i].from == qp->state &&
            transitions[i].to == to)
            return &transitions[i];
    return NULL;
}

static int check_mask(const struct ibv_qp *qp, const struct ibv_qp_attr *attr, int mask,
                      enum ibv_qp_state to)
{
    int needs = 0, allows = CUR;

    if ((mask & IBV_QP_CUR_STATE) && attr->cur_qp_state != qp->state) {
        report_why("modify_qp %#x: it is %s, not %s as the caller says", qp->qp_num,
                   state_name(qp->state), state_name(attr->cur_qp_state));
        return EINVAL;
    }
    if (to != IBV_QPS_RESET && to != IBV_QPS_ERR) {
        const struct transition *transition = find_transition(qp, to);
        if (!transition) {
            report_why("modify_qp %#x: from %s there is no way to %s", qp->qp_num,
                       state_name(qp->state), state_name(to));
            return EINVAL;
        }
        needs = transition->needs;
        allows = transition->allows;
    }
    if ((needs & ~mask) || (mask & ~(needs | allows | IBV_QP_STATE))) {
        report_why("modify_qp %#x from %s to %s: attributes %#x missing, %#x not allowed",
                   qp->qp_num, state_name(qp->state), state_name(to), needs & ~mask,
                   mask & ~(needs | allows | IBV_QP_STATE));
        return EINVAL;
    }
    return 0;
}

/* An address was taken off its interface: so the kernel refuses to connect by it. */
static int check_gid(const struct ibv_qp *qp, const struct ibv_ah_attr *av)
{
    static const struct ibv_gid_entry none;
    struct device *device = context_device(qp->context);
    struct ibv_gid_entry *entry = &device->ports[av->port_num - 1].gids[av->grh.sgid_index];

    if (fault_gid(device))
        *entry = none;
    if (memcmp(&entry->gid, &none.gid, sizeof(none.gid)) != 0)
        return 0;
    report_why("modify_qp %#x: GID %u of port %u is gone", qp->qp_num, av->grh.sgid_index,
               av->port_num);
    return EINVAL;
}

static int check_path(const struct ibv_qp *qp, const struct ibv_ah_attr *av)
{
    int rc = ah_check(qp->context, av, "modify_qp");

    return rc ? rc : check_gid(qp, av);
}

static int check_numbers(const struct ibv_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    const char *what = NULL;
    uint8_t reads = (uint8_t)settings()->limits.max_qp_rd_atom;

    if ((mask & PORT) &&
        (attr->port_num == 0 || attr->port_num > context_device(qp->context)->port_count))
        what = "port_num";
    if ((mask & PKEY) && attr->pkey_index != 0)
        what = "pkey_index";
    if ((mask & IBV_QP_PATH_MTU) && (attr->path_mtu < IBV_MTU_256 || attr->path_mtu > IBV_MTU_4096))
        what = "path_mtu";
    if ((mask & IBV_QP_DEST_QPN) && attr->dest_qp_num >> WIRE_QPN_BITS)
        what = "dest_qp_num";
    if ((mask & READS_OUT) && attr->max_rd_atomic > reads)
        what = "max_rd_atomic";
    if ((mask & READS_IN) && attr->max_dest_rd_atomic > reads)
        what = "max_dest_rd_atomic";
    if ((mask & RNRT) && attr->min_rnr_timer > 31)
        what = "min_rnr_timer";
    if ((mask & IBV_QP_TIMEOUT) && attr->timeout > 31)
        what = "timeout";
    if ((mask & IBV_QP_RETRY_CNT) && attr->retry_cnt > 7)
        what = "retry_cnt";
    if ((mask & IBV_QP_RNR_RETRY) && attr->rnr_retry > 7)
        what = "rnr_retry";
    if ((mask & IBV_QP_ALT_PATH))
        what = "alt_ah_attr (there are no alternate paths)";
    if (!what)
        return mask & AV ? check_path(qp, &attr->ah_attr) : 0;
    report_why("modify_qp %#x: %s out of range", qp->qp_num, what);
    return EINVAL;
}

static void take_attributes(struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    struct ibv_qp_attr *own = &qp->attr;

#define TAKE(bit, member)                                                                          \
    if (mask & (bit))                                                                              \
    own->member = attr->member
    TAKE(ACC, qp_access_flags);
    TAKE(PKEY, pkey_index);
    TAKE(PORT, port_num);
    TAKE(QKEY, qkey);
    TAKE(AV, ah_attr);
    TAKE(IBV_QP_PATH_MTU, path_mtu);
    TAKE(IBV_QP_DEST_QPN, dest_qp_num);
    TAKE(IBV_QP_RQ_PSN, rq_psn);
    TAKE(IBV_QP_SQ_PSN, sq_psn);
    TAKE(READS_IN, max_dest_rd_atomic);
    TAKE(READS_OUT, max_rd_atomic);
    TAKE(RNRT, min_rnr_timer);
    TAKE(IBV_QP_TIMEOUT, timeout);
    TAKE(IBV_QP_RETRY_CNT, retry_cnt);
    TAKE(IBV_QP_RNR_RETRY, rnr_retry);
    TAKE(IBV_QP_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify);
#undef TAKE
    if (mask & AV) {
        const struct ibv_ah_attr *av = &own->ah_attr;
        const struct ibv_gid_entry *source =
            &qp->device->ports[av->port_num - 1].gids[av->grh.sgid_index];
        memcpy(qp->route.source_gid, &source->gid, 16);
        memcpy(qp->route.target_gid, &av->grh.dgid, 16);
        qp->route.gid_type = (uint8_t)source->gid_type;
    }
}

static void enter(struct qp *qp, enum ibv_qp_state to)
{
    struct ibv_qp *public = qp_public(qp);
    bool changed = public->state != to;

    if (to == IBV_QPS_RESET) {
        qp_reset(qp);
        return;
    }
    if (to == IBV_QPS_ERR) {
        qp_fail(qp);
        return;
    }
    public->state = to;
    if (!changed)
        return;
    if (to == IBV_QPS_RTR)
        qp->responder.expected = qp->attr.rq_psn & 0xffffff;
    if (to == IBV_QPS_RTS) {
        qp->requester.retries = qp->attr.retry_cnt;
        qp->requester.rnr_retries = qp->attr.rnr_retry;
    }
    qp_pump(qp);
}

int ibv_modify_qp(struct ibv_qp *public, struct ibv_qp_attr *attr, int mask)
{
    struct qp *qp = qp_of(public);

    loop_lock();
    enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : public->state;
    int rc = check_mask(public, attr, mask, to);
    if (!rc)
        rc = check_numbers(public, attr, mask);
    if (!rc && context_gone(public->context))
        rc = EIO;
    if (!rc) {
        take_attributes(qp, attr, mask);
        enter(qp, to);
    }
    loop_unlock();
    return rc;
}
