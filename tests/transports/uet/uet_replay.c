/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * uet_replay FILE [HOST:PORT]: gives what peers sent to an endpoint, as the tap captured it, to a
 * fresh PDS and SES, in virtual time, and compares each answer: that a request was acknowledged,
 * its response, the code of its refusal, and the data of reads. The endpoint is the one at
 * HOST:PORT, else that to which the first request went.
 *
 * The application's part is played by the capture: a message has its receive, or an access is
 * granted, where the endpoint answered so. PDC ids of the endpoint are others now: packets to it
 * name those that it answers with. Left out are packets of PDCs that the endpoint opened itself,
 * and answers of operations for which it opens some (rendezvous, deferrable sends).
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "transports/uet/ses/ses.h"

enum {
    SHOWN = 10, /* differences */
    MTU = 8192,
};

#define SECOND UINT64_C(1000000000)

/* A PDC of a peer's, by its address and id; what is known of it on one side. */
struct context {
    union addr peer;
    uint16_t id, own; /* own: the endpoint's */
    uint32_t cack;
    bool acked;
};

/* A request of a peer's, or an answer to one. */
struct event {
    union addr peer;
    uint16_t pdc; /* the peer's id */
    uint32_t psn;
    size_t at; /* number of the packet in the file */
    uint8_t nack, next, opcode, list, code;
    uint16_t message_id;
    bool whole, starts;          /* of a request */
    uint32_t job, modified, len; /* job: of data its place */
};

struct events {
    struct event *list;
    size_t count, room;
};

struct side {
    struct events answers, data; /* data: of reads, as requests of the return direction */
    struct context *contexts;
    size_t context_count;
};

static struct capture capture;
static struct events requests;
static struct side captured, replayed;
static union addr self;
static struct ses *ses;
static size_t current; /* packet that is given to the endpoint */
static size_t opened_by_us, unanswered, differences;
static bool own_ids[65536]; /* PDCs that the endpoint opened in the capture */
static uint8_t memory[MTU];

/* ---- Lists ---- */

static struct event *add(struct events *events)
{
    if (events->count == events->room) {
        events->room = events->room ? 2 * events->room : 1024;
        events->list = realloc(events->list, events->room * sizeof(*events->list));
        if (!events->list)
            abort();
    }
    memset(&events->list[events->count], 0, sizeof(*events->list));
    return &events->list[events->count++];
}

static struct context *context_of(struct side *side, const union addr *peer, uint16_t id)
{
    for (size_t i = side->context_count; i-- > 0;)
        if (side->contexts[i].id == id && addr_equal(&side->contexts[i].peer.sa, &peer->sa))
            return &side->contexts[i];
    side->contexts = realloc(side->contexts, (side->context_count + 1) * sizeof(struct context));
    if (!side->contexts)
        abort();
    side->contexts[side->context_count] = (struct context){.peer = *peer, .id = id};
    return &side->contexts[side->context_count++];
}

static int by_key(const void *left, const void *right)
{
    const struct event *a = left, *b = right;

    if (a->pdc != b->pdc)
        return a->pdc < b->pdc ? -1 : 1;
    if (a->psn != b->psn)
        return a->psn < b->psn ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at;
}

/* The first of the events of a packet, or NULL; they are sorted, and follow. */
static const struct event *first_of(const struct events *events, const struct event *key)
{
    size_t low = 0, high = events->count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct event *event = &events->list[middle];

        if (event->pdc < key->pdc || (event->pdc == key->pdc && event->psn < key->psn))
            low = middle + 1;
        else
            high = middle;
    }
    return low < events->count ? &events->list[low] : NULL;
}

static bool is_of(const struct events *events, const struct event *event, const struct event *key)
{
    return event < events->list + events->count && event->pdc == key->pdc && event->psn == key->psn;
}

/* ---- What packets say ---- */

static void note_ack(struct side *side, const union addr *peer, const struct pds_header *header,
                     const uint8_t *rest, size_t len, size_t at)
{
    struct context *context = context_of(side, peer, header->dpdcid);
    struct ses_response response;
    struct event *event;
    int size = ses_response_get(header->next, rest, len, &response);

    context->own = header->spdcid;
    if (!context->acked || (int32_t)(header->psn - context->cack) > 0)
        context->cack = header->psn;
    context->acked = true;
    if (header->flags & PDS_IS_PROBE || size < 0)
        return;
    event = add(&side->answers);
    event->peer = *peer;
    event->pdc = header->dpdcid;
    event->psn = header->psn + (uint32_t)header->offset;
    event->at = at;
    event->next = header->next;
    event->opcode = response.opcode;
    event->list = response.list;
    event->code = response.code;
    event->message_id = response.message_id;
    event->job = response.job;
    event->modified = response.modified_length;
    event->len = (uint32_t)(len - (size_t)size);
}

