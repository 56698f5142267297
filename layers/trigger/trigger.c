/* SPDX-License-Identifier: BSD-2-Clause */
/* The part table, and what opens and closes with the domain and its endpoints. */
#include "layers/trigger/trigger.h"

#include <rdma/fi_errno.h>

/* ---- Infos ---- */

static struct fi_info *lower_hints(const struct fi_info *info)
{
    return layer_hints(info, FI_TRIGGER);
}

static int needs(const struct request *req, struct fi_info **lower)
{
    *lower = lower_hints(req->hints);
    return *lower ? 0 : -FI_ENOMEM;
}

static void limit(size_t *count)
{
    if (*count > TRIGGER_IOV_MAX)
        *count = TRIGGER_IOV_MAX;
}

static int offer(const struct request *req, const struct fi_info *lower, struct fi_info **info)
{
    struct fi_info *mine;

    if (!(lower->caps & FI_PEER)) {
        reasons_add(req->reasons,
                    "deferred work needs a lower with our peer interface (FI_PEER), which shows "
                    "counters and completions");
        return -FI_ENODATA;
    }
    mine = layer_offer(lower, FI_TRIGGER);
    if (!mine)
        return -FI_ENOMEM;
    limit(&mine->tx_attr->iov_limit);
    limit(&mine->tx_attr->rma_iov_limit);
    limit(&mine->rx_attr->iov_limit);
    *info = mine;
    return 0;
}

/* ---- Domains and endpoints ---- */

static int domain_opened(struct layer_domain *cover)
{
    struct trigger_domain *domain = trigger_domain_of(cover);

    list_init(&domain->fired);
    list_init(&domain->all);
    atomic_init(&domain->waiting, 0);
    return 0;
}

/* Its work, waiting or posted, belongs to no endpoint any more: discarded. */
static void ep_closed(struct layer_ep *ep)
{
    struct trigger_domain *domain = trigger_domain_of(ep->domain);

    list_for_each_safe (pos, after, &domain->all) {
        struct trigger_work *work = list_item(pos, struct trigger_work, all);

        if (work->ep && work->ep == ep->hook)
            trigger_work_destroy(domain, work);
    }
}

/* ---- The part ---- */

static const struct layer_ops ops = {
    .domain_size = sizeof(struct trigger_domain),
    .ep_size = sizeof(struct trigger_ep),
    .item_size = sizeof(struct trigger_work),
    .adds = FI_TRIGGER,
    .hook = &trigger_tables,
    .lower_hints = lower_hints,
    .domain_opened = domain_opened,
    .ep_closed = ep_closed,
    .completed = trigger_completed,
    .counted = trigger_counted,
    .changed = trigger_changed,
    .pump = trigger_pump,
    .busy = trigger_busy,
};

const struct part trigger_part = {
    .name = "trigger",
    .prov_name = "ofi_trigger",
    .summary = "triggered operations and deferred work",
    .description =
        "Adds FI_TRIGGER to any lower: operations posted with FI_TRIGGER and a threshold, and "
        "work queued at the domain (fi_control with FI_QUEUE_WORK, FI_CANCEL_WORK, "
        "FI_FLUSH_WORK), wait here for their counter. It is added when hints ask for "
        "FI_TRIGGER, and need not be named.\n\n"
        "Work fires in the order of its thresholds, and of its age among equal ones, when the "
        "counter is raised by an operation, by other work, or by the application. Work that the "
        "lower cannot take yet is tried again before any later work of the same endpoint. "
        "Without FI_PROGRESS_AUTO work fires only while the application reads a queue or "
        "counter of the domain.\n\n"
        "Deferred work ends in its completion counter, as an error when it failed; the "
        "endpoint's queue gets an entry when FI_COMPLETION is asked, or for an error that no "
        "counter shows. Closing an endpoint discards its work, and a counter that work names "
        "cannot be closed.\n\n"
        "Contexts of scalable endpoints take the operations of their direction as endpoints do; "
        "a receive on a shared context cannot be triggered.\n\n"
        "Not offered: FI_INJECT together with FI_TRIGGER, multi-receives and peeks as deferred "
        "work, triggers of collectives, and XPU triggers.",
    .kind = PART_LAYER,
    .provides_ep = EP_SET(FI_EP_RDM),
    .requires_ep = EP_SET(FI_EP_RDM),
    .nameless = true,
    .adds = FI_TRIGGER,
    .topmost = true,
    .needs = needs,
    .offer = offer,
    .layer = &ops,
    .open_fabric = layer_open_fabric,
};
