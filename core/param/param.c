/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/param/param.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/param/param_alias.h"
#include "core/param/param_env.h"
#include "core/param/param_value.h"

enum {
    NAME_MAX_LEN = 128,
    ORIGIN_MAX = 1024,
    WHY_MAX = 512
};

struct value {
    char *text; /* NULL: unset */
    int64_t number;
    bool given;
};

struct params {
    const struct param_def *defs;
    size_t count;
    struct value values[];
};

static size_t def_count(const struct param_def *defs)
{
    size_t count = 0;

    while (defs && defs[count].key)
        count++;
    return count;
}

static size_t def_index(const struct param_def *defs, const char *key)
{
    size_t i = 0;

    while (defs && defs[i].key && strcasecmp(defs[i].key, key))
        i++;
    return i;
}

static struct params *create(const struct param_def *defs)
{
    size_t count = def_count(defs);
    struct params *params = calloc(1, sizeof(*params) + count * sizeof(params->values[0]));

    if (params) {
        params->defs = defs;
        params->count = count;
    }
    return params;
}

void params_destroy(struct params *params)
{
    if (!params)
        return;
    for (size_t i = 0; i < params->count; i++)
        free(params->values[i].text);
    free(params);
}

struct params *params_dup(const struct params *params)
{
    struct params *copy = create(params->defs);

    if (!copy)
        return NULL;
    for (size_t i = 0; i < copy->count; i++) {
        copy->values[i] = params->values[i];
        copy->values[i].text = NULL;
        if (!params->values[i].text)
            continue;
        copy->values[i].text = strdup(params->values[i].text);
        if (!copy->values[i].text) {
            params_destroy(copy);
            return NULL;
        }
    }
    return copy;
}

static int set_value(struct value *value, const char *text, int64_t number, bool given)
{
    char *copy = strdup(text ? text : "1");

    if (!copy)
        return -FI_ENOMEM;
    free(value->text);
    *value = (struct value){.text = copy, .number = number, .given = given};
    return 0;
}

static int set_default(struct value *value, const struct param_def *def)
{
    char why[WHY_MAX];
    int64_t number = 0;
    int ret;

    if (!def->default_text)
        return 0;
    /* An empty default is a text that is set to nothing. */
    ret = *def->default_text ? param_value_parse(def, def->default_text, &number, why, sizeof(why))
                             : 0;
    assert(!ret && "the table's default is a value of its own type");
    return set_value(value, def->default_text, number, false);
}

/* From the environment or the file; a bad value is passed over. */
static int set_named(struct value *value, const struct param_def *def, const char *name)
{
    char why[WHY_MAX];
    const char *text = param_variable(name);
    int64_t number;

    if (!text || !*text || param_value_parse(def, text, &number, why, sizeof(why)))
        return 0;
    return set_value(value, text, number, true);
}

static int set_variable(struct value *value, const struct param_def *def, const char *part)
{
    char name[NAME_MAX_LEN];

    return set_named(value, def, param_variable_name(part, def->key, name, sizeof(name)));
}

/* Names of others, of which the first that is set counts. */
static int set_others(struct value *value, const struct param_def *def)
{
    const char *names = def->variable;
    char name[NAME_MAX_LEN];
    int ret = 0;

    while (!ret && !value->given && param_alias(&names, name, sizeof(name)))
        ret = set_named(value, def, name);
    return ret;
}

static int set_all_variables(struct params *params, const char *name, const char *prov_name)
{
    int ret = 0;

    for (size_t i = 0; !ret && i < params->count; i++) {
        ret = set_default(&params->values[i], &params->defs[i]);
        if (!ret)
            ret = set_others(&params->values[i], &params->defs[i]);
        if (!ret && prov_name && strcasecmp(prov_name, name))
            ret = set_variable(&params->values[i], &params->defs[i], prov_name);
        if (!ret)
            ret = set_variable(&params->values[i], &params->defs[i], name);
    }
    return ret;
}

static void explain_unknown(const struct param_def *defs, const char *name, const char *key,
                            char *why, size_t why_size)
{
    size_t count = def_count(defs), used;
    const char *keys[count + 1];
    const char *near;

    for (size_t i = 0; i <= count; i++)
        keys[i] = count ? defs[i].key : NULL;
    near = suggest_name(key, keys);
    if (near) {
        snprintf(why, why_size, "%s has no parameter '%s'; did you mean '%s'?", name, key, near);
        return;
    }
    used = (size_t)snprintf(why, why_size, "%s has no parameter '%s'; it has %s", name, key,
                            count ? "" : "none");
    for (size_t i = 0; i < count && used < why_size; i++)
        used += (size_t)snprintf(why + used, why_size - used, "%s%s", i ? ", " : "", keys[i]);
}

