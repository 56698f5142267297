/* SPDX-License-Identifier: BSD-2-Clause */
#include "compose/hold.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "compose/external.h"
#include "compose/plan.h"
#include "core/info/abi.h"
#include "core/info/info.h"
#include "core/part/join_name.h"

/* An open fabric, by count of holds. */
struct shared {
    int refs;
    struct fid_fabric *fabric;
};

struct hold {
    struct lower lower;
    struct stack *stack;
    struct shared *shared;
    unsigned upper;
};

static int hold_getinfo(const struct lower *lower, uint32_t version, const char *node,
                        const char *service, uint64_t flags, const struct fi_info *hints,
                        struct fi_info **infos)
{
    const struct hold *hold = (const struct hold *)lower;
    const struct stack *stack = hold->stack;
    const struct query query = {version, node, service, flags, hold->upper};
    struct fi_info *complete = info_complete(hints);
    char *name = stack_print_short(stack);
    int rc = -FI_ENOMEM;

    if (complete && name)
        rc = plan_getinfo(stack, name, &query, complete, NULL, infos);
    free(name);
    info_free(complete);
    return rc;
}

static int hold_close(struct lower *lower)
{
    struct hold *hold = (struct hold *)lower;

    if (!__atomic_sub_fetch(&hold->shared->refs, 1, __ATOMIC_ACQ_REL)) {
        int rc = fi_close(&hold->shared->fabric->fid);

        if (rc) {
            hold->shared->refs = 1;
            return rc;
        }
        free(hold->shared);
    }
    stack_release(hold->stack);
    free(hold);
    return 0;
}

/* Parts of ours speak the peer interface, and what passes everything through speaks its lower's. */
static bool is_peer(const struct stack *stack)
{
    while (stack->part->transparent)
        stack = stack->lowers[0];
    return !external_is(stack->part) || external_peer(stack->part);
}

static struct lower *hold_create(struct stack *stack, struct shared *shared, unsigned upper)
{
    struct hold *hold = calloc(1, sizeof(*hold));

    if (!hold)
        return NULL;
    hold->stack = stack_hold(stack);
    hold->shared = shared;
    hold->upper = upper;
    hold->lower.fabric = shared->fabric;
    hold->lower.peer = is_peer(stack);
    hold->lower.peer_traits = stack_peer_traits(stack, upper);
    hold->lower.getinfo = hold_getinfo;
    hold->lower.close = hold_close;
    return &hold->lower;
}

int hold_open(struct stack *stack, const struct opening *opening, unsigned abi,
              struct lower **lower)
{
    struct shared *shared = calloc(1, sizeof(*shared));
    int rc;

    if (!shared)
        return -FI_ENOMEM;
    shared->refs = 1;
    rc = stack_open(stack, opening, abi, &shared->fabric, NULL);
    if (rc)
        goto free_shared;
    *lower = hold_create(stack, shared, opening->upper);
    if (*lower)
        return 0;
    rc = -FI_ENOMEM;
    fi_close(&shared->fabric->fid);
free_shared:
    free(shared);
    return rc;
}

struct lower *hold_share(struct lower *lower, unsigned upper)
{
    struct hold *hold = (struct hold *)lower;
    struct lower *other = hold_create(hold->stack, hold->shared, upper);

    if (other)
        __atomic_fetch_add(&hold->shared->refs, 1, __ATOMIC_RELAXED);
    return other;
}

int stack_open_over(struct stack *stack, const struct opening *opening, unsigned abi,
                    struct lower **lowers, struct fid_fabric **fabric, void *context)
{
    char *prov_name = stack_print_short(stack);
    struct fi_fabric_attr attr = {
        .name = (char *)opening->name,
        .prov_name = prov_name,
        .prov_version = PROV_VERSION,
        .api_version = opening->api_version,
    };
    struct open_args args = {
        .part = stack->part,
        .params = params_dup(stack->params),
        .attr = &attr,
        .api_version = opening->api_version,
        .abi = abi,
        .lowers = lowers,
        .lower_count = stack->lower_count,
        .usual = stack->usual,
        .whole = opening->whole,
    };
    int rc = -FI_ENOMEM;

