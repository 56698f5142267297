/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening and ending connections: private data, refusals, silence, strangers, deaths. */
#include "pair.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    HEADER = 32
};

/* A message of the exchange, with `len` bytes of private data. */
static size_t cm_message(uint8_t *bytes, uint8_t type, const void *data, size_t len)
{
    uint64_t one = 1;

    memset(bytes, 0, HEADER);
    bytes[0] = 3;
    bytes[1] = type;
    bytes[2] = (uint8_t)(len >> 8);
    bytes[3] = (uint8_t)len;
    memcpy(bytes + 24, &one, sizeof(one));
    if (len)
        memcpy(bytes + HEADER, data, len);
    return HEADER + len;
}

/* An event with private data. */
static size_t event_with_data(struct pair *pair, uint32_t want, struct fi_eq_cm_entry *entry,
                              size_t room)
{
    uint32_t event = 0;
    ssize_t rc = fi_eq_sread(pair->eq, &event, entry, sizeof(*entry) + room, 60000, 0);

    assert_true(rc >= (ssize_t)sizeof(*entry));
    assert_int_equal(event, want);
    return (size_t)rc - sizeof(*entry);
}

/* The listener still serves. */
static void check_alive(struct pair *pair)
{
    struct fi_eq_cm_entry entry;

    side_open(pair, &pair->a, pair->info);
    assert_int_equal(fi_connect(pair->a.ep, &pair->address, NULL, 0), 0);
    expect_event(pair, FI_CONNREQ, &entry);
    side_open(pair, &pair->b, entry.info);
    fi_freeinfo(entry.info);
    assert_int_equal(fi_accept(pair->b.ep, NULL, 0), 0);
    expect_event(pair, FI_CONNECTED, &entry);
    expect_event(pair, FI_CONNECTED, &entry);
    side_close(&pair->a);
    expect_event(pair, FI_SHUTDOWN, &entry);
    assert_ptr_equal(entry.fid, &pair->b.ep->fid);
    side_close(&pair->b);
}

static void private_data_goes_both_ways(void **state)
{
    struct pair pair;
    union {
        struct fi_eq_cm_entry entry;
        uint8_t bytes[sizeof(struct fi_eq_cm_entry) + 256];
    } event;
    uint8_t ask[256], answer[256];
    static const size_t lens[] = {0, 1, 8, 24, 255, 256};

    fill(ask, sizeof(ask), 1);
    fill(answer, sizeof(answer), 2);
    for (size_t i = 0; i < 6; i++) {
        struct sockaddr_in name = {0}, peer = {0};
        size_t len = sizeof(name);

        pair_listen(&pair, &(struct options){0});
        side_open(&pair, &pair.a, pair.info);
        assert_int_equal(fi_connect(pair.a.ep, &pair.address, ask, 257), -FI_EINVAL);
        assert_int_equal(fi_send(pair.a.ep, ask, 1, NULL, 0, NULL), -FI_ENOTCONN);
        assert_int_equal(fi_connect(pair.a.ep, &pair.address, ask, lens[i]), 0);
        assert_int_equal(event_with_data(&pair, FI_CONNREQ, &event.entry, 256), lens[i]);
        assert_memory_equal(event.entry.data, ask, lens[i]);
        side_open(&pair, &pair.b, event.entry.info);
        fi_freeinfo(event.entry.info);
        assert_int_equal(fi_accept(pair.b.ep, answer, lens[i]), 0);
        assert_int_equal(event_with_data(&pair, FI_CONNECTED, &event.entry, 256), 0);
        assert_ptr_equal(event.entry.fid, &pair.b.ep->fid);
        assert_int_equal(event_with_data(&pair, FI_CONNECTED, &event.entry, 256), lens[i]);
        assert_ptr_equal(event.entry.fid, &pair.a.ep->fid);
        assert_memory_equal(event.entry.data, answer, lens[i]);
        assert_int_equal(fi_getname(&pair.a.ep->fid, &name, &len), 0);
        assert_int_equal(fi_getpeer(pair.b.ep, &peer, &len), 0);
        assert_memory_equal(&name, &peer, sizeof(name));
        assert_int_equal(fi_connect(pair.a.ep, &pair.address, NULL, 0), -FI_EISCONN);
        pair_close(&pair);
    }
}

