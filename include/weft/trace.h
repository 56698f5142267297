/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The file that the layer `trace` writes and fi_trace reads: a header, then rings of records, one
 * for each thread. It is mapped by its writer and may be read at any time, also after a crash.
 * Numbers are in the byte order of the machine. Version 4; in files of version 3 records do not say
 * of what class an object is, in those of version 2 collectives and their groups have less in MORE,
 * and in those of version 1 the `tag` of MORE is zero.
 */
#ifndef WEFT_TRACE_H
#define WEFT_TRACE_H

#include <stdint.h>

#define WEFT_TRACE_MAGIC "WEFTTRC" /* 8 bytes with the zero */

enum {
    WEFT_TRACE_VERSION = 4,
    WEFT_TRACE_OLDEST = 1, /* that is read like it */
    WEFT_TRACE_GROUPS = 3, /* the first version with what is said of collectives below */
    WEFT_TRACE_MEMBERS =
        4096, /* of a group that are listed; a multiple of 4; 64 before version 4 */
    WEFT_TRACE_LAYERS = 32,
    WEFT_TRACE_OBJECTS = 8192, /* with a description of their own; those after have a class only */
    WEFT_TRACE_NAMES = 128,
    WEFT_TRACE_RING_HEAD = 4096, /* bytes before the records of a ring */
};

/* The kind of a record. From WEFT_TRACE_CALL on: a call, whose name is in the header. */
enum weft_trace_kind {
    WEFT_TRACE_NONE,
    WEFT_TRACE_MORE,       /* further arguments of the record before */
    WEFT_TRACE_COMPLETION, /* an entry that the upper reads from a completion queue */
    WEFT_TRACE_WRITTEN,    /* the same, written by the lower into the queue of the upper */
    WEFT_TRACE_EVENT,      /* an entry of an event queue */
    WEFT_TRACE_READ, /* a read of a completion queue; left out for one entry at the first try */
    WEFT_TRACE_CALL,
};

enum weft_trace_clock {
    WEFT_TRACE_CLOCK_MONOTONIC, /* ticks are nanoseconds */
    WEFT_TRACE_CLOCK_TSC,       /* ticks of the processor; see `clocks` */
};

/* MORE of a call of atomics: the fi_datatype and the fi_op of its elements. Of a collective also
 * its fi_collective_op, which stands above bit 31. */
#define WEFT_TRACE_ELEMENTS(datatype, op)                                                          \
    (((uint64_t)(datatype)&0xffff) | ((uint64_t)(op)&0xffff) << 16)
#define WEFT_TRACE_DATATYPE(elements) ((unsigned)(elements)&0xffff)
#define WEFT_TRACE_OP(elements) ((unsigned)((elements) >> 16) & 0xffff)
#define WEFT_TRACE_COLLECTIVE(elements) ((unsigned)((elements) >> 32) & 0xffff)

/* Another object in a record: its number, and its FI_CLASS_... where that is known, else zero. */
#define WEFT_TRACE_NAMED(number, fclass) ((uint64_t)(number) | (uint64_t)(fclass) << 32)
#define WEFT_TRACE_NUMBER(named) ((uint32_t)(named))
#define WEFT_TRACE_CLASS(named) ((unsigned)((named) >> 32))

/* The result of a call that has not returned (yet). */
#define WEFT_TRACE_PENDING INT32_MIN

/*
 *              a call          MORE            COMPLETION          EVENT           READ
 * inside       records made inside of it  -    flags, low 32 bits  event           entries
 * result       result          -               0 or -error         0 or -error     result
 *
 * Fields of certain calls and events; MORE is the record behind them:
 *
 *   a call that opens an object, or takes one    buf: WEFT_TRACE_NAMED
 *   "address", among the names of calls          no call. tag: a number for an address of the
 *                                                network, the same wherever that address is. Of an
 *                                                endpoint (object) it is its own, of an address
 *                                                vector the one at `peer`
 *   a collective                                 len: its count; peer: the address of its group.
 *                                                MORE: buf flags, len the buffer of results, peer
 *                                                the root
 *   a registration of memory                     MORE: buf flags, len the first address, peer the
 *                                                access rights; older releases write none
 *   FI_JOIN_COMPLETE                             len: the number of members; peer: the address of
 *                                                the group; tag: its object as WEFT_TRACE_NAMED,
 *                                                which fi_join has in buf. First MORE: buf the
 *                                                member that the endpoint is, len a number that
 *                                                all members share. Further MOREs: the first
 *                                                members, four each in buf, len, peer, tag
 */
struct weft_trace_record {
    uint64_t time; /* ticks: when it was called, or came */
    uint16_t kind;
    uint8_t layer;
    uint8_t fclass; /* of the object: FI_CLASS_EP, ... */
    uint32_t object;
    int32_t result;
    uint32_t inside;
    uint64_t context;
    uint64_t buf;  /* MORE: flags */
    uint64_t len;  /* bytes; elements of atomics. MORE: remote CQ data. READ: empty reads before */
    uint64_t peer; /* fi_addr_t. MORE: remote key, or the bits to ignore of a tag */
    uint64_t
        tag; /* remote address of RMA and atomics. MORE: WEFT_TRACE_ELEMENTS, where it has any */
};

struct weft_trace_ring {
    uint64_t head;     /* records ever made; record n is at n % capacity */
    uint64_t capacity; /* a power of two */
    uint64_t thread;   /* as gettid(2) */
};

struct weft_trace_object {
    uint16_t layer;
    uint16_t fclass; /* FI_CLASS_EP, ... */
    uint32_t parent; /* the object that it was opened from */
};

struct weft_trace_clocks {
    uint64_t ticks, monotonic_ns, realtime_ns; /* read at one moment */
};

struct weft_trace_header {
    char magic[8];
    uint32_t version;
    uint32_t record_size;
    uint64_t header_size; /* where the first ring is */
    uint64_t ring_size;   /* from one ring to the next */
    uint32_t rings;
    uint32_t clock;
    uint32_t pid;
    uint32_t layer_count;
    uint32_t object_count;              /* ever opened; object n is objects[n - 1] */
    uint32_t rings_refused;             /* threads that got none */
    uint32_t rings_reused;              /* taken over from threads that had ended */
    uint32_t boot;                      /* the same in all files of one boot of one machine */
    struct weft_trace_clocks clocks[2]; /* the first and the latest reading */
    char host[64];
    char program[64];
    char layers[WEFT_TRACE_LAYERS][64]; /* the layer's lower */
    char names[WEFT_TRACE_NAMES][24];   /* of calls, from WEFT_TRACE_CALL on */
    struct weft_trace_object objects[WEFT_TRACE_OBJECTS];
};

#endif
