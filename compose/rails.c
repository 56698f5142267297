/* SPDX-License-Identifier: BSD-2-Clause */
/* The usual bracket of a join that makes packets: a rail for each interface. */
#include <string.h>

#include <rdma/fi_errno.h>

#include "compose/external.h"
#include "compose/plan.h"
#include "core/info/info.h"
#include "core/net/addr.h"

enum {
    RAILS_MAX = 8
};

struct rails {
    const struct parts *parts;
    struct stack *join;
    struct spec_error *error;
};

static bool is_network(const struct part *part, unsigned rank)
{
    return part->kind == PART_TRANSPORT && !part->hidden && !external_is(part) &&
           part->rank == rank && part->provides_ep & EP_SET(FI_EP_MSG);
}

static bool is_loopback(const struct fi_info *info)
{
    union addr addr;

    return info->src_addr &&
           !addr_import(info->addr_format, info->src_addr, info->src_addrlen, &addr) &&
           addr_is_loopback(&addr.sa);
}

static bool has_rail(const struct stack *join, const struct part *part, const char *domain)
{
    for (size_t i = 0; i < join->lower_count; i++) {
        const char *domains = stack_domains(join->lowers[i]);

        if (join->lowers[i]->part == part && domains && !strcmp(domains, domain))
            return true;
    }
    return false;
}

static int add_rail(const struct rails *rails, const struct part *part, const char *domain)
{
    struct spec_param given = {.key = (char *)PART_DOMAIN, .value = (char *)domain};
    struct stack *lower;
    int rc;

    if (!domain || rails->join->lower_count == RAILS_MAX || has_rail(rails->join, part, domain))
        return 0;
    lower = stack_create(part, rails->join->span);
    rc = lower ? stack_set_params(lower, &given, 1, rails->error) : -FI_ENOMEM;
    if (!rc)
        return stack_add_lower(rails->join, lower);
    stack_release(lower);
    return rc;
}

/* All that a transport has, whatever it is asked for. */
static int ask_all(const struct rails *rails, const struct part *part, struct fi_info **infos)
{
    const struct query query = {.version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION)};
    struct stack *stack = stack_create(part, rails->join->span);
    struct fi_info *hints = info_complete(NULL);
    int rc = stack && hints ? stack_set_params(stack, NULL, 0, rails->error) : -FI_ENOMEM;

    if (!rc)
        rc = plan_offers(stack, &query, hints, NULL, infos);
    info_free(hints);
    stack_release(stack);
    return rc;
}

static int add_rank(const struct rails *rails, unsigned rank, bool loopback)
{
    int rc = 0;

    for (size_t i = 0; !rc && i < rails->parts->count; i++) {
        struct fi_info *infos = NULL;

        if (!is_network(rails->parts->list[i], rank))
            continue;
        rc = ask_all(rails, rails->parts->list[i], &infos);
        for (const struct fi_info *info = infos; !rc && info; info = info->next) {
            if (is_loopback(info) == loopback)
                rc = add_rail(rails, rails->parts->list[i], info->domain_attr->name);
        }
        info_free(infos);
    }
    return rc;
}

static unsigned highest_rank(const struct parts *parts)
{
    unsigned rank = 0;

    for (size_t i = 0; i < parts->count; i++) {
        if (is_network(parts->list[i], parts->list[i]->rank) && parts->list[i]->rank > rank)
            rank = parts->list[i]->rank;
    }
    return rank;
}

int bind_rails(const struct parts *parts, struct stack *join, struct spec_error *error)
{
    const struct rails rails = {.parts = parts, .join = join, .error = error};
    int rc = 0;

    for (unsigned rank = highest_rank(parts) + 1; !rc && !join->lower_count && rank--;)
        rc = add_rank(&rails, rank, false);
    for (unsigned rank = highest_rank(parts) + 1; !rc && !join->lower_count && rank--;)
        rc = add_rank(&rails, rank, true);
    if (rc || join->lower_count)
        return rc;
    spec_fail(error, join->span, "there is no network interface to make a rail of");
    return -FI_EINVAL;
}