    if (prov_name && args.params)
        rc = stack->part->open_fabric(&args, fabric, context);
    if (rc)
        params_destroy(args.params);
    free(prov_name);
    return rc;
}

/* name: of the lower's fabric. */
static int open_lower(struct stack *stack, size_t index, const char *name,
                      const struct opening *opening, unsigned abi, struct lower **lower)
{
    struct opening below = *opening;

    below.name = name;
    /* A transparent layer hands structs down as the application laid them out. */
    below.upper = part_upper_below(stack->part, opening->upper);
    if (!stack->part->transparent)
        abi = ABI_1_9;
    return hold_open(stack->lowers[index], &below, abi, lower);
}

/* The name of the first fabric that a lower of a join has at all, on the heap; *name stays NULL
 * where it has none. */
static int first_fabric(const struct stack *join, size_t index, const struct opening *opening,
                        char **name)
{
    const struct query query = {.version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
                                .upper = part_upper_below(join->part, opening->upper)};
    struct fi_info *hints = info_complete(NULL), *infos = NULL;
    int rc = hints ? plan_offers(join->lowers[index], &query, hints, NULL, &infos) : -FI_ENOMEM;

    if (!rc && infos) {
        *name = strdup(infos->fabric_attr->name);
        rc = *name ? 0 : -FI_ENOMEM;
    }
    info_free(infos);
    info_free(hints);
    return rc;
}

/* Where a join has a face its other lowers have no name in the join's. */
static int name_others(const struct stack *join, const struct opening *opening, char **names)
{
    size_t face = stack_face(join);
    int rc = 0;

    for (size_t i = 0; !rc && face < join->lower_count && i < join->lower_count; i++) {
        if (i != face)
            rc = first_fabric(join, i, opening, &names[i]);
    }
    if (rc)
        join_names_free(names, join->lower_count);
    return rc;
}

/* Opens the branches of a join on the fabrics in its fabric name; a branch without one stays
 * closed. */
static int open_branches(struct stack *stack, const struct opening *opening, unsigned abi,
                         struct lower **lowers)
{
    char **names = calloc(stack->lower_count + 1, sizeof(char *));
    int rc = -FI_ENOMEM;

    if (names)
        rc = opening->name ? stack_split_name(stack, opening->name, names) : -FI_EINVAL;
    if (!rc)
        rc = name_others(stack, opening, names);
    if (rc) {
        free(names);
        return rc == -FI_EINVAL ? -FI_ENODATA : rc;
    }
    for (size_t i = 0; !rc && i < stack->lower_count; i++) {
        if (names[i])
            rc = open_lower(stack, i, names[i], opening, abi, &lowers[i]);
    }
    join_names_free(names, stack->lower_count);
    free(names);
    return rc;
}

static int open_lowers(struct stack *stack, const struct opening *opening, unsigned abi,
                       struct lower **lowers)
{
    if (stack->part->kind == PART_JOIN)
        return open_branches(stack, opening, abi, lowers);
    if (!stack->lower_count)
        return 0;
    return open_lower(stack, 0, opening->name, opening, abi, &lowers[0]);
}

int stack_open(struct stack *stack, const struct opening *opening, unsigned abi,
               struct fid_fabric **fabric, void *context)
{
    struct lower **lowers;
    int rc;

    if (stack->automatic)
        return automatic_open(stack, opening, abi, fabric, context);
    lowers = calloc(stack->lower_count ? stack->lower_count : 1, sizeof(struct lower *));
    if (!lowers)
        return -FI_ENOMEM;
    rc = open_lowers(stack, opening, abi, lowers);
    if (!rc)
        rc = stack_open_over(stack, opening, abi, lowers, fabric, context);
    for (size_t i = stack->lower_count; rc && i--;) {
        if (lowers[i])
            lowers[i]->close(lowers[i]);
    }
    free(lowers);
    return rc;
}
