/* SPDX-License-Identifier: BSD-2-Clause */
/* Peers that are killed, start again, stop, are many, or are no peers at all. */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../transports/udp/live/ends.h"

static struct options packets = {
    .spec = "arq;udp", .type = FI_EP_RDM, .caps = FI_SOURCE, .no_eq = true};

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static long long now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- A receiver in a process of its own ---- */

struct child {
    pid_t pid;
    int pipe; /* a byte for each message */
    struct sockaddr_in addr;
};

/* port 0: any. Never returns. */
static _Noreturn void be_child(int pipe, uint16_t port)
{
    static uint8_t bufs[16][2048];
    struct sockaddr_in addr;
    size_t len = sizeof(addr);
    struct fi_cq_tagged_entry entry;

    end_open(&b, &packets);
    if (port) {
        assert_int_equal(fi_close(&b.ep->fid), 0);
        ((struct sockaddr_in *)b.info->src_addr)->sin_port = port;
        assert_int_equal(fi_endpoint(b.domain, b.info, &b.ep, NULL), 0);
        assert_int_equal(fi_ep_bind(b.ep, &b.tx->fid, FI_TRANSMIT), 0);
        assert_int_equal(fi_ep_bind(b.ep, &b.rx->fid, FI_RECV), 0);
        assert_int_equal(fi_ep_bind(b.ep, &b.av->fid, 0), 0);
        assert_int_equal(fi_enable(b.ep), 0);
    }
    assert_int_equal(fi_getname(&b.ep->fid, &addr, &len), 0);
    if (write(pipe, &addr, sizeof(addr)) != sizeof(addr))
        _exit(1);
    for (int i = 0; i < 16; i++)
        receive(&b, bufs[i], sizeof(bufs[i]));
    for (;;) {
        if (fi_cq_read(b.rx, &entry, 1) != 1)
            continue;
        if (write(pipe, "", 1) != 1)
            _exit(0); /* the parent has gone */
        receive(&b, entry.op_context, sizeof(bufs[0]));
    }
}

static void child_open(struct child *child, uint16_t port)
{
    int pipes[2];

    assert_int_equal(pipe(pipes), 0);
    child->pid = fork();
    assert_true(child->pid >= 0);
    if (!child->pid) {
        close(pipes[0]);
        be_child(pipes[1], port);
    }
    close(pipes[1]);
    child->pipe = pipes[0];
    assert_int_equal(read(child->pipe, &child->addr, sizeof(child->addr)), sizeof(child->addr));
}

static void child_kill(struct child *child)
{
    kill(child->pid, SIGKILL);
    waitpid(child->pid, NULL, 0);
    close(child->pipe);
}

/* The child has got so many more. */
static void child_expect(const struct child *child, size_t count)
{
    char bytes[256];

    while (count) {
        ssize_t got = read(child->pipe, bytes, count < sizeof(bytes) ? count : sizeof(bytes));

        assert_true(got > 0);
        count -= (size_t)got;
    }
}

/* ---- Tests ---- */

static char out[2000];

static int one_send(void)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};
    ssize_t rc;

    send_to(&a, a.peer, out, sizeof(out) / 2);
    while ((rc = fi_cq_read(a.tx, &entry, 1)) == -FI_EAGAIN)
        ;
    if (rc == 1)
        return 0;
    assert_int_equal(rc, -FI_EAVAIL);
    assert_int_equal(fi_cq_readerr(a.tx, &error, 0), 1);
    return error.err;
}

static void open_with(const struct child *child)
{
    end_open(&a, &packets);
    assert_int_equal(fi_av_insert(a.av, &child->addr, 1, &a.peer, 0, NULL), 1);
    assert_int_equal(one_send(), 0);
    child_expect(child, 1);
}

/* Not when `patience` has ended, which is later than this test may take. */
static void killed_peer_is_refused(void **state)
{
    struct child child;

    child_open(&child, 0);
    open_with(&child);
    child_kill(&child);
    assert_int_equal(one_send(), FI_ECONNREFUSED);
    /* Nor does it come back for a second one. */
    assert_int_equal(one_send(), FI_ECONNREFUSED);
    end_close(&a);
}

static void peer_that_starts_again_is_reached_again(void **state)
{
    struct child child;
    uint16_t port;
    int err;

    child_open(&child, 0);
    open_with(&child);
    port = child.addr.sin_port;
    child_kill(&child);
    child_open(&child, port);
    assert_int_equal(child.addr.sin_port, port);
    err = one_send();
    assert_int_equal(err, FI_ECONNRESET); /* it was for the one that is gone */
    assert_int_equal(one_send(), 0);
    child_expect(&child, 1);
    child_kill(&child);
    end_close(&a);
}

