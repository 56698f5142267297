/* SPDX-License-Identifier: BSD-2-Clause */
/* Locks, outermost first: the AV's, the domain's progress lock, those of the branches' AVs. */
#include "layers/lnx/lnx_av.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "layers/lnx/lnx_face.h"
#include "layers/lnx/lnx_stranger.h"

enum {
    WHY_MAX = 200
};

/* ---- The choice ---- */

static bool reaches(const struct lnx_branch *branch, const struct lnx_addr_branch *peer)
{
    struct reach reach = peer->reach;

    if (!branch->reach.len)
        return true;
    return reach.len && !fi_control(&branch->domain->fid, CONTROL_REACHES, &reach);
}

/* The index of the branch among the domain's branches of its kind: peers pair these in order. */
static size_t number_in_kind(const struct lnx_domain *domain, unsigned branch)
{
    size_t number = 0;

    for (unsigned i = 0; i < branch; i++)
        number += domain->branch[i].kind == domain->branch[branch].kind;
    return number;
}

/* The part of the peer's address that our branch can use, or NULL. */
static const struct lnx_addr_branch *counterpart(const struct lnx_domain *domain, unsigned branch,
                                                 const struct lnx_addr *addr)
{
    size_t number = number_in_kind(domain, branch), seen = 0;
    const struct lnx_addr_branch *last = NULL;

    for (size_t i = 0; i < addr->count; i++) {
        if (addr->branch[i].kind != domain->branch[branch].kind)
            continue;
        last = &addr->branch[i];
        if (seen++ == number)
            break;
    }
    return last && reaches(&domain->branch[branch], last) ? last : NULL;
}

/* The first branch that reaches the peer, and the others of its kind; peers take turns in which of
 * them is the first of rails. Returns how many there are. */
static unsigned choose(const struct lnx_av *av, fi_addr_t index, const struct lnx_addr *addr,
                       unsigned *rails)
{
    const struct lnx_domain *domain = av->domain;
    unsigned found[LNX_BRANCHES], count = 0;

    for (unsigned i = 0; i < domain->count; i++) {
        const struct lnx_branch *branch = &domain->branch[i];

        if ((av->no_local && branch->local) || !counterpart(domain, i, addr))
            continue;
        if (!count || branch->kind == domain->branch[found[0]].kind)
            found[count++] = i;
    }
    for (unsigned i = 0; i < count; i++)
        rails[i] = found[(index + i) % count];
    return count;
}

/* ---- Paths ---- */

static int grow_paths(struct lnx_av *av, fi_addr_t index)
{
    size_t count = 2 * (index + 8), rails = av->domain->rails;
    struct lnx_path *grown;

    if (index < av->path_count)
        return 0;
    grown = realloc(av->paths, count * rails * sizeof(*grown));
    if (!grown)
        return -FI_ENOMEM;
    for (size_t i = av->path_count * rails; i < count * rails; i++)
        grown[i] = (struct lnx_path){LNX_NO_ADDR, LNX_NO_BRANCH};
    av->paths = grown;
    av->path_count = count;
    lnx_av_note(av->domain, LNX_AV_CHANGED);
    return 0;
}

static int set_up(struct lnx_av *av, unsigned branch, fi_addr_t addr, fi_addr_t up)
{
    size_t count = av->branch[branch].up_count, wanted = 2 * (addr + 8);
    uint32_t *grown;

    if (addr >= count) {
        grown = realloc(av->branch[branch].up, wanted * sizeof(*grown));
        if (!grown)
            return -FI_ENOMEM;
        for (size_t i = count; i < wanted; i++)
            grown[i] = LNX_NO_ADDR;
        av->branch[branch].up = grown;
        av->branch[branch].up_count = wanted;
    }
    av->branch[branch].up[addr] = up < LNX_NO_ADDR ? (uint32_t)up : LNX_NO_ADDR;
    return 0;
}

static int identify(struct lnx_av *av, unsigned branch, fi_addr_t addr, fi_addr_t id)
{
    if (!(av->base.flags & FI_AV_USER_ID))
        return 0;
    return fi_av_set_user_id(av->branch[branch].av, addr, id, 0);
}

