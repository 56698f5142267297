/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An event queue with the channel of rdma_cm that its endpoints and passive endpoints report to.
 * Each has a control progress domain of its own, so that its reader touches only its own endpoints.
 * That is locked before any progress domain of a domain.
 */
#ifndef WEFT_VERBS_EQ_H
#define WEFT_VERBS_EQ_H

#include "core/queue/eq.h"
#include "transports/verbs/verbs_fabric.h"
#include "transports/verbs/verbs_cm_lib.h"
#include "transports/verbs/verbs_private.h"

struct verbs_cm_event;

/* At the start of what an id of rdma_cm belongs to: its context. */
struct verbs_cm_user {
    void (*event)(struct verbs_cm_user *user, const struct verbs_cm_event *event);
};

/* One of rdma_cm's, acknowledged already. */
struct verbs_cm_event {
    enum rdma_cm_event_type type;
    int status;
    struct rdma_cm_id *id;        /* of a request: the new one, which the user now owns */
    struct rdma_conn_param param; /* private_data is `data` */
    const uint8_t *data;          /* that the peer's application sent, */
    size_t len;                   /* as private data says */
    bool malformed;               /* it says nonsense */
};

struct verbs_eq {
    struct list link; /* of the fabric */
    struct verbs_fabric *fabric;
    struct eq *eq;
    struct progress *progress;
    struct progress_source source;
    struct rdma_event_channel *channel;
    struct list watches;   /* of devices: verbs_port.c. Locked */
    struct fi_ops ops;     /* of the fid: core's, with a close of our own */
    struct fi_ops *eq_ops; /* core's */
};

int verbs_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
                  void *context);
/* NULL: it is of another fabric. */
struct verbs_eq *verbs_eq_of(struct verbs_fabric *fabric, const struct eq *eq);

/* A CM event with private data; info passes to the reader. -FI_ENOMEM. */
int verbs_eq_write(struct eq *eq, uint32_t type, struct fid *fid, struct fi_info *info,
                   const void *data, size_t len);

#endif
