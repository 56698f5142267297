/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Job IDs as authorization keys. An endpoint is of one job, or of all whose keys were in its AV
 * when it was enabled (FI_AV_AUTH_KEY): what is sent has the job of its address, and what comes is
 * taken of these jobs only.
 */
#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "transports/uet/uet.h"

void uet_job_put(uint32_t job, uint8_t key[UET_JOB_SIZE])
{
    key[0] = (uint8_t)(job >> 16);
    key[1] = (uint8_t)(job >> 8);
    key[2] = (uint8_t)job;
}

uint32_t uet_job_get(const uint8_t key[UET_JOB_SIZE])
{
    return (uint32_t)key[0] << 16 | (uint32_t)key[1] << 8 | key[2];
}

static int read_key(const char *what, const uint8_t *key, size_t size, uint32_t *job)
{
    if (!size)
        return 0;
    if (size != UET_JOB_SIZE || !key) {
        LOG_WARN("uet", FI_LOG_DOMAIN,
                 "the authorization key of %s has %zu bytes, not the %d of a "
                 "Job ID",
                 what, size, UET_JOB_SIZE);
        return -FI_EINVAL;
    }
    *job = uet_job_get(key);
    return 0;
}

int uet_job_of(const struct uet_domain *domain, const struct fi_info *info, uint32_t *job)
{
    const struct fi_domain_attr *attr = domain->base.info->domain_attr;
    bool given = attr->auth_key_size || info->ep_attr->auth_key_size;
    int rc;

    *job = domain->fabric->settings.ses.self.job;
    if (!given && !domain->fabric->settings.has_job) {
        log_user("uet: the endpoint has no Job ID: there is no authorization key, no service, no "
                 "'job=', and fallback=no (UET_PROVIDER_FALLBACK_JOBID_SUPPORT)");
        return -FI_EACCES;
    }
    if (FI_VERSION_LT(domain->base.fabric->api_version, FI_VERSION(1, 5)))
        return 0;
    if (attr->auth_key_size == FI_AV_AUTH_KEY)
        return info->ep_attr->auth_key_size ? -FI_EINVAL : 0;
    rc = read_key("the domain", attr->auth_key, attr->auth_key_size, job);
    return rc ? rc
              : read_key("the endpoint", info->ep_attr->auth_key, info->ep_attr->auth_key_size,
                         job);
}

bool uet_job_to(const struct uet_ep *ep, fi_addr_t addr, uint32_t *job)
{
    const struct av_key *key = av_key_of(ep->base.av, addr);

    *job = ep->job;
    if (!key)
        return !ep->base.av->keys;
    *job = uet_job_get(key->bytes);
    return key == av_key_find(ep->base.av, key->bytes, key->size, ep->key_limit);
}

bool uet_admits(void *arg, uint32_t job)
{
    const struct uet_ep *ep = arg;
    uint8_t key[UET_JOB_SIZE];

    if (!ep->base.av->keys)
        return job == ep->job;
    uet_job_put(job, key);
    return av_key_find(ep->base.av, key, sizeof(key), ep->key_limit);
}
