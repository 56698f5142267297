/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The layer's knowledge of the objects that pass through it, behind their `own`. Everything but the
 * limits of endpoints, which never change, is guarded by the layer's mutex. An object without
 * memory for its own is not checked.
 */
#ifndef WEFT_DEBUG_H
#define WEFT_DEBUG_H

#include "core/hook/hook_watch.h"
#include "core/op/op.h"
#include "layers/debug/debug_report.h"

enum {
    DEBUG_FLIGHT_SLOTS = 1024,
    DEBUG_NAME = 32,
    DEBUG_IOVS = 8,
    DEBUG_BUFFERS = 24, /* of one transfer: of atomics three times IOVS */
};

struct debug_layer;

/* Of every class. */
struct debug_object {
    struct debug_layer *layer;
    const struct fid *fid;
    uint32_t number;
    struct list link;            /* in layer->objects */
    struct debug_object *parent; /* domain or fabric; NULL: the fabric itself */
    int children;
    struct list users;       /* struct debug_use: objects bound to it */
    struct list uses;        /* struct debug_use: objects it is bound to */
    atomic_uintptr_t inside; /* the thread that is in a call, where threads are checked */
};

struct debug_layer {
    struct debug_object root; /* of the fabric */
    struct debug_reporter *reporter;
    int demand_mr; /* FI_MR_LOCAL, if the layer asks for it by itself */
    pthread_mutex_t mutex;
    struct list objects; /* open ones */
    uint32_t numbers;
    struct list flights[DEBUG_FLIGHT_SLOTS]; /* operations under way, by context */
    int flight_count;
};

struct debug_use {
    struct list by_user, by_target;
    struct debug_object *user, *target;
};

struct debug_domain {
    struct debug_object object;
    enum fi_threading threading;
    bool local; /* FI_MR_LOCAL */
    bool peers; /* has queues of an upper part: that minds the threads */
    size_t data_size;
    struct list regions;
};

struct debug_ep {
    struct debug_object object;
    struct debug_domain *domain;
    enum fi_ep_type type;
    bool receives_only; /* a shared receive context */
    bool contexts;      /* FI_CONTEXT or FI_CONTEXT2 */
    uint64_t caps, tx_op_flags, rx_op_flags;
    size_t tx_iov, rx_iov, rma_iov, inject_size, max_msg_size; /* 0: not known */
    atomic_bool enabled;
    bool tx_selective, rx_selective, joined;
    struct debug_cq *tx, *rx;
    struct debug_av *av;
};

struct debug_cq {
    struct debug_object object;
    struct debug_domain *domain;
    enum fi_cq_format format;
    enum fi_wait_obj wait;
    bool peer;
};

/* Of collectives. */
struct debug_group {
    struct debug_object object;
    const struct debug_object *ep; /* that joined it */
    uint32_t size;                 /* members; 0: not known */
    fi_addr_t self;                /* the endpoint's fi_addr_t in its process */
};

/* Addresses as a bitmap; `open`: not all are known, so none is wrong. */
struct debug_av {
    struct debug_object object;
    bool open;
    int rx_ctx_bits;
    uint8_t *bits;
    size_t size; /* bits */
};

struct debug_mr {
    struct debug_object object;
    struct debug_domain *domain;
    struct list region; /* of the domain */
    struct iovec iov[DEBUG_IOVS];
    size_t count; /* 0: where it is cannot be known */
    uint64_t access;
};

/* ---- debug_object.c: the life of objects ---- */

/* Behind the hook of an object; NULL. */
static inline struct debug_object *debug_of(struct fid *fid)
{
    return *hook_own(fid);
}
/* An object of `size`, which begins with a struct debug_object, for a fid that has been opened from
 * `parent`; NULL without memory, or where the parent has none. */
