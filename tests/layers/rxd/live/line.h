/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A line between two hosts: a veth between two network namespaces, as two hosts, with a bucket of
 * tokens (tbf) in front of each end; and endpoints of processes there, which tell each other their
 * names in memory that they share.
 */
#ifndef WEFT_TESTS_LAYERS_RXD_LIVE_LINE_H
#define WEFT_TESTS_LAYERS_RXD_LIVE_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include <rdma/fabric.h>

enum {
    LINE_ENDS = 2
};

struct line_host {
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_cq *cq; /* FI_CQ_FORMAT_MSG, FI_WAIT_UNSPEC */
    struct fid_av *av;
    struct fid_ep *ep;
    fi_addr_t peer;
};

struct line_name {
    char name[64];
    volatile int named;
};

/* The interface of each end is `line`, 10.79.0.1 and 10.79.0.2. False without the right to make
 * namespaces, and where the kernel has no tbf. */
bool line_make(unsigned mbit, unsigned mtu);
void line_remove(void);
/* The namespace of an end. */
const char *line_space(int end);

/* Of a process of its own, which ends when the caller's does: its network is that of the end. */
void line_enter(int end);
/* Ends the process with a line, unless rc is 0. */
void line_must(long rc, const char *what);
/* An endpoint for messages, by a stack. */
void line_open(struct line_host *host, const char *stack);
/* names: of both ends, in memory that they share, all 0 before. */
void line_meet(struct line_host *host, struct line_name names[LINE_ENDS], int end);

#endif
