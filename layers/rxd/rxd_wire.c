/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxd/rxd_wire.h"

#include <string.h>

#include "core/base/little_endian.h"

enum {
    /* Offsets. */
    AT_VERSION = 2,
    AT_FLAGS = 3,
    AT_NUMBER = 4,
    AT_SEQUENCE = 8,
    AT_ACK = 12,
    AT_LIFE = 0,
    AT_VIEW = 4,
    AT_GIVING = 8,
    AT_FAMILY = 12,
    AT_OWN_LEN = 13,
    AT_UNASKED = 13, /* of an IP address */
    AT_UNASKED_OWN = 14,
    AT_ABILITIES = 36, /* of an IP address */
    AT_ABILITIES_OWN = 15,
    AT_PORT = 14,
    AT_HOST = 16,
    AT_SCOPE = 32,
    AT_RECORD_FLAGS = 1,
    AT_LEN = 2,
    AT_ID = 4,
    AT_SIZE = 8,
    OWN = 1,
    IPV4 = 4,
    IPV6 = 6,
    STATUS_MAX = 4095,
};

/* ---- Heads ---- */

/* Port and IPv6 address as sockaddrs have them, in network order. */
static void put_addr(const union addr *addr, uint8_t *raw)
{
    memset(raw + AT_FAMILY, 0, RXD_INTRO_SIZE - AT_FAMILY);
    if (addr->sa.sa_family == AF_INET6) {
        raw[AT_FAMILY] = IPV6;
        memcpy(raw + AT_PORT, &addr->in6.sin6_port, sizeof(addr->in6.sin6_port));
        memcpy(raw + AT_HOST, &addr->in6.sin6_addr, sizeof(addr->in6.sin6_addr));
        put32(raw + AT_SCOPE, addr->in6.sin6_scope_id);
        return;
    }
    raw[AT_FAMILY] = IPV4;
    memcpy(raw + AT_PORT, &addr->in.sin_port, sizeof(addr->in.sin_port));
    memcpy(raw + AT_HOST, &addr->in.sin_addr, sizeof(addr->in.sin_addr));
}

static void put_name(const struct rxd_name *name, uint8_t *raw)
{
    if (!name->own_len) {
        put_addr(&name->addr, raw);
        return;
    }
    memset(raw + AT_FAMILY, 0, RXD_INTRO_OWN - AT_FAMILY);
    raw[AT_FAMILY] = OWN;
    raw[AT_OWN_LEN] = name->own_len;
    memcpy(raw + RXD_INTRO_OWN, name->own, name->own_len);
}

static bool get_addr(const uint8_t *raw, union addr *addr)
{
    memset(addr, 0, sizeof(*addr));
    switch (raw[AT_FAMILY]) {
    case IPV4:
        addr->in.sin_family = AF_INET;
        memcpy(&addr->in.sin_port, raw + AT_PORT, sizeof(addr->in.sin_port));
        memcpy(&addr->in.sin_addr, raw + AT_HOST, sizeof(addr->in.sin_addr));
        break;
    case IPV6:
        addr->in6.sin6_family = AF_INET6;
        memcpy(&addr->in6.sin6_port, raw + AT_PORT, sizeof(addr->in6.sin6_port));
        memcpy(&addr->in6.sin6_addr, raw + AT_HOST, sizeof(addr->in6.sin6_addr));
        addr->in6.sin6_scope_id = get32(raw + AT_SCOPE);
        break;
    default: return false;
    }
    return addr_port(&addr->sa);
}

/* Of an introduction of len bytes, RXD_INTRO_OWN at least. */
static bool get_name(const uint8_t *raw, size_t len, struct rxd_name *name)
{
    name->own_len = 0;
    if (raw[AT_FAMILY] != OWN)
        return len >= RXD_INTRO_SIZE && get_addr(raw, &name->addr);
    name->own_len = raw[AT_OWN_LEN];
    name->own = raw + RXD_INTRO_OWN;
    return name->own_len && name->own_len <= ADDR_OWN_MAX && rxd_intro_size(name) <= len;
}

