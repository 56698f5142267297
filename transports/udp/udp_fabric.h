/* SPDX-License-Identifier: BSD-2-Clause */
/* Fabric and domain: parameters, and the capture that all endpoints write. */
#ifndef WEFT_UDP_FABRIC_H
#define WEFT_UDP_FABRIC_H

#include <stdatomic.h>

#include "core/domain/plain_fabric.h"
#include "core/net/pcap.h"
#include "core/part/part.h"
#include "core/progress/progress.h"

/* Values of the part's parameters, read once. */
struct udp_settings {
    int port_low, port_high;
    size_t rx_buffer, tx_buffer; /* bytes; 0: the kernel's */
    bool rx_given, tx_given;     /* the user's word */
    int busy_poll;               /* microseconds; 0: the kernel's */
    bool gso, gro;
};

struct udp_fabric {
    union {
        struct plain_fabric plain; /* its control: also what the network says of sent datagrams */
        struct fabric base;        /* plain.base */
    };
    struct udp_settings settings;
    struct pcap *pcap;           /* NULL: off */
    atomic_bool said_rx_buffer;  /* that the kernel gives less: once */
    atomic_bool said_tx_buffer;  /* the same */
    atomic_bool said_busy_poll;  /* that the kernel refuses: once */
    atomic_bool said_no_offload; /* the same, of UDP_SEGMENT and UDP_GRO */
};

struct udp_domain {
    struct domain base;
    struct udp_fabric *fabric;
};

int udp_open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context);

#endif
