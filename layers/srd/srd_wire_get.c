/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets are read, and every length, count and sum is checked. */
#include <string.h>

#include "core/base/little_endian.h"
#include "layers/srd/srd_layout.h"
#include "layers/srd/srd_wire.h"

static const char *const cut_short = "a packet that is cut short";

static void get_ids(const uint8_t *raw, const struct srd_layout *at, struct srd_header *header)
{
    if (at->connid && header->flags & SRD_CONNID)
        header->connid = get32(raw + at->connid);
    if (at->send_id)
        header->send_id = get32(raw + at->send_id);
    if (at->recv_id)
        header->recv_id = get32(raw + at->recv_id);
    if (at->msg_id)
        header->msg_id = get32(raw + at->msg_id);
    if (at->credits)
        header->credits = get32(raw + at->credits);
    if (at->codes) {
        header->datatype = get32(raw + at->codes);
        header->op = get32(raw + at->codes + 4);
    }
}

static void get_sizes(const uint8_t *raw, const struct srd_layout *at, struct srd_header *header)
{
    if (at->tag)
        header->tag = get64(raw + at->tag);
    if (at->total)
        header->total = get64(raw + at->total);
    if (at->offset)
        header->offset = get64(raw + at->offset);
    if (at->runt)
        header->runt = get64(raw + at->runt);
    if (at->window)
        header->window =
            at->window_size == 8 ? get64(raw + at->window) : (uint64_t)get32(raw + at->window);
    if (header->type == SRD_PEER_ERROR) {
        header->ref_kind = get32(raw + 8);
        header->error = get32(raw + 12);
    }
}

/* *next: of `left` bytes, is moved on. */
static const char *get_places(const uint8_t **next, size_t *left, unsigned count,
                              struct fi_rma_iov *places)
{
    if (count > SRD_PLACES)
        return "a packet of too many pieces of memory";
    if (*left < (size_t)count * SRD_PLACE_SIZE)
        return cut_short;
    for (unsigned i = 0; i < count; i++, *next += SRD_PLACE_SIZE) {
        places[i].addr = get64(*next);
        places[i].len = get64(*next + 8);
        places[i].key = get64(*next + 16);
    }
    *left -= (size_t)count * SRD_PLACE_SIZE;
    return NULL;
}

static bool take(const uint8_t **next, size_t *left, size_t bytes)
{
    if (*left < bytes)
        return false;
    *next += bytes;
    *left -= bytes;
    return true;
}

/* Peers say other lengths of address, so its field counts. */
static const char *get_raw_addr(const uint8_t **next, size_t *left, struct srd_header *header)
{
    const uint8_t *raw = *next;
    uint32_t length;

    if (!take(next, left, 4))
        return cut_short;
    length = get32(raw);
    header->raw_addr = *next;
    header->raw_len = length;
    return take(next, left, length) ? NULL : cut_short;
}

static const char *get_options(const uint8_t **next, size_t *left, struct srd_header *header)
{
    const char *wrong = NULL;

    if (header->flags & SRD_RAW_ADDR)
        wrong = get_raw_addr(next, left, header);
    if (!wrong && header->flags & SRD_CQ_DATA) {
        header->cq_data = *left < SRD_CQ_DATA_SIZE ? 0 : get64(*next);
        wrong = take(next, left, SRD_CQ_DATA_SIZE) ? NULL : cut_short;
    }
    if (!wrong && header->flags & SRD_CONNID) {
        header->connid = *left < SRD_CONNID_SIZE ? 0 : get32(*next);
        wrong = take(next, left, SRD_CONNID_SIZE) ? NULL : cut_short;
    }
    return wrong;
}

/* ---- Handshakes ---- */

/* The next optional field of 8 bytes, if the flag is set. */
static const char *get_word(const uint8_t **next, size_t *left, bool set, uint64_t *value)
{
    if (!set)
        return NULL;
    *value = *left < SRD_WORD ? 0 : get64(*next);
    return take(next, left, SRD_WORD) ? NULL : cut_short;
}