static void note_nack(struct side *side, const union addr *peer, const struct pds_header *header,
                      size_t at)
{
    struct event *event = add(&side->answers);

    event->peer = *peer;
    event->pdc = header->dpdcid;
    event->psn = header->psn;
    event->at = at;
    event->nack = header->nack_code;
}

/* Data of a read. */
static void note_data(struct side *side, const union addr *peer, const struct pds_header *header,
                      const uint8_t *rest, size_t len, size_t at)
{
    struct ses_response response;
    struct event *event;

    if (ses_response_get(header->next, rest, len, &response) < 0)
        return;
    event = add(&side->data);
    event->peer = *peer;
    event->pdc = header->dpdcid;
    event->psn = header->psn;
    event->at = at;
    event->message_id = response.read_message_id;
    event->job = response.message_offset;
    event->code = response.code;
    event->modified = response.modified_length;
    event->len = response.payload_length;
}

/* A packet of the endpoint's. */
static void note_sent(struct side *side, const union addr *peer, const uint8_t *bytes, size_t len,
                      size_t at)
{
    struct pds_header header;
    int size = pds_header_get(bytes, len, false, &header);

    if (size < 0)
        return;
    if (pds_is_ack(header.type))
        note_ack(side, peer, &header, bytes + size, len - (size_t)size, at);
    else if (header.type == PDS_NACK)
        note_nack(side, peer, &header, at);
    else if (pds_is_request(header.type) && pds_is_returned(header.next))
        note_data(side, peer, &header, bytes + size, len - (size_t)size, at);
    else if (pds_is_request(header.type) && header.flags & PDS_SYN && side == &captured)
        own_ids[header.spdcid] = true;
}

/* A packet of a peer's. */
static void note_request(const struct captured *packet, size_t at)
{
    struct pds_header header;
    struct ses_request request;
    struct event *event;
    int size = pds_header_get(packet->bytes, packet->len, false, &header);

    if (size < 0 || !pds_is_request(header.type) || pds_is_returned(header.next) ||
        ses_request_get(header.next, packet->bytes + size, packet->len - (size_t)size, &request) <
            0)
        return;
    event = add(&requests);
    event->peer = packet->from;
    event->pdc = header.spdcid;
    event->psn = header.psn;
    event->at = at;
    event->opcode = request.opcode;
    event->message_id = request.message_id;
    event->job = request.job;
    event->starts = request.flags & SES_SOM;
    event->whole = event->starts && request.flags & SES_EOM;
    event->code = header.next;
}

/* ---- The application, as the capture has it ----
 *
 * Requests are still in the order of the file, and the answers of the capture sorted. */

static const struct event *request_now(void)
{
    size_t low = 0, high = requests.count;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (requests.list[middle].at < current)
            low = middle + 1;
        else
            high = middle;
    }
    return low < requests.count && requests.list[low].at == current ? &requests.list[low] : NULL;
}

/* The answer of the endpoint to the packet that comes now. */
static const struct event *answer_now(void)
{
    const struct event *request = request_now();
    const struct event *answer = request ? first_of(&captured.answers, request) : NULL;

    for (; answer && is_of(&captured.answers, answer, request); answer++)
        if (answer->at > current && addr_equal(&answer->peer.sa, &request->peer.sa))
            return answer;
    return NULL;
}

/* Was the message that begins with this packet one without a receive? Its last packet's answer says
 * so, which stands before the next message of its number. */
static bool was_kept(const struct event *request)
{
    size_t limit = SIZE_MAX;

    for (size_t i = 0; !request->whole && i < requests.count; i++) {
        const struct event *later = &requests.list[i];

        if (later->at > current + 1 && later->starts && later->at < limit &&
            later->message_id == request->message_id && later->psn != request->psn &&
            addr_equal(&later->peer.sa, &request->peer.sa))
            limit = later->at;
    }
    for (size_t i = 0; i < captured.answers.count; i++) {
        const struct event *answer = &captured.answers.list[i];

        if (answer->at > current && answer->at < limit && !answer->nack &&
            answer->list == SES_OVERFLOW && answer->pdc == request->pdc &&
            (request->whole ? answer->psn == request->psn
                            : answer->message_id == request->message_id) &&
            addr_equal(&answer->peer.sa, &request->peer.sa))
            return true;
    }
    return false;
}

