/* SPDX-License-Identifier: BSD-2-Clause */
/* Does each layer of a bound stack stand on something that gives what it needs? */
#include <stdlib.h>

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "compose/stack.h"

bool check_admits(const struct part *layer, const struct part *base)
{
    return layer->kind == PART_LAYER && !layer->transparent && !layer->hidden && !layer->adds &&
           (layer->stands_on & base->gives);
}

unsigned check_gives(const struct parts *parts, const struct stack *stack, bool admits)
{
    unsigned gives = stack->part->gives;

    if (stack->part->transparent)
        return check_gives(parts, stack->lowers[0], admits);
    if (stack->automatic)
        return gives | stack->lowers[1]->part->gives;
    if (!admits || stack->part->kind != PART_TRANSPORT)
        return gives;
    for (size_t i = 0; i < parts->count; i++) {
        if (check_admits(parts->list[i], stack->part))
            gives |= parts->list[i]->gives;
    }
    return gives;
}

static const char *type_name(unsigned type)
{
    static const char *const names[] = {"FI_EP_UNSPEC", "FI_EP_MSG",         "FI_EP_DGRAM",
                                        "FI_EP_RDM",    "FI_EP_SOCK_STREAM", "FI_EP_SOCK_DGRAM"};

    return type < sizeof(names) / sizeof(names[0]) ? names[type] : "?";
}

static char *set_text(unsigned set)
{
    struct text text = {0};

    for (unsigned type = 0; type < 32; type++) {
        if (set & EP_SET(type))
            text_add(&text, "%s%s", text.len ? " or " : "", type_name(type));
    }
    return text_take(&text);
}

static void fail_stands_on(const struct parts *parts, const struct stack *stack,
                           const struct stack *lower, struct spec_error *error)
{
    char *needs = set_text(stack->part->stands_on);
    char *gives = set_text(check_gives(parts, lower, false));

    while (lower->part->transparent)
        lower = lower->lowers[0];
    spec_fail(error, stack->span, "%s needs a lower that gives %s; %s gives %s", stack->part->name,
              needs ? needs : "?", lower->part->name, gives ? gives : "?");
    free(needs);
    free(gives);
}

int check_stack(const struct parts *parts, const struct stack *stack, struct spec_error *error)
{
    for (size_t i = 0; i < stack->lower_count; i++) {
        const struct stack *lower = stack->lowers[i];
        int rc = check_stack(parts, lower, error);

        if (rc)
            return rc;
        if (!stack->part->transparent &&
            !(stack->part->stands_on & check_gives(parts, lower, true))) {
            fail_stands_on(parts, stack, lower, error);
            return -FI_EINVAL;
        }
    }
    return 0;
}
