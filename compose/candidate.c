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

#include "compose/links.h"
#include "compose/place.h"
#include "compose/rail_links.h"
#include "core/base/log.h"

/* One pass over the texts. */
struct making {
    const struct parts *parts;
    const struct environment *environment;
    struct reasons *reasons;
    struct spec *provider, *hook; /* parsed; NULL when unset */
    size_t *mistakes;
    uint64_t caps; /* of the hints, PART_ADDS_STRICT too */
};

static void show(const struct making *making, enum text_origin origin, const char *text,
                 const struct spec_error *error, struct reasons *reasons)
{
    const char *name = text_origin_name(making->environment, origin);
    char *shown = spec_error_text(name, text, error);

    if (shown)
        log_user("%s", shown);
    free(shown);
    reasons_add(reasons, "%s: %s", name, error->why);
    ++*making->mistakes;
}

static void candidate_finish(struct candidate *candidate)
{
    stack_release(candidate->stack);
    free(candidate->full);
    free(candidate->brief);
    free(candidate->bare);
}

void candidates_finish(struct candidates *candidates)
{
    for (size_t i = 0; i < candidates->count; i++)
        candidate_finish(&candidates->list[i]);
    free(candidates->list);
    free(candidates->links);
    free(candidates->rails);
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
                              .bare = stack_print_bare(stack),
                              .choice = choice};
    struct candidate *grown =
        realloc(candidates->list, (candidates->count + 1) * sizeof(*candidates->list));

    if (grown)
        candidates->list = grown;
    if (!added.full || !added.brief || !added.bare || !grown || find_full(candidates, added.full)) {
        int rc = added.full && added.brief && added.bare && grown ? 0 : -FI_ENOMEM;

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
            show(making, TEXT_HOOK, making->hook->text, &error, making->reasons);
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

/* One that is no stack: a join alone stands for its usual bracket. */
static bool is_lone_layer(const struct parts *parts, const struct spec_stack *text)
{
    const struct part *part = place_lone_layer(parts, text);

    return part && part->kind == PART_LAYER;
}

/* Is a stack of that brief text denied by `filter`, a spec that began with ^? */
static bool is_denied(const struct making *making, const struct spec *filter,
                      enum text_origin origin, const char *brief)
{
    bool denied = false;

    for (size_t i = 0; !denied && i < filter->stack_count; i++) {
        const struct part *layer = place_lone_layer(making->parts, &filter->stacks[i]);
        struct spec_error error;
        struct stack *stack;
        char *text;

        if (layer) {
            denied = name_contains(brief, part_shown(layer));
            continue;
        }
        if (bind_stack(making->parts, &filter->stacks[i], &stack, &error)) {
            show(making, origin, filter->text, &error, NULL);
            continue;
        }
        text = stack_print_short(stack);
        denied = text && name_contains(brief, text);
        free(text);
        stack_release(stack);
    }
    return denied;
}

/* A layer that is a choice of its own adds nothing. Silent is how upstream spells a filter beside a
 * transport that has the layer anyway: "tcp,ofi_rxm". */
static void show_lone_layer(const struct making *making, size_t index,
                            const struct candidates *candidates)
{
    const struct spec *provider = making->provider;
    const struct spec_stack *text = &provider->stacks[index];
    const struct span beside = provider->stacks[index ? index - 1 : 1].span;
    const struct part *layer = place_lone_layer(making->parts, text);
    struct spec_error error;

    for (size_t i = 0; !strncasecmp(text->items[0].name, "ofi_", 4) && i < candidates->count; i++) {
        if (name_contains(candidates->list[i].brief, part_shown(layer)))
            return;
    }
    spec_fail(&error, text->span,
              "%.60s is a layer and no choice of its own, so it is left out; ';' joins neighbours, "
              "as in '%.60s;%.*s'",
              text->items[0].name, text->items[0].name, (int)(beside.end - beside.begin),
              provider->text + beside.begin);
    show(making, TEXT_PROVIDER, provider->text, &error, making->reasons);
}

static void set_origin(struct candidates *candidates, size_t first, enum text_origin origin)
{
    for (size_t i = first; i < candidates->count; i++)
        candidates->list[i].origin = origin;
}

/* The stacks of a variable of upstream's, which has been translated into `text`, as choice number
 * `choice`. The first is called as upstream's join. */
static int add_translated(const struct making *making, const char *text, enum text_origin origin,
                          const struct part *join, size_t choice, struct candidates *candidates)
{
    size_t first = candidates->count;
    struct spec_error error;
    struct spec *spec = NULL;
    int rc = spec_parse(text, &spec, &error);

    for (size_t i = 0; !rc && i < spec->stack_count; i++) {
        struct stack *stack;

        rc = bind_checked(making->parts, &spec->stacks[i], &stack, &error);
        if (rc == -FI_EINVAL)
            show(making, origin, spec->text, &error, making->reasons);
        else if (!rc)
            rc = add_admitted(making, stack, choice, candidates);
    }
    spec_destroy(spec);
    set_origin(candidates, first, origin);
    if (candidates->count > first)
        candidates->list[first].linked = part_shown(join);
    return rc == -FI_EINVAL ? 0 : rc;
}

/* FI_LNX_PROV_LINKS in our language, once, if it is set and has no mistake. */
static int translate_links(const struct making *making, struct candidates *candidates)
{
    const struct environment *environment = making->environment;
    struct spec_error error;
    bool no_shm, per_msg;
    int rc;

    if (!text_is_set(environment->links) || candidates->links)
        return 0;
    no_shm = links_option("FI_LNX_DISABLE_SHM", environment->links_shm, links_no_shm);
    per_msg = links_option("FI_LNX_MULTI_RAIL_SELECTION", environment->links_rails, links_per_msg);
    rc = links_translate(making->parts, environment->links, no_shm, per_msg, &candidates->links,
                         &error);
    if (rc == -FI_EINVAL)
        show(making, TEXT_LINKS, environment->links, &error, making->reasons);
    return rc == -FI_EINVAL ? 0 : rc;
}

/* FI_OFI_MRAIL_ADDR, the same. */
static int translate_rails(const struct making *making, struct candidates *candidates)
{
    const struct environment *environment = making->environment;
    const struct part *join = parts_find(making->parts, "mrail");
    struct spec_error error;
    int rc;

    if (!text_is_set(environment->rails) || candidates->rails || !join)
        return 0;
    if (rail_links_check(part_params(join), environment->rails_config, &error)) {
        show(making, TEXT_CONFIG, environment->rails_config, &error, making->reasons);
        return 0;
    }
    rc = rail_links_translate(environment->rails, environment->rails_config, &candidates->rails,
                              &error);
    if (rc == -FI_EINVAL)
        show(making, TEXT_RAILS, environment->rails, &error, making->reasons);
    return rc == -FI_EINVAL ? 0 : rc;
}

static int add_variable(const struct making *making, enum text_origin origin, size_t choice,
                        struct candidates *candidates)
{
    const bool links = origin == TEXT_LINKS;
    const struct part *join = parts_find(making->parts, links ? "lnx" : "mrail");
    char **by = links ? &candidates->links : &candidates->rails;
    int rc;

    if (!join || *by)
        return 0;
    rc = (links ? translate_links : translate_rails)(making, candidates);
    return rc || !*by ? rc : add_translated(making, *by, origin, join, choice, candidates);
}

/* A join alone is what its variable says, where that says something. */
static bool is_joined_by(const struct making *making, const struct spec_stack *text,
                         const char *name, const char *variable)
{
    const struct part *part = place_lone_layer(making->parts, text);

    return part && part->kind == PART_JOIN && !strcmp(part->name, name) && text_is_set(variable);
}

/* Stack number index of `from`, with the k-th of what the variables say of joins in it. */
static int bind_placed(const struct making *making, const struct spec *from, size_t index, size_t k,
                       const struct candidates *by, struct stack **stack, struct spec_error *error)
{
    struct spec *copy = NULL;
    int rc = spec_parse(from->text, &copy, error);

    if (!rc && by->links)
        rc = place_put(making->parts, &copy->stacks[index], "lnx", by->links, k, error);
    if (!rc && by->rails)
        rc = place_put(making->parts, &copy->stacks[index], "mrail", by->rails, 0, error);
    if (!rc)
        rc = bind_checked(making->parts, &copy->stacks[index], stack, error);
    spec_destroy(copy);
    return rc;
}

/* Of a choice of FI_PROVIDER: how many stacks it stands for, by what the variables say; 0 when one
 * of them is wrong. */
static int count_placed(const struct making *making, const struct spec_stack *text,
                        struct candidates *candidates, size_t *count)
{
    bool links = place_has(making->parts, text, "lnx") && text_is_set(making->environment->links);
    bool rails = place_has(making->parts, text, "mrail") && text_is_set(making->environment->rails);
    int rc = links ? translate_links(making, candidates) : 0;

    if (!rc && rails)
        rc = translate_rails(making, candidates);
    *count = (links && !candidates->links) || (rails && !candidates->rails) ? 0
             : links ? place_count(candidates->links)
                     : 1;
    return rc;
}

/* The first stack that a variable has made of a join, under hooks, is called as upstream's join. */
static void name_as_linked(const struct making *making, const char *join, size_t first,
                           struct candidates *candidates)
{
    const char *name = part_shown(parts_find(making->parts, join));

    for (size_t i = 0; i < first; i++) {
        if (candidates->list[i].linked == name)
            return;
    }
    if (first < candidates->count && name_begins_with(candidates->list[first].brief, name))
        candidates->list[first].linked = name;
}

static int add_choice(const struct making *making, size_t index, struct candidates *candidates)
{
    const struct spec *provider = making->provider;
    struct spec_error error;
    struct stack *stack;
    size_t first = candidates->count, count;
    int rc = count_placed(making, &provider->stacks[index], candidates, &count);

    for (size_t k = 0; !rc && k < count; k++) {
        rc = bind_placed(making, provider, index, k, candidates, &stack, &error);
        if (!rc)
            rc = add_admitted(making, stack, index, candidates);
        else if (rc == -FI_EINVAL)
            show(making, TEXT_PROVIDER, provider->text, &error, making->reasons);
        rc = rc == -FI_EINVAL ? 0 : rc;
    }
    set_origin(candidates, first, TEXT_PROVIDER);
    if (!rc && candidates->links && place_has(making->parts, &provider->stacks[index], "lnx"))
        name_as_linked(making, "lnx", first, candidates);
    if (!rc && candidates->rails && place_has(making->parts, &provider->stacks[index], "mrail"))
        name_as_linked(making, "mrail", first, candidates);
    return rc;
}

static int add_listed(const struct making *making, struct candidates *candidates)
{
    const struct spec *provider = making->provider;
    bool listed = provider->stack_count > 1;
    int rc = 0;

    for (size_t i = 0; !rc && i < provider->stack_count; i++) {
        const struct spec_stack *text = &provider->stacks[i];

        if (listed && is_lone_layer(making->parts, text))
            continue;
        if (is_joined_by(making, text, "lnx", making->environment->links)) {
            rc = add_variable(making, TEXT_LINKS, i, candidates);
        } else if (is_joined_by(making, text, "mrail", making->environment->rails)) {
            rc = add_variable(making, TEXT_RAILS, i, candidates);
        } else {
            rc = add_choice(making, i, candidates);
        }
    }
    for (size_t i = 0; !rc && listed && i < provider->stack_count; i++) {
        if (is_lone_layer(making->parts, &provider->stacks[i]))
            show_lone_layer(making, i, candidates);
    }
    return rc;
}

static void drop_denied(const struct making *making, const struct spec *filter,
                        enum text_origin origin, struct candidates *candidates)
{
    size_t kept = 0;

    for (size_t i = 0; i < candidates->count; i++) {
        struct candidate *candidate = &candidates->list[i];

        if (is_denied(making, filter, origin, candidate->brief)) {
            reasons_add(making->reasons, "%s: denied by %s=%s", candidate->full,
                        text_origin_name(making->environment, origin), filter->text);
            candidate_finish(candidate);
        } else {
            candidates->list[kept++] = *candidate;
        }
    }
    candidates->count = kept;
}

/* A denial that leaves nothing says what the user cannot have meant. */
static void show_if_none_left(const struct making *making, const struct spec *filter,
                              enum text_origin origin, const struct candidates *candidates)
{
    struct spec_error error;

    if (candidates->count)
        return;
    spec_fail(&error, (struct span){0, strlen(filter->text)},
              "this denies everything that there is%s",
              filter->stack_count > 1 ? ": '^' in front is for the whole list" : "");
    show(making, origin, filter->text, &error, making->reasons);
}

/* Every transport that is no test double, and the stacks that it admits. */
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
    if (!rc)
        rc = add_variable(making, TEXT_LINKS, 0, candidates);
    if (!rc)
        rc = add_variable(making, TEXT_RAILS, 0, candidates);
    if (!rc && making->provider) {
        drop_denied(making, making->provider, TEXT_PROVIDER, candidates);
        show_if_none_left(making, making->provider, TEXT_PROVIDER, candidates);
    }
    return rc;
}

