/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names to parts, and a text's line of items to a tree: the base may stand at either end, and that
 * end is the bottom.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <rdma/fi_errno.h>

#include "compose/stack.h"

static int bind_fail(struct spec_error *error)
{
    return error->why[0] ? -FI_EINVAL : -FI_ENOMEM;
}

const struct part *bind_part(const struct parts *parts, const struct spec_item *item,
                             struct spec_error *error)
{
    const struct part *part = parts_find(parts, item->name);
    const char *near = part ? NULL : parts_near(parts, item->name);

    if (!part && near)
        spec_fail(error, item->name_span, "unknown part '%.60s'; did you mean '%s'?", item->name,
                  near);
    else if (!part)
        spec_fail(error, item->name_span, "unknown part '%.60s'", item->name);
    return part;
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
    if (rc)
        stack_release(stack);
    else
        *result = stack;
    return rc;
}

/* A transport that the example in a sentence may name under `layer`. */
static const char *example_base(const struct parts *parts, const struct part *layer)
{
    for (size_t i = 0; i < parts->count; i++) {
        const struct part *part = parts->list[i];

        if (part->kind == PART_TRANSPORT && !part->hidden &&
            (!layer->stands_on || (layer->stands_on & part->gives)))
            return part->name;
    }
    return "tcp";
}

/* Where the base is: 0 or item_count - 1. */
static int find_base(const struct parts *parts, const struct spec_stack *text,
                     const struct part *const *bound, size_t *base, struct spec_error *error)
{
    size_t last = text->item_count - 1;
    bool found = false;

    for (size_t i = 0; i < text->item_count; i++) {
        const struct spec_item *item = &text->items[i];
        const char *name = bound[i] ? bound[i]->name : "a bracket";

        if (bound[i] && bound[i]->kind != PART_TRANSPORT)
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
    if (!found) {
        const struct part *part = bound[last];

        assert(part); /* a bracket would have been the base */
        spec_fail(error, text->items[last].name_span,
                  part->kind == PART_JOIN ? "%s needs a bracket under it, as in '%s;[%s+...]'"
                                          : "%s is a layer and needs a base, as in '%s;%s'",
                  part->name, part->name, example_base(parts, part));
        return -FI_EINVAL;
    }
    return 0;
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
    struct stack *node;
    int rc;

    assert(part); /* find_base let no second bracket pass */
    if (bracket && part->kind != PART_JOIN) {
        spec_fail(error, item->name_span, "%s stands on one lower; a bracket needs a join",
                  part->name);
        return -FI_EINVAL;
    }
    if (!bracket && part->kind == PART_JOIN) {
        spec_fail(error, item->name_span, "%s joins several lowers, which stand in a bracket",
                  part->name);
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
    for (size_t n = 1; !rc && n < text->item_count; n++) {
        size_t i = base ? base - n : n;

        rc = bind_above(parts, bound[i], &text->items[i], bracket, &stack, error);
        bracket = NULL;
    }
    if (!rc && bracket) {
        spec_fail(error, bracket->name_span, "a bracket needs a join beside it");
        rc = -FI_EINVAL;
    }
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
        bound[i] = bind_part(parts, &text->items[i], error);
        if (!bound[i])
            rc = bind_fail(error);
    }
    if (!rc)
        rc = bind_line(parts, text, bound, stack, error);
    free(bound);
    return rc;
}

int bind_hooks(const struct parts *parts, const struct spec_stack *text, struct stack **stack,
               struct spec_error *error)
{
    error->why[0] = 0;
    for (size_t i = text->item_count; i--;) {
        const struct spec_item *item = &text->items[i];
        const struct part *part = item->name ? bind_part(parts, item, error) : NULL;
        struct stack *hook;
        int rc;

        if (!item->name)
            spec_fail(error, item->name_span, "a bracket is no hook");
        else if (part && !part->transparent)
            spec_fail(error, item->name_span, "%s is no hook: it belongs in FI_PROVIDER",
                      part->name);
        if (error->why[0])
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
