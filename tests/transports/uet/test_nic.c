/* SPDX-License-Identifier: BSD-2-Clause */
/* The NIC over the loopback interface: each packet that is sent comes, whole and by itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../../support/again.h"
#include "transports/uet/nic/nic.h"
#include "transports/uet/nic/path.h"
#include "transports/uet/wire/crc.h"
#include "transports/uet/wire/pds_header.h"

enum {
    PACKETS = 300,
    LONGEST = 4000,
};

static uint8_t memory[LONGEST + PACKETS];

/* Packet i: its number in two bytes, then memory from i on. */
static size_t length_of(unsigned i)
{
    return i % 5 == 4 ? 40 + i : i % 3 ? 2000 : LONGEST;
}

struct taken {
    unsigned count;
    size_t bytes;
    bool seen[PACKETS];
    union addr from;
};

static void take(void *arg, const union addr *from, const uint8_t *bytes, size_t len, bool marked)
{
    struct taken *taken = arg;
    unsigned i = bytes[0] << 8 | bytes[1];

    assert_true(i < PACKETS);
    assert_false(taken->seen[i]);
    assert_false(marked);
    assert_int_equal(len, 2 + length_of(i));
    assert_memory_equal(bytes + 2, memory + i, len - 2);
    taken->seen[i] = true;
    taken->count++;
    taken->bytes += len;
    taken->from = *from;
}

static bool crc; /* of the NICs that are opened from now on */

static struct uet_nic *open_nic(bool gso, bool gro, const char *text)
{
    const struct uet_nic_settings settings = {
        .rx_buffer = 4 << 20,
        .packet = LONGEST,
        .gso = gso,
        .gro = gro,
        .crc = crc,
    };
    struct uet_nic *nic;
    union addr addr;

    assert_int_equal(addr_from_str(text, SIZE_MAX, &addr), 0);
    assert_int_equal(uet_nic_open(&addr, &settings, &nic), 0);
    return nic;
}

static void send_all(struct uet_nic *nic, const union addr *to, bool stays)
{
    for (unsigned i = 0; i < PACKETS; i++) {
        uint8_t head[2] = {(uint8_t)(i >> 8), (uint8_t)i};
        uint8_t gone[LONGEST];
        size_t len = length_of(i);
        const struct iovec iov[3] = {
            {head, 2},
            {stays ? memory + i : gone, len / 2},
            {stays ? memory + i + len / 2 : gone + len / 2, len - len / 2},
        };

        memcpy(gone, memory + i, len);
        uet_nic_send(nic, to, iov, 3, stays);
        memset(gone, 0xff, len);
    }
    assert_true(uet_nic_flush(nic));
}

static void exchange(const char *text, bool gso, bool gro, bool stays)
{
    struct uet_nic *a = open_nic(gso, gro, text), *b = open_nic(gso, gro, text);
    struct taken taken = {.count = 0};
    bool more;

    for (size_t i = 0; i < sizeof(memory); i++)
        memory[i] = (uint8_t)(i * 31 + i / 251);
    send_all(a, uet_nic_addr(b), stays);
    while (uet_nic_receive(b, 0, take, &taken, &more))
        ;
    assert_int_equal(taken.count, PACKETS);
    assert_true(addr_equal(&taken.from.sa, &uet_nic_addr(a)->sa));
    uet_nic_close(a);
    uet_nic_close(b);
}

static void each_packet_comes_whole_and_by_itself(void **state)
{
    for (unsigned i = 0; i < 8; i++)
        exchange("127.0.0.1:0", i & 1, i & 2, i & 4);
    exchange("[::1]:0", true, true, true);
}

static void each_packet_comes_with_a_trailer(void **state)
{
    crc = true;
    for (unsigned i = 0; i < 8; i++)
        exchange("127.0.0.1:0", i & 1, i & 2, i & 4);
    exchange("[::1]:0", true, true, true);
    crc = false;
}

/* A packet of 42 bytes and what the specification has it end with, made by hand; in one of both
 * orders, or with one bit that is wrong. */
