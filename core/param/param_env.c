/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/param/param_env.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"

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
    bool named; /* by FI_CONF_FILE */
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

static void show_unreadable(const struct file *file)
{
    log_user("%scannot read the configuration file '%s': %s", file->named ? "FI_CONF_FILE: " : "",
             file->path, fi_strerror(errno));
}

static void skip_line(FILE *stream)
{
    int c;

    do
        c = getc(stream);
    while (c != '\n' && c != EOF);
}

static void read_file(struct file *file)
{
    char text[LINE_LIMIT];
    FILE *stream = fopen(file->path, "re");

    if (!stream) {
        if (file->named || errno != ENOENT)
            show_unreadable(file);
        return;
    }
    for (unsigned number = 1; fgets(text, sizeof(text), stream); number++) {
        if (strlen(text) + 1 == sizeof(text) && !strchr(text, '\n')) {
            log_user("%s:%u: the line is longer than %d bytes; it is not used", file->path, number,
                     LINE_LIMIT - 2);
            skip_line(stream);
        } else {
            read_line(file, text, number);
        }
    }
    if (ferror(stream))
        show_unreadable(file);
    fclose(stream);
}

/* Locked. NULL without memory. */
static struct file *current_file(void)
{
    const char *path = getenv("FI_CONF_FILE");
    bool named = path && *path;
    struct file *file;
    size_t size;

    if (!named)
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
    file->named = named;
    read_file(file);
    file->next = files;
    files = file;
    return file;
}

/* NULL: the file does not set it. *path is the file's. */
static const struct setting *find_setting(const char *name, const char **path)
{
    struct setting *setting;
    struct file *file;

    pthread_mutex_lock(&lock);
    file = current_file();
    for (setting = file ? file->settings : NULL; setting; setting = setting->next) {
        if (setting->name && setting->value && !strcmp(setting->name, name))
            break;
    }
    *path = file ? file->path : NULL;
    pthread_mutex_unlock(&lock);
    return setting;
}

static bool prefers_file(void)
{
    const char *text = getenv("FI_PREFER_SYSCONFIG");

    return text && (!strcmp(text, "1") || !strcasecmp(text, "yes") || !strcasecmp(text, "true") ||
                    !strcasecmp(text, "on"));
}

/* Of the file, when it has the value from there; else NULL. */
static const struct setting *setting_used(const char *name, const char **value, const char **path)
{
    const struct setting *setting = NULL;

    *value = getenv(name);
    if (!*value || prefers_file())
        setting = find_setting(name, path);
    if (setting)
        *value = setting->value;
    return setting;
}

const char *param_variable(const char *name)
{
    const char *value, *path;

    setting_used(name, &value, &path);
    return value;
}

char *param_variable_origin(const char *name, char *text, size_t size)
{
    const char *value, *path;
    const struct setting *setting = setting_used(name, &value, &path);

    if (setting)
        snprintf(text, size, "%s:%u: %s", path, setting->line, name);
    else
        snprintf(text, size, "%s", name);
    return text;
}

/* The first behind that line; the list has the last line first. */
static const struct setting *next_setting(const struct file *file, unsigned line)
{
    const struct setting *next = NULL;

    for (const struct setting *s = file->settings; s && s->line > line; s = s->next)
        next = s;
    return next;
}

void param_file_each(void (*visit)(const char *name, const char *where, void *arg), void *arg)
{
    char where[LINE_LIMIT + 16];
    const struct setting *setting;
    struct file *file;

    pthread_mutex_lock(&lock);
    file = current_file();
    pthread_mutex_unlock(&lock);
    for (unsigned line = 0; file && (setting = next_setting(file, line)); line = setting->line) {
        snprintf(where, sizeof(where), "%s:%u", file->path, setting->line);
        if (setting->name)
            visit(setting->name, where, arg);
    }
}
