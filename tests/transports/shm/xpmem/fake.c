/* SPDX-License-Identifier: BSD-2-Clause */
#include "fake.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    REGIONS = 16,
    ATTACHED = 64,
    SEGMENTS = 64,
    PAGE = 4096,
    NOT_MINE = 2004, /* what the module says to a child with its parent's descriptor */
};

struct fake *fake;
unsigned fake_crosses;

static struct {
    char *at;
    size_t len;
    int fd;
} regions[REGIONS];
static unsigned region_count;

/* Of this process. */
static int device = -1;
static pid_t opened_by;
static struct {
    char *at;
    size_t len;
    uint64_t from;
} attached[ATTACHED];

static struct shared {
    struct fake fake;
    pid_t owners[SEGMENTS]; /* a segment's number is its index in the upper half */
    atomic_uint segments;   /* two processes may make one at a time */
} * shared;

static void *map(void *at, size_t len, int protection, int flags, int fd, off_t offset)
{
    void *memory = mmap(at, len, protection, flags, fd, offset);

    assert_true(memory != MAP_FAILED);
    return memory;
}

void fake_begin(void)
{
    if (!shared)
        shared =
            map(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    fake = &shared->fake;
    *fake = (struct fake){.there = true, .yama = '0'};
}

static int new_file(size_t len)
{
    int fd = (int)syscall(SYS_memfd_create, "fake", 0);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)len), 0);
    return fd;
}

char *fake_memory(size_t len, size_t align)
{
    char *at = map(NULL, len + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int fd = new_file(len);

    at += (align - (uintptr_t)at % align) % align;
    map(at, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    assert_true(region_count < REGIONS);
    regions[region_count].at = at;
    regions[region_count].len = len;
    regions[region_count++].fd = fd;
    return at;
}

char *fake_memory_at(uint64_t at, size_t len)
{
    char *here = fake_memory(len, PAGE);

    regions[region_count - 1].at = (char *)(uintptr_t)at;
    return here;
}

/* ---- Commands ---- */

static int make(int64_t *words)
{
    unsigned index;

    /* at, len, by, mode, segment */
    if (words[0] || words[1] != -1 || (int32_t)words[2] != 1 || words[3] != 0600)
        return EINVAL;
    index = atomic_fetch_add(&shared->segments, 1) + 1;
    assert_true(index < SEGMENTS);
    shared->owners[index] = getpid();
    words[4] = (int64_t)index << 32 | getpid();
    return 0;
}

static int get(int64_t *words)
{
    /* segment, access and by, mode, permit */
    int64_t index = words[0] >> 32;

    if (index <= 0 || index >= SEGMENTS || shared->owners[index] != (pid_t)words[0])
        return ENOENT;
    if (words[1] != (2 | 1ll << 32))
        return EACCES;
    words[3] = words[0];
    fake->permits++;
    return 0;
}

/* Maps the part of a region that lies in an attachment, short of the gap. The rest is as the module
 * has it: SIGBUS. */
static void show(char *here, uint64_t at, size_t len, unsigned region)
{
    uint64_t from = (uintptr_t)regions[region].at, to = from + regions[region].len, first = from;

    if (fake->gap && fake->gap_at < to)
        to = fake->gap_at > from ? fake->gap_at : from;
    if (first < at)
        first = at;
    if (to > at + len)
        to = at + len;
    if (first < to)
        map(here + (first - at), to - first, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
            regions[region].fd, (off_t)(first - from));
}

static int attach(int64_t *words)
{
    /* permit, at, len, here */
    uint64_t at = (uint64_t)words[1], len = (uint64_t)words[2], top = 1ull << 47;
    int empty;
    char *here;
    int slot = 0;

    if (fake->on_attach)
        fake->on_attach();
    if (at % PAGE || !len || at + len < at || at + len >= top)
        return EINVAL;
    empty = new_file(0);
    here = map(NULL, len, PROT_READ, MAP_SHARED, empty, 0);
    syscall(SYS_close, empty);
    for (unsigned i = 0; i < region_count; i++)
        show(here, at, len, i);
    while (attached[slot].at)
        assert_true(++slot < ATTACHED);
    attached[slot].at = here;
    attached[slot].len = len;
    attached[slot].from = at;
    words[3] = (int64_t)(uintptr_t)here;
    if (++fake->attached > fake->most_attached)
        fake->most_attached = fake->attached;
    return 0;
}

static int detach(const int64_t *words)
{
    for (int i = 0; i < ATTACHED; i++) {
        if (attached[i].at && attached[i].at == (char *)(uintptr_t)words[0]) {
            munmap(attached[i].at, attached[i].len);
            attached[i].at = NULL;
            fake->attached--;
            return 0;
        }
    }
    fake->misuse++;
    return EINVAL;
}

static int command(enum fake_command number, int64_t *words)
{
    if (number >= FAKE_COMMANDS || opened_by != getpid()) {
        fake->misuse++;
        return NOT_MINE;
    }
    fake->calls[number]++;
    if (fake->errs[number])
        return fake->errs[number];
    switch (number) {
    case FAKE_MAKE: return make(words);
    case FAKE_GET: return get(words);
    case FAKE_RELEASE: fake->permits--; return 0;
    case FAKE_ATTACH: return attach(words);
    case FAKE_DETACH: return detach(words);
    default: return 0;
    }
}

/* ---- The library's calls ---- */

#ifdef __GLIBC__
typedef unsigned long ioctl_request;
#else
typedef int ioctl_request;
#endif

int ioctl(int fd, ioctl_request request, ...)
{
    va_list args;
    void *argument;

    va_start(args, request);
    argument = va_arg(args, void *);
    va_end(args);
    if (device < 0 || fd != device)
        return (int)syscall(SYS_ioctl, fd, request, argument);
    /* A request's number is its lowest byte, its device's letter the next. */
    errno = (request >> 8 & 0xff) == 'x' ? command((enum fake_command)(request & 0xff), argument)
                                         : ENOTTY;
    return errno ? -1 : 0;
}

/* The last that an attachment is asked for. */
int madvise(void *at, size_t len, int advice)
{
    for (int i = 0; fake && fake->gap == FAKE_SEGV && i < ATTACHED; i++) {
        uint64_t gap = fake->gap_at - attached[i].from;

        if (attached[i].at == at && gap < len)
            assert_int_equal(
                mprotect(attached[i].at + gap / PAGE * PAGE, len - gap / PAGE * PAGE, PROT_NONE),
                0);
    }
    return (int)syscall(SYS_madvise, at, len, advice);
}

static int open_yama(void)
{
    int fd;

    if (!fake->yama) {
        errno = ENOENT;
        return -1;
    }
    fd = new_file(0);
    assert_int_equal(pwrite(fd, &fake->yama, 1, 0), 1);
    return fd;
}

int open(const char *path, int flags, ...)
{
    mode_t mode;
    va_list args;

    va_start(args, flags);
    mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    if (fake && !strcmp(path, "/proc/sys/kernel/yama/ptrace_scope"))
        return open_yama();
    if (!fake || strcmp(path, "/dev/xpmem"))
        return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    fake->opens++;
    if (!fake->there) {
        errno = ENOENT;
        return -1;
    }
    device = (int)syscall(SYS_openat, AT_FDCWD, "/dev/null", flags, 0);
    opened_by = getpid();
    return device;
}

ssize_t process_vm_readv(pid_t pid, const struct iovec *here, unsigned long here_count,
                         const struct iovec *there, unsigned long there_count, unsigned long flags)
{
    fake_crosses++;
    return syscall(SYS_process_vm_readv, pid, here, here_count, there, there_count, flags);
}
