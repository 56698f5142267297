/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How the tables of this layer record. A call takes its record when it begins, so that one that
 * never returns is in the file, and its result and the number of records that were made inside of
 * it are added when it has ended.
 */
#ifndef WEFT_TRACE_LAYER_H
#define WEFT_TRACE_LAYER_H

#include <stddef.h>
#include <string.h>

#include "core/ep/group.h"
#include "core/hook/hook.h"
#include "layers/trace/trace_file.h"
#include "layers/trace/trace_names.h"

/* Behind `hook` of each object. */
struct trace_object {
    struct trace_file *file;
    uint64_t who; /* kind to object of its records as one word, but for the kind */
    uint32_t number;
    uint8_t layer, fclass;
    bool log;             /* text lines, too */
    uint64_t empty_reads; /* of a queue, since one that gave something */
};

/* The arguments of calls that have few. */
struct trace_args {
    uint64_t context, buf, len, peer, tag;
};

static inline uint64_t trace_word(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

/* As the field `kind` in that word. */
static inline uint64_t trace_kind_word(unsigned kind)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return kind;
#else
    return (uint64_t)kind << 48;
#endif
}

static inline uint64_t trace_named(const struct trace_object *object)
{
    return object ? WEFT_TRACE_NAMED(object->number, object->fclass) : 0;
}

/* A ring is full of older records: the slot is written as a whole. */
static inline struct weft_trace_record *trace_begin(struct trace_ring *ring,
                                                    const struct trace_object *object,
                                                    unsigned kind, uint64_t time)
{
    struct weft_trace_record *record = trace_ring_next(ring);
    const uint64_t who = object->who | trace_kind_word(kind);

    record->time = time;
    memcpy((char *)record + offsetof(struct weft_trace_record, kind), &who, sizeof(who));
    record->result = 0;
    record->inside = 0;
    return record;
}

#define TRACE_NOWHERE UINT64_MAX

/* Where the record of a call is; TRACE_NOWHERE when this thread is not recorded. */
static inline uint64_t trace_enter(const struct trace_object *object, unsigned call,
                                   const struct trace_args *args)
{
    struct trace_ring *ring = object ? trace_ring_of(object->file) : NULL;
    struct weft_trace_record *record;

    if (!ring)
        return TRACE_NOWHERE;
    record = trace_begin(ring, object, WEFT_TRACE_CALL + call, trace_ticks(ring->tsc));
    record->result = WEFT_TRACE_PENDING;
    record->context = args->context;
    record->buf = args->buf;
    record->len = args->len;
    record->peer = args->peer;
    record->tag = args->tag;
    trace_ring_publish(ring);
    return ring->head - 1;
}

/* trace_log.c: a record as a line of the log. `place` is where it is in the ring. */
void trace_log(const struct trace_object *object, const struct trace_ring *ring, uint64_t place);

/* Nothing is added to a record that was overwritten meanwhile. */
static inline void trace_leave(const struct trace_object *object, uint64_t place, ssize_t rc)
{
    struct trace_ring *ring;
    uint64_t inside;

    if (place == TRACE_NOWHERE)
        return;
    ring = trace_ring_of(object->file);
    inside = ring->head - place - 1;
    if (inside > ring->mask)
        return;
    ring->records[place & ring->mask].inside = (uint32_t)inside;
    ring->records[place & ring->mask].result = (int32_t)rc;
    if (__builtin_expect(object->log, 0))
        trace_log(object, ring, place);
}

/* For fields known only when a call has ended. Writes are lost if the call has no record, or it was
 * overwritten. */
struct weft_trace_record *trace_amend(const struct trace_object *object, uint64_t place);

static inline struct trace_object *trace_of(struct fid *fid)
{
    return *hook_own(fid);
}

/* The same for an object of the hook's, as functions: each of the many calls that transfer no data
 * would otherwise hold a copy. trace_left returns rc. */
uint64_t trace_entered(struct fid *fid, enum trace_call call, const struct trace_args *args);
ssize_t trace_left(struct fid *fid, uint64_t place, ssize_t rc);

/* A new object of the file, below `above`; 0: of none. */
void trace_object_init(struct trace_object *object, size_t fclass, uint32_t above);

/* Each sets the tables of its file, once a process; trace_object_ops, the last of them, adds to
 * tables of the others. */
void trace_data_ops(struct hook_ops *ops);
void trace_control_ops(struct hook_ops *ops);
void trace_peer_ops(struct hook_ops *ops);
void trace_object_ops(struct hook_ops *ops);
void trace_group_ops(struct hook_ops *ops);

/* ---- trace_group.c: groups of collectives, at the event that a join has completed ---- */

/* False: the part below does not tell. It may make records: not between trace_begin and publish. */
bool trace_group_ask(struct fid *fid, struct group_facts *facts);
/* The group, as the event's own record has it. */
void trace_group_put(struct weft_trace_record *record, struct fid *fid,
                     const struct group_facts *facts);
/* The records behind that one, which has been published. */
void trace_group_members(struct trace_ring *ring, const struct trace_object *object,
                         const struct weft_trace_record *of, const struct group_facts *facts);

#endif
