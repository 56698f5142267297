/* SPDX-License-Identifier: BSD-2-Clause */
/* The infos of udp: one for each address of a chosen interface. */
#ifndef WEFT_UDP_INFO_H
#define WEFT_UDP_INFO_H

#include "core/ep/recv_queue.h"
#include "core/part/part.h"

enum {
    UDP_IOV_LIMIT = RECV_QUEUE_IOV, /* segments of a message */
    UDP_SIZE = 4096,                /* tx_size and rx_size, unless less is asked */
};

/* `offer` of the part table. */
int udp_offer(const struct request *req, const struct fi_info *lower, struct fi_info **info);

/* The longest message of an interface: its MTU without the headers of IP and UDP, at most what
 * their length fields can say. 0: there is no room for one byte. */
size_t udp_message_max(int family, int mtu);

#endif
