/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections, by rdma_cm.
 *
 *   active    resolve address -> resolve route -> connect -> the answer: connect the queue pair,
 *             establish -> FI_CONNECTED
 *   passive   request -> fi_accept: connect the queue pair, accept -> established: FI_CONNECTED
 *
 * A peer that computes does not answer, and the device's own timeouts end long before it does. So
 * the active end repeats a request without an answer until answer_ms have passed.
 */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/base/log.h"
#include "core/queue/wait.h"
#include "transports/verbs/verbs_ep.h"
#include "transports/verbs/verbs_pep.h"

enum {
    REJECTED_BY_CONSUMER = 28, /* InfiniBand Architecture, 12.6.7.2: by the application */
    RETRIES = 6,     /* of a packet that is not acknowledged: rdma_rxe takes 7 as for ever */
    RNR_RETRIES = 7, /* for ever */
};

/* ---- Reports ---- */

int verbs_cm_error(enum rdma_cm_event_type type, int status)
{
    switch (type) {
    case RDMA_CM_EVENT_REJECTED: return FI_ECONNREFUSED;
    case RDMA_CM_EVENT_DEVICE_REMOVAL: return FI_ENODEV;
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR: return status == -ETIMEDOUT ? FI_ETIMEDOUT : FI_EHOSTUNREACH;
    default: return status < 0 ? -status : FI_ECONNABORTED;
    }
}

static void drop_id(struct verbs_ep *ep)
{
    if (!ep->id)
        return;
    verbs_cm_lib.destroy_id(ep->id);
    ep->id = NULL;
}

static void refuse(struct verbs_ep *ep, int err, int status, const uint8_t *data, size_t len)
{
    struct fi_eq_err_entry entry = {
        .fid = &ep->fid.fid,
        .context = ep->fid.fid.context,
        .err = err,
        .prov_errno = -status,
        .err_data = (void *)(uintptr_t)data,
        .err_data_size = len,
    };

    atomic_store(&ep->state, VERBS_DOWN);
    if (!atomic_exchange(&ep->told, true))
        eq_write_error(ep->base.eq, &entry);
    progress_lock(ep->base.binding.progress);
    verbs_qp_fail(ep);
    progress_unlock(ep->base.binding.progress);
}

void verbs_ep_end(struct verbs_ep *ep)
{
    enum verbs_state state = atomic_exchange(&ep->state, VERBS_DOWN);

    if (state == VERBS_CONNECTED && !atomic_exchange(&ep->told, true))
        verbs_eq_write(ep->base.eq, FI_SHUTDOWN, &ep->fid.fid, NULL, NULL, 0);
}

/* Operations under way complete as flushed. */
static void end_locked(struct verbs_ep *ep)
{
    progress_lock(ep->base.binding.progress);
    verbs_ep_end(ep);
    verbs_qp_fail(ep);
    progress_unlock(ep->base.binding.progress);
}

/* ---- The active side ---- */

static struct rdma_conn_param param_of(const struct verbs_ep *ep)
{
    const struct ibv_device_attr *attr = &ep->domain->device->attr;

    return (struct rdma_conn_param){
        .private_data = ep->private_data,
        .private_data_len = (uint8_t)ep->private_len,
        .responder_resources = (uint8_t)(attr->max_qp_rd_atom < 255 ? attr->max_qp_rd_atom : 255),
        .initiator_depth =
            (uint8_t)(attr->max_qp_init_rd_atom < 255 ? attr->max_qp_init_rd_atom : 255),
        .flow_control = 1,
        .srq = ep->srx != NULL,
        .retry_count = RETRIES,
        .rnr_retry_count = RNR_RETRIES,
        .qp_num = ep->qp->qp_num,
    };
}

static int start_connect(struct verbs_ep *ep)
{
    int rc;

    drop_id(ep);
    if (verbs_cm_lib.create_id(ep->eq->channel, &ep->id, &ep->user, RDMA_PS_TCP))
        return verbs_error(-1);
    rc = verbs_cm_lib.resolve_addr(ep->id, addr_is_any(&ep->src.sa) ? NULL : &ep->src.sa,
                                   &ep->dest.sa, ep->domain->fabric->resolve_ms);
    return rc ? verbs_error(rc) : 0;
}

