/* SPDX-License-Identifier: BSD-2-Clause */
/* The variables that choose stacks. */
#include "compose/candidate.h"
#include "core/param/param_env.h"

static void read_rails(struct environment *environment)
{
    const char *name = "FI_OFI_MRAIL_ADDR", *old = "FI_OFI_MRAIL_ADDR_STRC";

    if (!text_is_set(param_variable(name)) && text_is_set(param_variable(old)))
        name = old;
    environment->rails = param_variable(name);
    environment->rails_config = param_variable("FI_OFI_MRAIL_CONFIG");
    param_variable_origin(name, environment->rails_origin, sizeof(environment->rails_origin));
}

void environment_read(struct environment *environment)
{
    environment->provider = param_variable("FI_PROVIDER");
    environment->hook = param_variable("FI_HOOK");
    param_variable_origin("FI_PROVIDER", environment->provider_origin,
                          sizeof(environment->provider_origin));
    param_variable_origin("FI_HOOK", environment->hook_origin, sizeof(environment->hook_origin));
    environment->links = param_variable("FI_LNX_PROV_LINKS");
    environment->links_shm = param_variable("FI_LNX_DISABLE_SHM");
    environment->links_rails = param_variable("FI_LNX_MULTI_RAIL_SELECTION");
    param_variable_origin("FI_LNX_PROV_LINKS", environment->links_origin,
                          sizeof(environment->links_origin));
    read_rails(environment);
}

const char *text_origin_name(const struct environment *environment, enum text_origin origin)
{
    if (origin == TEXT_PROVIDER)
        return *environment->provider_origin ? environment->provider_origin : "FI_PROVIDER";
    if (origin == TEXT_HOOK)
        return *environment->hook_origin ? environment->hook_origin : "FI_HOOK";
    if (origin == TEXT_LINKS)
        return *environment->links_origin ? environment->links_origin : "FI_LNX_PROV_LINKS";
    if (origin == TEXT_RAILS)
        return *environment->rails_origin ? environment->rails_origin : "FI_OFI_MRAIL_ADDR";
    return origin == TEXT_CONFIG ? "FI_OFI_MRAIL_CONFIG" : "prov_name";
}