static size_t make_packet(const union addr *from, const union addr *to, bool big, int wrong,
                          uint8_t packet[64])
{
    uint8_t all[64] = {127, 0, 0, 1, 127, 0, 0, 1};
    size_t len = 2 + length_of(4); /* whose number is 4 */
    uint32_t sum;

    memcpy(all + 8, &from->in.sin_port, 2);
    memcpy(all + 10, &to->in.sin_port, 2);
    all[13] = (uint8_t)(8 + len + 4);
    all[17] = 4;
    memcpy(all + 18, memory + 4, len - 2);
    sum = crc32c(0, all, 16 + len);
    memcpy(packet, all + 16, len);
    for (int i = 0; i < 4; i++)
        packet[len + (size_t)i] = (uint8_t)(sum >> 8 * (big ? 3 - i : i));
    if (wrong >= 0)
        packet[wrong / 8] ^= (uint8_t)(1 << wrong % 8);
    return len + 4;
}

static void a_wrong_trailer_is_dropped_and_counted(void **state)
{
    struct uet_nic *a = open_nic(false, false, "127.0.0.1:0"), *b;
    unsigned good = 0, bad = 0;

    crc = true;
    b = open_nic(false, false, "127.0.0.1:0");
    crc = false;
    for (int wrong = -2; wrong < 8 * 50; wrong++) {
        struct taken taken = {.count = 0};
        uint8_t packet[64];
        struct iovec iov = {packet, 0};
        bool more;

        iov.iov_len = make_packet(uet_nic_addr(a), uet_nic_addr(b), wrong == -2, wrong, packet);
        assert_int_equal(iov.iov_len, 50);
        uet_nic_send(a, uet_nic_addr(b), &iov, 1, false);
        assert_true(uet_nic_flush(a));
        assert_int_equal(uet_nic_receive(b, 0, take, &taken, &more), 1);
        good += taken.count;
        bad += !taken.count;
    }
    assert_int_equal(good, 2);
    assert_int_equal(bad, 8 * 50);
    assert_int_equal(uet_nic_damaged(b), bad);
    uet_nic_close(a);
    uet_nic_close(b);
}

static void named_memory_leaves_before_it_goes(void **state)
{
    struct uet_nic *a = open_nic(true, true, "127.0.0.1:0"),
                   *b = open_nic(true, true, "127.0.0.1:0");
    uint8_t head[2] = {0, 0}, payload[LONGEST];
    const struct iovec iov[2] = {{head, 2}, {payload, LONGEST}};
    struct taken taken = {.count = 0};
    bool more;

    memcpy(payload, memory, LONGEST);
    uet_nic_send(a, uet_nic_addr(b), iov, 2, true);
    assert_int_equal(uet_nic_receive(b, 0, take, &taken, &more), 0);
    uet_nic_forget(a);
    memset(payload, 0, sizeof(payload));
    assert_int_equal(uet_nic_receive(b, 0, take, &taken, &more), 1);
    assert_int_equal(taken.count, 1);
    uet_nic_close(a);
    uet_nic_close(b);
}

static void a_longer_packet_than_there_are_is_dropped(void **state)
{
    struct uet_nic *a = open_nic(true, true, "127.0.0.1:0"),
                   *b = open_nic(true, true, "127.0.0.1:0");
    static uint8_t bytes[2 * LONGEST];
    const struct iovec iov = {bytes, sizeof(bytes)};
    struct taken taken = {.count = 0};
    bool more;

    uet_nic_send(a, uet_nic_addr(b), &iov, 1, false);
    assert_int_equal(uet_nic_receive(b, 0, take, &taken, &more), 1);
    assert_int_equal(taken.count, 0);
    uet_nic_close(a);
    uet_nic_close(b);
}

enum {
    PDCS = 64,
    SOURCES = 8
};

/* Two requests of each PDC, to the socket: from how many ports they come. */
static unsigned count_sources(struct uet_nic *a, int fd, const union addr *to)
{
    unsigned ports[PDCS][2], distinct = 0;
    union addr from;

    for (unsigned i = 0; i < 2 * PDCS; i++) {
        uint8_t request[12] = {2 << 3, 0, 0, 0, 0, 0, 0, 0, 0, (uint8_t)(i % PDCS + 1)};
        const struct iovec iov = {request, sizeof(request)};

        uet_nic_send(a, to, &iov, 1, false);
    }
    assert_true(uet_nic_flush(a));
    for (unsigned i = 0; i < 2 * PDCS; i++) {
        uint8_t request[12];
        socklen_t len = sizeof(from);

        assert_int_equal(recvfrom(fd, request, 12, MSG_DONTWAIT, &from.sa, &len), 12);
        ports[request[9] - 1][i / PDCS] = addr_port(&from.sa);
    }
    for (unsigned i = 0; i < PDCS; i++) {
        bool seen = false;

        assert_int_equal(ports[i][0], ports[i][1]);
        for (unsigned j = 0; j < i; j++)
            seen |= ports[j][0] == ports[i][0];
        distinct += !seen;
    }
    return distinct;
}

