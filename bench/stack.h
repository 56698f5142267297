/* SPDX-License-Identifier: BSD-2-Clause */
/* A domain with endpoints of any libfabric.so.1, for figures of one process or two. Errors end the
 * process with a message. */
#ifndef WEFT_BENCH_STACK_H
#define WEFT_BENCH_STACK_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>

#include "bench.h"

struct bench_library {
    struct fi_info *(*dupinfo)(const struct fi_info *info);
    void (*freeinfo)(struct fi_info *info);
    int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
                   const struct fi_info *hints, struct fi_info **info);
    int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
    const char *(*strerror)(int err);
};

struct bench_stack {
    const char *spec;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_cq *cq;
    struct fid_av *av;
};

/* The one library that all stacks of a process use. */
extern struct bench_library bench_lib;
void bench_load(const char *path);

/* Everything but endpoints, with FI_THREAD_DOMAIN and unified progress: no lock is needed. node:
 * NULL, or the host that endpoints are on. */
void bench_stack_open(struct bench_stack *stack, const char *spec, const char *node);
/* An endpoint on stack->av whose completions come to cq (NULL: the stack's). */
struct fid_ep *bench_stack_ep(struct bench_stack *stack, struct fid_cq *cq);
struct fid_cq *bench_stack_cq(struct bench_stack *stack);

/* Ends the process unless rc >= 0. */
void bench_check(const struct bench_stack *stack, const char *call, ssize_t rc);

#endif
