/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/lnx/lnx_info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/info/info.h"
#include "core/part/join_name.h"
#include "layers/lnx/lnx_addr.h"
#include "layers/lnx/lnx_keys.h"

/* Each branch has its own: the join has a bit as soon as one branch does. */
#define REACH_CAPS (FI_LOCAL_COMM | FI_REMOTE_COMM)
/* That no branch gives for the join: others' addresses, other objects. */
#define LEFT_OUT (FI_SHARED_AV | FI_COLLECTIVE | FI_MULTICAST | FI_TRIGGER)

bool lnx_is_local(const struct fi_info *branch)
{
    return !(branch->caps & FI_REMOTE_COMM);
}

struct join_words lnx_words = {.join = "lnx", .branch = "branch", .branches = "branches"};

/* ---- What is asked ---- */

/* An address of ours in hints: its parts for the branches of a kind cannot be found before these
 * have offered (choose_addr), so a branch gets its part only when it is opened (set_source). */
static int drop_addrs(struct fi_info *need)
{
    int rc = info_set_src(need, NULL, 0);

    need->addr_format = FI_FORMAT_UNSPEC;
    return rc ? rc : info_set_dest(need, NULL, 0);
}

static void ask_contexts(struct fi_ep_attr *attr)
{
    attr->type = FI_EP_RDM;
    attr->protocol = FI_PROTO_UNSPEC;
    attr->protocol_version = 0;
    attr->tx_ctx_cnt = 0;
    if (attr->rx_ctx_cnt != FI_SHARED_CONTEXT)
        attr->rx_ctx_cnt = 0;
}

size_t lnx_face(const struct params *params)
{
    return (size_t)params_int(params, "face") - 1;
}

/* hints or an info of ours as a branch should see them. is_face: its protocol and addresses are
 * ours. */
static struct fi_info *branch_hints(const struct fi_info *hints, bool is_face)
{
    struct fi_info *need = info_dup(hints);

    if (!need)
        return NULL;
    if (info_set_string(&need->fabric_attr->prov_name, NULL) || (!is_face && drop_addrs(need))) {
        info_free(need);
        return NULL;
    }
    need->handle = NULL;
    need->fabric_attr->fabric = NULL;
    need->domain_attr->domain = NULL;
    /* Completions carry sources as the join numbers them. */
    need->caps = (need->caps & ~(REACH_CAPS | LEFT_OUT)) | FI_PEER | FI_AV_USER_ID;
    if (!hints->caps)
        need->caps |= FI_MSG;
    need->tx_attr->caps = 0;
    need->rx_attr->caps = 0;
    need->domain_attr->caps = FI_AV_USER_ID;
    ask_contexts(need->ep_attr);
    if (is_face) {
        need->ep_attr->protocol = hints->ep_attr->protocol;
        need->ep_attr->protocol_version = hints->ep_attr->protocol_version;
    }
    need->domain_attr->threading = FI_THREAD_DOMAIN;
    need->domain_attr->progress = FI_PROGRESS_MANUAL;
    need->domain_attr->control_progress = FI_PROGRESS_CONTROL_UNIFIED;
    need->domain_attr->av_type = FI_AV_UNSPEC;
    return need;
}

/* Puts a copy of each of the needs, with more of what is given, in front of all of them. */
static int add_better(struct fi_info **needs, uint64_t caps, uint64_t order)
{
    struct fi_info *better = NULL;

    for (const struct fi_info *need = *needs; need; need = need->next) {
        struct fi_info *copy = info_dup(need);

        if (!copy) {
            info_free(better);
            return -FI_ENOMEM;
        }
        copy->caps |= caps;
        copy->tx_attr->msg_order |= order;
        copy->rx_attr->msg_order |= order;
        info_append(&better, copy);
    }
    info_append(&better, *needs);
    *needs = better;
    return 0;
}

/* A node is one of a network: a branch is asked by its name as one that reaches other nodes; one
 * that does not is asked without. */
static int add_named(const struct request *req, struct fi_info **needs)
{
    *req->named = info_count(*needs);
    return add_better(needs, FI_REMOTE_COMM, 0);
}

/* Do hints say nothing of what is wanted? A face that gives no order unless it is asked for one
 * shows what it has, as it would without the join. */
