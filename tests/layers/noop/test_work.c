/* SPDX-License-Identifier: BSD-2-Clause */
/* Deferred work through two noops by two threads: one queues what the other cancels. The end of the
 * stack reads what it is given before it answers, where a sanitizer sees that it has gone. */
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_trigger.h>

#include "core/base/enosys.h"
#include "core/domain/base.h"
#include "core/hook/hook.h"
#include "core/info/abi.h"
#include "core/info/info.h"
#include "core/part/part.h"
#include "tests/support/enosys_tables.h"

extern const struct part noop_part;

enum {
    DEPTH = 2,
    WORKS = 16,
    ROUNDS = 3000,
};

/* ---- The end of the stack ---- */

static struct fabric fabric;
static struct fid_domain bottom_domain;
static struct fi_ops_domain domain_ops;
static struct fi_ops_fabric fabric_ops;
static int (*take_work)(int command, struct fi_deferred_work *work);

static int close_nothing(struct fid *fid)
{
    return 0;
}

static int take_control(struct fid *fid, int command, void *arg)
{
    return take_work(command, arg);
}

static struct fi_ops fid_ops = {
    .size = sizeof(fid_ops), .close = close_nothing, .bind = enosys_bind, .control = take_control};

static int open_domain(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **domain,
                       void *context)
{
    fid_init(&bottom_domain.fid, FI_CLASS_DOMAIN, context, &fid_ops);
    bottom_domain.ops = &domain_ops;
    *domain = &bottom_domain;
    return 0;
}

/* ---- Two noops over it ---- */

static struct lower holds[DEPTH];
static struct fid_fabric *top;
static struct fid_domain *domain;
static struct fi_op_cntr op;
static struct fi_deferred_work works[WORKS];

static int close_hold(struct lower *lower)
{
    return lower->fabric == &fabric.fid ? 0 : fi_close(&lower->fabric->fid);
}

static void open_stack(int (*take)(int, struct fi_deferred_work *))
{
    struct open_args args = {
        .part = &noop_part, .api_version = FI_VERSION(2, 6), .abi = ABI_1_9, .lower_count = 1};
    struct fi_info *info = info_alloc();

    info->caps = FI_MSG | FI_TRIGGER;
    take_work = take;
    domain_ops = enosys_domain_ops;
    fabric_ops = enosys_fabric_ops;
    fabric_ops.domain = open_domain;
    fabric_init(&fabric, &args, &fid_ops, &fabric_ops, NULL);
    top = &fabric.fid;
    for (int i = 0; i < DEPTH; i++) {
        struct lower *hold = &holds[i];

        *hold = (struct lower){.fabric = top, .peer = true, .close = close_hold};
        args.lowers = &hold;
        assert_int_equal(noop_part.open_fabric(&args, &top, NULL), 0);
    }
    assert_int_equal(fi_domain(top, info, &domain, NULL), 0);
    info_free(info);
    for (uint64_t i = 0; i < WORKS; i++)
        works[i] = (struct fi_deferred_work){
            .threshold = i + 1, .op_type = FI_OP_CNTR_ADD, .op.cntr = &op};
}

static void close_stack(void)
{
    assert_int_equal(fi_close(&domain->fid), 0);
    assert_int_equal(fi_close(&top->fid), 0);
}

static int control(int command, struct fi_deferred_work *work)
{
    return fi_control(&domain->fid, command, work);
}

static void *cancel_first(void *result)
{
    *(int *)result = control(FI_CANCEL_WORK, &works[0]);
    return NULL;
}

/* ---- Cancelled before the call that queues it has returned ---- */

