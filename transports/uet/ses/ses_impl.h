/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef WEFT_UET_SES_SES_IMPL_H
#define WEFT_UET_SES_SES_IMPL_H

#include "core/base/ids.h"
#include "core/base/pool.h"
#include "transports/uet/ses/ses.h"

enum {
    SES_BUCKETS = 1024,
    SES_READ_BUCKETS = 256,
};

enum {
    SES_LEAST_MTU = 1024, /* the least legal payload: what it takes is one packet on each path */
};

struct ses {
    struct ses_settings settings;
    bool disabled; /* the generation takes nothing new */
    const struct ses_ops *ops;
    void *arg;
    struct pds *pds;
    struct ids messages; /* 16 bits; number 0 is never given */
    struct ids tokens;   /* of messages that their senders have; 0 is never given */
    struct list busy;    /* struct ses_op */
    size_t busy_count;
    struct list inbound[SES_BUCKETS];    /* messages of several packets, by sender and id */
    size_t tracked;                      /* there */
    struct list reads[SES_READ_BUCKETS]; /* struct ses_op: by the number of their packet */
    struct list replies;                 /* of ses_remote.c: data that goes back */
    struct list pulls; /* struct ses_inbound: reads that there was no number for */
    struct pool inbounds;
    size_t saved;
    struct ses_counters counters;
    uint8_t *scratch; /* a packet's payload of results */
};

static inline struct ses_initiator ses_initiator_of(const struct pds_arrival *arrival,
                                                    const struct ses_request *request)
{
    return (struct ses_initiator){&arrival->from, request->job, request->initiator,
                                  arrival->idempotent};
}

/* Bytes of payload that packets to and from a peer are cut at. */
static inline uint32_t ses_mtu(const struct ses *ses, const union addr *peer)
{
    return ses->ops->payload ? ses->ops->payload(ses->arg, peer) : ses->settings.mtu;
}

/* ---- ses_out.c ---- */

bool ses_fill(void *arg, struct pds_source *source, struct pds_packet *packet);
void ses_done(void *arg, const struct pds_packet *packet, const struct pds_result *result);
void ses_failed(void *arg, struct pds_source *source);
void ses_take_data(struct ses *ses, const struct pds_arrival *arrival, struct pds_answer *answer);
/* Reads whose data would have come over that PDC will not have it. */
void ses_out_closed(struct ses *ses, struct pds_ref pdc);
void ses_op_fail(struct ses *ses, struct ses_op *op, uint8_t code);
/* It ends, if nothing is missing. */
void ses_settle(struct ses *ses, struct ses_op *op);

/* ---- ses_in.c ---- */

void ses_request(void *arg, const struct pds_arrival *arrival, struct pds_answer *answer);
void ses_in_closed(struct ses *ses, struct pds_ref pdc, bool failed);
void ses_respond(struct ses *ses, const struct ses_request *request, uint8_t code, uint8_t list,
                 struct pds_answer *answer);
/* OK of a message without a receive, of which so many bytes are kept. */
void ses_respond_captured(struct ses *ses, const struct ses_request *request, uint32_t bytes,
                          struct pds_answer *answer);
/* The state of a message or access of which the request is a packet; made if it is the first. NULL
 * without memory. */
struct ses_inbound *ses_inbound_of(struct ses *ses, const struct pds_arrival *arrival,
                                   const struct ses_request *request);
void ses_inbound_put(struct ses *ses, struct ses_inbound *inbound);
/* Packets with its sender and id find it. */
void ses_inbound_track(struct ses *ses, struct ses_inbound *inbound);
/* None finds it any more; it is in no list. */
void ses_inbound_untrack(struct ses *ses, struct ses_inbound *inbound);

/* Ends a message that has its receive, or that is not wanted; answers where its sender waits. */
void ses_finish(struct ses *ses, struct ses_inbound *inbound, enum ses_code code);

/* ---- ses_defer.c: messages that are sent anew when there is a receive ---- */

static inline bool ses_is_deferrable(uint8_t opcode)
{
    return opcode == SES_DEFERRABLE_SEND || opcode == SES_DEFERRABLE_TSEND;
}

