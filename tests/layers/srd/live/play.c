/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "tests/layers/srd/live/play.h"

/* Packets that have come to the peer that is played, oldest first. */
static struct {
    uint8_t bytes[RECEIVES][PACKET];
    size_t len[RECEIVES];
    unsigned came, taken, posted;
} box;

struct end a, raw;
struct fid_mr *region;
uint8_t out[PACKET], memory[PACKET];
char large[LARGE], in[LARGE];
uint32_t connid, next_msg, life;
static struct fid_mr *box_mr, *out_mr;

/* ---- Ends ---- */

void open_end(struct end *end, const char *stack, uint64_t caps, uint64_t order)
{
    end_open(end, end_info(stack, caps, order), FI_CQ_FORMAT_TAGGED);
}

struct fid_mr *reg(struct end *end, void *buf, size_t len, uint64_t access)
{
    struct fid_mr *mr;

    assert_int_equal(fi_mr_reg(end->domain, buf, len, access, 0, 7, 0, &mr, NULL), 0);
    return mr;
}

void post_receives(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        uint8_t *bytes = box.bytes[box.posted++ % RECEIVES];

        assert_int_equal(fi_recv(raw.ep, bytes, PACKET, fi_mr_desc(box_mr), FI_ADDR_UNSPEC, bytes),
                         0);
    }
}

unsigned receives_left(void)
{
    return box.posted - box.came;
}

static int open_over(const char *stack, const char *lower, uint64_t caps, uint64_t order)
{
    open_end(&a, stack, FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC, order);
    open_end(&raw, lower, caps, 0);
    end_meet(&a, &raw);
    box_mr = reg(&raw, box.bytes, sizeof(box.bytes), FI_SEND | FI_RECV);
    out_mr = reg(&raw, out, sizeof(out), FI_SEND | FI_RECV);
    region = reg(&a, memory, 1024, FI_REMOTE_READ | FI_REMOTE_WRITE);
    box.came = box.taken = box.posted = 0;
    post_receives(RECEIVES);
    connid = CONNID;
    next_msg = life = 0;
    return 0;
}

static int open_with(const char *stack, uint64_t order)
{
    return open_over(stack, "loop(shape=srd)", FI_MSG | FI_RMA | FI_READ | FI_REMOTE_READ, order);
}

int open_stack(const char *stack)
{
    return open_with(stack, 0);
}

int open_small(void **state)
{
    return open_over("srd;arq;udp", "arq;udp", FI_MSG, 0);
}

int open_all(void **state)
{
    return open_stack("srd;loop(shape=srd,seed=5)");
}

int open_ordered(void **state)
{
    return open_with("srd;loop(shape=srd,seed=5)", FI_ORDER_SAS);
}

int close_all(void **state)
{
    assert_int_equal(fi_close(&region->fid), 0);
    assert_int_equal(fi_close(&out_mr->fid), 0);
    assert_int_equal(fi_close(&box_mr->fid), 0);
    end_close(&a);
    end_close(&raw);
    return 0;
}

/* ---- Packets ---- */

void put_address(const struct end *end, uint8_t addr[SRD_ADDR_SIZE])
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

/* The lives that the endpoint under test tells. */
static void note_life(const uint8_t *bytes, size_t len)
{
    struct srd_header header;

    if (srd_header_get(bytes, len, &header))
        return;
    life = header.connid;
    if (header.flags & SRD_RAW_ADDR && srd_is_request(header.type))
        memcpy(&life, header.raw_addr + 20, 4);
}

void drive(void)
{
    struct fi_cq_tagged_entry entry;

    fi_cq_read(a.cq, NULL, 0);
    while (fi_cq_read(raw.cq, &entry, 1) == 1) {
        if (!(entry.flags & FI_RECV))
            continue;
        memcpy(box.bytes[box.came % RECEIVES], entry.op_context, entry.len);
        box.len[box.came++ % RECEIVES] = entry.len;
        note_life(entry.op_context, entry.len);
    }
}

void send_bytes(size_t len)
{
    assert_int_equal(fi_send(raw.ep, out, len, fi_mr_desc(out_mr), raw.peer, NULL), 0);
    for (int i = 0; i < 50; i++)
        drive();
}

/* Bytes of it, at `raw_bytes`. */
static size_t put_packet(struct srd_header header, const void *payload, size_t len,
                         uint8_t *raw_bytes)
{
    uint8_t addr[SRD_ADDR_SIZE];
    uint32_t view = life | header.view;

    header.len = len;
    if (srd_is_request(header.type) && !(header.flags & SRD_CONNID)) {
        put_address(&raw, addr);
        memcpy(addr + 28, &view, 4);
        header.flags |= SRD_RAW_ADDR;
        header.raw_addr = addr;
        header.raw_len = sizeof(addr);
    } else {
        header.flags |= SRD_CONNID;
        header.connid = connid;
        header.view = header.type == SRD_HANDSHAKE ? view : 0;
    }
    memcpy(srd_header_put(&header, raw_bytes), payload, len);
    return srd_header_size(&header) + len;
}

void send_packet(struct srd_header header, const void *payload, size_t len)
{
    send_bytes(put_packet(header, payload, len, out));
}

void send_together(const struct srd_header *headers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint8_t *at = out + i * (PACKET / 4);

        assert_int_equal(fi_send(raw.ep, at, put_packet(headers[i], "", 0, at), fi_mr_desc(out_mr),
                                 raw.peer, NULL),
                         0);
    }
    for (int i = 0; i < 50; i++)
        drive();
}

struct srd_header expect(uint8_t type)
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
    fail_msg("no packet of type %d came", type);
    return header;
}

bool silent(void)
{
    for (int i = 0; i < 200; i++)
        drive();
    for (; box.taken < box.came; box.taken++) {
        if (box.bytes[box.taken % RECEIVES][0] != SRD_HANDSHAKE)
            return false;
    }
    return true;
}

void shake_hands(void)
{
    struct srd_header header = {.type = SRD_HANDSHAKE, .features = FEATURES};

    send_packet(header, "", 0);
}

void introduce_with(uint64_t features)
{
    send_packet((struct srd_header){.type = SRD_EAGER_RTW}, "", 0);
    send_packet((struct srd_header){.type = SRD_HANDSHAKE, .features = features}, "", 0);
}

void send_message(uint64_t tag, const char *text)
{
    struct srd_header header = {
        .type = SRD_EAGER_TAG, .msg_id = next_msg++, .tag = tag, .total = strlen(text)};

    send_packet(header, text, strlen(text));
}

void receive(uint64_t tag)
{
    assert_int_equal(fi_trecv(a.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, tag, 0, in), 0);
}

int ended(void)
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

void assert_alive(void)
{
    receive(99);
    send_message(99, "alive");
    assert_int_equal(ended(), 0);
    assert_memory_equal(in, "alive", 5);
}

void assert_dead(void)
{
    for (int i = 0; i < 50; i++)
        drive();
    assert_int_equal(fi_tsend(a.ep, large, 8, NULL, a.peer, 1, NULL), -FI_ECONNABORTED);
}

void assert_refused(uint32_t send_id)
{
    struct srd_header got = expect(0);

    assert_int_equal(got.type, SRD_PEER_ERROR);
    assert_int_equal(got.send_id, send_id);
}
