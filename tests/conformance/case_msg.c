/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "conf.h"

static const size_t sizes[] = {0,     1,      8,       63,      64,      127,   128,
                               129,   4095,   4096,    9000,    16384,   65535, 65536,
                               65537, 262144, 1048576, 4194304, 16777217};
#define SIZES (sizeof sizes / sizeof *sizes)

static void send_sizes(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});

    for (size_t i = 0; i < SIZES; i++) {
        char *out = malloc(sizes[i] + 1), *in = malloc(sizes[i] + 1);
        struct conf_seen seen;

        conf_fill(out, sizes[i], (unsigned)i);
        in[sizes[i]] = 0x55;
        conf_post(p, fi_recv(p->b.ep, in, sizes[i], NULL, FI_ADDR_UNSPEC, in));
        conf_post(p, fi_send(p->a.ep, out, sizes[i], NULL, p->a.peer, out));
        seen = conf_wait(p, &p->a, out);
        conf_check(!seen.err && (seen.flags & FI_SEND) && (seen.flags & FI_MSG), "send flags %#lx",
                   (unsigned long)seen.flags);
        seen = conf_wait(p, &p->b, in);
        conf_check(!seen.err && (seen.flags & FI_RECV) && (seen.flags & FI_MSG), "recv flags %#lx",
                   (unsigned long)seen.flags);
        conf_check(seen.len == sizes[i], "length %lu of %zu", (unsigned long)seen.len, sizes[i]);
        conf_check(conf_holds(in, sizes[i], (unsigned)i) && in[sizes[i]] == 0x55, "data at %zu",
                   sizes[i]);
        free(out);
        free(in);
    }
    conf_quiet(p, 5);
    conf_pair_close(p);
}

/* Sent before the receive is there. */
static void tagged_sizes_unexpected(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});

    for (size_t i = 0; i < SIZES; i++) {
        char *out = malloc(sizes[i] + 1), *in = malloc(sizes[i] + 1);
        long long until;
        struct conf_seen seen;

        conf_fill(out, sizes[i], (unsigned)i);
        conf_post(p, fi_tsend(p->a.ep, out, sizes[i], NULL, p->a.peer, 100 + i, out));
        for (until = conf_now_ms() + 3; conf_now_ms() < until;)
            conf_drive_pair(p);
        conf_post(p, fi_trecv(p->b.ep, in, sizes[i], NULL, FI_ADDR_UNSPEC, 100 + i, 0, in));
        seen = conf_wait(p, &p->b, in);
        conf_check(!seen.err && seen.len == sizes[i] && seen.tag == 100 + i, "size %zu", sizes[i]);
        conf_check((seen.flags & (FI_RECV | FI_TAGGED)) == (FI_RECV | FI_TAGGED), "flags %#lx",
                   (unsigned long)seen.flags);
        conf_check(conf_holds(in, sizes[i], (unsigned)i), "data at %zu", sizes[i]);
        seen = conf_wait(p, &p->a, out);
        conf_check(!seen.err, "send: %s", fi_strerror(seen.err));
        free(out);
        free(in);
    }
    conf_quiet(p, 5);
    conf_pair_close(p);
}

static void tagged_matching(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    uint64_t out[4] = {1, 2, 3, 4}, in[4] = {0};
    struct conf_seen seen;

    /* Posted: exact 30, any tag of 0x10-0x1f, exact 20, any tag at all. */
    conf_post(p, fi_trecv(p->b.ep, &in[0], 8, NULL, FI_ADDR_UNSPEC, 0x30, 0, &in[0]));
    conf_post(p, fi_trecv(p->b.ep, &in[1], 8, NULL, FI_ADDR_UNSPEC, 0x10, 0xf, &in[1]));
    conf_post(p, fi_trecv(p->b.ep, &in[2], 8, NULL, FI_ADDR_UNSPEC, 0x20, 0, &in[2]));
    conf_post(p, fi_trecv(p->b.ep, &in[3], 8, NULL, FI_ADDR_UNSPEC, 0, ~0ULL, &in[3]));
    conf_post(p, fi_tsend(p->a.ep, &out[0], 8, NULL, p->a.peer, 0x99, &out[0]));
    conf_post(p, fi_tsend(p->a.ep, &out[1], 8, NULL, p->a.peer, 0x20, &out[1]));
    conf_post(p, fi_tsend(p->a.ep, &out[2], 8, NULL, p->a.peer, 0x1c, &out[2]));
    conf_post(p, fi_tsend(p->a.ep, &out[3], 8, NULL, p->a.peer, 0x30, &out[3]));
    seen = conf_wait(p, &p->b, &in[3]);
    conf_check(in[3] == 1 && seen.tag == 0x99, "any tag got %lu", (unsigned long)in[3]);
    conf_wait(p, &p->b, &in[2]);
    conf_check(in[2] == 2, "exact 0x20 got %lu", (unsigned long)in[2]);
    seen = conf_wait(p, &p->b, &in[1]);
    conf_check(in[1] == 3 && seen.tag == 0x1c, "ignore bits got %lu", (unsigned long)in[1]);
    conf_wait(p, &p->b, &in[0]);
    conf_check(in[0] == 4, "exact 0x30 got %lu", (unsigned long)in[0]);
    for (int i = 0; i < 4; i++)
        conf_wait(p, &p->a, &out[i]);
    conf_quiet(p, 5);
    conf_pair_close(p);
}