/* The tokens of a packet, of an operation that is deferrable. */
uint64_t ses_defer_tokens(const struct ses_op *op);
/* The target has no receive, and keeps nothing. */
void ses_defer(struct ses *ses, struct ses_op *op);
/* All packets have ended. True: the operation goes on. */
bool ses_defer_goes_on(struct ses *ses, struct ses_op *op);
/* A target has a receive (DEFERRABLE_RTR). */
void ses_take_ready(struct ses *ses, const struct pds_arrival *arrival,
                    const struct ses_request *request, struct pds_answer *answer);
/* The message that a packet is of that was asked for; NULL: there is none. */
struct ses_inbound *ses_restarted(struct ses *ses, const struct pds_arrival *arrival,
                                  const struct ses_request *request);
/* A packet of a message that is not kept. */
void ses_take_deferred(struct ses *ses, struct ses_inbound *inbound,
                       const struct ses_request *request, uint32_t offset, size_t len,
                       struct pds_answer *answer);
/* Such a message is to be sent anew: it has its receive, or is not wanted. */
void ses_ask(struct ses *ses, struct ses_inbound *inbound);
/* The wish has ended. */
void ses_asked(struct ses *ses, struct ses_op *op);

/* ---- ses_pull.c: rendezvous ---- */

/* The key by which the receiver of a rendezvous reads the operation's memory. */
uint64_t ses_pull_key(const struct ses_op *op);
/* The operation whose memory the request may read. NULL: it is of no rendezvous. */
struct ses_op *ses_pulled_op(struct ses *ses, const struct pds_arrival *arrival,
                             const struct ses_request *request);
/* Reads what a message that has its receive did not bring, and finishes it then. */
void ses_pull(struct ses *ses, struct ses_inbound *inbound);
/* A read of ses_pull's has ended. */
void ses_pulled(struct ses *ses, struct ses_op *op);
/* There may be a number again for those that wait. */
void ses_pull_waiting(struct ses *ses);
void ses_pull_finish(struct ses *ses);

/* ---- ses_remote.c: accesses of memory here ---- */

void ses_take_access(struct ses *ses, const struct pds_arrival *arrival,
                     const struct ses_request *request, const uint8_t *payload, size_t len,
                     struct pds_answer *answer);
/* The same of RUDI: nothing is kept, and what comes again is carried out again. */
void ses_take_idempotent(struct ses *ses, const struct pds_arrival *arrival,
                         const struct ses_request *request, const uint8_t *payload, size_t len,
                         struct pds_answer *answer);
/* Memory for the data that a request reads: the upper's, or that of a rendezvous of ours. */
enum ses_code ses_lend(struct ses *ses, const struct pds_arrival *arrival,
                       const struct ses_request *request, uint32_t offset, size_t len,
                       struct ses_lent *lent);
void ses_give_back(struct ses *ses, struct ses_lent *lent);
/* A source of ses_remote.c's has sent its packet, or will not. */
bool ses_is_reply(const struct pds_source *source);
void ses_fill_reply(struct pds_source *source, struct pds_packet *packet);
void ses_end_reply(struct ses *ses, struct pds_source *source);

/* With the acknowledgement of the request that has that PSN: len bytes of ses->scratch. */
void ses_answer_data(const struct ses *ses, uint32_t psn, const struct ses_request *request,
                     uint32_t offset, size_t len, struct pds_answer *answer);
/* Is there such an atomic? The upper may have fewer of them. */
enum ses_code ses_check_atomic(const struct ses *ses, const struct ses_request *request,
                               size_t len);

/* ---- ses_tagged.c: atomics whose target is the receive of a tag ---- */

void ses_take_tagged_atomic(struct ses *ses, const struct pds_arrival *arrival,
                            const struct ses_request *request, const uint8_t *operands, size_t len,
                            struct pds_answer *answer);
/* One that was kept has its receive, or is not wanted: perhaps before it was taken as a whole. */
void ses_start_tagged_atomic(struct ses *ses, struct ses_inbound *inbound);
void ses_discard_tagged_atomic(struct ses *ses, struct ses_inbound *inbound);

/* Copies to or from pieces of memory, from `at` on; what does not fit is left out. */
void ses_scatter(const struct iovec *iov, size_t count, size_t at, const uint8_t *bytes,
                 size_t len);
#endif
