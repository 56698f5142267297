/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams: each arrives whole, or is lost without a word. */
#include <stdlib.h>
#include <string.h>

#include "conf.h"

enum {
    ROUNDS = 50,
    TRIES = 200, /* of a message that the network may lose */
    SIZE = 1 << 17,
    PREFIX_MOST = 64,
    STRIDE = 300 /* between messages of 200 bytes */
};

/* Messages go from and to `out` and `in`. Of a stack with FI_MSG_PREFIX they begin before that, and
 * lengths count the prefix; where it wants FI_MR_LOCAL all is registered. */
static struct {
    char out_prefix[PREFIX_MOST], out[SIZE], in_prefix[PREFIX_MOST], in[SIZE];
} memory;
static char *const out = memory.out, *const in = memory.in;
static size_t prefix;
static struct fid_mr *mr;
static void *desc;

static struct conf_pair *open_as(struct conf_want want)
{
    struct conf_pair *pair = conf_pair_open(want);
    int rc = 0;

    prefix = pair->home.info->ep_attr->msg_prefix_size;
    conf_check(prefix <= PREFIX_MOST && prefix % 8 == 0, "a prefix of %zu bytes", prefix);
    conf_check(!prefix == !(pair->home.info->mode & FI_MSG_PREFIX), "FI_MSG_PREFIX");
    if (pair->home.info->domain_attr->mr_mode & FI_MR_LOCAL)
        rc = fi_mr_reg(pair->home.domain, &memory, sizeof memory, FI_SEND | FI_RECV, 0, 1, 0, &mr,
                       NULL);
    conf_check(!rc, "fi_mr_reg: %s", fi_strerror(-rc));
    desc = mr ? fi_mr_desc(mr) : NULL;
    return pair;
}

static struct conf_pair *open_pair(uint64_t caps)
{
    return open_as((struct conf_want){.caps = FI_MSG | caps});
}

static void close_pair(struct conf_pair *pair)
{
    conf_check(!mr || !fi_close(&mr->fid), "fi_close of a region");
    mr = NULL;
    conf_pair_close(pair);
}

static void post_receive(struct conf_pair *pair, char *buf, size_t len, uint64_t flags)
{
    struct iovec iov = {.iov_base = buf - prefix, .iov_len = len + prefix};
    struct fi_msg msg = {
        .msg_iov = &iov, .desc = &desc, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = buf};

    conf_post(pair, fi_recvmsg(pair->b.ep, &msg, flags));
}

static ssize_t start_send(struct conf_pair *pair, char *buf, size_t len)
{
    return fi_send(pair->a.ep, buf - prefix, len + prefix, desc, pair->a.peer, buf);
}

static ssize_t start_inject(struct conf_pair *pair, char *buf, size_t len)
{
    return fi_inject(pair->a.ep, buf - prefix, len + prefix, pair->a.peer);
}

/* The datagram that has come to b's receive, without the prefix. */
static struct conf_seen received(struct conf_pair *pair, void *context)
{
    struct conf_seen seen = conf_wait(pair, &pair->b, context);

    conf_check(seen.err || seen.len >= prefix, "%zu bytes", (size_t)seen.len);
    if (!seen.err)
        seen.len -= prefix;
    return seen;
}

/* Drives until b has seen it, or for a while. */
static bool arrives(struct conf_pair *pair, void *context)
{
    long long end = conf_now_ms() + 1000;

    while (!conf_has(&pair->b, context) && conf_now_ms() < end)
        conf_drive_pair(pair);
    return conf_has(&pair->b, context);
}

/* Sends until it arrives: a hook may lose it, and a network too. */
static struct conf_seen send_until(struct conf_pair *pair, size_t len, void *context)
{
    for (int i = 0; i < TRIES; i++) {
        conf_post(pair, start_send(pair, out, len));
        conf_check(!conf_wait(pair, &pair->a, out).err, "a send failed");
        if (arrives(pair, context))
            return received(pair, context);
    }
    conf_fail(__FILE__, __LINE__, "%d datagrams of %zu bytes, and none arrived", TRIES, len);
}

