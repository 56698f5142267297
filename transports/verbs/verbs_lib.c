/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/verbs/verbs_lib.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include <rdma/fi_errno.h>

struct verbs_lib verbs_lib;
struct verbs_cm_lib verbs_cm_lib;

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int loaded = -FI_ENODATA;
static char why[200];

struct symbol {
    const char *name;
    void **function;
};

#define X(result, name, parameters) {"ibv_" #name, (void **)(void *)&verbs_lib.name},
static const struct symbol verbs_symbols[] = {VERBS_FUNCTIONS(X)};
static const struct symbol newer_symbols[] = {VERBS_NEWER(X)};
#undef X
#define X(result, name, parameters) {"rdma_" #name, (void **)(void *)&verbs_cm_lib.name},
static const struct symbol cm_symbols[] = {RDMACM_FUNCTIONS(X)};
#undef X

/* The library stays loaded: its threads and exit handlers outlive any of our objects. */
static int load_one(const char *file, const struct symbol *symbols, size_t count,
                    const struct symbol *newer, size_t newer_count)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);

    if (!library) {
        snprintf(why, sizeof(why), "%s cannot be loaded: %s", file, dlerror());
        return -FI_ENODATA;
    }
    for (size_t i = 0; i < count; i++) {
        *symbols[i].function = dlsym(library, symbols[i].name);
        if (*symbols[i].function)
            continue;
        snprintf(why, sizeof(why), "%s has no %s: it is too old", file, symbols[i].name);
        dlclose(library);
        return -FI_ENODATA;
    }
    for (size_t i = 0; i < newer_count; i++)
        *newer[i].function = dlsym(library, newer[i].name);
    return 0;
}

static void load(void)
{
    loaded = load_one("libibverbs.so.1", verbs_symbols, COUNT(verbs_symbols), newer_symbols,
                      COUNT(newer_symbols));
    if (!loaded)
        loaded = load_one("librdmacm.so.1", cm_symbols, COUNT(cm_symbols), NULL, 0);
}

int verbs_lib_load(const char **reason)
{
    pthread_once(&once, load);
    *reason = why;
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
