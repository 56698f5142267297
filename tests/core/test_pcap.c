/* SPDX-License-Identifier: BSD-2-Clause */
/* Capture files: their blocks are sound, and hold the streams that went over the connections. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/net/addr.h"
#include "core/net/pcap.h"
#include "core/param/param.h"

static const struct param_def defs[] = {PCAP_PARAMS, {.key = NULL}};
static char path[64];

static int setup(void **state)
{
    static int number;

    snprintf(path, sizeof(path), "/tmp/weft-test-tap.%d.%d", (int)getpid(), number++);
    return 0;
}

static int teardown(void **state)
{
    unlink(path);
    return 0;
}

static int open_tap(struct pcap **pcap, const char *where, const char *limit, const char *snap)
{
    const struct param_text texts[] = {{"pcap", where}, {"pcap_limit", limit}, {"pcap_snap", snap}};
    struct params *params;
    char why[256];
    size_t bad;
    int rc;

    rc = params_resolve("test", "test", defs, texts, 3, &params, &bad, why, sizeof(why));
    if (rc)
        return rc;
    rc = pcap_open("test", params, pcap);
    params_destroy(params);
    return rc;
}

/* A connection; [0] has dialled. */
static void connect_pair(int family, int fds[2])
{
    union {
        struct sockaddr sa;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } addr;
    socklen_t len = family == AF_INET ? sizeof(addr.in) : sizeof(addr.in6);
    int listener = socket(family, SOCK_STREAM, 0);

    memset(&addr, 0, sizeof(addr));
    addr.sa.sa_family = (sa_family_t)family;
    if (family == AF_INET)
        addr.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else
        addr.in6.sin6_addr = in6addr_loopback;
    assert_int_equal(bind(listener, &addr.sa, len), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, &addr.sa, &len), 0);
    fds[0] = socket(family, SOCK_STREAM, 0);
    assert_int_equal(connect(fds[0], &addr.sa, len), 0);
    fds[1] = accept(listener, NULL, NULL);
    assert_true(fds[1] >= 0);
    close(listener);
}

/* ---- Reading a capture ---- */

struct capture {
    uint8_t *bytes;
    size_t len;
    unsigned packets, syns, fins;
    uint16_t port;      /* of who dialled */
    uint8_t *stream[2]; /* payload: of who dialled, of the other */
    size_t have[2];
    uint32_t next[2];
};

static uint32_t get32(const uint8_t *bytes)
{
    uint32_t value;

    memcpy(&value, bytes, sizeof(value));
    return value;
}

static uint32_t net32(const uint8_t *bytes)
{
    return ntohl(get32(bytes));
}

static unsigned sum(const uint8_t *bytes, size_t len, unsigned start)
{
    unsigned long total = start;

    for (size_t i = 0; i < len; i++)
        total += i % 2 ? bytes[i] : (unsigned)bytes[i] << 8;
    while (total >> 16)
        total = (total & 0xffff) + (total >> 16);
    return (unsigned)total;
}

/* A packet of UDP: its bytes go on in the stream that is of its direction. */
static void read_datagram(struct capture *capture, const uint8_t *ip, uint32_t whole)
{
    bool six = ip[0] >> 4 == 6;
    const uint8_t *udp = ip + (six ? 40 : 20);
    uint32_t len = whole - (uint32_t)(udp - ip);
    uint16_t port;
    bool in;

    memcpy(&port, udp, sizeof(port));
    if (!capture->packets)
        capture->port = port;
    in = port != capture->port;
    assert_int_equal(udp[4] << 8 | udp[5], len);
    assert_int_equal(sum(udp, len, sum(six ? ip + 8 : ip + 12, six ? 32 : 8, IPPROTO_UDP + len)),
                     0xffff);
    capture->packets++;
    capture->stream[in] = realloc(capture->stream[in], capture->have[in] + len);
    memcpy(capture->stream[in] + capture->have[in], udp + 8, len - 8);
    capture->have[in] += len - 8;
}

