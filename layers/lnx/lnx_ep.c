/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/lnx/lnx_ep.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/base/log.h"
#include "core/base/seam.h"
#include "core/base/table.h"
#include "core/domain/base.h"
#include "core/ep/endpoint_option.h"
#include "core/info/info.h"
#include "core/op/atomic.h"
#include "layers/lnx/lnx_face.h"
#include "layers/lnx/lnx_info.h"
#include "layers/lnx/lnx_name.h"
#include "layers/lnx/lnx_quick.h"
#include "layers/lnx/lnx_sep.h"

static struct lnx_ep *ep_of(struct endpoint *base)
{
    return object_of(base, struct lnx_ep, base);
}

/* ---- Operations ---- */

/* Branches take changes of their AVs when they are driven; until then they refuse some posts. */
static void take_av_changes(struct lnx_ep *ep)
{
    if (!ep->top)
        return;
    atomic_fetch_and(&ep->domain->av_state, ~(unsigned)LNX_AV_CHANGED);
    progress_poll(ep->domain->progress);
}

void lnx_ep_drive(struct lnx_ep *ep)
{
    ep->quick.unseen = 1;
    if (ep->top)
        progress_poll(ep->domain->progress);
    progress_wake(ep->domain->progress);
}

static bool has_descs(const struct op *op)
{
    return op->desc || (op->group == OP_GROUP_ATOMIC && (op->result.desc || op->compare.desc));
}

/* Is op larger than the endpoint's limits? Refused on every branch alike, even on one that could
 * take it. */
static bool is_too_much(const struct lnx_ep *ep, const struct op *op)
{
    size_t limit = ep->info->tx_attr->inject_size, count;

    if (op->group == OP_GROUP_ATOMIC) {
        if (lnx_atomic_count(ep->domain, op->function, op->datatype, op->op, &count))
            return false; /* the caller finds out */
        if (op->len > count)
            return true;
        limit /= atomic_size(op->datatype);
    }
    return op->len > limit && op_final_flags(op, ep->base.tx_op_flags) & FI_INJECT;
}

static ssize_t check_transmit(const struct lnx_ep *ep, const struct op *op)
{
    if (op->group == OP_GROUP_ATOMIC &&
        lnx_atomic_count(ep->domain, op->function, op->datatype, op->op, NULL))
        return -FI_EOPNOTSUPP;
    return is_too_much(ep, op) ? -FI_EMSGSIZE : 0;
}

/* The join's own messages have tags that the application was not offered. */
static bool is_reserved(const struct lnx_ep *ep, const struct op *op)
{
    return ep->domain->own_keys && op->group & OP_GROUP_TAGGED && op->tag & LNX_KEY_TAGS;
}

/* A caller that tries again does so with what it gave. */
static ssize_t post_translated(struct lnx_ep *ep, unsigned branch, struct op *op)
{
    struct op mine = *op;
    int rc = lnx_mr_translate(ep->domain, branch, &mine, &ep->descs);

    return rc ? rc : op_post(&ep->branch[branch].target, &mine);
}

static ssize_t post_on(struct lnx_ep *ep, unsigned branch, struct op *op)
{
    if (__builtin_expect(ep->domain->local_mr && has_descs(op), 0))
        return post_translated(ep, branch, op);
    return op_post(&ep->branch[branch].target, op);
}

/* To a branch that chooses the keys of its regions, as others do. */
static ssize_t post_with_keys(struct lnx_ep *ep, const struct lnx_path *path, struct op *op)
{
    struct op mine = *op;
    ssize_t rc = lnx_keys_translate(ep, path, &mine, &ep->remote);

    return rc ? rc : post_on(ep, path->branch, &mine);
}

/* The one of the peer's paths whose turn it is. */
static const struct lnx_path *path_in_turn(struct lnx_ep *ep, const struct lnx_path *paths)
{
    unsigned count = 1;

    while (count < ep->domain->rails && paths[count].branch != LNX_NO_BRANCH)
        count++;
    return &paths[ep->turn++ % count];
}

