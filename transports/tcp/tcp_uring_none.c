/* SPDX-License-Identifier: BSD-2-Clause */
/* tcp(io=uring) in a build without liburing: it says so, and no poller ever has a ring. */
#include <rdma/fi_errno.h>

#include "transports/tcp/tcp_uring_io.h"

int tcp_uring_open(struct tcp_poller *poller, const char **why)
{
    *why = "this library was built without liburing";
    return -FI_ENOSYS;
}
