/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names to parts, and a text's line of items to a tree: the base may stand at either end, and that
 * end is the bottom.
 */
#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <rdma/fi_errno.h>

#include "compose/external.h"
#include "compose/stack.h"

enum {
    NAME_LIMIT = 160
};

static int bind_fail(struct spec_error *error)
{
    return error->why[0] ? -FI_EINVAL : -FI_ENOMEM;
}

/* The part of an item; NULL with *error filled. */
static const struct part *part_of_item(const struct parts *parts, const struct spec_item *item,
                                       struct spec_error *error)
{
    const struct part *part = parts_find(parts, item->name);
    char why[sizeof(error->why)];
    bool probe;

    if (!part) {
        spec_fail(error, item->name_span, "%s",
                  parts_explain(parts, item->name, why, sizeof(why), &probe));
        error->probe = probe;
    }
    return part;
}

/* As the user calls it: by its own name, or by the alias that was typed. Returns text. */
static const char *typed_name(const struct part *part, const struct spec_item *item, char *text,
                              size_t size)
{
    const char *own = part_shown(part);

    if (!strcasecmp(item->name, part->name) || !strcasecmp(item->name, own))
        return part->name;
    snprintf(text, size, "%.60s (%s)", item->name, part->name);
    return text;
}

static int check_params(const struct spec_item *item, struct spec_error *error)
{
    for (size_t i = 0; i < item->param_count; i++) {
        for (size_t j = 0; j < i; j++) {
            if (strcasecmp(item->params[i].key, item->params[j].key))
                continue;
            spec_fail(error, item->params[i].span, "parameter '%.60s' is given twice",
                      item->params[i].key);
            return -FI_EINVAL;
        }
    }
    return 0;
}

/* A sentence that begins with the part's name, for one that was typed otherwise. */
static void name_as_typed(const struct part *part, const struct spec_item *item,
                          struct spec_error *error)
{
    size_t len = strlen(part->name);
    char name[NAME_LIMIT], rest[sizeof(error->why)];

    if (strncmp(error->why, part->name, len) != 0 || error->why[len] != ' ')
        return;
    snprintf(rest, sizeof(rest), "%s", error->why + len);
    spec_fail(error, error->span, "%s%s", typed_name(part, item, name, sizeof(name)), rest);
}

/* One named item as a node without lowers. */
static int bind_item(const struct part *part, const struct spec_item *item, struct stack **result,
                     struct spec_error *error)
{
    struct stack *stack;
    int rc = check_params(item, error);

    if (rc)
        return rc;
    stack = stack_create(part, item->name_span);
    rc = stack ? stack_set_params(stack, item->params, item->param_count, error) : -FI_ENOMEM;
    if (rc == -FI_EINVAL)
        name_as_typed(part, item, error);
    if (rc)
        stack_release(stack);
    else
        *result = stack;
    return rc;
}

/* A transport that the example in a sentence may name under `layer`: rather one that needs no
 * device. */
static const char *example_base(const struct parts *parts, const struct part *layer)
{
    const struct part *found = NULL;

    for (size_t i = 0; i < parts->count; i++) {
        const struct part *part = parts->list[i];

        if (part->kind == PART_TRANSPORT && !part->hidden && (!found || part->rank < found->rank) &&
            (!layer->requires_ep ||
             (layer->requires_ep & check_with_packets(parts, part->provides_ep))))
            found = part;
    }
    return found ? found->name : "tcp";
}

static bool is_base(const struct part *part)
{
    return !part || part->kind == PART_TRANSPORT;
}

/* Of a text without a base: a join at an end stands for its usual bracket. */
static int find_lone_join(const struct parts *parts, const struct spec_stack *text,
                          const struct part *const *bound, size_t *base, struct spec_error *error)
{
    size_t last = text->item_count - 1;
    const struct spec_item *item = &text->items[last];
    char name[NAME_LIMIT];

    for (size_t n = 0; n < 2; n++) {
        *base = n ? 0 : last;
        if (bound[*base]->kind == PART_JOIN)
            return 0;
    }
    spec_fail(error, item->name_span, "%s is a layer and needs a base, as in '%.60s;%s'",
              typed_name(bound[last], item, name, sizeof(name)), item->name,
              example_base(parts, bound[last]));
    return -FI_EINVAL;
}

