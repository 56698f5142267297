/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A session: reliable messages, each delivered once and in any order, over packets that may be
 * lost, repeated and reordered, between two addresses. Pure: bytes and `now` (ns) come in; packets
 * go out by a call, and the next deadline is returned. No fd, no clock, no lock. A session that
 * has been idle for a second frees the memory that it has allocated (what it sends with, the places
 * of packets that overtake many, messages that come in pieces).
 *
 *   OPENING --ACCEPT or the peer's own OPEN--> OPEN --RESET, CLOSE, silence, session_end--> ENDED
 *
 * A message is sent whole while it fits the path, else in pieces. Each transmission has a number
 * of its own; the message keeps its serial. The receiver says which numbers have come and which
 * serials it has room for. Source: docs/design/arq.md; RFC 9000, 9002.
 */
#ifndef WEFT_CORE_ARQ_SESSION_H
#define WEFT_CORE_ARQ_SESSION_H

#include <sys/uio.h>

#include "core/arq/congestion.h"
#include "core/arq/flight.h"
#include "core/arq/packet.h"
#include "core/arq/pacer.h"
#include "core/arq/path_mtu.h"
#include "core/arq/rtt.h"
#include "core/arq/serial.h"
#include "core/base/list.h"

enum {
    SESSION_FLIGHT = 2048,   /* packets under way at most */
    SESSION_FEW = 2,         /* for which there is memory while little is under way */
    SESSION_SERIALS = 4096,  /* messages behind the oldest that has not come */
    SESSION_ASSEMBLIES = 16, /* messages that leave and come in pieces at the same time */
};

enum session_state {
    SESSION_OPENING,
    SESSION_OPEN,
    SESSION_ENDED,
};

/* A message of the owner's, the session's from session_send to config->done. */
struct session_message {
    struct list list;
    const uint8_t *payload;
    size_t len; /* fits a packet of config->most, and ARQ_PIECES of the base size */
    uint64_t serial;
    uint64_t unsent, unacked; /* pieces, as bits */
    uint16_t pieces, size;    /* 1: whole; bytes of a piece but the first and the last */
    bool numbered;            /* has its serial */
    bool resent;              /* several packets may carry a piece */
    bool in_pieces;           /* counted in session->in_pieces */
};

/* A packet to be handed to the lower. */
struct session_packet {
    const uint8_t *bytes; /* the header, and of a control packet what is behind it */
    size_t len;
    struct session_message
        *message; /* of DATA; then `count` bytes of its payload from `at` on follow */
    size_t at, count;
    bool more; /* another one will most likely follow at once */
};

/* A train (core/arq/packet.h) to be handed to the lower: `pieces` packets, of which `first` is the
 * first one's header (arq_train_put), with the `count` bytes of the message from `at` on, in as
 * many as fit `packet` bytes each. */
struct session_train {
    const struct arq_header *first;
    unsigned pieces;
    struct session_message *message;
    size_t at, count, packet;
    uint64_t left; /* ns: when the lower was through with it; set by config->transmit_train */
};

enum session_taken {
    SESSION_TAKEN,   /* the lower is through with it */
    SESSION_FULL,    /* the lower takes nothing now */
    SESSION_REFUSED, /* it takes packets one by one */
};

struct session;

struct session_config {
    const struct congestion_ops *congestion;
    uint32_t most;      /* bytes of the largest packet that the interface takes */
    uint64_t patience;  /* ns: of silence after which a session with work ends */
    uint64_t ack_delay; /* ns: the longest that an acknowledgement is kept */
    const void *name;   /* the owner's address, told in OPEN for lowers that cannot tell it */
    size_t name_len;    /* to ARQ_NAME_MAX; 0: none */
    bool marks;         /* packets leave so that the network may mark them (RFC 3168) */
    /* False: the lower takes nothing now; session_run is called again when it does. The bytes are
     * valid during the call only, the message until `done`. */
    bool (*transmit)(struct session *session, const struct session_packet *packet);
    /* The same of a train; NULL: packets leave one by one. */
    enum session_taken (*transmit_train)(struct session *session, struct session_train *train);
    /* A message has come. False: there is no room for it, so it is not acknowledged and will come
     * again. The bytes are valid during the call only. */
    bool (*deliver)(struct session *session, const uint8_t *bytes, size_t len);
    /* The same of one whose pieces have come in a train, where they lie; NULL: they are put
     * together first. */
    bool (*deliver_parts)(struct session *session, const struct iovec *parts, size_t count);
    /* The peer has it (0), or it cannot be known to have it (a positive FI_E code). Once for each
     * message; may call session_send. */
    void (*done)(struct session *session, struct session_message *message, int err);
};

