/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/av/av.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/av/av_impl.h"
#include "core/av/av_shared.h"
#include "core/av/av_table.h"
#include "core/base/enosys.h"
#include "core/base/log.h"
#include "core/info/tostr.h"
#include "core/net/addr.h"
#include "core/queue/eq.h"

const void *av_addr(const struct av *av, fi_addr_t addr)
{
    return av_table_get(av->table, addr);
}

fi_addr_t av_find(struct av *av, const void *addr)
{
    fi_addr_t found;

    pthread_mutex_lock(&av->mutex);
    found = av_table_find(av->table, addr);
    if (found == FI_ADDR_NOTAVAIL && av->shared && av_shared_catch_up(av) > 0)
        found = av_table_find(av->table, addr);
    pthread_mutex_unlock(&av->mutex);
    return found;
}

fi_addr_t av_user_id(const struct av *av, fi_addr_t addr)
{
    return av_table_id(av->table, addr);
}

int av_identify(struct av *av, fi_addr_t addr, fi_addr_t user_id)
{
    int rc = av_table_set_id(av->table, addr, user_id);

    if (!rc && user_id != addr)
        __atomic_store_n(&av->identifies, true, __ATOMIC_RELAXED);
    return rc;
}

size_t av_limit(const struct av *av)
{
    return av_table_limit(av->table);
}

int av_lock_shared(struct av *av, const char *call)
{
    int rc;

    pthread_mutex_lock(&av->mutex);
    rc = av_shared_begin(av, call);
    if (rc)
        pthread_mutex_unlock(&av->mutex);
    return rc;
}

int av_unlock_shared(struct av *av)
{
    int rc = av_shared_end(av);

    pthread_mutex_unlock(&av->mutex);
    return rc;
}

size_t av_addr_size(const struct av *av, const void *addr)
{
    if (av->kind)
        return av->kind->size;
    return av->format == FI_ADDR_STR ? strlen(addr) + 1 : addr_size(addr);
}

void av_tell_inserted(struct av *av, fi_addr_t addr)
{
    list_for_each_safe (pos, after, &av->listeners) {
        struct av_listener *listener = list_item(pos, struct av_listener, link);

        if (listener->inserted)
            listener->inserted(listener, addr);
    }
}

void av_tell_removed(struct av *av, fi_addr_t addr)
{
    list_for_each_safe (pos, after, &av->listeners) {
        struct av_listener *listener = list_item(pos, struct av_listener, link);

        if (listener->removed)
            listener->removed(listener, addr);
    }
}

static int remove_one(struct av *av, fi_addr_t addr)
{
    int rc;

    if (!av_addr(av, addr) || av_is_key(av, addr))
        return -FI_EINVAL;
    rc = av->shared ? av_shared_removed(av, addr) : 0;
    if (rc || av_table_remove_again(av->table, addr))
        return rc;
    av_tell_removed(av, addr);
    if (av->kind)
        av->kind->removed(av, addr);
    if (av->keys)
        av_key_use(av, addr, -1);
    av_table_remove(av->table, addr);
    return 0;
}

static int av_remove(struct fid_av *fid, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
    struct av *av = av_of(fid);
    int rc, ended;

    if (flags & ~FI_AUTH_KEY || (flags && !av->keys))
        return -FI_EBADFLAGS;
    if (count && !fi_addr)
        return -FI_EINVAL;
    rc = av_lock_for_change(av, "fi_av_remove");
    if (rc)
        return rc;
    for (size_t i = 0; i < count; i++) {
        int removed = flags ? av_remove_auth_key(av, fi_addr[i]) : remove_one(av, fi_addr[i]);

        rc = removed ? removed : rc;
    }
    ended = av_unlock_changed(av);
    return ended ? ended : rc;
}

static void catch_up(struct av *av)
{
    pthread_mutex_lock(&av->mutex);
    av_shared_catch_up(av);
    pthread_mutex_unlock(&av->mutex);
}

