/* SPDX-License-Identifier: BSD-2-Clause */
#include "failing.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

enum {
    SITES_MAX = 4096,
    EACH_SITE = 3
};

struct text {
    uintptr_t base, begin, end;
};

void (*failing_hook)(void);
static enum failing_kind failing;
static unsigned failing_at, counted;
static const char *failed_name;
static int failed_err;
static uintptr_t failed_at;
static _Atomic long live;
static bool started, owns, own_all;
static struct text library, program;
static const unsigned long *own;
static unsigned own_count;
static struct {
    uintptr_t caller;
    unsigned calls;
} sites[SITES_MAX];

/* Of the program, which comes first and has no name, and of the library, where it is one. */
static int find_text(struct dl_phdr_info *info, size_t size, void *opaque)
{
    struct text *text = &library;

    (void)size;
    (void)opaque;
    if (!info->dlpi_name[0] && !program.end)
        text = &program;
    else if (!strstr(info->dlpi_name, "libfabric.so"))
        return 0;
    text->base = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];

        if (header->p_type == PT_LOAD && header->p_flags & PF_X) {
            text->begin = info->dlpi_addr + header->p_vaddr;
            text->end = text->begin + header->p_memsz;
        }
    }
    return 0;
}

void failing_start(enum failing_kind kind, unsigned at)
{
    dl_iterate_phdr(find_text, NULL);
    started = true;
    memset(sites, 0, sizeof sites);
    counted = 0;
    failed_name = NULL;
    failing_at = at;
    failing = kind;
}

unsigned failing_stop(void)
{
    failing = FAILING_NONE;
    return counted;
}

const char *failing_what(int *err, unsigned long *place)
{
    *err = failed_err;
    *place = failed_at;
    return failed_name;
}

long failing_live(void)
{
    return live;
}

void failing_own(const unsigned long *places, unsigned count)
{
    owns = true;
    own_all = !places;
    own = places;
    own_count = count;
}

unsigned failing_places(unsigned long *places, unsigned max)
{
    unsigned count = 0;

    for (unsigned i = 0; i < SITES_MAX && count < max; i++)
        if (sites[i].caller >= program.begin && sites[i].caller < program.end)
            places[count++] = sites[i].caller - program.base;
    return count;
}

static bool within(const struct text *text, uintptr_t caller)
{
    return caller >= text->begin && caller < text->end;
}

static bool is_own(uintptr_t caller)
{
    if (!within(&program, caller) || own_all)
        return own_all && within(&program, caller);
    for (unsigned i = 0; i < own_count; i++)
        if (own[i] == caller - program.base)
            return true;
    return false;
}

bool failing_hit(enum failing_kind kind, uintptr_t caller, const char *name, int err)
{
    unsigned slot = (unsigned)(caller * 2654435761U >> 8) % SITES_MAX;

    if (failing != kind || !(within(&library, caller) || is_own(caller)))
        return false;
    while (sites[slot].caller && sites[slot].caller != caller)
        slot = (slot + 1) % SITES_MAX;
    sites[slot].caller = caller;
    if (sites[slot].calls++ >= EACH_SITE || ++counted != failing_at)
        return false;
    failed_name = name;
    failed_err = err;
    failed_at = caller - (within(&library, caller) ? library.base : program.base);
    if (failing_hook)
        failing_hook();
    errno = err;
    return true;
}

#define CALLER ((uintptr_t)__builtin_return_address(0))

#if FAILING_ALLOCATIONS
#ifdef __SANITIZE_ADDRESS__
#define REAL(name) __interceptor_##name
#define REAL_ALIGNED __interceptor_aligned_alloc

/* A caller that is told of an error ends where it stands, and the compiler keeps nothing for a
 * return that does not come: what the test itself has allocated stays reachable all the same. */
static void keep(const void *ptr, uintptr_t caller)
{
    if (started && !owns && within(&program, caller))
        __lsan_ignore_object(ptr);
}
#else
#ifdef __GLIBC__
#define REAL(name) __libc_##name
#define REAL_ALIGNED __libc_memalign
#else
#define REAL(name) real_##name
#define REAL_ALIGNED real_aligned_alloc
#endif

static void keep(const void *ptr, uintptr_t caller)
{
    (void)ptr;
    (void)caller;
}
#endif
#if defined(__GLIBC__) || defined(__SANITIZE_ADDRESS__)
void *REAL(malloc)(size_t size);
void *REAL(calloc)(size_t count, size_t size);
void *REAL(realloc)(void *ptr, size_t size);
void *REAL_ALIGNED(size_t alignment, size_t size);
void REAL(free)(void *ptr);
#else
/* Without a second name: the definitions behind ours. dlsym allocates nothing there. */
#define BEHIND(name, result, parameters, ...)                                                      \
    static result real_##name parameters                                                           \
    {                                                                                              \
        result(*next) parameters;                                                                  \
                                                                                                   \
        *(void **)&next = dlsym(RTLD_NEXT, #name);                                                 \
        return next(__VA_ARGS__);                                                                  \
    }
BEHIND(malloc, void *, (size_t size), size)
BEHIND(calloc, void *, (size_t count, size_t size), count, size)
BEHIND(realloc, void *, (void *ptr, size_t size), ptr, size)
BEHIND(aligned_alloc, void *, (size_t alignment, size_t size), alignment, size)

static void real_free(void *ptr)
{
    void (*next)(void *);

    *(void **)&next = dlsym(RTLD_NEXT, "free");
    next(ptr);
}
#endif

void *malloc(size_t size)
{
    void *ptr;

    if (failing_hit(FAILING_ALLOCATION, CALLER, "malloc", ENOMEM))
        return NULL;
    ptr = REAL(malloc)(size);
    live += !!ptr;
    keep(ptr, CALLER);
    return ptr;
}

void *calloc(size_t count, size_t size)
{
    void *ptr;

    if (failing_hit(FAILING_ALLOCATION, CALLER, "calloc", ENOMEM))
        return NULL;
    ptr = REAL(calloc)(count, size);
    live += !!ptr;
    keep(ptr, CALLER);
    return ptr;
}

void *realloc(void *old, size_t size)
{
    void *ptr;

    if (failing_hit(FAILING_ALLOCATION, CALLER, "realloc", ENOMEM))
        return NULL;
    ptr = REAL(realloc)(old, size);
    live += ptr && !old;
    keep(ptr, CALLER);
    return ptr;
}

void *aligned_alloc(size_t alignment, size_t size)
{
    void *ptr;

    if (failing_hit(FAILING_ALLOCATION, CALLER, "aligned_alloc", ENOMEM))
        return NULL;
    ptr = REAL_ALIGNED(alignment, size);
    live += !!ptr;
    keep(ptr, CALLER);
    return ptr;
}

static char *copy(const char *text, size_t len, const char *name, uintptr_t caller)
{
    char *ptr =
        failing_hit(FAILING_ALLOCATION, caller, name, ENOMEM) ? NULL : REAL(malloc)(len + 1);

    if (!ptr)
        return NULL;
    memcpy(ptr, text, len);
    ptr[len] = 0;
    live++;
    keep(ptr, caller);
    return ptr;
}

char *strdup(const char *text)
{
    return copy(text, strlen(text), "strdup", CALLER);
}

char *strndup(const char *text, size_t max)
{
    return copy(text, strnlen(text, max), "strndup", CALLER);
}

void free(void *ptr)
{
    live -= !!ptr;
    REAL(free)(ptr);
}
#endif
