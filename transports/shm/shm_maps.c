/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/shm/shm_maps.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/fork.h"
#include "transports/shm/shm_guard.h"
#include "transports/shm/shm_xpmem.h"

struct window {
    const char *here; /* NULL: free */
    uint64_t base;    /* the peer's address of it */
    size_t len;
    uint64_t used; /* the time of its last use */
};

struct shm_maps {
    int64_t permit;
    unsigned forks; /* fork_generation when it was opened */
    uint64_t time;
    struct window windows[SHM_WINDOWS];
};

int shm_maps_open(int64_t segment, struct shm_maps **ret_maps)
{
    struct shm_maps *maps = calloc(1, sizeof(*maps));
    int rc = maps ? shm_xpmem_get(segment, &maps->permit) : -ENOMEM;

    if (rc) {
        free(maps);
        return rc;
    }
    maps->forks = fork_generation;
    *ret_maps = maps;
    return 0;
}

static void close_window(struct window *window)
{
    if (window->here)
        shm_xpmem_detach(window->here);
    *window = (struct window){.here = NULL};
}

void shm_maps_close(struct shm_maps *maps)
{
    if (maps && maps->forks == fork_generation) {
        for (int i = 0; i < SHM_WINDOWS; i++)
            close_window(&maps->windows[i]);
        shm_xpmem_release(maps->permit);
    }
    free(maps);
}

/* No process can use the last page of the address space, and the kernel refuses a window that
 * reaches into it. */
static int open_window(const struct shm_maps *maps, uint64_t base, struct window *window)
{
    size_t len = SHM_WINDOW;
    int rc = shm_xpmem_attach(maps->permit, base, len, &window->here);

    if (rc == -EINVAL) {
        len -= (size_t)sysconf(_SC_PAGESIZE);
        rc = shm_xpmem_attach(maps->permit, base, len, &window->here);
    }
    window->base = base;
    window->len = rc ? 0 : len;
    return rc;
}

static int find_window(struct shm_maps *maps, uint64_t base, struct window **ret_window)
{
    struct window *oldest = &maps->windows[0];
    int rc = 0;

    maps->time++;
    for (int i = 0; i < SHM_WINDOWS; i++) {
        struct window *window = &maps->windows[i];

        if (window->here && window->base == base) {
            oldest = window;
            break;
        }
        if (window->used < oldest->used)
            oldest = window;
    }
    if (!oldest->here || oldest->base != base) {
        close_window(oldest);
        rc = open_window(maps, base, oldest);
    }
    if (rc)
        return rc;
    oldest->used = maps->time;
    *ret_window = oldest;
    return 0;
}

/* Copies the first bytes of the request, and says in *len how many. */
static int copy_some(struct shm_maps *maps, const struct shm_guard *guard, char *to, uint64_t from,
                     size_t *len)
{
    uint64_t offset = from % SHM_WINDOW;
    struct window *window;
    int rc = find_window(maps, from - offset, &window);

    if (rc)
        return rc;
    if (offset >= window->len)
        return -EFAULT;
    if (*len > window->len - offset)
        *len = window->len - offset;
    return shm_guard_copy(guard, to, window->here + offset, *len) ? 0 : -EFAULT;
}

static ssize_t copy_all(struct shm_maps *maps, const struct shm_guard *guard,
                        const struct iovec *here, size_t here_count, const struct iovec *there,
                        size_t there_count)
{
    size_t done = 0, at_here = 0, at_there = 0;

    while (here_count && there_count) {
        size_t len = here->iov_len - at_here, left = there->iov_len - at_there;
        int rc;

        len = left < len ? left : len;
        rc = copy_some(maps, guard, (char *)here->iov_base + at_here,
                       (uintptr_t)there->iov_base + at_there, &len);
        if (rc)
            return rc;
        done += len;
        at_here += len;
        at_there += len;
        if (at_here == here->iov_len) {
            here++, here_count--;
            at_here = 0;
        }
        if (at_there == there->iov_len) {
            there++, there_count--;
            at_there = 0;
        }
    }
    return (ssize_t)done;
}

ssize_t shm_maps_readv(struct shm_maps *maps, const struct iovec *here, size_t here_count,
                       const struct iovec *there, size_t there_count)
{
    struct shm_guard guard;
    ssize_t rc = shm_guard_begin(&guard);

    if (rc)
        return rc;
    rc = copy_all(maps, &guard, here, here_count, there, there_count);
    shm_guard_end(&guard);
    return rc;
}
