/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/shm/shm_name.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/hash.h"

static const char open_scheme[] = "fi_shm://";

/* The end of a name: a user and a number. */
#define OWNED "%u:%08u"

enum {
    SOCKET_NAME_MAX = 80 /* longer ones are hashed: sun_path has 108 bytes */
};

static int check(int written, const char *name)
{
    if (written <= 0 || written >= SHM_NAME_MAX)
        return -FI_EINVAL;
    for (const char *c = name; *c; c++) {
        if (!isgraph((unsigned char)*c))
            return -FI_EINVAL;
    }
    return 0;
}

int shm_name_make(const char *node, const char *service, char *name)
{
    int written;

    if (node && strstr(node, "://"))
        written = snprintf(name, SHM_NAME_MAX, "%s", node);
    else if (node && service)
        written = snprintf(name, SHM_NAME_MAX, "fi_ns://%s:%s", node, service);
    else if (service)
        written = snprintf(name, SHM_NAME_MAX, "fi_ns://%s", service);
    else if (node)
        written = snprintf(name, SHM_NAME_MAX, "%s%s", open_scheme, node);
    else
        written = snprintf(name, SHM_NAME_MAX, "%s%07d", open_scheme, (int)getpid());
    return check(written, name);
}

int shm_name_import(const void *raw, size_t len, char *name)
{
    size_t used = strnlen(raw, len);

    if (!used || used >= SHM_NAME_MAX)
        return -FI_EINVAL;
    char text[SHM_NAME_MAX];
    memcpy(text, raw, used);
    text[used] = 0;
    return check(snprintf(name, SHM_NAME_MAX, "%s%s", strstr(text, "://") ? "" : "fi_ns://", text),
                 name);
}

bool shm_name_is_sound(const char *name)
{
    return memchr(name, 0, SHM_NAME_MAX) && !check((int)strlen(name), name);
}

bool shm_name_is_open(const char *name)
{
    return !strncmp(name, open_scheme, sizeof(open_scheme) - 1);
}

int shm_name_complete(const char *open, unsigned number, char *name)
{
    return check(snprintf(name, SHM_NAME_MAX, "%s:" OWNED, open, (unsigned)geteuid(), number),
                 name);
}

static const char *bare(const char *name)
{
    const char *scheme = strstr(name, "://");

    return scheme ? scheme + 3 : name;
}

bool shm_name_equal(const char *a, const char *b)
{
    return !strcmp(bare(a), bare(b));
}

uint64_t shm_name_hash(const char *name)
{
    return hash_bytes(HASH_START, bare(name), strlen(bare(name)));
}

int shm_name_give(const char *name, void *addr, size_t *len)
{
    size_t need = strlen(name) + 1, room = *len;

    *len = need;
    if (addr && room)
        memcpy(addr, name, room < need ? room : need);
    return room < need ? -FI_ETOOSMALL : 0;
}

/* The user whose endpoint it is. A complete name says so, in the owner's own words: in another user
 * namespace the same user has another number. */
static unsigned owner_of(const char *text)
{
    const char *tail = strrchr(text, ':');
    unsigned uid, number;
    char again[32];

    while (tail && tail > text && tail[-1] != ':')
        tail--;
    if (!tail || tail == text || sscanf(tail, "%u:%u", &uid, &number) != 2)
        return (unsigned)geteuid();
    snprintf(again, sizeof(again), OWNED, uid, number);
    return strcmp(again, tail) ? (unsigned)geteuid() : uid;
}

socklen_t shm_name_socket(const char *name, unsigned context, struct sockaddr_un *sun)
{
    const char *text = bare(name);
    char *path = sun->sun_path + 1;
    size_t room = sizeof(sun->sun_path) - 1;
    unsigned owner = owner_of(text);
    int written;

    memset(sun, 0, sizeof(*sun));
    sun->sun_family = AF_UNIX;
    if (strlen(text) <= SOCKET_NAME_MAX)
        written = snprintf(path, room, "weft-shm/%u/%s", owner, text);
    else
        written =
            snprintf(path, room, "weft-shm/%u#%016llx%016llx", owner,
                     (unsigned long long)hash_bytes(HASH_START, text, strlen(text)),
                     (unsigned long long)hash_bytes(0x9ae16a3b2f90404full, text, strlen(text)));
    /* A blank is in no name. */
    if (context)
        written += snprintf(path + written, room - (size_t)written, " %u", context);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)written);
}

pid_t shm_name_pid(const char *name)
{
    unsigned long pid, user, number;
    int end = 0;

    if (!shm_name_is_open(name) ||
        sscanf(bare(name), "%lu:%lu:%lu%n", &pid, &user, &number, &end) != 3 || bare(name)[end])
        return 0;
    return (pid_t)pid;
}
