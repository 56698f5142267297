/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests for the device. A request with FI_MORE waits for one without, so that the device gets
 * them with one doorbell; they also go with the next poll, and when there are EFA_CHAIN of them:
 * FI_MORE is a hint.
 */
#include <errno.h>
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "transports/efa/efa.h"

/* ---- To the device ---- */

static void put_inline(struct efa_ep *ep, const struct efa_pieces *pieces)
{
    struct ibv_data_buf buffers[EFA_SEGMENTS];

    if (pieces->count == 1) {
        ibv_wr_set_inline_data(ep->ex, (void *)(uintptr_t)pieces->sges[0].addr,
                               pieces->sges[0].length);
        return;
    }
    for (size_t i = 0; i < pieces->count; i++)
        buffers[i] = (struct ibv_data_buf){.addr = (void *)(uintptr_t)pieces->sges[i].addr,
                                           .length = pieces->sges[i].length};
    ibv_wr_set_inline_data_list(ep->ex, pieces->count, buffers);
}

static void put(struct efa_ep *ep, const struct efa_request *request)
{
    ep->ex->wr_id = (uintptr_t)request->wr;
    ep->ex->wr_flags = IBV_SEND_SIGNALED;
    switch (request->opcode) {
    case IBV_WR_SEND: ibv_wr_send(ep->ex); break;
    case IBV_WR_SEND_WITH_IMM: ibv_wr_send_imm(ep->ex, request->data); break;
    case IBV_WR_RDMA_READ: ibv_wr_rdma_read(ep->ex, request->key, request->addr); break;
    case IBV_WR_RDMA_WRITE: ibv_wr_rdma_write(ep->ex, request->key, request->addr); break;
    default: ibv_wr_rdma_write_imm(ep->ex, request->key, request->addr, request->data); break;
    }
    if (request->pieces.is_inline)
        put_inline(ep, &request->pieces);
    else
        ibv_wr_set_sge_list(ep->ex, request->pieces.count, request->pieces.sges);
    ibv_wr_set_ud_addr(ep->ex, request->route.ah, request->route.qpn, request->route.qkey);
}

/* All or none: a positive errno. */
static int post(struct efa_ep *ep, const struct efa_request *requests, size_t count)
{
    ibv_wr_start(ep->ex);
    for (size_t i = 0; i < count; i++)
        put(ep, &requests[i]);
    return ibv_wr_complete(ep->ex);
}

/* ---- Those that wait ---- */

static struct efa_chain *chain_of(struct efa_ep *ep)
{
    if (!ep->chain)
        ep->chain = calloc(1, sizeof(*ep->chain) + EFA_CHAIN * ep->inline_max);
    if (ep->chain)
        ep->source.poll = efa_cq_poll_source;
    return ep->chain;
}

/* The caller's bytes are its own again when its call returns. */
static void keep_inline(struct efa_pieces *pieces, char *to)
{
    size_t len = 0;

    for (size_t i = 0; i < pieces->count; i++) {
        memcpy(to + len, (const char *)(uintptr_t)pieces->sges[i].addr, pieces->sges[i].length);
        len += pieces->sges[i].length;
    }
    pieces->sges[0] = (struct ibv_sge){.addr = (uintptr_t)to, .length = (uint32_t)len};
    pieces->count = len > 0;
}

static void keep(struct efa_ep *ep, struct efa_chain *chain, const struct efa_request *from,
                 size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct efa_request *request = &chain->requests[chain->count];

        *request = from[i];
        if (request->pieces.is_inline)
            keep_inline(&request->pieces, chain->bytes + chain->count * ep->inline_max);
        chain->count++;
    }
}

/* Takes the first `gone` out. */
static void shift(struct efa_ep *ep, struct efa_chain *chain, size_t gone)
{
    chain->count -= gone;
    for (size_t i = 0; i < chain->count && gone; i++) {
        char *bytes = chain->bytes + i * ep->inline_max;
        struct efa_request *request = &chain->requests[i];

        *request = chain->requests[i + gone];
        if (!request->pieces.is_inline || !request->pieces.count)
            continue;
        memmove(bytes, bytes + gone * ep->inline_max, request->pieces.sges[0].length);
        request->pieces.sges[0].addr = (uintptr_t)bytes;
    }
}

