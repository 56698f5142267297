/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/uet/nic/path.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PAYLOAD_MAX = 8192,
    PAYLOAD_MIN = 1024,
};

uint32_t uet_path_longest(int mtu)
{
    for (uint32_t payload = PAYLOAD_MAX; payload >= PAYLOAD_MIN; payload /= 2)
        if (mtu >= (int)(payload + UET_PATH_HEADERS))
            return payload;
    return 0;
}

/* A socket that is connected knows the MTU of its route. */
static int route_mtu(const union addr *from, const union addr *to)
{
    bool v6 = to->sa.sa_family == AF_INET6;
    union addr self = *from;
    int fd = socket(to->sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), mtu = 0;
    socklen_t len = sizeof(mtu);

    if (fd < 0)
        return 0;
    addr_set_port(&self.sa, 0);
    if (bind(fd, &self.sa, addr_size(&self.sa)) || connect(fd, &to->sa, addr_size(&to->sa)) ||
        getsockopt(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_MTU : IP_MTU, &mtu, &len))
        mtu = 0;
    close(fd);
    return mtu;
}

uint32_t uet_path_payload(struct uet_paths *paths, const union addr *from, const union addr *to,
                          uint32_t most, uint32_t otherwise)
{
    union addr host = *to;
    uint32_t payload;
    size_t at;

    addr_set_port(&host.sa, 0);
    at = addr_hash(&host.sa) % UET_PATHS;
    if (paths->slots[at].host.sa.sa_family && addr_equal(&paths->slots[at].host.sa, &host.sa))
        return paths->slots[at].payload;
    payload = uet_path_longest(route_mtu(from, to));
    if (!payload)
        payload = otherwise;
    paths->slots[at].host = host;
    paths->slots[at].payload = payload < most ? payload : most;
    return paths->slots[at].payload;
}
