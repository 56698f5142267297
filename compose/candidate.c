/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names are compared as texts in upstream's spelling, transport first: "tcp" matches "tcp" and
 * "tcp;ofi_rxm". A candidate is named by its brief text when no other shares that, else in full, so
 * that making candidates for a name that was given out finds its stack again.
 */
#include "compose/candidate.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <rdma/fi_errno.h>

#include "core/log.h"

/* One pass over the texts. */
struct making {
    const struct parts *parts;
    const struct environment *environment;
    struct reasons *reasons;
    struct spec *provider, *hook; /* parsed; NULL when unset */
};

static void show(const char *origin, const char *text, const struct spec_error *error,
                 struct reasons *reasons)
{
    char *shown = spec_error_text(origin, text, error);

    if (shown)
        log_user("%s", shown);
    free(shown);
    reasons_add(reasons, "%s: %s", origin, error->why);
}

/* The bracketed lists of upstream's names are delimited by these. */
static bool is_boundary(char c)
{
    return !c || strchr(";+[]", c);
}

static bool contains(const char *text, const char *part)
{
    size_t len = strlen(part);

    for (const char *at = text; (at = strstr(at, part)); at++) {
        if ((at == text || is_boundary(at[-1])) && is_boundary(at[len]))
            return true;
    }
    return false;
}

static bool begins_with(const char *text, const char *name)
{
    size_t len = strlen(name);

    return !strncmp(text, name, len) && (!text[len] || text[len] == ';');
}

/* Says nothing about parameters or transparent layers: a name in upstream's sense. */
static bool is_plain(const struct stack *stack)
{
    if (stack->given_count || stack->part->transparent)
        return false;
    for (size_t i = 0; i < stack->lower_count; i++) {
        if (!is_plain(stack->lowers[i]))
            return false;
    }
    return true;
}

/* A layer alone, which is no stack, but a filter. NULL when it is something else. */
static const struct part *lone_layer(const struct parts *parts, const struct spec_stack *text)
{
    const struct spec_item *item = &text->items[0];
    const struct part *part = NULL;

    if (text->item_count == 1 && item->name && !item->param_count)
        part = parts_find(parts, item->name);
    return part && part->kind != PART_TRANSPORT ? part : NULL;
}

static void candidate_finish(struct candidate *candidate)
{
    stack_release(candidate->stack);
    free(candidate->full);
    free(candidate->brief);
}

void candidates_finish(struct candidates *candidates)
{
    for (size_t i = 0; i < candidates->count; i++)
        candidate_finish(&candidates->list[i]);
    free(candidates->list);
    *candidates = (struct candidates){0};
}

static const struct candidate *find_full(const struct candidates *candidates, const char *full)
{
    for (size_t i = 0; i < candidates->count; i++) {
        if (!strcmp(candidates->list[i].full, full))
            return &candidates->list[i];
    }
    return NULL;
}

/* Adds stack, whose reference passes, unless it is there already. */
static int candidates_add(struct candidates *candidates, struct stack *stack, size_t choice)
{
    struct candidate added = {.stack = stack,
                              .full = stack_print(stack),
                              .brief = stack_print_short(stack),
                              .choice = choice};
    struct candidate *grown =
        realloc(candidates->list, (candidates->count + 1) * sizeof(*candidates->list));

    if (grown)
        candidates->list = grown;
    if (!added.full || !added.brief || !grown || find_full(candidates, added.full)) {
        int rc = added.full && added.brief && grown ? 0 : -FI_ENOMEM;

        candidate_finish(&added);
        return rc;
    }
    added.name = added.full;
    grown[candidates->count++] = added;
    return 0;
}

/* Takes the reference of a bound stack; FI_HOOK goes on top, and all that it admits is added. */
static int add_admitted(const struct making *making, struct stack *stack, size_t choice,
                        struct candidates *candidates)
{
    struct stack **list = NULL;
    struct spec_error error;
    size_t count = 0;
    int rc = 0;

