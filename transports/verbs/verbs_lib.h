/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions of libibverbs and librdmacm, by dlopen: nothing is linked, and a node without the
 * libraries has no RDMA devices. What verbs.h defines inline (ibv_post_send, ibv_poll_cq, ...) goes
 * through the objects and needs no symbol.
 */
#ifndef WEFT_VERBS_LIB_H
#define WEFT_VERBS_LIB_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

/* X(result, name, parameters): names without ibv_, since verbs.h has macros of some of them. */
#define VERBS_FUNCTIONS(X)                                                                         \
    X(struct ibv_device **, get_device_list, (int *))                                              \
    X(void, free_device_list, (struct ibv_device **))                                              \
    X(const char *, get_device_name, (struct ibv_device *))                                        \
    X(struct ibv_context *, open_device, (struct ibv_device *))                                    \
    X(int, close_device, (struct ibv_context *))                                                   \
    X(int, query_device, (struct ibv_context *, struct ibv_device_attr *))                         \
    X(int, query_port, (struct ibv_context *, uint8_t, struct ibv_port_attr *))                    \
    X(int, query_gid, (struct ibv_context *, uint8_t, int, union ibv_gid *))                       \
    X(struct ibv_pd *, alloc_pd, (struct ibv_context *))                                           \
    X(int, dealloc_pd, (struct ibv_pd *))                                                          \
    X(struct ibv_mr *, reg_mr, (struct ibv_pd *, void *, size_t, int))                             \
    X(int, dereg_mr, (struct ibv_mr *))                                                            \
    X(struct ibv_comp_channel *, create_comp_channel, (struct ibv_context *))                      \
    X(int, destroy_comp_channel, (struct ibv_comp_channel *))                                      \
    X(struct ibv_cq *, create_cq,                                                                  \
      (struct ibv_context *, int, void *, struct ibv_comp_channel *, int))                         \
    X(int, resize_cq, (struct ibv_cq *, int))                                                      \
    X(int, destroy_cq, (struct ibv_cq *))                                                          \
    X(int, get_cq_event, (struct ibv_comp_channel *, struct ibv_cq **, void **))                   \
    X(void, ack_cq_events, (struct ibv_cq *, unsigned))                                            \
    X(int, get_async_event, (struct ibv_context *, struct ibv_async_event *))                      \
    X(void, ack_async_event, (struct ibv_async_event *))                                           \
    X(struct ibv_srq *, create_srq, (struct ibv_pd *, struct ibv_srq_init_attr *))                 \
    X(int, destroy_srq, (struct ibv_srq *))                                                        \
    X(struct ibv_qp *, create_qp, (struct ibv_pd *, struct ibv_qp_init_attr *))                    \
    X(int, modify_qp, (struct ibv_qp *, struct ibv_qp_attr *, int))                                \
    X(int, destroy_qp, (struct ibv_qp *))                                                          \
    X(const char *, wc_status_str, (enum ibv_wc_status))

/* Newer ones, NULL in a library without. */
#define VERBS_NEWER(X) X(struct ibv_qp_ex *, qp_to_qp_ex, (struct ibv_qp *))

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

#define X(result, name, parameters) result(*name) parameters;
struct verbs_lib {
    VERBS_FUNCTIONS(X)
    VERBS_NEWER(X)
};
struct verbs_cm_lib {
    RDMACM_FUNCTIONS(X)
};
#undef X

/* Valid after verbs_lib_load has answered 0. */
extern struct verbs_lib verbs_lib;
extern struct verbs_cm_lib verbs_cm_lib;

/* Loads both, once a process. -FI_ENODATA, with why in *reason (static). */
int verbs_lib_load(const char **reason);

/* -errno of a function that returns a positive one, or -1 and errno. */
int verbs_error(int rc);

#endif
