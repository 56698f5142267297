/* SPDX-License-Identifier: BSD-2-Clause */
/* The functions of librdmacm, by dlopen like those of libibverbs (core/net/verbs_lib.h). */
#ifndef WEFT_VERBS_CM_LIB_H
#define WEFT_VERBS_CM_LIB_H

#include <rdma/rdma_cma.h>

#include "core/net/verbs_lib.h"

/* As VERBS_FUNCTIONS, without rdma_. */
#define RDMACM_FUNCTIONS(X)                                                                        \
    X(struct rdma_event_channel *, create_event_channel, (void))                                   \
    X(void, destroy_event_channel, (struct rdma_event_channel *))                                  \
    X(int, create_id,                                                                              \
      (struct rdma_event_channel *, struct rdma_cm_id **, void *, enum rdma_port_space))           \
    X(int, destroy_id, (struct rdma_cm_id *))                                                      \
    X(int, bind_addr, (struct rdma_cm_id *, struct sockaddr *))                                    \
    X(int, resolve_addr, (struct rdma_cm_id *, struct sockaddr *, struct sockaddr *, int))         \
    X(int, resolve_route, (struct rdma_cm_id *, int))                                              \
    X(int, connect, (struct rdma_cm_id *, struct rdma_conn_param *))                               \
    X(int, establish, (struct rdma_cm_id *))                                                       \
    X(int, listen, (struct rdma_cm_id *, int))                                                     \
    X(int, accept, (struct rdma_cm_id *, struct rdma_conn_param *))                                \
    X(int, reject, (struct rdma_cm_id *, const void *, uint8_t))                                   \
    X(int, disconnect, (struct rdma_cm_id *))                                                      \
    X(int, get_cm_event, (struct rdma_event_channel *, struct rdma_cm_event **))                   \
    X(int, ack_cm_event, (struct rdma_cm_event *))                                                 \
    X(int, migrate_id, (struct rdma_cm_id *, struct rdma_event_channel *))                         \
    X(int, init_qp_attr, (struct rdma_cm_id *, struct ibv_qp_attr *, int *))                       \
    X(int, set_option, (struct rdma_cm_id *, int, int, void *, size_t))                            \
    X(uint16_t, get_src_port, (struct rdma_cm_id *))

struct verbs_cm_lib {
    RDMACM_FUNCTIONS(VERBS_MEMBER)
};

/* Valid after verbs_cm_lib_load has answered 0. */
extern struct verbs_cm_lib verbs_cm_lib;

/* Loads both libraries, once a process. -FI_ENODATA, with why in *reason (static). */
int verbs_cm_lib_load(const char **reason);

#endif
