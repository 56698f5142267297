/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The plan of fi_replay, made from a linked model of trace files: for each process its operations,
 * and the order in which it posted them and saw them complete. The contents of files are not
 * trusted: all indices and sizes of a plan are sound.
 */
#ifndef WEFT_REPLAY_PLAN_H
#define WEFT_REPLAY_PLAN_H

#include "trace_model.h"

enum {
    REPLAY_ANY = -1 /* of peers: not told */
};

enum replay_class {
    REPLAY_SEND,
    REPLAY_RECV,
    REPLAY_READ,
    REPLAY_WRITE,
    REPLAY_ATOMIC,
    REPLAY_FETCH,
    REPLAY_COMPARE,
    REPLAY_BARRIER, /* from here on in the order of enum fi_collective_op */
    REPLAY_BROADCAST,
    REPLAY_ALLTOALL,
    REPLAY_ALLREDUCE,
    REPLAY_ALLGATHER,
    REPLAY_REDUCE_SCATTER,
    REPLAY_REDUCE,
    REPLAY_SCATTER,
    REPLAY_GATHER,
    REPLAY_CLASSES
};
extern const char *const replay_class_names[REPLAY_CLASSES];

/* Why an operation of a trace is not done again. */
enum replay_left {
    REPLAY_LEFT_ATOMIC, /* of a file of version 1 */
    REPLAY_LEFT_DATATYPE,
    REPLAY_LEFT_COLLECTIVE, /* of a file of version 2, or of a part that does not tell */
    REPLAY_LEFT_MEMBERS,    /* a member's trace is missing */
    REPLAY_LEFT_UNEVEN,     /* members differ in what they called */
    REPLAY_LEFT_PEEK,       /* FI_PEEK, FI_DISCARD */
    REPLAY_LEFT_CANCEL,     /* that came too late */
    REPLAY_LEFT_PEER,       /* receives that a lower took from its upper */
    REPLAY_LEFT_OTHER,
    REPLAY_LEFT
};
extern const char *const replay_left_texts[REPLAY_LEFT]; /* what, and why */

struct replay_op {
    enum replay_class class;
    bool tagged, inject, data; /* data: with remote completion data */
    bool multi;                /* a receive for several messages */
    bool completed, cancelled; /* in the trace; both: a receive that got some of its messages */
    unsigned messages;         /* of such a receive */
    int ep, peer;              /* of the plan's endpoints; REPLAY_ANY */
    uint64_t tag, ignore, cq_data, flags;
    uint64_t offset, len;               /* in the buffers of its process */
    uint16_t datatype, atomic_op, size; /* of elements; size: bytes of one, not 0 of atomics */
    int group, root;                    /* of collectives: in its process; a member's rank */
    uint64_t count;                     /* of collectives, of elements */
    uint64_t result, result_len;        /* of collectives: as offset and len */
    uint64_t remote;                    /* offset in the target memory of the peer's process */
    uint64_t done_len;                  /* of a receive that completed */
    int64_t ns; /* from the call to the completion; 0 when it did not complete */
};

enum replay_step_kind {
    REPLAY_POST,
    REPLAY_WAIT, /* for its completion */
    REPLAY_CANCEL,
    REPLAY_JOIN,
    REPLAY_JOINED /* waits for that */
};

struct replay_step {
    int op; /* of a join the group */
    enum replay_step_kind kind;
    uint64_t messages; /* not 0: wait until its endpoint had so many in receives for several */
    int64_t ns;        /* when that was, since the first step of all */
};

/* Pieces of memory that a program used, put one behind the other. */
struct replay_memory {
    struct replay_piece {
        uint64_t start, end; /* in the program */
        uint64_t offset;     /* in ours */
    } * pieces;
    int count, room;
    uint64_t size; /* of all */
};

/* A group that an endpoint joined, whose members are all there. */
struct replay_group {
    uint32_t size, rank;
    int *members;       /* endpoints of the plan, by rank */
    uint64_t *addrs;    /* the program's numbers of them */
    int called, joined; /* events of the model */
};

struct replay_process {
    const char *name; /* of the file */
    struct replay_op *ops;
    struct replay_step *steps;
    struct replay_group *groups;
    int op_count, step_count, group_count;
    int found; /* the endpoint of the plan that was asked for last */
    struct replay_memory buffers;
    struct replay_memory target; /* that others read and write */
    uint64_t operands;           /* offset in buffers.size of results, then what to compare with */
    uint64_t operand_len;        /* bytes of each of the two; 0: there is no such operation */
    unsigned left[REPLAY_LEFT];  /* operations that are not done again */
    unsigned strange, received;  /* receives that no send of the other files is known of; and all */
};