/* Large and small messages without a receive must not stop one that has a receive. */
static void unmatched_never_blocks(void)
{
    enum {
        BIG = 1 << 20
    };
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    char *big = malloc(BIG), *big_in = malloc(BIG), small = 'x', in = 0;

    conf_fill(big, BIG, 9);
    conf_post(p, fi_send(p->a.ep, &small, 1, NULL, p->a.peer, &p->a));
    conf_post(p, fi_tsend(p->a.ep, big, BIG, NULL, p->a.peer, 1, big));
    for (int i = 0; i < 100; i++)
        conf_post(p, fi_tinject(p->a.ep, &small, 1, p->a.peer, 2));
    conf_post(p, fi_trecv(p->b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 3, 0, &in));
    conf_post(p, fi_tsend(p->a.ep, &small, 1, NULL, p->a.peer, 3, &small));
    conf_wait(p, &p->b, &in);
    conf_check(in == 'x', "wrong byte");
    conf_post(p, fi_trecv(p->b.ep, big_in, BIG, NULL, FI_ADDR_UNSPEC, 1, 0, big_in));
    conf_wait(p, &p->b, big_in);
    conf_check(conf_holds(big_in, BIG, 9), "the large message");
    for (int i = 0; i < 100; i++) {
        in = 0;
        conf_post(p, fi_trecv(p->b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 2, 0, &in));
        conf_wait(p, &p->b, &in);
    }
    conf_post(p, fi_recv(p->b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, &in));
    conf_wait(p, &p->b, &in);
    conf_wait(p, &p->a, &p->a);
    conf_wait(p, &p->a, big);
    conf_wait(p, &p->a, &small);
    conf_quiet(p, 5);
    conf_pair_close(p);
    free(big);
    free(big_in);
}

static void truncation(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    char out[1000], in[101];
    struct conf_seen seen;

    conf_fill(out, sizeof out, 3);
    for (int tagged = 0; tagged < 2; tagged++) {
        memset(in, 0x55, sizeof in);
        if (tagged) {
            conf_post(p, fi_trecv(p->b.ep, in, 100, NULL, FI_ADDR_UNSPEC, 5, 0, in));
            conf_post(p, fi_tsend(p->a.ep, out, sizeof out, NULL, p->a.peer, 5, out));
        } else {
            conf_post(p, fi_recv(p->b.ep, in, 100, NULL, FI_ADDR_UNSPEC, in));
            conf_post(p, fi_send(p->a.ep, out, sizeof out, NULL, p->a.peer, out));
        }
        seen = conf_wait(p, &p->b, in);
        conf_check(seen.err == FI_ETRUNC && seen.olen == 900, "err %d, olen %zu", seen.err,
                   seen.olen);
        conf_check(conf_holds(in, 100, 3) && in[100] == 0x55, "what fits");
        conf_check(!conf_wait(p, &p->a, out).err, "the sender");
    }
    /* The connection goes on. */
    conf_post(p, fi_recv(p->b.ep, in, 100, NULL, FI_ADDR_UNSPEC, in));
    conf_post(p, fi_send(p->a.ep, out, 100, NULL, p->a.peer, out));
    conf_check(!conf_wait(p, &p->b, in).err, "a message after it");
    conf_wait(p, &p->a, out);
    conf_pair_close(p);
}