static bool wants_all(const struct fi_info *hints)
{
    return !hints->caps && !hints->tx_attr->msg_order && !hints->rx_attr->msg_order;
}

/* Hints that ask for other nodes and not for this one are for no branch that stays here. */
static bool leaves_node(const struct fi_info *hints)
{
    uint64_t asked = hints->caps | hints->domain_attr->caps;

    return asked & FI_REMOTE_COMM && !(asked & FI_LOCAL_COMM);
}

/* A branch beside the face: what the join has of receives is the engine's, not the branch's. */
static int ask_inside(const struct request *req, struct fi_info *need)
{
    need->rx_attr->size = 0;
    if (!leaves_node(req->hints))
        return 0;
    reasons_add_at(req->reasons, REASON_CAPS,
                   "caps: FI_REMOTE_COMM without FI_LOCAL_COMM leaves this node");
    return -FI_ENODATA;
}

/* Of a join without a face: the branches of others refuse by themselves. */
static int check_own(const struct request *req)
{
    bool ours = req->hints->ep_attr->protocol == FI_PROTO_UNSPEC ||
                req->hints->ep_attr->protocol == FI_PROTO_LNX;

    if (!ours) {
        reasons_add_at(req->reasons, REASON_CAPS, "ep_attr->protocol: offered FI_PROTO_LNX only");
        return -FI_ENODATA;
    }
    if (req->hints->addr_format && req->hints->addr_format != LNX_ADDR_FORMAT) {
        reasons_add_at(req->reasons, REASON_ATTR, "addr_format: lnx has addresses of its own form");
        return -FI_ENODATA;
    }
    return 0;
}

int lnx_needs(const struct request *req, struct fi_info **lower_hints)
{
    size_t face = lnx_face(req->params);
    struct fi_info *need;
    int rc = face == SIZE_MAX ? check_own(req) : 0;

    if (rc)
        return rc;
    if (req->hints->caps & LEFT_OUT) {
        reasons_add_at(req->reasons, REASON_CAPS,
                       "caps: collectives, multicast, triggers and FI_SHARED_AV are not offered");
        return -FI_ENODATA;
    }
    need = branch_hints(req->hints, req->branch == face);
    if (!need)
        return -FI_ENOMEM;
    if (req->branch == face && wants_all(req->hints))
        rc = add_better(&need, 0, FI_ORDER_SAS);
    else if (face != SIZE_MAX && req->branch != face)
        rc = ask_inside(req, need);
    if (!rc && (req->node || req->service))
        rc = add_named(req, &need);
    if (rc)
        info_free(need);
    else
        *lower_hints = need;
    return rc;
}

/* ---- What is made of it ---- */

/* The infos that one of ours is made of, by slot; NULL for a branch that is not in it. */
struct parts_of {
    const struct fi_info *branch[LNX_BRANCHES];
    size_t slots, used;
};

static void least(size_t *value, size_t other)
{
    if (other < *value)
        *value = other;
}

static void merge_tx(struct fi_tx_attr *attr, const struct fi_tx_attr *other)
{
    attr->caps &= other->caps;
    attr->mode |= other->mode;
    attr->op_flags &= other->op_flags;
    attr->msg_order &= other->msg_order;
    attr->comp_order &= other->comp_order;
    least(&attr->inject_size, other->inject_size);
    least(&attr->size, other->size);
    least(&attr->iov_limit, other->iov_limit);
    least(&attr->rma_iov_limit, other->rma_iov_limit);
    if (other->tclass < attr->tclass)
        attr->tclass = other->tclass;
}

static void merge_rx(struct fi_rx_attr *attr, const struct fi_rx_attr *other)
{
    attr->caps &= other->caps;
    attr->mode |= other->mode;
    attr->op_flags &= other->op_flags;
    attr->msg_order &= other->msg_order;
    attr->comp_order &= other->comp_order;
    least(&attr->size, other->size);
    least(&attr->iov_limit, other->iov_limit);
}

static void merge_ep(struct fi_ep_attr *attr, const struct fi_ep_attr *other)
{
    least(&attr->max_msg_size, other->max_msg_size);
    least(&attr->msg_prefix_size, other->msg_prefix_size);
    least(&attr->max_order_raw_size, other->max_order_raw_size);
    least(&attr->max_order_war_size, other->max_order_war_size);
    least(&attr->max_order_waw_size, other->max_order_waw_size);
    attr->mem_tag_format &= other->mem_tag_format;
}

