/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack.h"

#include <dlfcn.h>
#include <stdlib.h>

enum {
    CQ_SIZE = 256
};

struct bench_library bench_lib;

void bench_check(const struct bench_stack *stack, const char *call, ssize_t rc)
{
    if (rc < 0)
        bench_die("%s: %s: %s", stack->spec, call, bench_lib.strerror((int)-rc));
}

void bench_load(const char *path)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (!handle)
        bench_die("%s", dlerror());
    *(void **)&bench_lib.dupinfo = dlsym(handle, "fi_dupinfo");
    *(void **)&bench_lib.freeinfo = dlsym(handle, "fi_freeinfo");
    *(void **)&bench_lib.getinfo = dlsym(handle, "fi_getinfo");
    *(void **)&bench_lib.fabric = dlsym(handle, "fi_fabric");
    *(void **)&bench_lib.strerror = dlsym(handle, "fi_strerror");
    if (!bench_lib.dupinfo || !bench_lib.freeinfo || !bench_lib.getinfo || !bench_lib.fabric ||
        !bench_lib.strerror)
        bench_die("%s is not a libfabric", path);
}

struct fid_cq *bench_stack_cq(struct bench_stack *stack)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .size = CQ_SIZE};
    struct fid_cq *cq;

    bench_check(stack, "fi_cq_open", fi_cq_open(stack->domain, &attr, &cq, NULL));
    return cq;
}

struct fid_ep *bench_stack_ep(struct bench_stack *stack, struct fid_cq *cq)
{
    struct fid_ep *ep;

    bench_check(stack, "fi_endpoint", fi_endpoint(stack->domain, stack->info, &ep, NULL));
    bench_check(stack, "fi_ep_bind",
                fi_ep_bind(ep, cq ? &cq->fid : &stack->cq->fid, FI_TRANSMIT | FI_RECV));
    bench_check(stack, "fi_ep_bind", fi_ep_bind(ep, &stack->av->fid, 0));
    bench_check(stack, "fi_enable", fi_enable(ep));
    return ep;
}

void bench_stack_open(struct bench_stack *stack, const char *spec, const char *node)
{
    struct fi_info *hints = bench_lib.dupinfo(NULL);
    struct fi_av_attr av = {.type = FI_AV_TABLE};

    stack->spec = spec;
    hints->caps = FI_MSG | FI_TAGGED;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->control_progress = FI_PROGRESS_CONTROL_UNIFIED;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    setenv("FI_PROVIDER", spec, 1);
    bench_check(
        stack, "fi_getinfo",
        bench_lib.getinfo(FI_VERSION(2, 0), node, NULL, node ? FI_SOURCE : 0, hints, &stack->info));
    bench_lib.freeinfo(hints);
    bench_check(stack, "fi_fabric",
                bench_lib.fabric(stack->info->fabric_attr, &stack->fabric, NULL));
    bench_check(stack, "fi_domain", fi_domain(stack->fabric, stack->info, &stack->domain, NULL));
    stack->cq = bench_stack_cq(stack);
    bench_check(stack, "fi_av_open", fi_av_open(stack->domain, &av, &stack->av, NULL));
    if (node)
        return;
    /* Several endpoints cannot share one address. */
    free(stack->info->src_addr);
    stack->info->src_addr = NULL;
    stack->info->src_addrlen = 0;
}
