/* SPDX-License-Identifier: BSD-2-Clause */
#include "compose/getinfo.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "compose/explain.h"
#include "core/info.h"
#include "core/log.h"
#include "core/param_env.h"

/* One call. */
struct call {
    struct query query;
    struct fi_info *hints; /* complete, ours; prov_name is what the application wrote */
    struct reasons *reasons;
    struct candidates candidates;
    struct fi_info *infos;
};

/* Position in the answer: the user's choice, then the kind of endpoint that asks least of a program
 * (as upstream has it: RDM over everything before datagrams before connections), those that reach
 * other nodes before those that do not, then as found. */
struct place {
    struct fi_info *info;
    size_t choice, index;
    int kind;
    bool local;
};

static int kind_of(enum fi_ep_type type)
{
    switch (type) {
    case FI_EP_RDM: return 0;
    case FI_EP_DGRAM: return 1;
    case FI_EP_MSG: return 2;
    default: return 3;
    }
}

static int compare_places(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    if (x->choice != y->choice)
        return x->choice < y->choice ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind - y->kind;
    if (x->local != y->local)
        return x->local - y->local;
    return x->index < y->index ? -1 : x->index > y->index;
}

struct places {
    struct place *list;
    size_t count;
};

static int places_add(struct places *places, struct fi_info *infos, size_t choice)
{
    while (infos) {
        struct place *grown = realloc(places->list, (places->count + 1) * sizeof(*grown));
        struct fi_info *info = infos;

        if (!grown) {
            info_free(infos);
            return -FI_ENOMEM;
        }
        infos = info->next;
        info->next = NULL;
        places->list = grown;
        grown[places->count] = (struct place){.info = info,
                                              .choice = choice,
                                              .index = places->count,
                                              .kind = kind_of(info->ep_attr->type),
                                              .local = !(info->caps & FI_REMOTE_COMM)};
        places->count++;
    }
    return 0;
}

/* The list in its final order; places is left empty. */
static struct fi_info *places_take(struct places *places)
{
    struct fi_info *infos = NULL;

    if (places->count)
        qsort(places->list, places->count, sizeof(*places->list), compare_places);
    for (size_t i = places->count; i--;) {
        places->list[i].info->next = infos;
        infos = places->list[i].info;
    }
    free(places->list);
    *places = (struct places){0};
    return infos;
}

/* FI_ADDR_FORMAT leaves infos of one address format only. */
static struct fi_info *filter_format(struct fi_info *infos, const char *wanted,
                                     struct reasons *reasons)
{
    struct fi_info **link = &infos;
    char text[64];

    while (wanted && *wanted && *link) {
        struct fi_info *info = *link;

        fi_tostr_r(text, sizeof(text), &info->addr_format, FI_TYPE_ADDR_FORMAT);
        if (!strcasecmp(text, wanted)) {
            link = &info->next;
            continue;
        }
        reasons_add(reasons, "addr_format: FI_ADDR_FORMAT=%s, offered %s", wanted, text);
        *link = info->next;
        info->next = NULL;
        info_free(info);
    }
    return infos;
}

static int plan_all(struct call *call)
{
    const char *format = param_variable("FI_ADDR_FORMAT");
    struct places places = {0};
    int rc = 0;

    for (size_t i = 0; !rc && i < call->candidates.count; i++) {
        const struct candidate *candidate = &call->candidates.list[i];
        size_t before = places.count;
        struct fi_info *infos = NULL;

        reasons_enter(call->reasons, "%s", candidate->full);
        rc = plan_getinfo(candidate->stack, candidate->name, &call->query, call->hints,
                          call->reasons, &infos);
        infos = filter_format(infos, format, call->reasons);
        if (!rc)
            rc = places_add(&places, infos, candidate->choice);
        reasons_leave(call->reasons, places.count - before);
        if (rc == -FI_ENODATA)
            rc = 0;
    }
    call->infos = places_take(&places);
    if (rc) {
        info_free(call->infos);
        call->infos = NULL;
    }
    return rc;
}

/* fi_getinfo(3): an open object in the hints restricts the answer to what belongs to it. Which
 * stack a foreign pointer belongs to is not kept anywhere; programs that try this ask again
 * without. */