static int cancelled_inside(int command, struct fi_deferred_work *work)
{
    pthread_t thread;
    int rc = -1;

    if (command == FI_CANCEL_WORK)
        return work->threshold == 1 ? 0 : -FI_EINVAL;
    assert_int_equal(pthread_create(&thread, NULL, cancel_first, &rc), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(rc, 0);
    assert_int_equal(work->threshold, 1);
    return 0;
}

static void work_is_cancelled_while_it_is_queued(void **state)
{
    open_stack(cancelled_inside);
    assert_int_equal(control(FI_QUEUE_WORK, &works[0]), 0);
    close_stack();
}

/* ---- Refused while another thread is cancelling it ---- */

static pthread_t canceller;
static sem_t cancelling, refused;
static int cancel_rc;
static const struct fi_deferred_work *asked; /* by the cancel */
static const struct fi_deferred_work *second;

static int refuses_the_first(int command, struct fi_deferred_work *work)
{
    if (command == FI_CANCEL_WORK) {
        asked = work;
        sem_post(&cancelling);
        sem_wait(&refused);
        return work->threshold == 1 ? -FI_ENOENT : -FI_EINVAL;
    }
    if (work->threshold == 1) {
        assert_int_equal(pthread_create(&canceller, NULL, cancel_first, &cancel_rc), 0);
        sem_wait(&cancelling);
        return -FI_EAGAIN;
    }
    second = work;
    return 0;
}

/* Other work has not got its address meanwhile, or that would be cancelled. */
static void work_is_refused_while_it_is_cancelled(void **state)
{
    sem_init(&cancelling, 0, 0);
    sem_init(&refused, 0, 0);
    open_stack(refuses_the_first);
    assert_int_equal(control(FI_QUEUE_WORK, &works[0]), -FI_EAGAIN);
    assert_int_equal(control(FI_QUEUE_WORK, &works[1]), 0);
    sem_post(&refused);
    assert_int_equal(pthread_join(canceller, NULL), 0);
    assert_int_equal(cancel_rc, -FI_ENOENT);
    assert_ptr_not_equal(asked, second);
    close_stack();
    sem_destroy(&cancelling);
    sem_destroy(&refused);
}

/* ---- At any time ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static const struct fi_deferred_work *held[WORKS + 1]; /* by threshold */
static unsigned draws, taken, given_back;

/* Every third is refused. */
static int take_or_refuse(int command, struct fi_deferred_work *work)
{
    int rc = -FI_EAGAIN;

    pthread_mutex_lock(&mutex);
    if (command == FI_CANCEL_WORK) {
        rc = held[work->threshold] == work ? 0 : -FI_ENOENT;
        given_back += !rc;
    } else if (++draws % 3) {
        rc = 0;
        taken++;
    }
    if (!rc)
        held[work->threshold] = command == FI_QUEUE_WORK ? work : NULL;
    pthread_mutex_unlock(&mutex);
    return rc;
}

static atomic_bool queueing;
static atomic_bool is_queued[WORKS];

static void *cancel_all(void *arg)
{
    unsigned *count = arg;
    bool last;

    do {
        last = !atomic_load(&queueing);
        for (int i = 0; i < WORKS; i++) {
            if (control(FI_CANCEL_WORK, &works[i]))
                continue;
            ++*count;
            atomic_store(&is_queued[i], false);
        }
    } while (!last);
    return NULL;
}

/* Accepted work is cancelled once; queued again, it has a copy of its own. */
static void two_threads_queue_and_cancel(void **state)
{
    unsigned accepted = 0, cancelled = 0;
    pthread_t thread;

    open_stack(take_or_refuse);
    atomic_store(&queueing, true);
    assert_int_equal(pthread_create(&thread, NULL, cancel_all, &cancelled), 0);
    for (int n = 0; n < ROUNDS; n++) {
        int i = n % WORKS;

        if (atomic_exchange(&is_queued[i], true))
            continue;
        if (control(FI_QUEUE_WORK, &works[i]))
            atomic_store(&is_queued[i], false);
        else
            accepted++;
    }
    atomic_store(&queueing, false);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(accepted > 0);
    assert_int_equal(accepted, cancelled);
    assert_int_equal(accepted, taken);
    assert_int_equal(accepted, given_back);
    close_stack();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_is_cancelled_while_it_is_queued),
        cmocka_unit_test(work_is_refused_while_it_is_cancelled),
        cmocka_unit_test(two_threads_queue_and_cancel),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
