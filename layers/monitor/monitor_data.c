/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls and completions, counted, and the objects that they are counted for. */
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/addr.h"
#include "core/pass_watch.h"
#include "layers/monitor/monitor.h"

/* Of each function, in one load. */
enum {
    KIND_CLASS = 0x0f,
    KIND_INJECT = 0x10, /* owes no completion */
    KIND_FLAGS = 0x20,  /* has flags of its own; others have the endpoint's defaults */
};
static unsigned char kinds[CALL_KINDS];

static inline bool owes_completion(const struct monitor_object *object, const struct call *call,
                                   bool receive)
{
    enum monitor_awaits awaits = receive ? object->rx : object->tx;

    if (awaits == MONITOR_AWAITS_NONE || kinds[call->kind] & KIND_INJECT)
        return false;
    if (awaits == MONITOR_AWAITS_ALL)
        return true;
    if (kinds[call->kind] & KIND_FLAGS)
        return call->flags & FI_COMPLETION;
    return receive ? object->rx_default : object->tx_default;
}

/* One that never completed, or was refused, must not be taken for the next with its context. */
static inline void forget(struct monitor_page *page, const void *context)
{
    struct monitor_open_op *op = monitor_open_op(page, context);

    if (atomic_load_explicit(&op->context, memory_order_relaxed) == context)
        atomic_store_explicit(&op->context, NULL, memory_order_relaxed);
}

static inline __attribute__((always_inline)) ssize_t call_enter(struct pass_ep *ep,
                                                                struct call *call)
{
    const struct monitor_object *object = ep->hook;
    struct monitor_slot *slot;

    if (!object || !object->page->sample || !call->context)
        return 0;
    slot = monitor_slot_of(object);
    if (__builtin_expect(slot && --slot->until_sample == 0, 0)) {
        slot->until_sample = object->page->sample;
        monitor_time_begin(object->page, call->context, kinds[call->kind] & KIND_CLASS);
    } else {
        forget(object->page, call->context);
    }
    return 0;
}

static void count_lost(const struct monitor_page *page)
{
    __atomic_fetch_add(&page->header->lost, 1, __ATOMIC_RELAXED);
}

static void refused(const struct monitor_object *object, uint64_t *count, const void *context)
{
    monitor_add(count, 1);
    if (context)
        forget(object->page, context);
}

/* Inline for certain, and nothing here gives a function a pointer to the call: then it is never
 * built. */
static inline __attribute__((always_inline)) ssize_t call_leave(struct pass_ep *ep,
                                                                const struct call *call, ssize_t rc)
{
    const struct monitor_object *object = ep->hook;
    struct monitor_slot *slot = object ? monitor_slot_of(object) : NULL;
    struct weft_monitor_cell *cell;
    bool receive;

    if (__builtin_expect(!slot, 0)) {
        if (object)
            count_lost(object->page);
        return rc;
    }
    if (__builtin_expect(rc < 0, 0)) {
        refused(object,
                rc == -FI_EAGAIN ? &slot->block->again[call->kind]
                                 : &slot->block->failed[call->kind],
                call->context);
        return rc;
    }
    receive = (kinds[call->kind] & KIND_CLASS) == CALL_CLASS_RECV;
    cell = &slot->block->cells[call->kind][weft_monitor_size_class(call->len)];
    monitor_add(&cell->count, 1);
    monitor_add(&cell->bytes, call->len);
    if (owes_completion(object, call, receive))
        monitor_add(
            &slot->block->counts[receive ? WEFT_MONITOR_AWAITED_RX : WEFT_MONITOR_AWAITED_TX], 1);
    if (__builtin_expect(receive && call->flags & FI_MULTI_RECV, 0))
        __atomic_store_n(&object->page->header->multi, 1, __ATOMIC_RELAXED);
    return rc;
}

static inline void reading_seen(struct pass_cq *cq, ssize_t rc)
{
    const struct monitor_object *object = cq->hook;
    struct monitor_slot *slot = object ? monitor_slot_of(object) : NULL;

    if (slot)
        monitor_add(&slot->block->counts[rc == -FI_EAGAIN || !rc ? WEFT_MONITOR_EMPTY_READS
                                                                 : WEFT_MONITOR_READS],
                    1);
    else if (object)
        count_lost(object->page);
}

static inline enum weft_monitor_count count_of(const struct completion *completion)
{
    const uint64_t remote = FI_REMOTE_READ | FI_REMOTE_WRITE;
    const uint64_t sent = FI_SEND | FI_READ | FI_WRITE | FI_ATOMIC | FI_COLLECTIVE;

    if (completion->flags & (FI_RECV | FI_MULTI_RECV))
        return WEFT_MONITOR_DONE_RX;
    if (completion->flags & remote)
        return WEFT_MONITOR_REMOTE;
    return completion->flags & sent ? WEFT_MONITOR_DONE_TX : WEFT_MONITOR_DONE;
}