/* Requests of several PDCs leave from several ports, those of one from one; their receiver sees the
 * port that answers go to. */
static void requests_leave_from_several_ports(void **state)
{
    struct uet_nic *a, *b;
    struct uet_nic_settings settings = {
        .packet = LONGEST, .entropy = SOURCES, .slot = -1, .elsewhere = true};
    unsigned distinct;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    union addr addr;
    struct taken taken = {.count = 0};
    uint8_t head[2] = {0, 4};
    const struct iovec packet[2] = {{head, 2}, {memory + 4, length_of(4)}};
    bool more;

    assert_int_equal(addr_from_str("127.0.0.1:0", SIZE_MAX, &addr), 0);
    assert_int_equal(uet_nic_open(&addr, &settings, &a), 0);
    assert_int_equal(bind(fd, &addr.sa, addr_size(&addr.sa)), 0);
    assert_int_equal(getsockname(fd, &addr.sa, &(socklen_t){sizeof(addr)}), 0);
    distinct = count_sources(a, fd, &addr);
    assert_int_equal(distinct, SOURCES);
    close(fd);
    assert_int_equal(addr_from_str("127.0.0.1:0", SIZE_MAX, &addr), 0);
    assert_int_equal(uet_nic_open(&addr, &settings, &b), 0);
    uet_nic_send(a, uet_nic_addr(b), packet, 2, true);
    assert_true(uet_nic_flush(a));
    assert_int_equal(uet_nic_receive(b, 0, take, &taken, &more), 1);
    assert_int_equal(addr_port(&taken.from.sa), addr_port(&uet_nic_addr(b)->sa));
    uet_nic_close(a);
    uet_nic_close(b);
}

enum {
    PDC = 77,
    ENOUGH = 100, /* packets, after which a path may be left again */
};

/* A NIC with several source ports, and a socket that it sends to. */
struct paths {
    struct uet_nic *nic;
    int fd;
    union addr addr;
};

/* Where a request of the PDC comes from. */
static unsigned port_of(const struct paths *paths, enum pds_type type, uint8_t flags)
{
    uint8_t request[12] = {(uint8_t)(type << 3), flags, 0, 0, 0, 0, 0, 0, 0, PDC};
    const struct iovec iov = {request, sizeof(request)};
    union addr from;

    uet_nic_send(paths->nic, &paths->addr, &iov, 1, false);
    assert_true(uet_nic_flush(paths->nic));
    assert_int_equal(recvfrom(paths->fd, request, sizeof(request), MSG_DONTWAIT, &from.sa,
                              &(socklen_t){sizeof(from)}),
                     sizeof(request));
    return addr_port(&from.sa);
}

/* Of the last of so many that it cannot be kept for news of an earlier port any more. */
static unsigned port_of_last(const struct paths *paths, enum pds_type type)
{
    unsigned port = 0;

    for (int i = 0; i < ENOUGH; i++)
        port = port_of(paths, type, 0);
    return port;
}

static void ignore(void *arg, const union addr *from, const uint8_t *bytes, size_t len, bool marked)
{
}

static void acknowledge(const struct paths *paths, uint8_t flags)
{
    const union addr *to = uet_nic_addr(paths->nic);
    const uint8_t ack[12] = {PDS_ACK << 3, flags, 0, 0, 0, 0, 0, 0, 0, 1, 0, PDC};
    bool more;

    assert_int_equal(sendto(paths->fd, ack, sizeof(ack), 0, &to->sa, addr_size(&to->sa)),
                     sizeof(ack));
    assert_int_equal(uet_nic_receive(paths->nic, 0, ignore, NULL, &more), 1);
}

