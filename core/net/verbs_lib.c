/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/net/verbs_lib.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include <rdma/fi_errno.h>

struct verbs_lib verbs_lib;

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int loaded = -FI_ENODATA;
static char reason_text[VERBS_WHY];

#define X(result, name, parameters) {"ibv_" #name, (void **)(void *)&verbs_lib.name},
static const struct verbs_symbol needed_symbols[] = {VERBS_FUNCTIONS(X)};
static const struct verbs_symbol newer_symbols[] = {VERBS_NEWER(X)};
#undef X

int verbs_lib_symbols(const char *file, const struct verbs_symbol *symbols, size_t count,
                      const struct verbs_symbol *newer, size_t newer_count, char *why)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);

    if (!library) {
        snprintf(why, VERBS_WHY, "%s cannot be loaded: %s", file, dlerror());
        return -FI_ENODATA;
    }
    for (size_t i = 0; i < count; i++) {
        *symbols[i].function = dlsym(library, symbols[i].name);
        if (*symbols[i].function)
            continue;
        snprintf(why, VERBS_WHY, "%s has no %s: it is too old", file, symbols[i].name);
        dlclose(library);
        return -FI_ENODATA;
    }
    for (size_t i = 0; i < newer_count; i++)
        *newer[i].function = dlsym(library, newer[i].name);
    return 0;
}

static void load(void)
{
    loaded = verbs_lib_symbols("libibverbs.so.1", needed_symbols, COUNT(needed_symbols),
                               newer_symbols, COUNT(newer_symbols), reason_text);
}

int verbs_lib_load(const char **reason)
{
    pthread_once(&once, load);
    *reason = reason_text;
    return loaded;
}

int verbs_error(int rc)
{
    if (!rc)
        return 0;
    if (rc > 0)
        return -rc;
    return errno ? -errno : -FI_EIO;
}
