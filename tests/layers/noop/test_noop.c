/* SPDX-License-Identifier: BSD-2-Clause */
/* The cost of each noop of a stack: one call on the lower, no lock, no allocation; and nanoseconds,
 * which are shown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

#include <rdma/fi_errno.h>

#include "../../support/nomem.h"
#include "core/base/enosys.h"
#include "core/domain/base.h"
#include "core/info/abi.h"
#include "core/info/info.h"
#include "core/part/part.h"
#include "core/queue/cq.h"
#include "tests/support/enosys_tables.h"

extern const struct part noop_part;

#define DEPTH 8
#define ROUNDS 5000
#define WINDOWS 60 /* of which the fastest counts: the machine does other things too */

/* Counts every lock of this process. */
static int locks;

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    static int (*lock)(pthread_mutex_t *);

    if (!lock)
        *(void **)&lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
    locks++;
    return lock(mutex);
}

/* ---- The end of the stack: a fabric whose endpoint counts sends ---- */

static struct fabric fabric;
static struct domain domain;
static struct fid_ep bottom_ep;
static struct cq *bottom_cq;
static int sends;

static ssize_t count_send(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                          fi_addr_t dest_addr, void *context)
{
    sends++;
    return (ssize_t)len;
}

static int close_nothing(struct fid *fid)
{
    return 0;
}

static struct fi_ops fid_ops = {
    .size = sizeof(fid_ops),
    .close = close_nothing,
    .bind = enosys_bind,
    .control = enosys_control,
};
static struct fi_ops_msg msg_ops;
static struct fi_ops_domain domain_ops;
static struct fi_ops_fabric fabric_ops;

static int open_ep(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ep, void *context)
{
    msg_ops = (struct fi_ops_msg){.size = sizeof(msg_ops)};
    msg_ops.send = count_send;
    fid_init(&bottom_ep.fid, FI_CLASS_EP, context, &fid_ops);
    bottom_ep.msg = &msg_ops;
    *ep = &bottom_ep;
    return 0;
}

static int open_cq(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **cq,
                   void *context)
{
    int rc = cq_open(&domain, attr, cq, context);

    if (!rc)
        bottom_cq = object_of(*cq, struct cq, fid);
    return rc;
}

static int close_domain(struct fid *fid)
{
    domain_finish(&domain);
    return 0;
}

static struct fi_ops domain_fid_ops = {.size = sizeof(domain_fid_ops), .close = close_domain};

static int open_domain(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **ret_domain,
                       void *context)
{
    domain_ops = enosys_domain_ops;
    domain_ops.endpoint = open_ep;
    domain_ops.cq_open = open_cq;
    *ret_domain = &domain.fid;
    return domain_init(&domain, &fabric, info, &domain_fid_ops, &domain_ops, &enosys_mr_ops,
                       context);
}

/* ---- Stacks of noops over it ---- */

static struct lower holds[DEPTH];

static int close_hold(struct lower *lower)
{
    return lower->fabric == &fabric.fid ? 0 : fi_close(&lower->fabric->fid);
}

struct stack {
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_ep *ep;
};

static void open_stack(int depth, struct stack *stack)
{
    struct open_args args = {
        .part = &noop_part, .api_version = FI_VERSION(2, 6), .abi = ABI_1_9, .lower_count = 1};
    struct fi_info *info = info_alloc();

    info->domain_attr->threading = FI_THREAD_DOMAIN;
    info->domain_attr->control_progress = FI_PROGRESS_CONTROL_UNIFIED;
    fabric_ops = enosys_fabric_ops;
    fabric_ops.domain = open_domain;
    fabric_init(&fabric, &args, &fid_ops, &fabric_ops, NULL);
    stack->fabric = &fabric.fid;
    for (int i = 0; i < depth; i++) {
        struct lower *hold = &holds[i];

        *hold = (struct lower){.fabric = stack->fabric, .peer = true, .close = close_hold};
        args.lowers = &hold;
        assert_int_equal(noop_part.open_fabric(&args, &stack->fabric, NULL), 0);
    }
    assert_int_equal(fi_domain(stack->fabric, info, &stack->domain, NULL), 0);
    assert_int_equal(fi_endpoint(stack->domain, info, &stack->ep, NULL), 0);
    info_free(info);
}