static int set_spec(struct params *params, const char *name, const struct param_text *text,
                    char *why, size_t why_size)
{
    size_t index = def_index(params->defs, text->key);
    int64_t number;
    int ret;

    if (index == params->count) {
        explain_unknown(params->defs, name, text->key, why, why_size);
        return -FI_EINVAL;
    }
    ret = param_value_parse(&params->defs[index], text->value, &number, why, why_size);
    return ret ? ret : set_value(&params->values[index], text->value, number, true);
}

int params_resolve(const char *name, const char *prov_name, const struct param_def *defs,
                   const struct param_text *texts, size_t count, struct params **params,
                   size_t *bad, char *why, size_t why_size)
{
    struct params *made = create(defs);
    int ret;

    if (!made)
        return -FI_ENOMEM;
    ret = set_all_variables(made, name, prov_name);
    for (size_t i = 0; !ret && i < count; i++) {
        ret = set_spec(made, name, &texts[i], why, why_size);
        if (ret)
            *bad = i;
    }
    if (ret) {
        params_destroy(made);
        return ret;
    }
    *params = made;
    return 0;
}

static const struct value *value_of(const struct params *params, const char *key)
{
    size_t index = def_index(params->defs, key);

    assert(index < params->count);
    return &params->values[index];
}

const char *params_string(const struct params *params, const char *key)
{
    return value_of(params, key)->text;
}

int64_t params_int(const struct params *params, const char *key)
{
    assert(params->defs[def_index(params->defs, key)].type == PARAM_INT);
    return value_of(params, key)->number;
}

bool params_bool(const struct params *params, const char *key)
{
    assert(params->defs[def_index(params->defs, key)].type == PARAM_BOOL);
    return value_of(params, key)->number != 0;
}

size_t params_size(const struct params *params, const char *key)
{
    assert(params->defs[def_index(params->defs, key)].type == PARAM_SIZE);
    return (size_t)value_of(params, key)->number;
}

int64_t params_time_ms(const struct params *params, const char *key)
{
    assert(params->defs[def_index(params->defs, key)].type == PARAM_TIME);
    return value_of(params, key)->number;
}

uint32_t params_millionths(const struct params *params, const char *key)
{
    assert(params->defs[def_index(params->defs, key)].type == PARAM_PERCENT);
    return (uint32_t)value_of(params, key)->number;
}

bool params_given(const struct params *params, const char *key)
{
    return value_of(params, key)->given;
}

const char *params_origin(const char *name, const char *prov_name, const char *key, char *text,
                          size_t size)
{
    const char *const parts[] = {name, prov_name};
    char variable[NAME_MAX_LEN];

    for (size_t i = 0; i < 2; i++) {
        const char *value = NULL;

        if (parts[i])
            value = param_variable(param_variable_name(parts[i], key, variable, sizeof(variable)));
        if (value && *value)
            return param_variable_origin(variable, text, size);
    }
    return NULL;
}

/* The value used in place of a bad one, where no spec says more. */
static char *used_text(const struct value *value, const struct param_def *def, char *text,
                       size_t size)
{
    if (value->given)
        snprintf(text, size, "it is not used; %s is", value->text);
    else if (def->automatic || (def->default_text && *def->default_text))
        snprintf(text, size, "it is not used; the default is %s",
                 def->automatic ? def->automatic : def->default_text);
    else
        snprintf(text, size, "it is not used");
    return text;
}

static void show_bad_value(const struct value *value, const struct param_def *def, const char *name)
{
    char origin[ORIGIN_MAX], why[WHY_MAX], used[WHY_MAX];
    const char *text = param_variable(name);
    size_t key = strlen(def->key);
    int64_t number;

    if (!text || !*text || !param_value_parse(def, text, &number, why, sizeof(why)))
        return;
    /* The variable's name says which key it is. */
    if (strncmp(why, def->key, key) != 0 || why[key] != ':' || why[key + 1] != ' ')
        key = 0;
    else
        key += 2;
    log_user("%s: %s (%s)", param_variable_origin(name, origin, sizeof(origin)), why + key,
             used_text(value, def, used, sizeof(used)));
}

static void show_bad_variable(const struct value *value, const struct param_def *def,
                              const char *part)
{
    char name[NAME_MAX_LEN];

    show_bad_value(value, def, param_variable_name(part, def->key, name, sizeof(name)));
}

int params_check_variables(const char *name, const char *prov_name, const struct param_def *defs)
{
    struct params *params = create(defs);
    int ret = params ? set_all_variables(params, name, prov_name) : -FI_ENOMEM;

    for (size_t i = 0; !ret && i < params->count; i++) {
        const char *names = params->defs[i].variable;
        char other[NAME_MAX_LEN];

        while (param_alias(&names, other, sizeof(other)))
            show_bad_value(&params->values[i], &params->defs[i], other);
        if (prov_name && strcasecmp(prov_name, name))
            show_bad_variable(&params->values[i], &params->defs[i], prov_name);
        show_bad_variable(&params->values[i], &params->defs[i], name);
    }
    params_destroy(params);
    return ret;
}
