/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One direction of a link: a ring of cache lines with messages, and a ring of bytes for payload
 * that is too large for lines. One sender, one receiver. Pure: works on memory that it is given,
 * and never trusts what the other side writes there. See docs/design/shm.md.
 */
#ifndef WEFT_SHM_RING_H
#define WEFT_SHM_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SHM_LINE = 64,
    SHM_LINES = 60,
    SHM_QUARTER = SHM_LINES / 4,
    SHM_AHEAD = 2,         /* lines of a burst, that are on their way to the sender */
    SHM_MESSAGE_LINES = 4, /* of one message, at most */
    SHM_HALF = 4096,       /* bytes of lines and credits for one direction: a page */
    SHM_BULK = 256 << 10,  /* bytes of bulk for one direction */
    SHM_CHUNK = 32 << 10,  /* of one message, at most */
    SHM_STEP = 64 << 10,   /* of bulk: asked for in one call; where a sender may begin anew */
    SHM_REGION = 2 * (SHM_HALF + SHM_BULK),
    SHM_WORD = 8,
    SHM_BODY_MAX = SHM_MESSAGE_LINES * SHM_LINE - SHM_WORD,
    SHM_BODY_LINE = SHM_LINE - SHM_WORD, /* of a message of one line */
    /* Of payload between two credits, and in the message that got the second ones. */
    SHM_FLIGHT = SHM_HALF + SHM_BULK + SHM_CHUNK,
};

/* Written by the receiver, read by the sender when it runs out. */
struct shm_credits {
    _Atomic uint64_t lines;  /* consumed since the start */
    _Atomic uint64_t bulk;   /* bytes, likewise */
    _Atomic uint32_t polled; /* the receiver looks at the ring by itself */
    _Atomic uint32_t held;   /* nothing is to come that it has not asked for */
    /* It may sleep: a peer that rings its bell writes to the socket, too, once, and resets this. */
    _Atomic uint32_t asleep;
};

struct shm_tx {
    char *lines, *bulk;
    struct shm_credits *credits;
    uint64_t pos, limit; /* lines produced since the start; may be produced */
    uint64_t bulk_pos, bulk_limit;
    size_t bulk_pages; /* bytes of bulk whose pages were asked for; 0 after they are given back */
    uint32_t at, lap;
    bool broken; /* the credits are nonsense */
    bool held;   /* as the receiver said with the last credits */
};

struct shm_rx {
    char *lines, *bulk;
    struct shm_credits *credits;
    uint64_t pos, told; /* lines consumed; as published */
    uint64_t bulk_pos, bulk_told;
    uint32_t at, lap;
};

/* The first word of a message, with the mark. */
struct shm_head {
    uint8_t op, flags;
    uint16_t bytes; /* of the body, which starts behind the first word */
};

enum {
    SHM_PAD = 0 /* op of a message that fills the ring up to its end; parts use 1 to 255 */
};

/* The two ends of direction `half` (0, 1) in a zeroed region of SHM_REGION bytes. */
void shm_tx_init(struct shm_tx *tx, void *region, int half);
void shm_rx_init(struct shm_rx *rx, void *region, int half);

static inline unsigned shm_lines_of(size_t body)
{
    return (unsigned)((SHM_WORD + body + SHM_LINE - 1) / SHM_LINE);
}

/* Out of line: looks at the credits, skips to the start of the ring. */
char *shm_tx_reserve_more(struct shm_tx *tx, unsigned lines);

/* Room for a body of that many bytes (at most SHM_BODY_MAX), or NULL: full, or broken. */
static inline char *shm_tx_reserve(struct shm_tx *tx, size_t body)
{
    unsigned lines = shm_lines_of(body);

    if (__builtin_expect(tx->at + lines <= SHM_LINES && tx->limit - tx->pos >= lines, 1))
        return tx->lines + tx->at * SHM_LINE + SHM_WORD;
    return shm_tx_reserve_more(tx, lines);
}

/* The body is written: shows the message to the receiver. */
static inline void shm_tx_publish(struct shm_tx *tx, struct shm_head head)
{
    unsigned lines = shm_lines_of(head.bytes);
    uint64_t word =
        (uint64_t)tx->lap << 32 | (uint64_t)head.bytes << 16 | (uint64_t)head.flags << 8 | head.op;

    atomic_store_explicit((_Atomic uint64_t *)(void *)(tx->lines + tx->at * SHM_LINE), word,
                          memory_order_release);
    tx->pos += lines;
    tx->at += lines;
    if (__builtin_expect(tx->at == SHM_LINES, 0)) {
        tx->at = 0;
        tx->lap += tx->lap == UINT32_MAX ? 2 : 1;
    }
}

/* Room for one line, if there is any without a look at the credits. */
static inline char *shm_tx_line(const struct shm_tx *tx)
{
    return __builtin_expect(tx->pos != tx->limit, 1) ? tx->lines + tx->at * SHM_LINE : NULL;
}

/* The same after a look at the credits, if there is none without. */
static inline char *shm_tx_line_or_more(struct shm_tx *tx)
{
    char *line = shm_tx_line(tx), *body;

    if (__builtin_expect(line != NULL, 1))
        return line;
    body = shm_tx_reserve_more(tx, 1);
    return body ? body - SHM_WORD : NULL;
}

/* Publishes a message whose body fits into it. */
static inline void shm_tx_publish_line(struct shm_tx *tx, char *line, struct shm_head head)
{
    uint64_t word =
        (uint64_t)tx->lap << 32 | (uint64_t)head.bytes << 16 | (uint64_t)head.flags << 8 | head.op;

    atomic_store_explicit((_Atomic uint64_t *)(void *)line, word, memory_order_release);
    tx->pos++;
    if (__builtin_expect(++tx->at == SHM_LINES, 0)) {
        tx->at = 0;
        tx->lap += tx->lap == UINT32_MAX ? 2 : 1;
    }
}

