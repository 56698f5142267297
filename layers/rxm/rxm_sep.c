/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxm/rxm_sep.h"

#include <stdlib.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/info.h"
#include "core/log.h"
#include "core/no.h"
#include "layers/rxm/rxm_av.h"
#include "layers/rxm/rxm_control.h"
#include "layers/rxm/rxm_info.h"
#include "layers/rxm/rxm_wire.h"

enum {
    SKIP = 15 /* progress calls without a look at the listener */
};

static struct rxm_sep *sep_of(struct fid *fid)
{
    return object_of(fid, struct rxm_sep, fid.fid);
}

/* ---- The listener ---- */

/* A context that is not there may come yet: without a word the requester tries again. */
static void on_request(struct rxm_sep *sep, struct fi_eq_cm_entry *entry, size_t len)
{
    struct rxm_wire_hello hello;
    struct rxm_ep *ep = NULL;

    if (!rxm_wire_get(entry->data, len, &hello))
        hello.target = 0; /* for that context to refuse */
    if (hello.target < RXM_CONTEXTS)
        ep = sep->rx[hello.target];
    if (ep && ep->enabled) {
        rxm_control_request(ep, entry, len);
        return;
    }
    fi_reject(sep->pep, entry->info->handle, NULL, 0);
    info_free(entry->info);
}

static void read_listener(struct rxm_sep *sep)
{
    union {
        struct fi_eq_cm_entry entry;
        char bytes[sizeof(struct fi_eq_cm_entry) + RXM_PRIVATE_DATA_MAX];
    } buf;
    struct fi_eq_err_entry error = {.err_data_size = 0};
    uint32_t event;
    ssize_t len;

    for (;;) {
        len = fi_eq_read(sep->eq, &event, &buf, sizeof(buf), 0);
        if (len == -FI_EAVAIL)
            fi_eq_readerr(sep->eq, &error, 0);
        else if (len < (ssize_t)sizeof(buf.entry))
            break;
        else if (event == FI_CONNREQ)
            on_request(sep, &buf.entry, (size_t)len - sizeof(buf.entry));
    }
}

static void source_progress(struct unit_source *source)
{
    struct rxm_sep *sep = object_of(source, struct rxm_sep, source);

    if (sep->skip) {
        sep->skip--;
        return;
    }
    sep->skip = SKIP;
    read_listener(sep);
}

static int source_trywait(struct unit_source *source)
{
    struct rxm_sep *sep = object_of(source, struct rxm_sep, source);
    struct fid *fid = &sep->eq->fid;

    sep->skip = 0;
    return fi_trywait(sep->domain->fabric->lower->fabric, &fid, 1) ? -FI_EAGAIN : 0;
}

static int start_listener(struct rxm_sep *sep)
{
    int rc = fi_listen(sep->pep);

    sep->source.progress = source_progress;
    sep->source.trywait = source_trywait;
    if (!rc)
        rc = fi_control(&sep->eq->fid, FI_GETWAIT, &sep->source.fd);
    if (rc)
        return rc;
    unit_lock(sep->unit);
    rc = unit_attach(sep->unit, &sep->source);
    sep->listening = !rc;
    unit_unlock(sep->unit);
    return rc;
}

/* ---- Contexts ---- */

int rxm_sep_join(struct rxm_sep *sep, struct rxm_ep *context)
{
    int rc;

    if (!sep->av)
        return -FI_ENOAV;
    /* A context without a queue is one that nobody uses, which some open and enable. */
    rc = report_bind_unit(&context->report, &sep->domain->base, sep->unit);
    if (rc)
        return rc;
    if (!context->av) {
        context->av = sep->av;
        children_hold(&sep->av->children);
    }
    return sep->listening ? 0 : start_listener(sep);
}

