/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/layer/message_sep.h"

#include <stdlib.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/base/seam.h"
#include "core/ep/sep.h"
#include "core/layer/message_ep.h"
#include "core/layer/message_wire.h"

struct message_sep {
    struct sep base; /* its progress domain is there from the start */
    struct message_ep *ep;
    struct message_context *rx[SEP_CONTEXTS]; /* of ep */
};

/* A context of it. */
struct context {
    struct message_context base;
    struct message_sep *sep;
};

static struct context *own_of(struct endpoint *base)
{
    return object_of(base, struct context, base.endpoint);
}

static bool receives(const struct context *context)
{
    return context->base.fid.fid.fclass == FI_CLASS_RX_CTX;
}

/* ---- Contexts ---- */

static int join(struct endpoint *base)
{
    struct context *context = own_of(base);

    return sep_join(&context->sep->base, base->fid.fid.fclass, context->base.index, &base->binding,
                    &base->av);
}

/* The endpoint below is enabled with the first of its contexts. */
static int enable_shared(struct message_sep *sep)
{
    struct endpoint *shared = &sep->ep->endpoint;
    int rc = 0;

    pthread_mutex_lock(&sep->base.mutex);
    if (!shared->av) {
        shared->av = sep->base.av;
        children_hold(&shared->av->children);
    }
    if (!shared->enabled)
        rc = message_ep_enable(shared);
    pthread_mutex_unlock(&sep->base.mutex);
    return rc;
}

static int enable(struct endpoint *base)
{
    struct context *context = own_of(base);
    struct message_ep *ep = context->base.ep;
    int rc = enable_shared(context->sep);

    if (rc)
        return rc;
    progress_lock(ep->progress);
    context->base.match = base->srx ? base->srx->match : base->match;
    context->base.top = binding_is_top(&base->binding);
    base->enabled = true;
    if (context->base.top)
        progress_stand_in(ep->progress);
    if (receives(context)) {
        ep->rx[context->base.index] = &context->base;
        message_context_opened(&context->base);
    }
    progress_unlock(ep->progress);
    return 0;
}

/* Operations that have not ended by now end without a report. */
static void end_ops(struct message_context *context)
{
    struct message_ep *ep = context->ep;

    message_ops_drain(context);
    context->closing = true;
    for (size_t i = 0; i < MESSAGE_BUCKETS; i++) {
        for (struct message_peer *peer = ep->buckets[i]; peer; peer = peer->next) {
            list_for_each_safe (item, after, &peer->ops) {
                struct message_op *op = list_item(item, struct message_op, of_peer);

                if (op->from != context)
                    continue;
                ep->wire->give_up(op);
                message_op_end(op, 0);
            }
        }
    }
}

static void end_receives(struct message_context *context)
{
    context->closing = true;
    message_context_abandon(context);
    message_sources_finish(context);
    endpoint_close_receives(&context->endpoint);
    context->ep->rx[context->index] = NULL;
}

static int close_context(struct endpoint *base)
{
    struct context *context = own_of(base);
    struct message_ep *ep = context->base.ep;

    if (base->enabled) {
        progress_lock(ep->progress);
        if (receives(context))
            end_receives(&context->base);
        else
            end_ops(&context->base);
        message_run(ep); /* peers are told what they do not get */
        progress_unlock(ep->progress);
    }
    sep_leave(&context->sep->base, base->fid.fid.fclass, context->base.index);
    endpoint_finish(base);
    free(context);
    return 0;
}

static const struct endpoint_option options[] = {
    {.name = OPT_CLOSE_WAIT,
     .kind = OPTION_FIELD,
     .at = offsetof(struct message_context, close_ms)},
    {.name = 0},
};

static const struct endpoint_ops ops = {
    .post = message_post,
    .atomic_valid = message_atomic_valid,
    .limit = message_limit,
    .join = join,
    .enable = enable,
    .close = close_context,
    .tx_used = message_tx_used,
    .options = options,
    .own_sources = true,
};

static int open_context(struct sep *base, const struct sep_opening *opening,
                        struct endpoint **ret_ep)
{
    struct message_sep *sep = object_of(base, struct message_sep, base);
    struct endpoint_attr attr = {
        .ops = &ops, .fclass = opening->class, .context = opening->context};
    struct context *context = calloc(1, sizeof(*context));

    if (!context)
        return -FI_ENOMEM;
    message_context_init(&context->base, sep->ep, &attr);
    context->base.index = opening->index;
    context->base.endpoint.any_srx = receives(context);
    context->sep = sep;
    *ret_ep = &context->base.endpoint;
    return 0;
}

/* ---- The endpoint itself ---- */

static int sep_setname(struct sep *base, void *addr, size_t len)
{
    return fi_setname(&object_of(base, struct message_sep, base)->ep->lower->fid, addr, len);
}

static int sep_getname(struct sep *base, void *addr, size_t *len)
{
    return fi_getname(&object_of(base, struct message_sep, base)->ep->lower->fid, addr, len);
}

static void sep_close(struct sep *base)
{
    struct message_sep *sep = object_of(base, struct message_sep, base);

    if (sep->ep)
        message_ep_close(&sep->ep->endpoint);
    sep_finish(base);
    free(sep);
}

static const struct sep_ops sep_ops = {
    .open = open_context,
    .setname = sep_setname,
    .getname = sep_getname,
    .close = sep_close,
};

static int open_parts(struct message_sep *sep)
{
    struct lower_domain *domain = object_of(sep->base.domain, struct lower_domain, base);
    const struct fi_info *info = sep->base.info;
    int rc = sep_share_progress(&sep->base);

    if (!rc)
        rc =
            message_ep_create(domain, info, sep->rx, (unsigned)info->ep_attr->rx_ctx_cnt, &sep->ep);
    return rc ? rc : binding_join(&sep->ep->endpoint.binding, sep->base.domain, sep->base.progress);
}

int message_sep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ret_sep,
                     void *context)
{
    struct lower_domain *domain = lower_domain_of(fid);
    const struct message_wire *wire = message_wire_of(domain);
    struct message_sep *sep;
    int rc;

    if (wire->contexts == 1)
        return -FI_ENOSYS;
    sep = calloc(1, sizeof(*sep));
    if (!sep)
        return -FI_ENOMEM;
    rc = sep_init(&sep->base, &domain->base, info, &sep_ops, context);
    if (!rc)
        rc = open_parts(sep);
    if (rc)
        sep_close(&sep->base);
    else
        *ret_sep = &sep->base.fid;
    return rc;
}
