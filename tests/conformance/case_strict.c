/* SPDX-License-Identifier: BSD-2-Clause */
/* FI_ORDER_STRICT of comp_order: where hints ask for it, completions come in the order of the
 * posts, and messages of one sender in theirs. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_atomic.h>

#include "conf.h"

enum {
    LARGE = 1 << 20,
    SMALL = 8,
    ROUNDS = 300
};

struct scene {
    struct conf_pair *p;
    struct conf_region t;
    struct conf_ep *c; /* another peer; a's address of it */
    fi_addr_t other;
    char *large;
};

static struct conf_want want_strict(uint64_t cq_flags)
{
    return (struct conf_want){.caps = FI_MSG | FI_TAGGED | FI_RMA | (conf_offers->caps & FI_ATOMIC),
                              .comp_order = FI_ORDER_STRICT | FI_ORDER_DATA,
                              .cq_flags = cq_flags};
}

static void scene_open(struct scene *s, uint64_t cq_flags)
{
    s->p = conf_pair_open(want_strict(cq_flags));
    conf_check(s->p->home.info->tx_attr->comp_order & FI_ORDER_STRICT, "not handed back: tx");
    conf_check(s->p->home.info->rx_attr->comp_order & FI_ORDER_STRICT, "not handed back: rx");
    s->c = calloc(1, sizeof *s->c);
    s->large = malloc(2 * (size_t)LARGE);
    conf_check(s->c && s->large, "no memory");
    conf_ep_open(s->c, &s->p->home, &s->p->want);
    s->other = conf_insert(&s->p->a, s->c, 0, 0);
    conf_introduce(s->c, &s->p->a);
    conf_region_open(s->p, &s->t, LARGE, FI_REMOTE_READ | FI_REMOTE_WRITE);
}

static void drive(struct scene *s)
{
    conf_drive_pair(s->p);
    conf_drive(s->c);
}

static void scene_close(struct scene *s)
{
    conf_quiet(s->p, 5);
    conf_region_close(&s->t);
    conf_ep_close(s->c);
    conf_pair_close(s->p);
    free(s->c);
    free(s->large);
}

