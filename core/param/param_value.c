/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/param/param_value.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <rdma/fi_errno.h>

static bool parse_int(const char *text, int64_t *number)
{
    char *end;

    errno = 0;
    *number = strtoll(text, &end, 0);
    return !errno && end != text && !*end;
}

static bool parse_bool(const char *text, int64_t *number)
{
    static const char *const words[] = {"0", "1", "no", "yes", "false", "true", "off", "on"};

    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        if (!strcasecmp(text, words[i])) {
            *number = i % 2;
            return true;
        }
    }
    return false;
}

/* Digits and then one of the units, whose factors go with it. */
static bool parse_scaled(const char *text, const char *const *units, const uint64_t *factors,
                         int64_t *number)
{
    char *end;
    uint64_t value;

    if (!isdigit((unsigned char)*text))
        return false;
    errno = 0;
    value = strtoull(text, &end, 0);
    if (errno)
        return false;
    for (; *units; units++, factors++) {
        if (strcasecmp(end, *units))
            continue;
        if (value > UINT64_MAX / *factors)
            return false;
        *number = (int64_t)(value * *factors);
        return true;
    }
    return false;
}

static bool parse_size(const char *text, int64_t *number)
{
    static const char *const units[] = {"", "k", "m", "g", "kb", "mb", "gb", NULL};
    static const uint64_t factors[] = {1, 1 << 10, 1 << 20, 1 << 30, 1 << 10, 1 << 20, 1 << 30};

    /* -1 is how upstream's variables spell "no limit". */
    if (!strcasecmp(text, "inf") || !strcmp(text, "-1")) {
        *number = -1;
        return true;
    }
    return parse_scaled(text, units, factors, number) && (size_t)*number == (uint64_t)*number;
}

static bool parse_time(const char *text, int64_t *number)
{
    static const char *const units[] = {"", "ms", "s", "m", NULL};
    static const uint64_t factors[] = {1, 1, 1000, 60000};

    return parse_scaled(text, units, factors, number) && *number >= 0;
}

/* Decimals beyond a millionth do not count. */
static bool parse_percent(const char *text, int64_t *number)
{
    int64_t value = 0, progress = 10000;

    if (!isdigit((unsigned char)*text))
        return false;
    for (; isdigit((unsigned char)*text) && value <= 1000000; text++)
        value = value * 10 + (*text - '0') * progress;
    if (*text == '.') {
        for (text++; isdigit((unsigned char)*text); text++) {
            progress /= 10;
            value += (*text - '0') * progress;
        }
    }
    if (*text == '%')
        text++;
    *number = value;
    return !*text && value <= 1000000;
}

static bool parse_choice(const struct param_def *def, const char *text, int64_t *number)
{
    for (int64_t i = 0; def->choices[i]; i++) {
        if (!strcasecmp(text, def->choices[i])) {
            *number = i;
            return true;
        }
    }
    return false;
}

static bool parse(const struct param_def *def, const char *text, int64_t *number)
{
    switch (def->type) {
    case PARAM_INT: return parse_int(text, number);
    case PARAM_BOOL: return parse_bool(text, number);
    case PARAM_SIZE: return parse_size(text, number);
    case PARAM_TIME: return parse_time(text, number);
    case PARAM_PERCENT: return parse_percent(text, number);
    case PARAM_CHOICE: return parse_choice(def, text, number);
    case PARAM_STRING:
    case PARAM_LIST: break;
    }
    *number = 0;
    return true;
}

static bool has_range(const struct param_def *def)
{
    return (def->type == PARAM_INT || def->type == PARAM_SIZE || def->type == PARAM_TIME) &&
           (def->min || def->max);
}

static bool in_range(const struct param_def *def, int64_t number)
{
    if (!has_range(def))
        return true;
    if (def->type == PARAM_INT)
        return number >= def->min && number <= def->max;
    return (uint64_t)number >= (uint64_t)def->min && (uint64_t)number <= (uint64_t)def->max;
}

static const char *kind(enum param_type type)
{
    switch (type) {
    case PARAM_INT: return "a number";
    case PARAM_BOOL: return "yes or no (1/0, true/false, on/off)";
    case PARAM_SIZE: return "a number of bytes (digits with k, m or g, or inf)";
    case PARAM_TIME: return "a time (500ms, 10s, 2m; a bare number is milliseconds)";
    case PARAM_PERCENT: return "a percentage from 0 to 100 (5%, 0.25%)";
    case PARAM_CHOICE: return "one of ";
    case PARAM_LIST: return "a list";
    case PARAM_STRING: break;
    }
    return "a text";
}

char *param_value_expected(const struct param_def *def, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "%s", kind(def->type));

    if (def->type == PARAM_CHOICE) {
        for (size_t i = 0; def->choices[i] && used < size; i++)
            used +=
                (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", def->choices[i]);
    }
    if (has_range(def) && used < size)
        snprintf(text + used, size - used, " from %" PRId64 " to %" PRId64, def->min, def->max);
    return text;
}

int param_value_parse(const struct param_def *def, const char *text, int64_t *number, char *why,
                      size_t why_size)
{
    const char *near = NULL;
    char expected[256];

    if (!text && def->type == PARAM_BOOL) {
        *number = 1;
        return 0;
    }
    if (text && *text && parse(def, text, number) && in_range(def, *number) &&
        !(def->check && def->check(text, expected, sizeof(expected))))
        return 0;
    param_value_expected(def, expected, sizeof(expected));
    if (text && *text && def->check) {
        int len = snprintf(why, why_size, "%s: ", def->key);

        return def->check(text, why + len, why_size - (size_t)len);
    }
    if (!text || !*text) {
        snprintf(why, why_size, "%s needs a value: %s", def->key, expected);
        return -FI_EINVAL;
    }
    if (def->type == PARAM_CHOICE)
        near = suggest_name(text, def->choices);
    if (near)
        snprintf(why, why_size, "%s: '%s' is not %s; did you mean '%s'?", def->key, text, expected,
                 near);
    else
        snprintf(why, why_size, "%s: '%s' is not %s", def->key, text, expected);
    return -FI_EINVAL;
}
