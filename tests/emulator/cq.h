/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues and their channels. */
#ifndef WEFT_EMULATOR_CQ_H
#define WEFT_EMULATOR_CQ_H

#include <infiniband/efadv.h>
#include <infiniband/verbs.h>
#include <stdbool.h>

#include "event.h"
#include "object.h"

/* As newer releases of efadv.h have struct efadv_cq. */
struct efa_cq_fields {
    uint64_t comp_mask;
    int (*read_sgid)(struct efadv_cq *cq, union ibv_gid *sgid);
    bool (*is_unsolicited)(struct efadv_cq *cq);
};

struct completion {
    struct ibv_wc wc;
    const void *owner; /* the queue pair; it takes its completions along when it ends */
    uint32_t *room;    /* what polling this completion gives back: *room -= freed */
    uint32_t freed;
    bool unsolicited; /* data of a write that took no receive */
    bool has_gid;     /* of a sender that the device knows no address handle of */
    uint8_t gid[16];
};

struct channel {
    struct ibv_comp_channel channel;
    struct event_queue queue;
    struct object object;
};

enum cq_arm {
    CQ_DISARMED,
    CQ_ARMED_SOLICITED,
    CQ_ARMED,
};

struct cq {
    struct ibv_cq_ex ex; /* first: what the interface hands out, as struct ibv_cq too */
    struct completion *ring;
    uint32_t allocated, head, count;
    enum cq_arm armed;
    bool failed, ignores_overrun;
    unsigned users; /* queues that complete here */
    uint32_t events_got;
    struct list pending;     /* of cq_event that nothing has taken yet */
    pthread_mutex_t polling; /* from start_poll to end_poll */
    struct completion current;
    struct efa_cq_fields efa; /* of libefa */
    struct object object;
};

static inline struct cq *cq_of(struct ibv_cq *cq)
{
    return (struct cq *)(void *)cq;
}

/* Below: the lock is held. */

/* Reports a completion. `solicited`: of a message that asked for an event, or a failure. */
void cq_push(struct cq *cq, const struct completion *completion, bool solicited);

/* Takes the oldest completion; false if there is none. */
bool cq_take(struct cq *cq, struct completion *completion);

/* Removes the completions of an owner. */
void cq_purge(struct cq *cq, const void *owner);

void cq_use(struct ibv_cq *cq, int change);

#endif
