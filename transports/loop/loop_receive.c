/* SPDX-License-Identifier: BSD-2-Clause */
/* The receiving side: messages, those that wait for a receive, and remote memory access. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/iov.h"
#include "core/match/match_entry.h"
#include "core/op/remote.h"
#include "transports/loop/device/loop_device.h"

/* ---- Sources ---- */

/* The fi_addr_t of a sender, FI_ADDR_UNSPEC when unknown or of no interest. */
static fi_addr_t source_of(struct loop_ep *ep, const struct loop_port *from)
{
    char raw[LOOP_ADDR_MAX];

    if (!ep->knows_sources)
        return FI_ADDR_UNSPEC;
    loop_addr_export(ep->base.av->format, ep->rdm, &from->addr, raw);
    return av_find(ep->base.av, raw);
}

static fi_addr_t get_addr(struct fi_peer_rx_entry *entry)
{
    const struct loop_saved *saved = entry->peer_context;

    return source_of(saved->ep, saved->from);
}

void loop_resolve_saved(struct loop_ep *ep)
{
    if (ep->base.in)
        ep->base.in->owner_ops->foreach_unspec_addr(ep->base.in, get_addr);
}

/* ---- Messages ---- */

/* A message that is too long, or from a sender outside of the AV, whose address the error carries,
 * ready to be inserted. */
static void receive_failed(struct loop_ep *ep, const struct fi_peer_rx_entry *entry,
                           const struct loop_port *from, uint64_t flags, size_t copied, size_t len,
                           uint64_t data, fi_addr_t src)
{
    int err = copied < len ? FI_ETRUNC : FI_EADDRNOTAVAIL;
    char raw[LOOP_ADDR_MAX];
    struct fi_cq_err_entry error = match_entry_error(entry, flags, copied, len, err);

    error.data = data;
    error.src_addr = src;
    if (err == FI_EADDRNOTAVAIL) {
        error.err_data = raw;
        error.err_data_size = loop_addr_export(ep->base.av->format, ep->rdm, &from->addr, raw);
    }
    complete_error(&ep->base.binding, BIND_RECV, &error);
}

static inline void deliver(struct loop_ep *ep, struct fi_peer_rx_entry *entry,
                           const struct loop_port *from, const struct iovec *iov, size_t count,
                           size_t len, bool has_data, uint64_t data)
{
    uint64_t flags = (entry->flags & ~FI_COMPLETION) | (has_data ? FI_REMOTE_CQ_DATA : 0);
    fi_addr_t src = ep->knows_sources ? av_source(ep->base.av, entry->addr) : entry->addr;
    void *buf = entry->count ? entry->iov[0].iov_base : NULL;
    const bool prefixed = ep->prefix && entry->count;
    bool stranger = ep->source_err && entry->addr == FI_ADDR_UNSPEC;
    size_t copied = len;

    if (__builtin_expect(count == 1 && entry->count == 1 && len <= entry->iov[0].iov_len, 1)) {
        if (len)
            memcpy(buf, iov[0].iov_base, len);
    } else {
        copied = iov_copy(entry->iov, entry->count, iov, count);
    }
    if (__builtin_expect(prefixed, 0)) /* it is the device's */
        memset(buf, LOOP_PREFIX_BYTE,
               ep->prefix < entry->iov[0].iov_len ? ep->prefix : entry->iov[0].iov_len);
    if (__builtin_expect(ep->burst != NULL, 0)) {
        if (copied == len && !stranger && entry->flags & FI_COMPLETION && !has_data) {
            loop_burst_done(ep, entry->context, len, src);
            if (src == FI_ADDR_UNSPEC) /* it may introduce the sender of the next one */
                loop_burst_tell(ep);
            match_entry_free(entry);
            return;
        }
        loop_burst_tell(ep);
    }
    if (__builtin_expect(copied == len && !stranger, 1))
        complete(&ep->base.binding, BIND_RECV, entry->flags & FI_COMPLETION, entry->context, flags,
                 len, buf, data, entry->tag, src);
    else
        receive_failed(ep, entry, from, flags, copied, len, data, src);
    match_entry_free(entry);
}

