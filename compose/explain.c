/* SPDX-License-Identifier: BSD-2-Clause */
#include "compose/explain.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <rdma/fi_endpoint.h>

#include "core/info/info.h"

enum explain explain_mode(const char *text)
{
    static const char *const off[] = {"0", "no", "off", "false", NULL};

    if (!text || !*text)
        return EXPLAIN_OFF;
    for (size_t i = 0; off[i]; i++) {
        if (!strcasecmp(text, off[i]))
            return EXPLAIN_OFF;
    }
    if (!strcasecmp(text, "tree"))
        return EXPLAIN_TREE;
    if (!strcasecmp(text, "brief"))
        return EXPLAIN_BRIEF;
    return strcasecmp(text, "parts") ? EXPLAIN_REASONS : EXPLAIN_PARTS;
}

void explain_write(const char *text)
{
    struct text lines = {0};
    char *whole;

    while (*text) {
        size_t len = strcspn(text, "\n");

        text_add(&lines, "libfabric:%d: %.*s\n", (int)getpid(), (int)len, text);
        text += len + (text[len] == '\n');
    }
    whole = text_take(&lines);
    for (size_t len = whole ? strlen(whole) : 0, done = 0; done < len;) {
        ssize_t ret = write(STDERR_FILENO, whole + done, len - done);

        if (ret <= 0 && errno != EINTR)
            break;
        done += ret > 0 ? (size_t)ret : 0;
    }
    free(whole);
}

static const char *kind_name(enum part_kind kind)
{
    return kind == PART_TRANSPORT ? "transport" : kind == PART_JOIN ? "join" : "layer";
}

void explain_parts(FILE *out, const struct parts *parts)
{
    for (int layers = 0; layers <= 1; layers++) {
        for (size_t i = 0; i < parts->count; i++) {
            const struct part *part = parts->list[i];

            if ((part->kind != PART_TRANSPORT) == layers)
                fprintf(out, "%-10s %-10s %s%s\n", part->name, kind_name(part->kind),
                        part->summary ? part->summary : "",
                        part->hidden ? " (used only when named)" : "");
        }
    }
    for (const struct part_absent *absent = part_absent; absent->name; absent++)
        fprintf(out, "%-10s %-10s %s\n", absent->name, "not here", absent->why);
}

static void print_value(FILE *out, const char *before, const void *value, enum fi_type type)
{
    char text[1024];

    fi_tostr_r(text, sizeof(text), value, type);
    fprintf(out, "%s%s", before, text);
}

/* The question in one line: what an application asked for first. */
static void print_question(FILE *out, const struct query *query, const struct fi_info *hints)
{
    fprintf(out, "fi_getinfo %u.%u", FI_MAJOR(query->version), FI_MINOR(query->version));
    if (query->node)
        fprintf(out, ", node %s", query->node);
    if (query->service)
        fprintf(out, ", service %s", query->service);
    if (hints->fabric_attr->prov_name)
        fprintf(out, ", provider %s", hints->fabric_attr->prov_name);
    if (hints->fabric_attr->name)
        fprintf(out, ", fabric %s", hints->fabric_attr->name);
    if (hints->domain_attr->name)
        fprintf(out, ", domain %s", hints->domain_attr->name);
    if (hints->ep_attr->type != FI_EP_UNSPEC)
        print_value(out, ", ", &hints->ep_attr->type, FI_TYPE_EP_TYPE);
    if (hints->caps)
        print_value(out, ", caps ", &hints->caps, FI_TYPE_CAPS);
}

void explain_reasons(FILE *out, const struct query *query, const struct fi_info *hints,
                     const struct reasons *reasons, const struct fi_info *infos)
{
    print_question(out, query, hints);
    fprintf(out, ": %zu info%s\n", info_count(infos), info_count(infos) == 1 ? "" : "s");
    reasons_print(reasons, out);
}

/* The most that a sub-stack can do: its first offer for endpoints of that type. NULL: nothing. */
static struct fi_info *best_offer(const struct stack *stack, const struct query *query,
                                  enum fi_ep_type type)
{
    struct query any = {.version = query->version};
    struct fi_info *hints = info_complete(NULL);
    struct fi_info *infos = NULL;

    if (!hints)
        return NULL;
    hints->ep_attr->type = type;
    if (plan_offers(stack, &any, hints, NULL, &infos))
        infos = NULL;
    info_free(hints);
    return infos;
}

/* The part that makes endpoints of `type` of a bare transport; where two do, in two fabrics, the
 * transport, and *other is the second. */