void rxd_head_put(const struct rxd_head *head, uint8_t *raw)
{
    rxd_head_put_number(raw, head->flags, head->number, head->sequence, head->ack);
    if (!(head->flags & RXD_INTRO))
        return;
    raw += RXD_HEAD_SIZE;
    put32(raw + AT_LIFE, head->life);
    put32(raw + AT_VIEW, head->view);
    put32(raw + AT_GIVING, head->giving);
    put_name(&head->name, raw);
    raw[head->name.own_len ? AT_UNASKED_OWN : AT_UNASKED] = head->unasked;
    raw[head->name.own_len ? AT_ABILITIES_OWN : AT_ABILITIES] = head->abilities;
}

static bool has_sense(uint8_t flags)
{
    return flags <= (RXD_INTRO | RXD_ORDERED) || flags == (RXD_INTRO | RXD_PROPOSES) ||
           flags == (RXD_INTRO | RXD_RENEWS);
}

const char *rxd_head_get(const uint8_t *raw, size_t len, struct rxd_head *head)
{
    if (len < RXD_HEAD_SIZE)
        return "a packet shorter than its head";
    if (get16(raw) != RXD_MAGIC)
        return "a packet of another protocol";
    if (raw[AT_VERSION] != RXD_VERSION)
        return "a packet of another version";
    head->flags = raw[AT_FLAGS];
    if (__builtin_expect(!has_sense(head->flags), 0))
        return "a packet with flags that it cannot have";
    head->number = get32(raw + AT_NUMBER);
    head->sequence = get32(raw + AT_SEQUENCE);
    head->ack = get32(raw + AT_ACK);
    if (!(head->flags & RXD_INTRO))
        return head->number ? NULL : "a packet of no peer";
    if (len < RXD_HEAD_SIZE + RXD_INTRO_OWN)
        return "a packet shorter than its introduction";
    raw += RXD_HEAD_SIZE;
    head->life = get32(raw + AT_LIFE);
    head->view = get32(raw + AT_VIEW);
    head->giving = get32(raw + AT_GIVING);
    if (!head->life || !head->giving || !get_name(raw, len - RXD_HEAD_SIZE, &head->name))
        return "an introduction that says nothing";
    if (head->flags > (RXD_INTRO | RXD_ORDERED) &&
        (!head->view || len > RXD_HEAD_SIZE + rxd_intro_size(&head->name)))
        return "a proposal to no life, or with records";
    head->unasked = raw[head->name.own_len ? AT_UNASKED_OWN : AT_UNASKED];
    head->abilities = raw[head->name.own_len ? AT_ABILITIES_OWN : AT_ABILITIES];
    return NULL;
}

/* ---- Records ---- */

static bool has_places(uint8_t kind)
{
    return kind == RXD_WRITE || kind == RXD_READ || kind == RXD_ATOMIC || kind == RXD_LENT;
}

/* Of places and segments; a message has only these. */
static bool has_counts(const struct rxd_record *record)
{
    return has_places(record->kind) || (record->kind == RXD_MSG && record->flags & RXD_SEGMENTS);
}

static bool has_taker(uint8_t kind)
{
    return kind == RXD_READ || kind == RXD_ATOMIC || kind == RXD_PULL || kind == RXD_LENT;
}

#define BYTES(flags)                                                                               \
    (((flags)&RXD_TAGGED ? 8 : 0) + ((flags)&RXD_HAS_DATA ? 8 : 0) +                               \
     ((flags)&RXD_READABLE ? 16 : 0) + ((flags)&RXD_TO_CONTEXT ? 4 : 0) +                          \
     ((flags)&RXD_FOLLOWED ? 4 : 0))
