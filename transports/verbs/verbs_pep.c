/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/verbs/verbs_pep.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/info/info.h"
#include "core/net/host.h"
#include "transports/verbs/verbs_info.h"

enum {
    BACKLOG = 1024
};

struct verbs_pep {
    struct passive base;
    struct verbs_cm_user user;
    struct verbs_eq *eq;
    struct rdma_cm_id *id; /* from the first need on */
    union addr src;
    bool bound, listening;
    int backlog;
};

static pthread_mutex_t requests_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct list requests = {&requests, &requests};

static struct verbs_pep *pep_of(struct passive *base)
{
    return object_of(base, struct verbs_pep, base);
}

/* ---- Requests ---- */

struct verbs_request *verbs_request_claim(const struct fid *handle)
{
    struct verbs_request *found = NULL;

    pthread_mutex_lock(&requests_mutex);
    list_for_each (item, &requests) {
        struct verbs_request *request = list_item(item, struct verbs_request, link);

        if (&request->fid == handle)
            found = request;
    }
    if (found) {
        list_detach(&found->link);
        found->pep = NULL;
    }
    pthread_mutex_unlock(&requests_mutex);
    return found;
}

void verbs_request_reject(struct verbs_request *request, const void *data, size_t len)
{
    uint8_t raw[VERBS_PRIVATE];

    verbs_cm_lib.reject(request->id, raw, (uint8_t)verbs_private_put(data, len, raw));
    verbs_cm_lib.destroy_id(request->id);
    free(request);
}

static struct fi_info *describe(const struct verbs_pep *pep, struct verbs_request *request)
{
    struct fi_info *info = info_dup(pep->base.info);

    if (!info)
        return NULL;
    info->handle = &request->fid;
    if (!strcmp(info->domain_attr->name, VERBS_ANY_DOMAIN) &&
        info_set_string(&info->domain_attr->name,
                        verbs_lib.get_device_name(request->id->verbs->device))) {
        info_free(info);
        return NULL;
    }
    if (host_set_src(info, rdma_get_local_addr(request->id)) ||
        host_set_dest(info, rdma_get_peer_addr(request->id))) {
        info_free(info);
        return NULL;
    }
    return info;
}

static void raise_request(struct verbs_pep *pep, const struct verbs_cm_event *event)
{
    struct verbs_request *request = calloc(1, sizeof(*request));
    struct fi_info *info;

    event->id->context = NULL; /* no endpoint has it yet */
    if (!request || event->malformed) {
        LOG_WARN("verbs", FI_LOG_EP_CTRL, "a connection request is rejected: %s",
                 request ? "its private data is not of this protocol" : "no memory");
        free(request);
        verbs_cm_lib.reject(event->id, NULL, 0);
        verbs_cm_lib.destroy_id(event->id);
        return;
    }
    fid_init(&request->fid, FI_CLASS_CONNREQ, NULL, &passive_request_ops);
    request->pep = pep;
    request->id = event->id;
    request->param = event->param;
    info = describe(pep, request);
    pthread_mutex_lock(&requests_mutex);
    list_attach(&request->link, &requests);
    pthread_mutex_unlock(&requests_mutex);
    if (info && !verbs_eq_write(pep->base.eq, FI_CONNREQ, &pep->base.fid.fid, info, event->data,
                                event->len))
        return;
    info_free(info);
    verbs_request_reject(verbs_request_claim(&request->fid), NULL, 0);
}

static void pep_event(struct verbs_cm_user *user, const struct verbs_cm_event *event)
{
    struct verbs_pep *pep = object_of(user, struct verbs_pep, user);
    struct fi_eq_err_entry entry = {.fid = &pep->base.fid.fid,
                                    .context = pep->base.fid.fid.context,
                                    .err = FI_ENODEV,
                                    .prov_errno = FI_ENODEV};

    if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST)
        raise_request(pep, event);
    else if (event->type == RDMA_CM_EVENT_DEVICE_REMOVAL)
        eq_write_error(pep->base.eq, &entry);
}

/* ---- Listening ---- */

static int bind_addr(struct verbs_pep *pep)
{
    int rc;

    if (pep->bound)
        return 0;
    if (!pep->base.eq)
        return -FI_ENOEQ;
    if (!pep->id && verbs_cm_lib.create_id(pep->eq->channel, &pep->id, &pep->user, RDMA_PS_TCP))
        return verbs_error(-1);
    rc = verbs_cm_lib.bind_addr(pep->id, &pep->src.sa);
    pep->bound = !rc;
    return rc ? verbs_error(rc) : 0;
}