/* A receive and a send may have one context. */
static inline bool ends(const struct completion *completion, struct monitor_open_op *op)
{
    bool receiving = atomic_load_explicit(&op->class, memory_order_relaxed) == CALL_CLASS_RECV;

    return atomic_load_explicit(&op->context, memory_order_acquire) == completion->context &&
           (!completion->flags || receiving == !!(completion->flags & FI_RECV));
}

static inline void completion_seen(struct pass_cq *cq, const struct completion *completion,
                                   enum completion_way way)
{
    const struct monitor_object *object = cq->hook;
    struct monitor_slot *slot = object ? monitor_slot_of(object) : NULL;
    struct weft_monitor_cell *cell;
    struct monitor_open_op *op;

    if (!slot)
        return;
    monitor_add(&slot->block->counts[count_of(completion)], 1);
    cell = &slot->block->cells[MONITOR_CQ_READ][weft_monitor_size_class(completion->len)];
    monitor_add(&cell->count, 1);
    monitor_add(&cell->bytes, completion->len);
    if (__builtin_expect(completion->err, 0))
        monitor_add(&slot->block->counts[completion->err == FI_ECANCELED ? WEFT_MONITOR_CANCELLED
                                                                         : WEFT_MONITOR_ERRORS],
                    1);
    if (!completion->context)
        return;
    op = monitor_open_op(object->page, completion->context);
    if (ends(completion, op))
        monitor_time_end(object->page, op);
}

#include "core/call_transfers.inc"

#include "core/call_atomics.inc"
#include "core/completions.inc"

/* ---- Messages that came before their receive ---- */

static int count_get(struct fid_peer_srx *peer, int rc)
{
    const struct monitor_object *object = object_of(peer, struct pass_ep, peer)->hook;
    struct monitor_slot *slot = object && rc == -FI_ENOENT ? monitor_slot_of(object) : NULL;

    if (slot)
        monitor_add(&slot->block->counts[WEFT_MONITOR_UNEXPECTED], 1);
    return rc;
}

static int get_msg(struct fid_peer_srx *peer, struct fi_peer_match_attr *attr,
                   struct fi_peer_rx_entry **entry)
{
    return count_get(peer, pass_srx_owner_ops.get_msg(peer, attr, entry));
}

static int get_tag(struct fid_peer_srx *peer, struct fi_peer_match_attr *attr,
                   struct fi_peer_rx_entry **entry)
{
    return count_get(peer, pass_srx_owner_ops.get_tag(peer, attr, entry));
}

static struct fi_ops_srx_owner srx_owner_ops;

/* ---- Regions ---- */

static int count_mr(struct fid_domain *domain, size_t len, int rc)
{
    const struct monitor_object *object = pass_domain_of(domain)->hook;
    struct monitor_slot *slot = object ? monitor_slot_of(object) : NULL;
    struct weft_monitor_cell *cell;

    if (slot && rc) {
        monitor_add(&slot->block->failed[MONITOR_MR_REG], 1);
    } else if (slot) {
        cell = &slot->block->cells[MONITOR_MR_REG][weft_monitor_size_class(len)];
        monitor_add(&cell->count, 1);
        monitor_add(&cell->bytes, len);
    }
    return rc;
}

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
                  uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context)
{
    int rc = pass_mr_ops.reg(fid, buf, len, access, offset, requested_key, flags, mr, context);

    return count_mr(object_of(fid, struct fid_domain, fid), len, rc);
}

static int mr_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access,
                   uint64_t offset, uint64_t requested_key, uint64_t flags, struct fid_mr **mr,
                   void *context)
{
    int rc = pass_mr_ops.regv(fid, iov, count, access, offset, requested_key, flags, mr, context);

    return count_mr(object_of(fid, struct fid_domain, fid), rc ? 0 : call_total_len(iov, count),
                    rc);
}

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
                      struct fid_mr **mr)
{
    int rc = pass_mr_ops.regattr(fid, attr, flags, mr);
    bool vector = !rc && !(flags & FI_MR_DMABUF);

    return count_mr(object_of(fid, struct fid_domain, fid),
                    vector ? call_total_len(attr->mr_iov, attr->iov_count) : 0, rc);
}

static struct fi_ops_mr mr_ops;

/* ---- Objects ---- */

static void fill_ep(struct monitor_object *object, const struct pass_opening *opening)
{
    const struct fi_tx_attr *tx = opening->tx;
    const struct fi_rx_attr *rx = opening->rx;

    object->tx_default = tx && tx->op_flags & FI_COMPLETION;
    object->rx_default = rx && rx->op_flags & FI_COMPLETION;
    if (rx && rx->op_flags & FI_MULTI_RECV)
        __atomic_store_n(&object->page->header->multi, 1, __ATOMIC_RELAXED);
}

/* An alias differs in the default flags of one direction. */
static void fill_alias(struct monitor_object *other, const struct monitor_object *object,
                       uint64_t flags)
{
    other->tx = object->tx;
    other->rx = object->rx;
    other->tx_default = flags & FI_TRANSMIT ? flags & FI_COMPLETION : object->tx_default;
    other->rx_default = flags & FI_RECV ? flags & FI_COMPLETION : object->rx_default;
}

