/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An external provider, as upstream's are: it knows the public headers only. It offers the
 * library's own tcp, endpoints of type FI_EP_MSG and without FI_PEER, under its own name, or, with
 * TOY_DUMMY, one info that leads nowhere. With TOY_STRICT it takes liberties that upstream's
 * sockets does: no queue has a wait object to give, and it looks into the infos that objects were
 * opened with for as long as these are open.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>

#ifndef TOY_NAME
#define TOY_NAME "toy"
#endif
#ifndef TOY_VERSION
#define TOY_VERSION FI_VERSION(3, 1)
#endif
#ifndef TOY_FI_VERSION
#define TOY_FI_VERSION FI_VERSION(2, 6)
#endif

#ifdef TOY_PEER
#define HIDDEN_CAPS 0
#else
#define HIDDEN_CAPS FI_PEER
#endif

#ifdef TOY_DUMMY
static int toy_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                       const struct fi_info *hints, struct fi_info **info)
{
    struct fi_info *made = fi_allocinfo();

    if (!made)
        return -FI_ENOMEM;
    made->caps = FI_MSG | FI_SEND | FI_RECV;
    made->ep_attr->type = FI_EP_RDM;
    made->fabric_attr->name = strdup("toys");
    made->fabric_attr->prov_name = strdup(TOY_NAME);
    made->fabric_attr->prov_version = TOY_VERSION;
    made->domain_attr->name = strdup("box");
    *info = made;
    return 0;
}

static int toy_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
    return -FI_EOPNOTSUPP;
}
#else
static int toy_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                       const struct fi_info *hints, struct fi_info **info)
{
    struct fi_info *below = fi_dupinfo(hints);
    int rc;

    if (!below)
        return -FI_ENOMEM;
    if (below->ep_attr->type != FI_EP_UNSPEC && below->ep_attr->type != FI_EP_MSG) {
        fi_freeinfo(below);
        return -FI_ENODATA;
    }
    below->ep_attr->type = FI_EP_MSG;
    below->caps &= ~HIDDEN_CAPS;
    free(below->fabric_attr->prov_name);
    below->fabric_attr->prov_name = strdup("tcp");
    rc = fi_getinfo(version, node, service, flags, below, info);
    fi_freeinfo(below);
    for (struct fi_info *made = rc ? NULL : *info; made; made = made->next) {
        free(made->fabric_attr->prov_name);
        made->fabric_attr->prov_name = strdup(TOY_NAME);
        made->fabric_attr->prov_version = TOY_VERSION;
        made->caps &= ~HIDDEN_CAPS;
        made->tx_attr->caps &= ~HIDDEN_CAPS;
        made->rx_attr->caps &= ~HIDDEN_CAPS;
    }
    return rc;
}

#ifdef TOY_STRICT
struct kept {
    const struct fid *of;
    const struct fi_info *info;
    struct fi_info was;
};

static struct kept pep_info, domain_info, ep_info;

static struct fi_ops cq_fid_ops, ep_fid_ops;
static struct fi_ops_domain domain_ops;
static struct fi_ops_fabric fabric_ops;
static struct fi_ops_cm pep_cm;
/* The library's own, which stand behind them. */
static const struct fi_ops *cq_fid_below, *ep_fid_below;
static const struct fi_ops_domain *domain_below;
static const struct fi_ops_fabric *fabric_below;
static const struct fi_ops_cm *pep_cm_below;

static void keep(struct kept *kept, const struct fid *of, const struct fi_info *info)
{
    kept->of = of;
    kept->info = info;
    kept->was = *info;
}

/* The handle is the owner's to change. */
static bool has_changed(const struct kept *kept)
{
    const struct fi_info *info = kept->info, *was = &kept->was;

    return info->next != was->next || info->caps != was->caps || info->ep_attr != was->ep_attr ||
           info->domain_attr != was->domain_attr || info->fabric_attr != was->fabric_attr;
}

