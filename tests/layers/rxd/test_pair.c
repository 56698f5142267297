/* SPDX-License-Identifier: BSD-2-Clause */
/* Two endpoints over packets in any order, and bytes from an endpoint that is none of rxd's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "core/base/seam.h"

#include "../../support/again.h"
#include "../../support/end.h"

enum {
    LARGE = 1 << 20,
    MANY = 500,
    TURNS = 100000,
};

static struct end a, b, raw;
static struct fid_mr *heard_mr; /* of memory that raw receives into, or NULL */
static fi_addr_t to_a, to_b, raw_to_a;
static char out[LARGE], in[LARGE];

static void open_end(struct end *end, const char *stack, uint64_t caps, const struct end *same)
{
    struct fi_info *hints = fi_allocinfo();
    struct fi_info *info;

    assert_non_null(hints);
    hints->caps = caps;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = strdup(stack);
    if (same) {
        hints->addr_format = FI_SOCKADDR_IN;
        hints->src_addr = malloc(same->name_len);
        assert_non_null(hints->src_addr);
        memcpy(hints->src_addr, same->name, same->name_len);
        hints->src_addrlen = same->name_len;
    }
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &info), 0);
    fi_freeinfo(hints);
    end_open_waiting(end, info, FI_CQ_FORMAT_TAGGED, FI_WAIT_UNSPEC);
}

static fi_addr_t insert(struct end *end, const struct end *peer)
{
    fi_addr_t addr;

    assert_int_equal(fi_av_insert(end->av, peer->name, 1, &addr, 0, NULL), 1);
    return addr;
}

#define STACK "rxd;loop(shape=srd,seed=11)"
#define CAPS (FI_MSG | FI_TAGGED | FI_RMA | FI_SOURCE)

static int open_all(void **state)
{
    open_end(&a, STACK, CAPS, NULL);
    open_end(&b, STACK, CAPS, NULL);
    open_end(&raw, "loop(shape=srd)", FI_MSG | FI_RMA | FI_READ | FI_REMOTE_READ, NULL);
    to_b = insert(&a, &b);
    to_a = insert(&b, &a);
    raw_to_a = insert(&raw, &a);
    for (size_t i = 0; i < LARGE; i++)
        out[i] = (char)(i * 7 + i / 251);
    return 0;
}

static int close_all(void **state)
{
    if (heard_mr)
        assert_int_equal(fi_close(&heard_mr->fid), 0);
    heard_mr = NULL;
    end_close(&raw);
    end_close(&b);
    end_close(&a);
    return 0;
}

/* The next completion of end's; drives both. False when none comes. */
static bool next(struct end *end, struct fi_cq_tagged_entry *entry)
{
    for (int i = 0; i < TURNS; i++) {
        fi_cq_read((end == &a ? &b : &a)->cq, NULL, 0);
        fi_cq_read(raw.cq, NULL, 0);
        if (fi_cq_read(end->cq, entry, 1) == 1)
            return true;
    }
    return false;
}

static bool none(struct end *end)
{
    struct fi_cq_tagged_entry entry;

    for (int i = 0; i < 200; i++) {
        fi_cq_read((end == &a ? &b : &a)->cq, NULL, 0);
        if (fi_cq_read(end->cq, &entry, 1) != -FI_EAGAIN)
            return false;
    }
    return true;
}

static void small_messages_keep_their_order(void **state)
{
    struct fi_cq_tagged_entry entry;
    static unsigned numbers[MANY], got[MANY];

    for (unsigned i = 0; i < MANY; i++) {
        struct iovec iov = {&numbers[i], sizeof(numbers[i])};
        struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = to_b};

        numbers[i] = i;
        assert_int_equal(fi_recv(b.ep, &got[i], sizeof(got[i]), NULL, FI_ADDR_UNSPEC, &got[i]), 0);
        assert_int_equal(fi_sendmsg(a.ep, &msg, FI_COMPLETION | (i % 5 ? FI_MORE : 0)), 0);
    }
    for (unsigned i = 0; i < MANY; i++) {
        assert_true(next(&b, &entry));
        assert_ptr_equal(entry.op_context, &got[i]);
        assert_int_equal(got[i], i);
    }
    for (unsigned i = 0; i < MANY; i++)
        assert_true(next(&a, &entry));
}

