/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints that share an address and a port: the kernel's filter says of each packet what steer_of
 * says; packets come to the endpoint whose PDC or PIDonFEP they name; the places of a killed
 * process are given back.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <rdma/fi_errno.h>

#include "../../support/again.h"
#include "core/base/clock.h"
#include "transports/uet/nic/bpf.h"
#include "transports/uet/nic/nic.h"
#include "transports/uet/nic/share.h"
#include "transports/uet/nic/steer.h"
#include "transports/uet/wire/bytes.h"
#include "transports/uet/wire/pds_header.h"

enum {
    SIZE = 64,
    RANKS = 8,
    PROBES = 200,
};

/* ---- The filter ---- */

static bool load(const uint8_t *bytes, size_t len, const struct sock_filter *f, uint32_t *a)
{
    unsigned size = BPF_SIZE(f->code) == BPF_W ? 4 : BPF_SIZE(f->code) == BPF_H ? 2 : 1;

    if (f->k + size > len)
        return false;
    *a = size == 4 ? get32(bytes + f->k) : size == 2 ? get16(bytes + f->k) : bytes[f->k];
    return true;
}

/* Runs the filter as the kernel would. */
static uint32_t filter_run(const struct sock_filter *filter, size_t count, const uint8_t *bytes,
                           size_t len)
{
    uint32_t a = 0;

    for (size_t i = 0; i < count; i++) {
        const struct sock_filter *f = &filter[i];

        switch (f->code) {
        case BPF_RET | BPF_K: return f->k;
        case BPF_RET | BPF_A: return a;
        case BPF_JMP | BPF_JA: i += f->k; break;
        case BPF_JMP | BPF_JEQ | BPF_K: i += a == f->k ? f->jt : f->jf; break;
        case BPF_JMP | BPF_JSET | BPF_K: i += a & f->k ? f->jt : f->jf; break;
        case BPF_ALU | BPF_RSH | BPF_K: a >>= f->k; break;
        case BPF_ALU | BPF_AND | BPF_K: a &= f->k; break;
        default:
            assert_int_equal(BPF_CLASS(f->code), BPF_LD);
            if (!load(bytes, len, f, &a))
                return 0;
        }
    }
    fail_msg("the filter has no end");
    return 0;
}

static void the_kernel_and_we_agree(void **state)
{
    struct sock_filter filter[STEER_FILTER_MAX];
    struct steer_table table;
    uint8_t bytes[SIZE];
    unsigned quick = 0;
    size_t count;

    srand(1);
    for (unsigned i = 0; i < STEER_SLOTS; i++) {
        table.slots[i] = (int16_t)(i % 3 ? (int)i : -1);
        table.blocks[i] = (int16_t)(i % 5 ? (int)(63 - i) : -1);
    }
    count = steer_filter(&table, filter);
    assert_true(count <= STEER_FILTER_MAX);
    for (unsigned i = 0; i < 200000; i++) {
        size_t len = i % 4 ? SIZE : (size_t)rand() % SIZE;
        struct steer steer;
        unsigned block;
        int expected = 0;

        for (size_t j = 0; j < SIZE; j++)
            bytes[j] = (uint8_t)rand();
        steer = steer_of(bytes, len);
        if (steer_names_block(bytes, len, &block)) {
            assert_int_equal(steer.kind, STEER_BLOCK);
            assert_int_equal(steer.number, block);
            quick++;
        }
        if (steer.kind == STEER_SLOT)
            expected = table.slots[steer.number];
        else if (steer.kind == STEER_BLOCK)
            expected = table.blocks[steer.number];
        else if (steer.kind == STEER_NUMBER)
            expected = steer.number;
        assert_int_equal(filter_run(filter, count, bytes, len), expected < 0 ? 0 : expected);
    }
    assert_true(quick);
}