static void every_address_family_connects(void **state)
{
    struct pair pair;

    pair_open(&pair, &(struct options){.node = "::1"});
    assert_int_equal(pair.info->addr_format, FI_SOCKADDR_IN6);
    pair_close(&pair);
}

static void a_reject_carries_its_data(void **state)
{
    struct pair pair;
    struct fi_eq_cm_entry entry;
    uint8_t data[256];
    struct fi_eq_err_entry error = {.err_data = data, .err_data_size = sizeof(data)};

    pair_listen(&pair, &(struct options){0});
    side_open(&pair, &pair.a, pair.info);
    assert_int_equal(fi_connect(pair.a.ep, &pair.address, NULL, 0), 0);
    expect_event(&pair, FI_CONNREQ, &entry);
    assert_int_equal(fi_reject(pair.pep, entry.info->handle, "no room", 8), 0);
    assert_int_equal(fi_reject(pair.pep, entry.info->handle, "no room", 8), -FI_EINVAL);
    fi_freeinfo(entry.info);
    assert_int_equal(expect_error_event(&pair, &error), FI_ECONNREFUSED);
    assert_ptr_equal(error.fid, &pair.a.ep->fid);
    assert_int_equal(error.err_data_size, 8);
    assert_string_equal(error.err_data, "no room");
    side_close(&pair.a);
    check_alive(&pair);
    pair_close(&pair);
}

static int connect_error(struct pair *pair, const struct sockaddr_in *address)
{
    struct fi_eq_err_entry error = {0};
    struct fi_cq_err_entry failure;
    uint8_t buf[8];

    side_open(pair, &pair->a, pair->info);
    assert_int_equal(fi_recv(pair->a.ep, buf, sizeof(buf), NULL, 0, buf), 0);
    assert_int_equal(fi_connect(pair->a.ep, address, NULL, 0), 0);
    int err = expect_error_event(pair, &error);
    assert_ptr_equal(error.fid, &pair->a.ep->fid);
    /* The receive that was posted does not hang. */
    assert_int_equal(expect_failure(pair, pair->a.rx, &failure), err);
    assert_ptr_equal(failure.op_context, buf);
    side_close(&pair->a);
    return err;
}

static void refused_and_silent_peers_end_in_errors(void **state)
{
    struct pair pair;
    struct sockaddr_in address;
    int fd = raw_listen(&address);

    pair_listen(&pair, &(struct options){.spec = "tcp(connect_timeout=200ms)"});
    long long start = now_ms();
    assert_int_equal(connect_error(&pair, &address), FI_ETIMEDOUT);
    assert_true(now_ms() - start >= 190);
    pair_close(&pair);
    close(fd);
    fd = raw_bind(&address);
    pair_listen(&pair, &(struct options){0});
    assert_int_equal(connect_error(&pair, &address), FI_ECONNREFUSED);
    close(fd);
    check_alive(&pair);
    pair_close(&pair);
}

