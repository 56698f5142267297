/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tags of the layer's messages. Bit 63 is set, which the application's tags do not have:
 *
 *       63  62 61  60        45  44        29  28        13  12         0
 *      +---+------+------------+------------+------------+------------+
 *      | 1 | GROUP| group      | sequence   | sender     | round      |
 *      | 1 | JOIN | hash of the members     | sender     | round      |
 *      | 1 | CONTR| group      | FI_E code  | sender     | what       |
 *      +---+------+------------+------------+------------+------------+
 *
 * `group` is the number that the receiver gave to the group and told the others when it joined.
 */
#ifndef WEFT_COLL_TAG_H
#define WEFT_COLL_TAG_H

#include <stdint.h>

#define COLL_TAGS (1ull << 63)

enum coll_tag_kind {
    COLL_TAG_GROUP,
    COLL_TAG_JOIN,
    COLL_TAG_CONTROL,
};

enum coll_control {
    COLL_PING,
    COLL_ABORT,
};

#define COLL_TAG_LOW ((1ull << 61) - 1)
#define COLL_ROUND_MASK 0x1fffull

static inline uint64_t coll_tag_group(uint16_t group, uint16_t sequence, uint32_t sender)
{
    return COLL_TAGS | (uint64_t)COLL_TAG_GROUP << 61 | (uint64_t)group << 45 |
           (uint64_t)sequence << 29 | (uint64_t)sender << 13;
}

static inline uint64_t coll_tag_join(uint32_t hash, uint32_t sender)
{
    return COLL_TAGS | (uint64_t)COLL_TAG_JOIN << 61 | (uint64_t)hash << 29 |
           (uint64_t)sender << 13;
}

static inline uint64_t coll_tag_control(uint16_t group, uint16_t code, uint32_t sender,
                                        enum coll_control what)
{
    return COLL_TAGS | (uint64_t)COLL_TAG_CONTROL << 61 | (uint64_t)group << 45 |
           (uint64_t)code << 29 | (uint64_t)sender << 13 | (uint64_t)what;
}

static inline uint16_t coll_tag_field(uint64_t tag, int shift)
{
    return (uint16_t)(tag >> shift);
}

#endif