void rxm_sep_leave(struct rxm_sep *sep, struct rxm_ep *context)
{
    struct rxm_ep **slot = context->fid.fid.fclass == FI_CLASS_TX_CTX
                               ? &sep->tx[context->source - 1]
                               : &sep->rx[context->target];

    unit_lock(sep->unit);
    *slot = NULL;
    unit_unlock(sep->unit);
}

static int sep_tx_ctx(struct fid_ep *fid, int index, struct fi_tx_attr *attr, struct fid_ep **ep,
                      void *context)
{
    struct rxm_sep *sep = sep_of(&fid->fid);
    int rc;

    if (index < 0 || (size_t)index >= sep->info->ep_attr->tx_ctx_cnt)
        return -FI_EINVAL;
    if (sep->tx[index])
        return -FI_EBUSY;
    rc = rxm_ep_open_tx(sep, (unsigned)index, attr, ep, context);
    if (!rc)
        sep->tx[index] = rxm_ep_of(*ep);
    return rc;
}

static int sep_rx_ctx(struct fid_ep *fid, int index, struct fi_rx_attr *attr, struct fid_ep **ep,
                      void *context)
{
    struct rxm_sep *sep = sep_of(&fid->fid);
    int rc;

    if (index < 0 || (size_t)index >= sep->info->ep_attr->rx_ctx_cnt)
        return -FI_EINVAL;
    if (sep->rx[index])
        return -FI_EBUSY;
    rc = rxm_ep_open_rx(sep, (unsigned)index, attr, ep, context);
    if (rc)
        return rc;
    unit_lock(sep->unit);
    sep->rx[index] = rxm_ep_of(*ep);
    unit_unlock(sep->unit);
    return 0;
}

/* ---- The endpoint itself ---- */

static int sep_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct rxm_sep *sep = sep_of(fid);
    struct av *av;

    if (other->fclass == FI_CLASS_EQ)
        return 0; /* connections report to queues of their own */
    if (other->fclass != FI_CLASS_AV)
        return -FI_EINVAL; /* queues and counters are the contexts' */
    av = object_of(other, struct av, fid.fid);
    if (sep->av || av->domain != &sep->domain->base)
        return -FI_EINVAL;
    sep->av = av;
    children_hold(&av->children);
    return 0;
}

static int sep_control(struct fid *fid, int command, void *arg)
{
    struct rxm_sep *sep = sep_of(fid);

    switch (command) {
    case FI_ENABLE: return sep->av ? 0 : -FI_ENOAV; /* contexts are enabled one by one */
    case FI_BACKLOG: return fi_control(&sep->pep->fid, command, arg);
    default: return -FI_ENOSYS;
    }
}

static int sep_setname(fid_t fid, void *addr, size_t addrlen)
{
    return fi_setname(&sep_of(fid)->pep->fid, addr, addrlen);
}

static int sep_getname(fid_t fid, void *addr, size_t *addrlen)
{
    return fi_getname(&sep_of(fid)->pep->fid, addr, addrlen);
}

static bool has_contexts(const struct rxm_sep *sep)
{
    for (int i = 0; i < RXM_CONTEXTS; i++)
        if (sep->tx[i] || sep->rx[i])
            return true;
    return false;
}

static int sep_close(struct fid *fid)
{
    struct rxm_sep *sep = sep_of(fid);

    if (has_contexts(sep))
        return -FI_EBUSY;
    if (sep->unit) {
        unit_lock(sep->unit);
        unit_detach(sep->unit, &sep->source);
        unit_unlock(sep->unit);
    }
    if (sep->pep)
        fi_close(&sep->pep->fid);
    if (sep->eq)
        fi_close(&sep->eq->fid);
    if (sep->unit)
        unit_release(sep->unit);
    if (sep->av)
        children_release(&sep->av->children);
    children_release(&sep->domain->base.children);
    info_free(sep->lower_info);
    info_free(sep->info);
    free(sep);
    return 0;
}

static struct fi_ops fid_ops = {
    .size = sizeof(fid_ops),
    .close = sep_close,
    .bind = sep_bind,
    .control = sep_control,
    .ops_open = no_ops_open,
    .tostr = no_tostr,
    .ops_set = no_ops_set,
};