static const struct stack *settle(const struct stack *stack, enum fi_ep_type type,
                                  const struct stack **other)
{
    *other = NULL;
    if (!stack->automatic)
        return stack;
    if (!check_has_type(stack->part, type))
        return stack->lowers[1];
    if (check_has_type(stack->lowers[1]->part, type))
        *other = stack->lowers[1];
    return stack->lowers[0];
}

static void print_part(FILE *out, const struct query *query, const struct stack *stack,
                       enum fi_ep_type type, int depth);

static void print_lowers(FILE *out, const struct query *query, const struct stack *stack,
                         enum fi_ep_type type, int depth)
{
    for (size_t i = 0; i < stack->lower_count; i++) {
        const struct part *part = stack->part;
        enum fi_ep_type below = part->transparent ? type : FI_EP_UNSPEC;

        /* The one type that both have, when there is only one. */
        for (unsigned t = FI_EP_MSG; !part->transparent && t <= FI_EP_RDM; t++) {
            if (part->requires_ep == EP_SET(t))
                below = t;
        }
        print_part(out, query, stack->lowers[i], below, depth + 1);
    }
}

/* Modifiers that the capabilities imply, and that a line need not name. */
static uint64_t without_implied(uint64_t caps)
{
    uint64_t named = caps & ~INFO_CAPS_MODIFIERS;

    return (caps_expand(named) & caps) == caps ? named : caps;
}

static void print_gains(FILE *out, const struct fi_info *own, const struct fi_info *lower,
                        int depth)
{
    uint64_t gained = own->caps & ~(lower ? lower->caps : 0);
    uint64_t orders = lower ? own->tx_attr->msg_order & ~lower->tx_attr->msg_order : 0;

    if (!lower || lower->ep_attr->type != own->ep_attr->type)
        print_value(out, ", ", &own->ep_attr->type, FI_TYPE_EP_TYPE);
    if (!lower || lower->ep_attr->protocol != own->ep_attr->protocol)
        print_value(out, ", ", &own->ep_attr->protocol, FI_TYPE_PROTOCOL);
    fprintf(out, "\n");
    gained = without_implied(gained);
    if (!gained && !orders)
        return;
    fprintf(out, "      %*s", 2 * depth, "");
    if (gained)
        print_value(out, lower ? "adds " : "gives ", &gained, FI_TYPE_CAPS);
    if (orders)
        print_value(out, gained ? "; orders " : "orders ", &orders, FI_TYPE_MSG_ORDER);
    fprintf(out, "\n");
}

static void print_part(FILE *out, const struct query *query, const struct stack *stack,
                       enum fi_ep_type type, int depth)
{
    struct fi_info *own, *lower = NULL;
    const struct stack *other;

    stack = settle(stack, type, &other);
    own = best_offer(stack, query, type);
    /* A join has no single lower to compare its offer with. */
    if (stack->part->kind == PART_LAYER)
        lower = best_offer(stack->lowers[0], query, stack->part->transparent ? type : FI_EP_UNSPEC);
    fprintf(out, "  %*s%s: %s", 2 * depth, "", stack->part->name,
            stack->part->summary ? stack->part->summary : "");
    for (size_t i = 0; i < stack->given_count; i++)
        fprintf(out, "%s%s%s%s", i ? ", " : " (", stack->given[i].key,
                stack->given[i].value ? "=" : "",
                stack->given[i].value ? stack->given[i].value : "");
    fprintf(out, "%s", stack->given_count ? ")" : "");
    if (own)
        print_gains(out, own, lower, depth);
    else
        fprintf(out, "\n");
    info_free(own);
    info_free(lower);
    print_lowers(out, query, stack, type, depth);
    if (other)
        print_part(out, query, other, type, depth);
}

static size_t infos_of(const struct fi_info *infos, const char *name, enum fi_ep_type type)
{
    size_t count = 0;

    for (; infos; infos = infos->next)
        count += infos->ep_attr->type == type && !strcmp(infos->fabric_attr->prov_name, name);
    return count;
}

void explain_tree(FILE *out, const struct query *query, const struct candidates *candidates,
                  const struct fi_info *infos)
{
    static const enum fi_ep_type types[] = {FI_EP_RDM, FI_EP_DGRAM, FI_EP_MSG};

    for (size_t i = 0; i < candidates->count; i++) {
        const struct candidate *candidate = &candidates->list[i];

        for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
            size_t count = infos_of(infos, candidate->name, types[t]);

            if (!count)
                continue;
            fprintf(out, "%s", candidate->name);
            print_value(out, " ", &types[t], FI_TYPE_EP_TYPE);
            fprintf(out, ", %zu info%s\n", count, count == 1 ? "" : "s");
            print_part(out, query, candidate->stack, types[t], 0);
        }
    }
}
