/* SPDX-License-Identifier: BSD-2-Clause */
/* Peers that owe an answer, and end, while nothing is under way to them. */
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/seam.h"

#include "../../../transports/udp/live/ends.h"

enum {
    LARGE = 1 << 20,
    TURNS = 1000
};

static struct options messages = {
    .spec = "rxd;udp", .type = FI_EP_RDM, .caps = FI_SOURCE, .no_eq = true, .wait = FI_WAIT_FD};
static char out[LARGE], in[LARGE];

static long long now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

struct child {
    pid_t pid;
    struct sockaddr_in addr;
};

static void set_port(struct end *end, uint16_t port)
{
    assert_int_equal(fi_close(&end->ep->fid), 0);
    ((struct sockaddr_in *)end->info->src_addr)->sin_port = port;
    assert_int_equal(fi_endpoint(end->domain, end->info, &end->ep, NULL), 0);
    assert_int_equal(fi_ep_bind(end->ep, &end->tx->fid, FI_TRANSMIT), 0);
    assert_int_equal(fi_ep_bind(end->ep, &end->rx->fid, FI_RECV), 0);
    assert_int_equal(fi_ep_bind(end->ep, &end->av->fid, 0), 0);
    assert_int_equal(fi_enable(end->ep), 0);
}

/* One that makes progress and receives nothing; port 0: any. */
static void child_open(struct child *child, uint16_t port)
{
    int pipes[2];
    size_t len = sizeof(child->addr);

    assert_int_equal(pipe(pipes), 0);
    child->pid = fork();
    assert_true(child->pid >= 0);
    if (!child->pid) {
        end_open(&b, &messages);
        if (port)
            set_port(&b, port);
        assert_int_equal(fi_getname(&b.ep->fid, &child->addr, &len), 0);
        if (write(pipes[1], &child->addr, sizeof(child->addr)) != sizeof(child->addr))
            _exit(1);
        for (;;)
            fi_cq_read(b.rx, NULL, 0);
    }
    close(pipes[1]);
    assert_int_equal(read(pipes[0], &child->addr, sizeof(child->addr)), sizeof(child->addr));
    close(pipes[0]);
}

static void child_kill(const struct child *child)
{
    kill(child->pid, SIGKILL);
    waitpid(child->pid, NULL, 0);
}

/* A message of which the beginning has come, as what was sent behind it has, and which waits for
 * its receive. */
static void send_unreceived(const struct child *child)
{
    struct fi_cq_tagged_entry entry = {0};
    static char small[8];

    end_open(&a, &messages);
    assert_int_equal(fi_av_insert(a.av, &child->addr, 1, &a.peer, 0, NULL), 1);
    send_to(&a, a.peer, out, LARGE);
    send_to(&a, a.peer, small, sizeof(small));
    while (fi_cq_read(a.tx, &entry, 1) != 1)
        ;
    assert_ptr_equal(entry.op_context, small);
    for (long long end = now_ms() + 100; now_ms() < end;)
        fi_cq_read(a.rx, NULL, 0);
}

static int wait_for_end(void)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};
    long long end = now_ms() + 30000;
    ssize_t rc;

    while ((rc = fi_cq_sread(a.tx, &entry, 1, NULL, 1000)) == -FI_EAGAIN)
        assert_true(now_ms() < end);
    assert_int_equal(rc, -FI_EAVAIL);
    assert_int_equal(fi_cq_readerr(a.tx, &error, 0), 1);
    return error.err;
}

static void killed_peer_ends_what_it_owes(void **state)
{
    struct child child;

    child_open(&child, 0);
    send_unreceived(&child);
    child_kill(&child);
    assert_int_equal(wait_for_end(), FI_ECONNREFUSED);
    end_close(&a);
}

static void peer_that_starts_again_owes_nothing(void **state)
{
    struct child child, other;

    child_open(&child, 0);
    send_unreceived(&child);
    child_kill(&child);
    child_open(&other, child.addr.sin_port);
    assert_int_equal(other.addr.sin_port, child.addr.sin_port);
    assert_int_equal(wait_for_end(), FI_ECONNRESET);
    child_kill(&other);
    end_close(&a);
}

