/* SPDX-License-Identifier: BSD-2-Clause */
#include "compose/build.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "compose/candidate.h"
#include "compose/hold.h"
#include "compose/plan.h"
#include "core/base/log.h"
#include "core/info/abi.h"
#include "core/info/info.h"

/* The layout of an application whose fi_fabric_attr names none: the newest. */
static uint32_t version_of(const struct fi_fabric_attr *attr, unsigned abi)
{
    static const uint32_t newest[] = {
        [ABI_1_0] = FI_VERSION(1, 4),
        [ABI_1_1] = FI_VERSION(1, 6),
        [ABI_1_2] = FI_VERSION(1, 8),
        [ABI_1_3] = FI_VERSION(1, 19),
        [ABI_1_7] = FI_VERSION(1, 22),
        [ABI_1_8] = FI_VERSION(2, 4),
        [ABI_1_9] = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
    };

    return attr->api_version ? attr->api_version : newest[abi];
}

/* The first fabric of stack that has this name (NULL: any), as a heap copy of its name. */
static int find_fabric(const struct candidate *candidate, const char *name, char **found)
{
    const struct query query = {.version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION)};
    struct reasons *reasons = reasons_create();
    struct fi_info *hints = info_complete(NULL);
    struct fi_info *infos = NULL;
    int rc = -FI_ENOMEM;

    if (hints && !info_set_string(&hints->fabric_attr->name, name))
        rc = plan_offers(candidate->stack, &query, hints, reasons, &infos);
    if (!rc && !infos) {
        rc = -FI_ENODATA;
        LOG_WARN("core", FI_LOG_FABRIC, "%s has no fabric '%s'%s%s", candidate->name,
                 name ? name : "", reasons_summary(reasons) ? ": " : "",
                 reasons_summary(reasons) ? reasons_summary(reasons) : "");
    }
    if (!rc) {
        *found = infos->fabric_attr->name;
        infos->fabric_attr->name = NULL;
    }
    info_free(infos);
    info_free(hints);
    reasons_destroy(reasons);
    return rc;
}

static int open_candidate(const struct candidate *candidate, const struct fi_fabric_attr *attr,
                          unsigned abi, struct fid_fabric **fabric, void *context)
{
    struct opening opening = {.api_version = version_of(attr, abi)};
    char *name = NULL, *whole;
    int rc = find_fabric(candidate, attr->name, &name);

    if (rc)
        return rc;
    whole = stack_print(candidate->stack);
    opening.name = name;
    opening.whole = whole;
    rc = whole ? stack_open(candidate->stack, &opening, abi, fabric, context) : -FI_ENOMEM;
    free(whole);
    free(name);
    return rc;
}

int fabric_open(const struct fi_fabric_attr *attr, const struct fi_info *info, unsigned abi_level,
                struct fid_fabric **fabric, void *context)
{
    struct environment environment = {0};
    const struct candidate *candidate;
    struct candidates candidates;
    int rc;

    if (!attr->prov_name)
        return -FI_EINVAL;
    environment_read(&environment);
    rc = candidates_make(registry_parts(), &environment, 0, attr->prov_name, NULL, &candidates);
    if (rc)
        return rc;
    candidate = candidates_find(&candidates, attr->prov_name);
    if (candidate) {
        rc = open_candidate(candidate, attr, abi_level, fabric, context);
    } else {
        LOG_WARN("core", FI_LOG_FABRIC, "fi_fabric: there is no provider '%s'", attr->prov_name);
        rc = -FI_ENODEV;
    }
    candidates_finish(&candidates);
    return rc;
}
