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

enum form {
    FULL,
    SHORT,
    BARE
};

static bool is_given(const struct stack *stack, const struct param_text *param)
{
    for (size_t i = 0; i < stack->given_count; i++) {
        if (!strcmp(stack->given[i].key, param->key))
            return stack->given[i].value && !strcmp(stack->given[i].value, param->value);
    }
    return false;
}

/* As a bare transport is completed: its name says so already. */
static bool is_unnamed(const struct stack *stack)
{
    const struct param_text *param = stack->part->unnamed;

    while (param && param->key && is_given(stack, param))
        param++;
    return param && !param->key;
}

static bool is_shown(const struct stack *stack, enum form form)
{
    return !stack->hooked && !stack->unseen && !(stack->part->transparent && form != FULL) &&
           !(form == BARE && is_unnamed(stack));
}

static void print_item(struct text *text, const struct stack *stack, enum form form)
{
    text_add(text, "%s", part_shown(stack->part));
    if (form == FULL)
        print_params(text, stack);
}

/* At the bottom is a bracket: then the text begins with the top, so that a join is in front. */
static bool is_on_bracket(const struct stack *stack)
{
    while (stack->part->kind == PART_LAYER)
        stack = stack->lowers[0];
    return stack->part->kind == PART_JOIN;
}

static void print(struct text *text, const struct stack *stack, enum form form);

static void print_bracket(struct text *text, const struct stack *join, enum form form)
{
    for (size_t i = 0; i < join->lower_count; i++) {
        text_add(text, i ? "+" : "[");
        print(text, join->lowers[i], form);
    }
    text_add(text, "]");
}

static void print_from_top(struct text *text, const struct stack *stack, enum form form)
{
    if (is_shown(stack, form)) {
        print_item(text, stack, form);
        text_add(text, ";");
    }
    if (stack->part->kind == PART_JOIN)
        print_bracket(text, stack, form);
    else
        print_from_top(text, stack->lowers[0], form);
}

static void print(struct text *text, const struct stack *stack, enum form form)
{
    if (stack->automatic) {
        print(text, stack->lowers[0], form);
        return;
    }
    if (is_on_bracket(stack)) {
        print_from_top(text, stack, form);
        return;
    }
    if (stack->lower_count)
        print(text, stack->lowers[0], form);
    if (!is_shown(stack, form))
        return;
    text_add(text, stack->lower_count ? ";" : "");
    print_item(text, stack, form);
}

static char *text_of(const struct stack *stack, enum form form)
{
    struct text text = {0};

    print(&text, stack, form);
    return text_take(&text);
}

char *stack_print(const struct stack *stack)
{
    return text_of(stack, FULL);
}

char *stack_print_short(const struct stack *stack)
{
    return text_of(stack, SHORT);
}

char *stack_print_bare(const struct stack *stack)
{
    return text_of(stack, BARE);
}

/* ---- Comparing ---- */

/* The bracketed lists of upstream's names are delimited by these. */
static bool is_boundary(char c)
{
    return !c || strchr(";+[]", c);
}

bool name_contains(const char *text, const char *part)
{
    size_t len = strlen(part);

    for (const char *at = text; (at = strstr(at, part)); at++) {
        if ((at == text || is_boundary(at[-1])) && is_boundary(at[len]))
            return true;
    }
    return false;
}

bool name_begins_with(const char *text, const char *name)
{
    size_t len = strlen(name);

    return !strncmp(text, name, len) && (!text[len] || text[len] == ';');
}