static int av_lookup(struct fid_av *fid, fi_addr_t fi_addr, void *addr, size_t *addrlen)
{
    struct av *av = av_of(fid);
    const void *stored;
    size_t room, need;

    if (av->shared)
        catch_up(av);
    stored = av_is_key(av, fi_addr) ? NULL : av_addr(av, fi_addr);
    if (!stored || !addrlen || (!addr && *addrlen))
        return -FI_EINVAL;
    room = *addrlen;
    need = av_addr_size(av, stored);
    if (room)
        memcpy(addr, stored, room < need ? room : need);
    *addrlen = need;
    return 0;
}

/* Bytes of a part's own. */
static void opaque_to_str(const struct av *av, const unsigned char *addr, char *text, size_t size)
{
    int len;

    if (tostr_addr(av->format, addr, av->kind->size, text, size))
        return;
    len = snprintf(text, size, "fi_%s://", av->domain->fabric->part);

    for (size_t i = 0; i < av->kind->size && (size_t)len + 3 < size; i++)
        len += snprintf(text + len, size - (size_t)len, "%02x", addr[i]);
}

static const char *av_straddr(struct fid_av *fid, const void *addr, char *buf, size_t *len)
{
    char text[AV_STR_MAX];
    int need;

    if (av_of(fid)->kind)
        opaque_to_str(av_of(fid), addr, text, sizeof(text));
    else if (av_of(fid)->format == FI_ADDR_STR)
        snprintf(text, sizeof(text), "%s", (const char *)addr);
    else
        addr_to_str(addr, text, sizeof(text));
    need = snprintf(buf, *len, "%s", text);
    *len = (size_t)need + 1;
    return buf;
}

static int av_set_user_id(struct fid_av *fid, fi_addr_t fi_addr, fi_addr_t user_id, uint64_t flags)
{
    struct av *av = av_of(fid);
    int rc = -FI_EINVAL;

    if (flags)
        return -FI_EBADFLAGS;
    pthread_mutex_lock(&av->mutex);
    if (av->flags & FI_AV_USER_ID && av_addr(av, fi_addr))
        rc = av_identify(av, fi_addr, user_id);
    if (!rc && av->kind)
        av->kind->identified(av, fi_addr);
    pthread_mutex_unlock(&av->mutex);
    return rc;
}

static struct fi_ops_av av_ops = {
    .size = sizeof(struct fi_ops_av),
    .insert = av_insert,
    .insertsvc = av_insertsvc,
    .insertsym = av_insertsym,
    .remove = av_remove,
    .lookup = av_lookup,
    .straddr = av_straddr,
    .av_set = enosys_av_av_set,
    .insert_auth_key = av_insert_auth_key,
    .lookup_auth_key = av_lookup_auth_key,
    .set_user_id = av_set_user_id,
};

static void destroy(struct av *av)
{
    if (av->kind)
        av->kind->closed(av);
    av_shared_close(av);
    av_table_destroy(av->table);
    free(av->keys);
    pthread_mutex_destroy(&av->mutex);
    free(av);
}

static int av_close(struct fid *fid)
{
    struct av *av = object_of(fid, struct av, fid.fid);

    if (children_any(&av->children))
        return -FI_EBUSY;
    if (av->eq)
        children_release(&av->eq->children);
    children_release(&av->domain->children);
    destroy(av);
    return 0;
}

static int av_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
    struct av *av = object_of(fid, struct av, fid.fid);

    if (flags)
        return -FI_EBADFLAGS;
    if (bfid->fclass != FI_CLASS_EQ || !eq_of(bfid) || !(av->flags & FI_EVENT) || av->eq)
        return -FI_EINVAL;
    av->eq = eq_of(bfid);
    children_hold(&av->eq->children);
    return 0;
}

static struct fi_ops av_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = av_close,
    .bind = av_bind,
    .control = enosys_control,
    NO_FID_TABLES,
};

