/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/tcp/tcp_ep_ops.h"

#include <errno.h>
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/no.h"
#include "core/post.h"
#include "transports/tcp/tcp_ep.h"
#include "transports/tcp/tcp_info.h"

/* ---- Connection management ---- */

static int ep_setname(fid_t fid, void *raw, size_t len)
{
    struct tcp_ep *ep = object_of(fid, struct tcp_ep, fid.fid);

    if (ep->state > TCP_ENABLED)
        return -FI_EOPBADSTATE;
    return addr_import(ep->addr_format, raw, len, &ep->src);
}

typedef int name_fn(int fd, struct sockaddr *addr, socklen_t *size);

static int name_of_socket(struct tcp_ep *ep, name_fn *ask, void *raw, size_t *len, union addr *addr)
{
    socklen_t size = sizeof(*addr);
    int rc = -FI_ENOTCONN;

    if (ep->state < TCP_ENABLED)
        return rc;
    unit_lock(ep->report.unit);
    if (ep->fd >= 0)
        rc = ask(ep->fd, &addr->sa, &size) ? -errno : 0;
    unit_unlock(ep->report.unit);
    return rc;
}

static int ep_getname(fid_t fid, void *raw, size_t *len)
{
    struct tcp_ep *ep = object_of(fid, struct tcp_ep, fid.fid);
    union addr addr;

    if (name_of_socket(ep, getsockname, raw, len, &addr))
        addr = ep->src;
    return tcp_addr_export(ep->addr_format, &addr.sa, raw, len);
}

static int ep_getpeer(struct fid_ep *fid, void *raw, size_t *len)
{
    struct tcp_ep *ep = tcp_ep_of(fid);
    union addr addr;
    int rc = name_of_socket(ep, getpeername, raw, len, &addr);

    return rc ? rc : tcp_addr_export(ep->addr_format, &addr.sa, raw, len);
}

/* An FI_ADDR_STR has no length of its own in fi_connect. */
static int import_dest(const struct tcp_ep *ep, const void *raw, union addr *addr)
{
    if (ep->addr_format == FI_ADDR_STR)
        return addr_import(FI_ADDR_STR, raw, strlen(raw) + 1, addr);
    return addr_import(ep->addr_format, raw, addr_size(raw), addr);
}

static int connect_locked(struct tcp_ep *ep, const union addr *dest, const void *param,
                          size_t paramlen)
{
    if (ep->state != TCP_ENABLED || ep->handshake)
        return ep->state == TCP_CONNECTED ? -FI_EISCONN : -FI_EOPBADSTATE;
    ep->state = TCP_CONNECTING;
    int rc = tcp_connect_start(ep, dest, param, paramlen);
    if (rc)
        ep->state = TCP_ENABLED;
    return rc;
}

static int ep_connect(struct fid_ep *fid, const void *raw, const void *param, size_t paramlen)
{
    struct tcp_ep *ep = tcp_ep_of(fid);
    union addr dest;

    if (!raw || paramlen > TCP_CM_DATA_MAX || (paramlen && !param))
        return -FI_EINVAL;
    int rc = import_dest(ep, raw, &dest);
    if (!rc)
        rc = tcp_ep_enable(ep);
    if (rc)
        return rc;
    if (unit_forked(ep->cm->unit))
        return -FI_EOPBADSTATE;
    unit_lock(ep->cm->unit);
    rc = connect_locked(ep, &dest, param, paramlen);
    unit_unlock(ep->cm->unit);
    return rc;
}

