/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * EFA devices: one work request of a queue pair for each operation, of SRD (reliable packets,
 * remote memory) or of UD (datagrams). The libraries are loaded when a device is looked for;
 * nothing is linked. docs/design/efa.md has the whole.
 *
 *   efa_lib     functions of libefa; the devices   efa_info    infos
 *   efa_domain  protection domains                 efa_mr      regions
 *   efa_handle  address handles                    efa_av      addresses
 *   efa_name    addresses as text                  efa_qp      queue pairs and their queues
 *   efa_ep      endpoints                          efa_post    operations
 *   efa_cq      completions                        efa_inject  memory for injected writes
 *   efa_chain   requests, several at once          efa_quick   the usual message
 *   efa_burst   a layer's messages, several at once
 *   efa_option  options of endpoints               efa_ops     tables of fi_open_ops
 *   efa_cntr    counters of the device
 */
#ifndef WEFT_EFA_EFA_H
#define WEFT_EFA_EFA_H

#include <infiniband/efadv.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/av/av.h"
#include "core/av/peer_map.h"
#include "core/base/hash.h"
#include "core/base/pool.h"
#include "core/domain/plain_fabric.h"
#include "core/ep/endpoint.h"
#include "core/net/verbs_lib.h"
#include "core/part/part.h"
#include "core/progress/progress.h"
#include "transports/efa/efa_name.h"

/* X(result, name, parameters), without efadv_. */
#define EFA_DIRECT(X)                                                                              \
    X(int, query_device, (struct ibv_context *, struct efadv_device_attr *, uint32_t))             \
    X(int, query_ah, (struct ibv_ah *, struct efadv_ah_attr *, uint32_t))                          \
    X(struct ibv_qp *, create_qp_ex,                                                               \
      (struct ibv_context *, struct ibv_qp_init_attr_ex *, struct efadv_qp_init_attr *, uint32_t))

/* Newer ones, NULL in a library without. */
#define EFA_NEWER(X)                                                                               \
    X(int, query_mr, (struct ibv_mr *, void *, uint32_t))                                          \
    X(struct ibv_comp_cntr *, create_comp_cntr,                                                    \
      (struct ibv_context *, void *, const void *, uint32_t))                                      \
    X(struct ibv_cq_ex *, create_cq,                                                               \
      (struct ibv_context *, struct ibv_cq_init_attr_ex *, struct efadv_cq_init_attr *, uint32_t)) \
    X(struct efadv_cq *, cq_from_ibv_cq_ex, (struct ibv_cq_ex *))

struct efa_direct {
    EFA_DIRECT(VERBS_MEMBER)
    EFA_NEWER(VERBS_MEMBER)
};

/* Valid where there is a device. */
extern struct efa_direct efa_direct;

enum {
    EFA_ADDR_SIZE = 32,
    EFA_QUEUE = 1024, /* of queues whose size no info names */
    EFA_SEGMENTS = 2,
    EFA_CHAIN = 16,         /* requests that wait for another one */
    EFA_PREFIX = 40,        /* in front of datagrams: the header that the device writes there */
    EFA_CQ_DATA = 4,        /* bytes */
    EFA_FORMERS = 4,        /* that had the number of a handle before it, which are remembered */
    EFA_NO_HANDLE = 0xffff, /* the number of a sender that the device knows no handle of */
    /* Newer than efadv.h of rdma-core 44. Of device_caps: */
    EFA_CAP_WRITE = 1 << 3,
    EFA_CAP_UNSOLICITED = 1 << 4,
    EFA_CAP_COUNTERS = 1 << 6,
    EFA_CQ_UNSOLICITED = 1 << 1, /* of a queue's wc_flags */
    EFA_QP_UNSOLICITED = 1 << 0, /* of a queue pair's flags */
};