/* The device refuses the whole: each by itself, so that the bad one fails alone. Requests behind
 * one that it has no room for go on waiting. The upper may post when it hears of a refusal. */
static void post_each(struct efa_ep *ep, struct efa_chain *chain)
{
    struct efa_wr *refused[EFA_CHAIN];
    int errs[EFA_CHAIN];
    size_t at = 0, refusals = 0;

    while (at < chain->count) {
        int rc = post(ep, &chain->requests[at], 1);

        if (rc == ENOMEM)
            break;
        if (rc) {
            refused[refusals] = chain->requests[at].wr;
            errs[refusals++] = rc;
        }
        at++;
    }
    shift(ep, chain, at);
    for (size_t i = 0; i < refusals; i++)
        efa_cq_refused(ep, refused[i], errs[i]);
}

void efa_chain_flush(struct efa_ep *ep)
{
    struct efa_chain *chain = ep->chain;

    if (!efa_chain_waits(ep))
        return;
    if (chain->receive_count)
        efa_chain_flush_receives(ep);
    if (!chain->count)
        return;
    if (post(ep, chain->requests, chain->count))
        post_each(ep, chain);
    else
        chain->count = 0;
}

int efa_chain_post(struct efa_ep *ep, const struct efa_request *requests, size_t count, bool more)
{
    struct efa_chain *chain;
    int rc;

    if (__builtin_expect(!more && !ep->chain, 1))
        return post(ep, requests, count);
    chain = more || ep->chain->count ? chain_of(ep) : NULL;
    if (chain && chain->count + count > EFA_CHAIN)
        efa_chain_flush(ep);
    if (chain && chain->count + count > EFA_CHAIN)
        return ENOMEM;
    if (!chain || (!more && !chain->count))
        return post(ep, requests, count);
    keep(ep, chain, requests, count);
    if (more)
        return 0;
    rc = post(ep, chain->requests, chain->count);
    if (!rc) {
        chain->count = 0;
        return 0;
    }
    chain->count -= count; /* the caller hears of it; the others go on */
    post_each(ep, chain);
    return rc;
}

/* ---- Receives ---- */

/* The device takes those before a bad one. */
void efa_chain_flush_receives(struct efa_ep *ep)
{
    struct efa_chain *chain = ep->chain;
    struct ibv_recv_wr *bad = chain->receives;
    struct efa_wr *refused[EFA_CHAIN];
    int errs[EFA_CHAIN];
    size_t at = 0, refusals = 0;

    while (at < chain->receive_count) {
        int rc = ibv_post_recv(ep->qp, &chain->receives[at], &bad);

        if (!rc)
            break;
        refused[refusals] = (struct efa_wr *)(uintptr_t)bad->wr_id;
        errs[refusals++] = rc;
        at = (size_t)(bad - chain->receives) + 1;
    }
    chain->receive_count = 0;
    for (size_t i = 0; i < refusals; i++)
        efa_cq_refused(ep, refused[i], errs[i]);
}

int efa_chain_receive(struct efa_ep *ep, struct ibv_recv_wr *receive, bool more)
{
    struct efa_chain *chain = more || (ep->chain && ep->chain->receive_count) ? chain_of(ep) : NULL;
    struct ibv_recv_wr *bad, *to;
    size_t at;

    if (!chain)
        return ibv_post_recv(ep->qp, receive, &bad);
    at = chain->receive_count++;
    to = &chain->receives[at];
    *to = *receive;
    to->sg_list = chain->receive_sges[at];
    to->next = NULL;
    memcpy(to->sg_list, receive->sg_list, (size_t)receive->num_sge * sizeof(*to->sg_list));
    if (at)
        chain->receives[at - 1].next = to;
    if (!more || chain->receive_count == EFA_CHAIN)
        efa_chain_flush_receives(ep);
    return 0;
}
