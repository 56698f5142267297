/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/base/identity.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long rank_of(const char *variable)
{
    const char *text = getenv(variable);
    char *end;
    long rank;

    if (!text || *text < '0' || *text > '9')
        return -1;
    errno = 0;
    rank = strtol(text, &end, 10);
    return *end || errno || rank > INT_MAX ? -1 : rank;
}

void identity_read(struct identity *identity)
{
    static const char *const variables[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
                                            "SLURM_PROCID"};

    memset(identity, 0, sizeof(*identity));
    snprintf(identity->program, sizeof(identity->program), "%s", program_invocation_short_name);
    gethostname(identity->host, sizeof(identity->host) - 1);
    identity->pid = (int)getpid();
    identity->rank = -1;
    for (size_t i = 0; i < sizeof(variables) / sizeof(*variables) && identity->rank < 0; i++)
        identity->rank = rank_of(variables[i]);
}
