/* SPDX-License-Identifier: BSD-2-Clause */
/* The objects that a process of a replay opens and closes. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "replay_player.h"

enum {
    POPULATE_MAX = 1 << 30
};

static bool choose_info(struct replay_player *player)
{
    const struct replay_plan *plan = player->plan;
    struct fi_info *hints = fi_allocinfo();
    int rc;

    if (!hints)
        return replay_fail(player, "there is no memory");
    hints->caps = (plan->messages ? FI_MSG : 0) | (plan->tagged ? FI_TAGGED : 0) |
                  (plan->rma ? FI_RMA : 0) | (plan->atomics ? FI_ATOMIC : 0) |
                  (plan->collectives ? FI_COLLECTIVE : 0) | (plan->multi ? FI_MULTI_RECV : 0) |
                  (plan->directed ? FI_DIRECTED_RECV : 0);
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    setenv("FI_PROVIDER", player->settings->stack, 1);
    unsetenv("FI_HOOK");
    rc = fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &player->info);
    fi_freeinfo(hints);
    if (rc)
        return replay_fail(player,
                           "'%s' has no endpoint for what was recorded (%s); FI_EXPLAIN=1 in the "
                           "environment says why",
                           player->settings->stack, fi_strerror(-rc));
    return true;
}

/* The program had mostly used its buffers before: memory that is not too large is populated at
 * once. */
static char *map_memory(uint64_t size)
{
    const int now = size <= POPULATE_MAX ? MAP_POPULATE : MAP_NORESERVE;
    char *memory =
        mmap(NULL, size + 64, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | now, -1, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

static bool open_memory(struct replay_player *player)
{
    const uint64_t local = player->process->buffers.size, target = player->process->target.size;
    const int mode = player->info->domain_attr->mr_mode;
    struct replay_target *told = &player->shared->targets[player->index];

    player->buffers = map_memory(local);
    player->memory = map_memory(target);
    if (!player->buffers || !player->memory)
        return replay_fail(player, "there is no memory for %" PRIu64 " bytes of buffers",
                           local + target);
    if (mode & FI_MR_LOCAL) {
        if (!replay_check(player, "fi_mr_reg",
                          fi_mr_reg(player->domain, player->buffers, local + 64,
                                    FI_SEND | FI_RECV | FI_READ | FI_WRITE, 0, 1, 0, &player->local,
                                    NULL)))
            return false;
        player->desc = fi_mr_desc(player->local);
    }
    if (!target)
        return true;
    if (!replay_check(player, "fi_mr_reg",
                      fi_mr_reg(player->domain, player->memory, target,
                                FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 2, 0, &player->target, NULL)))
        return false;
    told->base = mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)player->memory : 0;
    told->key = fi_mr_key(player->target);
    return true;
}

/* The messages that the program received have to fit into these, whatever the stack's limit. */
static bool set_multi(struct replay_player *player, int number)
{
    const struct replay_endpoint *it = &player->plan->endpoints[number];
    size_t least = (size_t)(it->largest < it->smallest ? it->largest : it->smallest);

    return !least || replay_check(player, "fi_setopt(FI_OPT_MIN_MULTI_RECV)",
                                  fi_setopt(&player->eps[number]->fid, FI_OPT_ENDPOINT,
                                            FI_OPT_MIN_MULTI_RECV, &least, sizeof(least)));
}

static bool open_endpoint(struct replay_player *player, int number)
{
    struct replay_address *address = &player->shared->addresses[number];
    size_t len = sizeof(address->bytes);
    struct fid_ep *ep;

    if (!replay_check(player, "fi_endpoint", fi_endpoint(player->domain, player->info, &ep, NULL)))
        return false;
    player->eps[number] = ep;
    if (!replay_check(player, "fi_ep_bind",
                      fi_ep_bind(ep, &player->cq->fid, FI_TRANSMIT | FI_RECV)) ||
        !replay_check(player, "fi_ep_bind", fi_ep_bind(ep, &player->av->fid, 0)) ||
        (player->eq && !replay_check(player, "fi_ep_bind", fi_ep_bind(ep, &player->eq->fid, 0))) ||
        !set_multi(player, number) || !replay_check(player, "fi_enable", fi_enable(ep)) ||
        !replay_check(player, "fi_getname", fi_getname(&ep->fid, address->bytes, &len)))
        return false;
    if (len > sizeof(address->bytes))
        return replay_fail(player, "addresses of '%s' are too long", player->settings->stack);
    address->len = (uint32_t)len;
    return true;
}

static bool open_endpoints(struct replay_player *player)
{
    bool first = true;

    for (int i = 0; i < player->plan->endpoint_count; i++) {
        if (player->plan->endpoints[i].process != player->index)
            continue;
        /* Further ones want an address of their own. */
        if (!first) {
            free(player->info->src_addr);
            player->info->src_addr = NULL;
            player->info->src_addrlen = 0;
        }
        first = false;
        if (!open_endpoint(player, i))
            return false;
    }
    return true;
}

bool replay_open(struct replay_player *player)
{
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE};
    struct fi_av_attr av = {.type = FI_AV_TABLE};

    if (!choose_info(player))
        return false;
    cq.size = player->info->tx_attr->size + player->info->rx_attr->size;
    av.count = (size_t)player->plan->endpoint_count;
    return replay_check(player, "fi_fabric",
                        fi_fabric(player->info->fabric_attr, &player->fabric, NULL)) &&
           replay_check(player, "fi_domain",
                        fi_domain(player->fabric, player->info, &player->domain, NULL)) &&
           replay_check(player, "fi_cq_open", fi_cq_open(player->domain, &cq, &player->cq, NULL)) &&
           replay_check(player, "fi_av_open", fi_av_open(player->domain, &av, &player->av, NULL)) &&
           open_memory(player) && replay_groups_open(player) && open_endpoints(player);
}

static void close_fid(struct fid *fid)
{
    if (fid)
        fi_close(fid);
}

void replay_close(struct replay_player *player)
{
    replay_groups_close(player);
    for (int i = 0; player->eps && i < player->plan->endpoint_count; i++)
        close_fid(player->eps[i] ? &player->eps[i]->fid : NULL);
    close_fid(player->local ? &player->local->fid : NULL);
    close_fid(player->target ? &player->target->fid : NULL);
    close_fid(player->av ? &player->av->fid : NULL);
    close_fid(player->cq ? &player->cq->fid : NULL);
    close_fid(player->eq ? &player->eq->fid : NULL);
    close_fid(player->domain ? &player->domain->fid : NULL);
    close_fid(player->fabric ? &player->fabric->fid : NULL);
    fi_freeinfo(player->info);
    free(player->running);
    free(player->eps);
    free(player->addrs);
    free(player->messages);
}
