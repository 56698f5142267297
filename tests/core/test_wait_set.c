/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/queue/cntr.h"
#include "core/queue/cq.h"
#include "core/queue/eq.h"
#include "core/queue/wait_set.h"
#include "tests/core/objects.h"

static struct bare bare;

static struct fid_wait *open_set(enum fi_wait_obj obj)
{
    struct fi_wait_attr attr = {.wait_obj = obj};
    struct fid_wait *set;

    bare_init(&bare, false);
    assert_int_equal(wait_set_open(&bare.fabric.fid, &attr, &set), 0);
    return set;
}

static struct cq *open_cq(struct fid_wait *set)
{
    struct fi_cq_attr attr = {.wait_obj = FI_WAIT_SET, .wait_set = set};
    struct fid_cq *cq;

    assert_int_equal(cq_open(&bare.domain, &attr, &cq, NULL), 0);
    return object_of(cq, struct cq, fid);
}

static void close_set(struct fid_wait *set)
{
    assert_int_equal(fi_close(&set->fid), 0);
    assert_false(children_any(&bare.fabric.children));
    assert_false(children_any(&bare.domain.children));
}

static void put(struct cq *cq)
{
    progress_lock(cq->progress);
    cq_write(cq, NULL, FI_SEND, 0, NULL, 0, 0, FI_ADDR_NOTAVAIL);
    progress_unlock(cq->progress);
}

static void take(struct cq *cq)
{
    struct fi_cq_entry entry;

    assert_int_equal(fi_cq_read(&cq->fid, &entry, 1), 1);
}

/* Writes a completion when its eventfd is readable. */
struct feeder {
    struct progress_source source;
    struct cq *cq;
};

static void feed(struct progress_source *source)
{
    struct feeder *feeder = object_of(source, struct feeder, source);
    uint64_t value;

    if (read(source->fd, &value, sizeof(value)) == sizeof(value))
        cq_write(feeder->cq, NULL, FI_SEND, 0, NULL, 0, 0, FI_ADDR_NOTAVAIL);
}

static int may_sleep(struct progress_source *source)
{
    return 0;
}

static void attach(struct feeder *feeder, struct cq *cq)
{
    *feeder = (struct feeder){.cq = cq};
    feeder->source.poll = feed;
    feeder->source.trywait = may_sleep;
    feeder->source.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    assert_true(feeder->source.fd >= 0);
    list_init(&feeder->source.link);
    progress_lock(cq->progress);
    assert_int_equal(progress_attach(cq->progress, &feeder->source), 0);
    progress_unlock(cq->progress);
}

static void detach(struct feeder *feeder)
{
    progress_lock(feeder->cq->progress);
    progress_detach(feeder->cq->progress, &feeder->source);
    progress_unlock(feeder->cq->progress);
    close(feeder->source.fd);
}

static bool readable(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

    return poll(&poll_fd, 1, 0) == 1;
}

/* The set's fd is asleep, and the feeder's wakes it. */
static void fd_wakes(struct fid_wait *set, struct feeder *feeder)
{
    struct fid *fids[] = {&set->fid};
    int fd = -1;

    assert_int_equal(fi_control(&set->fid, FI_GETWAIT, &fd), 0);
    assert_int_equal(fids_trywait(fids, 1), 0);
    assert_false(readable(fd));
    assert_int_equal(eventfd_write(feeder->source.fd, 1), 0);
    assert_true(readable(fd));
    assert_int_equal(set->ops->wait(set, -1), 0);
    take(feeder->cq);
    assert_int_equal(set->ops->wait(set, 0), -FI_ETIMEDOUT);
}

static void members_of_one_unit_share_its_fds(void **state)
{
    struct fid_wait *set = open_set(FI_WAIT_FD);
    struct cq *a = open_cq(set), *b = open_cq(set), *c;
    struct feeder first, second, third;

    attach(&first, a);
    attach(&second, b);
    fd_wakes(set, &first); /* both watch, then become one */
    assert_int_equal(progress_merge(a->progress, b->progress), 0);
    fd_wakes(set, &first);
    fd_wakes(set, &second);
    attach(&third, b);
    fd_wakes(set, &third);
    c = open_cq(set); /* one that joins a progress domain that is watched */
    assert_int_equal(progress_merge(c->progress, b->progress), 0);
    fd_wakes(set, &second);
    assert_int_equal(fi_close(&c->fid.fid), 0);
    fd_wakes(set, &third);
    detach(&first);
    assert_int_equal(fi_close(&a->fid.fid), 0);
    fd_wakes(set, &second);
    fd_wakes(set, &third);
    detach(&third);
    detach(&second);
    assert_int_equal(fi_close(&b->fid.fid), 0);
    close_set(set);
}

