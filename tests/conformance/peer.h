/* SPDX-License-Identifier: BSD-2-Clause */
/* An endpoint in another process (this program, executed again) that does as it is told. */
#ifndef WEFT_CONF_PEER_H
#define WEFT_CONF_PEER_H

#include <sys/types.h>

#include "conf.h"

enum peer_op {
    PEER_INSERT,  /* address: whom it talks to */
    PEER_RECV,    /* posts a receive: size, tag, tagged */
    PEER_ARRIVED, /* waits for the oldest receive, compares with seed */
    PEER_SEND,    /* posts a send (size, seed, tag, tagged, data) and waits for its end */
    PEER_REGION,  /* registers size bytes, filled with seed */
    PEER_COMPARE, /* size bytes of the region at offset, with seed */
    PEER_DATA,    /* waits for a remote write with CQ data */
    PEER_FLOOD,   /* sends count words with tag 7, and receives count words with tag 8, in order */
    PEER_QUIT     /* closes everything; no answer */
};

struct peer_order {
    enum peer_op op;
    unsigned seed, count;
    int tagged;
    size_t size, offset, address_len;
    uint64_t tag, data;
    char address[256];
};

struct peer_answer {
    int err;   /* FI_E of the completion */
    int right; /* the data is what it should be */
    size_t len;
    uint64_t tag, data, base, key;
};

struct peer {
    pid_t pid;
    int fd;
    char address[256];
    size_t address_len;
};

/* An address for peers that follow one another: no other process gets it while none of them has
 * it. */
void peer_place(struct peer *at);
/* Starts one; `at` is the address that it shall take, or NULL. */
struct peer peer_start(const struct peer *at);
/* end and the peer insert each other. */
void peer_meet(struct peer *peer, struct conf_ep *end);
void peer_tell(struct peer *peer, const struct peer_order *order);
/* Waits, driving the pair. */
struct peer_answer peer_ask(struct conf_pair *pair, struct peer *peer, struct peer_order order);
struct peer_answer peer_answered(struct conf_pair *pair, struct peer *peer);
void peer_kill(struct peer *peer);
/* Asks it to end, and fails unless it does, with nothing to complain. */
void peer_end(struct conf_pair *pair, struct peer *peer);

/* The other process: never returns. argv after "--peer": FD, and an address to take. */
_Noreturn void peer_main(int argc, char **argv);

#endif
