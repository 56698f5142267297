/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device's work beyond moving data: events, order, credits, the second ways to post and to poll.
 * Each step is checked; the program ends with 0 if all were as they must be.
 *
 *      behaviour [GID-INDEX [DEVICE [leave]]]
 *
 * leave: it destroys nothing of what it made.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ends.h"

enum {
    WAIT_MS = 5000,
    SILENCE_MS = 50,
};

static int readable(int fd, int milliseconds)
{
    struct pollfd poller = {.fd = fd, .events = POLLIN};

    return poll(&poller, 1, milliseconds) == 1;
}

/* A receiver that comes late is waited for, rnr_retry 7 meaning without end. */
static void late_receiver(void)
{
    struct ibv_wc wc;

    make_end(&a, ALL, NULL);
    make_end(&b, ALL, NULL);
    connect_pair(ALL, 7);
    strcpy(a.memory, "late");
    check(!post(IBV_WR_SEND, 8, a.mr->lkey, 0, 0), "late: post_send");
    check(next_completion(a.cq, SILENCE_MS, NULL) < 0, "late: completed without a receive");
    check(!post_receive(&b, 64, b.mr->lkey), "late: post_recv");
    check(next_completion(b.cq, WAIT_MS, &wc) == 0 && wc.byte_len == 8, "late: receive");
    check(!strcmp(b.memory, "late"), "late: bytes");
    check(next_completion(a.cq, WAIT_MS, NULL) == 0, "late: send");
    close_pair();
}

/* Places are given back by polling, and unsignaled requests by the next completion. */
static void credits(void)
{
    struct ibv_sge sge = {0};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}, *bad;

    open_pair(ALL, ALL);
    sge.addr = (uintptr_t)a.memory;
    sge.length = 8;
    sge.lkey = a.mr->lkey;
    wr.wr.rdma.remote_addr = (uintptr_t)b.memory;
    wr.wr.rdma.rkey = b.mr->rkey;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < DEPTH; i++) {
            wr.wr_id = (uint64_t)i;
            wr.send_flags = i == DEPTH - 1 ? IBV_SEND_SIGNALED : 0;
            check(!ibv_post_send(a.qp, &wr, &bad), "credits: post_send");
        }
        check(ibv_post_send(a.qp, &wr, &bad) == ENOMEM, "credits: a request too many");
        struct ibv_wc wc;
        check(next_completion(a.cq, WAIT_MS, &wc) == 0 && wc.wr_id == DEPTH - 1, "credits: order");
        check(next_completion(a.cq, 1, NULL) < 0, "credits: one completion only");
    }
    close_pair();
}

static void shared_receives(void)
{
    struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 4, .max_sge = 1}};
    struct ibv_srq_attr limit = {.srq_limit = 2};
    struct ibv_async_event event;
    struct ibv_recv_wr wr = {.num_sge = 0}, *bad;
    struct ibv_srq *srq = ibv_create_srq(pd, &srq_attr);
    struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_RC, .srq = srq};

    check(srq != NULL, "srq: create");
    make_end(&a, ALL, NULL);
    make_end(&b, ALL, &attr);
    connect_pair(ALL, 0);
    for (int i = 0; i < 4; i++)
        check(!ibv_post_srq_recv(srq, &wr, &bad), "srq: post");
    check(ibv_post_srq_recv(srq, &wr, &bad) == ENOMEM, "srq: a receive too many");
    check(!ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), "srq: limit");
    for (int i = 0; i < 2; i++)
        check(!post(IBV_WR_SEND, 0, 0, 0, 0) && next_completion(b.cq, WAIT_MS, NULL) == 0 &&
                  next_completion(a.cq, WAIT_MS, NULL) == 0,
              "srq: send");
    check(!readable(context->async_fd, SILENCE_MS), "srq: limit too early");
    check(!post(IBV_WR_SEND, 0, 0, 0, 0) && next_completion(b.cq, WAIT_MS, NULL) == 0, "srq: send");
    check(readable(context->async_fd, WAIT_MS), "srq: no limit event");
    check(!ibv_get_async_event(context, &event) &&
              event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && event.element.srq == srq,
          "srq: event");
    ibv_ack_async_event(&event);
    check(ibv_destroy_srq(srq) == EBUSY, "srq: destroyed in use");
    close_pair();
    check(!ibv_destroy_srq(srq), "srq: destroy");
}

