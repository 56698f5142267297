/* SPDX-License-Identifier: BSD-2-Clause */
/* Options of endpoints. */
#include <string.h>

#include <rdma/fi_errno.h>

#include "transports/uet/uet.h"

/* There are sockets only. */
static int set_shared_memory(struct endpoint *base, const void *value, size_t len)
{
    return len == sizeof(bool) ? 0 : -FI_EINVAL;
}

static int change(struct uet_ep *ep, uint32_t value)
{
    bool disables = value == FI_UET_DISABLED;

    if (value > FI_UET_DISABLED)
        return -FI_EINVAL;
    if (disables && !ep->ses)
        return -FI_EOPBADSTATE;
    if (ep->disabled && !disables && value && value == ep->self.generation)
        return -FI_EINVAL;
    ep->disabled = disables;
    if (!disables)
        ep->self.generation = (uint8_t)value;
    if (ep->ses)
        ses_set_generation(ep->ses, ep->self.generation, disables);
    return 0;
}

static int set_generation(struct endpoint *base, const void *value, size_t len)
{
    uint32_t generation;
    int rc;

    if (len != sizeof(generation))
        return -FI_EINVAL;
    memcpy(&generation, value, len);
    if (!base->enabled)
        return change(uet_ep_of(base), generation);
    progress_lock(base->binding.progress);
    rc = change(uet_ep_of(base), generation);
    progress_unlock(base->binding.progress);
    return rc;
}

static int tell_generation(struct endpoint *base, void *value, size_t *len)
{
    const struct uet_ep *ep = uet_ep_of(base);
    uint32_t generation = ep->disabled ? FI_UET_DISABLED : ep->self.generation;
    bool fits = *len >= sizeof(generation);

    *len = sizeof(generation);
    if (!fits)
        return -FI_ETOOSMALL;
    memcpy(value, &generation, sizeof(generation));
    return 0;
}

const struct endpoint_option uet_options[] = {
    {.name = FI_OPT_SHARED_MEMORY_PERMITTED, .kind = OPTION_FUNCTION, .set = set_shared_memory},
    {.name = FI_OPT_UET_GENERATION,
     .kind = OPTION_FUNCTION,
     .set = set_generation,
     .answer = tell_generation},
    {.name = 0},
};