#define BYTES_4(flags) BYTES(flags), BYTES((flags) + 1), BYTES((flags) + 2), BYTES((flags) + 3)
#define BYTES_16(flags)                                                                            \
    BYTES_4(flags), BYTES_4((flags) + 4), BYTES_4((flags) + 8), BYTES_4((flags) + 12)

/* A size is asked for several times for each message. */
const uint8_t rxd_flags_size[RXD_AGAIN] = {BYTES_16(0), BYTES_16(16), BYTES_16(32), BYTES_16(48)};

size_t rxd_kind_size(const struct rxd_record *record)
{
    return (has_taker(record->kind) ? 4u : 0u) +
           (has_counts(record)
                ? 4u + RXD_PLACE_SIZE * ((size_t)record->place_count + record->segment_count)
                : 0u);
}

static uint8_t *put_place(const struct fi_rma_iov *place, uint8_t *raw)
{
    put64(raw, place->addr);
    put64(raw + 8, place->len);
    put64(raw + 16, place->key);
    return raw + RXD_PLACE_SIZE;
}

static struct fi_rma_iov get_place(const uint8_t *raw)
{
    return (struct fi_rma_iov){.addr = get64(raw), .len = get64(raw + 8), .key = get64(raw + 16)};
}

/* A request with segments has no datatype. */
static uint8_t *put_places(const struct rxd_record *record, uint8_t *raw)
{
    raw[0] = record->place_count;
    raw[1] = record->segment_count ? record->segment_count : record->datatype;
    raw[2] = record->op;
    raw[3] = record->function;
    raw += 4;
    for (unsigned i = 0; i < record->place_count; i++)
        raw = put_place(&record->places[i], raw);
    for (unsigned i = 0; i < record->segment_count; i++)
        raw = put_place(&record->segments[i], raw);
    return raw;
}

void rxd_segments(const struct rxd_record *record, struct fi_rma_iov segments[RXD_PLACES])
{
    for (unsigned i = 0; i < record->segment_count; i++)
        segments[i] = get_place(record->raw_segments + i * (size_t)RXD_PLACE_SIZE);
}

uint8_t *rxd_record_put(const struct rxd_record *record, uint8_t *raw)
{
    raw[0] = record->kind;
    raw[AT_RECORD_FLAGS] = record->flags;
    put16(raw + AT_LEN, (uint16_t)record->len);
    put32(raw + AT_ID, record->id);
    put64(raw + AT_SIZE, record->size);
    raw += RXD_RECORD_SIZE;
    if (record->flags & RXD_TAGGED) {
        put64(raw, record->tag);
        raw += 8;
    }
    if (record->flags & RXD_HAS_DATA) {
        put64(raw, record->data);
        raw += 8;
    }
    if (record->flags & RXD_READABLE) {
        put64(raw, record->addr);
        put64(raw + 8, record->key);
        raw += 16;
    }
    if (record->flags & RXD_TO_CONTEXT) {
        put32(raw, record->context);
        raw += 4;
    }
    if (record->flags & RXD_FOLLOWED) {
        put32(raw, record->follows);
        raw += 4;
    }
    if (has_taker(record->kind)) {
        put32(raw, record->taker);
        raw += 4;
    }
    return has_counts(record) ? put_places(record, raw) : raw;
}

static const char *check_kind(const struct rxd_record *record, bool ordered)
{
    static const uint8_t flags[] = {
        [RXD_MSG] = RXD_TAGGED | RXD_HAS_DATA | RXD_WANTS_DONE | RXD_READABLE | RXD_TO_CONTEXT |
                    RXD_FOLLOWED | RXD_SEGMENTS,
        [RXD_WRITE] = RXD_HAS_DATA | RXD_READABLE | RXD_TO_CONTEXT | RXD_SEGMENTS,
        [RXD_READ] = RXD_TO_CONTEXT | RXD_BORROWS,
        [RXD_ATOMIC] = RXD_TO_CONTEXT,
        [RXD_PULL] = RXD_AGAIN,
        [RXD_HERE] = 0,
    };

    if (record->kind < RXD_MSG || record->kind > RXD_HERE)
        return "a record of an unknown kind";
    if (ordered != rxd_is_ordered(record->kind))
        return "a record in a packet of another kind";
    return record->flags & ~flags[record->kind] ? "a record with flags that it has not" : NULL;
}

