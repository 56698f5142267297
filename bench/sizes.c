/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Measures messages of each size where both ends are in one process, as over the in-memory
 * transport: receive, send, and progress until both have ended. Windows of the stacks interleave.
 */
#include <stdio.h>
#include <stdlib.h>

#include "stack.h"

enum {
    STACKS_MAX = 8
};

struct stack {
    struct bench_stack base;
    struct fid_ep *ep[2];
    fi_addr_t to;
    char *data[2];
    uint64_t rounds; /* messages of a window */
    double *ns;      /* of each window */
};

static void open_stack(struct stack *stack, const char *spec, const struct bench_sizes *what)
{
    char address[256];
    size_t len = sizeof address, most = 0;

    for (int i = 0; i < what->size_count; i++)
        most = what->sizes[i] > most ? what->sizes[i] : most;
    bench_stack_open(&stack->base, spec, NULL);
    for (int side = 0; side < 2; side++) {
        stack->ep[side] = bench_stack_ep(&stack->base, NULL);
        stack->data[side] = calloc(1, most);
    }
    stack->ns = calloc((size_t)what->windows, sizeof *stack->ns);
    if (!stack->data[0] || !stack->data[1] || !stack->ns)
        bench_die("%s: no memory", spec);
    bench_check(&stack->base, "fi_getname", fi_getname(&stack->ep[1]->fid, address, &len));
    if (fi_av_insert(stack->base.av, address, 1, &stack->to, 0, NULL) != 1)
        bench_die("%s: fi_av_insert fails", spec);
}

static void transfer(struct stack *stack, size_t size)
{
    struct fi_cq_tagged_entry entry;
    ssize_t rc;

    rc = fi_trecv(stack->ep[1], stack->data[1], size, NULL, FI_ADDR_UNSPEC, 1, 0, NULL);
    bench_check(&stack->base, "fi_trecv", rc);
    while ((rc = fi_tsend(stack->ep[0], stack->data[0], size, NULL, stack->to, 1, NULL)) ==
           -FI_EAGAIN)
        fi_cq_read(stack->base.cq, NULL, 0);
    bench_check(&stack->base, "fi_tsend", rc);
    for (int left = 2; left;) {
        rc = fi_cq_read(stack->base.cq, &entry, 1);
        if (rc == 1)
            left--;
        else if (rc != -FI_EAGAIN)
            bench_check(&stack->base, "fi_cq_read", rc);
    }
}

/* ns of a message. */
static double window(struct stack *stack, size_t size)
{
    uint64_t start = bench_now();

    for (uint64_t i = 0; i < stack->rounds; i++)
        transfer(stack, size);
    return (double)(bench_now() - start) / (double)stack->rounds;
}

/* As many messages as make a window about as long as asked; the first ones are not counted. */
static void calibrate(struct stack *stack, size_t size, uint64_t window_us)
{
    double ns = 0;

    stack->rounds = 16;
    for (int i = 0; i < 5; i++) {
        double now = window(stack, size);

        ns = i && ns < now ? ns : now;
    }
    stack->rounds = (uint64_t)((double)window_us * 1000 / ns) + 1;
}

static void measure(struct stack *stacks, int count, size_t size, const struct bench_sizes *what)
{
    double shown[STACKS_MAX];

    for (int s = 0; s < count; s++)
        calibrate(&stacks[s], size, what->window_us);
    for (int w = 0; w < what->windows; w++)
        for (int s = 0; s < count; s++)
            stacks[s].ns[w] = window(&stacks[s], size);
    for (int s = 0; s < count; s++) {
        qsort(stacks[s].ns, (size_t)what->windows, sizeof(double), bench_ascending);
        shown[s] = stacks[s].ns[(what->windows - 1) * what->percent / 100];
        printf("%8zu  %-44s %10.3f us  %6.3f\n", size, stacks[s].base.spec, shown[s] / 1000,
               shown[s] / shown[0]);
    }
    fflush(stdout);
}

int bench_sizes(const char *library, const struct bench_sizes *what, char **specs, int count)
{
    static struct stack stacks[STACKS_MAX];

    if (count > STACKS_MAX)
        bench_die("at most %d stacks", STACKS_MAX);
    bench_load(library);
    for (int s = 0; s < count; s++)
        open_stack(&stacks[s], specs[s], what);
    printf("%8s  %-44s %13s  %6s\n", "bytes", "stack", "message", "ratio");
    for (int i = 0; i < what->size_count; i++)
        measure(stacks, count, what->sizes[i], what);
    return 0;
}