    if (making->hook) {
        rc = bind_hooks(making->parts, &making->hook->stacks[0], &stack, &error);
        if (rc == -FI_EINVAL)
            show("FI_HOOK", making->hook->text, &error, making->reasons);
    }
    if (!rc)
        rc = admit_stack(making->parts, stack, &list, &count);
    for (size_t i = 0; i < count; i++) {
        if (rc)
            stack_release(list[i]);
        else
            rc = candidates_add(candidates, list[i], choice);
    }
    free(list);
    stack_release(stack);
    return rc == -FI_EINVAL ? 0 : rc;
}

static int bind_and_check(const struct parts *parts, const struct spec_stack *text,
                          struct stack **stack, struct spec_error *error)
{
    int rc = bind_stack(parts, text, stack, error);

    if (rc)
        return rc;
    rc = check_stack(parts, *stack, error);
    if (rc)
        stack_release(*stack);
    return rc;
}

/* Is a stack of that brief text denied by `filter`, a spec that began with ^? */
static bool is_denied(const struct making *making, const struct spec *filter, const char *origin,
                      const char *brief)
{
    bool denied = false;

    for (size_t i = 0; !denied && i < filter->stack_count; i++) {
        const struct part *layer = lone_layer(making->parts, &filter->stacks[i]);
        struct spec_error error;
        struct stack *stack;
        char *text;

        if (layer) {
            denied = contains(brief, part_shown(layer));
            continue;
        }
        if (bind_stack(making->parts, &filter->stacks[i], &stack, &error)) {
            show(origin, filter->text, &error, NULL);
            continue;
        }
        text = stack_print_short(stack);
        denied = text && contains(brief, text);
        free(text);
        stack_release(stack);
    }
    return denied;
}

static int add_listed(const struct making *making, struct candidates *candidates)
{
    const struct spec *provider = making->provider;
    int rc = 0;

    for (size_t i = 0; !rc && i < provider->stack_count; i++) {
        const struct spec_stack *text = &provider->stacks[i];
        struct spec_error error;
        struct stack *stack;

        /* "verbs,ofi_rxm" is how many write it for upstream, where the layer's name adds
         * nothing. */
        if (provider->stack_count > 1 && lone_layer(making->parts, text))
            continue;
        rc = bind_and_check(making->parts, text, &stack, &error);
        if (!rc) {
            rc = add_admitted(making, stack, i, candidates);
        } else if (rc == -FI_EINVAL) {
            show("FI_PROVIDER", provider->text, &error, making->reasons);
            rc = 0;
        }
    }
    return rc;
}

static void drop_denied(const struct making *making, const struct spec *filter, const char *origin,
                        struct candidates *candidates)
{
    size_t kept = 0;

    for (size_t i = 0; i < candidates->count; i++) {
        struct candidate *candidate = &candidates->list[i];

        if (is_denied(making, filter, origin, candidate->brief)) {
            reasons_add(making->reasons, "%s: denied by %s=%s", candidate->full, origin,
                        filter->text);
            candidate_finish(candidate);
        } else {
            candidates->list[kept++] = *candidate;
        }
    }
    candidates->count = kept;
}

/* Every transport that is no test double, and what it admits. */
static int add_all(const struct making *making, struct candidates *candidates)
{
    struct spec_error error;
    int rc = 0;

    for (size_t i = 0; !rc && i < making->parts->count; i++) {
        const struct part *part = making->parts->list[i];
        struct stack *stack;

        if (part->kind != PART_TRANSPORT || part->hidden)
            continue;
        stack = stack_create(part, (struct span){0, 0});
        rc = stack ? stack_set_params(stack, NULL, 0, &error) : -FI_ENOMEM;
        if (rc)
            stack_release(stack);
        else
            rc = add_admitted(making, stack, 0, candidates);
    }
    if (!rc && making->provider)
        drop_denied(making, making->provider, "FI_PROVIDER", candidates);
    return rc;
}

