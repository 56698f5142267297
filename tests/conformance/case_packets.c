/* SPDX-License-Identifier: BSD-2-Clause */
/* Reliable packets: each arrives once, in any order, or its sender is told. The promises of
 * datagrams hold for them too (case_dgram.c). */
#include <stdlib.h>
#include <string.h>

#include "conf.h"

enum {
    COUNT = 2000,
    MOST = 8192,
    WINDOW = 50, /* receives posted */
    AHEAD = 300  /* sends under way */
};

static uint64_t out[MOST], in[MOST], back[MOST];
static struct fid_mr *in_mr, *back_mr; /* where FI_MR_LOCAL is asked for, of the buffers above */

static struct fid_mr *describe(struct conf_pair *pair, uint64_t *buf, uint64_t key)
{
    struct fid_mr *mr = NULL;
    int rc = 0;

    if (pair->home.info->domain_attr->mr_mode & FI_MR_LOCAL)
        rc = fi_mr_reg(pair->home.domain, buf, MOST * sizeof *buf, FI_RECV, 0, key, 0, &mr, NULL);
    conf_check(!rc, "fi_mr_reg: %s", fi_strerror(-rc));
    return mr;
}

static struct conf_pair *open_as(struct conf_want want)
{
    struct conf_pair *pair = conf_pair_open(want);

    in_mr = describe(pair, in, 1);
    back_mr = describe(pair, back, 2);
    return pair;
}

static struct conf_pair *open_pair(uint64_t caps)
{
    return open_as((struct conf_want){.caps = FI_MSG | caps});
}

static void close_pair(struct conf_pair *pair)
{
    if (in_mr)
        conf_check(!fi_close(&in_mr->fid) && !fi_close(&back_mr->fid), "fi_close of regions");
    conf_pair_close(pair);
}

static void post_receive(struct conf_pair *pair, struct conf_ep *end, uint64_t *buf)
{
    struct fid_mr *mr = buf >= in && buf < in + MOST ? in_mr : back_mr;
    void *desc = mr ? fi_mr_desc(mr) : NULL;

    conf_post(pair, fi_recv(end->ep, buf, sizeof *buf, desc, FI_ADDR_UNSPEC, buf));
}

/* Takes what `end` has seen in its receives out, and notes which messages these were. */
static unsigned take(struct conf_ep *end, const uint64_t *from, bool *seen)
{
    unsigned got = 0;

    for (size_t i = 0; i < end->seen_count; i++) {
        const struct conf_seen *one = &end->seen[i];
        const uint64_t *buf = one->context;

        if (!(one->flags & FI_RECV) && !one->err)
            continue;
        conf_check(!one->err, "a receive: %s", fi_strerror(one->err));
        conf_check(buf >= from && buf < from + MOST && one->len == sizeof *buf, "%zu bytes",
                   (size_t)one->len);
        conf_check(*buf < MOST && !seen[*buf], "message %llu twice", (unsigned long long)*buf);
        seen[*buf] = true;
        end->seen[i--] = end->seen[--end->seen_count];
        got++;
    }
    return got;
}

static void each_arrives_once(void)
{
    static bool seen[MOST];
    struct conf_pair *pair = open_pair(0);
    unsigned posted = 0, sent = 0, got = 0;

    while (got < COUNT) {
        for (; posted < COUNT && posted < got + WINDOW; posted++)
            post_receive(pair, &pair->b, &in[posted]);
        for (; sent < COUNT && sent < got + AHEAD; sent++) {
            out[sent] = sent;
            conf_post(pair, fi_send(pair->a.ep, &out[sent], 8, NULL, pair->a.peer, &out[sent]));
        }
        conf_drive_pair(pair);
        got += take(&pair->b, in, seen);
    }
    for (unsigned i = 0; i < COUNT; i++)
        conf_check(!conf_wait(pair, &pair->a, &out[i]).err, "send %u", i);
    conf_check(fi_cntr_read(pair->a.sent) == COUNT && fi_cntr_read(pair->b.received) == COUNT,
               "the counters");
    close_pair(pair);
}

