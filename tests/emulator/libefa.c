/* SPDX-License-Identifier: BSD-2-Clause */
/* libefa.so.1: all of it is in the other library, which has the devices. */
#include "counter.h"
#include "efa.h"

/* efadv.h may declare it, or be too old to. */
int query_mr(struct ibv_mr *mr, struct efa_mr_attr *attr, uint32_t size) __asm__("efadv_query_mr");

__attribute__((visibility("default"), used)) int query_mr(struct ibv_mr *mr,
                                                          struct efa_mr_attr *attr, uint32_t size)
{
    return efa_query_mr(mr, attr, size);
}

/* attr: the properties of verbs.h, of which there is a choice of one. */
void *create_counter(struct ibv_context *context, const void *attr,
                     const struct efa_counter_attr *efa,
                     uint32_t size) __asm__("efadv_create_comp_cntr");

__attribute__((visibility("default"), used)) void *
create_counter(struct ibv_context *context, const void *attr, const struct efa_counter_attr *efa,
               uint32_t size)
{
    return efa_create_counter(context, efa, size);
}

int efadv_query_device(struct ibv_context *context, struct efadv_device_attr *attr, uint32_t size)
{
    return efa_query_device(context, attr, size);
}

int efadv_query_ah(struct ibv_ah *ah, struct efadv_ah_attr *attr, uint32_t size)
{
    return efa_query_ah(ah, attr, size);
}

struct ibv_qp *efadv_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
                                  struct efadv_qp_init_attr *efa, uint32_t size)
{
    return efa_create_qp(context, attr, efa, size);
}

struct ibv_qp *efadv_create_driver_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
                                      uint32_t type)
{
    struct efadv_qp_init_attr efa = {.driver_qp_type = type};
    struct ibv_qp_init_attr_ex extended = {
        .qp_context = attr->qp_context,
        .send_cq = attr->send_cq,
        .recv_cq = attr->recv_cq,
        .srq = attr->srq,
        .cap = attr->cap,
        .qp_type = attr->qp_type,
        .sq_sig_all = attr->sq_sig_all,
        .comp_mask = IBV_QP_INIT_ATTR_PD,
        .pd = pd,
    };

    return efa_create_qp(pd->context, &extended, &efa, sizeof(efa));
}

struct ibv_cq_ex *efadv_create_cq(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr,
                                  struct efadv_cq_init_attr *efa, uint32_t size)
{
    return efa_create_cq(context, attr, efa, size);
}

struct efadv_cq *efadv_cq_from_ibv_cq_ex(struct ibv_cq_ex *cq)
{
    return efa_cq_of(cq);
}
