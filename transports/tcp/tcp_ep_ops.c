/* SPDX-License-Identifier: BSD-2-Clause */
/* The tables of an endpoint: the functions that its upper calls. */
#include <errno.h>
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/base/seam.h"
#include "core/info/info.h"
#include "transports/tcp/tcp_info.h"
#include "transports/tcp/tcp_message.h"
#include "transports/tcp/tcp_post.h"

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
    progress_lock(ep->base.binding.progress);
    if (ep->conn.fd >= 0)
        rc = ask(ep->conn.fd, &addr->sa, &size) ? -errno : 0;
    progress_unlock(ep->base.binding.progress);
    return rc;
}

static int ep_getname(fid_t fid, void *raw, size_t *len)
{
    struct tcp_ep *ep = object_of(fid, struct tcp_ep, fid.fid);
    union addr addr;

    if (name_of_socket(ep, getsockname, raw, len, &addr))
        addr = ep->src;
    return addr_export(ep->addr_format, &addr.sa, raw, len);
}

static int ep_getpeer(struct fid_ep *fid, void *raw, size_t *len)
{
    struct tcp_ep *ep = tcp_ep_of(fid);
    union addr addr;
    int rc = name_of_socket(ep, getpeername, raw, len, &addr);

    return rc ? rc : addr_export(ep->addr_format, &addr.sa, raw, len);
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
        rc = endpoint_enable(&ep->base);
    if (rc)
        return rc;
    if (progress_forked(ep->conn.guard.cm->progress))
        return -FI_EOPBADSTATE;
    progress_lock(ep->conn.guard.cm->progress);
    rc = connect_locked(ep, &dest, param, paramlen);
    progress_unlock(ep->conn.guard.cm->progress);
    return rc;
}

