/* SPDX-License-Identifier: BSD-2-Clause */
/* A listener that several threads use, and an acceptance that fails halfway. */
#include "pair.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../../support/any_address.h"

enum {
    PATIENCE = 100 /* ms that a thread gets to come past a lock */
};

static struct {
    struct fid_pep *pep;
    struct fid_eq *eq;
    pthread_t thread;
    atomic_bool armed, done;
    int rc;
} binder;

static atomic_int refused_adds; /* epoll_ctl: additions to come that fail */

static void *bind_pep(void *arg)
{
    binder.rc = fi_pep_bind(binder.pep, &binder.eq->fid, 0);
    binder.done = true;
    return NULL;
}

/* These take the place of libc's for the library, too. Here a thread is inside of fi_getname. */
int bind(int fd, any_const_address addr, socklen_t len)
{
    if (atomic_exchange(&binder.armed, false)) {
        assert_int_equal(pthread_create(&binder.thread, NULL, bind_pep, NULL), 0);
        for (int i = 0; i < PATIENCE && !binder.done; i++)
            usleep(1000);
    }
    return (int)syscall(SYS_bind, fd, ADDRESS(addr), len);
}

int epoll_ctl(int epoll_fd, int op, int fd, struct epoll_event *event)
{
    if (op == EPOLL_CTL_ADD && refused_adds > 0) {
        refused_adds--;
        errno = ENOSPC;
        return -1;
    }
    return (int)syscall(SYS_epoll_ctl, epoll_fd, op, fd, event);
}

/* The lock that fi_getname has taken is the one that it gives back. */
static void a_listener_may_be_bound_while_it_is_used(void **state)
{
    struct pair pair;
    struct sockaddr_storage address;
    size_t len = sizeof(address);

    pair_listen(&pair, &(struct options){0});
    binder.eq = pair.eq;
    binder.done = false;
    assert_int_equal(fi_passive_ep(pair.fabric, pair.info, &binder.pep, NULL), 0);
    binder.armed = true;
    assert_int_equal(fi_getname(&binder.pep->fid, &address, &len), 0);
    pthread_join(binder.thread, NULL);
    assert_int_equal(binder.rc, 0);
    assert_int_equal(fi_pep_bind(binder.pep, &pair.eq->fid, 0), -FI_EINVAL);
    assert_int_equal(fi_listen(binder.pep), 0);
    assert_int_equal(fi_close(&binder.pep->fid), 0);
    pair_close(&pair);
}

/* From the side that accepted: behind its answer. */
static void send_back(struct pair *pair)
{
    struct fi_cq_tagged_entry done;
    uint8_t out[64], in[64];

    fill(out, sizeof(out), 3);
    assert_int_equal(fi_recv(pair->a.ep, in, sizeof(in), NULL, 0, in), 0);
    assert_int_equal(fi_send(pair->b.ep, out, sizeof(out), NULL, 0, out), 0);
    expect_completion(pair, pair->a.rx, &done);
    assert_int_equal(done.len, sizeof(in));
    check_filled(in, sizeof(in), 3);
}

/* The peer gets one acceptance. */
static void a_repeated_accept_answers_once(void **state)
{
    struct pair pair;
    struct fi_eq_cm_entry entry;

    pair_listen(&pair, &(struct options){0});
    side_open(&pair, &pair.a, pair.info);
    assert_int_equal(fi_connect(pair.a.ep, &pair.address, NULL, 0), 0);
    expect_event(&pair, FI_CONNREQ, &entry);
    side_open(&pair, &pair.b, entry.info);
    fi_freeinfo(entry.info);
    refused_adds = 1;
    assert_int_equal(fi_accept(pair.b.ep, "welcome", 7), -ENOSPC);
    assert_int_equal(refused_adds, 0);
    assert_int_equal(fi_accept(pair.b.ep, "welcome", 7), 0);
    expect_event(&pair, FI_CONNECTED, &entry);
    expect_event(&pair, FI_CONNECTED, &entry);
    send_back(&pair);
    expect_no_event(&pair);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_listener_may_be_bound_while_it_is_used),
        cmocka_unit_test(a_repeated_accept_answers_once),
    };

    alarm(60); /* a lock that is never given back */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
