/* SPDX-License-Identifier: BSD-2-Clause */
/* Options of a receive: peek, claim, discard, many messages in one buffer, the source. */
#include <stdlib.h>
#include <string.h>

#include "conf.h"

static void drive_for(struct conf_pair *p, int ms)
{
    for (long long end = conf_now_ms() + ms; conf_now_ms() < end;)
        conf_drive_pair(p);
}

static ssize_t receive_with(struct conf_pair *p, void *buffer, size_t len, uint64_t tag,
                            void *context, uint64_t flags)
{
    struct iovec iov = {buffer, len};
    struct fi_msg_tagged msg = {.msg_iov = &iov,
                                .iov_count = buffer ? 1 : 0,
                                .addr = FI_ADDR_UNSPEC,
                                .tag = tag,
                                .context = context};

    return fi_trecvmsg(p->b.ep, &msg, flags | FI_COMPLETION);
}

/* Peeks until a message with the tag is there. */
static struct conf_seen peek_until(struct conf_pair *p, uint64_t tag, void *context, uint64_t flags)
{
    struct conf_seen seen;
    long long end = conf_now_ms() + CONF_TIMEOUT_MS;

    do {
        conf_post(p, receive_with(p, NULL, 0, tag, context, FI_PEEK | flags));
        seen = conf_wait(p, &p->b, context);
        conf_check(!seen.err || seen.err == FI_ENOMSG, "peek: %s", fi_strerror(seen.err));
        conf_check(conf_now_ms() < end, "the message never shows");
    } while (seen.err);
    return seen;
}

/* The sends end before there is a receive: each fits a packet of any path. */
static void peek_claim_discard(void)
{
    enum {
        UNIT = 150
    };
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    struct fi_context2 context;
    char out[4][3 * UNIT], in[3 * UNIT];
    struct conf_seen seen;

    conf_post(p, receive_with(p, NULL, 0, 1, &context, FI_PEEK));
    conf_check(conf_wait(p, &p->b, &context).err == FI_ENOMSG, "a peek at nothing");
    for (unsigned i = 0; i < 4; i++) {
        conf_fill(out[i], sizeof out[i], i);
        conf_post(p,
                  fi_tsenddata(p->a.ep, out[i], UNIT * (i % 4), NULL, 50 + i, p->a.peer, i, NULL));
        conf_wait(p, &p->a, NULL);
    }
    seen = peek_until(p, 1, &context, 0);
    conf_check(seen.len == UNIT && seen.tag == 1, "length %lu, tag %lu", (unsigned long)seen.len,
               (unsigned long)seen.tag);
    conf_check((seen.flags & FI_REMOTE_CQ_DATA) && seen.data == 51, "CQ data %lu",
               (unsigned long)seen.data);
    /* It is still there, for one receive. */
    conf_post(p, receive_with(p, in, sizeof in, 1, in, 0));
    seen = conf_wait(p, &p->b, in);
    conf_check(!seen.err && seen.len == UNIT && conf_holds(in, UNIT, 1), "after the peek");
    /* Claimed: no other receive gets it. */
    peek_until(p, 2, &context, FI_CLAIM);
    conf_post(p, receive_with(p, NULL, 0, 2, in, FI_PEEK));
    conf_check(conf_wait(p, &p->b, in).err == FI_ENOMSG, "a claimed message shows again");
    conf_post(p, receive_with(p, in, sizeof in, 2, &context, FI_CLAIM));
    seen = conf_wait(p, &p->b, &context);
    conf_check(!seen.err && seen.len == 2 * UNIT && conf_holds(in, 2 * UNIT, 2),
               "the claimed message");
    /* Discarded, at once and after a claim. */
    peek_until(p, 3, &context, FI_DISCARD);
    conf_post(p, receive_with(p, NULL, 0, 3, &context, FI_PEEK));
    conf_check(conf_wait(p, &p->b, &context).err == FI_ENOMSG, "a discarded message shows");
    peek_until(p, 0, &context, FI_CLAIM);
    conf_post(p, receive_with(p, NULL, 0, 0, &context, FI_CLAIM | FI_DISCARD));
    conf_check(!conf_wait(p, &p->b, &context).err, "claim, then discard");
    conf_post(p, receive_with(p, NULL, 0, 0, &context, FI_PEEK));
    conf_check(conf_wait(p, &p->b, &context).err == FI_ENOMSG, "a discarded message shows");
    conf_quiet(p, 5);
    conf_pair_close(p);
}