static void messages_of_all_lengths(void)
{
    struct conf_pair *pair = open_pair(0);
    size_t most = pair->home.info->ep_attr->max_msg_size;
    size_t lens[] = {0, 1, 8, 100, most / 2, most - 1, most};

    conf_check(most && most <= SIZE, "max_msg_size is %zu", most);
    for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
        struct conf_seen seen;

        conf_fill(out, lens[i], (unsigned)i);
        post_receive(pair, in, SIZE, 0);
        seen = send_until(pair, lens[i], in);
        conf_check(!seen.err && seen.len == lens[i], "error %d, %zu bytes of %zu", seen.err,
                   (size_t)seen.len, lens[i]);
        conf_check((seen.flags & (FI_MSG | FI_RECV)) == (FI_MSG | FI_RECV), "flags %#llx",
                   (unsigned long long)seen.flags);
        conf_check(conf_holds(in, lens[i], (unsigned)i), "the bytes of %zu", lens[i]);
    }
    close_pair(pair);
}

static void longer_ones_are_refused(void)
{
    struct conf_pair *pair = open_pair(0);
    size_t most = pair->home.info->ep_attr->max_msg_size, limit = 0, len = sizeof limit;
    ssize_t rc = start_send(pair, out, most + 1);

    conf_check(rc == -FI_EMSGSIZE, "%s", fi_strerror((int)-rc));
    conf_check(!fi_getopt(&pair->a.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MAX_MSG_SIZE, &limit, &len) &&
                   limit == most,
               "FI_OPT_MAX_MSG_SIZE is %zu", limit);
    conf_quiet(pair, 20);
    close_pair(pair);
}

static void injects_end_without_a_word(void)
{
    struct conf_pair *pair = open_pair(0);
    size_t most = pair->home.info->tx_attr->inject_size;

    for (int i = 0; i < TRIES && !conf_has(&pair->b, in); i++) {
        if (!i)
            post_receive(pair, in, SIZE, 0);
        conf_fill(out, most, 3);
        conf_post(pair, start_inject(pair, out, most));
        memset(out, 0, most);
        arrives(pair, in);
    }
    conf_check(received(pair, in).len == most && conf_holds(in, most, 3), "the bytes");
    conf_quiet(pair, 20);
    conf_check(fi_cntr_read(pair->a.sent) > 0, "it is not counted");
    close_pair(pair);
}

static void too_small_receives_are_told(void)
{
    struct conf_pair *pair;
    struct conf_seen seen;

    conf_may_lack("truncation");
    pair = open_pair(0);
    conf_fill(out, 500, 4);
    in[100] = 77;
    post_receive(pair, in, 100, 0);
    seen = send_until(pair, 500, in);
    conf_check(seen.err == FI_ETRUNC && seen.len == 100 && seen.olen == 400,
               "error %d, %zu bytes, %zu lost", seen.err, (size_t)seen.len, seen.olen);
    conf_check(conf_holds(in, 100, 4) && in[100] == 77, "the bytes");
    conf_check(fi_cntr_readerr(pair->b.received) == 1, "errors are counted");
    close_pair(pair);
}

static void segments(void)
{
    struct conf_pair *pair = open_pair(0);
    size_t count = pair->home.info->tx_attr->iov_limit;
    struct iovec from[64], to[64];
    void *descs[64];

    conf_check(count && count <= 64, "iov_limit is %zu", count);
    for (size_t i = 0; i < count; i++) {
        size_t first = i ? 0 : prefix;

        from[i] = (struct iovec){out + 10 * i - first, 10 + first};
        to[i] = (struct iovec){in + 12 * i - first, 12 + first};
        descs[i] = desc;
    }
    conf_fill(out, 10 * count, 5);
    conf_post(pair, fi_recvv(pair->b.ep, to, descs, pair->home.info->rx_attr->iov_limit,
                             FI_ADDR_UNSPEC, in));
    for (int i = 0; i < TRIES && !conf_has(&pair->b, in); i++) {
        conf_post(pair, fi_sendv(pair->a.ep, from, descs, count, pair->a.peer, out));
        conf_wait(pair, &pair->a, out);
        arrives(pair, in);
    }
    conf_check(received(pair, in).len == 10 * count, "length");
    conf_check(conf_holds(in, 10 * count, 5), "the bytes");
    close_pair(pair);
}

static void sources_are_told(void)
{
    struct conf_pair *pair;
    struct conf_seen seen;

    conf_need("SOURCE");
    pair = open_pair(FI_SOURCE);
    for (int i = 0; i < 3; i++) {
        post_receive(pair, in, SIZE, 0);
        seen = send_until(pair, 10, in);
        conf_check(seen.src == pair->b.peer, "source %lld", (long long)seen.src);
    }
    conf_check(!fi_av_remove(pair->b.av, &pair->b.peer, 1, 0), "fi_av_remove");
    post_receive(pair, in, SIZE, 0);
    seen = send_until(pair, 10, in);
    conf_check(seen.src == FI_ADDR_NOTAVAIL, "source of a stranger %lld", (long long)seen.src);
    close_pair(pair);
}

