/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The queues and counters that an endpoint reports the ends of its operations to, selective
 * completion, and the progress domain that binding makes them share. Embedded in endpoints of parts
 * whose operations end there (tcp, loop). Source: fi_endpoint(3), fi_cq(3), fi_cntr(3).
 */
#ifndef WEFT_CORE_QUEUE_REPORT_H
#define WEFT_CORE_QUEUE_REPORT_H

#include "core/queue/cntr.h"
#include "core/queue/cq.h"

enum binding_kind {
    BIND_SEND,
    BIND_RECV,
    BIND_READ,
    BIND_WRITE,
    BIND_REMOTE_READ,
    BIND_REMOTE_WRITE,
    BIND_KINDS,
};

struct binding {
    struct cq *tx, *rx;
    bool tx_selective, rx_selective;
    struct cntr *cntr[BIND_KINDS];
    struct progress *progress; /* NULL until something is bound; holds a reference */
    struct domain *domain;
    struct list link; /* in domain->reports, while progress domain is set */
};

/* Binds a CQ (flags FI_TRANSMIT, FI_RECV, FI_SELECTIVE_COMPLETION) or counter (FI_SEND, FI_RECV,
 * FI_READ, FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE) that belongs to `domain`, as fi_ep_bind.
 * -FI_EINVAL for a foreign domain or fid, bad flags or a second one of the same direction. */
int binding_add(struct binding *binding, struct domain *domain, struct fid *fid, uint64_t flags);
/* fi_ep_bind adds these to an enabled endpoint, too: counters and shared transmit contexts; all
 * else is -FI_EOPBADSTATE then. binding_add takes such a counter, with no progress domain locked.
 */
bool binding_is_late(const struct fid *fid);
/* Joins a progress domain without binding a queue or counter. */
int binding_join(struct binding *binding, struct domain *domain, struct progress *progress);
/* Do completions and counts end here, rather than in queues and counters of an upper? */
bool binding_is_top(const struct binding *binding);
/* progress_drive_others, for a close that waits: without a pause after a search in vain, since a
 * waiter's turns are few on a busy machine. Under an upper a progress domain may have no lock,
 * since the upper's guards it, and its siblings have other uppers': those drive them. */
void binding_drive_others(const struct binding *binding);
/* Lets go of all of it; the report is then as at the start. */
void binding_finish(struct binding *binding);
/* A thread that drives `progress` drives every endpoint of the domain, later ones too: progress
 * domain has a counter that is bound to a memory region, which any of them may change. Progress
 * domains unlocked. -FI_ENOMEM. */
int binding_share(struct domain *domain, struct progress *progress);

/* Does an operation posted with op_flags (defaults already merged) want a completion? */
static inline bool completion_wanted(bool selective, uint64_t op_flags)
{
    return !selective || (op_flags & FI_COMPLETION);
}

/* Where an operation ends that its completion reports as `kind` (struct op): FI_READ, FI_WRITE,
 * with FI_RMA or FI_ATOMIC; FI_COLLECTIVE, which counts as a write; FI_RECV; else a send. */
static inline enum binding_kind binding_kind_of(uint64_t kind)
{
    if (kind & FI_READ)
        return BIND_READ;
    if (kind & (FI_WRITE | FI_COLLECTIVE))
        return BIND_WRITE;
    return kind & FI_RECV ? BIND_RECV : BIND_SEND;
}

/*
 * The flags that apply to an inject, of the endpoint's defaults: its target's answer is asked for
 * if a counter counts its end, since no other reader could see that. An injected write or atomic
 * that is counted is always asked for: no function that injects one has flags to ask with.
 */
static inline uint64_t binding_inject_flags(const struct binding *binding, enum binding_kind kind,
                                            uint64_t defaults)
{
    uint64_t asked = defaults & (FI_DELIVERY_COMPLETE | FI_COMMIT_COMPLETE);

    if (!binding->cntr[kind])
        return 0;
    return kind == BIND_WRITE && !asked ? FI_DELIVERY_COMPLETE : asked;
}

/* Where operations of that kind complete; NULL when nothing is bound there. */
static inline struct cq *binding_cq(const struct binding *binding, enum binding_kind kind)
{
    return kind == BIND_SEND || kind == BIND_READ || kind == BIND_WRITE ? binding->tx : binding->rx;
}

/* Success: counter of `kind`, and a completion to tx (SEND, READ, WRITE) or rx when `wanted`. */
static inline void complete(struct binding *binding, enum binding_kind kind, bool wanted,
                            void *context, uint64_t flags, size_t len, void *buf, uint64_t data,
                            uint64_t tag, fi_addr_t src)
{
    struct cq *cq = binding_cq(binding, kind);

    if (wanted && cq)
        cq_write(cq, context, flags, len, buf, data, tag, src);
    if (binding->cntr[kind])
        cntr_add_one(binding->cntr[kind]);
}

/* Error: error counter and an error entry, wanted or not. err is a positive FI_E code. */
void complete_error(struct binding *binding, enum binding_kind kind,
                    const struct fi_cq_err_entry *entry);

#endif
