/* SPDX-License-Identifier: BSD-2-Clause */
#include "compose/plan.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "core/info/info.h"
#include "core/part/join_name.h"

/* The state that every function here works on. */
struct planning {
    const struct query *query;
    struct reasons *reasons;
    unsigned upper; /* as struct request has it */
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
        .domains = stack_domains(stack),
        .part = stack->part,
        .lower_traits = stack->lower_count == 1
                            ? stack_peer_traits(stack->lowers[0],
                                                part_upper_below(stack->part, planning->upper))
                            : 0,
        .upper = planning->upper,
        .reasons = planning->reasons,
    };
}

static bool in_list(const char *list, const char *name)
{
    size_t len = strlen(name);

    for (const char *at = list; *at; at += strcspn(at, "|,") + (at[strcspn(at, "|,")] != 0)) {
        if (strcspn(at, "|,") == len && !strncasecmp(at, name, len))
            return true;
    }
    return false;
}

/* The parameter `domain` of a transport. */
static bool is_selected(const struct stack *stack, const struct fi_info *offer,
                        struct reasons *reasons)
{
    const char *domains = stack_domains(stack), *name = offer->domain_attr->name;

    if (!domains || (name && in_list(domains, name)))
        return true;
    reasons_add(reasons, "domain: asked %s, offered %s", domains, name ? name : "none");
    return false;
}

/* Appends those of a part's offers that satisfy the hints. An error that is not ours is a refusal:
 * one part out of order must not hide the others. */
static int take_offers(const struct planning *planning, const struct stack *stack, int rc,
                       struct fi_info *offers, const struct fi_info *hints, struct fi_info **infos)
{
    if (rc == -FI_ENOMEM)
        return rc;
    if (rc && rc != -FI_ENODATA)
        reasons_add(planning->reasons, "%s: %s", stack->part->name, fi_strerror(-rc));
    while (!rc && offers) {
        struct fi_info *offer = offers;

        offers = offer->next;
        offer->next = NULL;
        if (!is_selected(stack, offer, planning->reasons) ||
            info_check(offer, hints, planning->query->version, planning->reasons))
            info_free(offer);
        else
            info_append(infos, offer);
    }
    return 0;
}

/* Asks the part for its infos over lower. */
static int ask(const struct planning *planning, const struct stack *stack,
               const struct fi_info *hints, const struct fi_info *lower, struct fi_info **infos)
{
    struct request request = request_of(planning, stack, hints);
    struct fi_info *offers = NULL;
    int rc = stack->part->offer(&request, lower, &offers);

    return take_offers(planning, stack, rc, offers, hints, infos);
}

/* One alternative of the layer's needs. */
static int plan_over(const struct planning *planning, const struct stack *stack,
                     const struct fi_info *hints, const struct fi_info *need,
                     struct fi_info **infos)
{
    struct fi_info *lower_hints = info_complete(need);
    struct planning below = *planning;
    struct fi_info *lowers = NULL;
    int rc;

    if (!lower_hints)
        return -FI_ENOMEM;
    below.upper = part_upper_below(stack->part, planning->upper);
    rc = plan(&below, stack->lowers[0], lower_hints, &lowers);
    for (const struct fi_info *lower = lowers; !rc && lower; lower = lower->next)
        rc = ask(planning, stack, hints, lower, infos);
    info_free(lowers);
    info_free(lower_hints);
    return rc;
}

/* ---- Joins ---- */

/* The hints' fabric and domain names of a join, split by branch. */
struct branch_names {
    char **fabric, **domain; /* a name for each branch, or NULL: the hints name none */
    char **memory;
    bool of_face; /* they name one branch, and the others are asked for any */
};

/* 0 with *names NULL where text is. -FI_ENODATA: no name of this join's. */
static int split_hint(const struct planning *planning, const char *field, const char *text,
                      const struct stack *join, char **room, char ***names)
{
    size_t count = join->lower_count;
    int rc;

    *names = NULL;
    if (!text)
        return 0;
    rc = stack_split_name(join, text, room);
    if (rc == -FI_EINVAL) {
        reasons_add_at(planning->reasons, REASON_TYPE,
                       "%s: asked %s, offered names of %zu "
                       "branches, as a+b",
                       field, text, count);
        return -FI_ENODATA;
    }
    *names = room;
    return rc;
}

static void branch_names_free(struct branch_names *names, size_t count)
{
    if (names->memory)
        join_names_free(names->memory, 2 * count);
    free(names->memory);
}

static int branch_names_read(const struct planning *planning, const struct fi_info *hints,
                             const struct stack *join, struct branch_names *names)
{
    size_t count = join->lower_count;
    int rc;

    *names = (struct branch_names){.memory = calloc(2 * count, sizeof(char *)),
                                   .of_face = stack_face(join) < count};
    if (!names->memory)
        return -FI_ENOMEM;
    rc = split_hint(planning, "fabric_attr->name", hints->fabric_attr->name, join, names->memory,
                    &names->fabric);
    if (!rc)
        rc = split_hint(planning, "domain_attr->name", hints->domain_attr->name, join,
                        names->memory + count, &names->domain);
    if (rc)
        branch_names_free(names, count);
    return rc;
}

