/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compose/spec.h"

static void text_add_list(struct text *text, const char *fmt, va_list args)
{
    va_list again;
    int len;

    va_copy(again, args);
    len = vsnprintf(NULL, 0, fmt, args);
    if (len >= 0 && text->len + (size_t)len + 1 > text->size) {
        size_t size = 2 * (text->len + (size_t)len) + 64;
        char *data = realloc(text->data, size);

        if (data) {
            text->data = data;
            text->size = size;
        } else {
            text->failed = true;
        }
    }
    if (len < 0)
        text->failed = true;
    if (!text->failed) {
        vsnprintf(text->data + text->len, text->size - text->len, fmt, again);
        text->len += (size_t)len;
    }
    va_end(again);
}

void text_add(struct text *text, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    text_add_list(text, fmt, args);
    va_end(args);
}

/* ASCII lower case. */
static void add_lower(struct text *text, const char *word)
{
    for (; *word; word++)
        text_add(text, "%c", *word >= 'A' && *word <= 'Z' ? *word - 'A' + 'a' : *word);
}

/* Would the lexer read it back as WORD { "|" WORD }? */
static bool is_plain_value(const char *value)
{
    bool word = false;

    for (; *value; value++) {
        unsigned char c = (unsigned char)*value;

        if (c <= ' ' || c == 127 || strchr(",;()[]+\"=^", c) || (c == '|' && !word))
            return false;
        word = c != '|';
    }
    return word;
}

void text_add_param(struct text *text, const char *key, const char *value)
{
    add_lower(text, key);
    if (value)
        text_add(text, is_plain_value(value) ? "=%s" : "=\"%s\"", value);
}

char *text_take(struct text *text)
{
    char *data = text->data;

    if (text->failed) {
        free(data);
        data = NULL;
    } else if (!data) {
        data = strdup("");
    }
    *text = (struct text){0};
    return data;
}

void spec_fail(struct spec_error *error, struct span span, const char *fmt, ...)
{
    va_list args;

    error->span = span;
    error->probe = false;
    va_start(args, fmt);
    vsnprintf(error->why, sizeof(error->why), fmt, args);
    va_end(args);
}

/* Characters, not bytes, of text[begin, end): UTF-8 continuation bytes do not count. */
static size_t columns(const char *text, size_t begin, size_t end)
{
    size_t count = 0;

    for (size_t i = begin; i < end && text[i]; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

char *spec_error_text(const char *origin, const char *text, const struct spec_error *error)
{
    size_t before = columns(text, 0, error->span.begin);
    size_t width = columns(text, error->span.begin, error->span.end);
    struct text out = {0};

    text_add(&out, "%s:%zu: %s\n  ", origin, before + 1, error->why);
    for (const char *c = text; *c; c++)
        text_add(&out, "%c", (unsigned char)*c < ' ' || *c == 127 ? ' ' : *c);
    text_add(&out, "\n  %*s^", (int)before, "");
    for (size_t i = 1; i < width; i++)
        text_add(&out, "~");
    return text_take(&out);
}
