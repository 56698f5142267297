/* SPDX-License-Identifier: BSD-2-Clause */
#include "json_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEPTH = 32,
    VALUES = 1 << 22 /* in one text */
};

struct reader {
    const char *at, *end;
    const char *why;
    int values;
};

static struct json *read_value(struct reader *reader, int depth);

static struct json *fail(struct reader *reader, const char *why)
{
    if (!reader->why)
        reader->why = why;
    return NULL;
}

static void skip(struct reader *reader)
{
    while (reader->at < reader->end && strchr(" \t\r\n", *reader->at) && *reader->at)
        reader->at++;
}

static bool take(struct reader *reader, char c)
{
    skip(reader);
    if (reader->at == reader->end || *reader->at != c)
        return false;
    reader->at++;
    return true;
}

/* Behind the backslash. */
static int read_escape(struct reader *reader)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    char c = reader->at < reader->end ? *reader->at++ : 0;
    const char *found = c ? strchr(names, c) : NULL;
    unsigned code = 0;

    if (found)
        return values[found - names];
    if (c != 'u' || reader->end - reader->at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        const char *digit = strchr("0123456789abcdefABCDEF", *reader->at);
        unsigned value = digit ? (unsigned)(digit - "0123456789abcdefABCDEF") : 0;

        if (!digit || !*reader->at++)
            return -1;
        code = code * 16 + (value > 15 ? value - 6 : value);
    }
    return code >= ' ' && code < 0x7f ? (int)code : '?';
}

/* Behind its first quote. */
static char *read_text(struct reader *reader)
{
    const char *end = reader->at;
    char *text;
    size_t used = 0;

    while (end < reader->end && *end != '"')
        end += *end == '\\' && end + 1 < reader->end ? 2 : 1;
    if (end >= reader->end)
        return (char *)fail(reader, "a string does not end");
    text = malloc((size_t)(end - reader->at) + 1);
    if (!text)
        return (char *)fail(reader, "there is no memory for it");
    while (reader->at < end) {
        int c = (unsigned char)*reader->at++;

        if (c == '\\')
            c = read_escape(reader);
        if (c < 0) {
            free(text);
            return (char *)fail(reader, "an escape is unknown");
        }
        text[used++] = (char)(c && c != 0x7f && c >= ' ' ? c : '?');
    }
    text[used] = 0;
    reader->at = end + 1;
    return text;
}

static bool read_members(struct reader *reader, struct json *json, char end, int depth)
{
    struct json **last = &json->first;

    if (take(reader, end))
        return true;
    do {
        char *name = NULL;

        if (json->kind == JSON_OBJECT) {
            name =
                take(reader, '"') ? read_text(reader) : (char *)fail(reader, "a name is missing");
            if (!name)
                return false;
            if (!take(reader, ':')) {
                free(name);
                return fail(reader, "a ':' is missing");
            }
        }
        *last = read_value(reader, depth + 1);
        if (!*last) {
            free(name);
            return false;
        }
        (*last)->name = name;
        last = &(*last)->next;
    } while (take(reader, ','));
    return take(reader, end) || fail(reader, "an array or object does not end");
}

static bool read_number(struct reader *reader, struct json *json)
{
    const char *begin = reader->at;

    while (reader->at < reader->end && *reader->at && strchr("+-.0123456789eE", *reader->at))
        reader->at++;
    json->kind = JSON_NUMBER;
    json->text = strndup(begin, (size_t)(reader->at - begin));
    if (json->text && reader->at > begin)
        return true;
    fail(reader, json->text ? "a value is missing" : "there is no memory for it");
    return false;
}

static bool read_word(struct reader *reader, struct json *json)
{
    static const struct {
        const char *word;
        enum json_kind kind;
    } words[] = {{"null", JSON_NULL}, {"true", JSON_BOOL}, {"false", JSON_BOOL}};

    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        size_t len = strlen(words[i].word);

        if ((size_t)(reader->end - reader->at) < len || memcmp(reader->at, words[i].word, len) != 0)
            continue;
        json->kind = words[i].kind;
        json->truth = i == 1;
        reader->at += len;
        return true;
    }
    return read_number(reader, json);
}

static bool fill(struct reader *reader, struct json *json, int depth)
{
    if (take(reader, '{')) {
        json->kind = JSON_OBJECT;
        return read_members(reader, json, '}', depth);
    }
    if (take(reader, '[')) {
        json->kind = JSON_ARRAY;
        return read_members(reader, json, ']', depth);
    }
    if (take(reader, '"')) {
        json->kind = JSON_STRING;
        json->text = read_text(reader);
        return json->text;
    }
    return read_word(reader, json);
}

static struct json *read_value(struct reader *reader, int depth)
{
    struct json *json;

    if (depth > DEPTH || ++reader->values > VALUES)
        return fail(reader, "it is nested too deep, or too large");
    json = calloc(1, sizeof(*json));
    if (!json)
        return fail(reader, "there is no memory for it");
    if (fill(reader, json, depth))
        return json;
    json_free(json);
    return NULL;
}

struct json *json_read(const char *text, size_t len, const char **why)
{
    struct reader reader = {.at = text, .end = text + len};
    struct json *json = read_value(&reader, 0);

    skip(&reader);
    if (json && reader.at < reader.end) {
        fail(&reader, "there is something behind it");
        json_free(json);
        json = NULL;
    }
    *why = reader.why ? reader.why : "there is no memory for it";
    return json;
}

void json_free(struct json *json)
{
    while (json) {
        struct json *next = json->next;

        json_free(json->first); /* as deep as DEPTH */
        free(json->name);
        free(json->text);
        free(json);
        json = next;
    }
}

const struct json *json_get(const struct json *object, const char *name)
{
    const struct json *member = object && object->kind == JSON_OBJECT ? object->first : NULL;

    while (member && strcmp(member->name, name) != 0)
        member = member->next;
    return member;
}

uint64_t json_uint(const struct json *number)
{
    return number && number->kind == JSON_NUMBER && *number->text != '-'
               ? strtoull(number->text, NULL, 10)
               : 0;
}

uint64_t json_count(const struct json *object, const char *name)
{
    return json_uint(json_get(object, name));
}

double json_real(const struct json *object, const char *name)
{
    const struct json *member = json_get(object, name);
    double value = member && member->kind == JSON_NUMBER ? strtod(member->text, NULL) : 0;

    return value > -1e18 && value < 1e18 ? value : 0;
}

const char *json_text(const struct json *object, const char *name)
{
    const struct json *member = json_get(object, name);

    return member && member->kind == JSON_STRING ? member->text : "";
}