static void merge_domain(struct fi_domain_attr *attr, const struct fi_domain_attr *other)
{
    attr->mr_mode |= other->mr_mode;
    attr->mode |= other->mode;
    attr->caps &= other->caps;
    least(&attr->mr_key_size, other->mr_key_size);
    least(&attr->cq_data_size, other->cq_data_size);
    least(&attr->cq_cnt, other->cq_cnt);
    least(&attr->ep_cnt, other->ep_cnt);
    least(&attr->tx_ctx_cnt, other->tx_ctx_cnt);
    least(&attr->rx_ctx_cnt, other->rx_ctx_cnt);
    least(&attr->max_ep_tx_ctx, other->max_ep_tx_ctx);
    least(&attr->max_ep_rx_ctx, other->max_ep_rx_ctx);
    least(&attr->max_ep_srx_ctx, other->max_ep_srx_ctx);
    least(&attr->max_ep_stx_ctx, other->max_ep_stx_ctx);
    least(&attr->cntr_cnt, other->cntr_cnt);
    least(&attr->mr_iov_limit, other->mr_iov_limit);
    least(&attr->mr_cnt, other->mr_cnt);
    if (other->tclass < attr->tclass)
        attr->tclass = other->tclass;
}

static void merge(struct fi_info *info, const struct fi_info *other)
{
    uint64_t reach = (info->caps | other->caps) & REACH_CAPS;

    info->caps = (info->caps & other->caps) | reach;
    info->mode |= other->mode;
    merge_tx(info->tx_attr, other->tx_attr);
    merge_rx(info->rx_attr, other->rx_attr);
    merge_ep(info->ep_attr, other->ep_attr);
    merge_domain(info->domain_attr, other->domain_attr);
}

/* Atomics of one region have one mechanism: where several branches reach it, a CPU's. */
static bool has_atomics(const struct request *req, const struct parts_of *of)
{
    for (size_t i = 0; of->used > 1 && i < of->slots; i++) {
        if (of->branch[i] && !(req->cpu_atomics >> i & 1)) {
            reasons_add_at(req->reasons, REASON_CAPS,
                           "caps: no FI_ATOMIC, since branch %zu leaves atomics to a device",
                           i + 1);
            return false;
        }
    }
    return true;
}

bool lnx_is_per_msg(const struct params *params)
{
    return !strcmp(params_string(params, "rails"), "per_msg");
}

/* Operations to one peer go by several branches. */
static bool has_turns(const struct request *req, const struct parts_of *of)
{
    for (size_t i = 0; lnx_is_per_msg(req->params) && i < of->slots; i++) {
        for (size_t j = 0; j < i; j++) {
            if (of->branch[i] && of->branch[j] &&
                lnx_addr_kind(of->branch[i]) == lnx_addr_kind(of->branch[j]))
                return true;
        }
    }
    return false;
}

/* Nothing that comes by one branch waits for what goes by another. */
static void drop_orders(struct fi_info *info)
{
    info->tx_attr->msg_order = info->rx_attr->msg_order = FI_ORDER_NONE;
    info->ep_attr->max_order_raw_size = 0;
    info->ep_attr->max_order_war_size = 0;
    info->ep_attr->max_order_waw_size = 0;
}

static void finish_caps(const struct request *req, const struct parts_of *of, struct fi_info *info)
{
    uint64_t asked = req->hints->caps | req->hints->domain_attr->caps;
    uint64_t none = LEFT_OUT | (~asked & (FI_AV_USER_ID | FI_SOURCE_ERR));

    if (lnx_face(req->params) != SIZE_MAX && leaves_node(req->hints))
        none |= FI_LOCAL_COMM;

    if (!has_atomics(req, of))
        none |= FI_ATOMIC;
    if (has_turns(req, of))
        none |= FI_FENCE;
    info->caps &= ~none;
    info->tx_attr->caps = info->rx_attr->caps = info->caps;
    info->domain_attr->caps = info->caps & (REACH_CAPS | FI_AV_USER_ID);
}