static void both_ways_at_once(void)
{
    static bool seen_a[MOST], seen_b[MOST];
    struct conf_pair *pair = open_pair(0);
    unsigned sent = 0, got_a = 0, got_b = 0, count = COUNT / 4;

    for (unsigned i = 0; i < count; i++) {
        post_receive(pair, &pair->a, &back[i]);
        post_receive(pair, &pair->b, &in[i]);
    }
    while (got_a < count || got_b < count) {
        for (; sent < count; sent++) {
            out[sent] = sent;
            conf_post(pair, fi_inject(pair->a.ep, &out[sent], 8, pair->a.peer));
            conf_post(pair, fi_inject(pair->b.ep, &out[sent], 8, pair->b.peer));
        }
        conf_drive_pair(pair);
        got_a += take(&pair->a, back, seen_a);
        got_b += take(&pair->b, in, seen_b);
    }
    conf_quiet(pair, 5);
    close_pair(pair);
}

/* As many sends as tx_attr->size says are taken, whatever the receiver does. */
static void sends_are_accepted_up_to_the_size(void)
{
    static bool seen[MOST];
    struct conf_pair *pair = open_pair(0);
    size_t size = pair->home.info->tx_attr->size;
    unsigned got = 0;

    conf_check(size && size <= MOST, "tx_attr->size is %zu", size);
    for (size_t i = 0; i < size; i++) {
        ssize_t rc;

        out[i] = i;
        rc = fi_send(pair->a.ep, &out[i], 8, NULL, pair->a.peer, &out[i]);
        conf_check(!rc, "send %zu of %zu: %s", i, size, fi_strerror((int)-rc));
    }
    for (unsigned i = 0; i < size; i++)
        post_receive(pair, &pair->b, &in[i]);
    while (got < size) {
        conf_drive_pair(pair);
        got += take(&pair->b, in, seen);
    }
    for (size_t i = 0; i < size; i++)
        conf_check(!conf_wait(pair, &pair->a, &out[i]).err, "send %zu", i);
    close_pair(pair);
}

static void to_itself(void)
{
    struct conf_pair *pair = open_pair(FI_SOURCE);
    fi_addr_t self = conf_insert(&pair->a, &pair->a, 0, 0);

    for (unsigned i = 0; i < 20; i++) {
        out[i] = i;
        post_receive(pair, &pair->a, &in[i]);
        conf_post(pair, fi_send(pair->a.ep, &out[i], 8, NULL, self, &out[i]));
    }
    for (unsigned i = 0; i < 20; i++) {
        struct conf_seen seen = conf_wait(pair, &pair->a, &in[i]);

        conf_check(!seen.err && seen.len == 8 && seen.src == self, "message %u from %lld", i,
                   (long long)seen.src);
        conf_check(!conf_wait(pair, &pair->a, &out[i]).err, "send %u", i);
    }
    close_pair(pair);
}

static void messages_wait_for_their_receive(void)
{
    static bool seen[MOST];
    struct conf_pair *pair = open_pair(0);
    unsigned count = 600, got = 0;

    for (unsigned i = 0; i < count; i++) {
        out[i] = i;
        conf_post(pair, fi_send(pair->a.ep, &out[i], 8, NULL, pair->a.peer, &out[i]));
    }
    for (long long end = conf_now_ms() + 50; conf_now_ms() < end;)
        conf_drive_pair(pair);
    for (unsigned i = 0; i < count; i++) {
        post_receive(pair, &pair->b, &in[i]);
        for (int tries = 0; tries < 3; tries++)
            conf_drive_pair(pair);
        got += take(&pair->b, in, seen);
    }
    while (got < count) {
        conf_drive_pair(pair);
        got += take(&pair->b, in, seen);
    }
    for (unsigned i = 0; i < count; i++)
        conf_check(!conf_wait(pair, &pair->a, &out[i]).err, "send %u", i);
    close_pair(pair);
}

