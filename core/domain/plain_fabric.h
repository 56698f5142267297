/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A fabric with parameters and event queues, all of which have one progress domain: of parts whose
 * connections, if any, report there. Part's objects begin with it.
 */
#ifndef WEFT_CORE_DOMAIN_PLAIN_FABRIC_H
#define WEFT_CORE_DOMAIN_PLAIN_FABRIC_H

#include "core/domain/base.h"

struct params;
struct progress;

struct plain_fabric {
    struct fabric base;
    struct progress *control; /* of event queues */
    struct params *params;
    struct fi_ops_fabric ops; /* the part may set passive_ep, which answers -FI_ENOSYS */
    /* Closes the part's own state; NULL: nothing. Its error refuses fi_close, which may come
     * again. */
    int (*close_own)(struct plain_fabric *fabric);
};

/* Zeroed memory of `size` bytes for the part's object; domain: its entry of the table. Takes over
 * args->params. -FI_ENOMEM. */
int plain_fabric_create(size_t size, const struct open_args *args,
                        int (*domain)(struct fid_fabric *fabric, struct fi_info *info,
                                      struct fid_domain **domain, void *context),
                        struct plain_fabric **fabric, void *context);
/* Of one whose opening failed later: its parameters are the caller's again. */
void plain_fabric_discard(struct plain_fabric *fabric);

#endif