/* As newer releases of efadv.h have struct efadv_cq. */
struct efa_cq_fields {
    uint64_t comp_mask;
    int (*read_sgid)(struct efadv_cq *cq, union ibv_gid *sgid);
    bool (*is_unsolicited)(struct efadv_cq *cq);
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

/* Does it read and write remote memory? */
static inline bool efa_device_accesses(const struct efa_device *device)
{
    const uint32_t both = EFADV_DEVICE_ATTR_CAPS_RDMA_READ | EFA_CAP_WRITE;

    return (device->efa.device_caps & both) == both && device->efa.max_rdma_size;
}

/* Does it tell of data of writes without taking a receive? */
static inline bool efa_device_tells(const struct efa_device *device)
{
    return device->efa.device_caps & EFA_CAP_UNSOLICITED && efa_direct.create_cq &&
           efa_direct.cq_from_ibv_cq_ex;
}

struct efa_fabric {
    struct plain_fabric plain;
    bool direct; /* efa-direct */
    struct fi_ops fid_ops;
};

struct efa_domain {
    struct domain base;
    struct efa_device *device;
    struct ibv_pd *pd;
    pthread_mutex_t mutex; /* of handles; a leaf */
    struct efa_handle *by_gid;
    struct efa_number *by_number;
    size_t number_count;
    struct list recent;     /* those: the one that was let go longest ago is first */
    size_t made, made_most; /* how many the device has; 0: no limit of ours */
    atomic_bool pressed;    /* it had no room for one: endpoints let go of theirs when they can */
    atomic_uint changes;    /* counts those of addresses and handles, for what endpoints remember */
    struct av_kind kind;
};

/* The device's number of a handle. Completions that an endpoint has not read yet may have it for a
 * former one. */
struct efa_number {
    struct efa_handle *handle;       /* NULL: none has it */
    uint8_t former[EFA_FORMERS][16]; /* GIDs of those that had it before, the last one first */
    unsigned until[EFA_FORMERS];     /* domain->changes as each lost it */
};

/* An address handle, of all addresses with its GID. Guarded by the domain's mutex. */
struct efa_handle {
    uint8_t gid[16];
    UT_hash_handle hh;
    struct list link;  /* in recent */
    struct ibv_ah *ah; /* NULL: the device has none of it now */
    uint16_t number;   /* EFA_NO_HANDLE then */
    unsigned users;    /* addresses */
    unsigned pins;     /* endpoints that may have sends under way there */
};

/* The handles that an endpoint has pinned, by their numbers. */
struct efa_pins {
    uint64_t *bits;
    size_t words;
    bool any;
};

struct efa_peer;

/* Guarded by its control lock. */
struct efa_av {
    struct av base;
    struct peer_map by_index;
    struct pool peers;
    struct efa_peer **buckets; /* of those found by their numbers; as many as a power of two */
    size_t bucket_count, found_count;
};

/* Where a packet goes. */
struct efa_route {
    struct ibv_ah *ah;
    uint32_t qpn, qkey;
    uint16_t number; /* of the handle */
};

/* The special sides of an operation. */
union efa_wr_state {
    struct {
        int slot;      /* of struct efa_inject, or -1 */
        uint16_t left; /* requests of the device that it is made of, not yet ended */
        bool wanted;
        bool failed; /* its error is reported */
    };
    uint64_t all;
};

/* An operation that the device has. */
struct efa_wr {
    void *context, *buf;
    uint64_t kind; /* as completions have it */
    union efa_wr_state state;
};

/* Bits of the number of a request without a record, which is its context otherwise. Only endpoints
 * with a struct efa_burst have such requests. */
enum {
    EFA_BARE = 1,
    EFA_BARE_RECV = 2,
    EFA_BARE_BITS = EFA_BARE | EFA_BARE_RECV,
};

/* Can a request with this context do without a record? */
static inline bool efa_is_bare(const void *context)
{
    return !((uintptr_t)context & EFA_BARE_BITS);
}

static inline void *efa_bare_context(uint64_t id)
{
    return (void *)(uintptr_t)(id & ~(uint64_t)EFA_BARE_BITS);
}

/* Nothing: one request, with a completion. */
#define EFA_WR_PLAIN ((union efa_wr_state){{.slot = -1, .left = 1, .wanted = true}})

/* Registered memory of an endpoint with FI_RMA: a slot for each injected write under way. */
struct efa_inject {
    char *memory;
    struct ibv_mr *mr;
    size_t slot_size;
    unsigned *spare; /* slots */
    size_t spare_count;
};

/* Where a request takes its bytes, or brings them. */
struct efa_pieces {
    struct ibv_sge sges[EFA_SEGMENTS];
    size_t count, len;
    bool is_inline;
};

/* A request of the device: one operation, or one segment of an access. */
struct efa_request {
    struct efa_wr *wr;
    struct efa_route route;
    enum ibv_wr_opcode opcode;
    uint32_t data, key;
    uint64_t addr; /* remote */
    struct efa_pieces pieces;
};

/* Posted with FI_MORE: they wait for the one that comes without. */
struct efa_chain {
    size_t count, receive_count;
    struct efa_request requests[EFA_CHAIN];
    struct ibv_recv_wr receives[EFA_CHAIN];
    struct ibv_sge receive_sges[EFA_CHAIN][EFA_SEGMENTS];
    char bytes[]; /* inline_max of each request */
};

/* Of an endpoint below a layer. */
struct efa_burst {
    struct cq_sink *sink;
    struct cq_done done[EFA_CHAIN];
    struct ibv_recv_wr wrs[EFA_CHAIN]; /* each with its sge, and the next */
    struct ibv_sge sges[EFA_CHAIN];
};

struct efa_ep {
    union {
        struct endpoint base;
        struct fid_ep fid; /* base.fid */
    };
    struct efa_domain *domain;
    struct progress *progress; /* once enabled */
    struct progress_source source;
    bool attached, closing;
    size_t max; /* bytes of a message, without a prefix */
    size_t max_rma;
    size_t prefix; /* of datagrams */
    size_t inline_max;
    uint32_t tclass;
    uint8_t rnr_retry;
    struct ibv_comp_channel *channel; /* NULL: the device has none, and sleepers poll */
    struct ibv_cq *cq;
    struct ibv_cq_ex *extended; /* cq, where it tells more of completions; else NULL */
    struct efadv_cq *fields;    /* of it */
    bool unsolicited;           /* data of writes takes no receive */
    bool takes_data;            /* the application posts receives for it (FI_RX_CQ_DATA) */
    struct ibv_qp *qp;
    struct ibv_qp_ex *ex;
    struct efa_addr name;
    struct pool wrs;
    struct efa_inject inject;
    struct efa_chain *chain; /* NULL: FI_MORE was not used yet */
    struct efa_burst *burst; /* or NULL */
    bool is_written;         /* with it: peers' writes may take receives */
    /* The source's poll while nothing is special, where the queue tells more. */
    void (*usual)(struct progress_source *source);
    /* The default flags with which a send is the usual one, and a receive. */
    uint64_t quick_flags, quick_rx_flags;
    struct ibv_recv_wr quick_recv; /* of one segment */
    struct ibv_sge quick_sge;
    size_t sends, receives; /* with the device */
    struct efa_pins pins;
    bool starved;   /* a peer has no handle: all sends end before others get theirs */
    fi_addr_t dest; /* that it sent to last, or FI_ADDR_NOTAVAIL */
    unsigned dest_changes;
    struct efa_route route; /* of it */
    /* domain->changes: none of the completions that are with the device is older than `read`, and
     * with its next empty queue none is older than `reading`. */
    unsigned read, reading;
    unsigned source_changes;
    uint64_t source_numbers; /* of the last packet with a handle's number, and whose it was */
    fi_addr_t source_addr;
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

/* ---- efa_handle.c ---- */

/* Where the device has no room, its part is made when it is pinned. */
int efa_handle_hold(struct efa_domain *domain, const uint8_t *gid, struct efa_handle **handle);
void efa_handle_release(struct efa_domain *domain, struct efa_handle *handle);
/* Of a GID or, where that is NULL, of the device's number; NULL: there is none. */
struct efa_handle *efa_handle_of(struct efa_domain *domain, unsigned number, const uint8_t *gid);
/* One that had the device's number when the domain's changes were more than `since`, the i-th last
 * of EFA_FORMERS; NULL: there is none. */
struct efa_handle *efa_handle_former(struct efa_domain *domain, unsigned number, unsigned i,
                                     unsigned since);
/* The device has it from now on, until the endpoint lets go of all. -FI_EAGAIN: the device has no
 * room, and all that it has is pinned, or not forgotten since; or there is no memory. */
int efa_handle_pin(struct efa_domain *domain, struct efa_handle *handle, struct efa_pins *pins,
                   unsigned since);
void efa_handle_unpin_all(struct efa_domain *domain, struct efa_pins *pins);

static inline bool efa_is_pressed(struct efa_domain *domain)
{
    return __builtin_expect(atomic_load_explicit(&domain->pressed, memory_order_relaxed), 0);
}

/* ---- efa_mr.c ---- */

/* A region; descriptors point to it. */
struct efa_mr {
    struct fid_mr fid;
    struct efa_domain *domain;
    struct ibv_mr *ibv;
    uint32_t lkey;
    bool is_device_memory; /* the CPU does not touch it */
};

extern struct fi_ops_mr efa_mr_table;

/* ---- efa_av.c ---- */

int efa_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av,
                void *context);
/* Can these EFA_ADDR_SIZE bytes be an endpoint's address? */
bool efa_av_usable(const void *raw);
/* The rest of the function below. */
int efa_av_route(struct efa_ep *ep, fi_addr_t addr);
/* The sender of a packet, by the numbers that the device tells, or FI_ADDR_NOTAVAIL. gid: the
 * sender's, where the device knew no handle of it as the packet came; else NULL. Progress domain
 * locked. */
fi_addr_t efa_av_source(struct efa_ep *ep, unsigned number, uint32_t qpn, const uint8_t *gid);

/* The same of a sender whose handle the device knows. */
static inline fi_addr_t efa_source(struct efa_ep *ep, unsigned number, uint32_t qpn)
{
    unsigned changes = atomic_load_explicit(&ep->domain->changes, memory_order_relaxed);
    uint64_t numbers = (uint64_t)number << 32 | qpn;

    if (__builtin_expect(ep->source_numbers == numbers && ep->source_changes == changes, 1))
        return ep->source_addr;
    return efa_av_source(ep, number, qpn, NULL);
}

/* Sets ep->route, where a packet for addr goes. -FI_EINVAL: nothing is inserted there. -FI_EAGAIN:
 * the device has no room for its handle now. Progress domain locked. */
static inline int efa_route(struct efa_ep *ep, fi_addr_t addr)
{
    unsigned changes = atomic_load_explicit(&ep->domain->changes, memory_order_relaxed);

    if (__builtin_expect(ep->dest == addr && ep->dest_changes == changes, 1))
        return 0;
    return efa_av_route(ep, addr);
}

/* ---- efa_qp.c ---- */

/* Queue, channel and queue pair, ready to send; sets name.qpn and name.qkey. A failure leaves
 * nothing. */
int efa_qp_open(struct efa_ep *ep);
void efa_qp_close(struct efa_ep *ep);
/* Does the device say that the bytes of an aligned block of 128 are written in order? Before the
 * endpoint is enabled a queue pair is opened to ask. */
bool efa_qp_is_in_order(struct efa_ep *ep, enum ibv_wr_opcode opcode);

/* ---- efa_inject.c ---- */

int efa_inject_open(struct efa_inject *inject, struct ibv_pd *pd, size_t slots, size_t slot_size);
void efa_inject_close(struct efa_inject *inject);
/* -1: all are in use. */
int efa_inject_take(struct efa_inject *inject);
void efa_inject_give(struct efa_inject *inject, int slot);
char *efa_inject_at(const struct efa_inject *inject, int slot);

/* ---- efa_chain.c: progress domain locked ---- */

/* Posts requests of one operation, or lets them wait while more are to come. All or none: a
 * positive errno, ENOMEM where the device has no room. */
int efa_chain_post(struct efa_ep *ep, const struct efa_request *requests, size_t count, bool more);
int efa_chain_receive(struct efa_ep *ep, struct ibv_recv_wr *receive, bool more);
/* Posts what waits, as far as the device has room. */
void efa_chain_flush(struct efa_ep *ep);
void efa_chain_flush_receives(struct efa_ep *ep);

static inline bool efa_chain_waits(const struct efa_ep *ep)
{
    return ep->chain && (ep->chain->count || ep->chain->receive_count);
}

/* ---- efa_post.c ---- */

ssize_t efa_post(struct ep *base, struct op *op);

/* ---- efa_quick.c ---- */

/* An endpoint has just been enabled: its table of messages. */
void efa_quick_enable(struct efa_ep *ep);
int efa_quick_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                      void *context);

