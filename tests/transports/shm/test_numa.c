/* SPDX-License-Identifier: BSD-2-Clause */
/* Each half of a region goes to the node of the process that reads it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "transports/shm/shm_numa.h"
#include "transports/shm/shm_ring.h"

enum {
    HERE = 3,
    THERE = 5,
    PID = 4711,
    CALLS_MAX = 8,
    PREFERRED = 1,  /* MPOL_PREFERRED */
    OF_ADDRESS = 2, /* MPOL_F_ADDR */
};

static struct call {
    size_t offset, size;
    int node;
} calls[CALLS_MAX];
static int count;
static char *base;
static int here, there;

static int fake_here(void)
{
    return here;
}

static int fake_of(pid_t pid)
{
    assert_int_equal(pid, PID);
    return there;
}

static int fake_prefer(void *memory, size_t size, int node)
{
    assert_true(count < CALLS_MAX);
    calls[count++] = (struct call){(size_t)((char *)memory - base), size, node};
    return 0;
}

static const struct shm_numa fake = {fake_here, fake_of, fake_prefer};

static int node_at(size_t offset)
{
    for (int i = 0; i < count; i++) {
        if (offset >= calls[i].offset && offset < calls[i].offset + calls[i].size)
            return calls[i].node;
    }
    return -1;
}

static int set_up(void **state)
{
    base = mmap(NULL, SHM_REGION, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    count = 0;
    here = HERE;
    there = THERE;
    return base == MAP_FAILED;
}

static int tear_down(void **state)
{
    return munmap(base, SHM_REGION);
}

static void every_half_goes_to_its_reader(void **state)
{
    for (int half = 0; half < 2; half++) {
        struct shm_tx tx;
        struct shm_rx rx;

        count = 0;
        shm_numa_place(&fake, base, half, PID);
        shm_rx_init(&rx, base, half);
        shm_tx_init(&tx, base, !half);
        assert_int_equal(node_at((size_t)(rx.lines - base)), HERE);
        assert_int_equal(node_at((size_t)(rx.bulk - base)), HERE);
        assert_int_equal(node_at((size_t)(rx.bulk - base) + SHM_BULK - 1), HERE);
        assert_int_equal(node_at((size_t)(tx.lines - base)), THERE);
        assert_int_equal(node_at((size_t)(tx.lines - base) + SHM_LINES * SHM_LINE - 1), THERE);
        assert_int_equal(node_at((size_t)(tx.bulk - base)), THERE);
        for (int i = 0; i < count; i++)
            assert_int_equal(calls[i].offset % 4096 + calls[i].size % 4096, 0);
    }
}

static void an_unknown_node_places_nothing(void **state)
{
    there = -1;
    shm_numa_place(&fake, base, 0, PID);
    assert_int_equal(count, 2);
    assert_int_equal(node_at(0), HERE);
    count = 0;
    shm_numa_place(&fake, base, 0, 0); /* of another pid namespace */
    assert_int_equal(count, 2);
    shm_numa_place(NULL, base, 0, PID);
    assert_int_equal(count, 2);
}

static int policy_at(char *memory, unsigned long *nodes)
{
    int mode = -1;

    if (syscall(SYS_get_mempolicy, &mode, nodes, 8 * sizeof(*nodes) * 16, memory, OF_ADDRESS))
        return -1;
    return mode;
}

static void the_kernel_is_told(void **state)
{
    const struct shm_numa *real = shm_numa_real();
    unsigned long nodes[16] = {0};
    int node;

    if (!real || policy_at(base, nodes) < 0)
        skip();
    node = real->node_here();
    assert_true(node >= 0);
    assert_true(real->node_of(getpid()) >= 0);
    assert_int_equal(real->node_of(-5), -1);
    if (real->prefer(base, SHM_HALF, node))
        skip(); /* a container that forbids it */
    shm_numa_place(real, base, 0, getpid());
    assert_int_equal(policy_at(base, nodes), PREFERRED);
    assert_true(nodes[0] & 1ul << node);
    assert_int_equal(policy_at(base + SHM_HALF, nodes), PREFERRED);
    assert_int_equal(policy_at(base + SHM_REGION - 4096, nodes), PREFERRED);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH(every_half_goes_to_its_reader),
        WITH(an_unknown_node_places_nothing),
        WITH(the_kernel_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