static void vectors_and_data(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    char out[300], in[300];
    struct iovec to[3] = {{out, 100}, {out + 100, 7}, {out + 107, 193}};
    struct iovec from[2] = {{in, 150}, {in + 150, 150}};
    struct fi_msg_tagged msg = {.msg_iov = to,
                                .iov_count = 3,
                                .addr = p->a.peer,
                                .tag = 7,
                                .context = out,
                                .data = 0x1122334455667788ULL};
    struct conf_seen seen;

    conf_fill(out, sizeof out, 4);
    conf_post(p, fi_trecvv(p->b.ep, from, NULL, 2, FI_ADDR_UNSPEC, 7, 0, in));
    conf_post(p, fi_tsendmsg(p->a.ep, &msg, FI_REMOTE_CQ_DATA | FI_COMPLETION));
    seen = conf_wait(p, &p->b, in);
    conf_check(seen.len == 300 && conf_holds(in, 300, 4), "data");
    conf_check((seen.flags & FI_REMOTE_CQ_DATA) && seen.data == msg.data, "CQ data %#lx",
               (unsigned long)seen.data);
    conf_wait(p, &p->a, out);
    conf_post(p, fi_recv(p->b.ep, in, 10, NULL, FI_ADDR_UNSPEC, in));
    conf_post(p, fi_injectdata(p->a.ep, out, 10, 77, p->a.peer));
    seen = conf_wait(p, &p->b, in);
    conf_check((seen.flags & FI_REMOTE_CQ_DATA) && seen.data == 77, "injected CQ data");
    conf_quiet(p, 5);
    conf_pair_close(p);
}

static void inject_reuses_at_once(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    size_t limit = p->home.info->tx_attr->inject_size;
    char *out = malloc(limit), *in = malloc(limit);
    ssize_t rc;

    for (unsigned i = 0; i < 500; i++) {
        conf_fill(out, limit, i);
        conf_post(p, fi_tinject(p->a.ep, out, limit, p->a.peer, i));
    }
    memset(out, 0, limit);
    for (unsigned i = 0; i < 500; i++) {
        conf_post(p, fi_trecv(p->b.ep, in, limit, NULL, FI_ADDR_UNSPEC, i, 0, in));
        conf_wait(p, &p->b, in);
        conf_check(conf_holds(in, limit, i), "injected message %u", i);
    }
    while ((rc = fi_tinject(p->a.ep, out, limit + 1, p->a.peer, 1)) == -FI_EAGAIN)
        conf_drive(&p->a);
    conf_check(rc == -FI_EINVAL || rc == -FI_EMSGSIZE, "one byte above inject_size is taken");
    conf_pair_close(p);
    free(out);
    free(in);
}

/* All of a flood arrives in order, whatever is refused with -FI_EAGAIN on the way. */
static void flood_keeps_order(void)
{
    enum {
        MESSAGES = 20000
    };
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    static unsigned out[MESSAGES];
    unsigned in, sent = 0, got = 0;
    bool posted = false;

    while (got < MESSAGES) {
        if (sent < MESSAGES) {
            ssize_t rc;

            out[sent] = sent;
            rc = fi_send(p->a.ep, &out[sent], 4, NULL, p->a.peer, p);
            conf_check(!rc || rc == -FI_EAGAIN, "fi_send: %s", fi_strerror((int)-rc));
            sent += !rc;
        }
        if (!posted && (sent > 3000 || sent == MESSAGES)) {
            conf_post(p, fi_recv(p->b.ep, &in, 4, NULL, FI_ADDR_UNSPEC, &in));
            posted = true;
        }
        conf_drive_pair(p);
        p->a.seen_count = 0;
        if (posted && conf_has(&p->b, &in)) {
            conf_check(!conf_wait(p, &p->b, &in).err && in == got, "%u instead of %u", in, got);
            posted = false;
            got++;
        }
    }
    conf_pair_close(p);
}

static void directed_and_source(void)
{
    struct conf_want want = {.caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | FI_SOURCE};
    struct conf_pair *p = conf_pair_open(want);
    struct conf_ep *c = calloc(1, sizeof *c);
    char from_a = 'a', from_c = 'c', in[2];
    fi_addr_t c_at_b;
    char address[256];
    size_t len = sizeof address;
    struct conf_seen seen;

    conf_ep_open(c, &p->home, &want);
    conf_introduce(c, &p->b);
    conf_check(!fi_getname(&c->ep->fid, address, &len), "fi_getname");
    conf_check(fi_av_insert(p->b.av, address, 1, &c_at_b, 0, NULL) == 1, "fi_av_insert");
    /* The receive for c comes first but must wait for c. */
    conf_post(p, fi_trecv(p->b.ep, &in[0], 1, NULL, c_at_b, 1, 0, &in[0]));
    conf_post(p, fi_trecv(p->b.ep, &in[1], 1, NULL, p->b.peer, 1, 0, &in[1]));
    conf_post(p, fi_tsend(p->a.ep, &from_a, 1, NULL, p->a.peer, 1, &from_a));
    seen = conf_wait(p, &p->b, &in[1]);
    conf_check(in[1] == 'a' && seen.src == p->b.peer, "from a: %c, source %lu", in[1],
               (unsigned long)seen.src);
    conf_post(p, fi_tsend(c->ep, &from_c, 1, NULL, c->peer, 1, &from_c));
    while (!conf_has(c, &from_c) || !conf_has(&p->b, &in[0])) {
        conf_drive(c);
        conf_drive_pair(p);
    }
    seen = conf_wait(p, &p->b, &in[0]);
    conf_check(in[0] == 'c' && seen.src == c_at_b, "from c: %c, source %lu", in[0],
               (unsigned long)seen.src);
    conf_ep_close(c);
    free(c);
    conf_pair_close(p);
}

