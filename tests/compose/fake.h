/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parts without a wire, named as real ones: tcp (FI_EP_MSG), udp (FI_EP_DGRAM), shm (FI_EP_RDM),
 * loop (hidden), rxm and rxd over the first two, noop and trace (transparent), lnx and mrail (joins
 * that give RDM and packets), coll and trigger (which hints ask for).
 */
#ifndef WEFT_TESTS_COMPOSE_FAKE_H
#define WEFT_TESTS_COMPOSE_FAKE_H

#include "compose/registry.h"

extern const struct parts fake_parts;

/* Fabrics open now, and in all; the order of opens and closes as "+tcp +rxm -rxm -tcp ". */
extern int fake_open_now;
extern char fake_log[4096];
/* open_fabric number N from now fails with -FI_EIO; 0: none does. */
extern int fake_fail_open;
/* Structs' layout that a part's fabric was last opened for, by name. */
unsigned fake_abi(const char *part);
void fake_reset(void);

/* The children of a fabric that its close counts (fi_domain of a fake adds one, never removed
 * but by fake_drop_children). */
void fake_drop_children(void);

#endif
