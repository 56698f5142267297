/* SPDX-License-Identifier: BSD-2-Clause */
#include "compose/culprit.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "compose/plan.h"
#include "core/base/log.h"
#include "core/info/info.h"

enum {
    ORIGIN_MAX = 1024,
    KEY_MAX = 64
};

/* A sentence, and the node of the stack that it is about; key: of its parameter, or "". */
struct blame {
    const struct stack *node;
    char key[KEY_MAX];
    const char *sentence; /* without the key */
};

static bool has_key(const struct stack *node, const char *key)
{
    const struct param_def *def = node->automatic ? NULL : part_params(node->part);

    while (def && def->key && strcasecmp(def->key, key))
        def++;
    return def && def->key;
}

/* The node whose parameter of that key the user has set. */
static const struct stack *find_set(const struct stack *stack, const char *key)
{
    const struct stack *found = NULL;

    if (has_key(stack, key) && params_given(stack->params, key))
        return stack;
    for (size_t i = 0; !found && i < stack->lower_count; i++)
        found = find_set(stack->lowers[i], key);
    return found;
}

static const struct stack *find_part(const struct stack *stack, const char *name)
{
    const struct stack *found = NULL;

    if (!stack->automatic && !strcmp(stack->part->name, name))
        return stack;
    for (size_t i = 0; !found && i < stack->lower_count; i++)
        found = find_part(stack->lowers[i], name);
    return found;
}

/* Is there a parameter in the stack that the user set; `variable`: one that selects? */
static bool is_set(const struct stack *stack, bool variable)
{
    const struct param_def *def = stack->automatic ? NULL : part_params(stack->part);

    if (stack->given_count && !variable)
        return true;
    for (; def && def->key; def++) {
        if (def->selects && params_given(stack->params, def->key))
            return true;
    }
    for (size_t i = 0; i < stack->lower_count; i++) {
        if (is_set(stack->lowers[i], variable))
            return true;
    }
    return false;
}

/* The part whose parameter the sentence begins with ("iface: no interface ..."), else the part that
 * it was recorded for, else all of the stack. */
static struct blame blame_of(const struct stack *stack, const char *sentence, const char *where)
{
    struct blame blame = {.node = NULL, .sentence = sentence};
    size_t len = strcspn(sentence, ":");

    if (len < KEY_MAX && sentence[len] && sentence[len + 1] == ' ') {
        memcpy(blame.key, sentence, len);
        blame.node = find_set(stack, blame.key);
    }
    if (blame.node) {
        blame.sentence += len + 2;
        return blame;
    }
    blame.key[0] = 0;
    blame.node = where ? find_part(stack, where) : NULL;
    if (!blame.node)
        blame.node = stack;
    return blame;
}

static const struct spec_param *given_of(const struct blame *blame)
{
    for (size_t i = 0; *blame->key && i < blame->node->given_count; i++) {
        const struct spec_param *given = &blame->node->given[i];

        if (!strcasecmp(given->key, blame->key) && given->span.end)
            return given;
    }
    return NULL;
}

/* With a caret in the text that the stack was written in. */
static void show_in_text(const struct candidate *candidate, const struct blame *blame,
                         const struct environment *environment, const char *wanted,
                         const struct candidates *candidates)
{
    enum text_origin origin = blame->node->hooked ? TEXT_HOOK : candidate->origin;
    const char *text = origin == TEXT_HOOK       ? environment->hook
                       : origin == TEXT_PROVIDER ? environment->provider
                       : origin == TEXT_LINKS    ? candidates->links
                       : origin == TEXT_RAILS    ? candidates->rails
                                                 : wanted;
    const struct spec_param *given = given_of(blame);
    struct spec_error error;
    char *shown;

    if (given)
        spec_fail(&error, given->span, "%s: %s", given->key, blame->sentence);
    else
        spec_fail(&error, blame->node->span, "%s gives nothing here: %s", blame->node->part->name,
                  blame->sentence);
    shown = spec_error_text(text_origin_name(environment, origin), text, &error);
    if (shown)
        log_user("%s", shown);
    free(shown);
}

static bool show(const struct candidate *candidate, const struct blame *blame,
                 const struct environment *environment, const char *wanted,
                 const struct candidates *candidates)
{
    const struct part *part = blame->node->part;
    char origin[ORIGIN_MAX];

    if (*blame->key && !given_of(blame) &&
        params_origin(part->name, part_shown(part), blame->key, origin, sizeof(origin))) {
        log_user("%s: %s", origin, blame->sentence);
        return true;
    }
    if (candidate->origin == TEXT_NONE && !blame->node->hooked)
        return false;
    show_in_text(candidate, blame, environment, wanted, candidates);
    return true;
}

/* Do both candidates come from one choice of the user? One that the user did not choose stands
 * alone. */
static bool is_same_choice(const struct candidate *a, const struct candidate *b)
{
    return a == b || (a->origin != TEXT_NONE && a->origin == b->origin && a->choice == b->choice);
}

/* Does the candidate give nothing, whatever is asked? The reasons are added. */
static bool gives_nothing(const struct candidate *candidate, struct reasons *reasons)
{
    const struct query query = {.version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION)};
    struct fi_info *hints = info_complete(NULL), *infos = NULL;
    bool nothing;

    reasons_enter(reasons, "%s", candidate->full);
    nothing = hints && !plan_offers(candidate->stack, &query, hints, reasons, &infos) && !infos;
    reasons_leave(reasons, nothing ? 0 : 1);
    info_free(infos);
    info_free(hints);
    return nothing;
}

/* Of the choice whose first candidate this is. */
static bool examine(const struct candidates *candidates, const struct candidate *first,
                    const struct environment *environment, const char *wanted)
{
    struct reasons *reasons = reasons_create();
    bool shown = false, nothing = reasons;
    const char *sentence, *where;

    for (size_t i = 0; nothing && i < candidates->count; i++) {
        const struct candidate *candidate = &candidates->list[i];

        if (is_same_choice(first, candidate))
            nothing = !candidate->infos && gives_nothing(candidate, reasons);
    }
    sentence = nothing ? reasons_culprit(reasons, &where) : NULL;
    if (sentence) {
        const struct blame blame = blame_of(first->stack, sentence, where);

        shown = show(first, &blame, environment, wanted, candidates);
    }
    reasons_destroy(reasons);
    return shown;
}

static bool is_first(const struct candidates *candidates, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (is_same_choice(&candidates->list[i], &candidates->list[index]))
            return false;
    }
    return true;
}

size_t culprits_show(const struct candidates *candidates, const struct environment *environment,
                     const char *wanted)
{
    size_t found = 0;
    bool nothing = true;

    for (size_t i = 0; i < candidates->count; i++)
        nothing = nothing && !candidates->list[i].infos;
    for (size_t i = 0; i < candidates->count; i++) {
        const struct candidate *candidate = &candidates->list[i];
        bool chosen = candidate->origin != TEXT_NONE;

        if (candidate->infos || !is_first(candidates, i))
            continue;
        if ((chosen && nothing) || is_set(candidate->stack, !chosen))
            found += examine(candidates, candidate, environment, wanted);
    }
    return found;
}
