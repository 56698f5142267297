/* SPDX-License-Identifier: BSD-2-Clause */
/* The fabric object: parameters, and the state shared by its event queues. */
#ifndef WEFT_TCP_FABRIC_H
#define WEFT_TCP_FABRIC_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/base/fid.h"
#include "core/base/list.h"
#include "core/net/pcap.h"
#include "core/part/part.h"
#include "core/progress/progress.h"

/* Values of the part's parameters, read once. */
struct tcp_settings {
    size_t saved_size;  /* bytes of unexpected messages kept for each endpoint */
    size_t rndv_size;   /* tagged messages above this wait at the sender */
    size_t max_inject;  /* bytes that a post can copy */
    int64_t connect_ms; /* deadline of an exchange that opens a connection */
    bool connect_given; /* the user's word, which uppers do not change */
    int port_low, port_high;
    bool nodelay;
    bool coalesce;
    bool uring;               /* asked for */
    size_t local_buffer_size; /* SO_SNDBUF of connections inside of the host; SIZE_MAX: no word */
    size_t
        zero_copy_size; /* payloads from here on are sent without a copy, where there is a ring */
};

struct tcp_fabric {
    struct fabric base;
    struct params *params;
    struct tcp_settings settings;
    struct pcap *pcap; /* NULL: off */
    pthread_mutex_t
        cms_mutex;     /* of cms and control_auto; taken before the progress domain of any */
    struct list cms;   /* struct tcp_cm, one for each event queue */
    bool control_auto; /* a domain's connections are opened without calls */
    pthread_mutex_t raised_mutex; /* of raised; taken last */
    struct list raised;           /* requests that the application has not answered */
    atomic_bool no_uring_said;
};

/* Connections are opened by threads from now on. */
int tcp_fabric_start_control(struct tcp_fabric *fabric);

/* A set cannot have a ring because rc (negative) was the answer to `what`: said once. */
void tcp_fabric_say_no_uring(struct tcp_fabric *fabric, const char *what, int rc);

int tcp_open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context);

#endif