static void each_packet_names_its_endpoint(void **state)
{
    static const struct {
        struct pds_header header;
        uint8_t kind, number;
    } cases[] = {
        {{.type = PDS_RUD, .dpdcid = 5 * STEER_IDS + 3}, STEER_BLOCK, 5},
        {{.type = PDS_ROD, .flags = PDS_SYN}, STEER_SLOT, 9},
        {{.type = PDS_RUD_CC, .flags = PDS_SYN}, STEER_SLOT, 9},
        {{.type = PDS_ROD_CC, .dpdcid = 65535}, STEER_BLOCK, 63},
        {{.type = PDS_ACK, .dpdcid = 1}, STEER_BLOCK, 0},
        {{.type = PDS_ACK_CC, .dpdcid = 2048}, STEER_BLOCK, 2},
        {{.type = PDS_NACK, .dpdcid = 3072}, STEER_BLOCK, 3},
        {{.type = PDS_NACK, .flags = PDS_NT_RUDI, .psn = UINT32_C(7) << 26 | 5}, STEER_SLOT, 7},
        {{.type = PDS_CONTROL, .next = CONTROL_CLOSE, .dpdcid = 1024}, STEER_BLOCK, 1},
        {{.type = PDS_CONTROL, .next = CONTROL_NOOP, .flags = PDS_SYN}, STEER_ANY, 0},
        {{.type = PDS_UUD}, STEER_SLOT, 9},
        {{.type = PDS_RUDI}, STEER_SLOT, 9},
        {{.type = PDS_RUDI_RESPONSE, .psn = UINT32_MAX}, STEER_SLOT, 63},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t bytes[SIZE] = {0};
        size_t len = pds_header_put(&cases[i].header, false, bytes);
        struct steer steer;

        put16(bytes + len + 8, 9 * STEER_PIDS + 1); /* the PIDonFEP */
        steer = steer_of(bytes, len + 12);
        assert_int_equal(steer.kind, cases[i].kind);
        assert_int_equal(steer.number, cases[i].number);
    }
}

/* ---- Endpoints ---- */

static int port;

static int open_at(int slot, struct uet_nic **nic)
{
    const struct uet_nic_settings settings = {.packet = 1024,
                                              .port = port,
                                              .shared = port,
                                              .slot = slot,
                                              .elsewhere = slot < 0,
                                              .gso = true,
                                              .gro = true};
    union addr addr;

    assert_int_equal(addr_from_str("127.0.0.1:0", SIZE_MAX, &addr), 0);
    return uet_nic_open(&addr, &settings, nic);
}

/* One that is free now. */
static void choose_port(void)
{
    struct uet_nic *nic;

    port = 0;
    assert_int_equal(open_at(-1, &nic), 0);
    port = addr_port(&uet_nic_addr(nic)->sa);
    uet_nic_close(nic);
}

static unsigned block_of(const struct uet_nic *nic)
{
    uint64_t ids = uet_nic_ids(nic);

    assert_true(ids);
    return (unsigned)__builtin_ctzll(ids);
}

static void take(void *arg, const union addr *from, const uint8_t *bytes, size_t len, bool marked)
{
    ++*(unsigned *)arg;
}

static unsigned receive(struct uet_nic *nic)
{
    unsigned count = 0;
    bool more;

    while (uet_nic_receive(nic, clock_ns(), take, &count, &more))
        ;
    return count;
}

/* Packets to PDCs of the block, and openings to the PIDonFEP; count of each. */
static void send_some(struct uet_nic *from, const union addr *to, unsigned block, unsigned pid,
                      unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct pds_header header = {.type = PDS_RUD,
                                    .next = NEXT_STANDARD,
                                    .spdcid = 1,
                                    .dpdcid = (uint16_t)(block * STEER_IDS + i)};
        uint8_t bytes[SIZE] = {0};
        const struct iovec iov = {bytes, 56};

        pds_header_put(&header, false, bytes);
        uet_nic_send(from, to, &iov, 1, false);
        header.flags = PDS_SYN;
        pds_header_put(&header, false, bytes);
        put16(bytes + 20, (uint16_t)pid);
        uet_nic_send(from, to, &iov, 1, false);
    }
    assert_true(uet_nic_flush(from));
}

static void packets_find_their_endpoint(void **state)
{
    struct uet_nic *nics[RANKS];

    if (again_is_emulated())
        skip(); /* an emulator hands no filter over */
    choose_port();
    for (unsigned i = 0; i < RANKS; i++) {
        assert_int_equal(open_at(-1, &nics[i]), 0);
        assert_int_equal(addr_port(&uet_nic_addr(nics[i])->sa), port);
        for (unsigned j = 0; j < i; j++) {
            assert_int_not_equal(uet_nic_pid(nics[j]), uet_nic_pid(nics[i]));
            assert_int_equal(uet_nic_ids(nics[j]) & uet_nic_ids(nics[i]), 0);
        }
    }
    /* Neighbours to several, which must not leave in one piece. */
    for (unsigned i = 0; i < RANKS; i++)
        send_some(nics[0], uet_nic_addr(nics[i]), block_of(nics[i]), uet_nic_pid(nics[i]), 10);
    for (unsigned i = 0; i < RANKS; i++)
        assert_int_equal(receive(nics[i]), 20);
    /* One leaves, and the others have their packets still; its own find one that answers. */
    uet_nic_close(nics[2]);
    assert_int_equal(open_at((int)uet_nic_pid(nics[1]) / STEER_PIDS, &nics[2]), -FI_EADDRINUSE);
    for (unsigned i = 0; i < RANKS; i++)
        if (i != 2)
            send_some(nics[0], uet_nic_addr(nics[0]), block_of(nics[i]), uet_nic_pid(nics[i]), 10);
    for (unsigned i = 0; i < RANKS; i++)
        if (i != 2)
            assert_int_equal(receive(nics[i]), 20);
    for (unsigned i = 0; i < RANKS; i++)
        if (i != 2)
            uet_nic_close(nics[i]);
}

