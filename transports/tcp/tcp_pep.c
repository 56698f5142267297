/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/tcp/tcp_pep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/info/info.h"
#include "core/net/host.h"
#include "transports/tcp/tcp_info.h"

enum {
    ACCEPTS = 64 /* of one event */
};

static struct tcp_pep *pep_of(struct passive *base)
{
    return object_of(base, struct tcp_pep, base);
}

/* The fabric's mutex covers an unbound one; the progress domain of its EQ covers a bound one.
 * Binding needs the mutex, so the lock cannot change while it is held. Returns what pep_unlock
 * releases. */
static struct progress *pep_lock(struct tcp_pep *pep)
{
    pthread_mutex_lock(&pep->fabric->cms_mutex);
    struct progress *progress = pep->cm ? pep->cm->progress : NULL;
    if (progress) {
        pthread_mutex_unlock(&pep->fabric->cms_mutex);
        progress_lock(progress);
    }
    return progress;
}

static void pep_unlock(struct tcp_pep *pep, struct progress *progress)
{
    if (progress)
        progress_unlock(progress);
    else
        pthread_mutex_unlock(&pep->fabric->cms_mutex);
}

static const char *part_of(const struct tcp_pep *pep)
{
    return pep->fabric->base.part;
}

/* ---- Requests ---- */

static void rest(struct tcp_pep *pep, const char *why)
{
    if (!list_empty(&pep->resting))
        return;
    LOG_WARN(part_of(pep), FI_LOG_EP_CTRL, "accepts no connections for now: %s", why);
    tcp_cm_rewatch(pep->cm, pep->fd, 0, &pep->item);
    list_attach(&pep->resting, &pep->cm->resting);
    tcp_cm_arm(pep->cm);
}

void tcp_pep_wake(struct tcp_cm *cm)
{
    cm->retry = 0;
    while (!list_empty(&cm->resting)) {
        struct tcp_pep *pep = list_item(cm->resting.next, struct tcp_pep, resting);

        list_detach(&pep->resting);
        tcp_cm_rewatch(cm, pep->fd, EPOLLIN, &pep->item);
    }
}

/* An accepted socket leaves those whose request is awaited. */
static void settle(struct tcp_handshake *handshake)
{
    struct tcp_cm *cm = handshake->cm;

    list_detach(&handshake->link);
    if (cm->pending-- == TCP_CM_PENDING_MAX)
        tcp_pep_wake(cm);
}

static void drop(struct tcp_handshake *handshake, const char *why)
{
    struct tcp_cm *cm = handshake->cm;
    char text[ADDR_TEXT_MAX];

    LOG_WARN(part_of(handshake->pep), FI_LOG_EP_CTRL, "connection from %s dropped: %s",
             addr_text(&handshake->peer.sa, text, sizeof(text)), why);
    settle(handshake);
    tcp_handshake_destroy(handshake);
    tcp_cm_arm(cm);
}

void tcp_pep_expired(struct tcp_handshake *handshake)
{
    drop(handshake, "it sent no request within connect_timeout");
}

static struct fi_info *describe(struct tcp_handshake *handshake)
{
    struct fi_info *info = info_dup(handshake->pep->base.info);
    union addr local;
    socklen_t size = sizeof(local);

    if (!info)
        return NULL;
    info->handle = &handshake->fid;
    if (getsockname(handshake->fd, &local.sa, &size) || host_set_src(info, &local.sa) ||
        host_set_dest(info, &handshake->peer.sa)) {
        info_free(info);
        return NULL;
    }
    return info;
}

static void raise_request(struct tcp_handshake *handshake)
{
    struct tcp_cm *cm = handshake->cm;
    struct tcp_pep *pep = handshake->pep;
    size_t data_len = handshake->message.data_len;
    _Alignas(struct fi_eq_cm_entry) uint8_t event[sizeof(struct fi_eq_cm_entry) + TCP_CM_DATA_MAX];
    struct fi_eq_cm_entry *entry = (struct fi_eq_cm_entry *)event;

    entry->fid = &pep->base.fid.fid;
    entry->info = describe(handshake);
    if (!entry->info) {
        drop(handshake, "out of memory");
        return;
    }
    memcpy(entry->data, handshake->bytes + TCP_CM_HEADER, data_len);
    settle(handshake);
    tcp_cm_unwatch(cm, handshake->fd);
    handshake->phase = TCP_PHASE_RAISED;
    pthread_mutex_lock(&pep->fabric->raised_mutex);
    list_attach(&handshake->link, &pep->fabric->raised);
    pthread_mutex_unlock(&pep->fabric->raised_mutex);
    tcp_cm_arm(cm);
    if (eq_write(pep->base.eq, FI_CONNREQ, event, sizeof(*entry) + data_len)) {
        info_free(entry->info);
        tcp_handshake_destroy(tcp_handshake_claim(pep->fabric, &handshake->fid));
    }
}

