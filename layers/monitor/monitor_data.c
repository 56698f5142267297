/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls and completions, counted, and the objects that they are counted for. */
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/base/iov.h"
#include "core/hook/hook_watch.h"
#include "core/net/addr.h"
#include "layers/monitor/monitor.h"

static inline bool owes_completion(const struct monitor_object *object, const struct op *op)
{
    bool receive = op_is_receive(op);
    enum monitor_awaits awaits = receive ? object->rx : object->tx;

    if (awaits == MONITOR_AWAITS_NONE || op_is_inject(op))
        return false;
    if (awaits == MONITOR_AWAITS_ALL)
        return true;
    if (!op->defaults)
        return op->flags & FI_COMPLETION;
    return receive ? object->rx_default : object->tx_default;
}

static void count_lost(const struct monitor_page *page)
{
    __atomic_fetch_add(&page->header->lost, 1, __ATOMIC_RELAXED);
}

static void refused(const struct monitor_object *object, struct monitor_slot *slot,
                    enum op_call kind, ssize_t rc, const void *context)
{
    per_thread_add(rc == -FI_EAGAIN ? &slot->block->again[kind] : &slot->block->failed[kind], 1);
    if (context)
        op_timer_refused(&object->page->timer, &slot->turns, kind, context);
}

/* The counts of an operation that was accepted; the lower may change the op itself. */
struct counted {
    uint64_t len;
    bool receives, awaited, multi;
};

static void count_accepted(const struct monitor_object *object, struct monitor_slot *slot,
                           enum op_call call, const struct counted *counted)
{
    struct weft_monitor_cell *cell =
        &slot->block->cells[call][weft_monitor_size_class(counted->len)];
    enum weft_monitor_count awaited =
        counted->receives ? WEFT_MONITOR_AWAITED_RX : WEFT_MONITOR_AWAITED_TX;

    per_thread_add(&cell->count, 1);
    per_thread_add(&cell->bytes, counted->len);
    if (counted->awaited)
        per_thread_add(&slot->block->counts[awaited], 1);
    if (__builtin_expect(counted->multi, 0))
        __atomic_store_n(&object->page->header->multi, 1, __ATOMIC_RELAXED);
}

static inline void before(const struct monitor_object *object, struct monitor_slot *slot,
                          const struct op *op)
{
    struct op_timer *timer = &object->page->timer;

    if (!op->context)
        return;
    if (__builtin_expect(op_timer_due(&slot->turns, op->call), 0))
        op_timer_begin(timer, &slot->turns, op->call, 0, op->context);
    else if (__builtin_expect(op_timer_runs(timer, op->context), 0))
        op_timer_forget(timer, op->context);
}

static ssize_t monitor_post(struct ep *base, struct op *op)
{
    const struct monitor_object *object = hook_ep_of(base)->own;
    struct monitor_slot *slot = object ? monitor_slot_of(object) : NULL;
    const void *context = op->context;
    enum op_call call = op->call;
    struct counted counted;
    ssize_t rc;

    if (__builtin_expect(!slot, 0)) {
        if (object)
            count_lost(object->page);
        return hook_post(base, op);
    }
    counted = (struct counted){.len = op->len,
                               .receives = op_is_receive(op),
                               .awaited = owes_completion(object, op),
                               .multi = op_is_receive(op) && op->flags & FI_MULTI_RECV};
    before(object, slot, op);
    rc = hook_post(base, op);
    if (__builtin_expect(rc < 0, 0))
        refused(object, slot, call, rc, context);
    else
        count_accepted(object, slot, call, &counted);
    return rc;
}