void *debug_opened(struct fid *fid, struct fid *parent, size_t size);
/* "ep 7"; returns text. */
const char *debug_name(const struct debug_object *object, char text[DEBUG_NAME]);
/* Is this an object of the layer that is open? Mutex not held. */
bool debug_is_open(struct debug_layer *layer, const struct fid *fid);
/* The user is bound to the target, or made of it: it has to close first. */
void debug_used(struct debug_object *user, struct debug_object *target);
/* Once for each time; nothing when it does not. */
void debug_unused(struct debug_object *user, const struct debug_object *target);
void debug_object_ops(struct hook_ops *ops);

/* ---- debug_closed.c: objects that are closed ---- */

/* The end of a close, as hook_ops.retire: the object stays for a while, and reports its use. */
void debug_retire(struct fid *fid);
/* A call on such an object: reported; -FI_EINVAL. */
int debug_use_closed(struct fid *fid, const char *call);
/* Is what a call on `user` is given such an object? That is reported. Both may be NULL: no. */
bool debug_is_closed(const struct debug_object *user, const char *call, const struct fid *fid);

/* debug_closed_ops.c: gives an object the tables that debug_use_closed is called from. */
void debug_bury(struct fid *fid);

/* ---- The rest: tables, and their shared functions ---- */

void debug_open_ops(struct hook_ops *ops);
/* Adds to the tables of the two above. */
void debug_set_ops(struct hook_ops *ops);
/* debug_set.c: a wait set that an object is opened with. The first reports a closed one, and
 * returns -FI_EINVAL for it; the second keeps an open one from being closed. */
int debug_check_set(struct fid *fid, const struct hook_opening *opening);
void debug_hold_set(struct fid *fid, const struct hook_opening *opening);
/* struct ep.post of its endpoints. */
ssize_t debug_post(struct ep *ep, struct op *op);
void debug_queue_ops(struct hook_ops *ops);
void debug_address_ops(struct hook_ops *ops);

/* A call begins in an object that only one thread at a time may be in. True: debug_leave it. */
bool debug_enter(struct debug_object *object, const char *call);
static inline void debug_leave(struct debug_object *object)
{
    atomic_store_explicit(&object->inside, 0, memory_order_release);
}
/* Which object guards a queue at the threading level of its domain; NULL: none. */
struct debug_object *debug_cq_guard(struct debug_cq *cq);

/* One local buffer of a transfer, and of which rights its region has to have one. */
struct debug_buffer {
    struct iovec iov;
    const void *desc;
    uint64_t access;
};

/* The segments that the lower uses behind the call, without empty ones. */
struct debug_buffers {
    size_t count;
    struct debug_buffer list[DEBUG_BUFFERS];
};

/* flags: final. None, where descriptors do not matter. */
void debug_find_buffers(struct debug_ep *ep, const struct op *op, uint64_t flags,
                        struct debug_buffers *buffers);
/* Their descriptors. */
void debug_check_memory(struct debug_ep *ep, const struct op *op,
                        const struct debug_buffers *buffers, const char *whom);
/* Of atomics and collectives only. */
void debug_check_operands(struct debug_ep *ep, struct fid_ep *lower, const struct op *op,
                          const char *whom);
void debug_check_address(struct debug_ep *ep, const struct op *op, const char *whom);

/* ---- debug_flight.c: operations under way, where contexts or descriptors matter ---- */

/* flags: final. */
void debug_flight_begin(struct debug_ep *ep, const struct op *op, uint64_t flags,
                        const struct debug_buffers *buffers);
/* The call was refused after all, or a completion with that context came. */
void debug_flight_end(struct debug_layer *layer, const void *context, uint64_t flags, bool refused);
/* The operations of an endpoint that is closed. */
void debug_flight_forget(struct debug_ep *ep);
/* How many of them use the region. */
int debug_flight_count(struct debug_mr *mr);
/* The region of the descriptor of a buffer, best one that has it whole; NULL. Mutex held. */
struct debug_mr *debug_region_of(const struct debug_domain *domain, const void *desc,
                                 const struct iovec *iov);
/* A region was opened. */
void debug_region_opened(struct fid *fid, const struct hook_opening *opening);
/* The region has a descriptor, from its opening or since now. */
void debug_region_named(struct fid_mr *fid);

#endif
