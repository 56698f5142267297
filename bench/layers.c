/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a layer costs: one process, two endpoints on an in-memory transport, batches of receives,
 * sends and completion reads, timed call by kind. Windows of the stacks interleave; the figure of
 * a stack is the median, and its difference to the first stack is what its layers add.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>

#include "bench.h"

enum {
    BATCH = 64,
    ROUNDS = 400,
    WINDOWS = 41,
    STACKS_MAX = 8,
    KINDS = 3
};

static const char *const kind_names[KINDS] = {"fi_trecv", "fi_tsend", "completion"};

struct stack {
    const char *spec;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_ep *ep[2];
    fi_addr_t to;
    double ns[KINDS][WINDOWS];
    char data[2][64];
};

static struct {
    struct fi_info *(*dupinfo)(const struct fi_info *info);
    void (*freeinfo)(struct fi_info *info);
    int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
                   const struct fi_info *hints, struct fi_info **info);
    int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
    const char *(*strerror)(int err);
} lib;

static void check(const struct stack *stack, const char *call, ssize_t rc)
{
    if (rc < 0)
        bench_die("%s: %s: %s", stack->spec, call, lib.strerror((int)-rc));
}

static void load(const char *path)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (!handle)
        bench_die("%s", dlerror());
    *(void **)&lib.dupinfo = dlsym(handle, "fi_dupinfo");
    *(void **)&lib.freeinfo = dlsym(handle, "fi_freeinfo");
    *(void **)&lib.getinfo = dlsym(handle, "fi_getinfo");
    *(void **)&lib.fabric = dlsym(handle, "fi_fabric");
    *(void **)&lib.strerror = dlsym(handle, "fi_strerror");
    if (!lib.dupinfo || !lib.freeinfo || !lib.getinfo || !lib.fabric || !lib.strerror)
        bench_die("%s is not a libfabric", path);
}

static void open_ep(struct stack *stack, int i)
{
    check(stack, "fi_endpoint", fi_endpoint(stack->domain, stack->info, &stack->ep[i], NULL));
    check(stack, "fi_ep_bind", fi_ep_bind(stack->ep[i], &stack->cq->fid, FI_TRANSMIT | FI_RECV));
    check(stack, "fi_ep_bind", fi_ep_bind(stack->ep[i], &stack->av->fid, 0));
    check(stack, "fi_enable", fi_enable(stack->ep[i]));
}

static void open_stack(struct stack *stack, const char *spec)
{
    struct fi_info *hints = lib.dupinfo(NULL);
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .size = 4 * BATCH};
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    char address[256];
    size_t len = sizeof address;

    stack->spec = spec;
    hints->caps = FI_MSG | FI_TAGGED;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->control_progress = FI_PROGRESS_CONTROL_UNIFIED;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    setenv("FI_PROVIDER", spec, 1);
    check(stack, "fi_getinfo", lib.getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &stack->info));
    lib.freeinfo(hints);
    check(stack, "fi_fabric", lib.fabric(stack->info->fabric_attr, &stack->fabric, NULL));
    check(stack, "fi_domain", fi_domain(stack->fabric, stack->info, &stack->domain, NULL));
    check(stack, "fi_cq_open", fi_cq_open(stack->domain, &cq, &stack->cq, NULL));
    check(stack, "fi_av_open", fi_av_open(stack->domain, &av, &stack->av, NULL));
    free(stack->info->src_addr);
    stack->info->src_addr = NULL;
    stack->info->src_addrlen = 0;
    open_ep(stack, 0);
    open_ep(stack, 1);
    check(stack, "fi_getname", fi_getname(&stack->ep[1]->fid, address, &len));
    if (fi_av_insert(stack->av, address, 1, &stack->to, 0, NULL) != 1)
        bench_die("%s: fi_av_insert fails", spec);
}

static void reap(struct stack *stack, int count)
{
    struct fi_cq_tagged_entry entry;

    while (count) {
        ssize_t n = fi_cq_read(stack->cq, &entry, 1);

        if (n == 1)
            count--;
        else if (n != -FI_EAGAIN)
            check(stack, "fi_cq_read", n);
    }
}

static void post(struct stack *stack, int kind)
{
    ssize_t rc = -FI_EAGAIN;

    while (rc == -FI_EAGAIN) {
        if (kind == 0)
            rc = fi_trecv(stack->ep[1], stack->data[1], 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL);
        else
            rc = fi_tsend(stack->ep[0], stack->data[0], 8, NULL, stack->to, 1, NULL);
    }
    check(stack, kind_names[kind], rc);
}

static void window(struct stack *stack, int w)
{
    uint64_t ns[KINDS] = {0};

    for (int round = 0; round < ROUNDS; round++) {
        uint64_t t = bench_now(), next;

        for (int kind = 0; kind < KINDS; kind++) {
            for (int i = 0; i < BATCH && kind < 2; i++)
                post(stack, kind);
            if (kind == 2)
                reap(stack, 2 * BATCH);
            next = bench_now();
            ns[kind] += next - t;
            t = next;
        }
    }
    stack->ns[0][w] = (double)ns[0] / ROUNDS / BATCH;
    stack->ns[1][w] = (double)ns[1] / ROUNDS / BATCH;
    stack->ns[2][w] = (double)ns[2] / ROUNDS / BATCH / 2;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

int bench_layers(const char *library, char **specs, int count)
{
    static struct stack stacks[STACKS_MAX];

    if (count > STACKS_MAX)
        bench_die("at most %d stacks", STACKS_MAX);
    load(library);
    for (int s = 0; s < count; s++)
        open_stack(&stacks[s], specs[s]);
    for (int w = 0; w < WINDOWS; w++)
        for (int s = 0; s < count; s++)
            window(&stacks[s], w);
    printf("%-32s %12s %12s %12s   ns a call (added to the first stack)\n", "stack", kind_names[0],
           kind_names[1], kind_names[2]);
    for (int s = 0; s < count; s++) {
        printf("%-32s", stacks[s].spec);
        for (int kind = 0; kind < KINDS; kind++) {
            qsort(stacks[s].ns[kind], WINDOWS, sizeof(double), ascending);
            printf(" %5.1f (%+4.1f)", stacks[s].ns[kind][WINDOWS / 2],
                   stacks[s].ns[kind][WINDOWS / 2] - stacks[0].ns[kind][WINDOWS / 2]);
        }
        printf("\n");
    }
    return 0;
}
