/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/udp/udp_traffic.h"

#include <errno.h>
#include <netinet/udp.h>
#include <string.h>

#include "core/base/log.h"

enum {
    BURST_MANY = 16,  /* more than what opens a session, or a message and its answer */
    FULL_LOOKS = 2,   /* in a row after which more than one is asked for */
    FULL_ALONE = 8,   /* likewise, where no receive is left */
    LONE_ROW = 16384, /* datagrams read one by one, after which no more are expected at once */
};

/* It stays on: the kernel has put datagrams together, which must be taken apart. */
void udp_traffic_gather(struct udp_ep *ep)
{
    int on = 1;

    if (!ep->gro_wanted || ep->gro || ep->gro_refused)
        return;
    if (!setsockopt(ep->main.fd, SOL_UDP, UDP_GRO, &on, sizeof(on))) {
        ep->gro = true;
        if (ep->hot.sock.fd >= 0)
            setsockopt(ep->hot.sock.fd, SOL_UDP, UDP_GRO, &on, sizeof(on));
        return;
    }
    ep->gro_refused = true;
    if (!atomic_exchange(&ep->fabric->said_no_offload, true))
        LOG_INFO(ep->fabric->base.part, FI_LOG_EP_DATA,
                 "datagrams are received one by one: UDP_GRO: %s", strerror(errno));
}

/* Turns on what pays where many datagrams come, and costs where they are alone. */
static __attribute__((noinline)) void expect_many(struct udp_ep *ep)
{
    ep->many = true;
    if (ep->notes)
        udp_options_ask(ep);
    udp_traffic_gather(ep);
}

/* A long time after: they are alone again. */
static __attribute__((noinline)) void expect_few(struct udp_ep *ep)
{
    ep->many = false;
    if (ep->notes)
        udp_options_ask(ep);
}

/* As many are asked for as come: one where a program waits for each, more where it is behind. It is
 * behind where looks in a row find one: two, with a receive left for another; more where each used
 * up the only receive, since the kernel tells of drops only where it is asked for more. */
void udp_traffic_follow(struct udp_ep *ep, unsigned most)
{
    if (!most)
        ep->row_len = 0;
    if (most < ep->burst) {
        ep->burst = most ? most : 1;
        ep->full = 0;
        return;
    }
    ep->full++;
    if (ep->burst > 1 || ep->full >= (recv_queue_count(&ep->posted) ? FULL_LOOKS : FULL_ALONE)) {
        ep->burst = 2 * ep->burst < UDP_BURST_MAX ? 2 * ep->burst : UDP_BURST_MAX;
        ep->lone = 0;
        if (__builtin_expect(ep->burst >= BURST_MANY && !ep->many, 0))
            expect_many(ep);
    } else if (__builtin_expect(ep->many && ++ep->lone == LONE_ROW, 0)) {
        expect_few(ep);
    }
}

void udp_traffic_want_gro(struct udp_ep *ep)
{
    if (ep->gro_wanted)
        return;
    ep->gro_wanted = true;
    if (ep->many)
        udp_traffic_gather(ep);
}