static void open_two(struct uet_nic **a, struct uet_nic **b)
{
    if (again_is_emulated())
        skip();
    choose_port();
    assert_int_equal(open_at(-1, a), 0);
    assert_int_equal(open_at(-1, b), 0);
}

static void an_endpoint_gets_more_ids(void **state)
{
    struct uet_nic *a, *b;
    uint64_t before;

    open_two(&a, &b);
    before = uet_nic_ids(a);
    assert_true(uet_nic_more_ids(a));
    assert_int_equal(uet_nic_ids(a) & before, before);
    assert_int_equal(__builtin_popcountll(uet_nic_ids(a)), 2);
    send_some(b, uet_nic_addr(a), (unsigned)__builtin_ctzll(uet_nic_ids(a) & ~before),
              uet_nic_pid(a), 10);
    assert_int_equal(receive(a), 20);
    while (uet_nic_more_ids(a))
        ;
    assert_int_equal(uet_nic_ids(a) | uet_nic_ids(b), UINT64_MAX);
    uet_nic_close(a);
    uet_nic_close(b);
}

/* One that sleeps looks whether its packets go astray, where there are others. */
static void only_company_wakes_a_sleeper(void **state)
{
    struct uet_nic *a, *b;
    uint64_t now;

    open_two(&a, &b);
    receive(a);
    now = clock_ns();
    assert_true(uet_nic_due(a) < now + UINT64_C(2000000000));
    uet_nic_close(b);
    while (uet_nic_due(a) != UINT64_MAX)
        receive(a); /* until it knows that it is alone */
    uet_nic_close(a);
}

/* ---- Readers that come late ---- */

/* Long after the page has changed. */
static unsigned receive_late(struct uet_nic *nic)
{
    uint64_t now = clock_ns() + UINT64_C(1000000000);
    unsigned count = 0;
    bool more;

    while (uet_nic_receive(nic, now, take, &count, &more))
        ;
    return count;
}

/* A packet for a block of no endpoint goes to the first; when that reads it, the block is
 * another's. Both endpoints are where they were. */
static void a_late_reader_changes_nothing(void **state)
{
    struct uet_nic *a, *b;
    unsigned next;

    open_two(&a, &b);
    next = (block_of(b) + 1) % STEER_BLOCKS;
    send_some(b, uet_nic_addr(a), next, uet_nic_pid(a), 1);
    assert_true(uet_nic_more_ids(b));
    assert_true(uet_nic_ids(b) >> next & 1);
    receive_late(a);
    assert_true(uet_nic_misled(a));
    /* a reads no more, and b has its packets. */
    send_some(a, uet_nic_addr(b), block_of(b), uet_nic_pid(b), 10);
    assert_int_equal(receive(b), 20);
    uet_nic_close(a);
    uet_nic_close(b);
}

/* ---- What the machine refuses ---- */

static int open_text(const char *text, struct uet_nic **nic)
{
    const struct uet_nic_settings settings = {
        .packet = 1024, .port = port, .shared = true, .slot = -1, .elsewhere = true};
    union addr addr;

    assert_int_equal(addr_from_str(text, SIZE_MAX, &addr), 0);
    if (addr_port(&addr.sa))
        addr_set_port(&addr.sa, (uint16_t)port);
    return uet_nic_open(&addr, &settings, nic);
}

