/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RUDI: packets without a PDC and without an order, each sent until it is answered. The receiver
 * keeps nothing, and carries out what comes again: so only what is idempotent goes this way.
 */
#include <string.h>

#include "transports/uet/pds/pdc.h"

enum {
    BACKOFF_MAX = 20,
};

#define RTO_MAX UINT64_C(8000000000) /* ns */

void rudi_init(struct rudi *rudi, uint32_t first)
{
    rudi->first = rudi->next = first;
    list_init(&rudi->sources);
    list_init(&rudi->waiting);
}

static struct pds_packet **slot(struct rudi *rudi, uint32_t number)
{
    return &rudi->ring[number % RUDI_WINDOW];
}

/* The number that follows, of those that are this node's. */
static uint32_t after(const struct rudi *rudi, uint32_t number)
{
    return rudi->first | ((number + 1) & (RUDI_NUMBERS - 1));
}

/* ---- Out ---- */

static uint64_t timeout_of(const struct pds *pds, unsigned retries)
{
    unsigned times = retries < BACKOFF_MAX ? retries : BACKOFF_MAX;
    uint64_t rto = pds->settings.rto << times;

    return rto >> times == pds->settings.rto && rto < RTO_MAX ? rto : RTO_MAX;
}

/* The earliest first. */
static void wait_until(struct rudi *rudi, struct pds_packet *packet, uint64_t due)
{
    struct list *before = &rudi->waiting;

    packet->at = due;
    while (before->prev != &rudi->waiting &&
           list_item(before->prev, struct pds_packet, link)->at > due)
        before = before->prev;
    list_attach_before(&packet->link, before);
}

static void transmit(struct pds *pds, struct pds_packet *packet)
{
    struct pds_header header = {
        .type = PDS_RUDI,
        .next = packet->next,
        .flags = packet->again ? PDS_RETX : 0,
        .psn = (uint32_t)packet->number,
    };
    uint8_t bytes[PDS_HEADER_MAX + SES_HEADER_MAX];
    size_t size = pds_header_put(&header, pds->settings.short_rudi, bytes);
    struct iovec iov[PDS_IOV + 1];

    memcpy(bytes + size, packet->header, packet->header_len);
    iov[0] = (struct iovec){bytes, size + packet->header_len};
    memcpy(iov + 1, packet->iov, packet->iov_count * sizeof(*iov));
    wait_until(&pds->rudi, packet, pds->now + timeout_of(pds, packet->retries));
    pds->counters.sent++;
    pds->counters.resent += packet->again;
    pds->ops->transmit(pds->arg, &packet->source->key.to, iov, 1u + packet->iov_count, false);
}

static bool send_new(struct pds *pds)
{
    struct rudi *rudi = &pds->rudi;
    struct pds_source *source = list_item(rudi->sources.next, struct pds_source, link);
    struct pds_packet *packet = pool_get(&pds->packets);

    if (!packet)
        return false;
    memset(packet, 0, sizeof(*packet));
    packet->source = source;
    packet->number = rudi->next;
    packet->order = pds->now; /* sent first */
    *slot(rudi, rudi->next) = packet;
    rudi->next = after(rudi, rudi->next);
    rudi->count++;
    list_init(&packet->link);
    if (!pds->ops->fill(pds->arg, source, packet))
        list_detach(&source->link);
    transmit(pds, packet);
    return true;
}

static void end(struct pds *pds, struct pds_packet *packet, const struct pds_result *result)
{
    list_detach(&packet->link);
    *slot(&pds->rudi, (uint32_t)packet->number) = NULL;
    pds->rudi.count--;
    pds->ops->done(pds->arg, packet, result);
    pool_put(&pds->packets, packet);
}

static void give_up(struct pds *pds, struct pds_packet *packet)
{
    const struct pds_result result = {.code = RC_UNDELIVERABLE, .psn = (uint32_t)packet->number};

    end(pds, packet, &result);
}

static void time_out(struct pds *pds, struct pds_packet *packet)
{
    list_detach(&packet->link);
    if (packet->state == PACKET_FLIGHT)
        packet->retries++;
    if (packet->retries > pds->settings.rto_count ||
        pds->now - packet->order > pds->settings.patience) {
        give_up(pds, packet);
        return;
    }
    packet->state = PACKET_FLIGHT;
    packet->again = true;
    transmit(pds, packet);
}

void rudi_submit(struct pds *pds, struct pds_source *source)
{
    list_attach(&source->link, &pds->rudi.sources);
    pds_hasten(pds);
}

void pds_withdraw(struct pds_source *source)
{
    list_detach(&source->link);
}

void rudi_run(struct pds *pds)
{
    struct rudi *rudi = &pds->rudi;

    while (!list_empty(&rudi->waiting)) {
        struct pds_packet *packet = list_item(rudi->waiting.next, struct pds_packet, link);

        if (packet->at > pds->now)
            break;
        time_out(pds, packet);
    }
    while (!list_empty(&rudi->sources) && !*slot(rudi, rudi->next))
        if (!send_new(pds))
            return;
}

