/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fabric of a bare transport name that an unnamed layer completes: "tcp" is tcp for FI_EP_MSG
 * and rxm(tags=pass);tcp for FI_EP_RDM. Event queues and passive endpoints belong to the transport;
 * a domain goes to the transport or to the layer by the type of its info's endpoint, and where both
 * have that type (efa) to the one that offers the domain in this fabric. The layer's
 * fabric is opened with the first domain that needs it, over the same transport's fabric, so that
 * an event queue serves both.
 *
 * Only an application with the current struct layouts can share that fabric: it was opened for the
 * application's layouts, and a layer has the current ones. For others the layer gets one of its
 * own.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include "compose/hold.h"
#include "core/base/fid.h"
#include "core/domain/base.h"
#include "core/hook/hook.h"
#include "core/info/abi.h"
#include "core/info/info.h"

enum {
    ANY_MR_MODE = FI_MR_LOCAL | FI_MR_RAW | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY |
                  FI_MR_MMU_NOTIFY | FI_MR_RMA_EVENT | FI_MR_ENDPOINT | FI_MR_HMEM |
                  FI_MR_COLLECTIVE,
};

struct automatic {
    struct fabric fabric;
    struct stack *stack;
    char *name, *whole;
    struct lower *base;
    pthread_mutex_t mutex;    /* of `layer` being made or closed */
    struct fid_fabric *layer; /* NULL until a domain needs it */
};

static struct automatic *automatic_of(struct fid_fabric *fabric)
{
    return object_of(fabric, struct automatic, fabric.fid);
}

static struct fid_fabric *base_of(struct fid_fabric *fabric)
{
    return automatic_of(fabric)->base->fabric;
}

static int open_layer(struct automatic *automatic)
{
    struct stack *layer = automatic->stack->lowers[1];
    struct opening opening = {automatic->name, automatic->fabric.api_version, automatic->whole,
                              layer->part->requires_ep};
    struct lower *lower = NULL;
    int rc = 0;

    /* A join has fabrics of its own, one of which is that of the transport again. */
    if (layer->part->kind == PART_JOIN) {
        opening.upper = 0;
        return stack_open(layer, &opening, automatic->fabric.abi, &automatic->layer,
                          automatic->fabric.fid.fid.context);
    }
    if (automatic->fabric.abi == ABI_1_9)
        lower = hold_share(automatic->base, opening.upper);
    else
        rc = hold_open(automatic->stack->lowers[0], &opening, ABI_1_9, &lower);
    if (!rc && !lower)
        rc = -FI_ENOMEM;
    if (rc)
        return rc;
    rc = stack_open_over(layer, &opening, automatic->fabric.abi, &lower, &automatic->layer,
                         automatic->fabric.fid.fid.context);
    if (rc)
        lower->close(lower);
    return rc;
}

/* Has the transport, without its layer, a domain of that name for such endpoints in this fabric? */
static bool is_of_base(struct automatic *automatic, const struct fi_info *info)
{
    const struct lower *base = automatic->base;
    const uint32_t version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
    struct fi_info *hints = info_complete(NULL), *found = NULL;
    const char *domain = info->domain_attr ? info->domain_attr->name : NULL;
    bool is = false;

    if (hints && !info_set_string(&hints->fabric_attr->name, automatic->name) &&
        !info_set_string(&hints->domain_attr->name, domain)) {
        hints->ep_attr->type = info->ep_attr->type;
        hints->mode = hints->domain_attr->mode = ~UINT64_C(0);
        hints->domain_attr->mr_mode = ANY_MR_MODE;
        is = !base->getinfo(base, version, NULL, NULL, 0, hints, &found);
    }
    info_free(found);
    info_free(hints);
    return is;
}

/* The fabric that domains of such endpoints belong to. */
static int fabric_for(struct automatic *automatic, const struct fi_info *info,
                      struct fid_fabric **fabric)
{
    enum fi_ep_type type = info && info->ep_attr ? info->ep_attr->type : FI_EP_UNSPEC;
    int rc = 0;

    bool of_layer = automatic->stack->lowers[1]->part->provides_ep & EP_SET(type);

    if (type == FI_EP_UNSPEC || (automatic->stack->part->provides_ep & EP_SET(type) &&
                                 (!of_layer || is_of_base(automatic, info)))) {
        *fabric = automatic->base->fabric;
        return 0;
    }
    pthread_mutex_lock(&automatic->mutex);
    if (!automatic->layer)
        rc = open_layer(automatic);
    *fabric = automatic->layer;
    pthread_mutex_unlock(&automatic->mutex);
    return rc;
}

