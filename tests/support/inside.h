/* SPDX-License-Identifier: BSD-2-Clause */
/* Public functions of the static library, for one layout of fi_info, in place of the shared one's:
 * a test that calls them can look inside of what it opens. For one file of a program. */
#ifndef WEFT_TESTS_SUPPORT_INSIDE_H
#define WEFT_TESTS_SUPPORT_INSIDE_H

#include <rdma/fabric.h>

#include "compose/build.h"
#include "compose/getinfo.h"
#include "core/info/abi.h"
#include "core/info/info.h"

int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
               const struct fi_info *hints, struct fi_info **info)
{
    struct fi_info *ours = abi_info_import(hints, ABI_1_9);
    int rc = getinfo_run(version, node, service, flags, ours, ABI_1_9, info);

    if (!rc)
        abi_info_export(*info, ABI_1_9);
    info_free(ours);
    return rc;
}

struct fi_info *fi_dupinfo(const struct fi_info *info)
{
    struct fi_info *copy = abi_info_import(info, ABI_1_9);

    abi_info_export(copy, ABI_1_9);
    return copy;
}

void fi_freeinfo(struct fi_info *info)
{
    abi_info_free(info, ABI_1_9);
}

int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
    return fabric_open(attr, NULL, ABI_1_9, fabric, context);
}

#endif
