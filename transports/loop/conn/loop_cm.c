/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections: made and broken at once, under the world's mutex; each side learns of it from its
 * EQ. Only the end of one is ordered: the peer's earlier messages are received first.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/info/info.h"
#include "transports/loop/conn/loop_cm.h"

static struct list requests = {&requests, &requests}; /* raised and unanswered; world locked */

/* A CM event with its private data. */
union event {
    struct fi_eq_cm_entry entry;
    uint8_t room[sizeof(struct fi_eq_cm_entry) + LOOP_CM_DATA];
};

static int write_event(struct eq *eq, uint32_t type, struct fid *fid, struct fi_info *info,
                       const void *param, size_t paramlen)
{
    union event event = {.entry = {.fid = fid, .info = info}};

    if (paramlen)
        memcpy(event.entry.data, param, paramlen);
    return eq_write(eq, type, &event, sizeof(event.entry) + paramlen);
}

static void write_refused(struct loop_ep *ep, int err, const void *param, size_t paramlen)
{
    struct fi_eq_err_entry entry = {
        .fid = &ep->fid.fid,
        .context = ep->fid.fid.context,
        .err = err,
        .prov_errno = err,
        .err_data = (void *)(uintptr_t)param,
        .err_data_size = paramlen,
    };

    eq_write_error(ep->base.eq, &entry);
}

/* ---- Requests ---- */

static struct loop_request *find_request(const struct fid *handle)
{
    list_for_each (pos, &requests) {
        struct loop_request *request = list_item(pos, struct loop_request, link);

        if (&request->fid == handle)
            return request;
    }
    return NULL;
}

/* The request will have no answer. */
static void drop_request(struct loop_request *request, const void *param, size_t paramlen)
{
    struct loop_ep *from = request->from;

    if (from) {
        from->request = NULL;
        atomic_store(&from->state, LOOP_DOWN);
        write_refused(from, FI_ECONNREFUSED, param, paramlen);
    }
    list_detach(&request->link);
    free(request);
}

int loop_cm_claim(struct loop_ep *ep, const struct fid *handle)
{
    struct loop_request *request;

    loop_world_lock();
    request = find_request(handle);
    if (request) {
        list_detach(&request->link);
        request->pep = NULL;
        ep->request = request;
    }
    loop_world_unlock();
    return request ? 0 : -FI_EINVAL;
}

static struct fi_info *describe(const struct loop_pep *pep, const struct loop_ep *from,
                                struct loop_request *request)
{
    struct fi_info *info = info_dup(pep->base.info);
    char raw[LOOP_ADDR_MAX];
    size_t len;

    if (!info)
        return NULL;
    info->handle = &request->fid;
    len = loop_addr_export(info->addr_format, false, &from->port->addr, raw);
    if (info_set_dest(info, raw, len)) {
        info_free(info);
        return NULL;
    }
    return info;
}

static int raise_request(struct loop_ep *ep, struct loop_pep *pep, const void *param,
                         size_t paramlen)
{
    struct loop_request *request = calloc(1, sizeof(*request));
    struct fi_info *info = request ? describe(pep, ep, request) : NULL;

    if (!info || write_event(pep->base.eq, FI_CONNREQ, &pep->base.fid.fid, info, param, paramlen)) {
        info_free(info);
        free(request);
        return -FI_ENOMEM;
    }
    fid_init(&request->fid, FI_CLASS_CONNREQ, NULL, &passive_request_ops);
    request->pep = pep;
    request->from = ep;
    ep->request = request;
    list_attach(&request->link, &requests);
    return 0;
}

/* ---- Active side ---- */

static struct loop_pep *find_listener(const union addr *addr)
{
    struct loop_port *port = loop_port_look(addr);

    return port ? port->pep : NULL;
}

