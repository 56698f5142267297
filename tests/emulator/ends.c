/* SPDX-License-Identifier: BSD-2-Clause */
#include "ends.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct ibv_context *context;
struct ibv_pd *pd, *other_pd;
struct end a, b;
static union ibv_gid gid;
static int own_gid_index;

void check(int ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    exit(1);
}

void open_device(const char *name, int gid_index)
{
    int count;
    struct ibv_device **list = ibv_get_device_list(&count);

    for (int i = 0; list && i < count && !context; i++)
        if (!name || strcmp(name, ibv_get_device_name(list[i])) == 0)
            context = ibv_open_device(list[i]);
    if (!context) {
        fprintf(stderr, "no device %s\n", name ? name : "");
        exit(77);
    }
    ibv_free_device_list(list);
    own_gid_index = gid_index;
    check(!ibv_query_gid(context, 1, gid_index, &gid), "query_gid");
    pd = ibv_alloc_pd(context);
    other_pd = ibv_alloc_pd(context);
    check(pd && other_pd, "alloc_pd");
}

void close_device(void)
{
    check(!ibv_dealloc_pd(other_pd) && !ibv_dealloc_pd(pd), "dealloc_pd");
    check(!ibv_close_device(context), "close_device");
}

int next_completion(struct ibv_cq *cq, int milliseconds, struct ibv_wc *wc)
{
    struct timespec pause = {.tv_nsec = 100000};
    struct ibv_wc own;

    for (int i = 0; i < milliseconds * 10; i++) {
        if (ibv_poll_cq(cq, 1, wc ? wc : &own) > 0)
            return (int)(wc ? wc : &own)->status;
        nanosleep(&pause, NULL);
    }
    return -1;
}

void make_end(struct end *end, unsigned access, struct ibv_qp_init_attr_ex *attr)
{
    struct ibv_qp_init_attr_ex usual = {.qp_type = IBV_QPT_RC};

    end->memory = aligned_alloc(4096, BYTES);
    check(end->memory != NULL, "memory");
    memset(end->memory, 0, BYTES);
    end->mr = ibv_reg_mr(pd, end->memory, BYTES, access);
    check(end->mr != NULL, "reg_mr");
    if (!attr)
        attr = &usual;
    if (!attr->send_cq)
        attr->send_cq = ibv_create_cq(context, 4 * DEPTH, NULL, NULL, 0);
    end->cq = attr->send_cq;
    check(end->cq != NULL, "create_cq");
    attr->recv_cq = end->cq;
    attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
    attr->pd = pd;
    attr->cap.max_send_wr = attr->cap.max_recv_wr = DEPTH;
    attr->cap.max_send_sge = attr->cap.max_recv_sge = 1;
    attr->cap.max_inline_data = 32;
    end->qp = ibv_create_qp_ex(context, attr);
    check(end->qp != NULL, "create_qp");
}

void free_end(struct end *end)
{
    check(!ibv_destroy_qp(end->qp), "destroy_qp");
    check(!ibv_destroy_cq(end->cq), "destroy_cq");
    if (end->mr)
        check(!ibv_dereg_mr(end->mr), "dereg_mr");
    free(end->memory);
}

int to_init(struct ibv_qp *qp, int access)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = (unsigned)access};

    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int to_rtr(struct ibv_qp *qp, uint32_t peer)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = peer,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = 1,
        .ah_attr = {.is_global = 1,
                    .port_num = 1,
                    .grh = {.dgid = gid, .sgid_index = (uint8_t)own_gid_index, .hop_limit = 8}},
    };

    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

int to_rts(struct ibv_qp *qp, int rnr_retry)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
                               .timeout = 8,
                               .retry_cnt = 1,
                               .rnr_retry = (uint8_t)rnr_retry,
                               .max_rd_atomic = 1};

    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

void connect_pair(int qp_access, int rnr_retry)
{
    check(!to_init(a.qp, ALL) && !to_init(b.qp, qp_access), "INIT");
    check(!to_rtr(a.qp, b.qp->qp_num) && !to_rtr(b.qp, a.qp->qp_num), "RTR");
    check(!to_rts(a.qp, rnr_retry) && !to_rts(b.qp, rnr_retry), "RTS");
}

void open_pair(unsigned memory_access, int qp_access)
{
    make_end(&a, ALL, NULL);
    make_end(&b, memory_access, NULL);
    connect_pair(qp_access, 0);
}

void close_pair(void)
{
    free_end(&a);
    free_end(&b);
}

int post_receive(struct end *end, uint32_t length, uint32_t lkey)
{
    struct ibv_sge sge = {.addr = (uintptr_t)end->memory, .length = length, .lkey = lkey};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

    return ibv_post_recv(end->qp, &wr, &bad);
}

int post(enum ibv_wr_opcode opcode, uint32_t length, uint32_t lkey, uint64_t address, uint32_t rkey)
{
    struct ibv_sge sge = {.addr = (uintptr_t)a.memory, .length = length, .lkey = lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode};
    struct ibv_send_wr *bad;

    wr.send_flags = IBV_SEND_SIGNALED;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = address;
        wr.wr.atomic.rkey = rkey;
        wr.wr.atomic.compare_add = 1;
    } else {
        wr.wr.rdma.remote_addr = address;
        wr.wr.rdma.rkey = rkey;
    }
    return ibv_post_send(a.qp, &wr, &bad);
}
