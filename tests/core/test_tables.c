/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables of functions are whole: a caller may call what it likes. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "core/base/table.h"
#include "core/hook/hook.h"

static void no_table_has_an_empty_slot(void **state)
{
    const struct {
        const void *table;
        size_t size;
    } tables[] = {
        {&hook_fabric_ops, sizeof(hook_fabric_ops)},
        {&hook_domain_ops, sizeof(hook_domain_ops)},
        {&hook_mr_ops, sizeof(hook_mr_ops)},
        {&hook_ep_ops, sizeof(hook_ep_ops)},
        {&hook_pep_ops, sizeof(hook_pep_ops)},
        {&hook_cm_ops, sizeof(hook_cm_ops)},
        {&hook_pep_cm_ops, sizeof(hook_pep_cm_ops)},
        {&ep_msg_ops, sizeof(ep_msg_ops)},
        {&ep_tagged_ops, sizeof(ep_tagged_ops)},
        {&ep_rma_ops, sizeof(ep_rma_ops)},
        {&ep_atomic_ops, sizeof(ep_atomic_ops)},
        {&ep_collective_ops, sizeof(ep_collective_ops)},
        {&hook_cq_ops, sizeof(hook_cq_ops)},
        {&hook_cntr_ops, sizeof(hook_cntr_ops)},
        {&hook_eq_ops, sizeof(hook_eq_ops)},
        {&hook_av_ops, sizeof(hook_av_ops)},
        {&hook_av_set_ops, sizeof(hook_av_set_ops)},
        {&hook_cq_owner_ops, sizeof(hook_cq_owner_ops)},
        {&hook_cntr_owner_ops, sizeof(hook_cntr_owner_ops)},
        {&hook_srx_owner_ops, sizeof(hook_srx_owner_ops)},
        {&hook_srx_peer_ops, sizeof(hook_srx_peer_ops)},
        {&enosys_ep_ops, sizeof(enosys_ep_ops)},
        {&enosys_cm_ops, sizeof(enosys_cm_ops)},
    };

    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        size_t slots[32];

        memcpy(slots, tables[i].table, tables[i].size);
        assert_int_equal(slots[0], tables[i].size);
        for (size_t slot = 1; slot < tables[i].size / sizeof(size_t); slot++)
            assert_int_not_equal(slots[slot], 0);
    }
}

/* ---- Tables that take functions of others ---- */

static ssize_t own_read(struct fid_cq *cq, void *buf, size_t count)
{
    return 7;
}

static ssize_t base_read(struct fid_cq *cq, void *buf, size_t count)
{
    return -FI_ENOSYS;
}

static ssize_t base_readfrom(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src_addr)
{
    return -FI_ENOSYS;
}

static const char *base_strerror(struct fid_cq *cq, int prov_errno, const void *err_data, char *buf,
                                 size_t len)
{
    return "";
}

static const struct fi_ops_cq base_ops = {
    .size = sizeof(base_ops),
    .read = base_read,
    .readfrom = base_readfrom,
    .readerr = enosys_cq_readerr,
    .sread = enosys_cq_sread,
    .sreadfrom = enosys_cq_sreadfrom,
    .signal = enosys_cq_signal,
    .strerror = base_strerror,
};

static void a_table_takes_what_it_has_not(void **state)
{
    static struct fi_ops_cq ops = {.size = sizeof(ops), .read = own_read};
    struct fi_ops_cq expected = base_ops;

    expected.read = own_read;
    assert_ptr_equal(table_inherit(&ops, &base_ops), &ops);
    assert_memory_equal(&ops, &expected, sizeof(ops));
    table_inherit(&ops, &hook_cq_ops); /* it has everything */
    assert_memory_equal(&ops, &expected, sizeof(ops));
}

static void tables_of_hooks_take_what_they_have_not(void **state)
{
    static struct fi_ops_cq ops = {.size = sizeof(ops), .read = own_read};
    struct hook_ops hook = {.cq = &ops}, base = {.cq = &hook_cq_ops, .av = &hook_av_ops};
    struct fi_ops_cq expected = hook_cq_ops;

    expected.read = own_read;
    base.post = hook_post;
    hook_ops_inherit(&hook, &base);
    assert_ptr_equal(hook.cq, &ops);
    assert_memory_equal(&ops, &expected, sizeof(ops));
    assert_ptr_equal(hook.av, &hook_av_ops);
    assert_null(hook.eq);
    assert_true(hook.post == hook_post);
    base.post = NULL; /* a function, which is no table */
    hook_ops_inherit(&hook, &base);
    assert_true(hook.post == hook_post);
}

enum {
    THREADS = 8,
    TABLES = 64
};

static struct fi_ops_cq shared[TABLES];
static pthread_barrier_t barrier;

/* Calls a table as soon as it is its own. */
static void *complete_all(void *unused)
{
    ssize_t sum = 0;

    pthread_barrier_wait(&barrier);
    for (int i = 0; i < TABLES; i++) {
        table_inherit(&shared[i], &base_ops);
        sum += shared[i].read(NULL, NULL, 0) + shared[i].readfrom(NULL, NULL, 0, NULL);
    }
    return (void *)sum;
}

static void threads_may_complete_one_table(void **state)
{
    pthread_t threads[THREADS];
    void *sum;

    for (int i = 0; i < TABLES; i++)
        shared[i] = (struct fi_ops_cq){.size = sizeof(shared[i]), .read = own_read};
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, complete_all, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], &sum), 0);
        assert_int_equal((ssize_t)sum, TABLES * (7 - FI_ENOSYS));
    }
    pthread_barrier_destroy(&barrier);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_table_has_an_empty_slot),
        cmocka_unit_test(a_table_takes_what_it_has_not),
        cmocka_unit_test(tables_of_hooks_take_what_they_have_not),
        cmocka_unit_test(threads_may_complete_one_table),
    };

    return cmocka_run_group_tests_name("tables", tests, NULL, NULL);
}
