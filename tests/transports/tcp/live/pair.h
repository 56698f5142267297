/* SPDX-License-Identifier: BSD-2-Clause */
/* Two connected endpoints in one process, and what tests do with them. Everything is manual
 * progress: nothing moves but in calls. Failures are assertions. */
#ifndef WEFT_TESTS_TCP_PAIR_H
#define WEFT_TESTS_TCP_PAIR_H

#include <netinet/in.h>
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
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

struct options {
    const char *spec; /* NULL: "tcp" */
    const char *node; /* NULL: "127.0.0.1" */
    bool shared;      /* receives through a shared context, tags */
    bool selective;   /* of both queues */
    bool automatic;   /* FI_PROGRESS_AUTO */
    size_t tx_size;
    uint64_t tx_op_flags;
    uint64_t caps; /* beside the usual ones */
};

struct side {
    struct fid_domain *domain;
    struct fid_cq *tx, *rx;
    struct fid_cntr *remote_writes;
    struct fid_ep *srx; /* or NULL */
    struct fid_ep *ep;
};

struct pair {
    struct options options;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_eq *eq;
    struct fid_pep *pep;
    struct sockaddr_storage address; /* of pep */
    size_t address_len;
    struct side a, b; /* a connected, b accepted */
};

/* Fabric, EQ, a listening endpoint. */
void pair_listen(struct pair *pair, const struct options *options);
/* A domain with queues and an endpoint for info, enabled. */
void side_open(struct pair *pair, struct side *side, struct fi_info *info);
void side_close(struct side *side);
/* All of it, connected. */
void pair_open(struct pair *pair, const struct options *options);
void pair_close(struct pair *pair);
/* One more connection of the pair's domains, on their queues and shared contexts, if any. */
void connect_another(struct pair *pair, struct fid_ep **a, struct fid_ep **b);

/* The next event of the EQ within a minute, which must be `want`; entry gets it. */
void expect_event(struct pair *pair, uint32_t want, struct fi_eq_cm_entry *entry);
/* The next is an error; returns its code. */
int expect_error_event(struct pair *pair, struct fi_eq_err_entry *error);
void expect_no_event(struct pair *pair);

/* One completion of cq, driving the other queues of the pair, within a minute. */
void expect_completion(struct pair *pair, struct fid_cq *cq, struct fi_cq_tagged_entry *entry);
/* A receive of b into `in`, then a send of a from `out`; their buffers are their contexts. */
void receive_and_send(struct pair *pair, void *in, const void *out, size_t len);
/* The completions of both. */
void expect_both(struct pair *pair, const void *in, const void *out, size_t len);
/* An error entry of cq; returns its code. */
int expect_failure(struct pair *pair, struct fid_cq *cq, struct fi_cq_err_entry *error);
void expect_nothing(struct fid_cq *cq);
/* Drives everything for a while. */
void settle(struct pair *pair);

void fill(void *buf, size_t len, unsigned seed);
void check_filled(const void *buf, size_t len, unsigned seed);
long long now_ms(void);

/* The io_urings of this process; a pair of spec would have some. */
int rings(void);
bool have_rings(const char *spec);

/* A TCP socket connected to pep; a listening one with its address. */
int raw_connect(const struct pair *pair);
int raw_listen(struct sockaddr_in *address);
/* The same, and nothing listens there. */
int raw_bind(struct sockaddr_in *address);

#endif