/* Possible answers of a foreign server, and our endpoint's errors for them. */
static void strange_answers_end_in_errors(void **state)
{
    static const struct {
        int err;
        const char *bytes;
        size_t len;
    } answers[] = {
        {FI_EPROTO, "HTTP/1.1 400 Bad Request\r\n", 26},
        {FI_EPROTO, "\x02\x01", 2},
        {FI_EPROTO, "\x03\x00\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0", 32},
        {FI_EPROTO, "\x03\x01\1\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0", 32},
        {FI_ECONNREFUSED, "\x03\x01\0", 3},
        {FI_ECONNREFUSED, "", 0},
        {FI_ECONNREFUSED, "\x03\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
         32},
    };
    struct pair pair;
    struct sockaddr_in address;
    struct fi_eq_err_entry error = {0};
    uint8_t bytes[64];
    int fd = raw_listen(&address);

    pair_listen(&pair, &(struct options){0});
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        side_open(&pair, &pair.a, pair.info);
        assert_int_equal(fi_connect(pair.a.ep, &address, NULL, 0), 0);
        int peer = accept(fd, NULL, NULL);
        expect_no_event(&pair);
        assert_int_equal(recv(peer, bytes, sizeof(bytes), 0), HEADER);
        assert_int_equal(send(peer, answers[i].bytes, answers[i].len, 0), answers[i].len);
        shutdown(peer, SHUT_WR);
        assert_int_equal(expect_error_event(&pair, &error), answers[i].err);
        close(peer);
        side_close(&pair.a);
    }
    close(fd);
    pair_close(&pair);
}

/* True when the peer closed the socket within a minute. */
static bool closed_by_peer(struct pair *pair, int fd)
{
    uint8_t byte;
    long long until = now_ms() + 60000;

    while (now_ms() < until) {
        ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN))
            return true;
        expect_no_event(pair);
    }
    return false;
}

static void silent_strangers_lose_their_socket(void **state)
{
    struct pair pair;
    uint8_t bytes[HEADER];

    cm_message(bytes, 0, NULL, 0);
    pair_listen(&pair, &(struct options){.spec = "tcp(connect_timeout=300ms)"});
    for (size_t len = 0; len < HEADER; len += HEADER / 2) {
        int fd = raw_connect(&pair);

        assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), len);
        assert_true(closed_by_peer(&pair, fd));
        close(fd);
    }
    pair_close(&pair);
}

static void strangers_at_the_listener_lose_their_socket_only(void **state)
{
    struct pair pair;
    uint8_t bytes[600];

    pair_listen(&pair, &(struct options){0});
    for (int i = 0; i < 6; i++) {
        int fd = raw_connect(&pair);
        size_t len = cm_message(bytes, 0, NULL, 0);

        switch (i) {
        case 0: len = (size_t)sprintf((char *)bytes, "GET / HTTP/1.1\r\n\r\n"); break;
        case 1: bytes[0] = 2; break;
        case 2: bytes[0] = 4; break;
        case 3: bytes[1] = 1; break;
        case 4: bytes[1] = 6; break;
        case 5: bytes[2] = 1, bytes[3] = 1; break;
        }
        assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), len);
        assert_true(closed_by_peer(&pair, fd));
        close(fd);
    }
    /* One that hangs up early, one that resets. */
    for (int i = 0; i < 2; i++) {
        struct linger linger = {.l_onoff = i};
        int fd = raw_connect(&pair);

        assert_int_equal(send(fd, bytes, 5, 0), 5);
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
        close(fd);
        usleep(1000);
        expect_no_event(&pair);
    }
    check_alive(&pair);
    pair_close(&pair);
}

/* A request that comes byte by byte is one, and does not hold up another. */
static void a_slow_request_is_accepted_and_blocks_nobody(void **state)
{
    struct pair pair;
    union {
        struct fi_eq_cm_entry entry;
        uint8_t bytes[sizeof(struct fi_eq_cm_entry) + 256];
    } event;
    uint8_t bytes[HEADER + 8], answer[HEADER];

    pair_listen(&pair, &(struct options){0});
    int fd = raw_connect(&pair);
    size_t len = cm_message(bytes, 0, "12345678", 8);
    for (size_t i = 0; i + 1 < len; i++) {
        assert_int_equal(send(fd, bytes + i, 1, 0), 1);
        expect_no_event(&pair);
    }
    check_alive(&pair);
    assert_int_equal(send(fd, bytes + len - 1, 1, 0), 1);
    assert_int_equal(event_with_data(&pair, FI_CONNREQ, &event.entry, 256), 8);
    assert_memory_equal(event.entry.data, "12345678", 8);
    side_open(&pair, &pair.b, event.entry.info);
    fi_freeinfo(event.entry.info);
    assert_int_equal(fi_accept(pair.b.ep, NULL, 0), 0);
    expect_event(&pair, FI_CONNECTED, &event.entry);
    assert_int_equal(recv(fd, answer, HEADER, MSG_WAITALL), HEADER);
    assert_int_equal(answer[1], 1);
    close(fd);
    pair_close(&pair);
}

