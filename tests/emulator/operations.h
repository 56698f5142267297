/* SPDX-License-Identifier: BSD-2-Clause */
/* The functions behind the tables of struct verbs_context, each in the room of its object. */
#ifndef WEFT_EMULATOR_OPERATIONS_H
#define WEFT_EMULATOR_OPERATIONS_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "cq.h"
#include "qp.h"

void operations_fill(struct verbs_context *verbs);

int query_device_extended(struct ibv_context *context,
                          const struct ibv_query_device_ex_input *input,
                          struct ibv_device_attr_ex *attr, size_t size);
int query_port(struct ibv_context *context, uint8_t number, struct ibv_port_attr *attr,
               size_t size);

struct ibv_td *thread_domain_create(struct ibv_context *context, struct ibv_td_init_attr *attr);
int thread_domain_destroy(struct ibv_td *td);
struct ibv_pd *parent_domain_create(struct ibv_context *context,
                                    struct ibv_parent_domain_init_attr *attr);

struct ibv_cq_ex *cq_create_extended(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
void cq_fill_extended(struct cq *cq, uint64_t fields);
int cq_modify(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
int cq_poll(struct ibv_cq *cq, int max, struct ibv_wc *wc);
int cq_request_notify(struct ibv_cq *cq, int solicited_only);

int srq_number(struct ibv_srq *srq, uint32_t *number);
int srq_post(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

struct ibv_qp *qp_create_extended(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* The functions of struct ibv_qp_ex, for the operations that the queue pair was created with. */
void wr_fill(struct qp *qp);
bool wr_operations_known(enum ibv_qp_type type, uint64_t operations);

/* Checks a request that is filled in, but for its segments; 0 or an errno value with a reason. */
int post_check(const struct qp *qp, const struct send_wr *wr);

/* The next free place of the send queue, with its storage for segments; NULL if there is none. */
struct send_wr *post_place(struct qp *qp);
/* Makes that place a request that has been posted. */
void post_commit(struct qp *qp);

#endif