static bool wants_keys(const struct lnx_ep *ep, const struct lnx_path *path, const struct op *op)
{
    return ep->domain->own_keys && op->group & (OP_GROUP_RMA | OP_GROUP_ATOMIC) &&
           ep->domain->branch[path->branch].keys && !(op->flags & FI_MATCH_COMPLETE);
}

/* The bits of a fi_addr_t that name a receive context go down as they are. */
static fi_addr_t index_of(const struct lnx_ep *ep, fi_addr_t addr)
{
    return ep->context_bits ? addr & (UINT64_MAX >> ep->context_bits) : addr;
}

static ssize_t post_receive(struct lnx_ep *ep, struct op *op)
{
    const struct lnx_path *path;

    if (!ep->alone)
        return ep->base.match ? match_receive(ep->base.match, op) : -FI_EOPBADSTATE;
    if (op->peer != FI_ADDR_UNSPEC &&
        ep->base.caps & (FI_DIRECTED_RECV | FI_TAGGED_DIRECTED_RECV)) {
        path = lnx_av_path(ep->av, op->peer);
        if (!path)
            return -FI_EINVAL;
        op->peer = path->addr;
    }
    return post_on(ep, 0, op);
}

static ssize_t post_transmit(struct lnx_ep *ep, struct op *op)
{
    fi_addr_t index = index_of(ep, op->peer);
    const struct lnx_path *path = lnx_av_path(ep->av, index);

    if (__builtin_expect(ep->count > 1 && (op->group == OP_GROUP_ATOMIC ||
                                           op->len > ep->info->tx_attr->inject_size),
                         0)) {
        ssize_t rc = check_transmit(ep, op);

        if (rc)
            return rc;
    }
    if (__builtin_expect(!path, 0))
        return av_addr(&ep->av->base, index) ? -FI_EHOSTUNREACH : -FI_EINVAL;
    if (__builtin_expect(ep->domain->per_msg, 0))
        path = path_in_turn(ep, path);
    op->peer = path->addr | (op->peer ^ index);
    if (__builtin_expect(wants_keys(ep, path, op), 0))
        return post_with_keys(ep, path, op);
    return post_on(ep, path->branch, op);
}

static ssize_t post(struct ep *base, struct op *op)
{
    struct lnx_ep *ep = object_of(base, struct lnx_ep, base.base);
    fi_addr_t peer = op->peer;
    ssize_t rc;

    if (__builtin_expect(!ep->av, 0))
        return -FI_EOPBADSTATE;
    if (__builtin_expect(is_reserved(ep, op), 0))
        return -FI_EINVAL;
    progress_lock(ep->domain->progress);
    if (__builtin_expect(lnx_av_state(ep->domain) & LNX_AV_CHANGED, 0))
        take_av_changes(ep);
    if (op->group & (OP_GROUP_RECV | OP_GROUP_TRECV))
        rc = post_receive(ep, op);
    else
        rc = post_transmit(ep, op);
    if (__builtin_expect(rc == -FI_EAGAIN, 0)) {
        op->peer = peer;
        lnx_ep_drive(ep);
    }
    progress_unlock(ep->domain->progress);
    return rc;
}

static int valid_atomic(struct ep *base, uint64_t function, enum fi_datatype datatype,
                        enum fi_op op, size_t *count)
{
    struct lnx_ep *ep = object_of(base, struct lnx_ep, base.base);
    int rc;

    progress_lock(ep->domain->progress);
    rc = lnx_atomic_count(ep->domain, function, datatype, op, count);
    progress_unlock(ep->domain->progress);
    return rc;
}

/* ---- Options ---- */

static size_t limit(struct endpoint *base, int option)
{
    struct lnx_ep *ep = ep_of(base);
    size_t least = SIZE_MAX;

    for (size_t i = 0; i < ep->count; i++) {
        size_t one, len = sizeof(one);

        if (fi_getopt(&ep->branch[i].ep->fid, FI_OPT_ENDPOINT, option, &one, &len))
            one = option == FI_OPT_MAX_MSG_SIZE ? ep->info->ep_attr->max_msg_size
                                                : ep->info->tx_attr->inject_size;
        least = one < least ? one : least;
    }
    return least;
}

