/* SPDX-License-Identifier: BSD-2-Clause */
/* Events at the peer between shm's connecting and its introduction: the peer connects too, or
 * closes. The library's sendmsg, which introduces, is this file's. */
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ends.h"

enum {
    ROUNDS = 16384, /* of progress: the sockets are looked at among them */
};

static struct end one, other;
static fi_addr_t to_one, to_other;
static void (*meanwhile)(void); /* once, before the next introduction */

__attribute__((visibility("default"))) ssize_t sendmsg(int fd, const struct msghdr *msg, int flags);

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
    void (*now)(void) = meanwhile;

    meanwhile = NULL;
    if (now)
        now();
    return syscall(SYS_sendmsg, fd, msg, flags);
}

static void look_at_sockets(struct end *end)
{
    for (int i = 0; i < ROUNDS; i++)
        end_drive(end, NULL);
}

static void send_to_other(uint64_t tag)
{
    end_post(&one, NULL, fi_tinject(one.ep, "x", 1, to_other, tag));
}

/* The request that is under way has been taken by now, without its introduction. */
static void connect_too(void)
{
    look_at_sockets(&one);
    send_to_other(1);
}

/* Changes the AV, so that the endpoint looks up addresses again. */
static void change_the_av(struct end *end)
{
    fi_addr_t addr = end_know(end, "fi_ns://somebody-else");

    assert_int_equal(fi_av_remove(end->av, &addr, 1, 0), 0);
}

static void both_connect_at_once(void **state)
{
    struct fi_cq_tagged_entry entry;
    char in[2];

    end_open(&one, "shm");
    end_open(&other, "shm");
    to_one = end_introduce(&other, &one);
    to_other = end_introduce(&one, &other);
    for (int i = 0; i < 2; i++)
        assert_int_equal(fi_trecv(other.ep, &in[i], 1, NULL, FI_ADDR_UNSPEC, 0, ~0ULL, &in[i]), 0);

    meanwhile = connect_too;
    assert_int_equal(fi_tinject(other.ep, "y", 1, to_one, 0), 0);
    assert_null(meanwhile);
    look_at_sockets(&one);
    change_the_av(&one);
    send_to_other(2);

    for (uint64_t tag = 1; tag <= 2; tag++) {
        assert_int_equal(end_wait(&other, &one, &entry), 0);
        assert_int_equal(entry.tag, tag);
        assert_ptr_equal(entry.op_context, &in[tag - 1]);
    }
    end_close(&one);
    end_close(&other);
}

/* The endpoint that sends finds the request of the other, which came while it was elsewhere. */
static void who_comes_second_takes_the_link_of_the_first(void **state)
{
    struct fi_cq_tagged_entry entry;
    char in[2] = "";
    unsigned fds;

    end_open(&one, "shm");
    end_open(&other, "shm");
    to_one = end_introduce(&other, &one);
    to_other = end_introduce(&one, &other);
    fds = end_open_fds();
    send_to_other(1);
    end_post(&other, NULL, fi_tinject(other.ep, "y", 1, to_one, 1));
    assert_int_equal(fi_trecv(one.ep, &in[0], 1, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
    assert_int_equal(fi_trecv(other.ep, &in[1], 1, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
    assert_int_equal(end_wait(&one, &other, &entry), 0);
    assert_int_equal(end_wait(&other, &one, &entry), 0);
    assert_memory_equal(in, "yx", 2);
    assert_int_equal(end_open_fds(), fds + 2);
    end_close(&one);
    end_close(&other);
}

static void close_one(void)
{
    end_close(&one);
}

static void the_peer_closes(void **state)
{
    struct fi_cq_tagged_entry entry;

    end_open(&one, "shm");
    end_open(&other, "shm(connect_timeout=200ms)");
    to_one = end_introduce(&other, &one);
    meanwhile = close_one;
    assert_int_equal(fi_tsend(other.ep, "y", 1, NULL, to_one, 0, &entry), -FI_EAGAIN);
    assert_null(meanwhile);
    end_post(&other, NULL, fi_tsend(other.ep, "y", 1, NULL, to_one, 0, &entry));
    assert_int_equal(end_wait(&other, NULL, &entry), FI_ECONNREFUSED);
    assert_ptr_equal(entry.op_context, &entry);
    end_close(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_connect_at_once),
        cmocka_unit_test(who_comes_second_takes_the_link_of_the_first),
        cmocka_unit_test(the_peer_closes),
    };

    alarm(END_ALARM);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
