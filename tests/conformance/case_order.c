/* SPDX-License-Identifier: BSD-2-Clause */
/* Operations posted later are done later, where all orders that the table grants are asked. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_atomic.h>

#include "conf.h"

enum {
    REGION = 8 << 20, /* more than sockets and rings take at once */
    TAIL = 4096,      /* of the region, which a read fetches last */
    OLD = 1,          /* seeds of what memory holds */
    NEW = 2,
    ROUNDS = 200
};

struct scene {
    struct conf_pair *p;
    struct conf_region t;
    char *local, *later; /* what is read or written first, and then */
    uint64_t order;
};

static void scene_open(struct scene *s)
{
    s->p = conf_pair_open((struct conf_want){
        .caps = FI_MSG | FI_TAGGED | FI_RMA | (conf_offers->caps & FI_ATOMIC),
        .msg_order = conf_offers->msg_order,
    });
    s->order = s->p->home.info->tx_attr->msg_order;
    s->local = malloc(REGION);
    s->later = malloc(REGION);
    conf_check(s->local && s->later, "no memory");
    conf_region_open(s->p, &s->t, REGION, FI_REMOTE_READ | FI_REMOTE_WRITE);
}

static void scene_close(struct scene *s)
{
    conf_quiet(s->p, 5);
    conf_region_close(&s->t);
    conf_pair_close(s->p);
    free(s->local);
    free(s->later);
}

static void begin_read(struct scene *s)
{
    conf_fill(s->t.memory, REGION, OLD);
    memset(s->local, 0, REGION);
    conf_post(s->p, fi_read(s->p->a.ep, s->local, REGION, NULL, s->p->a.peer, s->t.base, s->t.key,
                            s->local));
}

static void end_read(struct scene *s, bool kept, const char *what)
{
    conf_check(!conf_wait(s->p, &s->p->a, s->local).err, "fi_read");
    conf_check(!kept || conf_holds(s->local, REGION, OLD), "the read saw %s", what);
}

static void write_after_read(void)
{
    uint64_t offset = REGION - TAIL;
    struct scene s;

    scene_open(&s);
    for (size_t len = 8; len <= TAIL; len *= 8) {
        begin_read(&s);
        memset(s.later, 0xee, len);
        conf_post(s.p, fi_write(s.p->a.ep, s.later, len, NULL, s.p->a.peer, s.t.base + offset,
                                s.t.key, s.later));
        conf_check(!conf_wait(s.p, &s.p->a, s.later).err, "fi_write");
        end_read(&s, s.order & (FI_ORDER_WAR | FI_ORDER_RMA_WAR), "the write behind it");
        for (long long end = conf_now_ms() + CONF_TIMEOUT_MS;
             memcmp(s.t.memory + offset, s.later, len) != 0;) {
            conf_drive_pair(s.p);
            conf_check(conf_now_ms() < end, "the write did not arrive");
        }
    }
    scene_close(&s);
}

static void atomic_after_read(void)
{
    uint64_t one = 1, offset = REGION - TAIL;
    struct scene s;

    conf_need("ATOMIC");
    scene_open(&s);
    begin_read(&s);
    conf_post(s.p, fi_atomic(s.p->a.ep, &one, 1, NULL, s.p->a.peer, s.t.base + offset, s.t.key,
                             FI_UINT64, FI_SUM, &one));
    conf_check(!conf_wait(s.p, &s.p->a, &one).err, "fi_atomic");
    end_read(&s, s.order & FI_ORDER_WAR, "the atomic behind it");
    scene_close(&s);
}

/* The receiver of the message may overwrite the memory that the read before it fetches. */
static void send_after_read(void)
{
    static const size_t sizes[] = {0, 8, 20000, 300000, 2 << 20};
    struct scene s;

    scene_open(&s);
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct conf_pair *p = s.p;
        size_t len = sizes[i];
        char *in = malloc(len + 1);

        conf_check(in != NULL, "no memory");
        conf_fill(s.later, len, i);
        conf_post(p, fi_trecv(p->b.ep, in, len, NULL, FI_ADDR_UNSPEC, i, 0, in));
        begin_read(&s);
        if (len == 8)
            conf_post(p, fi_tinject(p->a.ep, s.later, len, p->a.peer, i));
        else
            conf_post(p, fi_tsend(p->a.ep, s.later, len, NULL, p->a.peer, i, s.later));
        conf_check(!conf_wait(p, &p->b, in).err, "fi_trecv");
        conf_check(conf_holds(in, len, i), "data of %zu", len);
        conf_fill(s.t.memory, REGION, NEW);
        if (len != 8)
            conf_check(!conf_wait(p, &p->a, s.later).err, "fi_tsend");
        end_read(&s, s.order & FI_ORDER_SAR, "what was done for the message behind it");
        free(in);
    }
    scene_close(&s);
}

