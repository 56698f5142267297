/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/verbs/verbs_chain.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "transports/verbs/verbs_ep.h"
#include "transports/verbs/verbs_wr.h"

int verbs_chain_open(struct verbs_ep *ep)
{
    ep->chain =
        calloc(1, sizeof(*ep->chain) + VERBS_CHAIN * ep->tx_iov_limit * sizeof(struct ibv_sge));
    if (!ep->chain)
        return -FI_ENOMEM;
    ep->chain->ep = ep;
    list_init(&ep->chain->link);
    return 0;
}

static void leave(struct verbs_ep *ep)
{
    list_detach(&ep->chain->link);
    ep->cq->has_chained = !list_empty(&ep->cq->chained);
}

void verbs_chain_close(struct verbs_ep *ep)
{
    if (verbs_chain_waits(ep->chain)) {
        progress_lock(ep->cq->progress);
        leave(ep);
        progress_unlock(ep->cq->progress);
    }
    free(ep->chain);
    ep->chain = NULL;
}

/* Puts a request at that place, behind the one before. */
static void put(struct verbs_ep *ep, uint32_t at, const struct ibv_send_wr *wr)
{
    struct verbs_chain *chain = ep->chain;
    struct ibv_sge *sges = &chain->sges[at * ep->tx_iov_limit];

    memmove(sges, wr->sg_list, (size_t)wr->num_sge * sizeof(*sges));
    chain->wrs[at] = *wr;
    chain->wrs[at].sg_list = sges;
    chain->wrs[at].next = NULL;
    if (at)
        chain->wrs[at - 1].next = &chain->wrs[at];
}

static void set_count(struct verbs_ep *ep, uint32_t count)
{
    ep->chain->count = count;
    if (!count)
        leave(ep);
}

/* The device took the first `posted` only. `refused` of the others, the newest, is that of the
 * caller, which hears of it; the rest waits on where the device just has no room, else it has
 * failed. */
static void settle(struct verbs_ep *ep, uint32_t posted, uint32_t refused, int err)
{
    struct verbs_chain *chain = ep->chain;
    uint32_t rest = chain->count - posted - refused;
    struct verbs_send failed[VERBS_CHAIN];

    ep->unsignaled = ep->signal_every; /* some of those that were not posted had the signal */
    if (err == ENOMEM) {
        for (uint32_t i = 0; i < rest; i++)
            put(ep, i, &chain->wrs[posted + i]);
        ep->tx.tail -= refused;
        set_count(ep, rest);
        return;
    }
    ep->tx.tail -= rest + refused;
    set_count(ep, 0);
    for (uint32_t i = 0; i < rest; i++)
        failed[i] = ep->sends[(ep->tx.tail + i) & ep->tx.mask];
    for (uint32_t i = 0; i < rest; i++) /* the upper may post from inside */
        verbs_ep_report_refused(ep, &failed[i], err);
}

/* refused: 1 where the newest is the caller's, which hears of an error. */
static ssize_t post(struct verbs_ep *ep, uint32_t refused)
{
    struct verbs_chain *chain = ep->chain;
    struct ibv_send_wr *bad = chain->wrs;
    int rc = verbs_wr_post(ep, chain->wrs, &bad);

    if (!rc) {
        set_count(ep, 0);
        return 0;
    }
    rc = rc > 0 ? rc : -verbs_error(rc);
    settle(ep, (uint32_t)(bad - chain->wrs), refused, rc);
    return rc == ENOMEM ? -FI_EAGAIN : -rc;
}

ssize_t verbs_chain_add(struct verbs_ep *ep, const struct ibv_send_wr *wr, bool more)
{
    struct verbs_chain *chain = ep->chain;

    if (chain->count == VERBS_CHAIN) { /* the device had no room for them before */
        ssize_t rc = verbs_chain_flush(ep);

        if (rc == -FI_EAGAIN && chain->count == VERBS_CHAIN)
            return rc;
    }
    if (!chain->count) {
        list_attach(&chain->link, &ep->cq->chained);
        ep->cq->has_chained = true;
    }
    put(ep, chain->count++, wr);
    ep->tx.tail++;
    return more && chain->count < VERBS_CHAIN ? 0 : post(ep, 1);
}

ssize_t verbs_chain_flush(struct verbs_ep *ep)
{
    return verbs_chain_waits(ep->chain) ? post(ep, 0) : 0;
}

/* The place in the ring of transmissions of that request, which are its newest. */
static uint32_t place_of(const struct verbs_ep *ep, uint32_t at)
{
    return verbs_place(&ep->tx, ep->tx.tail - ep->chain->count + at);
}

/* Requests behind it move up. It may have had the signal: the next one has. */
static void take_out(struct verbs_ep *ep, uint32_t at)
{
    struct verbs_chain *chain = ep->chain;

    for (; at + 1 < chain->count; at++) {
        put(ep, at, &chain->wrs[at + 1]);
        chain->wrs[at].wr_id = verbs_wr_id(ep->number, false, place_of(ep, at));
        ep->sends[place_of(ep, at)] = ep->sends[place_of(ep, at + 1)];
    }
    if (at)
        chain->wrs[at - 1].next = NULL;
    set_count(ep, chain->count - 1);
    ep->tx.tail--;
    ep->unsignaled = ep->signal_every;
}

int verbs_chain_cancel(struct verbs_ep *ep, const void *context)
{
    for (uint32_t at = 0; verbs_chain_waits(ep->chain) && at < ep->chain->count; at++) {
        struct verbs_send send = ep->sends[place_of(ep, at)];

        if (send.silent || send.context != context)
            continue;
        take_out(ep, at);
        verbs_ep_report_refused(ep, &send, FI_ECANCELED);
        return 0;
    }
    return -FI_ENOENT;
}

void verbs_chain_flush_all(struct verbs_cq *cq)
{
    while (!list_empty(&cq->chained)) {
        struct verbs_chain *chain = list_item(cq->chained.next, struct verbs_chain, link);

        if (verbs_chain_flush(chain->ep) != -FI_EAGAIN)
            continue;
        list_detach(&chain->link); /* others first, next time */
        list_attach(&chain->link, &cq->chained);
        return;
    }
}