static void reading_seen(struct hook_cq *cq, ssize_t rc)
{
    const struct monitor_object *object = cq->own;
    struct monitor_slot *slot = object ? monitor_slot_of(object) : NULL;

    if (slot)
        per_thread_add(&slot->block->counts[rc == -FI_EAGAIN || !rc ? WEFT_MONITOR_EMPTY_READS
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

static void completion_seen(struct hook_cq *cq, const struct completion *completion,
                            enum completion_way way)
{
    const struct monitor_object *object = cq->own;
    struct monitor_slot *slot = object ? monitor_slot_of(object) : NULL;
    struct weft_monitor_cell *cell;

    if (!slot)
        return;
    per_thread_add(&slot->block->counts[count_of(completion)], 1);
    cell = &slot->block->cells[MONITOR_CQ_READ][weft_monitor_size_class(completion->len)];
    per_thread_add(&cell->count, 1);
    per_thread_add(&cell->bytes, completion->len);
    if (__builtin_expect(completion->err, 0))
        per_thread_add(&slot->block->counts[completion->err == FI_ECANCELED ? WEFT_MONITOR_CANCELLED
                                                                            : WEFT_MONITOR_ERRORS],
                       1);
    if (__builtin_expect(op_timer_runs(&object->page->timer, completion->context), 0))
        monitor_time_end(object->page, completion->context, completion->flags);
}

/* ---- Messages that came before their receive ---- */

static void count_unexpected(struct hook_ep *ep)
{
    const struct monitor_object *object = ep->own;
    struct monitor_slot *slot = object ? monitor_slot_of(object) : NULL;

    if (slot)
        per_thread_add(&slot->block->counts[WEFT_MONITOR_UNEXPECTED], 1);
}

/* ---- Regions ---- */

static void count_mr(const struct hook_opening *opening, int rc)
{
    const struct monitor_object *object = *hook_own(opening->parent);
    struct monitor_slot *slot = object ? monitor_slot_of(object) : NULL;
    size_t len = iov_bytes(opening->iov, opening->iov_count);
    struct weft_monitor_cell *cell;

    if (slot && rc) {
        per_thread_add(&slot->block->failed[MONITOR_MR_REG], 1);
    } else if (slot) {
        cell = &slot->block->cells[MONITOR_MR_REG][weft_monitor_size_class(len)];
        per_thread_add(&cell->count, 1);
        per_thread_add(&cell->bytes, len);
    }
}

/* ---- Objects ---- */

static void fill_ep(struct monitor_object *object, const struct hook_opening *opening)
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
                                           const struct hook_opening *opening)
{
    struct monitor_object *object =
        monitor_object_open(above->page, (uint32_t)fid->fclass, above->entry, NULL);

    if (!object || fid->fclass == FI_CLASS_CQ)
        return object;
    if (opening->alias)
        fill_alias(object, above, opening->alias->flags);
    else
        fill_ep(object, opening);
    /* The endpoint of these receives, and the queue in which they end, are not known: each owes
     * one. */
    if (fid->fclass == FI_CLASS_SRX_CTX)
        object->rx = MONITOR_AWAITS_ALL;
    return object;
}

static void opened(const struct hook_fabric *fabric, struct fid *fid,
                   const struct hook_opening *opening)
{
    struct monitor_page *page = fabric->own;
    const struct monitor_object *above;

    if (fid->fclass == FI_CLASS_DOMAIN && page) {
        *hook_own(fid) =
            monitor_object_open(page, FI_CLASS_DOMAIN, 0, opening->info->domain_attr->name);
    } else if (hook_transfers(fid) || fid->fclass == FI_CLASS_SEP || fid->fclass == FI_CLASS_CQ) {
        above = *hook_own(opening->parent);
        *hook_own(fid) = above ? opened_below(above, fid, opening) : NULL;
    } else if (fid->fclass == FI_CLASS_MR) {
        count_mr(opening, 0);
    }
}

static void refused_object(const struct fid *fid, const struct hook_opening *opening, int rc)
{
    if (fid->fclass == FI_CLASS_MR)
        count_mr(opening, rc);
}

static void closed(struct fid *fid)
{
    if (hook_transfers(fid) || fid->fclass == FI_CLASS_SEP || fid->fclass == FI_CLASS_CQ ||
        fid->fclass == FI_CLASS_DOMAIN)
        monitor_object_close(*hook_own(fid));
}

static const struct hook_watch watch = {
    .opened = opened, .refused = refused_object, .closed = closed};

static int bind_ep(struct fid *fid, struct fid *bfid, uint64_t flags)
{
    enum monitor_awaits awaits =
        flags & FI_SELECTIVE_COMPLETION ? MONITOR_AWAITS_ASKED : MONITOR_AWAITS_ALL;
    struct monitor_object *object = *hook_own(fid);
    int rc = hook_ep_fid_ops.bind(fid, bfid, flags);

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
    const struct monitor_object *object = *hook_own(fid);
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
    int rc = hook_ep_fid_ops.control(fid, command, arg);

    if (!rc && command == FI_ENABLE)
        name_ep(fid);
    return rc;
}

static struct fi_ops ep_fid_ops = {
    .size = sizeof(ep_fid_ops), .control = control_ep, .bind = bind_ep};

void monitor_data_ops(struct hook_ops *ops)
{
    ops->post = monitor_post;
    ops->completed = completion_seen;
    ops->cq_read = reading_seen;
    ops->unexpected = count_unexpected;
    ops->ep_fid = &ep_fid_ops;
    ops->watch = &watch;
}
