/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Profiles. HPC can do what AI Full can, and that what AI Base can, so capabilities add up, and two
 * endpoints speak what is in both their addresses.
 */
#include <string.h>

#include "transports/uet/uet.h"

static const struct {
    const char *name;
    uint32_t protocol;
    uint8_t caps;
} profiles[] = {
    {"hpc", FI_PROTO_UET, UET_AI_BASE | UET_AI_FULL | UET_HPC},
    {"ai-full", FI_PROTO_UET_AI_FULL, UET_AI_BASE | UET_AI_FULL},
    {"ai-base", FI_PROTO_UET_AI_BASE, UET_AI_BASE},
};

enum {
    PROFILES = sizeof(profiles) / sizeof(profiles[0])
};

uint8_t uet_profile_caps(const struct params *params)
{
    const char *name = params_string(params, "profile");

    for (size_t i = 0; i < PROFILES; i++)
        if (!strcmp(name, profiles[i].name))
            return profiles[i].caps;
    return 0;
}

uint8_t uet_protocol_caps(uint32_t protocol)
{
    for (size_t i = 0; i < PROFILES; i++)
        if (protocol == profiles[i].protocol)
            return profiles[i].caps;
    return 0;
}

uint32_t uet_protocol_of(uint8_t caps)
{
    for (size_t i = 0; i < PROFILES; i++)
        if (caps == profiles[i].caps)
            return profiles[i].protocol;
    return FI_PROTO_UET;
}

unsigned uet_peer_traits(const struct params *params)
{
    return uet_profile_caps(params) == UET_AI_BASE ? PEER_PACKETS : 0;
}
