/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/layer/join_fabric.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/part/join_name.h"

static int close_lowers(struct plain_fabric *plain)
{
    struct join_fabric *fabric = object_of(plain, struct join_fabric, plain);

    for (size_t i = fabric->slots; i--;) {
        int rc = fabric->lower[i] ? fabric->lower[i]->close(fabric->lower[i]) : 0;

        if (rc)
            return rc;
        fabric->lower[i] = NULL;
    }
    return 0;
}

/* A bracket that is not written has whatever may be on some machine. */
static void tell_absent(const struct open_args *args, struct join_words *words)
{
    if (args->usual)
        return;
    for (size_t i = 0; i < args->lower_count; i++) {
        if (!args->lowers[i] && !atomic_exchange(&words->told_absent, true))
            log_user("%s goes on without its %s %zu, which has nothing here; fi_info --explain "
                     "says why",
                     words->join, words->branch, i + 1);
    }
}

int join_fabric_open(const struct open_args *args, struct join_words *words,
                     int (*domain)(struct fid_fabric *fabric, struct fi_info *info,
                                   struct fid_domain **domain, void *context),
                     struct fid_fabric **ret_fabric, void *context)
{
    struct join_fabric *fabric;
    struct plain_fabric *plain;
    int rc;

    if (args->lower_count > JOIN_BRANCHES)
        return -FI_EINVAL;
    rc = plain_fabric_create(sizeof(*fabric), args, domain, &plain, context);
    if (rc)
        return rc;
    fabric = object_of(plain, struct join_fabric, plain);
    plain->close_own = close_lowers;
    memcpy(fabric->lower, args->lowers, args->lower_count * sizeof(args->lowers[0]));
    fabric->slots = args->lower_count;
    tell_absent(args, words);
    *ret_fabric = &fabric->base.fid;
    return 0;
}

/* ---- Infos ---- */

static const char *name_of(const struct fi_info *info)
{
    return info->domain_attr->name ? info->domain_attr->name : "";
}

static bool is_same_device(const struct fi_info *a, const struct fi_info *b)
{
    return a && b && a->ep_attr->protocol == b->ep_attr->protocol &&
           a->addr_format == b->addr_format && !strcmp(name_of(a), name_of(b));
}

bool join_has_twin(struct reasons *reasons, const struct join_words *words,
                   const struct fi_info *const *infos, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++) {
            if (!is_same_device(infos[i], infos[j]))
                continue;
            reasons_add(reasons, "%s %zu and %zu are the same device '%s' (same=yes allows it)",
                        words->branches, j + 1, i + 1, name_of(infos[i]));
            return true;
        }
    }
    return false;
}

int join_set_names(struct fi_info *info, const struct fi_info *const *infos, size_t count)
{
    const char *fabrics[JOIN_BRANCHES] = {NULL}, *domains[JOIN_BRANCHES] = {NULL};

    for (size_t i = 0; i < count; i++) {
        fabrics[i] = infos[i] ? infos[i]->fabric_attr->name : NULL;
        domains[i] = infos[i] ? infos[i]->domain_attr->name : NULL;
    }
    free(info->fabric_attr->name);
    free(info->domain_attr->name);
    info->fabric_attr->name = join_name(fabrics, count);
    info->domain_attr->name = join_name(domains, count);
    return info->fabric_attr->name && info->domain_attr->name ? 0 : -FI_ENOMEM;
}

bool join_all_have(const struct request *req, const struct join_words *words,
                   const struct fi_info *const *infos, size_t count)
{
    bool strict = params_bool(req->params, "strict");
    size_t used = 0;

    for (size_t i = 0; i < count; i++)
        used += infos[i] != NULL;
    if (used && used < count && strict)
        reasons_add(req->reasons, "strict: not every %s has something here", words->branch);
    return used && (used == count || !strict);
}
