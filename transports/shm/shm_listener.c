/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/shm/shm_listener.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transports/shm/shm_name.h"

int shm_listener_bind(const char *name, unsigned context, int *listener)
{
    struct sockaddr_un sun;
    socklen_t len = shm_name_socket(name, context, &sun);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -errno;
    if (bind(fd, (struct sockaddr *)&sun, len)) {
        int rc = -errno;

        close(fd);
        return rc;
    }
    if (*listener >= 0)
        close(*listener);
    *listener = fd;
    return 0;
}

bool shm_listener_is_bound(const char *name)
{
    int fd = -1, rc = shm_listener_bind(name, 0, &fd);

    if (fd >= 0)
        close(fd);
    return rc == -EADDRINUSE;
}

int shm_listener_open(char *name, int *listener)
{
    static atomic_uint counter;
    char complete[SHM_NAME_MAX];
    int rc = -EADDRINUSE;

    if (!shm_name_is_open(name))
        return shm_listener_bind(name, 0, listener);
    for (int tries = 0; rc == -EADDRINUSE && tries < 65536; tries++) {
        rc = shm_name_complete(name, atomic_fetch_add(&counter, 1), complete);
        if (!rc)
            rc = shm_listener_bind(complete, 0, listener);
    }
    if (!rc)
        memcpy(name, complete, sizeof(complete));
    return rc;
}