static void big_messages_claimed(void)
{
    enum {
        BIG = 4 << 20
    };
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    struct fi_context2 context;
    char *out = malloc(BIG), *in = malloc(BIG), small = 's', small_in = 0;

    conf_fill(out, BIG, 5);
    conf_post(p, fi_tsend(p->a.ep, out, BIG, NULL, p->a.peer, 1, out));
    conf_post(p, fi_tsend(p->a.ep, out, BIG, NULL, p->a.peer, 2, &out));
    peek_until(p, 1, &context, FI_CLAIM);
    /* The one behind it can be dropped, and what comes then arrives. */
    peek_until(p, 2, in, FI_DISCARD);
    conf_post(p, fi_tsend(p->a.ep, &small, 1, NULL, p->a.peer, 3, &small));
    conf_post(p, receive_with(p, &small_in, 1, 3, &small_in, 0));
    conf_wait(p, &p->b, &small_in);
    conf_post(p, receive_with(p, in, BIG, 1, &context, FI_CLAIM));
    conf_check(!conf_wait(p, &p->b, &context).err && conf_holds(in, BIG, 5), "the claimed message");
    conf_wait(p, &p->a, out);
    conf_wait(p, &p->a, &out);
    conf_wait(p, &p->a, &small);
    conf_quiet(p, 5);
    conf_pair_close(p);
    free(out);
    free(in);
}

enum {
    MULTI_MESSAGES = 300,
    MULTI_BUFFER = 8192,
    MULTI_MIN = 512
};

static size_t multi_size(unsigned i)
{
    return i * 37 % (MULTI_MIN + 1);
}

/* Messages follow one another in the buffers; the last of a buffer, and only that, gives it back.
 */
static void multi_recv_with(bool send_first)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){.caps = FI_MSG | FI_MULTI_RECV});
    char *buffers[2] = {calloc(1, MULTI_BUFFER), calloc(1, MULTI_BUFFER)}, out[MULTI_MIN];
    size_t min = MULTI_MIN, got = 0;
    unsigned sent = 0, posted = 0;

    conf_check(!fi_setopt(&p->b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &min, sizeof min),
               "FI_OPT_MIN_MULTI_RECV");
    for (long long end = conf_now_ms() + CONF_TIMEOUT_MS; got < MULTI_MESSAGES;) {
        while (posted < 2 && (!send_first || sent >= 20)) {
            struct iovec iov = {buffers[posted], MULTI_BUFFER};
            struct fi_msg msg = {.msg_iov = &iov,
                                 .iov_count = 1,
                                 .addr = FI_ADDR_UNSPEC,
                                 .context = buffers[posted]};

            conf_post(p, fi_recvmsg(p->b.ep, &msg, FI_MULTI_RECV));
            posted++;
        }
        if (sent < MULTI_MESSAGES) {
            conf_fill(out, multi_size(sent), sent);
            sent += !fi_inject(p->a.ep, out, multi_size(sent) > 100 ? 100 : multi_size(sent),
                               p->a.peer);
        }
        conf_drive_pair(p);
        while (p->b.seen_count) {
            struct conf_seen seen = p->b.seen[0];

            p->b.seen_count--;
            memmove(&p->b.seen[0], &p->b.seen[1], p->b.seen_count * sizeof seen);
            conf_check(!seen.err, "%s", fi_strerror(seen.err));
            if (seen.flags & FI_RECV) {
                size_t len = multi_size((unsigned)got) > 100 ? 100 : multi_size((unsigned)got);

                conf_check(seen.len == len && conf_holds(seen.buf, len, (unsigned)got),
                           "message %zu: %lu bytes", got, (unsigned long)seen.len);
                got++;
            }
            if (seen.flags & FI_MULTI_RECV) {
                struct iovec iov = {seen.context, MULTI_BUFFER};
                struct fi_msg msg = {.msg_iov = &iov,
                                     .iov_count = 1,
                                     .addr = FI_ADDR_UNSPEC,
                                     .context = seen.context};

                conf_post(p, fi_recvmsg(p->b.ep, &msg, FI_MULTI_RECV));
            }
        }
        conf_check(conf_now_ms() < end, "%zu of %d arrived", got, MULTI_MESSAGES);
    }
    conf_pair_close(p);
    free(buffers[0]);
    free(buffers[1]);
}

