/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A tap: records the traffic of a transport's sockets in a pcapng file that any reader of such
 * files opens. The bytes are those of the streams and datagrams; the IP, TCP and UDP headers around
 * them are made up (real addresses and ports, sequence numbers that fit), since a socket shows no
 * others.
 *
 * Transports keep a flow for each connection and call it with the bytes sent and received: `if
 * (pcap_on(flow)) pcap_sent(flow, iov, count, bytes);`. A flow is NULL when the tap is off. Any
 * thread; a call takes the tap's lock and writes the file. One file for each path and process; a
 * connection of which both ends are in it is recorded once.
 */
#ifndef WEFT_CORE_NET_PCAP_H
#define WEFT_CORE_NET_PCAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "core/base/path.h"

struct params;
struct pcap;
struct pcap_flow;

/*
 * By the parameters "pcap", "pcap_limit" and "pcap_snap" (PCAP_PARAMS) of the part that is called
 * `part`. *tap is NULL when "pcap" is not set. A file that cannot be written is shown to the user,
 * and a negative errno. Each success wants a pcap_close, which takes NULL.
 */
int pcap_open(const char *part, const struct params *params, struct pcap **pcap);
void pcap_close(struct pcap *pcap);

/* Entries for a part's table of parameters. */
#define PCAP_PARAMS                                                                                \
    {.key = "pcap",                                                                                \
     .type = PARAM_STRING,                                                                         \
     .check = path_check,                                                                          \
     .help = "Writes what goes over sockets into this file (pcapng, for Wireshark): %p is "        \
             "the process, %h the host."},                                                         \
        {.key = "pcap_limit",                                                                      \
         .type = PARAM_SIZE,                                                                       \
         .default_text = "1g",                                                                     \
         .min = 4096,                                                                              \
         .max = INT64_MAX,                                                                         \
         .help = "The capture ends when its file would become larger than this."},                 \
    {                                                                                              \
        .key = "pcap_snap", .type = PARAM_SIZE, .default_text = "256k", .min = 64, .max = 1 << 18, \
        .help = "Bytes of each packet that are kept, its headers included."                        \
    }

/* The connection of fd, a connected socket. active: this side dialled. NULL without a tap, without
 * memory, and for other than IP sockets. pcap_flow_close takes NULL. */
struct pcap_flow *pcap_flow_open(struct pcap *pcap, int fd, bool active);
void pcap_flow_close(struct pcap_flow *flow);

static inline bool pcap_on(const struct pcap_flow *flow)
{
    return __builtin_expect(flow != NULL, 0);
}

/* The first `bytes` of the iov. errno is as before. */
void pcap_sent(struct pcap_flow *flow, const struct iovec *iov, size_t count, size_t bytes);
void pcap_received(struct pcap_flow *flow, const struct iovec *iov, size_t count, size_t bytes);

/* The same for one buffer. */
void pcap_sent_buffer(struct pcap_flow *flow, const void *buf, size_t bytes);
void pcap_received_buffer(struct pcap_flow *flow, const void *buf, size_t bytes);

/* A socket for datagrams, bound to addr. NULL as for pcap_flow_open; pcap_flow_close takes it, too.
 * A datagram between two of the tap's sockets is recorded once, when it is sent. */
struct pcap_flow *pcap_socket_open(struct pcap *pcap, const struct sockaddr *addr);
/* One datagram to or from peer: the first `bytes` of the iov, skip bytes in. errno is as before. */
void pcap_datagram(struct pcap_flow *flow, bool inbound, const struct sockaddr *peer,
                   const struct iovec *iov, size_t count, size_t skip, size_t bytes);

#endif