static int connect_to(struct loop_ep *ep, const union addr *addr, const void *param,
                      size_t paramlen)
{
    enum loop_state state = atomic_load(&ep->state);
    struct loop_pep *pep;
    int rc = 0;

    if (state != LOOP_ENABLED || ep->request)
        return state == LOOP_CONNECTED ? -FI_EISCONN : -FI_EOPBADSTATE;
    loop_world_lock();
    pep = find_listener(addr);
    atomic_store(&ep->state, LOOP_CONNECTING);
    if (pep)
        rc = raise_request(ep, pep, param, paramlen);
    else
        write_refused(ep, FI_ECONNREFUSED, NULL, 0);
    if (rc || !pep)
        atomic_store(&ep->state, rc ? LOOP_ENABLED : LOOP_DOWN);
    loop_world_unlock();
    return rc;
}

static int cm_connect(struct fid_ep *fid, const void *raw, const void *param, size_t paramlen)
{
    struct loop_ep *ep = loop_ep_of(fid);
    struct progress *control = ep->domain->fabric->plain.control;
    union addr addr;
    int rc;

    loop_count(LOOP_CALL_CM);
    if (!raw || paramlen > LOOP_CM_DATA || (paramlen && !param))
        return -FI_EINVAL;
    rc = loop_addr_import(ep->addr_format, raw, LOOP_ADDR_MAX, &addr);
    if (!rc)
        rc = endpoint_enable(&ep->base);
    if (rc)
        return rc;
    progress_lock(control);
    rc = connect_to(ep, &addr, param, paramlen);
    progress_unlock(control);
    return rc;
}

static void join(struct loop_ep *ep, struct loop_ep *other)
{
    ep->peer = loop_port_hold(other->port);
    atomic_store(&ep->state, LOOP_CONNECTED);
}

static int cm_accept(struct fid_ep *fid, const void *param, size_t paramlen)
{
    struct loop_ep *ep = loop_ep_of(fid), *from = NULL;
    int rc;

    loop_count(LOOP_CALL_CM);
    if (paramlen > LOOP_CM_DATA || (paramlen && !param))
        return -FI_EINVAL;
    rc = endpoint_enable(&ep->base);
    if (rc)
        return rc;
    loop_world_lock();
    if (ep->request && atomic_load(&ep->state) == LOOP_ENABLED) {
        from = ep->request->from;
        free(ep->request);
        ep->request = NULL;
        rc = from ? 0 : -FI_ECONNABORTED;
    } else {
        rc = -FI_EOPBADSTATE;
    }
    if (from) {
        from->request = NULL;
        join(ep, from);
        join(from, ep);
        write_event(ep->base.eq, FI_CONNECTED, &ep->fid.fid, NULL, NULL, 0);
        write_event(from->base.eq, FI_CONNECTED, &from->fid.fid, NULL, param, paramlen);
    }
    loop_world_unlock();
    return rc;
}

/* ---- The end ---- */

static void wake_fabric(struct loop_fabric *fabric)
{
    uint64_t one = 1;

    if (write(fabric->source.fd, &one, sizeof(one)) < 0)
        return; /* full: it is readable already */
}

/* The one to tell that the connection has ended. With the port of the peer locked it cannot go, and
 * one that is being closed is no longer connected. */
static struct loop_ep *peer_to_end(const struct loop_ep *ep)
{
    struct loop_ep *other = ep->peer->ep;

    if (!other || other->peer != ep->port || atomic_load(&other->ended) ||
        atomic_load(&other->state) != LOOP_CONNECTED)
        return NULL;
    return other;
}

/* World locked. */
static void end_peer(struct loop_ep *ep)
{
    struct loop_ep *other;

    loop_port_lock(ep->peer);
    other = peer_to_end(ep);
    if (other) {
        atomic_store(&other->ended, true);
        list_attach(&other->ended_link, &other->domain->fabric->ended);
        loop_port_wake(other->port);
        wake_fabric(other->domain->fabric);
    }
    loop_port_unlock(ep->peer);
}