/* An object has been opened from one of which `above` is the hook. */
static struct monitor_object *opened_below(const struct monitor_object *above, struct fid *fid,
                                           const struct pass_opening *opening)
{
    struct monitor_object *object =
        monitor_object_open(above->page, (uint32_t)fid->fclass, above->entry, NULL);

    if (!object || fid->fclass == FI_CLASS_CQ)
        return object;
    if (opening->alias)
        fill_alias(object, above, opening->alias->flags);
    else
        fill_ep(object, opening);
    /* Whose receives these will be, and in which queue they end, is not known: each owes one. */
    if (fid->fclass == FI_CLASS_SRX_CTX)
        object->rx = MONITOR_AWAITS_ALL;
    return object;
}

static void opened(const struct pass_fabric *fabric, struct fid *fid,
                   const struct pass_opening *opening)
{
    struct monitor_page *page = fabric->hook;
    const struct monitor_object *above;

    if (fid->fclass == FI_CLASS_DOMAIN && page) {
        *pass_hook(fid) =
            monitor_object_open(page, FI_CLASS_DOMAIN, 0, opening->info->domain_attr->name);
    } else if (pass_transfers(fid) || fid->fclass == FI_CLASS_SEP || fid->fclass == FI_CLASS_CQ) {
        above = *pass_hook(opening->parent);
        *pass_hook(fid) = above ? opened_below(above, fid, opening) : NULL;
    }
}

static void closed(struct fid *fid)
{
    if (pass_transfers(fid) || fid->fclass == FI_CLASS_SEP || fid->fclass == FI_CLASS_CQ ||
        fid->fclass == FI_CLASS_DOMAIN)
        monitor_object_close(*pass_hook(fid));
}

static const struct pass_watch watch = {.opened = opened, .closed = closed};

static int bind_ep(struct fid *fid, struct fid *bfid, uint64_t flags)
{
    enum monitor_awaits awaits =
        flags & FI_SELECTIVE_COMPLETION ? MONITOR_AWAITS_ASKED : MONITOR_AWAITS_ALL;
    struct monitor_object *object = *pass_hook(fid);
    int rc = pass_ep_fid_ops.bind(fid, bfid, flags);

    if (rc || !object || bfid->fclass != FI_CLASS_CQ)
        return rc;
    if (flags & FI_TRANSMIT)
        object->tx = awaits;
    if (flags & FI_RECV)
        object->rx = awaits;
    return 0;
}

/* The name of an endpoint is its address, where that is one of the network. */
static void name_ep(struct fid *fid)
{
    const struct monitor_object *object = *pass_hook(fid);
    char text[ADDR_TEXT_MAX];
    union addr addr;
    size_t len = sizeof(addr);

    memset(&addr, 0, sizeof(addr));
    if (!object || !object->entry || fi_getname(fid, &addr, &len) || len < sizeof(addr.in) ||
        addr_size(&addr.sa) != len)
        return;
    addr_text(&addr.sa, text, sizeof(text));
    monitor_object_name(object, text);
}

static int control_ep(struct fid *fid, int command, void *arg)
{
    int rc = pass_ep_fid_ops.control(fid, command, arg);

    if (!rc && command == FI_ENABLE)
        name_ep(fid);
    return rc;
}

static struct fi_ops ep_fid_ops;

static unsigned char kind_of(enum call_kind kind)
{
    unsigned char bits = (unsigned char)call_class(kind);

    if (call_is_inject(kind))
        bits |= KIND_INJECT;
    if (strstr(call_name(kind), "msg") || kind >= CALL_COLL_BARRIER)
        bits |= KIND_FLAGS;
    return bits;
}

void monitor_data_ops(struct pass_ops *ops)
{
    for (int i = 0; i < CALL_KINDS; i++)
        kinds[i] = kind_of((enum call_kind)i);
    srx_owner_ops = pass_srx_owner_ops;
    srx_owner_ops.get_msg = get_msg;
    srx_owner_ops.get_tag = get_tag;
    mr_ops = pass_mr_ops;
    mr_ops.reg = mr_reg;
    mr_ops.regv = mr_regv;
    mr_ops.regattr = mr_regattr;
    ep_fid_ops = pass_ep_fid_ops;
    ep_fid_ops.control = control_ep;
    ep_fid_ops.bind = bind_ep;
    ops->msg = &seen_msg_ops;
    ops->tagged = &seen_tagged_ops;
    ops->rma = &seen_rma_ops;
    ops->atomic = &seen_atomic_ops;
    ops->collective = &seen_collective_ops;
    ops->cq = &seen_cq_ops;
    ops->cq_owner = &seen_cq_owner_ops;
    ops->srx_owner = &srx_owner_ops;
    ops->mr = &mr_ops;
    ops->ep_fid = &ep_fid_ops;
    ops->watch = &watch;
}
