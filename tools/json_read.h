/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * JSON (RFC 8259), read into a tree. The input is not trusted: nesting and the number of values
 * are limited. Escapes of characters outside of ASCII become '?'.
 */
#ifndef WEFT_TOOLS_JSON_READ_H
#define WEFT_TOOLS_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum json_kind {
    JSON_NULL,
    JSON_BOOL,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT,
};

struct json {
    enum json_kind kind;
    char *name;         /* of a member of an object; else NULL */
    char *text;         /* of a string, and of a number as it stands; else NULL */
    bool truth;         /* of a bool */
    struct json *first; /* of an array or object */
    struct json *next;  /* in the same array or object */
};

/* NULL: it is no JSON, or there is no memory; `why` has half a sentence. */
struct json *json_read(const char *text, size_t len, const char **why);
void json_free(struct json *json); /* takes NULL */

/* The member of that name; NULL: there is none, or it is no object. Takes NULL. */
const struct json *json_get(const struct json *object, const char *name);
/* Of a member: 0, "" or 0.0 where it is not there, or of another kind. */
uint64_t json_count(const struct json *object, const char *name);
double json_real(const struct json *object, const char *name);
const char *json_text(const struct json *object, const char *name);
/* Of a number itself; 0 for anything else. */
uint64_t json_uint(const struct json *number);

#endif
