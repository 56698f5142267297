/* SPDX-License-Identifier: BSD-2-Clause */
/* The memory of addresses that were inserted, and of peers that have talked once; over loop, or
 * with the argument efa over an EFA device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "layers/srd/srd_wire.h"
#include "tests/support/end.h"
#include "tests/support/heap.h"
#include "tests/support/patience.h"

enum {
    IDLE = 100000,
    IDLE_MOST = 128,
    PEERS = 512,
    PEER_MOST = 512,
    ASIDE_MOST = 256,
    PACKET = 512,
};

static struct end a, first;
static const char *packets = "loop(shape=srd)", *below = "loop(shape=srd)";

static int open_with(const char *layer)
{
    char stack[128];

    snprintf(stack, sizeof(stack), "%s;%s", layer, below);
    end_open(&a, end_info(stack, FI_MSG, 0), FI_CQ_FORMAT_CONTEXT);
    end_open(&first, end_info(packets, FI_MSG, 0), FI_CQ_FORMAT_MSG);
    end_meet(&a, &first);
    return 0;
}

static int open_all(void **state)
{
    return open_with("srd");
}

static int open_limited(void **state)
{
    return open_with("srd(implicit_av_size=8)");
}

static int close_all(void **state)
{
    end_close(&first);
    end_close(&a);
    return 0;
}

/* The i-th of an end's kind: of EFA's, 64 of a host. */
static void make_address(const struct end *end, uint32_t i, uint8_t address[SRD_ADDR_SIZE])
{
    struct sockaddr_in in4 = {.sin_family = AF_INET, .sin_port = htons(7)};
    uint32_t host = htonl(i / 64);

    memset(address, 0, SRD_ADDR_SIZE);
    if (end->info->addr_format == FI_ADDR_EFA) {
        address[0] = 0xfe;
        memcpy(address + 12, &host, sizeof(host));
        address[16] = (uint8_t)(i % 64 + 1);
        return;
    }
    in4.sin_addr.s_addr = htonl(0x0a000001 + i);
    memcpy(address, &in4, sizeof(in4));
}

static void insert_many(struct end *end)
{
    size_t before = heap_in_use();
    uint8_t address[SRD_ADDR_SIZE];
    fi_addr_t at;

    for (uint32_t i = 0; i < IDLE; i++) {
        make_address(end, i, address);
        assert_int_equal(fi_av_insert(end->av, address, 1, &at, 0, NULL), 1);
    }
    print_message("%zu bytes for each address\n", (heap_in_use() - before) / IDLE);
    assert_true(heap_in_use() - before <= (size_t)IDLE * IDLE_MOST);
}

static void addresses_that_are_idle(void **state)
{
    insert_many(&a);
    insert_many(&first);
}

/* ---- Peers ---- */

struct talker {
    struct fid_ep *ep;
    struct fid_cq *cq;
    uint8_t out[PACKET], in[PACKET];
    size_t len;
};

static struct talker talkers[PEERS];
static struct fid_mr *mr;

/* A message that introduces its sender. */
static void write_packet(struct talker *talker, uint32_t connid)
{
    struct srd_header header = {.type = SRD_EAGER_MSG, .flags = SRD_RAW_ADDR, .len = 1};
    uint8_t addr[SRD_ADDR_SIZE] = {[10] = 0xff, [11] = 0xff};
    uint8_t name[64];
    size_t len = sizeof(name);
    struct sockaddr_in in4;

    assert_int_equal(fi_getname(&talker->ep->fid, name, &len), 0);
    memcpy(&in4, name, sizeof(in4));
    memcpy(addr + 12, &in4.sin_addr, 4);
    addr[16] = (uint8_t)ntohs(in4.sin_port);
    addr[17] = (uint8_t)(ntohs(in4.sin_port) >> 8);
    for (int i = 0; i < 4; i++)
        addr[20 + i] = (uint8_t)(connid >> 8 * i);
    if (first.info->addr_format == FI_ADDR_EFA)
        memcpy(addr, name, sizeof(addr));
    header.raw_addr = addr;
    header.raw_len = sizeof(addr);
    talker->len = (size_t)(srd_header_put(&header, talker->out) - talker->out) + 1;
}

static void exchange(struct fid_ep *from, struct fid_cq *from_cq, fi_addr_t to, struct fid_ep *ep,
                     struct fid_cq *cq)
{
    struct fi_cq_msg_entry entry;
    unsigned ended = 0;
    uint8_t *memory = talkers[PEERS - 1].in;

