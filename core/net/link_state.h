/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which links of this network namespace are up, as the kernel tells (rtnetlink(7)): a descriptor,
 * readable when one has changed. A link is up while its interface is, and has a carrier.
 */
#ifndef WEFT_CORE_NET_LINK_STATE_H
#define WEFT_CORE_NET_LINK_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reports the state of one interface. */
typedef void link_state_told(void *arg, unsigned index, bool up);

/* *fd does not block; its first messages report every interface. Negative error: the kernel gives
 * no socket for link states; -FI_ENOSYS: this library was built without linux/rtnetlink.h. */
int link_state_open(int *fd);
/* Reports the changes that the kernel has sent since. False: the descriptor is of no use any
 * more. */
bool link_state_read(int fd, link_state_told *told, void *arg);
/* The pure step: messages of the kernel. Truncated messages, and kinds other than links, are
 * skipped. */
void link_state_parse(const uint8_t *bytes, size_t len, link_state_told *told, void *arg);

#endif