/* A raw peer that is connected to pair->b. */
static int raw_peer(struct pair *pair, const struct options *options)
{
    struct fi_eq_cm_entry entry;
    uint8_t bytes[HEADER];

    pair_listen(pair, options);
    int fd = raw_connect(pair);
    cm_message(bytes, 0, NULL, 0);
    assert_int_equal(send(fd, bytes, HEADER, 0), HEADER);
    expect_event(pair, FI_CONNREQ, &entry);
    side_open(pair, &pair->b, entry.info);
    fi_freeinfo(entry.info);
    assert_int_equal(fi_accept(pair->b.ep, NULL, 0), 0);
    expect_event(pair, FI_CONNECTED, &entry);
    assert_int_equal(recv(fd, bytes, HEADER, MSG_WAITALL), HEADER);
    return fd;
}

static void record(uint8_t *bytes, uint8_t op, uint16_t flags, uint8_t op_data, uint8_t header,
                   uint64_t size)
{
    memset(bytes, 0, 64);
    bytes[0] = 3;
    bytes[1] = op;
    memcpy(bytes + 2, &flags, 2);
    bytes[4] = op_data;
    bytes[6] = header;
    memcpy(bytes + 8, &size, 8);
}

/* Each of these ends that connection, with the posted receive in error, and nothing else. */
static void broken_streams_end_their_connection(void **state)
{
    static const struct {
        uint8_t op;
        uint16_t flags;
        uint8_t op_data, header;
        uint64_t size;
    } broken[] = {
        {8, 0, 0, 16, 16},   /* unknown */
        {0, 0, 0, 8, 16},    /* header too short */
        {0, 0, 0, 200, 300}, /* too long */
        {0, 0, 0, 16, 3},    /* shorter than its header */
        {0, 0, 2, 16, 16},   /* an ack of nothing */
        {3, 0, 0, 16, 32},   /* a response to nothing */
        {6, 0, 9, 16, 16},   /* clear-to-send for nothing */
        {7, 0, 9, 16, 32},   /* data of nothing */
        {1, 0, 0, 24, 24},   /* a tag without FI_TAGGED */
        {5, 0, 1, 32, 32},   /* a request without FI_TAGGED */
        {2, 0, 0, 16, 17},   /* a read with a payload */
        {4, 0, 0, 16, 17},   /* a write to nowhere */
    };

    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        struct pair pair;
        struct fi_eq_cm_entry entry;
        struct fi_cq_err_entry error;
        uint8_t bytes[64], buf[64];

        int fd = raw_peer(&pair, &(struct options){0});
        assert_int_equal(fi_recv(pair.b.ep, buf, sizeof(buf), NULL, 0, buf), 0);
        record(bytes, broken[i].op, broken[i].flags, broken[i].op_data, broken[i].header,
               broken[i].size);
        assert_int_equal(send(fd, bytes, sizeof(bytes), 0), sizeof(bytes));
        assert_int_equal(expect_failure(&pair, pair.b.rx, &error), FI_EPROTO);
        assert_ptr_equal(error.op_context, buf);
        expect_event(&pair, FI_SHUTDOWN, &entry);
        assert_int_equal(fi_send(pair.b.ep, buf, 1, NULL, 0, NULL), -FI_ENOTCONN);
        /* A receive that is posted too late ends as those before it. */
        assert_int_equal(fi_recv(pair.b.ep, buf, 1, NULL, 0, bytes), 0);
        assert_int_equal(expect_failure(&pair, pair.b.rx, &error), FI_ECANCELED);
        assert_ptr_equal(error.op_context, bytes);
        expect_nothing(pair.b.rx);
        expect_no_event(&pair);
        close(fd);
        side_close(&pair.b);
        check_alive(&pair);
        pair_close(&pair);
    }
}