static void multi_recv(void)
{
    conf_need("MULTI_RECV");
    multi_recv_with(false);
    multi_recv_with(true);
}

/* A cancelled multi-receive buffer comes back once, and takes nothing any more. */
static void multi_recv_cancelled(void)
{
    struct conf_pair *p;
    char buffer[1000], in = 0, out = 'o';
    size_t min = 100;
    struct iovec iov = {buffer, sizeof buffer};
    struct fi_msg msg = {
        .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = buffer};
    struct conf_seen seen;

    conf_need("MULTI_RECV");
    p = conf_pair_open((struct conf_want){.caps = FI_MSG | FI_MULTI_RECV});
    conf_check(!fi_setopt(&p->b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &min, sizeof min),
               "FI_OPT_MIN_MULTI_RECV");
    conf_post(p, fi_recvmsg(p->b.ep, &msg, FI_MULTI_RECV));
    conf_post(p, fi_send(p->a.ep, &out, 1, NULL, p->a.peer, &out));
    seen = conf_wait(p, &p->b, buffer);
    conf_check(!seen.err && buffer[0] == 'o' && !(seen.flags & FI_MULTI_RECV), "the first");
    conf_check(!fi_cancel(&p->b.ep->fid, buffer), "fi_cancel");
    seen = conf_wait(p, &p->b, buffer);
    conf_check(seen.err == FI_ECANCELED, "%s", fi_strerror(seen.err));
    conf_post(p, fi_recv(p->b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, &in));
    conf_wait(p, &p->a, &out);
    conf_post(p, fi_send(p->a.ep, &out, 1, NULL, p->a.peer, &out));
    conf_wait(p, &p->b, &in);
    conf_wait(p, &p->a, &out);
    conf_quiet(p, 5);
    conf_pair_close(p);
}