struct session_assembly {
    uint8_t *bytes; /* NULL: not in use */
    uint64_t serial, missing;
    size_t len;
    uint16_t pieces, size;
};

/* A session sends with it: made with the first message, freed after a second of silence. */
struct session_traffic {
    struct list again, sent; /* messages: with pieces to be sent again; under way */
    struct flight flight;
    struct congestion congestion;
    struct pacer pacer;
    struct path_mtu_came came;
    struct rtt rtt;
    uint64_t loss_at, timeout_at, asked_at;
    uint64_t took;    /* ns: the call that sent the last train */
    uint64_t undone;  /* messages with a serial that the peer has not acknowledged */
    uint32_t unasked; /* bytes of trains since the last that asks for an acknowledgement at once, */
    uint32_t unasked_trains; /* and so many trains */
    struct flight_packet few[SESSION_FEW];
};

/* As much of it as a session keeps that has none. */
struct session_rest {
    uint64_t number;                    /* of the next packet */
    uint32_t window;                    /* bytes; 0: there was no traffic yet */
    uint32_t smoothed, variance, least; /* ns */
};

struct session {
    const struct session_config *config;
    enum session_state state;
    int err; /* of an ended one: positive FI_E code */
    uint64_t id,
        peer; /* identifiers: ours, that packets to us have; the peer's, 0: not known yet */
    /* ---- Out ---- */
    struct list queued;              /* messages: never sent */
    struct session_traffic *traffic; /* NULL: nothing is to be sent, or there is no memory */
    union {
        struct session_rest rest;
        uint8_t token[ARQ_TOKEN]; /* of one that is opening: what the peer wants back */
    };
    struct path_mtu mtu;
    uint64_t next_serial, limit; /* limit: serials below it may be sent */
    uint64_t marked;             /* packets that the peer saw marked */
    uint32_t burst;              /* bytes that have left with this session_run */
    unsigned timeouts;           /* in a row */
    bool forced;                 /* after a timeout: a packet leaves whatever the window says */
    bool held;       /* the window has held a message back since the last acknowledgement */
    bool blocked;    /* the lower took nothing */
    bool unfinished; /* more may leave at once, at a later time */
    bool looks;      /* then, after a look at what has come: the window cuts a train */
    bool has_token;
    uint8_t opens;     /* OPEN sent; stays at the most that it holds */
    uint8_t in_pieces; /* messages under way in pieces: SESSION_ASSEMBLIES at most */
    uint8_t soon; /* low bits of the serial that the peer asked last to have acknowledged soon */
    /* ---- In ---- */
    struct serial numbers, serials;
    uint64_t number_bits, serial_bits; /* while nothing has been overtaken by a word of others */
    uint64_t arrived;                  /* ns: when numbers.end - 1 came; 0: unknown */
    uint64_t ack_at;                   /* ns: 0: nothing to acknowledge */
    uint32_t
        untold; /* numbers from it on that came are not acknowledged yet; the low bits of one */
    uint32_t came_marked;
    uint64_t told, credit; /* the limit that the peer has; messages that the owner has room for */
    struct session_assembly *assemblies; /* NULL until a message comes in pieces */
    /* ---- Life ---- */
    uint64_t heard;       /* ns: when the last packet of the peer came */
    uint64_t busy_since;  /* ns: since when it has work for the peer; 0: it has none */
    uint64_t unreachable; /* ns: since when the network reports no listener; 0 */
    uint64_t open_at;
    struct {
        uint32_t ignored, duplicates;
    } counts; /* packets of the peer's */
};

