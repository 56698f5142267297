/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cross-memory attach: the kernel copies between two processes. Only towards or from memory that
 * the peer named in its own request, of the process that the kernel says the peer is.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "transports/shm/shm_op.h"

enum {
    STEP = 512 << 10,  /* bytes of one operation in a round */
    PROBE = 256 << 10, /* bytes of the measurement */
    PROBES = 5,
};

/* ---- Is it worth while? ---- */

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static bool faster;

/* The kernel's single copy against one of two copies that run at the same time on two cores. */
static void measure(void)
{
    char *from = malloc(PROBE), *to = malloc(PROBE);
    uint64_t copy = UINT64_MAX, cross = UINT64_MAX;

    if (!from || !to)
        goto out;
    memset(from, 1, PROBE);
    memset(to, 2, PROBE);
    for (int i = 0; i < PROBES; i++) {
        struct iovec local = {to, PROBE}, remote = {from, PROBE};
        uint64_t start = now_ns(), middle;

        if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != PROBE)
            goto out;
        middle = now_ns();
        memcpy(to, from, PROBE);
        if (middle - start < cross)
            cross = middle - start;
        if (now_ns() - middle < copy)
            copy = now_ns() - middle;
    }
    faster = cross < copy + copy / 4;
out:
    free(from);
    free(to);
}

static bool is_faster(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, measure);
    return faster;
}

bool shm_cross_wanted(struct shm_link *link, bool write)
{
    enum shm_cma cma = link->ep->domain->fabric->cma;

    if (cma == SHM_CMA_OFF || !link->pid || !(write ? link->cross_write : link->cross_read))
        return false;
    return cma == SHM_CMA_ON || is_faster();
}

/* ---- Doing it ---- */

void shm_cross_start(struct shm_op *op)
{
    struct shm_ep *ep = op->link->ep;

    list_attach(&op->work, &ep->crosses);
    if (!ep->in_progress)
        shm_wake(ep);
}

/* What is left of a list of segments behind `at` bytes, at most STEP bytes of it. */
static size_t rest(const struct iovec *all, size_t count, size_t at, size_t most,
                   struct iovec *left)
{
    size_t used = 0;

    for (size_t i = 0; i < count && most; i++) {
        if (at >= all[i].iov_len) {
            at -= all[i].iov_len;
            continue;
        }
        left[used].iov_base = (char *)all[i].iov_base + at;
        left[used].iov_len = all[i].iov_len - at < most ? all[i].iov_len - at : most;
        at = 0;
        most -= left[used++].iov_len;
    }
    return used;
}

static ssize_t attach(struct shm_op *op)
{
    size_t most = op->len - op->at < STEP ? op->len - op->at : STEP;
    struct iovec here[SHM_PIECES], there[SHM_IOV_LIMIT];
    size_t here_count = rest(op->iov, op->count, op->at, most, here);
    size_t there_count = rest(op->there, op->there_count, op->at, most, there);

    if (op->role == SHM_GIVER)
        return process_vm_writev(op->link->pid, here, here_count, there, there_count, 0);
    return process_vm_readv(op->link->pid, here, here_count, there, there_count, 0);
}

/* The kernel says no: from now on the link copies, this operation from its start. */
static void refused(struct shm_op *op)
{
    struct shm_link *link = op->link;

    list_detach(&op->work);
    op->at = op->index = op->offset = 0;
    op->there_count = 0;
    if (op->role == SHM_GIVER) {
        link->cross_write = false;
        shm_give(op);
    } else {
        link->cross_read = false;
        shm_fetch(op);
    }
}

void shm_cross_step(struct shm_ep *ep)
{
    list_for_each_safe (pos, after, &ep->crosses) {
        struct shm_op *op = list_item(pos, struct shm_op, work);
        ssize_t n = attach(op);

        if (n <= 0) {
            refused(op);
            continue;
        }
        op->at += (size_t)n;
        if (op->at < op->len)
            continue;
        list_detach(&op->work);
        if (op->role == SHM_GIVER) {
            shm_control_fin(op->link, op->remote);
            shm_remote_done(ep, op);
        } else {
            shm_fetched(op);
        }
    }
}
