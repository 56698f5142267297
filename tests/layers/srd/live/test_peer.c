/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer that is played here, packet by packet, over the same packets: what srd answers, and what
 * becomes of packets that cannot be.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "layers/srd/srd_wire.h"

enum {
    PACKET = 8192,
    RECEIVES = 64,
    TURNS = 2000,
    LARGE = 1 << 20,
    CONNID = 0x1234567,
    FEATURES = SRD_CAN_DC | SRD_WANTS_CONNID | SRD_CAN_NACK,
};

struct end {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_ep *ep;
    fi_addr_t peer;
    _Alignas(8) char name[64];
    size_t name_len;
};

/* What has come to the peer that is played, oldest first. */
static struct {
    uint8_t bytes[RECEIVES][PACKET];
    size_t len[RECEIVES];
    unsigned came, taken;
} box;

static struct end a, raw;
static struct fid_mr *box_mr, *out_mr, *region;
static uint8_t out[PACKET], memory[PACKET];
static char large[LARGE], in[LARGE];
static uint32_t connid, next_msg;

/* ---- Ends ---- */

static void open_end(struct end *end, const char *stack, uint64_t caps, uint64_t order)
{
    struct fi_info *hints = fi_allocinfo();
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
    struct fi_av_attr av_attr = {0};

    assert_non_null(hints);
    hints->caps = caps;
    hints->ep_attr->type = FI_EP_RDM;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = order;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = strdup(stack);
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &end->info), 0);
    fi_freeinfo(hints);
    assert_int_equal(fi_fabric(end->info->fabric_attr, &end->fabric, NULL), 0);
    assert_int_equal(fi_domain(end->fabric, end->info, &end->domain, NULL), 0);
    assert_int_equal(fi_cq_open(end->domain, &cq_attr, &end->cq, NULL), 0);
    assert_int_equal(fi_av_open(end->domain, &av_attr, &end->av, NULL), 0);
    assert_int_equal(fi_endpoint(end->domain, end->info, &end->ep, NULL), 0);
    assert_int_equal(fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_ep_bind(end->ep, &end->av->fid, 0), 0);
    assert_int_equal(fi_enable(end->ep), 0);
    end->name_len = sizeof(end->name);
    assert_int_equal(fi_getname(&end->ep->fid, end->name, &end->name_len), 0);
}

static void close_end(struct end *end)
{
    assert_int_equal(fi_close(&end->ep->fid), 0);
    assert_int_equal(fi_close(&end->av->fid), 0);
    assert_int_equal(fi_close(&end->cq->fid), 0);
    assert_int_equal(fi_close(&end->domain->fid), 0);
    assert_int_equal(fi_close(&end->fabric->fid), 0);
    fi_freeinfo(end->info);
}

static struct fid_mr *reg(struct end *end, void *buf, size_t len, uint64_t access)
{
    struct fid_mr *mr;

    assert_int_equal(fi_mr_reg(end->domain, buf, len, access, 0, 7, 0, &mr, NULL), 0);
    return mr;
}

static int open_with(uint64_t order)
{
    open_end(&a, "srd;loop(shape=srd,seed=5)", FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC, order);
    open_end(&raw, "loop(shape=srd)", FI_MSG, 0);
    assert_int_equal(fi_av_insert(a.av, raw.name, 1, &a.peer, 0, NULL), 1);
    assert_int_equal(fi_av_insert(raw.av, a.name, 1, &raw.peer, 0, NULL), 1);
    box_mr = reg(&raw, box.bytes, sizeof(box.bytes), FI_SEND | FI_RECV);
    out_mr = reg(&raw, out, sizeof(out), FI_SEND | FI_RECV);
    region = reg(&a, memory, 1024, FI_REMOTE_READ | FI_REMOTE_WRITE);
    box.came = box.taken = 0;
    for (size_t i = 0; i < RECEIVES; i++)
        assert_int_equal(
            fi_recv(raw.ep, box.bytes[i], PACKET, fi_mr_desc(box_mr), FI_ADDR_UNSPEC, box.bytes[i]),
            0);
    connid = CONNID;
    next_msg = 0;
    return 0;
}

static int open_all(void **state)
{
    return open_with(0);
}

static int open_ordered(void **state)
{
    return open_with(FI_ORDER_SAS);
}

static int close_all(void **state)
{
    assert_int_equal(fi_close(&region->fid), 0);
    assert_int_equal(fi_close(&out_mr->fid), 0);
    assert_int_equal(fi_close(&box_mr->fid), 0);
    close_end(&a);
    close_end(&raw);
    return 0;
}