static const char *check_places(const struct rxd_record *record)
{
    uint64_t sum = 0;

    if (!has_places(record->kind))
        return NULL;
    for (unsigned i = 0; i < record->place_count; i++) {
        if (record->kind == RXD_LENT && !record->places[i].len)
            return "a place of no bytes";
        if (__builtin_add_overflow(sum, record->places[i].len, &sum))
            return "more memory than there is";
    }
    if (record->kind != RXD_ATOMIC && sum != record->size)
        return "an access of another size than its memory";
    return record->kind == RXD_ATOMIC && sum > RXD_PAYLOAD_MAX ? "an atomic of too many elements"
                                                               : NULL;
}

static const char *check_segments(const struct rxd_record *record)
{
    uint64_t sum = 0;

    if (record->flags & (RXD_READABLE | RXD_FOLLOWED))
        return "a request that is to be read at several places, and at one or not at all";
    for (unsigned i = 0; i < record->segment_count; i++) {
        uint64_t len = get64(record->raw_segments + i * (size_t)RXD_PLACE_SIZE + 8);

        if (!len || __builtin_add_overflow(sum, len, &sum))
            return "a segment of no bytes, or beyond all memory";
    }
    return sum == record->size ? NULL : "segments of another size than their request";
}

static const char *check_follows(const struct rxd_record *record)
{
    if (!(record->flags & RXD_FOLLOWED))
        return NULL;
    if (record->flags & RXD_READABLE)
        return "bytes behind a message that is to be read";
    return record->follows && record->follows <= record->size - record->len
               ? NULL
               : "a message behind which no bytes come, or more than it has";
}

static const char *check_sizes(const struct rxd_record *record)
{
    if (record->flags & RXD_TO_CONTEXT && (!record->context || record->context >= RXD_CONTEXTS))
        return "a request for a context that there cannot be";
    switch (record->kind) {
    case RXD_MSG:
    case RXD_WRITE:
        if (record->len > record->size)
            return "more bytes than the request has";
        if (!record->len && record->size)
            return "a request that begins with no bytes";
        return record->flags & RXD_SEGMENTS ? check_segments(record) : check_follows(record);
    case RXD_LENT:
        if (!record->size)
            return "a loan of nothing";
        return record->len ? "bytes where there are none" : NULL;
    case RXD_READ:
    case RXD_BYE:
    case RXD_GONE:
    case RXD_ASK:
    case RXD_HERE:
    case RXD_PULL: return record->len ? "bytes where there are none" : NULL;
    case RXD_DONE:
        return record->len || record->size > STATUS_MAX ? "an end with a wrong status" : NULL;
    case RXD_DATA:
    case RXD_FOLLOW:
        return !record->len || record->size > UINT64_MAX - record->len ? "data of no bytes, or "
                                                                         "beyond all memory"
                                                                       : NULL;
    default: return NULL;
    }
}

/* The counts that decide how long the rest is. */
static const char *get_counts(const uint8_t *raw, size_t left, struct rxd_record *record)
{
    size_t at = rxd_record_size(record);

    record->place_count = 0;
    if (!has_counts(record))
        return left < at ? "a record that is cut short" : NULL;
    if (left < at)
        return "a record that is cut short";
    raw += at - 4;
    record->place_count = raw[0];
    record->datatype = raw[1];
    record->op = raw[2];
    record->function = raw[3];
    if (has_places(record->kind) ? record->place_count < 1 || record->place_count > RXD_PLACES
                                 : record->place_count)
        return "an access of too many places, or none, or a message with places";
    if (record->flags & RXD_SEGMENTS) {
        record->segment_count = raw[1];
        record->datatype = 0;
        if (record->segment_count < 2 || record->segment_count > RXD_PLACES)
            return "a request of too many segments, or one";
    }
    return left < rxd_record_size(record) ? "a record that is cut short" : NULL;
}

