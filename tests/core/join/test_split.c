/* SPDX-License-Identifier: BSD-2-Clause */
/* A join of a few lines carries every kind of operation to the lower of its peer, over loop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include "compose/build.h"
#include "compose/getinfo.h"
#include "core/info/abi.h"
#include "core/info/info.h"
#include "split.h"

struct end {
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_mr *mr;
    char name[128];
    uint64_t memory[8];
};

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_cq *cq;
static struct fid_ep *srx;
static struct end own[2], far[2];
static struct split split;
static uint64_t source[2] = {40, 2}, compare[1] = {100}, result[1];

/* ---- Opening ---- */

static struct fid_cq *open_cq(void)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};
    struct fid_cq *queue;

    assert_int_equal(fi_cq_open(domain, &attr, &queue, NULL), 0);
    return queue;
}

static void open_end(struct end *end, struct fid_cq *queue, struct fid_ep *receives)
{
    struct fi_av_attr attr = {.type = FI_AV_TABLE};
    size_t len = sizeof(end->name);

    info->ep_attr->rx_ctx_cnt = receives ? FI_SHARED_CONTEXT : 1;
    assert_int_equal(fi_endpoint(domain, info, &end->ep, NULL), 0);
    assert_int_equal(fi_av_open(domain, &attr, &end->av, NULL), 0);
    assert_int_equal(fi_ep_bind(end->ep, &queue->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_ep_bind(end->ep, &end->av->fid, 0), 0);
    if (receives)
        assert_int_equal(fi_ep_bind(end->ep, &receives->fid, 0), 0);
    assert_int_equal(fi_enable(end->ep), 0);
    assert_int_equal(fi_getname(&end->ep->fid, end->name, &len), 0);
    end->cq = queue;
}

static int setup(void **state)
{
    struct fi_info *hints = info_alloc();

    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC;
    assert_int_equal(info_set_string(&hints->fabric_attr->prov_name, "loop"), 0);
    assert_int_equal(getinfo_run(FI_VERSION(2, 6), NULL, NULL, 0, hints, ABI_1_9, &info), 0);
    info_free(hints);
    assert_int_equal(fabric_open(info->fabric_attr, NULL, ABI_1_9, &fabric, NULL), 0);
    assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
    assert_int_equal(fi_srx_context(domain, info->rx_attr, &srx, NULL), 0);
    cq = open_cq();
    for (int i = 0; i < 2; i++) {
        const uint64_t access = FI_REMOTE_READ | FI_REMOTE_WRITE;

        open_end(&own[i], cq, srx);
        open_end(&far[i], open_cq(), NULL);
        assert_int_equal(fi_av_insert(own[i].av, far[i].name, 1, NULL, 0, NULL), 1);
        assert_int_equal(fi_av_insert(far[i].av, own[i].name, 1, NULL, 0, NULL), 1);
        assert_int_equal(fi_mr_reg(domain, far[i].memory, sizeof(far[i].memory), access, 0,
                                   (uint64_t)i + 1, 0, &far[i].mr, NULL),
                         0);
    }
    split_open(&split, own[0].ep, own[1].ep, srx);
    return 0;
}

static int teardown(void **state)
{
    for (int i = 0; i < 2; i++) {
        fi_close(&far[i].mr->fid);
        fi_close(&own[i].ep->fid);
        fi_close(&far[i].ep->fid);
        fi_close(&own[i].av->fid);
        fi_close(&far[i].av->fid);
        fi_close(&far[i].cq->fid);
    }
    fi_close(&srx->fid);
    fi_close(&cq->fid);
    assert_int_equal(fi_close(&domain->fid), 0);
    assert_int_equal(fi_close(&fabric->fid), 0);
    info_free(info);
    return 0;
}

/* ---- Driving ---- */

static struct fi_cq_tagged_entry wait_at(struct fid_cq *queue)
{
    struct fi_cq_tagged_entry entry;

    for (;;) {
        ssize_t rc = fi_cq_read(queue, &entry, 1);

        if (rc == 1)
            return entry;
        assert_int_equal(rc, -FI_EAGAIN);
        fi_cq_read(cq, NULL, 0);
        fi_cq_read(far[0].cq, NULL, 0);
        fi_cq_read(far[1].cq, NULL, 0);
    }
}

/* ---- Messages ---- */

static struct iovec iov = {source, 8};

static ssize_t send_as(int way, fi_addr_t to)
{
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = to, .data = 5};

    switch (way) {
    case 0: return fi_send(&split.fid, source, 8, NULL, to, NULL);
    case 1: return fi_sendv(&split.fid, &iov, NULL, 1, to, NULL);
    case 2: return fi_sendmsg(&split.fid, &msg, FI_COMPLETION);
    case 3: return fi_inject(&split.fid, source, 8, to);
    case 4: return fi_senddata(&split.fid, source, 8, NULL, 5, to, NULL);
    default: return fi_injectdata(&split.fid, source, 8, 5, to);
    }
}

static ssize_t tsend_as(int way, fi_addr_t to)
{
    struct fi_msg_tagged msg = {.msg_iov = &iov, .iov_count = 1, .addr = to, .tag = 7};

    switch (way) {
    case 0: return fi_tsend(&split.fid, source, 8, NULL, to, 7, NULL);
    case 1: return fi_tsendv(&split.fid, &iov, NULL, 1, to, 7, NULL);
    case 2: return fi_tsendmsg(&split.fid, &msg, FI_COMPLETION);
    case 3: return fi_tinject(&split.fid, source, 8, to, 7);
    case 4: return fi_tsenddata(&split.fid, source, 8, NULL, 5, to, 7, NULL);
    default: return fi_tinjectdata(&split.fid, source, 8, 5, to, 7);
    }
}

