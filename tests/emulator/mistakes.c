/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes the mistakes that a program can make with verbs, one after the other, and prints what the
 * device says to each: a table that is the same for every device that follows the specification.
 *
 *      mistakes [GID-INDEX [DEVICE]]
 *
 * The mistakes of a connection have a fresh pair of queue pairs each, the second being the peer.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ends.h"

enum {
    WAIT_MS = 3000,
    SILENCE_MS = 100,
};

static const char *status_name(int status)
{
    static const char *const names[] = {
        "SUCCESS",        "LOC_LEN_ERR", "LOC_QP_OP_ERR", "LOC_EEC_OP_ERR",   "LOC_PROT_ERR",
        "WR_FLUSH_ERR",   "MW_BIND_ERR", "BAD_RESP_ERR",  "LOC_ACCESS_ERR",   "REM_INV_REQ_ERR",
        "REM_ACCESS_ERR", "REM_OP_ERR",  "RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR"};

    return status < 0 ? "-" : status < 14 ? names[status] : "OTHER";
}

static int state_of(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;

    return ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) ? -1 : (int)attr.qp_state;
}

/* One line: what either end heard, and whether each is still of use. */
static void print_pair(const char *what)
{
    int first = next_completion(a.cq, WAIT_MS, NULL);
    int second = next_completion(b.cq, SILENCE_MS, NULL);

    printf("%-44s %-17s %-13s %s %s\n", what, status_name(first), status_name(second),
           state_of(a.qp) == IBV_QPS_ERR ? "ERR" : "ok",
           state_of(b.qp) == IBV_QPS_ERR ? "ERR" : "ok");
    close_pair();
}

static void remote(const char *what, enum ibv_wr_opcode opcode, unsigned memory_access,
                   int qp_access, uint32_t length, long offset, int key_is_wrong)
{
    open_pair(memory_access, qp_access);
    uint64_t address = (uintptr_t)b.memory + (uint64_t)offset;
    uint32_t key = b.mr->rkey + (key_is_wrong ? 0x1100u : 0);
    /* Some devices find out as the request is posted. */
    if (post(opcode, length, a.mr->lkey, address, key)) {
        printf("%-44s refused\n", what);
        close_pair();
        return;
    }
    print_pair(what);
}

static void remote_mistakes(void)
{
    int all = ALL;

    remote("write", IBV_WR_RDMA_WRITE, ALL, all, 64, 0, 0);
    remote("write, key unknown", IBV_WR_RDMA_WRITE, ALL, all, 64, 0, 1);
    remote("write, past the end", IBV_WR_RDMA_WRITE, ALL, all, 64, BYTES - 32, 0);
    remote("write, before the start", IBV_WR_RDMA_WRITE, ALL, all, 64, -8, 0);
    remote("write, memory not for writing", IBV_WR_RDMA_WRITE,
           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, all, 64, 0, 0);
    remote("write, peer not for writing", IBV_WR_RDMA_WRITE, ALL, IBV_ACCESS_REMOTE_READ, 64, 0, 0);
    remote("write of nothing, key unknown", IBV_WR_RDMA_WRITE, ALL, all, 0, 0, 1);
    remote("read", IBV_WR_RDMA_READ, ALL, all, 64, 0, 0);
    remote("read, key unknown", IBV_WR_RDMA_READ, ALL, all, 64, 0, 1);
    remote("read, past the end", IBV_WR_RDMA_READ, ALL, all, 64, BYTES - 32, 0);
    remote("read, memory not for reading", IBV_WR_RDMA_READ,
           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, all, 64, 0, 0);
    remote("read, peer not for reading", IBV_WR_RDMA_READ, ALL, IBV_ACCESS_REMOTE_WRITE, 64, 0, 0);
    remote("atomic", IBV_WR_ATOMIC_FETCH_AND_ADD, ALL, all, 8, 0, 0);
    remote("atomic, address not of 8 bytes", IBV_WR_ATOMIC_FETCH_AND_ADD, ALL, all, 8, 4, 0);
    remote("atomic, memory not for atomics", IBV_WR_ATOMIC_FETCH_AND_ADD,
           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, all, 8, 0, 0);
}