/* ---- Layers that hints ask for ---- */

enum {
    ASKED_MAX = 8
};

/* Puts the layers that are in the set on a candidate's stack, the first lowest. */
static int add_asked(const struct making *making, const struct candidate *candidate,
                     const struct part *const *layers, unsigned set, struct candidates *candidates)
{
    struct stack *stack = stack_hold(candidate->stack), *next;
    enum text_origin origin = candidate->origin; /* the list moves when it grows */
    size_t choice = candidate->choice, before;
    int rc;

    for (unsigned i = 0; set >> i; i++) {
        if (!(set >> i & 1))
            continue;
        if (stack_has(stack, layers[i]) ||
            !(layers[i]->requires_ep & check_gives(making->parts, stack, false))) {
            stack_release(stack);
            return 0;
        }
        next = stack_put(stack, layers[i]);
        stack_release(stack);
        if (!next)
            return -FI_ENOMEM;
        stack = next;
    }
    before = candidates->count;
    rc = candidates_add(candidates, stack, choice);
    set_origin(candidates, before, origin);
    for (unsigned i = 0; !rc && before < candidates->count && set >> i; i++)
        candidates->list[before].asked |= set >> i & 1 ? layers[i]->adds : 0;
    return rc;
}

/* Candidates with the layers that a provider name spells out: one of them must be that name. */
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

