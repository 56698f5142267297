/* SPDX-License-Identifier: BSD-2-Clause */
/* The ends and the relays of fuzz_srd_pair.c. */
#ifndef WEFT_TESTS_FUZZ_SRD_PAIR_H
#define WEFT_TESTS_FUZZ_SRD_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <netinet/in.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

enum {
    ENDS = 2,
    STRANGERS = 3, /* that neither end has been told of */
    RELAYS = ENDS + STRANGERS,
    LIVES = 4,  /* that an end told last */
    KINDS = 16, /* of endpoints: byte 0 */
    SIZE_MOST = 70000,
    OPS = 12, /* under way, of each */
    PACKET = 8192,
    BOXES = 64, /* packets that a relay can receive, and that it can send */
    QUEUE = 96, /* packets under way; others are lost */
    REGION = 4096,
    IDS = 16, /* numbers that have passed by */
};

struct slot {
    bool busy, many;
    size_t len;
    uint8_t *bytes;
};

struct end {
    unsigned inputs; /* since it was opened; 0: it is not */
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_mr *mr, *out_mr;              /* of the region; of out_bytes, or NULL */
    fi_addr_t peer, at[RELAYS];              /* the relay, as it has it; and it, as the relays do */
    fi_addr_t strangers[STRANGERS];          /* as it has them, if it does: */
    bool knows[STRANGERS], heard[STRANGERS]; /* heard: they have sent it something */
    uint8_t *region;
    struct slot slots[OPS];
};

/* The peer of the end of the same index; or a stranger of both. */
struct relay {
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    struct sockaddr_in name;
    uint32_t connid;
    uint32_t told[ENDS][LIVES];       /* lives of the end, the last one first */
    unsigned free_count, free[BOXES]; /* to send from */
};

struct packet {
    unsigned to;
    size_t len;
    uint8_t *bytes;
};

extern struct relay relays[RELAYS];
extern struct fid_mr *relay_mr;
extern uint8_t relay_region[1 << 17], out_bytes[ENDS][OPS][SIZE_MOST];
/* Of the kind that the input names. */
extern struct end *ends;
extern struct packet queue[QUEUE];
extern unsigned queued, kind;
/* Numbers that have passed by. */
extern uint32_t ids[IDS];

/* Ends of that kind, with nothing under way. */
void begin_input(unsigned of_kind);
void end_input(void);
/* Takes what has come to all. */
void drive(void);
/* Of the relay's. */
void send_from(unsigned relay, unsigned to, const uint8_t *bytes, size_t len);
/* SRD_ADDR_SIZE bytes: the relay's, with these lives. */
void put_address(unsigned relay, uint32_t connid, uint32_t view, uint8_t *addr);
/* The relay asks that end for its HANDSHAKE, in such a life and with such a view. */
void ask(unsigned relay, unsigned to, uint32_t connid, uint32_t view);
/* An operation that its end does not have yet, and its memory; NULL: it has enough. */
struct slot *slot_of(struct end *end, size_t len, void **context);
void give_up(struct slot *slot);
/* The end inserts the stranger, or removes it. */
void meet_or_part(unsigned index, unsigned stranger);
/* Opens the end anew. */
void reopen_end(unsigned index);

#endif
