/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reliable datagrams of a device of the kind EFA: order, receivers that are not ready, numbers of
 * address handles, sizes, and refusals. Each step is checked; the program ends with 0 if all were
 * as they must be.
 */
#include <infiniband/efadv.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    DEPTH = 64,
    SLOT = 64,
    WAIT_MS = 5000,
    SILENCE_MS = 50,
    QKEY = 0x1234,
    NO_AHN = 0xffff,
    BULK = 200000, /* several of the emulator's packets */
    CAP_WRITE = 1 << 3,
};

struct end {
    struct ibv_pd *pd;
    struct ibv_cq_ex *cq;
    struct ibv_qp *qp;
    struct ibv_qp_ex *ex;
    struct ibv_mr *mr;
    struct ibv_ah *ah; /* of the other end */
    struct ibv_mr *bulk_mr;
    char bulk[BULK];
    char memory[2 * DEPTH * SLOT];
};

/* Fields of a completion. */
struct done {
    uint64_t id;
    int status;
    unsigned vendor, length, slid, source;
    bool gid;
};

static struct ibv_context *context;
static struct ibv_port_attr port;
static union ibv_gid gid;
static struct end a, b;
static bool rdma;

static void check(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "reliable: %s\n", what);
    exit(1);
}

static void make_end(struct end *end, uint32_t receives)
{
    struct ibv_cq_init_attr_ex cq = {.cqe = 4 * DEPTH,
                                     .wc_flags = IBV_WC_STANDARD_FLAGS & ~IBV_WC_EX_WITH_IMM};
    struct efadv_cq_init_attr efa_cq = {.wc_flags = EFADV_WC_EX_WITH_SGID};
    struct efadv_qp_init_attr efa_qp = {.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD};
    struct ibv_qp_init_attr_ex attr = {
        .qp_type = IBV_QPT_DRIVER,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .send_ops_flags =
            IBV_QP_EX_WITH_SEND |
            (rdma ? IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM : 0),
        .sq_sig_all = 1,
        .cap = {.max_send_wr = DEPTH,
                .max_recv_wr = receives,
                .max_send_sge = 2,
                .max_recv_sge = 1,
                .max_inline_data = 32},
    };

    memset(end, 0, sizeof(*end));
    end->pd = ibv_alloc_pd(context);
    end->cq = efadv_create_cq(context, &cq, &efa_cq, sizeof(efa_cq));
    check(end->pd && end->cq, "no domain or queue");
    attr.pd = end->pd;
    attr.send_cq = attr.recv_cq = ibv_cq_ex_to_cq(end->cq);
    end->qp = efadv_create_qp_ex(context, &attr, &efa_qp, sizeof(efa_qp));
    end->mr = ibv_reg_mr(end->pd, end->memory, sizeof(end->memory), IBV_ACCESS_LOCAL_WRITE);
    end->bulk_mr =
        ibv_reg_mr(end->pd, end->bulk, BULK,
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
    check(end->qp && end->mr && end->bulk_mr, "no queue pair or region");
    end->ex = ibv_qp_to_qp_ex(end->qp);
    check(end->ex && end->qp->qp_num >> 16 == 0, "a number of more than 16 bits");
}

static void make_ready(struct end *end, uint8_t rnr_retry)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY, .rnr_retry = rnr_retry};

    check(!ibv_modify_qp(end->qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
          "INIT");
    attr.qp_state = IBV_QPS_RTR;
    check(!ibv_modify_qp(end->qp, &attr, IBV_QP_STATE), "RTR");
    attr.qp_state = IBV_QPS_RTS;
    check(!ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_RNR_RETRY), "RTS");
}

static struct ibv_ah *make_ah(struct ibv_pd *pd)
{
    struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh.dgid = gid};
    struct ibv_ah *ah = ibv_create_ah(pd, &attr);

    check(ah != NULL, "create_ah");
    return ah;
}

static unsigned ahn_of(struct ibv_ah *ah)
{
    struct efadv_ah_attr attr;

    check(!efadv_query_ah(ah, &attr, sizeof(attr)), "query_ah");
    return attr.ahn;
}

static void open_pair(uint32_t receives, uint8_t rnr_retry)
{
    make_end(&a, receives);
    make_end(&b, receives);
    make_ready(&a, rnr_retry);
    make_ready(&b, rnr_retry);
    a.ah = make_ah(a.pd);
}

static void close_end(struct end *end)
{
    if (end->ah)
        check(!ibv_destroy_ah(end->ah), "destroy_ah");
    check(!ibv_destroy_qp(end->qp) && !ibv_destroy_cq(ibv_cq_ex_to_cq(end->cq)), "destroy");
    check(!ibv_dereg_mr(end->bulk_mr) && !ibv_dereg_mr(end->mr) && !ibv_dealloc_pd(end->pd),
          "dealloc");
}

