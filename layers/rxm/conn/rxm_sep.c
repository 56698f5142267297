/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxm/conn/rxm_sep.h"

#include <stdlib.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/info/info.h"
#include "layers/rxm/conn/rxm_control.h"
#include "layers/rxm/rxm_info.h"

enum {
    SKIP = 15 /* progress calls without a look at the listener */
};

static struct rxm_sep *own_of(struct sep *sep)
{
    return object_of(sep, struct rxm_sep, base);
}

static struct lower_domain *domain_of(const struct rxm_sep *sep)
{
    return object_of(sep->base.domain, struct lower_domain, base);
}

/* ---- The listener ---- */

/* A context that is not there may come yet: without a word the requester tries again. */
static void on_request(struct rxm_sep *sep, struct fi_eq_cm_entry *entry, size_t len)
{
    struct rxm_self self = {.eager_limit = sep->eager_limit};
    struct rxm_hello hello = {.target = 0};
    struct rxm_ep *ep = NULL;

    if (sep->proto->take_request(&self, entry->data, len, &hello))
        hello.target = 0; /* for that context to refuse, with the reason */
    if (hello.target < RXM_CONTEXTS)
        ep = sep->rx[hello.target];
    if (ep && ep->base.enabled) {
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

static void source_progress(struct progress_source *source)
{
    struct rxm_sep *sep = object_of(source, struct rxm_sep, source);

    if (sep->skip) {
        sep->skip--;
        return;
    }
    sep->skip = SKIP;
    read_listener(sep);
}

static int source_trywait(struct progress_source *source)
{
    struct rxm_sep *sep = object_of(source, struct rxm_sep, source);
    struct fid *fid = &sep->eq->fid;

    sep->skip = 0;
    return fi_trywait(domain_of(sep)->fabric->lower->fabric, &fid, 1) ? -FI_EAGAIN : 0;
}

static int start_listener(struct rxm_sep *sep)
{
    int rc = fi_listen(sep->pep);

    sep->source.poll = source_progress;
    sep->source.trywait = source_trywait;
    if (!rc)
        rc = fi_control(&sep->eq->fid, FI_GETWAIT, &sep->source.fd);
    if (rc)
        return rc;
    progress_lock(sep->base.progress);
    rc = progress_attach(sep->base.progress, &sep->source);
    sep->listening = !rc;
    progress_unlock(sep->base.progress);
    return rc;
}

/* ---- Contexts ---- */

static unsigned index_of(const struct rxm_ep *context)
{
    return context->source ? context->source - 1u : context->target;
}

static void set_receiver(struct rxm_sep *sep, unsigned index, struct rxm_ep *context)
{
    progress_lock(sep->base.progress);
    sep->rx[index] = context;
    progress_unlock(sep->base.progress);
}

int rxm_sep_join(struct rxm_sep *sep, struct rxm_ep *context)
{
    size_t class = context->fid.fid.fclass;
    int rc =
        sep_join(&sep->base, class, index_of(context), &context->base.binding, &context->base.av);

    if (rc)
        return rc;
    if (class == FI_CLASS_RX_CTX)
        set_receiver(sep, index_of(context), context);
    return sep->listening ? 0 : start_listener(sep);
}

void rxm_sep_leave(struct rxm_sep *sep, struct rxm_ep *context)
{
    size_t class = context->fid.fid.fclass;

    if (class == FI_CLASS_RX_CTX)
        set_receiver(sep, index_of(context), NULL);
    sep_leave(&sep->base, class, index_of(context));
}

/* ---- The endpoint itself ---- */

static int sep_control(struct sep *sep, int command, void *arg)
{
    if (command != FI_BACKLOG)
        return -FI_ENOSYS;
    return fi_control(&own_of(sep)->pep->fid, command, arg);
}

static int sep_setname(struct sep *base, void *addr, size_t addrlen)
{
    int rc = fi_setname(&own_of(base)->pep->fid, addr, addrlen);

    /* Connections of the contexts leave from there. */
    return rc ? rc : info_set_src(base->info, addr, addrlen);
}

static int sep_getname(struct sep *base, void *addr, size_t *addrlen)
{
    return fi_getname(&own_of(base)->pep->fid, addr, addrlen);
}

static void sep_close(struct sep *base)
{
    struct rxm_sep *sep = own_of(base);

    if (base->progress) {
        progress_lock(base->progress);
        progress_detach(base->progress, &sep->source);
        progress_unlock(base->progress);
    }
    if (sep->pep)
        fi_close(&sep->pep->fid);
    if (sep->eq)
        fi_close(&sep->eq->fid);
    info_free(sep->lower_info);
    sep_finish(base);
    free(sep);
}

static const struct sep_ops ops = {
    .open = rxm_ep_open_context,
    .setname = sep_setname,
    .getname = sep_getname,
    .control = sep_control,
    .close = sep_close,
};

static int open_parts(struct rxm_sep *sep)
{
    const struct lower_fabric *fabric = domain_of(sep)->fabric;
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_FD};
    int rc;

    sep->proto = &rxm_proto_xnet;
    if (rxm_emulates(fabric->plain.params, sep->base.info)) {
        sep->proto = &rxm_proto_rxm;
        sep->eager_limit = (uint32_t)params_size(fabric->plain.params, "buffer_size");
    }
    rc = sep_share_progress(&sep->base);
    if (!rc)
        rc = rxm_lower_info(fabric, sep->base.info, &sep->lower_info);
    if (!rc)
        rc = fi_eq_open(fabric->lower->fabric, &eq_attr, &sep->eq, sep);
    if (!rc)
        rc = fi_passive_ep(fabric->lower->fabric, sep->lower_info, &sep->pep, sep);
    return rc ? rc : fi_pep_bind(sep->pep, &sep->eq->fid, 0);
}

int rxm_sep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ret_sep,
                 void *context)
{
    struct lower_domain *domain = lower_domain_of(fid);
    struct rxm_sep *sep;
    int rc;

    sep = calloc(1, sizeof(*sep));
    if (!sep)
        return -FI_ENOMEM;
    sep->source.fd = -1;
    list_init(&sep->source.link);
    rc = sep_init(&sep->base, &domain->base, info, &ops, context);
    if (!rc)
        rc = open_parts(sep);
    if (rc) {
        sep_close(&sep->base);
        return rc;
    }
    *ret_sep = &sep->base.fid;
    return 0;
}