static const uint8_t *get_fields(const uint8_t *raw, struct rxd_record *record)
{
    raw += RXD_RECORD_SIZE;
    if (record->flags & RXD_TAGGED) {
        record->tag = get64(raw);
        raw += 8;
    }
    if (record->flags & RXD_HAS_DATA) {
        record->data = get64(raw);
        raw += 8;
    }
    if (record->flags & RXD_READABLE) {
        record->addr = get64(raw);
        record->key = get64(raw + 8);
        raw += 16;
    }
    if (record->flags & RXD_TO_CONTEXT) {
        record->context = get32(raw);
        raw += 4;
    }
    if (record->flags & RXD_FOLLOWED) {
        record->follows = get32(raw);
        raw += 4;
    }
    if (has_taker(record->kind)) {
        record->taker = get32(raw);
        raw += 4;
    }
    if (has_counts(record))
        raw += 4;
    for (unsigned i = 0; i < record->place_count; i++, raw += RXD_PLACE_SIZE)
        record->places[i] = get_place(raw);
    record->raw_segments = raw;
    return raw + record->segment_count * (size_t)RXD_PLACE_SIZE;
}

/* A whole message with no fields but perhaps a tag, or bytes of a large one: false, and it is
 * another record or wrong. */
static bool get_plain(const uint8_t *raw, size_t left, bool ordered, struct rxd_record *record)
{
    size_t at = RXD_RECORD_SIZE;

    if (record->kind == RXD_MSG) {
        if (!ordered || record->flags & ~RXD_TAGGED || record->len != record->size)
            return false;
    } else if (record->kind != RXD_DATA || ordered || record->flags || !record->len ||
               record->size > UINT64_MAX - record->len) {
        return false;
    }
    at += record->flags * 8u;
    if (left < at + record->len)
        return false;
    if (record->flags)
        record->tag = get64(raw + RXD_RECORD_SIZE);
    record->payload = raw + at;
    return true;
}

const char *rxd_record_get(const uint8_t *raw, size_t left, bool ordered, struct rxd_record *record,
                           size_t *size)
{
    const char *wrong;

    if (left < RXD_RECORD_SIZE)
        return "a record that is cut short";
    memset(record, 0, offsetof(struct rxd_record, places));
    record->kind = raw[0];
    record->flags = raw[AT_RECORD_FLAGS];
    record->len = get16(raw + AT_LEN);
    record->id = get32(raw + AT_ID);
    record->size = get64(raw + AT_SIZE);
    if (get_plain(raw, left, ordered, record)) {
        *size = (size_t)(record->payload - raw) + record->len;
        return NULL;
    }
    wrong = check_kind(record, ordered);
    if (!wrong)
        wrong = get_counts(raw, left, record);
    if (wrong)
        return wrong;
    record->payload = get_fields(raw, record);
    if (record->len > left - (size_t)(record->payload - raw))
        return "a record that is cut short";
    *size = (size_t)(record->payload - raw) + record->len;
    wrong = check_places(record);
    return wrong ? wrong : check_sizes(record);
}

size_t rxd_led_bytes_get(const uint8_t *raw, size_t first, size_t len, struct rxd_record *record)
{
    struct rxd_record message;
    size_t size, at;

    if (first < RXD_HEAD_SIZE || raw[3] != RXD_ORDERED ||
        rxd_record_get(raw + RXD_HEAD_SIZE, first - RXD_HEAD_SIZE, true, &message, &size) ||
        message.kind != RXD_MSG || !message.follows)
        return 0;
    at = RXD_HEAD_SIZE + size;
    return rxd_rest_get(raw + at, first - at, len - at, RXD_FOLLOW, record) ? at : 0;
}
