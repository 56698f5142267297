/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The waits of fi_close, by the public interface. The library's clock is this file's: each look at
 * it takes 50 us, so that a wait is counted and not measured.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <cmocka.h>

#include "../../pair.h"

#define LOOK_NS 50000
#define MOST_NS INT64_C(500000000) /* a rail that waits by itself has 2 s */

static int64_t spent;

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int64_t ns;

    if (syscall(SYS_clock_gettime, clock, now))
        return -1;
    spent += LOOK_NS;
    ns = (int64_t)now->tv_sec * 1000000000 + now->tv_nsec + spent;
    now->tv_sec = (time_t)(ns / 1000000000);
    now->tv_nsec = (long)(ns % 1000000000);
    return 0;
}

static void close_one(struct fid_ep *ep)
{
    int64_t before = spent;

    assert_int_equal(fi_close(&ep->fid), 0);
    print_message("fi_close: %lld us\n", (long long)(spent - before) / 1000);
    assert_true(spent - before < MOST_NS);
}

/* The peer is idle and nothing drives it: its rails acknowledge nothing any more. */
static void rails_do_not_wait_for_an_idle_peer(void **state)
{
    static const char *const specs[] = {
        "mrail(same=yes);[arq;udp(iface=lo)+arq;udp(iface=lo)]",
        "mrail(same=yes);[rxd;udp(iface=lo)+rxd;udp(iface=lo)]",
        "mrail;[rxm;tcp(iface=lo)+rxd;udp(iface=lo)]",
        "mrail;[lnx;[shm+rxd;udp(iface=lo)]]",
    };
    static char from[65536], to[65536];
    struct pair pair;

    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        print_message("%s\n", specs[i]);
        pair_open(&pair, specs[i]);
        for (unsigned n = 0; n < 8; n++)
            assert_true(pair_message(&pair, from, to, sizeof(from), n, from, to));
        close_one(pair.ep[0]);
        close_one(pair.ep[1]);
        pair.ep[0] = pair.ep[1] = NULL;
        pair_close(&pair);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rails_do_not_wait_for_an_idle_peer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