#define POST(s, expr)                                                                              \
    do {                                                                                           \
        ssize_t rc_;                                                                               \
        while ((rc_ = (expr)) == -FI_EAGAIN)                                                       \
            drive(s);                                                                              \
        conf_check(!rc_, "%s: %s", #expr, fi_strerror((int)-rc_));                                 \
    } while (0)

/* Until end has seen count completions; they are still there. */
static void see(struct scene *s, struct conf_ep *end, size_t count)
{
    for (long long stop = conf_now_ms() + CONF_TIMEOUT_MS; end->seen_count < count;) {
        drive(s);
        conf_check(conf_now_ms() < stop, "%zu of %zu completions", end->seen_count, count);
    }
}

/* end has seen just these contexts, numbers from 1 on, in their order. */
static void need_order(struct conf_ep *end, size_t count)
{
    conf_check(end->seen_count == count, "%zu completions in place of %zu", end->seen_count, count);
    for (size_t i = 0; i < count; i++) {
        conf_check(!end->seen[i].err, "completion %zu: %s", i, fi_strerror(end->seen[i].err));
        conf_check((uintptr_t)end->seen[i].context == i + 1, "completion %zu is of %zu", i + 1,
                   (size_t)(uintptr_t)end->seen[i].context);
    }
    end->seen_count = 0;
}

static void receive_small(struct scene *s, struct conf_ep *end, size_t count)
{
    static char in[SMALL];

    for (size_t i = 0; i < count; i++)
        POST(s, fi_trecv(end->ep, in, SMALL, NULL, FI_ADDR_UNSPEC, 0, ~0ull, (void *)(i + 1)));
}

/* A read of a megabyte, then small messages and writes to its peer and to another one. */
static void as_posted(void)
{
    struct scene s;
    struct conf_ep *a;
    char out[SMALL] = "small";

    scene_open(&s, 0);
    a = &s.p->a;
    for (int round = 0; round < 10; round++) {
        receive_small(&s, &s.p->b, 1);
        receive_small(&s, s.c, 2);
        POST(&s, fi_read(a->ep, s.large, LARGE, NULL, a->peer, s.t.base, s.t.key, (void *)1));
        POST(&s, fi_tsend(a->ep, out, SMALL, NULL, s.other, 1, (void *)2));
        POST(&s, fi_tsend(a->ep, out, SMALL, NULL, a->peer, 1, (void *)3));
        POST(&s, fi_tinject(a->ep, out, SMALL, s.other, 1));
        POST(&s, fi_write(a->ep, out, SMALL, NULL, a->peer, s.t.base, s.t.key, (void *)4));
        POST(&s,
             fi_read(a->ep, s.large + LARGE, LARGE, NULL, a->peer, s.t.base, s.t.key, (void *)5));
        POST(&s, fi_write(a->ep, out, SMALL, NULL, a->peer, s.t.base, s.t.key, (void *)6));
        see(&s, a, 6);
        need_order(a, 6);
        see(&s, &s.p->b, 1);
        see(&s, s.c, 2);
        s.p->b.seen_count = s.c->seen_count = 0;
    }
    scene_close(&s);
}

/* A message without a receive holds the later completions back; the later operations have been
 * done. */
static void behind_unreceived(void)
{
    struct scene s;
    struct conf_ep *a;
    char out[SMALL] = "small";

    scene_open(&s, 0);
    a = &s.p->a;
    conf_fill(s.large, LARGE, 1);
    receive_small(&s, s.c, 1);
    POST(&s, fi_tsend(a->ep, s.large, LARGE, NULL, a->peer, 7, (void *)1));
    POST(&s, fi_tsend(a->ep, out, SMALL, NULL, s.other, 1, (void *)2));
    see(&s, s.c, 1);
    s.c->seen_count = 0;
    conf_check(!conf_has(a, (void *)2) || conf_has(a, (void *)1), "the later send came first");
    POST(&s, fi_trecv(s.p->b.ep, s.large + LARGE, LARGE, NULL, FI_ADDR_UNSPEC, 7, 0, (void *)1));
    see(&s, a, 2);
    need_order(a, 2);
    see(&s, &s.p->b, 1);
    need_order(&s.p->b, 1);
    conf_check(conf_holds(s.large + LARGE, LARGE, 1), "the message");
    scene_close(&s);
}

/* An operation without a completion ends before the completions behind it, and is counted once. */
static void unsignalled(void)
{
    struct fi_msg_rma msg = {.iov_count = 1, .rma_iov_count = 1};
    struct fi_rma_iov rma = {.len = LARGE};
    struct iovec iov = {.iov_len = LARGE};
    struct scene s;
    struct conf_ep *a;
    uint64_t before;

    scene_open(&s, FI_SELECTIVE_COMPLETION);
    a = &s.p->a;
    conf_fill(s.t.memory, LARGE, 3);
    iov.iov_base = s.large;
    rma.addr = s.t.base;
    rma.key = s.t.key;
    msg.msg_iov = &iov;
    msg.rma_iov = &rma;
    msg.addr = a->peer;
    before = fi_cntr_read(a->sent);
    for (uint64_t round = 0; round < 5; round++) {
        memset(s.large, 0, LARGE);
        POST(&s, fi_readmsg(a->ep, &msg, 0));
        POST(&s, fi_inject_write(a->ep, s.t.memory, SMALL, a->peer, s.t.base, s.t.key));
        rma.len = iov.iov_len = SMALL;
        iov.iov_base = s.large + LARGE;
        msg.context = (void *)1;
        POST(&s, fi_readmsg(a->ep, &msg, FI_COMPLETION));
        rma.len = iov.iov_len = LARGE;
        iov.iov_base = s.large;
        msg.context = NULL;
        see(&s, a, 1);
        need_order(a, 1);
        conf_check(conf_holds(s.large, LARGE, 3), "the read before it has not ended");
        for (long long stop = conf_now_ms() + CONF_TIMEOUT_MS;
             fi_cntr_read(a->sent) < before + 3 * (round + 1);) {
            drive(&s);
            conf_check(conf_now_ms() < stop, "the counter says %zu", (size_t)fi_cntr_read(a->sent));
        }
    }
    conf_check(fi_cntr_read(a->sent) == before + 15, "counted twice");
    scene_close(&s);
}

/* Large and small in turn, as many as there may be receives: both sides in their order. */
static void both_sides(void)
{
    struct scene s;
    struct conf_ep *a;
    char *in, out[SMALL] = "small";
    size_t rounds;

    scene_open(&s, 0);
    a = &s.p->a;
    rounds = conf_receives(s.p, ROUNDS) & ~(size_t)3;
    in = malloc((size_t)ROUNDS / 4 * 100000 + SMALL);
    conf_check(in != NULL, "no memory");
    conf_fill(s.large, 100000, 5);
    for (size_t i = 0; i < rounds; i++) {
        bool large = i % 4 == 0;
        char *to = large ? in + i / 4 * 100000 : s.large + LARGE;

        POST(&s, fi_trecv(s.p->b.ep, to, large ? 100000 : SMALL, NULL, FI_ADDR_UNSPEC, i, 0,
                          (void *)(i + 1)));
    }
    for (size_t i = 0; i < rounds; i++) {
        bool large = i % 4 == 0;

        POST(&s, fi_tsend(a->ep, large ? s.large : out, large ? 100000 : SMALL, NULL, a->peer, i,
                          (void *)(i + 1)));
    }
    see(&s, &s.p->b, rounds);
    see(&s, a, rounds);
    need_order(a, rounds);
    need_order(&s.p->b, rounds);
    for (size_t i = 0; i < rounds / 4; i++)
        conf_check(conf_holds(in + i * 100000, 100000, 5), "message %zu", 4 * i);
    free(in);
    scene_close(&s);
}

/* A message that no receive waits for holds back neither its sender's later ones nor others'. */
static void past_unmatched(void)
{
    struct scene s;
    struct conf_ep *a;
    char in[SMALL], out[SMALL] = "small";

    scene_open(&s, 0);
    a = &s.p->a;
    POST(&s, fi_tsend(a->ep, s.large, LARGE, NULL, a->peer, 1, (void *)1));
    POST(&s, fi_tsend(a->ep, out, SMALL, NULL, a->peer, 2, (void *)2));
    POST(&s, fi_trecv(s.p->b.ep, in, SMALL, NULL, FI_ADDR_UNSPEC, 2, 0, (void *)1));
    see(&s, &s.p->b, 1);
    POST(&s, fi_trecv(s.p->b.ep, s.large + LARGE, LARGE, NULL, FI_ADDR_UNSPEC, 1, 0, (void *)2));
    see(&s, &s.p->b, 2);
    need_order(&s.p->b, 2);
    see(&s, a, 2);
    need_order(a, 2);
    scene_close(&s);
}

/* One buffer for large and small messages: given back behind the last of them. */
static void multi_receive(void)
{
    enum {
        LEN = 60000,
        COUNT = 20
    };
    struct iovec iov = {.iov_len = COUNT / 2 * LEN + COUNT / 2 * SMALL};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC};
    struct conf_ep *b;
    char *at, out[SMALL] = "small";
    bool released = false;
    struct scene s;

    conf_need("MULTI_RECV");
    s.p = NULL;
    scene_open(&s, 0);
    b = &s.p->b;
    iov.iov_base = at = s.large + LARGE;
    conf_fill(s.large, LEN, 9);
    POST(&s, fi_recvmsg(b->ep, &msg, FI_MULTI_RECV));
    for (size_t i = 0; i < COUNT; i++)
        POST(&s, fi_send(s.p->a.ep, i % 2 ? s.large : out, i % 2 ? LEN : SMALL, NULL, s.p->a.peer,
                         (void *)(i + 1)));
    see(&s, b, COUNT);
    see(&s, &s.p->a, COUNT);
    need_order(&s.p->a, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        size_t len = i % 2 ? LEN : SMALL; /* the last one fills the buffer */

        conf_check(!released, "messages behind the release");
        conf_check(b->seen[i].buf == at && b->seen[i].len == len, "message %zu", i);
        conf_check(!(i % 2) || conf_holds(at, LEN, 9), "data of message %zu", i);
        released = b->seen[i].flags & FI_MULTI_RECV;
        at += len;
    }
    if (!released) {
        see(&s, b, COUNT + 1);
        conf_check(b->seen[COUNT].flags & FI_MULTI_RECV, "the release");
    }
    b->seen_count = 0;
    scene_close(&s);
}