static void request_ready(struct tcp_cm_item *item, uint32_t events)
{
    struct tcp_handshake *handshake = object_of(item, struct tcp_handshake, item);
    const char *why = NULL;
    int rc = tcp_handshake_read(handshake, &why);

    if (!rc)
        return;
    if (rc < 0)
        drop(handshake, why);
    else if (handshake->message.type != TCP_CM_REQUEST)
        drop(handshake, "its first message is not a request");
    else
        raise_request(handshake);
}

static void accepted(struct tcp_pep *pep, int fd, const union addr *peer)
{
    struct tcp_cm *cm = pep->cm;
    struct tcp_handshake *handshake = calloc(1, sizeof(*handshake));

    if (!handshake) {
        close(fd);
        return;
    }
    tcp_socket_tune(&pep->fabric->settings, fd);
    list_init(&handshake->link);
    fid_init(&handshake->fid, FI_CLASS_CONNREQ, NULL, &passive_request_ops);
    handshake->cm = cm;
    handshake->pep = pep;
    handshake->phase = TCP_PHASE_REQUEST;
    handshake->fd = fd;
    handshake->flow = pcap_flow_open(cm->fabric->pcap, fd, false);
    handshake->peer = *peer;
    handshake->item.ready = request_ready;
    handshake->deadline = clock_ms() + pep->fabric->settings.connect_ms;
    if (tcp_cm_watch(cm, fd, EPOLLIN, &handshake->item)) {
        tcp_handshake_destroy(handshake);
        return;
    }
    tcp_cm_wait(cm, handshake);
    cm->pending++;
    tcp_cm_arm(cm);
    request_ready(&handshake->item, EPOLLIN);
}

static bool is_exhausted(int err)
{
    return err == EMFILE || err == ENFILE || err == ENOBUFS || err == ENOMEM;
}

static void listener_ready(struct tcp_cm_item *item, uint32_t events)
{
    struct tcp_pep *pep = object_of(item, struct tcp_pep, item);

    for (int i = 0; i < ACCEPTS; i++) {
        union addr peer;
        socklen_t size = sizeof(peer);

        if (pep->cm->pending >= TCP_CM_PENDING_MAX) {
            rest(pep, "too many connections have sent no request yet");
            return;
        }
        int fd = accept4(pep->fd, &peer.sa, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0)
            accepted(pep, fd, &peer);
        else if (is_exhausted(errno))
            rest(pep, fi_strerror(errno));
        if (fd < 0 && errno != ECONNABORTED && errno != EINTR && errno != EPROTO)
            return;
    }
}

/* ---- Operations ---- */

/* Gives the endpoint its address and port. Locked. */
static int bind_listener(struct tcp_pep *pep)
{
    socklen_t size = sizeof(pep->src);
    int rc;

    if (pep->bound)
        return 0;
    int fd = tcp_socket(&pep->fabric->settings, pep->src.sa.sa_family);
    if (fd < 0)
        return fd;
    rc = host_bind(fd, &pep->src, pep->fabric->settings.port_low, pep->fabric->settings.port_high);
    if (!rc && getsockname(fd, &pep->src.sa, &size))
        rc = -errno;
    if (rc) {
        char text[ADDR_TEXT_MAX];

        LOG_WARN(part_of(pep), FI_LOG_EP_CTRL, "cannot listen on %s: %s",
                 addr_text(&pep->src.sa, text, sizeof(text)), fi_strerror(-rc));
        close(fd);
        return rc;
    }
    host_name(params_string(pep->fabric->params, "iface"), &pep->src, &pep->name);
    pep->fd = fd;
    pep->bound = true;
    return 0;
}

static int listen_locked(struct tcp_pep *pep)
{
    if (pep->listening)
        return -FI_EOPBADSTATE;
    int rc = bind_listener(pep);
    if (rc)
        return rc;
    if (listen(pep->fd, pep->backlog))
        return -errno;
    rc = tcp_cm_watch(pep->cm, pep->fd, EPOLLIN, &pep->item);
    pep->listening = !rc;
    return rc;
}

static int pep_listen(struct passive *base)
{
    struct tcp_pep *pep = pep_of(base);

    struct progress *progress = pep_lock(pep);
    int rc = progress ? listen_locked(pep) : -FI_ENOEQ;
    pep_unlock(pep, progress);
    return rc;
}

static int pep_setname(struct passive *base, void *raw, size_t len)
{
    struct tcp_pep *pep = pep_of(base);
    union addr addr;
    int rc = addr_import(pep->base.info->addr_format, raw, len, &addr);

    if (rc)
        return rc;
    struct progress *progress = pep_lock(pep);
    if (pep->bound)
        rc = -FI_EOPBADSTATE;
    else
        pep->src = addr;
    pep_unlock(pep, progress);
    return rc;
}

static int pep_getname(struct passive *base, void *raw, size_t *len)
{
    struct tcp_pep *pep = pep_of(base);

    struct progress *progress = pep_lock(pep);
    int rc = bind_listener(pep);
    union addr addr = pep->name;
    pep_unlock(pep, progress);
    return rc ? rc : addr_export(pep->base.info->addr_format, &addr.sa, raw, len);
}