/* Both ends are asleep but for what wakes them; the receiver acknowledges all the same. */
static void sleepers_get_their_completions(void)
{
    struct conf_pair *pair = open_as(
        (struct conf_want){.caps = FI_MSG, .wait = FI_WAIT_UNSPEC, .progress = FI_PROGRESS_AUTO});

    for (unsigned i = 0; i < 20; i++) {
        struct fi_cq_tagged_entry entry;

        out[i] = i;
        post_receive(pair, &pair->b, &in[i]);
        conf_post(pair, fi_send(pair->a.ep, &out[i], 8, NULL, pair->a.peer, &out[i]));
        conf_check(fi_cq_sread(pair->b.rx, &entry, 1, NULL, 20000) == 1, "receive %u", i);
        conf_check(fi_cq_sread(pair->a.tx, &entry, 1, NULL, 20000) == 1, "send %u", i);
    }
    close_pair(pair);
}

/* A peer that is inserted after it has sent is known from then on. */
static void strangers_are_found_later(void)
{
    struct conf_pair *pair = open_pair(FI_SOURCE);
    struct conf_seen seen;
    fi_addr_t addr;

    conf_check(!fi_av_remove(pair->b.av, &pair->b.peer, 1, 0), "fi_av_remove");
    post_receive(pair, &pair->b, &in[0]);
    conf_post(pair, fi_send(pair->a.ep, &out[0], 8, NULL, pair->a.peer, &out[0]));
    seen = conf_wait(pair, &pair->b, &in[0]);
    conf_check(!seen.err && seen.src == FI_ADDR_NOTAVAIL, "source %lld", (long long)seen.src);
    conf_wait(pair, &pair->a, &out[0]);
    addr = conf_insert(&pair->b, &pair->a, 0, 0);
    post_receive(pair, &pair->b, &in[1]);
    conf_post(pair, fi_send(pair->a.ep, &out[1], 8, NULL, pair->a.peer, &out[1]));
    seen = conf_wait(pair, &pair->b, &in[1]);
    conf_check(!seen.err && seen.src == addr, "source %lld", (long long)seen.src);
    conf_wait(pair, &pair->a, &out[1]);
    close_pair(pair);
}

/* Accepted packets arrive, though their sender closes. */
static void close_delivers(void)
{
    static bool seen[MOST];
    struct conf_pair *pair = open_as(
        (struct conf_want){.caps = FI_MSG, .progress = FI_PROGRESS_AUTO, .wait = FI_WAIT_UNSPEC});
    unsigned count = 200, got = 0;

    for (unsigned i = 0; i < count; i++)
        post_receive(pair, &pair->b, &in[i]);
    for (unsigned i = 0; i < count; i++) {
        out[i] = i;
        conf_post(pair, fi_inject(pair->a.ep, &out[i], 8, pair->a.peer));
    }
    conf_check(!fi_close(&pair->a.ep->fid), "fi_close");
    while (got < count) {
        conf_drive(&pair->b);
        got += take(&pair->b, in, seen);
    }
    /* conf_pair_close would close it again. */
    conf_check(!fi_endpoint(pair->home.domain, pair->home.info, &pair->a.ep, NULL), "fi_endpoint");
    close_pair(pair);
}

const struct conf_case conf_packets_cases[] = {
    {"packets: each arrives once", each_arrives_once},
    {"packets: both ways at once", both_ways_at_once},
    {"packets: sends are accepted up to the size", sends_are_accepted_up_to_the_size},
    {"packets: to itself", to_itself},
    {"packets: messages wait for their receive", messages_wait_for_their_receive},
    {"packets: sleepers get their completions", sleepers_get_their_completions},
    {"packets: strangers are found later", strangers_are_found_later},
    {"packets: fi_close delivers", close_delivers},
    {0},
};
