/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "loop.h"
#include "multicast.h"
#include "rc.h"
#include "report.h"

struct membership {
    struct list link; /* of all of this process */
    struct list of_qp;
    struct qp *qp;
    union ibv_gid gid;
};

static struct list members = {&members, &members};

/* ff..., or an IPv4 address 224.0.0.0/4 as a GID. */
static bool is_group(const union ibv_gid *gid)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

    return gid->raw[0] == 0xff ||
           (memcmp(gid->raw, mapped, sizeof(mapped)) == 0 && gid->raw[12] >> 4 == 14);
}

static struct membership *find(const struct qp *qp, const union ibv_gid *gid)
{
    list_for_each (link, &qp->groups) {
        struct membership *member = list_item(link, struct membership, of_qp);
        if (memcmp(&member->gid, gid, sizeof(*gid)) == 0)
            return member;
    }
    return NULL;
}

int ibv_attach_mcast(struct ibv_qp *public, const union ibv_gid *gid, uint16_t lid)
{
    struct qp *qp = qp_of(public);
    struct membership *member = calloc(1, sizeof(*member));

    if (!member)
        return ENOMEM;
    loop_lock();
    bool valid = public->qp_type == IBV_QPT_UD && is_group(gid);
    if (!valid || find(qp, gid)) {
        loop_unlock();
        free(member);
        return valid ? 0 : EINVAL;
    }
    member->qp = qp;
    member->gid = *gid;
    list_attach(&member->link, &members);
    list_attach(&member->of_qp, &qp->groups);
    loop_unlock();
    return 0;
}

int ibv_detach_mcast(struct ibv_qp *public, const union ibv_gid *gid, uint16_t lid)
{
    loop_lock();
    struct membership *member = find(qp_of(public), gid);
    if (member) {
        list_detach(&member->link);
        list_detach(&member->of_qp);
    }
    loop_unlock();
    free(member);
    return member ? 0 : EINVAL;
}

void multicast_receive(const struct wire_packet *packet, const void *payload)
{
    list_for_each (link, &members) {
        struct membership *member = list_item(link, struct membership, link);
        if (memcmp(&member->gid, packet->target_gid, 16) == 0 &&
            member->qp->ex.qp_base.qp_num != packet->source_qpn)
            datagram_receive(member->qp, packet, payload);
    }
}