/* An enhanced packet block. */
static void read_packet(struct capture *capture, const uint8_t *block)
{
    uint32_t kept = get32(block + 20), whole = get32(block + 24);
    const uint8_t *ip = block + 28, *tcp;
    bool six = ip[0] >> 4 == 6;
    size_t head = six ? 60 : 40;
    uint16_t port;
    uint32_t seq;
    bool in;

    if (ip[six ? 6 : 9] == IPPROTO_UDP) {
        read_datagram(capture, ip, whole);
        return;
    }
    tcp = ip + (six ? 40 : 20);
    memcpy(&port, tcp, sizeof(port));
    if (tcp[13] == 2)
        capture->port = port;
    in = port != capture->port;
    assert_int_equal(tcp[12], 0x50);
    if (!six)
        assert_int_equal(sum(ip, 20, 0), 0xffff);
    if (kept == whole)
        assert_int_equal(sum(tcp, whole - (head - 20),
                             sum(six ? ip + 8 : ip + 12, six ? 32 : 8,
                                 IPPROTO_TCP + whole - (unsigned)(head - 20))),
                         0xffff);
    capture->packets++;
    capture->syns += !!(tcp[13] & 2);
    capture->fins += tcp[13] & 1;
    seq = net32(tcp + 4);
    if (whole > head) {
        assert_int_equal(seq, capture->next[in]);
        capture->next[in] += whole - (uint32_t)head;
        capture->stream[in] = realloc(capture->stream[in], capture->have[in] + kept - head);
        memcpy(capture->stream[in] + capture->have[in], ip + head, kept - head);
        capture->have[in] += kept - head;
    }
}

static void read_capture(struct capture *capture)
{
    int fd = open(path, O_RDONLY);
    struct stat info;
    size_t at = 0;

    memset(capture, 0, sizeof(*capture));
    capture->next[0] = capture->next[1] = 1;
    assert_int_equal(fstat(fd, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    capture->len = (size_t)info.st_size;
    capture->bytes = malloc(capture->len);
    assert_int_equal(read(fd, capture->bytes, capture->len), capture->len);
    close(fd);
    assert_int_equal(get32(capture->bytes), 0x0a0d0d0a);
    assert_int_equal(get32(capture->bytes + 8), 0x1a2b3c4d);
    while (at < capture->len) {
        const uint8_t *block = capture->bytes + at;
        uint32_t len = get32(block + 4);

        assert_true(len >= 12 && len % 4 == 0 && len <= capture->len - at);
        assert_int_equal(get32(block + len - 4), len);
        if (get32(block) == 6)
            read_packet(capture, block);
        at += len;
    }
}

static void free_capture(struct capture *capture)
{
    free(capture->bytes);
    free(capture->stream[0]);
    free(capture->stream[1]);
}

/* ---- Tests ---- */

static void without_a_file_there_is_no_tap(void **state)
{
    struct params *params;
    struct pcap *pcap;
    char why[64];
    size_t bad;

    assert_int_equal(params_resolve("test", "test", defs, NULL, 0, &params, &bad, why, sizeof(why)),
                     0);
    assert_int_equal(pcap_open("test", params, &pcap), 0);
    assert_null(pcap);
    assert_null(pcap_flow_open(pcap, 0, true));
    pcap_flow_close(NULL);
    pcap_close(pcap);
    params_destroy(params);
}

static void one_stream(int family)
{
    static uint8_t big[200000];
    struct iovec iov[3] = {{big, 7}, {big + 7, 0}, {big + 7, sizeof(big) - 7}};
    struct capture capture;
    struct pcap_flow *flow;
    struct pcap *pcap;
    int fds[2];

    for (size_t i = 0; i < sizeof(big); i++)
        big[i] = (uint8_t)(i * 7 + i / 256);
    assert_int_equal(open_tap(&pcap, path, "1g", "256k"), 0);
    connect_pair(family, fds);
    flow = pcap_flow_open(pcap, fds[0], true);
    assert_non_null(flow);
    pcap_sent_buffer(flow, "hello", 5);
    pcap_received_buffer(flow, "world!", 6);
    pcap_sent(flow, iov, 3, sizeof(big) - 1);
    pcap_received(flow, iov, 3, 5);
    pcap_flow_close(flow);
    pcap_close(pcap);
    read_capture(&capture);
    assert_int_equal(capture.syns, 2);
    assert_int_equal(capture.fins, 1);
    assert_int_equal(capture.have[0], 5 + sizeof(big) - 1);
    assert_memory_equal(capture.stream[0], "hello", 5);
    assert_memory_equal(capture.stream[0] + 5, big, sizeof(big) - 1);
    assert_int_equal(capture.have[1], 11);
    assert_memory_equal(capture.stream[1], "world!", 6);
    assert_memory_equal(capture.stream[1] + 6, big, 5);
    free_capture(&capture);
    close(fds[0]);
    close(fds[1]);
}

static void a_stream_is_there_whole(void **state)
{
    one_stream(AF_INET);
}

static void over_ipv6_too(void **state)
{
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 addr = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};

    if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr))) {
        close(fd);
        skip();
    }
    close(fd);
    one_stream(AF_INET6);
}