/* The peer gave up, and dials again perhaps: what would be sent on this connection were lost. */
static bool hung_up(int fd)
{
    uint8_t byte;

    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* Once: a repeated fi_accept, after a step behind this has failed, must not put a second message
 * into the stream. Nor may it follow a part of one. */
static int send_accept(struct tcp_handshake *handshake, const void *param, size_t paramlen)
{
    if (handshake->answered)
        return 0;
    int rc = tcp_handshake_send(handshake, TCP_CM_ACCEPT, param, paramlen);
    handshake->answered = !rc;
    if (rc == -FI_EIO)
        shutdown(handshake->fd, SHUT_RDWR);
    return rc;
}

static int accept_locked(struct tcp_ep *ep, const void *param, size_t paramlen)
{
    struct tcp_handshake *handshake = ep->handshake;
    struct fi_eq_cm_entry event = {.fid = &ep->fid.fid};

    if (!handshake || handshake->phase != TCP_PHASE_RAISED)
        return -FI_EOPBADSTATE;
    if (hung_up(handshake->fd))
        return -FI_ECONNABORTED;
    int rc = send_accept(handshake, param, paramlen);
    if (!rc)
        rc = tcp_ep_connected(ep, handshake->fd, handshake->message.network);
    if (rc)
        return rc;
    handshake->fd = -1;
    ep->handshake = NULL;
    tcp_handshake_destroy(handshake);
    eq_write(ep->base.eq, FI_CONNECTED, &event, sizeof(event));
    return 0;
}

static int ep_accept(struct fid_ep *fid, const void *param, size_t paramlen)
{
    struct tcp_ep *ep = tcp_ep_of(fid);

    if (paramlen > TCP_CM_DATA_MAX || (paramlen && !param))
        return -FI_EINVAL;
    int rc = endpoint_enable(&ep->base);
    if (rc)
        return rc;
    progress_lock(ep->conn.guard.cm->progress);
    rc = accept_locked(ep, param, paramlen);
    progress_unlock(ep->conn.guard.cm->progress);
    return rc;
}

/* ---- Options ---- */

static struct tcp_ep *ep_of(const struct endpoint *base)
{
    return object_of(base, struct tcp_ep, base);
}

static size_t limit(struct endpoint *base, int option)
{
    size_t inject = ep_of(base)->conn.settings->max_inject;

    switch (option) {
    case FI_OPT_MAX_MSG_SIZE:
    case FI_OPT_MAX_RMA_SIZE: return SIZE_MAX;
    case FI_OPT_MAX_TAGGED_SIZE: return base->caps & FI_TAGGED ? SIZE_MAX : 0;
    case FI_OPT_INJECT_MSG_SIZE:
    case FI_OPT_INJECT_RMA_SIZE: return inject;
    case FI_OPT_INJECT_TAGGED_SIZE: return base->caps & FI_TAGGED ? inject : 0;
    case FI_OPT_MAX_ATOMIC_SIZE: return base->caps & FI_ATOMIC ? TCP_ATOMIC_MAX : 0;
    case FI_OPT_INJECT_ATOMIC_SIZE: return base->caps & FI_ATOMIC ? inject : 0;
    default: return 0;
    }
}

/* A number of operations that the application asks for before the endpoint is enabled. */
static int read_size(const struct endpoint *base, const void *value, size_t len, size_t *size)
{
    if (len != sizeof(*size))
        return -FI_EINVAL;
    if (base->enabled)
        return -FI_EOPBADSTATE;
    memcpy(size, value, len);
    return *size && *size <= TCP_SHARED_SIZE ? 0 : -FI_EINVAL;
}

static int set_tx_size(struct endpoint *base, const void *value, size_t len)
{
    size_t size;
    int rc = read_size(base, value, len, &size);

    if (rc)
        return rc;
    base->tx_size = size;
    ep_of(base)->tx.limit = (unsigned)size;
    return 0;
}

static int set_rx_size(struct endpoint *base, const void *value, size_t len)
{
    size_t size;
    int rc = read_size(base, value, len, &size);

    if (!rc)
        base->rx_size = size;
    return rc;
}

static int set_shared_memory(struct endpoint *base, const void *value, size_t len)
{
    return tcp_shared_memory(len);
}

#define FIELD(member) .kind = OPTION_FIELD, .at = offsetof(struct tcp_ep, member)

static const struct endpoint_option options[] = {
    {.name = FI_OPT_CM_DATA_SIZE, .kind = OPTION_SIZE, .at = TCP_CM_DATA_MAX},
    {.name = FI_OPT_TX_SIZE, .kind = OPTION_FUNCTION, .set = set_tx_size},
    {.name = FI_OPT_RX_SIZE, .kind = OPTION_FUNCTION, .set = set_rx_size},
    {.name = FI_OPT_SHARED_MEMORY_PERMITTED, .kind = OPTION_FUNCTION, .set = set_shared_memory},
    {.name = OPT_PEER_WIRE_VERSION, FIELD(peer_version)},
    {.name = OPT_ANSWER_TIMEOUT, FIELD(answer_ms)},
    {.name = OPT_PEER_FEATURES, FIELD(peer_features)},
    {.name = OPT_TAGS_PLAIN, FIELD(rx.tags_plain)},
    {.name = OPT_CLOSE_WAIT, FIELD(close_ms)},
    {.name = 0},
};

static size_t tx_used(const struct endpoint *base)
{
    return ep_of(base)->tx.posted;
}

static int control(struct endpoint *base, int command, void *arg)
{
    struct tcp_ep *ep = ep_of(base);

    if (command != FI_GET_FD)
        return -FI_ENOSYS;
    if (ep->conn.fd < 0)
        return -FI_ENOTCONN;
    *(int *)arg = ep->conn.fd;
    return 0;
}

/* The reader of its event queue learns of the endpoint's connections. */
static int bound(struct endpoint *base, struct fid *fid, uint64_t flags)
{
    if (fid->fclass == FI_CLASS_EQ)
        ep_of(base)->conn.guard.cm = tcp_cm_of(base->eq);
    return 0;
}

/* ---- Tables ---- */

static const struct endpoint_ops ops = {
    .post = tcp_ep_post,
    .atomic_valid = tcp_ep_atomic_valid,
    .limit = limit,
    .enable = tcp_ep_enable,
    .close = tcp_ep_close,
    .bound = bound,
    .control = control,
    .tx_used = tx_used,
    .options = options,
    .srx_ops = &tcp_srx_peer_ops,
    .keeps_eq = true,
};

static struct fi_ops_cm cm_ops = {
    .size = sizeof(struct fi_ops_cm),
    .setname = ep_setname,
    .getname = ep_getname,
    .getpeer = ep_getpeer,
    .connect = ep_connect,
    .listen = enosys_cm_listen,
    .accept = ep_accept,
    .reject = enosys_cm_reject,
    .shutdown = tcp_ep_shutdown,
    .join = enosys_cm_join,
};

void tcp_ep_ops_init(struct tcp_ep *ep, const struct fi_info *info, void *context)
{
    struct endpoint_attr attr = {
        .ops = &ops,
        .domain = &ep->domain->base,
        .info = info,
        .caps = caps_expand(info->caps ? info->caps : FI_MSG | FI_RMA),
        .fclass = FI_CLASS_EP,
        .context = context,
        .size = TCP_PLAIN_SIZE,
        .iov_limit = TCP_IOV_LIMIT,
        .min_multi_recv = TCP_MIN_MULTI_RECV,
    };

    endpoint_init(&ep->base, &attr);
    ep->base.needs_eq = true;
    ep->fid.cm = &cm_ops;
}
