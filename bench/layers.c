/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Measures the cost of a layer: one process, two endpoints on an in-memory transport, batches of
 * receives, sends and completion reads, timed call by kind. Windows of the stacks interleave; the
 * figure of a stack is the median, and its difference to the first stack is what its layers add.
 */
#include <stdio.h>
#include <stdlib.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "stack.h"

enum {
    BATCH = 32, /* fits into a ring of shm's */
    ROUNDS = 800,
    WINDOWS = 41,
    STACKS_MAX = 8,
    KINDS = 3
};

static const char *const kind_names[KINDS] = {"fi_trecv", "fi_tsend", "completion"};

struct stack {
    struct bench_stack base;
    struct fid_ep *ep[2];
    fi_addr_t to;
    double ns[KINDS][WINDOWS];
    char data[2][64];
};

static void open_stack(struct stack *stack, const char *spec)
{
    char address[256];
    size_t len = sizeof address;

    bench_stack_open(&stack->base, spec, NULL);
    stack->ep[0] = bench_stack_ep(&stack->base, NULL);
    stack->ep[1] = bench_stack_ep(&stack->base, NULL);
    bench_check(&stack->base, "fi_getname", fi_getname(&stack->ep[1]->fid, address, &len));
    if (fi_av_insert(stack->base.av, address, 1, &stack->to, 0, NULL) != 1)
        bench_die("%s: fi_av_insert fails", spec);
}

static void reap(struct stack *stack, int count)
{
    struct fi_cq_tagged_entry entry;

    while (count) {
        ssize_t n = fi_cq_read(stack->base.cq, &entry, 1);

        if (n == 1)
            count--;
        else if (n != -FI_EAGAIN)
            bench_check(&stack->base, "fi_cq_read", n);
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
        if (rc == -FI_EAGAIN)
            fi_cq_read(stack->base.cq, NULL, 0);
    }
    bench_check(&stack->base, kind_names[kind], rc);
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

/* ns of reading the clock of the processor once, the least of some tries; what takes times takes
 * it. */
static double tick_ns(void)
{
    double best = 0;
#if defined(__x86_64__)
    for (int try = 0; try < WINDOWS; try++) {
        uint64_t start = bench_now();
        double ns;

        for (int i = 0; i < 1000; i++)
            (void)*(volatile uint64_t *)&(uint64_t){__rdtsc()};
        ns = (double)(bench_now() - start) / 1000;
        best = best == 0 || ns < best ? ns : best;
    }
#endif
    return best;
}

int bench_layers(const char *library, char **specs, int count)
{
    static struct stack stacks[STACKS_MAX];

    if (count > STACKS_MAX)
        bench_die("at most %d stacks", STACKS_MAX);
    bench_load(library);
    for (int s = 0; s < count; s++)
        open_stack(&stacks[s], specs[s]);
    for (int w = 0; w < WINDOWS; w++)
        for (int s = 0; s < count; s++)
            window(&stacks[s], w);
    printf("%-32s %12s %12s %12s   ns a call (added to the first stack)\n", "stack", kind_names[0],
           kind_names[1], kind_names[2]);
    for (int s = 0; s < count; s++) {
        printf("%-32s", stacks[s].base.spec);
        for (int kind = 0; kind < KINDS; kind++) {
            qsort(stacks[s].ns[kind], WINDOWS, sizeof(double), bench_ascending);
            printf(" %5.1f (%+4.1f)", stacks[s].ns[kind][WINDOWS / 2],
                   stacks[s].ns[kind][WINDOWS / 2] - stacks[0].ns[kind][WINDOWS / 2]);
        }
        printf("\n");
    }
    printf("%-32s %5.1f\n", "one rdtsc", tick_ns());
    return 0;
}
