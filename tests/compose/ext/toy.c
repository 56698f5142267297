/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An external provider, as upstream's are: it knows the public headers only. It offers the
 * library's own tcp, endpoints of type FI_EP_MSG and without FI_PEER, under its own name, or, with
 * TOY_DUMMY, one info that leads nowhere.
 */
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
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

static int toy_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
    struct fi_fabric_attr below = *attr;

    if (strcmp(attr->prov_name, TOY_NAME))
        return -FI_EINVAL;
    below.prov_name = (char *)"tcp";
    return fi_fabric(&below, fabric, context);
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