/* b does not know a: the sender's address comes with the message, and is good to answer to. */
static void source_of_a_stranger(void)
{
    struct conf_want want = {.caps = FI_MSG | FI_TAGGED | FI_SOURCE | FI_SOURCE_ERR};
    struct conf_pair *p;
    struct conf_ep *c = calloc(1, sizeof *c);
    char out = 'c', in = 0, back = 0;
    struct conf_seen seen;
    fi_addr_t to;

    conf_need("SOURCE_ERR");
    p = conf_pair_open(want);
    conf_ep_open(c, &p->home, &want);
    conf_introduce(c, &p->b);
    conf_post(p, fi_trecv(p->b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 1, 0, &in));
    for (ssize_t rc = -FI_EAGAIN; rc; conf_drive_pair(p), conf_drive(c)) {
        rc = fi_tsend(c->ep, &out, 1, NULL, c->peer, 1, &out);
        conf_check(!rc || rc == -FI_EAGAIN, "fi_tsend: %s", fi_strerror((int)-rc));
    }
    while (!conf_has(&p->b, &in)) {
        conf_drive(c);
        conf_drive_pair(p);
    }
    seen = conf_wait(p, &p->b, &in);
    conf_check(seen.err == FI_EADDRNOTAVAIL && in == 'c', "%s, %c", fi_strerror(seen.err), in);
    conf_check(seen.err_len > 0, "no address in err_data");
    conf_check(fi_av_insert(p->b.av, seen.err_data, 1, &to, 0, NULL) == 1, "insert err_data");
    conf_post(p, fi_trecv(c->ep, &back, 1, NULL, FI_ADDR_UNSPEC, 2, 0, &back));
    conf_post(p, fi_tsend(p->b.ep, &in, 1, NULL, to, 2, &out));
    for (long long end = conf_now_ms() + CONF_TIMEOUT_MS; !conf_has(c, &back);) {
        conf_drive(c);
        conf_drive_pair(p);
        conf_check(conf_now_ms() < end, "the answer");
    }
    conf_check(back == 'c', "the answer: %c", back);
    /* By now it is no stranger. */
    conf_post(p, fi_trecv(p->b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 1, 0, &in));
    conf_post(p, fi_tsend(c->ep, &out, 1, NULL, c->peer, 1, &out));
    while (!conf_has(&p->b, &in)) {
        conf_drive(c);
        conf_drive_pair(p);
    }
    seen = conf_wait(p, &p->b, &in);
    conf_check(!seen.err && seen.src == to, "source %lu", (unsigned long)seen.src);
    conf_ep_close(c);
    conf_pair_close(p);
    free(c);
}

static void source_unknown(void)
{
    struct conf_want want = {.caps = FI_MSG | FI_TAGGED | FI_SOURCE};
    struct conf_pair *p = conf_pair_open(want);
    struct conf_ep *c = calloc(1, sizeof *c);
    char out = 'c', in = 0;
    struct conf_seen seen;

    conf_ep_open(c, &p->home, &want);
    conf_introduce(c, &p->b);
    conf_post(p, fi_trecv(p->b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 1, 0, &in));
    while (fi_tinject(c->ep, &out, 1, c->peer, 1) == -FI_EAGAIN) {
        conf_drive(c);
        conf_drive_pair(p);
    }
    while (!conf_has(&p->b, &in)) {
        conf_drive(c);
        conf_drive_pair(p);
    }
    seen = conf_wait(p, &p->b, &in);
    conf_check(!seen.err && seen.src == FI_ADDR_NOTAVAIL && in == 'c', "%s, source %#lx",
               fi_strerror(seen.err), (unsigned long)seen.src);
    conf_ep_close(c);
    conf_pair_close(p);
    free(c);
}

static fi_addr_t source_of(struct conf_pair *p, struct conf_ep *from)
{
    char out = 'c', in = 0;

    conf_post(p, fi_trecv(p->b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 1, 0, &in));
    while (fi_tinject(from->ep, &out, 1, from->peer, 1) == -FI_EAGAIN) {
        conf_drive(from);
        conf_drive_pair(p);
    }
    while (!conf_has(&p->b, &in)) {
        conf_drive(from);
        conf_drive_pair(p);
    }
    conf_check(in == 'c', "data");
    return conf_wait(p, &p->b, &in).src;
}

/* Sources are the numbers that the application gave: at insertion, or, where the whole vector is
 * for such numbers, when it sets them. */
static void user_ids(void)
{
    conf_need("AV_USER_ID");
    for (int whole = 0; whole < 2; whole++) {
        struct conf_want want = {.caps = FI_MSG | FI_TAGGED | FI_SOURCE | FI_AV_USER_ID,
                                 .av_flags = whole ? FI_AV_USER_ID : 0};
        struct conf_pair *p = conf_pair_open(want);
        struct conf_ep *c = calloc(1, sizeof *c);
        fi_addr_t at_b, src;
        int rc;

        conf_ep_open(c, &p->home, &want);
        conf_introduce(c, &p->b);
        at_b = conf_insert(&p->b, c, whole ? 0 : FI_AV_USER_ID, 0xbeef);
        if (whole) {
            src = source_of(p, c);
            conf_check(src == FI_ADDR_NOTAVAIL, "source %#lx before it is set", (unsigned long)src);
            rc = fi_av_set_user_id(p->b.av, at_b, 0xbeef, 0);
            conf_check(!rc, "fi_av_set_user_id: %s", fi_strerror(-rc));
        }
        src = source_of(p, c);
        conf_check(src == 0xbeef, "source %#lx", (unsigned long)src);
        conf_ep_close(c);
        conf_pair_close(p);
        free(c);
    }
}

