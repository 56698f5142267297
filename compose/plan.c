/* SPDX-License-Identifier: BSD-2-Clause */
#include "compose/plan.h"

#include <stdlib.h>

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "core/info.h"

/* What every function here works on. */
struct planning {
    const struct query *query;
    struct reasons *reasons;
};

static int plan(const struct planning *planning, const struct stack *stack,
                const struct fi_info *hints, struct fi_info **infos);

static struct request request_of(const struct planning *planning, const struct stack *stack,
                                 const struct fi_info *hints)
{
    return (struct request){
        .version = planning->query->version,
        .node = planning->query->node,
        .service = planning->query->service,
        .flags = planning->query->flags,
        .hints = hints,
        .params = stack->params,
        .part = stack->part,
        .reasons = planning->reasons,
    };
}

static size_t info_count(const struct fi_info *infos)
{
    size_t count = 0;

    for (; infos; infos = infos->next)
        count++;
    return count;
}

/* Asks the part for its infos over lower, and appends those that satisfy the hints. An error
 * that is not ours is a refusal: one part out of order must not hide the others. */
static int ask(const struct planning *planning, const struct stack *stack,
               const struct fi_info *hints, const struct fi_info *lower, struct fi_info **infos)
{
    struct request request = request_of(planning, stack, hints);
    struct fi_info *offers = NULL;
    int rc = stack->part->offer(&request, lower, &offers);

    if (rc == -FI_ENOMEM)
        return rc;
    if (rc && rc != -FI_ENODATA)
        reasons_add(planning->reasons, "%s: %s", stack->part->name, fi_strerror(-rc));
    while (!rc && offers) {
        struct fi_info *offer = offers;

        offers = offer->next;
        offer->next = NULL;
        if (info_check(offer, hints, planning->query->version, planning->reasons))
            info_free(offer);
        else
            info_append(infos, offer);
    }
    return 0;
}

/* A join is asked about the first info of each of its lowers, then the second of each, and so
 * on. */
static int ask_join(const struct planning *planning, const struct stack *stack,
                    const struct fi_info *hints, struct fi_info **lowers, struct fi_info **infos)
{
    int rc = 0;

    for (size_t round = 0; !rc; round++) {
        struct fi_info *chain = NULL;

        for (size_t i = 0; !rc && i < stack->lower_count; i++) {
            const struct fi_info *lower = lowers[i];
            struct fi_info *copy;

            for (size_t n = 0; lower && n < round; n++)
                lower = lower->next;
            copy = lower ? info_dup(lower) : NULL;
            if (!copy)
                rc = lower ? -FI_ENOMEM : -FI_ENODATA;
            else
                info_append(&chain, copy);
        }
        if (!rc)
            rc = ask(planning, stack, hints, chain, infos);
        info_free(chain);
    }
    return rc == -FI_ENODATA ? 0 : rc;
}

static int plan_join(const struct planning *planning, const struct stack *stack,
                     const struct fi_info *hints, const struct fi_info *lower_hints,
                     struct fi_info **infos)
{
    struct fi_info **lowers = calloc(stack->lower_count, sizeof(struct fi_info *));
    int rc = lowers ? 0 : -FI_ENOMEM;

    for (size_t i = 0; !rc && i < stack->lower_count; i++)
        rc = plan(planning, stack->lowers[i], lower_hints, &lowers[i]);
    if (!rc)
        rc = ask_join(planning, stack, hints, lowers, infos);
    for (size_t i = 0; lowers && i < stack->lower_count; i++)
        info_free(lowers[i]);
    free(lowers);
    return rc;
}

/* One alternative of what the layer needs. */
static int plan_over(const struct planning *planning, const struct stack *stack,
                     const struct fi_info *hints, const struct fi_info *need,
                     struct fi_info **infos)
{
    struct fi_info *lower_hints = info_complete(need);
    struct fi_info *lowers = NULL;
    int rc;

