/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/net/verbs_lib.h"

#include <errno.h>
#include <pthread.h>

#include <rdma/fi_errno.h>

#include "core/base/library.h"

struct verbs_lib verbs_lib;

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int loaded = -FI_ENODATA;
static char reason_text[LIBRARY_WHY];

#define X(result, name, parameters) {"ibv_" #name, (void **)(void *)&verbs_lib.name},
static const struct library_symbol needed_symbols[] = {VERBS_FUNCTIONS(X)};
static const struct library_symbol newer_symbols[] = {VERBS_NEWER(X)};
#undef X

static void load(void)
{
    loaded = library_load("libibverbs.so.1", needed_symbols, COUNT(needed_symbols), newer_symbols,
                          COUNT(newer_symbols), reason_text);
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
