/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/mrail/mrail_policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <rdma/fi_errno.h>

static const struct {
    const char *name;
    enum flow_way way;
} ways[] = {{"fixed", FLOW_FIXED}, {"round-robin", FLOW_TURNS}, {"striping", FLOW_SHORTEST}};

static bool read_way(const char *text, size_t len, enum flow_way *way)
{
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        if (strlen(ways[i].name) == len && !strncasecmp(ways[i].name, text, len)) {
            *way = ways[i].way;
            return true;
        }
    }
    return false;
}

/* "ULONG_MAX" and "-1" are no limit. */
static bool read_size(const char *text, size_t len, uint64_t *size)
{
    if ((len == 9 && !strncasecmp(text, "ULONG_MAX", len)) ||
        (len == 2 && !memcmp(text, "-1", 2))) {
        *size = UINT64_MAX;
        return true;
    }
    *size = 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9' || *size > (UINT64_MAX - 9) / 10)
            return false;
        *size = 10 * *size + (uint64_t)(text[i] - '0');
    }
    return len != 0;
}

static int read_pair(const char *text, size_t len, struct flow_policy *policy, char *why,
                     size_t why_size)
{
    const char *colon = memchr(text, ':', len);
    size_t before = colon ? (size_t)(colon - text) : 0;
    int shown = len < 40 ? (int)len : 40;

    if (!colon || !read_size(text, before, &policy->most)) {
        snprintf(why, why_size, "'%.*s' is no <size>:<policy>", shown, text);
        return -FI_EINVAL;
    }
    if (!read_way(colon + 1, len - before - 1, &policy->way)) {
        snprintf(why, why_size, "'%.*s' has no policy that there is: fixed, round-robin, striping",
                 shown, text);
        return -FI_EINVAL;
    }
    return 0;
}

int mrail_policy_read(const char *text, struct flow_policy policies[MRAIL_POLICIES], size_t *count,
                      char *why, size_t why_size)
{
    *count = 0;
    while (text && *text) {
        size_t len = strcspn(text, ",|");

        if (*count == MRAIL_POLICIES) {
            snprintf(why, why_size, "there are more than %d pairs", MRAIL_POLICIES);
            return -FI_EINVAL;
        }
        if (read_pair(text, len, &policies[*count], why, why_size))
            return -FI_EINVAL;
        if (*count && policies[*count].most <= policies[*count - 1].most) {
            snprintf(why, why_size, "the sizes do not ascend: '%.*s' comes too late",
                     len < 40 ? (int)len : 40, text);
            return -FI_EINVAL;
        }
        ++*count;
        text += len + (text[len] != 0);
    }
    return 0;
}

int mrail_policy_check(const char *text, char *why, size_t why_size)
{
    struct flow_policy policies[MRAIL_POLICIES];
    size_t count;

    return mrail_policy_read(text, policies, &count, why, why_size);
}
