/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "efa.h"
#include "memory.h"
#include "multicast.h"
#include "operations.h"
#include "qp.h"
#include "report.h"
#include "settings.h"

enum {
    PLACES = 1 << WIRE_PLACE_BITS,
    FIRST_PLACE = 2, /* 0 and 1 are those of management */
};

static struct qp *table[PLACES];

struct qp *qp_find(uint32_t number)
{
    return number >> WIRE_PLACE_BITS == node_id() ? table[number % PLACES] : NULL;
}

void qp_each(void (*call)(struct qp *qp, void *argument), void *argument)
{
    for (unsigned i = FIRST_PLACE; i < PLACES; i++)
        if (table[i])
            call(table[i], argument);
}

/* Numbers go round, so that a late packet does not find a later queue pair. */
static bool place(struct qp *qp)
{
    static uint32_t next;

    if (next == 0)
        next = settings_random() % (PLACES / 2);
    uint32_t places = qp->device->efa ? 1u << efa_place_bits() : PLACES;
    if (settings()->limits.reuse)
        next = FIRST_PLACE;
    for (unsigned i = 0; i < places; i++) {
        uint32_t at = (next + i) % places;
        if (at < FIRST_PLACE || table[at])
            continue;
        next = at + 1;
        table[at] = qp;
        qp->number = node_id() << WIRE_PLACE_BITS | at;
        qp->ex.qp_base.qp_num = qp->device->efa ? efa_number(qp->number) : qp->number;
        qp->ex.qp_base.handle = at;
        return true;
    }
    return false;
}

static bool type_known(const struct device *device, enum ibv_qp_type type)
{
    return type == IBV_QPT_UD || type == (device->efa ? IBV_QPT_DRIVER : IBV_QPT_RC);
}

static int check_caps(const struct ibv_qp_init_attr_ex *attr)
{
    const struct limits *limits = &settings()->limits;
    const struct ibv_qp_cap *cap = &attr->cap;

    if (!attr->pd || !type_known(context_device(attr->pd->context), attr->qp_type))
        return EOPNOTSUPP;
    if (!attr->send_cq || !attr->recv_cq || !attr->pd)
        return EINVAL;
    if (cap->max_send_wr > (uint32_t)limits->max_qp_wr ||
        cap->max_send_sge > (uint32_t)limits->max_sge ||
        cap->max_inline_data > (uint32_t)limits->max_inline)
        return EINVAL;
    if (!attr->srq && (cap->max_recv_wr > (uint32_t)limits->max_qp_wr ||
                       cap->max_recv_sge > (uint32_t)limits->max_sge))
        return EINVAL;
    if (object_count("queue pair") >= (unsigned)limits->max_qp)
        return ENOMEM;
    return context_gone(attr->pd->context) ? EIO : 0;
}

static struct send_wr *make_ring(uint32_t size, const struct ibv_qp_cap *cap, struct ibv_sge **sges,
                                 uint8_t **inlined)
{
    size_t per_sge = cap->max_send_sge ? cap->max_send_sge : 1;

    if (size == 0)
        size = 1;
    struct send_wr *ring = calloc(size, sizeof(*ring));
    *sges = calloc(size * per_sge, sizeof(**sges));
    *inlined = malloc((size_t)size * cap->max_inline_data + 1);
    if (!ring || !*sges || !*inlined)
        return ring;
    for (uint32_t i = 0; i < size; i++) {
        ring[i].sges = *sges + i * per_sge;
        ring[i].inlined = *inlined + (size_t)i * cap->max_inline_data;
    }
    return ring;
}

static bool allocate(struct qp *qp)
{
    uint32_t receives = qp->ex.qp_base.srq ? 0 : qp->cap.max_recv_wr;
    uint32_t sges =
        qp->ex.qp_base.srq ? srq_of(qp->ex.qp_base.srq)->queue.max_sge : qp->cap.max_recv_sge;
    struct requester *requester = &qp->requester;

    requester->size = qp->cap.max_send_wr;
    requester->ring = make_ring(requester->size, &qp->cap, &requester->sges, &requester->inlined);
    qp->staged = make_ring(qp->extended ? requester->size : 0, &qp->cap, &qp->staged_sges,
                           &qp->staged_inline);
    qp->responder.sges = calloc(sges ? sges : 1, sizeof(*qp->responder.sges));
    return requester->ring && requester->sges && requester->inlined && qp->staged &&
           qp->staged_sges && qp->staged_inline && qp->responder.sges &&
           recv_queue_init(&qp->receives, receives, qp->cap.max_recv_sge);
}

static void release(struct qp *qp)
{
    free(qp->requester.ring);
    free(qp->requester.sges);
    free(qp->requester.inlined);
    free(qp->staged);
    free(qp->staged_sges);
    free(qp->staged_inline);
    free(qp->responder.sges);
    recv_queue_finish(&qp->receives);
    free(qp);
}

static void pump_waiter(struct link_waiter *waiter)
{
    qp_pump(list_item(waiter, struct qp, waiter));
}

