/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/shm/shm_doorbell.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

_Static_assert(sizeof(struct shm_doorbell) <= SHM_PAGE, "a bell is a page");

/* Read by threads that have not asked. */
static atomic_bool available;

/* membarrier(2)'s numbers: the kernel's headers do not come with every C library. */
enum {
    QUERY = 0,
    GLOBAL_EXPEDITED = 1 << 1,
    REGISTER_GLOBAL_EXPEDITED = 1 << 2,
};

static void ask(void)
{
    long known = syscall(SYS_membarrier, QUERY, 0, 0);

    atomic_store(&available, known > 0 && known & GLOBAL_EXPEDITED &&
                                 !syscall(SYS_membarrier, REGISTER_GLOBAL_EXPEDITED, 0, 0));
}

bool shm_fence_available(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, ask);
    return available;
}

void shm_fence_all(void)
{
    if (atomic_load_explicit(&available, memory_order_relaxed))
        syscall(SYS_membarrier, GLOBAL_EXPEDITED, 0, 0);
    atomic_thread_fence(memory_order_seq_cst);
}
