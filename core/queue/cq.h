/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues. A struct cq is a fid_cq for the upper and a fid_peer_cq for lowers: the part
 * that ends an operation calls cq_write, which puts the completion straight where the application
 * reads it: into this queue's ring, or, when this queue was opened with FI_PEER, into the upper's.
 * Source: fi_cq(3), fi_peer(3).
 */
#ifndef WEFT_CORE_QUEUE_CQ_H
#define WEFT_CORE_QUEUE_CQ_H

#include <string.h>

#include <rdma/fi_eq.h>
#include <rdma/providers/fi_peer.h>

#include "core/base/fid.h"
#include "core/base/seam.h"
#include "core/progress/progress.h"
#include "core/queue/wait.h"

/* Written into a queue with a prov_errno from here on: its low 16 bits are an errno, which readers
 * get, and err_data is a text that says more, for fi_cq_strerror. */
#define CQ_ERR_TEXT 0x57450000

enum {
    CQ_SLACK = 16 /* entries free when the ring grows: one that finds no memory leaves room */
};

/* Every public entry format is a prefix of it. */
struct cq_entry {
    void *context;
    uint64_t flags;
    size_t len;
    void *buf;
    uint64_t data;
    uint64_t tag;
    fi_addr_t src;
};

struct cq_error; /* an error entry, queued in order with the others */

struct cq {
    struct fid_cq fid;
    struct fid_peer_cq peer;  /* what lowers write to when this queue is the owner */
    struct fid_peer_cq *sink; /* &peer, or the upper's when opened with FI_PEER */
    struct cq *into;          /* whose ring that is; itself where it is none of this room's */
    bool forwards;            /* sink is an upper's, and no queue of this room */
    struct domain *domain;
    struct progress *progress;
    struct cq_entry *ring; /* capacity is a power of two */
    size_t capacity;       /* 0 with FI_PEER */
    size_t head, tail;     /* count up for ever; the place in the ring is modulo capacity */
    /* While a read drives an empty queue: where the next entry goes, past the ring. */
    char *direct;
    size_t direct_left, direct_most; /* how many more, and at all */
    size_t entry_size;               /* of the format */
    struct cq_error *errors, **errors_end;
    struct cq_error *shown; /* taken by readerr; its err_data may be in use until the next */
    const void *text;       /* err_data as readerr gave it last, where it is a text, or NULL */
    struct cq_error *spare; /* for when there is no memory; NULL while it is in use */
    bool overrun;           /* a completion was lost, and readerr has not said so yet */
    bool failed;            /* that, or errors */
    unsigned full;          /* reads that gave something */
    struct wait wait;
    struct progress_watch watch;
    bool watched_above; /* who asks it by trywait watches its sources itself */
    struct progress_sleeper sleeper;
    struct children children; /* endpoints bound */
    enum fi_cq_format format;
    enum fi_cq_wait_cond wait_cond;
    int vector;            /* FI_AFFINITY: signaling_vector; else -1. For devices */
    size_t size;           /* as asked; the ring grows beyond it rather than lose an entry */
    bool concurrent;       /* threads may read it at once, by the domain's threading */
    const void *reader;    /* then, the thread that read last */
    unsigned readers;      /* not 0: several threads read in turns, lately */
    atomic_uint sleepers;  /* threads in sread */
    atomic_uint signals;   /* fi_cq_signal: how many */
    atomic_bool signalled; /* fi_cq_signal came while no thread was in sread */
};

/* A message that was sent or received with success: its operation's context, and what a receive's
 * completion tells. */
struct cq_done {
    void *context;
    size_t len;
    fi_addr_t src;
};

/* A layer's own queue, as its lower writes to it (FI_PEER). A lower of ours may tell it of several
 * messages in one call, instead of one write of owner_ops for each; the order is the same. */
struct cq_sink {
    struct fid_peer_cq peer; /* fid.ops: cq_sink_ops, by which it is known */
    void (*take)(struct cq_sink *sink, const struct cq_done *done, size_t count);
};

extern struct fi_ops cq_sink_ops;

/* CONTROL_SOURCES (core/part/part.h): the fd is the queue's own signal; what else wakes waiters
 * is what the sources of the progress domain have. */
struct cq_sources {
    struct progress *progress;
    int fd;
};

/* Opens a queue with the default operations; attr and context as in fi_cq_open (context is a
 * struct fi_peer_cq_context with FI_PEER). -FI_EINVAL, -FI_ENOMEM. */
int cq_open(struct domain *domain, const struct fi_cq_attr *attr, struct fid_cq **cq,
            void *context);

/* For a part that adds to a queue: embeds struct cq first, gives its own fid ops whose close calls
 * cq_close_check, undoes its own, then cq_finish. */
int cq_init(struct cq *cq, struct domain *domain, const struct fi_cq_attr *attr,
            struct fi_ops *fid_ops, void *context);
void cq_finish(struct cq *cq);
/* -FI_EBUSY while endpoints are bound. */
int cq_close_check(const struct cq *cq);
/* FI_GETWAIT, FI_GETWAITOBJ, CONTROL_SOURCES: the control of the default ops. */
int cq_control(struct fid *fid, int command, void *arg);

/*
 * For a part whose queues have a read of their own (as table_inherit makes it of cq_ops) that takes
 * the plain case past all of this. Called with the progress domain entered, root, which they leave.
 */
