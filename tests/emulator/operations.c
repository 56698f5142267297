/* SPDX-License-Identifier: BSD-2-Clause */
#include "operations.h"

void operations_fill(struct verbs_context *verbs)
{
    struct ibv_context_ops *ops = &verbs->context.ops;

    ops->poll_cq = cq_poll;
    ops->req_notify_cq = cq_request_notify;
    ops->post_send = post_send;
    ops->post_recv = post_recv;
    ops->post_srq_recv = srq_post;
    verbs->query_port = query_port;
    verbs->query_device_ex = query_device_extended;
    verbs->alloc_td = thread_domain_create;
    verbs->dealloc_td = thread_domain_destroy;
    verbs->alloc_parent_domain = parent_domain_create;
    verbs->create_cq_ex = cq_create_extended;
    verbs->modify_cq = cq_modify;
    verbs->create_qp_ex = qp_create_extended;
    verbs->get_srq_num = srq_number;
}
