/* SPDX-License-Identifier: BSD-2-Clause */
/* Two endpoints of one process that know each other, datagrams unless another type is asked, and
 * what tests do with them. Everything is manual progress unless asked. Failures are assertions. */
#ifndef WEFT_TESTS_UDP_ENDS_H
#define WEFT_TESTS_UDP_ENDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include "../../../../core/base/seam.h"

struct end;

struct options {
    const char *spec;     /* NULL: "udp" */
    enum fi_ep_type type; /* 0: FI_EP_DGRAM */
    const char *node;     /* NULL: "127.0.0.1", or, with a port, none */
    const char *port;     /* NULL: any */
    uint32_t format;      /* of addresses; 0: any */
    uint64_t caps;        /* beside FI_MSG */
    bool selective;       /* of both queues */
    bool automatic;       /* FI_PROGRESS_AUTO */
    bool alone;           /* the caller's thread is the only one: there is no lock */
    bool no_eq;
    enum fi_wait_obj wait;            /* 0: none */
    size_t min_multi_recv;            /* 0: as it is */
    void (*prepare)(struct end *end); /* before it is enabled; or NULL */
};

struct end {
    struct options options;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_eq *eq;
    struct fid_cq *tx, *rx;
    struct fid_cntr *sent, *received;
    struct fid_av *av;
    struct fid_ep *ep;
    fi_addr_t peer;
};

/* The infos of the options; NULL: there are none. */
struct fi_info *ask(const struct options *options);
void end_open(struct end *end, const struct options *options);
void end_close(struct end *end);
/* Inserts end's address into to's AV. */
fi_addr_t introduce(struct end *to, const struct end *end);
void ends_open(const struct options *options);
void ends_close(void);
extern struct end a, b;

/* One completion of cq within a minute, driving both ends; its source in *src, if that is not NULL.
 * */
struct fi_cq_tagged_entry expect(struct fid_cq *cq, void *context, fi_addr_t *src);
/* An error entry with that context and code. */
struct fi_cq_err_entry expect_failure(struct fid_cq *cq, void *context, int err);
void expect_nothing(struct fid_cq *cq);
/* The next event of the queue is an error with that code. */
struct fi_eq_err_entry expect_event_error(struct fid_eq *eq, int err);
void drive(void);

/* fi_send and fi_recv, whose buffers are their contexts. */
void send_to(struct end *from, fi_addr_t to, const void *buf, size_t len);
void receive(struct end *end, void *buf, size_t len);
void receive_multi(struct end *end, void *buf, size_t len);
/* A few bytes from a to b, until both ends have the completion. */
void exchange_few(void);
/* fi_sendmsg of one segment with flags; again while there is no room. */
void send_flags(struct end *from, fi_addr_t to, const void *buf, size_t len, uint64_t flags);

void fill(void *buf, size_t len, unsigned seed);
void check_filled(const void *buf, size_t len, unsigned seed);

/* ---- Trains (OPT_TRAINS) ---- */

/* As the layer of that endpoint asks for its port, and sets it: an error, or 0. */
int ask_train_port(struct end *end, const struct fid_ep *of, struct train_port *port);
int set_train_port(struct end *end, const struct train_port *port, size_t len);
/* That of the layer right above. */
struct train_port train_port_of(struct end *end);

#endif
