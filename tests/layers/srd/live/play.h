/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer of srd that is played by a test, packet by packet, over the same packets.
 */
#ifndef WEFT_TESTS_LAYERS_SRD_LIVE_PLAY_H
#define WEFT_TESTS_LAYERS_SRD_LIVE_PLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include "layers/srd/srd_wire.h"
#include "tests/support/end.h"

enum {
    PACKET = 8192,
    RECEIVES = 64,
    TURNS = 2000,
    LARGE = 1 << 20,
    CONNID = 0x1234567,
    FEATURES = SRD_CAN_DC | SRD_WANTS_CONNID | SRD_CAN_NACK,
};

/* srd's end; the played one; a region of srd's domain over `memory`; bytes of a packet that is made
 * by hand; what is sent and received; the played peer's connid and next msg_id, and the life of
 * srd's end that it knows, which is the one that came last. */
extern struct end a, raw;
extern struct fid_mr *region;
extern uint8_t out[PACKET], memory[PACKET];
extern char large[LARGE], in[LARGE];
extern uint32_t connid, next_msg, life;

/* Another end, of any stack. */
void open_end(struct end *end, const char *stack, uint64_t caps, uint64_t order);
/* A region under the domain's key. */
struct fid_mr *reg(struct end *end, void *buf, size_t len, uint64_t access);
/* Fixtures: srd over loop, and the peer that is played; with FI_ORDER_SAS; over packets of a
 * network, which are smaller than 2 KiB. */
int open_all(void **state);
int open_ordered(void **state);
int open_small(void **state);
/* Of a stack over loop. */
int open_stack(const char *stack);
int close_all(void **state);
/* Of the peer, which has RECEIVES of them; more take the memory of the first ones. */
void post_receives(unsigned count);
unsigned receives_left(void);
void put_address(const struct end *end, uint8_t addr[SRD_ADDR_SIZE]);
void drive(void);
void send_bytes(size_t len);
void send_packet(struct srd_header header, const void *payload, size_t len);
/* Up to 4, without payload, all of which have come before the first is looked at. */
void send_together(const struct srd_header *headers, size_t count);
struct srd_header expect(uint8_t type);
/* Comes nothing more but HANDSHAKEs? */
bool silent(void);
void shake_hands(void);
/* A HANDSHAKE has no address: it comes from a peer that has sent something before. */
void introduce_with(uint64_t features);
void send_message(uint64_t tag, const char *text);
void receive(uint64_t tag);
/* The next completion of the endpoint under test: its error, or 0. */
int ended(void);
/* The peer that is played is heard still. */
void assert_alive(void);
/* And this is not: its packets are dropped, and nothing can be sent to it. */
void assert_dead(void);
void assert_refused(uint32_t send_id);

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)
#define SMALL(name) cmocka_unit_test_setup_teardown(name, open_small, close_all)
#define ORDERED(name) cmocka_unit_test_setup_teardown(name, open_ordered, close_all)

#endif
