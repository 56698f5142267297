/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/verbs/verbs_lib.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include <rdma/fi_errno.h>

struct verbs_lib verbs_lib;
struct verbs_cm_lib verbs_cm_lib;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int loaded = -FI_ENODATA;
static char why[200];

struct symbol {
    const char *name;
    void **function;
};

#define X(result, name, parameters) {"ibv_" #name, (void **)(void *)&verbs_lib.name},
static const struct symbol verbs_symbols[] = {VERBS_FUNCTIONS(X)};
#undef X
#define X(result, name, parameters) {"rdma_" #name, (void **)(void *)&verbs_cm_lib.name},
static const struct symbol cm_symbols[] = {RDMACM_FUNCTIONS(X)};
#undef X

/* The library stays loaded: its threads and exit handlers outlive any of our objects. */
static int load_one(const char *file, const struct symbol *symbols, size_t count)
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
    return 0;
}

static void load(void)
{
    loaded = load_one("libibverbs.so.1", verbs_symbols,
                      sizeof(verbs_symbols) / sizeof(verbs_symbols[0]));
    if (!loaded)
        loaded = load_one("librdmacm.so.1", cm_symbols, sizeof(cm_symbols) / sizeof(cm_symbols[0]));
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
