/* SPDX-License-Identifier: BSD-2-Clause */
#include "pds_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    STORM = 30,
    QUOTE = 32, /* bytes of a packet that come back from a closed port */
};

struct node nodes[NODES];
struct sw sw;
uint64_t seed;
unsigned scale;
bool ordered, idempotent;
unsigned forgeries;

/* ---- The upper ---- */

void fill_body(uint8_t *body, unsigned from, uint32_t message, uint32_t packet)
{
    memset(body, (int)(from * 31 + message * 7 + packet), BODY);
    memcpy(body, &message, 4);
    memcpy(body + 4, &packet, 4);
}

static void up_transmit(void *arg, const union addr *to, const struct iovec *iov, size_t count,
                        bool control)
{
    const struct node *node = arg;

    if (!node->dead)
        switch_send(&sw, node->index, to, iov, count);
}

static bool up_fill(void *arg, struct pds_source *source, struct pds_packet *packet)
{
    struct message *message = list_item(source, struct message, source);
    const struct node *node = arg;
    uint32_t number = message->filled++;

    fill_body(message->bytes[number], node->index, message->number, number);
    packet->next = NEXT_STANDARD;
    packet->last = message->filled == message->packets;
    packet->iov[0] = (struct iovec){message->bytes[number], BODY};
    packet->iov_count = 1;
    packet->len = BODY;
    return !packet->last;
}

static void release(struct message *message)
{
    if (message->ended < message->filled ||
        (message->filled < message->packets && !message->gave_up))
        return;
    free(message->bytes);
    free(message);
}

static void up_done(void *arg, const struct pds_packet *packet, const struct pds_result *result)
{
    struct message *message = list_item(packet->source, struct message, source);
    struct node *node = arg;

    message->ended++;
    if (result->code == RC_OK)
        node->responses++;
    else
        node->failed++;
    release(message);
}

static void up_failed(void *arg, struct pds_source *source)
{
    struct message *message = list_item(source, struct message, source);
    struct node *node = arg;

    node->failed += message->packets - message->filled;
    message->gave_up = true;
    release(message);
}

static void up_closed(void *arg, struct pds_ref pdc, bool failed)
{
    ((struct node *)arg)->closed++;
}

static void note(struct inbox *inbox, uint32_t message, uint32_t packet)
{
    size_t at = (size_t)message * 64 + packet;

    if (at >= inbox->room) {
        size_t room = 2 * at + 4096;

        inbox->times = realloc(inbox->times, room);
        if (!inbox->times)
            abort();
        memset(inbox->times + inbox->room, 0, room - inbox->room);
        inbox->room = room;
    }
    inbox->count += !inbox->times[at] || !idempotent;
    inbox->twice += inbox->times[at] && !idempotent;
    inbox->times[at] = 1;
    if (ordered && (message < inbox->next_message ||
                    (message == inbox->next_message && packet < inbox->next_packet)))
        inbox->disordered++;
    inbox->next_message = message;
    inbox->next_packet = packet + 1;
}

static void answer_request(struct node *node, const struct pds_arrival *arrival,
                           struct pds_answer *answer)
{
    struct ses_response response = {.next = NEXT_RESPONSE, .opcode = SES_RESPONSE, .code = RC_OK};

    if (node->later && node->owed < 64) {
        answer->kind = ANSWER_LATER;
        node->tickets[node->owed++] = arrival->ticket;
    } else if (node->guaranteed && switch_random(&sw) % 256 < node->guaranteed) {
        answer->guaranteed = true;
        answer->next = NEXT_RESPONSE;
        answer->header_len = (uint8_t)ses_response_put(&response, answer->header);
    }
}

static void up_request(void *arg, const struct pds_arrival *arrival, struct pds_answer *answer)
{
    struct node *node = arg;
    unsigned from = ntohl(arrival->from.in.sin_addr.s_addr) - 0x0a000001;
    uint32_t message, packet;
    uint8_t expected[BODY];

    if (node->nacks) {
        node->nacks--;
        answer->kind = ANSWER_NACK;
        answer->nack = node->nack;
        return;
    }
    assert_int_equal(arrival->len, BODY);
    memcpy(&message, arrival->bytes, 4);
    memcpy(&packet, arrival->bytes + 4, 4);
    fill_body(expected, from, message, packet);
    node->from[from].wrong += memcmp(expected, arrival->bytes, BODY) != 0;
    note(&node->from[from], message, packet);
    answer_request(node, arrival, answer);
}

const struct pds_ops ops = {
    .transmit = up_transmit,
    .fill = up_fill,
    .done = up_done,
    .failed = up_failed,
    .request = up_request,
    .closed = up_closed,
};

/* ---- The world ---- */

static void deliver(void *arg, unsigned port, const union addr *from, const uint8_t *bytes,
                    size_t len)
{
    unsigned sender = ntohl(from->in.sin_addr.s_addr) - 0x0a000001;
    const union addr to = switch_addr(port);

    if ((nodes[port].shut || forgeries) && !nodes[sender].dead) {
        forgeries -= forgeries > 0;
        pds_unreachable(nodes[sender].pds, sw.now, &to, bytes, len < QUOTE ? len : QUOTE);
    }
    if (!nodes[port].dead)
        pds_receive(nodes[port].pds, sw.now, from, bytes, len, false);
}

