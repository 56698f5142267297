/* SPDX-License-Identifier: BSD-2-Clause */
/* Receive contexts without a queue: targets of others, driven by the queues of other contexts. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ends.h"

enum {
    SENDERS = 2,
    RECEIVERS = 2,
    KEY = 7,
    LARGE = 200000,
    ROUNDS = 300,
};

struct target {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_ep *sep, *tx[SENDERS], *rx[RECEIVERS];
    struct fid_cq *tx_cq[SENDERS], *rx_cq[RECEIVERS];
    struct fid_mr *mr;
    char *memory;
};

struct want {
    enum fi_threading threading;
    enum fi_progress progress, control;
};

static const struct want serial = {FI_THREAD_DOMAIN, FI_PROGRESS_MANUAL,
                                   FI_PROGRESS_CONTROL_UNIFIED};
static const struct want safe = {FI_THREAD_SAFE, FI_PROGRESS_MANUAL, FI_PROGRESS_AUTO};
static const struct want by_thread = {FI_THREAD_SAFE, FI_PROGRESS_AUTO, FI_PROGRESS_AUTO};
static const struct want by_queue = {FI_THREAD_COMPLETION, FI_PROGRESS_MANUAL,
                                     FI_PROGRESS_CONTROL_UNIFIED};

static struct fi_info *ask(const struct want *want)
{
    struct fi_info *hints = fi_allocinfo(), *info;

    hints->caps = FI_MSG | FI_TAGGED | FI_RMA;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = want->threading;
    hints->domain_attr->data_progress = want->progress;
    hints->domain_attr->control_progress = want->control;
    hints->fabric_attr->prov_name = strdup("shm");
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &info), 0);
    fi_freeinfo(hints);
    /* Hints did not ask for contexts: they are there for all. */
    assert_true(info->domain_attr->max_ep_tx_ctx >= SENDERS);
    assert_true(info->domain_attr->max_ep_rx_ctx >= RECEIVERS);
    info->ep_attr->tx_ctx_cnt = SENDERS;
    info->ep_attr->rx_ctx_cnt = RECEIVERS;
    return info;
}

static void open_target(struct target *t, const struct want *want)
{
    struct fi_av_attr av = {.type = FI_AV_TABLE, .rx_ctx_bits = 1};

    memset(t, 0, sizeof(*t));
    t->info = ask(want);
    t->memory = calloc(1, LARGE);
    assert_int_equal(fi_fabric(t->info->fabric_attr, &t->fabric, NULL), 0);
    assert_int_equal(fi_domain(t->fabric, t->info, &t->domain, NULL), 0);
    assert_int_equal(fi_av_open(t->domain, &av, &t->av, NULL), 0);
    assert_int_equal(fi_scalable_ep(t->domain, t->info, &t->sep, NULL), 0);
    assert_int_equal(fi_scalable_ep_bind(t->sep, &t->av->fid, 0), 0);
    assert_int_equal(fi_mr_reg(t->domain, t->memory, LARGE, FI_REMOTE_WRITE | FI_REMOTE_READ, 0,
                               KEY, 0, &t->mr, NULL),
                     0);
}

static void close_all(struct fid_ep *const *contexts, struct fid_cq *const *queues, int count)
{
    for (int i = 0; i < count; i++) {
        if (contexts && contexts[i])
            assert_int_equal(fi_close(&contexts[i]->fid), 0);
        if (queues && queues[i])
            assert_int_equal(fi_close(&queues[i]->fid), 0);
    }
}

static void close_target(struct target *t)
{
    close_all(t->tx, NULL, SENDERS);
    close_all(t->rx, t->rx_cq, RECEIVERS);
    close_all(NULL, t->tx_cq, SENDERS);
    assert_int_equal(fi_close(&t->mr->fid), 0);
    assert_int_equal(fi_close(&t->sep->fid), 0);
    assert_int_equal(fi_close(&t->av->fid), 0);
    assert_int_equal(fi_close(&t->domain->fid), 0);
    assert_int_equal(fi_close(&t->fabric->fid), 0);
    fi_freeinfo(t->info);
    free(t->memory);
}