/* Large, then small over its end: of two writes the later one stays, and a read or a message sees
 * all of the write before it. */
static void after_write(void)
{
    struct scene s;
    char in, out = 'x';

    scene_open(&s);
    conf_fill(s.local, REGION, NEW);
    conf_post(s.p, fi_recv(s.p->b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, &in));
    conf_post(s.p,
              fi_write(s.p->a.ep, s.local, REGION, NULL, s.p->a.peer, s.t.base, s.t.key, s.local));
    conf_post(s.p, fi_send(s.p->a.ep, &out, 1, NULL, s.p->a.peer, &out));
    conf_check(!conf_wait(s.p, &s.p->b, &in).err, "fi_recv");
    conf_check(!(s.order & FI_ORDER_SAW) || conf_holds(s.t.memory, REGION, NEW),
               "the message came before the write");
    conf_wait(s.p, &s.p->a, s.local);
    conf_wait(s.p, &s.p->a, &out);
    memset(s.t.memory, 0, REGION);
    conf_post(s.p,
              fi_write(s.p->a.ep, s.local, REGION, NULL, s.p->a.peer, s.t.base, s.t.key, s.local));
    conf_post(
        s.p, fi_write(s.p->a.ep, &out, 1, NULL, s.p->a.peer, s.t.base + REGION - 1, s.t.key, &out));
    conf_post(s.p,
              fi_read(s.p->a.ep, s.later, REGION, NULL, s.p->a.peer, s.t.base, s.t.key, s.later));
    conf_check(!conf_wait(s.p, &s.p->a, s.later).err, "fi_read");
    conf_check(!(s.order & FI_ORDER_RAW) || conf_holds(s.later, REGION - 1, NEW),
               "the read did not see the write");
    conf_check(!(s.order & FI_ORDER_RAW) || s.later[REGION - 1] == out,
               "the read did not see the last write");
    conf_check(!(s.order & FI_ORDER_WAW) || s.t.memory[REGION - 1] == out,
               "the write before overwrote the later one");
    conf_wait(s.p, &s.p->a, s.local);
    conf_wait(s.p, &s.p->a, &out);
    scene_close(&s);
}

/* The target hears of the message, then of the write. */
static void write_after_send(void)
{
    static char in[ROUNDS][16], out[16] = "a message";
    struct scene s;
    size_t rounds;

    scene_open(&s);
    rounds = conf_receives(s.p, ROUNDS);
    for (size_t i = 0; i < rounds; i++)
        conf_post(s.p, fi_recv(s.p->b.ep, in[i], 16, NULL, FI_ADDR_UNSPEC, in[i]));
    for (size_t i = 0; i < rounds; i++) {
        conf_post(s.p, fi_send(s.p->a.ep, out, 16, NULL, s.p->a.peer, NULL));
        conf_post(s.p, fi_writedata(s.p->a.ep, out, 8, NULL, i, s.p->a.peer, s.t.base + 8 * i,
                                    s.t.key, NULL));
    }
    for (long long end = conf_now_ms() + CONF_TIMEOUT_MS; s.p->b.seen_count < 2 * rounds;) {
        conf_drive_pair(s.p);
        conf_check(conf_now_ms() < end, "%zu of %zu came", s.p->b.seen_count, 2 * rounds);
    }
    for (size_t i = 0, messages = 0; i < 2 * rounds; i++) {
        const struct conf_seen *seen = &s.p->b.seen[i];

        if (!(seen->flags & FI_REMOTE_WRITE))
            messages++;
        else
            conf_check(!(s.order & FI_ORDER_WAS) || messages > seen->data,
                       "write %zu came before the message before it", (size_t)seen->data);
    }
    s.p->b.seen_count = 0;
    for (size_t i = 0; i < 2 * rounds; i++)
        conf_wait(s.p, &s.p->a, NULL);
    scene_close(&s);
}

/* Reads and writes of one word in turn, as many outstanding as may be: each read sees the write
 * before it, not the one behind. */
