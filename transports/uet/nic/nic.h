/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The NIC: sends packets, receives packets. One UDP socket, from which all packets of an endpoint
 * leave and to which they come. Not locked.
 */
#ifndef WEFT_UET_NIC_NIC_H
#define WEFT_UET_NIC_NIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/net/addr.h"

enum {
    UET_NIC_BATCH = 32, /* packets that are received at once, at most */
};

struct uet_nic_settings {
    size_t rx_buffer, tx_buffer; /* bytes that the kernel is asked for */
    uint32_t packet;             /* the longest packet */
    int port;                    /* that is taken first where the address has none */
    uint8_t dscp;
};

struct uet_nic;

/* At addr; where its port is 0, at settings->port, or where that is taken at any. -FI_EADDRINUSE,
 * -FI_EADDRNOTAVAIL, another error of the system; -FI_ENOMEM. */
int uet_nic_open(const union addr *addr, const struct uet_nic_settings *settings,
                 struct uet_nic **nic);
/* Takes NULL. */
void uet_nic_close(struct uet_nic *nic);
const union addr *uet_nic_addr(const struct uet_nic *nic);
/* Readable when packets have come. */
int uet_nic_fd(const struct uet_nic *nic);
/* False: the kernel has no room, or refuses; the packet is lost. */
bool uet_nic_send(struct uet_nic *nic, const union addr *to, const struct iovec *iov, size_t count);
/* Calls `take` for packets that have come, a batch at most; how many there were. */
unsigned uet_nic_receive(struct uet_nic *nic,
                         void (*take)(void *arg, const union addr *from, const uint8_t *bytes,
                                      size_t len, bool marked),
                         void *arg);

/* The longest payload that is legal (1024, 2048, 4096, 8192 bytes) and fits packets of an interface
 * with this MTU. 0: none does. */
uint32_t uet_nic_payload(int mtu);

#endif
