/* SPDX-License-Identifier: BSD-2-Clause */
/* A fabric and a domain that are nothing but their bases, for tests of the objects over them. */
#ifndef WEFT_TESTS_CORE_OBJECTS_H
#define WEFT_TESTS_CORE_OBJECTS_H

#include "core/base/fid.h"
#include "core/info/abi.h"

struct bare {
    struct fabric fabric;
    struct domain domain;
    struct fi_info info;
    struct fi_domain_attr domain_attr;
};

/* Manual progress; elided: no locks. */
static inline void bare_init(struct bare *bare, bool elided)
{
    *bare = (struct bare){0};
    bare->fabric.api_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
    bare->fabric.abi = ABI_1_9;
    bare->fabric.part = "test";
    bare->domain_attr.threading = elided ? FI_THREAD_DOMAIN : FI_THREAD_SAFE;
    bare->domain_attr.control_progress = FI_PROGRESS_CONTROL_UNIFIED;
    bare->domain_attr.data_progress = FI_PROGRESS_MANUAL;
    bare->info.domain_attr = &bare->domain_attr;
    bare->domain.fabric = &bare->fabric;
    bare->domain.info = &bare->info;
    list_init(&bare->domain.reports.list);
}

#endif
