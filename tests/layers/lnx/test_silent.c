/* SPDX-License-Identifier: BSD-2-Clause */
/* How often an idle queue looks at a branch of sockets: calls of the kernel are counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

#include <cmocka.h>

#include "../pair.h"

enum {
    READS = 4096,
    SILENT_LOOKS = 64, /* each time, */
    SILENT_EVERY = 16  /* then one time in so many, at most */
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

static unsigned looks_of_idle_reads(struct pair *pair)
{
    struct fi_cq_tagged_entry entry;

    looks = 0;
    for (int i = 0; i < READS; i++)
        assert_int_equal(fi_cq_read(pair->cq, &entry, 1), -FI_EAGAIN);
    return looks;
}

static void a_silent_branch_is_looked_at_rarely(void **state)
{
    struct pair pair;
    unsigned alone;

    pair_open(&pair, "lnx;[rxm;tcp(iface=lo)]");
    alone = looks_of_idle_reads(&pair);
    pair_close(&pair);
    assert_true(alone > 0);
    pair_open(&pair, "lnx;[loop+rxm;tcp(iface=lo)]");
    looks_of_idle_reads(&pair);
    /* A branch asks the kernel now and then, in so many calls of its own. */
    assert_in_range(looks, 1, alone * (SILENT_LOOKS + READS / SILENT_EVERY) / READS + 1);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_silent_branch_is_looked_at_rarely),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
