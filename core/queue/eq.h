/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event queues. Reading drives the fabric's progress domain. Source: fi_eq(3), fi_cm(3).
 */
#ifndef WEFT_CORE_QUEUE_EQ_H
#define WEFT_CORE_QUEUE_EQ_H

#include <rdma/fi_eq.h>

#include "core/base/fid.h"
#include "core/base/list.h"
#include "core/progress/progress.h"
#include "core/queue/wait.h"

struct eq_event; /* an event or an error */

struct eq {
    struct fid_eq fid;
    struct fabric *fabric;
    struct progress *progress; /* the fabric's control progress domain; held */
    struct wait wait;
    struct progress_watch watch;
    pthread_mutex_t mutex;  /* of the event list only: any thread may write an event */
    struct list events;     /* errors are in the same list, in order */
    struct eq_event *shown; /* error taken by readerr; its err_data may be in use until the next */
    struct eq_event *spare; /* for an event without memory: a peer's end must be reported */
    atomic_int pending;     /* events in the list */
    struct children children;
    bool writable; /* FI_WRITE: the application may fi_eq_write */
};

/* progress domain: the fabric's control progress domain. Default operations. attr NULL: defaults.
 * -FI_EINVAL (flags, FI_PEER among them: that interface has no way to pass an error on),
 * -FI_ENOMEM. */
int eq_open(struct fabric *fabric, struct progress *progress, const struct fi_eq_attr *attr,
            struct fid_eq **eq, void *context);

/* The queue that a fid is, or NULL when it is not one of this room's. */
struct eq *eq_of(struct fid *fid);

/* Queues an event of `len` bytes (struct fi_eq_entry or fi_eq_cm_entry with private data behind
 * it); a cm entry's info passes to the reader. Any lock state but inside the EQ. -FI_ENOMEM. */
int eq_write(struct eq *eq, uint32_t event, const void *entry, size_t len);
/* Queues an error; err_data is copied. */
int eq_write_error(struct eq *eq, const struct fi_eq_err_entry *entry);
/* Drops queued events about fid (it is being closed), freeing infos. */
void eq_forget(struct eq *eq, const struct fid *fid);

/*
 * fi_trywait for queues, counters and wait sets of core: 0 when the caller may sleep on all of
 * them, -FI_EAGAIN, -FI_EINVAL for a fid of another kind or maker.
 */
int fids_trywait(struct fid **fids, int count);

#endif
