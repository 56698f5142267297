/* SPDX-License-Identifier: BSD-2-Clause */
/* One session by itself, in virtual time: its packets and trains are counted, and its peer's are
 * made here. */
#ifndef WEFT_TESTS_CORE_ARQ_ONE_H
#define WEFT_TESTS_CORE_ARQ_ONE_H

#include "core/arq/session_impl.h"

enum {
    US = 1000,
    MS = 1000 * US,
    WHOLE = PATH_MTU_BASE - ARQ_HEADER, /* of a message's only packet, for payload */
    ROOM = PATH_MTU_BASE - ARQ_BRIEF,   /* of a piece, */
    LESS = ROOM - WHOLE,                /* of which the first one lacks so much */
    PIECE = 40,                         /* bytes of the pieces that come */
    SEGMENT = ARQ_BRIEF + PIECE,
    WINDOW = 1 << 20, /* bytes: more than any test sends */
};
/* Bytes of the first n pieces that leave, and of n that come, of which the last has so many. */
#define LEAVE(n) ((n)*ROOM - LESS)
#define COME(n, last) (((n)-1) * PIECE - LESS + (last))
#define SECOND UINT64_C(1000000000)

/* Packets that have left. */
struct one_left {
    unsigned trains, singles, acks; /* packets, of messages but for acks */
    unsigned pieces;                /* in trains */
    unsigned asked, asked_soon;     /* bits: trains that want an answer at once, and soon */
    struct session_train train;     /* the last */
    struct arq_header header;       /* its first, or that of the last lone packet of a message */
    enum session_taken answer;      /* to trains */
    bool full;                      /* lone packets are not taken */
    /* The last ACK. */
    uint32_t end;
    uint64_t words[1 + ARQ_WORDS];
    bool asks_back;
    unsigned ended;
};
extern struct one_left left;

/* Messages that have come to the owner. */
struct one_came {
    unsigned whole, parts; /* messages: put together, and where they lay */
    size_t len;            /* of the last */
    uint8_t bytes[ARQ_PIECES * PIECE];
    bool full, ends; /* it takes none; it ends the session */
};
extern struct one_came came;

extern struct session_config config;

/* One that is open, to a peer whose identifier is 2. */
struct session *lone_session(void);
void close_lone(struct session *session);

/* The peer acknowledges `bits` of the packets below `end`. */
void acknowledge(struct session *session, uint64_t now, uint32_t end, uint64_t bits);
/* For long enough that no pace holds anything back, and too short for a timeout. */
void run_a_while(struct session *session, uint64_t now);
/* For as long as a slow pace needs, with nothing read, so that no time runs out. */
void run_for_long(struct session *session, uint64_t now);

/* A train of the peer's, of message `serial`, with pieces from `piece` on. False: it was not taken,
 * and its packets have been given one by one. */
bool come(struct session *session, struct arq_header header, unsigned count, size_t last);
/* A whole message, whose sender wants an answer. */
bool come_asking(struct session *session, uint32_t number, uint32_t serial, unsigned pieces);
void check_bytes(unsigned serial, size_t len);
/* Was this number acknowledged by the last ACK? */
bool told_of(uint32_t number);
void check_told(uint32_t from, uint32_t to);

#endif