    if (!lower_hints)
        return -FI_ENOMEM;
    if (stack->part->kind == PART_JOIN) {
        rc = plan_join(planning, stack, hints, lower_hints, infos);
    } else {
        rc = plan(planning, stack->lowers[0], lower_hints, &lowers);
        for (const struct fi_info *lower = lowers; !rc && lower; lower = lower->next)
            rc = ask(planning, stack, hints, lower, infos);
    }
    info_free(lowers);
    info_free(lower_hints);
    return rc;
}

static int plan_layer(const struct planning *planning, const struct stack *stack,
                      const struct fi_info *hints, struct fi_info **infos)
{
    struct request request = request_of(planning, stack, hints);
    struct fi_info *needs = NULL;
    int rc = stack->part->needs(&request, &needs);

    if (rc == -FI_ENODATA)
        return 0;
    for (const struct fi_info *need = needs; !rc && !*infos && need; need = need->next)
        rc = plan_over(planning, stack, hints, need, infos);
    info_free(needs);
    return rc;
}

/* Saves the questions to a part that cannot have that type of endpoint anyway. */
static bool gives_type(const struct planning *planning, const struct stack *stack,
                       const struct fi_info *hints)
{
    enum fi_ep_type type = hints->ep_attr->type;
    char asked[40], offered[40];

    if (stack->part->transparent || type == FI_EP_UNSPEC || stack->part->gives & EP_SET(type))
        return true;
    if (!planning->reasons)
        return false;
    fi_tostr_r(asked, sizeof(asked), &type, FI_TYPE_EP_TYPE);
    for (type = FI_EP_MSG; type < FI_EP_RDM && !(stack->part->gives & EP_SET(type)); type++)
        continue;
    fi_tostr_r(offered, sizeof(offered), &type, FI_TYPE_EP_TYPE);
    reasons_add_at(planning->reasons, REASON_TYPE, "ep_attr->type: asked %s, offered %s", asked,
                   offered);
    return false;
}

static int plan(const struct planning *planning, const struct stack *stack,
                const struct fi_info *hints, struct fi_info **infos)
{
    struct fi_info *found = NULL;
    int rc = 0;

    if (stack->automatic) {
        rc = plan(planning, stack->lowers[0], hints, infos);
        return rc ? rc : plan(planning, stack->lowers[1], hints, infos);
    }
    reasons_enter(planning->reasons, "%s", stack->part->name);
    if (gives_type(planning, stack, hints))
        rc = stack->part->kind == PART_TRANSPORT ? ask(planning, stack, hints, NULL, &found)
                                                 : plan_layer(planning, stack, hints, &found);
    reasons_leave(planning->reasons, rc ? 0 : info_count(found));
    if (rc)
        info_free(found);
    else if (found)
        info_append(infos, found);
    return rc;
}

int plan_offers(const struct stack *stack, const struct query *query, const struct fi_info *hints,
                struct reasons *reasons, struct fi_info **infos)
{
    struct planning planning = {.query = query, .reasons = reasons};
    int rc;

    *infos = NULL;
    rc = plan(&planning, stack, hints, infos);
    if (rc) {
        info_free(*infos);
        *infos = NULL;
    }
    return rc;
}

int plan_getinfo(const struct stack *stack, const char *name, const struct query *query,
                 const struct fi_info *hints, struct reasons *reasons, struct fi_info **result)
{
    struct fi_info *infos;
    int rc = plan_offers(stack, query, hints, reasons, &infos);

    for (struct fi_info *info = infos; !rc && info; info = info->next) {
        rc = info_settle(info, hints, query->version);
        if (!rc)
            rc = info_set_string(&info->fabric_attr->prov_name, name);
        if (!info->fabric_attr->prov_version)
            info->fabric_attr->prov_version = PROV_VERSION;
        if (hints->handle && hints->handle->fclass == FI_CLASS_PEP)
            info->handle = hints->handle;
    }
    if (rc) {
        info_free(infos);
        return rc;
    }
    *result = infos;
    return infos ? 0 : -FI_ENODATA;
}
