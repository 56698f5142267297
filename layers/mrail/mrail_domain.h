/* SPDX-License-Identifier: BSD-2-Clause */
/* Fabric and domain: a fabric of each rail's below. Queues, counters and regions are core's. */
#ifndef WEFT_LAYERS_MRAIL_MRAIL_DOMAIN_H
#define WEFT_LAYERS_MRAIL_MRAIL_DOMAIN_H

#include "core/av/av.h"
#include "core/layer/join_fabric.h"
#include "layers/mrail/mrail_addr.h"

/*
 * A rail that the domain has. Each endpoint opens a domain of its own on it: a lower may share
 * state among all endpoints of a domain (lnx does), and ours are driven under locks of their own.
 */
struct mrail_rail {
    struct lower *lower;
    size_t slot;
    struct fi_info *info; /* that it is opened with, which it may keep pointers into */
};

struct mrail_domain {
    struct domain base;
    struct join_fabric *fabric;
    size_t count;
    struct mrail_rail rail[MRAIL_RAILS];
    uint16_t kinds[MRAIL_RAILS]; /* mrail_addr_kind */
    size_t addr_size;
    bool reads;          /* the rails read memory of peers */
    bool asks;           /* and one has keys of its own choice: peers are asked for theirs */
    struct av_kind kind; /* of its address vectors */
};

/* Of the part table. */
int mrail_open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context);

/* An address, of `size` bytes: 0 and *addr; -FI_EINVAL: it is none, or of a peer with smaller
 * packets; -FI_EHOSTUNREACH: the peer has no rail of ours. Why is in the log. packet: of ours. */
int mrail_domain_read_addr(const struct mrail_domain *domain, const void *raw, size_t size,
                           struct mrail_addr *addr);

static inline struct mrail_domain *mrail_domain_of(struct fid_domain *fid)
{
    return object_of(fid, struct mrail_domain, base.fid.fid);
}

#endif
