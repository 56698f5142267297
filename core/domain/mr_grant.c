/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/domain/mr_grant.h"

#include <string.h>

#include <rdma/fi_errno.h>

#include "core/av/av.h"
#include "core/base/log.h"

static int grant_by_av(const struct domain *domain, const struct fi_mr_attr *attr, uint64_t flags,
                       struct mr_grant *grant)
{
    struct fi_mr_auth_key asked = {NULL, FI_ADDR_UNSPEC};
    const struct av_key *key;

    if (attr->auth_key_size == sizeof(asked) && attr->auth_key)
        memcpy(&asked, attr->auth_key, sizeof(asked));
    if (!asked.av) {
        LOG_WARN(domain->fabric->part, FI_LOG_MR,
                 "memory registration: a domain of FI_AV_AUTH_KEY needs a struct fi_mr_auth_key");
        return -FI_EINVAL;
    }
    grant->av = object_of(asked.av, struct av, fid);
    grant->source = asked.src_addr;
    key = av_key_of(grant->av, asked.src_addr);
    if (grant->av->domain == domain && (asked.src_addr == FI_ADDR_UNSPEC || key) &&
        (!(flags & FI_AUTH_KEY) || (key && key->addr == asked.src_addr)))
        return 0;
    grant->av = NULL;
    LOG_WARN(domain->fabric->part, FI_LOG_MR,
             "memory registration: the source is no address of the AV%s",
             flags & FI_AUTH_KEY ? ", or no key" : "");
    return -FI_EINVAL;
}

/* The domain's key holds where there is none of the region's own, and parts know that. */
int mr_grant_read(const struct domain *domain, const struct fi_mr_attr *attr, uint64_t flags,
                  struct mr_grant *grant)
{
    if (FI_VERSION_LT(domain->fabric->api_version, FI_VERSION(1, 5)))
        return 0;
    if (domain->info->domain_attr->auth_key_size == FI_AV_AUTH_KEY)
        return grant_by_av(domain, attr, flags, grant);
    if (flags & FI_AUTH_KEY)
        return -FI_EBADFLAGS;
    if (!attr->auth_key_size)
        return 0;
    if (attr->auth_key_size != domain->auth_key_size || !attr->auth_key) {
        LOG_WARN(domain->fabric->part, FI_LOG_MR,
                 "memory registration: an authorization key of %zu bytes, %zu are possible",
                 attr->auth_key_size, domain->auth_key_size);
        return domain->auth_key_size ? -FI_EINVAL : -FI_ENOSYS;
    }
    grant->key_size = attr->auth_key_size;
    memcpy(grant->key, attr->auth_key, attr->auth_key_size);
    return 0;
}

static bool permits_by_av(const struct mr_grant *grant, const struct mr_requester *who)
{
    const struct av_key *key = av_key_of(grant->av, grant->source);

    if (grant->source == FI_ADDR_UNSPEC)
        return av_key_find(grant->av, who->key, who->key_size, SIZE_MAX);
    if (!key || key->addr != grant->source)
        return key && who->source == grant->source;
    return key->size == who->key_size && !memcmp(key->bytes, who->key, key->size);
}

bool mr_grant_permits(const struct mr_grant *grant, const struct mr_requester *who)
{
    if (grant->ep && grant->ep != who->ep)
        return false;
    if (grant->av)
        return who->key && permits_by_av(grant, who);
    return !grant->key_size || (who->key && who->key_size == grant->key_size &&
                                !memcmp(grant->key, who->key, grant->key_size));
}
