/* SPDX-License-Identifier: BSD-2-Clause */
/* Groups of collectives in a process of a replay, and the calls on them. */
#include <inttypes.h>
#include <stdlib.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include "replay_player.h"

struct replay_joining {
    struct fi_context2 context; /* first: its address leads here */
    struct fid_av_set *set;
    struct fid_mc *group;
    bool done;
};

bool replay_groups_open(struct replay_player *player)
{
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_NONE};
    const int count = player->process->group_count;

    if (!player->plan->collectives)
        return true;
    player->joins = calloc((size_t)count + 1, sizeof(*player->joins));
    if (!player->joins)
        return replay_fail(player, "there is no memory");
    return replay_check(player, "fi_eq_open", fi_eq_open(player->fabric, &attr, &player->eq, NULL));
}

void replay_groups_close(struct replay_player *player)
{
    for (int i = 0; player->joins && i < player->process->group_count; i++) {
        if (player->joins[i].group)
            fi_close(&player->joins[i].group->fid);
        if (player->joins[i].set)
            fi_close(&player->joins[i].set->fid);
    }
    free(player->joins);
}

/* ---- Joining ---- */

static bool open_set(struct replay_player *player, const struct replay_group *group,
                     struct fid_av_set **set)
{
    struct fi_av_set_attr attr = {
        .count = group->size, .start_addr = FI_ADDR_NOTAVAIL, .end_addr = FI_ADDR_NOTAVAIL};

    if (!replay_check(player, "fi_av_set", fi_av_set(player->av, &attr, set, NULL)) || !*set)
        return false;
    for (uint32_t i = 0; i < group->size; i++)
        if (!replay_check(player, "fi_av_set_insert",
                          fi_av_set_insert(*set, player->addrs[group->members[i]])))
            return false;
    return true;
}

ssize_t replay_join(struct replay_player *player, int number)
{
    const struct replay_group *group = &player->process->groups[number];
    struct replay_joining *join = &player->joins[number];
    fi_addr_t addr = FI_ADDR_NOTAVAIL;
    int rc;

    if (!join->set && !open_set(player, group, &join->set))
        return -FI_ECANCELED; /* it has said why */
    rc = fi_av_set_addr(join->set, &addr);
    if (!rc)
        rc = fi_join_collective(player->eps[group->members[group->rank]], addr, join->set, 0,
                                &join->group, join);
    player->joining += !rc;
    return rc;
}

bool replay_joined(const struct replay_player *player, int number)
{
    return player->joins[number].done;
}

static bool failed_event(struct replay_player *player)
{
    struct fi_eq_err_entry error = {0};
    ssize_t rc = fi_eq_readerr(player->eq, &error, 0);

    if (rc < 0)
        return rc == -FI_EAGAIN || replay_check(player, "fi_eq_readerr", rc);
    return replay_check(player, "fi_join_collective", -error.err);
}

bool replay_joins_progress(struct replay_player *player)
{
    struct fi_eq_entry entry;
    uint32_t event = 0;
    ssize_t rc;

    if (!player->joining)
        return true;
    rc = fi_eq_read(player->eq, &event, &entry, sizeof(entry), 0);
    if (rc == -FI_EAVAIL)
        return failed_event(player);
    if (rc < 0)
        return rc == -FI_EAGAIN || replay_check(player, "fi_eq_read", rc);
    for (int i = 0; event == FI_JOIN_COMPLETE && i < player->process->group_count; i++) {
        if (entry.context != &player->joins[i] || player->joins[i].done)
            continue;
        player->joins[i].done = true;
        player->joining--;
        replay_moved(player);
    }
    return true;
}

/* ---- Calls ---- */

ssize_t replay_post_collective(struct replay_player *player, const struct replay_op *op,
                               struct replay_running *running)
{
    const struct replay_group *group = &player->process->groups[op->group];
    const fi_addr_t addr = fi_mc_addr(player->joins[op->group].group);
    const fi_addr_t root = player->addrs[group->members[op->root]];
    const enum fi_datatype type = (enum fi_datatype)op->datatype;
    const enum fi_op fold = (enum fi_op)op->atomic_op;
    char *buf = player->buffers + op->offset, *result = player->buffers + op->result;
    struct fid_ep *ep = player->eps[op->ep];
    const size_t n = (size_t)op->count;
    void *desc = player->desc;

    switch (op->class) {
    case REPLAY_BARRIER: return fi_barrier(ep, addr, running);
    case REPLAY_BROADCAST: return fi_broadcast(ep, buf, n, desc, addr, root, type, 0, running);
    case REPLAY_ALLTOALL:
        return fi_alltoall(ep, buf, n, desc, result, desc, addr, type, 0, running);
    case REPLAY_ALLREDUCE:
        return fi_allreduce(ep, buf, n, desc, result, desc, addr, type, fold, 0, running);
    case REPLAY_ALLGATHER:
        return fi_allgather(ep, buf, n, desc, result, desc, addr, type, 0, running);
    case REPLAY_REDUCE_SCATTER:
        return fi_reduce_scatter(ep, buf, n, desc, result, desc, addr, type, fold, 0, running);
    case REPLAY_REDUCE:
        return fi_reduce(ep, buf, n, desc, result, desc, addr, root, type, fold, 0, running);
    case REPLAY_SCATTER:
        return fi_scatter(ep, buf, n, desc, result, desc, addr, root, type, 0, running);
    default: return fi_gather(ep, buf, n, desc, result, desc, addr, root, type, 0, running);
    }
}
