/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "context.h"
#include "fault.h"
#include "loop.h"
#include "memory.h"
#include "report.h"
#include "settings.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

enum {
    TAG_BITS = 8,
    REMOTE = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
    KNOWN = IBV_ACCESS_LOCAL_WRITE | REMOTE | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
            IBV_ACCESS_HUGETLB,
};

struct region {
    struct ibv_mr mr;
    uint64_t start; /* what the address of an access is relative to */
    unsigned access;
    void *mapping; /* of a dmabuf, or NULL */
    size_t mapped;
    struct object object;
};

/* Keys are an index and a tag; the tag of an index changes each time it is taken. */
static struct region **table;
static uint32_t table_size;
static uint64_t registered;

static struct region *find(uint32_t key)
{
    uint32_t index = key >> TAG_BITS;

    return index < table_size ? table[index] : NULL;
}

static void *reach(const struct region *region, struct ibv_pd *pd, uint64_t address,
                   uint64_t length, unsigned access)
{
    if (pd_of(region->mr.pd)->base != pd_of(pd)->base || (region->access & access) != access)
        return NULL;
    uint64_t offset = address - region->start;
    if (offset > region->mr.length || length > region->mr.length - offset)
        return NULL;
    return (char *)region->mr.addr + offset;
}

void *memory_local(struct ibv_pd *pd, uint32_t lkey, uint64_t address, uint64_t length,
                   unsigned access)
{
    struct region *region = find(lkey);

    if (!region || region->mr.lkey != lkey)
        return NULL;
    return reach(region, pd, address, length, access);
}

void *memory_remote(struct ibv_pd *pd, uint32_t rkey, uint64_t address, uint64_t length,
                    unsigned access)
{
    struct region *region = find(rkey);

    if (!region || region->mr.rkey != rkey)
        return NULL;
    return reach(region, pd, address, length, access);
}

static bool grow(void)
{
    uint32_t size = table_size ? table_size * 2 : 64;
    struct region **larger = realloc(table, size * sizeof(struct region *));

    if (!larger)
        return false;
    memset(larger + table_size, 0, (size - table_size) * sizeof(struct region *));
    table = larger;
    table_size = size;
    return true;
}

static bool place(struct region *region)
{
    static uint32_t next;

    for (uint32_t i = 0; i < table_size; i++) {
        uint32_t index = (next + i) % table_size;
        if (table[index])
            continue;
        next = index + 1;
        table[index] = region;
        uint32_t tag = settings_random() & 0xff;
        region->mr.handle = index;
        region->mr.lkey = index << TAG_BITS | tag;
        region->mr.rkey = index << TAG_BITS | (tag ^ (1 + settings_random() % 255));
        return true;
    }
    return grow() && place(region);
}

/* As the kernel when it pins the pages: EFAULT where a page is not mapped. */
static int check_mapped(void *address, size_t length)
{
    enum {
        PAGES = 65536
    };
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t at = (uintptr_t)address & ~(page - 1);
    uintptr_t end = (uintptr_t)address + length;
    unsigned char *seen = malloc(PAGES);
    int rc = seen ? 0 : ENOMEM;

    while (!rc && at < end) {
        size_t part = end - at < PAGES * page ? end - at : PAGES * page;
        if (mincore((void *)at, part, seen))
            rc = errno == ENOMEM ? EFAULT : errno;
        at += part;
    }
    free(seen);
    return rc;
}

static int check_registration(void *address, size_t length, unsigned access)
{
    const struct limits *limits = &settings()->limits;

    if (access & IBV_ACCESS_ON_DEMAND)
        return EOPNOTSUPP;
    if (access & ~(unsigned)(KNOWN | IBV_ACCESS_OPTIONAL_RANGE))
        return EINVAL;
    /* The specification: remote writes and atomics need local write. */
    if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
        !(access & IBV_ACCESS_LOCAL_WRITE))
        return EINVAL;
    if (length == 0 || (uintptr_t)address + length < (uintptr_t)address)
        return EINVAL;
    if (object_count("memory region") >= (unsigned)limits->max_mr ||
        registered + length > (uint64_t)limits->max_mr_bytes)
        return ENOMEM;
    int rc = fault_registration();
    return rc ? rc : check_mapped(address, length);
}

static void set_up(struct region *region, struct ibv_pd *pd, void *address, size_t length,
                   uint64_t start, unsigned access)
{
    region->mr.context = pd->context;
    region->mr.pd = pd;
    region->mr.addr = address;
    region->mr.length = length;
    region->start = access & IBV_ACCESS_ZERO_BASED ? 0 : start;
    region->access = access;
    registered += length;
    pd_use(pd, 1);
    object_add(&region->object, "memory region", region->mr.lkey);
}

static struct ibv_mr *reg(struct ibv_pd *pd, void *address, size_t length, uint64_t start,
                          unsigned access)
{
    struct region *region = calloc(1, sizeof(*region));

    loop_lock();
    int rc = context_gone(pd->context) ? EIO : check_registration(address, length, access);
    if (!region || (!rc && !place(region)))
        rc = ENOMEM;
    if (!rc)
        set_up(region, pd, address, length, start, access);
    loop_unlock();
    if (!rc)
        return &region->mr;
    report_why("reg_mr of %zu bytes at %p, access %#x: %s", length, address, access, strerror(rc));
    free(region);
    errno = rc;
    return NULL;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
    return reg(pd, address, length, (uintptr_t)address, (unsigned)access);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *address, size_t length, uint64_t iova,
                               int access)
{
    return reg(pd, address, length, iova, (unsigned)access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t length, uint64_t iova,
                                unsigned access)
{
    return reg(pd, address, length, iova, access);
}

/* Any file that can be mapped stands for a dmabuf: a memfd. */
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
                                 int fd, int access)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), in_page = offset % page;
    size_t mapped = in_page + length;
    void *mapping = mapped < length ? MAP_FAILED
                                    : mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                                           (off_t)(offset - in_page));
    struct ibv_mr *mr;

    if (mapping == MAP_FAILED) {
        errno = mapped < length ? EINVAL : errno;
        report_why("reg_dmabuf_mr of %zu bytes of fd %d: %s", length, fd, strerror(errno));
        return NULL;
    }
    mr = reg(pd, (char *)mapping + in_page, length, iova, (unsigned)access);
    if (mr) {
        struct region *region = list_item(mr, struct region, mr);
        region->mapping = mapping;
        region->mapped = mapped;
    } else {
        int err = errno;
        munmap(mapping, mapped);
        errno = err;
    }
    return mr;
}

int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *address, size_t length,
                 int access)
{
    errno = EOPNOTSUPP;
    return IBV_REREG_MR_ERR_INPUT;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    struct region *region = list_item(mr, struct region, mr);

    loop_lock();
    bool known = find(mr->lkey) == region;
    if (known) {
        table[mr->handle] = NULL;
        registered -= mr->length;
        pd_use(mr->pd, -1);
        object_remove(&region->object);
    }
    loop_unlock();
    if (!known) {
        report_say("dereg_mr of a region that is not registered");
        return EINVAL;
    }
    if (region->mapping)
        munmap(region->mapping, region->mapped);
    free(region);
    return 0;
}
