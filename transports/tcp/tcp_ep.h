/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The endpoint. State and sockets of the connection are guarded by the endpoint's progress domain
 * once it is enabled; `handshake` by the fabric's progress domain, which is locked first.
 */
#ifndef WEFT_TCP_EP_H
#define WEFT_TCP_EP_H

#include "core/ep/endpoint.h"
#include "core/net/addr.h"
#include "transports/tcp/tcp_conn.h"
#include "transports/tcp/tcp_domain.h"
#include "transports/tcp/tcp_rx.h"
#include "transports/tcp/tcp_tx.h"
#include "transports/tcp/tcp_uring.h"

enum {
    TCP_MIN_MULTI_RECV = 64
};

enum tcp_state {
    TCP_IDLE,       /* not enabled */
    TCP_ENABLED,    /* receives may be posted */
    TCP_CONNECTING, /* the exchange is under way */
    TCP_CONNECTED,
    TCP_DOWN, /* was connected, or could not be */
};

struct tcp_ep {
    union {
        struct endpoint base;
        struct fid_ep fid; /* base.fid */
    };
    struct tcp_domain *domain;
    uint32_t addr_format;
    uint32_t tclass;       /* traffic class of its connection */
    uint32_t answer_ms;    /* for the peer to answer a request; 0: ten minutes */
    uint32_t peer_version; /* of the wire; 0: the operations that every peer knows */
    uint32_t peer_features;
    uint32_t close_ms; /* for which fi_close waits while the peer reads, as an upper says */
    enum tcp_state state;
    struct tcp_conn conn;
    struct tcp_tx tx;
    struct tcp_rx rx;
    struct tcp_uring uring;
    struct tcp_handshake *handshake; /* opening the connection */
    union addr src;
};

int tcp_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);

/* The exchange has ended well: takes over the socket. Fabric's progress domain locked, the
 * endpoint's not. */
int tcp_ep_connected(struct tcp_ep *ep, int fd, bool network);

/* Functions of its life that its tables (tcp_ep_ops.c) hold. */
int tcp_ep_enable(struct endpoint *base);
int tcp_ep_close(struct endpoint *base);
int tcp_ep_shutdown(struct fid_ep *fid, uint64_t flags);
/* Its tables, and what else every endpoint has. */
void tcp_ep_ops_init(struct tcp_ep *ep, const struct fi_info *info, void *context);

static inline struct tcp_ep *tcp_ep_of(struct fid_ep *fid)
{
    return object_of(fid, struct tcp_ep, fid);
}

#endif
