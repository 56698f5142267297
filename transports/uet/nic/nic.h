/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The NIC: sends packets, receives packets. One UDP socket, from which all packets of an endpoint
 * leave and to which they come. Packets to be sent wait for uet_nic_flush, and leave together; what
 * the kernel has put together (UDP_GRO) is taken apart. Not locked.
 */
#ifndef WEFT_UET_NIC_NIC_H
#define WEFT_UET_NIC_NIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/net/addr.h"
#include "core/net/pcap.h"

enum {
    UET_NIC_QUOTE = 32,   /* bytes */
    UET_NIC_ENTROPY = 64, /* source ports */
};

struct uet_nic_settings {
    size_t rx_buffer, tx_buffer; /* bytes that the kernel is asked for */
    uint32_t packet;             /* the longest packet */
    int port;                    /* that is taken first where the address has none */
    bool shared;                 /* that port, by endpoints of several processes: */
    int slot;                    /* of these, the wanted one (nic/share.h), or -1 */
    bool elsewhere;              /* any port will do where that one, or the slot, is taken */
    uint8_t dscp;
    unsigned entropy;  /* source ports that requests leave from, by their PDC; 0: the one above */
    bool gso, gro;     /* the kernel cuts what leaves together, and puts together what comes */
    bool short_rudi;   /* as pds_header_get */
    bool crc;          /* packets have a trailer (wire/trailer.h); those without are dropped */
    union addr name;   /* of the endpoint, where the address is the any address */
    struct pcap *pcap; /* NULL: no tap */
};

struct uet_nic;

/* At addr; where its port is 0, at settings->port, or where that is taken at any. -FI_EADDRINUSE:
 * it is taken, or the slot is; -FI_EADDRNOTAVAIL, another error of the system; -FI_ENOMEM;
 * -FI_EINVAL: with a trailer, which is of both addresses, at the any address. */
int uet_nic_open(const union addr *addr, const struct uet_nic_settings *settings,
                 struct uet_nic **nic);
/* Takes NULL. Packets that wait are sent, as far as the kernel takes them. */
void uet_nic_close(struct uet_nic *nic);
const union addr *uet_nic_addr(const struct uet_nic *nic);
/* The first PIDonFEP that is the NIC's. */
uint16_t uet_nic_pid(const struct uet_nic *nic);
/* Which PDC ids are: bit b says those from 1024 b on. */
uint64_t uet_nic_ids(const struct uet_nic *nic);
/* Some more are needed. False: there are none. */
bool uet_nic_more_ids(struct uet_nic *nic);
/* Readable when packets have come. */
int uet_nic_fd(const struct uet_nic *nic);

/* A packet is to be sent; it may be lost. stays: the memory of all but the first piece stays as it
 * is until the packet has left, or uet_nic_forget was called; else it is the call's. */
void uet_nic_send(struct uet_nic *nic, const union addr *to, const struct iovec *iov, size_t count,
                  bool stays);
/* Packets that wait for uet_nic_flush. */
unsigned uet_nic_waiting(const struct uet_nic *nic);
/* Sends what waits. False: the kernel has no room for all of it, and the rest still waits. */
bool uet_nic_flush(struct uet_nic *nic);
/* Lone packets go to one peer, one after the other: uet_nic_heat gives it a socket of its own
 * (nic/hot.h). */
bool uet_nic_warms(const struct uet_nic *nic);
/* The socket, readable when packets have come, as uet_nic_fd is; it stays the same. -1: there is
 * none. */
int uet_nic_heat(struct uet_nic *nic);
/* The socket is closed, and there will be none. */
void uet_nic_freeze(struct uet_nic *nic);
/* The caller is to sleep until one of the sockets is readable. */
void uet_nic_before_sleep(struct uet_nic *nic);
/* Memory that packets which wait name is about to go: they leave now, or are lost. */
void uet_nic_forget(struct uet_nic *nic);

/* Calls `take` for packets that have come, a few at most: how many. *more: there may be others.
 * now: ns, of clock_ns. */
unsigned uet_nic_receive(struct uet_nic *nic, uint64_t now,
                         void (*take)(void *arg, const union addr *from, const uint8_t *bytes,
                                      size_t len, bool marked),
                         void *arg, bool *more);

/* When uet_nic_receive is to be called next where nothing comes. UINT64_MAX: it need not be. */
uint64_t uet_nic_due(const struct uet_nic *nic);

/* A closed port that a packet found, as the network says. */
struct uet_nic_refusal {
    union addr to;
    size_t len;
    uint8_t quote[UET_NIC_QUOTE]; /* how the packet begins */
};

/* Takes the next one, of those that sending and receiving have met. False: there is none. */
bool uet_nic_refusal(struct uet_nic *nic, struct uet_nic_refusal *refusal);
/* There may be some. */
bool uet_nic_is_refused(const struct uet_nic *nic);

/* Packets that were dropped because their trailer is wrong, or because they are too long. */
uint64_t uet_nic_damaged(const struct uet_nic *nic);
/* Packets of other endpoints at the port, which were dropped. */
uint64_t uet_nic_misled(const struct uet_nic *nic);

#endif