/* An error has its place too. It may end the connection, and with it what is under way there. */
static void errors(void)
{
    struct scene s;
    struct conf_ep *a;
    char out[SMALL] = "small";

    scene_open(&s, 0);
    a = &s.p->a;
    receive_small(&s, s.c, 1);
    POST(&s, fi_read(a->ep, s.large, LARGE, NULL, a->peer, s.t.base, s.t.key, (void *)1));
    POST(&s, fi_read(a->ep, s.large + LARGE, SMALL, NULL, a->peer, s.t.base, s.t.key + 12345,
                     (void *)2));
    POST(&s, fi_tsend(a->ep, out, SMALL, NULL, s.other, 1, (void *)3));
    see(&s, a, 3);
    conf_check(a->seen[1].err, "a wrong key");
    for (size_t i = 0; i < 3; i++)
        conf_check((uintptr_t)a->seen[i].context == i + 1, "completion %zu is of %zu", i + 1,
                   (size_t)(uintptr_t)a->seen[i].context);
    conf_check(!a->seen[2].err, "the message to another peer");
    a->seen_count = 0;
    see(&s, s.c, 1);
    s.c->seen_count = 0;
    scene_close(&s);
}

/* A receive that waits is cancelled, whatever is held. */
static void cancelled(void)
{
    struct scene s;
    struct conf_ep *a;
    char in[SMALL], out[SMALL] = "small";

    scene_open(&s, 0);
    a = &s.p->a;
    receive_small(&s, s.c, 1);
    POST(&s, fi_trecv(a->ep, in, SMALL, NULL, FI_ADDR_UNSPEC, 1, 0, in));
    POST(&s, fi_tsend(a->ep, s.large, LARGE, NULL, a->peer, 7, (void *)1));
    POST(&s, fi_tsend(a->ep, out, SMALL, NULL, s.other, 1, (void *)2));
    see(&s, s.c, 1);
    s.c->seen_count = 0;
    conf_check(!fi_cancel(&a->ep->fid, in), "fi_cancel");
    conf_check(conf_wait(s.p, a, in).err == FI_ECANCELED, "the cancelled receive");
    POST(&s, fi_trecv(s.p->b.ep, s.large + LARGE, LARGE, NULL, FI_ADDR_UNSPEC, 7, 0, (void *)1));
    see(&s, a, 2);
    need_order(a, 2);
    see(&s, &s.p->b, 1);
    need_order(&s.p->b, 1);
    scene_close(&s);
}

