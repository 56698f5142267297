/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connected socket: what sending, receiving, the poller and a ring share of it. Its endpoint
 * opens and ends it; these rooms reach the endpoint only as core's. Progress domain locked.
 */
#ifndef WEFT_TCP_CONN_H
#define WEFT_TCP_CONN_H

#include "core/base/log.h"
#include "core/ep/endpoint.h"
#include "transports/tcp/tcp_cm.h"

struct pcap_flow;
struct tcp_poller;
struct tcp_rx;
struct tcp_tx;
struct tcp_uring;

struct tcp_conn {
    struct endpoint *base; /* completions, capabilities, receives, domain */
    const struct tcp_settings *settings;
    struct tcp_poller *poller; /* from enable on */
    struct tcp_tx *tx;
    struct tcp_rx *rx;
    struct tcp_uring *uring; /* where the poller has a ring */
    struct pcap_flow *flow;  /* records the traffic; NULL: off */
    int fd;                  /* -1: not connected, or not any more */
    int error;               /* positive: nothing can be sent any more; what came is still read */
    bool network;            /* the peer's byte order is not ours */
    bool armed;              /* in the poller's epoll fd */
    bool blocked;            /* the socket is full, or seemed so */
    bool promised;           /* it was, and an event tells of room */
    bool readable;           /* it may have more: no event will say so again */
    bool ended;              /* the peer hung up: read until the end */
    unsigned tries;          /* fruitless looks since it last received */
    unsigned streak;         /* looks that were not, since it is hot */
    struct list hot, work, ending; /* links of the poller */
    struct tcp_guard guard;        /* tells the EQ's reader that the peer hung up */
    /* Of no use any more: the endpoint ends everything outstanding with err (positive), and tells
     * the EQ. */
    void (*fail)(struct tcp_conn *conn, int err);
};

/* The same; what ended the sending side, if anything did, is the better reason. */
static inline void tcp_conn_fail(struct tcp_conn *conn, int err)
{
    conn->fail(conn, conn->error ? conn->error : err);
}

static inline const char *tcp_conn_part(const struct tcp_conn *conn)
{
    return conn->base->domain->fabric->part;
}

/* One line of the log: the reason for which it closes. */
static inline void tcp_conn_say_closed(const struct tcp_conn *conn, const char *why)
{
    LOG_WARN(tcp_conn_part(conn), FI_LOG_EP_DATA, "connection closed: %s", why);
}

#endif