static int set_shared_memory(struct endpoint *base, const void *value, size_t len)
{
    struct lnx_ep *ep = ep_of(base);
    bool permitted, others = false;

    if (len != sizeof(permitted))
        return -FI_EINVAL;
    memcpy(&permitted, value, sizeof(permitted));
    for (size_t i = 0; i < ep->count; i++)
        others = others || !ep->domain->branch[i].local;
    if (!permitted && !others)
        return -FI_EOPNOTSUPP;
    ep->no_local = !permitted;
    if (ep->av)
        lnx_av_permit_local(ep->av, permitted);
    return 0;
}

/* Branches that do not know it do not wait. */
static int set_close_wait(struct endpoint *base, const void *value, size_t len)
{
    struct lnx_ep *ep = ep_of(base);
    int rc = len == sizeof(uint32_t) ? 0 : -FI_EINVAL;

    for (size_t i = 0; !rc && i < ep->count; i++) {
        rc = fi_setopt(&ep->branch[i].ep->fid, FI_OPT_ENDPOINT, OPT_CLOSE_WAIT, value, len);
        rc = rc == -FI_ENOPROTOOPT ? 0 : rc;
    }
    return rc;
}

static int cancel(struct endpoint *base, void *context)
{
    struct lnx_ep *ep = ep_of(base);
    ssize_t rc = -FI_ENOENT;

    for (size_t i = 0; rc == -FI_ENOENT && i < ep->count; i++)
        rc = fi_cancel(&ep->branch[i].ep->fid, context);
    return (int)rc;
}

static int tx_flags_changed(struct endpoint *base)
{
    struct lnx_ep *ep = ep_of(base);
    uint64_t flags = base->tx_op_flags | FI_TRANSMIT;
    int rc = 0;

    progress_lock(ep->domain->progress);
    for (size_t i = 0; !rc && i < ep->count; i++)
        rc = fi_control(&ep->branch[i].ep->fid, FI_SETOPSFLAG, &flags);
    progress_unlock(ep->domain->progress);
    return rc;
}

/* A branch that matches by itself has the options of receives. */
static bool is_ours(const struct lnx_ep *ep, int name)
{
    return !ep->alone || limits_has(name) || name == FI_OPT_SHARED_MEMORY_PERMITTED;
}

/* The branch that has what is not ours, or NULL. */
static struct fid_ep *option_owner(const struct lnx_ep *ep)
{
    size_t face = ep->domain->face;

    if (ep->alone)
        return ep->branch[0].ep;
    return face < ep->count ? ep->branch[face].ep : NULL;
}

static int ep_getopt(fid_t fid, int level, int name, void *value, size_t *len)
{
    struct lnx_ep *ep = ep_of(endpoint_of(fid));
    struct fid_ep *owner = option_owner(ep);
    int rc = -FI_ENOPROTOOPT;

    if (is_ours(ep, name))
        rc = endpoint_getopt(fid, level, name, value, len);
    if (rc != -FI_ENOPROTOOPT || !owner)
        return rc;
    progress_lock(ep->domain->progress);
    rc = fi_getopt(&owner->fid, level, name, value, len);
    progress_unlock(ep->domain->progress);
    return rc;
}

static int ep_setopt(fid_t fid, int level, int name, const void *value, size_t len)
{
    struct lnx_ep *ep = ep_of(endpoint_of(fid));
    struct fid_ep *owner = option_owner(ep);
    int rc = -FI_ENOPROTOOPT;

    if (is_ours(ep, name))
        rc = endpoint_setopt(fid, level, name, value, len);
    if (rc != -FI_ENOPROTOOPT || !owner)
        return rc;
    progress_lock(ep->domain->progress);
    rc = fi_setopt(&owner->fid, level, name, value, len);
    progress_unlock(ep->domain->progress);
    return rc;
}

static struct fi_ops_ep ep_ops = {.size = sizeof(ep_ops), .getopt = ep_getopt, .setopt = ep_setopt};

/* ---- Names ---- */

