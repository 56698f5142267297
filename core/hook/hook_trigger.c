/* SPDX-License-Identifier: BSD-2-Clause */
/* Triggered operations: the counter in their context. */
#include "core/hook/hook_trigger.h"

struct fid *hook_trigger_down(const struct hook_fabric *fabric, struct fid *fid)
{
    if (!fid || (fid->ops != fabric->ops.ep_fid && fid->ops != fabric->ops.cntr_fid))
        return fid;
    return hook_down(fid);
}

/* Ours, if there is a counter of ours, which then is the lower's. */
static struct fid_cntr *put_lower(struct fid_ep *fid, void *context)
{
    const struct hook_fabric *fabric = object_of(fid, struct hook_ep, fid)->domain->fabric;
    struct fi_triggered_context *triggered = context;
    struct fid_cntr *ours, *lower;

    if (!context || triggered->event_type != FI_TRIGGER_THRESHOLD)
        return NULL;
    ours = triggered->trigger.threshold.cntr;
    if (!ours)
        return NULL;
    lower = object_of(hook_trigger_down(fabric, &ours->fid), struct fid_cntr, fid);
    if (lower == ours)
        return NULL;
    triggered->trigger.threshold.cntr = lower;
    return ours;
}

/* Only a refused operation is still the application's: the rest may have completed by now. */
static ssize_t put_back(void *context, struct fid_cntr *ours, ssize_t rc)
{
    if (rc && ours)
        ((struct fi_triggered_context *)context)->trigger.threshold.cntr = ours;
    return rc;
}

bool hook_is_triggered(const struct hook_ep *ep, const struct op *op)
{
    bool receives = op_is_receive(op);

    if (!op->defaults)
        return op->flags & FI_TRIGGER;
    return ep->trigger_flags & (receives ? FI_RECV : FI_TRANSMIT);
}

ssize_t hook_trigger_post(struct ep *base, struct op *op)
{
    struct hook_ep *ep = hook_ep_of(base);
    void *context = hook_is_triggered(ep, op) ? op->context : NULL;
    struct fid_cntr *ours = put_lower(&ep->fid, context);

    return put_back(context, ours, ep->domain->fabric->ops.post(base, op));
}