/* Candidates with the layers of the user's stacks. */
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

/* Drops candidates whose layers add capabilities that the hints do not ask for. They took part in
 * the naming, since names must not depend on the hints. */
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
        drop_denied(making, making->provider, TEXT_PROVIDER, candidates);
    return rc;
}

static void name_all(struct candidates *candidates)
{
    for (size_t i = 0; i < candidates->count; i++) {
        struct candidate *candidate = &candidates->list[i];
        bool shared = false;

        for (size_t j = 0; !shared && j < candidates->count; j++)
            shared = j != i && !strcmp(candidates->list[j].brief, candidate->brief);
        candidate->name = candidate->linked ? candidate->linked
                          : shared          ? candidate->full
                                            : candidate->brief;
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
        return !is_denied(making, provider, TEXT_PROVIDER, brief);
    for (size_t i = 0; !admitted && i < provider->stack_count; i++) {
        struct spec_error error;
        struct stack *stack;
        char *text;

        if (bind_stack(making->parts, &provider->stacks[i], &stack, &error))
            continue;
        text = stack_print_short(stack);
        admitted = text && stack_is_plain(stack) && name_begins_with(brief, text);
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

    set_origin(picked, count, from->origin);
    if (!rc && picked->count > count && !full && from->name == from->brief)
        picked->list[count].name = picked->list[count].brief;
    if (!rc && picked->count > count && from->linked)
        picked->list[count].name = picked->list[count].linked = from->linked;
    return rc;
}

/* Programs compare the name that they asked for with the one that they get. The first that means
 * the same by it has it, unless one is called so already. */
static void name_as_asked(const struct candidates *all, const char *name, size_t first,
                          struct candidates *picked)
{
    for (size_t i = 0; i < all->count; i++) {
        if (!strcmp(all->list[i].name, name))
            return;
    }
    for (size_t i = first; i < picked->count; i++) {
        struct candidate *candidate = &picked->list[i];

        if (strcmp(candidate->bare, name) && strcmp(candidate->brief, name))
            continue;
        candidate->name = strcmp(candidate->bare, name) ? candidate->brief : candidate->bare;
        return;
    }
}

/* The candidates of `all` that a plain name matches. */
static int pick_named(const struct candidates *all, const char *name, bool layer, size_t choice,
                      struct candidates *picked)
{
    size_t first = picked->count;
    int rc = 0;

    for (size_t i = 0; !rc && i < all->count; i++) {
        const struct candidate *candidate = &all->list[i];

        if (layer ? name_contains(candidate->brief, name)
                  : name_begins_with(candidate->brief, name) ||
                        name_begins_with(candidate->bare, name))
            rc = pick(candidate, false, choice, picked);
    }
    if (!rc && !layer)
        name_as_asked(all, name, first, picked);
    return rc;
}

/* The stacks that the hints spell out; stack's reference passes. */
static int pick_spelled(const struct making *making, const struct candidates *all,
                        struct stack *stack, size_t choice, struct candidates *picked)
{
    struct candidates spelled = {0};
    int rc = add_admitted(making, stack, choice, &spelled);

    set_origin(&spelled, 0, TEXT_WANTED);
    if (!rc)
        rc = add_all_asked(making, making->caps, &spelled);
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
    const struct part *layer = place_lone_layer(making->parts, text);
    struct spec_error error;
    struct stack *stack;
    size_t before = picked->count;
    char *brief;
    int rc = 0;

    if (layer)
        rc = pick_named(all, part_shown(layer), true, index, picked);
    if (layer && (rc || layer->kind == PART_LAYER || picked->count > before))
        return rc;
    rc = bind_placed(making, wanted, index, 0, all, &stack, &error);
    if (rc == -FI_EINVAL && wanted->stack_count == 1 &&
        (pick_named(all, wanted->text, false, index, picked) || picked->count > before))
        return picked->count > before ? 0 : -FI_ENOMEM; /* a short name, without parameters */
    if (rc == -FI_EINVAL) {
        /* A program that probes for providers that are not here made no mistake. */
        if (error.probe && !making->environment->curious)
            reasons_add(making->reasons, "prov_name '%s': %s", wanted->text, error.why);
        else
            show(making, TEXT_WANTED, wanted->text, &error, making->reasons);
        return 0;
    }
    if (rc || layer || !stack_is_plain(stack))
        return rc ? rc : pick_spelled(making, all, stack, index, picked);
    brief = stack_print_short(stack);
    rc = brief ? pick_named(all, brief, false, index, picked) : -FI_ENOMEM;
    free(brief);
    if (rc || picked->count > before) {
        stack_release(stack);
        return rc;
    }
    return pick_spelled(making, all, stack, index, picked);
}

/* Narrows *candidates to those that match the hints' provider name. */
static int narrow(const struct making *making, const char *text, struct candidates *candidates)
{
    struct candidates picked = {0};
    struct spec_error error;
    struct spec *wanted;
    int rc = spec_parse(text, &wanted, &error);

    if (rc == -FI_EINVAL) {
        show(making, TEXT_WANTED, text, &error, making->reasons);
        candidates_finish(candidates);
        return 0;
    }
    if (rc)
        return rc;
    if (wanted->deny) {
        drop_denied(making, wanted, TEXT_WANTED, candidates);
        if (making->environment->curious)
            show_if_none_left(making, wanted, TEXT_WANTED, candidates);
    } else {
        for (size_t i = 0; !rc && i < wanted->stack_count; i++)
            rc = pick_wanted(making, wanted, i, candidates, &picked);
        picked.links = candidates->links;
        candidates->links = NULL;
        candidates_finish(candidates);
        *candidates = picked;
    }
    spec_destroy(wanted);
    return rc;
}

/* *spec stays NULL when the variable is unset. */
static int parse_variable(const struct making *making, enum text_origin origin, const char *text,
                          struct spec **spec)
{
    struct spec_error error;
    int rc = text && *text ? spec_parse(text, spec, &error) : 0;

    if (rc == -FI_EINVAL)
        show(making, origin, text, &error, making->reasons);
    return rc;
}

static int parse_variables(struct making *making)
{
    struct spec_error error;
    int rc =
        parse_variable(making, TEXT_PROVIDER, making->environment->provider, &making->provider);

    if (!rc)
        rc = parse_variable(making, TEXT_HOOK, making->environment->hook, &making->hook);
    if (!rc && making->hook && (making->hook->stack_count > 1 || making->hook->deny)) {
        spec_fail(&error, making->hook->stacks[making->hook->deny ? 0 : 1].span,
                  "hooks are separated by ';', and none is denied");
        show(making, TEXT_HOOK, making->hook->text, &error, making->reasons);
        rc = -FI_EINVAL;
    }
    return rc;
}

int candidates_make(const struct parts *parts, const struct environment *environment, uint64_t caps,
                    const char *wanted, struct reasons *reasons, struct candidates *result)
{
    struct candidates candidates = {0};
    size_t mistakes = 0;
    struct making making = {
        .parts = parts, .environment = environment, .reasons = reasons, .mistakes = &mistakes};
    int rc = parse_variables(&making);

    if (!rc)
        rc = making.provider && !making.provider->deny ? add_listed(&making, &candidates)
                                                       : add_all(&making, &candidates);
    making.caps = caps;
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
    candidates.mistakes = mistakes;
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
