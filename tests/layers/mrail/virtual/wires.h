/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rails in virtual time, for whole stacks: in a test that is linked with this file `loop` is loop
 * behind wires, one for each direction of each rail. A send is on its wire until it is due, and is
 * posted to loop then; a read is on the wire to the other side, then its bytes are on the wire
 * back. A wire that has died loses what it carries, keeps it until it lives again, or fails it. The
 * library's clock is wires_now: nothing sleeps, and a thread would make it another run.
 *
 * The n-th fabric of loop that opens is rail n; domains are of wires_side.
 */
#ifndef WEFT_TESTS_LAYERS_MRAIL_WIRES_H
#define WEFT_TESTS_LAYERS_MRAIL_WIRES_H

#include <stdbool.h>
#include <stdint.h>

enum {
    WIRES_RAILS = 4,
};

enum wire_state {
    WIRE_ALIVE,
    WIRE_LOSES, /* takes operations, and loses them */
    WIRE_KEEPS, /* takes them, and brings them when it lives again */
    WIRE_FAILS, /* says so */
};

extern uint64_t wires_now; /* ns */
extern unsigned wires_side;
/* A planted bug: bytes of a read land though our end has been closed. */
extern bool wires_late;
/* Since wires_reset: operations that were lost, failed, or dropped since their endpoint was closed;
 * wires that began to keep what they have; reads. */
extern unsigned wires_lost, wires_failed, wires_kept, wires_dropped, wires_reads;

/* Forgets rails; nothing is on them. */
void wires_reset(void);
/* Of a rail, from side `from` to the other one. */
void wires_set_rate(unsigned rail, unsigned from, uint64_t delay_ns, double bytes_per_ns);
void wires_set_state(unsigned rail, unsigned from, enum wire_state state);
/* Brings what is due. */
void wires_move(void);
/* When something is due next; UINT64_MAX: nothing is. */
uint64_t wires_next(void);

#endif
