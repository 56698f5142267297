/* SPDX-License-Identifier: BSD-2-Clause */
/* shape=srd delivers each packet once, in another order, when there is a receive; shape=ud keeps 40
 * bytes in front of each buffer, and drops what finds no receive. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

enum {
    PACKETS = 64,
    PACKET = 8192,
    PREFIX = 40,
};

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_cq *cq;
static struct fid_av *av;
static struct fid_ep *ep;
static struct fid_mr *mr;
static fi_addr_t self;
static char memory[PACKETS][2 * PACKET];
static void *desc;

static int open_stack(const char *stack, enum fi_ep_type type, uint64_t caps)
{
    struct fi_info *hints = fi_allocinfo();
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_DATA};
    struct fi_av_attr av_attr = {0};
    char name[256];
    size_t len = sizeof(name);

    assert_non_null(hints);
    hints->ep_attr->type = type;
    hints->caps = caps;
    hints->mode = FI_MSG_PREFIX;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = strdup(stack);
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &info), 0);
    fi_freeinfo(hints);
    assert_int_equal(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
    assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
    assert_int_equal(fi_cq_open(domain, &cq_attr, &cq, NULL), 0);
    assert_int_equal(fi_av_open(domain, &av_attr, &av, NULL), 0);
    assert_int_equal(fi_endpoint(domain, info, &ep, NULL), 0);
    assert_int_equal(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_ep_bind(ep, &av->fid, 0), 0);
    assert_int_equal(fi_enable(ep), 0);
    assert_int_equal(fi_getname(&ep->fid, name, &len), 0);
    assert_int_equal(fi_av_insert(av, name, 1, &self, 0, NULL), 1);
    assert_int_equal(fi_mr_reg(domain, memory, sizeof(memory),
                               FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ, 0, 0, 0,
                               &mr, NULL),
                     0);
    desc = fi_mr_desc(mr);
    return 0;
}

static int open_srd(void **state)
{
    return open_stack("loop(shape=srd,seed=7)", FI_EP_RDM,
                      FI_MSG | FI_RMA | FI_READ | FI_REMOTE_READ | FI_SOURCE | FI_MULTI_RECV);
}

static int open_ud(void **state)
{
    return open_stack("loop(shape=ud)", FI_EP_DGRAM, FI_MSG | FI_SOURCE);
}

static int close_all(void **state)
{
    assert_int_equal(fi_close(&mr->fid), 0);
    assert_int_equal(fi_close(&ep->fid), 0);
    assert_int_equal(fi_close(&av->fid), 0);
    assert_int_equal(fi_close(&cq->fid), 0);
    assert_int_equal(fi_close(&domain->fid), 0);
    assert_int_equal(fi_close(&fabric->fid), 0);
    fi_freeinfo(info);
    return 0;
}

/* The next completion, or false when nothing comes any more. */
static bool next(struct fi_cq_data_entry *entry)
{
    for (int i = 0; i < 16; i++) {
        if (fi_cq_read(cq, entry, 1) == 1)
            return true;
    }
    return false;
}

static void packets_wait_for_receives_and_come_in_any_order(void **state)
{
    struct fi_cq_data_entry entry;
    bool got[PACKETS] = {false}, shuffled = false;
    unsigned last = 0;

    for (uintptr_t i = 0; i < PACKETS; i++) {
        memory[i][0] = (char)i;
        assert_int_equal(fi_send(ep, memory[i], 1, desc, self, NULL), 0);
    }
    assert_false(next(&entry));
    for (uintptr_t i = 0; i < PACKETS; i++)
        assert_int_equal(fi_recv(ep, memory[i] + PACKET, PACKET, desc, FI_ADDR_UNSPEC, NULL), 0);
    for (int i = 0; i < 2 * PACKETS; i++) {
        unsigned number;

        assert_true(next(&entry));
        if (!(entry.flags & FI_RECV))
            continue;
        number = *(unsigned char *)entry.buf;
        assert_false(got[number]);
        got[number] = true;
        shuffled |= number < last;
        last = number;
    }
    assert_false(next(&entry));
    assert_true(shuffled);
}

static void packets_have_a_size(void **state)
{
    assert_int_equal(info->ep_attr->max_msg_size, PACKET);
    assert_int_equal(info->tx_attr->msg_order, FI_ORDER_NONE);
    assert_int_equal(fi_send(ep, memory, PACKET + 1, desc, self, NULL), -FI_EMSGSIZE);
    assert_int_equal(fi_send(ep, memory, PACKET, NULL, self, NULL), -FI_EINVAL);
    assert_int_equal(fi_write(ep, memory, 1, desc, self, 0, 0, NULL), -FI_EOPNOTSUPP);
}

static void memory_is_read_without_a_receive(void **state)
{
    struct fi_cq_data_entry entry;

    memory[0][0] = 42;
    assert_int_equal(
        fi_read(ep, memory[1], 2 * PACKET, desc, self, (uintptr_t)memory[0], fi_mr_key(mr), NULL),
        0);
    assert_true(next(&entry));
    assert_true(entry.flags & FI_READ);
    assert_int_equal(memory[1][0], 42);
}

static void datagrams_have_a_prefix(void **state)
{
    struct fi_cq_data_entry entry;

    assert_int_equal(info->ep_attr->msg_prefix_size, PREFIX);
    assert_true(info->mode & FI_MSG_PREFIX);
    memset(memory[0], 1, 2 * PACKET);
    assert_int_equal(fi_recv(ep, memory[1], PACKET, desc, FI_ADDR_UNSPEC, NULL), 0);
    assert_int_equal(fi_send(ep, memory[0], PREFIX + 4096, desc, self, NULL), 0);
    assert_int_equal(fi_send(ep, memory[0], PREFIX + 4097, desc, self, NULL), -FI_EMSGSIZE);
    assert_int_equal(fi_send(ep, memory[0], PREFIX - 1, desc, self, NULL), -FI_EINVAL);
    assert_int_equal(fi_send(ep, memory[0], PREFIX + 8, NULL, self, NULL), -FI_EINVAL);
    for (int i = 0; i < 2; i++) {
        assert_true(next(&entry));
        if (entry.flags & FI_RECV)
            assert_int_equal(entry.len, PREFIX + 4096);
    }
    assert_int_not_equal(memory[1][PREFIX - 1], 1);
    assert_int_equal(memory[1][PREFIX], 1);
    assert_int_equal(memory[1][PREFIX + 4095], 1);
}

static void datagrams_without_a_receive_are_lost(void **state)
{
    struct fi_cq_data_entry entry;

    assert_int_equal(fi_send(ep, memory[0], PREFIX + 8, desc, self, NULL), 0);
    assert_true(next(&entry));
    assert_int_equal(fi_recv(ep, memory[1], PACKET, desc, FI_ADDR_UNSPEC, NULL), 0);
    assert_false(next(&entry));
}

int main(void)
{
    const struct CMUnitTest srd[] = {
        cmocka_unit_test(packets_wait_for_receives_and_come_in_any_order),
        cmocka_unit_test(packets_have_a_size),
        cmocka_unit_test(memory_is_read_without_a_receive),
    };
    const struct CMUnitTest ud[] = {
        cmocka_unit_test(datagrams_have_a_prefix),
        cmocka_unit_test(datagrams_without_a_receive_are_lost),
    };

    return cmocka_run_group_tests_name("loop(shape=srd)", srd, open_srd, close_all) +
           cmocka_run_group_tests_name("loop(shape=ud)", ud, open_ud, close_all);
}