static void every_member_wakes_the_set(void **state)
{
    static const enum fi_wait_obj objs[] = {FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_POLLFD,
                                            FI_WAIT_MUTEX_COND, FI_WAIT_YIELD};

    for (size_t i = 0; i < sizeof(objs) / sizeof(objs[0]); i++) {
        struct fid_wait *set = open_set(objs[i]);
        struct fi_cntr_attr cntr_attr = {.wait_obj = FI_WAIT_SET, .wait_set = set};
        struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_SET, .wait_set = set, .flags = FI_WRITE};
        enum fi_wait_obj kind = FI_WAIT_NONE;
        struct cq *cq = open_cq(set);
        struct progress *progress;
        struct fid_cntr *cntr;
        struct fid_eq *eq;
        uint32_t event;
        char byte = 1;

        assert_int_equal(progress_create_control("test", &progress), 0);
        assert_int_equal(cntr_open(&bare.domain, &cntr_attr, &cntr, NULL), 0);
        assert_int_equal(eq_open(&bare.fabric, progress, &eq_attr, &eq, NULL), 0);
        assert_int_equal(fi_control(&cntr->fid, FI_GETWAITOBJ, &kind), 0);
        assert_int_equal(kind, FI_WAIT_SET);
        assert_int_equal(set->ops->wait(set, 1), -FI_ETIMEDOUT);
        put(cq);
        assert_int_equal(set->ops->wait(set, -1), 0);
        assert_int_equal(set->ops->wait(set, -1), 0); /* until it is read */
        take(cq);
        assert_int_equal(set->ops->wait(set, 0), -FI_ETIMEDOUT);
        fi_cntr_add(cntr, 1);
        assert_int_equal(set->ops->wait(set, -1), 0);
        assert_int_equal(set->ops->wait(set, 0), -FI_ETIMEDOUT); /* each change once */
        assert_int_equal(fi_eq_write(eq, FI_NOTIFY, &byte, 1, 0), 1);
        assert_int_equal(set->ops->wait(set, -1), 0);
        assert_int_equal(fi_eq_read(eq, &event, &byte, 1, 0), 1);
        assert_int_equal(fi_cq_signal(&cq->fid), 0);
        assert_int_equal(set->ops->wait(set, -1), 0);
        assert_int_equal(set->ops->wait(set, 0), -FI_ETIMEDOUT);
        assert_int_equal(fi_close(&set->fid), -FI_EBUSY);
        assert_int_equal(fi_close(&cq->fid.fid), 0);
        assert_int_equal(fi_close(&cntr->fid), 0);
        assert_int_equal(fi_close(&set->fid), -FI_EBUSY);
        assert_int_equal(fi_close(&eq->fid), 0);
        progress_release(progress);
        close_set(set);
    }
}

enum {
    SLEEPERS = 3,
    ENTRIES = 2000
};

struct readers {
    struct fid_wait *set;
    struct cq *cq[2];
    atomic_int taken;
};

static void *read_all(void *arg)
{
    struct readers *readers = arg;
    struct fi_cq_entry entry;

    while (atomic_load(&readers->taken) < ENTRIES) {
        int rc = readers->set->ops->wait(readers->set, 60000);

        assert_true(rc == 0 || (rc == -FI_ETIMEDOUT && readers->taken == ENTRIES));
        for (int i = 0; i < 2; i++)
            while (fi_cq_read(&readers->cq[i]->fid, &entry, 1) == 1)
                atomic_fetch_add(&readers->taken, 1);
    }
    fi_cq_signal(&readers->cq[0]->fid); /* for the others, who may sleep for ever */
    return NULL;
}

static void no_signal_is_lost_between_sleepers(void **state)
{
    static const enum fi_wait_obj objs[] = {FI_WAIT_FD, FI_WAIT_MUTEX_COND};

    for (size_t i = 0; i < sizeof(objs) / sizeof(objs[0]); i++) {
        struct readers readers = {.set = open_set(objs[i])};
        pthread_t threads[SLEEPERS];

        readers.cq[0] = open_cq(readers.set);
        readers.cq[1] = open_cq(readers.set);
        for (int t = 0; t < SLEEPERS; t++)
            assert_int_equal(pthread_create(&threads[t], NULL, read_all, &readers), 0);
        for (int n = 0; n < ENTRIES; n++) {
            put(readers.cq[n % 2]);
            if (n % 8 == 0)
                sched_yield();
        }
        for (int t = 0; t < SLEEPERS; t++)
            pthread_join(threads[t], NULL);
        assert_int_equal(readers.taken, ENTRIES);
        assert_int_equal(fi_close(&readers.cq[0]->fid.fid), 0);
        assert_int_equal(fi_close(&readers.cq[1]->fid.fid), 0);
        close_set(readers.set);
    }
}

static void *wait_for_one(void *arg)
{
    struct fid_wait *set = arg;

    assert_int_equal(set->ops->wait(set, 60000), 0);
    return NULL;
}

