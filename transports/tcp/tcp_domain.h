/* SPDX-License-Identifier: BSD-2-Clause */
/* The domain object: memory regions, and the sets of sockets of its progress domains. */
#ifndef WEFT_TCP_DOMAIN_H
#define WEFT_TCP_DOMAIN_H

#include <pthread.h>

#include "core/base/fid.h"
#include "core/base/list.h"
#include "transports/tcp/tcp_fabric.h"

struct tcp_domain {
    struct domain base;
    struct tcp_fabric *fabric;
    pthread_mutex_t mutex; /* of sets; taken with a progress domain locked */
    struct list sets;      /* struct tcp_poller */
};

int tcp_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                    void *context);

#endif
