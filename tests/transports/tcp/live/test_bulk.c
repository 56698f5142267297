/* SPDX-License-Identifier: BSD-2-Clause */
/* Large messages: how much one system call takes, and how often the socket is locked for nothing.
 */
#include <errno.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pair.h"

enum {
    FDS = 256,         /* that this program may have */
    CONTROL_NAME = 16, /* bytes of a congestion control's */
    LARGE = 16 << 20,  /* more than sockets hold */
    PART = 64 * 1024,  /* of a burst */
    PARTS = LARGE / PART,
    ENOUGH = 128 * 1024, /* bytes that one call may be offered before the last record */
    HEADERS = 1024,
    LOOKS = 2000,
    CALM = 200,      /* looks without news after which all has come that was on its way */
    STRAY = 16,      /* looks that an event may cause behind the data it told of */
    AHEAD = 1 << 20, /* bytes that a sender on this host may be ahead of its receiver */
};

static atomic_size_t offered_most, taken; /* by sockets, of all that was sent */
static atomic_uint came, vain;            /* receives */

static ssize_t judge(ssize_t got)
{
    if (got > 0)
        came++;
    else if (got < 0 && errno == EAGAIN)
        vain++;
    return got;
}

/* These take the place of libc's for the library, too. */
ssize_t recv(int fd, void *buf, size_t len, int flags)
{
    return judge(syscall(SYS_recvfrom, fd, buf, len, flags, NULL, NULL));
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    return judge(syscall(SYS_recvmsg, fd, message, flags));
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    size_t total = 0;

    for (size_t i = 0; i < (size_t)message->msg_iovlen; i++)
        total += message->msg_iov[i].iov_len;
    if (total > offered_most)
        offered_most = total;
    ssize_t sent = syscall(SYS_sendmsg, fd, message, flags);
    if (sent > 0)
        taken += (size_t)sent;
    return sent;
}

static uint8_t *memory(size_t len)
{
    uint8_t *bytes = calloc(1, len);

    assert_non_null(bytes);
    return bytes;
}

/* While the sender stands still, the rest of a message is waited for without receives. */
static void nothing_is_received_before_it_comes(void **state)
{
    struct pair pair;
    uint8_t *out = memory(LARGE), *in = memory(LARGE);

    pair_open(&pair, &(struct options){0});
    fill(out, LARGE, 1);
    receive_and_send(&pair, in, out, LARGE);
    for (unsigned calm = 0, before = came; calm < CALM; calm++) {
        expect_nothing(pair.b.rx);
        if (came != before)
            calm = 0;
        before = came;
    }
    assert_true(came > 0);
    vain = 0;
    for (int i = 0; i < LOOKS; i++)
        expect_nothing(pair.b.rx);
    assert_true(vain <= STRAY);
    expect_both(&pair, in, out, LARGE);
    check_filled(in, LARGE, 1);
    pair_close(&pair);
    free(out);
    free(in);
}

/* Behind a full socket many records wait; they do not leave in one call. */
static void a_call_takes_few_large_records(void **state)
{
    struct pair pair;
    struct fi_cq_tagged_entry done;
    uint8_t *out = memory(LARGE), *in = memory(LARGE);

    pair_open(&pair, &(struct options){.tx_size = PARTS});
    fill(out, LARGE, 2);
    for (size_t at = 0; at < LARGE; at += PART)
        assert_int_equal(fi_recv(pair.b.ep, in + at, PART, NULL, 0, in + at), 0);
    offered_most = 0;
    for (size_t at = 0; at < LARGE; at += PART)
        assert_int_equal(fi_send(pair.a.ep, out + at, PART, NULL, 0, out + at), 0);
    for (size_t at = 0; at < LARGE; at += PART) {
        expect_completion(&pair, pair.b.rx, &done);
        assert_ptr_equal(done.op_context, in + at);
    }
    for (size_t at = 0; at < LARGE; at += PART) {
        expect_completion(&pair, pair.a.tx, &done);
        assert_ptr_equal(done.op_context, out + at);
    }
    assert_true(offered_most > PART && offered_most < ENOUGH + PART + HEADERS);
    check_filled(in, LARGE, 2);
    pair_close(&pair);
    free(out);
    free(in);
}

/* Bytes that a socket of spec takes while the other end is not read. */
static size_t bytes_ahead(const char *spec)
{
    struct pair pair;
    uint8_t *out = memory(LARGE), *in = memory(LARGE);

    pair_open(&pair, &(struct options){.spec = spec});
    fill(out, LARGE, 3);
    taken = 0;
    receive_and_send(&pair, in, out, LARGE);
    for (unsigned calm = 0; calm < CALM; calm++) {
        size_t before = taken;

        expect_nothing(pair.a.tx);
        if (taken != before)
            calm = 0;
    }
    size_t ahead = taken;
    expect_both(&pair, in, out, LARGE);
    check_filled(in, LARGE, 3);
    pair_close(&pair);
    free(out);
    free(in);
    return ahead;
}

/* Bytes that are copied in must still be in the caches when they are copied out. */
static void a_sender_on_this_host_runs_little_ahead(void **state)
{
    size_t ahead = bytes_ahead("tcp");

    assert_true(ahead > 0 && ahead < AHEAD);
    assert_true(bytes_ahead("tcp(local_buffer_size=16k)") < ahead);
}

/* The connection's congestion control is reno, whatever the host's is: one that paces waits inside
 * of the host for nothing. */
static void a_connection_inside_of_the_host_is_not_paced(void **state)
{
    struct sockaddr_storage peer;
    struct pair pair;
    int found = 0;

    pair_open(&pair, &(struct options){0});
    for (int fd = 0; fd < FDS; fd++) {
        socklen_t peer_len = sizeof(peer);
        char name[CONTROL_NAME] = "";
        socklen_t len = sizeof(name);

        if (getpeername(fd, (struct sockaddr *)&peer, &peer_len) || peer.ss_family != AF_INET)
            continue;
        assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &len), 0);
        assert_string_equal(name, "reno");
        found++;
    }
    assert_int_equal(found, 2);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_received_before_it_comes),
        cmocka_unit_test(a_call_takes_few_large_records),
        cmocka_unit_test(a_sender_on_this_host_runs_little_ahead),
        cmocka_unit_test(a_connection_inside_of_the_host_is_not_paced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