static void in_turn(void)
{
    static uint64_t got[ROUNDS], values[ROUNDS];
    struct scene s;

    scene_open(&s);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        values[i] = i + 1;
        conf_post(s.p, fi_read(s.p->a.ep, &got[i], 8, NULL, s.p->a.peer, s.t.base, s.t.key, NULL));
        conf_post(s.p,
                  fi_write(s.p->a.ep, &values[i], 8, NULL, s.p->a.peer, s.t.base, s.t.key, NULL));
    }
    for (size_t i = 0; i < 2 * (size_t)ROUNDS; i++)
        conf_check(!conf_wait(s.p, &s.p->a, NULL).err, "an access");
    for (uint64_t i = 0; i < ROUNDS; i++) {
        conf_check(!(s.order & (FI_ORDER_RAW | FI_ORDER_RMA_RAW)) || got[i] >= i,
                   "read %zu saw %zu", (size_t)i, (size_t)got[i]);
        conf_check(!(s.order & (FI_ORDER_WAR | FI_ORDER_RMA_WAR)) || got[i] <= i,
                   "read %zu saw %zu", (size_t)i, (size_t)got[i]);
    }
    scene_close(&s);
}

static ssize_t send_fenced(struct scene *s, char *from, size_t len, uint64_t tag)
{
    struct iovec iov = {.iov_base = from, .iov_len = len};
    struct fi_msg_tagged msg = {
        .msg_iov = &iov, .iov_count = 1, .addr = s->p->a.peer, .tag = tag, .context = from};

    return fi_tsendmsg(s->p->a.ep, &msg, FI_FENCE | FI_COMPLETION);
}

static ssize_t write_fenced(struct scene *s, char *from, size_t len)
{
    struct iovec iov = {.iov_base = from, .iov_len = len};
    struct fi_rma_iov rma = {.addr = s->t.base, .len = len, .key = s->t.key};
    struct fi_msg_rma msg = {.msg_iov = &iov,
                             .iov_count = 1,
                             .addr = s->p->a.peer,
                             .rma_iov = &rma,
                             .rma_iov_count = 1,
                             .context = from};

    return fi_writemsg(s->p->a.ep, &msg, FI_FENCE | FI_COMPLETION);
}

/* The receive of the second is posted when the first has come. */
static void fence_ahead(void)
{
    struct scene s;
    char *in = NULL;

    conf_need("FENCE");
    scene_open(&s);
    in = s.t.memory;
    conf_post(s.p, send_fenced(&s, s.local, REGION / 2, 1));
    conf_post(s.p, fi_tsend(s.p->a.ep, s.later, REGION / 2, NULL, s.p->a.peer, 2, s.later));
    for (uint64_t tag = 1; tag <= 2; tag++) {
        conf_post(s.p, fi_trecv(s.p->b.ep, in, REGION / 2, NULL, FI_ADDR_UNSPEC, tag, 0, in));
        conf_check(!conf_wait(s.p, &s.p->b, in).err, "fi_trecv");
    }
    conf_check(!conf_wait(s.p, &s.p->a, s.local).err, "fi_tsendmsg");
    conf_check(!conf_wait(s.p, &s.p->a, s.later).err, "fi_tsend");
    scene_close(&s);
}

/* Message and write go to the same memory. The message's receive comes late. */
static void fence_behind(void)
{
    struct conf_pair *p;
    struct scene s;
    ssize_t rc;

    conf_need("FENCE");
    scene_open(&s);
    p = s.p;
    conf_fill(s.local, REGION, OLD);
    conf_fill(s.later, REGION, NEW);
    conf_post(p, fi_tsend(p->a.ep, s.local, REGION, NULL, p->a.peer, 1, s.local));
    rc = write_fenced(&s, s.later, REGION);
    conf_check(!rc || rc == -FI_EAGAIN, "fi_writemsg: %s", fi_strerror((int)-rc));
    conf_post(p, fi_trecv(p->b.ep, s.t.memory, REGION, NULL, FI_ADDR_UNSPEC, 1, 0, s.t.memory));
    if (rc)
        conf_post(p, write_fenced(&s, s.later, REGION));
    conf_check(!conf_wait(p, &p->b, s.t.memory).err, "fi_trecv");
    conf_check(!conf_wait(p, &p->a, s.local).err, "fi_tsend");
    conf_check(!conf_wait(p, &p->a, s.later).err, "fi_writemsg");
    for (long long end = conf_now_ms() + CONF_TIMEOUT_MS; !conf_holds(s.t.memory, REGION, NEW);) {
        conf_drive_pair(p);
        conf_check(conf_now_ms() < end, "the fenced write was done before the message");
    }
    scene_close(&s);
}

const struct conf_case conf_order_cases[] = {
    {"order: a write stays behind a read", write_after_read},
    {"order: an atomic stays behind a read", atomic_after_read},
    {"order: a message stays behind a read", send_after_read},
    {"order: what follows a write sees it", after_write},
    {"order: a write stays behind a message", write_after_send},
    {"order: reads and writes in turn", in_turn},
    {"order: a fenced message needs nothing behind it", fence_ahead},
    {"order: a fence behind a large message", fence_behind},
    {0},
};
