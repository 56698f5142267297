/* SPDX-License-Identifier: BSD-2-Clause */
/* Does each layer of a bound stack stand on something that gives what it needs? */
#include <stdlib.h>

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "compose/stack.h"

const struct part *check_packets(const struct parts *parts)
{
    for (size_t i = 0; i < parts->count; i++) {
        const struct part *part = parts->list[i];

        if (part->kind == PART_LAYER && part->requires_ep & EP_SET(FI_EP_DGRAM) &&
            part->provides_ep & EP_PACKETS)
            return part;
    }
    return NULL;
}

const struct part *check_messages(const struct parts *parts)
{
    for (size_t i = 0; i < parts->count; i++) {
        const struct part *part = parts->list[i];

        if (part->kind == PART_LAYER && part->requires_ep == EP_PACKETS && !part->hidden &&
            part->provides_ep & EP_SET(FI_EP_RDM))
            return part;
    }
    return NULL;
}

bool check_has_type(const struct part *part, enum fi_ep_type type)
{
    return part->provides_ep & EP_SET(type) ||
           (type == FI_EP_RDM && part->provides_ep & EP_PACKETS);
}

unsigned check_with_packets(const struct parts *parts, unsigned given)
{
    return given | (given & EP_SET(FI_EP_DGRAM) && check_packets(parts) ? EP_PACKETS : 0);
}

bool check_admits(const struct parts *parts, const struct part *layer, const struct part *base)
{
    return layer->kind == PART_LAYER && !layer->transparent && !layer->hidden && !layer->adds &&
           !(layer->provides_ep & EP_PACKETS) &&
           (layer->requires_ep & check_with_packets(parts, base->provides_ep));
}

unsigned check_gives(const struct parts *parts, const struct stack *stack, bool admits)
{
    unsigned provides_ep = stack->part->provides_ep;

    if (stack->part->transparent)
        return check_gives(parts, stack->lowers[0], admits);
    if (stack->automatic)
        return provides_ep | stack->lowers[1]->part->provides_ep;
    if (stack_peer_traits(stack, 0) & PEER_PACKETS)
        provides_ep = (provides_ep & ~EP_SET(FI_EP_RDM)) | EP_PACKETS;
    if (admits && stack->part->kind == PART_JOIN && provides_ep == EP_PACKETS &&
        check_messages(parts))
        provides_ep |= check_messages(parts)->provides_ep;
    if (!admits || stack->part->kind != PART_TRANSPORT)
        return provides_ep;
    for (size_t i = 0; i < parts->count; i++) {
        if (check_admits(parts, parts->list[i], stack->part))
            provides_ep |= parts->list[i]->provides_ep;
    }
    return check_with_packets(parts, provides_ep);
}

static const char *type_name(unsigned type)
{
    static const char *const names[] = {"FI_EP_UNSPEC", "FI_EP_MSG",         "FI_EP_DGRAM",
                                        "FI_EP_RDM",    "FI_EP_SOCK_STREAM", "FI_EP_SOCK_DGRAM"};

    if (EP_SET(type) == EP_PACKETS)
        return "reliable packets";
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
    char *needs = set_text(stack->part->requires_ep);
    char *provides_ep = set_text(check_gives(parts, lower, false));

    bool complete = stack->part->requires_ep == EP_PACKETS &&
                    check_gives(parts, lower, true) & EP_SET(FI_EP_RDM);

    while (lower->part->transparent)
        lower = lower->lowers[0];
    if (complete)
        spec_fail(error, stack->span,
                  "%s makes messages of reliable packets or datagrams; %s has messages (FI_EP_RDM) "
                  "without it",
                  stack->part->name, lower->part->name);
    else
        spec_fail(error, stack->span, "%s needs a lower that gives %s; %s gives %s",
                  stack->part->name, needs ? needs : "?", lower->part->name,
                  provides_ep ? provides_ep : "?");
    free(needs);
    free(provides_ep);
}

int check_stack(const struct parts *parts, const struct stack *stack, struct spec_error *error)
{
    for (size_t i = 0; i < stack->lower_count; i++) {
        const struct stack *lower = stack->lowers[i];
        int rc = check_stack(parts, lower, error);

        if (rc)
            return rc;
        if (!stack->part->transparent &&
            !(stack->part->requires_ep & check_gives(parts, lower, true))) {
            fail_stands_on(parts, stack, lower, error);
            return -FI_EINVAL;
        }
    }
    return 0;
}
