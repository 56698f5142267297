/* SPDX-License-Identifier: BSD-2-Clause */
#include <rdma/fi_errno.h>

#include "layers/mrail/mrail_flow.h"

/* ---- Acknowledgements ---- */

static void acknowledged(struct flow *flow, uint64_t serial, uint64_t now)
{
    struct flow_message *message = flow->ring[serial % FLOW_WINDOW];
    struct flow_path *path;

    if (!message || message->serial != serial)
        return;
    flow->ring[serial % FLOW_WINDOW] = NULL;
    list_detach(&message->link);
    if (message->rail != FLOW_NO_RAIL) {
        path = &flow->paths[message->rail];
        path_measure(flow, path, message, now);
        path->inflight -= message->len;
        path_progress(path, now);
        path_overtaken(flow, message->rail, message, now);
    } else {
        flow->backlog -= message->len;
    }
    while (flow->acked != flow->next_out && !flow->ring[flow->acked % FLOW_WINDOW])
        flow->acked++;
    if (message->patient)
        list_attach(&message->link, &flow->ended);
    else
        flow->config->done(flow, message, 0);
}

/* Messages that `done` sends have later serials. */
static void take_acks(struct flow *flow, const struct mrail_head *head, uint64_t ack, uint64_t now)
{
    uint64_t end = flow->next_out;

    for (uint64_t serial = flow->acked; serial < ack; serial++)
        acknowledged(flow, serial, now);
    for (unsigned i = 0; i < head->words; i++) {
        uint64_t word = head->bits[i];

        for (; word; word &= word - 1) {
            uint64_t serial = ack + 1 + 64 * i + (unsigned)__builtin_ctzll(word);

            if (serial >= flow->acked && serial < end)
                acknowledged(flow, serial, now);
        }
    }
    if (!flow_waits(flow)) {
        flow->worked = flow_worked(flow, now);
        flow->busy_since = 0;
    }
}

/* NULL, or what is wrong with what a head says of our messages. */
static const char *check_acks(const struct flow *flow, const struct mrail_head *head, uint64_t ack,
                              uint64_t limit)
{
    if (ack > flow->next_out)
        return "an acknowledgement of what was never sent";
    for (unsigned i = 0; i < head->words; i++) {
        uint64_t first = ack + 1 + 64 * i;

        if (!head->bits[i])
            continue;
        if (first + 63 - (unsigned)__builtin_clzll(head->bits[i]) >= flow->next_out)
            return "an acknowledgement of what was never sent";
    }
    /* A peer's limit is at most a window beyond what it has; an old packet says less. */
    if (limit > flow->next_out + FLOW_WINDOW)
        return "room beyond the window";
    return NULL;
}

/* ---- Messages ---- */

/* Where both use one rail for small messages, neither looks at another for them. One of the two
 * ends takes that of the other, if it is as near. */
static void follow(struct flow *flow, unsigned rail, size_t len)
{
    const struct flow_config *config = flow->config;
    unsigned both = 1U << rail | 1U << flow->favourite;

    if (flow->follows && len <= config->small && flow_way_for(flow, len) == FLOW_SHORTEST &&
        (config->near & both) == both && flow->paths[rail].state == PATH_UP)
        flow->favourite = rail;
}

static const char *take_data(struct flow *flow, const struct mrail_head *head,
                             const uint8_t *payload, size_t len, uint64_t now)
{
    uint64_t serial = serial_expand(head->serial, flow->in.next);

    if (len > flow->config->packet)
        return "a message larger than a packet";
    if (serial >= flow->told && serial < flow->in.next + FLOW_WINDOW)
        return "a message beyond the room that was told";
    switch (serial_add(&flow->in, serial)) {
    case SERIAL_BEYOND: return "a sequence that jumps";
    case SERIAL_DUPLICATE: flow->ack_now = true; return NULL;
    default: break;
    }
    if (!flow->owed++)
        flow->owed_since = now;
    if (flow->ack_rail != flow->favourite)
        follow(flow, flow->ack_rail, len);
    flow->config->deliver(flow, payload, len, head->flags & MRAIL_OWN);
    return NULL;
}

void flow_hear(struct flow *flow, uint64_t now)
{
    uint64_t since = flow->heard > flow->busy_since ? flow->heard : flow->busy_since;

    flow->heard = now;
    if (!flow->busy_since || now < since + PATH_ABSENT)
        return;
    flow->absent_from = since + PATH_ABSENT;
    flow->absent_to = now;
}

const char *flow_receive(struct flow *flow, unsigned rail, const struct mrail_head *head,
                         const uint8_t *payload, size_t len, uint64_t now)
{
    uint64_t ack = serial_expand(head->ack, flow->acked);
    uint64_t limit = serial_expand(head->limit, flow->limit);
    const char *wrong = check_acks(flow, head, ack, limit);

    if (wrong)
        return wrong;
    flow_hear(flow, now);
    flow->ack_rail = rail;
    paths_heard(flow, rail, now);
    take_acks(flow, head, ack, now);
    if (limit > flow->limit)
        flow->limit = limit;
    switch (head->type) {
    case MRAIL_DATA: return take_data(flow, head, payload, len, now);
    case MRAIL_PROBE:
        flow->paths[rail].owes_answer = true;
        flow->paths[rail].answer = head->serial;
        return NULL;
    case MRAIL_ANSWER: path_answered(flow, rail, head->serial, now); return NULL;
    case MRAIL_BYE: flow_end(flow, FI_ECONNRESET); return NULL;
    default: return NULL;
    }
}
