/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/lnx/lnx_name.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/base/log.h"

static int branch_name(const struct lnx_names *names, size_t i, struct lnx_addr_branch *name)
{
    const struct lnx_branch *branch = &names->domain->branch[i];

    name->kind = branch->kind;
    name->reach = branch->reach;
    name->format = names->info[i]->addr_format;
    name->len = sizeof(name->addr);
    return fi_getname(&names->ep[i]->fid, name->addr, &name->len);
}

static int encode(const struct lnx_names *names, unsigned char *raw, size_t size)
{
    struct lnx_addr *addr = calloc(1, sizeof(*addr));
    int rc = addr ? 0 : -FI_ENOMEM;

    progress_lock(names->domain->progress);
    for (size_t i = 0; !rc && i < names->count; i++) {
        if (names->no_local && names->domain->branch[i].local)
            continue;
        rc = branch_name(names, i, &addr->branch[addr->count]);
        addr->count += !rc;
    }
    progress_unlock(names->domain->progress);
    if (!rc && lnx_addr_encode(addr, raw, size) < addr->count)
        LOG_WARN("lnx", FI_LOG_EP_CTRL,
                 "the address of a branch is too long for that of the endpoint: peers do not "
                 "reach it there");
    free(addr);
    return rc;
}

/* With a face the endpoint has that one's address. */
static struct fid_ep *face_of(const struct lnx_names *names)
{
    return names->domain->face < names->count ? names->ep[names->domain->face] : NULL;
}

static int give_face(const struct lnx_names *names, void *addr, size_t *len)
{
    int rc;

    progress_lock(names->domain->progress);
    rc = fi_getname(&face_of(names)->fid, addr, len);
    progress_unlock(names->domain->progress);
    return rc;
}

int lnx_name_give(const struct lnx_names *names, void *addr, size_t *len)
{
    size_t size = lnx_addr_size(names->count), room = *len;
    unsigned char raw[LNX_ADDR_MAX];
    int rc;

    if (face_of(names))
        return give_face(names, addr, len);
    rc = encode(names, raw, size);
    if (rc)
        return rc;
    *len = size;
    if (addr && room)
        memcpy(addr, raw, room < size ? room : size);
    return room < size ? -FI_ETOOSMALL : 0;
}

static int set(const struct lnx_names *names, struct lnx_addr *addr)
{
    int rc = 0;

    for (size_t i = 0; !rc && i < names->count; i++) {
        for (size_t j = 0; !rc && j < addr->count; j++) {
            struct lnx_addr_branch *name = &addr->branch[j];

            if (name->kind != names->domain->branch[i].kind)
                continue;
            rc = fi_setname(&names->ep[i]->fid, name->addr, name->len);
            name->kind = 0;
            break;
        }
    }
    return rc;
}

static int decode(const struct lnx_names *names, const void *raw, size_t len, struct lnx_addr *addr)
{
    size_t size = lnx_addr_size(names->count);
    char why[200];
    int rc;

    if (!raw)
        return -FI_EINVAL;
    if (len != size) {
        LOG_WARN("lnx", FI_LOG_EP_CTRL,
                 "fi_setname: the address has %zu bytes; those of this bracket have %zu", len,
                 size);
        return -FI_EINVAL;
    }
    rc = lnx_addr_decode(raw, len, addr, why, sizeof(why));
    if (rc)
        LOG_WARN("lnx", FI_LOG_EP_CTRL, "fi_setname: the address is none of lnx: %s", why);
    return rc;
}

static int set_face(const struct lnx_names *names, const void *raw, size_t len)
{
    int rc;

    progress_lock(names->domain->progress);
    rc = fi_setname(&face_of(names)->fid, (void *)(uintptr_t)raw, len);
    progress_unlock(names->domain->progress);
    return rc;
}

int lnx_name_set(const struct lnx_names *names, const void *raw, size_t len)
{
    struct lnx_addr *addr;
    int rc;

    if (face_of(names))
        return set_face(names, raw, len);
    addr = malloc(sizeof(*addr));
    rc = addr ? decode(names, raw, len, addr) : -FI_ENOMEM;
    if (!rc) {
        progress_lock(names->domain->progress);
        rc = set(names, addr);
        progress_unlock(names->domain->progress);
    }
    free(addr);
    return rc;
}
