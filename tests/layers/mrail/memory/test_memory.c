/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../join_memory.h"
#include "layers/mrail/mrail_addr.h"

static void make(unsigned char *raw, size_t len, uint32_t number)
{
    static struct mrail_addr addr;
    char why[200];

    assert_int_equal(mrail_addr_decode(raw, len, &addr, why, sizeof(why)), 0);
    for (size_t i = 0; i < addr.count; i++) {
        if (addr.rail[i].format == FI_SOCKADDR_IN)
            join_peer_put(addr.rail[i].addr, number);
    }
    assert_int_equal(mrail_addr_encode(&addr, raw, len), 0);
}

static void an_inserted_peer_is_small(void **state)
{
    join_is_small("mrail(same=yes);[rxm;tcp(iface=lo)+rxm;tcp(iface=lo)]", make);
    join_is_small("mrail;[rxm;tcp(iface=lo)+rxd;udp(iface=lo)]", make);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_inserted_peer_is_small),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