static struct fi_ops_ep ep_ops = {
    .size = sizeof(ep_ops),
    .cancel = no_ep_cancel,
    .getopt = no_ep_getopt,
    .setopt = no_ep_setopt,
    .tx_ctx = sep_tx_ctx,
    .rx_ctx = sep_rx_ctx,
    .rx_size_left = no_ep_rx_size_left,
    .tx_size_left = no_ep_tx_size_left,
};

static struct fi_ops_cm cm_ops = {
    .size = sizeof(cm_ops),
    .setname = sep_setname,
    .getname = sep_getname,
    .getpeer = no_cm_getpeer,
    .connect = no_cm_connect,
    .listen = no_cm_listen,
    .accept = no_cm_accept,
    .reject = no_cm_reject,
    .shutdown = no_cm_shutdown,
    .join = no_cm_join,
};

static int count_of(size_t *count)
{
    if (!*count)
        *count = 1;
    return *count <= RXM_CONTEXTS ? 0 : -FI_EINVAL;
}

static int open_parts(struct rxm_sep *sep, const struct fi_info *info)
{
    struct rxm_fabric *fabric = sep->domain->fabric;
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_FD};
    int rc;

    sep->info = fabric_info(&fabric->base, info);
    if (!sep->info)
        return -FI_ENOMEM;
    if (rxm_emulates(fabric->params, sep->info)) {
        LOG_WARN("rxm", FI_LOG_EP_CTRL,
                 ": FI_PROTO_RXM has no place for the contexts of scalable endpoints; "
                 "use rxm(tags=pass)");
        return -FI_ENOSYS;
    }
    rc = count_of(&sep->info->ep_attr->tx_ctx_cnt);
    if (!rc)
        rc = count_of(&sep->info->ep_attr->rx_ctx_cnt);
    if (!rc)
        rc = unit_create(sep->domain->base.info->domain_attr, fabric->base.part, &sep->unit);
    if (!rc)
        rc = rxm_lower_info(fabric->lower, fabric->base.api_version, fabric->params, sep->info,
                            &sep->lower_info);
    if (!rc)
        rc = fi_eq_open(fabric->lower->fabric, &eq_attr, &sep->eq, sep);
    if (!rc)
        rc = fi_passive_ep(fabric->lower->fabric, sep->lower_info, &sep->pep, sep);
    return rc ? rc : fi_pep_bind(sep->pep, &sep->eq->fid, 0);
}

int rxm_sep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ret_sep,
                 void *context)
{
    struct rxm_domain *domain = rxm_domain_of(fid);
    struct rxm_sep *sep;
    int rc;

    if (domain->base.info->domain_attr->threading == FI_THREAD_COMPLETION) {
        LOG_WARN("rxm", FI_LOG_EP_CTRL,
                 ": contexts of a scalable endpoint need a domain of FI_THREAD_SAFE or "
                 "FI_THREAD_DOMAIN: they share what drives their connections");
        return -FI_EINVAL;
    }
    sep = calloc(1, sizeof(*sep));
    if (!sep)
        return -FI_ENOMEM;
    sep->domain = domain;
    sep->source.fd = -1;
    list_init(&sep->source.link);
    children_hold(&domain->base.children);
    fid_init(&sep->fid.fid, FI_CLASS_SEP, context, &fid_ops);
    sep->fid.ops = &ep_ops;
    sep->fid.cm = &cm_ops;
    sep->fid.msg = &no_msg_ops;
    sep->fid.tagged = &no_tagged_ops;
    sep->fid.rma = &no_rma_ops;
    sep->fid.atomic = &no_atomic_ops;
    sep->fid.collective = &no_collective_ops;
    rc = open_parts(sep, info);
    if (rc) {
        sep_close(&sep->fid.fid);
        return rc;
    }
    *ret_sep = &sep->fid;
    return 0;
}