void begin(const struct pds_settings *settings)
{
    const char *text = getenv("WEFT_SEED"), *packets = getenv("WEFT_UET_PACKETS");

    seed = text ? strtoull(text, NULL, 0) : seed + 1;
    scale = packets ? (unsigned)(strtoull(packets, NULL, 0) / 100000) + 1 : 1;
    ordered = idempotent = false;
    forgeries = 0;
    memset(nodes, 0, sizeof(nodes));
    switch_init(&sw, seed, NODES);
    sw.deliver = deliver;
    for (unsigned i = 0; i < NODES; i++) {
        nodes[i].index = i;
        nodes[i].pds =
            pds_create(settings ? settings : &pds_defaults, &ops, &nodes[i], switch_random(&sw));
        assert_non_null(nodes[i].pds);
    }
}

void end(void)
{
    for (unsigned i = 0; i < NODES; i++) {
        pds_destroy(nodes[i].pds);
        for (unsigned j = 0; j < NODES; j++)
            free(nodes[i].from[j].times);
    }
    switch_finish(&sw);
}

static void run_nodes(void)
{
    for (unsigned i = 0; i < NODES; i++)
        if (!nodes[i].dead && pds_deadline(nodes[i].pds) <= sw.now)
            pds_run(nodes[i].pds, sw.now);
}

static uint64_t next_event(void)
{
    uint64_t next = switch_next(&sw);

    for (unsigned i = 0; i < NODES; i++) {
        uint64_t due = nodes[i].dead ? UINT64_MAX : pds_deadline(nodes[i].pds);

        next = due < next ? due : next;
    }
    return next;
}

/* Until nothing happens any more, or `until`. */
void run(uint64_t until)
{
    while (sw.now < until) {
        uint64_t next = next_event();

        if (next == UINT64_MAX)
            return;
        if (next > until)
            next = until;
        switch_run(&sw, next > sw.now ? next : sw.now);
        run_nodes();
    }
}

void send_message(unsigned from, unsigned to, uint32_t number, uint32_t packets)
{
    struct message *message = calloc(1, sizeof(*message));
    struct pds_key key = {.to = switch_addr(to),
                          .mode = idempotent ? PDS_MODE_RUDI
                                  : ordered  ? PDS_MODE_ROD
                                             : PDS_MODE_RUD};

    assert_non_null(message);
    message->bytes = calloc(packets, BODY);
    assert_non_null(message->bytes);
    message->to = to;
    message->number = number;
    message->packets = packets;
    pds_submit(nodes[from].pds, &message->source, &key);
}

void check_inbox(unsigned at, unsigned from, uint64_t count)
{
    const struct inbox *inbox = &nodes[at].from[from];

    if (inbox->count != count || inbox->wrong || inbox->twice || inbox->disordered)
        print_error("seed %llu: %u from %u: %llu packets of %llu, %llu twice, %llu wrong, %llu out "
                    "of order\n",
                    (unsigned long long)seed, at, from, (unsigned long long)inbox->count,
                    (unsigned long long)count, (unsigned long long)inbox->twice,
                    (unsigned long long)inbox->wrong, (unsigned long long)inbox->disordered);
    assert_int_equal(inbox->count, count);
    assert_int_equal(inbox->wrong, 0);
    assert_int_equal(inbox->twice, 0);
    assert_int_equal(inbox->disordered, 0);
}

/* ---- Traffic ---- */

struct pds_settings patient(void)
{
    struct pds_settings settings = pds_defaults;

    settings.rto_count = 15;
    settings.nack_count = PDS_RETRY_FOREVER;
    return settings;
}

/* All to all; checks that everything came once and that everybody knows. */
void all_to_all(uint32_t messages)
{
    for (uint32_t m = 0; m < messages; m++)
        for (unsigned i = 0; i < NODES; i++)
            for (unsigned j = 0; j < NODES; j++)
                if (i != j)
                    send_message(i, j, m, 1 + m % PER_MESSAGE);
    run(sw.now + 600 * SECOND);
    for (unsigned i = 0; i < NODES; i++) {
        uint64_t sent = 0;

        for (uint32_t m = 0; m < messages; m++)
            sent += 1 + m % PER_MESSAGE;
        for (unsigned j = 0; j < NODES; j++)
            if (i != j)
                check_inbox(i, j, sent);
        assert_int_equal(nodes[i].responses, (NODES - 1) * sent);
        assert_int_equal(nodes[i].failed, 0);
        /* A loss or a refusal does not have all that is under way sent again and again. */
        assert_true(pds_counters(nodes[i].pds)->resent < STORM * nodes[i].responses);
    }
}

void bad_path(void)
{
    sw.loss = 100;
    sw.dup = 50;
    sw.reorder = 100;
    sw.jitter = 20000;
    sw.late = 300000;
}

/* ---- Losses ---- */

unsigned dropped;
static unsigned drop_type, drop_next, drops;

static bool drop_some(struct sw *network, struct sw_packet *packet)
{
    struct pds_header header;

    if (pds_header_get(packet->bytes, packet->len, false, &header) < 0)
        return true;
    if (drops && header.type == drop_type &&
        (header.type != PDS_CONTROL || header.next == drop_next)) {
        drops--;
        dropped++;
        return false;
    }
    return true;
}

void losing(unsigned type, unsigned next, unsigned count)
{
    drop_type = type;
    drop_next = next;
    drops = count;
    dropped = 0;
    sw.filter = drop_some;
}
