/* SPDX-License-Identifier: BSD-2-Clause */
/* The device's completion queues, on a device that is a few counters here: when they are armed. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "core/part/part.h"
#include "transports/verbs/verbs_cq.h"
#include "transports/verbs/verbs_ep.h"

extern const struct part verbs_part;

enum {
    NOBODY = 0x7fff0000, /* a number that no endpoint has */
};

/* The device. */
static struct {
    int entries;
    bool armed, late; /* late: events come when told only */
    int events_to_come, arrive_before_arming;
    int polls, refuse, vector;
    struct ibv_moderate_cq moderated;
    struct ibv_comp_channel channel;
    struct ibv_cq cq;
} fake;

static void raise_event(void)
{
    assert_int_equal(eventfd_write(fake.channel.fd, 1), 0);
}

static void entry_arrives(void)
{
    fake.entries++;
    if (!fake.armed)
        return;
    fake.armed = false;
    if (fake.late)
        fake.events_to_come++;
    else
        raise_event();
}

static int fake_poll(struct ibv_cq *cq, int most, struct ibv_wc *wcs)
{
    int count = fake.entries < most ? fake.entries : most;

    fake.polls++;
    for (int i = 0; i < count; i++)
        wcs[i] = (struct ibv_wc){.wr_id = verbs_wr_id(NOBODY, false, 0)};
    fake.entries -= count;
    return count;
}

/* Entries that arrived before raise no event. */
static int fake_arm(struct ibv_cq *cq, int solicited)
{
    while (fake.arrive_before_arming) {
        fake.arrive_before_arming--;
        entry_arrives();
    }
    fake.armed = true;
    return 0;
}

static struct ibv_comp_channel *fake_create_channel(struct ibv_context *context)
{
    fake.channel.context = context;
    fake.channel.fd = eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK);
    return fake.channel.fd < 0 ? NULL : &fake.channel;
}

static int fake_destroy_channel(struct ibv_comp_channel *channel)
{
    return close(channel->fd);
}

static struct ibv_cq *fake_create(struct ibv_context *context, int entries, void *user,
                                  struct ibv_comp_channel *channel, int vector)
{
    fake.cq.context = context;
    fake.vector = vector;
    fake.cq.cqe = entries;
    return &fake.cq;
}

static int fake_destroy(struct ibv_cq *cq)
{
    return 0;
}

static int fake_get_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **user)
{
    eventfd_t value;

    *cq = &fake.cq;
    return eventfd_read(channel->fd, &value);
}

static void fake_ack(struct ibv_cq *cq, unsigned count)
{
}

static int fake_modify(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
    assert_int_equal(attr->attr_mask, IBV_CQ_ATTR_MODERATE);
    fake.moderated = attr->moderate;
    return fake.refuse;
}

/* A queue of an endpoint, and a thread that sleeps on an epoll fd, as far as the queue can tell. */
static struct verbs_context context = {
    .modify_cq = fake_modify,
    .sz = sizeof(context),
    .context = {.ops = {.poll_cq = fake_poll, .req_notify_cq = fake_arm},
                .num_comp_vectors = 4,
                .abi_compat = __VERBS_ABI_IS_EXTENDED},
};
static struct verbs_device device = {
    .name = "fake0", .context = &context.context, .attr.max_cqe = 4096};
static struct verbs_fabric fabric;
static struct verbs_domain domain = {
    .fabric = &fabric, .device = &device, .mutex = PTHREAD_MUTEX_INITIALIZER};
static struct verbs_ep endpoint;
static struct progress *progress;
static struct progress_watch watch;
static int epoll_fd;
static struct verbs_cq *cq;
static uint64_t number;

static void resolve(const struct param_text *texts, size_t count)
{
    char why[100];
    size_t bad;

    params_destroy(fabric.params);
    assert_int_equal(params_resolve("verbs", "verbs", verbs_part.params, texts, count,
                                    &fabric.params, &bad, why, sizeof(why)),
                     0);
}

static int set_up(void **state)
{
    memset(&fake, 0, sizeof(fake));
    verbs_lib.create_comp_channel = fake_create_channel;
    verbs_lib.destroy_comp_channel = fake_destroy_channel;
    verbs_lib.create_cq = fake_create;
    verbs_lib.destroy_cq = fake_destroy;
    verbs_lib.get_cq_event = fake_get_event;
    verbs_lib.ack_cq_events = fake_ack;
    resolve(NULL, 0);
    list_init(&domain.cqs);
    watch = (struct progress_watch){0};
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    assert_true(epoll_fd >= 0);
    assert_int_equal(progress_create_control("verbs", &progress), 0);
    return 0;
}

static int tear_down(void **state)
{
    if (cq)
        verbs_cq_leave(cq, number, 100);
    cq = NULL;
    progress_unwatch(progress, &watch);
    progress_release(progress);
    close(epoll_fd);
    params_destroy(fabric.params);
    fabric.params = NULL;
    return 0;
}

static void open_queue(void)
{
    assert_int_equal(verbs_cq_join(&domain, progress, &endpoint, 100, -1, &cq, &number), 0);
}

static void begin_to_watch(void)
{
    assert_int_equal(progress_watch(progress, &watch, epoll_fd), 0);
}