static void a_path_that_loses_or_marks_packets_is_left(void **state)
{
    struct uet_nic_settings settings = {
        .packet = LONGEST, .entropy = SOURCES, .slot = -1, .elsewhere = true};
    struct paths paths = {.fd = socket(AF_INET, SOCK_DGRAM, 0)};
    unsigned first, second, third;

    assert_int_equal(addr_from_str("127.0.0.1:0", SIZE_MAX, &paths.addr), 0);
    assert_int_equal(uet_nic_open(&paths.addr, &settings, &paths.nic), 0);
    assert_int_equal(bind(paths.fd, &paths.addr.sa, addr_size(&paths.addr.sa)), 0);
    assert_int_equal(getsockname(paths.fd, &paths.addr.sa, &(socklen_t){sizeof(paths.addr)}), 0);
    first = port_of(&paths, PDS_RUD, 0);
    acknowledge(&paths, 0);
    assert_int_equal(port_of(&paths, PDS_RUD, 0), first);
    second = port_of(&paths, PDS_RUD, PDS_RETX);
    assert_int_not_equal(second, first);
    assert_int_equal(port_of(&paths, PDS_RUD, PDS_RETX), second); /* lost on the first one, too */
    assert_int_equal(port_of_last(&paths, PDS_RUD), second);
    acknowledge(&paths, PDS_MARKED);
    acknowledge(&paths, PDS_MARKED);
    third = port_of(&paths, PDS_RUD, 0);
    assert_true(third != first && third != second);
    assert_int_equal(port_of_last(&paths, PDS_ROD), third);
    acknowledge(&paths, PDS_MARKED);
    assert_int_equal(port_of(&paths, PDS_ROD, 0), third); /* its packets keep their order */
    assert_int_not_equal(port_of(&paths, PDS_ROD, PDS_RETX), third);
    uet_nic_close(paths.nic);
    close(paths.fd);
}

/* And packets to others, and from others, pass meanwhile. */
static void a_closed_port_is_told_of(void **state)
{
    struct uet_nic *a = open_nic(true, true, "127.0.0.1:0"),
                   *b = open_nic(true, true, "127.0.0.1:0"),
                   *gone = open_nic(true, true, "127.0.0.1:0");
    const union addr closed = *uet_nic_addr(gone);
    struct taken taken = {.count = 0};
    struct uet_nic_refusal refusal;
    bool more;

    if (again_is_emulated())
        skip(); /* an emulator hands no ICMP errors over */
    uet_nic_close(gone);
    for (unsigned i = 0; i < 4; i++) {
        uint8_t number[2] = {0, (uint8_t)i};
        const struct iovec iov[2] = {{number, 2}, {memory + i, length_of(i)}};

        uet_nic_send(a, &closed, iov, 2, true);
        assert_true(uet_nic_flush(a));
        uet_nic_send(a, uet_nic_addr(b), iov, 2, true);
        assert_true(uet_nic_flush(a));
    }
    while (uet_nic_receive(b, 0, take, &taken, &more))
        ;
    assert_int_equal(taken.count, 4);
    uet_nic_receive(a, 0, take, &taken, &more);
    assert_true(uet_nic_is_refused(a));
    assert_true(uet_nic_refusal(a, &refusal));
    assert_true(addr_equal(&refusal.to.sa, &closed.sa));
    assert_int_equal(refusal.len, UET_NIC_QUOTE);
    assert_int_equal(refusal.quote[1], 0);
    assert_memory_equal(refusal.quote + 2, memory, UET_NIC_QUOTE - 2);
    while (uet_nic_refusal(a, &refusal))
        ;
    assert_false(uet_nic_is_refused(a));
    uet_nic_close(a);
    uet_nic_close(b);
}

struct alone {
    unsigned count;
    size_t bytes;
    const union addr *to;
    struct uet_nic *from, *nic;
};

static void count(void *arg, const union addr *from, const uint8_t *bytes, size_t len, bool marked)
{
    struct alone *alone = arg;

    assert_true(addr_equal(&from->sa, &uet_nic_addr(alone->from)->sa));
    alone->count++;
    alone->bytes += len;
}