/* Has the line come to this core, to be written. */
static inline void shm_ask_for(const char *line)
{
#if defined(__x86_64__)
    /* The compiler's own is one to read, unless told that each CPU has this: those that have not
     * take it for no operation. */
    __asm__ volatile("prefetchw %0" : : "m"(*line));
#else
    __builtin_prefetch(line, 1);
#endif
}

/* Asks for the lines of a message like the last, of so many, some ahead. The receiver has given
 * them back: it keeps none of those that the sender has credits for. */
static inline void shm_tx_ahead(const struct shm_tx *tx, unsigned lines)
{
    unsigned at = tx->at + lines + SHM_AHEAD;

    if (tx->limit - tx->pos < 2 * lines + SHM_AHEAD)
        return;
    do {
        shm_ask_for(tx->lines + (at < SHM_LINES ? at : at - SHM_LINES) * SHM_LINE);
        at++;
    } while (--lines);
}

/* Room for len bytes (at most SHM_CHUNK) in one piece, or NULL. *pos is what the message says. */
char *shm_tx_bulk(struct shm_tx *tx, size_t len, uint64_t *pos);
/* They are written; to be called before the message that mentions them is published. */
void shm_tx_bulk_commit(struct shm_tx *tx, uint64_t pos, size_t len);
/* Asks for the lines of the next payload, if it is as long as the last one. */
void shm_tx_bulk_ahead(const struct shm_tx *tx, size_t len);
/* They are consumed, all of them, as the credits say, which it looks at. */
bool shm_tx_bulk_is_empty(struct shm_tx *tx);

/* Looks at the next line. True: there is a message; *head is private, *body where it is, until it
 * is consumed. How long it says to be is not checked. */
static inline bool shm_rx_head(const struct shm_rx *rx, struct shm_head *head, const char **body)
{
    char *line = rx->lines + rx->at * SHM_LINE;
    uint64_t word = atomic_load_explicit((_Atomic uint64_t *)(void *)line, memory_order_acquire);

    head->op = (uint8_t)word;
    head->flags = (uint8_t)(word >> 8);
    head->bytes = (uint16_t)(word >> 16);
    *body = line + SHM_WORD;
    return (uint32_t)(word >> 32) == rx->lap;
}

/* A message can be that long, here. One of a line always can. */
static inline bool shm_rx_fits(const struct shm_rx *rx, struct shm_head head)
{
    unsigned lines = shm_lines_of(head.bytes);

    return lines <= SHM_MESSAGE_LINES && rx->at + lines <= SHM_LINES;
}

/* There is nothing to look at. */
static inline bool shm_rx_is_quiet(const struct shm_rx *rx)
{
    char *line = rx->lines + rx->at * SHM_LINE;
    uint64_t word = atomic_load_explicit((_Atomic uint64_t *)(void *)line, memory_order_acquire);

    return (uint32_t)(word >> 32) != rx->lap;
}

/* Out of line: clears the inner lines of a long message. */
void shm_rx_clear(struct shm_rx *rx, unsigned lines);

static inline void shm_rx_give_back(struct shm_rx *rx, unsigned lines)
{
    rx->pos += lines;
    rx->at += lines;
    if (__builtin_expect(rx->at == SHM_LINES, 0)) {
        rx->at = 0;
        rx->lap += rx->lap == UINT32_MAX ? 2 : 1;
    }
    if (rx->pos - rx->told >= SHM_QUARTER) {
        rx->told = rx->pos;
        atomic_store_explicit(&rx->credits->lines, rx->pos, memory_order_release);
    }
}

/* The message is read: its lines go back. */
static inline void shm_rx_consume(struct shm_rx *rx, struct shm_head head)
{
    unsigned lines = shm_lines_of(head.bytes);

    if (lines > 1)
        shm_rx_clear(rx, lines);
    shm_rx_give_back(rx, lines);
}

/* The same for one that is known to be of one line. */
static inline void shm_rx_consume_line(struct shm_rx *rx)
{
    shm_rx_give_back(rx, 1);
}

/*
 * The receiver has no room for messages without a receive. Messages on their way still come: at
 * most SHM_FLIGHT bytes, since the sender learns of it with the next credits that it gets.
 */
void shm_rx_hold(struct shm_rx *rx, bool held);
/* Looks whether that is over. */
bool shm_tx_held(struct shm_tx *tx);

/* From now on the sender that finds the ring not polled wakes the receiver, once. */
static inline void shm_rx_ask(struct shm_rx *rx)
{
    atomic_store_explicit(&rx->credits->asleep, 1, memory_order_relaxed);
}

/* Whether it was asked to. Between its message and this look there is a full fence. */
static inline bool shm_tx_is_asked(struct shm_tx *tx)
{
    if (!atomic_load_explicit(&tx->credits->asleep, memory_order_relaxed))
        return false;
    atomic_store_explicit(&tx->credits->asleep, 0, memory_order_relaxed);
    return true;
}

/* Where the len bytes at pos are; NULL when a message must not say so. */
const char *shm_rx_bulk(const struct shm_rx *rx, uint64_t pos, uint64_t len);
/* They are copied: the room goes back. */
void shm_rx_bulk_done(struct shm_rx *rx, uint64_t pos, uint64_t len);
/* Publishes at once what went back since the last credits. */
void shm_rx_bulk_tell(struct shm_rx *rx);

#endif
