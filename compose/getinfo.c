/* SPDX-License-Identifier: BSD-2-Clause */
#include "compose/getinfo.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "compose/culprit.h"
#include "compose/explain.h"
#include "core/base/log.h"
#include "core/info/info.h"
#include "core/param/param_env.h"

enum {
    ORIGIN_MAX = 1024,
    WHY_MAX = 1024
};

/* One call. */
struct call {
    struct query query;
    struct fi_info *hints; /* complete, ours; prov_name is what the application wrote */
    struct reasons *reasons;
    struct candidates candidates;
    struct fi_info *infos;
    size_t mistakes; /* that were shown, besides those in the candidates' texts */
};

/* Position in the answer: the user's choice, then the kind of endpoint that asks least of a program
 * (as upstream has it: RDM over everything before datagrams before connections), those that reach
 * other nodes before those that do not, devices before sockets, then as found. */
struct place {
    struct fi_info *info;
    size_t choice, index;
    int kind;
    unsigned rank;
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
    if (x->rank != y->rank)
        return x->rank > y->rank ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

struct places {
    struct place *list;
    size_t count;
};

/* Of the transport at the bottom; of a join, that of its first lower. */
static unsigned rank_of(const struct stack *stack)
{
    while (stack->lower_count)
        stack = stack->lowers[0];
    return stack->part->rank;
}

static int places_add(struct places *places, struct fi_info *infos,
                      const struct candidate *candidate)
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
                                              .choice = candidate->choice,
                                              .rank = rank_of(candidate->stack),
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

/* FI_ADDR_FORMAT has excluded all infos, and the application asked for no format. */
static void show_format(struct call *call, const char *wanted)
{
    char names[32][64], origin[ORIGIN_MAX], why[WHY_MAX];
    const char *list[33] = {NULL};
    size_t count = 0;
    bool known = false;

    for (uint32_t format = 0; format < 32; format++) {
        fi_tostr_r(names[count], sizeof(names[count]), &format, FI_TYPE_ADDR_FORMAT);
        known = known || !strcasecmp(names[count], wanted);
        list[count] = names[count];
        count += strncmp(names[count], "FI_", 3) == 0;
    }
    list[count] = NULL;
    if (known)
        snprintf(why, sizeof(why), "no stack has addresses of the format %s", wanted);
    else
        suggest_explain("address format", wanted, list, why, sizeof(why));
    log_user("%s: %s (it leaves nothing)",
             param_variable_origin("FI_ADDR_FORMAT", origin, sizeof(origin)), why);
    call->mistakes++;
}

static int plan_all(struct call *call)
{
    const char *format = param_variable("FI_ADDR_FORMAT");
    struct places places = {0};
    bool any = false;
    int rc = 0;

    for (size_t i = 0; !rc && i < call->candidates.count; i++) {
        struct candidate *candidate = &call->candidates.list[i];
        size_t before = places.count;
        struct fi_info *infos = NULL;

        reasons_enter(call->reasons, "%s", candidate->full);
        rc = plan_getinfo(candidate->stack, candidate->name, &call->query, call->hints,
                          call->reasons, &infos);
        any = any || infos;
        infos = filter_format(infos, format, call->reasons);
        if (!rc)
            rc = places_add(&places, infos, candidate);
        candidate->infos = places.count - before;
        reasons_leave(call->reasons, candidate->infos);
        if (rc == -FI_ENODATA)
            rc = 0;
    }
    call->infos = places_take(&places);
    if (!rc && any && !call->infos && call->hints->addr_format == FI_FORMAT_UNSPEC)
        show_format(call, format);
    if (rc) {
        info_free(call->infos);
        call->infos = NULL;
    }
    return rc;
}

/* fi_getinfo(3): an open object in the hints restricts the answer to infos of it. Which stack a
 * foreign pointer belongs to is not kept anywhere; programs that try this ask again without. */
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

/* The flags of fi_getinfo(3), and the uppermost operation-specific and provider-specific bits,
 * which external providers use among themselves. */
static const uint64_t known_flags =
    FI_SOURCE | FI_NUMERICHOST | FI_PROV_ATTR_ONLY | FI_RESCAN | ~0ull << 56;

/* Capabilities for which layers may be put on stacks. */
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

/* One text, so that lines of several threads do not mix. */
static void print_explanation(const struct call *call, enum explain mode)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        return;
    if (mode == EXPLAIN_REASONS)
        explain_reasons(out, &call->query, call->hints, call->reasons, call->infos);
    else if (mode == EXPLAIN_TREE)
        explain_tree(out, &call->query, &call->candidates, call->infos);
    if (!fclose(out))
        explain_write(text);
    free(text);
}

/* mistakes: messages already shown for this call, which explain an empty result. */
static void explain(const struct call *call, enum explain mode, size_t mistakes)
{
    const char *why = call->infos ? NULL : reasons_summary(call->reasons);

    if (mode == EXPLAIN_REASONS || mode == EXPLAIN_TREE)
        print_explanation(call, mode);
    if (why && mode == EXPLAIN_BRIEF && !mistakes)
        log_user("nothing fits: %s", why);
    if (why)
        LOG_WARN("core", FI_LOG_CORE, "fi_getinfo: nothing fits: %s", why);
}

static void print_parts(const struct parts *parts)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        return;
    explain_parts(out, parts);
    if (!fclose(out))
        explain_write(text);
    free(text);
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
    if (explain_mode(param_variable("FI_EXPLAIN")) == EXPLAIN_PARTS)
        print_parts(parts);
    *infos = list;
    return list ? 0 : -FI_ENODATA;
}

static int run(struct call *call)
{
    enum explain mode = explain_mode(param_variable("FI_EXPLAIN"));
    const char *wanted = call->hints->fabric_attr->prov_name;
    struct environment environment = {.curious = mode != EXPLAIN_OFF};
    size_t mistakes;
    int rc;

    environment_read(&environment);
    if (mode != EXPLAIN_OFF || log_enabled("core", FI_LOG_WARN, FI_LOG_CORE))
        call->reasons = reasons_create();
    rc = plan_call(call, &environment);
    if (!rc) {
        mistakes = call->candidates.mistakes + call->mistakes;
        mistakes += culprits_show(&call->candidates, &environment, wanted);
        explain(call, mode, mistakes);
    }
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
    if (FI_VERSION_LT(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), version)) {
        LOG_WARN("core", FI_LOG_CORE,
                 "fi_getinfo: version %u.%u is later than this library's %d.%d", FI_MAJOR(version),
                 FI_MINOR(version), FI_MAJOR_VERSION, FI_MINOR_VERSION);
        return -FI_ENOSYS;
    }
    if (flags & ~known_flags) {
        LOG_WARN("core", FI_LOG_CORE, "fi_getinfo: flags 0x%" PRIx64 " are none of fi_getinfo(3)",
                 flags & ~known_flags);
        return -FI_EBADFLAGS;
    }
    if ((flags & FI_SOURCE) && !node && !service) {
        LOG_WARN("core", FI_LOG_CORE,
                 "fi_getinfo: FI_SOURCE says whose node and service are, and there is neither");
        return -FI_EINVAL;
    }
    registry_parts();
    params_warn_unknown();
    if (flags & FI_PROV_ATTR_ONLY)
        return list_parts(infos);
    call.hints = info_complete(hints);
    if (!call.hints)
        return -FI_ENOMEM;
    rc = run(&call);
    info_free(call.hints);
    if (rc)
        return rc;
    *infos = call.infos;
    return call.infos ? 0 : -FI_ENODATA;
}
