/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/uet/service.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

enum {
    LINE = 512,
};

static const char blanks[] = " \t\r\n";

static const struct {
    const char *name;
    enum uet_service_field field;
    uint32_t most;
} fields[] = {
    {"job", SERVICE_JOB, 0xffffff},
    {"pid", SERVICE_PID, 0xfff},
    {"initiator", SERVICE_INITIATOR, UINT32_MAX},
    {"port", SERVICE_PORT, 0xffff},
    {"addressing", SERVICE_ADDRESSING, 0},
};

enum {
    FIELDS = sizeof(fields) / sizeof(fields[0])
};

static bool read_number(const char *text, uint32_t most, uint32_t *number)
{
    unsigned long long value;
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    value = strtoull(text, &end, 0);
    if (errno || *end || value > most)
        return false;
    *number = (uint32_t)value;
    return true;
}

static bool read_addressing(const char *text, bool *absolute)
{
    *absolute = !strcmp(text, "absolute");
    return *absolute || !strcmp(text, "relative");
}

static void set_field(struct uet_service *service, enum uet_service_field field, uint32_t number)
{
    switch (field) {
    case SERVICE_JOB: service->job = number; break;
    case SERVICE_PID: service->pid = (uint16_t)number; break;
    case SERVICE_INITIATOR: service->initiator = number; break;
    case SERVICE_PORT: service->port = (uint16_t)number; break;
    default: break;
    }
    service->fields |= field;
}

/* "key=value" into service. False, with the cause in why. */
static bool read_field(char *word, struct uet_service *service, char *why, size_t why_size)
{
    char *value = strchr(word, '=');
    uint32_t number = 0;
    size_t i = 0;

    if (value)
        *value++ = '\0';
    while (i < FIELDS && strcmp(word, fields[i].name))
        i++;
    if (i == FIELDS) {
        snprintf(why, why_size,
                 "there is no field '%.32s', but job, pid, initiator, port, addressing", word);
        return false;
    }
    if (service->fields & fields[i].field) {
        snprintf(why, why_size, "%s twice", word);
        return false;
    }
    if (!value || (fields[i].most ? !read_number(value, fields[i].most, &number)
                                  : !read_addressing(value, &service->absolute))) {
        if (fields[i].most)
            snprintf(why, why_size, "%s is a number to %u, not '%.32s'", word, fields[i].most,
                     value ? value : "");
        else
            snprintf(why, why_size, "addressing is relative or absolute, not '%.32s'",
                     value ? value : "");
        return false;
    }
    set_field(service, fields[i].field, number);
    return true;
}

/* One line. False, with the cause in why. name: empty for a line without a service. */
static bool read_line(char *line, const char **name, struct uet_service *service, char *why,
                      size_t why_size)
{
    char *rest = NULL, *word;

    line[strcspn(line, "#")] = '\0';
    *name = "";
    memset(service, 0, sizeof(*service));
    word = strtok_r(line, blanks, &rest);
    if (!word)
        return true;
    *name = word;
    if (strchr(word, '=')) {
        snprintf(why, why_size, "a line begins with the name of a service, not with '%.32s'", word);
        return false;
    }
    while ((word = strtok_r(NULL, blanks, &rest)))
        if (!read_field(word, service, why, why_size))
            return false;
    return true;
}

/* All lines are read, so that a wrong one is told whichever service is asked for. */
static int read_file(FILE *file, const char *path, const char *name, struct uet_service *service,
                     char *why, size_t why_size)
{
    char line[LINE], cause[200];
    struct uet_service one;
    const char *found;
    bool known = false;

    for (unsigned number = 1; fgets(line, sizeof(line), file); number++) {
        bool whole = strchr(line, '\n') || feof(file);

        if (!whole)
            snprintf(cause, sizeof(cause), "the line is longer than %d bytes", LINE - 2);
        if (!whole || !read_line(line, &found, &one, cause, sizeof(cause))) {
            snprintf(why, why_size, "%s:%u: %s", path, number, cause);
            return -FI_EINVAL;
        }
        if (strcmp(found, name))
            continue;
        if (known) {
            snprintf(why, why_size, "%s:%u: service '%.32s' twice", path, number, name);
            return -FI_EINVAL;
        }
        known = true;
        *service = one;
    }
    if (known)
        return 0;
    snprintf(why, why_size, "%s: there is no service '%.32s'", path, name);
    return -FI_EINVAL;
}

int uet_service_read(const char *path, const char *name, struct uet_service *service, char *why,
                     size_t why_size)
{
    FILE *file = fopen(path, "re");
    int rc;

    if (!file) {
        snprintf(why, why_size, "%s: %s", path, strerror(errno));
        return -FI_EINVAL;
    }
    rc = read_file(file, path, name, service, why, why_size);
    fclose(file);
    return rc;
}