/* It is asked, and that is all. */
static void living_peer_may_take_its_time(void **state)
{
    struct fi_cq_tagged_entry entry;
    uint32_t hour_ms = 3600000;

    ends_open(&messages);
    send_to(&a, a.peer, out, LARGE);
    for (long long end = now_ms() + 2500; now_ms() < end; fi_cq_read(b.rx, NULL, 0))
        assert_int_equal(fi_cq_read(a.tx, &entry, 1), -FI_EAGAIN);
    receive(&b, in, LARGE);
    while (fi_cq_read(b.rx, &entry, 1) != 1)
        fi_cq_read(a.tx, NULL, 0);
    while (fi_cq_read(a.tx, &entry, 1) != 1)
        fi_cq_read(b.rx, NULL, 0);
    assert_memory_equal(in, out, LARGE);
    /* Nor does a message without a receive keep its sender, which may wait for an hour, from
     * leaving: it has come, which takes time, and turns where the program has stood still
     * meanwhile. */
    assert_int_equal(
        fi_setopt(&a.ep->fid, FI_OPT_ENDPOINT, OPT_CLOSE_WAIT, &hour_ms, sizeof(hour_ms)), 0);
    send_to(&a, a.peer, out, LARGE);
    for (long long end = now_ms() + 100, turns = 0; turns < TURNS || now_ms() < end; turns++) {
        fi_cq_read(a.tx, NULL, 0);
        fi_cq_read(b.rx, NULL, 0);
    }
    end_close(&a);
    end_close(&b);
}

static void exchange(struct end *from, struct end *to)
{
    struct fi_cq_tagged_entry entry;

    receive(to, in, 8);
    send_to(from, from->peer, out, 8);
    while (fi_cq_read(to->rx, &entry, 1) != 1)
        fi_cq_read(from->tx, NULL, 0);
    while (fi_cq_read(from->tx, &entry, 1) != 1)
        fi_cq_read(to->rx, NULL, 0);
}

/* It has what it waited for, and does not look any more. */
static void small_message_is_sent_while_its_peer_does_not_look(void **state)
{
    struct options alone = messages;
    struct fi_cq_tagged_entry entry;

    alone.alone = true;
    ends_open(&alone);
    exchange(&a, &b);
    exchange(&b, &a);
    send_to(&a, a.peer, out, 8);
    for (long long end = now_ms() + 10000; fi_cq_read(a.tx, &entry, 1) != 1;)
        assert_true(now_ms() < end);
    send_flags(&a, a.peer, out, 8, FI_COMPLETION | FI_TRANSMIT_COMPLETE);
    for (long long end = now_ms() + 100; now_ms() < end;)
        assert_int_equal(fi_cq_read(a.tx, &entry, 1), -FI_EAGAIN);
    while (fi_cq_read(a.tx, &entry, 1) != 1)
        fi_cq_read(b.rx, NULL, 0);
    ends_close();
}

/* A thread of the peer's takes and acknowledges for it; its application may read something else. */
static void peer_that_does_not_look_is_stood_in_for(void **state)
{
    struct fi_cq_tagged_entry entry;

    ends_open(&messages);
    exchange(&a, &b);
    send_flags(&a, a.peer, out, 8, FI_COMPLETION | FI_TRANSMIT_COMPLETE);
    receive(&b, in, 8);
    receive(&b, in, LARGE);
    send_to(&a, a.peer, out, LARGE);
    for (int i = 0; i < 2; i++) {
        for (long long end = now_ms() + 60000; fi_cq_read(a.tx, &entry, 1) != 1;)
            assert_true(now_ms() < end);
    }
    assert_memory_equal(in, out, LARGE);
    ends_close();
}

/* Packets posted while the progress thread sleeps have deadlines, too: no queue is read here. */
static void losses_are_repaired_while_nobody_looks(void **state)
{
    struct options lossy = messages;
    struct fi_cq_tagged_entry entry;

    lossy.spec = "rxd;fault(drop=30%,seed=3);udp";
    ends_open(&lossy);
    exchange(&a, &b);
    for (int i = 0; i < 8; i++) {
        long long end = now_ms() + 60000;

        memset(in, 0, 8);
        receive(&b, in, 8);
        usleep(50000);
        send_to(&a, a.peer, out, 8);
        while (((volatile char *)in)[7] != 'o')
            assert_true(now_ms() < end);
        while (fi_cq_read(b.rx, &entry, 1) != 1)
            assert_true(now_ms() < end);
        while (fi_cq_read(a.tx, &entry, 1) != 1)
            assert_true(now_ms() < end);
    }
    ends_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_peer_ends_what_it_owes),
        cmocka_unit_test(peer_that_starts_again_owes_nothing),
        cmocka_unit_test(living_peer_may_take_its_time),
        cmocka_unit_test(small_message_is_sent_while_its_peer_does_not_look),
        cmocka_unit_test(peer_that_does_not_look_is_stood_in_for),
        cmocka_unit_test(losses_are_repaired_while_nobody_looks),
    };

    memset(out, 'o', LARGE);
    return cmocka_run_group_tests_name("rxd: peers", tests, NULL, NULL);
}
