/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening connections: sockets that listen, connect, or wait for a message of the exchange. They
 * live on the control progress domain of the EQ that they report to, which its readers drive: a
 * reader of one EQ touches no endpoints of others. Each wait has a deadline. All with that progress
 * domain locked, which is locked before any progress domain of a domain.
 */
#ifndef WEFT_TCP_CM_H
#define WEFT_TCP_CM_H

#include <pthread.h>

#include "core/base/fid.h"
#include "core/base/list.h"
#include "core/net/addr.h"
#include "core/progress/progress.h"
#include "core/progress/silence.h"
#include "core/queue/eq.h"
#include "transports/tcp/tcp_cm_wire.h"
#include "transports/tcp/tcp_fabric.h"

struct tcp_ep;
struct tcp_pep;

enum {
    TCP_CM_PENDING_MAX = 1024, /* accepted sockets whose request has not arrived */
    TCP_CM_RETRY_MS = 100,     /* a listener rests so long when no fd is left */
};

/* A socket in the epoll fd of the control progress domain. */
struct tcp_cm_item {
    void (*ready)(struct tcp_cm_item *item, uint32_t events);
};

/* A connected endpoint whose CQ is not read any more must still tell the EQ that the peer hung up:
 * its socket is in the epoll fd of the control progress domain, too. */
struct tcp_guard {
    struct tcp_cm *cm;       /* of the event queue; NULL until that is bound */
    struct tcp_cm_item item; /* its ready is called with the peer's end */
    struct list unwatched;   /* link of cm while the socket is not there */
    bool watched;
    int fd;
};

struct tcp_cm {
    struct progress_source source; /* its fd: epoll_fd */
    struct progress *progress;
    struct tcp_fabric *fabric;
    struct list link;      /* of the fabric */
    struct fi_ops ops;     /* of the EQ's fid: core's, with a close of our own */
    struct fi_ops *eq_ops; /* core's */
    int epoll_fd, timer_fd;
    struct tcp_cm_item timer;
    struct list waiting;         /* handshakes by deadline */
    struct list resting;         /* listeners that wait for fds, or for room */
    size_t pending;              /* of waiting, those that were accepted */
    long long retry, armed;      /* clock_ms: of resting, and what timer_fd is set to; 0: off */
    pthread_mutex_t watch_mutex; /* of unwatched; taken last */
    struct list unwatched;       /* struct tcp_guard whose end the reader of the EQ would not see */
};

enum tcp_phase {
    TCP_PHASE_CONNECT, /* of the socket */
    TCP_PHASE_ANSWER,  /* active: request sent */
    TCP_PHASE_REQUEST, /* passive: accepted */
    TCP_PHASE_RAISED,  /* passive: the application has the request */
};

/* One socket on its way to a connection. The fid is the handle of a connection request. */
struct tcp_handshake {
    struct fid fid;
    struct tcp_cm_item item;
    struct list link; /* of waiting, or the fabric's raised */
    struct tcp_cm *cm;
    struct tcp_ep *ep;   /* active side */
    struct tcp_pep *pep; /* passive side, until raised */
    enum tcp_phase phase;
    bool answered; /* passive: the acceptance has left */
    int fd;
    long long deadline;
    struct silence silence; /* active side: the deadline is when it is to be looked at next */
    struct tcp_cm_message message;
    union addr peer;
    size_t have;               /* bytes arrived */
    uint8_t bytes[TCP_CM_MAX]; /* arrived, or, while connecting, to be sent */
    size_t to_send;
    struct pcap_flow *flow; /* until an endpoint has it */
};

/* fi_eq_open: an EQ with the control progress domain and sockets of its own, which close with it.
 */
int tcp_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
                void *context);

/* Of an EQ of a tcp fabric. */
static inline struct tcp_cm *tcp_cm_of(struct eq *eq)
{
    return object_of(eq->fid.fid.ops, struct tcp_cm, ops);
}

/* epoll, with the item as the event's data. Negative errno. */
int tcp_cm_watch(struct tcp_cm *cm, int fd, uint32_t events, struct tcp_cm_item *item);
int tcp_cm_rewatch(struct tcp_cm *cm, int fd, uint32_t events, struct tcp_cm_item *item);
void tcp_cm_unwatch(struct tcp_cm *cm, int fd);
/*
 * The socket of a guard is in this epoll fd from guard to unguard. That costs each message a
 * little, so a busy connection leaves (lull) until the EQ is read again. Endpoint's progress domain
 * locked.
 */
void tcp_cm_guard(struct tcp_guard *guard, int fd);
void tcp_cm_lull(struct tcp_guard *guard);
void tcp_cm_unguard(struct tcp_guard *guard);

/* Puts a handshake among those waiting, where its deadline belongs. */
void tcp_cm_wait(struct tcp_cm *cm, struct tcp_handshake *handshake);
/* Sets the timer to the next deadline. */
void tcp_cm_arm(struct tcp_cm *cm);

/* Closes the socket and frees; takes NULL. */
void tcp_handshake_destroy(struct tcp_handshake *handshake);
/* Reads more of the message. 1: it is complete; 0: not yet; negative: over (-FI_ECONNRESET when the
 * peer hung up, -FI_EPROTO with a sentence in *why). */
int tcp_handshake_read(struct tcp_handshake *handshake, const char **why);
/* Sends a whole message at once. */
int tcp_handshake_send(struct tcp_handshake *handshake, enum tcp_cm_type type, const void *data,
                       size_t data_len);
/* The request of this handle, if it is one that waits for an answer, which is the caller's from
 * then on; else NULL. Any lock state. */
struct tcp_handshake *tcp_handshake_claim(struct tcp_fabric *fabric, const struct fid *handle);

/* A socket for a connection or a listener, non-blocking, options set. The fd or a negative error.
 */
int tcp_socket(const struct tcp_settings *settings, sa_family_t family);
void tcp_socket_tune(const struct tcp_settings *settings, int fd);
/* Options of one that has just been connected: congestion control and send buffer, where both ends
 * are on this host. */
void tcp_socket_connected(const struct tcp_settings *settings, int fd);

/* Active side (tcp_connect.c). A failure after this is an error in the endpoint's EQ. */
int tcp_connect_start(struct tcp_ep *ep, const union addr *dest, const void *data, size_t data_len);
/* Its deadline has passed: an error in the EQ; frees the handshake. */
void tcp_connect_expired(struct tcp_handshake *handshake);

/* Passive side (tcp_pep.c): the deadline of an accepted socket has passed; frees the handshake. */
void tcp_pep_expired(struct tcp_handshake *handshake);
/* Lets resting listeners try again. */
void tcp_pep_wake(struct tcp_cm *cm);

#endif