/* Bytes of two records, cut everywhere. */
static void records_may_come_in_any_pieces(void **state)
{
    struct pair pair;
    struct fi_cq_tagged_entry done;
    uint8_t bytes[64], buf[64];

    int fd = raw_peer(&pair, &(struct options){0});
    record(bytes, 0, 1, 0, 24, 29);
    memcpy(bytes + 16, "DATADATA12345", 13);
    for (size_t cut = 0; cut < 29; cut++) {
        assert_int_equal(fi_recv(pair.b.ep, buf, sizeof(buf), NULL, 0, buf), 0);
        for (int twice = 0; twice < 2; twice++) {
            size_t from = twice ? cut : 0, to = twice ? 29 : cut;

            if (from == to)
                continue;
            assert_int_equal(send(fd, bytes + from, to - from, 0), to - from);
            usleep(200);
            if (!twice)
                expect_nothing(pair.b.rx);
        }
        expect_completion(&pair, pair.b.rx, &done);
        assert_int_equal(done.len, 5);
        assert_memory_equal(buf, "12345", 5);
        assert_memory_equal(&done.data, "DATADATA", 8);
    }
    close(fd);
    pair_close(&pair);
}

/* Big-endian headers after a conn_data of the other order, and our answers likewise. */
static void a_host_of_the_other_byte_order_is_understood(void **state)
{
    struct pair pair;
    struct fi_eq_cm_entry entry;
    struct fi_cq_tagged_entry done;
    uint8_t bytes[HEADER], buf[64];
    static const uint8_t send5[] = {3, 0, 0, 4, 0,  0,   16,  0,   0,   0,  0,
                                    0, 0, 0, 0, 21, 'h', 'e', 'l', 'l', 'o'};
    static const uint8_t ack[] = {3, 0, 0, 0, 2, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 16};

    pair_listen(&pair, &(struct options){0});
    int fd = raw_connect(&pair);
    cm_message(bytes, 0, NULL, 0);
    uint8_t swapped = bytes[24];
    bytes[24] = bytes[31];
    bytes[31] = swapped;
    assert_int_equal(send(fd, bytes, HEADER, 0), HEADER);
    expect_event(&pair, FI_CONNREQ, &entry);
    side_open(&pair, &pair.b, entry.info);
    fi_freeinfo(entry.info);
    assert_int_equal(fi_accept(pair.b.ep, NULL, 0), 0);
    expect_event(&pair, FI_CONNECTED, &entry);
    assert_int_equal(recv(fd, bytes, HEADER, MSG_WAITALL), HEADER);
    const uint16_t one = 1;
    if (*(const uint8_t *)&one == 1) {
        assert_int_equal(fi_recv(pair.b.ep, buf, sizeof(buf), NULL, 0, buf), 0);
        assert_int_equal(send(fd, send5, sizeof(send5), 0), sizeof(send5));
        expect_completion(&pair, pair.b.rx, &done);
        assert_int_equal(done.len, 5);
        assert_int_equal(recv(fd, bytes, sizeof(ack), MSG_WAITALL), sizeof(ack));
        assert_memory_equal(bytes, ack, sizeof(ack));
    }
    close(fd);
    pair_close(&pair);
}

/* ---- Ends ---- */