/* ---- Packets ---- */

/* The address of an end as packets have it. */
static void put_address(const struct end *end, uint8_t addr[SRD_ADDR_SIZE])
{
    const struct sockaddr_in *in4 = (const void *)end->name;
    uint16_t port = ntohs(in4->sin_port);

    assert_int_equal(end->info->addr_format, FI_SOCKADDR_IN);
    memset(addr, 0, SRD_ADDR_SIZE);
    addr[10] = addr[11] = 0xff;
    memcpy(addr + 12, &in4->sin_addr, 4);
    addr[16] = (uint8_t)port;
    addr[17] = (uint8_t)(port >> 8);
    for (int i = 0; i < 4; i++)
        addr[20 + i] = (uint8_t)(connid >> 8 * i);
}

static void drive(void)
{
    struct fi_cq_tagged_entry entry;

    fi_cq_read(a.cq, NULL, 0);
    while (fi_cq_read(raw.cq, &entry, 1) == 1) {
        if (!(entry.flags & FI_RECV))
            continue;
        memcpy(box.bytes[box.came % RECEIVES], entry.op_context, entry.len);
        box.len[box.came++ % RECEIVES] = entry.len;
    }
}

/* Sends a packet of these bytes; the loop delivers it while both are driven. */
static void send_bytes(size_t len)
{
    assert_int_equal(fi_send(raw.ep, out, len, fi_mr_desc(out_mr), raw.peer, NULL), 0);
    for (int i = 0; i < 50; i++)
        drive();
}

static void send_packet(struct srd_header header, const void *payload, size_t len)
{
    uint8_t addr[SRD_ADDR_SIZE];

    header.len = len;
    if (srd_is_request(header.type) && !(header.flags & SRD_CONNID)) {
        put_address(&raw, addr);
        header.flags |= SRD_RAW_ADDR;
        header.raw_addr = addr;
    } else {
        header.flags |= SRD_CONNID;
        header.connid = connid;
    }
    memcpy(srd_header_put(&header, out), payload, len);
    send_bytes(srd_header_size(&header) + len);
}

/* The next packet for the peer that is played: of that type; 0: of any but HANDSHAKE. */
static struct srd_header expect(uint8_t type)
{
    struct srd_header header;

    for (int i = 0; i < TURNS; i++) {
        for (; box.taken < box.came; box.taken++) {
            unsigned at = box.taken % RECEIVES;

            assert_null(srd_header_get(box.bytes[at], box.len[at], &header));
            if (header.type == type || (!type && header.type != SRD_HANDSHAKE)) {
                box.taken++;
                return header;
            }
        }
        drive();
    }
    fail_msg("no %s came", srd_type_name(type));
    return header;
}

static bool silent(void)
{
    for (int i = 0; i < 200; i++)
        drive();
    for (; box.taken < box.came; box.taken++) {
        if (box.bytes[box.taken % RECEIVES][0] != SRD_HANDSHAKE)
            return false;
    }
    return true;
}

static void shake_hands(void)
{
    struct srd_header header = {.type = SRD_HANDSHAKE, .features = FEATURES};

    send_packet(header, "", 0);
}

/* A HANDSHAKE has no address: it comes from somebody who has sent something before. */
static void introduce_with(uint64_t features)
{
    send_packet((struct srd_header){.type = SRD_EAGER_RTW}, "", 0);
    send_packet((struct srd_header){.type = SRD_HANDSHAKE, .features = features}, "", 0);
}

static void send_message(uint64_t tag, const char *text)
{
    struct srd_header header = {
        .type = SRD_EAGER_TAG, .msg_id = next_msg++, .tag = tag, .total = strlen(text)};

    send_packet(header, text, strlen(text));
}

static void receive(uint64_t tag)
{
    assert_int_equal(fi_trecv(a.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, tag, 0, in), 0);
}

/* The next completion of the endpoint under test: its error, or 0. */
static int ended(void)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};
    ssize_t rc = -FI_EAGAIN;

    for (int i = 0; i < TURNS && rc == -FI_EAGAIN; i++) {
        drive();
        rc = fi_cq_read(a.cq, &entry, 1);
    }
    if (rc == 1)
        return 0;
    assert_int_equal(rc, -FI_EAVAIL);
    assert_int_equal(fi_cq_readerr(a.cq, &error, 0), 1);
    return error.err;
}

