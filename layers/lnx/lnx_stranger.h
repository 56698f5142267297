/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers that ask for keys and are not in our address vector: an initiator need not be. It says its
 * address in messages of the join's own (lnx_keys.h), four bytes each:
 *
 *   bits 49-55  number of the message, from 0
 *   bits 32-48  the endpoint, as it names itself in its questions; not 0
 *   bits 0-31   0: length of the address; others: four bytes of it, the first one lowest
 *
 * The address is inserted into the branch's AV for answers alone: such a peer is no source.
 * All calls: progress domain locked.
 */
#ifndef WEFT_LAYERS_LNX_LNX_STRANGER_H
#define WEFT_LAYERS_LNX_LNX_STRANGER_H

#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>

enum {
    LNX_STRANGER_BITS = 17, /* of the name */
    LNX_STRANGERS = 64,     /* of an AV; then the oldest is forgotten */
};

struct lnx_av;

/* Builds the message `number` of the address `name`, or of its length, with its first four
 * bytes. */
static inline uint64_t lnx_stranger_message(uint32_t name, unsigned number, uint32_t bytes)
{
    return (uint64_t)number << 49 | (uint64_t)name << 32 | bytes;
}

/* Such a message, without what names its kind, has come by that branch. */
void lnx_stranger_message_came(struct lnx_av *av, unsigned branch, uint64_t message);
/* The branch's number of the peer, or FI_ADDR_UNSPEC: it has not said its address. */
fi_addr_t lnx_stranger_addr(const struct lnx_av *av, unsigned branch, uint32_t name);
/* The application inserts that address of a branch's: it is no stranger's any more. */
void lnx_stranger_forget(struct lnx_av *av, unsigned branch, const void *addr);
void lnx_strangers_finish(struct lnx_av *av);

#endif
