/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/net/tclass.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include <rdma/fabric.h>

#include "core/base/log.h"

enum {
    DSCP_LE = 1, /* lower effort */
    DSCP_AF11 = 10,
    DSCP_AF21 = 18,
    DSCP_AF31 = 26,
    DSCP_CS6 = 48,
    DSCP_MAX = 63,
};

unsigned tclass_dscp(uint32_t tclass)
{
    if (tclass & FI_TC_DSCP)
        return fi_tc_dscp_get(tclass) & DSCP_MAX;
    switch (tclass) {
    case FI_TC_LOW_LATENCY: return DSCP_AF21;
    case FI_TC_DEDICATED_ACCESS: return DSCP_AF31;
    case FI_TC_BULK_DATA: return DSCP_AF11;
    case FI_TC_SCAVENGER: return DSCP_LE;
    case FI_TC_NETWORK_CTRL: return DSCP_CS6;
    default: return 0;
    }
}

void tclass_set(const char *part, int fd, uint32_t tclass)
{
    struct sockaddr_storage addr = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof(addr);
    int tos = (int)tclass_dscp(tclass) << 2, rc;

    if (tclass == FI_TC_UNSPEC)
        return;
    getsockname(fd, (struct sockaddr *)&addr, &len);
    rc = addr.ss_family == AF_INET6 ? setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &tos, sizeof(tos))
                                    : setsockopt(fd, IPPROTO_IP, IP_TOS, &tos, sizeof(tos));
    if (rc)
        LOG_INFO(part, FI_LOG_EP_CTRL, "traffic class 0x%x: %s", tclass, strerror(errno));
}