static long long stop_ms(void)
{
    const char *text = getenv("WEFT_STOP_MS");

    return text ? strtoll(text, NULL, 10) : 1500;
}

static void stopped_peer_loses_nothing(void **state)
{
    enum {
        COUNT = 600
    };
    struct fi_cq_tagged_entry entry;
    struct child child;
    int done = 0;

    child_open(&child, 0);
    open_with(&child);
    kill(child.pid, SIGSTOP);
    for (int i = 0; i < COUNT; i++)
        send_to(&a, a.peer, out, 1000);
    for (long long end = now_ms() + stop_ms(); now_ms() < end; pause_ms(1)) {
        ssize_t rc = fi_cq_read(a.tx, &entry, 1);

        assert_true(rc == 1 || rc == -FI_EAGAIN);
        done += rc == 1;
    }
    kill(child.pid, SIGCONT);
    while (done < COUNT) {
        ssize_t rc = fi_cq_read(a.tx, &entry, 1);

        assert_true(rc == 1 || rc == -FI_EAGAIN);
        done += rc == 1;
    }
    child_expect(&child, COUNT);
    child_kill(&child);
    end_close(&a);
}

static void many_send_to_one(void **state)
{
    enum {
        SENDERS = 64,
        EACH = 40
    };
    static struct end senders[SENDERS];
    static uint8_t in[32][2048];
    static unsigned got[SENDERS];
    unsigned left = SENDERS * EACH;
    fi_addr_t to[SENDERS];

    end_open(&b, &packets);
    for (unsigned i = 0; i < SENDERS; i++) {
        end_open(&senders[i], &packets);
        to[i] = introduce(&senders[i], &b);
        assert_int_equal(introduce(&b, &senders[i]), i);
    }
    for (unsigned i = 0; i < 32; i++)
        receive(&b, in[i], sizeof(in[i]));
    for (unsigned i = 0; i < SENDERS * EACH; i++)
        assert_int_equal(fi_send(senders[i % SENDERS].ep, out, 1000, NULL, to[i % SENDERS], out),
                         0);
    while (left) {
        struct fi_cq_tagged_entry entry;
        fi_addr_t src;

        for (unsigned i = 0; i < SENDERS; i++)
            fi_cntr_read(senders[i].sent);
        while (fi_cq_readfrom(b.rx, &entry, 1, &src) == 1) {
            assert_true(src < SENDERS);
            got[src]++;
            left--;
            receive(&b, entry.op_context, sizeof(in[0]));
        }
    }
    for (unsigned i = 0; i < SENDERS; i++)
        assert_int_equal(got[i], EACH);
    for (unsigned i = 0; i < SENDERS; i++) {
        while (fi_cntr_read(senders[i].sent) < EACH)
            fi_cntr_read(b.received);
        end_close(&senders[i]);
    }
    end_close(&b);
}

/* ---- Bytes of strangers ---- */

static void put(int fd, const struct sockaddr_in *to, const void *bytes, size_t len)
{
    sendto(fd, bytes, len, 0, (const struct sockaddr *)to, sizeof(*to));
}

static void garbage_is_survived(void **state)
{
    struct sockaddr_in addr;
    size_t len = sizeof(addr);
    uint8_t bytes[2000];
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    ends_open(&packets);
    assert_int_equal(fi_getname(&b.ep->fid, &addr, &len), 0);
    srandom(1);
    for (int i = 0; i < 3000; i++) {
        size_t count = (size_t)random() % sizeof(bytes);

        for (size_t j = 0; j < count; j++)
            bytes[j] = (uint8_t)random();
        if (i % 3 && count > 60) {
            bytes[0] = 0xA7;
            bytes[1] = (uint8_t)(0x20 | random() % 10);
            bytes[2] = 0;
            bytes[3] &= 15;
        }
        if (i % 7 == 0)
            memcpy(bytes, (uint8_t[]){2, 3}, 2);
        put(fd, &addr, bytes, count);
        if (i % 50 == 0)
            drive();
    }
    send_to(&a, a.peer, out, 1000);
    receive(&b, bytes, sizeof(bytes));
    assert_int_equal(expect(b.rx, bytes, NULL).len, 1000);
    expect(a.tx, out, NULL);
    close(fd);
    ends_close();
}

