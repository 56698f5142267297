/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "context.h"
#include "loop.h"
#include "memory.h"
#include "operations.h"
#include "report.h"
#include "settings.h"

struct thread_domain {
    struct ibv_td td;
    unsigned users;
    struct object object;
};

void pd_use(struct ibv_pd *pd, int change)
{
    pd_of(pd)->users += (unsigned)change;
}

static struct pd *make_pd(struct ibv_context *context, struct ibv_pd *base)
{
    static uint32_t next;
    struct pd *pd = calloc(1, sizeof(*pd));

    if (!pd) {
        errno = ENOMEM;
        return NULL;
    }
    loop_lock();
    if (object_count("protection domain") >= (unsigned)settings()->limits.max_pd) {
        loop_unlock();
        free(pd);
        errno = ENOMEM;
        return NULL;
    }
    pd->pd.context = context;
    pd->pd.handle = next++;
    pd->base = base ? pd_of(base)->base : pd;
    if (base)
        pd_use(base, 1);
    object_add(&pd->object, "protection domain", pd->pd.handle);
    loop_unlock();
    return pd;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    if (context_gone(context))
        return NULL;
    struct pd *pd = make_pd(context, NULL);
    return pd ? &pd->pd : NULL;
}

int ibv_dealloc_pd(struct ibv_pd *public)
{
    struct pd *pd = pd_of(public);

    loop_lock();
    int rc = pd->users ? EBUSY : 0;
    if (!rc) {
        object_remove(&pd->object);
        if (pd->base != pd)
            pd_use(&pd->base->pd, -1);
        if (pd->td)
            list_item(pd->td, struct thread_domain, td)->users--;
    }
    loop_unlock();
    if (rc)
        report_why("dealloc_pd: %u objects use it", pd->users);
    else
        free(pd);
    return rc;
}

struct ibv_td *thread_domain_create(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
    struct thread_domain *td;

    if (!settings()->limits.td) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    td = attr->comp_mask ? NULL : calloc(1, sizeof(*td));
    if (!td) {
        errno = attr->comp_mask ? EINVAL : ENOMEM;
        return NULL;
    }
    td->td.context = context;
    loop_lock();
    object_add(&td->object, "thread domain", 0);
    loop_unlock();
    return &td->td;
}

int thread_domain_destroy(struct ibv_td *public)
{
    struct thread_domain *td = list_item(public, struct thread_domain, td);

    loop_lock();
    int rc = td->users ? EBUSY : 0;
    if (!rc)
        object_remove(&td->object);
    loop_unlock();
    if (!rc)
        free(td);
    return rc;
}

struct ibv_pd *parent_domain_create(struct ibv_context *context,
                                    struct ibv_parent_domain_init_attr *attr)
{
    unsigned known =
        IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;

    if (!attr->pd || (attr->comp_mask & ~known)) {
        errno = EINVAL;
        return NULL;
    }
    struct pd *pd = make_pd(context, attr->pd);
    if (!pd)
        return NULL;
    pd->td = attr->td;
    if (pd->td) {
        loop_lock();
        list_item(pd->td, struct thread_domain, td)->users++;
        loop_unlock();
    }
    return &pd->pd;
}
