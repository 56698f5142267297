/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside of uet: the provider, which joins the rooms wire, pds, ses and nic. An endpoint has one
 * NIC (a socket) and one SES; the progress domain of its queues guards both.
 */
#ifndef WEFT_UET_UET_H
#define WEFT_UET_UET_H

#include <pthread.h>
#include <stdatomic.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_ext_uet.h>

#include "core/base/pool.h"
#include "core/domain/mr.h"
#include "core/domain/plain_fabric.h"
#include "core/ep/endpoint.h"
#include "core/part/part.h"
#include "core/progress/wake_timer.h"
#include "transports/uet/nic/nic.h"
#include "transports/uet/nic/path.h"
#include "transports/uet/nic/steer.h"
#include "transports/uet/service.h"
#include "transports/uet/ses/ses.h"
#include "transports/uet/wire/address.h"

enum {
    UET_GONE = 16,       /* addresses that an endpoint leaves one by one */
    UET_SIZE = 1024,     /* tx_size, unless less is asked */
    UET_RX_SIZE = 65536, /* rx_size: programs post receives by the thousand before they send */
    UET_INJECT = 256,    /* bytes */
    UET_IOV = SES_IOV,
    UET_MIN_MULTI_RECV = 16384,
    UET_INDEX = 15,          /* of resources: the only one that an endpoint has */
    UET_COMPARE_LENGTH = 32, /* of a compare request: its two operands, in the header */
    UET_COMPARE_MAX = 64,    /* elements: each is a request */
    UET_RMA = 4,             /* places of remote memory: the same */
    UET_JOB_SIZE = 3,        /* bytes of an authorization key: a Job ID, big-endian */
    UET_JOBS = 64,           /* keys of an endpoint */
};

/* Longer messages do not fit the length field. */
#define UET_MESSAGE_MAX ((size_t)UINT32_MAX)

struct uet_settings {
    struct ses_settings ses; /* but for mtu and the initiator */
    struct uet_nic_settings nic;
    size_t rendezvous[2]; /* longer messages without and with a tag are read by their receiver */
    size_t eager;         /* but for the first bytes of them */
    uint64_t burst_wait;  /* ns: a poll so soon after a post may be what the post waits for */
    uint32_t payload;     /* 0: what the interface's MTU leaves */
    uint32_t initiator;
    bool brief;     /* small and medium headers, to and from peers that take them */
    bool optimized; /* keys that the provider chooses are of the short kind */
    bool has_job;   /* of the user's, or of a service; or the default will do */
};

struct uet_fabric {
    union {
        struct plain_fabric plain;
        struct fabric base; /* plain.base */
    };
    struct uet_settings settings;
    struct pcap *pcap; /* NULL: no tap */
};

struct uet_domain {
    struct domain base;
    struct uet_fabric *fabric;
    struct uet_address src; /* of the info: for endpoints whose info has none, but for its port */
    uint32_t payload;       /* of packets from there; where it is unknown, the most that there is */
};

/*
 * An operation that was accepted. Most are one request of SES. One with several places of remote
 * memory, or with several elements to compare, is one request for each, one after the other, and
 * what was posted behind it waits, as it does behind a fence.
 */
struct uet_op {
    struct ses_op ses;
    struct list link; /* of those that wait, or are gathered */
    void *context;
    uint64_t kind;
    uint64_t tag; /* of a tagged message */
    bool wanted;  /* its success is reported */
    bool brief;   /* a short message, copied, whose success may be reported before its end: */
    bool early;   /* it was reported */
    bool fence;
    bool repeats;       /* it may be carried out more than once, where a key says that, too */
    uint8_t mode;       /* enum pds_mode: of other requests */
    uint8_t flags;      /* SES_DC, SES_HD: of the last request */
    uint32_t at, parts; /* requests that were started, and all of them */
    size_t done;        /* bytes of those before */
    size_t unit;        /* of an atomic's element */
    uint8_t iov_count, compare_count, result_count;
    /* Of these a new operation has as many as the counts say. */
    struct iovec iov[UET_IOV], compare[UET_IOV], result[UET_IOV];
    struct fi_rma_iov rma[UET_RMA]; /* len in bytes */
    uint8_t inject[UET_INJECT];
};

/* A message without a receive, as the owner of the receives knows it. */
struct uet_kept {
    struct list link;
    struct uet_ep *ep; /* NULL: closed */
    struct ses_inbound *inbound;
};

