/* SPDX-License-Identifier: BSD-2-Clause */
/* The state of a process of a replay while it plays: of the rooms replay_run, _open and _post. */
#ifndef WEFT_REPLAY_PLAYER_H
#define WEFT_REPLAY_PLAYER_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include "replay_run.h"

enum {
    REPLAY_NOBODY = -1
};

struct replay_running {
    struct fi_context2 context; /* first: its address leads here */
    int64_t start;
    bool done, cancelled;
    unsigned messages; /* of a receive for several */
    int again;         /* the next one that waits to be posted again; REPLAY_NOBODY */
};

struct replay_joining;

struct replay_player {
    const struct replay_plan *plan;
    const struct replay_process *process;
    const struct replay_settings *settings;
    struct replay_shared *shared;
    struct replay_result *result;
    int index;
    bool crowded;          /* more processes than processors */
    int64_t *times, moved; /* moved: when something last went on */
    struct replay_running *running;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_eq *eq;            /* where there are collectives; else NULL */
    struct replay_joining *joins; /* by group of the process */
    int joining;                  /* that have not completed */
    struct fid_mr *local, *target;
    void *desc;
    char *buffers, *memory;
    struct fid_ep **eps; /* by endpoint of the plan, as those below: its own; others NULL */
    fi_addr_t *addrs;
    uint64_t *messages; /* in receives for several */
    uint64_t impatient; /* sends of so many bytes are not waited for */
    int again;          /* receives for several that are to be posted again; REPLAY_NOBODY */
    uint64_t left;      /* posted and not completed, of those that will complete */
};

/* False: says why the process failed, unless another process did before. */
__attribute__((format(printf, 2, 3))) bool replay_fail(struct replay_player *player,
                                                       const char *format, ...);
/* rc >= 0, or it fails with what was done and the error. */
bool replay_check(struct replay_player *player, const char *what, ssize_t rc);

/* Something was posted or completed: the wait for that starts again, for all. */
void replay_moved(struct replay_player *player);

/* Opens its domain, memory and endpoints, and publishes their addresses for the others.
 * replay_close takes a player of which only some objects are open. */
bool replay_open(struct replay_player *player);
void replay_close(struct replay_player *player);

/* Posts an operation: 0, or what the call answered. */
ssize_t replay_post(struct replay_player *player, const struct replay_op *op,
                    struct replay_running *running);
ssize_t replay_post_collective(struct replay_player *player, const struct replay_op *op,
                               struct replay_running *running);
/* Does it go out as an inject, which is never told to be complete? */
bool replay_fits_inject(const struct replay_player *player, const struct replay_op *op);

/* ---- replay_collective.c: groups ---- */

bool replay_groups_open(struct replay_player *player);
void replay_groups_close(struct replay_player *player);
/* 0, or what the call answered; -FI_EAGAIN: again. */
ssize_t replay_join(struct replay_player *player, int number);
bool replay_joined(const struct replay_player *player, int number);
/* Sees which joins have completed; false after an error. */
bool replay_joins_progress(struct replay_player *player);

#endif
