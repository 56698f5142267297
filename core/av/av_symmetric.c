/* SPDX-License-Identifier: BSD-2-Clause */
/* Ranges of nodes, counted from the first: addresses, or names that end in a number. */
#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/av/av_impl.h"
#include "core/base/log.h"
#include "core/net/addr.h"

/* The node `step` places after a numeric one. false when it would wrap. */
static bool next_node(const union addr *first, size_t step, union addr *addr)
{
    uint64_t low;
    uint32_t host;

    *addr = *first;
    if (first->sa.sa_family == AF_INET) {
        host = ntohl(first->in.sin_addr.s_addr);
        addr->in.sin_addr.s_addr = htonl(host + (uint32_t)step);
        return step <= UINT32_MAX - host;
    }
    memcpy(&low, &first->in6.sin6_addr.s6_addr[8], 8);
    low = be64toh(low);
    if (step > UINT64_MAX - low)
        return false;
    low = htobe64(low + step);
    memcpy(&addr->in6.sin6_addr.s6_addr[8], &low, 8);
    return true;
}

/* "host09" and step 1 give "host10". -FI_EINVAL without a number at the end. */
static int next_name(const char *node, size_t step, char *name, size_t size)
{
    size_t len = strlen(node), digits = 0;
    unsigned long number;

    while (digits < len && isdigit((unsigned char)node[len - digits - 1]))
        digits++;
    if (step && (!digits || digits > 18))
        return -FI_EINVAL;
    if (!step)
        return snprintf(name, size, "%s", node) < (int)size ? 0 : -FI_EINVAL;
    number = strtoul(node + len - digits, NULL, 10) + step;
    return snprintf(name, size, "%.*s%0*lu", (int)(len - digits), node, (int)digits, number) <
                   (int)size
               ? 0
               : -FI_EINVAL;
}

int av_symmetric_node(const struct av *av, const char *node, const char *service, size_t step,
                      union addr *addr)
{
    union addr first;
    char name[256], why[200];
    size_t count = 1;
    int rc;

    if (!addr_resolve(node, service, FI_NUMERICHOST, av->format, &first, &count, why, sizeof(why)))
        return next_node(&first, step, addr) ? 0 : -FI_EINVAL;
    rc = next_name(node, step, name, sizeof(name));
    if (!rc)
        rc = addr_resolve(name, service, 0, av->format, addr, &count, why, sizeof(why));
    else
        snprintf(why, sizeof(why), "'%s' has no number at its end to count on", node);
    if (rc)
        LOG_WARN(av->domain->fabric->part, FI_LOG_AV, "fi_av_insertsym: %s", why);
    return rc;
}