static void shutdown_is_seen_by_who_reads_the_eq_only(void **state)
{
    struct pair pair;
    struct fi_eq_cm_entry entry;
    uint8_t buf[8];
    struct fi_cq_err_entry error;
    struct fi_cq_tagged_entry done;

    pair_open(&pair, &(struct options){0});
    assert_int_equal(fi_recv(pair.b.ep, buf, 8, NULL, 0, buf), 0);
    assert_int_equal(fi_recv(pair.b.ep, buf, 8, NULL, 0, NULL), 0);
    assert_int_equal(fi_send(pair.a.ep, "last one", 8, NULL, 0, NULL), 0);
    assert_int_equal(fi_shutdown(pair.a.ep, 0), 0);
    assert_int_equal(fi_send(pair.a.ep, "too late", 8, NULL, 0, NULL), -FI_ENOTCONN);
    /* Its own end, then the peer's. */
    expect_event(&pair, FI_SHUTDOWN, &entry);
    assert_ptr_equal(entry.fid, &pair.a.ep->fid);
    expect_event(&pair, FI_SHUTDOWN, &entry);
    assert_ptr_equal(entry.fid, &pair.b.ep->fid);
    expect_no_event(&pair);
    expect_completion(&pair, pair.b.rx, &done);
    assert_memory_equal(buf, "last one", 8);
    assert_int_equal(expect_failure(&pair, pair.b.rx, &error), FI_ECANCELED);
    expect_nothing(pair.b.rx);
    pair_close(&pair);
}

/* A passive endpoint that was bound, and never listened, gives its address to an active one. */
static void an_endpoint_takes_over_a_bound_address(void **state)
{
    struct pair pair;
    struct fid_pep *bound;
    struct fi_info *info;
    struct sockaddr_in want, got;
    size_t len = sizeof(want);

    pair_listen(&pair, &(struct options){0});
    info = fi_dupinfo(pair.info);
    assert_non_null(info);
    free(info->src_addr);
    info->src_addr = NULL;
    info->src_addrlen = 0;
    assert_int_equal(fi_passive_ep(pair.fabric, info, &bound, NULL), 0);
    want = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(fi_setname(&bound->fid, &want, sizeof(want)), 0);
    assert_int_equal(fi_getname(&bound->fid, &want, &len), 0);
    assert_int_not_equal(want.sin_port, 0);
    info->handle = &bound->fid;
    side_open(&pair, &pair.a, info);
    assert_int_equal(fi_getname(&pair.a.ep->fid, &got, &len), 0);
    assert_int_equal(got.sin_port, want.sin_port);
    assert_int_equal(got.sin_addr.s_addr, want.sin_addr.s_addr);
    side_close(&pair.a);
    fi_close(&bound->fid);
    fi_freeinfo(info);
    pair_close(&pair);
}