/* A queue that is opened while a waiter sleeps wakes it like the others. */
static void who_sleeps_hears_of_a_new_member(void **state)
{
    static const enum fi_wait_obj objs[] = {FI_WAIT_FD, FI_WAIT_MUTEX_COND};

    for (size_t i = 0; i < sizeof(objs) / sizeof(objs[0]); i++) {
        struct fid_wait *set = open_set(objs[i]);
        struct fi_cq_entry entry;
        pthread_t thread;
        struct cq *cq;

        assert_int_equal(pthread_create(&thread, NULL, wait_for_one, set), 0);
        usleep(50000); /* asleep by then, most likely */
        cq = open_cq(set);
        put(cq);
        pthread_join(thread, NULL);
        assert_int_equal(fi_cq_read(&cq->fid, &entry, 1), 1);
        assert_int_equal(fi_close(&cq->fid.fid), 0);
        close_set(set);
    }
}

/* Of an application that sleeps on the condition itself, while others signal and wait. */
static void trywait_under_the_mutex_does_not_deadlock(void **state)
{
    struct readers readers = {.set = open_set(FI_WAIT_MUTEX_COND)};
    struct fid *fids[] = {&readers.set->fid};
    struct fi_mutex_cond own;
    pthread_t thread;

    readers.cq[0] = open_cq(readers.set);
    readers.cq[1] = open_cq(readers.set);
    assert_int_equal(fi_control(&readers.set->fid, FI_GETWAIT, &own), 0);
    assert_int_equal(pthread_create(&thread, NULL, read_all, &readers), 0);
    for (int n = 0; n < ENTRIES; n++) {
        int rc;

        put(readers.cq[n % 2]);
        pthread_mutex_lock(own.mutex);
        rc = fids_trywait(fids, 1);
        pthread_mutex_unlock(own.mutex);
        assert_true(rc == 0 || rc == -FI_EAGAIN);
    }
    pthread_join(thread, NULL);
    assert_int_equal(fi_close(&readers.cq[0]->fid.fid), 0);
    assert_int_equal(fi_close(&readers.cq[1]->fid.fid), 0);
    close_set(readers.set);
}

static void a_forked_child_may_only_close(void **state)
{
    struct fid_wait *set = open_set(FI_WAIT_FD);
    struct cq *cq = open_cq(set);
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (!child) {
        struct fid *fids[] = {&set->fid};

        _exit(set->ops->wait(set, 0) == -FI_EOPBADSTATE &&
                      fids_trywait(fids, 1) == -FI_EOPBADSTATE && !fi_close(&cq->fid.fid) &&
                      !fi_close(&set->fid)
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    put(cq);
    assert_int_equal(set->ops->wait(set, -1), 0);
    take(cq);
    assert_int_equal(fi_close(&cq->fid.fid), 0);
    close_set(set);
}

static void what_is_no_wait_set_is_refused(void **state)
{
    static const enum fi_wait_obj objs[] = {FI_WAIT_NONE, FI_WAIT_SET, (enum fi_wait_obj)42};
    struct fid_wait *set = open_set(FI_WAIT_UNSPEC), *other;
    struct fi_wait_attr attr = {.wait_obj = FI_WAIT_FD, .flags = 1};
    struct fi_cq_attr cq_attr = {.wait_obj = FI_WAIT_SET};
    struct fid_cq *cq;

    assert_int_equal(wait_set_open(&bare.fabric.fid, &attr, &other), -FI_EINVAL);
    for (size_t i = 0; i < sizeof(objs) / sizeof(objs[0]); i++) {
        attr = (struct fi_wait_attr){.wait_obj = objs[i]};
        assert_int_equal(wait_set_open(&bare.fabric.fid, &attr, &other), -FI_EINVAL);
    }
    assert_int_equal(cq_open(&bare.domain, &cq_attr, &cq, NULL), -FI_EINVAL);
    cq_attr.wait_set = (struct fid_wait *)(void *)&bare.domain.fid;
    assert_int_equal(cq_open(&bare.domain, &cq_attr, &cq, NULL), -FI_EINVAL);
    assert_int_equal(fi_control(&set->fid, FI_GETWAIT, NULL), -FI_EINVAL);
    assert_int_equal(fi_control(&set->fid, FI_ENABLE, NULL), -FI_ENOSYS);
    close_set(set);
    assert_int_equal(wait_set_open(&bare.fabric.fid, NULL, &set), 0);
    close_set(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_of_one_unit_share_its_fds),
        cmocka_unit_test(every_member_wakes_the_set),
        cmocka_unit_test(no_signal_is_lost_between_sleepers),
        cmocka_unit_test(who_sleeps_hears_of_a_new_member),
        cmocka_unit_test(trywait_under_the_mutex_does_not_deadlock),
        cmocka_unit_test(a_forked_child_may_only_close),
        cmocka_unit_test(what_is_no_wait_set_is_refused),
    };

    return cmocka_run_group_tests_name("wait_set", tests, NULL, NULL);
}
