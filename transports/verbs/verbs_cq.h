/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues of the device. They belong to a progress domain, not to an fi_cq, of which a
 * layer opens one for each connection: all endpoints of a progress domain report to the same ones.
 * Each endpoint claims as many entries as it may have operations under way, so that a queue never
 * overruns: it is resized, and where that does not go far enough a second one joins.
 *
 * An entry names its endpoint by a number, not by a pointer: that of a closed endpoint finds
 * nothing.
 */
#ifndef WEFT_VERBS_CQ_H
#define WEFT_VERBS_CQ_H

#include "core/base/ids.h"
#include "core/progress/progress.h"
#include "transports/verbs/verbs_domain.h"

struct verbs_ep;

enum {
    VERBS_CQ_BATCH = 64 /* entries that a poll takes at once, at most */
};

enum {
    VERBS_RECEIVES = 16 /* that one post takes */
};

/* Requests for receives of one buffer each: a chain, of which only the numbers and the buffers
 * differ from one post to the next. */
struct verbs_receives {
    struct ibv_recv_wr wrs[VERBS_RECEIVES];
    struct ibv_sge sges[VERBS_RECEIVES];
};

struct verbs_cq {
    struct list link; /* of the domain */
    struct verbs_domain *domain;
    struct progress *progress; /* held */
    struct progress_source source;
    struct ibv_cq *ibv;
    struct ibv_comp_channel *channel;
    struct ibv_td *td;    /* verbs_single.h; or NULL */
    struct ibv_pd *pd;    /* of queue pairs that report to it; NULL: the domain's */
    int vector;           /* of its interrupt, as asked; -1: not asked for */
    int batch;            /* entries that a poll takes at once */
    size_t size, claimed; /* entries: that there are, that endpoints may need */
    unsigned users;       /* endpoints */
    uint64_t last;        /* number of the endpoint that an entry was of, and the endpoint */
    struct verbs_ep *last_ep;
    bool armed;                     /* the channel will tell of the next entry, or has told */
    bool arm_due;                   /* it could not be armed */
    bool single;                    /* batch is 1 */
    bool has_chained;               /* requests wait in chained */
    bool event_due;                 /* entries were polled whose event was not taken */
    struct list chained;            /* struct verbs_chain that wait. Progress domain locked */
    struct ids eps;                 /* struct verbs_ep. Progress domain locked */
    struct verbs_receives receives; /* of endpoints without a lock: verbs_quick.c */
};

/* The queue for an endpoint of this progress domain that may have so many entries, with that vector
 * (-1: any); *number names the endpoint. No progress domain locked. A negative error; -FI_EINVAL:
 * the device has no such vector, too. */
int verbs_cq_join(struct verbs_domain *domain, struct progress *progress, struct verbs_ep *ep,
                  size_t entries, int vector, struct verbs_cq **cq, uint64_t *number);
/* Nothing is reported to that endpoint any more. Its queue pair is destroyed before. No progress
 * domain locked. */
void verbs_cq_leave(struct verbs_cq *cq, uint64_t number, size_t entries);
/* The poll of its source. */
void verbs_cq_poll(struct progress_source *source);
/* Ends the operations of entries that were polled. Progress domain locked. */
void verbs_cq_take(struct verbs_cq *cq, const struct ibv_wc *wcs, int count);
/* Takes the entries that there are. Progress domain locked. */
void verbs_cq_drain(struct verbs_cq *cq);
/* Entries that a queue has to have: what is claimed, within what the device can. Pure. SIZE_MAX:
 * it cannot. */
size_t verbs_cq_room(size_t size, size_t claimed, size_t more, size_t most);

/* wr_id of a receive of a shared context. */
static inline uint64_t verbs_shared_wr_id(uint32_t slot)
{
    return UINT64_C(1) << 63 | slot;
}

/* wr_id: the endpoint's number (of 31 bits), whether it is a receive, and which one. */
static inline uint64_t verbs_wr_id(uint64_t number, bool receive, uint32_t slot)
{
    return number << 32 | (uint64_t)receive << 31 | slot;
}

#endif