extern const struct fi_ops_cq *const cq_ops;
/* The whole of fi_cq_read. */
ssize_t cq_read_entered(struct cq *cq, struct progress *root, void *buf, size_t count);
/* The same of a queue that is not empty, or of no entries. */
ssize_t cq_read_ring(struct cq *cq, struct progress *root, void *buf, size_t count);
/* It gave as many entries by itself, or found that there were none. */
ssize_t cq_read_end(struct cq *cq, struct progress *root, size_t count);

/* There is nothing to read, nor to report. Progress domain locked. */
static inline bool cq_is_empty(const struct cq *cq)
{
    return cq->tail == cq->head && !cq->failed;
}

/* From here on entries go straight to buf, and no further ones than count; how many have. */
static inline void cq_direct(struct cq *cq, void *buf, size_t count)
{
    cq->direct = buf;
    cq->direct_left = cq->direct_most = count;
}

static inline size_t cq_direct_end(struct cq *cq)
{
    size_t got = cq->direct_most - cq->direct_left;

    cq->direct_left = 0;
    return got;
}

/* A read gave something: progress domains without a reader of their own have their turn seldom
 * then. Progress domain locked. */
static inline bool cq_others_turn(struct cq *cq)
{
    return !(++cq->full % PROGRESS_FULL);
}

/* The queue that a fid is, or NULL when it is not one of this room's. */
struct cq *cq_of(struct fid *fid);

/* The fields of the application's format go to the reader. */
static inline void cq_write_direct(struct cq *cq, void *context, uint64_t flags, size_t len,
                                   void *buf, uint64_t data, uint64_t tag)
{
    char *out = cq->direct;

    cq->direct_left--;
    cq->direct += cq->entry_size;
    memcpy(out + offsetof(struct cq_entry, context), &context, sizeof(context));
    if (cq->entry_size == sizeof(struct fi_cq_entry))
        return;
    memcpy(out + offsetof(struct cq_entry, flags), &flags, sizeof(flags));
    memcpy(out + offsetof(struct cq_entry, len), &len, sizeof(len));
    if (cq->entry_size == sizeof(struct fi_cq_msg_entry))
        return;
    memcpy(out + offsetof(struct cq_entry, buf), &buf, sizeof(buf));
    memcpy(out + offsetof(struct cq_entry, data), &data, sizeof(data));
    if (cq->entry_size == sizeof(struct fi_cq_tagged_entry))
        memcpy(out + offsetof(struct cq_entry, tag), &tag, sizeof(tag));
}

/* Into the ring, which has room. */
static inline void cq_put(struct cq *cq, void *context, uint64_t flags, size_t len, void *buf,
                          uint64_t data, uint64_t tag, fi_addr_t src)
{
    struct cq_entry *entry = &cq->ring[cq->tail & (cq->capacity - 1)];

    entry->context = context;
    entry->flags = flags;
    entry->len = len;
    entry->buf = buf;
    entry->data = data;
    entry->tag = tag;
    entry->src = src;
    cq->tail++;
    wait_signal(&cq->wait);
}

/* One completion; flags as the application sees them (FI_SEND | FI_MSG, ...). Never fails: the ring
 * grows (after an allocation failure readerr reports FI_EOVERRUN once). Progress domain locked.
 * Inlined where it is called from the shortest paths. */
static inline __attribute__((always_inline)) void cq_write_inlined(struct cq *cq, void *context,
                                                                   uint64_t flags, size_t len,
                                                                   void *buf, uint64_t data,
                                                                   uint64_t tag, fi_addr_t src)
{
    struct cq *into = cq->into;

    if (cq->forwards) {
        cq->sink->owner_ops->write(cq->sink, context, flags, len, buf, data, tag, src);
        return;
    }
    if (into->direct_left) {
        cq_write_direct(into, context, flags, len, buf, data, tag);
        return;
    }
    /* As good as full. */
    if (__builtin_expect(into->tail - into->head + CQ_SLACK >= into->capacity, 0)) {
        cq->sink->owner_ops->write(cq->sink, context, flags, len, buf, data, tag, src);
        return;
    }
    cq_put(into, context, flags, len, buf, data, tag, src);
}

static inline void cq_write(struct cq *cq, void *context, uint64_t flags, size_t len, void *buf,
                            uint64_t data, uint64_t tag, fi_addr_t src)
{
    cq_write_inlined(cq, context, flags, len, buf, data, tag, src);
}

/* Where the completions of a queue may go several at once; NULL: nowhere. */
static inline struct cq_sink *cq_sink_of(const struct cq *cq)
{
    return cq->forwards && cq->sink->fid.ops == &cq_sink_ops
               ? object_of(cq->sink, struct cq_sink, peer)
               : NULL;
}

/* One error entry; err_data is copied. Progress domain locked. */
static inline void cq_write_error(struct cq *cq, const struct fi_cq_err_entry *entry)
{
    cq->sink->owner_ops->writeerr(cq->sink, entry);
}

/* fi_trywait for this queue, or for the wait set that it is in: -FI_EAGAIN when there is something
 * to read or to do. Takes the lock. */
int cq_trywait(struct cq *cq);
/* Is there anything to read? Drives when there is not. Takes the lock. */
bool cq_ready(struct cq *cq);

#endif