static struct fid_cq *give_queue(struct target *t, struct fid_ep *context, uint64_t flags)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_FD};
    struct fid_cq *cq;

    assert_int_equal(fi_cq_open(t->domain, &attr, &cq, NULL), 0);
    assert_int_equal(fi_ep_bind(context, &cq->fid, flags), 0);
    return cq;
}

static void open_senders(struct target *t)
{
    for (int i = 0; i < SENDERS; i++) {
        assert_int_equal(fi_tx_context(t->sep, i, NULL, &t->tx[i], NULL), 0);
        t->tx_cq[i] = give_queue(t, t->tx[i], FI_TRANSMIT);
        assert_int_equal(fi_enable(t->tx[i]), 0);
    }
}

static void open_quiet(struct target *t)
{
    assert_int_equal(fi_rx_context(t->sep, 0, NULL, &t->rx[0], NULL), 0);
    assert_int_equal(fi_enable(t->rx[0]), 0);
}

/* ---- Those who use it ---- */

static fi_addr_t open_user(struct end *end, struct target *t)
{
    char name[END_NAME];
    size_t len = sizeof(name);

    end_open_as(
        end, "shm",
        &(struct end_want){.caps = FI_MSG | FI_TAGGED | FI_RMA,
                           .threading = FI_THREAD_SAFE,
                           .av = &(struct fi_av_attr){.type = FI_AV_TABLE, .rx_ctx_bits = 1}});
    assert_int_equal(fi_getname(&t->sep->fid, name, &len), 0);
    return end_know(end, name);
}

struct driver {
    struct fid_cq *cq;
    struct fid_cntr *cntr;
};

static void drive(const struct driver *driver)
{
    if (driver->cq)
        assert_int_equal(fi_cq_read(driver->cq, NULL, 0), -FI_EAGAIN);
    if (driver->cntr)
        assert_int_equal(fi_cntr_read(driver->cntr), 0);
}

static void finish(struct end *end, const struct driver *driver)
{
    struct fi_cq_tagged_entry entry;
    ssize_t rc;

    while ((rc = fi_cq_read(end->cq, &entry, 1)) == -FI_EAGAIN)
        drive(driver);
    assert_int_equal(rc, 1);
}

/* A write and a read back, while nothing of the target's is called but that. */
static void use(struct end *end, fi_addr_t addr, size_t len, const struct driver *driver)
{
    char *out = malloc(len), *in = calloc(1, len);
    ssize_t rc;

    memset(out, (int)('a' + len % 26), len);
    while ((rc = fi_write(end->ep, out, len, NULL, addr, 0, KEY, NULL)) == -FI_EAGAIN)
        drive(driver);
    assert_int_equal(rc, 0);
    finish(end, driver);
    while ((rc = fi_read(end->ep, in, len, NULL, addr, 0, KEY, NULL)) == -FI_EAGAIN)
        drive(driver);
    assert_int_equal(rc, 0);
    finish(end, driver);
    assert_memory_equal(in, out, len);
    free(out);
    free(in);
}

static void use_all(struct end *end, fi_addr_t addr, const struct driver *driver)
{
    use(end, addr, 8, driver);
    use(end, addr, 1000, driver);
    use(end, addr, LARGE, driver);
}

/* ---- Tests ---- */

/* Whether it is enabled before them or after. */
static void any_queue_of_the_endpoint_drives_it(void **state)
{
    const struct want *wants[] = {&serial, &safe};

    for (int i = 0; i < 8; i++) {
        struct target t;
        struct end user;
        fi_addr_t addr;

        open_target(&t, wants[i & 1]);
        if (i & 2)
            open_quiet(&t);
        open_senders(&t);
        if (!(i & 2))
            open_quiet(&t);
        addr = open_user(&user, &t);
        use_all(&user, addr, &(struct driver){.cq = t.tx_cq[i >> 2]});
        end_close(&user);
        close_target(&t);
    }
}