static int addr_resolved(struct verbs_ep *ep)
{
    const char *ours = ep->domain->device->name;
    const char *theirs = ep->id->verbs ? verbs_lib.get_device_name(ep->id->verbs->device) : "none";
    char text[ADDR_TEXT_MAX];

    if (!strcmp(ours, theirs))
        return verbs_error(verbs_cm_lib.resolve_route(ep->id, ep->domain->fabric->resolve_ms));
    LOG_WARN("verbs", FI_LOG_EP_CTRL, "%s is reached by %s, and the domain is of %s",
             addr_text(&ep->dest.sa, text, sizeof(text)), theirs, ours);
    return -FI_EHOSTUNREACH;
}

static int answered(struct verbs_ep *ep, const struct verbs_cm_event *event)
{
    int rc;

    progress_lock(ep->base.binding.progress);
    rc = verbs_qp_connect(ep, -1, -1);
    progress_unlock(ep->base.binding.progress);
    if (!rc)
        rc = verbs_error(verbs_cm_lib.establish(ep->id));
    if (rc)
        return rc;
    atomic_store(&ep->state, VERBS_CONNECTED);
    return verbs_eq_write(ep->base.eq, FI_CONNECTED, &ep->fid.fid, NULL, event->data, event->len);
}

static int unanswered(struct verbs_ep *ep, const struct verbs_cm_event *event)
{
    if (event->status == -ETIMEDOUT && clock_ms() < ep->deadline)
        return start_connect(ep);
    return -verbs_cm_error(event->type, event->status);
}

static int route_resolved(struct verbs_ep *ep)
{
    struct rdma_conn_param param = param_of(ep);

    return verbs_error(verbs_cm_lib.connect(ep->id, &param));
}

/* An error is that of the connection. */
static int connecting(struct verbs_ep *ep, const struct verbs_cm_event *event)
{
    switch (event->type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED: return addr_resolved(ep);
    case RDMA_CM_EVENT_ROUTE_RESOLVED: return route_resolved(ep);
    case RDMA_CM_EVENT_CONNECT_RESPONSE: return answered(ep, event);
    case RDMA_CM_EVENT_UNREACHABLE: return unanswered(ep, event);
    case RDMA_CM_EVENT_ESTABLISHED:
        atomic_store(&ep->state, VERBS_CONNECTED);
        return verbs_eq_write(ep->base.eq, FI_CONNECTED, &ep->fid.fid, NULL, event->data,
                              event->len);
    case RDMA_CM_EVENT_DISCONNECTED: return -FI_ECONNABORTED;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_DEVICE_REMOVAL: return -verbs_cm_error(event->type, event->status);
    default: return 0;
    }
}

static void connected(struct verbs_ep *ep, const struct verbs_cm_event *event)
{
    switch (event->type) {
    case RDMA_CM_EVENT_UNREACHABLE: /* after all: the peer never got our last word */
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_DEVICE_REMOVAL: end_locked(ep); break;
    default: break;
    }
}

void verbs_cm_event(struct verbs_cm_user *user, const struct verbs_cm_event *event)
{
    struct verbs_ep *ep = object_of(user, struct verbs_ep, user);
    bool spoken = event->type == RDMA_CM_EVENT_REJECTED && event->status == REJECTED_BY_CONSUMER;
    int rc;

    if (event->id != ep->id)
        return;
    if (atomic_load(&ep->state) == VERBS_CONNECTED) {
        connected(ep, event);
        return;
    }
    if (atomic_load(&ep->state) != VERBS_CONNECTING)
        return;
    rc = connecting(ep, event);
    if (rc)
        refuse(ep, -rc, event->status, spoken ? event->data : NULL, spoken ? event->len : 0);
}

static int prepare(struct verbs_ep *ep, const void *param, size_t paramlen)
{
    if (paramlen > VERBS_CM_DATA || (paramlen && !param))
        return -FI_EINVAL;
    return endpoint_enable(&ep->base);
}

static void set_private(struct verbs_ep *ep, const void *param, size_t paramlen)
{
    ep->private_len = verbs_private_put(param, paramlen, ep->private_data);
}

static int cm_connect(struct fid_ep *fid, const void *raw, const void *param, size_t paramlen)
{
    struct verbs_ep *ep = verbs_ep_of(fid);
    enum verbs_state state;
    int64_t wait = ep->answer_ms ? ep->answer_ms : ep->domain->fabric->answer_ms;
    union addr dest;
    int rc;

    if (!raw)
        return -FI_EINVAL;
    rc = addr_import(ep->addr_format, raw, sizeof(struct sockaddr_storage), &dest);
    if (!rc)
        rc = prepare(ep, param, paramlen);
    if (rc)
        return rc;
    state = atomic_load(&ep->state);
    if (state != VERBS_ENABLED || ep->request)
        return state == VERBS_CONNECTED ? -FI_EISCONN : -FI_EOPBADSTATE;
    ep->dest = dest;
    progress_lock(ep->eq->progress);
    set_private(ep, param, paramlen);
    ep->deadline = clock_ms() + wait;
    atomic_store(&ep->state, VERBS_CONNECTING);
    rc = start_connect(ep);
    if (rc)
        refuse(ep, -rc, rc, NULL, 0);
    progress_unlock(ep->eq->progress);
    return 0;
}