/* An event for the next completion after arming, and none for others; solicited ones if asked. */
static void channels(void)
{
    struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
    struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_RC};
    struct ibv_cq *told;
    void *cookie;

    attr.send_cq = ibv_create_cq(context, 16, &a, channel, 0);
    make_end(&a, ALL, NULL);
    make_end(&b, ALL, &attr);
    connect_pair(ALL, 0);
    for (int i = 0; i < 3; i++)
        check(!post_receive(&b, 64, b.mr->lkey), "channel: post_recv");
    check(!post(IBV_WR_SEND, 8, a.mr->lkey, 0, 0) && next_completion(a.cq, WAIT_MS, NULL) == 0,
          "channel: send");
    check(!readable(channel->fd, SILENCE_MS), "channel: event without arming");
    check(!ibv_req_notify_cq(b.cq, 1), "channel: arm");
    check(!post(IBV_WR_SEND, 8, a.mr->lkey, 0, 0) && next_completion(a.cq, WAIT_MS, NULL) == 0,
          "channel: send");
    check(!readable(channel->fd, SILENCE_MS), "channel: event for an unsolicited one");
    check(!ibv_req_notify_cq(b.cq, 0), "channel: arm for all");
    check(!post(IBV_WR_SEND, 8, a.mr->lkey, 0, 0), "channel: send");
    check(!ibv_get_cq_event(channel, &told, &cookie) && told == b.cq && cookie == &a,
          "channel: event");
    ibv_ack_cq_events(told, 1);
    check(ibv_destroy_comp_channel(channel) == EBUSY, "channel: destroyed in use");
    close_pair();
    check(!ibv_destroy_comp_channel(channel), "channel: destroy");
}

/* Overrun is the end of a queue, and is told. */
static void overrun(void)
{
    struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_RC};
    struct ibv_async_event event;

    attr.send_cq = ibv_create_cq(context, 1, NULL, NULL, 0);
    make_end(&a, ALL, &attr);
    make_end(&b, ALL, NULL);
    connect_pair(ALL, 0);
    for (int i = 0; i < DEPTH && !readable(context->async_fd, 0); i++)
        check(!post(IBV_WR_RDMA_WRITE, 8, a.mr->lkey, (uintptr_t)b.memory, b.mr->rkey),
              "overrun: write");
    check(readable(context->async_fd, WAIT_MS), "overrun: not told");
    check(!ibv_get_async_event(context, &event) && event.event_type == IBV_EVENT_CQ_ERR &&
              event.element.cq == a.cq,
          "overrun: event");
    ibv_ack_async_event(&event);
    close_pair();
}

