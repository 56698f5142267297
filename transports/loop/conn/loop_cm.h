/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections of loop: passive endpoints, requests, and their ends. A request goes from an endpoint
 * to the port that listens; the endpoint that is opened with its handle answers it. Locks: as
 * transports/loop/loop.h says.
 */
#ifndef WEFT_LOOP_CM_H
#define WEFT_LOOP_CM_H

#include "transports/loop/loop.h"

enum {
    LOOP_CM_DATA = 256 /* bytes of private data */
};

/* A connection request; its fid is info->handle. */
struct loop_request {
    struct fid fid;
    struct list link;
    struct loop_pep *pep;
    struct loop_ep *from; /* NULL: given up */
};

struct loop_pep {
    struct passive base;
    struct loop_port *port;
    bool listening;
};

static inline struct loop_ep *loop_ep_of(struct fid_ep *fid)
{
    return object_of(fid, struct loop_ep, fid);
}

extern struct fi_ops_cm loop_cm_ops;

int loop_pep_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
                  void *context);

/* The source of the fabric that ends connections. -FI_ENOMEM, or what the kernel says. */
int loop_cm_attach(struct loop_fabric *fabric);
void loop_cm_detach(struct loop_fabric *fabric);
/* An endpoint takes the request of info->handle over. -FI_EINVAL. */
int loop_cm_claim(struct loop_ep *ep, const struct fid *handle);
/* The peer has gone and its messages have been received: ends the connection. Progress domain
 * locked. */
void loop_cm_finish(struct loop_ep *ep);
/* The endpoint is being closed: tells the peer, drops requests. Fabric's progress domain locked. */
void loop_cm_close(struct loop_ep *ep);

#endif
