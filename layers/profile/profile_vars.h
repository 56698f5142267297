/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_profile(3): the counts as variables, for the application itself. They are those of the whole
 * layer since the handle was opened or reset; FI_VAR_UNEXP_MSG_CNT is that of its endpoint or
 * domain. The events are there where the layer that matches stands above.
 */
#ifndef WEFT_PROFILE_VARS_H
#define WEFT_PROFILE_VARS_H

#include <pthread.h>
#include <stdatomic.h>

#include <rdma/fi_profile.h>

#include "core/base/list.h"

struct profile;

/* The variables that the application has open. */
struct profile_handles {
    pthread_mutex_t mutex; /* recursive: callbacks read variables */
    struct list list;
    atomic_bool called;        /* does any have a callback? */
    atomic_bool matches_above; /* events can be seen */
};

void profile_handles_init(struct profile_handles *handles);
void profile_handles_finish(struct profile_handles *handles);
/* The object is closed, or closing. */
void profile_handles_forget(struct profile_handles *handles, const struct fid *target);

/* *ops becomes a struct fid_profile *, closed by the application. -FI_ENOMEM. */
int profile_handle_open(struct profile *profile, const struct fid *target, uint64_t flags,
                        void *context, void **ops);
void profile_matches_above(struct profile *profile);
/* An event: calls the callbacks that are registered for it. */
void profile_tell(struct profile *profile, uint32_t event);

#endif
