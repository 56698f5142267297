/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Wait sets: one wait object for the event queues, completion queues and counters that were opened
 * with FI_WAIT_SET. A member's signal is the set's signal, and the set's epoll fd holds what drives
 * the members. A waiter polls each member; queues outside a set pay nothing. Source: fi_poll(3).
 *
 * The application may hold a wrapper of a set, made by a layer that passes through: the context of
 * each of these fids is the struct wait of the set itself (fi_wait_open takes none from the
 * caller), so that it can be named to an object of any layer.
 */
#ifndef WEFT_CORE_QUEUE_WAIT_SET_H
#define WEFT_CORE_QUEUE_WAIT_SET_H

#include "core/base/fid.h"
#include "core/queue/wait.h"

/* The questions of a set to a member. One thread at a time asks all members in turn. */
struct wait_member {
    /* Arms, drives, and looks: true when there is something to read; else how long the caller may
     * sleep, in milliseconds (0: not at all, -1: no limit). */
    bool (*look)(struct wait *wait, int *sleep_ms);
    /* fi_trywait for it. */
    int (*trywait)(struct wait *wait);
};

/* A fabric's wait_open. attr NULL: FI_WAIT_UNSPEC. -FI_EINVAL (flags; NONE, SET, unknown objects),
 * -FI_ENOMEM, -FI_EMFILE. The set's fi_wait answers 0, -FI_ETIMEDOUT, -FI_EINTR, -FI_EOPBADSTATE
 * in a forked child; its close -FI_EBUSY while it has members. */
int wait_set_open(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **set);

/* The set that a fid is, or is a wrapper of; NULL: it is none. */
struct wait *wait_set_of(const struct fid *fid);

/* For attr->wait_set: keeps the set open until wait_set_release. -FI_EINVAL for what is no set. */
int wait_set_hold(struct fid_wait *set, struct wait **outer);
void wait_set_release(struct wait *outer);

/* Once the member is complete, and before it goes: nothing unless it is of FI_WAIT_SET. No progress
 * domain locked. */
void wait_set_join(struct wait *wait, const struct wait_member *member);
void wait_set_leave(struct wait *wait);

/* fi_trywait: 0 when every member may sleep, else -FI_EAGAIN. */
int wait_set_trywait(struct wait *outer);

#endif
