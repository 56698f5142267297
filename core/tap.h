/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A tap: what goes over a transport's connections, into a pcapng file that any reader of such files
 * opens. The bytes are those of the streams; the IP and TCP headers around them are made up (real
 * addresses and ports, sequence numbers that fit), since a socket shows no others.
 *
 * Transports keep a flow for each connection and call it with what they have sent and received:
 * `if (tap_on(flow)) tap_sent(flow, iov, count, bytes);`. A flow is NULL when the tap is off. Any
 * thread; a call takes the tap's lock and writes the file. One file for each path and process; a
 * connection of which both ends are in it is recorded once.
 */
#ifndef WEFT_CORE_TAP_H
#define WEFT_CORE_TAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct params;
struct tap;
struct tap_flow;

/*
 * By the parameters "pcap", "pcap_limit" and "pcap_snap" (TAP_PARAMS) of the part that is called
 * `part`. *tap is NULL when "pcap" is not set. A file that cannot be written is shown to the user,
 * and a negative errno. Each success wants a tap_close, which takes NULL.
 */
int tap_open(const char *part, const struct params *params, struct tap **tap);
void tap_close(struct tap *tap);

/* Entries for a part's table of parameters. */
#define TAP_PARAMS                                                                                 \
    {.key = "pcap",                                                                                \
     .type = PARAM_STRING,                                                                         \
     .help = "Writes what goes over connections into this file (pcapng, for Wireshark): %p is "    \
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
 * memory, and for other than IP sockets. tap_flow_close takes NULL. */
struct tap_flow *tap_flow_open(struct tap *tap, int fd, bool active);
void tap_flow_close(struct tap_flow *flow);

static inline bool tap_on(const struct tap_flow *flow)
{
    return __builtin_expect(flow != NULL, 0);
}

/* The first `bytes` of what the iov hold. errno is as before. */
void tap_sent(struct tap_flow *flow, const struct iovec *iov, size_t count, size_t bytes);
void tap_received(struct tap_flow *flow, const struct iovec *iov, size_t count, size_t bytes);

/* The same for one buffer. */
void tap_sent_buffer(struct tap_flow *flow, const void *buf, size_t bytes);
void tap_received_buffer(struct tap_flow *flow, const void *buf, size_t bytes);

#endif
