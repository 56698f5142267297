/* SPDX-License-Identifier: BSD-2-Clause */
/* The fabric object: parameters, and the control unit with the sockets that are not connected yet.
 */
#ifndef WEFT_TCP_FABRIC_H
#define WEFT_TCP_FABRIC_H

#include "core/fid.h"
#include "core/part.h"
#include "core/unit.h"

struct tcp_cm;

/* Values of the part's parameters, read once. */
struct tcp_settings {
    size_t saved_size;  /* bytes of unexpected messages kept for each endpoint */
    size_t rndv_size;   /* tagged messages above this wait at the sender */
    size_t max_inject;  /* bytes that a post can copy */
    int64_t connect_ms; /* deadline of an exchange that opens a connection */
    bool connect_given; /* the user's word, which uppers do not change */
    int port_low, port_high;
    bool nodelay;
};

struct tcp_fabric {
    struct fabric base;
    struct params *params;
    struct tcp_settings settings;
    struct unit *unit; /* locked before any unit of a domain */
    struct tcp_cm *cm;
};

/* From the parameters of tcp_params (tcp.c). */
void tcp_settings_read(struct tcp_settings *settings, const struct params *params);

int tcp_open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context);

#endif
