/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../join_memory.h"

static uint32_t host;

/* As layers/lnx/lnx_addr.h has it: of another node, by another token of the first branch. */
static void make(unsigned char *raw, size_t len, uint32_t number)
{
    unsigned sum = (unsigned)len;

    if (raw[5] & 63 && host == htonl(INADDR_LOOPBACK))
        raw[6] ^= 0xff;
    join_host_put(raw, len, &host, number);
    for (size_t i = 0; i < len; i++)
        sum += i == 1 ? 0 : raw[i];
    raw[1] = (unsigned char)sum;
}

static void an_inserted_peer_is_small(void **state)
{
    static const char *const specs[] = {"lnx;[rxm;tcp(iface=lo)]", "lnx;[shm+rxm;tcp(iface=lo)]",
                                        "lnx;[shm+rxd;udp(iface=lo)]"};

    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        host = htonl(INADDR_LOOPBACK);
        join_is_small(specs[i], make);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_inserted_peer_is_small),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
