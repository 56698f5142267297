/* SPDX-License-Identifier: BSD-2-Clause */
/* Nodes with packet delivery in virtual time, over a switch: what the tests of it share. */
#ifndef WEFT_TESTS_UET_PDS_WORLD_H
#define WEFT_TESTS_UET_PDS_WORLD_H

#include "switch.h"
#include "transports/uet/pds/pdc.h"

enum {
    NODES = 4,
    BODY = 64,      /* bytes of a packet's payload: a message number, a packet number, filler */
    PER_MESSAGE = 5 /* packets of most messages */
};

#define SECOND UINT64_C(1000000000)

/* A message that is being sent. */
struct message {
    struct pds_source source;
    unsigned to;
    uint32_t number, packets, filled, ended, failed;
    bool gave_up;
    uint8_t (*bytes)[BODY];
};

/* The packets that one node has received of another. */
struct inbox {
    uint8_t *times; /* by message and packet */
    size_t room;
    uint32_t next_message, next_packet; /* of ordered ones */
    uint64_t count, wrong, twice, disordered;
};

struct node {
    struct pds *pds;
    unsigned index;
    bool dead; /* loses what comes and what it sends */
    bool shut; /* dead, and the network says so to senders */
    struct inbox from[NODES];
    uint64_t responses, closed, failed;
    /* The answer to the next requests: */
    uint8_t nack, guaranteed, later;
    unsigned nacks; /* how many */
    struct pds_ticket tickets[64];
    unsigned owed;
};

extern struct node nodes[NODES];
extern struct sw sw;
extern uint64_t seed;
extern unsigned scale;  /* WEFT_UET_PACKETS in 100,000, and 1 */
extern bool ordered;    /* messages that are sent from now on; or: */
extern bool idempotent; /* RUDI: checks leave out what comes twice */

extern const struct pds_ops ops;

/* All nodes anew; NULL: with the defaults of the specification. */
void begin(const struct pds_settings *settings);
void end(void);
/* Settings with which nothing is given up. */
struct pds_settings patient(void);
/* Paths lose 10 %, repeat 5 % and reorder 10 % of the packets. */
void bad_path(void);
/* Until nothing happens any more, or `until`. */
void run(uint64_t until);
void fill_body(uint8_t *body, unsigned from, uint32_t message, uint32_t packet);
void send_message(unsigned from, unsigned to, uint32_t number, uint32_t packets);
/* That `count` packets came once each, whole, and in their order. */
void check_inbox(unsigned at, unsigned from, uint64_t count);
/* All to all; checks that everything came once and that everybody knows. */
void all_to_all(uint32_t messages);

/* To the sender of the next `count` packets the network says, falsely, that the port is closed. */
extern unsigned forgeries;

/* The next `count` packets of a type (of control packets: of a kind) get lost; dropped counts. */
void losing(unsigned type, unsigned next, unsigned count);
extern unsigned dropped;

#endif