static void strangers_are_told(void)
{
    struct conf_pair *pair;
    struct conf_seen seen;
    fi_addr_t addr;

    conf_need("SOURCE_ERR");
    pair = open_pair(FI_SOURCE | FI_SOURCE_ERR);
    conf_check(!fi_av_remove(pair->b.av, &pair->b.peer, 1, 0), "fi_av_remove");
    post_receive(pair, in, SIZE, 0);
    seen = send_until(pair, 10, in);
    conf_check(seen.err == FI_EADDRNOTAVAIL && seen.err_len, "error %d", seen.err);
    conf_check(fi_av_insert(pair->b.av, seen.err_data, 1, &addr, 0, NULL) == 1, "fi_av_insert");
    post_receive(pair, in, SIZE, 0);
    seen = send_until(pair, 10, in);
    conf_check(!seen.err && seen.src == addr, "error %d, source %lld", seen.err,
               (long long)seen.src);
    close_pair(pair);
}

static void multi_receive(void)
{
    struct conf_pair *pair;
    size_t used = 0, room = 20000;
    bool released = false;

    conf_need("MULTI_RECV");
    pair = open_pair(FI_MULTI_RECV);
    size_t min = 1000;
    conf_check(
        !fi_setopt(&pair->b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &min, sizeof min),
        "FI_OPT_MIN_MULTI_RECV");
    post_receive(pair, in, room, FI_MULTI_RECV);
    for (unsigned i = 0; !released; i++) {
        struct conf_seen seen;

        conf_check(i < 1000, "the buffer is never given back");
        conf_fill(out, 900, i);
        seen = send_until(pair, 900, in);
        conf_check(!seen.err, "error %d", seen.err);
        released = seen.flags & FI_MULTI_RECV;
        if (!(seen.flags & FI_RECV))
            break;
        conf_check(seen.len == 900 && seen.buf == in + used, "%zu bytes at %td", (size_t)seen.len,
                   (char *)seen.buf - in);
        conf_check(conf_holds(seen.buf, 900, i), "the bytes");
        used += seen.len;
    }
    conf_check(room - used < min, "given back with %zu bytes left", room - used);
    close_pair(pair);
}

static void bursts_arrive_whole(void)
{
    struct conf_pair *pair = open_pair(0);
    unsigned got = 0;

    for (unsigned i = 0; i < ROUNDS; i++) {
        conf_fill(out + i * STRIDE, 200, i);
        memset(in + i * STRIDE, 0, 200);
        post_receive(pair, in + i * STRIDE, 200, 0);
    }
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct iovec iov = {out + i * STRIDE - prefix, 200 + prefix};
        struct fi_msg msg = {.msg_iov = &iov,
                             .desc = &desc,
                             .iov_count = 1,
                             .addr = pair->a.peer,
                             .context = out + i * STRIDE};

        conf_post(pair, fi_sendmsg(pair->a.ep, &msg, i < ROUNDS - 1 ? FI_MORE : 0));
    }
    for (unsigned i = 0; i < ROUNDS; i++)
        conf_check(!conf_wait(pair, &pair->a, out + i * STRIDE).err, "send %u", i);
    for (unsigned i = 0; i < ROUNDS && arrives(pair, in + i * STRIDE); i++, got++) {
        bool known = false;

        conf_check(received(pair, in + i * STRIDE).len == 200, "length");
        for (unsigned j = 0; j < ROUNDS && !known; j++)
            known = conf_holds(in + i * STRIDE, 200, j);
        conf_check(known, "what came is nothing that was sent");
    }
    conf_check(got > 0, "none of %d arrived", ROUNDS);
    close_pair(pair);
}

static void receives_are_cancelled(void)
{
    struct conf_pair *pair;
    struct conf_seen seen;

    conf_may_lack("cancel");
    pair = open_pair(0);
    post_receive(pair, in, 10, 0);
    post_receive(pair, in + STRIDE, 10, 0);
    conf_check(!fi_cancel(&pair->b.ep->fid, in), "fi_cancel");
    seen = conf_wait(pair, &pair->b, in);
    conf_check(seen.err == FI_ECANCELED, "error %d", seen.err);
    conf_check(!send_until(pair, 10, in + STRIDE).err, "the other receive");
    conf_quiet(pair, 20);
    close_pair(pair);
}