/* One alternative of a join's needs for a branch, with the branch's own names. */
static int plan_need(const struct planning *planning, const struct stack *branch,
                     const struct fi_info *need, const char *fabric, const char *domain,
                     struct fi_info **infos)
{
    struct fi_info *hints = info_complete(need);
    int rc = hints ? 0 : -FI_ENOMEM;

    if (!rc)
        rc = info_set_string(&hints->fabric_attr->name, fabric);
    if (!rc)
        rc = info_set_string(&hints->domain_attr->name, domain);
    if (!rc)
        rc = plan(planning, branch, hints, infos);
    info_free(hints);
    return rc;
}

/* The question without names of a node. */
static struct query without_names(const struct query *query)
{
    struct query plain = *query;

    plain.node = plain.service = NULL;
    plain.flags &= ~FI_SOURCE;
    return plain;
}

/* All that branch number `index` has for the join. *unnamed: without node and service. */
static int plan_branch(const struct planning *planning, const struct stack *join, size_t index,
                       const struct fi_info *hints, const struct branch_names *names,
                       struct fi_info **infos, bool *unnamed)
{
    const char *fabric = names->fabric ? names->fabric[index] : NULL;
    const char *domain = names->domain ? names->domain[index] : NULL;
    struct request request = request_of(planning, join, hints);
    struct query plain = without_names(planning->query);
    struct planning below = *planning;
    struct fi_info *needs = NULL;
    size_t named = SIZE_MAX, asked = 0;
    int rc;

    if (!names->of_face && ((names->fabric && !fabric) || (names->domain && !domain)))
        return 0; /* the hints leave it out */
    below.upper = join->part->requires_ep;
    request.branch = index;
    request.named = &named;
    rc = join->part->needs(&request, &needs);
    for (const struct fi_info *need = needs; !rc && !*infos && need; need = need->next) {
        if (asked++ == named)
            below.query = &plain;
        rc = plan_need(&below, join->lowers[index], need, fabric, domain, infos);
    }
    *unnamed = below.query == &plain && (planning->query->node || planning->query->service);
    info_free(needs);
    return rc == -FI_ENODATA ? 0 : rc;
}

static bool has_cpu_atomics(const struct stack *stack)
{
    if (stack->part->atomics == ATOMICS_CPU)
        return true;
    if (!stack->lower_count)
        return false;
    for (size_t i = 0; i < stack->lower_count; i++) {
        if (!has_cpu_atomics(stack->lowers[i]))
            return false;
    }
    return true;
}

static int plan_branches(const struct planning *planning, const struct stack *join,
                         const struct fi_info *hints, struct fi_info **branches,
                         struct request *request)
{
    struct branch_names names;
    bool unnamed = false;
    int rc = branch_names_read(planning, hints, join, &names);

    if (rc)
        return rc;
    for (size_t i = 0; !rc && i < join->lower_count; i++) {
        rc = plan_branch(planning, join, i, hints, &names, &branches[i], &unnamed);
        if (i < 64) {
            request->unnamed |= (uint64_t)unnamed << i;
            request->cpu_atomics |= (uint64_t)has_cpu_atomics(join->lowers[i]) << i;
        }
    }
    branch_names_free(&names, join->lower_count);
    return rc;
}

static int plan_join(const struct planning *planning, const struct stack *join,
                     const struct fi_info *hints, struct fi_info **infos)
{
    struct request request = request_of(planning, join, hints);
    struct fi_info **branches = calloc(join->lower_count, sizeof(struct fi_info *));
    struct fi_info *offers = NULL;
    int rc = branches ? plan_branches(planning, join, hints, branches, &request) : -FI_ENOMEM;

    if (!rc) {
        rc = join->part->join(&request, (const struct fi_info *const *)branches, join->lower_count,
                              &offers);
        rc = take_offers(planning, join, rc, offers, hints, infos);
    }
    for (size_t i = 0; branches && i < join->lower_count; i++)
        info_free(branches[i]);
    free(branches);
    return rc == -FI_ENODATA ? 0 : rc;
}

/* ---- Layers and whole stacks ---- */

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

    if (stack->part->transparent || type == FI_EP_UNSPEC || check_has_type(stack->part, type))
        return true;
    if (!planning->reasons)
        return false;
    fi_tostr_r(asked, sizeof(asked), &type, FI_TYPE_EP_TYPE);
    for (type = FI_EP_MSG; type < FI_EP_RDM && !check_has_type(stack->part, type); type++)
        continue;
    fi_tostr_r(offered, sizeof(offered), &type, FI_TYPE_EP_TYPE);
    reasons_add_at(planning->reasons, REASON_TYPE, "ep_attr->type: asked %s, offered %s", asked,
                   offered);
    return false;
}

static int plan_part(const struct planning *planning, const struct stack *stack,
                     const struct fi_info *hints, struct fi_info **infos)
{
    switch (stack->part->kind) {
    case PART_TRANSPORT: return ask(planning, stack, hints, NULL, infos);
    case PART_JOIN: return plan_join(planning, stack, hints, infos);
    default: return plan_layer(planning, stack, hints, infos);
    }
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
        rc = plan_part(planning, stack, hints, &found);
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
    struct planning planning = {.query = query, .reasons = reasons, .upper = query->upper};
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