static bool names_objects(struct call *call)
{
    const char *field = call->hints->fabric_attr->fabric   ? "fabric_attr->fabric"
                        : call->hints->domain_attr->domain ? "domain_attr->domain"
                                                           : NULL;

    if (field)
        reasons_add(call->reasons, "%s: cannot be restricted to an open object; use its name",
                    field);
    return field;
}

/* What fi_getinfo(3) names, and the uppermost operation-specific and provider-specific bits, which
 * external providers have among themselves. */
static const uint64_t known_flags =
    FI_SOURCE | FI_NUMERICHOST | FI_PROV_ATTR_ONLY | FI_RESCAN | ~0ull << 56;

/* For which layers may be put on stacks. */
static uint64_t asked_of_layers(const struct fi_info *hints)
{
    uint64_t order = hints->tx_attr->comp_order | hints->rx_attr->comp_order;

    return hints->caps | hints->tx_attr->caps | hints->rx_attr->caps | hints->domain_attr->caps |
           (order & FI_ORDER_STRICT ? PART_ADDS_STRICT : 0);
}

static int plan_call(struct call *call, const struct environment *environment)
{
    const char *wanted = call->hints->fabric_attr->prov_name;
    uint64_t asked = asked_of_layers(call->hints);
    int rc;

    if (names_objects(call))
        return 0;
    rc = candidates_make(registry_parts(), environment, asked, wanted, call->reasons,
                         &call->candidates);
    return rc ? rc : plan_all(call);
}

static void explain(const struct call *call, enum explain mode)
{
    if (mode == EXPLAIN_REASONS)
        explain_reasons(stderr, &call->query, call->hints, call->reasons, call->infos);
    else if (mode == EXPLAIN_TREE)
        explain_tree(stderr, &call->query, &call->candidates, call->infos);
    if (!call->infos && reasons_summary(call->reasons))
        LOG_WARN("core", FI_LOG_CORE, "fi_getinfo: nothing fits: %s",
                 reasons_summary(call->reasons));
}

/* FI_PROV_ATTR_ONLY: one info for each part that there is, usable or not. */
static int list_parts(struct fi_info **infos)
{
    const struct parts *parts = registry_parts();
    struct fi_info *list = NULL;

    for (size_t i = 0; i < parts->count; i++) {
        struct fi_info *info;

        if (parts->list[i]->hidden)
            continue;
        info = info_alloc();
        if (info)
            info_append(&list, info);
        if (!info || info_set_string(&info->fabric_attr->prov_name, part_shown(parts->list[i]))) {
            info_free(list);
            return -FI_ENOMEM;
        }
        info->fabric_attr->prov_version = part_version(parts->list[i]);
    }
    *infos = list;
    return list ? 0 : -FI_ENODATA;
}

static int run(struct call *call)
{
    const struct environment environment = {param_variable("FI_PROVIDER"),
                                            param_variable("FI_HOOK")};
    enum explain mode = explain_mode(param_variable("FI_EXPLAIN"));
    int rc;

    if (mode != EXPLAIN_OFF || log_enabled("core", FI_LOG_WARN, FI_LOG_CORE))
        call->reasons = reasons_create();
    rc = plan_call(call, &environment);
    if (!rc)
        explain(call, mode);
    candidates_finish(&call->candidates);
    reasons_destroy(call->reasons);
    return rc;
}

int getinfo_run(uint32_t version, const char *node, const char *service, uint64_t flags,
                const struct fi_info *hints, unsigned abi_level, struct fi_info **infos)
{
    struct call call = {.query = {version, node, service, flags}};
    int rc;

    *infos = NULL;
    if (FI_VERSION_LT(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), version))
        return -FI_ENOSYS;
    if (flags & ~known_flags) {
        LOG_WARN("core", FI_LOG_CORE, "fi_getinfo: flags 0x%" PRIx64 " are none of fi_getinfo(3)",
                 flags & ~known_flags);
        return -FI_EBADFLAGS;
    }
    if ((flags & FI_SOURCE) && !node && !service)
        return -FI_EINVAL;
    if (flags & FI_PROV_ATTR_ONLY)
        return list_parts(infos);
    call.hints = info_complete(hints);
    if (!call.hints)
        return -FI_ENOMEM;
    registry_parts();
    params_warn_unknown();
    rc = run(&call);
    info_free(call.hints);
    if (rc)
        return rc;
    *infos = call.infos;
    return call.infos ? 0 : -FI_ENODATA;
}
