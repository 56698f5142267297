/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm.h"
#include "context.h"
#include "report.h"

struct group {
    struct list link;
    struct sockaddr_storage address;
    union ibv_gid gid;
    bool attached;
};

static struct group *find(struct cm_id *id, const union ibv_gid *gid)
{
    list_for_each (link, &id->groups) {
        struct group *group = list_item(link, struct group, link);
        if (memcmp(&group->gid, gid, sizeof(*gid)) == 0)
            return group;
    }
    return NULL;
}

static int join(struct cm_id *id, const struct sockaddr *address, void *context)
{
    struct cm_message message = {.is_datagram = 1, .kind = CM_READY, .qpn = 0xffffff};
    struct group *group = calloc(1, sizeof(*group));

    if (!group)
        return ENOMEM;
    if (!id->id.verbs || !device_address_gid(address, &group->gid)) {
        free(group);
        return EINVAL;
    }
    list_attach(&group->link, &id->groups);
    message.qkey = id->qkey;
    memcpy(message.source_gid, &group->gid, 16);
    cm_report(id, RDMA_CM_EVENT_MULTICAST_JOIN, 0, &message);
    return 0;
}

int rdma_join_multicast(struct rdma_cm_id *public, struct sockaddr *address, void *context)
{
    struct cm_id *id = cm_of(public);

    loop_lock();
    int rc = join(id, address, context);
    loop_unlock();
    if (!rc && id->synchronous)
        rc = cm_wait(id, RDMA_CM_EVENT_MULTICAST_JOIN);
    return cm_result(rc);
}

int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr,
                           void *context)
{
    unsigned needed = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;

    if ((attr->comp_mask & needed) != needed || attr->comp_mask & ~needed)
        return cm_result(EINVAL);
    /* An Ethernet has no members that only send. */
    if (attr->join_flags != RDMA_MC_JOIN_FLAG_FULLMEMBER)
        return cm_result(EOPNOTSUPP);
    return rdma_join_multicast(id, attr->addr, context);
}

void cm_enter_group(struct cm_id *id, const struct rdma_ud_param *param)
{
    struct group *group = find(id, &param->ah_attr.grh.dgid);

    if (group && id->id.qp && !group->attached)
        group->attached = ibv_attach_mcast(id->id.qp, &group->gid, 0) == 0;
}

static void leave(struct cm_id *id, struct group *group)
{
    if (group->attached && id->id.qp)
        ibv_detach_mcast(id->id.qp, &group->gid, 0);
    list_detach(&group->link);
    free(group);
}

void cm_leave_groups(struct cm_id *id)
{
    list_for_each_safe (link, after, &id->groups)
        leave(id, list_item(link, struct group, link));
}

int rdma_leave_multicast(struct rdma_cm_id *public, struct sockaddr *address)
{
    struct cm_id *id = cm_of(public);
    union ibv_gid gid;

    if (!device_address_gid(address, &gid))
        return cm_result(EINVAL);
    loop_lock();
    struct group *group = find(id, &gid);
    if (group)
        leave(id, group);
    loop_unlock();
    return cm_result(group ? 0 : EADDRNOTAVAIL);
}