/* The peer dies in the middle of everything: each operation ends exactly once. */
static void death_in_mid_transfer_ends_every_operation_once(void **state)
{
    enum {
        OPS = 6,
        LEN = 1 << 22
    };
    struct pair pair;
    struct fi_eq_cm_entry entry;
    uint8_t *big = calloc(1, LEN);
    uint8_t *room = calloc(1, LEN);

    for (int how = 0; how < 3; how++) {
        unsigned ended[OPS] = {0};
        struct fid_mr *mr;

        pair_open(&pair, &(struct options){0});
        assert_int_equal(fi_mr_reg(pair.b.domain, room, LEN, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 5,
                                   0, &mr, NULL),
                         0);
        struct iovec iov = {big, LEN};
        struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .context = (void *)1};
        assert_int_equal(fi_send(pair.a.ep, big, 8, NULL, 0, (void *)0), 0);
        assert_int_equal(fi_sendmsg(pair.a.ep, &msg, FI_DELIVERY_COMPLETE), 0);
        assert_int_equal(fi_read(pair.a.ep, room, 100, NULL, 0, 0, 5, (void *)2), 0);
        assert_int_equal(fi_write(pair.a.ep, big, LEN, NULL, 0, 0, 5, (void *)3), 0);
        assert_int_equal(fi_send(pair.a.ep, big, LEN, NULL, 0, (void *)4), 0);
        assert_int_equal(fi_recv(pair.a.ep, room, LEN, NULL, 0, (void *)5), 0);
        if (how > 0)
            fi_cq_read(pair.b.rx, NULL, 0);
        if (how == 2)
            fi_shutdown(pair.b.ep, 0);
        assert_int_equal(fi_close(&pair.b.ep->fid), 0);
        pair.b.ep = NULL;
        expect_event(&pair, FI_SHUTDOWN, &entry);
        assert_ptr_equal(entry.fid, &pair.a.ep->fid);
        for (int queue = 0; queue < 2; queue++) {
            struct fid_cq *cq = queue ? pair.a.rx : pair.a.tx;
            struct fi_cq_tagged_entry done;
            struct fi_cq_err_entry error = {0};
            ssize_t rc;

            while ((rc = fi_cq_read(cq, &done, 1)) != -FI_EAGAIN) {
                if (rc == 1) {
                    ended[(uintptr_t)done.op_context]++;
                    continue;
                }
                assert_int_equal(rc, -FI_EAVAIL);
                assert_int_equal(fi_cq_readerr(cq, &error, 0), 1);
                ended[(uintptr_t)error.op_context]++;
            }
        }
        for (int i = 0; i < OPS; i++)
            assert_int_equal(ended[i], 1);
        assert_int_equal(fi_close(&mr->fid), 0);
        pair_close(&pair);
    }
    free(big);
    free(room);
}

/* SIGKILL of a process that is connected. */
static void a_killed_process_is_noticed(void **state)
{
    struct pair pair;
    struct fi_eq_cm_entry entry;
    struct fi_cq_err_entry error;
    uint8_t bytes[HEADER], *big = calloc(1, 1 << 20);

    pair_listen(&pair, &(struct options){0});
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        /* Half of a message, then wait to be killed. */
        uint8_t head[64];
        int fd = raw_connect(&pair);

        cm_message(bytes, 0, NULL, 0);
        send(fd, bytes, HEADER, 0);
        recv(fd, bytes, HEADER, MSG_WAITALL);
        record(head, 0, 0, 0, 16, 16 + (1 << 20));
        send(fd, head, 16, 0);
        send(fd, big, 1 << 19, 0);
        pause();
        _exit(0);
    }
    expect_event(&pair, FI_CONNREQ, &entry);
    side_open(&pair, &pair.b, entry.info);
    fi_freeinfo(entry.info);
    assert_int_equal(fi_recv(pair.b.ep, big, 1 << 20, NULL, 0, big), 0);
    assert_int_equal(fi_accept(pair.b.ep, NULL, 0), 0);
    expect_event(&pair, FI_CONNECTED, &entry);
    for (int i = 0; i < 50; i++) {
        usleep(1000);
        expect_nothing(pair.b.rx);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    int err = expect_failure(&pair, pair.b.rx, &error);
    assert_true(err == FI_ECONNRESET || err == FI_ENOTCONN);
    expect_event(&pair, FI_SHUTDOWN, &entry);
    pair_close(&pair);
    free(big);
}

/* A child may close what it inherited; the parent's connection does not notice. */
static void a_forked_child_disturbs_nothing(void **state)
{
    struct pair pair;
    struct fi_cq_tagged_entry done;
    uint8_t buf[8];
    int status = 0;

    pair_open(&pair, &(struct options){0});
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        if (fi_send(pair.a.ep, "child", 5, NULL, 0, NULL) != -FI_EOPBADSTATE)
            _exit(1);
        pair_close(&pair);
        _exit(0);
    }
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    expect_no_event(&pair);
    assert_int_equal(fi_recv(pair.b.ep, buf, 8, NULL, 0, NULL), 0);
    assert_int_equal(fi_send(pair.a.ep, "parent", 6, NULL, 0, NULL), 0);
    expect_completion(&pair, pair.b.rx, &done);
    assert_int_equal(done.len, 6);
    pair_close(&pair);
}