static int insert_below(struct lnx_av *av, unsigned branch, const void *raw, fi_addr_t source,
                        fi_addr_t up, fi_addr_t *ret_addr)
{
    bool late = av->base.flags & FI_AV_USER_ID;
    struct fid_av *below = av->branch[branch].av;
    fi_addr_t addr = source;
    int rc = fi_av_insert(below, raw, 1, &addr, late ? 0 : FI_AV_USER_ID, NULL);

    if (rc != 1)
        return rc < 0 ? rc : -FI_EINVAL;
    rc = addr >= LNX_NO_ADDR ? -FI_EINVAL : set_up(av, branch, addr, up);
    if (!rc)
        rc = identify(av, branch, addr, source);
    if (rc)
        fi_av_remove(below, &addr, 1, 0);
    else
        *ret_addr = addr;
    return rc;
}

int lnx_av_insert_below(struct lnx_av *av, unsigned branch, const void *raw, fi_addr_t source,
                        fi_addr_t *addr)
{
    return insert_below(av, branch, raw, source, FI_ADDR_UNSPEC, addr);
}

static int enter(struct lnx_av *av, unsigned branch, fi_addr_t index, const void *raw,
                 struct lnx_path *path)
{
    fi_addr_t addr;
    int rc;

    lnx_stranger_forget(av, branch, raw);
    rc = insert_below(av, branch, raw, av_source(&av->base, index), index, &addr);
    if (rc)
        return rc;
    *path = (struct lnx_path){(uint32_t)addr, branch};
    if (addr != index)
        lnx_av_note(av->domain, LNX_AV_RENUMBERED);
    return 0;
}

static void leave(struct lnx_av *av, fi_addr_t index, struct lnx_path *path)
{
    fi_addr_t addr = path->addr;

    if (path->branch == LNX_NO_BRANCH)
        return;
    lnx_answers_forget(&av->answers, path->branch, path->addr);
    if (lnx_av_up(av, path->branch, path->addr) == index)
        av->branch[path->branch].up[path->addr] = LNX_NO_ADDR;
    fi_av_remove(av->branch[path->branch].av, &addr, 1, 0);
    path->branch = LNX_NO_BRANCH;
    lnx_av_note(av->domain, LNX_AV_CHANGED);
}

static void drop_path(struct lnx_av *av, fi_addr_t index)
{
    for (unsigned i = 0; i < av->domain->rails && index < av->path_count; i++)
        leave(av, index, &av->paths[index * av->domain->rails + i]);
    if (index < av->beside_count)
        leave(av, index, &av->beside[index]);
}

/* By all of these branches, of which there may be none. */
static int add_path(struct lnx_av *av, fi_addr_t index, const unsigned *rails, unsigned count,
                    const struct lnx_addr *addr)
{
    int rc = grow_paths(av, index);

    for (unsigned i = 0; !rc && i < count; i++) {
        const struct lnx_addr_branch *peer = counterpart(av->domain, rails[i], addr);
        struct lnx_path *path = &av->paths[index * av->domain->rails + i];

        rc = enter(av, rails[i], index, peer->addr, path);
        if (!rc)
            lnx_av_note(av->domain, LNX_AV_CHANGED);
    }
    if (rc)
        drop_path(av, index);
    return rc;
}

/* ---- Two ways to peers of this node, where there is a face ---- */

static struct lnx_path *beside(const struct lnx_av *av, fi_addr_t index)
{
    return index < av->beside_count && av->beside[index].branch != LNX_NO_BRANCH
               ? &av->beside[index]
               : NULL;
}

static int grow_beside(struct lnx_av *av, fi_addr_t index)
{
    size_t count = 2 * (index + 8);
    struct lnx_path *grown;

    if (index < av->beside_count)
        return 0;
    grown = realloc(av->beside, count * sizeof(*grown));
    if (!grown)
        return -FI_ENOMEM;
    for (size_t i = av->beside_count; i < count; i++)
        grown[i] = (struct lnx_path){LNX_NO_ADDR, LNX_NO_BRANCH};
    av->beside = grown;
    av->beside_count = count;
    return 0;
}

/* A peer that is found inside of the node is known by the face, too: it may be forbidden to send
 * there. */