/* The peer that is played is heard still. */
static void assert_alive(void)
{
    receive(99);
    send_message(99, "alive");
    assert_int_equal(ended(), 0);
    assert_memory_equal(in, "alive", 5);
}

/* And this is not: what it sends is dropped, and nothing can be sent to it. */
static void assert_dead(void)
{
    for (int i = 0; i < 50; i++)
        drive();
    assert_int_equal(fi_tsend(a.ep, large, 8, NULL, a.peer, 1, NULL), -FI_ECONNABORTED);
}

/* ---- What is said ---- */

static void a_handshake_answers_the_first_packet(void **state)
{
    struct srd_header got;

    send_packet((struct srd_header){.type = SRD_EAGER_RTW}, "", 0);
    got = expect(SRD_HANDSHAKE);
    assert_true(got.features & SRD_CAN_DC && got.features & SRD_WANTS_CONNID);
    assert_true(got.flags & SRD_CONNID);
    send_message(1, "x");
    assert_true(silent());
}

static void the_address_is_said_until_the_handshake(void **state)
{
    struct srd_header got;

    assert_int_equal(fi_tsend(a.ep, large, 8, NULL, a.peer, 3, NULL), 0);
    got = expect(SRD_EAGER_TAG);
    assert_true(got.flags & SRD_RAW_ADDR && !(got.flags & SRD_CONNID));
    assert_int_equal(got.msg_id, 0);
    assert_int_equal(ended(), 0);
    shake_hands();
    assert_int_equal(fi_tsend(a.ep, large, 8, NULL, a.peer, 3, NULL), 0);
    got = expect(SRD_EAGER_TAG);
    assert_true(got.flags & SRD_CONNID && !(got.flags & SRD_RAW_ADDR));
    assert_int_equal(got.msg_id, 1);
    assert_int_equal(ended(), 0);
}

static void a_message_of_several_packets_is_whole(void **state)
{
    struct srd_header got;
    size_t came = 0;
    uint32_t id = 0;

    assert_int_equal(fi_tsend(a.ep, large, 20000, NULL, a.peer, 3, NULL), 0);
    while (came < 20000) {
        got = expect(SRD_MEDIUM_TAG);
        assert_int_equal(got.total, 20000);
        assert_memory_equal(got.payload, large + got.offset, got.len);
        assert_true(!came || got.msg_id == id);
        id = got.msg_id;
        came += got.len;
    }
    assert_int_equal(came, 20000);
    assert_int_equal(ended(), 0);
}

static void a_large_message_waits_to_be_asked_for(void **state)
{
    struct srd_header cts = {.type = SRD_CTS, .recv_id = 77, .window = 1000}, got;
    size_t came;

    assert_int_equal(fi_tsend(a.ep, large, 100000, NULL, a.peer, 3, NULL), 0);
    got = expect(SRD_LONGCTS_TAG);
    assert_int_equal(got.total, 100000);
    assert_memory_equal(got.payload, large, got.len);
    came = got.len;
    assert_true(silent());
    cts.send_id = got.send_id;
    send_packet(cts, "", 0);
    got = expect(SRD_CTSDATA);
    assert_int_equal(got.recv_id, 77);
    assert_int_equal(got.len, 1000);
    assert_int_equal(got.offset, came);
    assert_true(silent());
    cts.window = 100000 - came - 1000;
    send_packet(cts, "", 0);
    assert_int_equal(ended(), 0);
}

static void a_receipt_ends_what_is_to_be_delivered(void **state)
{
    struct iovec iov = {large, 8};
    struct fi_msg_tagged msg = {.msg_iov = &iov, .iov_count = 1, .addr = a.peer, .tag = 4};
    const uint64_t flags = FI_COMPLETION | FI_DELIVERY_COMPLETE;
    struct srd_header got;

    assert_int_equal(fi_tsendmsg(a.ep, &msg, flags), -FI_EAGAIN);
    got = expect(SRD_EAGER_RTW);
    assert_int_equal(got.place_count, 0);
    shake_hands();
    assert_int_equal(fi_tsendmsg(a.ep, &msg, flags), 0);
    got = expect(SRD_DC_EAGER_TAG);
    assert_true(silent());
    assert_int_equal(fi_cq_read(a.cq, NULL, 0), -FI_EAGAIN);
    send_packet((struct srd_header){.type = SRD_RECEIPT, .send_id = got.send_id + 1}, "", 0);
    assert_int_equal(fi_cq_read(a.cq, NULL, 0), -FI_EAGAIN);
    send_packet((struct srd_header){.type = SRD_RECEIPT, .send_id = got.send_id}, "", 0);
    assert_int_equal(ended(), 0);
}

