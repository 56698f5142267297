/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/ep/endpoint_option.h"

#include <string.h>

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "core/base/seam.h"
#include "core/ep/endpoint.h"

static const struct endpoint_option *find(const struct endpoint *ep, int name)
{
    for (const struct endpoint_option *option = ep->ops->options; option && option->name; option++)
        if (option->name == name)
            return option;
    return NULL;
}

/* ---- Reading ---- */

static size_t unexpected(struct endpoint *ep)
{
    size_t count;

    if (!ep->match)
        return 0;
    progress_lock(ep->binding.progress);
    count = match_queued(ep->match);
    progress_unlock(ep->binding.progress);
    return count;
}

static int unexpected_queue(struct endpoint *ep, void *value, size_t *len)
{
    int rc;

    if (!ep->match)
        return match_tell_queued(NULL, value, len);
    progress_lock(ep->binding.progress);
    rc = match_tell_queued(ep->match, value, len);
    progress_unlock(ep->binding.progress);
    return rc;
}

/* The value of an option that is a size_t; false: there is no such option. */
static bool size_of(struct endpoint *ep, int name, size_t *size)
{
    const struct endpoint_option *option = find(ep, name);

    if (option && option->kind == OPTION_SIZE)
        *size = option->size ? option->size(ep) : option->at;
    else if (name == FI_OPT_MIN_MULTI_RECV)
        *size = ep->min_multi_recv;
    else if (name == FI_OPT_TX_SIZE)
        *size = ep->tx_size;
    else if (name == FI_OPT_RX_SIZE)
        *size = ep->rx_size;
    else if (name == OPT_UNEXPECTED)
        *size = unexpected(ep);
    else if (limits_has(name))
        *size = limits_get(&ep->limits, name, ep->ops->limit(ep, name));
    else
        return false;
    return true;
}

int endpoint_getopt(fid_t fid, int level, int name, void *value, size_t *len)
{
    struct endpoint *ep = endpoint_of(fid);
    const struct endpoint_option *option = find(ep, name);
    size_t size, room = *len;

    if (level != FI_OPT_ENDPOINT)
        return -FI_ENOPROTOOPT;
    if (name == OPT_UNEXPECTED_QUEUE)
        return unexpected_queue(ep, value, len);
    if (option && option->answer)
        return option->answer(ep, value, len);
    if (!size_of(ep, name, &size))
        return -FI_ENOPROTOOPT;
    *len = sizeof(size);
    if (room < sizeof(size))
        return -FI_ETOOSMALL;
    memcpy(value, &size, sizeof(size));
    return 0;
}

/* ---- Writing ---- */

static int set_min_multi_recv(struct endpoint *ep, const void *value, size_t len)
{
    if (len != sizeof(size_t))
        return -FI_EINVAL;
    memcpy(&ep->min_multi_recv, value, sizeof(size_t));
    if (!ep->match)
        return 0;
    progress_lock(ep->binding.progress);
    match_set_min_multi_recv(ep->match, ep->min_multi_recv);
    progress_unlock(ep->binding.progress);
    return 0;
}

static int set_option(struct endpoint *ep, const struct endpoint_option *option, const void *value,
                      size_t len)
{
    if (option->kind == OPTION_FUNCTION)
        return option->set(ep, value, len);
    if (option->kind != OPTION_FIELD)
        return -FI_ENOPROTOOPT;
    if (len != sizeof(uint32_t))
        return -FI_EINVAL;
    memcpy((char *)ep + option->at, value, len);
    return 0;
}

int endpoint_setopt(fid_t fid, int level, int name, const void *value, size_t len)
{
    struct endpoint *ep = endpoint_of(fid);
    const struct endpoint_option *option = find(ep, name);

    if (level != FI_OPT_ENDPOINT)
        return -FI_ENOPROTOOPT;
    if (option)
        return set_option(ep, option, value, len);
    if (name == FI_OPT_MIN_MULTI_RECV)
        return set_min_multi_recv(ep, value, len);
    if (name == OPT_MATCH_WATCH)
        return match_watch_option(ep->match, value);
    if (limits_has(name))
        return limits_set(&ep->limits, name, ep->ops->limit(ep, name), ep->enabled, value, len);
    return -FI_ENOPROTOOPT;
}