static int pep_listen(struct passive *base)
{
    struct verbs_pep *pep = pep_of(base);
    int rc;

    if (!base->eq)
        return -FI_ENOEQ;
    if (pep->listening)
        return -FI_EOPBADSTATE;
    progress_lock(pep->eq->progress);
    rc = bind_addr(pep);
    if (!rc && verbs_cm_lib.listen(pep->id, pep->backlog))
        rc = verbs_error(-1);
    pep->listening = !rc;
    progress_unlock(pep->eq->progress);
    return rc;
}

static int pep_bind_eq(struct passive *base, struct eq *eq)
{
    struct verbs_pep *pep = pep_of(base);

    if (base->eq)
        return -FI_EINVAL;
    pep->eq = verbs_eq_of(object_of(base->fabric, struct verbs_fabric, base), eq);
    if (!pep->eq)
        return -FI_EINVAL;
    base->eq = eq;
    return 0;
}

static int pep_reject(struct passive *base, fid_t handle, const void *param, size_t paramlen)
{
    struct verbs_request *request = verbs_request_claim(handle);

    if (!request)
        return -FI_EINVAL;
    verbs_request_reject(request, param, paramlen);
    return 0;
}

/* ---- Names ---- */

static int pep_getname(struct passive *base, void *raw, size_t *len)
{
    struct verbs_pep *pep = pep_of(base);
    const struct sockaddr *addr = pep->bound ? rdma_get_local_addr(pep->id) : &pep->src.sa;

    return addr_export(base->info->addr_format, addr, raw, len);
}

static int pep_setname(struct passive *base, void *raw, size_t len)
{
    struct verbs_pep *pep = pep_of(base);

    if (pep->bound)
        return -FI_EOPBADSTATE;
    return addr_import(base->info->addr_format, raw, len, &pep->src);
}

static int pep_control(struct passive *base, int command, void *arg)
{
    if (command != FI_BACKLOG)
        return -FI_ENOSYS;
    pep_of(base)->backlog = *(int *)arg;
    return 0;
}

static int pep_setopt(struct passive *base, int name, const void *value, size_t len)
{
    return name == FI_OPT_SHARED_MEMORY_PERMITTED ? verbs_shared_memory(len) : -FI_ENOPROTOOPT;
}

static void pep_close(struct passive *base)
{
    struct verbs_pep *pep = pep_of(base);
    struct list left;

    list_init(&left);
    if (pep->eq) {
        progress_lock(pep->eq->progress);
        if (pep->id && !progress_forked(pep->eq->progress))
            verbs_cm_lib.destroy_id(pep->id);
        progress_unlock(pep->eq->progress);
    }
    pthread_mutex_lock(&requests_mutex);
    list_for_each_safe (item, after, &requests) {
        struct verbs_request *request = list_item(item, struct verbs_request, link);

        if (request->pep != pep)
            continue;
        list_detach(item);
        list_attach(item, &left);
    }
    pthread_mutex_unlock(&requests_mutex);
    while (!list_empty(&left)) {
        struct verbs_request *request = list_item(left.next, struct verbs_request, link);

        list_detach(&request->link);
        verbs_request_reject(request, NULL, 0);
    }
    passive_finish(base);
    free(pep);
}

static const struct passive_ops pep_ops = {
    .listen = pep_listen,
    .reject = pep_reject,
    .setname = pep_setname,
    .getname = pep_getname,
    .bind_eq = pep_bind_eq,
    .control = pep_control,
    .setopt = pep_setopt,
    .close = pep_close,
    .cm_data_size = VERBS_CM_DATA,
};

int verbs_pep_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **ret_pep,
                   void *context)
{
    struct verbs_pep *pep = calloc(1, sizeof(*pep));
    int rc = -FI_ENOMEM;

    if (pep)
        rc = passive_init(&pep->base, object_of(fabric, struct fabric, fid), info, &pep_ops,
                          context);
    if (rc) {
        free(pep);
        return rc;
    }
    info = pep->base.info;
    pep->user.event = pep_event;
    pep->backlog = BACKLOG;
    pep->src.in.sin_family = AF_INET;
    if (info->src_addr)
        rc = addr_import(info->addr_format, info->src_addr, info->src_addrlen, &pep->src);
    if (rc) {
        passive_finish(&pep->base);
        free(pep);
        return rc;
    }
    *ret_pep = &pep->base.fid;
    return 0;
}