static void long_messages_that_are_to_be_read_are_asked_for(void **state)
{
    struct srd_header header = {.type = SRD_LONGREAD_TAG,
                                .msg_id = next_msg++,
                                .total = 5,
                                .tag = 8,
                                .send_id = 42,
                                .read_count = 1,
                                .reads = {{0x1000, 5, 9}}},
                      got;

    receive(8);
    send_packet(header, "", 0);
    got = expect(0);
    assert_int_equal(got.type, SRD_READ_NACK);
    assert_int_equal(got.send_id, 42);
    header.type = SRD_LONGCTS_TAG;
    header.flags = SRD_AFTER_NACK;
    header.read_count = 0;
    header.send_id = 43;
    send_packet(header, "", 0);
    got = expect(SRD_CTS);
    assert_int_equal(got.send_id, 43);
    assert_int_equal(got.window, 5);
    header = (struct srd_header){.type = SRD_CTSDATA, .recv_id = got.recv_id};
    send_packet(header, "hello", 5);
    assert_int_equal(ended(), 0);
    assert_memory_equal(in, "hello", 5);
    assert_alive();
}

/* ---- Order ---- */

static void early_messages_wait_for_those_before(void **state)
{
    receive(5);
    next_msg = 2;
    send_message(5, "third");
    next_msg = 1;
    send_message(5, "second");
    assert_true(silent());
    next_msg = 0;
    send_message(5, "first");
    assert_int_equal(ended(), 0);
    assert_memory_equal(in, "first", 5);
    receive(5);
    assert_int_equal(ended(), 0);
    assert_memory_equal(in, "second", 6);
    receive(5);
    assert_int_equal(ended(), 0);
    assert_memory_equal(in, "third", 5);
}

static void without_an_order_nothing_waits(void **state)
{
    receive(5);
    next_msg = 7;
    send_message(5, "seventh");
    assert_int_equal(ended(), 0);
}

static void a_message_twice_is_an_error(void **state)
{
    send_message(5, "first");
    next_msg = 0;
    send_message(5, "again");
    assert_dead();
}

/* ---- What cannot be ---- */

static void packets_that_are_none_are_dropped(void **state)
{
    static const uint8_t bad[][8] = {{0}, {SRD_EAGER_TAG, 3}, {200, 4}, {1, 4}, {SRD_CTS, 4}};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        memcpy(out, bad[i], sizeof(bad[i]));
        send_bytes(sizeof(bad[i]));
    }
    out[0] = SRD_EAGER_MSG;
    send_bytes(1);
    assert_alive();
}

static void names_of_others_are_refused(void **state)
{
    struct srd_header header = {.type = SRD_EAGER_TAG, .tag = 1, .flags = SRD_RAW_ADDR};
    uint8_t addr[SRD_ADDR_SIZE];

    assert_alive();
    receive(1);
    put_address(&a, addr);
    header.raw_addr = addr;
    srd_header_put(&header, out);
    send_bytes(srd_header_size(&header));
    assert_int_equal(fi_cq_read(a.cq, NULL, 0), -FI_EAGAIN);
    assert_alive();
}

/* An id of each kind that was never given, or for another kind. */
static void numbers_that_mean_nothing_are_nothing(void **state)
{
    static const uint8_t types[] = {SRD_CTS, SRD_CTSDATA, SRD_READRSP, SRD_ATOMRSP, SRD_RECEIPT};
    struct srd_header got, header;

    assert_alive();
    assert_int_equal(fi_tsend(a.ep, large, 100000, NULL, a.peer, 3, NULL), 0);
    got = expect(SRD_LONGCTS_TAG);
    for (size_t i = 0; i < sizeof(types); i++) {
        header = (struct srd_header){.type = types[i], .window = 1};
        header.send_id = header.recv_id = got.send_id ^ 0x55555;
        send_packet(header, "x", types[i] == SRD_CTS || types[i] == SRD_RECEIPT ? 0 : 1);
        header.send_id = header.recv_id = got.send_id;
        if (types[i] != SRD_CTS && types[i] != SRD_RECEIPT)
            send_packet(header, "x", 1);
    }
    assert_int_equal(fi_cq_read(a.cq, NULL, 0), -FI_EAGAIN);
    assert_alive();
}

