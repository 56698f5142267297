/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ledger of a case's posts and completions, while calls of the library fail on purpose
 * (conformance --fail, --sweep). The posts and reads of cases go through here by macros of the same
 * names; without ledger_on they only pass. Once a call has failed, the case ends with the first
 * error that it is told of, or when nothing comes for a while; then all that was accepted must end.
 */
#ifndef WEFT_CONF_LEDGER_H
#define WEFT_CONF_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/fi_trigger.h>

extern bool ledger_on;

/* Around a post, in one thread: before it, since it may complete inside, and with what it answers,
 * which is handed on. flags: of a message form. */
void ledger_post(struct fid_ep *ep, bool receives, void *context, bool has_flags, uint64_t flags);
ssize_t ledger_posted(ssize_t rc);
/* Before one that has no context, and no completion but in error. */
void ledger_inject(struct fid_ep *ep);
/* Deferred work is not held to end, since it may be taken back; what it completes with is known. */
int ledger_control(struct fid *fid, int command, void *argument);
/* An object was opened, bound, closed; each hands rc on. */
int ledger_opened(struct fid_cq *const *cq, const struct fi_cq_attr *attr, int rc);
int ledger_bound(struct fid_ep *ep, struct fid *other, uint64_t flags, int rc);
int ledger_aliased(struct fid_ep *ep, struct fid_ep *const *alias, uint64_t flags, int rc);
int ledger_close(struct fid *fid);
/* Called by all that a case may do again and again: it ends when it does so for too long. */
void ledger_tick(void);
/* No wait of a case takes as long as a hang. */
int ledger_timeout(int ms);

/* All that was accepted ends, once. NULL, or what is wrong. */
const char *ledger_settle(void);

/* The reads themselves: functions, because an argument may be a compound literal, which each
 * evaluation makes anew. */
ssize_t ledger_cq_read(struct fid_cq *cq, void *entries, size_t count);
ssize_t ledger_cq_readfrom(struct fid_cq *cq, void *entries, size_t count, fi_addr_t *src);
ssize_t ledger_cq_sread(struct fid_cq *cq, void *entries, size_t count, const void *cond, int ms);
ssize_t ledger_cq_readerr(struct fid_cq *cq, struct fi_cq_err_entry *entry, uint64_t flags);

/* Arguments are evaluated again with each attempt of conf_post anyway. */
#define LEDGER(ep, rx, context, call) (ledger_post(ep, rx, context, false, 0), ledger_posted(call))
#define LEDGER_MSG(ep, rx, msg, flags, call)                                                       \
    (ledger_post(ep, rx, (msg)->context, true, flags), ledger_posted(call))
#define LEDGER_INJECT(ep, call) (ledger_inject(ep), ledger_posted(call))

/* clang-format off */
#define fi_recv(e, b, l, d, s, c) LEDGER(e, true, c, (fi_recv)(e, b, l, d, s, c))
#define fi_recvv(e, v, d, n, s, c) LEDGER(e, true, c, (fi_recvv)(e, v, d, n, s, c))
#define fi_recvmsg(e, m, f) LEDGER_MSG(e, true, m, f, (fi_recvmsg)(e, m, f))
#define fi_trecv(e, b, l, d, s, t, i, c) LEDGER(e, true, c, (fi_trecv)(e, b, l, d, s, t, i, c))
#define fi_trecvv(e, v, d, n, s, t, i, c) LEDGER(e, true, c, (fi_trecvv)(e, v, d, n, s, t, i, c))
#define fi_trecvmsg(e, m, f) LEDGER_MSG(e, true, m, f, (fi_trecvmsg)(e, m, f))
#define fi_send(e, b, l, d, s, c) LEDGER(e, false, c, (fi_send)(e, b, l, d, s, c))
#define fi_sendv(e, v, d, n, s, c) LEDGER(e, false, c, (fi_sendv)(e, v, d, n, s, c))
#define fi_sendmsg(e, m, f) LEDGER_MSG(e, false, m, f, (fi_sendmsg)(e, m, f))
#define fi_senddata(e, b, l, d, x, s, c) LEDGER(e, false, c, (fi_senddata)(e, b, l, d, x, s, c))
#define fi_tsend(e, b, l, d, s, t, c) LEDGER(e, false, c, (fi_tsend)(e, b, l, d, s, t, c))
#define fi_tsendv(e, v, d, n, s, t, c) LEDGER(e, false, c, (fi_tsendv)(e, v, d, n, s, t, c))
#define fi_tsendmsg(e, m, f) LEDGER_MSG(e, false, m, f, (fi_tsendmsg)(e, m, f))
#define fi_tsenddata(e, b, l, d, x, s, t, c)                                                       \
    LEDGER(e, false, c, (fi_tsenddata)(e, b, l, d, x, s, t, c))