struct uet_ep {
    union {
        struct endpoint base;
        struct fid_ep fid; /* base.fid */
    };
    struct uet_domain *domain;
    struct uet_nic *nic;
    struct ses *ses;
    struct uet_address self;
    uint8_t caps;           /* enum uet_capability: of its profile */
    uint32_t mtu;           /* payload of packets through the own interface */
    uint32_t most;          /* of those that may come, whichever way */
    struct uet_paths paths; /* payload to each host */
    uint64_t now;           /* of what was read last */
    unsigned polls;         /* since PDS ran, that took packets */
    uint64_t sleeps_until;  /* a waiter sleeps so long, where nothing comes; 0: none does */
    uint64_t orders;        /* that are kept, by ordered PDCs */
    uint32_t tclass;        /* FI_TC_UNSPEC: packets have the DSCP of the parameter */
    bool datagrams;         /* FI_EP_DGRAM */
    bool fork_told;         /* a child of its process has posted, and the log says so */
    bool packets;           /* of an upper's: a send ends when its peer has it */
    bool attached, closing;
    bool disabled; /* its generation takes nothing new */
    bool knows_sources, source_err;
    uint32_t job;                  /* where the AV has no keys; else: */
    size_t key_limit;              /* those of its AV with numbers below it are the endpoint's */
    struct progress_source source; /* its fd, an epoll fd, holds the sockets while one may sleep: */
    int socket_fd, hot_fd;         /* the NIC's, and once there is one the hot peer's */
    bool watched;                  /* they are in it */
    unsigned looks;                /* of progress_may_disarm */
    struct wake_timer timer;
    struct pool ops;
    size_t used;          /* operations that were accepted */
    size_t started;       /* of these, that SES has */
    size_t owed;          /* and of these, that the application takes for done */
    struct list waiting;  /* struct uet_op: fenced, or behind such */
    struct list gathered; /* struct uet_op: reported when their packets have left */
    bool gathers;         /* another post follows, or is likely to */
    struct {
        unsigned posts; /* since the last poll */
        unsigned kept;  /* the last so many times a poll followed several posts at once */
        uint64_t last;  /* post */
    } company;
    struct uet_op *stepwise; /* one of several requests, under way */
    struct list kept;        /* struct uet_kept */
    struct list loans;       /* struct uet_loan */
    bool hears_closes;       /* fi_close of a region may lock the progress domain, and change it */
    struct av_listener listener;
    atomic_bool stale; /* the AV has changed: `known` */
    struct {
        pthread_mutex_t mutex; /* a leaf */
        atomic_bool any;
        unsigned count; /* above UET_GONE: any address may be */
        union addr at[UET_GONE];
    } gone; /* addresses that were removed, until the endpoint leaves who is there */
    struct {
        union addr addr; /* family 0: nothing */
        uint32_t job;
        uint32_t initiator;
        fi_addr_t fi_addr;
    } known; /* the last source */
    struct {
        fi_addr_t fi_addr; /* FI_ADDR_UNSPEC: nothing */
        struct ses_target target;
        uint8_t caps;
    } aimed; /* at the last target, but for its mode */
};

static inline struct uet_ep *uet_ep_of(const struct endpoint *base)
{
    return object_of(base, struct uet_ep, base);
}

/* ---- uet_profile.c: what endpoints can do, as the capabilities in their addresses say ---- */

/* Of the profile that the parameter names; 0: none, any may be asked for. */
uint8_t uet_profile_caps(const struct params *params);
/* Of an info's protocol. 0: it is of no profile. */
uint8_t uet_protocol_caps(uint32_t protocol);
uint32_t uet_protocol_of(uint8_t caps);
/* `peer` of the part table: endpoints of AI Base carry packets. */
unsigned uet_peer_traits(const struct params *params);

/* Messages of several packets, reads, fetching atomics, receives of any tag. */
static inline bool uet_is_full(uint8_t caps)
{
    return caps & (UET_AI_FULL | UET_HPC);
}

/* ---- uet_info.c ---- */

int uet_offer(const struct request *req, const struct fi_info *lower, struct fi_info **info);

/* ---- uet_fabric.c ---- */

/* The service that the parameters name, if they name a file. -FI_EINVAL, with a sentence in why. */
int uet_service_of(const struct params *params, struct uet_service *service, char *why,
                   size_t why_size);
int uet_open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context);
/* The payload of packets on an interface with this MTU, by the parameters. 0: there is none. */
uint32_t uet_payload(const struct params *params, int mtu);
/* Of packets from the interface that has the address; of all that the any address means. */
uint32_t uet_payload_at(const struct params *params, const union addr *addr);
/* Elements of an atomic of that function; as struct ep.atomic_valid. */
int uet_atomic_count(uint32_t mtu, uint64_t function, enum fi_datatype datatype, enum fi_op op,
                     size_t *count);

/* ---- uet_av.c ---- */

int uet_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av,
                void *context);
/* The fi_addr_t of the peer that sends from there, of that job where the AV has keys. Else that of
 * the job's key, or FI_ADDR_UNSPEC. */
fi_addr_t uet_av_find(struct av *av, const union addr *host, uint32_t job, uint32_t initiator);

/* ---- uet_job.c: Job IDs as authorization keys ---- */

void uet_job_put(uint32_t job, uint8_t key[UET_JOB_SIZE]);
uint32_t uet_job_get(const uint8_t key[UET_JOB_SIZE]);
/* Of a new endpoint: by the info's key, else the domain's, else the parameter's. -FI_EINVAL: the
 * info's key is none. */
