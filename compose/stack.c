/* SPDX-License-Identifier: BSD-2-Clause */
#include "compose/stack.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/part/join_name.h"

struct stack *stack_create(const struct part *part, struct span span)
{
    struct stack *stack = calloc(1, sizeof(*stack));

    if (stack) {
        stack->refs = 1;
        stack->part = part;
        stack->span = span;
    }
    return stack;
}

struct stack *stack_hold(struct stack *stack)
{
    __atomic_fetch_add(&stack->refs, 1, __ATOMIC_RELAXED);
    return stack;
}

static void given_free(struct spec_param *given, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(given[i].key);
        free(given[i].value);
    }
    free(given);
}

void stack_release(struct stack *stack)
{
    if (!stack || __atomic_sub_fetch(&stack->refs, 1, __ATOMIC_ACQ_REL))
        return;
    for (size_t i = 0; i < stack->lower_count; i++)
        stack_release(stack->lowers[i]);
    free(stack->lowers);
    given_free(stack->given, stack->given_count);
    params_destroy(stack->params);
    free(stack);
}

int stack_add_lower(struct stack *stack, struct stack *lower)
{
    struct stack **lowers =
        realloc(stack->lowers, (stack->lower_count + 1) * sizeof(*stack->lowers));

    if (!lowers) {
        stack_release(lower);
        return -FI_ENOMEM;
    }
    stack->lowers = lowers;
    lowers[stack->lower_count++] = lower;
    return 0;
}

static struct spec_param *given_dup(const struct spec_param *given, size_t count)
{
    struct spec_param *copy = calloc(count ? count : 1, sizeof(*copy));

    for (size_t i = 0; copy && i < count; i++) {
        copy[i].span = given[i].span;
        copy[i].value_span = given[i].value_span;
        copy[i].key = strdup(given[i].key);
        copy[i].value = given[i].value ? strdup(given[i].value) : NULL;
        if (!copy[i].key || (given[i].value && !copy[i].value)) {
            given_free(copy, i + 1);
            return NULL;
        }
    }
    return copy;
}

/* NULL: the key is not among them. */
static const struct spec_param *find_given(const struct spec_param *given, size_t count,
                                           const char *key)
{
    for (size_t i = 0; i < count; i++) {
        if (!strcasecmp(given[i].key, key))
            return &given[i];
    }
    return NULL;
}

/* Of what several parameters say together. */
static int check_agreement(const struct stack *stack, const struct spec_param *given, size_t count,
                           struct spec_error *error)
{
    const struct part *part = stack->part;
    struct param_conflict conflict = {0};
    const struct spec_param *param;
    char origin[1024];

    if (!part->agree || part->agree(stack->params, &conflict))
        return 0;
    param = find_given(given, count, conflict.key);
    if (param) {
        spec_fail(error, param->span, "%s: %s", conflict.key, conflict.why);
        return -FI_EINVAL;
    }
    if (params_origin(part->name, part_shown(part), conflict.key, origin, sizeof(origin)))
        log_user("%s: %s (%s)", origin, conflict.why, conflict.used);
    return 0;
}

int stack_set_params(struct stack *stack, const struct spec_param *given, size_t count,
                     struct spec_error *error)
{
    struct param_text *texts = calloc(count ? count : 1, sizeof(*texts));
    char why[sizeof(error->why)] = "";
    size_t bad = 0;
    int rc = -FI_ENOMEM;

    if (!texts)
        return rc;
    for (size_t i = 0; i < count; i++)
        texts[i] = (struct param_text){given[i].key, given[i].value};
    rc = params_resolve(stack->part->name, part_shown(stack->part), part_params(stack->part), texts,
                        count, &stack->params, &bad, why, sizeof(why));
    free(texts);
    if (rc == -FI_EINVAL)
        spec_fail(error, bad < count ? given[bad].span : stack->span, "%s", why);
    if (!rc)
        rc = check_agreement(stack, given, count, error);
    if (rc)
        return rc;
    stack->given = given_dup(given, count);
    if (!stack->given)
        return -FI_ENOMEM;
    stack->given_count = count;
    return 0;
}

struct stack *stack_over(const struct stack *stack, struct stack *lower)
{
    struct stack *copy = stack_create(stack->part, stack->span);

    if (!copy) {
        stack_release(lower);
        return NULL;
    }
    copy->hooked = stack->hooked;
    copy->unseen = stack->unseen;
    copy->usual = stack->usual;
    copy->params = params_dup(stack->params);
    copy->given = given_dup(stack->given, stack->given_count);
    if (copy->given)
        copy->given_count = stack->given_count;
    if (stack_add_lower(copy, lower) || !copy->params || !copy->given) {
        stack_release(copy);
        return NULL;
    }
    return copy;
}

size_t stack_face(const struct stack *join)
{
    return join->part->face ? join->part->face(join->params) : SIZE_MAX;
}

int stack_split_name(const struct stack *join, const char *text, char **names)
{
    size_t face = stack_face(join);

    if (face >= join->lower_count)
        return join_name_split(text, join->lower_count, names);
    memset(names, 0, join->lower_count * sizeof(*names));
    names[face] = strdup(text);
    return names[face] ? 0 : -FI_ENOMEM;
}

bool stack_has(const struct stack *stack, const struct part *part)
{
    bool has = !stack->automatic && stack->part == part;

    for (size_t i = 0; !has && i < stack->lower_count; i++)
        has = stack_has(stack->lowers[i], part);
    return has;
}

struct stack *stack_put(const struct stack *stack, const struct part *layer)
{
    struct spec_error error;
    struct stack *put;

    if (!stack->automatic &&
        (stack->part->transparent || (stack->part->topmost && !layer->topmost))) {
        put = stack_put(stack->lowers[0], layer);
        return put ? stack_over(stack, put) : NULL;
    }
    put = stack_create(layer, stack->span);
    if (!put)
        return NULL;
    if (stack_set_params(put, NULL, 0, &error) ||
        stack_add_lower(put, stack_hold((struct stack *)stack))) {
        stack_release(put);
        return NULL;
    }
    return put;
}

bool stack_is_plain(const struct stack *stack)
{
    if (stack->given_count || stack->part->transparent)
        return false;
    for (size_t i = 0; i < stack->lower_count; i++) {
        if (!stack_is_plain(stack->lowers[i]))
            return false;
    }
    return true;
}

const char *stack_domains(const struct stack *stack)
{
    const struct param_def *def = part_params(stack->part);

    if (stack->part->kind != PART_TRANSPORT || !stack->params || def == stack->part->params ||
        !def->key)
        return NULL;
    return params_string(stack->params, PART_DOMAIN);
}

unsigned stack_peer_traits(const struct stack *stack, unsigned upper)
{
    unsigned traits;

    while (stack->automatic || stack->part->transparent)
        stack = stack->lowers[0];
    traits = stack->part->peer ? stack->part->peer(stack->params) : 0;
    return traits | (stack->part->provides_ep & upper & EP_PACKETS ? PEER_PACKETS : 0);
}