static void fill(struct qp *qp, const struct ibv_qp_init_attr_ex *attr)
{
    struct ibv_qp *public = qp_public(qp);

    public->context = attr->pd->context;
    public->qp_context = attr->qp_context;
    public->pd = attr->pd;
    public->send_cq = attr->send_cq;
    public->recv_cq = attr->recv_cq;
    public->srq = attr->srq;
    public->qp_type = attr->qp_type;
    public->state = IBV_QPS_RESET;
    qp->device = context_device(attr->pd->context);
    qp->cap = attr->cap;
    if (attr->srq)
        qp->cap.max_recv_wr = qp->cap.max_recv_sge = 0;
    qp->sq_sig_all = attr->sq_sig_all;
    qp->extended = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    qp->send_ops = attr->send_ops_flags;
    qp->waiter.ready = pump_waiter;
    list_init(&qp->groups);
    list_init(&qp->held);
    pthread_mutex_init(&public->mutex, NULL);
    pthread_cond_init(&public->cond, NULL);
    pthread_mutex_init(&qp->staging, NULL);
}

static void attach_users(struct qp *qp, int change)
{
    struct ibv_qp *public = qp_public(qp);

    pd_use(public->pd, change);
    cq_use(public->send_cq, change);
    cq_use(public->recv_cq, change);
    if (public->srq)
        srq_of(public->srq)->users += (unsigned)change;
}

static struct qp *create(struct ibv_qp_init_attr_ex *attr)
{
    struct qp *qp = calloc(1, sizeof(*qp));

    loop_lock();
    int rc = qp ? check_caps(attr) : ENOMEM;
    if (!rc) {
        fill(qp, attr);
        if (!allocate(qp) || !place(qp))
            rc = ENOMEM;
    }
    if (!rc) {
        attach_users(qp, 1);
        object_add(&qp->object, "queue pair", qp->ex.qp_base.qp_num);
        wr_fill(qp);
    }
    loop_unlock();
    if (!rc) {
        attr->cap = qp->cap;
        return qp;
    }
    report_why("create_qp of type %d, sends %u of %u segments, receives %u of %u, inline %u: %s",
               attr->qp_type, attr->cap.max_send_wr, attr->cap.max_send_sge, attr->cap.max_recv_wr,
               attr->cap.max_recv_sge, attr->cap.max_inline_data, strerror(rc));
    if (qp)
        release(qp);
    errno = rc;
    return NULL;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct ibv_qp_init_attr_ex extended = {
        .qp_context = attr->qp_context,
        .send_cq = attr->send_cq,
        .recv_cq = attr->recv_cq,
        .srq = attr->srq,
        .cap = attr->cap,
        .qp_type = attr->qp_type,
        .sq_sig_all = attr->sq_sig_all,
        .pd = pd,
        .comp_mask = IBV_QP_INIT_ATTR_PD,
    };
    struct qp *qp = create(&extended);

    if (!qp)
        return NULL;
    attr->cap = extended.cap;
    return qp_public(qp);
}

struct ibv_qp *qp_create_extended(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
    unsigned known =
        IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
    uint64_t operations =
        attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS ? attr->send_ops_flags : 0;

    if ((attr->comp_mask & ~known) || !(attr->comp_mask & IBV_QP_INIT_ATTR_PD) ||
        ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr->create_flags) ||
        (operations && !settings()->limits.wr_api) ||
        !wr_operations_known(attr->qp_type, operations)) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    struct qp *qp = create(attr);
    return qp ? qp_public(qp) : NULL;
}

int ibv_destroy_qp(struct ibv_qp *public)
{
    struct qp *qp = qp_of(public);

    loop_lock();
    if (!list_empty(&qp->groups)) {
        loop_unlock();
        report_why("destroy_qp %#x: it is attached to a multicast group", public->qp_num);
        return EBUSY;
    }
    qp_reset(qp);
    table[public->handle] = NULL;
    attach_users(qp, -1);
    counter_detach_all(qp);
    context_forget(public->context, qp);
    object_remove(&qp->object);
    loop_unlock();
    release(qp);
    return 0;
}

int ibv_query_qp(struct ibv_qp *public, struct ibv_qp_attr *attr, int mask,
                 struct ibv_qp_init_attr *init)
{
    struct qp *qp = qp_of(public);

    loop_lock();
    *attr = qp->attr;
    attr->qp_state = attr->cur_qp_state = public->state;
    attr->cap = qp->cap;
    attr->sq_draining = public->state == IBV_QPS_SQD && qp->requester.head != qp->requester.next;
    memset(init, 0, sizeof(*init));
    init->qp_context = public->qp_context;
    init->send_cq = public->send_cq;
    init->recv_cq = public->recv_cq;
    init->srq = public->srq;
    init->cap = qp->cap;
    init->qp_type = public->qp_type;
    init->sq_sig_all = qp->sq_sig_all;
    loop_unlock();
    return 0;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
    return qp_of(qp)->extended ? &qp_of(qp)->ex : NULL;
}

/* Of devices of the kind EFA, and in the way that newer verbs.h asks: flag 1, for a mask. */
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint32_t flags)
{
    const int blocks_of_128 = 1 << 1;

    return flags == 1 && settings()->limits.in_order ? blocks_of_128 : 0;
}

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    return ece->vendor_id || ece->options ? EOPNOTSUPP : 0;
}

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    memset(ece, 0, sizeof(*ece));
    return 0;
}