/* The attributes by which an application tells the join from its branches. */
static void set_own(struct fi_info *info)
{
    info->addr_format = LNX_ADDR_FORMAT;
    info->ep_attr->protocol = FI_PROTO_LNX;
    info->ep_attr->protocol_version = LNX_ADDR_VERSION;
    info->fabric_attr->fabric = NULL;
    info->domain_attr->domain = NULL;
}

static void finish_attrs(const struct parts_of *of, struct fi_info *info)
{
    /* Completions of several branches come as they come. */
    if (of->used > 1)
        info->tx_attr->comp_order = info->rx_attr->comp_order = FI_ORDER_NONE;
    info->handle = NULL;
    info->ep_attr->tx_ctx_cnt = info->ep_attr->rx_ctx_cnt = 1;
    info->ep_attr->auth_key_size = 0;
    info->domain_attr->threading = FI_THREAD_SAFE;
    info->domain_attr->progress = FI_PROGRESS_UNSPEC;
    info->domain_attr->control_progress = FI_PROGRESS_UNSPEC;
    info->domain_attr->av_type = FI_AV_UNSPEC;
    info->domain_attr->mr_mode &= ~FI_MR_RAW;
}

/* Source or destination: those of the branches. Without any there is none. */
static int set_addr(const struct parts_of *of, struct fi_info *info, bool source)
{
    unsigned char raw[LNX_ADDR_MAX];
    size_t size = lnx_addr_size(of->used), count;
    struct lnx_addr *addr = calloc(1, sizeof(*addr));

    if (!addr)
        return -FI_ENOMEM;
    for (size_t i = 0; i < of->slots; i++) {
        const struct fi_info *branch = of->branch[i];
        struct lnx_addr_branch *to = &addr->branch[addr->count];
        const void *from = branch ? (source ? branch->src_addr : branch->dest_addr) : NULL;
        size_t len = branch ? (source ? branch->src_addrlen : branch->dest_addrlen) : 0;

        if (!from || !len || len > sizeof(to->addr))
            continue;
        to->kind = lnx_addr_kind(branch);
        to->format = branch->addr_format;
        to->len = len;
        memcpy(to->addr, from, len);
        addr->count++;
    }
    count = lnx_addr_encode(addr, raw, size);
    free(addr);
    if (source)
        return info_set_src(info, count ? raw : NULL, count ? size : 0);
    return info_set_dest(info, count ? raw : NULL, count ? size : 0);
}

static bool has_kind(const struct parts_of *of, uint16_t kind)
{
    for (size_t i = 0; i < of->slots; i++) {
        if (of->branch[i] && lnx_addr_kind(of->branch[i]) == kind)
            return true;
    }
    return false;
}

/* Writes what an address of hints says of the branches that there are. -FI_EINVAL, with a reason in
 * why. */
static int keep_kinds(const struct parts_of *of, const void *hint, size_t len, unsigned char *raw,
                      char *why, size_t why_size)
{
    struct lnx_addr *addr = malloc(sizeof(*addr));
    int rc = addr ? lnx_addr_decode(hint, len, addr, why, why_size) : -FI_ENOMEM;
    size_t kept = 0;

    for (size_t i = 0; !rc && i < addr->count; i++) {
        if (has_kind(of, addr->branch[i].kind))
            addr->branch[kept++] = addr->branch[i];
    }
    if (!rc && !kept) {
        snprintf(why, why_size, "it is of branches that this bracket lacks");
        rc = -FI_EINVAL;
    }
    if (!rc) {
        addr->count = kept;
        lnx_addr_encode(addr, raw, lnx_addr_size(of->used));
    }
    free(addr);
    return rc;
}

/* Source or destination: what hints say, unless node and service are for it; else the branches'. */
static int choose_addr(const struct request *req, const struct parts_of *of, struct fi_info *info,
                       bool source)
{
    const struct fi_info *hints = req->hints;
    const void *hint = source ? hints->src_addr : hints->dest_addr;
    size_t len = source ? hints->src_addrlen : hints->dest_addrlen, size = lnx_addr_size(of->used);
    bool named = (req->node || req->service) && source == !!(req->flags & FI_SOURCE);
    unsigned char raw[LNX_ADDR_MAX];
    char why[200];
    int rc;

    if (!hint || named)
        return set_addr(of, info, source);
    rc = keep_kinds(of, hint, len, raw, why, sizeof(why));
    if (rc == -FI_ENOMEM)
        return rc;
    if (rc) {
        reasons_add_at(req->reasons, REASON_ATTR, "%s: no address of this lnx: %s",
                       source ? "src_addr" : "dest_addr", why);
        return -FI_ENODATA;
    }
    return source ? info_set_src(info, raw, size) : info_set_dest(info, raw, size);
}