/* The peer gave up, and dials again perhaps: what would be sent on this connection were lost. */
static bool hung_up(int fd)
{
    uint8_t byte;

    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

static int accept_locked(struct tcp_ep *ep, const void *param, size_t paramlen)
{
    struct tcp_handshake *handshake = ep->handshake;
    struct fi_eq_cm_entry event = {.fid = &ep->fid.fid};

    if (!handshake || handshake->phase != TCP_PHASE_RAISED)
        return -FI_EOPBADSTATE;
    if (hung_up(handshake->fd))
        return -FI_ECONNABORTED;
    int rc = tcp_handshake_send(handshake, TCP_CM_ACCEPT, param, paramlen);
    if (!rc)
        rc = tcp_ep_connected(ep, handshake->fd, handshake->message.network);
    if (rc)
        return rc;
    handshake->fd = -1;
    ep->handshake = NULL;
    tcp_handshake_destroy(handshake);
    eq_write(ep->eq, FI_CONNECTED, &event, sizeof(event));
    return 0;
}

static int ep_accept(struct fid_ep *fid, const void *param, size_t paramlen)
{
    struct tcp_ep *ep = tcp_ep_of(fid);

    if (paramlen > TCP_CM_DATA_MAX || (paramlen && !param))
        return -FI_EINVAL;
    int rc = tcp_ep_enable(ep);
    if (rc)
        return rc;
    unit_lock(ep->cm->unit);
    rc = accept_locked(ep, param, paramlen);
    unit_unlock(ep->cm->unit);
    return rc;
}

/* ---- Options ---- */

static size_t option_value(const struct tcp_ep *ep, int optname)
{
    size_t inject = ep->domain->fabric->settings.max_inject;

    switch (optname) {
    case FI_OPT_CM_DATA_SIZE: return TCP_CM_DATA_MAX;
    case FI_OPT_MIN_MULTI_RECV: return ep->min_multi_recv;
    case FI_OPT_TX_SIZE: return ep->tx.limit;
    case FI_OPT_RX_SIZE: return ep->rx_size;
    case FI_OPT_MAX_MSG_SIZE:
    case FI_OPT_MAX_RMA_SIZE: return SIZE_MAX;
    case FI_OPT_MAX_TAGGED_SIZE: return ep->caps & FI_TAGGED ? SIZE_MAX : 0;
    case FI_OPT_INJECT_MSG_SIZE:
    case FI_OPT_INJECT_RMA_SIZE: return inject;
    case FI_OPT_INJECT_TAGGED_SIZE: return ep->caps & FI_TAGGED ? inject : 0;
    case FI_OPT_MAX_ATOMIC_SIZE: return ep->caps & FI_ATOMIC ? TCP_ATOMIC_MAX : 0;
    case FI_OPT_INJECT_ATOMIC_SIZE: return ep->caps & FI_ATOMIC ? inject : 0;
    default: return 0;
    }
}

static bool is_size_option(int optname)
{
    switch (optname) {
    case FI_OPT_CM_DATA_SIZE:
    case FI_OPT_MIN_MULTI_RECV:
    case FI_OPT_TX_SIZE:
    case FI_OPT_RX_SIZE:
    case FI_OPT_MAX_MSG_SIZE:
    case FI_OPT_MAX_TAGGED_SIZE:
    case FI_OPT_MAX_RMA_SIZE:
    case FI_OPT_MAX_ATOMIC_SIZE:
    case FI_OPT_INJECT_MSG_SIZE:
    case FI_OPT_INJECT_TAGGED_SIZE:
    case FI_OPT_INJECT_RMA_SIZE:
    case FI_OPT_INJECT_ATOMIC_SIZE: return true;
    default: return false;
    }
}

static int ep_getopt(fid_t fid, int level, int optname, void *optval, size_t *optlen)
{
    struct tcp_ep *ep = object_of(fid, struct tcp_ep, fid.fid);
    size_t room = *optlen;

    if (level != FI_OPT_ENDPOINT || !is_size_option(optname))
        return -FI_ENOPROTOOPT;
    *optlen = sizeof(size_t);
    if (room < sizeof(size_t))
        return -FI_ETOOSMALL;
    *(size_t *)optval = option_value(ep, optname);
    return 0;
}

static int set_min_multi_recv(struct tcp_ep *ep, size_t size)
{
    ep->min_multi_recv = size;
    if (!ep->match)
        return 0;
    unit_lock(ep->report.unit);
    match_set_min_multi_recv(ep->match, size);
    unit_unlock(ep->report.unit);
    return 0;
}

static int set_limit(struct tcp_ep *ep, unsigned *limit, size_t size)
{
    if (ep->state != TCP_IDLE)
        return -FI_EOPBADSTATE;
    if (!size || size > TCP_SHARED_SIZE)
        return -FI_EINVAL;
    *limit = (unsigned)size;
    return 0;
}

static uint32_t *seam_option(struct tcp_ep *ep, int optname)
{
    switch (optname) {
    case OPT_PEER_WIRE_VERSION: return &ep->peer_version;
    case OPT_ANSWER_TIMEOUT: return &ep->answer_ms;
    case OPT_PEER_FEATURES: return &ep->peer_features;
    case OPT_TAGS_PLAIN: return &ep->tags_plain;
    default: return NULL;
    }
}

static int ep_setopt(fid_t fid, int level, int optname, const void *optval, size_t optlen)
{
    struct tcp_ep *ep = object_of(fid, struct tcp_ep, fid.fid);
    unsigned rx_size = 0;
    uint32_t *option;
    int rc;

    if (level != FI_OPT_ENDPOINT)
        return -FI_ENOPROTOOPT;
    option = seam_option(ep, optname);
    if (option) {
        if (optlen != sizeof(*option))
            return -FI_EINVAL;
        *option = *(const uint32_t *)optval;
        return 0;
    }
    if (optname == FI_OPT_SHARED_MEMORY_PERMITTED)
        return tcp_shared_memory(optlen);
    if (optname != FI_OPT_MIN_MULTI_RECV && optname != FI_OPT_TX_SIZE && optname != FI_OPT_RX_SIZE)
        return -FI_ENOPROTOOPT;
    if (optlen != sizeof(size_t))
        return -FI_EINVAL;
    if (optname == FI_OPT_MIN_MULTI_RECV)
        return set_min_multi_recv(ep, *(const size_t *)optval);
    if (optname == FI_OPT_TX_SIZE)
        return set_limit(ep, &ep->tx.limit, *(const size_t *)optval);
    rc = set_limit(ep, &rx_size, *(const size_t *)optval);
    if (!rc)
        ep->rx_size = rx_size;
    return rc;
}

static ssize_t ep_cancel(fid_t fid, void *context)
{
    struct tcp_ep *ep = object_of(fid, struct tcp_ep, fid.fid);

    if (!ep->match)
        return -FI_ENOENT;
    unit_lock(ep->report.unit);
    ssize_t rc = match_cancel(ep->match, context);
    unit_unlock(ep->report.unit);
    return rc;
}

static ssize_t ep_rx_size_left(struct fid_ep *fid)
{
    struct tcp_ep *ep = tcp_ep_of(fid);

    if (!ep->match)
        return -FI_EOPBADSTATE;
    unit_lock(ep->report.unit);
    size_t posted = match_posted(ep->match);
    unit_unlock(ep->report.unit);
    return (ssize_t)(ep->rx_size > posted ? ep->rx_size - posted : 0);
}

static ssize_t ep_tx_size_left(struct fid_ep *fid)
{
    struct tcp_ep *ep = tcp_ep_of(fid);

    if (ep->state == TCP_IDLE)
        return -FI_EOPBADSTATE;
    return (ssize_t)(ep->tx.limit - ep->tx.posted);
}

static int get_op_flags(const struct tcp_ep *ep, uint64_t *flags)
{
    if (*flags & FI_TRANSMIT && !(*flags & FI_RECV))
        *flags = ep->tx_op_flags;
    else if (*flags & FI_RECV && !(*flags & FI_TRANSMIT))
        *flags = ep->rx_op_flags;
    else
        return -FI_EINVAL;
    return 0;
}

static int set_op_flags(struct tcp_ep *ep, uint64_t flags)
{
    bool transmit = flags & FI_TRANSMIT, receive = flags & FI_RECV;

    if (transmit && post_refuses(flags))
        return (int)post_refused();
    flags &= ~(FI_TRANSMIT | FI_RECV);
    if (transmit == receive)
        return -FI_EINVAL;
    if (receive && ep->state != TCP_IDLE)
        return -FI_EOPBADSTATE;
    if (transmit)
        ep->tx_op_flags = flags;
    else
        ep->rx_op_flags = flags;
    return 0;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
    struct tcp_ep *ep = object_of(fid, struct tcp_ep, fid.fid);

    switch (command) {
    case FI_ENABLE: return tcp_ep_enable(ep);
    case FI_GETOPSFLAG: return get_op_flags(ep, arg);
    case FI_SETOPSFLAG: return set_op_flags(ep, *(const uint64_t *)arg);
    case FI_GET_FD:
        if (ep->fd < 0)
            return -FI_ENOTCONN;
        *(int *)arg = ep->fd;
        return 0;
    default: return -FI_ENOSYS;
    }
}

/* ---- Tables ---- */

static struct fi_ops fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = tcp_ep_close,
    .bind = tcp_ep_bind,
    .control = ep_control,
    .ops_open = no_ops_open,
    .tostr = no_tostr,
    .ops_set = no_ops_set,
};

