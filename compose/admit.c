/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stacks that a bare transport name admits. "tcp" stands for tcp completed by its unnamed layer,
 * and for each named layer on it ("tcp;ofi_rxm"), as upstream's filter of that name does. A
 * transport right under a layer that can use it as it is stands for itself alone.
 */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "compose/stack.h"

/* Several bare transports in one bracket multiply; the rest of so many would never be looked at. */
#define ADMIT_MAX 64

static int list_add(struct stack ***list, size_t *count, struct stack *stack)
{
    struct stack **grown = stack ? realloc(*list, (*count + 1) * sizeof(*grown)) : NULL;

    if (!grown) {
        stack_release(stack);
        return -FI_ENOMEM;
    }
    *list = grown;
    grown[(*count)++] = stack;
    return 0;
}

static void list_free(struct stack **list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        stack_release(list[i]);
    free(list);
}

/* Sets the parameters of a new node: the texts, up to a key NULL, or with NULL none. Takes over the
 * reference. */
static struct stack *with_params(struct stack *stack, const struct param_text *texts)
{
    struct spec_param given[8] = {{0}};
    struct spec_error error;
    size_t count = 0;

    for (; texts && texts->key && count < 8; texts++)
        given[count++] =
            (struct spec_param){.key = (char *)texts->key, .value = (char *)texts->value};
    if (!stack || !stack_set_params(stack, given, count, &error))
        return stack;
    stack_release(stack);
    return NULL;
}

/* layer with default parameters, or with those of its unnamed form, on base, whose reference
 * passes. */
static struct stack *put_on(const struct part *layer, bool unnamed, struct stack *base)
{
    struct stack *stack =
        base ? with_params(stack_create(layer, base->span), unnamed ? layer->unnamed : NULL) : NULL;

    if (!stack) {
        stack_release(base);
        return NULL;
    }
    if (stack_add_lower(stack, base)) {
        stack_release(stack);
        return NULL;
    }
    return stack;
}

static bool can_stand(const struct parts *parts, const struct part *layer,
                      const struct stack *lower)
{
    return layer->transparent || (layer->requires_ep & check_gives(parts, lower, false));
}

/* The stack right under `layer` on `lower`: lower itself or, if lower offers datagrams and the
 * layer needs reliable packets, the packet layer on it. Takes over the reference to lower. */
static struct stack *with_packets(const struct parts *parts, const struct part *layer,
                                  struct stack *lower)
{
    const struct part *packets = check_packets(parts);
    struct stack *stack;

    if (can_stand(parts, layer, lower) || !packets || !(layer->requires_ep & EP_PACKETS) ||
        !can_stand(parts, packets, lower))
        return lower;
    stack = put_on(packets, false, lower);
    if (stack)
        stack->unseen = true;
    return stack;
}

/* Puts the message layer on a join of packet transports. Takes over the reference to stack. */
static struct stack *with_messages(const struct parts *parts, struct stack *stack)
{
    const struct part *messages = check_messages(parts);
    struct stack *over;

    if (check_gives(parts, stack, false) != EP_PACKETS || !messages)
        return stack;
    over = put_on(messages, false, stack);
    if (over)
        over->unseen = true;
    return over;
}

/* base, completed by over; takes over the reference to over. */
static struct stack *make_automatic(struct stack *over, struct stack *base)
{
    struct stack *stack = stack_create(base->part, base->span);

    if (!stack || !over || stack_add_lower(stack, stack_hold(base))) {
        stack_release(stack);
        stack_release(over);
        return NULL;
    }
    stack->automatic = true;
    if (stack_add_lower(stack, over)) {
        stack_release(stack);
        return NULL;
    }
    return stack;
}

/* over, a layer that completes a transport, beside what moves messages inside of the node, in a
 * join that looks like it from outside; over alone where that is missing or forbidden. Takes over
 * the reference to it. */
static struct stack *join_inside(const struct parts *parts, struct stack *over)
{
    static const struct param_text plain[] = {
        {"face", "2"}, {"rails", "per_peer"}, {"same", "no"}, {"strict", "no"}, {NULL, NULL},
    };
    const struct part *layer = over->part;
    const struct part *inside = layer->inside ? parts_find(parts, layer->inside) : NULL;
    const struct part *join = parts_find(parts, "lnx");
    struct stack *stack, *first;

    if (!inside || !join || !params_bool(over->params, layer->inside_permitted))
        return over;
    first = with_params(stack_create(inside, over->span), NULL);
    stack = with_params(stack_create(join, over->span), plain);
    if (stack)
        stack->usual = true;
    if (!first || !stack || stack_add_lower(stack, stack_hold(first)) ||
        stack_add_lower(stack, stack_hold(over))) {
        stack_release(stack);
        stack = NULL;
    }
    stack_release(first);
    stack_release(over);
    return stack;
}

/* Of a transport that names the protocol of the layer that completes it. */
static int admit_completed(const struct parts *parts, struct stack *base, bool joined,
                           struct stack ***list, size_t *count)
{
    const struct part *layer = NULL;
    struct stack *over;

    for (size_t i = 0; !layer && i < parts->count; i++) {
        if (parts->list[i]->completes == base->part->completed)
            layer = parts->list[i];
    }
    if (!layer)
        return list_add(list, count, stack_hold(base));
    over = put_on(layer, true, stack_hold(base));
    if (over && !joined)
        over = join_inside(parts, over);
    return list_add(list, count, over ? make_automatic(over, base) : NULL);
}

static int admit_transport(const struct parts *parts, struct stack *base, bool joined,
                           struct stack ***list, size_t *count)
{
    const struct part *unnamed = NULL;
    int rc;