/* The one that gives the join its device: the first that reaches other nodes, if the user named
 * none. */
static const struct fi_info *face_of(const struct request *req, const struct parts_of *of)
{
    const struct fi_info *face = NULL;
    size_t named = lnx_face(req->params);

    if (named != SIZE_MAX)
        return of->branch[named];
    for (size_t i = 0; i < of->slots; i++) {
        const struct fi_info *branch = of->branch[i];

        if (branch && (!face || (lnx_is_local(face) && !lnx_is_local(branch))))
            face = branch;
    }
    return face;
}

static void no_contexts(struct fi_info *info)
{
    info->caps &= ~FI_NAMED_RX_CTX;
    info->tx_attr->caps = info->rx_attr->caps = info->caps;
    info->domain_attr->max_ep_tx_ctx = info->domain_attr->max_ep_rx_ctx = 1;
}

/* Branches that choose the keys of their regions. */
static size_t choosers_of_keys(const struct parts_of *of)
{
    size_t count = 0;

    for (size_t i = 0; i < of->slots; i++)
        count += of->branch[i] && of->branch[i]->domain_attr->mr_mode & FI_MR_PROV_KEY;
    return count;
}

/* Where several do, the join's own messages take a bit of the tags, and know no contexts. */
static int make(const struct request *req, const struct parts_of *of, struct fi_info **ret_info)
{
    const struct fi_info *face = face_of(req, of);
    struct fi_info *info = info_dup(face);
    bool own = lnx_face(req->params) == SIZE_MAX;
    int rc = 0;

    if (!info)
        return -FI_ENOMEM;
    for (size_t i = 0; i < of->slots; i++) {
        if (of->branch[i] && of->branch[i] != face)
            merge(info, of->branch[i]);
    }
    finish_caps(req, of, info);
    finish_attrs(of, info);
    if (own)
        set_own(info);
    else
        info->rx_attr->size = face->rx_attr->size;
    if (has_turns(req, of))
        drop_orders(info);
    if (choosers_of_keys(of) > 1 || !own)
        no_contexts(info);
    if (choosers_of_keys(of) > 1 && info->ep_attr->mem_tag_format >= FI_TAG_MAX_FORMAT)
        info->ep_attr->mem_tag_format &= ~LNX_KEY_TAGS;
    if (own)
        rc = join_set_names(info, of->branch, of->slots);
    if (!rc && own)
        rc = choose_addr(req, of, info, true);
    if (!rc && own)
        rc = choose_addr(req, of, info, false);
    if (rc)
        info_free(info);
    else
        *ret_info = info;
    return rc;
}

/* ---- What does not go together ---- */

/* The address of a join, of at least LNX_ADDR_TWO bytes, has no room in one of ours. */
static bool has_join(const struct request *req, const struct parts_of *of)
{
    for (size_t i = 0; i < of->slots; i++) {
        if (!of->branch[i] || of->branch[i]->addr_format != LNX_ADDR_FORMAT)
            continue;
        reasons_add(req->reasons,
                    "branch %zu is a join, whose address has no room in that of this one: its "
                    "branches go into this bracket",
                    i + 1);
        return true;
    }
    return false;
}

/* Addresses that peers may know, or make up, before the endpoint is enabled. */
static bool is_known_early(uint32_t format)
{
    return format == FI_SOCKADDR || format == FI_SOCKADDR_IN || format == FI_SOCKADDR_IN6 ||
           format == FI_SOCKADDR_IB || format == FI_ADDR_STR;
}

/* A face gives addresses of one size, which no peer has before the endpoint is inside of the node,
 * too. */
