/* SPDX-License-Identifier: BSD-2-Clause */
/* Options, connections, addresses, counters, event queues. */

#include "core/base/hash.h"
#include "layers/trace/trace.h"

uint64_t trace_entered(struct fid *fid, enum trace_call call, const struct trace_args *args)
{
    return trace_enter(trace_of(fid), call, args);
}

ssize_t trace_left(struct fid *fid, uint64_t place, ssize_t rc)
{
    trace_leave(trace_of(fid), place, rc);
    return rc;
}

static uint64_t enter(struct fid *fid, enum trace_call call, uint64_t len, uint64_t tag)
{
    const struct trace_args args = {.len = len, .tag = tag, .peer = FI_ADDR_NOTAVAIL};

    return trace_entered(fid, call, &args);
}

/* ---- Addresses of the network: by which processes are found in the traces of others ---- */

static void record_address(struct fid *fid, fi_addr_t number, const void *addr, size_t len)
{
    const struct trace_object *object = trace_of(fid);
    struct trace_ring *ring = object ? trace_ring_of(object->file) : NULL;
    struct weft_trace_record *record;

    if (!ring)
        return;
    record = trace_begin(ring, object, WEFT_TRACE_CALL + TRACE_ADDRESS, trace_ticks(ring->tsc));
    record->context = record->buf = record->len = 0;
    record->peer = number;
    record->tag = hash_bytes(HASH_START, addr, len);
    trace_ring_publish(ring);
}

enum {
    ADDRESS_MAX = 1024,
    ADDRESSES_MAX = 4096 /* of one insert: more would drive all else out of the ring */
};

/* As the lower knows them: a program may give names, and arrays of several shapes. */
static void record_inserted(struct fid_av *av, const fi_addr_t *numbers, size_t count)
{
    unsigned char addr[ADDRESS_MAX];

    for (size_t i = 0; i < count && i < ADDRESSES_MAX; i++) {
        size_t len = sizeof(addr);

        if (numbers[i] != FI_ADDR_NOTAVAIL && !hook_av_ops.lookup(av, numbers[i], addr, &len) &&
            len <= sizeof(addr))
            record_address(&av->fid, numbers[i], addr, len);
    }
}

/* ---- Endpoints ---- */

static ssize_t cancel(fid_t fid, void *context)
{
    const struct trace_args args = {.context = trace_word(context), .peer = FI_ADDR_NOTAVAIL};
    uint64_t place = trace_entered(fid, TRACE_CANCEL, &args);

    return trace_left(fid, place, hook_ep_ops.cancel(fid, context));
}

static int ep_getopt(fid_t fid, int level, int name, void *value, size_t *len)
{
    uint64_t place = enter(fid, TRACE_GETOPT, len ? *len : 0, (uint64_t)name);

    return (int)trace_left(fid, place, hook_ep_ops.getopt(fid, level, name, value, len));
}

static int ep_setopt(fid_t fid, int level, int name, const void *value, size_t len)
{
    uint64_t place = enter(fid, TRACE_SETOPT, len, (uint64_t)name);

    return (int)trace_left(fid, place, hook_ep_ops.setopt(fid, level, name, value, len));
}

static int ep_setname(fid_t fid, void *addr, size_t len)
{
    uint64_t place = enter(fid, TRACE_SETNAME, len, 0);

    return (int)trace_left(fid, place, hook_cm_ops.setname(fid, addr, len));
}

static int ep_getname(fid_t fid, void *addr, size_t *len)
{
    const size_t room = *len;
    uint64_t place = enter(fid, TRACE_GETNAME, room, 0);
    int rc = (int)trace_left(fid, place, hook_cm_ops.getname(fid, addr, len));

    if (!rc && *len <= room)
        record_address(fid, FI_ADDR_NOTAVAIL, addr, *len);
    return rc;
}

static int ep_getpeer(struct fid_ep *ep, void *addr, size_t *len)
{
    uint64_t place = enter(&ep->fid, TRACE_GETPEER, *len, 0);

    return (int)trace_left(&ep->fid, place, hook_cm_ops.getpeer(ep, addr, len));
}

static int ep_connect(struct fid_ep *ep, const void *addr, const void *param, size_t len)
{
    uint64_t place = enter(&ep->fid, TRACE_CONNECT, len, 0);

    return (int)trace_left(&ep->fid, place, hook_cm_ops.connect(ep, addr, param, len));
}

static int ep_accept(struct fid_ep *ep, const void *param, size_t len)
{
    uint64_t place = enter(&ep->fid, TRACE_ACCEPT, len, 0);

    return (int)trace_left(&ep->fid, place, hook_cm_ops.accept(ep, param, len));
}

static int ep_shutdown(struct fid_ep *ep, uint64_t flags)
{
    uint64_t place = enter(&ep->fid, TRACE_SHUTDOWN, 0, flags);

    return (int)trace_left(&ep->fid, place, hook_cm_ops.shutdown(ep, flags));
}