static void a_port_that_is_taken_and_an_address_that_is_not_there(void **state)
{
    struct uet_nic *nic;
    union addr addr;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    choose_port();
    assert_int_equal(addr_from_str("127.0.0.1:1", SIZE_MAX, &addr), 0);
    addr_set_port(&addr.sa, (uint16_t)port);
    assert_int_equal(bind(fd, &addr.sa, addr_size(&addr.sa)), 0);
    assert_int_equal(open_text("127.0.0.1:1", &nic), -FI_EADDRINUSE);
    assert_int_equal(open_text("127.0.0.1:0", &nic), 0); /* at another one, by itself */
    assert_int_not_equal(addr_port(&uet_nic_addr(nic)->sa), port);
    assert_true(uet_nic_ids(nic) == UINT64_MAX);
    uet_nic_close(nic);
    assert_int_equal(open_text("192.0.2.77:0", &nic), -FI_EADDRNOTAVAIL);
    close(fd);
}

/* Processes that see another /dev/shm share no page, so they must not share the port. */
static void another_page_is_another_port(void **state)
{
    char path[160];
    struct uet_nic *a, *b, *c;
    struct stat network;
    union addr addr;

    if (again_is_emulated())
        skip();
    choose_port();
    assert_int_equal(open_at(-1, &a), 0);
    assert_int_equal(stat("/proc/self/ns/net", &network), 0);
    snprintf(path, sizeof(path), "/dev/shm/weft-uet-%u-%llu-127.0.0.1:%d", (unsigned)geteuid(),
             (unsigned long long)network.st_ino, port);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(open_at(-1, &b), 0);
    addr = *uet_nic_addr(b);
    assert_int_not_equal(addr_port(&addr.sa), port);
    send_some(b, uet_nic_addr(a), block_of(a), uet_nic_pid(a), 10);
    assert_int_equal(receive(a), 20);
    uet_nic_close(a);
    /* When it has left, others share the port again. */
    assert_int_equal(open_at(-1, &a), 0);
    assert_int_equal(addr_port(&uet_nic_addr(a)->sa), port);
    assert_int_equal(open_at(-1, &c), 0);
    assert_int_equal(addr_port(&uet_nic_addr(c)->sa), port);
    uet_nic_close(a);
    uet_nic_close(b);
    uet_nic_close(c);
}

/* ---- Death ---- */

