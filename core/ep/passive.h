/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Passive endpoints: the event queue that is bound, private data, and the public tables. A
 * transport embeds struct passive as its first member; listening, names and requests are its own.
 * Source: fi_endpoint(3), fi_cm(3).
 */
#ifndef WEFT_CORE_EP_PASSIVE_H
#define WEFT_CORE_EP_PASSIVE_H

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>

#include "core/base/fid.h"
#include "core/queue/eq.h"

struct passive;

struct passive_ops {
    int (*listen)(struct passive *pep);
    /* handle: of a request's info. paramlen is at most cm_data_size. */
    int (*reject)(struct passive *pep, fid_t handle, const void *param, size_t paramlen);
    int (*setname)(struct passive *pep, void *addr, size_t len);
    int (*getname)(struct passive *pep, void *addr, size_t *len);
    /* eq is to be the queue of its events: the part sets pep->eq, under a lock of its own.
     * -FI_EINVAL where it has one. NULL: the room does. */
    int (*bind_eq)(struct passive *pep, struct eq *eq);
    /* fi_control but FI_BACKLOG with a negative number. NULL: FI_BACKLOG is taken, and all else
     * -FI_ENOSYS. */
    int (*control)(struct passive *pep, int command, void *arg);
    /* fi_setopt of FI_OPT_ENDPOINT. NULL: -FI_ENOPROTOOPT. */
    int (*setopt)(struct passive *pep, int name, const void *value, size_t len);
    /* Of fi_close: gives back what is the part's, calls passive_finish, frees. */
    void (*close)(struct passive *pep);
    size_t cm_data_size; /* bytes of private data in a message */
};

struct passive {
    struct fid_pep fid;
    struct fabric *fabric;
    struct fi_info *info; /* complete, handle NULL; of requests, too */
    struct eq *eq;        /* or NULL: not bound yet */
    const struct passive_ops *ops;
};

/* Of zeroed memory; holds the fabric. -FI_EINVAL for an info that is not FI_EP_MSG, -FI_ENOMEM. */
int passive_init(struct passive *pep, struct fabric *fabric, const struct fi_info *info,
                 const struct passive_ops *ops, void *context);
void passive_finish(struct passive *pep);

/* Of the handle of a request's info: it is accepted or rejected, and never closed by a caller. */
extern struct fi_ops passive_request_ops;

#endif
