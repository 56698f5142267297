/* SPDX-License-Identifier: BSD-2-Clause */
/* No memory for a link when a peer asks for one: the request waits, with what was sent already. */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

#include "ends.h"

static int to_fail; /* so many allocations of links */
static bool failed;

void *aligned_alloc(size_t alignment, size_t size)
{
    static void *(*known)(size_t, size_t);

    if (!known)
        *(void **)&known = dlsym(RTLD_NEXT, "aligned_alloc");
    if (to_fail && alignment == 64) {
        to_fail--;
        failed = true;
        errno = ENOMEM;
        return NULL;
    }
    return known(alignment, size);
}

static void a_request_waits_for_memory(void **state)
{
    struct end from, to;
    struct fi_cq_tagged_entry entry;
    uint64_t out = 1, in = 0;
    fi_addr_t addr;

    (void)state;
    end_open(&from, "shm");
    end_open(&to, "shm");
    addr = end_introduce(&from, &to);
    assert_int_equal(fi_trecv(to.ep, &in, sizeof(in), NULL, FI_ADDR_UNSPEC, 1, 0, &in), 0);
    assert_int_equal(fi_tinject(from.ep, &out, sizeof(out), addr, 1), 0);
    failed = false;
    to_fail = 3;
    assert_int_equal(end_wait(&to, &from, &entry), 0);
    assert_int_equal(in, out);
    assert_true(failed);
    end_close(&from);
    end_close(&to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_request_waits_for_memory)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