/* Where the base is: 0 or item_count - 1. */
static int find_base(const struct parts *parts, const struct spec_stack *text,
                     const struct part *const *bound, size_t *base, struct spec_error *error)
{
    size_t last = text->item_count - 1;
    bool found = false;

    for (size_t i = 0; i < text->item_count; i++) {
        const struct spec_item *item = &text->items[i];
        char text_of[NAME_LIMIT];
        const char *name =
            bound[i] ? typed_name(bound[i], item, text_of, sizeof(text_of)) : "a bracket";

        if (!is_base(bound[i]))
            continue;
        if (found)
            spec_fail(error, item->name_span, "%s cannot stand here: a stack has one base", name);
        else if (i && i != last)
            spec_fail(error, item->name_span, "%s is a base: it stands first or last", name);
        if (error->why[0])
            return -FI_EINVAL;
        found = true;
        *base = i;
    }
    return found ? 0 : find_lone_join(parts, text, bound, base, error);
}

/* Which transports become branches. */
struct kind {
    unsigned given, but;  /* they have one of these endpoint types, and none of those */
    unsigned least, most; /* rank */
};

static bool is_of(const struct part *part, const struct kind *kind)
{
    return part->kind == PART_TRANSPORT && !part->hidden && !external_is(part) &&
           part->provides_ep & kind->given && !(part->provides_ep & kind->but) &&
           part->rank >= kind->least && part->rank <= kind->most;
}

static int bind_kind(const struct parts *parts, struct stack *join, const struct kind *kind,
                     struct spec_error *error)
{
    int rc = 0;

    for (size_t i = 0; !rc && i < parts->count; i++) {
        const struct part *part = parts->list[i];
        struct stack *lower;

        if (!is_of(part, kind))
            continue;
        lower = stack_create(part, join->span);
        rc = lower ? stack_set_params(lower, NULL, 0, error) : -FI_ENOMEM;
        if (rc)
            stack_release(lower);
        else
            rc = stack_add_lower(join, lower);
    }
    return rc;
}

/* The bracket of a join that stands alone: what reaches peers in the node by itself, then devices
 * that do all by themselves, then the other networks, each of which has its domains apart under a
 * join that makes packets; no test doubles, nothing that was loaded. */
static int bind_usual(const struct parts *parts, struct stack *join, struct spec_error *error)
{
    const unsigned native = join->part->requires_ep;
    const struct kind kinds[] = {
        {.given = native},
        {.given = native, .least = 1, .most = UINT_MAX},
        {.given = EP_SET(FI_EP_MSG) & ~native, .but = native, .most = UINT_MAX},
    };
    int rc = 0;

    join->usual = true;
    if (join->part->provides_ep == EP_PACKETS)
        return bind_rails(parts, join, error);
    for (size_t i = 0; !rc && i < sizeof(kinds) / sizeof(kinds[0]); i++)
        rc = bind_kind(parts, join, &kinds[i], error);
    return rc;
}

/* The stacks of a bracket become the lowers of the join beside it. */
static int bind_join(const struct parts *parts, const struct spec_item *bracket, struct stack *join,
                     struct spec_error *error)
{
    for (size_t i = 0; i < bracket->member_count; i++) {
        struct stack *lower;
        int rc = bind_stack(parts, &bracket->members[i], &lower, error);

        if (!rc)
            rc = stack_add_lower(join, lower);
        if (rc)
            return rc;
    }
    return 0;
}

/* Puts item on *stack, or on the bracket under it when there is no *stack yet. */
static int bind_above(const struct parts *parts, const struct part *part,
                      const struct spec_item *item, const struct spec_item *bracket,
                      struct stack **stack, struct spec_error *error)
{
    char name[NAME_LIMIT];
    struct stack *node;
    int rc;

