/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The spec language: text to tree and back (architecture, section 4; docs/design/compose.md). This
 * room knows no part names.
 *
 *   spec  = [ "^" ] stack { "," stack }
 *   stack = item { ";" item }
 *   item  = NAME [ "(" param { "," param } ")" ]  |  "[" stack { "+" stack } "]"
 *   param = KEY [ "=" ( WORD { "|" WORD } | '"' text '"' ) ]
 */
#ifndef WEFT_COMPOSE_SPEC_H
#define WEFT_COMPOSE_SPEC_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the text that something was written with: begin <= end. */
struct span {
    size_t begin, end;
};

struct spec_param {
    char *key;
    char *value; /* NULL: a bare key */
    struct span span, value_span;
};

struct spec_stack;

/* A name with its parameters, or a bracket with its stacks (then name is NULL). */
struct spec_item {
    char *name; /* as typed */
    struct spec_param *params;
    size_t param_count;
    struct spec_stack *members;
    size_t member_count;
    struct span span;      /* all of it */
    struct span name_span; /* the name, or the bracket's first character */
};

/* Items in the order of the text: at least one. */
struct spec_stack {
    struct spec_item *items;
    size_t item_count;
    struct span span;
};

struct spec {
    char *text; /* the parsed text */
    bool deny;  /* began with ^ */
    struct spec_stack *stacks;
    size_t stack_count; /* at least one */
};

/* The error in a text, and its place. Every pass over a spec may fill it. */
struct spec_error {
    struct span span;
    char why[1024]; /* one sentence, no full stop */
    bool probe;     /* an unknown name that is near none: in hints it may be meant so */
};

enum {
    SPEC_MAX = 4096,    /* bytes of a text */
    SPEC_MAX_DEPTH = 8, /* brackets inside brackets */
};

/* -FI_EINVAL with *error filled, -FI_ENOMEM. */
int spec_parse(const char *text, struct spec **spec, struct spec_error *error);
void spec_destroy(struct spec *spec);

void spec_fail(struct spec_error *error, struct span span, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The error as the user sees it, three lines without the last newline: where (origin is the
 * variable or field that held the text) and why, the text, a caret. Heap; NULL without memory. */
char *spec_error_text(const char *origin, const char *text, const struct spec_error *error);

/* A text being built, shared by the printers of this folder. data is NULL and failed is set when
 * memory ran out; zeroed is empty. */
struct text {
    char *data;
    size_t len, size;
    bool failed;
};

void text_add(struct text *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* key=value as the language writes it; value NULL is a bare key. */
void text_add_param(struct text *text, const char *key, const char *value);
/* The result, which is the caller's; "" when nothing was added; NULL without memory. */
char *text_take(struct text *text);

#endif