static void two_ends_are_one_stream(void **state)
{
    struct pcap_flow *one, *two;
    struct capture capture;
    struct pcap *pcap;
    int fds[2];

    assert_int_equal(open_tap(&pcap, path, "1g", "256k"), 0);
    connect_pair(AF_INET, fds);
    two = pcap_flow_open(pcap, fds[1], false);
    one = pcap_flow_open(pcap, fds[0], true);
    assert_non_null(one);
    assert_non_null(two);
    pcap_sent_buffer(one, "ping", 4);
    pcap_received_buffer(two, "ping", 4);
    pcap_sent_buffer(two, "pong", 4);
    pcap_received_buffer(one, "pong", 4);
    pcap_flow_close(one);
    pcap_flow_close(two);
    pcap_close(pcap);
    read_capture(&capture);
    assert_int_equal(capture.syns, 2);
    assert_int_equal(capture.packets, 3 + 2 + 2);
    free_capture(&capture);
    close(fds[0]);
    close(fds[1]);
}

static void the_limit_ends_it_between_packets(void **state)
{
    static uint8_t data[1000];
    struct capture capture;
    struct pcap_flow *flow;
    struct pcap *pcap;
    int fds[2];

    assert_int_equal(open_tap(&pcap, path, "4096", "256k"), 0);
    connect_pair(AF_INET, fds);
    flow = pcap_flow_open(pcap, fds[0], true);
    for (int i = 0; i < 10; i++)
        pcap_sent_buffer(flow, data, sizeof(data));
    pcap_flow_close(flow);
    pcap_close(pcap);
    read_capture(&capture);
    assert_true(capture.len <= 4096 && capture.len > 2048);
    assert_int_equal(capture.have[0] % 1000, 0);
    free_capture(&capture);
    close(fds[0]);
    close(fds[1]);
}

static void packets_are_cut_as_asked(void **state)
{
    static uint8_t data[1000];
    struct capture capture;
    struct pcap_flow *flow;
    struct pcap *pcap;
    int fds[2];

    assert_int_equal(open_tap(&pcap, path, "1g", "100"), 0);
    connect_pair(AF_INET, fds);
    flow = pcap_flow_open(pcap, fds[0], true);
    pcap_sent_buffer(flow, data, sizeof(data));
    pcap_sent_buffer(flow, data, 10);
    pcap_flow_close(flow);
    pcap_close(pcap);
    read_capture(&capture);
    assert_int_equal(capture.have[0], 60 + 10);
    assert_int_equal(capture.next[0], 1 + 1010);
    free_capture(&capture);
    close(fds[0]);
    close(fds[1]);
}

/* A fabric that is opened again adds to the file; a second user shares it. */
static void a_file_is_gone_on_with(void **state)
{
    struct capture capture;
    struct pcap *pcap, *other;
    struct pcap_flow *flow;
    int fds[2];

    connect_pair(AF_INET, fds);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(open_tap(&pcap, path, "1g", "256k"), 0);
        assert_int_equal(open_tap(&other, path, "1g", "256k"), 0);
        assert_ptr_equal(pcap, other);
        flow = pcap_flow_open(pcap, fds[0], true);
        pcap_flow_close(flow);
        pcap_close(other);
        pcap_close(pcap);
    }
    read_capture(&capture);
    assert_int_equal(capture.syns, 4);
    free_capture(&capture);
    close(fds[0]);
    close(fds[1]);
}

