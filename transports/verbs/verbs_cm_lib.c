/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/verbs/verbs_cm_lib.h"

#include <pthread.h>

#include <rdma/fi_errno.h>

#include "core/base/library.h"

struct verbs_cm_lib verbs_cm_lib;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int loaded = -FI_ENODATA;
static char why[LIBRARY_WHY];

#define X(result, name, parameters) {"rdma_" #name, (void **)(void *)&verbs_cm_lib.name},
static const struct library_symbol symbols[] = {RDMACM_FUNCTIONS(X)};
#undef X

static void load(void)
{
    loaded =
        library_load("librdmacm.so.1", symbols, sizeof(symbols) / sizeof(symbols[0]), NULL, 0, why);
}

int verbs_cm_lib_load(const char **reason)
{
    int rc = verbs_lib_load(reason);

    if (rc)
        return rc;
    pthread_once(&once, load);
    *reason = why;
    return loaded;
}