static int check_name(const struct domain *domain, const struct fi_av_attr *attr)
{
    const struct fi_info *info = domain->info;

    if (!attr->name && attr->flags & FI_READ) {
        LOG_WARN(domain->fabric->part, FI_LOG_AV, "fi_av_open: FI_READ without a name");
        return -FI_EINVAL;
    }
    if (!attr->name || (info->caps | info->domain_attr->caps) & FI_SHARED_AV)
        return 0;
    LOG_WARN(
        domain->fabric->part, FI_LOG_AV,
        "fi_av_open: the name '%.100s' needs FI_SHARED_AV in the hints, and so in the domain's "
        "info",
        attr->name);
    return -FI_ENOSYS;
}

static int check_attr(const struct domain *domain, const struct fi_av_attr *attr)
{
    const uint64_t known = FI_EVENT | FI_SYMMETRIC | FI_AV_USER_ID | FI_READ;
    int rc;

    if (attr->type != FI_AV_UNSPEC && attr->type != FI_AV_MAP && attr->type != FI_AV_TABLE)
        return -FI_EINVAL;
    rc = check_name(domain, attr);
    if (rc)
        return rc;
    if (attr->rx_ctx_bits < 0 || attr->rx_ctx_bits > AV_CONTEXT_BITS) {
        LOG_WARN(domain->fabric->part, FI_LOG_AV, "fi_av_open: rx_ctx_bits %d, not 0 to %d",
                 attr->rx_ctx_bits, AV_CONTEXT_BITS);
        return -FI_EINVAL;
    }
    return attr->flags & ~known ? -FI_EBADFLAGS : 0;
}

static struct av *create(struct domain *domain, const struct fi_av_attr *attr,
                         const struct av_kind *kind, void *context)
{
    pthread_mutexattr_t recursive;
    struct av *av = calloc(1, kind ? kind->object_size : sizeof(*av));

    if (!av)
        return NULL;
    fid_init(&av->fid.fid, FI_CLASS_AV, context, &av_fid_ops);
    av->fid.ops = &av_ops;
    av->domain = domain;
    av->kind = kind;
    av->format = domain->info->addr_format;
    av->flags = attr->flags;
    av->rx_ctx_bits = (unsigned)attr->rx_ctx_bits;
    list_init(&av->listeners);
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&av->mutex, &recursive);
    pthread_mutexattr_destroy(&recursive);
    return av;
}

static bool has_keys(const struct domain *domain)
{
    return domain->info->domain_attr->auth_key_size == FI_AV_AUTH_KEY;
}

static int create_table(struct av *av, size_t count)
{
    size_t number = 0;

    if (!av->kind)
        return av_table_create(av->format, count, &av->table);
    if (has_keys(av->domain)) {
        av->keys = av_keys_create(av->domain->info->domain_attr->max_ep_auth_key);
        if (!av->keys)
            return -FI_ENOMEM;
        number = AV_KEY_NUMBER;
    }
    return av_table_create_opaque(av->kind->size + number, count, &av->table);
}

int av_open_kind(struct domain *domain, struct fi_av_attr *attr, const struct av_kind *kind,
                 struct fid_av **fid, void *context)
{
    int rc = attr ? check_attr(domain, attr) : -FI_EINVAL;
    struct av *av;

    if (rc)
        return rc;
    if (kind && attr->name)
        return -FI_ENOSYS;
    if (has_keys(domain) && (!kind || kind->size + AV_KEY_NUMBER > AV_KEYED_MAX))
        return -FI_ENOSYS;
    av = create(domain, attr, kind, context);
    if (!av)
        return -FI_ENOMEM;
    rc = create_table(av, attr->count);
    av->identifies = av->flags & FI_AV_USER_ID;
    if (!rc && av->identifies)
        av_table_require_ids(av->table);
    if (!rc && attr->name)
        rc = av_shared_open(av, attr);
    if (rc) {
        destroy(av);
        return rc;
    }
    children_hold(&domain->children);
    if (attr->type == FI_AV_UNSPEC)
        attr->type = FI_AV_TABLE;
    *fid = &av->fid;
    return 0;
}

int av_open(struct domain *domain, struct fi_av_attr *attr, struct fid_av **fid, void *context)
{
    return av_open_kind(domain, attr, NULL, fid, context);
}