static void drive(void)
{
    progress_lock(progress);
    progress_poll(progress);
    progress_unlock(progress);
}

static int may_sleep(void)
{
    int rc;

    progress_lock(progress);
    rc = progress_trywait(progress);
    progress_unlock(progress);
    return rc;
}

static bool sleeper_wakes(void)
{
    struct pollfd sleeper = {.fd = epoll_fd, .events = POLLIN};

    return poll(&sleeper, 1, 0) == 1;
}

static void a_queue_that_nobody_watches_is_not_armed(void **state)
{
    open_queue();
    entry_arrives();
    drive();
    assert_int_equal(fake.entries, 0);
    assert_false(fake.armed);
}

static void a_queue_made_while_a_thread_sleeps_wakes_it(void **state)
{
    begin_to_watch();
    open_queue();
    assert_false(sleeper_wakes());
    entry_arrives();
    assert_true(sleeper_wakes());
}

static void a_poll_of_another_thread_leaves_the_sleeper_its_next_event(void **state)
{
    open_queue();
    begin_to_watch();
    assert_int_equal(may_sleep(), 0);
    for (int i = 0; i < 3; i++) {
        entry_arrives();
        drive();
        assert_false(sleeper_wakes());
    }
    entry_arrives();
    assert_true(sleeper_wakes());
}

static void what_comes_before_it_is_armed_again_is_polled(void **state)
{
    open_queue();
    begin_to_watch();
    assert_int_equal(may_sleep(), 0);
    entry_arrives();
    fake.arrive_before_arming = 1;
    drive();
    assert_int_equal(fake.entries, 0);
    entry_arrives();
    assert_true(sleeper_wakes());
    drive();
    fake.arrive_before_arming = 1;
    assert_int_equal(may_sleep(), 0); /* still armed: nothing arrives before */
    assert_int_equal(fake.arrive_before_arming, 1);
}

static void arming_finds_what_came_meanwhile(void **state)
{
    open_queue();
    begin_to_watch();
    fake.arrive_before_arming = 1;
    assert_int_equal(may_sleep(), -FI_EAGAIN);
    assert_int_equal(fake.entries, 0);
    assert_int_equal(may_sleep(), 0);
}

/* A device may show the entry first. */
static void an_event_later_than_its_entry_is_taken(void **state)
{
    open_queue();
    begin_to_watch();
    assert_int_equal(may_sleep(), 0);
    fake.late = true;
    entry_arrives();
    drive();
    assert_false(sleeper_wakes());
    raise_event();
    assert_true(sleeper_wakes());
    drive();
    assert_false(sleeper_wakes());
    assert_true(fake.armed);
    raise_event(); /* of no entry at all */
    assert_int_equal(may_sleep(), 0);
    assert_false(sleeper_wakes());
}

static void events_are_moderated_where_that_is_asked(void **state)
{
    const struct param_text count = {"moderation_count", "32"};
    const struct param_text both[] = {count, {"moderation_time", "20"}};

    open_queue();
    assert_int_equal(fake.moderated.cq_period, 0);
    verbs_cq_leave(cq, number, 100);
    resolve(&count, 1); /* alone it would leave the last entries untold */
    open_queue();
    assert_int_equal(fake.moderated.cq_count, 0);
    verbs_cq_leave(cq, number, 100);
    resolve(both, 2);
    open_queue();
    assert_int_equal(fake.moderated.cq_count, 32);
    assert_int_equal(fake.moderated.cq_period, 20);
    verbs_cq_leave(cq, number, 100);
    fake.refuse = EOPNOTSUPP; /* then each entry is told of */
    open_queue();
    assert_non_null(cq);
}

/* FI_AFFINITY and signaling_vector. */
static void a_vector_that_is_asked_for_has_a_queue_of_its_own(void **state)
{
    struct verbs_cq *other = NULL;
    uint64_t its;

    open_queue();
    assert_int_equal(fake.vector, 0);
    assert_int_equal(verbs_cq_join(&domain, progress, &endpoint, 100, 4, &other, &its), -FI_EINVAL);
    assert_int_equal(verbs_cq_join(&domain, progress, &endpoint, 100, 3, &other, &its), 0);
    assert_int_equal(fake.vector, 3);
    assert_ptr_not_equal(other, cq);
    verbs_cq_leave(other, its, 100);
    assert_int_equal(verbs_cq_join(&domain, progress, &endpoint, 100, -1, &other, &its), 0);
    assert_ptr_equal(other, cq); /* an endpoint that asks for none shares */
    verbs_cq_leave(other, its, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_queue_that_nobody_watches_is_not_armed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_queue_made_while_a_thread_sleeps_wakes_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_poll_of_another_thread_leaves_the_sleeper_its_next_event,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_comes_before_it_is_armed_again_is_polled, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(arming_finds_what_came_meanwhile, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_event_later_than_its_entry_is_taken, set_up, tear_down),
        cmocka_unit_test_setup_teardown(events_are_moderated_where_that_is_asked, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_vector_that_is_asked_for_has_a_queue_of_its_own, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests_name("verbs cq", tests, NULL, NULL);
}
