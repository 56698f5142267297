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
    struct fid_mr *mr, *out_mr; /* of the region; of out_bytes, or NULL */
    fi_addr_t peer, at_relay;   /* the relay, as it has it; and it, as the relay does */
    uint8_t *region;
    struct slot slots[OPS];
};

/* The peer of the end of the same index. */
struct relay {
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    struct sockaddr_in name;
    uint32_t connid;
    unsigned free_count, free[BOXES]; /* to send from */
};

struct packet {
    unsigned to;
    size_t len;
    uint8_t *bytes;
};

extern struct relay relays[ENDS];
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
/* From the relay of that end. */
void send_to(unsigned to, const uint8_t *bytes, size_t len);
/* SRD_ADDR_SIZE bytes: the relay's. */
void put_address(unsigned index, uint8_t *addr);
/* An operation that its end does not have yet, and its memory; NULL: it has enough. */
struct slot *slot_of(struct end *end, size_t len, void **context);
void give_up(struct slot *slot);
/* Opens the end anew. */
void reopen_end(unsigned index);

#endif