static struct lnx_names names_of(const struct lnx_ep *ep)
{
    struct lnx_names names = {
        .domain = ep->domain,
        .count = ep->count,
        .no_local = ep->no_local,
    };

    for (size_t i = 0; i < ep->count; i++) {
        names.ep[i] = ep->branch[i].ep;
        names.info[i] = ep->branch[i].info;
    }
    return names;
}

static int ep_getname(fid_t fid, void *addr, size_t *len)
{
    struct lnx_names names = names_of(ep_of(endpoint_of(fid)));

    return lnx_name_give(&names, addr, len);
}

static int ep_setname(fid_t fid, void *raw, size_t len)
{
    struct lnx_names names = names_of(ep_of(endpoint_of(fid)));

    return lnx_name_set(&names, raw, len);
}

static struct fi_ops_cm cm_ops = {
    .size = sizeof(cm_ops),
    .setname = ep_setname,
    .getname = ep_getname,
    NO_CM_CONNECTION,
};

/* ---- Binding ---- */

static const uint64_t kind_flags[BIND_KINDS] = {
    [BIND_SEND] = FI_SEND,
    [BIND_RECV] = FI_RECV,
    [BIND_READ] = FI_READ,
    [BIND_WRITE] = FI_WRITE,
    [BIND_REMOTE_READ] = FI_REMOTE_READ,
    [BIND_REMOTE_WRITE] = FI_REMOTE_WRITE,
};

static int bind_cntr(struct lnx_ep *ep, size_t i, struct cntr *cntr, uint64_t flags)
{
    struct fid_cntr *below;
    int rc = lnx_cntr_below(ep->domain, cntr, i, &below);

    return rc ? rc : fi_ep_bind(ep->branch[i].ep, &below->fid, flags);
}

static int bind_cntrs(struct lnx_ep *ep, size_t i)
{
    int rc = 0;

    for (int kind = 0; !rc && kind < BIND_KINDS; kind++) {
        if (ep->base.binding.cntr[kind])
            rc = bind_cntr(ep, i, ep->base.binding.cntr[kind], kind_flags[kind]);
    }
    return rc;
}

static int bind_cq(struct lnx_ep *ep, size_t i, struct lnx_drives *drives, uint64_t flags,
                   bool selective)
{
    struct fid_cq *below = lower_cq_fid(drives->branch[i].below.cq);

    return fi_ep_bind(ep->branch[i].ep, &below->fid,
                      flags | (selective ? FI_SELECTIVE_COMPLETION : 0));
}

static uint64_t directions(const struct lnx_ep *ep)
{
    size_t class = ep->fid.fid.fclass;

    return (class != FI_CLASS_RX_CTX ? FI_TRANSMIT : 0) | (class != FI_CLASS_TX_CTX ? FI_RECV : 0);
}

/* As the application has bound them, or one queue for what only counts. */
static int bind_cqs(struct lnx_ep *ep, size_t i)
{
    const struct binding *binding = &ep->base.binding;
    int rc = 0;

    if (!binding->tx && !binding->rx)
        return bind_cq(ep, i, &ep->own, directions(ep), true);
    if (binding->tx)
        rc = bind_cq(ep, i, &lnx_cq_of(binding->tx)->drives, FI_TRANSMIT, binding->tx_selective);
    if (!rc && binding->rx)
        rc = bind_cq(ep, i, &lnx_cq_of(binding->rx)->drives, FI_RECV, binding->rx_selective);
    if (!rc && binding->tx && binding->rx)
        lnx_drives_fold(&lnx_cq_of(binding->tx)->drives, &lnx_cq_of(binding->rx)->drives, i);
    return rc;
}

/* A counter may come late. */
static int bound(struct endpoint *base, struct fid *fid, uint64_t flags)
{
    struct lnx_ep *ep = ep_of(base);
    int rc = 0;

    if (!base->enabled || fid->fclass != FI_CLASS_CNTR)
        return 0;
    progress_lock(ep->domain->progress);
    ep->top = binding_is_top(&base->binding);
    for (size_t i = 0; !rc && i < ep->count; i++)
        rc = bind_cntr(ep, i, cntr_of(fid), flags);
    progress_unlock(ep->domain->progress);
    return rc;
}