static void messages_reach_the_peer(void **state)
{
    for (int way = 0; way < 12; way++) {
        for (fi_addr_t to = 0; to < 2; to++) {
            bool tagged = way >= 6, data = way % 6 >= 4, inject = way % 6 == 3 || way % 6 == 5;
            uint64_t in = 0;
            struct fi_cq_tagged_entry entry;
            ssize_t rc = tagged ? fi_trecv(far[to].ep, &in, 8, NULL, FI_ADDR_UNSPEC, 7, 0, NULL)
                                : fi_recv(far[to].ep, &in, 8, NULL, FI_ADDR_UNSPEC, NULL);

            assert_int_equal(rc, 0);
            source[0] = 100 + (uint64_t)way;
            assert_int_equal(tagged ? tsend_as(way - 6, to) : send_as(way, to), 0);
            entry = wait_at(far[to].cq);
            assert_int_equal(in, source[0]);
            assert_int_equal(entry.tag, tagged ? 7 : 0);
            assert_int_equal(!!(entry.flags & FI_REMOTE_CQ_DATA), data);
            if (!inject)
                wait_at(cq);
        }
    }
}

static void receives_take_from_both(void **state)
{
    uint64_t in[2] = {0};

    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(fi_recv(&split.fid, &in[i], 8, NULL, FI_ADDR_UNSPEC, NULL), 0);
        assert_int_equal(fi_inject(far[i].ep, &(uint64_t){i + 1}, 8, 0), 0);
        wait_at(cq);
        assert_int_equal(in[i], i + 1);
        assert_int_equal(fi_trecv(&split.fid, &in[i], 8, NULL, FI_ADDR_UNSPEC, 3, 0, NULL), 0);
        assert_int_equal(fi_tinject(far[i].ep, &(uint64_t){i + 5}, 8, 0, 3), 0);
        wait_at(cq);
        assert_int_equal(in[i], i + 5);
    }
}

/* ---- Remote memory ---- */

static ssize_t access_as(int way, fi_addr_t to, uint64_t key)
{
    struct fi_rma_iov remote = {.addr = 0, .len = 8, .key = key};
    struct fi_msg_rma msg = {
        .msg_iov = &iov, .iov_count = 1, .addr = to, .rma_iov = &remote, .rma_iov_count = 1};

    switch (way) {
    case 0: return fi_write(&split.fid, source, 8, NULL, to, 0, key, NULL);
    case 1: return fi_writev(&split.fid, &iov, NULL, 1, to, 0, key, NULL);
    case 2: return fi_writemsg(&split.fid, &msg, FI_COMPLETION);
    case 3: return fi_writedata(&split.fid, source, 8, NULL, 5, to, 0, key, NULL);
    case 4: return fi_read(&split.fid, source, 8, NULL, to, 0, key, NULL);
    case 5: return fi_readv(&split.fid, &iov, NULL, 1, to, 0, key, NULL);
    default: return fi_readmsg(&split.fid, &msg, FI_COMPLETION);
    }
}

static void accesses_reach_the_peer(void **state)
{
    for (int way = 0; way < 7; way++) {
        for (fi_addr_t to = 0; to < 2; to++) {
            uint64_t value = 1000 + 2 * (uint64_t)way + to;

            *(way < 4 ? source : far[to].memory) = value;
            assert_int_equal(access_as(way, to, to + 1), 0);
            wait_at(cq);
            assert_int_equal(far[to].memory[0], value);
            assert_int_equal(source[0], value);
            if (way == 3)
                wait_at(far[to].cq);
        }
    }
    for (fi_addr_t to = 0; to < 2; to++) {
        assert_int_equal(fi_inject_write(&split.fid, source, 8, to, 8, to + 1), 0);
        assert_int_equal(fi_inject_writedata(&split.fid, source, 8, 5, to, 16, to + 1), 0);
        assert_int_equal(wait_at(far[to].cq).data, 5);
        assert_int_equal(far[to].memory[1], source[0]);
        assert_int_equal(far[to].memory[2], source[0]);
    }
}

static void atomics_reach_the_peer(void **state)
{
    struct fi_ioc ioc = {source, 1}, compare_ioc = {compare, 1}, result_ioc = {result, 1};
    size_t count;

    assert_int_equal(fi_compare_atomicvalid(&split.fid, FI_UINT64, FI_CSWAP, &count), 0);
    assert_true(count >= 1);
    for (fi_addr_t to = 0; to < 2; to++) {
        const uint64_t key = to + 1;

        far[to].memory[0] = 0;
        source[0] = 40;
        fi_atomic(&split.fid, source, 1, NULL, to, 0, key, FI_UINT64, FI_SUM, NULL);
        wait_at(cq);
        fi_atomicv(&split.fid, &ioc, NULL, 1, to, 0, key, FI_UINT64, FI_SUM, NULL);
        wait_at(cq);
        fi_inject_atomic(&split.fid, &source[1], 1, to, 0, key, FI_UINT64, FI_SUM);
        fi_fetch_atomicv(&split.fid, &ioc, NULL, 1, &result_ioc, NULL, 1, to, 0, key, FI_UINT64,
                         FI_SUM, NULL);
        wait_at(cq);
        assert_int_equal(result[0], 82);
        compare[0] = 122;
        fi_compare_atomicv(&split.fid, &ioc, NULL, 1, &compare_ioc, NULL, 1, &result_ioc, NULL, 1,
                           to, 0, key, FI_UINT64, FI_CSWAP, NULL);
        wait_at(cq);
        assert_int_equal(result[0], 122);
        assert_int_equal(far[to].memory[0], 40);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_reach_the_peer),
        cmocka_unit_test(receives_take_from_both),
        cmocka_unit_test(accesses_reach_the_peer),
        cmocka_unit_test(atomics_reach_the_peer),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