static void fail_receives(struct loop_ep *ep, int err)
{
    if (ep->base.match)
        match_fail(ep->base.match, NULL, err);
}

void loop_cm_finish(struct loop_ep *ep)
{
    loop_world_lock();
    list_detach(&ep->ended_link);
    atomic_store(&ep->ended, false);
    loop_world_unlock();
    if (atomic_load(&ep->state) != LOOP_CONNECTED)
        return;
    atomic_store(&ep->state, LOOP_DOWN);
    fail_receives(ep, FI_ECONNRESET);
    write_event(ep->base.eq, FI_SHUTDOWN, &ep->fid.fid, NULL, NULL, 0);
}

static struct loop_ep *next_ended(struct loop_fabric *fabric)
{
    struct loop_ep *ep = NULL;

    loop_world_lock();
    if (!list_empty(&fabric->ended)) {
        ep = list_item(fabric->ended.next, struct loop_ep, ended_link);
        list_detach(&ep->ended_link);
    }
    loop_world_unlock();
    return ep;
}

static void poll_ended(struct progress_source *source)
{
    struct loop_fabric *fabric = object_of(source, struct loop_fabric, source);
    struct loop_ep *ep;
    uint64_t count;

    while ((ep = next_ended(fabric))) {
        progress_lock(ep->base.binding.progress);
        while (atomic_load(&ep->ended))
            loop_progress(&ep->source);
        progress_unlock(ep->base.binding.progress);
    }
    if (read(source->fd, &count, sizeof(count)) < 0)
        return; /* nothing new */
}

static int trywait_ended(struct progress_source *source)
{
    struct loop_fabric *fabric = object_of(source, struct loop_fabric, source);
    bool none;

    loop_world_lock();
    none = list_empty(&fabric->ended);
    loop_world_unlock();
    return none ? 0 : -FI_EAGAIN;
}

int loop_cm_attach(struct loop_fabric *fabric)
{
    struct progress *control = fabric->plain.control;
    int rc;

    list_init(&fabric->ended);
    list_init(&fabric->source.link);
    fabric->source.poll = poll_ended;
    fabric->source.trywait = trywait_ended;
    fabric->source.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    progress_lock(control);
    rc = progress_attach(control, &fabric->source);
    progress_unlock(control);
    if (rc)
        close(fabric->source.fd);
    return rc;
}

void loop_cm_detach(struct loop_fabric *fabric)
{
    progress_lock(fabric->plain.control);
    progress_detach(fabric->plain.control, &fabric->source);
    progress_unlock(fabric->plain.control);
    close(fabric->source.fd);
}

static int cm_shutdown(struct fid_ep *fid, uint64_t flags)
{
    struct loop_ep *ep = loop_ep_of(fid);
    enum loop_state state = atomic_load(&ep->state);

    loop_count(LOOP_CALL_CM);
    if (flags)
        return -FI_EBADFLAGS;
    if (state != LOOP_CONNECTED)
        return state == LOOP_DOWN ? 0 : -FI_ENOTCONN;
    progress_lock(ep->base.binding.progress);
    loop_world_lock();
    atomic_store(&ep->state, LOOP_DOWN);
    end_peer(ep);
    loop_world_unlock();
    fail_receives(ep, FI_ECANCELED);
    write_event(ep->base.eq, FI_SHUTDOWN, &ep->fid.fid, NULL, NULL, 0);
    progress_unlock(ep->base.binding.progress);
    return 0;
}

void loop_cm_close(struct loop_ep *ep)
{
    loop_world_lock();
    if (ep->request && ep->request->from != ep) {
        drop_request(ep->request, NULL, 0);
    } else if (ep->request) {
        ep->request->from = NULL;
    }
    ep->request = NULL;
    if (atomic_load(&ep->state) == LOOP_CONNECTED)
        end_peer(ep);
    atomic_store(&ep->state, LOOP_DOWN);
    list_detach(&ep->ended_link);
    loop_world_unlock();
}

/* ---- Names ---- */