static bool has_face(const struct request *req, const struct parts_of *of)
{
    size_t face = lnx_face(req->params);

    if (face == SIZE_MAX)
        return true;
    if (face >= of->slots)
        reasons_add(req->reasons, "face=%zu: the bracket has %zu branches", face + 1, of->slots);
    else if (!of->branch[face])
        reasons_add(req->reasons, "face=%zu: that branch has nothing here", face + 1);
    else if (choosers_of_keys(of) > 1)
        reasons_add(req->reasons, "face=%zu: several branches choose keys", face + 1);
    else if (is_known_early(of->branch[face]->addr_format) || !of->branch[face]->src_addrlen)
        reasons_add(req->reasons,
                    "face=%zu: the addresses of that branch are not the device's choice "
                    "(FI_ADDR_EFA)",
                    face + 1);
    else if (lnx_is_per_msg(req->params))
        reasons_add(req->reasons, "face=%zu: rails=per_msg has several networks", face + 1);
    else
        return true;
    return false;
}

static bool go_together(const struct request *req, const struct parts_of *of)
{
    if (has_join(req, of) || !has_face(req, of))
        return false;
    for (size_t i = 0; of->used > 1 && i < of->slots; i++) {
        if (of->branch[i] && !of->branch[i]->domain_attr->max_ep_srx_ctx) {
            reasons_add(req->reasons,
                        "branch %zu takes no receives from a context of ours "
                        "(max_ep_srx_ctx), which several branches need",
                        i + 1);
            return false;
        }
    }
    return params_bool(req->params, "same") ||
           !join_has_twin(req->reasons, &lnx_words, of->branch, of->slots);
}

/* The n-th info of each branch, the last of one that has no more. False: none has so many. */
static bool pick(const struct request *req, const struct fi_info *const *branches, size_t count,
                 size_t n, struct parts_of *of)
{
    bool any = false;

    *of = (struct parts_of){.slots = count};
    for (size_t i = 0; i < count; i++) {
        const struct fi_info *info = branches[i];
        size_t at = 0;

        for (; info && info->next && at < n; at++)
            info = info->next;
        any = any || (info && at == n);
        /* A network that has nothing of that name. */
        if (info && req->unnamed >> i & 1 && !lnx_is_local(info))
            info = NULL;
        of->branch[i] = info;
        of->used += info != NULL;
    }
    return any;
}

/* Does at least one branch know the requested node or service? As a source, branches that never
 * leave this node accept any. */
static bool named_by_any(const struct request *req, const struct parts_of *of)
{
    bool named = !req->node && !req->service, local = req->flags & FI_SOURCE;

    for (size_t i = 0; i < of->slots; i++) {
        named = named || (of->branch[i] && !(req->unnamed >> i & 1));
        local = local && of->branch[i] && lnx_is_local(of->branch[i]);
    }
    if (named || local)
        return true;
    reasons_add(req->reasons, "no branch has the node or service that was asked for");
    return false;
}

int lnx_join(const struct request *req, const struct fi_info *const *branches, size_t count,
             struct fi_info **infos)
{
    struct parts_of of;
    int rc = 0;

    *infos = NULL;
    if (count > LNX_BRANCHES) {
        reasons_add(req->reasons, "lnx joins up to %d branches, not %zu", LNX_BRANCHES, count);
        return -FI_ENODATA;
    }
    if (!join_all_have(req, &lnx_words, branches, count))
        return -FI_ENODATA;
    for (size_t n = 0; !rc && pick(req, branches, count, n, &of); n++) {
        struct fi_info *info = NULL;

        if (!of.used || !named_by_any(req, &of) || !go_together(req, &of))
            continue;
        rc = make(req, &of, &info);
        if (!rc)
            info_append(infos, info);
        else if (rc == -FI_ENODATA)
            rc = 0;
    }
    if (rc) {
        info_free(*infos);
        *infos = NULL;
    }
    return rc;
}

/* ---- Opening ---- */