/* Closed while a completion is held: nothing hangs, and nothing is told twice. */
static void closed(void)
{
    struct conf_pair *p = conf_pair_open(want_strict(0));
    static char large[LARGE], in[SMALL], out[SMALL] = "small";
    struct fi_cq_tagged_entry entry[4];
    ssize_t count, told = 0;

    conf_post(p, fi_trecv(p->b.ep, in, SMALL, NULL, FI_ADDR_UNSPEC, 2, 0, in));
    conf_post(p, fi_tsend(p->a.ep, large, LARGE, NULL, p->a.peer, 1, (void *)1));
    conf_post(p, fi_tsend(p->a.ep, out, SMALL, NULL, p->a.peer, 2, (void *)2));
    conf_check(!conf_wait(p, &p->b, in).err, "fi_trecv");
    conf_check(!fi_close(&p->a.ep->fid), "fi_close");
    while ((count = fi_cq_read(p->a.tx, entry, 4)) > 0 || count == -FI_EAVAIL) {
        struct fi_cq_err_entry error = {0};

        if (count < 0) {
            conf_check(fi_cq_readerr(p->a.tx, &error, 0) == 1, "fi_cq_readerr");
            count = 1;
        }
        told += count;
    }
    conf_check(told + (ssize_t)p->a.seen_count <= 2, "%zd completions of two sends",
               told + (ssize_t)p->a.seen_count);
    conf_check(!fi_close(&p->a.tx->fid) && !fi_close(&p->a.rx->fid), "fi_close(cq)");
    conf_check(!fi_close(&p->a.sent->fid) && !fi_close(&p->a.received->fid), "fi_close(cntr)");
    conf_check(!fi_close(&p->a.av->fid), "fi_close(av)");
    conf_ep_close(&p->b);
    conf_fabric_close(&p->home);
    free(p);
}

const struct conf_case conf_strict_cases[] = {
    {"strict: completions as posted", as_posted},
    {"strict: behind a message that nobody receives", behind_unreceived},
    {"strict: operations without a completion", unsignalled},
    {"strict: large and small, on both sides", both_sides},
    {"strict: past a message that no receive waits for", past_unmatched},
    {"strict: a multi-receive buffer", multi_receive},
    {"strict: errors have their place", errors},
    {"strict: a receive is cancelled", cancelled},
    {"strict: closed with completions held", closed},
    {0},
};
