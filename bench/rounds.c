/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * So many rounds in one process, for tools that count (callgrind, strace): a window of messages one
 * way, then one message back. The number of rounds is given, so that two runs differ by nothing
 * else.
 */
#include <stdlib.h>

#include "stack.h"

enum {
    MESSAGES_MAX = 256,
    TAG = 1,
};

struct end {
    struct fid_ep *ep;
    struct fid_cq *cq;
    fi_addr_t peer;
    char *data;
    uint64_t sent, received; /* completions */
};

static void post_receive(const struct bench_stack *stack, struct end *end, size_t size)
{
    ssize_t rc;

    while ((rc = fi_trecv(end->ep, end->data, size, NULL, FI_ADDR_UNSPEC, TAG, 0, NULL)) ==
           -FI_EAGAIN)
        fi_cq_read(end->cq, NULL, 0);
    bench_check(stack, "fi_trecv", rc);
}

static void post_send(const struct bench_stack *stack, struct end *end, size_t size, bool more)
{
    struct iovec iov = {.iov_base = end->data, .iov_len = size};
    struct fi_msg_tagged msg = {.msg_iov = &iov, .iov_count = 1, .addr = end->peer, .tag = TAG};
    ssize_t rc;

    while ((rc = fi_tsendmsg(end->ep, &msg, FI_COMPLETION | (more ? FI_MORE : 0))) == -FI_EAGAIN)
        fi_cq_read(end->cq, NULL, 0);
    bench_check(stack, "fi_tsendmsg", rc);
}

static void drive(const struct bench_stack *stack, struct end *end)
{
    struct fi_cq_tagged_entry entries[16];
    ssize_t rc = fi_cq_read(end->cq, entries, 16);

    if (rc != -FI_EAGAIN)
        bench_check(stack, "fi_cq_read", rc);
    for (ssize_t i = 0; i < rc; i++) {
        end->sent += !!(entries[i].flags & FI_SEND);
        end->received += !!(entries[i].flags & FI_RECV);
    }
}

static void transfer(const struct bench_stack *stack, struct end *from, struct end *to,
                     const struct bench_rounds *what, int messages)
{
    uint64_t sent = from->sent + (uint64_t)messages, received = to->received + (uint64_t)messages;

    for (int i = 0; i < messages; i++)
        post_receive(stack, to, what->size);
    for (int i = 0; i < messages; i++)
        post_send(stack, from, what->size, i + 1 < messages);
    while (to->received < received) {
        drive(stack, to);
        if (to->received < received && from->sent < sent)
            drive(stack, from);
    }
    while (from->sent < sent) {
        drive(stack, from);
        if (from->sent < sent)
            drive(stack, to);
    }
}

static void open_end(struct bench_stack *stack, struct end *end, size_t size)
{
    end->cq = bench_stack_cq(stack);
    end->ep = bench_stack_ep(stack, end->cq);
    end->data = calloc(1, size);
    if (!end->data)
        bench_die("%s: no memory", stack->spec);
}

static void introduce(struct bench_stack *stack, struct end *end, const struct end *peer)
{
    char address[256];
    size_t len = sizeof address;

    bench_check(stack, "fi_getname", fi_getname(&peer->ep->fid, address, &len));
    if (fi_av_insert(stack->av, address, 1, &end->peer, 0, NULL) != 1)
        bench_die("%s: fi_av_insert fails", stack->spec);
}

int bench_rounds(const char *library, const struct bench_rounds *what, char **specs, int count)
{
    struct bench_stack stack;
    struct end ends[2] = {{0}};

    if (count != 1)
        bench_die("--rounds takes one stack");
    if (what->messages > MESSAGES_MAX)
        bench_die("-n: at most %d messages", MESSAGES_MAX);
    bench_load(library);
    bench_stack_open(&stack, specs[0], NULL);
    open_end(&stack, &ends[0], what->size);
    open_end(&stack, &ends[1], what->size);
    introduce(&stack, &ends[0], &ends[1]);
    introduce(&stack, &ends[1], &ends[0]);
    for (uint64_t i = 0; i < what->rounds; i++) {
        transfer(&stack, &ends[0], &ends[1], what, what->messages);
        transfer(&stack, &ends[1], &ends[0], what, 1);
    }
    return 0;
}