static int automatic_domain2(struct fid_fabric *fabric, struct fi_info *info,
                             struct fid_domain **domain, uint64_t flags, void *context)
{
    struct fid_fabric *owner;
    int rc = fabric_for(automatic_of(fabric), info, &owner);

    if (rc)
        return rc;
    return flags ? owner->ops->domain2(owner, info, domain, flags, context)
                 : owner->ops->domain(owner, info, domain, context);
}

static int automatic_domain(struct fid_fabric *fabric, struct fi_info *info,
                            struct fid_domain **domain, void *context)
{
    return automatic_domain2(fabric, info, domain, 0, context);
}

static int automatic_passive_ep(struct fid_fabric *fabric, struct fi_info *info,
                                struct fid_pep **pep, void *context)
{
    return fi_passive_ep(base_of(fabric), info, pep, context);
}

static int automatic_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
                             void *context)
{
    return fi_eq_open(base_of(fabric), attr, eq, context);
}

static int automatic_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr,
                               struct fid_wait **waitset)
{
    struct fid_fabric *base = base_of(fabric);

    return base->ops->wait_open(base, attr, waitset);
}

/* The layer hands down what is not its own, so that it can be asked about everything. */
static int automatic_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
    struct automatic *automatic = automatic_of(fabric);
    struct fid_fabric *owner;

    pthread_mutex_lock(&automatic->mutex);
    owner = automatic->layer ? automatic->layer : automatic->base->fabric;
    pthread_mutex_unlock(&automatic->mutex);
    return fi_trywait(owner, fids, count);
}

static int automatic_control(struct fid *fid, int command, void *arg)
{
    return fi_control(&base_of((struct fid_fabric *)fid)->fid, command, arg);
}

static int automatic_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops,
                              void *context)
{
    return fi_open_ops(&base_of((struct fid_fabric *)fid)->fid, name, flags, ops, context);
}

static void automatic_destroy(struct automatic *automatic)
{
    pthread_mutex_destroy(&automatic->mutex);
    stack_release(automatic->stack);
    free(automatic->name);
    free(automatic->whole);
    free(automatic);
}

static int automatic_close(struct fid *fid)
{
    struct automatic *automatic = automatic_of((struct fid_fabric *)fid);
    int rc = 0;

    pthread_mutex_lock(&automatic->mutex);
    if (automatic->layer)
        rc = fi_close(&automatic->layer->fid);
    if (!rc) {
        automatic->layer = NULL;
        rc = automatic->base->close(automatic->base);
    }
    pthread_mutex_unlock(&automatic->mutex);
    if (!rc)
        automatic_destroy(automatic);
    return rc;
}

static struct fi_ops fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = automatic_close,
    .bind = enosys_bind,
    .control = automatic_control,
    .ops_open = automatic_ops_open,
    .ops_set = enosys_ops_set,
};

static struct fi_ops_fabric fabric_ops = {
    .size = sizeof(struct fi_ops_fabric),
    .domain = automatic_domain,
    .passive_ep = automatic_passive_ep,
    .eq_open = automatic_eq_open,
    .wait_open = automatic_wait_open,
    .trywait = automatic_trywait,
    .domain2 = automatic_domain2,
};

int automatic_open(struct stack *stack, const struct opening *opening, unsigned abi,
                   struct fid_fabric **fabric, void *context)
{
    struct open_args args = {.part = stack->part, .api_version = opening->api_version, .abi = abi};
    struct automatic *automatic = calloc(1, sizeof(*automatic));
    int rc = -FI_ENOMEM;

    if (!automatic)
        return rc;
    pthread_mutex_init(&automatic->mutex, NULL);
    automatic->stack = stack_hold(stack);
    automatic->name = strdup(opening->name);
    automatic->whole = strdup(opening->whole ? opening->whole : "");
    if (automatic->name && automatic->whole)
        rc = hold_open(stack->lowers[0], opening, abi, &automatic->base);
    if (rc) {
        automatic_destroy(automatic);
        return rc;
    }
    fabric_init(&automatic->fabric, &args, &fid_ops, &fabric_ops, context);
    *fabric = &automatic->fabric.fid;
    return 0;
}