static void more_than_there_is_kills(void **state)
{
    struct srd_header got;

    assert_int_equal(fi_tsend(a.ep, large, 100000, NULL, a.peer, 3, NULL), 0);
    got = expect(SRD_LONGCTS_TAG);
    send_packet((struct srd_header){.type = SRD_CTS, .send_id = got.send_id, .window = 100000}, "",
                0);
    assert_int_equal(ended(), FI_EPROTO);
    assert_dead();
}

static void data_that_nobody_asked_for_kills(void **state)
{
    struct srd_header header = {.type = SRD_LONGCTS_TAG, .total = 100, .tag = 4, .send_id = 1}, got;

    receive(4);
    send_packet(header, "hello", 5);
    got = expect(SRD_CTS);
    assert_int_equal(got.window, 95);
    header = (struct srd_header){.type = SRD_CTSDATA, .recv_id = got.recv_id, .offset = 99};
    send_packet(header, "xy", 2);
    assert_int_equal(ended(), FI_EPROTO);
    assert_dead();
}

static void pieces_that_differ_kill(void **state)
{
    struct srd_header header = {.type = SRD_MEDIUM_TAG, .total = 100, .tag = 4};

    receive(4);
    send_packet(header, "hello", 5);
    header.total = 101;
    header.offset = 5;
    send_packet(header, "hello", 5);
    assert_int_equal(ended(), FI_EPROTO);
    assert_dead();
}

static void more_pieces_than_a_message_has_kill(void **state)
{
    struct srd_header header = {.type = SRD_MEDIUM_TAG, .total = 7, .tag = 4};

    receive(4);
    send_packet(header, "hello", 5);
    header.offset = 2;
    send_packet(header, "hello", 5);
    assert_int_equal(ended(), FI_EPROTO);
    assert_dead();
}

static void a_nack_of_nothing_kills(void **state)
{
    send_packet(
        (struct srd_header){
            .type = SRD_LONGCTS_TAG, .flags = SRD_AFTER_NACK, .msg_id = 3, .total = 10},
        "", 0);
    assert_dead();
}

static void answers_to_no_question_kill(void **state)
{
    assert_alive();
    send_packet((struct srd_header){.type = SRD_EOR, .send_id = 5}, "", 0);
    assert_dead();
}

/* With another connid the peer begins a new life; packets of the old one are late. */
static void assert_refused(uint32_t send_id)
{
    struct srd_header got = expect(0);

    assert_int_equal(got.type, SRD_PEER_ERROR);
    assert_int_equal(got.send_id, send_id);
}

/* A sender that waits for an answer gets one, for messages that came before and after. */
static void the_dead_are_told(void **state)
{
    struct srd_header header = {.type = SRD_LONGCTS_TAG, .total = 8000, .send_id = 21};

    introduce_with(FEATURES | SRD_CAN_ERROR);
    send_packet(header, "begin", 5);
    assert_true(silent());
    header = (struct srd_header){.type = SRD_EOR};
    send_packet(header, "", 0);
    assert_refused(21);
    header = (struct srd_header){.type = SRD_DC_EAGER_TAG, .send_id = 22, .msg_id = 1, .total = 4};
    send_packet(header, "late", 4);
    assert_refused(22);
    assert_dead();
}

static void the_dead_may_begin_anew(void **state)
{
    answers_to_no_question_kill(state);
    connid++;
    next_msg = 0;
    assert_alive();
    connid--;
    receive(6);
    send_message(6, "late");
    assert_int_equal(fi_cq_read(a.cq, NULL, 0), -FI_EAGAIN);
    connid++;
    send_message(6, "new");
    assert_int_equal(ended(), 0);
    assert_memory_equal(in, "new", 3);
}

/* ---- Remote memory ---- */

