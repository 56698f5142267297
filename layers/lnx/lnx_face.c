/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/lnx/lnx_face.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

static const char scheme[] = "lnx://";

enum {
    PACKED_MAX = LNX_BRANCH_ADDR_MAX / 2 - sizeof(scheme), /* as digits it is a branch's address */
};

/* ---- An address as a text ---- */

bool lnx_face_write(const struct lnx_addr_branch *face, struct lnx_addr_branch *inside)
{
    unsigned char packed[PACKED_MAX];
    size_t len = lnx_addr_pack(face, packed, sizeof(packed)), at = sizeof(scheme) - 1;
    char *text = (char *)inside->addr;

    memcpy(text, scheme, sizeof(scheme));
    for (size_t i = 0; i < len; i++)
        at += (size_t)sprintf(text + at, "%02x", packed[i]);
    inside->format = FI_ADDR_STR;
    inside->len = at + 1;
    return len;
}

static int digit(char c)
{
    if (!isxdigit((unsigned char)c))
        return -1;
    return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

bool lnx_face_read(const struct lnx_addr_branch *inside, struct lnx_addr_branch *face)
{
    const char *text = (const char *)inside->addr, *end = memchr(text, 0, inside->len);
    unsigned char packed[PACKED_MAX];
    size_t len = 0;

    if (!end || strncmp(text, scheme, sizeof(scheme) - 1) != 0)
        return false;
    for (text += sizeof(scheme) - 1; *text; text += 2) {
        int upper = digit(text[0]), lower = upper < 0 ? -1 : digit(text[1]);

        if (lower < 0 || len == sizeof(packed))
            return false;
        packed[len++] = (unsigned char)(upper << 4 | lower);
    }
    return lnx_addr_unpack(packed, len, face);
}

/* ---- Signs ---- */

/* The length of its name, or 0. */
static socklen_t sign_name(const struct lnx_addr_branch *face, struct sockaddr_un *sun)
{
    char *path = sun->sun_path + 1; /* an abstract name: in no directory */
    size_t room = sizeof(sun->sun_path) - 1;
    struct lnx_addr_branch inside;
    int written;

    if (!lnx_face_write(face, &inside))
        return 0;
    memset(sun, 0, sizeof(*sun));
    sun->sun_family = AF_UNIX;
    written = snprintf(path, room, "weft-lnx/%u/%s", (unsigned)geteuid(),
                       (char *)inside.addr + sizeof(scheme) - 1);
    if (written < 0 || (size_t)written >= room)
        return 0;
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)written);
}

static int open_socket(void)
{
    return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

static bool has_sign(const struct lnx_addr_branch *face)
{
    struct sockaddr_un sun;
    socklen_t len = sign_name(face, &sun);
    int fd = len ? open_socket() : -1;
    bool has = fd >= 0 && !connect(fd, (struct sockaddr *)&sun, len);

    if (fd >= 0)
        close(fd);
    return has;
}

static int put_up(const struct lnx_addr_branch *face, int *sign)
{
    struct sockaddr_un sun;
    socklen_t len = sign_name(face, &sun);
    int fd = len ? open_socket() : -1;

    if (!len)
        return -FI_EINVAL;
    if (fd < 0 || bind(fd, (struct sockaddr *)&sun, len)) {
        int rc = -errno;

        if (fd >= 0)
            close(fd);
        return rc;
    }
    *sign = fd;
    return 0;
}

/* ---- Addresses ---- */

static const struct lnx_branch *face_of(const struct lnx_domain *domain)
{
    return &domain->branch[domain->face];
}

size_t lnx_face_size(const struct lnx_domain *domain)
{
    return domain->face < domain->count ? face_of(domain)->info->src_addrlen
                                        : lnx_addr_size(domain->count);
}

/* A branch that the peer, who has a sign, listens in. */
static bool add_inside(const struct lnx_branch *branch, const struct lnx_addr_branch *face,
                       struct lnx_addr_branch *inside)
{
    inside->kind = branch->kind;
    inside->reach = branch->reach;
    return lnx_face_write(face, inside);
}

static bool has_inside(const struct lnx_domain *domain)
{
    for (size_t i = 0; i < domain->count; i++) {
        if (i != domain->face && domain->branch[i].local)
            return true;
    }
    return false;
}

int lnx_face_decode(const struct lnx_domain *domain, const void *raw, struct lnx_addr *addr,
                    char *why, size_t why_size)
{
    size_t size = lnx_face_size(domain);
    struct lnx_addr_branch *face = &addr->branch[0];

    if (domain->face >= domain->count)
        return lnx_addr_decode(raw, size, addr, why, why_size);
    face->kind = face_of(domain)->kind;
    face->reach.len = 0;
    face->format = face_of(domain)->info->addr_format;
    face->len = size;
    memcpy(face->addr, raw, size);
    addr->count = 1;
    if (!has_inside(domain) || !has_sign(face))
        return 0;
    for (size_t i = 0; i < domain->count; i++) {
        const struct lnx_branch *branch = &domain->branch[i];

        if (i != domain->face && branch->local)
            addr->count += add_inside(branch, face, &addr->branch[addr->count]);
    }
    return 0;
}

size_t lnx_face_encode(const struct lnx_domain *domain, const struct lnx_addr *addr,
                       unsigned char *raw)
{
    const struct lnx_addr_branch *known = &addr->branch[0];
    size_t size = lnx_face_size(domain);
    struct lnx_addr_branch face;

    if (domain->face >= domain->count)
        return lnx_addr_encode(addr, raw, size) ? size : 0;
    if (known->kind != face_of(domain)->kind) {
        if (!lnx_face_read(known, &face))
            return 0;
        known = &face;
    }
    if (known->len != size)
        return 0;
    memcpy(raw, known->addr, size);
    return size;
}

/* ---- Names ---- */

static int own_addr(const struct lnx_domain *domain, struct fid_ep *ep,
                    struct lnx_addr_branch *face)
{
    int rc;

    face->format = face_of(domain)->info->addr_format;
    face->len = sizeof(face->addr);
    rc = fi_getname(&ep->fid, face->addr, &face->len);
    return !rc && face->len != lnx_face_size(domain) ? -FI_EINVAL : rc;
}

int lnx_face_name(const struct lnx_domain *domain, struct fid_ep *const *ep)
{
    struct lnx_addr_branch face, inside;
    int rc = own_addr(domain, ep[domain->face], &face);

    if (!rc && !lnx_face_write(&face, &inside))
        rc = -FI_EINVAL;
    for (size_t i = 0; !rc && i < domain->count; i++) {
        if (i != domain->face && domain->branch[i].local)
            rc = fi_setname(&ep[i]->fid, inside.addr, inside.len);
    }
    return rc;
}

int lnx_face_show(const struct lnx_domain *domain, struct fid_ep *ep, int *sign)
{
    struct lnx_addr_branch face;
    int rc = has_inside(domain) ? own_addr(domain, ep, &face) : -FI_ENODATA;

    return rc ? rc : put_up(&face, sign);
}