#define fi_read(e, b, l, d, s, a, k, c) LEDGER(e, false, c, (fi_read)(e, b, l, d, s, a, k, c))
#define fi_readv(e, v, d, n, s, a, k, c) LEDGER(e, false, c, (fi_readv)(e, v, d, n, s, a, k, c))
#define fi_readmsg(e, m, f) LEDGER_MSG(e, false, m, f, (fi_readmsg)(e, m, f))
#define fi_write(e, b, l, d, s, a, k, c) LEDGER(e, false, c, (fi_write)(e, b, l, d, s, a, k, c))
#define fi_writev(e, v, d, n, s, a, k, c) LEDGER(e, false, c, (fi_writev)(e, v, d, n, s, a, k, c))
#define fi_writemsg(e, m, f) LEDGER_MSG(e, false, m, f, (fi_writemsg)(e, m, f))
#define fi_writedata(e, b, l, d, x, s, a, k, c)                                                    \
    LEDGER(e, false, c, (fi_writedata)(e, b, l, d, x, s, a, k, c))
#define fi_atomic(e, b, n, d, t, a, k, y, o, c)                                                    \
    LEDGER(e, false, c, (fi_atomic)(e, b, n, d, t, a, k, y, o, c))
#define fi_atomicv(e, v, d, n, t, a, k, y, o, c)                                                   \
    LEDGER(e, false, c, (fi_atomicv)(e, v, d, n, t, a, k, y, o, c))
#define fi_atomicmsg(e, m, f) LEDGER_MSG(e, false, m, f, (fi_atomicmsg)(e, m, f))
#define fi_fetch_atomic(e, b, n, d, r, x, t, a, k, y, o, c)                                        \
    LEDGER(e, false, c, (fi_fetch_atomic)(e, b, n, d, r, x, t, a, k, y, o, c))
#define fi_fetch_atomicv(e, v, d, n, r, x, m, t, a, k, y, o, c)                                    \
    LEDGER(e, false, c, (fi_fetch_atomicv)(e, v, d, n, r, x, m, t, a, k, y, o, c))
#define fi_compare_atomic(e, b, n, d, q, z, r, x, t, a, k, y, o, c)                                \
    LEDGER(e, false, c, (fi_compare_atomic)(e, b, n, d, q, z, r, x, t, a, k, y, o, c))
#define fi_compare_atomicv(e, v, d, n, q, z, p, r, x, m, t, a, k, y, o, c)                         \
    LEDGER(e, false, c, (fi_compare_atomicv)(e, v, d, n, q, z, p, r, x, m, t, a, k, y, o, c))
/* A flag among the last is not looked for: where completion is selective they need not end. */
#define fi_fetch_atomicmsg(e, m, ...)                                                              \
    LEDGER(e, false, (m)->context, (fi_fetch_atomicmsg)(e, m, __VA_ARGS__))
#define fi_compare_atomicmsg(e, m, ...)                                                            \
    LEDGER(e, false, (m)->context, (fi_compare_atomicmsg)(e, m, __VA_ARGS__))