static enum ses_match up_message(void *arg, struct ses_inbound *inbound)
{
    const struct event *request = request_now(), *answer = answer_now();

    if (answer && answer->nack == NACK_NO_MESSAGE)
        return SES_NO_ROOM;
    if (request && was_kept(request) && ses_keep(ses, inbound))
        return SES_UNMATCHED;
    inbound->iov_count = 0; /* its bytes go nowhere */
    return SES_MATCHED;
}

static void up_received(void *arg, struct ses_inbound *inbound, enum ses_code code)
{
}

static void up_ended(void *arg, struct ses_op *op, enum ses_code code)
{
}

static enum ses_code verdict(void)
{
    const struct event *answer = answer_now();

    return answer && !answer->nack && answer->code != RC_NULL ? (enum ses_code)answer->code : RC_OK;
}

static bool up_admits(void *arg, uint32_t job)
{
    return verdict() != RC_BAD_JOB_ID;
}

static enum ses_code up_write(void *arg, const struct ses_initiator *who, uint64_t key,
                              uint64_t offset, const uint8_t *bytes, size_t len)
{
    return verdict();
}

static enum ses_code up_read(void *arg, const struct ses_initiator *who, uint64_t key,
                             uint64_t offset, size_t len, struct ses_lent *lent)
{
    lent->iov[0] = (struct iovec){memory, len};
    lent->count = 1;
    return len > sizeof(memory) ? RC_BAD_ADDR : verdict();
}

static void up_give_back(void *arg, struct ses_lent *lent)
{
}

static enum ses_code up_atomic(void *arg, const struct ses_initiator *who,
                               const struct ses_request *request, const uint8_t *operands,
                               size_t len, uint8_t *result, size_t *result_len)
{
    const struct event *answer = answer_now();

    *result_len = answer && answer->len <= MTU ? answer->len : 0;
    memset(result, 0, *result_len);
    return verdict();
}

static void up_accessed(void *arg, const struct ses_access *access)
{
}

static void up_transmit(void *arg, const union addr *to, const struct iovec *iov, size_t count,
                        bool control)
{
    static uint8_t bytes[1 << 16];
    size_t len = 0;

    for (size_t i = 0; i < count; i++) {
        memcpy(bytes + len, iov[i].iov_base, iov[i].iov_len);
        len += iov[i].iov_len;
    }
    note_sent(&replayed, to, bytes, len, current);
}

static const struct ses_ops ops = {
    .transmit = up_transmit,
    .ended = up_ended,
    .message = up_message,
    .received = up_received,
    .admits = up_admits,
    .write = up_write,
    .read = up_read,
    .give_back = up_give_back,
    .atomic = up_atomic,
    .accessed = up_accessed,
};

/* ---- Replay ---- */

/* Runs the timers that are due until now, each at its time. */
static void run_until(uint64_t now)
{
    static uint64_t at;

    for (int idle = 0; idle < 2 && ses_deadline(ses) <= now;) {
        uint64_t due = ses_deadline(ses);

        at = due > at ? due : at;
        ses_run(ses, at);
        idle = ses_deadline(ses) <= at ? idle + 1 : 0; /* what is left waits for a packet */
    }
    at = now > at ? now : at;
    ses_run(ses, at);
}

/* The endpoint answered a rendezvous after reads on a PDC of its own, which are left out. Here it
 * ends with the bytes that it brings: an ordered PDC acknowledges nothing behind an answer that is
 * missing. */
static void leave_out_reads(const struct captured *packet, uint8_t next, size_t size)
{
    uint8_t *bytes = packet->bytes + size;
    struct ses_request request;

    if (next != NEXT_STANDARD || ses_request_get(next, bytes, packet->len - size, &request) < 0 ||
        !ses_is_rendezvous(request.opcode))
        return;
    request.length = request.rendezvous.eager_length;
    ses_request_put(&request, bytes);
}