static void save(struct loop_ep *ep, struct fi_peer_rx_entry *entry, struct loop_op *op)
{
    const struct op *post = op->post;
    struct loop_saved *saved = malloc(sizeof(*saved) + op->len);
    struct iovec to = {.iov_len = op->len};

    if (!saved || loop_is_device(ep->domain->fabric)) {
        match_entry_free(entry);
        op->err = saved ? FI_ENORX : FI_ENOMEM;
        free(saved);
        return;
    }
    saved->ep = ep;
    saved->from = loop_port_hold(op->from);
    saved->len = op->len;
    saved->has_data = post->flags & FI_REMOTE_CQ_DATA;
    saved->data = post->data;
    to.iov_base = saved->bytes;
    iov_copy(&to, 1, post->iov, post->count);
    list_attach(&saved->link, &ep->saved);
    match_entry_queue(entry, post->group == OP_GROUP_TSEND, saved, saved->has_data, post->data);
}

static void drop(struct loop_ep *ep, struct fi_peer_rx_entry *entry)
{
    atomic_fetch_add_explicit(&ep->dropped, 1, memory_order_relaxed);
    match_entry_free(entry);
}

static inline void receive_message(struct loop_ep *ep, struct loop_op *op)
{
    const struct op *post = op->post;
    bool tagged = post->group == OP_GROUP_TSEND;
    struct fi_peer_match_attr attr = {
        .addr = source_of(ep, op->from),
        .msg_size = op->len,
        .tag = tagged ? post->tag : 0,
    };
    struct fi_peer_rx_entry *entry;
    int rc = match_entry_get(ep->base.in, tagged, &attr, &entry);

    if (!rc)
        deliver(ep, entry, op->from, post->iov, post->count, op->len,
                post->flags & FI_REMOTE_CQ_DATA, post->data);
    else if (rc == -FI_ENOENT && op->datagram)
        drop(ep, entry);
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
        match_entry_free(entry);
    free_saved(saved);
    return 0;
}

static int discard(struct fi_peer_rx_entry *entry)
{
    struct loop_saved *saved = entry->peer_context;

    match_entry_free(entry);
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

static void count_access(struct loop_ep *ep, const struct loop_op *op, const struct remote *remote,
                         void *context)
{
    const struct op *post = op->post;
    bool write = !(post->kind & FI_READ), data = write && post->flags & FI_REMOTE_CQ_DATA;

    mr_accessed(remote->mrs, remote->mr_count, remote->access);
    if (!ep->rdm && atomic_load(&ep->state) != LOOP_CONNECTED)
        return;
    if (!mr_counted(remote->mrs, remote->mr_count) && !data)
        return;
    complete(&ep->base.binding, write ? BIND_REMOTE_WRITE : BIND_REMOTE_READ, data, context,
             FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, op->len, NULL, post->data, 0,
             ep->knows_sources ? av_source(ep->base.av, source_of(ep, op->from))
                               : FI_ADDR_NOTAVAIL);
}

static int access_memory(struct loop_ep *ep, const struct loop_op *op)
{
    const struct op *post = op->post;
    struct remote remote;
    void *context = NULL;
    int rc = remote_resolve(ep->domain->base.mrs, post, &remote);

    if (rc)
        return -rc;
    if (ep->domain->fabric->shape == LOOP_RDMA && post->flags & FI_REMOTE_CQ_DATA)
        rc = loop_device_take_receive(ep, &context) ? FI_ENORX : 0;
    if (!rc) {
        remote_access(post, &remote);
        count_access(ep, op, &remote, context);
    }
    remote_release(&remote);
    return rc;
}

void loop_receive(struct loop_ep *ep, struct loop_op *op)
{
    if (!ep->rdm && atomic_load_explicit(&ep->state, memory_order_relaxed) != LOOP_CONNECTED)
        op->err = FI_ECONNRESET;
    else if (op->datagram != ep->dgram)
        op->err = op->datagram ? 0 : FI_ECONNREFUSED;
    else if (op->post->group & (OP_GROUP_SEND | OP_GROUP_TSEND))
        receive_message(ep, op);
    else
        op->err = access_memory(ep, op);
}
