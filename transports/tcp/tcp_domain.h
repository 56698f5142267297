/* SPDX-License-Identifier: BSD-2-Clause */
/* The domain object: memory regions, and the sets of sockets of its units. */
#ifndef WEFT_TCP_DOMAIN_H
#define WEFT_TCP_DOMAIN_H

#include <pthread.h>

#include "core/fid.h"
#include "core/list.h"
#include "transports/tcp/tcp_fabric.h"

struct tcp_domain {
    struct domain base;
    struct tcp_fabric *fabric;
    pthread_mutex_t mutex; /* of sets; taken with a unit locked */
    struct list sets;      /* struct tcp_set */
};

int tcp_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                    void *context);

#endif
