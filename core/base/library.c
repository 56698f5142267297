/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/base/library.h"

#include <dlfcn.h>
#include <stdio.h>

#include <rdma/fi_errno.h>

int library_load(const char *file, const struct library_symbol *symbols, size_t count,
                 const struct library_symbol *newer, size_t newer_count, char *why)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);

    if (!library) {
        snprintf(why, LIBRARY_WHY, "%s cannot be loaded: %s", file, dlerror());
        return -FI_ENODATA;
    }
    for (size_t i = 0; i < count; i++) {
        *symbols[i].function = dlsym(library, symbols[i].name);
        if (*symbols[i].function)
            continue;
        snprintf(why, LIBRARY_WHY, "%s has no %s: it is too old", file, symbols[i].name);
        dlclose(library);
        return -FI_ENODATA;
    }
    for (size_t i = 0; i < newer_count; i++)
        *newer[i].function = dlsym(library, newer[i].name);
    return 0;
}