static void a_queue_that_comes_later_drives_it(void **state)
{
    struct target t;
    struct end user;
    fi_addr_t addr;

    open_target(&t, &safe);
    open_quiet(&t);
    addr = open_user(&user, &t);
    /* The request waits in the kernel's queue. */
    end_post(&user, NULL, fi_write(user.ep, "w", 1, NULL, addr, 0, KEY, NULL));
    open_senders(&t);
    finish(&user, &(struct driver){.cq = t.tx_cq[1]});
    assert_int_equal(t.memory[0], 'w');
    end_close(&user);
    close_target(&t);
}

static void a_counter_drives_it(void **state)
{
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
    struct driver driver = {NULL, NULL};
    struct target t;
    struct end user;
    fi_addr_t addr;

    open_target(&t, &safe);
    open_quiet(&t);
    assert_int_equal(fi_cntr_open(t.domain, &attr, &driver.cntr, NULL), 0);
    assert_int_equal(fi_tx_context(t.sep, 0, NULL, &t.tx[0], NULL), 0);
    assert_int_equal(fi_ep_bind(t.tx[0], &driver.cntr->fid, FI_WRITE), 0);
    assert_int_equal(fi_enable(t.tx[0]), 0);
    addr = open_user(&user, &t);
    use_all(&user, addr, &driver);
    end_close(&user);
    assert_int_equal(fi_close(&t.tx[0]->fid), 0);
    t.tx[0] = NULL;
    assert_int_equal(fi_close(&driver.cntr->fid), 0);
    close_target(&t);
}

static void nobody_has_to_drive_it(void **state)
{
    struct target t;
    struct end user;
    fi_addr_t addr;

    open_target(&t, &by_thread);
    open_quiet(&t);
    addr = open_user(&user, &t);
    use_all(&user, addr, &(struct driver){NULL, NULL});
    end_close(&user);
    close_target(&t);
}

static void *sleep_at(void *cq)
{
    struct fi_cq_tagged_entry entry;

    assert_int_equal(fi_cq_sread(cq, &entry, 1, NULL, -1), -FI_EAGAIN);
    return NULL;
}

/* Until it is signalled: requests that come in meanwhile are served, and are nothing to read. */
static void who_sleeps_at_another_queue_is_woken(void **state)
{
    struct target t;
    struct end user;
    pthread_t thread;
    fi_addr_t addr;

    open_target(&t, &safe);
    open_senders(&t);
    open_quiet(&t);
    addr = open_user(&user, &t);
    assert_int_equal(pthread_create(&thread, NULL, sleep_at, t.tx_cq[1]), 0);
    use_all(&user, addr, &(struct driver){NULL, NULL});
    assert_int_equal(fi_cq_signal(t.tx_cq[1]), 0);
    pthread_join(thread, NULL);
    end_close(&user);
    close_target(&t);
}

static void it_closes_and_comes_back(void **state)
{
    struct target t;
    struct end user;
    fi_addr_t addr;

    open_target(&t, &serial);
    open_quiet(&t);
    open_senders(&t);
    assert_int_equal(fi_close(&t.tx[0]->fid), 0);
    t.tx[0] = NULL;
    assert_int_equal(fi_close(&t.rx[0]->fid), 0);
    open_quiet(&t);
    addr = open_user(&user, &t);
    use_all(&user, addr, &(struct driver){.cq = t.tx_cq[1]});
    end_close(&user);
    close_target(&t);
}

static void what_needs_a_queue(void **state)
{
    struct target t;

    open_target(&t, &safe);
    assert_int_equal(fi_tx_context(t.sep, 0, NULL, &t.tx[0], NULL), 0);
    assert_int_equal(fi_enable(t.tx[0]), -FI_ENOCQ);
    close_target(&t);
    /* A lock stands between the threads of the other queues. */
    open_target(&t, &by_queue);
    assert_int_equal(fi_rx_context(t.sep, 0, NULL, &t.rx[0], NULL), 0);
    assert_int_equal(fi_enable(t.rx[0]), 0);
    close_target(&t);
}

