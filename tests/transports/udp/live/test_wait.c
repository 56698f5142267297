/* SPDX-License-Identifier: BSD-2-Clause */
/* Sleeping on queues. */
#include "ends.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

static char out[100], in[100];

static void *send_late(void *unused)
{
    usleep(50000);
    send_to(&a, a.peer, out, 10);
    return NULL;
}

static void a_sleeper_is_woken(enum fi_wait_obj wait, bool automatic)
{
    struct fi_cq_tagged_entry entry;
    pthread_t thread;

    ends_open(&(struct options){.wait = wait, .automatic = automatic});
    receive(&b, in, 10);
    assert_int_equal(pthread_create(&thread, NULL, send_late, NULL), 0);
    assert_int_equal(fi_cq_sread(b.rx, &entry, 1, NULL, 60000), 1);
    assert_ptr_equal(entry.op_context, in);
    pthread_join(thread, NULL);
    ends_close();
}

static void sleepers_are_woken(void **state)
{
    a_sleeper_is_woken(FI_WAIT_UNSPEC, false);
    a_sleeper_is_woken(FI_WAIT_FD, false);
    a_sleeper_is_woken(FI_WAIT_MUTEX_COND, false);
    a_sleeper_is_woken(FI_WAIT_YIELD, false);
    a_sleeper_is_woken(FI_WAIT_FD, true);
}

/* May the caller sleep, and would it be woken at once? */
static bool wakes_at_once(void)
{
    struct fid *fid = &b.rx->fid;
    struct pollfd fd = {.events = POLLIN};

    assert_int_equal(fi_control(fid, FI_GETWAIT, &fd.fd), 0);
    for (int i = 0; fi_trywait(b.fabric, &fid, 1); i++)
        if (i > 100)
            return true;
    return poll(&fd, 1, 0);
}

/* A datagram without a receive is no reason to wake; the receive is. */
static void a_datagram_without_a_receive_wakes_nobody(void **state)
{
    struct fi_cq_tagged_entry entry;

    ends_open(&(struct options){.wait = FI_WAIT_FD});
    send_to(&a, a.peer, out, 10);
    expect(a.tx, out, NULL);
    for (int i = 0; i < 3; i++)
        assert_false(wakes_at_once());
    receive(&b, in, 10);
    assert_int_equal(fi_cq_sread(b.rx, &entry, 1, NULL, 60000), 1);
    assert_false(wakes_at_once());
    receive(&b, in, 10);
    assert_false(wakes_at_once());
    send_to(&a, a.peer, out, 10);
    assert_int_equal(fi_cq_sread(b.rx, &entry, 1, NULL, 60000), 1);
    ends_close();
}

static void *sleep_on_b(void *unused)
{
    struct fi_cq_tagged_entry entry;

    assert_int_equal(fi_cq_sread(b.rx, &entry, 1, NULL, 60000), 1);
    assert_ptr_equal(entry.op_context, in);
    return NULL;
}

/* Of one queue with b's. */
static struct fid_ep *open_beside_b(void)
{
    struct fid_ep *ep;

    assert_int_equal(fi_endpoint(b.domain, b.info, &ep, NULL), 0);
    assert_int_equal(fi_ep_bind(ep, &b.tx->fid, FI_TRANSMIT), 0);
    assert_int_equal(fi_ep_bind(ep, &b.rx->fid, FI_RECV), 0);
    assert_int_equal(fi_ep_bind(ep, &b.av->fid, 0), 0);
    assert_int_equal(fi_enable(ep), 0);
    return ep;
}

static void an_endpoint_that_comes_later_wakes_a_sleeper(void **state)
{
    struct end late = {0};
    pthread_t thread;

    ends_open(&(struct options){.wait = FI_WAIT_FD});
    receive(&b, in, 10); /* which stays */
    assert_int_equal(pthread_create(&thread, NULL, sleep_on_b, NULL), 0);
    usleep(50000);
    late.ep = open_beside_b();
    receive(&late, in, 10);
    send_to(&a, introduce(&a, &late), out, 10);
    pthread_join(thread, NULL);
    assert_int_equal(fi_close(&late.ep->fid), 0);
    ends_close();
}

/* Errors of the network wake the reader of the event queue, and do not keep others awake. */
static void errors_wake_the_event_queue(void **state)
{
    struct fi_eq_err_entry error = {0};
    struct end nobody;
    char event[64];
    uint32_t number;
    fi_addr_t addr;

    ends_open(&(struct options){.wait = FI_WAIT_FD});
    end_open(&nobody, &(struct options){0});
    addr = introduce(&b, &nobody);
    end_close(&nobody);
    send_to(&b, addr, out, 10);
    expect(b.tx, out, NULL);
    assert_int_equal(fi_eq_sread(b.eq, &number, event, sizeof(event), 60000, 0), -FI_EAVAIL);
    assert_int_equal(fi_eq_readerr(b.eq, &error, 0), sizeof(error));
    assert_int_equal(error.err, FI_ECONNREFUSED);
    send_to(&b, addr, out, 10);
    expect(b.tx, out, NULL);
    assert_false(wakes_at_once());
    ends_close();
}

static void with_automatic_progress_no_call_is_needed(void **state)
{
    ends_open(&(struct options){.automatic = true});
    receive(&b, in, 10);
    send_to(&a, a.peer, out, 10);
    assert_int_equal(fi_cntr_wait(b.received, 1, 60000), 0);
    assert_memory_equal(in, out, 10);
    ends_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sleepers_are_woken),
        cmocka_unit_test(a_datagram_without_a_receive_wakes_nobody),
        cmocka_unit_test(an_endpoint_that_comes_later_wakes_a_sleeper),
        cmocka_unit_test(errors_wake_the_event_queue),
        cmocka_unit_test(with_automatic_progress_no_call_is_needed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
