/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../join_memory.h"
#include "layers/lnx/lnx_addr.h"

/* Of another node: another token. */
static void make(unsigned char *raw, size_t len, uint32_t number)
{
    static struct lnx_addr addr;
    char why[200];

    assert_int_equal(lnx_addr_decode(raw, len, &addr, why, sizeof(why)), 0);
    for (size_t i = 0; i < addr.count; i++) {
        if (addr.branch[i].reach.len)
            addr.branch[i].reach.token[0] = 1;
        if (addr.branch[i].format == FI_SOCKADDR_IN)
            join_peer_put(addr.branch[i].addr, number);
    }
    assert_int_equal(lnx_addr_encode(&addr, raw, len), addr.count);
}

static void an_inserted_peer_is_small(void **state)
{
    join_is_small("lnx;[rxm;tcp(iface=lo)]", make);
    join_is_small("lnx;[shm+rxm;tcp(iface=lo)]", make);
    join_is_small("lnx;[shm+rxd;udp(iface=lo)]", make);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_inserted_peer_is_small),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