    assert(part); /* find_base let no second bracket pass */
    if (bracket && part->kind != PART_JOIN) {
        spec_fail(error, item->name_span, "%s stands on one lower; a bracket needs a join",
                  typed_name(part, item, name, sizeof(name)));
        return -FI_EINVAL;
    }
    if (!bracket && part->kind == PART_JOIN) {
        spec_fail(error, item->name_span,
                  "%s joins several lowers, which stand in a bracket: %s;[... + ...]",
                  typed_name(part, item, name, sizeof(name)), part->name);
        return -FI_EINVAL;
    }
    rc = bind_item(part, item, &node, error);
    if (rc)
        return rc;
    if (bracket) {
        rc = bind_join(parts, bracket, node, error);
    } else {
        rc = stack_add_lower(node, *stack);
        *stack = NULL;
    }
    if (rc) {
        stack_release(node);
        return rc;
    }
    *stack = node;
    return 0;
}

/* "lnx or mrail" */
static int fail_without_join(const struct parts *parts, const struct spec_item *bracket,
                             struct spec_error *error)
{
    struct text names = {0};
    bool first = true;
    char *joins;

    for (size_t i = 0; i < parts->count; i++) {
        if (parts->list[i]->kind != PART_JOIN || parts->list[i]->hidden)
            continue;
        text_add(&names, "%s%s", first ? ": " : " or ", parts->list[i]->name);
        first = false;
    }
    joins = text_take(&names);
    spec_fail(error, bracket->name_span, "a bracket needs a join beside it%s", joins ? joins : "");
    free(joins);
    return -FI_EINVAL;
}

static int bind_line(const struct parts *parts, const struct spec_stack *text,
                     const struct part *const *bound, struct stack **result,
                     struct spec_error *error)
{
    const struct spec_item *bracket = NULL;
    struct stack *stack = NULL;
    size_t base;
    int rc = find_base(parts, text, bound, &base, error);

    if (rc)
        return rc;
    if (text->items[base].name)
        rc = bind_item(bound[base], &text->items[base], &stack, error);
    else
        bracket = &text->items[base];
    if (!rc && stack && stack->part->kind == PART_JOIN)
        rc = bind_usual(parts, stack, error);
    for (size_t n = 1; !rc && n < text->item_count; n++) {
        size_t i = base ? base - n : n;

        rc = bind_above(parts, bound[i], &text->items[i], bracket, &stack, error);
        bracket = NULL;
    }
    if (!rc && bracket)
        rc = fail_without_join(parts, bracket, error);
    if (rc)
        stack_release(stack);
    else
        *result = stack;
    return rc;
}

int bind_stack(const struct parts *parts, const struct spec_stack *text, struct stack **stack,
               struct spec_error *error)
{
    const struct part **bound = calloc(text->item_count, sizeof(*bound));
    int rc = 0;

    error->why[0] = 0;
    if (!bound)
        return -FI_ENOMEM;
    for (size_t i = 0; !rc && i < text->item_count; i++) {
        if (!text->items[i].name)
            continue;
        bound[i] = part_of_item(parts, &text->items[i], error);
        if (!bound[i])
            rc = bind_fail(error);
    }
    if (!rc)
        rc = bind_line(parts, text, bound, stack, error);
    free(bound);
    return rc;
}

int bind_checked(const struct parts *parts, const struct spec_stack *text, struct stack **stack,
                 struct spec_error *error)
{
    int rc = bind_stack(parts, text, stack, error);

    if (rc)
        return rc;
    rc = check_stack(parts, *stack, error);
    if (rc)
        stack_release(*stack);
    return rc;
}

int bind_hooks(const struct parts *parts, const struct spec_stack *text, struct stack **stack,
               struct spec_error *error)
{
    error->why[0] = 0;
    for (size_t i = text->item_count; i--;) {
        const struct spec_item *item = &text->items[i];
        const struct part *part = item->name ? part_of_item(parts, item, error) : NULL;
        char name[NAME_LIMIT];
        struct stack *hook;
        int rc;

        if (!item->name)
            spec_fail(error, item->name_span, "a bracket is no hook");
        else if (part && !part->transparent)
            spec_fail(error, item->name_span, "%s is no hook: it belongs in FI_PROVIDER",
                      typed_name(part, item, name, sizeof(name)));
        if (error->why[0] || !part)
            return -FI_EINVAL;
        rc = bind_item(part, item, &hook, error);
        if (rc)
            return rc;
        hook->hooked = true;
        rc = stack_add_lower(hook, *stack);
        *stack = hook;
        if (rc)
            return rc;
    }
    return 0;
}
