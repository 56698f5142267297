/* SPDX-License-Identifier: BSD-2-Clause */
/* Passive endpoints: listening sockets, connection requests, reject. */
#ifndef WEFT_TCP_PEP_H
#define WEFT_TCP_PEP_H

#include "core/ep/passive.h"
#include "transports/tcp/tcp_cm.h"
#include "transports/tcp/tcp_fabric.h"

struct tcp_pep {
    struct passive base;
    struct tcp_fabric *fabric;
    struct tcp_cm *cm; /* of base.eq; NULL until bound; set with the fabric's cms_mutex */
    struct tcp_cm_item item;
    struct list resting;  /* in cm->resting while it does not accept */
    union addr src, name; /* where it listens; how peers reach it, once bound */
    int fd;
    int backlog;
    bool bound, listening;
};

int tcp_pep_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
                 void *context);

#endif
