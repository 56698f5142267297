/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/uet/nic/steer.h"

#include "transports/uet/nic/bpf.h"
#include "transports/uet/wire/bytes.h"

enum {
    TYPE_SHIFT = 11,
    SYN_BIT = PDS_SYN,
    PDCID_AT = STEER_ID_AT,
    NUMBER_AT = 4, /* of RUDI */
    SOCKET_AT = 3, /* in an inquiry: */
    SECRET_AT = 4,
    VERSION_AT = 12,
    PID_AT = 8, /* in a request's header of SES */
    PID_MASK = 0xfff,
    PID_SHIFT = 6,
    ID_SHIFT = 10,
    HEADER = 12, /* of a request, and others: */
    HEADER_CC = 16,
    HEADER_RUDI = 8,
    HEADER_UUD = 4,
};

static struct steer block_of(const uint8_t *bytes, size_t len)
{
    if (len < PDCID_AT + 2)
        return (struct steer){STEER_ANY, 0};
    return (struct steer){STEER_BLOCK, (uint8_t)(get16(bytes + PDCID_AT) >> ID_SHIFT)};
}

static struct steer pid_of(const uint8_t *bytes, size_t len, size_t header)
{
    if (len < header + PID_AT + 2)
        return (struct steer){STEER_ANY, 0};
    return (struct steer){STEER_SLOT,
                          (uint8_t)((get16(bytes + header + PID_AT) & PID_MASK) >> PID_SHIFT)};
}

static struct steer number_of(const uint8_t *bytes, size_t len)
{
    if (len < NUMBER_AT + 4)
        return (struct steer){STEER_ANY, 0};
    return (struct steer){STEER_SLOT, (uint8_t)(get32(bytes + NUMBER_AT) >> STEER_RUDI_BITS)};
}

static struct steer socket_of(const uint8_t *bytes, size_t len)
{
    if (len <= SOCKET_AT)
        return (struct steer){STEER_ANY, 0};
    return (struct steer){STEER_NUMBER, bytes[SOCKET_AT]};
}

struct steer steer_of(const uint8_t *bytes, size_t len)
{
    unsigned prologue = len < 2 ? 0 : get16(bytes);
    bool syn = prologue & SYN_BIT;

    switch (prologue >> TYPE_SHIFT) {
    case PDS_RUD:
    case PDS_ROD: return syn ? pid_of(bytes, len, HEADER) : block_of(bytes, len);
    case PDS_RUD_CC:
    case PDS_ROD_CC: return syn ? pid_of(bytes, len, HEADER_CC) : block_of(bytes, len);
    case PDS_CONTROL: return syn ? (struct steer){STEER_ANY, 0} : block_of(bytes, len);
    case PDS_ACK:
    case PDS_ACK_CC:
    case PDS_ACK_CCX: return block_of(bytes, len);
    case PDS_NACK:
    case PDS_NACK_CCX: return prologue & PDS_NT_RUDI ? number_of(bytes, len) : block_of(bytes, len);
    case PDS_RUDI: return pid_of(bytes, len, HEADER_RUDI);
    case PDS_RUDI_RESPONSE: return number_of(bytes, len);
    case PDS_UUD: return pid_of(bytes, len, HEADER_UUD);
    case STEER_INQUIRY: return socket_of(bytes, len);
    default: return (struct steer){STEER_ANY, 0};
    }
}

/* ---- Inquiries ---- */

void steer_inquiry_put(const struct steer_inquiry *inquiry, uint8_t *bytes)
{
    put16(bytes, STEER_INQUIRY << TYPE_SHIFT);
    bytes[SOCKET_AT - 1] = 0;
    bytes[SOCKET_AT] = inquiry->number;
    put64(bytes + SECRET_AT, inquiry->secret);
    put64(bytes + VERSION_AT, inquiry->version);
}

struct steer_inquiry steer_inquiry_get(const uint8_t *bytes)
{
    return (struct steer_inquiry){.number = bytes[SOCKET_AT],
                                  .secret = get64(bytes + SECRET_AT),
                                  .version = get64(bytes + VERSION_AT)};
}

/* ---- The same for the kernel ---- */

struct writer {
    struct sock_filter *filter;
    uint16_t count;
};

static void add(struct writer *w, uint16_t code, uint32_t k)
{
    w->filter[w->count++] = (struct sock_filter)BPF_STMT(code, k);
}

/* The next `skip` instructions are for when A is k. */
static void unless_equal(struct writer *w, uint32_t k, uint8_t skip)
{
    w->filter[w->count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, 0, skip);
}

static void give_first(struct writer *w)
{
    add(w, BPF_RET | BPF_K, 0);
}

/* A is a number of the table. */
static void look_up(struct writer *w, const int16_t *table, unsigned size)
{
    for (unsigned i = 0; i < size; i++) {
        if (table[i] < 0)
            continue;
        unless_equal(w, i, 1);
        add(w, BPF_RET | BPF_K, (uint32_t)table[i]);
    }
    give_first(w);
}

/* How many instructions go before what is written by a table. */
static uint16_t jump_over(struct writer *w)
{
    add(w, BPF_JMP | BPF_JA, 0);
    return (uint16_t)(w->count - 1);
}