static struct fi_ops_ep ep_ops = {
    .size = sizeof(struct fi_ops_ep),
    .cancel = ep_cancel,
    .getopt = ep_getopt,
    .setopt = ep_setopt,
    .tx_ctx = no_ep_tx_ctx,
    .rx_ctx = no_ep_rx_ctx,
    .rx_size_left = ep_rx_size_left,
    .tx_size_left = ep_tx_size_left,
};

static struct fi_ops_cm cm_ops = {
    .size = sizeof(struct fi_ops_cm),
    .setname = ep_setname,
    .getname = ep_getname,
    .getpeer = ep_getpeer,
    .connect = ep_connect,
    .listen = no_cm_listen,
    .accept = ep_accept,
    .reject = no_cm_reject,
    .shutdown = tcp_ep_shutdown,
    .join = no_cm_join,
};

void tcp_ep_ops_init(struct tcp_ep *ep, void *context)
{
    fid_init(&ep->fid.fid, FI_CLASS_EP, context, &fid_ops);
    ep->fid.ops = &ep_ops;
    ep->fid.cm = &cm_ops;
    ep->fid.msg = ep->needs_srx ? &tcp_msg_shared_ops : &tcp_msg_ops;
    ep->fid.tagged = ep->needs_srx ? &tcp_tagged_shared_ops : &tcp_tagged_ops;
    if (!(ep->caps & FI_TAGGED))
        ep->fid.tagged = &no_tagged_ops;
    ep->fid.rma = ep->caps & FI_RMA ? &tcp_rma_ops : &no_rma_ops;
    ep->fid.atomic = ep->caps & FI_ATOMIC ? &tcp_atomic_ops : &no_atomic_ops;
    ep->fid.collective = &no_collective_ops;
}
