/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/op/op_copy.h"

#include <string.h>

#include "core/op/atomic.h"

/* The memory behind a copy, and how far it is used; base NULL: it is measured only. */
struct room {
    char *base;
    size_t used;
};

static void reserve(struct room *room, size_t size)
{
    room->used += (size + _Alignof(max_align_t) - 1) & ~(_Alignof(max_align_t) - 1);
}

/* Copies size bytes; returns where they are, or NULL where from is. */
static void *put(struct room *room, const void *from, size_t size)
{
    void *to = room->base ? room->base + room->used : NULL;

    if (!from || !size)
        return NULL;
    if (to)
        memcpy(to, from, size);
    reserve(room, size);
    return to;
}

static bool has_elements(const struct op *op)
{
    return op->group & (OP_GROUP_ATOMIC | OP_GROUP_COLLECTIVE);
}

_Static_assert(sizeof(struct fi_ioc) == sizeof(struct iovec) &&
                   offsetof(struct fi_ioc, count) == offsetof(struct iovec, iov_len),
               "one form of segments");

/* The data of all segments behind one segment. unit: bytes of an element; 1 of an iovec. */
static void *put_data(struct room *room, const void *segments, size_t *count, size_t unit)
{
    struct iovec all = {.iov_base = NULL}, one;
    char *to = room->base ? room->base + room->used : NULL;

    if (!segments || !*count)
        return NULL;
    reserve(room, sizeof(all));
    all.iov_base = to ? room->base + room->used : NULL;
    for (size_t i = 0; i < *count; i++) {
        memcpy(&one, (const char *)segments + i * sizeof(one), sizeof(one));
        if (to && one.iov_len)
            memcpy((char *)all.iov_base + all.iov_len * unit, one.iov_base, one.iov_len * unit);
        all.iov_len += one.iov_len;
    }
    reserve(room, all.iov_len * unit);
    if (to)
        memcpy(to, &all, sizeof(all));
    *count = 1;
    return to;
}

static void put_operand(struct room *room, const struct op_operand *from, size_t unit,
                        struct op_operand *to)
{
    *to = *from;
    if (unit) {
        to->ioc = put_data(room, from->ioc, &to->count, unit);
        to->desc = NULL;
        return;
    }
    to->ioc = put(room, from->ioc, from->count * sizeof(*from->ioc));
    to->desc = put(room, from->desc, from->count * sizeof(*from->desc));
}

static void put_all(struct room *room, const struct op *op, bool bytes, struct op *copy)
{
    size_t unit = !bytes ? 0 : has_elements(op) ? atomic_size(op->datatype) : 1;

    *copy = *op;
    if (unit) {
        copy->iov = put_data(room, op->iov, &copy->count, unit);
        copy->desc = NULL;
    } else {
        copy->iov = put(room, op->iov, op->count * sizeof(*op->iov));
        copy->desc = put(room, op->desc, op->count * sizeof(*op->desc));
    }
    if (op->group == OP_GROUP_RMA)
        copy->rma = put(room, op->rma, op->rma_count * sizeof(*op->rma));
    if (op->group == OP_GROUP_ATOMIC)
        copy->rma_ioc = put(room, op->rma_ioc, op->rma_count * sizeof(*op->rma_ioc));
    if (has_elements(op))
        put_operand(room, &op->result, 0, &copy->result);
    if (op->group == OP_GROUP_ATOMIC)
        put_operand(room, &op->compare, unit, &copy->compare);
}

size_t op_copy_size(const struct op *op, bool bytes)
{
    struct room room = {.base = NULL};
    struct op copy;

    put_all(&room, op, bytes, &copy);
    return room.used;
}

void op_copy(const struct op *op, bool bytes, struct op *copy, void *memory)
{
    struct room room = {.base = memory};

    put_all(&room, op, bytes, copy);
}