/* Lines that the library wrote to the log while 300 datagrams of nothing came. */
static unsigned lines_of_garbage(const struct sockaddr_in *to)
{
    char text[4096];
    FILE *file = tmpfile();
    int fd = socket(AF_INET, SOCK_DGRAM, 0), err = dup(STDERR_FILENO);
    unsigned lines = 0;

    assert_non_null(file);
    dup2(fileno(file), STDERR_FILENO);
    for (int i = 0; i < 300; i++) {
        put(fd, to, "nothing", 7);
        drive();
    }
    dup2(err, STDERR_FILENO);
    rewind(file);
    while (fgets(text, sizeof(text), file))
        lines += !!strstr(text, " sends ");
    close(err);
    close(fd);
    fclose(file);
    return lines;
}

/* A stranger does not fill the disk. */
static void garbage_is_told_once_in_a_while(void **state)
{
    struct sockaddr_in addr;
    size_t len = sizeof(addr);
    long long begin = now_ms();
    unsigned lines;

    ends_open(&packets);
    assert_int_equal(fi_getname(&b.ep->fid, &addr, &len), 0);
    lines = lines_of_garbage(&addr);
    assert_true(lines >= 1);
    assert_true(lines <= 1 + (now_ms() - begin) / 10000);
    ends_close();
}

/* An OPEN is answered by no more bytes than it has, and nothing is kept of it. */
static void flood_of_openings_makes_no_session(void **state)
{
    struct sockaddr_in addr;
    size_t len = sizeof(addr), answered = 0;
    uint8_t open[256] = {0xA7, 0x20}, answer[2000];

    ends_open(&packets);
    assert_int_equal(fi_getname(&b.ep->fid, &addr, &len), 0);
    for (int i = 0; i < 500; i++) {
        int fd = socket(AF_INET, SOCK_DGRAM, 0);
        ssize_t got;

        open[23] = (uint8_t)(i + 1);
        open[22] = 1;
        put(fd, &addr, open, sizeof(open));
        drive();
        got = recv(fd, answer, sizeof(answer), MSG_DONTWAIT);
        if (got > 0) {
            assert_int_equal(got, 80); /* a token */
            answered++;
        }
        close(fd);
    }
    assert_true(answered > 0);
    send_to(&a, a.peer, out, 1000);
    receive(&b, answer, sizeof(answer));
    expect(b.rx, answer, NULL);
    expect(a.tx, out, NULL);
    ends_close();
}

/* ---- A peer by hand ---- */

enum {
    OPEN_BYTES = 256,
    TOKEN_AT = 56,
    TOKEN_BYTES = 24,
    HEADER_BYTES = 56,
    BRIEF_BYTES = 24,
};

enum {
    OPEN,
    TOKEN,
    ACCEPT,
    DATA,
    ACK,
    RESET = 6,
    PIECE = 8
}; /* types */

static void put_open(int fd, const struct sockaddr_in *to, uint8_t id, const uint8_t *token)
{
    uint8_t open[OPEN_BYTES] = {0xA7, 0x20 | OPEN};

    open[23] = id;
    if (token)
        memcpy(open + TOKEN_AT, token, TOKEN_BYTES);
    put(fd, to, open, sizeof(open));
}

/* The next packet to that identifier is of the type; bytes: at least OPEN_BYTES. */
static bool get_type(int fd, uint8_t id, unsigned type, uint8_t *bytes)
{
    for (long long end = now_ms() + (type == ACCEPT ? 500 : 5000); now_ms() < end; drive()) {
        ssize_t got = recv(fd, bytes, OPEN_BYTES, MSG_DONTWAIT);

        if (got > 0 && bytes[15] == id && (bytes[1] & 15) == type)
            return true;
    }
    return false;
}

static void open_by_hand(int fd, const struct sockaddr_in *to, uint8_t id, uint8_t *token)
{
    uint8_t bytes[OPEN_BYTES];

    put_open(fd, to, id, NULL);
    assert_true(get_type(fd, id, TOKEN, bytes));
    memcpy(token, bytes + TOKEN_AT, TOKEN_BYTES);
    put_open(fd, to, id, token);
    assert_true(get_type(fd, id, ACCEPT, bytes));
}

/* A replayed opening of an earlier session ends no session, and opens none beside it. */
static void replayed_opening_changes_nothing(void **state)
{
    struct sockaddr_in addr;
    size_t len = sizeof(addr);
    uint8_t first[TOKEN_BYTES], second[TOKEN_BYTES], bytes[OPEN_BYTES];
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    ends_open(&packets);
    assert_int_equal(fi_getname(&b.ep->fid, &addr, &len), 0);
    open_by_hand(fd, &addr, 1, first);
    open_by_hand(fd, &addr, 2, second);
    put_open(fd, &addr, 1, first);
    assert_false(get_type(fd, 1, ACCEPT, bytes));
    put_open(fd, &addr, 2, second); /* of the session that there is: the ACCEPT may be lost */
    assert_true(get_type(fd, 2, ACCEPT, bytes));
    close(fd);
    ends_close();
}