/* ---- The passive side ---- */

static uint8_t least(uint8_t asked, int most)
{
    return asked < most ? asked : (uint8_t)most;
}

static int accept_locked(struct verbs_ep *ep)
{
    struct verbs_request *request = ep->request;
    const struct ibv_device_attr *attr = &ep->domain->device->attr;
    struct rdma_conn_param param = param_of(ep);
    int rc;

    param.responder_resources = least(request->param.responder_resources, attr->max_qp_rd_atom);
    param.initiator_depth = least(request->param.initiator_depth, attr->max_qp_init_rd_atom);
    ep->id = request->id;
    free(request);
    ep->request = NULL;
    rc = verbs_error(verbs_cm_lib.migrate_id(ep->id, ep->eq->channel));
    if (rc)
        return rc;
    ep->id->context = &ep->user;
    progress_lock(ep->base.binding.progress);
    rc = verbs_qp_connect(ep, param.initiator_depth, param.responder_resources);
    progress_unlock(ep->base.binding.progress);
    if (rc)
        return rc;
    atomic_store(&ep->state, VERBS_CONNECTING);
    return verbs_error(verbs_cm_lib.accept(ep->id, &param));
}

static int cm_accept(struct fid_ep *fid, const void *param, size_t paramlen)
{
    struct verbs_ep *ep = verbs_ep_of(fid);
    int rc = prepare(ep, param, paramlen);

    if (rc)
        return rc;
    if (!ep->request || atomic_load(&ep->state) != VERBS_ENABLED)
        return -FI_EOPBADSTATE;
    progress_lock(ep->eq->progress);
    set_private(ep, param, paramlen);
    rc = accept_locked(ep);
    if (rc)
        atomic_store(&ep->state, VERBS_DOWN);
    progress_unlock(ep->eq->progress);
    return rc;
}

/* ---- The end, and names ---- */

static int cm_shutdown(struct fid_ep *fid, uint64_t flags)
{
    struct verbs_ep *ep = verbs_ep_of(fid);
    enum verbs_state state = atomic_load(&ep->state);

    if (flags)
        return -FI_EBADFLAGS;
    if (state != VERBS_CONNECTED)
        return state == VERBS_DOWN ? 0 : -FI_ENOTCONN;
    progress_lock(ep->eq->progress);
    end_locked(ep);
    verbs_cm_lib.disconnect(ep->id);
    progress_unlock(ep->eq->progress);
    return 0;
}

static int cm_getname(fid_t fid, void *raw, size_t *len)
{
    struct verbs_ep *ep = object_of(fid, struct verbs_ep, fid.fid);
    const struct sockaddr *addr = ep->id ? rdma_get_local_addr(ep->id) : &ep->src.sa;

    return addr_export(ep->addr_format, addr_size(addr) ? addr : &ep->src.sa, raw, len);
}

static int cm_setname(fid_t fid, void *raw, size_t len)
{
    struct verbs_ep *ep = object_of(fid, struct verbs_ep, fid.fid);

    if (atomic_load(&ep->state) > VERBS_ENABLED)
        return -FI_EOPBADSTATE;
    return addr_import(ep->addr_format, raw, len, &ep->src);
}

static int cm_getpeer(struct fid_ep *fid, void *raw, size_t *len)
{
    struct verbs_ep *ep = verbs_ep_of(fid);

    if (atomic_load(&ep->state) != VERBS_CONNECTED)
        return -FI_ENOTCONN;
    return addr_export(ep->addr_format, rdma_get_peer_addr(ep->id), raw, len);
}

struct fi_ops_cm verbs_cm_ops = {
    .size = sizeof(struct fi_ops_cm),
    .setname = cm_setname,
    .getname = cm_getname,
    .getpeer = cm_getpeer,
    .connect = cm_connect,
    .listen = enosys_cm_listen,
    .accept = cm_accept,
    .reject = enosys_cm_reject,
    .shutdown = cm_shutdown,
    .join = enosys_cm_join,
};