/* Each has come before the next one leaves, and a look has found nothing behind it. */
static unsigned come_alone(struct alone *alone, const void *packet, size_t len, unsigned packets)
{
    const struct iovec iov = {(void *)(uintptr_t)packet, len};
    bool more;

    alone->count = 0;
    for (unsigned i = 0; i < packets; i++) {
        uet_nic_send(alone->from, alone->to, &iov, 1, false);
        assert_true(uet_nic_flush(alone->from));
        assert_int_equal(uet_nic_receive(alone->nic, 0, count, alone, &more), 1);
        assert_int_equal(uet_nic_receive(alone->nic, 0, count, alone, &more), 0);
    }
    return alone->count;
}

/* Acknowledgements, in one piece. */
static unsigned come_together(struct alone *alone, const uint8_t *ack, size_t len, unsigned packets)
{
    const struct iovec iov = {(void *)(uintptr_t)ack, len};
    bool more;

    alone->count = 0;
    for (unsigned i = 0; i < packets; i++)
        uet_nic_send(alone->from, alone->to, &iov, 1, false);
    assert_true(uet_nic_flush(alone->from));
    while (uet_nic_receive(alone->nic, 0, count, alone, &more))
        ;
    return alone->count;
}

/* Packets that come one by one are read without notes, which would tell several from one. */
static void what_comes_alone_is_one_packet(void **state)
{
    struct uet_nic *a = open_nic(true, true, "127.0.0.1:0"),
                   *b = open_nic(true, true, "127.0.0.1:0");
    const uint8_t ack[12] = {PDS_ACK << 3, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, PDC};
    uint8_t two[24];
    struct alone alone = {.to = uet_nic_addr(b), .from = a, .nic = b};

    for (int i = 0; i < 3; i++) {
        assert_int_equal(come_alone(&alone, ack, sizeof(ack), 40), 40);
        assert_int_equal(come_together(&alone, ack, sizeof(ack), 60), 60);
    }
    assert_int_equal(alone.bytes, 300 * sizeof(ack));
    assert_int_equal(come_alone(&alone, ack, sizeof(ack), 20), 20);
    memcpy(two, ack, sizeof(ack));
    memcpy(two + sizeof(ack), ack, sizeof(ack));
    assert_int_equal(come_alone(&alone, two, sizeof(two), 1), 0);
    assert_int_equal(uet_nic_damaged(b), 1);
    /* It is looked at when it comes again: what it is is not the NIC's to say. */
    assert_int_equal(come_alone(&alone, two, sizeof(two), 1), 1);
    uet_nic_close(a);
    uet_nic_close(b);
}

/* A peer that one packet after the other goes to gets a socket of its own, and another one takes it
 * over. Packets come from all meanwhile, by whichever socket, to the sender's one address. */
static void a_peer_of_lone_packets_has_a_socket_of_its_own(void **state)
{
    static const char *const at[] = {"127.0.0.1:0", "[::1]:0"};
    const uint8_t ack[12] = {PDS_ACK << 3, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, PDC};

    for (int family = 0; family < 2; family++) {
        struct uet_nic *a = open_nic(true, true, at[family]), *b[2];
        int fd = -1;

        b[0] = open_nic(true, true, at[family]);
        b[1] = open_nic(true, true, at[family]);
        for (int round = 0; round < 4; round++) {
            struct alone there = {.to = uet_nic_addr(b[round % 2]), .from = a, .nic = b[round % 2]};
            struct alone back = {.to = uet_nic_addr(a), .from = b[0], .nic = a};
            struct alone other = {.to = uet_nic_addr(a), .from = b[1], .nic = a};
            bool more;

            assert_int_equal(come_alone(&there, ack, sizeof(ack), 63), 63);
            assert_false(uet_nic_warms(a));
            assert_int_equal(come_alone(&there, ack, sizeof(ack), 1), 1);
            assert_true(uet_nic_warms(a));
            assert_true(uet_nic_heat(a) >= 0);
            assert_true(fd < 0 || fd == uet_nic_heat(a));
            fd = uet_nic_heat(a);
            assert_int_equal(come_alone(&there, ack, sizeof(ack), 100), 100);
            assert_int_equal(come_together(&there, ack, sizeof(ack), 60), 60);
            assert_false(uet_nic_warms(a));
            uet_nic_before_sleep(a);
            come_together(&back, ack, sizeof(ack), 60);
            for (int look = 0; look < 20; look++)
                uet_nic_receive(a, 0, count, &back, &more);
            assert_int_equal(back.count, 60);
            come_together(&other, ack, sizeof(ack), 60);
            for (int look = 0; look < 20; look++)
                uet_nic_receive(a, 0, count, &other, &more);
            assert_int_equal(other.count, 60);
        }
        uet_nic_freeze(a);
        uet_nic_close(a);
        uet_nic_close(b[0]);
        uet_nic_close(b[1]);
    }
}