static void close_pair(void)
{
    close_end(&a);
    close_end(&b);
}

static void receive(struct end *end, unsigned slot)
{
    struct ibv_sge sge = {(uintptr_t)(end->memory + (DEPTH + slot) * SLOT), SLOT, end->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = 1000 + slot, .sg_list = &sge, .num_sge = 1}, *bad;

    check(!ibv_post_recv(end->qp, &wr, &bad), "post_recv");
}

/* The result of wr_complete. */
static int send_number(unsigned number, uint32_t length, uint32_t qpn, uint32_t qkey)
{
    memcpy(a.memory + number * SLOT, &number, sizeof(number));
    ibv_wr_start(a.ex);
    a.ex->wr_id = number;
    a.ex->wr_flags = 0;
    ibv_wr_send(a.ex);
    ibv_wr_set_sge(a.ex, a.mr->lkey, (uintptr_t)(a.memory + number * SLOT), length);
    ibv_wr_set_ud_addr(a.ex, a.ah, qpn, qkey);
    return ibv_wr_complete(a.ex);
}

static bool poll_one(struct end *end, struct done *done)
{
    struct ibv_poll_cq_attr attr = {.comp_mask = 0};
    union ibv_gid source;

    if (ibv_start_poll(end->cq, &attr))
        return false;
    *done = (struct done){
        .id = end->cq->wr_id,
        .status = end->cq->status,
        .vendor = ibv_wc_read_vendor_err(end->cq),
        .length = ibv_wc_read_byte_len(end->cq),
        .slid = ibv_wc_read_slid(end->cq),
        .source = ibv_wc_read_src_qp(end->cq),
    };
    done->gid = !efadv_wc_read_sgid(efadv_cq_from_ibv_cq_ex(end->cq), &source) &&
                !memcmp(&source, &gid, sizeof(gid));
    ibv_end_poll(end->cq);
    return true;
}

static bool next(struct end *end, struct done *done, int ms)
{
    struct timespec start, now;

    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        if (poll_one(end, done))
            return true;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < ms);
    return false;
}

/* All arrive, once each; with WEFT_EMULATOR_MISORDER not in the order of the posts. */
static void everything_arrives(bool misordered)
{
    bool came[DEPTH] = {false}, sent[DEPTH] = {false}, turned = false, ends_turned = false;
    struct done done;

    open_pair(DEPTH, 7);
    for (unsigned i = 0; i < DEPTH; i++)
        receive(&b, i);
    for (unsigned i = 0; i < DEPTH; i++)
        check(!send_number(i, SLOT, b.qp->qp_num, QKEY), "send");
    check(send_number(0, SLOT, b.qp->qp_num, QKEY) != 0, "a request too many");
    for (unsigned i = 0; i < DEPTH; i++) {
        unsigned number;

        check(next(&b, &done, WAIT_MS) && !done.status && done.length == SLOT, "no packet came");
        check(done.source == a.qp->qp_num, "a packet of somebody else");
        memcpy(&number, b.memory + (DEPTH + done.id - 1000) * SLOT, sizeof(number));
        check(number < DEPTH && !came[number], "a packet twice");
        came[number] = true;
        turned |= number != i;
    }
    for (unsigned i = 0; i < DEPTH; i++) {
        check(next(&a, &done, WAIT_MS) && !done.status && !sent[done.id],
              "a send that did not end");
        sent[done.id] = true;
        ends_turned |= done.id != i;
    }
    check(!misordered || ends_turned, "requests ended in the order of the posts");
    check(turned == misordered, misordered ? "nothing was overtaken" : "packets out of order");
    close_pair();
}

static void receivers_are_waited_for(void)
{
    struct done done;

    open_pair(DEPTH, 7);
    check(!send_number(3, 8, b.qp->qp_num, QKEY), "send");
    check(!next(&a, &done, SILENCE_MS), "it ended without a receive");
    receive(&b, 0);
    check(next(&b, &done, WAIT_MS) && done.length == 8, "late: receive");
    check(next(&a, &done, WAIT_MS) && !done.status && done.id == 3, "late: send");
    close_pair();
    for (uint8_t retries = 0; retries < 7; retries++) {
        if (retries)
            close_pair();
        open_pair(DEPTH, retries);
        check(!send_number(4, 8, b.qp->qp_num, QKEY), "send");
        check(next(&a, &done, WAIT_MS) && done.status == IBV_WC_RNR_RETRY_EXC_ERR &&
                  done.vendor == 10,
              "it was sent without end");
    }
    check(!send_number(5, 8, b.qp->qp_num, QKEY), "send after an error");
    receive(&b, 0);
    check(next(&b, &done, WAIT_MS), "nothing comes after an error");
    close_pair();
}