static void message(const char *what, uint32_t receive, uint32_t receive_key, uint32_t send,
                    uint32_t send_key)
{
    open_pair(ALL, ALL);
    if (receive)
        check(!post_receive(&b, receive, b.mr->lkey + receive_key), "post_recv");
    check(!post(IBV_WR_SEND, send, a.mr->lkey + send_key, 0, 0), what);
    print_pair(what);
}

static void message_mistakes(void)
{
    message("send", 64, 0, 64, 0);
    message("send, no receive posted", 0, 0, 64, 0);
    message("send, longer than the receive", 32, 0, 64, 0);
    message("send, local key unknown", 64, 0, 64, 0x1100);
    message("send, local range", 64, 0, BYTES + 1, 0);
    message("send, key of the receive unknown", 64, 0x1100, 64, 0);
}

static void other_domain(void)
{
    open_pair(ALL, ALL);
    struct ibv_mr *mr = ibv_reg_mr(other_pd, b.memory, BYTES, ALL);
    check(mr != NULL && !post(IBV_WR_RDMA_WRITE, 64, a.mr->lkey, (uintptr_t)b.memory, mr->rkey),
          "write");
    print_pair("write, memory of another domain");
    ibv_dereg_mr(mr);
    open_pair(ALL, ALL);
    uint32_t key = b.mr->rkey;
    ibv_dereg_mr(b.mr);
    b.mr = NULL;
    check(!post(IBV_WR_RDMA_WRITE, 64, a.mr->lkey, (uintptr_t)b.memory, key), "write");
    print_pair("write, memory not registered any more");
}

static void peer_mistakes(void)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

    open_pair(ALL, ALL);
    ibv_modify_qp(b.qp, &attr, IBV_QP_STATE);
    check(!post(IBV_WR_SEND, 64, a.mr->lkey, 0, 0), "send");
    print_pair("send, peer in RESET");
    open_pair(ALL, ALL);
    attr.qp_state = IBV_QPS_ERR;
    check(!post_receive(&a, 64, a.mr->lkey), "post_recv");
    ibv_modify_qp(a.qp, &attr, IBV_QP_STATE);
    print_pair("receive, own state to ERR");
}

static void result(const char *what, int rc)
{
    printf("%-44s %s\n", what, rc ? strerrorname_np(rc) : "accepted");
}

static void call_mistakes(void)
{
    struct ibv_device_attr device;
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC};

    check(!ibv_query_device(context, &device), "query_device");
    make_end(&a, ALL, NULL);
    result("RESET to RTR", to_rtr(a.qp, 2));
    result("RESET to RTS", to_rts(a.qp, 0));
    check(!to_init(a.qp, ALL), "INIT");
    result("post_send in INIT", post(IBV_WR_SEND, 8, a.mr->lkey, 0, 0));
    struct ibv_qp_attr no_mask = {.qp_state = IBV_QPS_RTR};
    result("INIT to RTR, attributes missing", ibv_modify_qp(a.qp, &no_mask, IBV_QP_STATE));
    for (int i = 0; i < DEPTH; i++)
        check(!post_receive(&a, 8, a.mr->lkey), "post_recv");
    result("destroy_cq in use", ibv_destroy_cq(a.cq));
    free_end(&a);
    result("reg_mr, remote write without local",
           ibv_reg_mr(pd, &device, 8, IBV_ACCESS_REMOTE_WRITE) ? 0 : errno);
    void *hole = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(hole, BYTES);
    result("reg_mr, not mapped", ibv_reg_mr(pd, hole, BYTES, ALL) ? 0 : errno);
    result("create_cq, too deep",
           ibv_create_cq(context, device.max_cqe + 1, NULL, NULL, 0) ? 0 : errno);
    attr.send_cq = attr.recv_cq = ibv_create_cq(context, 4, NULL, NULL, 0);
    attr.cap.max_send_wr = (uint32_t)device.max_qp_wr + 1;
    result("create_qp, too deep", ibv_create_qp(pd, &attr) ? 0 : errno);
    ibv_destroy_cq(attr.send_cq);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    open_device(argc > 2 ? argv[2] : NULL, argc > 1 ? atoi(argv[1]) : 1);
    remote_mistakes();
    message_mistakes();
    other_domain();
    peer_mistakes();
    call_mistakes();
    close_device();
    return 0;
}