static void large_messages_wait_at_their_sender(void **state)
{
    struct fi_cq_tagged_entry entry;

    memset(in, 0, LARGE);
    assert_int_equal(fi_tsend(a.ep, out, LARGE, NULL, to_b, 5, NULL), 0);
    assert_true(none(&a));
    assert_int_equal(fi_trecv(b.ep, in, LARGE, NULL, FI_ADDR_UNSPEC, 5, 0, NULL), 0);
    assert_true(next(&b, &entry));
    assert_int_equal(entry.len, LARGE);
    assert_memory_equal(in, out, LARGE);
    assert_true(next(&a, &entry));
    /* Too long for its receive: the bytes that fit have come. */
    memset(in, 0, LARGE);
    assert_int_equal(fi_tsend(a.ep, out, LARGE, NULL, to_b, 6, NULL), 0);
    assert_int_equal(fi_trecv(b.ep, in, 20000, NULL, FI_ADDR_UNSPEC, 6, 0, NULL), 0);
    assert_true(next(&a, &entry));
    assert_int_equal(fi_cq_read(b.cq, &entry, 1), -FI_EAVAIL);
    struct fi_cq_err_entry error = {0};
    assert_int_equal(fi_cq_readerr(b.cq, &error, 0), 1);
    assert_int_equal(error.err, FI_ETRUNC);
    assert_int_equal(error.len, 20000);
    assert_int_equal(error.olen, LARGE - 20000);
    assert_memory_equal(in, out, 20000);
    assert_int_equal(in[20000], 0);
}

static void delivery_is_in_the_receive(void **state)
{
    struct iovec iov = {out, 8};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = to_b};
    struct fi_cq_tagged_entry entry;

    assert_int_equal(fi_sendmsg(a.ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE), 0);
    assert_true(none(&a));
    assert_int_equal(fi_recv(b.ep, in, 8, NULL, FI_ADDR_UNSPEC, NULL), 0);
    assert_true(next(&b, &entry));
    assert_true(next(&a, &entry));
}

static void memory_without_rights_is_refused(void **state)
{
    struct fi_cq_err_entry error = {0};
    struct fi_cq_tagged_entry entry;
    ssize_t rc = -FI_EAGAIN;

    assert_int_equal(fi_write(a.ep, out, LARGE, NULL, to_b, 0, 12345, NULL), 0);
    for (int i = 0; i < TURNS && rc == -FI_EAGAIN; i++) {
        fi_cq_read(b.cq, NULL, 0);
        rc = fi_cq_read(a.cq, &entry, 1);
    }
    assert_int_equal(rc, -FI_EAVAIL);
    assert_int_equal(fi_cq_readerr(a.cq, &error, 0), 1);
    assert_int_equal(error.err, FI_EACCES);
    small_messages_keep_their_order(state);
}

static void send_raw(const void *bytes, size_t len)
{
    struct fi_cq_tagged_entry entry;
    struct fid_mr *mr;

    assert_int_equal(fi_mr_reg(raw.domain, bytes, len, FI_SEND, 0, 0, 0, &mr, NULL), 0);
    assert_int_equal(fi_send(raw.ep, bytes, len, fi_mr_desc(mr), raw_to_a, NULL), 0);
    assert_true(next(&raw, &entry));
    assert_int_equal(fi_close(&mr->fid), 0);
}