/* Untagged receives, each for one sender, in the wrong order. */
static void directed_untagged(void)
{
    enum {
        SENDERS = 4
    };
    struct conf_want want = {.caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | FI_SOURCE};
    struct conf_pair *p = conf_pair_open(want);
    struct conf_ep *senders = calloc(SENDERS, sizeof *senders);
    fi_addr_t at[SENDERS];
    char out[SENDERS], in[SENDERS] = {0};

    for (int i = 0; i < SENDERS; i++) {
        conf_ep_open(&senders[i], &p->home, &want);
        conf_introduce(&senders[i], &p->b);
        at[i] = conf_insert(&p->b, &senders[i], 0, 0);
    }
    for (int i = 0; i < SENDERS; i++) {
        out[i] = (char)('a' + i);
        while (fi_inject(senders[i].ep, &out[i], 1, senders[i].peer) == -FI_EAGAIN) {
            conf_drive(&senders[i]);
            conf_drive_pair(p);
        }
    }
    drive_for(p, 5);
    for (int i = SENDERS - 1; i >= 0; i--)
        conf_post(p, fi_recv(p->b.ep, &in[i], 1, NULL, at[i], &in[i]));
    for (int i = 0; i < SENDERS; i++) {
        while (!conf_has(&p->b, &in[i])) {
            for (int j = 0; j < SENDERS; j++)
                conf_drive(&senders[j]);
            conf_drive_pair(p);
        }
        conf_check(conf_wait(p, &p->b, &in[i]).src == at[i] && in[i] == out[i], "sender %d: %c", i,
                   in[i]);
    }
    for (int i = 0; i < SENDERS; i++)
        conf_ep_close(&senders[i]);
    conf_pair_close(p);
    free(senders);
}

/* Receives cancelled while messages for them are on the way: each ends once, no message is lost. */
static void cancel_races(void)
{
    enum {
        ROUNDS = 300
    };
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    static uint32_t in[ROUNDS];
    uint32_t late, next = 0, cancelled = 0;

    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct conf_seen seen;
        int rc;

        conf_post(p, fi_trecv(p->b.ep, &in[i], 4, NULL, FI_ADDR_UNSPEC, 1, 0, &in[i]));
        conf_post(p, fi_tinject(p->a.ep, &i, 4, p->a.peer, 1));
        for (uint32_t spin = 0; spin < i % 5; spin++)
            conf_drive_pair(p);
        rc = conf_has(&p->b, &in[i]) ? -FI_ENOENT : fi_cancel(&p->b.ep->fid, &in[i]);
        conf_check(!rc || rc == -FI_ENOENT, "fi_cancel: %s", fi_strerror(-rc));
        seen = conf_wait(p, &p->b, &in[i]);
        conf_check(!seen.err || seen.err == FI_ECANCELED, "%s", fi_strerror(seen.err));
        if (seen.err)
            cancelled++;
        else
            conf_check(in[i] == next++, "message %u instead of %u", in[i], next - 1);
    }
    for (; cancelled; cancelled--) {
        conf_post(p, fi_trecv(p->b.ep, &late, 4, NULL, FI_ADDR_UNSPEC, 1, 0, &late));
        conf_wait(p, &p->b, &late);
        conf_check(late == next++, "message %u instead of %u", late, next - 1);
    }
    conf_quiet(p, 10);
    conf_pair_close(p);
}

