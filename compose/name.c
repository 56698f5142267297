/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "compose/stack.h"

static void print_params(struct text *text, const struct stack *stack)
{
    for (size_t i = 0; i < stack->given_count; i++) {
        text_add(text, i ? "," : "(");
        text_add_param(text, stack->given[i].key, stack->given[i].value);
    }
    text_add(text, stack->given_count ? ")" : "");
}

static void print(struct text *text, const struct stack *stack, bool full)
{
    const struct part *part = stack->part;

    if (stack->automatic) {
        print(text, stack->lowers[0], full);
        return;
    }
    if (part->kind == PART_JOIN) {
        for (size_t i = 0; i < stack->lower_count; i++) {
            text_add(text, i ? "+" : "[");
            print(text, stack->lowers[i], full);
        }
        text_add(text, "]");
    } else if (stack->lower_count) {
        print(text, stack->lowers[0], full);
    }
    if (stack->hooked || (part->transparent && !full))
        return;
    text_add(text, stack->lower_count ? ";%s" : "%s", part_shown(part));
    if (full)
        print_params(text, stack);
}

char *stack_print(const struct stack *stack)
{
    struct text text = {0};

    print(&text, stack, true);
    return text_take(&text);
}

char *stack_print_short(const struct stack *stack)
{
    struct text text = {0};

    print(&text, stack, false);
    return text_take(&text);
}
