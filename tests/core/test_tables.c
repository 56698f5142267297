/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables of functions are whole: a caller may call what it likes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

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
        {&enosys_fabric_ops, sizeof(enosys_fabric_ops)},
        {&enosys_domain_ops, sizeof(enosys_domain_ops)},
        {&enosys_mr_ops, sizeof(enosys_mr_ops)},
        {&enosys_ep_ops, sizeof(enosys_ep_ops)},
        {&enosys_cm_ops, sizeof(enosys_cm_ops)},
        {&enosys_cq_ops, sizeof(enosys_cq_ops)},
        {&enosys_cntr_ops, sizeof(enosys_cntr_ops)},
        {&enosys_eq_ops, sizeof(enosys_eq_ops)},
        {&enosys_av_ops, sizeof(enosys_av_ops)},
        {&enosys_av_set_ops, sizeof(enosys_av_set_ops)},
    };

    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        size_t slots[32];

        memcpy(slots, tables[i].table, tables[i].size);
        assert_int_equal(slots[0], tables[i].size);
        for (size_t slot = 1; slot < tables[i].size / sizeof(size_t); slot++)
            assert_int_not_equal(slots[slot], 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_table_has_an_empty_slot),
    };

    return cmocka_run_group_tests_name("tables", tests, NULL, NULL);
}
