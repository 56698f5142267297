/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_pingpong, shared by its files. The two sides agree over an ordinary TCP connection (the
 * control channel, pp_control.c) and exchange messages over an endpoint (pp_fabric.c, pp_run.c).
 * Both sides send over both what libfabric 1.17's program of this name sends, so either may be the
 * other side.
 */
#ifndef WEFT_TOOLS_PP_H
#define WEFT_TOOLS_PP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

enum {
    PP_TIMEOUT_MS = 30000,
    PP_TAG = 1234
};

struct pp_options {
    const char *server; /* NULL: this is the server */
    const char *source; /* -s */
    uint16_t server_port, client_port;
    unsigned long iterations;
    enum {
        PP_USUAL_SIZES,
        PP_ALL_SIZES,
        PP_ONE_SIZE
    } sizes;
    size_t size;
    bool check, verbose, tagged, ipv6;
};

struct pp {
    struct pp_options options;
    int control; /* socket, -1 when closed */

    struct fi_info *hints, *info;
    struct fid_fabric *fabric;
    struct fid_eq *eq;
    struct fid_pep *pep;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *tx_cq, *rx_cq;
    struct fid_ep *ep;
    struct fid_mr *mr;
    fi_addr_t peer;

    char *buffer; /* tx_data and rx_data are in it, each with the endpoint's prefix in front */
    char *tx_data, *rx_data;
    size_t prefix, capacity;
    struct fi_context2 tx_context, rx_context;
    uint64_t tx_posted, tx_done, rx_done;
    size_t rx_length; /* of the last message that came */
    uint64_t tx_patterns, rx_patterns;
};

/* Shows "what: why" on stderr, and returns ret. */
int pp_failed(const char *what, int ret);
void pp_debug(const struct pp *pp, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- Control channel: all 0 or a negative error that has been shown ---- */

int control_open(struct pp *pp);
void control_close(struct pp *pp);
/* The peer has hung up, or an error is pending. */
bool control_broken(const struct pp *pp);
int control_send_name(struct pp *pp, uint32_t format, const void *name, size_t len);
/* *name is malloc'd. */
int control_receive_name(struct pp *pp, uint32_t *format, void **name, size_t *len);
/* Both sides come to this point. */
int control_sync(struct pp *pp);
/* The client tells how many round trips it saw; *theirs is that number at the server. */
int control_exchange_count(struct pp *pp, unsigned long mine, unsigned long *theirs);

/* ---- Endpoint ---- */

/* Is there anything that fits the options? Asked before the other side is. */
int fabric_check(struct pp *pp);

/* Opens everything, connects or exchanges names, and posts the first receive. */
int fabric_start(struct pp *pp, size_t max_size);
void fabric_stop(struct pp *pp);

int fabric_post_receive(struct pp *pp);
/* Sends, and waits until tx_data may be used again. */
int fabric_send(struct pp *pp, size_t size);
/* Waits for a message; its length goes to rx_length. */
int fabric_receive(struct pp *pp, int timeout_ms);
/* The last message each way. */
int fabric_finish(struct pp *pp);

/* ---- Test ---- */

enum {
    PP_SIZES_MAX = 64
};

/* The sizes to run, ascending; returns how many. */
size_t run_sizes(const struct pp_options *options, size_t sizes[PP_SIZES_MAX]);
int run_size(struct pp *pp, size_t size);

#endif