static int strict_cq_control(struct fid *fid, int command, void *arg)
{
    return command == FI_GETWAIT ? -FI_ENOSYS : cq_fid_below->control(fid, command, arg);
}

static int strict_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                          void *context)
{
    int rc =
        has_changed(&domain_info) ? -FI_EFAULT : domain_below->cq_open(domain, attr, cq, context);

    if (rc)
        return rc;
    cq_fid_below = (*cq)->fid.ops;
    cq_fid_ops = *cq_fid_below;
    cq_fid_ops.control = strict_cq_control;
    (*cq)->fid.ops = &cq_fid_ops;
    return 0;
}

static int strict_ep_bind(struct fid *fid, struct fid *bound, uint64_t flags)
{
    return has_changed(&ep_info) ? -FI_EFAULT : ep_fid_below->bind(fid, bound, flags);
}

/* Up to its end. Nothing tells of an answer of fi_close that a layer got. */
static int strict_ep_close(struct fid *fid)
{
    if (fid == ep_info.of && has_changed(&ep_info))
        abort();
    return ep_fid_below->close(fid);
}

static int strict_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                           void *context)
{
    int rc = domain_below->endpoint(domain, info, ep, context);

    if (rc)
        return rc;
    keep(&ep_info, &(*ep)->fid, info);
    ep_fid_below = (*ep)->fid.ops;
    ep_fid_ops = *ep_fid_below;
    ep_fid_ops.bind = strict_ep_bind;
    ep_fid_ops.close = strict_ep_close;
    (*ep)->fid.ops = &ep_fid_ops;
    return 0;
}

static int strict_listen(struct fid_pep *pep)
{
    return has_changed(&pep_info) ? -FI_EFAULT : pep_cm_below->listen(pep);
}

static int strict_passive_ep(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
                             void *context)
{
    int rc = fabric_below->passive_ep(fabric, info, pep, context);

    if (rc)
        return rc;
    keep(&pep_info, &(*pep)->fid, info);
    pep_cm_below = (*pep)->cm;
    pep_cm = *pep_cm_below;
    pep_cm.listen = strict_listen;
    (*pep)->cm = &pep_cm;
    return 0;
}

static int strict_domain(struct fid_fabric *fabric, struct fi_info *info,
                         struct fid_domain **domain, void *context)
{
    int rc = fabric_below->domain(fabric, info, domain, context);

    if (rc)
        return rc;
    keep(&domain_info, &(*domain)->fid, info);
    domain_below = (*domain)->ops;
    domain_ops = *domain_below;
    domain_ops.cq_open = strict_cq_open;
    domain_ops.endpoint = strict_endpoint;
    (*domain)->ops = &domain_ops;
    return 0;
}

static void make_strict(struct fid_fabric *fabric)
{
    fabric_below = fabric->ops;
    fabric_ops = *fabric_below;
    fabric_ops.domain = strict_domain;
    fabric_ops.passive_ep = strict_passive_ep;
    fabric_ops.size = offsetof(struct fi_ops_fabric, domain2); /* there is but fi_domain */
    fabric->ops = &fabric_ops;
}
#else
static void make_strict(struct fid_fabric *fabric)
{
}
#endif

static int toy_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
    struct fi_fabric_attr below = *attr;
    int rc;

    if (strcmp(attr->prov_name, TOY_NAME))
        return -FI_EINVAL;
    below.prov_name = (char *)"tcp";
    rc = fi_fabric(&below, fabric, context);
    if (!rc)
        make_strict(*fabric);
    return rc;
}
#endif

static void toy_cleanup(void)
{
}

static struct fi_provider toy = {
    .version = TOY_VERSION,
    .fi_version = TOY_FI_VERSION,
    .name = TOY_NAME,
    .getinfo = toy_getinfo,
    .fabric = toy_fabric,
    .cleanup = toy_cleanup,
};

FI_EXT_INI
{
#ifdef TOY_NONE
    (void)toy;
    return NULL;
#else
    return &toy;
#endif
}