/* Cut short when it was there first, and when it is large enough for any protocol. */
static void truncation_of_any_size(void)
{
    static const size_t sizes[] = {200, 5000, 70000, 300000, 4 << 20};
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    char *out = malloc(4 << 20), *in = malloc((4 << 20) + 1);

    for (unsigned i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
        size_t size = sizes[i / 2], fits = size / 3;
        struct conf_seen seen;

        conf_fill(out, size, i);
        memset(in, 0x55, fits + 1);
        if (i % 2)
            conf_post(p, fi_trecv(p->b.ep, in, fits, NULL, FI_ADDR_UNSPEC, i, 0, in));
        conf_post(p, fi_tsend(p->a.ep, out, size, NULL, p->a.peer, i, out));
        drive_for(p, 2);
        if (!(i % 2))
            conf_post(p, fi_trecv(p->b.ep, in, fits, NULL, FI_ADDR_UNSPEC, i, 0, in));
        seen = conf_wait(p, &p->b, in);
        conf_check(seen.err == FI_ETRUNC && seen.olen == size - fits, "%s, olen %zu of %zu",
                   fi_strerror(seen.err), seen.olen, size - fits);
        conf_check(conf_holds(in, fits, i) && in[fits] == 0x55, "what fits of %zu", size);
        conf_check(!conf_wait(p, &p->a, out).err, "the send of %zu", size);
    }
    conf_quiet(p, 5);
    conf_pair_close(p);
    free(out);
    free(in);
}

/* Pieces of odd sizes, some empty, at both ends. */
static void pieces(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    char *out = malloc(1 << 20), *in = malloc(1 << 20);

    for (unsigned i = 0; i < 24; i++) {
        size_t total = i < 12 ? 97 * i : 40000 * i, cut = total / 3 + i;
        struct iovec to[4], from[4];
        struct conf_seen seen;

        cut = cut > total ? total : cut;
        to[0] = (struct iovec){out, cut};
        to[1] = (struct iovec){out + cut, 0};
        to[2] = (struct iovec){out + cut, (total - cut) / 2};
        to[3] = (struct iovec){out + cut + to[2].iov_len, total - cut - to[2].iov_len};
        from[0] = (struct iovec){in, 0};
        from[1] = (struct iovec){in, total - cut};
        from[2] = (struct iovec){in + total - cut, cut / 2};
        from[3] = (struct iovec){in + total - cut + cut / 2, cut - cut / 2};
        conf_fill(out, total, i);
        memset(in, 0, total);
        conf_post(p, i % 2 ? fi_trecvv(p->b.ep, from, NULL, 4, FI_ADDR_UNSPEC, i, 0, in)
                           : fi_recvv(p->b.ep, from, NULL, 4, FI_ADDR_UNSPEC, in));
        conf_post(p, i % 2 ? fi_tsendv(p->a.ep, to, NULL, 4, p->a.peer, i, out)
                           : fi_sendv(p->a.ep, to, NULL, 4, p->a.peer, out));
        seen = conf_wait(p, &p->b, in);
        conf_check(!seen.err && seen.len == total && conf_holds(in, total, i), "%zu bytes", total);
        conf_wait(p, &p->a, out);
    }
    conf_quiet(p, 5);
    conf_pair_close(p);
    free(out);
    free(in);
}

const struct conf_case conf_recv_cases[] = {
    {"recv: peek, claim, discard", peek_claim_discard},
    {"recv: large messages, claimed and discarded", big_messages_claimed},
    {"recv: many messages in one buffer", multi_recv},
    {"recv: a multi-receive buffer is cancelled", multi_recv_cancelled},
    {"recv: a stranger's address, good to answer to", source_of_a_stranger},
    {"recv: a stranger's source is not available", source_unknown},
    {"recv: numbers of the user are the sources", user_ids},
    {"recv: directed, untagged, in any order", directed_untagged},
    {"recv: cancel races with arrival", cancel_races},
    {"recv: truncation at any size, before and after", truncation_of_any_size},
    {"recv: pieces of odd sizes at both ends", pieces},
    {0},
};
