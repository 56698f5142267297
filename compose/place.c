/* SPDX-License-Identifier: BSD-2-Clause */
#include "compose/place.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <rdma/fi_errno.h>

static const struct part *part_of(const struct parts *parts, const struct spec_item *item)
{
    return item->name ? parts_find(parts, item->name) : NULL;
}

const struct part *place_lone_layer(const struct parts *parts, const struct spec_stack *text)
{
    const struct spec_item *item = &text->items[0];
    const struct part *part = NULL;

    if (text->item_count == 1 && !item->param_count)
        part = part_of(parts, item);
    return part && part->kind != PART_TRANSPORT ? part : NULL;
}

static bool is_join(const struct parts *parts, const struct spec_item *item)
{
    const struct part *part = part_of(parts, item);

    return part && part->kind == PART_JOIN;
}

/* Where the join is that stands for its usual bracket, as bind has it; item_count: nowhere. */
static size_t find(const struct parts *parts, const struct spec_stack *text, const char *join)
{
    size_t last = text->item_count - 1, at = is_join(parts, &text->items[last]) ? last : 0;

    for (size_t i = 0; i < text->item_count; i++) {
        const struct part *part = part_of(parts, &text->items[i]);

        if (!part || part->kind == PART_TRANSPORT)
            return text->item_count;
    }
    return strcmp(part_of(parts, &text->items[at])->name, join) ? text->item_count : at;
}

bool place_has(const struct parts *parts, const struct spec_stack *text, const char *join)
{
    bool has = find(parts, text, join) < text->item_count;

    for (size_t i = 0; i < text->item_count; i++) {
        for (size_t j = 0; !has && j < text->items[i].member_count; j++)
            has = place_has(parts, &text->items[i].members[j], join);
    }
    return has;
}

size_t place_count(const char *by)
{
    struct spec_error error;
    struct spec *spec = NULL;
    size_t count = spec_parse(by, &spec, &error) ? 1 : spec->stack_count;

    spec_destroy(spec);
    return count;
}

/* The text of what was put is not the user's. */
static void set_spans(struct spec_item *item, struct span span)
{
    item->span = item->name_span = span;
    for (size_t i = 0; i < item->param_count; i++)
        item->params[i].span = item->params[i].value_span = span;
    for (size_t i = 0; i < item->member_count; i++) {
        item->members[i].span = span;
        for (size_t j = 0; j < item->members[i].item_count; j++)
            set_spans(&item->members[i].items[j], span);
    }
}

static bool has_param(const struct spec_item *item, const char *key)
{
    for (size_t i = 0; i < item->param_count; i++) {
        if (!strcasecmp(item->params[i].key, key))
            return true;
    }
    return false;
}

static int move_params(struct spec_item *to, struct spec_item *from)
{
    struct spec_param *grown =
        realloc(to->params, (to->param_count + from->param_count + 1) * sizeof(*grown));

    if (!grown)
        return -FI_ENOMEM;
    to->params = grown;
    for (size_t i = 0; i < from->param_count; i++) {
        if (has_param(to, from->params[i].key))
            continue;
        grown[to->param_count++] = from->params[i];
        from->params[i].key = from->params[i].value = NULL;
    }
    return 0;
}

/* from: "join;[...]", whose bracket goes beside the item at `at`, at the end of the text. */
static int move_bracket(struct spec_stack *text, size_t at, struct spec_stack *from)
{
    struct span span = text->items[at].name_span;
    struct spec_item *items = realloc(text->items, (text->item_count + 1) * sizeof(*items));
    size_t place = at == text->item_count - 1 ? at + 1 : 0;
    int rc;

    if (!items)
        return -FI_ENOMEM;
    text->items = items;
    set_spans(&from->items[0], span);
    set_spans(&from->items[1], span);
    rc = move_params(&items[at], &from->items[0]);
    if (rc)
        return rc;
    memmove(&items[place + 1], &items[place], (text->item_count - place) * sizeof(*items));
    items[place] = from->items[1];
    text->item_count++;
    from->item_count--;
    return 0;
}

static int put_here(struct spec_stack *text, size_t at, const char *by, size_t index,
                    struct spec_error *error)
{
    struct spec_error in_by;
    struct spec *spec;
    int rc = spec_parse(by, &spec, &in_by);

    if (rc == -FI_EINVAL)
        spec_fail(error, text->items[at].name_span, "its variable is no stack: %s", in_by.why);
    if (rc)
        return rc;
    rc = move_bracket(text, at, &spec->stacks[index]);
    spec_destroy(spec);
    return rc;
}

int place_put(const struct parts *parts, struct spec_stack *text, const char *join, const char *by,
              size_t index, struct spec_error *error)
{
    size_t at = find(parts, text, join);
    int rc = 0;

    for (size_t i = 0; i < text->item_count; i++) {
        for (size_t j = 0; !rc && j < text->items[i].member_count; j++)
            rc = place_put(parts, &text->items[i].members[j], join, by, index, error);
    }
    return !rc && at < text->item_count ? put_here(text, at, by, index, error) : rc;
}