static void wrong_targets_are_told(void)
{
    struct done done;

    open_pair(DEPTH, 7);
    receive(&b, 0);
    check(!send_number(1, 8, b.qp->qp_num, QKEY + 1), "send");
    check(next(&a, &done, WAIT_MS) && done.status == IBV_WC_RESP_TIMEOUT_ERR && done.vendor == 13,
          "another key");
    check(!send_number(2, 8, b.qp->qp_num ^ 32, QKEY), "send");
    check(next(&a, &done, WAIT_MS) && done.vendor == 9, "a number of nobody");
    check(!next(&b, &done, SILENCE_MS), "it came all the same");
    close_pair();
}

/* The number of a sender's address handle is known once there is one. */
static void senders_have_numbers(void)
{
    struct done done;
    struct ibv_ah *again;

    open_pair(DEPTH, 7);
    receive(&b, 0);
    receive(&b, 1);
    check(!send_number(1, 8, b.qp->qp_num, QKEY), "send");
    check(next(&b, &done, WAIT_MS) && done.slid == NO_AHN && done.gid, "unknown: GID");
    b.ah = make_ah(b.pd);
    again = make_ah(b.pd);
    check(ahn_of(again) == ahn_of(b.ah), "two numbers of one GID");
    check(!ibv_destroy_ah(again), "destroy_ah");
    check(!send_number(2, 8, b.qp->qp_num, QKEY), "send");
    check(next(&b, &done, WAIT_MS) && done.slid == ahn_of(b.ah) && !done.gid, "known: number");
    close_pair();
}

/* An address that is no host's, and one more than there are. */
static void hosts_and_handles(void)
{
    struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh.dgid = gid};
    struct done done;
    struct ibv_ah *own;

    open_pair(DEPTH, 7);
    own = a.ah;
    attr.grh.dgid.raw[15] ^= 1;
    a.ah = ibv_create_ah(a.pd, &attr);
    check(a.ah && ahn_of(a.ah) != ahn_of(own), "a number for each GID");
    check(!send_number(1, 8, b.qp->qp_num, QKEY), "send");
    check(next(&a, &done, WAIT_MS) && done.status == IBV_WC_RESP_TIMEOUT_ERR && done.vendor == 15,
          "an address that is no host's");
    check(!ibv_destroy_ah(a.ah), "destroy_ah");
    a.ah = own;
    close_pair();
}

/* Flags and service levels that the device has not. */
static void attributes(void)
{
    struct {
        uint64_t comp_mask;
        uint32_t type;
        uint16_t flags;
        uint8_t level, reserved;
    } newer = {.type = EFADV_QP_DRIVER_TYPE_SRD};
    struct ibv_qp_init_attr_ex attr = {
        .qp_type = IBV_QPT_DRIVER, .comp_mask = IBV_QP_INIT_ATTR_PD, .sq_sig_all = 1};
    struct efadv_qp_init_attr efa;
    struct ibv_qp *qp;

    make_end(&a, DEPTH);
    attr.pd = a.pd;
    attr.send_cq = attr.recv_cq = ibv_cq_ex_to_cq(a.cq);
    attr.cap.max_send_wr = attr.cap.max_recv_wr = attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
    for (int i = 0; i < 4; i++) {
        newer.flags = i == 1 ? 1 << 5 : 0;
        newer.level = i == 2 ? 3 : i == 3 ? 8 : 0;
        memcpy(&efa, &newer, sizeof(efa));
        qp = efadv_create_qp_ex(context, &attr, &efa, sizeof(efa));
        check(!qp == (i == 1 || i == 2), "flags and service levels");
        if (qp)
            check(!ibv_destroy_qp(qp), "destroy_qp");
    }
    close_end(&a);
}

