/* SPDX-License-Identifier: BSD-2-Clause */
/* A parsed spec as text, for tests of the parser: no blanks, names and keys in lower case, quotes
 * where needed. Parses to the same tree and prints as itself. */
#ifndef WEFT_TESTS_SUPPORT_SPEC_PRINT_H
#define WEFT_TESTS_SUPPORT_SPEC_PRINT_H

#include <ctype.h>

#include "compose/spec.h"

static inline void spec_print_stack(struct text *text, const struct spec_stack *stack)
{
    for (size_t i = 0; i < stack->item_count; i++) {
        const struct spec_item *item = &stack->items[i];

        text_add(text, i ? ";" : "");
        for (const char *c = item->name; c && *c; c++)
            text_add(text, "%c", tolower((unsigned char)*c));
        for (size_t j = 0; j < item->param_count; j++) {
            text_add(text, j ? "," : "(");
            text_add_param(text, item->params[j].key, item->params[j].value);
        }
        for (size_t j = 0; j < item->member_count; j++) {
            text_add(text, j ? "+" : "[");
            spec_print_stack(text, &item->members[j]);
        }
        text_add(text, item->param_count ? ")" : item->member_count ? "]" : "");
    }
}

/* Heap; NULL without memory. */
static inline char *spec_print(const struct spec *spec)
{
    struct text text = {0};

    text_add(&text, spec->deny ? "^" : "");
    for (size_t i = 0; i < spec->stack_count; i++) {
        text_add(&text, i ? "," : "");
        spec_print_stack(&text, &spec->stacks[i]);
    }
    return text_take(&text);
}

#endif