static int pep_listen(struct fid_pep *pep)
{
    uint64_t place = enter(&pep->fid, TRACE_LISTEN, 0, 0);

    return (int)trace_left(&pep->fid, place, hook_pep_cm_ops.listen(pep));
}

static int pep_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t len)
{
    uint64_t place = enter(&pep->fid, TRACE_REJECT, len, trace_word(handle));

    return (int)trace_left(&pep->fid, place, hook_pep_cm_ops.reject(pep, handle, param, len));
}

/* ---- Address vectors: peer is the first address that an insert gave ---- */

static int av_leave(struct fid_av *av, uint64_t place, int rc, const fi_addr_t *addr, size_t count)
{
    const struct trace_object *object = trace_of(&av->fid);

    if (place == TRACE_NOWHERE)
        return rc;
    trace_leave(object, place, rc);
    if (addr && rc > 0) {
        trace_amend(object, place)->peer = *addr;
        record_inserted(av, addr, count);
    }
    return rc;
}

static int av_insert(struct fid_av *av, const void *addr, size_t count, fi_addr_t *fi_addr,
                     uint64_t flags, void *context)
{
    uint64_t place = enter(&av->fid, TRACE_AV_INSERT, count, flags);

    return av_leave(av, place, hook_av_ops.insert(av, addr, count, fi_addr, flags, context),
                    fi_addr, count);
}

static int av_insertsvc(struct fid_av *av, const char *node, const char *service,
                        fi_addr_t *fi_addr, uint64_t flags, void *context)
{
    uint64_t place = enter(&av->fid, TRACE_AV_INSERTSVC, 1, flags);

    return av_leave(av, place, hook_av_ops.insertsvc(av, node, service, fi_addr, flags, context),
                    fi_addr, 1);
}

static int av_insertsym(struct fid_av *av, const char *node, size_t nodecnt, const char *service,
                        size_t svccnt, fi_addr_t *fi_addr, uint64_t flags, void *context)
{
    uint64_t place = enter(&av->fid, TRACE_AV_INSERTSYM, nodecnt * svccnt, flags);
    int rc = hook_av_ops.insertsym(av, node, nodecnt, service, svccnt, fi_addr, flags, context);

    return av_leave(av, place, rc, fi_addr, nodecnt * svccnt);
}

static int av_remove(struct fid_av *av, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
    const struct trace_args args = {
        .len = count, .tag = flags, .peer = count ? *fi_addr : FI_ADDR_NOTAVAIL};
    uint64_t place = trace_entered(&av->fid, TRACE_AV_REMOVE, &args);

    return (int)trace_left(&av->fid, place, hook_av_ops.remove(av, fi_addr, count, flags));
}

static int av_lookup(struct fid_av *av, fi_addr_t fi_addr, void *addr, size_t *len)
{
    const struct trace_args args = {.peer = fi_addr};
    uint64_t place = trace_entered(&av->fid, TRACE_AV_LOOKUP, &args);

    return (int)trace_left(&av->fid, place, hook_av_ops.lookup(av, fi_addr, addr, len));
}

/* ---- Counters; reading one is no event ---- */

static int cntr_add(struct fid_cntr *cntr, uint64_t value)
{
    uint64_t place = enter(&cntr->fid, TRACE_CNTR_ADD, 0, value);

    return (int)trace_left(&cntr->fid, place, hook_cntr_ops.add(cntr, value));
}

static int cntr_set(struct fid_cntr *cntr, uint64_t value)
{
    uint64_t place = enter(&cntr->fid, TRACE_CNTR_SET, 0, value);

    return (int)trace_left(&cntr->fid, place, hook_cntr_ops.set(cntr, value));
}

static int cntr_adderr(struct fid_cntr *cntr, uint64_t value)
{
    uint64_t place = enter(&cntr->fid, TRACE_CNTR_ADDERR, 0, value);

    return (int)trace_left(&cntr->fid, place, hook_cntr_ops.adderr(cntr, value));
}

static int cntr_seterr(struct fid_cntr *cntr, uint64_t value)
{
    uint64_t place = enter(&cntr->fid, TRACE_CNTR_SETERR, 0, value);

    return (int)trace_left(&cntr->fid, place, hook_cntr_ops.seterr(cntr, value));
}

static int cntr_wait(struct fid_cntr *cntr, uint64_t threshold, int timeout)
{
    uint64_t place = enter(&cntr->fid, TRACE_CNTR_WAIT, 0, threshold);

    return (int)trace_left(&cntr->fid, place, hook_cntr_ops.wait(cntr, threshold, timeout));
}

/* ---- Wait sets and poll sets; fi_poll, which is called in vain again and again, is no event ----
 */

static int set_wait(struct fid_wait *set, int timeout)
{
    uint64_t place = enter(&set->fid, TRACE_WAIT, 0, (uint64_t)timeout);

    return (int)trace_left(&set->fid, place, hook_wait_ops.wait(set, timeout));
}

static struct fi_ops_wait wait_ops = {
    .size = sizeof(wait_ops),
    .wait = set_wait,
};