static void give(const struct captured *packet)
{
    struct pds_header header;
    int size = pds_header_get(packet->bytes, packet->len, false, &header);
    const struct context *context;

    if (size >= 0 && header.type != PDS_UUD &&
        !(header.flags & PDS_SYN && !pds_is_ack(header.type))) {
        context = context_of(&replayed, &packet->from, header.spdcid);
        if (!context->acked && own_ids[header.dpdcid]) {
            opened_by_us++;
            return;
        }
        if (context->acked) {
            packet->bytes[10] = (uint8_t)(context->own >> 8);
            packet->bytes[11] = (uint8_t)context->own;
        }
    }
    if (size >= 0 && pds_is_request(header.type))
        leave_out_reads(packet, header.next, (size_t)size);
    ses_receive(ses, packet->ns, &packet->from, packet->bytes, packet->len, false);
    run_until(packet->ns);
}

static void replay(void)
{
    for (current = 0; current < capture.count; current++)
        if (addr_equal(&capture.packets[current].to.sa, &self.sa)) {
            run_until(capture.packets[current].ns);
            give(&capture.packets[current]);
        }
    if (capture.count)
        run_until(capture.packets[capture.count - 1].ns + SECOND);
}

/* ---- Comparison ---- */

static bool acknowledged(struct side *side, const struct event *request)
{
    const struct context *context = context_of(side, &request->peer, request->pdc);

    if (context->acked && (int32_t)(request->psn - context->cack) <= 0)
        return true;
    for (const struct event *answer = first_of(&side->answers, request);
         answer && is_of(&side->answers, answer, request); answer++)
        if (!answer->nack && addr_equal(&answer->peer.sa, &request->peer.sa))
            return true;
    return false;
}

/* The response of a packet: the last that is none of a repetition; NULL: there is none but OK. */
static const struct event *response_of(const struct events *events, const struct event *request,
                                       uint8_t *nack)
{
    const struct event *answer = first_of(events, request), *found = NULL;

    *nack = 0;
    for (; answer && is_of(events, answer, request); answer++) {
        if (!addr_equal(&answer->peer.sa, &request->peer.sa))
            continue;
        if (answer->nack && !*nack)
            *nack = answer->nack;
        if (!answer->nack && (answer->code > RC_OK || answer->list != SES_EXPECTED || answer->len))
            found = answer;
    }
    return found;
}

static void differ(const struct event *request, const char *what, unsigned before, unsigned now)
{
    char text[ADDR_TEXT_MAX];

    if (differences++ < SHOWN)
        printf("packet %zu of %s, PDC %u, PSN %#x: %s was %u, is %u\n", request->at + 1,
               addr_text(&request->peer.sa, text, sizeof(text)), request->pdc, request->psn, what,
               before, now);
}

static void compare_field(const struct event *request, const char *what, unsigned before,
                          unsigned now)
{
    if (before != now)
        differ(request, what, before, now);
}

static void compare_request(const struct event *request)
{
    uint8_t nacks[2];
    const struct event *before = response_of(&captured.answers, request, &nacks[0]);
    const struct event *now = response_of(&replayed.answers, request, &nacks[1]);

    /* The capture ends, or the endpoint was closed, before its answer. */
    if (!before && !nacks[0] && !acknowledged(&captured, request)) {
        unanswered++;
        return;
    }
    compare_field(request, "a response", before != NULL, now != NULL);
    compare_field(request, "its refusal", nacks[0], nacks[1]);
    if (before && now) {
        compare_field(request, "the code", before->code, now->code);
        compare_field(request, "the list", before->list, now->list);
        compare_field(request, "the opcode of the response", before->opcode, now->opcode);
        compare_field(request, "the message", before->message_id, now->message_id);
        compare_field(request, "the job", before->job, now->job);
        compare_field(request, "the modified length", before->modified, now->modified);
        compare_field(request, "the header", before->next, now->next);
        compare_field(request, "the data's length", before->len, now->len);
    }
    if (!before && !nacks[0])
        compare_field(request, "acknowledged", 1, acknowledged(&replayed, request));
}

static void compare_data(void)
{
    for (size_t i = 0; i < captured.data.count; i++) {
        const struct event *before = &captured.data.list[i];
        const struct event *now = first_of(&replayed.data, before);

        if (!now || !is_of(&replayed.data, now, before)) {
            differ(before, "data of a read", 1, 0);
            continue;
        }
        compare_field(before, "the data's read", before->message_id, now->message_id);
        compare_field(before, "the data's place", before->job, now->job);
        compare_field(before, "the data's code", before->code, now->code);
        compare_field(before, "the data's length", before->len, now->len);
        compare_field(before, "the data's modified length", before->modified, now->modified);
    }
}