    assert_int_equal(fi_recv(ep, memory, 1, fi_mr_desc(mr), FI_ADDR_UNSPEC, NULL), 0);
    assert_int_equal(fi_send(from, memory + 1, 1, fi_mr_desc(mr), to, NULL), 0);
    for (struct patience p = {0}; patience_lasts(&p) && ended < 2;) {
        ended += fi_cq_read(from_cq, &entry, 1) == 1;
        ended += fi_cq_read(cq, &entry, 1) == 1;
    }
    assert_int_equal(ended, 2);
}

/* Memory that the lower's endpoints allocate at their first use is not srd's. */
static void warm(struct talker *talker)
{
    char name[64];
    size_t len = sizeof(name);
    fi_addr_t self, it;

    assert_int_equal(fi_getname(&talker->ep->fid, name, &len), 0);
    assert_int_equal(fi_av_insert(first.av, first.name, 1, &self, 0, NULL), 1);
    assert_int_equal(fi_av_insert(first.av, name, 1, &it, 0, NULL), 1);
    exchange(talker->ep, talker->cq, self, first.ep, first.cq);
    exchange(first.ep, first.cq, it, talker->ep, talker->cq);
}

static void open_talker(struct talker *talker)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_CONTEXT, .size = 16};

    assert_int_equal(fi_endpoint(first.domain, first.info, &talker->ep, NULL), 0);
    assert_int_equal(fi_cq_open(first.domain, &attr, &talker->cq, NULL), 0);
    assert_int_equal(fi_ep_bind(talker->ep, &talker->cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_ep_bind(talker->ep, &first.av->fid, 0), 0);
    assert_int_equal(fi_enable(talker->ep), 0);
    warm(talker);
    assert_int_equal(fi_recv(talker->ep, talker->in, PACKET, fi_mr_desc(mr), FI_ADDR_UNSPEC, NULL),
                     0);
    write_packet(talker, (uint32_t)(talker - talkers) + 1);
}

/* It sends a message, which is received, and has the HANDSHAKE. */
static void talk(struct talker *talker)
{
    struct fi_cq_entry entry;
    unsigned ended = 0, received = 0;
    char in;

    assert_int_equal(fi_recv(a.ep, &in, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
    assert_int_equal(
        fi_send(talker->ep, talker->out, talker->len, fi_mr_desc(mr), first.peer, NULL), 0);
    for (struct patience p = {0}; patience_lasts(&p) && (ended < 2 || !received);) {
        received += fi_cq_read(a.cq, &entry, 1) == 1;
        ended += fi_cq_read(talker->cq, &entry, 1) == 1;
    }
    assert_int_equal(ended, 2);
    assert_int_equal(received, 1);
}

static void talk_once(size_t most)
{
    size_t before;

    assert_int_equal(
        fi_mr_reg(first.domain, talkers, sizeof(talkers), FI_SEND | FI_RECV, 0, 1, 0, &mr, NULL),
        0);
    for (int i = 0; i < PEERS; i++)
        open_talker(&talkers[i]);
    talk(&talkers[0]); /* pools and tables are there */
    before = heap_in_use();
    for (int i = 1; i < PEERS; i++)
        talk(&talkers[i]);
    print_message("%zu bytes for each peer\n", (heap_in_use() - before) / (PEERS - 1));
    assert_true(heap_in_use() - before <= (PEERS - 1) * most);
    for (int i = 0; i < PEERS; i++) {
        assert_int_equal(fi_close(&talkers[i].ep->fid), 0);
        assert_int_equal(fi_close(&talkers[i].cq->fid), 0);
    }
    assert_int_equal(fi_close(&mr->fid), 0);
}

static void peers_that_have_talked_once(void **state)
{
    talk_once(PEER_MOST);
}

/* All but eight. */
static void peers_that_were_put_aside(void **state)
{
    talk_once(ASIDE_MOST);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(addresses_that_are_idle, open_all, close_all),
        cmocka_unit_test_setup_teardown(peers_that_have_talked_once, open_all, close_all),
        cmocka_unit_test_setup_teardown(peers_that_were_put_aside, open_limited, close_all),
    };

    if (argc > 1 && !strcmp(argv[1], "efa")) {
        below = "efa";
        packets = "efa(fabric=efa-direct)";
    }
    return cmocka_run_group_tests_name("srd: memory", tests, NULL, NULL);
}