/* Two requests posted as one, one of them inline; aborted requests are forgotten. */
static void second_interface(void)
{
    struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_RC,
                                       .comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                                       .send_ops_flags = IBV_QP_EX_WITH_SEND |
                                                         IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM};
    struct ibv_cq_init_attr_ex cq_attr = {.cqe = 16,
                                          .wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM};
    struct ibv_poll_cq_attr poll_attr = {0};
    struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &cq_attr);
    struct ibv_qp_init_attr_ex peer = {.qp_type = IBV_QPT_RC};
    char text[] = "inline";

    check(cq != NULL, "second: create_cq_ex");
    peer.send_cq = ibv_cq_ex_to_cq(cq);
    make_end(&a, ALL, &attr);
    make_end(&b, ALL, &peer);
    connect_pair(ALL, 0);
    check(!ibv_qp_to_qp_ex(b.qp), "second: a queue pair without it");
    check(!post_receive(&b, 64, b.mr->lkey) && !post_receive(&b, 64, b.mr->lkey), "second: recv");
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(a.qp);
    ibv_wr_start(qp);
    ibv_wr_send(qp);
    ibv_wr_abort(qp);
    ibv_wr_start(qp);
    qp->wr_id = 1;
    qp->wr_flags = 0;
    ibv_wr_send(qp);
    ibv_wr_set_inline_data(qp, text, sizeof(text));
    qp->wr_id = 2;
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write_imm(qp, b.mr->rkey, (uintptr_t)b.memory + 64, 77);
    ibv_wr_set_sge(qp, a.mr->lkey, (uintptr_t)a.memory, 16);
    memset(text, 0, sizeof(text) - 1);
    check(!ibv_wr_complete(qp), "second: wr_complete");
    struct ibv_wc wc;
    check(next_completion(a.cq, WAIT_MS, &wc) == 0 && wc.wr_id == 2, "second: completion");
    check(!ibv_start_poll(cq, &poll_attr), "second: start_poll");
    check(ibv_wc_read_opcode(cq) == IBV_WC_RECV && ibv_wc_read_byte_len(cq) == sizeof(text) &&
              !strcmp(b.memory, "inline"),
          "second: send");
    check(!ibv_next_poll(cq), "second: next_poll");
    check(ibv_wc_read_opcode(cq) == IBV_WC_RECV_RDMA_WITH_IMM && ibv_wc_read_imm_data(cq) == 77 &&
              ibv_wc_read_byte_len(cq) == 16,
          "second: write with immediate data");
    check(ibv_next_poll(cq) == ENOENT, "second: end");
    ibv_end_poll(cq);
    close_pair();
}

/* In SQD nothing new begins, and a queue without anything on the way says so. */
static void drained(void)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
    struct ibv_async_event event;

    open_pair(ALL, ALL);
    strcpy(b.memory, "read");
    check(!post(IBV_WR_RDMA_READ, 8, a.mr->lkey, (uintptr_t)b.memory, b.mr->rkey), "drained: read");
    check(!ibv_modify_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), "drained: SQD");
    check(!post(IBV_WR_RDMA_WRITE, 8, a.mr->lkey, (uintptr_t)b.memory + 8, b.mr->rkey),
          "drained: write");
    check(!ibv_get_async_event(context, &event) && event.event_type == IBV_EVENT_SQ_DRAINED,
          "drained: event");
    ibv_ack_async_event(&event);
    /* The read had begun, or not: the write had not. */
    int done = next_completion(a.cq, SILENCE_MS, NULL) == 0;
    check(next_completion(a.cq, SILENCE_MS, NULL) < 0, "drained: a request left in SQD");
    attr.qp_state = IBV_QPS_RTS;
    check(!ibv_modify_qp(a.qp, &attr, IBV_QP_STATE), "drained: RTS");
    for (; done < 2; done++)
        check(next_completion(a.cq, WAIT_MS, NULL) == 0, "drained: the rest");
    check(!strcmp(a.memory, "read"), "drained: data");
    close_pair();
}

static void *ask_for_an_event(void *channel)
{
    struct rdma_cm_event *event;

    rdma_get_cm_event(channel, &event);
    return channel;
}

/* A caller that asks a destroyed channel for an event waits for ever. */
static void abandoned(void)
{
    const struct timespec silence = {.tv_nsec = SILENCE_MS * 1000000L};
    struct rdma_event_channel *channel = rdma_create_event_channel();
    pthread_t thread;

    check(channel != NULL, "abandoned: channel");
    rdma_destroy_event_channel(channel);
    check(!pthread_create(&thread, NULL, ask_for_an_event, channel), "abandoned: thread");
    nanosleep(&silence, NULL);
    check(pthread_tryjoin_np(thread, NULL) == EBUSY, "abandoned: an answer");
}

int main(int argc, char **argv)
{
    open_device(argc > 2 ? argv[2] : NULL, argc > 1 ? atoi(argv[1]) : 1);
    if (argc > 3) {
        make_end(&a, ALL, NULL);
        return 0;
    }
    late_receiver();
    credits();
    shared_receives();
    channels();
    overrun();
    second_interface();
    drained();
    abandoned();
    close_device();
    puts("all as it must be");
    return 0;
}