static void to_self(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    char *out = malloc(100000), *in = malloc(100000);
    fi_addr_t self;
    char address[256];
    size_t len = sizeof address;

    conf_check(!fi_getname(&p->a.ep->fid, address, &len), "fi_getname");
    conf_check(fi_av_insert(p->a.av, address, 1, &self, 0, NULL) == 1, "fi_av_insert");
    for (unsigned i = 0; i < 20; i++) {
        conf_fill(out, 100000, i);
        conf_post(p, fi_trecv(p->a.ep, in, 100000, NULL, FI_ADDR_UNSPEC, i, 0, in));
        conf_post(p, fi_tsend(p->a.ep, out, 5000 * i, NULL, self, i, out));
        conf_check(conf_wait(p, &p->a, in).len == 5000 * i, "length");
        conf_wait(p, &p->a, out);
        conf_check(conf_holds(in, 5000 * i, i), "data");
    }
    conf_pair_close(p);
    free(out);
    free(in);
}

/* Both ends send first, before either is connected. */
static void both_first(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    char out[2] = {'a', 'b'}, in[2] = {0};
    ssize_t rc[2] = {-FI_EAGAIN, -FI_EAGAIN};

    conf_post(p, fi_recv(p->a.ep, &in[0], 1, NULL, FI_ADDR_UNSPEC, &in[0]));
    conf_post(p, fi_recv(p->b.ep, &in[1], 1, NULL, FI_ADDR_UNSPEC, &in[1]));
    while (rc[0] || rc[1]) {
        if (rc[0])
            rc[0] = fi_send(p->a.ep, &out[0], 1, NULL, p->a.peer, &out[0]);
        if (rc[1])
            rc[1] = fi_send(p->b.ep, &out[1], 1, NULL, p->b.peer, &out[1]);
        for (int i = 0; i < 2; i++)
            conf_check(!rc[i] || rc[i] == -FI_EAGAIN, "fi_send: %s", fi_strerror((int)-rc[i]));
        conf_drive_pair(p);
    }
    conf_wait(p, &p->b, &in[1]);
    conf_wait(p, &p->a, &in[0]);
    conf_check(in[1] == 'a' && in[0] == 'b', "b got %c, a got %c", in[1], in[0]);
    conf_wait(p, &p->a, &out[0]);
    conf_wait(p, &p->b, &out[1]);
    conf_quiet(p, 5);
    conf_pair_close(p);
}

static void cancel_receive(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    char in[2], out = 'x';

    conf_post(p, fi_trecv(p->b.ep, &in[0], 1, NULL, FI_ADDR_UNSPEC, 1, 0, &in[0]));
    conf_post(p, fi_trecv(p->b.ep, &in[1], 1, NULL, FI_ADDR_UNSPEC, 1, 0, &in[1]));
    conf_check(!fi_cancel(&p->b.ep->fid, &in[0]), "fi_cancel");
    conf_check(conf_wait(p, &p->b, &in[0]).err == FI_ECANCELED, "not cancelled");
    conf_post(p, fi_tsend(p->a.ep, &out, 1, NULL, p->a.peer, 1, &out));
    conf_check(!conf_wait(p, &p->b, &in[1]).err && in[1] == 'x', "the other receive");
    conf_wait(p, &p->a, &out);
    conf_quiet(p, 5);
    conf_pair_close(p);
}

const struct conf_case conf_msg_cases[] = {
    {"msg: all sizes arrive whole", send_sizes},
    {"msg: unexpected tagged, all sizes", tagged_sizes_unexpected},
    {"msg: tags, ignore bits, order of receives", tagged_matching},
    {"msg: an unmatched message blocks nothing", unmatched_never_blocks},
    {"msg: truncation", truncation},
    {"msg: vectors and remote CQ data", vectors_and_data},
    {"msg: an injected buffer is free at once", inject_reuses_at_once},
    {"msg: a flood arrives in order", flood_keeps_order},
    {"msg: directed receive and source", directed_and_source},
    {"msg: to itself", to_self},
    {"msg: both ends send first", both_first},
    {"msg: cancel a receive", cancel_receive},
    {0},
};