/* Fields behind those that are known are left alone: newer peers may have more. */
static const char *get_handshake(const uint8_t *raw, size_t left, struct srd_header *header)
{
    const uint8_t *next = raw + 8;
    uint32_t words = get32(raw + 4);
    uint64_t connid = 0, version = 0;
    const char *wrong;

    left -= 8;
    if (words < SRD_NEXTRA_BASE)
        return "a handshake with a wrong count of words";
    words -= SRD_NEXTRA_BASE;
    header->features = words && left >= SRD_WORD ? get64(next) : 0;
    if (words > left / SRD_WORD)
        return cut_short;
    header->view = words > 1 ? (uint32_t)get64(next + SRD_WORD) : 0;
    take(&next, &left, (size_t)words * SRD_WORD);
    wrong = get_word(&next, &left, header->flags & SRD_CONNID, &connid);
    if (!wrong)
        wrong = get_word(&next, &left, header->flags & SRD_HOST_ID, &header->host_id);
    if (!wrong)
        wrong = get_word(&next, &left, header->flags & SRD_DEVICE_VERSION, &version);
    header->connid = (uint32_t)connid;
    header->device_version = (uint32_t)version;
    header->payload = next;
    return wrong;
}

/* ---- What cannot be ---- */

static bool sum_of(const struct fi_rma_iov *places, unsigned count, uint64_t *sum)
{
    *sum = 0;
    for (unsigned i = 0; i < count; i++) {
        if (__builtin_add_overflow(*sum, places[i].len, sum))
            return false;
    }
    return true;
}

/* Requests with remote memory. */
static const char *check_access(struct srd_header *header, const struct srd_layout *at)
{
    bool eager = header->type == SRD_EAGER_RTW || header->type == SRD_DC_EAGER_RTW;
    uint64_t sum;

    if (!sum_of(header->places, header->place_count, &sum))
        return "more memory than there is";
    if (header->type == SRD_EAGER_RTW && !header->place_count)
        return NULL; /* it asks for a handshake; bytes of it would lie beyond its end */
    if (!header->place_count)
        return "an access without memory";
    if (eager)
        header->total = header->len;
    if (at->codes) {
        header->total = sum;
        return header->datatype > SRD_CODES_MAX || header->op > SRD_CODES_MAX
                   ? "an atomic of no kind"
                   : NULL;
    }
    return sum != header->total ? "an access of another size than its memory" : NULL;
}

static const char *check_reads(const struct srd_header *header)
{
    uint64_t sum;

    if (!header->read_count || !sum_of(header->reads, header->read_count, &sum) ||
        sum != header->total)
        return "a message of another size than its memory";
    return NULL;
}

/* Bytes of the payload within the message. */
static const char *check_bounds(const struct srd_header *header, uint64_t end)
{
    if (header->offset > end || header->len > end - header->offset)
        return "bytes beyond the end of their message";
    return NULL;
}

static const char *check_request(struct srd_header *header, const struct srd_layout *at)
{
    const char *wrong = at->places ? check_access(header, at) : NULL;

    if (!wrong && at->reads)
        wrong = check_reads(header);
    if (wrong)
        return wrong;
    if (at->runt)
        return header->runt > header->total ? "a beginning longer than its message"
                                            : check_bounds(header, header->runt);
    if (at->reads || (at->window && at->places))
        return header->len ? "bytes where there are none" : NULL;
    if (!at->total && !at->places)
        header->total = header->len;
    if (at->offset && !header->len)
        return "a piece of a message without bytes";
    if (at->credits && at->places && header->len == header->total)
        return "a long write that is short";
    return at->codes ? NULL : check_bounds(header, header->total);
}

static const char *check_answer(struct srd_header *header, const struct srd_layout *at,
                                const uint8_t *raw)
{
    uint64_t length;

    if (header->type == SRD_CTS && !header->window)
        return "a CTS of no bytes";
    if (!at->length) {
        header->len = 0;
        return NULL;
    }
    length = get64(raw + at->length);
    if (length > header->len)
        return cut_short;
    header->len = (size_t)length;
    if (header->type != SRD_CTSDATA)
        return NULL;
    return !length || header->offset > UINT64_MAX - length
               ? "data of no bytes, or beyond all memory"
               : NULL;
}