    if (base->part->completed)
        return admit_completed(parts, base, joined, list, count);
    for (size_t i = 0; !unnamed && i < parts->count; i++) {
        const struct part *part = parts->list[i];

        if (part->unnamed && check_admits(parts, part, base->part) &&
            (part->provides_ep & ~base->part->provides_ep))
            unnamed = part;
    }
    rc = list_add(list, count,
                  unnamed ? make_automatic(put_on(unnamed, true, stack_hold(base)), base)
                          : stack_hold(base));
    for (size_t i = 0; !rc && i < parts->count; i++) {
        const struct part *layer = parts->list[i];

        if (check_admits(parts, layer, base->part))
            rc = list_add(list, count,
                          put_on(layer, false, with_packets(parts, layer, stack_hold(base))));
    }
    return rc;
}

/* The parts above a stack. */
struct above {
    bool bare; /* no layer that uses a transport at the bottom as it is */
    bool join; /* a join, which has its own way inside of the node */
};

static int admit(const struct parts *parts, struct stack *stack, struct above above,
                 struct stack ***list, size_t *count);

/* Does a part use its lower as it is? A transport that is completed has endpoints of two fabrics,
 * both of which are for layers on messages. */
static bool is_as_it_is(const struct parts *parts, const struct part *part,
                        const struct stack *lower)
{
    const struct stack *base = lower;

    while (base->part->transparent)
        base = base->lowers[0];
    if (base->part->kind == PART_TRANSPORT && base->part->completed &&
        !(part->requires_ep & EP_PACKETS))
        return false;
    return part->requires_ep & check_gives(parts, lower, false);
}

static int admit_layer(const struct parts *parts, struct stack *stack, struct above above,
                       struct stack ***list, size_t *count)
{
    const struct part *part = stack->part;
    struct stack *lower = stack->lowers[0];
    struct stack **below = NULL;
    size_t below_count = 0;
    int rc;

    if (!part->transparent)
        above.bare = !is_as_it_is(parts, part, lower);
    rc = admit(parts, lower, above, &below, &below_count);
    for (size_t i = 0; !rc && i < below_count; i++) {
        struct stack *under = with_packets(parts, part, stack_hold(below[i]));

        if (under && !can_stand(parts, part, under))
            stack_release(under);
        else
            rc = list_add(list, count, under ? stack_over(stack, under) : NULL);
    }
    list_free(below, below_count);
    return rc;
}

/* A copy of join with the lowers that it has so far and one more. */
static struct stack *join_with(const struct stack *join, struct stack *partial, struct stack *lower)
{
    struct stack *copy = NULL;

    if (!partial)
        return stack_over(join, stack_hold(lower));
    copy = stack_over(join, stack_hold(partial->lowers[0]));
    for (size_t i = 1; copy && i <= partial->lower_count; i++) {
        if (stack_add_lower(copy,
                            stack_hold(i < partial->lower_count ? partial->lowers[i] : lower))) {
            stack_release(copy);
            copy = NULL;
        }
    }
    return copy;
}

/* Every partial join by every stack that lower number `index` stands for; of a join that makes
 * packets by the first of them, since what is below shows nowhere. */
static int join_more(const struct parts *parts, struct stack *join, size_t index,
                     struct stack ***partial, size_t *partial_count)
{
    struct stack **below = NULL, **next = NULL;
    size_t below_count = 0, next_count = 0;
    size_t rounds = *partial_count ? *partial_count : 1;
    const struct above above = {
        .bare = !is_as_it_is(parts, join->part, join->lowers[index]),
        .join = true,
    };
    size_t most = join->part->provides_ep == EP_PACKETS ? 1 : ADMIT_MAX;
    int rc = admit(parts, join->lowers[index], above, &below, &below_count);

    most = rounds > ADMIT_MAX / most ? ADMIT_MAX : rounds * most;
    for (size_t i = 0; i < rounds; i++) {
        for (size_t j = 0; !rc && j < below_count && next_count < most; j++) {
            struct stack *under = with_packets(parts, join->part, stack_hold(below[j]));

            if (!under)
                rc = -FI_ENOMEM;
            else if (can_stand(parts, join->part, under))
                rc = list_add(&next, &next_count,
                              join_with(join, *partial ? (*partial)[i] : NULL, under));
            stack_release(under);
        }
    }
    list_free(below, below_count);
    list_free(*partial, *partial_count);
    *partial = next;
    *partial_count = next_count;
    return rc;
}

/* Messages are made of its packets unless the layer above wants these. */
static int admit_join(const struct parts *parts, struct stack *join, bool bare,
                      struct stack ***list, size_t *count)
{
    struct stack **partial = NULL;
    size_t partial_count = 0;
    int rc = 0;

    for (size_t i = 0; !rc && i < join->lower_count; i++)
        rc = join_more(parts, join, i, &partial, &partial_count);
    for (size_t i = 0; !rc && i < partial_count; i++)
        rc = list_add(list, count,
                      bare ? with_messages(parts, stack_hold(partial[i])) : stack_hold(partial[i]));
    list_free(partial, partial_count);
    return rc;
}

static int admit(const struct parts *parts, struct stack *stack, struct above above,
                 struct stack ***list, size_t *count)
{
    if (stack->part->kind == PART_LAYER)
        return admit_layer(parts, stack, above, list, count);
    if (stack->part->kind == PART_JOIN)
        return admit_join(parts, stack, above.bare, list, count);
    if (above.bare)
        return admit_transport(parts, stack, above.join, list, count);
    return list_add(list, count, stack_hold(stack));
}

int admit_stack(const struct parts *parts, struct stack *stack, struct stack ***list, size_t *count)
{
    return admit(parts, stack, (struct above){.bare = true}, list, count);
}