/* The branch's part of a source address of ours. */
static int set_source(struct fi_info *branch, const struct fi_info *info)
{
    struct lnx_addr *addr;
    char why[200];
    int rc = 0;

    if (!info->src_addr)
        return 0;
    addr = malloc(sizeof(*addr));
    if (!addr)
        return -FI_ENOMEM;
    rc = lnx_addr_decode(info->src_addr, info->src_addrlen, addr, why, sizeof(why));
    if (rc)
        LOG_WARN("lnx", FI_LOG_CORE, "the source address of the info is none of lnx: %s", why);
    for (size_t i = 0; !rc && i < addr->count; i++) {
        const struct lnx_addr_branch *from = &addr->branch[i];

        if (from->kind != lnx_addr_kind(branch))
            continue;
        rc = info_set_src(branch, from->addr, from->len);
        break;
    }
    free(addr);
    return rc;
}

/* Of several branches that choose keys: questions and answers need tags. */
static bool may_ask_for_keys(const struct fi_info *info)
{
    return info->caps & (FI_RMA | FI_ATOMIC) && info_mr_bits(info) & FI_MR_PROV_KEY &&
           strchr(info->domain_attr->name ? info->domain_attr->name : "", '+');
}

static void add_tags(struct fi_info *need)
{
    need->caps |= FI_TAGGED;
    if (need->caps & (FI_SEND | FI_RECV))
        need->caps |= FI_SEND | FI_RECV;
}

/* fabric and domain: NULL means any. */
static int ask_branch(const struct lower *lower, const struct fi_info *info, bool shared,
                      const char *fabric, const char *domain, bool is_face, struct fi_info **list)
{
    struct fi_info *need = branch_hints(info, is_face);
    int rc = need ? 0 : -FI_ENOMEM;

    if (need && !fabric)
        need->rx_attr->size = 0;

    if (!rc)
        rc = info_set_string(&need->fabric_attr->name, fabric);
    if (!rc)
        rc = info_set_string(&need->domain_attr->name, domain);
    if (!rc) {
        /* In the spelling of today: keys and addresses are the join's to choose. */
        need->domain_attr->mr_mode = info_mr_bits(info);
        if (may_ask_for_keys(info))
            add_tags(need);
        need->ep_attr->rx_ctx_cnt = shared ? FI_SHARED_CONTEXT : 1;
        need->ep_attr->tx_ctx_cnt = 1;
        rc = lower->getinfo(lower, FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), NULL, NULL, 0,
                            need, list);
    }
    info_free(need);
    return rc;
}

/* By the name that the branch has in those of the join. */
static int ask_named(const struct join_fabric *fabric, size_t slot, const struct fi_info *info,
                     bool shared, struct fi_info **list)
{
    char *fabrics[LNX_BRANCHES] = {NULL}, *domains[LNX_BRANCHES] = {NULL};
    int rc = -FI_ENODATA;

    if (join_name_split(info->fabric_attr->name, fabric->slots, fabrics) ||
        join_name_split(info->domain_attr->name, fabric->slots, domains))
        rc = -FI_EINVAL;
    else if (domains[slot])
        rc = ask_branch(fabric->lower[slot], info, shared, fabrics[slot], domains[slot], false,
                        list);
    join_names_free(fabrics, fabric->slots);
    join_names_free(domains, fabric->slots);
    return rc ? rc : set_source(*list, info);
}

/* The join's names are those of its face; others are asked for whatever they have. */
static int ask_with_face(const struct join_fabric *fabric, size_t slot, const struct fi_info *info,
                         bool shared, struct fi_info **list)
{
    const struct lower *lower = fabric->lower[slot];

    if (slot == lnx_face(fabric->plain.params))
        return ask_branch(lower, info, shared, info->fabric_attr->name, info->domain_attr->name,
                          true, list);
    if (leaves_node(info))
        return -FI_ENODATA;
    return ask_branch(lower, info, shared, NULL, NULL, false, list);
}

int lnx_branch_info(const struct join_fabric *fabric, size_t slot, const struct fi_info *info,
                    bool shared, struct fi_info **branch)
{
    struct fi_info *list = NULL;
    int rc = -FI_ENODATA;

    if (!info->domain_attr->name || !info->fabric_attr->name)
        return -FI_ENODATA;
    if (lnx_face(fabric->plain.params) == SIZE_MAX)
        rc = ask_named(fabric, slot, info, shared, &list);
    else
        rc = ask_with_face(fabric, slot, info, shared, &list);
    if (rc) {
        info_free(list);
        return rc;
    }
    info_free(list->next);
    list->next = NULL;
    *branch = list;
    return 0;
}