/* Its port is closed: that is told, and packets to others pass. */
static void a_hot_peer_that_is_gone_is_told_of(void **state)
{
    struct uet_nic *a = open_nic(true, true, "127.0.0.1:0"),
                   *b = open_nic(true, true, "127.0.0.1:0"),
                   *gone = open_nic(true, true, "127.0.0.1:0");
    const uint8_t ack[UET_NIC_QUOTE] = {PDS_ACK << 3, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, PDC};
    const union addr closed = *uet_nic_addr(gone);
    const struct iovec iov = {(void *)(uintptr_t)ack, sizeof(ack)};
    struct alone alone = {.to = uet_nic_addr(gone), .from = a, .nic = gone};
    struct uet_nic_refusal refusal;

    if (again_is_emulated())
        skip();
    come_alone(&alone, ack, sizeof(ack), 64);
    assert_true(uet_nic_heat(a) >= 0);
    uet_nic_close(gone);
    for (int i = 0; i < 10; i++) {
        uet_nic_send(a, &closed, &iov, 1, false);
        assert_true(uet_nic_flush(a));
    }
    assert_true(uet_nic_is_refused(a));
    assert_true(uet_nic_refusal(a, &refusal));
    assert_true(addr_equal(&refusal.to.sa, &closed.sa));
    alone = (struct alone){.to = uet_nic_addr(b), .from = a, .nic = b};
    assert_int_equal(come_alone(&alone, ack, 12, 40), 40);
    uet_nic_close(a);
    uet_nic_close(b);
}

static void the_payload_is_what_the_mtu_leaves(void **state)
{
    assert_int_equal(uet_path_longest(65536), 8192);
    assert_int_equal(uet_path_longest(9000), 8192);
    assert_int_equal(uet_path_longest(8351), 4096);
    assert_int_equal(uet_path_longest(1500), 1024);
    assert_int_equal(uet_path_longest(1183), 0);
}

static void the_payload_of_a_pair_is_what_its_route_leaves(void **state)
{
    struct uet_paths paths = {0}, other = {0};
    union addr self, far;

    if (again_is_emulated())
        skip(); /* an emulator does not tell the MTU of routes */
    assert_int_equal(addr_from_str("fi_sockaddr_in://127.0.0.1:4793", SIZE_MAX, &self), 0);
    assert_int_equal(addr_from_str("fi_sockaddr_in://192.0.2.77:4793", SIZE_MAX, &far), 0);
    assert_int_equal(uet_path_payload(&paths, &self, &self, 8192, 1024), 8192);
    addr_set_port(&self.sa, 1);
    assert_int_equal(uet_path_payload(&paths, &self, &self, 2048, 1024), 8192); /* it is known */
    assert_int_equal(uet_path_payload(&other, &self, &self, 2048, 1024), 2048);
    /* From the loopback interface no route leads to another node. */
    assert_int_equal(uet_path_payload(&paths, &self, &far, 8192, 1024), 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_packet_comes_whole_and_by_itself),
        cmocka_unit_test(each_packet_comes_with_a_trailer),
        cmocka_unit_test(a_wrong_trailer_is_dropped_and_counted),
        cmocka_unit_test(named_memory_leaves_before_it_goes),
        cmocka_unit_test(a_longer_packet_than_there_are_is_dropped),
        cmocka_unit_test(requests_leave_from_several_ports),
        cmocka_unit_test(a_path_that_loses_or_marks_packets_is_left),
        cmocka_unit_test(a_closed_port_is_told_of),
        cmocka_unit_test(what_comes_alone_is_one_packet),
        cmocka_unit_test(a_peer_of_lone_packets_has_a_socket_of_its_own),
        cmocka_unit_test(a_hot_peer_that_is_gone_is_told_of),
        cmocka_unit_test(the_payload_is_what_the_mtu_leaves),
        cmocka_unit_test(the_payload_of_a_pair_is_what_its_route_leaves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