int uet_job_of(const struct uet_domain *domain, const struct fi_info *info, uint32_t *job);
/* Of what is sent to addr. False: the endpoint has no such key. */
bool uet_job_to(const struct uet_ep *ep, fi_addr_t addr, uint32_t *job);
/* Of ses_ops. */
bool uet_admits(void *arg, uint32_t job);

/* ---- uet_ep.c ---- */

int uet_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);
fi_addr_t uet_source(struct uet_ep *ep, const union addr *from, uint32_t job, uint32_t initiator);
/* Sends what may be sent. Progress domain locked. */
void uet_ep_run(struct uet_ep *ep);
/* The same, of an operation that was just posted; the rest follows with the next poll. While the
 * endpoint gathers, its packets stay for company. */
void uet_ep_push(struct uet_ep *ep, const struct ses_op *op);

/* ---- uet_option.c ---- */

extern const struct endpoint_option uet_options[];

/* ---- uet_post.c ---- */

ssize_t uet_post(struct ep *ep, struct op *op);
/* This process is a child of the endpoint's, which sends nothing here; the log is told once. */
bool uet_is_inherited(struct uet_ep *ep);
int uet_atomic_valid(struct ep *ep, uint64_t function, enum fi_datatype datatype, enum fi_op op,
                     size_t *count);
/* Where the peer of op is, and what it can do besides. -FI_EINVAL: there is none. */
int uet_target(struct uet_ep *ep, const struct op *op, struct ses_target *target, uint8_t *caps);
/* Of ses_ops. */
void uet_ended(void *arg, struct ses_op *op, enum ses_code code);
/* The packets of gathered operations have left. */
void uet_report_gathered(struct uet_ep *ep);
/* Forgets the operations that wait. */
void uet_drop_waiting(struct uet_ep *ep);

/* ---- uet_order.c ---- */

/* One of these orders (FI_ORDER_) is about operations such as this. */
bool uet_is_ordered(uint64_t orders, const struct op *op);

/* ---- uet_datagram.c ---- */

/* The operation of a datagram endpoint. Progress domain locked. */
ssize_t uet_datagram_post(struct uet_ep *ep, const struct op *op);

/* ---- uet_atomic.c: numbers of libfabric and of the wire ---- */

/* False: the wire has no such operation or type. */
bool uet_atomic_opcode(enum fi_op op, uint8_t *opcode);
bool uet_atomic_type(enum fi_datatype datatype, uint8_t *type);
bool uet_atomic_op(uint8_t opcode, enum fi_op *op);
bool uet_atomic_datatype(uint8_t type, enum fi_datatype *datatype);
/* An element of up to 16 bytes as the wire's number of 128 bits, and back. */
struct ses_wide uet_widen(const void *element, size_t size);
void uet_narrow(struct ses_wide wide, void *element, size_t size);

/* ---- uet_message.c ---- */

extern struct fi_ops_srx_peer uet_srx_ops;
enum ses_match uet_message(void *arg, struct ses_inbound *inbound);
void uet_received(void *arg, struct ses_inbound *inbound, enum ses_code code);
/* The AV has changed: messages that wait may have a source now. */
void uet_resolve(struct uet_ep *ep);
/* Messages to addresses that were removed since go to who is there now. */
void uet_leave_gone(struct uet_ep *ep);
/* Messages that wait with the owner of the receives have no endpoint any more. */
void uet_orphan_kept(struct uet_ep *ep);

/* ---- uet_remote.c ---- */

extern struct fi_ops_mr uet_mr_ops;
enum ses_code uet_write(void *arg, const struct ses_initiator *who, uint64_t key, uint64_t offset,
                        const uint8_t *bytes, size_t len);
enum ses_code uet_read(void *arg, const struct ses_initiator *who, uint64_t key, uint64_t offset,
                       size_t len, struct ses_lent *lent);
void uet_give_back(void *arg, struct ses_lent *lent);
enum ses_code uet_atomic(void *arg, const struct ses_initiator *who,
                         const struct ses_request *request, const uint8_t *operands, size_t len,
                         uint8_t *result, size_t *result_len);
enum ses_code uet_tagged_atomic(void *arg, const struct ses_request *request,
                                const uint8_t *operands, size_t len, const struct iovec *iov,
                                size_t count, uint8_t *result, size_t *result_len);
void uet_accessed(void *arg, const struct ses_access *access);

/* ---- uet_loan.c: regions whose memory packets to peers name ---- */

/* Lends what lent->iov names, len bytes of the region, whose hold is the loan's from now on. They
 * are there until uet_loan_end, though the region is closed before. The progress domain of the
 * endpoint is locked, as below. RC_BAD_MKEY: the region is closed already; RC_UNCOR_TRANSIENT. */
enum ses_code uet_lend(struct uet_ep *ep, struct mr *mr, size_t len, struct ses_lent *lent);
struct uet_loan;
void uet_loan_end(struct uet_loan *loan); /* takes NULL */
/* All have ended: the endpoint closes. */
void uet_loans_finish(struct uet_ep *ep);

/* A code of a response as a positive FI_E code. */
int uet_error(enum ses_code code);

#endif