static int add_beside(struct lnx_av *av, fi_addr_t index, const struct lnx_addr *addr)
{
    const struct lnx_domain *domain = av->domain;
    const struct lnx_path *path = lnx_av_path(av, index);
    unsigned face = (unsigned)domain->face;
    int rc;

    if (domain->face >= domain->count || !path || path->branch == face)
        return 0;
    rc = grow_beside(av, index);
    if (rc)
        return rc;
    return enter(av, face, index, counterpart(domain, face, addr)->addr, &av->beside[index]);
}

/* Progress domain locked. */
static int add(struct lnx_av *av, fi_addr_t index, const unsigned *rails, unsigned count,
               const struct lnx_addr *addr)
{
    int rc = add_path(av, index, rails, count, addr);

    if (!rc)
        rc = add_beside(av, index, addr);
    if (rc)
        drop_path(av, index);
    return rc;
}

/* Sends take the way that is permitted now; messages may still come by the other. */
static bool swap(struct lnx_av *av, fi_addr_t index)
{
    struct lnx_path *path = &av->paths[index * av->domain->rails], *other = beside(av, index), was;

    if (!other)
        return false;
    if (av->no_local == av->domain->branch[path->branch].local) {
        was = *path;
        *path = *other;
        *other = was;
        lnx_av_note(av->domain, LNX_AV_CHANGED | LNX_AV_RENUMBERED);
    }
    return true;
}

/* ---- Addresses ---- */

/* Decodes on the heap: it is large. NULL with a sentence, or without memory. */
static struct lnx_addr *decode(const struct av *av, const void *raw, char *why)
{
    struct lnx_addr *addr = malloc(sizeof(*addr));

    why[0] = 0;
    if (addr &&
        !lnx_face_decode(object_of(av->domain, struct lnx_domain, base), raw, addr, why, WHY_MAX))
        return addr;
    free(addr);
    return NULL;
}

/* Of the addresses of a face its branch knows. */
static bool usable(const struct av *av, const void *raw)
{
    const struct lnx_domain *domain = object_of(av->domain, struct lnx_domain, base);
    struct lnx_addr *addr;
    char why[WHY_MAX];

    if (domain->face < domain->count)
        return true;
    addr = decode(av, raw, why);
    if (!addr)
        LOG_WARN("lnx", FI_LOG_AV, "fi_av_insert: the address is none of lnx: %s", why);
    free(addr);
    return addr != NULL;
}

static int inserted(struct av *base, fi_addr_t index, const void *raw)
{
    struct lnx_av *av = lnx_av_of(base);
    char why[WHY_MAX];
    struct lnx_addr *addr = decode(base, raw, why);
    unsigned rails[LNX_BRANCHES], count;
    int rc = -FI_EHOSTUNREACH;

    if (!addr)
        return -FI_ENOMEM;
    progress_lock(av->domain->progress);
    count = choose(av, index, addr, rails);
    if (count)
        rc = add(av, index, rails, count, addr);
    progress_unlock(av->domain->progress);
    if (!count)
        LOG_WARN("lnx", FI_LOG_AV,
                 "fi_av_insert: no branch of ours reaches the peer, whose address is of %zu; they "
                 "must have one in common (protocol and form of addresses)",
                 addr->count);
    free(addr);
    return rc;
}

static void removed(struct av *base, fi_addr_t index)
{
    struct lnx_av *av = lnx_av_of(base);

    progress_lock(av->domain->progress);
    drop_path(av, index);
    progress_unlock(av->domain->progress);
}

static void rename_path(struct lnx_av *av, fi_addr_t index, const struct lnx_path *path)
{
    if (identify(av, path->branch, path->addr, av_source(&av->base, index)))
        LOG_WARN("lnx", FI_LOG_AV, "fi_av_set_user_id: the branch does not take it");
}

static void identified(struct av *base, fi_addr_t index)
{
    struct lnx_av *av = lnx_av_of(base);
    const struct lnx_path *path;

    progress_lock(av->domain->progress);
    path = lnx_av_path(av, index);
    for (unsigned i = 0; path && i < av->domain->rails && path[i].branch != LNX_NO_BRANCH; i++)
        rename_path(av, index, &path[i]);
    if (beside(av, index))
        rename_path(av, index, beside(av, index));
    progress_unlock(av->domain->progress);
}