static bool opens_more(uint8_t opcode)
{
    return ses_is_rendezvous(opcode) || opcode == SES_DEFERRABLE_SEND ||
           opcode == SES_DEFERRABLE_TSEND || opcode == SES_DEFERRABLE_RTR;
}

/* Each packet once, however often it came. */
static size_t compare(void)
{
    size_t compared = 0;

    for (size_t i = 0; i < requests.count; i++) {
        const struct event *request = &requests.list[i];

        if (opens_more(request->opcode) || (i && requests.list[i - 1].pdc == request->pdc &&
                                            requests.list[i - 1].psn == request->psn))
            continue;
        compare_request(request);
        compared++;
    }
    compare_data();
    return compared;
}

/* ---- The command ---- */

static void read_capture(const char *endpoint)
{
    for (size_t i = 0; i < capture.count; i++) {
        const struct captured *packet = &capture.packets[i];
        struct pds_header header;

        if (!self.sa.sa_family && !endpoint &&
            pds_header_get(packet->bytes, packet->len, false, &header) > 0 &&
            pds_is_request(header.type))
            self = packet->to;
        if (addr_equal(&packet->to.sa, &self.sa))
            note_request(packet, i);
        if (addr_equal(&packet->from.sa, &self.sa))
            note_sent(&captured, &packet->to, packet->bytes, packet->len, i);
    }
    qsort(captured.answers.list, captured.answers.count, sizeof(struct event), by_key);
}

static struct ses *fresh(void)
{
    struct ses_settings settings = {
        .pds = pds_defaults, .mtu = MTU, .ack_data = 16, .saved = SIZE_MAX / 2};
    struct ses_request request;
    struct pds_header header;

    /* As the part's parameters have it. */
    settings.pds.window = 1 << 20;
    settings.pds.rto = SECOND / 200;
    settings.pds.rto_count = 15;
    settings.pds.patience = 10 * SECOND;
    settings.pds.nack_count = PDS_RETRY_FOREVER;
    settings.pds.tail_time = SECOND / 500;
    settings.pds.new_pdc_time = settings.pds.close_time = SECOND;
    /* The endpoint is what most requests take it for: the first one. */
    if (requests.count) {
        const struct captured *packet = &capture.packets[requests.list[0].at];
        int size = pds_header_get(packet->bytes, packet->len, false, &header);

        ses_request_get(header.next, packet->bytes + size, packet->len - (size_t)size, &request);
        settings.self.job = request.job;
        settings.self.pid = request.pid;
        settings.self.index = request.index;
    }
    return ses_create(&settings, &ops, NULL, 1);
}

static void finish(void)
{
    ses_destroy(ses);
    capture_free(&capture);
    free(requests.list);
    for (int i = 0; i < 2; i++) {
        struct side *side = i ? &replayed : &captured;

        free(side->answers.list);
        free(side->data.list);
        free(side->contexts);
    }
}

int main(int argc, char **argv)
{
    char why[300], text[ADDR_TEXT_MAX];
    size_t compared;

    if (argc < 2 || argc > 3 || (argc == 3 && addr_from_str(argv[2], SIZE_MAX, &self))) {
        fprintf(stderr, "usage: uet_replay FILE [HOST:PORT]\n");
        return 2;
    }
    if (capture_read(argv[1], &capture, why, sizeof(why))) {
        fprintf(stderr, "uet_replay: %s\n", why);
        return 2;
    }
    read_capture(argc == 3 ? argv[2] : NULL);
    ses = requests.count ? fresh() : NULL;
    if (!ses) {
        fprintf(stderr, "uet_replay: %s: no requests to %s\n", argv[1],
                self.sa.sa_family ? addr_text(&self.sa, text, sizeof(text)) : "any endpoint");
        finish();
        return 2;
    }
    replay();
    qsort(replayed.answers.list, replayed.answers.count, sizeof(struct event), by_key);
    qsort(replayed.data.list, replayed.data.count, sizeof(struct event), by_key);
    qsort(requests.list, requests.count, sizeof(struct event), by_key);
    compared = compare();
    printf("%s: %zu packets, %zu requests compared (%zu had no answer then), %zu packets of data, "
           "%zu packets of PDCs of its own left out, %zu differences\n",
           addr_text(&self.sa, text, sizeof(text)), capture.count, compared, unanswered,
           captured.data.count, opened_by_us, differences);
    finish();
    return differences > 0;
}