/* ---- Enabling ---- */

static int open_own_drives(struct lnx_ep *ep)
{
    if (ep->base.binding.tx || ep->base.binding.rx || ep->own.count)
        return 0;
    peer_cq_drop(&ep->dropped, ep);
    return lnx_drives_open(&ep->own, ep->domain, 1, &ep->dropped, NULL);
}

static int open_rx(struct lnx_ep *ep, unsigned i)
{
    struct srx *srx = ep->base.srx;
    struct match *match = srx ? srx->match : ep->base.match;
    struct lnx_rx *rx = &ep->branch[i].rx;
    int rc = 0;

    if (ep->alone || ep->fid.fid.fclass == FI_CLASS_TX_CTX)
        return 0;
    if (!rx->context)
        rc = lnx_rx_open(rx, ep, i, match, srx ? srx->peer : NULL);
    return rc ? rc : fi_ep_bind(ep->branch[i].ep, &rx->context->fid, 0);
}

/* A branch that matches by itself has the flags of receives; they stay as they are from here on. */
static int set_rx_flags(struct lnx_ep *ep, struct fid_ep *below)
{
    uint64_t flags = ep->base.rx_op_flags;

    if (!ep->alone || !flags || ep->fid.fid.fclass == FI_CLASS_TX_CTX)
        return 0;
    flags |= FI_RECV;
    return fi_control(&below->fid, FI_SETOPSFLAG, &flags);
}

static int enable_branch(struct lnx_ep *ep, unsigned i)
{
    struct fid_ep *below = ep->branch[i].ep;
    int rc = bind_cqs(ep, i);

    if (!rc)
        rc = set_rx_flags(ep, below);
    if (!rc)
        rc = bind_cntrs(ep, i);
    if (!rc && !ep->sep)
        rc = fi_ep_bind(below, &ep->av->branch[i].av->fid, 0);
    if (!rc)
        rc = open_rx(ep, i);
    return rc ? rc : fi_enable(below);
}

static int join(struct endpoint *base)
{
    struct lnx_ep *ep = ep_of(base);

    return ep->sep ? lnx_sep_join(ep->sep, ep->fid.fid.fclass, ep->index, &base->binding, &base->av)
                   : 0;
}

/* Before the branches inside of the node listen, and after. */
static int name_inside(struct lnx_ep *ep)
{
    struct fid_ep *below[LNX_BRANCHES] = {NULL};

    for (size_t i = 0; i < ep->count; i++)
        below[i] = ep->branch[i].ep;
    return lnx_face_name(ep->domain, below);
}

static int show_inside(struct lnx_ep *ep)
{
    return lnx_face_show(ep->domain, ep->branch[ep->domain->face].ep, &ep->sign);
}

/* The face first: the others are named by its address. Peers that would not find us inside of the
 * node are not looked for there. */
static int enable_with_face(struct lnx_ep *ep, struct lnx_av *av)
{
    size_t face = ep->domain->face;
    int named = 0, rc = enable_branch(ep, (unsigned)face);

    if (!rc && !ep->no_local)
        named = name_inside(ep);
    for (unsigned i = 0; !rc && i < ep->count; i++)
        rc = i == face ? 0 : enable_branch(ep, i);
    if (rc || ep->no_local || ep->count == 1)
        return rc;
    if (!named)
        named = show_inside(ep);
    if (!named)
        return 0;
    LOG_WARN("lnx", FI_LOG_EP_CTRL,
             "peers of this node reach the endpoint by its network alone, since it has no name "
             "inside: %s",
             fi_strerror(-named));
    av->no_local = true;
    return 0;
}

static int enable_branches(struct lnx_ep *ep, struct lnx_av *av)
{
    int rc = 0;

    if (ep->domain->face < ep->count)
        return enable_with_face(ep, av);
    for (unsigned i = 0; !rc && i < ep->count; i++)
        rc = enable_branch(ep, i);
    return rc;
}

