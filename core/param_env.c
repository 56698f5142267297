/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/param_env.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <rdma/fi_errno.h>

#include "core/log.h"

#ifndef WEFT_SYSCONFDIR
#define WEFT_SYSCONFDIR "/etc"
#endif

enum {
    LINE_LIMIT = 4096
};

struct setting {
    struct setting *next;
    char *name, *value;
    unsigned line;
};

/* Files once read stay: values are handed out as pointers. */
struct file {
    struct file *next;
    struct setting *settings;
    char path[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct file *files; /* the one used last comes first */

char *param_variable_name(const char *part, const char *key, char *text, size_t size)
{
    snprintf(text, size, "FI_%s%s%s", part ? part : "", part ? "_" : "", key);
    for (char *c = text; *c; c++)
        *c = isalnum((unsigned char)*c) ? (char)toupper((unsigned char)*c) : '_';
    return text;
}

static char *trim(char *text)
{
    char *end;

    while (isspace((unsigned char)*text))
        text++;
    end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1]))
        end--;
    *end = 0;
    return text;
}

static char *unquote(char *text)
{
    size_t len = strlen(text);

    if (len < 2 || text[0] != '"' || text[len - 1] != '"')
        return text;
    text[len - 1] = 0;
    return text + 1;
}

/* "FI_TCP_IFACE" as it is; "tcp.iface" as FI_TCP_IFACE. */
static char *setting_name(const char *name)
{
    char text[256];
    bool variable = !strncasecmp(name, "FI_", 3);

    param_variable_name(NULL, variable ? name + 3 : name, text, sizeof(text));
    return strdup(text);
}

static void read_line(struct file *file, char *text, unsigned number)
{
    char *name = trim(text), *value;
    struct setting *setting;

    if (!*name || *name == '#')
        return;
    value = strchr(name, '=');
    if (!value || value == name) {
        log_user("%s:%u: '%s' is no setting; write FI_NAME = value, or part.key = value",
                 file->path, number, name);
        return;
    }
    *value++ = 0;
    setting = calloc(1, sizeof(*setting));
    if (!setting)
        return;
    setting->name = setting_name(trim(name));
    setting->value = strdup(unquote(trim(value)));
    setting->line = number;
    setting->next = file->settings; /* the last of equal names counts */
    file->settings = setting;
}

static void read_file(struct file *file)
{
    char text[LINE_LIMIT];
    FILE *stream = fopen(file->path, "re");

    if (!stream) {
        if (getenv("FI_CONF_FILE"))
            log_user("FI_CONF_FILE: cannot read '%s': %s", file->path, fi_strerror(errno));
        return;
    }
    for (unsigned number = 1; fgets(text, sizeof(text), stream); number++)
        read_line(file, text, number);
    fclose(stream);
}

/* Locked. NULL without memory. */
static struct file *current_file(void)
{
    const char *path = getenv("FI_CONF_FILE");
    struct file *file;
    size_t size;

    if (!path || !*path)
        path = WEFT_SYSCONFDIR "/libfabric.conf";
    for (file = files; file; file = file->next) {
        if (!strcmp(file->path, path))
            return file;
    }
    size = strlen(path) + 1;
    file = calloc(1, sizeof(*file) + size);
    if (!file)
        return NULL;
    memcpy(file->path, path, size);
    read_file(file);
    file->next = files;
    files = file;
    return file;
}

static const char *file_value(const char *name)
{
    const char *value = NULL;
    struct setting *setting;
    struct file *file;

    pthread_mutex_lock(&lock);
    file = current_file();
    for (setting = file ? file->settings : NULL; setting && !value; setting = setting->next) {
        if (setting->name && !strcmp(setting->name, name))
            value = setting->value;
    }
    pthread_mutex_unlock(&lock);
    return value;
}

static bool prefers_file(void)
{
    const char *text = getenv("FI_PREFER_SYSCONFIG");

    return text && (!strcmp(text, "1") || !strcasecmp(text, "yes") || !strcasecmp(text, "true") ||
                    !strcasecmp(text, "on"));
}

const char *param_variable(const char *name)
{
    const char *value = prefers_file() ? file_value(name) : NULL;

    if (!value)
        value = getenv(name);
    return value ? value : file_value(name);
}

void param_file_each(void (*visit)(const char *name, const char *where, void *arg), void *arg)
{
    char where[LINE_LIMIT + 16];
    struct setting *setting;
    struct file *file;

    pthread_mutex_lock(&lock);
    file = current_file();
    setting = file ? file->settings : NULL;
    pthread_mutex_unlock(&lock);
    for (; setting; setting = setting->next) {
        snprintf(where, sizeof(where), "%s:%u", file->path, setting->line);
        if (setting->name)
            visit(setting->name, where, arg);
    }
}