static void the_child_of_a_fork_adds_nothing(void **state)
{
    struct capture capture;
    struct pcap_flow *flow;
    struct pcap *pcap;
    int fds[2], status;
    pid_t pid;

    assert_int_equal(open_tap(&pcap, path, "1g", "256k"), 0);
    connect_pair(AF_INET, fds);
    flow = pcap_flow_open(pcap, fds[0], true);
    pid = fork();
    if (!pid) {
        pcap_sent_buffer(flow, "child", 5);
        pcap_flow_close(flow);
        pcap_close(pcap);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    pcap_flow_close(flow);
    pcap_close(pcap);
    read_capture(&capture);
    assert_int_equal(capture.have[0], 0);
    free_capture(&capture);
    close(fds[0]);
    close(fds[1]);
}

static void a_file_that_cannot_be_written_is_an_error(void **state)
{
    struct pcap *pcap;

    assert_int_equal(open_tap(&pcap, "/nonexistent/x", "1g", "256k"), -ENOENT);
    assert_int_equal(open_tap(&pcap, "/tmp", "1g", "256k"), -EISDIR);
    assert_int_equal(open_tap(&pcap, "/tmp/%x", "1g", "256k"), -EINVAL);
    assert_int_equal(open_tap(&pcap, "/dev/full", "1g", "256k"), -ENOSPC);
}

static void datagrams(const char *here, const char *there)
{
    static uint8_t big[65507];
    struct iovec iov[2] = {{big, 10}, {big + 10, sizeof(big) - 10}};
    struct pcap_flow *flow, *other;
    union addr local, peer;
    struct capture capture;
    struct pcap *pcap;

    for (size_t i = 0; i < sizeof(big); i++)
        big[i] = (uint8_t)(i * 5 + i / 256);
    assert_int_equal(addr_from_str(here, SIZE_MAX, &local), 0);
    assert_int_equal(addr_from_str(there, SIZE_MAX, &peer), 0);
    assert_int_equal(open_tap(&pcap, path, "1g", "256k"), 0);
    flow = pcap_socket_open(pcap, &local.sa);
    assert_non_null(flow);
    pcap_datagram(flow, false, &peer.sa, iov, 2, 0, sizeof(big));
    pcap_datagram(flow, true, &peer.sa, iov, 2, 5, 15); /* from the middle */
    pcap_datagram(flow, true, &peer.sa, iov, 2, 0, 0);
    /* Its other end is there now: what that one sends, that one records. */
    other = pcap_socket_open(pcap, &peer.sa);
    pcap_datagram(flow, true, &peer.sa, iov, 2, 0, 7);
    pcap_datagram(other, false, &local.sa, iov, 2, 0, 7);
    pcap_flow_close(other);
    pcap_flow_close(flow);
    pcap_close(pcap);
    read_capture(&capture);
    assert_int_equal(capture.packets, 4);
    assert_int_equal(capture.have[0], sizeof(big));
    assert_memory_equal(capture.stream[0], big, sizeof(big));
    assert_int_equal(capture.have[1], 22);
    assert_memory_equal(capture.stream[1], big + 5, 15);
    assert_memory_equal(capture.stream[1] + 15, big, 7);
    free_capture(&capture);
}

static void datagrams_are_there_one_by_one(void **state)
{
    datagrams("10.0.0.1:7", "10.0.0.2:65535");
    teardown(state);
    setup(state);
    datagrams("[fd00::1]:7", "[fd00::2]:65535");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_a_file_there_is_no_tap),
        TEST(a_stream_is_there_whole),
        TEST(over_ipv6_too),
        TEST(two_ends_are_one_stream),
        TEST(the_limit_ends_it_between_packets),
        TEST(packets_are_cut_as_asked),
        TEST(a_file_is_gone_on_with),
        TEST(the_child_of_a_fork_adds_nothing),
        TEST(a_file_that_cannot_be_written_is_an_error),
        TEST(datagrams_are_there_one_by_one),
    };

    return cmocka_run_group_tests_name("tap", tests, NULL, NULL);
}
