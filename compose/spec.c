/* SPDX-License-Identifier: BSD-2-Clause */
#include "compose/spec.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

enum token {
    TOKEN_END,
    TOKEN_WORD,
    TOKEN_QUOTED,
    TOKEN_CHAR, /* one of , ; ( ) [ ] + = ^ | */
};

struct parser {
    const char *text;
    size_t pos; /* behind the current token */
    enum token token;
    char ch; /* of TOKEN_CHAR */
    struct span span;
    unsigned depth;
    struct spec_error *error;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool is_word(char c)
{
    return (unsigned char)c > ' ' && c != 127 && !strchr(",;()[]+\"=^|", c);
}

static int parse_fail(struct parser *parser, struct span span, const char *why)
{
    spec_fail(parser->error, span, "%s", why);
    return -FI_EINVAL;
}

static int next_token(struct parser *parser)
{
    const char *text = parser->text;
    size_t pos = parser->pos;

    while (is_blank(text[pos]))
        pos++;
    parser->span = (struct span){pos, pos};
    if (!text[pos]) {
        parser->token = TOKEN_END;
    } else if (is_word(text[pos])) {
        parser->token = TOKEN_WORD;
        while (is_word(text[pos]))
            pos++;
    } else if (text[pos] == '"') {
        const char *close = strchr(text + pos + 1, '"');

        if (!close)
            return parse_fail(parser, (struct span){pos, strlen(text)},
                              "the closing '\"' is missing");
        parser->token = TOKEN_QUOTED;
        pos = (size_t)(close - text) + 1;
    } else if (strchr(",;()[]+=^|", text[pos])) {
        parser->token = TOKEN_CHAR;
        parser->ch = text[pos++];
    } else {
        return parse_fail(parser, (struct span){pos, pos + 1}, "a control character");
    }
    parser->span.end = pos;
    parser->pos = pos;
    return 0;
}

static bool at_char(const struct parser *parser, char ch)
{
    return parser->token == TOKEN_CHAR && parser->ch == ch;
}

/* The grammar does not permit the current token here. */
static int expected(struct parser *parser, const char *what)
{
    int len = (int)(parser->span.end - parser->span.begin);

    if (parser->token == TOKEN_END)
        spec_fail(parser->error, parser->span, "%s expected, but the text ends", what);
    else
        spec_fail(parser->error, parser->span, "%s expected, not '%.*s'", what, len > 60 ? 60 : len,
                  parser->text + parser->span.begin);
    return -FI_EINVAL;
}

static char *copy_span(const struct parser *parser, struct span span)
{
    return strndup(parser->text + span.begin, span.end - span.begin);
}

/* Room for one more element, zeroed; NULL without memory. */
static void *grow(void *array, size_t *count, size_t size)
{
    void **items = array;
    char *grown = realloc(*items, (*count + 1) * size);

    if (!grown)
        return NULL;
    *items = grown;
    return memset(grown + size * (*count)++, 0, size);
}

/* WORD { "|" WORD } or quoted text; blanks are allowed round '|' and are dropped. */
static int parse_value(struct parser *parser, struct spec_param *param)
{
    struct text value = {0};
    int rc = 0;

    param->value_span = parser->span;
    if (parser->token == TOKEN_QUOTED) {
        param->value =
            copy_span(parser, (struct span){parser->span.begin + 1, parser->span.end - 1});
        return param->value ? next_token(parser) : -FI_ENOMEM;
    }
    for (;;) {
        if (parser->token != TOKEN_WORD) {
            rc = expected(parser, "a value");
            break;
        }
        text_add(&value, "%.*s", (int)(parser->span.end - parser->span.begin),
                 parser->text + parser->span.begin);
        param->value_span.end = parser->span.end;
        rc = next_token(parser);
        if (rc || !at_char(parser, '|'))
            break;
        text_add(&value, "|");
        rc = next_token(parser);
        if (rc)
            break;
    }
    param->value = text_take(&value);
    return rc ? rc : param->value ? 0 : -FI_ENOMEM;
}

static int parse_param(struct parser *parser, struct spec_item *item)
{
    struct spec_param *param;
    int rc;

    if (parser->token != TOKEN_WORD)
        return expected(parser, "a parameter's name");
    param = grow(&item->params, &item->param_count, sizeof(*param));
    if (!param)
        return -FI_ENOMEM;
    param->span = param->value_span = parser->span;
    param->key = copy_span(parser, parser->span);
    if (!param->key)
        return -FI_ENOMEM;
    rc = next_token(parser);
    if (rc || !at_char(parser, '='))
        return rc;
    rc = next_token(parser);
    if (!rc)
        rc = parse_value(parser, param);
    param->span.end = param->value_span.end;
    return rc;
}

static int parse_params(struct parser *parser, struct spec_item *item)
{
    struct span open = parser->span;
    int rc;

    do {
        rc = next_token(parser);
        if (!rc)
            rc = parse_param(parser, item);
        if (rc)
            return rc;
    } while (at_char(parser, ','));
    if (parser->token == TOKEN_END)
        return parse_fail(parser, open, "the closing ')' is missing");
    if (!at_char(parser, ')'))
        return expected(parser, "',' or ')'");
    item->span.end = parser->span.end;
    return next_token(parser);
}

static int parse_stack(struct parser *parser, struct spec_stack *stack);

static int parse_bracket(struct parser *parser, struct spec_item *item)
{
    struct span open = parser->span;
    int rc;

    if (++parser->depth > SPEC_MAX_DEPTH)
        return parse_fail(parser, open, "too many brackets inside brackets");
    do {
        struct spec_stack *member = grow(&item->members, &item->member_count, sizeof(*member));

        rc = member ? next_token(parser) : -FI_ENOMEM;
        if (!rc)
            rc = parse_stack(parser, member);
        if (rc)
            return rc;
    } while (at_char(parser, '+'));
    if (parser->token == TOKEN_END)
        return parse_fail(parser, open, "the closing ']' is missing");
    if (!at_char(parser, ']'))
        return expected(parser, "'+' or ']'");
    parser->depth--;
    item->span.end = parser->span.end;
    return next_token(parser);
}

static int parse_item(struct parser *parser, struct spec_item *item)
{
    int rc;

    item->span = item->name_span = parser->span;
    if (at_char(parser, '['))
        return parse_bracket(parser, item);
    if (at_char(parser, '^'))
        return parse_fail(parser, parser->span,
                          "'^' denies all choices, and stands only before the first");
    if (parser->token != TOKEN_WORD)
        return expected(parser, "the name of a part");
    item->name = copy_span(parser, parser->span);
    if (!item->name)
        return -FI_ENOMEM;
    rc = next_token(parser);
    return !rc && at_char(parser, '(') ? parse_params(parser, item) : rc;
}

static int parse_stack(struct parser *parser, struct spec_stack *stack)
{
    int rc;

    stack->span = parser->span;
    for (;;) {
        struct spec_item *item = grow(&stack->items, &stack->item_count, sizeof(*item));

        rc = item ? parse_item(parser, item) : -FI_ENOMEM;
        if (rc)
            return rc;
        stack->span.end = item->span.end;
        if (!at_char(parser, ';'))
            return 0;
        rc = next_token(parser);
        if (rc)
            return rc;
    }
}

static int parse_spec(struct parser *parser, struct spec *spec)
{
    int rc = next_token(parser);

    if (!rc && at_char(parser, '^')) {
        spec->deny = true;
        rc = next_token(parser);
    }
    while (!rc) {
        struct spec_stack *stack = grow(&spec->stacks, &spec->stack_count, sizeof(*stack));

        rc = stack ? parse_stack(parser, stack) : -FI_ENOMEM;
        if (rc || parser->token == TOKEN_END)
            break;
        if (!at_char(parser, ','))
            return expected(parser, "';' or ','");
        rc = next_token(parser);
    }
    return rc;
}

int spec_parse(const char *text, struct spec **result, struct spec_error *error)
{
    struct spec *spec = calloc(1, sizeof(*spec));
    struct parser parser = {.error = error};
    int rc = -FI_ENOMEM;

    if (spec)
        spec->text = strdup(text);
    if (spec && spec->text) {
        parser.text = spec->text;
        if (strlen(text) > SPEC_MAX)
            rc = parse_fail(&parser, (struct span){SPEC_MAX, SPEC_MAX}, "the text is too long");
        else
            rc = parse_spec(&parser, spec);
    }
    if (rc) {
        spec_destroy(spec);
        return rc;
    }
    *result = spec;
    return 0;
}

static void stack_finish(struct spec_stack *stack)
{
    for (size_t i = 0; i < stack->item_count; i++) {
        struct spec_item *item = &stack->items[i];

        for (size_t j = 0; j < item->param_count; j++) {
            free(item->params[j].key);
            free(item->params[j].value);
        }
        for (size_t j = 0; j < item->member_count; j++)
            stack_finish(&item->members[j]);
        free(item->params);
        free(item->members);
        free(item->name);
    }
    free(stack->items);
}

void spec_destroy(struct spec *spec)
{
    if (!spec)
        return;
    for (size_t i = 0; i < spec->stack_count; i++)
        stack_finish(&spec->stacks[i]);
    free(spec->stacks);
    free(spec->text);
    free(spec);
}
