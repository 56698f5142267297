/* SPDX-License-Identifier: BSD-2-Clause */
/* The receiving side: messages, remote memory access, and what nobody waits for yet. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/iov.h"
#include "transports/loop/loop.h"

/* ---- Who sent it ---- */

static fi_addr_t ask_av(struct loop_ep *ep, const struct loop_port *from)
{
    char raw[LOOP_ADDR_MAX];

    loop_addr_export(ep->av->format, ep->rdm, &from->addr, raw);
    return av_find(ep->av, raw);
}

fi_addr_t loop_source(struct loop_ep *ep, const struct loop_port *from)
{
    struct loop_known *known;

    if (!ep->knows_sources)
        return FI_ADDR_UNSPEC;
    if (from->index >= ep->source_count) {
        size_t count = 2 * (from->index + 8u);

        known = realloc(ep->sources, count * sizeof(*known));
        if (!known)
            return ask_av(ep, from);
        memset(known + ep->source_count, 0, (count - ep->source_count) * sizeof(*known));
        ep->sources = known;
        ep->source_count = count;
    }
    known = &ep->sources[from->index];
    if (__builtin_expect(known->serial != from->serial, 0)) {
        known->serial = from->serial;
        known->addr = ask_av(ep, from);
    }
    return known->addr;
}

static fi_addr_t get_addr(struct fi_peer_rx_entry *entry)
{
    const struct loop_saved *saved = entry->peer_context;

    return loop_source(saved->ep, saved->from);
}

void loop_resolve_saved(struct loop_ep *ep)
{
    if (ep->source_count)
        memset(ep->sources, 0, ep->source_count * sizeof(*ep->sources));
    if (ep->in)
        ep->in->owner_ops->foreach_unspec_addr(ep->in, get_addr);
}

/* ---- Messages ---- */

static void free_entry(struct fi_peer_rx_entry *entry)
{
    entry->srx->owner_ops->free_entry(entry);
}

/* A message that is too long, or of a stranger: his address is told, to be inserted as it is. */
static void receive_failed(struct loop_ep *ep, const struct fi_peer_rx_entry *entry,
                           const struct loop_port *from, uint64_t flags, size_t copied, size_t len,
                           uint64_t data, fi_addr_t src)
{
    int err = copied < len ? FI_ETRUNC : FI_EADDRNOTAVAIL;
    char raw[LOOP_ADDR_MAX];
    struct fi_cq_err_entry error = {
        .op_context = entry->context,
        .flags = flags,
        .len = copied,
        .buf = entry->count ? entry->iov[0].iov_base : NULL,
        .data = data,
        .tag = entry->tag,
        .olen = len - copied,
        .err = err,
        .prov_errno = err,
        .src_addr = src,
    };

    if (err == FI_EADDRNOTAVAIL) {
        error.err_data = raw;
        error.err_data_size = loop_addr_export(ep->av->format, ep->rdm, &from->addr, raw);
    }
    report_failed(&ep->report, REPORT_RECV, &error);
}

static inline void deliver(struct loop_ep *ep, struct fi_peer_rx_entry *entry,
                           const struct loop_port *from, const struct iovec *iov, size_t count,
                           size_t len, bool has_data, uint64_t data)
{
    uint64_t flags = (entry->flags & ~FI_COMPLETION) | (has_data ? FI_REMOTE_CQ_DATA : 0);
    fi_addr_t src = ep->knows_sources ? av_source(ep->av, entry->addr) : entry->addr;
    void *buf = entry->count ? entry->iov[0].iov_base : NULL;
    bool stranger = ep->source_err && entry->addr == FI_ADDR_UNSPEC;
    size_t copied = len;

    if (__builtin_expect(count == 1 && entry->count == 1 && len <= entry->iov[0].iov_len, 1)) {
        if (len)
            memcpy(buf, iov[0].iov_base, len);
    } else {
        copied = iov_copy(entry->iov, entry->count, iov, count);
    }
    if (__builtin_expect(copied == len && !stranger, 1))
        report_done(&ep->report, REPORT_RECV, entry->flags & FI_COMPLETION, entry->context, flags,
                    len, buf, data, entry->tag, src);
    else
        receive_failed(ep, entry, from, flags, copied, len, data, src);
    free_entry(entry);
}

static void save(struct loop_ep *ep, struct fi_peer_rx_entry *entry, struct loop_op *op)
{
    struct loop_saved *saved = malloc(sizeof(*saved) + op->len);
    struct iovec to = {.iov_len = op->len};

    if (!saved || ep->domain->fabric->rdma) {
        free_entry(entry);
        op->err = saved ? FI_ENORX : FI_ENOMEM;
        free(saved);
        return;
    }
    saved->ep = ep;
    saved->from = loop_port_hold(op->from);
    saved->len = op->len;
    saved->has_data = op->has_data;
    saved->data = op->data;
    to.iov_base = saved->bytes;
    iov_copy(&to, 1, op->iov, op->count);
    list_attach(&saved->link, &ep->saved);
    entry->peer_context = saved;
    entry->cq_data = op->data;
    if (op->has_data)
        entry->flags |= FI_REMOTE_CQ_DATA;
    if (op->kind == LOOP_TAGGED)
        ep->in->owner_ops->queue_tag(entry);
    else
        ep->in->owner_ops->queue_msg(entry);
}