/* ---- Contexts with queues ---- */

struct pair {
    struct fid_ep *tx, *rx;
    struct fid_cq *cq;
    fi_addr_t self;
};

/* Messages from a context to another, by its own thread. */
static void *talk(void *arg)
{
    struct pair *pair = arg;
    struct fi_cq_tagged_entry entry;
    uint64_t in, sum = 0;
    ssize_t rc;

    for (uint64_t i = 0; i < ROUNDS; i++) {
        assert_int_equal(fi_trecv(pair->rx, &in, sizeof(in), NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
        while ((rc = fi_tinject(pair->tx, &i, sizeof(i), pair->self, 1)) == -FI_EAGAIN)
            fi_cq_read(pair->cq, NULL, 0);
        assert_int_equal(rc, 0);
        while ((rc = fi_cq_read(pair->cq, &entry, 1)) == -FI_EAGAIN) {
        }
        assert_int_equal(rc, 1);
        sum += in;
    }
    assert_int_equal(sum, (uint64_t)ROUNDS * (ROUNDS - 1) / 2);
    return NULL;
}

static fi_addr_t know_itself(struct target *t)
{
    char name[END_NAME];
    size_t len = sizeof(name);
    fi_addr_t self;

    assert_int_equal(fi_getname(&t->sep->fid, name, &len), 0);
    assert_int_equal(fi_av_insert(t->av, name, 1, &self, 0, NULL), 1);
    return self;
}

/* Each receive context in the queue of a transmit context. */
static void open_pairs(struct target *t, struct pair *pairs)
{
    fi_addr_t self = know_itself(t);

    open_senders(t);
    for (int i = 0; i < RECEIVERS; i++) {
        assert_int_equal(fi_rx_context(t->sep, i, NULL, &t->rx[i], NULL), 0);
        assert_int_equal(fi_ep_bind(t->rx[i], &t->tx_cq[i]->fid, FI_RECV), 0);
        assert_int_equal(fi_enable(t->rx[i]), 0);
        pairs[i] = (struct pair){t->tx[i], t->rx[i], t->tx_cq[i], fi_rx_addr(self, i, 1)};
    }
}

/* Without a lock: the sanitizer of threads sees what they share. */
static void a_thread_for_each_queue(void **state)
{
    struct pair pairs[RECEIVERS];
    struct target t;
    pthread_t thread;

    open_target(&t, &by_queue);
    open_pairs(&t, pairs);
    assert_int_equal(pthread_create(&thread, NULL, talk, &pairs[1]), 0);
    talk(&pairs[0]);
    pthread_join(thread, NULL);
    close_target(&t);
}

/* A read of any queue of the domain moves contexts that have queues of their own, too. */
static void a_queue_drives_contexts_of_others(void **state)
{
    struct pair pairs[RECEIVERS];
    struct driver other;
    struct target t;
    struct end user;
    fi_addr_t addr;

    open_target(&t, &safe);
    open_pairs(&t, pairs);
    other = (struct driver){.cq = t.tx_cq[0]};
    addr = fi_rx_addr(open_user(&user, &t), 1, 1);
    end_post(&user, NULL, fi_write(user.ep, "w", 1, NULL, addr, 0, KEY, NULL));
    finish(&user, &other);
    assert_int_equal(t.memory[0], 'w');
    end_close(&user);
    close_target(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_queue_of_the_endpoint_drives_it),
        cmocka_unit_test(a_queue_that_comes_later_drives_it),
        cmocka_unit_test(a_counter_drives_it),
        cmocka_unit_test(nobody_has_to_drive_it),
        cmocka_unit_test(who_sleeps_at_another_queue_is_woken),
        cmocka_unit_test(it_closes_and_comes_back),
        cmocka_unit_test(what_needs_a_queue),
        cmocka_unit_test(a_thread_for_each_queue),
        cmocka_unit_test(a_queue_drives_contexts_of_others),
    };

    alarm(END_ALARM);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