/* Without file descriptors the listener waits, and goes on when there are some. */
static void exhausted_descriptors_delay_only(void **state)
{
    struct pair pair;
    struct rlimit old, low;
    struct fi_eq_cm_entry entry;
    uint8_t bytes[HEADER];

    pair_listen(&pair, &(struct options){0});
    int fd = raw_connect(&pair);
    cm_message(bytes, 0, NULL, 0);
    assert_int_equal(send(fd, bytes, HEADER, 0), HEADER);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = old;
    low.rlim_cur = (rlim_t)fd + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    for (int i = 0; i < 100; i++)
        expect_no_event(&pair);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    expect_event(&pair, FI_CONNREQ, &entry);
    fi_freeinfo(entry.info);
    close(fd);
    pair_close(&pair);
}

static void closing_in_any_state_leaves_nothing(void **state)
{
    struct pair pair;
    struct fi_eq_cm_entry entry;
    struct sockaddr_in address;
    int fd = raw_listen(&address);
    uint8_t buf[8];

    pair_listen(&pair, &(struct options){0});
    side_open(&pair, &pair.a, pair.info); /* connecting */
    assert_int_equal(fi_recv(pair.a.ep, buf, 8, NULL, 0, NULL), 0);
    assert_int_equal(fi_connect(pair.a.ep, &address, NULL, 0), 0);
    expect_no_event(&pair);
    assert_int_equal(fi_close(&pair.eq->fid), -FI_EBUSY);
    assert_int_equal(fi_close(&pair.a.rx->fid), -FI_EBUSY);
    assert_int_equal(fi_close(&pair.a.domain->fid), -FI_EBUSY);
    side_close(&pair.a);
    side_open(&pair, &pair.a, pair.info); /* request not answered, endpoint made */
    assert_int_equal(fi_connect(pair.a.ep, &pair.address, NULL, 0), 0);
    expect_event(&pair, FI_CONNREQ, &entry);
    side_open(&pair, &pair.b, entry.info);
    fi_freeinfo(entry.info);
    side_close(&pair.b);
    struct fi_eq_err_entry error = {0};
    assert_int_equal(expect_error_event(&pair, &error), FI_ECONNREFUSED);
    side_close(&pair.a);
    side_open(&pair, &pair.a, pair.info); /* request not even read */
    assert_int_equal(fi_connect(pair.a.ep, &pair.address, NULL, 0), 0);
    usleep(1000);
    pair_close(&pair);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(private_data_goes_both_ways),
        cmocka_unit_test(every_address_family_connects),
        cmocka_unit_test(a_reject_carries_its_data),
        cmocka_unit_test(refused_and_silent_peers_end_in_errors),
        cmocka_unit_test(strange_answers_end_in_errors),
        cmocka_unit_test(silent_strangers_lose_their_socket),
        cmocka_unit_test(strangers_at_the_listener_lose_their_socket_only),
        cmocka_unit_test(a_slow_request_is_accepted_and_blocks_nobody),
        cmocka_unit_test(broken_streams_end_their_connection),
        cmocka_unit_test(records_may_come_in_any_pieces),
        cmocka_unit_test(a_host_of_the_other_byte_order_is_understood),
        cmocka_unit_test(shutdown_is_seen_by_who_reads_the_eq_only),
        cmocka_unit_test(an_endpoint_takes_over_a_bound_address),
        cmocka_unit_test(death_in_mid_transfer_ends_every_operation_once),
        cmocka_unit_test(a_killed_process_is_noticed),
        cmocka_unit_test(a_forked_child_disturbs_nothing),
        cmocka_unit_test(exhausted_descriptors_delay_only),
        cmocka_unit_test(closing_in_any_state_leaves_nothing),
    };
    return cmocka_run_group_tests_name("tcp connect", tests, NULL, NULL);
}
