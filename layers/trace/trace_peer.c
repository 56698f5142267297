/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls between the lower and the upper about peer receive contexts and counters. */

#include "layers/trace/trace.h"

static void cntr_seen(struct fid_peer_cntr *peer, enum trace_call call)
{
    static const struct trace_args none = {.peer = FI_ADDR_NOTAVAIL};
    const struct trace_object *object = object_of(peer, struct hook_cntr, peer)->own;
    uint64_t place = trace_enter(object, call, &none);

    if (object)
        trace_leave(object, place, 0);
}

static void cntr_inc(struct fid_peer_cntr *peer)
{
    cntr_seen(peer, TRACE_CNTR_INC);
    hook_cntr_owner_ops.inc(peer);
}

static void cntr_incerr(struct fid_peer_cntr *peer)
{
    cntr_seen(peer, TRACE_CNTR_INCERR);
    hook_cntr_owner_ops.incerr(peer);
}

static struct fi_ops_cntr_owner cntr_owner_ops = {
    .size = sizeof(cntr_owner_ops),
    .inc = cntr_inc,
    .incerr = cntr_incerr,
};

/* ---- Receive contexts ---- */

/* An entry that was found carries the receive: -FI_ENOENT is a message without one. */
static int get(struct fid_peer_srx *peer, enum trace_call call, struct fi_peer_match_attr *attr,
               struct fi_peer_rx_entry **entry)
{
    const struct trace_object *object = object_of(peer, struct hook_ep, peer)->own;
    const struct trace_args args = {.len = attr->msg_size, .peer = attr->addr, .tag = attr->tag};
    uint64_t place = trace_enter(object, call, &args);
    int rc = call == TRACE_GET_TAG ? hook_srx_owner_ops.get_tag(peer, attr, entry)
                                   : hook_srx_owner_ops.get_msg(peer, attr, entry);
    struct trace_ring *ring;

    if (place == TRACE_NOWHERE)
        return rc;
    trace_leave(object, place, rc);
    ring = trace_ring_of(object->file);
    if (!rc && ring->head - place <= ring->mask)
        ring->records[place & ring->mask].context = trace_word((*entry)->context);
    return rc;
}

static int get_msg(struct fid_peer_srx *peer, struct fi_peer_match_attr *attr,
                   struct fi_peer_rx_entry **entry)
{
    return get(peer, TRACE_GET_MSG, attr, entry);
}

static int get_tag(struct fid_peer_srx *peer, struct fi_peer_match_attr *attr,
                   struct fi_peer_rx_entry **entry)
{
    return get(peer, TRACE_GET_TAG, attr, entry);
}

/* The record is made before the call: the other side may release the entry. */
static int cross(const struct trace_object *object, enum trace_call call,
                 struct fi_peer_rx_entry *entry, int (*pass_on)(struct fi_peer_rx_entry *entry))
{
    const struct trace_args args = {.context = trace_word(entry->context),
                                    .len = entry->msg_size,
                                    .peer = entry->addr,
                                    .tag = entry->tag};
    uint64_t place = trace_enter(object, call, &args);
    int rc = pass_on(entry);

    if (object)
        trace_leave(object, place, rc);
    return rc;
}

static const struct trace_object *below(const struct fi_peer_rx_entry *entry)
{
    return object_of(entry->srx, struct hook_ep, peer)->own;
}

/* The upper's context leads to ours through the table that is set in it. */
static const struct trace_object *above(const struct fi_peer_rx_entry *entry)
{
    return object_of(entry->srx->peer_ops, struct hook_ep, peer_ops)->own;
}

static int queue_msg(struct fi_peer_rx_entry *entry)
{
    return cross(below(entry), TRACE_QUEUE_MSG, entry, hook_srx_owner_ops.queue_msg);
}

static int queue_tag(struct fi_peer_rx_entry *entry)
{
    return cross(below(entry), TRACE_QUEUE_TAG, entry, hook_srx_owner_ops.queue_tag);
}

static int start_msg(struct fi_peer_rx_entry *entry)
{
    return cross(above(entry), TRACE_START_MSG, entry, hook_srx_peer_ops.start_msg);
}

static int start_tag(struct fi_peer_rx_entry *entry)
{
    return cross(above(entry), TRACE_START_TAG, entry, hook_srx_peer_ops.start_tag);
}

static int discard_msg(struct fi_peer_rx_entry *entry)
{
    return cross(above(entry), TRACE_DISCARD_MSG, entry, hook_srx_peer_ops.discard_msg);
}

static int discard_tag(struct fi_peer_rx_entry *entry)
{
    return cross(above(entry), TRACE_DISCARD_TAG, entry, hook_srx_peer_ops.discard_tag);
}

static struct fi_ops_srx_peer srx_peer_ops = {
    .size = sizeof(srx_peer_ops),
    .start_msg = start_msg,
    .start_tag = start_tag,
    .discard_msg = discard_msg,
    .discard_tag = discard_tag,
};

static struct fi_ops_srx_owner srx_owner_ops = {
    .size = sizeof(srx_owner_ops),
    .get_msg = get_msg,
    .get_tag = get_tag,
    .queue_msg = queue_msg,
    .queue_tag = queue_tag,
};

void trace_peer_ops(struct hook_ops *ops)
{
    ops->cntr_owner = &cntr_owner_ops;
    ops->srx_owner = &srx_owner_ops;
    ops->srx_peer = &srx_peer_ops;
}
