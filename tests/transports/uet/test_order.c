/* SPDX-License-Identifier: BSD-2-Clause */
/* Which operations an order of the application binds to the ordered PDC of their peer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/op/op.h"
#include "transports/uet/uet.h"

enum {
    SENT = 1,
    WRITTEN = 2,
    READ = 4,
    ATOMIC = 8,
};

static unsigned bound_by(uint64_t orders)
{
    const struct op sent = {.group = OP_GROUP_TSEND, .kind = FI_TAGGED | FI_SEND};
    const struct op written = {.group = OP_GROUP_RMA, .kind = FI_RMA | FI_WRITE};
    const struct op read = {.group = OP_GROUP_RMA, .kind = FI_RMA | FI_READ};
    const struct op atomic = {.group = OP_GROUP_ATOMIC, .kind = FI_ATOMIC | FI_WRITE};

    return (uet_is_ordered(orders, &sent) ? SENT : 0) |
           (uet_is_ordered(orders, &written) ? WRITTEN : 0) |
           (uet_is_ordered(orders, &read) ? READ : 0) |
           (uet_is_ordered(orders, &atomic) ? ATOMIC : 0);
}

static void an_order_binds_both_of_its_sides(void **state)
{
    const struct {
        uint64_t order;
        unsigned bound;
    } each[] = {
        {FI_ORDER_NONE, 0},
        {FI_ORDER_SAS, SENT},
        {FI_ORDER_SAW, SENT | WRITTEN | ATOMIC},
        {FI_ORDER_WAS, SENT | WRITTEN | ATOMIC},
        {FI_ORDER_SAR, SENT | READ | ATOMIC},
        {FI_ORDER_RAS, SENT | READ | ATOMIC},
        {FI_ORDER_WAW, WRITTEN | ATOMIC},
        {FI_ORDER_RAW, WRITTEN | READ | ATOMIC},
        {FI_ORDER_WAR, WRITTEN | READ | ATOMIC},
        {FI_ORDER_RAR, READ | ATOMIC},
        {FI_ORDER_RMA_WAW, WRITTEN},
        {FI_ORDER_RMA_RAW, WRITTEN | READ},
        {FI_ORDER_RMA_WAR, WRITTEN | READ},
        {FI_ORDER_RMA_RAR, READ},
        {FI_ORDER_ATOMIC_WAW, ATOMIC},
        {FI_ORDER_ATOMIC_RAW, ATOMIC},
        {FI_ORDER_ATOMIC_WAR, ATOMIC},
        {FI_ORDER_ATOMIC_RAR, ATOMIC},
        {FI_ORDER_DATA, 0},
    };

    for (size_t i = 0; i < sizeof(each) / sizeof(*each); i++)
        assert_int_equal(bound_by(each[i].order), each[i].bound);
    assert_int_equal(bound_by(FI_ORDER_STRICT), SENT | WRITTEN | READ | ATOMIC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_order_binds_both_of_its_sides),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