static void what_it_refuses(void)
{
    struct ibv_sge sge = {0};
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1}, *bad;
    struct efadv_device_attr attr;
    struct done done;

    check(!efadv_query_device(context, &attr, sizeof(attr)), "query_device");
    check(attr.device_caps & EFADV_DEVICE_ATTR_CAPS_RNR_RETRY, "RNR retries");
    open_pair(DEPTH, 7);
    wr.wr.ud.ah = a.ah;
    wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
    check(ibv_post_send(a.qp, &wr, &bad) != 0, "a fence");
    wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED;
    check(ibv_post_send(a.qp, &wr, &bad) != 0, "a solicited one");
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    check(ibv_post_send(a.qp, &wr, &bad) != 0, "a write");
    receive(&b, 0);
    check(!send_number(0, SLOT + 1, b.qp->qp_num, QKEY), "send");
    check(next(&a, &done, WAIT_MS) && done.vendor == 11, "longer than the receive");
    check(!send_number(0, port.max_msg_sz + 1, b.qp->qp_num, QKEY), "send");
    check(next(&a, &done, WAIT_MS) && done.status == IBV_WC_LOC_LEN_ERR && done.vendor == 6,
          "longer than a packet");
    close_pair();
}

/* From a's bulk to b's, or back. */
static void access_bulk(enum ibv_wr_opcode opcode, uint32_t rkey, uint32_t length)
{
    uint64_t remote = (uintptr_t)b.bulk;

    ibv_wr_start(a.ex);
    a.ex->wr_id = 7;
    if (opcode == IBV_WR_RDMA_READ)
        ibv_wr_rdma_read(a.ex, rkey, remote);
    else
        ibv_wr_rdma_write_imm(a.ex, rkey, remote, 0x1234);
    ibv_wr_set_sge(a.ex, a.bulk_mr->lkey, (uintptr_t)a.bulk, length);
    ibv_wr_set_ud_addr(a.ex, a.ah, b.qp->qp_num, QKEY);
    check(!ibv_wr_complete(a.ex), "an access is refused");
}

/* A packet that has come to a queue pair, and waits to be overtaken, does not keep its sender
 * waiting when the queue pair is destroyed. */
static void packets_of_none_end(void)
{
    enum {
        TRIES = 20,
        EACH = 8
    };
    struct done done;

    for (unsigned i = 0; i < TRIES; i++) {
        open_pair(DEPTH, 7);
        for (unsigned j = 0; j < EACH; j++)
            receive(&b, j);
        for (unsigned j = 0; j < EACH; j++)
            check(!send_number(j, SLOT, b.qp->qp_num, QKEY), "send");
        poll_one(&b, &done); /* they arrive */
        close_end(&b);
        for (unsigned j = 0; j < EACH; j++)
            check(next(&a, &done, WAIT_MS), "a send that waits for a queue pair that is gone");
        close_end(&a);
    }
}

static void memory_is_accessed(void)
{
    struct done done;

    open_pair(DEPTH, 7);
    access_bulk(IBV_WR_RDMA_READ, b.bulk_mr->rkey, BULK);
    check(next(&a, &done, WAIT_MS) && done.vendor == 14, "a target that does not know the sender");
    b.ah = make_ah(b.pd);
    memset(b.bulk, 'b', BULK);
    access_bulk(IBV_WR_RDMA_READ, b.bulk_mr->rkey, BULK);
    check(next(&a, &done, WAIT_MS) && !done.status && !memcmp(a.bulk, b.bulk, BULK), "a read");
    memset(a.bulk, 'a', BULK);
    access_bulk(IBV_WR_RDMA_WRITE_WITH_IMM, b.bulk_mr->rkey, BULK);
    check(!next(&a, &done, SILENCE_MS), "immediate data without a receive");
    receive(&b, 0);
    check(next(&b, &done, WAIT_MS) && !done.status && done.length == BULK, "immediate data");
    check(!memcmp(a.bulk, b.bulk, BULK), "immediate data before the bytes");
    check(next(&a, &done, WAIT_MS) && !done.status, "a write");
    access_bulk(IBV_WR_RDMA_READ, b.bulk_mr->rkey + 1, 8);
    check(next(&a, &done, WAIT_MS) && done.status == IBV_WC_REM_ACCESS_ERR && done.vendor == 7,
          "a wrong key");
    close_pair();
}

int main(int argc, char **argv)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    bool misordered = argc > 1 && !strcmp(argv[1], "misordered");
    struct efadv_device_attr attr;

    check(list && list[0], "no device");
    context = ibv_open_device(list[0]);
    check(context && !ibv_query_port(context, 1, &port) && !ibv_query_gid(context, 1, 0, &gid) &&
              !efadv_query_device(context, &attr, sizeof(attr)),
          "no port");
    rdma = attr.device_caps & CAP_WRITE;
    if (rdma)
        memory_is_accessed();
    everything_arrives(misordered);
    receivers_are_waited_for();
    wrong_targets_are_told();
    packets_of_none_end();
    senders_have_numbers();
    hosts_and_handles();
    attributes();
    what_it_refuses();
    check(!ibv_close_device(context), "close_device");
    ibv_free_device_list(list);
    return 0;
}
