/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages meet their receives. */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/match/match_entry.h"
#include "transports/uet/uet.h"

/* ---- The end of a receive ---- */

/* The address of an unknown sender, as it is to be inserted. */
static void put_stranger(const struct ses_inbound *inbound, uint8_t raw[UET_ADDRESS_SIZE])
{
    struct uet_address address = {
        .host = inbound->from,
        .pid = uet_initiator_pid(inbound->initiator, &inbound->from),
        .flags = UET_HAS_HOST | UET_HAS_PID | UET_HAS_INDEX | UET_HAS_INITIATOR,
        .index = UET_INDEX,
        .index_count = 1,
        .initiator = inbound->initiator,
    };

    uet_address_put(&address, raw);
}

static void report_error(struct uet_ep *ep, struct fi_peer_rx_entry *entry,
                         const struct ses_inbound *inbound, uint64_t flags, int err)
{
    bool whole = err == FI_EADDRNOTAVAIL;
    size_t copied = whole ? inbound->length : err == FI_ETRUNC ? match_entry_room(entry) : 0;
    size_t len = whole || err == FI_ETRUNC ? inbound->length : 0;
    struct fi_cq_err_entry error = match_entry_error(entry, flags, copied, len, err);
    uint8_t raw[UET_ADDRESS_SIZE];

    error.data = inbound->data;
    error.tag = inbound->tagged ? inbound->tag : 0;
    error.src_addr = av_source(ep->base.av, entry->addr);
    if (whole) {
        put_stranger(inbound, raw);
        error.err_data = raw;
        error.err_data_size = sizeof(raw);
    }
    complete_error(&ep->base.binding, BIND_RECV, &error);
}

void uet_received(void *arg, struct ses_inbound *inbound, enum ses_code code)
{
    struct uet_ep *ep = arg;
    struct fi_peer_rx_entry *entry = inbound->entry;
    uint64_t flags;
    void *buf;

    if (ep->closing) {
        if (ep->base.match || ep->base.srx) /* else it went with the engine */
            match_entry_free(entry);
        return;
    }
    flags = (entry->flags & ~FI_COMPLETION) | (inbound->has_data ? FI_REMOTE_CQ_DATA : 0);
    buf = entry->count ? entry->iov[0].iov_base : NULL;
    if (ses_is_tagged_atomic(inbound->opcode) && code != RC_OK)
        report_error(ep, entry, inbound, flags, code == RC_TOO_LONG ? FI_EMSGSIZE : FI_EINVAL);
    else if (code != RC_OK)
        report_error(ep, entry, inbound, flags, FI_ECONNRESET);
    else if (match_entry_room(entry) < inbound->length && !ses_is_tagged_atomic(inbound->opcode))
        report_error(ep, entry, inbound, flags, FI_ETRUNC);
    else if (ep->source_err && entry->addr == FI_ADDR_UNSPEC)
        report_error(ep, entry, inbound, flags, FI_EADDRNOTAVAIL);
    else
        complete(&ep->base.binding, BIND_RECV, entry->flags & FI_COMPLETION, entry->context, flags,
                 inbound->length, buf, inbound->data, inbound->tagged ? inbound->tag : 0,
                 av_source(ep->base.av, entry->addr));
    match_entry_free(entry);
}

/* ---- A message has come ---- */

static void drop_kept(struct uet_kept *kept)
{
    list_detach(&kept->link);
    free(kept);
}

static enum ses_match keep(struct uet_ep *ep, struct ses_inbound *inbound,
                           struct fi_peer_rx_entry *entry)
{
    struct uet_kept *kept = malloc(sizeof(*kept));

    if (kept && ses_keep(ep->ses, inbound)) {
        *kept = (struct uet_kept){.ep = ep, .inbound = inbound};
        list_init(&kept->link);
        list_attach(&kept->link, &ep->kept);
        inbound->entry = entry;
        if (!match_entry_queue(entry, inbound->tagged, kept, inbound->has_data, inbound->data))
            return SES_UNMATCHED;
        list_detach(&kept->link);
    }
    free(kept);
    match_entry_free(entry);
    return SES_NO_ROOM;
}

enum ses_match uet_message(void *arg, struct ses_inbound *inbound)
{
    struct uet_ep *ep = arg;
    struct fi_peer_match_attr attr = {
        .addr = uet_source(ep, &inbound->from, inbound->job, inbound->initiator),
        .msg_size = inbound->length,
        .tag = inbound->tagged ? inbound->tag : 0,
    };
    struct fi_peer_rx_entry *entry;
    int rc = match_entry_get(ep->base.in, inbound->tagged, &attr, &entry);

    if (rc == -FI_ENOENT)
        return keep(ep, inbound, entry);
    if (rc)
        return SES_NO_ROOM;
    inbound->entry = entry;
    inbound->iov = entry->iov;
    inbound->iov_count = entry->count;
    return SES_MATCHED;
}

/* ---- From the owner of the receives ---- */

static int start(struct fi_peer_rx_entry *entry)
{
    struct uet_kept *kept = entry->peer_context;
    struct uet_ep *ep = kept->ep;
    struct ses_inbound *inbound = kept->inbound;

    drop_kept(kept);
    if (!ep) {
        match_entry_free(entry);
        return -FI_ENOTCONN;
    }
    inbound->entry = entry;
    ses_start(ep->ses, inbound, entry->iov, entry->count);
    return 0;
}

static int discard(struct fi_peer_rx_entry *entry)
{
    struct uet_kept *kept = entry->peer_context;
    struct uet_ep *ep = kept->ep;
    struct ses_inbound *inbound = kept->inbound;

    drop_kept(kept);
    match_entry_free(entry);
    if (ep) {
        inbound->entry = NULL;
        ses_discard(ep->ses, inbound);
    }
    return 0;
}

void uet_orphan_kept(struct uet_ep *ep)
{
    list_for_each_safe (pos, after, &ep->kept) {
        list_detach(pos);
        list_item(pos, struct uet_kept, link)->ep = NULL;
    }
}

struct fi_ops_srx_peer uet_srx_ops = {
    .size = sizeof(struct fi_ops_srx_peer),
    .start_msg = start,
    .start_tag = start,
    .discard_msg = discard,
    .discard_tag = discard,
};

static fi_addr_t get_addr(struct fi_peer_rx_entry *entry)
{
    const struct uet_kept *kept = entry->peer_context;

    return uet_source(kept->ep, &kept->inbound->from, kept->inbound->job, kept->inbound->initiator);
}

void uet_resolve(struct uet_ep *ep)
{
    atomic_store(&ep->stale, false);
    ep->known.addr.sa.sa_family = 0;
    ep->aimed.fi_addr = FI_ADDR_UNSPEC;
    if (ep->base.in)
        ep->base.in->owner_ops->foreach_unspec_addr(ep->base.in, get_addr);
}
