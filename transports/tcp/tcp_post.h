/* SPDX-License-Identifier: BSD-2-Clause */
/* What sends, tagged sends, writes and reads have in common when they are posted. */
#ifndef WEFT_TCP_POST_H
#define WEFT_TCP_POST_H

#include "transports/tcp/tcp_ep.h"

/* One operation as the application posts it. */
struct tcp_post {
    struct tcp_wire wire; /* op, tag, iov; the rest is filled in */
    const struct iovec *iov;
    size_t iov_count;
    void *context;
    uint64_t flags; /* final: defaults merged */
    uint64_t data;  /* with FI_REMOTE_CQ_DATA */
    uint64_t done;  /* flags of the completion */
    bool silent;    /* fi_inject: success is not reported */
};

/* Checks, queues, sends what can be sent. 0, -FI_EAGAIN, -FI_ENOTCONN, -FI_EINVAL, -FI_EMSGSIZE.
 * Takes the lock. */
ssize_t tcp_post(struct tcp_ep *ep, struct tcp_post *post);

#endif
