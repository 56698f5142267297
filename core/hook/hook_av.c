/* SPDX-License-Identifier: BSD-2-Clause */
/* Address vectors and their sets. */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/hook/hook_watch.h"

static struct hook_av *av_of(struct fid_av *fid)
{
    return object_of(fid, struct hook_av, fid);
}

static struct fid_av *lower_av(struct fid_av *fid)
{
    return av_of(fid)->lower;
}

HOOK_PASS(int, av_insert, (lower_av(av), addr, count, fi_addr, flags, context), struct fid_av *av,
          const void *addr, size_t count, fi_addr_t *fi_addr, uint64_t flags, void *context)
HOOK_PASS(int, av_insertsvc, (lower_av(av), node, service, fi_addr, flags, context),
          struct fid_av *av, const char *node, const char *service, fi_addr_t *fi_addr,
          uint64_t flags, void *context)
HOOK_PASS(int, av_insertsym,
          (lower_av(av), node, nodecnt, service, svccnt, fi_addr, flags, context),
          struct fid_av *av, const char *node, size_t nodecnt, const char *service, size_t svccnt,
          fi_addr_t *fi_addr, uint64_t flags, void *context)
HOOK_PASS(int, av_remove, (lower_av(av), fi_addr, count, flags), struct fid_av *av,
          fi_addr_t *fi_addr, size_t count, uint64_t flags)
HOOK_PASS(int, av_lookup, (lower_av(av), fi_addr, addr, addrlen), struct fid_av *av,
          fi_addr_t fi_addr, void *addr, size_t *addrlen)
HOOK_PASS(const char *, av_straddr, (lower_av(av), addr, buf, len), struct fid_av *av,
          const void *addr, char *buf, size_t *len)
HOOK_PASS(int, av_insert_auth_key, (lower_av(av), auth_key, auth_key_size, fi_addr, flags),
          struct fid_av *av, const void *auth_key, size_t auth_key_size, fi_addr_t *fi_addr,
          uint64_t flags)
HOOK_PASS(int, av_lookup_auth_key, (lower_av(av), addr, auth_key, auth_key_size), struct fid_av *av,
          fi_addr_t addr, void *auth_key, size_t *auth_key_size)
HOOK_PASS(int, av_set_user_id, (lower_av(av), fi_addr, user_id, flags), struct fid_av *av,
          fi_addr_t fi_addr, fi_addr_t user_id, uint64_t flags)

int hook_av_open(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **ret_av,
                 void *context)
{
    struct hook_domain *domain = hook_domain_of(fid);
    struct hook_av *av = calloc(1, sizeof(*av));
    bool peer = attr && attr->flags & FI_PEER;
    struct hook_opening opening = {
        .parent = &fid->fid, .context = context, .av = attr, .peer = peer};
    struct fi_peer_av_context down;
    int rc;

    if (!av)
        return -FI_ENOMEM;
    fid_init(&av->fid.fid, FI_CLASS_AV, peer ? NULL : context, domain->fabric->ops.av_fid);
    av->fid.ops = domain->fabric->ops.av;
    av->domain = domain;
    rc = hook_opening(domain->fabric, &av->fid.fid, &opening);
    if (!rc && peer)
        rc = hook_peer_av(av, context, &down);
    if (!rc)
        rc = fi_av_open(domain->lower, attr, &av->lower, peer ? (void *)&down : av);
    rc = hook_opened(domain->fabric, &domain->children, &av->fid.fid, rc, &opening);
    if (!rc)
        *ret_av = &av->fid;
    return rc;
}

/* ---- Sets ---- */

static struct fid_av_set *lower_set(const struct fid_av_set *fid)
{
    return object_of(fid, struct hook_av_set, fid)->lower;
}

static int av_set(struct fid_av *fid, struct fi_av_set_attr *attr, struct fid_av_set **ret_set,
                  void *context)
{
    struct hook_av *av = av_of(fid);
    struct hook_fabric *fabric = av->domain->fabric;
    struct hook_av_set *set = calloc(1, sizeof(*set));
    bool peer = attr && attr->flags & FI_PEER;
    struct hook_opening opening = {
        .parent = &fid->fid, .context = context, .av_set = attr, .peer = peer};
    struct fi_peer_av_set_context down;
    int rc;

    if (!set)
        return -FI_ENOMEM;
    fid_init(&set->fid.fid, FI_CLASS_AV_SET, peer ? NULL : context, fabric->ops.av_set_fid);
    set->fid.ops = fabric->ops.av_set;
    set->domain = av->domain;
    rc = hook_opening(fabric, &set->fid.fid, &opening);
    if (!rc && peer)
        rc = hook_peer_av_set(set, context, &down);
    if (!rc)
        rc = fi_av_set(av->lower, attr, &set->lower, peer ? (void *)&down : set);
    rc = hook_opened(fabric, &av->domain->children, &set->fid.fid, rc, &opening);
    if (!rc)
        *ret_set = &set->fid;
    return rc;
}

struct fi_ops_av hook_av_ops = {
    .size = sizeof(hook_av_ops),
    .insert = av_insert,
    .insertsvc = av_insertsvc,
    .insertsym = av_insertsym,
    .remove = av_remove,
    .lookup = av_lookup,
    .straddr = av_straddr,
    .av_set = av_set,
    .insert_auth_key = av_insert_auth_key,
    .lookup_auth_key = av_lookup_auth_key,
    .set_user_id = av_set_user_id,
};

HOOK_PASS(int, av_set_union, (lower_set(dst), lower_set(src)), struct fid_av_set *dst,
          const struct fid_av_set *src)
HOOK_PASS(int, av_set_intersect, (lower_set(dst), lower_set(src)), struct fid_av_set *dst,
          const struct fid_av_set *src)
HOOK_PASS(int, av_set_diff, (lower_set(dst), lower_set(src)), struct fid_av_set *dst,
          const struct fid_av_set *src)
HOOK_PASS(int, av_set_insert, (lower_set(set), addr), struct fid_av_set *set, fi_addr_t addr)
HOOK_PASS(int, av_set_remove, (lower_set(set), addr), struct fid_av_set *set, fi_addr_t addr)
HOOK_PASS(int, av_set_addr, (lower_set(set), coll_addr), struct fid_av_set *set,
          fi_addr_t *coll_addr)

struct fi_ops_av_set hook_av_set_ops = {
    .size = sizeof(hook_av_set_ops),
    .set_union = av_set_union,
    .intersect = av_set_intersect,
    .diff = av_set_diff,
    .insert = av_set_insert,
    .remove = av_set_remove,
    .addr = av_set_addr,
};