/* buf: the object. */
static uint64_t enter_member(struct fid_poll *set, enum trace_call call, struct fid *fid)
{
    const struct trace_object *object = fid ? trace_of(fid) : NULL;
    const struct trace_args args = {.buf = trace_named(object)};

    return trace_enter(trace_of(&set->fid), call, &args);
}

static int poll_add(struct fid_poll *set, struct fid *fid, uint64_t flags)
{
    uint64_t place = enter_member(set, TRACE_POLL_ADD, fid);

    return (int)trace_left(&set->fid, place, hook_poll_ops.poll_add(set, fid, flags));
}

static int poll_del(struct fid_poll *set, struct fid *fid, uint64_t flags)
{
    uint64_t place = enter_member(set, TRACE_POLL_DEL, fid);

    return (int)trace_left(&set->fid, place, hook_poll_ops.poll_del(set, fid, flags));
}

/* ---- Event queues ---- */

static void record_event(struct fid_eq *eq, struct fid *about, uint32_t event, int32_t result)
{
    const struct trace_object *object = trace_of(&eq->fid);
    struct trace_ring *ring = object ? trace_ring_of(object->file) : NULL;
    struct weft_trace_record *record;
    struct group_facts facts;
    bool group = false;

    if (!ring)
        return;
    if (event == FI_JOIN_COMPLETE && about && about->fclass == FI_CLASS_MC)
        group = trace_group_ask(about, &facts);
    record = trace_begin(ring, object, WEFT_TRACE_EVENT, trace_ticks(ring->tsc));
    record->result = result;
    record->inside = event;
    record->context = trace_word(about ? about->context : NULL);
    record->buf = trace_word(about);
    record->len = record->tag = 0;
    record->peer = FI_ADDR_NOTAVAIL;
    if (group)
        trace_group_put(record, about, &facts);
    trace_ring_publish(ring);
    if (object->log)
        trace_log(object, ring, ring->head - 1);
    if (group)
        trace_group_members(ring, object, record, &facts);
}

/* Events of the library begin with a fid, those of the application need not. */
static ssize_t event_read(struct hook_eq *eq, ssize_t rc, uint32_t *event, void *buf)
{
    const struct fi_eq_entry *entry = buf;
    bool ours = *event >= FI_CONNREQ && *event <= FI_JOIN_COMPLETE;

    if (rc > 0)
        record_event(&eq->fid, ours && (size_t)rc >= sizeof(struct fid *) ? entry->fid : NULL,
                     *event, 0);
    return rc;
}

static ssize_t eq_readerr(struct fid_eq *eq, struct fi_eq_err_entry *entry, uint64_t flags)
{
    ssize_t rc = hook_eq_ops.readerr(eq, entry, flags);

    if (rc > 0)
        record_event(eq, entry->fid, 0, -entry->err);
    return rc;
}

/* tag: the event. */
static ssize_t eq_write(struct fid_eq *eq, uint32_t event, const void *buf, size_t len,
                        uint64_t flags)
{
    uint64_t place = enter(&eq->fid, TRACE_EQ_WRITE, len, event);

    return trace_left(&eq->fid, place, hook_eq_ops.write(eq, event, buf, len, flags));
}

static struct fi_ops_cm cm_ops = {
    .size = sizeof(cm_ops),
    .setname = ep_setname,
    .getname = ep_getname,
    .getpeer = ep_getpeer,
    .connect = ep_connect,
    .accept = ep_accept,
    .shutdown = ep_shutdown,
};
static struct fi_ops_cm pep_cm_ops = {
    .size = sizeof(pep_cm_ops), .listen = pep_listen, .reject = pep_reject};

static struct fi_ops_ep ep_ops = {
    .size = sizeof(ep_ops), .cancel = cancel, .getopt = ep_getopt, .setopt = ep_setopt};
static struct fi_ops_av av_ops = {
    .size = sizeof(av_ops),
    .insert = av_insert,
    .insertsvc = av_insertsvc,
    .insertsym = av_insertsym,
    .remove = av_remove,
    .lookup = av_lookup,
};
static struct fi_ops_cntr cntr_ops = {
    .size = sizeof(cntr_ops),
    .add = cntr_add,
    .set = cntr_set,
    .adderr = cntr_adderr,
    .seterr = cntr_seterr,
    .wait = cntr_wait,
};
static struct fi_ops_poll poll_ops = {
    .size = sizeof(poll_ops), .poll_add = poll_add, .poll_del = poll_del};
static struct fi_ops_eq eq_ops = {
    .size = sizeof(eq_ops),
    .readerr = eq_readerr,
    .write = eq_write,
};

void trace_control_ops(struct hook_ops *ops)
{
    ops->ep = &ep_ops;
    ops->cm = &cm_ops;
    ops->pep_cm = &pep_cm_ops;
    ops->av = &av_ops;
    ops->cntr = &cntr_ops;
    ops->eq = &eq_ops;
    ops->event = event_read;
    ops->wait = &wait_ops;
    ops->poll = &poll_ops;
}
