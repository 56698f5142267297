/* SPDX-License-Identifier: BSD-2-Clause */
/* Passive endpoints, and the requests that come by them. */
#ifndef WEFT_VERBS_PEP_H
#define WEFT_VERBS_PEP_H

#include "core/ep/passive.h"
#include "core/net/addr.h"
#include "transports/verbs/verbs_eq.h"

struct verbs_pep;

/* A request that no endpoint has taken yet. The fid is info->handle. */
struct verbs_request {
    struct fid fid;
    struct list link;      /* of all, in the process */
    struct verbs_pep *pep; /* NULL: closed, or taken by an endpoint */
    struct rdma_cm_id *id;
    struct rdma_conn_param param; /* as the peer asked */
};

int verbs_pep_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
                   void *context);

/* Takes the request that handle is. NULL: there is none such. */
struct verbs_request *verbs_request_claim(const struct fid *handle);
/* Rejects it, with what the application says, and forgets it. */
void verbs_request_reject(struct verbs_request *request, const void *data, size_t len);

#endif