static pid_t start_rank(void)
{
    int ready[2];
    char byte;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        struct uet_nic *nic;

        close(ready[0]);
        if (open_at(-1, &nic) || write(ready[1], "", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static void kill_rank(pid_t pid)
{
    int status;

    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
}

/* Until each of the nics has what is sent to it: a packet that comes to another mends the table. */
static void expect_mended(struct uet_nic **nics, unsigned count)
{
    unsigned probes = 0;
    bool all;

    do {
        all = true;
        assert_true(++probes < PROBES);
        usleep(25000);
        for (unsigned i = 0; i < count; i++)
            send_some(nics[0], uet_nic_addr(nics[0]), block_of(nics[i]), uet_nic_pid(nics[i]), 2);
        for (unsigned i = 0; i < count; i++)
            all &= receive(nics[i]) == 4;
    } while (!all);
}

static void what_a_killed_process_had_is_given_back(void **state)
{
    struct uet_nic *nics[3], *fresh;
    pid_t ranks[5];

    if (again_is_emulated())
        skip();
    choose_port();
    ranks[0] = start_rank();
    assert_int_equal(open_at(-1, &nics[0]), 0);
    for (unsigned i = 1; i < 4; i++)
        ranks[i] = start_rank();
    assert_int_equal(open_at(-1, &nics[1]), 0);
    ranks[4] = start_rank();
    assert_int_equal(open_at(-1, &nics[2]), 0);
    expect_mended(nics, 3);
    for (unsigned i = 0; i < 5; i++) /* in an order that no process records */
        kill_rank(ranks[i * 3 % 5]);
    expect_mended(nics, 3);
    /* There is room for as many again, and the first to come has the place of the first. */
    assert_int_equal(open_at(-1, &fresh), 0);
    assert_int_equal(uet_nic_pid(fresh), 0);
    uet_nic_close(fresh);
    for (unsigned i = 0; i < 3; i++)
        uet_nic_close(nics[i]);
}

/* Packets that come to another endpoint's socket, which is not read, are not lost for ever. Two
 * processes die, and the page takes them out in another order than the kernel did. */
static void an_endpoint_finds_itself_beside_one_that_does_not_look(void **state)
{
    struct uet_nic *a, *idle, *b;
    unsigned probes = 0, got;
    pid_t ranks[2];

    if (again_is_emulated())
        skip();
    choose_port();
    assert_int_equal(open_at(-1, &a), 0);
    ranks[0] = start_rank();
    ranks[1] = start_rank();
    assert_int_equal(open_at(-1, &idle), 0);
    assert_int_equal(open_at(-1, &b), 0);
    kill_rank(ranks[0]);
    kill_rank(ranks[1]);
    do {
        assert_true(++probes < PROBES);
        usleep(25000);
        receive(a);
        send_some(a, uet_nic_addr(b), block_of(b), uet_nic_pid(b), 2);
        got = receive(b);
    } while (got < 4);
    uet_nic_close(a);
    uet_nic_close(b);
    uet_nic_close(idle);
}

/* A child, which has all that this process has open, until it is killed. */
static pid_t start_idler(void)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    return pid;
}

/* Its owner has closed it, but a child has it still, and the kernel counts it. */
static void a_socket_that_a_child_keeps_is_in_the_way_of_nothing(void **state)
{
    struct uet_nic *a, *kept, *b, *fresh;
    unsigned probes = 0, got;
    pid_t pid;

    if (again_is_emulated())
        skip();
    choose_port();
    assert_int_equal(open_at(-1, &a), 0);
    assert_int_equal(open_at(-1, &kept), 0);
    assert_int_equal(open_at(-1, &b), 0);
    pid = start_idler();
    uet_nic_close(kept);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(open_at(-1, &fresh), 0);
        do {
            assert_true(++probes < PROBES);
            usleep(25000);
            receive(a);
            send_some(a, uet_nic_addr(b), block_of(b), uet_nic_pid(b), 2);
            send_some(a, uet_nic_addr(b), block_of(fresh), uet_nic_pid(fresh), 2);
            got = receive(b) / 4 + receive(fresh) / 4;
        } while (got < 2);
        uet_nic_close(fresh);
        if (!round)
            kill_rank(pid);
    }
    uet_nic_close(a);
    uet_nic_close(b);
}

/* The same, of an endpoint that is alone then, or that comes later: packets that peers send from
 * many ports come to it, and none to the socket that is not read. */
static void one_that_is_alone_beside_a_kept_socket_gets_all(void **state)
{
    struct uet_nic *kept, *b, *senders[RANKS];
    int shared;
    pid_t pid;

    if (again_is_emulated())
        skip();
    choose_port();
    shared = port;
    port = 0;
    for (unsigned i = 0; i < RANKS; i++)
        assert_int_equal(open_at(-1, &senders[i]), 0);
    port = shared;
    for (int later = 0; later < 2; later++) {
        unsigned probes = 0, got;

        assert_int_equal(open_at(-1, &kept), 0);
        if (!later)
            assert_int_equal(open_at(-1, &b), 0);
        pid = start_idler();
        uet_nic_close(kept);
        if (later)
            assert_int_equal(open_at(-1, &b), 0);
        do {
            assert_true(++probes < PROBES);
            usleep(25000);
            receive(b);
            for (unsigned i = 0; i < RANKS; i++)
                send_some(senders[i], uet_nic_addr(b), block_of(b), uet_nic_pid(b), 2);
            got = receive(b);
        } while (got < 4 * RANKS);
        kill_rank(pid);
        uet_nic_close(b);
    }
    for (unsigned i = 0; i < RANKS; i++)
        uet_nic_close(senders[i]);
}

static void a_child_takes_nothing_from_its_parent(void **state)
{
    struct uet_nic *a, *b;
    int status;
    pid_t pid;

    open_two(&a, &b);
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        uet_nic_close(a);
        uet_nic_close(b);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    send_some(a, uet_nic_addr(b), block_of(b), uet_nic_pid(b), 5);
    assert_int_equal(receive(b), 10);
    uet_nic_close(a);
    uet_nic_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_kernel_and_we_agree),
        cmocka_unit_test(each_packet_names_its_endpoint),
        cmocka_unit_test(packets_find_their_endpoint),
        cmocka_unit_test(an_endpoint_gets_more_ids),
        cmocka_unit_test(only_company_wakes_a_sleeper),
        cmocka_unit_test(a_late_reader_changes_nothing),
        cmocka_unit_test(a_port_that_is_taken_and_an_address_that_is_not_there),
        cmocka_unit_test(another_page_is_another_port),
        cmocka_unit_test(what_a_killed_process_had_is_given_back),
        cmocka_unit_test(an_endpoint_finds_itself_beside_one_that_does_not_look),
        cmocka_unit_test(a_socket_that_a_child_keeps_is_in_the_way_of_nothing),
        cmocka_unit_test(one_that_is_alone_beside_a_kept_socket_gets_all),
        cmocka_unit_test(a_child_takes_nothing_from_its_parent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