static int pep_reject(struct passive *base, fid_t handle, const void *param, size_t paramlen)
{
    struct tcp_handshake *handshake = tcp_handshake_claim(pep_of(base)->fabric, handle);

    if (!handshake)
        return -FI_EINVAL;
    tcp_handshake_send(handshake, TCP_CM_REJECT, param, paramlen);
    shutdown(handshake->fd, SHUT_RDWR);
    tcp_handshake_destroy(handshake);
    return 0;
}

static int bind_eq(struct passive *base, struct eq *eq)
{
    struct tcp_pep *pep = pep_of(base);
    struct progress *progress = pep_lock(pep);

    if (!progress) {
        base->eq = eq;
        pep->cm = tcp_cm_of(eq);
    }
    pep_unlock(pep, progress);
    return progress ? -FI_EINVAL : 0;
}

static int set_backlog(struct tcp_pep *pep, int backlog)
{
    struct progress *progress = pep_lock(pep);

    pep->backlog = backlog;
    pep_unlock(pep, progress);
    return 0;
}

static int get_fd(struct tcp_pep *pep, int *ret_fd)
{
    struct progress *progress = pep_lock(pep);
    int rc = pep->bound ? 0 : -FI_EOPBADSTATE;

    if (!rc)
        *ret_fd = pep->fd;
    pep_unlock(pep, progress);
    return rc;
}

static int pep_control(struct passive *base, int command, void *arg)
{
    struct tcp_pep *pep = pep_of(base);

    switch (command) {
    case FI_BACKLOG: return set_backlog(pep, *(const int *)arg);
    case FI_GET_FD: return get_fd(pep, arg);
    default: return -FI_ENOSYS;
    }
}

/* Closes connection requests that the application has neither accepted nor rejected: with the
 * passive endpoint closed it no longer can. */
static void drop_requests(struct tcp_pep *pep)
{
    struct tcp_cm *cm = pep->cm;

    pthread_mutex_lock(&pep->fabric->raised_mutex);
    list_for_each_safe (pos, after, &pep->fabric->raised) {
        struct tcp_handshake *handshake = list_item(pos, struct tcp_handshake, link);

        if (handshake->pep == pep)
            tcp_handshake_destroy(handshake);
    }
    pthread_mutex_unlock(&pep->fabric->raised_mutex);
    list_for_each_safe (pos, after, &cm->waiting) {
        struct tcp_handshake *handshake = list_item(pos, struct tcp_handshake, link);

        if (handshake->pep != pep)
            continue;
        cm->pending--;
        tcp_handshake_destroy(handshake);
    }
}

/* Of a listener that is bound to its EQ. */
static void close_locked(struct tcp_pep *pep)
{
    list_detach(&pep->resting);
    drop_requests(pep);
    if (pep->listening)
        tcp_cm_unwatch(pep->cm, pep->fd);
    tcp_cm_arm(pep->cm);
}

static void pep_close(struct passive *base)
{
    struct tcp_pep *pep = pep_of(base);
    struct progress *progress = pep_lock(pep);

    if (progress)
        close_locked(pep);
    if (pep->bound)
        close(pep->fd);
    pep_unlock(pep, progress);
    passive_finish(base);
    free(pep);
}

/* An option about shared memory holds for accepted endpoints too. */
static int pep_setopt(struct passive *base, int name, const void *value, size_t len)
{
    return name == FI_OPT_SHARED_MEMORY_PERMITTED ? tcp_shared_memory(len) : -FI_ENOPROTOOPT;
}

static const struct passive_ops ops = {
    .listen = pep_listen,
    .reject = pep_reject,
    .setname = pep_setname,
    .getname = pep_getname,
    .bind_eq = bind_eq,
    .control = pep_control,
    .setopt = pep_setopt,
    .close = pep_close,
    .cm_data_size = TCP_CM_DATA_MAX,
};

/* Without an address it listens on all, unless fi_setname gives it one. */
static int take_source(struct tcp_pep *pep)
{
    const struct fi_info *info = pep->base.info;

    if (info->src_addr)
        return addr_import(info->addr_format, info->src_addr, info->src_addrlen, &pep->src);
    pep->src.sa.sa_family = info->addr_format == FI_SOCKADDR_IN6 ? AF_INET6 : AF_INET;
    return 0;
}

int tcp_pep_open(struct fid_fabric *fabric_fid, struct fi_info *info, struct fid_pep **result,
                 void *context)
{
    struct tcp_fabric *fabric = object_of(fabric_fid, struct tcp_fabric, base.fid);
    struct tcp_pep *pep = calloc(1, sizeof(*pep));
    int rc = -FI_ENOMEM;

    if (pep)
        rc = passive_init(&pep->base, &fabric->base, info, &ops, context);
    if (rc) {
        free(pep);
        return rc;
    }
    rc = take_source(pep);
    if (rc) {
        passive_finish(&pep->base);
        free(pep);
        return rc;
    }
    pep->fabric = fabric;
    pep->item.ready = listener_ready;
    pep->backlog = SOMAXCONN;
    pep->fd = -1;
    list_init(&pep->resting);
    *result = &pep->base.fid;
    return 0;
}
