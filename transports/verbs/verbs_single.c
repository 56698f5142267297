/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/verbs/verbs_single.h"

#include "core/base/log.h"

/* Entries are read by ibv_poll_cq all the same: of what it writes an entry of ours needs all. */
struct ibv_cq *verbs_single_cq(struct verbs_cq *cq, const struct progress *progress, size_t size)
{
    struct ibv_context *context = cq->domain->device->context;
    struct ibv_cq_init_attr_ex attr = {
        .cqe = (uint32_t)size,
        .cq_context = cq,
        .channel = cq->channel,
        .comp_vector = cq->vector < 0 ? 0 : (uint32_t)cq->vector,
        .wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM,
        .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
        .flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
    };
    struct ibv_cq_ex *extended;

    if (progress->locked)
        return NULL;
    extended = ibv_create_cq_ex(context, &attr);
    LOG_INFO("verbs", FI_LOG_CQ, "%s has completion queues for %s", cq->domain->device->name,
             extended ? "a single thread" : "several threads");
    return extended ? ibv_cq_ex_to_cq(extended) : NULL;
}

void verbs_single_open(struct verbs_cq *cq, const struct progress *progress)
{
    struct ibv_context *context = cq->domain->device->context;
    struct verbs_context *extended = verbs_get_ctx_op(context, alloc_parent_domain);
    struct ibv_td_init_attr attr = {0};
    struct ibv_parent_domain_init_attr parent = {.pd = cq->domain->pd};

    if (progress->locked)
        return;
    cq->td = extended ? ibv_alloc_td(context, &attr) : NULL;
    parent.td = cq->td;
    cq->pd = cq->td ? extended->alloc_parent_domain(context, &parent) : NULL;
    if (!cq->pd)
        verbs_single_close(cq);
    LOG_INFO("verbs", FI_LOG_EP_CTRL, "%s has %s thread domain", cq->domain->device->name,
             cq->pd ? "a" : "no");
}

void verbs_single_close(struct verbs_cq *cq)
{
    if (cq->pd)
        verbs_lib.dealloc_pd(cq->pd);
    if (cq->td)
        ibv_dealloc_td(cq->td);
    cq->pd = NULL;
    cq->td = NULL;
}