static void land(struct writer *w, uint16_t from)
{
    w->filter[from].k = (uint32_t)(w->count - from - 1);
}

enum {
    CASES = 16
};

struct jumps {
    uint16_t from[CASES];
    unsigned count;
};

static void go(struct writer *w, struct jumps *jumps)
{
    jumps->from[jumps->count++] = jump_over(w);
}

static void land_all(struct writer *w, const struct jumps *jumps)
{
    for (unsigned i = 0; i < jumps->count; i++)
        land(w, jumps->from[i]);
}

/* Of a type whose flag says which of two things names the endpoint: the field at `flagged`, a
 * PIDonFEP of 16 bits or, where it is NUMBER_AT, a number of RUDI; else its PDC. */
static void by_flag(struct writer *w, uint32_t flag, struct jumps *flagged, uint32_t at,
                    struct jumps *blocks)
{
    bool number = at == NUMBER_AT;

    add(w, BPF_LD | BPF_H | BPF_ABS, 0);
    w->filter[w->count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, flag, 0, 2);
    add(w, BPF_LD | (number ? BPF_W : BPF_H) | BPF_ABS, at);
    go(w, flagged);
    go(w, blocks);
}

enum {
    BY_FLAG = 5, /* instructions of by_flag */
    BY_FIELD = 2,
};

static void by_field(struct writer *w, uint16_t size, uint32_t at, struct jumps *jumps)
{
    add(w, BPF_LD | size | BPF_ABS, at);
    go(w, jumps);
}

/* A control packet that opens a PDC names no endpoint. */
static void by_control(struct writer *w, struct jumps *blocks)
{
    add(w, BPF_LD | BPF_H | BPF_ABS, 0);
    w->filter[w->count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SYN_BIT, 0, 1);
    give_first(w);
    go(w, blocks);
}

/* An inquiry names the socket itself. */
static void by_number(struct writer *w)
{
    add(w, BPF_LD | BPF_B | BPF_ABS, SOCKET_AT);
    add(w, BPF_RET | BPF_A, 0);
}

enum {
    BY_CONTROL = 4,
    BY_NUMBER = 2,
};

size_t steer_filter(const struct steer_table *table, struct sock_filter *filter)
{
    static const uint8_t requests[][2] = {
        {PDS_RUD, HEADER}, {PDS_ROD, HEADER}, {PDS_RUD_CC, HEADER_CC}, {PDS_ROD_CC, HEADER_CC}};
    static const uint8_t acks[] = {PDS_ACK, PDS_ACK_CC, PDS_ACK_CCX};
    static const uint8_t nacks[] = {PDS_NACK, PDS_NACK_CCX};
    struct jumps blocks = {.count = 0}, pids = {.count = 0}, numbers = {.count = 0};
    struct writer w = {.filter = filter};
    uint16_t over;

    add(&w, BPF_LD | BPF_H | BPF_ABS, 0);
    add(&w, BPF_ALU | BPF_RSH | BPF_K, TYPE_SHIFT);
    for (size_t i = 0; i < sizeof(acks); i++) {
        unless_equal(&w, acks[i], 1);
        go(&w, &blocks);
    }
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        unless_equal(&w, requests[i][0], BY_FLAG);
        by_flag(&w, SYN_BIT, &pids, requests[i][1] + PID_AT, &blocks);
    }
    for (size_t i = 0; i < sizeof(nacks); i++) {
        unless_equal(&w, nacks[i], BY_FLAG);
        by_flag(&w, PDS_NT_RUDI, &numbers, NUMBER_AT, &blocks);
    }
    unless_equal(&w, PDS_CONTROL, BY_CONTROL);
    by_control(&w, &blocks);
    unless_equal(&w, PDS_UUD, BY_FIELD);
    by_field(&w, BPF_H, HEADER_UUD + PID_AT, &pids);
    unless_equal(&w, PDS_RUDI, BY_FIELD);
    by_field(&w, BPF_H, HEADER_RUDI + PID_AT, &pids);
    unless_equal(&w, PDS_RUDI_RESPONSE, BY_FIELD);
    by_field(&w, BPF_W, NUMBER_AT, &numbers);
    unless_equal(&w, STEER_INQUIRY, BY_NUMBER);
    by_number(&w);
    give_first(&w);
    land_all(&w, &blocks);
    add(&w, BPF_LD | BPF_H | BPF_ABS, PDCID_AT);
    add(&w, BPF_ALU | BPF_RSH | BPF_K, ID_SHIFT);
    look_up(&w, table->blocks, STEER_BLOCKS);
    land_all(&w, &numbers);
    add(&w, BPF_ALU | BPF_RSH | BPF_K, STEER_RUDI_BITS);
    over = jump_over(&w);
    land_all(&w, &pids);
    add(&w, BPF_ALU | BPF_AND | BPF_K, PID_MASK);
    add(&w, BPF_ALU | BPF_RSH | BPF_K, PID_SHIFT);
    land(&w, over);
    look_up(&w, table->slots, STEER_SLOTS);
    return w.count;
}
