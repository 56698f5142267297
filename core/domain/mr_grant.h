/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requesters that a memory region is for: those with an authorization key, one peer, those that
 * ask the endpoint that the region is bound to. Source: fi_mr(3).
 */
#ifndef WEFT_CORE_DOMAIN_MR_GRANT_H
#define WEFT_CORE_DOMAIN_MR_GRANT_H

#include <rdma/fi_domain.h>

#include "core/base/fid.h"

struct av;

enum {
    MR_KEY_MAX = 16 /* bytes of an authorization key */
};

/* An access, as the part knows its initiator. */
struct mr_requester {
    const struct fid *ep; /* the endpoint here that was asked */
    const void *key;      /* authorization key; NULL: the part has none */
    size_t key_size;
    fi_addr_t source; /* in the endpoint's AV; FI_ADDR_UNSPEC: it is in none */
};

/* The requesters that a region is for. */
struct mr_grant {
    const struct fid *ep; /* of FI_MR_ENDPOINT: that it is bound to; NULL: any */
    struct av *av;        /* held; with FI_AV_AUTH_KEY, or NULL */
    fi_addr_t source; /* of av: an address, or a key; FI_ADDR_UNSPEC: any that av has a key of */
    size_t key_size;  /* without av: 0: any */
    uint8_t key[MR_KEY_MAX];
};

/* By attr->auth_key, in a domain of auth_key_size or of FI_AV_AUTH_KEY; grant->av is not held yet.
 * -FI_EINVAL, -FI_EBADFLAGS, -FI_ENOSYS (the domain has no keys): which has been logged. */
int mr_grant_read(const struct domain *domain, const struct fi_mr_attr *attr, uint64_t flags,
                  struct mr_grant *grant);
bool mr_grant_permits(const struct mr_grant *grant, const struct mr_requester *who);

#endif