static int cm_getpeer(struct fid_ep *fid, void *raw, size_t *len)
{
    struct loop_ep *ep = loop_ep_of(fid);

    loop_count(LOOP_CALL_OTHER);
    if (atomic_load(&ep->state) != LOOP_CONNECTED)
        return -FI_ENOTCONN;
    return loop_addr_give(ep->addr_format, false, &ep->peer->addr, raw, len);
}

struct fi_ops_cm loop_cm_ops = {
    .size = sizeof(struct fi_ops_cm),
    .setname = loop_setname,
    .getname = loop_getname,
    .getpeer = cm_getpeer,
    .connect = cm_connect,
    .listen = enosys_cm_listen,
    .accept = cm_accept,
    .reject = enosys_cm_reject,
    .shutdown = cm_shutdown,
    .join = enosys_cm_join,
};

/* ---- Passive endpoints ---- */

static struct loop_pep *pep_of(struct passive *base)
{
    return object_of(base, struct loop_pep, base);
}

static int pep_listen(struct passive *base)
{
    struct loop_pep *pep = pep_of(base);

    loop_count(LOOP_CALL_CM);
    if (!base->eq)
        return -FI_ENOEQ;
    if (pep->listening)
        return -FI_EOPBADSTATE;
    loop_world_lock();
    pep->port->pep = pep;
    pep->listening = true;
    loop_world_unlock();
    return 0;
}

static int pep_reject(struct passive *base, fid_t handle, const void *param, size_t paramlen)
{
    struct loop_request *request;

    loop_count(LOOP_CALL_CM);
    loop_world_lock();
    request = find_request(handle);
    if (request)
        drop_request(request, param, paramlen);
    loop_world_unlock();
    return request ? 0 : -FI_EINVAL;
}

static int pep_getname(struct passive *base, void *raw, size_t *len)
{
    return loop_addr_give(base->info->addr_format, false, &pep_of(base)->port->addr, raw, len);
}

static int pep_setname(struct passive *base, void *raw, size_t len)
{
    struct loop_pep *pep = pep_of(base);
    union addr addr;
    int rc = loop_addr_import(base->info->addr_format, raw, len, &addr);

    if (rc)
        return rc;
    return pep->listening ? -FI_EOPBADSTATE : loop_port_rename(pep->port, &addr);
}

static void pep_close(struct passive *base)
{
    struct loop_pep *pep = pep_of(base);

    loop_world_lock();
    pep->port->pep = NULL;
    list_for_each_safe (pos, after, &requests) {
        struct loop_request *request = list_item(pos, struct loop_request, link);

        if (request->pep == pep)
            drop_request(request, NULL, 0);
    }
    loop_world_unlock();
    loop_port_close(pep->port);
    passive_finish(base);
    free(pep);
}

static const struct passive_ops pep_ops = {
    .listen = pep_listen,
    .reject = pep_reject,
    .setname = pep_setname,
    .getname = pep_getname,
    .close = pep_close,
    .cm_data_size = LOOP_CM_DATA,
};

int loop_pep_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **ret_pep,
                  void *context)
{
    struct loop_pep *pep = calloc(1, sizeof(*pep));
    union addr src;
    int rc = -FI_ENOMEM;

    loop_count(LOOP_CALL_OPEN);
    if (pep)
        rc = passive_init(&pep->base, object_of(fabric, struct fabric, fid), info, &pep_ops,
                          context);
    if (rc) {
        free(pep);
        return rc;
    }
    info = pep->base.info;
    rc = addr_from_str("127.0.0.1:0", SIZE_MAX, &src);
    if (info->src_addr)
        rc = loop_addr_import(info->addr_format, info->src_addr, info->src_addrlen, &src);
    if (!rc)
        rc = loop_port_open(&src, &pep->port);
    if (rc) {
        passive_finish(&pep->base);
        free(pep);
        return rc;
    }
    *ret_pep = &pep->base.fid;
    return 0;
}