static void close_stack(struct stack *stack)
{
    assert_int_equal(fi_close(&stack->ep->fid), 0);
    assert_int_equal(fi_close(&stack->domain->fid), 0);
    assert_int_equal(fi_close(&stack->fabric->fid), 0);
}

static double now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* ns for one send through `depth` noops. */
static double send_cost(int depth)
{
    long made;
    struct stack stack;
    double start, ns;

    open_stack(depth, &stack);
    sends = 0;
    locks = 0;
    made = nomem_made;
    start = now_ns();
    for (int i = 0; i < ROUNDS; i++)
        fi_send(stack.ep, NULL, 8, NULL, 0, NULL);
    ns = (now_ns() - start) / ROUNDS;
    made = nomem_made - made;
    assert_int_equal(sends, ROUNDS);
    assert_int_equal(locks, 0);
    assert_int_equal(made, 0);
    close_stack(&stack);
    return ns;
}

static int writes;

static ssize_t count_write(struct fid_peer_cq *cq, void *context, uint64_t flags, size_t len,
                           void *buf, uint64_t data, uint64_t tag, fi_addr_t src)
{
    writes++;
    return 0;
}

/* ns for one completion that the end of the stack writes, as the owner of the queue gets it. */
static double completion_cost(int depth)
{
    struct fi_ops_cq_owner ops = {.size = sizeof(ops), .write = count_write};
    struct fid_peer_cq owner = {.owner_ops = &ops};
    struct fi_peer_cq_context context = {.size = sizeof(context), .cq = &owner};
    struct fi_cq_attr attr = {.flags = FI_PEER};
    long made;
    struct stack stack;
    struct fid_cq *cq;
    double start, ns;

    open_stack(depth, &stack);
    assert_int_equal(fi_cq_open(stack.domain, &attr, &cq, &context), 0);
    writes = 0;
    locks = 0;
    made = nomem_made;
    start = now_ns();
    for (int i = 0; i < ROUNDS; i++)
        cq_write(bottom_cq, NULL, FI_SEND, 8, NULL, 0, 0, 0);
    ns = (now_ns() - start) / ROUNDS;
    made = nomem_made - made;
    assert_int_equal(writes, ROUNDS);
    assert_int_equal(locks, 0);
    assert_int_equal(made, 0);
    assert_int_equal(fi_close(&cq->fid), 0);
    close_stack(&stack);
    return ns;
}

/* ns that each noop adds: the fastest windows with and without, which alternate. */
static double cost_of_one(double (*cost)(int depth))
{
    double with = 1e9, without = 1e9;

    for (int i = 0; i < WINDOWS; i++) {
        double ns = cost(0);

        without = ns < without ? ns : without;
        ns = cost(DEPTH);
        with = ns < with ? ns : with;
    }
    return (with - without) / DEPTH;
}

static void an_operation_costs_one_call(void **state)
{
    print_message("noop: %.1f ns for each operation and noop\n", cost_of_one(send_cost));
}

static void a_completion_costs_one_call(void **state)
{
    print_message("noop: %.1f ns for each completion and noop\n", cost_of_one(completion_cost));
}

static void the_part_is_transparent(void **state)
{
    struct fi_info *hints = info_alloc(), *below = NULL, *offer = NULL;
    struct request req = {.version = FI_VERSION(2, 6), .hints = hints};

    hints->caps = FI_TAGGED;
    assert_true(noop_part.transparent);
    assert_string_equal(noop_part.prov_name, "ofi_hook_noop");
    assert_int_equal(noop_part.needs(&req, &below), 0);
    assert_int_equal(below->caps, FI_TAGGED);
    assert_null(below->next);
    assert_int_equal(noop_part.offer(&req, below, &offer), 0);
    assert_int_equal(offer->caps, FI_TAGGED);
    info_free(hints);
    info_free(below);
    info_free(offer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_operation_costs_one_call),
        cmocka_unit_test(a_completion_costs_one_call),
        cmocka_unit_test(the_part_is_transparent),
    };

    return cmocka_run_group_tests_name("noop", tests, NULL, NULL);
}
