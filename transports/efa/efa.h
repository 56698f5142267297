/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reliable packets of EFA devices: one work request of a queue pair of SRD for each operation. The
 * libraries are loaded when a device is looked for; nothing is linked. docs/design/efa.md has the
 * whole.
 *
 *   efa_lib     functions of libefa; the devices   efa_info    what is offered
 *   efa_domain  protection domains, regions, address handles      efa_av      addresses
 *   efa_ep      endpoints
 */
#ifndef WEFT_EFA_EFA_H
#define WEFT_EFA_EFA_H

#include <infiniband/efadv.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/av/av.h"
#include "core/av/peer_map.h"
#include "core/base/hash.h"
#include "core/base/pool.h"
#include "core/domain/plain_fabric.h"
#include "core/ep/endpoint.h"
#include "core/net/verbs_lib.h"
#include "core/part/part.h"
#include "core/progress/progress.h"

/* X(result, name, parameters), without efadv_. */
#define EFA_DIRECT(X)                                                                              \
    X(int, query_device, (struct ibv_context *, struct efadv_device_attr *, uint32_t))             \
    X(int, query_ah, (struct ibv_ah *, struct efadv_ah_attr *, uint32_t))                          \
    X(struct ibv_qp *, create_driver_qp, (struct ibv_pd *, struct ibv_qp_init_attr *, uint32_t))

struct efa_direct {
    EFA_DIRECT(VERBS_MEMBER)
};

/* Valid where there is a device. */
extern struct efa_direct efa_direct;

enum {
    EFA_ADDR_SIZE = 32,
    EFA_QUEUE = 1024, /* of queues whose size no info names */
    EFA_SEGMENTS = 2,
};

/* A raw address, as applications have it. */
struct efa_addr {
    uint8_t gid[16];
    uint16_t qpn, pad;
    uint32_t qkey;
    uint64_t reserved;
};

struct efa_device {
    struct efa_device *next;
    char name[IBV_SYSFS_NAME_MAX];
    struct ibv_context *context;
    struct ibv_device_attr attr;
    struct ibv_port_attr port;
    struct efadv_device_attr efa;
    union ibv_gid gid;
};

struct efa_domain {
    struct domain base;
    struct efa_device *device;
    struct ibv_pd *pd;
    pthread_mutex_t mutex; /* of handles; a leaf */
    struct efa_handle *handles;
    struct av_kind kind;
};

/* An address handle, of all addresses with its GID. */
struct efa_handle {
    uint8_t gid[16];
    UT_hash_handle hh;
    struct ibv_ah *ah;
    uint16_t number;
    unsigned users;
};

struct efa_peer;

/* Guarded by its control lock. */
struct efa_av {
    struct av base;
    struct peer_map by_index;
    struct efa_peer *by_device;
};

/* Where a packet goes. */
struct efa_route {
    struct ibv_ah *ah;
    uint32_t qpn, qkey;
};

/* An operation that the device has. */
struct efa_wr {
    struct efa_ep *ep;
    void *context, *buf;
    bool wanted, receives;
};

struct efa_ep {
    union {
        struct endpoint base;
        struct fid_ep fid; /* base.fid */
    };
    struct efa_domain *domain;
    struct progress *progress; /* once enabled */
    struct progress_source source;
    bool attached;
    size_t max;
    struct ibv_comp_channel *channel; /* NULL: the device has none, and sleepers poll */
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct efa_addr name;
    struct pool wrs;
    size_t sends, receives; /* with the device */
};

/* ---- efa_lib.c ---- */

/* The devices of EFA's of this node; NULL with the reason in reasons, which may be NULL. */
struct efa_device *efa_devices(struct reasons *reasons);
/* NULL: there is none of that name. */
struct efa_device *efa_device_find(const char *name, size_t len);

/* ---- efa_info.c ---- */

int efa_offer(const struct request *req, const struct fi_info *lower, struct fi_info **info);

/* ---- efa_domain.c ---- */

int efa_open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context);
/* NULL, and errno. */
struct efa_handle *efa_handle_hold(struct efa_domain *domain, const uint8_t *gid);
void efa_handle_release(struct efa_domain *domain, struct efa_handle *handle);

/* ---- efa_av.c ---- */

int efa_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av,
                void *context);
/* False: nothing is inserted there. */
bool efa_av_route(struct av *av, fi_addr_t addr, struct efa_route *route);
/* Whose packet it is, by the numbers that the device tells; FI_ADDR_NOTAVAIL. */
fi_addr_t efa_av_source(struct av *av, unsigned handle, uint32_t qpn);

/* ---- efa_ep.c ---- */

int efa_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);

static inline struct efa_domain *efa_domain_of(struct fid_domain *fid)
{
    return object_of(fid, struct efa_domain, base.fid);
}

#endif
