/* SPDX-License-Identifier: BSD-2-Clause */
/* tcp(io=uring) in a build without liburing: it says so, and no set ever has a ring. */
#include <assert.h>

#include <rdma/fi_errno.h>

#include "transports/tcp/tcp_uring.h"

void tcp_uring_init(struct tcp_uring *uring)
{
    *uring = (struct tcp_uring){.asked = 0};
    list_init(&uring->member);
    list_init(&uring->flights);
}

int tcp_uring_open(struct tcp_poller *poller, const char **why)
{
    *why = "this library was built without liburing";
    return -FI_ENOSYS;
}

void tcp_uring_close(struct tcp_poller *poller)
{
    assert(0);
}

struct tcp_op *tcp_uring_find(const struct tcp_ep *ep,
                              bool (*is)(const struct tcp_op *op, const void *context),
                              const void *context)
{
    return NULL;
}

int tcp_uring_fd(const struct tcp_poller *poller)
{
    assert(0);
    return -1;
}

int tcp_uring_add(struct tcp_ep *ep)
{
    assert(0);
    return -FI_ENOSYS;
}

void tcp_uring_quiesce(struct tcp_ep *ep, int wait_ms)
{
    assert(0);
}

void tcp_uring_progress(struct tcp_poller *poller)
{
    assert(0);
}

int tcp_uring_trywait(struct tcp_poller *poller)
{
    assert(0);
    return 0;
}

void tcp_uring_send(struct tcp_ep *ep)
{
    assert(0);
}

void tcp_uring_send_all(struct tcp_ep *ep, int wait_ms)
{
    assert(0);
}

void tcp_uring_read_end(struct tcp_ep *ep)
{
    assert(0);
}