/* Opens one: with peer 0 by asking, else as the answer to a peer's OPEN that has passed the gate
 * (session_run sends ACCEPT). id: random, not 0. credit: messages that the owner has room for. */
void session_init(struct session *session, const struct session_config *config, uint64_t id,
                  uint64_t peer, uint64_t credit, uint64_t now);
/* Frees what it allocated; calls nothing. Of a session that has ended. */
void session_finish(struct session *session);

/* Takes a message, in any state but ENDED. It leaves with session_run. */
void session_send(struct session *session, struct session_message *message);
/* The same, but where nothing else is to be done it leaves at once. Then returns when session_run
 * must be called at the latest; 0: at once. */
uint64_t session_send_now(struct session *session, struct session_message *message, uint64_t now);

/* A packet whose `to` is ours, or an answer to our OPEN, which came to this node at `now`; header:
 * as arq_header_get read it. A packet that does not fit the session has no effect but a count. */
void session_receive(struct session *session, uint64_t now, const struct arq_header *header,
                     const uint8_t *bytes, size_t len, bool marked);
/* The same of a train of `count` packets, which lie end to end in datagrams of `segment` bytes.
 * False: it has done nothing, and they are to be given one by one. */
bool session_receive_train(struct session *session, uint64_t now, const struct arq_header *header,
                           const uint8_t *bytes, size_t len, size_t segment, unsigned count,
                           bool marked);
/* Bytes of a message that leave as one train, as far as window and path are now; 0: packets leave
 * one by one. */
size_t session_train_room(const struct session *session);
/* The peer's OPEN, which has passed the gate. False: it is of another session than this one, so the
 * peer has forgotten us; the owner ends this one, and may open another. */
bool session_asked(struct session *session, uint64_t now, const struct arq_header *header);

/* The owner has room for `credit` messages now. */
void session_set_credit(struct session *session, uint64_t credit);
/* An acknowledgement that is kept leaves with the next session_run. False: there is none. */
bool session_flush(struct session *session, uint64_t now);
/* Has it messages that are not done? */
bool session_has_messages(const struct session *session);
/* Has it waited for an acknowledgement, or for an answer to OPEN, for longer than is usual? */
static inline bool session_is_overdue(const struct session *session, uint64_t now)
{
    const struct session_traffic *traffic = session->traffic;

    return session->state == SESSION_OPENING ||
           (traffic && traffic->flight.out && now >= traffic->timeout_at);
}
/* Was the peer told that there is room for nothing? */
bool session_is_shut(const struct session *session);
/* The network says that there is no peer. Not believed alone: the peer is asked, has a second. */
void session_unreachable(struct session *session, uint64_t now);
/* The network says that packets above `most` bytes do not fit. */
void session_limit_mtu(struct session *session, uint32_t most);

/* Sends what may leave now. Returns when it must be called again at the latest; UINT64_MAX: only
 * after one of the calls above. session->unfinished: it is to be called again at once, with the
 * time that it is then. read: what came to this node up to then has been given to session_receive,
 * as far as it is of this session; a peer is not late whose answer the owner has not read yet. */
uint64_t session_run(struct session *session, uint64_t now, uint64_t read);

/* Has session_run nothing to do now but to keep an acknowledgement, if that? Then it may be left
 * until the time that is returned, so that it is run once for a message and its answer, or not at
 * all; else 0. */
uint64_t session_rests_until(const struct session *session, uint64_t now);

/* Tells the peer by CLOSE, which acknowledges what has come, that the session ends. May be called
 * several times before session_end: nothing acknowledges a CLOSE. */
void session_say_closed(struct session *session);
/* Ends it: every message is done with err; the peer is told by CLOSE where tell. */
void session_end(struct session *session, int err, bool tell);

#endif
