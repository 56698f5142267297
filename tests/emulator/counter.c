/* SPDX-License-Identifier: BSD-2-Clause */
#include "counter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "device.h"
#include "loop.h"
#include "object.h"
#include "qp.h"
#include "report.h"
#include "settings.h"

/* Begins as struct ibv_comp_cntr of newer releases of verbs.h. */
struct counter {
    struct ibv_context *context;
    uint32_t handle;
    uint64_t most, most_errors;
    uint64_t own[2], *places[2]; /* completions, errors */
    unsigned users;
    struct object object;
};

/* As newer releases of verbs.h have it. */
struct attach_attr {
    uint32_t comp_mask, op_mask;
};

static const uint32_t counted =
    1 << COUNTER_SEND | 1 << COUNTER_RECV | 1 << COUNTER_READ | 1 << COUNTER_WRITE;

static int place(struct counter *counter, const struct efa_counter_attr *attr, int which)
{
    counter->places[which] = &counter->own[which];
    if (!(attr->flags >> which & 1))
        return 0;
    if (!attr->places[which].ptr || attr->places[which].type > 1) {
        report_why("create_comp_cntr: memory that the process has not mapped");
        return EOPNOTSUPP;
    }
    counter->places[which] = (uint64_t *)(void *)attr->places[which].ptr;
    return 0;
}

void *efa_create_counter(struct ibv_context *context, const struct efa_counter_attr *attr,
                         uint32_t size)
{
    struct counter *counter = calloc(1, sizeof(*counter));
    int rc = counter ? 0 : ENOMEM;

    if (!rc && (size < sizeof(*attr) || attr->comp_mask || attr->flags > 3))
        rc = EINVAL;
    if (!rc && (!context_device(context)->efa || !settings()->limits.counters))
        rc = EOPNOTSUPP;
    for (int i = 0; i < 2 && !rc; i++)
        rc = place(counter, attr, i);
    loop_lock();
    if (!rc && object_count("completion counter") >= (unsigned)settings()->limits.counters)
        rc = ENOMEM;
    if (!rc)
        object_add(&counter->object, "completion counter", 0);
    loop_unlock();
    if (rc) {
        free(counter);
        errno = rc;
        return NULL;
    }
    counter->context = context;
    counter->most = counter->most_errors = UINT64_MAX;
    return counter;
}

/* ---- Of libibverbs ---- */

int ibv_destroy_comp_cntr(struct counter *counter);
int ibv_set_comp_cntr(struct counter *counter, uint64_t value);
int ibv_set_err_comp_cntr(struct counter *counter, uint64_t value);
int ibv_inc_comp_cntr(struct counter *counter, uint64_t amount);
int ibv_inc_err_comp_cntr(struct counter *counter, uint64_t amount);
int ibv_read_comp_cntr(struct counter *counter, uint64_t *value);
int ibv_read_err_comp_cntr(struct counter *counter, uint64_t *value);
int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct counter *counter,
                            const struct attach_attr *attr);

int ibv_destroy_comp_cntr(struct counter *counter)
{
    loop_lock();
    if (counter->users) {
        loop_unlock();
        report_why("destroy_comp_cntr: a queue pair has it");
        return EBUSY;
    }
    object_remove(&counter->object);
    loop_unlock();
    free(counter);
    return 0;
}

static int change(struct counter *counter, int which, uint64_t value, bool add)
{
    loop_lock();
    *counter->places[which] = value + (add ? *counter->places[which] : 0);
    loop_unlock();
    return 0;
}

int ibv_set_comp_cntr(struct counter *counter, uint64_t value)
{
    return change(counter, 0, value, false);
}

int ibv_set_err_comp_cntr(struct counter *counter, uint64_t value)
{
    return change(counter, 1, value, false);
}

int ibv_inc_comp_cntr(struct counter *counter, uint64_t amount)
{
    return change(counter, 0, amount, true);
}

int ibv_inc_err_comp_cntr(struct counter *counter, uint64_t amount)
{
    return change(counter, 1, amount, true);
}

static int look(const struct counter *counter, int which, uint64_t *value)
{
    loop_lock();
    *value = *counter->places[which];
    loop_unlock();
    return 0;
}

int ibv_read_comp_cntr(struct counter *counter, uint64_t *value)
{
    return look(counter, 0, value);
}

int ibv_read_err_comp_cntr(struct counter *counter, uint64_t *value)
{
    return look(counter, 1, value);
}

static int attach(struct qp *qp, struct counter *counter, uint32_t mask)
{
    if (qp_public(qp)->state > IBV_QPS_INIT || !mask)
        return EINVAL;
    if (mask & ~counted)
        return EOPNOTSUPP;
    for (int i = 0; i < COUNTER_OPS; i++)
        if (mask >> i & 1 && qp->counters[i])
            return EBUSY;
    for (int i = 0; i < COUNTER_OPS; i++) {
        if (!(mask >> i & 1))
            continue;
        qp->counters[i] = counter;
        counter->users++;
    }
    return 0;
}

int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct counter *counter,
                            const struct attach_attr *attr)
{
    int rc;

    loop_lock();
    rc = attr->comp_mask ? EINVAL : attach(qp_of(qp), counter, attr->op_mask);
    loop_unlock();
    if (rc)
        report_why("qp_attach_comp_cntr: %s", strerror(rc));
    return rc;
}

/* ---- Of queue pairs ---- */

void counter_count(struct qp *qp, enum counter_op op, bool succeeded)
{
    if (qp->counters[op])
        ++*qp->counters[op]->places[!succeeded];
}

void counter_detach_all(struct qp *qp)
{
    for (int i = 0; i < COUNTER_OPS; i++) {
        if (qp->counters[i])
            qp->counters[i]->users--;
        qp->counters[i] = NULL;
    }
}