static const char *get_answer(const uint8_t *raw, size_t len, const struct srd_layout *at,
                              struct srd_header *header)
{
    if (header->type == SRD_HANDSHAKE)
        return get_handshake(raw, len, header);
    header->payload = raw + at->size;
    header->len = len - at->size;
    if (header->type == SRD_CTSDATA && header->flags & SRD_CONNID) {
        if (header->len < SRD_WORD)
            return cut_short;
        header->connid = get32(header->payload);
        header->payload += SRD_WORD;
        header->len -= SRD_WORD;
    }
    return check_answer(header, at, raw);
}

static const char *get_request(const uint8_t *raw, size_t len, const struct srd_layout *at,
                               struct srd_header *header)
{
    uint32_t places = at->places ? get32(raw + at->places) : 0;
    uint32_t reads = at->reads ? get32(raw + at->reads) : 0;
    const uint8_t *next = raw + at->size;
    size_t left = len - at->size;
    const char *wrong = get_places(&next, &left, places, header->places);

    if (!wrong)
        wrong = get_options(&next, &left, header);
    if (!wrong)
        wrong = get_places(&next, &left, reads, header->reads);
    if (wrong)
        return wrong;
    header->place_count = (uint8_t)places;
    header->read_count = (uint8_t)reads;
    header->payload = next;
    header->len = left;
    return check_request(header, at);
}

/* The usual packets: EAGER and MEDIUM of a peer that knows us, without data. All fields but places
 * are set, as for any packet. False: nothing is known of it. */
static bool get_usual(const uint8_t *raw, size_t len, struct srd_header *header)
{
    bool tagged = raw[0] & 1, medium = raw[0] >= SRD_MEDIUM_MSG;
    size_t head = (medium ? 24u : 8u) + (tagged ? 8u : 0u);
    unsigned flags = SRD_MSG | SRD_CONNID | (tagged ? SRD_TAGGED : 0U);

    if (raw[0] < SRD_EAGER_MSG || raw[0] > SRD_MEDIUM_TAG || len < head + SRD_CONNID_SIZE ||
        raw[SRD_AT_VERSION] != SRD_VERSION || get16(raw + SRD_AT_FLAGS) != flags)
        return false;
    memset(header, 0, offsetof(struct srd_header, places));
    header->type = raw[0];
    header->flags = (uint16_t)flags;
    header->msg_id = get32(raw + 4);
    header->tag = tagged ? get64(raw + head - 8) : 0;
    header->connid = get32(raw + head);
    header->payload = raw + head + SRD_CONNID_SIZE;
    header->len = header->total = len - head - SRD_CONNID_SIZE;
    if (!medium)
        return true;
    header->total = get64(raw + 8);
    header->offset = get64(raw + 16);
    return header->len && !check_bounds(header, header->total);
}

const char *srd_header_get(const uint8_t *raw, size_t len, struct srd_header *header)
{
    const struct srd_layout *at;

    if (len < SRD_BASE_SIZE)
        return cut_short;
    if (__builtin_expect(get_usual(raw, len, header), 1))
        return NULL;
    if (raw[SRD_AT_VERSION] != SRD_VERSION)
        return "a packet of another version";
    at = srd_layout_of(raw[0]);
    if (!at)
        return "a packet of an unknown type";
    if (len < at->size)
        return cut_short;
    memset(header, 0, offsetof(struct srd_header, places));
    header->type = raw[0];
    header->flags = get16(raw + SRD_AT_FLAGS);
    header->payload = NULL;
    header->len = 0;
    get_ids(raw, at, header);
    get_sizes(raw, at, header);
    return srd_is_request(header->type) ? get_request(raw, len, at, header)
                                        : get_answer(raw, len, at, header);
}
