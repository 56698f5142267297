/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls of small tagged messages between two domains of one process, each kind of call in a
 * function of its own, whose instructions callgrind counts: what the two processes of a benchmark
 * do, each with a queue for sends and one for receives.
 */
#include "stack.h"

enum {
    BATCH = 16, /* messages until their completions are read */
    TAG = 1,
};

struct end {
    struct bench_stack stack;
    struct fid_ep *ep;
    struct fid_cq *tx, *rx;
    fi_addr_t peer;
    char data[8];
};

__attribute__((noinline)) static ssize_t call_receive(struct end *end)
{
    return fi_trecv(end->ep, end->data, sizeof(end->data), NULL, FI_ADDR_UNSPEC, TAG, 0, NULL);
}

__attribute__((noinline)) static ssize_t call_send(struct end *end)
{
    return fi_tsend(end->ep, end->data, sizeof(end->data), NULL, end->peer, TAG, NULL);
}

__attribute__((noinline)) static ssize_t call_read_sent(struct end *end)
{
    struct fi_cq_tagged_entry entries[BATCH];

    return fi_cq_read(end->tx, entries, BATCH);
}

__attribute__((noinline)) static ssize_t call_read_received(struct end *end)
{
    struct fi_cq_tagged_entry entries[BATCH];

    return fi_cq_read(end->rx, entries, BATCH);
}

/* With fewer entries than call_read_received, so that the compiler keeps both. */
__attribute__((noinline)) static ssize_t call_read_nothing(struct end *end)
{
    struct fi_cq_tagged_entry entries[1];

    return fi_cq_read(end->rx, entries, 1);
}

static void reap(struct end *end, ssize_t (*read)(struct end *end), struct end *other, int left)
{
    while (left) {
        ssize_t n = read(end);

        if (n > 0)
            left -= (int)n;
        else if (n != -FI_EAGAIN)
            bench_check(&end->stack, "fi_cq_read", n);
        else
            fi_cq_read(other->tx, NULL, 0); /* an answer of the peer may be wanted */
    }
}

/* So many messages, and looks at a queue without any. */
static void transfer(struct end *from, struct end *to, int messages)
{
    ssize_t rc;

    for (int i = 0; i < messages; i++)
        bench_check(&to->stack, "fi_trecv", call_receive(to));
    for (int i = 0; i < messages; i++) {
        while ((rc = call_send(from)) == -FI_EAGAIN) {
            fi_cq_read(from->tx, NULL, 0);
            fi_cq_read(to->rx, NULL, 0);
        }
        bench_check(&from->stack, "fi_tsend", rc);
    }
    reap(to, call_read_received, from, messages);
    reap(from, call_read_sent, to, messages);
    for (int i = 0; i < messages; i++)
        call_read_nothing(to);
}

static void open_end(struct end *end, const char *spec)
{
    bench_stack_open(&end->stack, spec, NULL);
    end->tx = end->stack.cq;
    end->rx = bench_stack_cq(&end->stack);
    bench_check(&end->stack, "fi_endpoint",
                fi_endpoint(end->stack.domain, end->stack.info, &end->ep, NULL));
    bench_check(&end->stack, "fi_ep_bind", fi_ep_bind(end->ep, &end->tx->fid, FI_TRANSMIT));
    bench_check(&end->stack, "fi_ep_bind", fi_ep_bind(end->ep, &end->rx->fid, FI_RECV));
    bench_check(&end->stack, "fi_ep_bind", fi_ep_bind(end->ep, &end->stack.av->fid, 0));
    bench_check(&end->stack, "fi_enable", fi_enable(end->ep));
}

static void introduce(struct end *end, const struct end *peer)
{
    char address[256];
    size_t len = sizeof address;

    bench_check(&end->stack, "fi_getname", fi_getname(&peer->ep->fid, address, &len));
    if (fi_av_insert(end->stack.av, address, 1, &end->peer, 0, NULL) != 1)
        bench_die("%s: fi_av_insert fails", end->stack.spec);
}

int bench_calls(const char *library, uint64_t rounds, char **specs, int count)
{
    static struct end a, b;

    if (count != 1)
        bench_die("--calls takes one stack");
    bench_load(library);
    open_end(&a, specs[0]);
    open_end(&b, specs[0]);
    introduce(&a, &b);
    introduce(&b, &a);
    for (uint64_t i = 0; i < rounds; i++) {
        transfer(&a, &b, BATCH);
        transfer(&b, &a, 1);
    }
    return 0;
}