static void bytes_of_strangers_change_nothing(void **state)
{
    uint8_t bytes[128] = {'W', 'x', 2}, intro[56] = {'W', 'x', 2, 1};

    send_raw("hello", 5);
    send_raw("\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24); /* another protocol */
    intro[16] = intro[24] = 1; /* of the version before: not even an introduction is answered */
    intro[28] = 4;
    memcpy(intro + 30, raw.name + 2, 6);
    send_raw(intro, sizeof(intro));
    bytes[2] = 3;
    for (unsigned i = 0; i < 64; i++) { /* unknown numbers, and b's, in whose name it is sent */
        bytes[3] = i & 1 ? 2 : 0;
        bytes[4] = (uint8_t)(i / 2);
        memset(bytes + 16, (int)i, sizeof(bytes) - 16);
        send_raw(bytes, sizeof(bytes));
    }
    small_messages_keep_their_order(state);
    large_messages_wait_at_their_sender(state);
}

/* ---- A peer that lies ---- */

static struct liar {
    uint8_t heard[4096];
    uint32_t life; /* a's for it, as a says */
    uint32_t own;
    unsigned sent;
    uint32_t next; /* sequence */
    bool pulled;   /* a has asked for bytes */
} liar;

static void hear(void)
{
    assert_int_equal(fi_recv(raw.ep, liar.heard, sizeof(liar.heard), fi_mr_desc(heard_mr),
                             FI_ADDR_UNSPEC, liar.heard),
                     0);
}

static void pump(void)
{
    struct fi_cq_tagged_entry entry;
    size_t at;

    fi_cq_read(a.cq, NULL, 0);
    fi_cq_read(b.cq, NULL, 0);
    if (fi_cq_read(raw.cq, &entry, 1) != 1)
        return;
    if (entry.flags & FI_SEND) {
        liar.sent++;
        return;
    }
    if (liar.heard[3] & 1)
        memcpy(&liar.life, liar.heard + 16, sizeof(liar.life));
    at = liar.heard[3] & 1 ? 56 : 16;
    liar.pulled |= entry.len >= at + 20 && liar.heard[at] == 6;
    hear();
}

/* A packet with an introduction of raw. flags: 2, ordered. */
static void lie(unsigned flags, uint32_t sequence, uint32_t ack, const void *records, size_t len)
{
    uint8_t bytes[256] = {'W', 'x', 3, (uint8_t)(1 | flags)};
    unsigned before = liar.sent;
    struct fid_mr *mr;

    memcpy(bytes + 8, &sequence, 4);
    memcpy(bytes + 12, &ack, 4);
    memcpy(bytes + 16, &liar.own, 4);
    memcpy(bytes + 20, &liar.life, 4);
    bytes[24] = 7;                       /* its number for a */
    bytes[28] = 4;                       /* IPv4 */
    memcpy(bytes + 30, raw.name + 2, 2); /* port */
    memcpy(bytes + 32, raw.name + 4, 4); /* host */
    if (len)
        memcpy(bytes + 56, records, len);
    assert_int_equal(fi_mr_reg(raw.domain, bytes, sizeof(bytes), FI_SEND, 0, 0, 0, &mr, NULL), 0);
    assert_int_equal(fi_send(raw.ep, bytes, 56 + len, fi_mr_desc(mr), raw_to_a, NULL), 0);
    for (int i = 0; i < TURNS && liar.sent == before; i++)
        pump();
    assert_int_equal(liar.sent, before + 1);
    assert_int_equal(fi_close(&mr->fid), 0);
}

/* It begins anew, and answers what a says of that. */
static void meet(void)
{
    liar.own++;
    liar.life = 0;
    for (int answers = 0; answers < 2; answers++) {
        lie(0, 0, 0, NULL, 0);
        for (int i = 0; i < 2000; i++)
            pump();
        assert_true(liar.life);
    }
}

/* a has ended what was under way with the liar, and says so. */
static void expect_end(uint32_t before)
{
    for (int i = 0; i < TURNS && liar.life == before; i++)
        pump();
    assert_true(liar.life != before);
}

static void lies_of_a_peer_end_what_is_under_way_with_it(void **state)
{
    static const struct {
        unsigned flags;
        uint32_t sequence, ack;
        size_t len;
        uint8_t records[56];
    } lies[] = {
        {0, 0, 5, 0, {0}},                        /* it has got what was never sent */
        {2, 500, 0, 16, {1}},                     /* beyond the window */
        {2, 0, 0, 16, {1, 0, 100, 0, [8] = 100}}, /* a message cut short */
        {2, 0, 0, 8, {1}},                        /* a record cut short */
        {2, 0, 0, 16, {200}},                     /* of an unknown kind */
        {2, 0, 0, 16, {1, 0x80}},                 /* with unknown flags */
        {2, 0, 0, 16, {7}},                       /* data among the requests */
        {2, 0, 0, 24, {2, [16] = 200}},           /* a write to 200 places */
        {0, 0, 0, 16, {1}},                       /* a message that is not ordered */
        {2, 0, 0, 24, {1, 0, 8, 0, [8] = 4}},     /* more bytes than the message has */
    };
    static const uint8_t strays[][20] = {
        {7, 0, 1, 0, 0x39, 0x30},            /* data for a taker that there is not */
        {6, 0, 0, 0, 0x39, 0x30, [8] = 255}, /* a question about a request that there is not */
        {8, 0, 0, 0, 0x39, 0x30},            /* the end of one */
    };
    uint32_t before;

    liar.own = 1;
    assert_int_equal(
        fi_mr_reg(raw.domain, liar.heard, sizeof(liar.heard), FI_RECV, 0, 0, 0, &heard_mr, NULL),
        0);
    hear();
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        meet();
        before = liar.life;
        lie(lies[i].flags, lies[i].sequence, lies[i].ack, lies[i].records, lies[i].len);
        expect_end(before);
    }
    meet();
    before = liar.life;
    lie(2, 1, 0, "\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16); /* early, and twice */
    lie(2, 1, 0, "\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
    expect_end(before);
    meet();
    before = liar.life;
    for (size_t i = 0; i < 3; i++)
        lie(0, 0, 0, strays[i], strays[i][0] == 6 ? 20 : strays[i][0] == 7 ? 17 : 16);
    for (int i = 0; i < 2000; i++)
        pump();
    assert_true(liar.life == before);
    small_messages_keep_their_order(state);
    large_messages_wait_at_their_sender(state);
}

/* The message's first byte, and where all of it is. */
static void put_readable(uint64_t addr, uint64_t key, uint32_t size, uint8_t first)
{
    uint8_t record[33] = {1, 8, 1, 0, [4] = 9};

    memcpy(record + 8, &size, 4);
    memcpy(record + 16, &addr, 8);
    memcpy(record + 24, &key, 8);
    record[32] = first;
    lie(2, liar.next++, 0, record, sizeof(record));
}

/* The lower reads the rest of a message; where that fails, its sender is asked for it. */
static void large_messages_are_read_by_the_lower(void **state)
{
    static uint8_t memory[50000], got[50000];
    struct fi_cq_tagged_entry entry = {0};
    struct fid_mr *mr;
    uint64_t addr = (uintptr_t)memory;

    for (size_t i = 0; i < sizeof(memory); i++)
        memory[i] = (uint8_t)(i * 13 + i / 256);
    assert_int_equal(
        fi_mr_reg(raw.domain, memory, sizeof(memory), FI_REMOTE_READ, 0, 77, 0, &mr, NULL), 0);
    if (!(raw.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR))
        addr = 0;
    meet();
    liar.next = 0;
    liar.pulled = false;
    assert_int_equal(fi_recv(a.ep, got, sizeof(got), NULL, FI_ADDR_UNSPEC, got), 0);
    put_readable(addr, fi_mr_key(mr), sizeof(memory), memory[0]);
    for (int i = 0; i < TURNS && fi_cq_read(a.cq, &entry, 1) != 1; i++)
        fi_cq_read(b.cq, NULL, 0);
    assert_ptr_equal(entry.op_context, got);
    assert_int_equal(entry.len, sizeof(memory));
    assert_memory_equal(got, memory, sizeof(memory));
    assert_false(liar.pulled);
    assert_int_equal(fi_recv(a.ep, got, sizeof(got), NULL, FI_ADDR_UNSPEC, got), 0);
    put_readable(addr, fi_mr_key(mr) + 1000, sizeof(memory), memory[0]);
    for (int i = 0; i < TURNS && !liar.pulled; i++)
        pump();
    assert_true(liar.pulled);
    assert_int_equal(fi_close(&mr->fid), 0);
    meet(); /* it starts again, so a's receive ends */
    for (int i = 0; i < TURNS && fi_cq_read(a.cq, &entry, 1) != -FI_EAVAIL; i++)
        pump();
    assert_int_equal(fi_cq_readerr(a.cq, &(struct fi_cq_err_entry){0}, 0), 1);
}

static void a_peer_that_starts_again_is_a_new_one(void **state)
{
    struct end old = b;
    struct fi_cq_tagged_entry entry;

    assert_true(none(&a));
    end_close(&b);
    open_end(&b, STACK, CAPS, &old);
    assert_int_equal(b.name_len, old.name_len);
    assert_memory_equal(b.name, old.name, b.name_len);
    to_a = insert(&b, &a);
    memset(in, 0, 8);
    /* The new one introduces itself; a's session with the old one is over. */
    assert_int_equal(fi_recv(a.ep, in, 8, NULL, FI_ADDR_UNSPEC, NULL), 0);
    assert_int_equal(fi_send(b.ep, out, 8, NULL, to_a, NULL), 0);
    assert_true(next(&a, &entry));
    assert_memory_equal(in, out, 8);
    assert_true(next(&b, &entry));
    small_messages_keep_their_order(state);
    large_messages_wait_at_their_sender(state);
}

/* Packets that come at once from a peer, introduced by the first of them, all count as its own. */
static void all_first_packets_of_an_unknown_peer_count(void **state)
{
    enum {
        FIRST = 64
    };
    static char bytes[FIRST][8];
    struct end x, y;
    struct fi_cq_tagged_entry entry;
    fi_addr_t to_y;

    open_end(&x, "rxd;udp", CAPS, NULL);
    open_end(&y, "rxd;udp", CAPS, NULL);
    to_y = insert(&x, &y);
    for (int i = 0; i < FIRST; i++)
        assert_int_equal(fi_recv(y.ep, bytes[i], 8, NULL, FI_ADDR_UNSPEC, NULL), 0);
    for (int i = 0; i < FIRST; i++)
        assert_int_equal(fi_inject(x.ep, out + i, 8, to_y), 0);
    for (int got = 0; got < FIRST; fi_cq_read(x.cq, NULL, 0))
        got += fi_cq_read(y.cq, &entry, 1) == 1;
    for (int i = 0; i < FIRST; i++)
        assert_memory_equal(bytes[i], out + i, 8);
    end_close(&x);
    end_close(&y);
}

static long long now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void let_close_wait_an_hour(struct end *end)
{
    uint32_t ms = 3600000;

    assert_int_equal(fi_setopt(&end->ep->fid, FI_OPT_ENDPOINT, OPT_CLOSE_WAIT, &ms, sizeof(ms)), 0);
}

/* Its peer has all that it was sent, and does not look at its queues any more: fi_close, which may
 * wait for an hour, does not. */
static void closing_beside_an_idle_peer_waits_for_nothing(void **state)
{
    struct end x, y;
    struct fi_cq_tagged_entry entry;
    fi_addr_t to_y;

    open_end(&x, "rxd;udp", CAPS, NULL);
    open_end(&y, "rxd;udp", CAPS, NULL);
    to_y = insert(&x, &y);
    let_close_wait_an_hour(&x);
    let_close_wait_an_hour(&y);
    assert_int_equal(fi_recv(y.ep, in, LARGE, NULL, FI_ADDR_UNSPEC, NULL), 0);
    assert_int_equal(fi_send(x.ep, out, LARGE, NULL, to_y, NULL), 0);
    while (fi_cq_read(x.cq, &entry, 1) != 1)
        fi_cq_read(y.cq, NULL, 0);
    assert_true(next(&y, &entry));
    end_close(&y);
    end_close(&x);
}

/* A peer takes a read without an answer, and is gone with nothing on the way to it. */
static void a_peer_that_owes_an_answer_dies(bool sleeps)
{
    struct end x, taker;
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry err = {0};
    ssize_t rc = -FI_EAGAIN;
    long long begin;

    open_end(&x, "rxd;udp", CAPS, NULL);
    open_end(&taker, "arq;udp", FI_MSG, NULL);
    assert_int_equal(fi_recv(taker.ep, in, LARGE, NULL, FI_ADDR_UNSPEC, NULL), 0);
    assert_int_equal(fi_read(x.ep, out, 8, NULL, insert(&x, &taker), 0, 1, &x), 0);
    while (fi_cq_read(taker.cq, &entry, 1) != 1)
        assert_int_equal(fi_cq_read(x.cq, &entry, 1), -FI_EAGAIN);
    for (begin = now_ms(); now_ms() - begin < 200;) { /* it is acknowledged */
        fi_cq_read(taker.cq, NULL, 0);
        fi_cq_read(x.cq, NULL, 0);
    }
    end_close(&taker);
    for (begin = now_ms(); rc == -FI_EAGAIN && now_ms() - begin < 60000;)
        rc = sleeps ? fi_cq_sread(x.cq, &entry, 1, NULL, 60000) : fi_cq_read(x.cq, &entry, 1);
    assert_int_equal(rc, -FI_EAVAIL);
    assert_int_equal(fi_cq_readerr(x.cq, &err, 0), 1);
    assert_ptr_equal(err.op_context, &x);
    assert_int_equal(err.err, FI_ECONNREFUSED);
    end_close(&x);
}

static void a_dead_peer_is_asked_for_its_answer(void **state)
{
    if (again_is_emulated())
        skip(); /* an emulator hands no ICMP errors over */
    a_peer_that_owes_an_answer_dies(false);
    a_peer_that_owes_an_answer_dies(true);
}

/* The peer keeps a bounded number of bytes, tells its sender to wait, and loses nothing. */
static void peer_that_never_reads_is_waited_for(void **state)
{
    enum {
        LEN = 1000
    };
    struct end x, y;
    struct fi_cq_tagged_entry entry;
    fi_addr_t to_y;
    int sent = 0, got = 0;

    open_end(&x, "rxd(saved_size=64k);loop(shape=srd)", CAPS, NULL);
    open_end(&y, "rxd(saved_size=64k);loop(shape=srd)", CAPS, NULL);
    to_y = insert(&x, &y);
    for (int tries = 0; tries < 1000; tries++) {
        ssize_t rc = fi_inject(x.ep, out, LEN, to_y);

        assert_true(!rc || rc == -FI_EAGAIN);
        sent += !rc;
        tries = rc ? tries : 0;
        fi_cq_read(x.cq, NULL, 0);
        fi_cq_read(y.cq, NULL, 0);
        assert_true(sent < 10000);
    }
    assert_true(sent > 64);
    assert_int_equal(fi_recv(y.ep, in, LEN, NULL, FI_ADDR_UNSPEC, NULL), 0);
    for (int turns = 0; got < sent; turns++) {
        assert_true(turns < 100 * TURNS);
        fi_cq_read(x.cq, NULL, 0);
        if (fi_cq_read(y.cq, &entry, 1) != 1)
            continue;
        assert_int_equal(entry.len, LEN);
        got++;
        assert_int_equal(fi_recv(y.ep, in, LEN, NULL, FI_ADDR_UNSPEC, NULL), 0);
    }
    end_close(&x);
    end_close(&y);
}

/* It has kept as many bytes as it may, most of them of one of its peers, whose messages have
 * receives by now, and wait for the rest. */
static void full_endpoint_closes(void **state)
{
    enum {
        SENDERS = 8,
        MESSAGES = 12,
        LEN = 70000,
        SOME = 1000 /* turns */
    };
    static const char spec[] = "srd(saved_size=64k,read_size=1g);loop(shape=srd)";
    struct end x[SENDERS], y;
    fi_addr_t to_y;

    open_end(&y, spec, CAPS, NULL);
    for (int i = 0; i < SENDERS; i++) {
        open_end(&x[i], spec, CAPS, NULL);
        to_y = insert(&x[i], &y);
        assert_int_equal(fi_inject(x[i].ep, out, 8, to_y), 0);
        for (int k = 0; k < MESSAGES && i == SENDERS / 2; k++)
            assert_int_equal(fi_send(x[i].ep, out, LEN, NULL, to_y, NULL), 0);
        for (int turns = 0; turns < SOME; turns++) {
            fi_cq_read(x[i].cq, NULL, 0);
            fi_cq_read(y.cq, NULL, 0);
        }
    }
    for (int k = 0; k < SENDERS + MESSAGES; k++)
        assert_int_equal(fi_recv(y.ep, in, LEN, NULL, FI_ADDR_UNSPEC, NULL), 0);
    end_close(&y);
    for (int i = 0; i < SENDERS; i++)
        end_close(&x[i]);
}

static void request_of_a_large_message_is_small(void **state)
{
    struct end x, taker;
    struct fi_cq_tagged_entry entry;

    open_end(&x, "rxd;udp(iface=lo)", CAPS, NULL);
    open_end(&taker, "arq;udp(iface=lo)", FI_MSG, NULL);
    assert_true(taker.info->ep_attr->max_msg_size > 8192);
    assert_int_equal(fi_recv(taker.ep, in, LARGE, NULL, FI_ADDR_UNSPEC, NULL), 0);
    assert_int_equal(fi_send(x.ep, out, LARGE, NULL, insert(&x, &taker), NULL), 0);
    while (fi_cq_read(taker.cq, &entry, 1) != 1)
        assert_int_equal(fi_cq_read(x.cq, &entry, 1), -FI_EAGAIN);
    assert_true(entry.len < 4096);
    end_close(&taker);
    end_close(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_messages_keep_their_order),
        cmocka_unit_test(large_messages_wait_at_their_sender),
        cmocka_unit_test(delivery_is_in_the_receive),
        cmocka_unit_test(memory_without_rights_is_refused),
        cmocka_unit_test(bytes_of_strangers_change_nothing),
        cmocka_unit_test(lies_of_a_peer_end_what_is_under_way_with_it),
        cmocka_unit_test(large_messages_are_read_by_the_lower),
        cmocka_unit_test(a_peer_that_starts_again_is_a_new_one),
        cmocka_unit_test(all_first_packets_of_an_unknown_peer_count),
        cmocka_unit_test(closing_beside_an_idle_peer_waits_for_nothing),
        cmocka_unit_test(a_dead_peer_is_asked_for_its_answer),
        cmocka_unit_test(peer_that_never_reads_is_waited_for),
        cmocka_unit_test(full_endpoint_closes),
        cmocka_unit_test(request_of_a_large_message_is_small),
    };

    return cmocka_run_group_tests_name("rxd: pair", tests, open_all, close_all);
}