uint64_t rudi_deadline(const struct rudi *rudi)
{
    if (!list_empty(&rudi->sources) && !rudi->ring[rudi->next % RUDI_WINDOW])
        return 0;
    return list_empty(&rudi->waiting) ? UINT64_MAX
                                      : list_item(rudi->waiting.next, struct pds_packet, link)->at;
}

void rudi_fail_all(struct pds *pds)
{
    while (!list_empty(&pds->rudi.waiting))
        give_up(pds, list_item(pds->rudi.waiting.next, struct pds_packet, link));
    while (!list_empty(&pds->rudi.sources)) {
        struct pds_source *source = list_item(pds->rudi.sources.next, struct pds_source, link);

        list_detach(&source->link);
        pds->ops->failed(pds->arg, source);
    }
}

/* ---- In ---- */

/* The packet that an answer is of; NULL: none waits for it. */
static struct pds_packet *asked(struct pds *pds, const union addr *from,
                                const struct pds_header *header)
{
    struct pds_packet *packet = *slot(&pds->rudi, header->psn);

    if (packet && packet->number == header->psn &&
        addr_equal(&packet->source->key.to.sa, &from->sa))
        return packet;
    pds->counters.strangers++;
    return NULL;
}

void rudi_take_response(struct pds *pds, const union addr *from, const struct pds_header *header,
                        const uint8_t *body, size_t len)
{
    struct pds_packet *packet = asked(pds, from, header);
    const struct pds_result result = {
        .code = RC_OK,
        .next = header->next,
        .response = body,
        .len = len,
        .psn = header->psn,
    };

    pds->counters.acks_received++;
    if (packet)
        end(pds, packet, &result);
}

void rudi_take_nack(struct pds *pds, const union addr *from, const struct pds_header *header)
{
    struct pds_packet *packet = asked(pds, from, header);
    enum pds_reaction reaction = pds_reaction(header->nack_code);
    const struct pds_settings *settings = &pds->settings;

    pds->counters.nacks_received++;
    if (!packet || reaction == REACTION_NONE || reaction == REACTION_WAIT)
        return;
    if (packet->nacks < UINT8_MAX)
        packet->nacks++;
    if (reaction >= REACTION_REOPEN ||
        (settings->nack_count != PDS_RETRY_FOREVER && packet->nacks > settings->nack_count)) {
        give_up(pds, packet);
        return;
    }
    list_detach(&packet->link);
    packet->state = PACKET_HELD; /* the peer is there: no timeout is counted */
    wait_until(&pds->rudi, packet,
               reaction == REACTION_RESEND ? pds->now : pds->now + settings->nack_time);
}

/* To the sender of a request: its response, or why it has none. */
static void answer_request(struct pds *pds, const union addr *to, const struct pds_header *request,
                           const struct pds_answer *answer, bool marked)
{
    bool refused = answer->kind != ANSWER_NOW;
    struct pds_header header = {
        .type = refused ? PDS_NACK : PDS_RUDI_RESPONSE,
        .next = refused ? NEXT_NONE : answer->next,
        .flags = (uint8_t)((request->flags & PDS_RETX) | (marked ? PDS_MARKED : 0) |
                           (refused ? PDS_NT_RUDI : 0)),
        .nack_code = answer->kind == ANSWER_NACK ? answer->nack : NACK_IN_PROGRESS,
        .psn = request->psn,
    };
    uint8_t bytes[PDS_HEADER_MAX + SES_RESPONSE_MAX];
    size_t size = pds_header_put(&header, pds->settings.short_rudi, bytes);
    struct iovec iov[2] = {{bytes, size}, {(void *)(uintptr_t)answer->data, answer->len}};

    if (refused) {
        pds->counters.nacks_sent++;
    } else {
        memcpy(bytes + size, answer->header, answer->header_len);
        iov[0].iov_len += answer->header_len;
        pds->counters.acks_sent++;
    }
    pds->ops->transmit(pds->arg, to, iov, !refused && answer->len ? 2 : 1, true);
}

void rudi_take_request(struct pds *pds, const union addr *from, const struct pds_header *header,
                       const uint8_t *body, size_t len, bool marked)
{
    struct pds_answer answer = {.kind = ANSWER_NOW};
    const struct pds_arrival arrival = {
        .now = pds->now,
        .from = *from,
        .bytes = body,
        .len = len,
        .next = header->next,
        .idempotent = true,
        .key = {.to = *from, .mode = PDS_MODE_RUDI},
    };

    pds->counters.received++;
    pds->counters.duplicates += (header->flags & PDS_RETX) != 0;
    pds->ops->request(pds->arg, &arrival, &answer);
    if (answer.kind == ANSWER_NOW && answer.next == NEXT_NONE) {
        const struct ses_response response = {
            .next = NEXT_RESPONSE, .opcode = SES_DEFAULT_RESPONSE, .code = RC_OK};

        answer.next = NEXT_RESPONSE;
        answer.header_len = (uint8_t)ses_response_put(&response, answer.header);
    }
    answer_request(pds, from, header, &answer, marked);
}