struct replay_plan {
    struct replay_process *processes;
    int process_count;
    struct replay_endpoint {
        int process;
        uint32_t object;
        uint64_t largest;  /* message in receives for several; 0: there is none */
        uint64_t smallest; /* of those receives */
    } * endpoints;
    int endpoint_count, endpoint_room;
    char recorded[64]; /* the stack */
    int64_t elapsed;   /* ns from the first step to the last */
    bool multi, rma, atomics, directed, messages, tagged, collectives;
};

/* False: a sentence in why says which file lacks what, and how to get it. Of the model, only the
 * names are needed afterwards. */
bool replay_plan_make(const struct trace_model *model, struct replay_plan *plan, char *why,
                      size_t why_size);
void replay_plan_free(struct replay_plan *plan);
/* Is there one endpoint, which has peers? Nothing in a trace tells whether it is its own peer, or
 * the trace of the other side is missing. */
bool replay_plan_is_alone(const struct replay_plan *plan);

/* ---- Between the files of this room ---- */

struct replay_groups;

/* Does it name memory of its peer? */
static inline bool replay_is_remote(const struct replay_op *op)
{
    return op->class >= REPLAY_READ && op->class <= REPLAY_COMPARE;
}

static inline bool replay_is_atomic(const struct replay_op *op)
{
    return op->class >= REPLAY_ATOMIC && op->class <= REPLAY_COMPARE;
}

static inline bool replay_is_collective(const struct replay_op *op)
{
    return op->class >= REPLAY_BARRIER;
}

/* The plan's number of an endpoint; -1 without memory. */
int replay_endpoint_of(struct replay_plan *plan, int process, uint32_t object);

/* Fills the class, flags and kind of op, which is zero before. REPLAY_LEFT: well; else why the call
 * is left out. */
enum replay_left replay_form_read(const struct trace_model *model, const struct trace_event *call,
                                  struct replay_op *op);

/* Bytes of an element; 0: of a datatype that is not known. */
unsigned replay_element_size(unsigned datatype);

/* Groups of all files; layer: of each file, the one that is replayed. NULL without memory. */
struct replay_groups *replay_groups_find(const struct trace_model *model, const int *layer);
/* As replay_form_read, of operation `index` of the model, a collective; buffers are addresses. */
enum replay_left replay_groups_read(const struct replay_groups *groups, int index,
                                    struct replay_op *op);
/* The groups of the plan's processes. False without memory. */
bool replay_groups_set(const struct replay_groups *groups, struct replay_plan *plan);
void replay_groups_free(struct replay_groups *groups); /* takes NULL */
/* Is it a call of fi_join? */
bool replay_is_join(const struct trace_model *model, const struct trace_event *event);

/* Adds [start, start + len); false without memory. */
bool replay_memory_add(struct replay_memory *memory, uint64_t start, uint64_t len);
/* Joins what overlaps and lays it out. False: it is too much. */
bool replay_memory_lay(struct replay_memory *memory);
/* Of an address that was added. */
uint64_t replay_memory_offset(const struct replay_memory *memory, uint64_t start);

/* Sets the steps of all processes, which have room for one for each event of their file, and what
 * follows from them. of: as below; layer: of each file, the one that is replayed. False: as
 * replay_plan_make. */
bool replay_order_set(const struct trace_model *model, struct replay_plan *plan, const int *of,
                      const int *layer, char *why, size_t why_size);

struct replay_names;
/* The addresses that traces tell. NULL without memory. */
struct replay_names *replay_names_find(const struct trace_model *model,
                                       const struct replay_plan *plan, const int *layer);
/* The plan's endpoint that endpoint `ep` calls `peer`; REPLAY_ANY: no trace tells. */
int replay_names_of(const struct replay_names *names, int ep, uint64_t peer);
void replay_names_free(struct replay_names *names); /* takes NULL */

struct replay_peers;
/* op_of: number of an operation in its process, by operation of the model; TRACE_NONE: not
 * replayed. layer: of each file, the one that is replayed. Endpoints of the plan and of its
 * operations are set. NULL without memory. */
struct replay_peers *replay_peers_find(const struct trace_model *model,
                                       const struct replay_plan *plan, const int *op_of,
                                       const int *layer);
/* The plan's endpoint that endpoint `ep` calls `peer`; REPLAY_ANY: unknown. */
int replay_peers_of(const struct replay_peers *peers, int ep, uint64_t peer);
void replay_peers_free(struct replay_peers *peers); /* takes NULL */

#endif
