/* SPDX-License-Identifier: BSD-2-Clause */
/* How often an idle queue looks at rails of sockets: calls of the kernel are counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

#include <cmocka.h>

#include "../../pair.h"

enum {
    READS = 4096,
    LOOKS = 64, /* each time, */
    EVERY = 16, /* then one time in so many, at most */
};

static unsigned looks;

int epoll_wait(int fd, struct epoll_event *events, int count, int timeout)
{
    static int (*known)(int, struct epoll_event *, int, int);

    if (!known)
        *(void **)&known = dlsym(RTLD_NEXT, "epoll_wait");
    looks++;
    return known(fd, events, count, timeout);
}

/* Of reads that find nothing, and with traffic on no rail. */
static unsigned looks_of_idle_reads(const char *stack)
{
    struct fi_cq_tagged_entry entry;
    struct pair pair;
    unsigned found;

    pair_open(&pair, stack);
    looks = 0;
    for (int i = 0; i < READS; i++)
        assert_int_equal(fi_cq_read(pair.cq, &entry, 1), -FI_EAGAIN);
    found = looks;
    pair_close(&pair);
    return found;
}

static void a_silent_rail_is_looked_at_rarely(void **state)
{
    unsigned alone = looks_of_idle_reads("rxm;tcp(iface=lo)");
    unsigned both = looks_of_idle_reads("mrail(same=yes);[rxm;tcp(iface=lo)+rxm;tcp(iface=lo)]");

    assert_true(alone > 0);
    /* Two rails of each of two endpoints. */
    assert_in_range(both, 1, 4 * (LOOKS + READS / EVERY) + 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_silent_rail_is_looked_at_rarely),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