/* A token is of the address that it was sent to, and a session of the identifiers that its ends
 * gave each other: a stranger that has one without the other, at an address of its own, neither
 * opens nor ends anything. */
static void another_address_is_no_proof(void **state)
{
    struct sockaddr_in addr;
    size_t len = sizeof(addr);
    uint8_t token[TOKEN_BYTES], bytes[OPEN_BYTES], reset[HEADER_BYTES] = {0xA7, 0x20 | RESET};
    int owner = socket(AF_INET, SOCK_DGRAM, 0), other = socket(AF_INET, SOCK_DGRAM, 0);

    ends_open(&packets);
    assert_int_equal(fi_getname(&b.ep->fid, &addr, &len), 0);
    put_open(owner, &addr, 1, NULL);
    assert_true(get_type(owner, 1, TOKEN, bytes));
    memcpy(token, bytes + TOKEN_AT, TOKEN_BYTES);
    put_open(other, &addr, 1, token);
    assert_false(get_type(other, 1, ACCEPT, bytes));
    put_open(owner, &addr, 1, token);
    assert_true(get_type(owner, 1, ACCEPT, bytes));
    /* Its peer's identifier, but another of its own; then an identifier that was never given. */
    memcpy(reset + 8, bytes + 16, 8);
    reset[23] = 9;
    put(other, &addr, reset, sizeof(reset));
    reset[8] ^= 1;
    reset[23] = 1;
    put(other, &addr, reset, sizeof(reset));
    drive();
    put_open(owner, &addr, 1, token); /* of the session that there is still */
    assert_true(get_type(owner, 1, ACCEPT, bytes));
    assert_memory_equal(reset + 9, bytes + 17, 7);
    close(other);
    close(owner);
    ends_close();
}

/* A piece names no session of its sender's, so it is answered only where one has it. */
static void a_piece_of_no_session_is_not_answered(void **state)
{
    struct sockaddr_in addr;
    size_t len = sizeof(addr);
    uint8_t token[TOKEN_BYTES], bytes[OPEN_BYTES];
    uint8_t data[HEADER_BYTES + 8] = {0xA7, 0x20 | DATA};
    uint8_t piece[BRIEF_BYTES + 100] = {0xA7, 0x20 | PIECE, 0, 1}; /* acknowledge at once */
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    ends_open(&packets);
    assert_int_equal(fi_getname(&b.ep->fid, &addr, &len), 0);
    piece[15] = 99; /* to */
    piece[20] = 1;
    piece[21] = 2;
    piece[23] = 100; /* bytes of each */
    put(fd, &addr, piece, sizeof(piece));
    pause_ms(50);
    drive();
    assert_int_equal(recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT), -1);
    data[15] = 99;
    data[23] = 1; /* from */
    data[53] = 1; /* pieces */
    put(fd, &addr, data, sizeof(data));
    assert_true(get_type(fd, 1, RESET, bytes));
    assert_int_equal(bytes[23], 99);
    put_open(fd, &addr, 1, NULL);
    assert_true(get_type(fd, 1, TOKEN, bytes));
    memcpy(token, bytes + TOKEN_AT, TOKEN_BYTES);
    put_open(fd, &addr, 1, token);
    assert_true(get_type(fd, 1, ACCEPT, bytes));
    memcpy(piece + 8, bytes + 16, 8);
    put(fd, &addr, piece, sizeof(piece));
    assert_true(get_type(fd, 1, ACK, bytes));
    close(fd);
    ends_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_peer_is_refused),
        cmocka_unit_test(peer_that_starts_again_is_reached_again),
        cmocka_unit_test(stopped_peer_loses_nothing),
        cmocka_unit_test(many_send_to_one),
        cmocka_unit_test(garbage_is_survived),
        cmocka_unit_test(garbage_is_told_once_in_a_while),
        cmocka_unit_test(flood_of_openings_makes_no_session),
        cmocka_unit_test(replayed_opening_changes_nothing),
        cmocka_unit_test(another_address_is_no_proof),
        cmocka_unit_test(a_piece_of_no_session_is_not_answered),
    };

    setenv("FI_LOG_LEVEL", "warn", 1); /* before it is read */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