/* ---- Layers that hints ask for ---- */

enum {
    ASKED_MAX = 8
};

static bool stack_has(const struct stack *stack, const struct part *part)
{
    bool has = !stack->automatic && stack->part == part;

    for (size_t i = 0; !has && i < stack->lower_count; i++)
        has = stack_has(stack->lowers[i], part);
    return has;
}

/* What the user put on top stays there: hooks, and under them what only hooks may stand on. */
static struct stack *put_asked(const struct stack *stack, const struct part *layer)
{
    struct spec_error error;
    struct stack *put;

    if (!stack->automatic &&
        (stack->part->transparent || (stack->part->topmost && !layer->topmost))) {
        put = put_asked(stack->lowers[0], layer);
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

/* Those of layers that are in the set, the first lowest, on the stack of a candidate. */
static int add_asked(const struct making *making, const struct candidate *candidate,
                     const struct part *const *layers, unsigned set, struct candidates *candidates)
{
    struct stack *stack = stack_hold(candidate->stack), *next;
    size_t choice = candidate->choice, before;
    int rc;

    for (unsigned i = 0; set >> i; i++) {
        if (!(set >> i & 1))
            continue;
        if (stack_has(stack, layers[i]) ||
            !(layers[i]->stands_on & check_gives(making->parts, stack, false))) {
            stack_release(stack);
            return 0;
        }
        next = put_asked(stack, layers[i]);
        stack_release(stack);
        if (!next)
            return -FI_ENOMEM;
        stack = next;
    }
    before = candidates->count;
    rc = candidates_add(candidates, stack, choice);
    for (unsigned i = 0; !rc && before < candidates->count && set >> i; i++)
        candidates->list[before].asked |= set >> i & 1 ? layers[i]->adds : 0;
    return rc;
}

/* What the layers add that a provider name spells out: it has to be among the candidates. */
static uint64_t caps_named(const struct making *making, const char *wanted)
{
    struct spec_error error;
    struct spec *spec;
    uint64_t caps = 0;

    if (!wanted || !*wanted || spec_parse(wanted, &spec, &error))
        return 0;
    for (size_t i = 0; i < spec->stack_count; i++) {
        for (size_t j = 0; j < spec->stacks[i].item_count; j++) {
            const char *name = spec->stacks[i].items[j].name;
            const struct part *part = name ? parts_find(making->parts, name) : NULL;

            caps |= part ? part->adds : 0;
        }
    }
    spec_destroy(spec);
    return caps;
}

/* What the layers of the user's stacks add. */
static uint64_t caps_listed(const struct making *making, const struct candidates *candidates)
{
    uint64_t caps = 0;

    for (size_t i = 0; i < making->parts->count; i++) {
        const struct part *part = making->parts->list[i];

        for (size_t j = 0; part->adds & ~caps && j < candidates->count; j++)
            caps |= stack_has(candidates->list[j].stack, part) ? part->adds : 0;
    }
    return caps;
}

/* Those that nobody has asked for were there for the names only: a name is the same whatever the
 * hints are. */
static void drop_unasked(struct candidates *candidates, uint64_t caps)
{
    size_t kept = 0;

    for (size_t i = 0; i < candidates->count; i++) {
        if (candidates->list[i].asked & ~caps)
            candidate_finish(&candidates->list[i]);
        else
            candidates->list[kept++] = candidates->list[i];
    }
    candidates->count = kept;
}

/* Native first: each set of layers goes behind the stacks without it. */
static int add_all_asked(const struct making *making, uint64_t caps, struct candidates *candidates)
{
    const struct part *layers[ASKED_MAX];
    size_t count = candidates->count;
    unsigned layer_count = 0;
    int rc = 0;

    for (size_t i = 0; i < making->parts->count && layer_count < ASKED_MAX; i++) {
        if (making->parts->list[i]->adds & caps)
            layers[layer_count++] = making->parts->list[i];
    }
    for (unsigned set = 1; !rc && set < 1u << layer_count; set++) {
        for (size_t i = 0; !rc && i < count; i++)
            rc = add_asked(making, &candidates->list[i], layers, set, candidates);
    }
    if (!rc && layer_count && making->provider && making->provider->deny)
        drop_denied(making, making->provider, "FI_PROVIDER", candidates);
    return rc;
}

static void name_all(struct candidates *candidates)
{
    for (size_t i = 0; i < candidates->count; i++) {
        struct candidate *candidate = &candidates->list[i];
        bool shared = false;

        for (size_t j = 0; !shared && j < candidates->count; j++)
            shared = j != i && !strcmp(candidates->list[j].brief, candidate->brief);
        candidate->name = shared ? candidate->full : candidate->brief;
    }
}

/* Does FI_PROVIDER leave room for a stack that the hints spell out? */
static bool is_admitted(const struct making *making, const char *brief)
{
    const struct spec *provider = making->provider;
    bool admitted = false;

    if (!provider)
        return true;
    if (provider->deny)
        return !is_denied(making, provider, "FI_PROVIDER", brief);
    for (size_t i = 0; !admitted && i < provider->stack_count; i++) {
        struct spec_error error;
        struct stack *stack;
        char *text;

        if (bind_stack(making->parts, &provider->stacks[i], &stack, &error))
            continue;
        text = stack_print_short(stack);
        admitted = text && is_plain(stack) && begins_with(brief, text);
        free(text);
        stack_release(stack);
    }
    return admitted;
}

/* A copy of one of `all`, under `name` (its full or brief text). */
static int pick(const struct candidate *from, bool full, size_t choice, struct candidates *picked)
{
    size_t count = picked->count;
    int rc = candidates_add(picked, stack_hold(from->stack), choice);

    if (!rc && picked->count > count && !full && from->name == from->brief)
        picked->list[count].name = picked->list[count].brief;
    return rc;
}

/* Those of `all` that a plain name matches. */
static int pick_named(const struct candidates *all, const char *name, bool layer, size_t choice,
                      struct candidates *picked)
{
    int rc = 0;

    for (size_t i = 0; !rc && i < all->count; i++) {
        const char *brief = all->list[i].brief;

        if (layer ? contains(brief, name) : begins_with(brief, name))
            rc = pick(&all->list[i], false, choice, picked);
    }
    return rc;
}

/* The stacks that the hints spell out; stack's reference passes. */
static int pick_spelled(const struct making *making, const struct candidates *all,
                        struct stack *stack, size_t choice, struct candidates *picked)
{
    struct candidates spelled = {0};
    int rc = add_admitted(making, stack, choice, &spelled);

    for (size_t i = 0; !rc && i < spelled.count; i++) {
        const struct candidate *candidate = &spelled.list[i];
        const struct candidate *known = find_full(all, candidate->full);

        if (known || is_admitted(making, candidate->brief))
            rc = pick(candidate, true, choice, picked);
        else
            reasons_add(making->reasons, "%s: FI_PROVIDER=%s does not admit it", candidate->full,
                        making->environment->provider);
    }
    candidates_finish(&spelled);
    return rc;
}

/* One choice of the hints. */
static int pick_wanted(const struct making *making, const struct spec *wanted, size_t index,
                       const struct candidates *all, struct candidates *picked)
{
    const struct spec_stack *text = &wanted->stacks[index];
    const struct part *layer = lone_layer(making->parts, text);
    struct spec_error error;
    struct stack *stack;
    size_t before = picked->count;
    char *brief;
    int rc;

    if (layer)
        return pick_named(all, part_shown(layer), true, index, picked);
    rc = bind_and_check(making->parts, text, &stack, &error);
    if (rc == -FI_EINVAL) {
        /* A program that probes for providers that are not here made no mistake. */
        bool probe = !strncmp(error.why, "unknown part", 12) && !strchr(error.why, ';');

        if (probe)
            reasons_add(making->reasons, "prov_name '%s': %s", wanted->text, error.why);
        else
            show("prov_name", wanted->text, &error, making->reasons);
        return 0;
    }
    if (rc)
        return rc;
    if (!is_plain(stack))
        return pick_spelled(making, all, stack, index, picked);
    brief = stack_print_short(stack);
    rc = brief ? pick_named(all, brief, false, index, picked) : -FI_ENOMEM;
    free(brief);
    if (rc || picked->count > before) {
        stack_release(stack);
        return rc;
    }
    return pick_spelled(making, all, stack, index, picked);
}

/* Narrows *candidates to what the hints' provider name says. */
static int narrow(const struct making *making, const char *text, struct candidates *candidates)
{
    struct candidates picked = {0};
    struct spec_error error;
    struct spec *wanted;
    int rc = spec_parse(text, &wanted, &error);

    if (rc == -FI_EINVAL) {
        show("prov_name", text, &error, making->reasons);
        candidates_finish(candidates);
        return 0;
    }
    if (rc)
        return rc;
    if (wanted->deny) {
        drop_denied(making, wanted, "prov_name", candidates);
    } else {
        for (size_t i = 0; !rc && i < wanted->stack_count; i++)
            rc = pick_wanted(making, wanted, i, candidates, &picked);
        candidates_finish(candidates);
        *candidates = picked;
    }
    spec_destroy(wanted);
    return rc;
}

/* *spec stays NULL when the variable is unset. */
static int parse_variable(const char *origin, const char *text, struct reasons *reasons,
                          struct spec **spec)
{
    struct spec_error error;
    int rc = text && *text ? spec_parse(text, spec, &error) : 0;

    if (rc == -FI_EINVAL)
        show(origin, text, &error, reasons);
    return rc;
}

static int parse_variables(struct making *making)
{
    struct spec_error error;
    int rc = parse_variable("FI_PROVIDER", making->environment->provider, making->reasons,
                            &making->provider);

    if (!rc)
        rc = parse_variable("FI_HOOK", making->environment->hook, making->reasons, &making->hook);
    if (!rc && making->hook && (making->hook->stack_count > 1 || making->hook->deny)) {
        spec_fail(&error, making->hook->stacks[making->hook->deny ? 0 : 1].span,
                  "hooks are separated by ';', and none is denied");
        show("FI_HOOK", making->hook->text, &error, making->reasons);
        rc = -FI_EINVAL;
    }
    return rc;
}

int candidates_make(const struct parts *parts, const struct environment *environment, uint64_t caps,
                    const char *wanted, struct reasons *reasons, struct candidates *result)
{
    struct making making = {.parts = parts, .environment = environment, .reasons = reasons};
    struct candidates candidates = {0};
    int rc = parse_variables(&making);

    if (!rc)
        rc = making.provider && !making.provider->deny ? add_listed(&making, &candidates)
                                                       : add_all(&making, &candidates);
    caps |= caps_named(&making, wanted);
    if (!rc)
        rc = add_all_asked(&making, caps | caps_listed(&making, &candidates), &candidates);
    if (!rc) {
        name_all(&candidates);
        drop_unasked(&candidates, caps);
        if (wanted && *wanted)
            rc = narrow(&making, wanted, &candidates);
    }
    spec_destroy(making.provider);
    spec_destroy(making.hook);
    if (rc)
        candidates_finish(&candidates);
    if (rc && rc != -FI_EINVAL)
        return rc;
    *result = candidates;
    return 0;
}

const struct candidate *candidates_find(const struct candidates *candidates, const char *wanted)
{
    for (size_t i = 0; i < candidates->count; i++) {
        if (!strcasecmp(candidates->list[i].name, wanted))
            return &candidates->list[i];
    }
    return candidates->count ? &candidates->list[0] : NULL;
}