#define fi_inject(e, b, l, d) LEDGER_INJECT(e, (fi_inject)(e, b, l, d))
#define fi_injectdata(e, b, l, x, d) LEDGER_INJECT(e, (fi_injectdata)(e, b, l, x, d))
#define fi_tinject(e, b, l, d, t) LEDGER_INJECT(e, (fi_tinject)(e, b, l, d, t))
#define fi_tinjectdata(e, b, l, x, d, t) LEDGER_INJECT(e, (fi_tinjectdata)(e, b, l, x, d, t))
#define fi_inject_write(e, b, l, d, a, k) LEDGER_INJECT(e, (fi_inject_write)(e, b, l, d, a, k))
#define fi_inject_writedata(e, b, l, x, d, a, k)                                                   \
    LEDGER_INJECT(e, (fi_inject_writedata)(e, b, l, x, d, a, k))
#define fi_inject_atomic(e, b, n, d, a, k, y, o)                                                   \
    LEDGER_INJECT(e, (fi_inject_atomic)(e, b, n, d, a, k, y, o))

#define fi_barrier(e, g, c) LEDGER(e, false, c, (fi_barrier)(e, g, c))
#define fi_broadcast(e, b, n, d, g, r, y, f, c)                                                    \
    LEDGER(e, false, c, (fi_broadcast)(e, b, n, d, g, r, y, f, c))
#define fi_alltoall(e, b, n, d, r, x, g, y, f, c)                                                  \
    LEDGER(e, false, c, (fi_alltoall)(e, b, n, d, r, x, g, y, f, c))
#define fi_allreduce(e, b, n, d, r, x, g, y, o, f, c)                                              \
    LEDGER(e, false, c, (fi_allreduce)(e, b, n, d, r, x, g, y, o, f, c))
#define fi_allgather(e, b, n, d, r, x, g, y, f, c)                                                 \
    LEDGER(e, false, c, (fi_allgather)(e, b, n, d, r, x, g, y, f, c))
#define fi_reduce_scatter(e, b, n, d, r, x, g, y, o, f, c)                                         \
    LEDGER(e, false, c, (fi_reduce_scatter)(e, b, n, d, r, x, g, y, o, f, c))
#define fi_reduce(e, b, n, d, r, x, g, t, y, o, f, c)                                              \
    LEDGER(e, false, c, (fi_reduce)(e, b, n, d, r, x, g, t, y, o, f, c))
#define fi_scatter(e, b, n, d, r, x, g, t, y, f, c)                                                \
    LEDGER(e, false, c, (fi_scatter)(e, b, n, d, r, x, g, t, y, f, c))
#define fi_gather(e, b, n, d, r, x, g, t, y, f, c)                                                 \
    LEDGER(e, false, c, (fi_gather)(e, b, n, d, r, x, g, t, y, f, c))

#define fi_cq_open(d, a, cq, c) ledger_opened(cq, a, (fi_cq_open)(d, a, cq, c))
#define fi_ep_bind(e, o, f) ledger_bound(e, o, f, (fi_ep_bind)(e, o, f))
#define fi_ep_alias(e, a, f) ledger_aliased(e, a, f, (fi_ep_alias)(e, a, f))
#define fi_control(f, c, a) ledger_control(f, c, a)
#define fi_close(f) ledger_close(f)
#define fi_cq_read(q, b, n) ledger_cq_read(q, b, n)
#define fi_cq_readfrom(q, b, n, s) ledger_cq_readfrom(q, b, n, s)
#define fi_cq_sread(q, b, n, x, t) ledger_cq_sread(q, b, n, x, t)
#define fi_cq_readerr(q, e, f) ledger_cq_readerr(q, e, f)
#define fi_cntr_wait(q, v, t) (fi_cntr_wait)(q, v, ledger_timeout(t))
#define fi_cntr_read(q) (ledger_tick(), (fi_cntr_read)(q))
#define fi_wait(s, t) (ledger_tick(), (fi_wait)(s, ledger_timeout(t)))
#define fi_poll(s, c, n) (ledger_tick(), (fi_poll)(s, c, n))
/* clang-format on */

#endif
