/* SPDX-License-Identifier: BSD-2-Clause */
/* Two endpoints that send each other one message after the other have sockets of their own for
 * that, by which a sleeper wakes, too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>
#include <poll.h>
#include <rdma/fi_errno.h>

#include "../../../support/end.h"

enum {
    ROUNDS = 200,
    SLEEPS = 2,
    QUIET = 200,      /* ms without a timer of either side's */
    PATIENCE = 60000, /* ms, for what is there */
};

static struct end ends[2];
static uint64_t out, in;

static void open_end(struct end *end)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;

    hints->fabric_attr->prov_name = strdup("uet");
    hints->ep_attr->type = FI_EP_RDM;
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), "127.0.0.1", NULL, FI_SOURCE, hints, &info), 0);
    fi_freeinfo(hints);
    end_open_waiting(end, info, FI_CQ_FORMAT_MSG, FI_WAIT_FD);
}

static unsigned count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned count = 0;

    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static void await(struct end *end, struct end *other, uint64_t kind)
{
    struct fi_cq_msg_entry entry;
    ssize_t rc;

    while ((rc = fi_cq_read(end->cq, &entry, 1)) == -FI_EAGAIN)
        fi_cq_read(other->cq, NULL, 0);
    assert_int_equal(rc, 1);
    assert_true(entry.flags & kind);
}

static void receive(struct end *end)
{
    in = 0;
    assert_int_equal(fi_recv(end->ep, &in, sizeof(in), NULL, FI_ADDR_UNSPEC, NULL), 0);
}

static void send_to_peer(struct end *end, struct end *other)
{
    out++;
    assert_int_equal(fi_send(end->ep, &out, sizeof(out), NULL, end->peer, NULL), 0);
    await(end, other, FI_SEND);
}

/* One message each way. */
static void exchange(struct end *a, struct end *b)
{
    for (int way = 0; way < 2; way++) {
        struct end *from = way ? b : a, *to = way ? a : b;

        receive(to);
        send_to_peer(from, to);
        await(to, from, FI_RECV);
        assert_int_equal(in, out);
    }
}

/* The caller may sleep on it now. */
static struct pollfd prepare_to_sleep(struct end *end)
{
    struct fid *fids[] = {&end->cq->fid};
    struct pollfd fd = {.events = POLLIN};

    assert_int_equal(fi_control(&end->cq->fid, FI_GETWAIT, &fd.fd), 0);
    while (fi_trywait(end->fabric, fids, 1) == -FI_EAGAIN)
        assert_int_equal(fi_cq_read(end->cq, NULL, 0), -FI_EAGAIN);
    return fd;
}

static void two_that_talk_have_sockets_for_that(void **state)
{
    unsigned fds = count_fds();

    for (int i = 0; i < ROUNDS; i++)
        exchange(&ends[0], &ends[1]);
    assert_int_equal(count_fds(), fds + 2);
}

static void a_sleeper_wakes_by_the_second_socket(void **state)
{
    for (int i = 0; i < SLEEPS; i++) {
        struct end *from = &ends[i % 2], *to = &ends[(i + 1) % 2];
        struct fi_cq_msg_entry entry;
        struct pollfd fd;
        ssize_t rc;

        receive(to);
        do {
            fi_cq_read(from->cq, NULL, 0);
            fi_cq_read(to->cq, NULL, 0);
            fd = prepare_to_sleep(to);
        } while (poll(&fd, 1, QUIET)); /* else a timer might wake it */
        send_to_peer(from, from);
        do {
            assert_int_equal(poll(&fd, 1, PATIENCE), 1);
            rc = fi_cq_read(to->cq, &entry, 1);
        } while (rc == -FI_EAGAIN);
        assert_int_equal(rc, 1);
        assert_int_equal(in, out);
    }
}

static void a_third_one_is_heard(void **state)
{
    struct end third;
    fi_addr_t first;

    open_end(&third);
    assert_int_equal(fi_av_insert(third.av, ends[0].name, 1, &third.peer, 0, NULL), 1);
    assert_int_equal(fi_av_insert(ends[0].av, third.name, 1, &first, 0, NULL), 1);
    for (int i = 0; i < ROUNDS; i++) {
        receive(&ends[0]);
        send_to_peer(&third, &ends[0]);
        await(&ends[0], &third, FI_RECV);
        assert_int_equal(in, out);
        if (i % 7 == 0)
            exchange(&ends[0], &ends[1]);
    }
    end_close(&third);
    exchange(&ends[0], &ends[1]);
}

static int start(void **state)
{
    open_end(&ends[0]);
    open_end(&ends[1]);
    end_meet(&ends[0], &ends[1]);
    exchange(&ends[0], &ends[1]);
    return 0;
}

static int finish(void **state)
{
    end_close(&ends[0]);
    end_close(&ends[1]);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_that_talk_have_sockets_for_that),
        cmocka_unit_test(a_sleeper_wakes_by_the_second_socket),
        cmocka_unit_test(a_third_one_is_heard),
    };

    return cmocka_run_group_tests(tests, start, finish);
}