/* ---- efa_burst.c ---- */

/* An endpoint has just been enabled: what it has for a layer above. */
void efa_burst_enable(struct efa_ep *ep);

/* ---- efa_cq.c ---- */

/* How many completions there were; all of them have ended. Progress domain locked. */
int efa_cq_poll(struct efa_ep *ep);
void efa_cq_poll_source(struct progress_source *source);
/* The same, of an endpoint whose queue tells more: it has no chain, nor is it being closed. */
void efa_cq_poll_usual(struct progress_source *source);
/* A poll has found nothing. */
void efa_cq_poll_idle(struct efa_ep *ep);
/* Of a queue that tells more, which shows an entry (ibv_start_poll): that one and those after it.
 */
void efa_cq_poll_started(struct efa_ep *ep);
/* The same behind `count` of ep->burst, which end first. */
void efa_cq_poll_behind(struct efa_ep *ep, size_t count);
/* The entry that such a queue shows is of a peer's write. */
bool efa_cq_is_of_write(const struct efa_ep *ep);
/* The device has refused a request that had been accepted, with a positive errno. */
void efa_cq_refused(struct efa_ep *ep, struct efa_wr *wr, int err);

/* ---- efa_cntr.c ---- */

/* Why there are no counters of the device; NULL: there are. */
const char *efa_cntr_lacking(const struct efa_domain *domain);
/* places: a struct fi_efa_comp_cntr_init_attr, which is efadv.h's too. */
int efa_cntr_open(struct efa_domain *domain, const struct fi_cntr_attr *attr, const void *places,
                  size_t places_size, struct fid_cntr **cntr, void *context);
/* The endpoint's queue pair, which is not ready yet, is counted by those that are bound. */
int efa_cntr_attach(struct efa_ep *ep);

/* ---- efa_option.c ---- */

extern const struct endpoint_option efa_options[];

/* ---- efa_ops.c ---- */

/* Control of every object that functions of the tables take. */
int efa_ops_own(struct fid *fid, int command, void *arg);
int efa_ops_open_domain(struct fid *fid, const char *name, uint64_t flags, void **ops,
                        void *context);
int efa_ops_open_fabric(struct fid *fid, const char *name, uint64_t flags, void **ops,
                        void *context);

/* ---- efa_ep.c ---- */

int efa_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);

static inline const struct params *efa_params(const struct efa_domain *domain)
{
    return object_of(domain->base.fabric, struct plain_fabric, base)->params;
}

static inline bool efa_is_direct(const struct fi_fabric_attr *attr)
{
    return attr && attr->name && !strcmp(attr->name, "efa-direct");
}

static inline struct efa_domain *efa_domain_of(struct fid_domain *fid)
{
    return object_of(fid, struct efa_domain, base.fid);
}

#endif
