/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The endpoint: one socket, and one more for each multicast group that it receives from.
 *
 * Locks: the progress domain of the endpoint's queues guards everything but what udp_error.c does,
 * which needs none. The fabric's progress domain, taken first, drives only that.
 *
 * A wait object sleeps on `epoll_fd`, which holds the sockets while a thread may sleep: an epoll fd
 * that watches a socket costs both ends of each datagram a quarter of a microsecond. They are in it
 * for reading only while a receive is posted, and for writing only while datagrams wait: a datagram
 * without a receive stays with the kernel and wakes no sleeper.
 */
#ifndef WEFT_UDP_EP_H
#define WEFT_UDP_EP_H

#include <stdatomic.h>

#include <rdma/fi_cm.h>

#include "core/base/seam.h"
#include "core/ep/endpoint.h"
#include "core/ep/recv_queue.h"
#include "transports/udp/udp_batch.h"
#include "transports/udp/udp_fabric.h"
#include "transports/udp/udp_hot.h"
#include "transports/udp/udp_refusal.h"
#include "transports/udp/udp_socket.h"

struct udp_spill;

/* The address vector's answer about an address that is asked again and again. */
struct udp_known {
    union addr addr; /* family 0: nothing */
    fi_addr_t fi_addr;
};

struct udp_ep {
    union {
        struct endpoint base;
        struct fid_ep fid; /* base.fid */
    };
    struct udp_fabric *fabric;
    struct udp_socket main;
    struct list groups; /* struct udp_group */
    unsigned group_count;
    uint32_t addr_format;
    size_t message_max;
    uint32_t tclass, ecn;
    /* Waiting. */
    int epoll_fd;
    bool watched;      /* the sockets are in epoll_fd: for a sleep, and a while after it */
    unsigned looks;    /* of progress_may_disarm */
    uint32_t interest; /* EPOLLIN, EPOLLOUT: what epoll_fd has of them */
    struct progress_source source;
    bool attached;
    /* Sending. */
    struct udp_batch *batch; /* posted with FI_MORE; NULL until there was one */
    bool gso;                /* UDP_SEGMENT: until it is refused */
    void *memory;            /* of datagrams that leave together; NULL until there were some */
    struct udp_known target; /* of a text address */
    struct udp_hot hot;
    struct udp_refusal refusal;
    /* Receiving. */
    struct recv_queue posted;
    struct udp_spill *spill; /* NULL until there was a multi-receive buffer */
    unsigned burst;          /* datagrams to ask the kernel for at once */
    unsigned full;           /* looks in a row that found as many */
    bool receiving;          /* what completes may post: not to be served before what was read */
    bool many;               /* several datagrams have come at once: reads may bring more */
    unsigned lone;           /* datagrams read one by one since */
    size_t row_len;          /* of the last datagram, if nothing but more was found since; or 0 */
    unsigned row_pairs;      /* that had one length */
    bool gro;                /* UDP_GRO is on */
    bool gro_wanted;         /* there was a receive that takes what it brings */
    bool gro_refused;
    void (*train_came)(void *arg, void *context, uint64_t flags, const struct train *train,
                       uint64_t notes); /* of OPT_TRAINS, or NULL */
    void *train_arg;
    bool knows_sources, source_err;
    uint32_t notes; /* OPT_NOTES_ */
    struct udp_known source_known;
    struct av_listener listener;
    atomic_bool stale; /* the AV has changed: both udp_known */
    /* ICMP errors, reported where there is an event queue. */
    struct progress_source errors;
    int errors_fd; /* epoll, of nothing but errors; holds the sockets from the first sleep on */
    bool errors_attached;
    atomic_bool errors_armed;
};

static inline struct udp_ep *udp_ep_of(const struct endpoint *base)
{
    return object_of(base, struct udp_ep, base);
}

/* Does the kernel note when datagrams come? */
static inline bool udp_ep_is_timed(const struct udp_ep *ep)
{
    return ep->notes & OPT_NOTES_WAITED_EACH || (ep->many && ep->notes & OPT_NOTES_WAITED);
}

int udp_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);

/* The sockets' part of epoll_fd is brought up to date, for who is about to sleep. A negative errno:
 * it may not. Progress domain locked. */
int udp_ep_watch(struct udp_ep *ep);
/* A socket joins epoll_fd, with the options that the endpoint has by now; it leaves when it is
 * closed. */
int udp_ep_add_socket(struct udp_ep *ep, const struct udp_socket *sock);
/* The datagrams that the kernel has dropped, of all sockets. */
size_t udp_ep_drops(struct endpoint *ep);
/* Bytes that the kernel's buffer takes, of OPT_KEPT. */
size_t udp_ep_kept(struct endpoint *ep);

/* ---- udp_option.c ---- */

extern const struct endpoint_option udp_options[];
/* Sets the options that came before the socket was there. */
void udp_options_apply(const struct udp_ep *ep, const struct udp_socket *sock);
/* Of all sockets: asks the kernel for what is wanted now. */
void udp_options_ask(const struct udp_ep *ep);

/* ---- udp_cm.c ---- */

extern struct fi_ops_cm udp_cm_ops;

/* ---- udp_post.c ---- */

ssize_t udp_post(struct ep *ep, struct op *op);
int udp_cancel(struct endpoint *ep, void *context);
/* Where what is sent to that peer with those flags goes, or NULL. Progress domain locked. */
const struct sockaddr *udp_target(struct udp_ep *ep, fi_addr_t peer, uint64_t flags);

/* ---- udp_train.c ---- */

/* OPT_TRAINS. */
int udp_train_ask(struct endpoint *ep, void *value, size_t *len);
int udp_train_set(struct endpoint *ep, const void *value, size_t len);

/* ---- udp_receive.c ---- */

/* A multi-receive buffer of `room` bytes is to be posted: prepares for it. -FI_ENOMEM. */
int udp_receive_prepare(struct udp_ep *ep, size_t room);
/* Takes what the sockets hold into the posted receives. Progress domain locked. */
void udp_receive(struct udp_ep *ep);
/* Datagrams that were taken from the kernel before their receive was posted. Progress domain
 * locked. */
bool udp_receive_has_spilled(const struct udp_ep *ep);
void udp_receive_spilled(struct udp_ep *ep);
void udp_receive_finish(struct udp_ep *ep);

/* ---- udp_error.c ---- */

/* Reads what the network says of datagrams that were sent, and reports it to the event queue. How
 * many reports there were. Any lock state. */
unsigned udp_errors_read(struct udp_ep *ep);
/* The socket keeps such reports from now on. */
void udp_errors_ask(const struct udp_socket *sock);
/* The sockets join errors_fd, for who is about to sleep on it. Negative errno. */
int udp_errors_arm(struct udp_ep *ep);
/* The socket of the hot peer is there, whose errors are to be read, too. Any thread. */
void udp_errors_add_hot(struct udp_ep *ep);
/* poll and trywait of `errors`. */
void udp_errors_poll(struct progress_source *source);
int udp_errors_trywait(struct progress_source *source);

#endif