/* Chooses again. Progress domain locked. */
static void choose_again(struct lnx_av *av, fi_addr_t index, const void *raw, struct lnx_addr *addr)
{
    const struct lnx_path *path = lnx_av_path(av, index);
    char why[WHY_MAX];
    unsigned rails[LNX_BRANCHES], count;

    if (swap(av, index) || lnx_face_decode(av->domain, raw, addr, why, sizeof(why)))
        return;
    count = choose(av, index, addr, rails);
    if (count && path && path->branch == rails[0])
        return;
    drop_path(av, index);
    if (!count || add(av, index, rails, count, addr))
        LOG_WARN("lnx", FI_LOG_AV, "a peer cannot be reached without shared memory");
}

void lnx_av_permit_local(struct lnx_av *av, bool permitted)
{
    struct lnx_addr *addr = malloc(sizeof(*addr));

    pthread_mutex_lock(&av->base.mutex);
    progress_lock(av->domain->progress);
    av->no_local = !permitted;
    for (fi_addr_t index = 0; addr && index < av_limit(&av->base); index++) {
        const void *raw = av_addr(&av->base, index);

        if (raw)
            choose_again(av, index, raw, addr);
    }
    progress_unlock(av->domain->progress);
    pthread_mutex_unlock(&av->base.mutex);
    free(addr);
}

/* ---- The object ---- */

static void closed(struct av *base)
{
    struct lnx_av *av = lnx_av_of(base);

    if (!av->domain)
        return;
    progress_lock(av->domain->progress);
    lnx_strangers_finish(av);
    lnx_answers_finish(&av->answers);
    for (unsigned i = 0; i < LNX_BRANCHES; i++) {
        if (av->branch[i].av)
            fi_close(&av->branch[i].av->fid);
        free(av->branch[i].up);
    }
    progress_unlock(av->domain->progress);
    free(av->paths);
    free(av->beside);
}

static int open_branches(struct lnx_av *av, const struct fi_av_attr *attr)
{
    struct fi_av_attr below = {
        .type = FI_AV_TABLE,
        .rx_ctx_bits = attr->rx_ctx_bits,
        .count = attr->count,
        .flags = attr->flags & FI_AV_USER_ID,
    };
    int rc = 0;

    progress_lock(av->domain->progress);
    for (unsigned i = 0; !rc && i < av->domain->count; i++)
        rc = fi_av_open(av->domain->branch[i].domain, &below, &av->branch[i].av, NULL);
    progress_unlock(av->domain->progress);
    return rc;
}

/* Of a domain's AVs; one for each size of their addresses. */
#define KIND(branches)                                                                             \
    {                                                                                              \
        .size = LNX_ADDR_TWO + ((branches) > 2 ? (branches)-2 : 0) * LNX_ADDR_MORE,                \
        .object_size = sizeof(struct lnx_av), .usable = usable, .inserted = inserted,              \
        .removed = removed, .identified = identified, .closed = closed,                            \
    }

static const struct av_kind kinds[LNX_BRANCHES + 1] = {
    KIND(0), KIND(1), KIND(2), KIND(3), KIND(4), KIND(5), KIND(6), KIND(7), KIND(8),
};

static const struct av_kind *kind_of(struct lnx_domain *domain)
{
    if (domain->face >= domain->count)
        return &kinds[domain->count];
    domain->av_kind = kinds[0];
    domain->av_kind.size = lnx_face_size(domain);
    return &domain->av_kind;
}

int lnx_av_open(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **ret_av,
                void *context)
{
    struct lnx_domain *domain = lnx_domain_of(fid);
    struct fid_av *made;
    struct lnx_av *av;
    int rc = av_open_kind(&domain->base, attr, kind_of(domain), &made, context);

    if (rc)
        return rc;
    av = lnx_av_of(object_of(made, struct av, fid));
    lnx_answers_init(&av->answers);
    list_init(&av->strangers);
    av->domain = domain;
    rc = open_branches(av, attr);
    if (rc)
        fi_close(&made->fid);
    else
        *ret_av = made;
    return rc;
}