static void completions_are_selective(void)
{
    struct conf_pair *pair =
        open_as((struct conf_want){.caps = FI_MSG, .cq_flags = FI_SELECTIVE_COMPLETION});
    struct iovec iov = {out - prefix, 10 + prefix};
    struct fi_msg msg = {
        .msg_iov = &iov, .desc = &desc, .iov_count = 1, .addr = pair->a.peer, .context = out};

    conf_post(pair, fi_recv(pair->b.ep, in - prefix, 10 + prefix, desc, FI_ADDR_UNSPEC, in));
    conf_post(pair, start_send(pair, out, 10));
    conf_quiet(pair, 50);
    conf_post(pair, fi_sendmsg(pair->a.ep, &msg, FI_COMPLETION));
    conf_check(!conf_wait(pair, &pair->a, out).err, "the send that asks for one");
    conf_check(fi_cntr_read(pair->a.sent) == 2, "both are counted");
    close_pair(pair);
}

static void what_comes_before_its_receive_is_kept(void)
{
    struct conf_pair *pair;

    conf_need("kept_datagrams");
    pair = open_pair(0);
    for (int i = 0; i < TRIES && !conf_has(&pair->b, in); i++) {
        conf_fill(out, 64, 6);
        conf_post(pair, start_send(pair, out, 64));
        conf_wait(pair, &pair->a, out);
        conf_quiet(pair, 10);
        if (!i)
            post_receive(pair, in, 64, 0);
        arrives(pair, in);
    }
    conf_check(received(pair, in).len == 64 && conf_holds(in, 64, 6), "the bytes");
    close_pair(pair);
}

static void sleepers_are_woken(void)
{
    const enum fi_wait_obj objects[] = {FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_MUTEX_COND,
                                        FI_WAIT_YIELD, FI_WAIT_POLLFD};

    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++) {
        struct fi_cq_tagged_entry entry;
        struct conf_pair *pair;
        ssize_t rc = -FI_EAGAIN;

        if (!(conf_offers->wait >> objects[i] & 1))
            continue;
        pair = open_as((struct conf_want){.caps = FI_MSG, .wait = objects[i]});
        post_receive(pair, in, 10, 0);
        for (int j = 0; j < TRIES && rc == -FI_EAGAIN; j++) {
            conf_post(pair, start_inject(pair, out, 10));
            rc = fi_cq_sread(pair->b.rx, &entry, 1, NULL, 1000);
        }
        conf_check(rc == 1 && entry.op_context == in, "wait object %d: %zd", (int)objects[i], rc);
        close_pair(pair);
    }
}

static void groups_are_refused_without_an_event_queue(void)
{
    struct conf_pair *pair;
    struct fid_mc *mc;
    char name[128];
    size_t len = sizeof name;
    int rc;

    conf_need("MULTICAST");
    pair = open_pair(FI_MULTICAST);
    conf_check(!fi_getname(&pair->a.ep->fid, name, &len), "fi_getname");
    rc = fi_join(pair->a.ep, name, 0, &mc, NULL);
    conf_check(rc == -FI_ENOEQ || rc == -FI_EINVAL, "fi_join: %s", fi_strerror(-rc));
    close_pair(pair);
}

const struct conf_case conf_dgram_cases[] = {
    {"dgram: messages of all lengths", messages_of_all_lengths},
    {"dgram: longer ones are refused", longer_ones_are_refused},
    {"dgram: injects end without a word", injects_end_without_a_word},
    {"dgram: a receive that is too small is told", too_small_receives_are_told},
    {"dgram: segments", segments},
    {"dgram: sources are told", sources_are_told},
    {"dgram: strangers are told", strangers_are_told},
    {"dgram: multi-receive", multi_receive},
    {"dgram: bursts arrive whole", bursts_arrive_whole},
    {"dgram: receives are cancelled", receives_are_cancelled},
    {"dgram: completions are selective", completions_are_selective},
    {"dgram: what comes before its receive is kept", what_comes_before_its_receive_is_kept},
    {"dgram: sleepers are woken", sleepers_are_woken},
    {"dgram: groups need an event queue", groups_are_refused_without_an_event_queue},
    {0},
};