static int enable(struct endpoint *base)
{
    struct lnx_ep *ep = ep_of(base);
    struct lnx_av *av = lnx_av_of(base->av);
    int rc = open_own_drives(ep);

    if (rc)
        return rc;
    if (ep->no_local)
        lnx_av_permit_local(av, false);
    ep->av = av;
    progress_lock(ep->domain->progress);
    ep->context_bits = base->av->rx_ctx_bits;
    ep->top = binding_is_top(&base->binding) && !(base->srx && base->srx->peer);
    rc = enable_branches(ep, av);
    if (!rc)
        lnx_quick_enable(ep);
    progress_unlock(ep->domain->progress);
    if (rc)
        ep->av = NULL;
    return rc;
}

/* ---- Opening and closing ---- */

static void close_branches(struct lnx_ep *ep)
{
    for (size_t i = 0; i < ep->count; i++)
        lnx_rx_discard(&ep->branch[i].rx);
    for (size_t i = 0; i < ep->count; i++) {
        if (ep->branch[i].ep)
            fi_close(&ep->branch[i].ep->fid);
        lnx_rx_close(&ep->branch[i].rx);
        info_free(ep->branch[i].info);
    }
    ep->count = 0;
}

static int close_ep(struct endpoint *base)
{
    struct lnx_ep *ep = ep_of(base);

    progress_lock(ep->domain->progress);
    if (ep->sign >= 0)
        close(ep->sign);
    lnx_quick_disable(ep);
    if (ep->domain->own_keys)
        lnx_keys_leave(ep);
    close_branches(ep);
    progress_unlock(ep->domain->progress);
    lnx_drives_close(&ep->own, ep->domain->progress);
    if (ep->sep)
        sep_leave(&ep->sep->base, ep->fid.fid.fclass, ep->index);
    endpoint_finish(base);
    info_free(ep->info);
    free(ep);
    return 0;
}

static const struct endpoint_option options[] = {
    {.name = FI_OPT_SHARED_MEMORY_PERMITTED, .kind = OPTION_FUNCTION, .set = set_shared_memory},
    {.name = OPT_CLOSE_WAIT, .kind = OPTION_FUNCTION, .set = set_close_wait},
    {.name = 0},
};

static const struct endpoint_ops ops = {
    .post = post,
    .atomic_valid = valid_atomic,
    .limit = limit,
    .join = join,
    .enable = enable,
    .close = close_ep,
    .bound = bound,
    .cancel = cancel,
    .tx_flags_changed = tx_flags_changed,
    .options = options,
    .own_sources = true,
};

static void init_base(struct lnx_ep *ep, size_t class, void *context)
{
    const struct endpoint_attr attr = {
        .ops = &ops,
        .domain = &ep->domain->base,
        .info = ep->info,
        .caps = ep->info->caps,
        .fclass = class,
        .context = context,
        .size = ep->info->tx_attr->size,
        .iov_limit = ep->info->rx_attr->iov_limit,
        .min_multi_recv = LNX_MIN_MULTI_RECV,
    };

    endpoint_init(&ep->base, &attr);
    ep->fid.ops = table_inherit(&ep_ops, ep->fid.ops);
    ep->fid.cm = &cm_ops;
    ep->base.needs_av = class == FI_CLASS_EP;
    ep->alone = ep->domain->count == 1 && !ep->base.needs_srx;
    if (!(attr.caps & FI_MSG))
        ep->base.base.groups &= ~(unsigned)OP_GROUP_MSG;
    lnx_quick_set(ep);
}

static int open_below(struct lnx_ep *ep, size_t i, struct fid_ep **below)
{
    struct lnx_branch_ep *own = &ep->branch[i];
    struct fi_tx_attr tx = *own->info->tx_attr;
    struct fi_rx_attr rx = *own->info->rx_attr;

    if (!ep->sep)
        return fi_endpoint(ep->domain->branch[i].domain, own->info, below, ep);
    if (ep->fid.fid.fclass == FI_CLASS_TX_CTX)
        return fi_tx_context(ep->sep->branch[i].ep, (int)ep->index, &tx, below, ep);
    return fi_rx_context(ep->sep->branch[i].ep, (int)ep->index, &rx, below, ep);
}