static inline void receive_message(struct loop_ep *ep, struct loop_op *op)
{
    struct fi_peer_match_attr attr = {
        .addr = loop_source(ep, op->from),
        .msg_size = op->len,
        .tag = op->kind == LOOP_TAGGED ? op->tag : 0,
    };
    struct fi_ops_srx_owner *ops = ep->in->owner_ops;
    struct fi_peer_rx_entry *entry;
    int rc = op->kind == LOOP_TAGGED ? ops->get_tag(ep->in, &attr, &entry)
                                     : ops->get_msg(ep->in, &attr, &entry);

    if (!rc)
        deliver(ep, entry, op->from, op->iov, op->count, op->len, op->has_data, op->data);
    else if (rc == -FI_ENOENT && op->datagram)
        free_entry(entry);
    else if (rc == -FI_ENOENT)
        save(ep, entry, op);
    else if (!op->datagram)
        op->err = -rc;
}

static void free_saved(struct loop_saved *saved)
{
    list_detach(&saved->link);
    loop_port_release(saved->from);
    free(saved);
}

static int start(struct fi_peer_rx_entry *entry)
{
    struct loop_saved *saved = entry->peer_context;
    struct iovec from = {.iov_base = saved->bytes, .iov_len = saved->len};

    if (saved->ep)
        deliver(saved->ep, entry, saved->from, &from, 1, saved->len, saved->has_data, saved->data);
    else
        free_entry(entry);
    free_saved(saved);
    return 0;
}

static int discard(struct fi_peer_rx_entry *entry)
{
    struct loop_saved *saved = entry->peer_context;

    free_entry(entry);
    free_saved(saved);
    return 0;
}

struct fi_ops_srx_peer loop_srx_peer_ops = {
    .size = sizeof(struct fi_ops_srx_peer),
    .start_msg = start,
    .start_tag = start,
    .discard_msg = discard,
    .discard_tag = discard,
};

/* ---- Remote memory access ---- */

/* The memory of all remote segments of an operation. */
struct target {
    struct mr *mrs[LOOP_IOV_LIMIT];
    size_t mr_count;
    struct iovec iov[LOOP_IOV_LIMIT * LOOP_IOV_LIMIT];
    size_t count;
};

static int resolve(const struct loop_ep *ep, const struct loop_op *op, uint64_t access,
                   struct target *target)
{
    for (size_t i = 0; i < op->rma_count; i++) {
        size_t count = LOOP_IOV_LIMIT;
        int rc = mr_resolve(ep->domain->base.mrs, op->rma[i].key, op->rma[i].addr, op->rma[i].len,
                            access, target->iov + target->count, &count, &target->mrs[i]);

        if (rc)
            return rc;
        target->mr_count++;
        target->count += count;
    }
    return 0;
}

/* A write with CQ data takes a receive, as RDMA devices have it (FI_RX_CQ_DATA). */
static int take_receive(struct loop_ep *ep, void **context)
{
    struct fi_peer_match_attr attr = {.addr = FI_ADDR_UNSPEC};
    struct fi_peer_rx_entry *entry;
    int rc = ep->in->owner_ops->get_msg(ep->in, &attr, &entry);

    if (rc && rc != -FI_ENOENT)
        return rc;
    if (!rc)
        *context = entry->context;
    free_entry(entry);
    return rc;
}

static void count_access(struct loop_ep *ep, const struct loop_op *op, const struct target *target,
                         void *context)
{
    bool write = op->kind == LOOP_WRITE;

    mr_count_access(target->mrs, target->mr_count, write);
    if (!ep->rdm && atomic_load(&ep->state) != LOOP_CONNECTED)
        return;
    if (!mr_counted(target->mrs, target->mr_count) && !(write && op->has_data))
        return;
    report_done(
        &ep->report, write ? REPORT_REMOTE_WRITE : REPORT_REMOTE_READ, write && op->has_data,
        context, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, op->len, NULL, op->data, 0,
        ep->knows_sources ? av_source(ep->av, loop_source(ep, op->from)) : FI_ADDR_NOTAVAIL);
}

static void access_memory(struct loop_ep *ep, struct loop_op *op)
{
    bool write = op->kind == LOOP_WRITE;
    struct target target = {.count = 0};
    int rc = resolve(ep, op, write ? FI_REMOTE_WRITE : FI_REMOTE_READ, &target);
    void *context = NULL;

    if (!rc && write && op->has_data && ep->domain->fabric->rdma)
        rc = take_receive(ep, &context) ? -FI_ENORX : 0;
    if (rc)
        op->err = -rc;
    else if (write)
        iov_copy(target.iov, target.count, op->iov, op->count);
    else
        iov_copy(op->iov, op->count, target.iov, target.count);
    if (!rc)
        count_access(ep, op, &target, context);
    for (size_t i = 0; i < target.mr_count; i++)
        mr_release(target.mrs[i]);
}

void loop_receive(struct loop_ep *ep, struct loop_op *op)
{
    if (!ep->rdm && atomic_load_explicit(&ep->state, memory_order_relaxed) != LOOP_CONNECTED)
        op->err = FI_ECONNRESET;
    else if (op->datagram != ep->dgram)
        op->err = op->datagram ? 0 : FI_ECONNREFUSED;
    else if (op->kind == LOOP_MSG || op->kind == LOOP_TAGGED)
        receive_message(ep, op);
    else if (op->atomic)
        op->err = loop_apply(ep, op);
    else
        access_memory(ep, op);
}
