/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions of libibverbs, by dlopen: nothing is linked, and a node without the library has no
 * RDMA devices. The functions that verbs.h defines inline (ibv_post_send, ibv_poll_cq, ...) go
 * through the objects and need no symbol. Built where verbs.h is.
 */
#ifndef WEFT_CORE_NET_VERBS_LIB_H
#define WEFT_CORE_NET_VERBS_LIB_H

#include <infiniband/verbs.h>
#include <stddef.h>

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
    X(struct ibv_ah *, create_ah, (struct ibv_pd *, struct ibv_ah_attr *))                         \
    X(int, destroy_ah, (struct ibv_ah *))                                                          \
    X(struct ibv_qp *, create_qp, (struct ibv_pd *, struct ibv_qp_init_attr *))                    \
    X(int, modify_qp, (struct ibv_qp *, struct ibv_qp_attr *, int))                                \
    X(int, destroy_qp, (struct ibv_qp *))                                                          \
    X(const char *, wc_status_str, (enum ibv_wc_status))

struct ibv_comp_cntr; /* which verbs.h may be too old to know */

/* Newer ones, NULL in a library without. */
#define VERBS_NEWER(X)                                                                             \
    X(struct ibv_qp_ex *, qp_to_qp_ex, (struct ibv_qp *))                                          \
    X(struct ibv_mr *, reg_dmabuf_mr, (struct ibv_pd *, uint64_t, size_t, uint64_t, int, int))     \
    X(int, query_qp_data_in_order, (struct ibv_qp *, enum ibv_wr_opcode, uint32_t))                \
    X(int, destroy_comp_cntr, (struct ibv_comp_cntr *))                                            \
    X(int, set_comp_cntr, (struct ibv_comp_cntr *, uint64_t))                                      \
    X(int, set_err_comp_cntr, (struct ibv_comp_cntr *, uint64_t))                                  \
    X(int, inc_comp_cntr, (struct ibv_comp_cntr *, uint64_t))                                      \
    X(int, inc_err_comp_cntr, (struct ibv_comp_cntr *, uint64_t))                                  \
    X(int, read_comp_cntr, (struct ibv_comp_cntr *, uint64_t *))                                   \
    X(int, read_err_comp_cntr, (struct ibv_comp_cntr *, uint64_t *))                               \
    X(int, qp_attach_comp_cntr, (struct ibv_qp *, struct ibv_comp_cntr *, void *))

#define VERBS_MEMBER(result, name, parameters) result(*name) parameters;
struct verbs_lib {
    VERBS_FUNCTIONS(VERBS_MEMBER)
    VERBS_NEWER(VERBS_MEMBER)
};

/* Valid after verbs_lib_load has answered 0. */
extern struct verbs_lib verbs_lib;

/* Loads it, once a process. -FI_ENODATA, with why in *reason (static). */
int verbs_lib_load(const char **reason);

/* -errno of a function that returns a positive one, or -1 and errno. */
int verbs_error(int rc);

#endif
