/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A part that makes groups of collectives (fi_join_collective) tells the hooks above it about them.
 * They ask by fi_control of the group, which passes through layers like any other command; another
 * library's part knows no such command, and its groups are not known.
 */
#ifndef WEFT_CORE_EP_GROUP_H
#define WEFT_CORE_EP_GROUP_H

#include <stdint.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>

/* Above the commands of fi_control(3), as those of other parts are (rdma/fi_ext.h). */
#define GROUP_TELL (0x6E7 << 16)

/* Fixed from the join on, before that has completed, too. */
struct group_facts {
    uint32_t size, rank;      /* members, and which of them the endpoint is */
    uint32_t common;          /* the same at all members, and likely another for other members */
    const fi_addr_t *members; /* by rank; for as long as the group is open */
};

/* 0, or -FI_ENOSYS where the part below does not tell: facts is as it was. */
static inline int group_ask(struct fid_mc *group, struct group_facts *facts)
{
    return fi_control(&group->fid, GROUP_TELL, facts);
}

#endif
