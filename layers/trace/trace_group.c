/* SPDX-License-Identifier: BSD-2-Clause */
/* Sets of addresses, and the groups of collectives that are made of them. */
#include "core/ep/group.h"
#include "layers/trace/trace.h"

/* ---- Sets: peer is the address, buf the other set ---- */

static uint64_t enter(const struct fid_av_set *set, enum trace_call call,
                      const struct fid_av_set *other, fi_addr_t addr)
{
    const struct trace_object *than = other ? trace_of((struct fid *)(uintptr_t)&other->fid) : NULL;
    const struct trace_args args = {.buf = trace_named(than), .peer = addr};

    return trace_entered((struct fid *)(uintptr_t)&set->fid, call, &args);
}

static int set_union(struct fid_av_set *dst, const struct fid_av_set *src)
{
    uint64_t place = enter(dst, TRACE_SET_UNION, src, FI_ADDR_NOTAVAIL);

    return (int)trace_left(&dst->fid, place, hook_av_set_ops.set_union(dst, src));
}

static int set_intersect(struct fid_av_set *dst, const struct fid_av_set *src)
{
    uint64_t place = enter(dst, TRACE_SET_INTERSECT, src, FI_ADDR_NOTAVAIL);

    return (int)trace_left(&dst->fid, place, hook_av_set_ops.intersect(dst, src));
}

static int set_diff(struct fid_av_set *dst, const struct fid_av_set *src)
{
    uint64_t place = enter(dst, TRACE_SET_DIFF, src, FI_ADDR_NOTAVAIL);

    return (int)trace_left(&dst->fid, place, hook_av_set_ops.diff(dst, src));
}

static int set_insert(struct fid_av_set *set, fi_addr_t addr)
{
    uint64_t place = enter(set, TRACE_SET_INSERT, NULL, addr);

    return (int)trace_left(&set->fid, place, hook_av_set_ops.insert(set, addr));
}

static int set_remove(struct fid_av_set *set, fi_addr_t addr)
{
    uint64_t place = enter(set, TRACE_SET_REMOVE, NULL, addr);

    return (int)trace_left(&set->fid, place, hook_av_set_ops.remove(set, addr));
}

static int set_addr(struct fid_av_set *set, fi_addr_t *addr)
{
    uint64_t place = enter(set, TRACE_SET_ADDR, NULL, FI_ADDR_NOTAVAIL);
    int rc = (int)trace_left(&set->fid, place, hook_av_set_ops.addr(set, addr));

    if (!rc)
        trace_amend(trace_of(&set->fid), place)->peer = *addr;
    return rc;
}

/* ---- Groups ---- */

bool trace_group_ask(struct fid *fid, struct group_facts *facts)
{
    return !group_ask(object_of(fid, struct hook_mc, fid.fid)->lower, facts);
}

void trace_group_put(struct weft_trace_record *record, struct fid *fid,
                     const struct group_facts *facts)
{
    const struct trace_object *object = trace_of(fid);

    record->len = facts->size;
    record->peer = object_of(fid, struct fid_mc, fid)->fi_addr;
    record->tag = trace_named(object);
}

static void put_more(struct trace_ring *ring, const struct trace_object *object,
                     const struct weft_trace_record *of, const uint64_t words[4])
{
    struct weft_trace_record *record = trace_begin(ring, object, WEFT_TRACE_MORE, of->time);

    record->context = of->context;
    record->buf = words[0];
    record->len = words[1];
    record->peer = words[2];
    record->tag = words[3];
    trace_ring_publish(ring);
}

void trace_group_members(struct trace_ring *ring, const struct trace_object *object,
                         const struct weft_trace_record *of, const struct group_facts *facts)
{
    const struct weft_trace_record event = *of; /* its place may be taken */
    uint64_t words[4] = {facts->rank, facts->common, 0, 0};

    put_more(ring, object, &event, words);
    for (uint32_t i = 0; i < facts->size && i < WEFT_TRACE_MEMBERS; i += 4) {
        for (uint32_t n = 0; n < 4; n++)
            words[n] = i + n < facts->size ? facts->members[i + n] : FI_ADDR_NOTAVAIL;
        put_more(ring, object, &event, words);
    }
}

static struct fi_ops_av_set set_ops = {
    .size = sizeof(set_ops),
    .set_union = set_union,
    .intersect = set_intersect,
    .diff = set_diff,
    .insert = set_insert,
    .remove = set_remove,
    .addr = set_addr,
};

void trace_group_ops(struct hook_ops *ops)
{
    ops->av_set = &set_ops;
}