static void accesses_are_checked(void **state)
{
    uint64_t key = fi_mr_key(region);
    struct srd_header header = {.type = SRD_DC_EAGER_RTW, .send_id = 6, .place_count = 1}, got;
    struct fi_rma_iov good = {0, 5, key},
                      bad[] = {{1020, 5, key}, {UINT64_MAX - 1, 5, key}, {0, 5, key + 1}};

    if (a.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR)
        good.addr = (uintptr_t)memory;
    memset(memory, 0, sizeof(memory));
    introduce_with(FEATURES | SRD_CAN_ERROR);
    header.places[0] = good;
    send_packet(header, "hello", 5);
    got = expect(SRD_RECEIPT);
    assert_int_equal(got.send_id, 6);
    assert_memory_equal(memory, "hello", 5);
    for (size_t i = 0; i < 3; i++) {
        header.places[0] = bad[i];
        send_packet(header, "HELLO", 5);
        got = expect(0);
        assert_int_equal(got.type, SRD_PEER_ERROR);
        assert_int_equal(got.send_id, 6);
    }
    assert_memory_equal(memory, "hello", 5);
    header = (struct srd_header){.type = SRD_SHORT_RTR, .total = 5, .window = 5, .recv_id = 9};
    header.place_count = 1;
    header.places[0] = good;
    send_packet(header, "", 0);
    got = expect(SRD_READRSP);
    assert_int_equal(got.recv_id, 9);
    assert_memory_equal(got.payload, "hello", 5);
    assert_alive();
}

/* The requester's HANDSHAKE may be overtaken by its request. */
static void a_refusal_waits_for_the_handshake(void **state)
{
    struct srd_header header = {.type = SRD_DC_EAGER_RTW, .send_id = 8, .place_count = 1}, got;

    header.places[0] = (struct fi_rma_iov){0, 5, fi_mr_key(region) + 1};
    send_packet(header, "HELLO", 5);
    assert_true(silent());
    introduce_with(FEATURES | SRD_CAN_ERROR);
    got = expect(0);
    assert_int_equal(got.type, SRD_PEER_ERROR);
    assert_int_equal(got.send_id, 8);
}

static void atomics_are_checked(void **state)
{
    uint64_t key = fi_mr_key(region), one = 1, value[2] = {1, 0};
    struct srd_header header = {.type = SRD_FETCH_RTA,
                                .recv_id = 6,
                                .place_count = 1,
                                .datatype = FI_UINT64,
                                .op = FI_SUM,
                                .places = {{0, 8, key}}},
                      got;

    if (a.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR)
        header.places[0].addr = (uintptr_t)memory;
    memset(memory, 0, sizeof(memory));
    introduce_with(FEATURES | SRD_CAN_ERROR);
    send_packet(header, &one, 8);
    got = expect(SRD_ATOMRSP);
    assert_int_equal(got.len, 8);
    assert_memory_equal(memory, &one, 8);
    header.datatype = 200;
    send_packet(header, &one, 8);
    assert_int_equal(expect(0).type, SRD_PEER_ERROR);
    header.datatype = FI_UINT64;
    header.op = 200;
    send_packet(header, &one, 8);
    assert_int_equal(expect(0).type, SRD_PEER_ERROR);
    header.op = FI_SUM;
    header.places[0].key++;
    send_packet(header, &one, 8);
    assert_int_equal(expect(0).type, SRD_PEER_ERROR);
    assert_memory_equal(memory, &one, 8);
    send_packet(header, value, 16); /* two operands for one place */
    assert_dead();
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)
#define ORDERED(name) cmocka_unit_test_setup_teardown(name, open_ordered, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_handshake_answers_the_first_packet),
        CASE(the_address_is_said_until_the_handshake),
        CASE(a_message_of_several_packets_is_whole),
        CASE(a_large_message_waits_to_be_asked_for),
        CASE(a_receipt_ends_what_is_to_be_delivered),
        CASE(long_messages_that_are_to_be_read_are_asked_for),
        ORDERED(early_messages_wait_for_those_before),
        CASE(without_an_order_nothing_waits),
        ORDERED(a_message_twice_is_an_error),
        CASE(packets_that_are_none_are_dropped),
        CASE(names_of_others_are_refused),
        CASE(numbers_that_mean_nothing_are_nothing),
        CASE(more_than_there_is_kills),
        CASE(data_that_nobody_asked_for_kills),
        CASE(pieces_that_differ_kill),
        CASE(more_pieces_than_a_message_has_kill),
        CASE(a_nack_of_nothing_kills),
        CASE(answers_to_no_question_kill),
        CASE(the_dead_are_told),
        CASE(the_dead_may_begin_anew),
        CASE(accesses_are_checked),
        CASE(a_refusal_waits_for_the_handshake),
        CASE(atomics_are_checked),
    };

    for (size_t i = 0; i < LARGE; i++)
        large[i] = (char)(i * 7 + i / 251);
    return cmocka_run_group_tests_name("srd: peer", tests, NULL, NULL);
}
