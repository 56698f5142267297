/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/mrail/mrail_wire.h"

#include <string.h>

#include "core/base/little_endian.h"

enum {
    MAGIC_0 = 'W',
    MAGIC_1 = 'r',
    /* Offsets. */
    AT_VERSION = 2,
    AT_TYPE = 3,
    AT_TO = 4,
    AT_SERIAL = 8,
    AT_ACK = 12,
    AT_LIMIT = 16,
    AT_FLAGS = 20,
    AT_WORDS = 21,
    AT_ADDR_LEN = 22,
    AT_ZERO = 23,
    AT_GIVING = 8,
    AT_INTRO_ZERO = 12,
};

void mrail_head_put(const struct mrail_head *head, uint8_t *raw)
{
    raw[0] = MAGIC_0;
    raw[1] = MAGIC_1;
    raw[AT_VERSION] = MRAIL_WIRE_VERSION;
    raw[AT_TYPE] = head->type;
    put32(raw + AT_TO, head->to);
    put32(raw + AT_SERIAL, head->serial);
    put32(raw + AT_ACK, head->ack);
    put32(raw + AT_LIMIT, head->limit);
    raw[AT_FLAGS] = head->flags;
    raw[AT_WORDS] = head->words;
    raw[AT_ADDR_LEN] = head->flags & MRAIL_INTRO ? head->addr_len : 0;
    raw[AT_ZERO] = 0;
    raw += MRAIL_HEAD_SIZE;
    for (unsigned i = 0; i < head->words; i++, raw += 8)
        put64(raw, head->bits[i]);
    if (!(head->flags & MRAIL_INTRO))
        return;
    put64(raw, head->epoch);
    put32(raw + AT_GIVING, head->giving);
    put32(raw + AT_INTRO_ZERO, 0);
    memcpy(raw + MRAIL_INTRO_SIZE, head->addr, head->addr_len);
}

static const char *get_intro(const uint8_t *raw, struct mrail_head *head)
{
    head->epoch = get64(raw);
    head->giving = get32(raw + AT_GIVING);
    head->addr = raw + MRAIL_INTRO_SIZE;
    if (!head->epoch || !head->giving || get32(raw + AT_INTRO_ZERO))
        return "an introduction that says nothing";
    return NULL;
}

static void get_fields(const uint8_t *raw, struct mrail_head *head)
{
    head->type = raw[AT_TYPE];
    head->to = get32(raw + AT_TO);
    head->serial = get32(raw + AT_SERIAL);
    head->ack = get32(raw + AT_ACK);
    head->limit = get32(raw + AT_LIMIT);
    head->flags = raw[AT_FLAGS];
    head->words = raw[AT_WORDS];
    head->addr_len = raw[AT_ADDR_LEN];
}

/* Flags, counts and addresses that a head has none of. */
static const char *check(const uint8_t *raw, size_t len, const struct mrail_head *head)
{
    bool intro = head->flags & MRAIL_INTRO;

    if (head->type < MRAIL_DATA || head->type > MRAIL_BYE ||
        head->flags & ~(head->type == MRAIL_DATA ? MRAIL_INTRO | MRAIL_OWN : MRAIL_INTRO) ||
        raw[AT_ZERO])
        return "a packet of an unknown kind";
    if (head->words > MRAIL_WORDS || head->addr_len > MRAIL_ADDR_MAX || intro != !!head->addr_len)
        return "a packet with wild counts";
    if (!intro && !head->to)
        return "a packet of nobody";
    if (len < mrail_head_size(head))
        return "a packet cut short";
    if (head->type != MRAIL_DATA && len != mrail_head_size(head))
        return "a packet with something behind it";
    return NULL;
}

/* A message with nothing but its payload behind the head, as most packets are. */
static bool is_plain(const uint8_t *raw, const struct mrail_head *head)
{
    return head->type == MRAIL_DATA && !get32(raw + AT_FLAGS) && head->to;
}

const char *mrail_head_get(const uint8_t *raw, size_t len, struct mrail_head *head)
{
    const char *wrong;

    if (len < MRAIL_HEAD_SIZE)
        return "a packet shorter than its head";
    if (raw[0] != MAGIC_0 || raw[1] != MAGIC_1)
        return "a packet of another protocol";
    if (raw[AT_VERSION] != MRAIL_WIRE_VERSION)
        return "a packet of another version";
    get_fields(raw, head);
    if (is_plain(raw, head))
        return NULL;
    wrong = check(raw, len, head);
    if (wrong)
        return wrong;
    for (unsigned i = 0; i < head->words; i++)
        head->bits[i] = get64(raw + MRAIL_HEAD_SIZE + 8 * i);
    return head->flags & MRAIL_INTRO ? get_intro(raw + MRAIL_HEAD_SIZE + 8 * head->words, head)
                                     : NULL;
}