static int open_branch(struct lnx_ep *ep, size_t i)
{
    const struct lnx_branch *branch = &ep->domain->branch[i];
    struct lnx_branch_ep *own = &ep->branch[i];
    int rc = lnx_branch_info(ep->domain->fabric, branch->slot, ep->info, !ep->alone && !ep->sep,
                             &own->info);

    if (rc)
        return rc;
    own->info->tx_attr->op_flags = ep->info->tx_attr->op_flags;
    if (ep->sep)
        own->info->rx_attr->op_flags = ep->info->rx_attr->op_flags;
    rc = open_below(ep, i, &own->ep);
    if (rc) {
        info_free(own->info);
        return rc;
    }
    own->target = op_target_of(own->ep);
    return 0;
}

/* Programs know the face's limits of receives. */
static void take_face_limit(struct lnx_ep *ep)
{
    size_t least, len = sizeof(least), face = ep->domain->face;

    if (face < ep->count && !ep->alone &&
        !fi_getopt(&ep->branch[face].ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, &len))
        endpoint_setopt(&ep->fid.fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, len);
}

/* The endpoint or context to be opened. */
struct opening {
    size_t class;
    struct lnx_sep *sep; /* whose context it is, or NULL */
    unsigned index;
    const uint64_t *op_flags; /* of a context; NULL: as the info says */
};

static int open_info(struct lnx_ep *ep, const struct opening *what, const struct fi_info *info)
{
    if (info->caps & FI_SOURCE_ERR && !ep->domain->source_err) {
        LOG_WARN("lnx", FI_LOG_EP_CTRL,
                 "fi_endpoint: FI_SOURCE_ERR wants a domain that was opened with it");
        return -FI_EINVAL;
    }
    ep->info = fabric_info(&ep->domain->fabric->base, info);
    if (!ep->info)
        return -FI_ENOMEM;
    if (what->op_flags && what->class == FI_CLASS_TX_CTX)
        ep->info->tx_attr->op_flags = *what->op_flags;
    if (what->op_flags && what->class == FI_CLASS_RX_CTX)
        ep->info->rx_attr->op_flags = *what->op_flags;
    return 0;
}

static int open_ep(struct lnx_domain *domain, const struct opening *what,
                   const struct fi_info *info, struct lnx_ep **ret_ep, void *context)
{
    struct lnx_ep *ep = calloc(1, sizeof(*ep));
    int rc;

    if (!ep)
        return -FI_ENOMEM;
    ep->domain = domain;
    ep->sign = -1;
    rc = open_info(ep, what, info);
    if (rc) {
        free(ep);
        return rc;
    }
    init_base(ep, what->class, context);
    ep->sep = what->sep;
    ep->index = what->index;
    progress_lock(domain->progress);
    while (!rc && ep->count < domain->count) {
        rc = open_branch(ep, ep->count);
        ep->count += !rc;
    }
    progress_unlock(domain->progress);
    if (!rc)
        take_face_limit(ep);
    if (rc) {
        ep->sep = NULL; /* it does not know of it yet */
        close_ep(&ep->base);
        return rc;
    }
    *ret_ep = ep;
    return 0;
}

int lnx_ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ret_ep, void *context)
{
    const struct opening what = {.class = FI_CLASS_EP};
    struct lnx_ep *ep;
    int rc = open_ep(lnx_domain_of(fid), &what, info, &ep, context);

    if (!rc)
        *ret_ep = &ep->fid;
    return rc;
}

int lnx_ep_open_context(struct sep *sep, const struct sep_opening *opening,
                        struct endpoint **ret_ep)
{
    const struct opening what = {opening->class, object_of(sep, struct lnx_sep, base),
                                 opening->index, opening->op_flags};
    struct lnx_domain *domain = object_of(sep->domain, struct lnx_domain, base);
    struct lnx_ep *ep;
    int rc = open_ep(domain, &what, sep->info, &ep, opening->context);

    if (!rc)
        *ret_ep = &ep->base;
    return rc;
}
