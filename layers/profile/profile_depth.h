/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How many messages wait for their receive. Above the part that matches, it is asked (fi_getopt),
 * by the thread that reads the queue, once in PROFILE_ASK reads; below it, the messages come by
 * here and are counted.
 */
#ifndef WEFT_PROFILE_DEPTH_H
#define WEFT_PROFILE_DEPTH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "core/base/list.h"
#include "core/base/seam.h"
#include "core/hook/hook.h"

enum {
    PROFILE_ASK = 64
};

struct profile_depth {
    pthread_mutex_t mutex;
    struct list endpoints;              /* that receive, and can say */
    atomic_bool any, ever;              /* is there one; was there? */
    atomic_uint_fast64_t asked, passed; /* waiting: as told last, as counted */
    atomic_uint_fast64_t most;
};

void profile_depth_init(struct profile_depth *depth);
void profile_depth_finish(struct profile_depth *depth);
/* An endpoint has been bound to a queue for its receives; it closes. */
void profile_depth_add(struct profile_depth *depth, struct hook_ep *ep, const struct hook_cq *cq);
void profile_depth_remove(struct profile_depth *depth, const struct hook_ep *ep);
/* Asks the endpoints of a domain, or one; their sum. Not from inside of a call up. */
uint64_t profile_depth_ask(struct profile_depth *depth, const struct fid *of);
/* The messages themselves, a struct fi_cq_err_entry each, as OPT_UNEXPECTED_QUEUE. */
int profile_depth_list(struct profile_depth *depth, const struct fid *of, void *data, size_t *size);
/* Asks those that receive by this queue, which is being read: their threads are one. */
void profile_depth_sample(struct profile_depth *depth, const struct hook_cq *cq);
/* A message that came by waits now, or no longer. */
void profile_depth_count(struct profile_depth *depth, bool waits);

#endif
