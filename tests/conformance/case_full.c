/* SPDX-License-Identifier: BSD-2-Clause */
/* Sizes round every threshold, and queues that are full. */
#include <stdlib.h>
#include <string.h>

#include "conf.h"

enum {
    LARGEST = (4 << 20) + 1
};

static size_t thresholds(const struct conf_pair *p, size_t *list)
{
    const size_t known[] = {p->home.info->tx_attr->inject_size,
                            64,
                            128,
                            256,
                            512,
                            1024,
                            2048,
                            4096,
                            8192,
                            9000,
                            16384,
                            32768,
                            65536,
                            131072,
                            262144,
                            524288,
                            1048576,
                            2097152,
                            4194304};
    size_t count = 0;

    list[count++] = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        for (size_t size = known[i] - 1; size <= known[i] + 1; size++)
            list[count++] = size;
    return count;
}

/* One message of each size, and of the next in the other kind, there before its receive or not. */
static void each_size(bool first, bool tagged)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    char *out = malloc(LARGEST), *in = malloc(LARGEST + 1);
    size_t sizes[64], count = thresholds(p, sizes);

    for (unsigned i = 0; i < count; i++) {
        size_t size = sizes[i];
        bool inject = size <= p->home.info->tx_attr->inject_size && i % 2;
        struct conf_seen seen;

        conf_fill(out, size, i);
        in[size] = 0x55;
        for (int step = 0; step < 2; step++) {
            if ((step == 0) == first) {
                if (inject)
                    conf_post(p, tagged ? fi_tinjectdata(p->a.ep, out, size, i, p->a.peer, i)
                                        : fi_injectdata(p->a.ep, out, size, i, p->a.peer));
                else
                    conf_post(p, tagged
                                     ? fi_tsenddata(p->a.ep, out, size, NULL, i, p->a.peer, i, out)
                                     : fi_senddata(p->a.ep, out, size, NULL, i, p->a.peer, out));
                for (int spin = 0; first && spin < 20; spin++)
                    conf_drive_pair(p);
            } else {
                conf_post(p, tagged ? fi_trecv(p->b.ep, in, size, NULL, FI_ADDR_UNSPEC, i, 0, in)
                                    : fi_recv(p->b.ep, in, size, NULL, FI_ADDR_UNSPEC, in));
            }
        }
        seen = conf_wait(p, &p->b, in);
        conf_check(!seen.err && seen.len == size && seen.data == i, "%zu: %s, %lu bytes", size,
                   fi_strerror(seen.err), (unsigned long)seen.len);
        conf_check(conf_holds(in, size, i) && in[size] == 0x55, "data of %zu", size);
        if (!inject)
            conf_wait(p, &p->a, out);
    }
    conf_quiet(p, 5);
    conf_pair_close(p);
    free(out);
    free(in);
}

static void sizes_expected(void)
{
    each_size(false, false);
    each_size(false, true);
}

static void sizes_unexpected(void)
{
    each_size(true, false);
    each_size(true, true);
}

static void sizes_rma(void)
{
    conf_need("DELIVERY_COMPLETE");
    struct conf_pair *p = conf_pair_open((struct conf_want){.op_flags = FI_DELIVERY_COMPLETE});
    char *local = malloc(LARGEST + 1);
    size_t sizes[64], count = thresholds(p, sizes);
    struct conf_region region;

    conf_region_open(p, &region, LARGEST + 3, FI_REMOTE_READ | FI_REMOTE_WRITE);
    for (unsigned i = 0; i < count; i++) {
        size_t size = sizes[i];

        conf_fill(local, size, i);
        region.memory[1 + size] = 0x55;
        conf_post(
            p, fi_write(p->a.ep, local, size, NULL, p->a.peer, region.base + 1, region.key, local));
        conf_check(!conf_wait(p, &p->a, local).err, "write of %zu", size);
        conf_check(conf_holds(region.memory + 1, size, i) && region.memory[1 + size] == 0x55,
                   "written %zu", size);
        conf_fill(region.memory + 2, size, i + 1);
        memset(local, 0, size);
        local[size] = 0x44;
        conf_post(
            p, fi_read(p->a.ep, local, size, NULL, p->a.peer, region.base + 2, region.key, local));
        conf_check(!conf_wait(p, &p->a, local).err, "read of %zu", size);
        conf_check(conf_holds(local, size, i + 1) && local[size] == 0x44, "read %zu", size);
    }
    conf_region_close(&region);
    conf_pair_close(p);
    free(local);
}

static void drop_completions(struct conf_ep *end)
{
    struct fi_cq_tagged_entry entries[16];
    ssize_t n;

    do
        n = fi_cq_read(end->tx, entries, 16);
    while (n > 0);
    conf_check(n == -FI_EAGAIN, "a send failed: %zd", n);
}

/* A receiver that does not look: posts until -FI_EAGAIN; then all that was accepted arrives, in
 * order, and no more than that. */
static void full_of(size_t size, bool tagged)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){.tx_size = 256});
    char *out = malloc(size), *in = malloc(size);
    unsigned accepted = 0;
    long long end = conf_now_ms() + CONF_TIMEOUT_MS;
    ssize_t rc;

    conf_fill(out, size, 1);
    /* The connection is made first, that what is full is the queue. */
    conf_post(p, fi_inject(p->a.ep, out, 0, p->a.peer));
    conf_post(p, fi_recv(p->b.ep, NULL, 0, NULL, FI_ADDR_UNSPEC, in));
    conf_wait(p, &p->b, in);
    for (;;) {
        struct iovec iov = {out, size};
        struct fi_msg msg = {
            .msg_iov = &iov, .iov_count = 1, .addr = p->a.peer, .context = out, .data = accepted};

        rc = tagged ? fi_tsenddata(p->a.ep, out, size, NULL, accepted, p->a.peer, 1, out)
                    : fi_sendmsg(p->a.ep, &msg, FI_REMOTE_CQ_DATA | FI_COMPLETION);
        if (rc)
            break;
        accepted++;
        conf_check(accepted < 1000000 && conf_now_ms() < end, "no queue is ever full");
    }
    conf_check(rc == -FI_EAGAIN, "%s", fi_strerror((int)-rc));
    for (unsigned i = 0; i < accepted; i++) {
        struct conf_seen seen;

        conf_post(p, tagged ? fi_trecv(p->b.ep, in, size, NULL, FI_ADDR_UNSPEC, 1, 0, in)
                            : fi_recv(p->b.ep, in, size, NULL, FI_ADDR_UNSPEC, in));
        while (!conf_has(&p->b, in)) {
            drop_completions(&p->a);
            conf_drive(&p->b);
            conf_check(conf_now_ms() < end + CONF_TIMEOUT_MS, "%u of %u arrived", i, accepted);
        }
        seen = conf_wait(p, &p->b, in);
        conf_check(!seen.err && seen.len == size && seen.data == i, "message %lu, after %u",
                   (unsigned long)seen.data, i);
        conf_check(conf_holds(in, size, 1), "data");
    }
    conf_pair_close(p);
    free(out);
    free(in);
}

static void full_queue(void)
{
    full_of(8, true);
    full_of(2000, false);
    full_of(20000, true);
    full_of(200000, false);
}

/* A full queue refuses again and again; a lower that is short of something for a moment does not.
 */
static ssize_t send_unless_full(struct conf_pair *p, char *buf, size_t size, bool tagged)
{
    ssize_t rc = -FI_EAGAIN;

    for (int tries = 0; rc == -FI_EAGAIN && tries < CONF_TRIES; tries++)
        rc = tagged ? fi_tsend(p->a.ep, buf, size, NULL, p->a.peer, 1, buf)
                    : fi_send(p->a.ep, buf, size, NULL, p->a.peer, buf);
    return rc;
}

/* As many sends as tx_attr->size says are accepted, while the receiver does not look. */
static void as_promised_of(size_t size, bool tagged)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){.tx_size = 256});
    unsigned promised = (unsigned)p->home.info->tx_attr->size;
    char *out = malloc((size_t)promised * size), *in = malloc(size);
    ssize_t rc = 0;

    conf_check(promised >= 256 && out && in, "tx_attr->size is %u", promised);
    /* The connection is made first. */
    conf_post(p, fi_send(p->a.ep, out, 0, NULL, p->a.peer, &p->a));
    conf_post(p, fi_recv(p->b.ep, NULL, 0, NULL, FI_ADDR_UNSPEC, in));
    conf_wait(p, &p->b, in);
    conf_wait(p, &p->a, &p->a);
    for (unsigned i = 0; i < promised; i++) {
        char *buf = out + (size_t)i * size;

        conf_fill(buf, size, i);
        rc = send_unless_full(p, buf, size, tagged);
        conf_check(!rc, "send %u of %u bytes, of %u promised: %s", i, (unsigned)size, promised,
                   fi_strerror((int)-rc));
    }
    for (unsigned i = 0; i < promised; i++) {
        conf_post(p, tagged ? fi_trecv(p->b.ep, in, size, NULL, FI_ADDR_UNSPEC, 1, 0, in)
                            : fi_recv(p->b.ep, in, size, NULL, FI_ADDR_UNSPEC, in));
        conf_check(!conf_wait(p, &p->b, in).err && conf_holds(in, size, i), "message %u", i);
        conf_check(!conf_wait(p, &p->a, out + (size_t)i * size).err, "send %u", i);
    }
    conf_quiet(p, 5);
    conf_pair_close(p);
    free(out);
    free(in);
}

static void as_promised(void)
{
    conf_need("all_sends");
    as_promised_of(8, true);
    as_promised_of(400, false);
    as_promised_of(20000, true);
    as_promised_of(100000, false);
}

/* The same of receives. */
static ssize_t receive_unless_full(struct conf_pair *p, uint32_t *word)
{
    ssize_t rc = -FI_EAGAIN;

    for (int tries = 0; rc == -FI_EAGAIN && tries < 20; tries++)
        rc = fi_trecv(p->b.ep, word, 4, NULL, FI_ADDR_UNSPEC, 1, 0, word);
    return rc;
}

/* Receives until -FI_EAGAIN; each of them gets its message. */
static void full_of_receives(void)
{
    enum {
        MOST = 200000
    };
    struct conf_pair *p = conf_pair_open((struct conf_want){.rx_size = 512});
    uint32_t *in = calloc(MOST, 4), count = 0, next = 0;
    ssize_t rc;

    do
        rc = receive_unless_full(p, &in[count]);
    while (!rc && ++count < MOST);
    conf_check((!rc || rc == -FI_EAGAIN) && count >= 512, "%u receives, then %s", count,
               fi_strerror((int)-rc));
    for (uint32_t sent = 0; next < count;) {
        if (sent < count && !fi_tinject(p->a.ep, &sent, 4, p->a.peer, 1))
            sent++;
        conf_drive_pair(p);
        for (size_t i = 0; i < p->b.seen_count; i++) {
            conf_check(p->b.seen[i].context == &in[next] && in[next] == next, "receive %u", next);
            next++;
        }
        p->b.seen_count = 0;
    }
    conf_pair_close(p);
    free(in);
}

/* Completions are not read, with a queue of 16: they all are there, in order, later. */
static void unread_completions(void)
{
    enum {
        MESSAGES = 3000
    };
    struct conf_pair *p = conf_pair_open((struct conf_want){.cq_size = 16});
    static uint32_t in[MESSAGES];
    uint32_t posted = 0, sent = 0, next = 0, idle = 0;

    /* Until nothing moves any more: a full queue may hold up receives, or sends. */
    while ((posted < MESSAGES || sent < MESSAGES) && idle < 2000) {
        idle++;
        if (posted < MESSAGES &&
            !fi_trecv(p->b.ep, &in[posted], 4, NULL, FI_ADDR_UNSPEC, 1, 0, &in[posted])) {
            posted++;
            idle = 0;
        }
        if (sent < MESSAGES && !fi_tinject(p->a.ep, &sent, 4, p->a.peer, 1)) {
            sent++;
            idle = 0;
        }
        fi_cq_read(p->a.tx, NULL, 0);
        fi_cq_read(p->b.rx, NULL, 0);
    }
    for (long long end = conf_now_ms() + CONF_TIMEOUT_MS; next < MESSAGES;) {
        if (posted < MESSAGES &&
            !fi_trecv(p->b.ep, &in[posted], 4, NULL, FI_ADDR_UNSPEC, 1, 0, &in[posted]))
            posted++;
        if (sent < MESSAGES && !fi_tinject(p->a.ep, &sent, 4, p->a.peer, 1))
            sent++;
        conf_drive_pair(p);
        for (size_t i = 0; i < p->b.seen_count; i++) {
            conf_check(p->b.seen[i].context == &in[next] && in[next] == next, "completion %u",
                       next);
            next++;
        }
        p->b.seen_count = 0;
        conf_check(conf_now_ms() < end, "%u of %d", next, MESSAGES);
    }
    conf_pair_close(p);
}

/* A flood of unexpected messages of all sizes, taken out from the last to the first. */
static void flood_backwards(void)
{
    enum {
        MESSAGES = 400,
        ROOM = 40000
    };
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    char *out = malloc((size_t)MESSAGES * ROOM), *in = malloc(ROOM);

    for (unsigned i = 0; i < MESSAGES; i++) {
        size_t size = (size_t)i * 97 % ROOM;

        conf_fill(out + (size_t)i * ROOM, size, i);
        conf_post(p, fi_tsend(p->a.ep, out + (size_t)i * ROOM, size, NULL, p->a.peer, i, NULL));
    }
    for (unsigned i = MESSAGES; i-- > 0;) {
        struct conf_seen seen;

        conf_post(p, fi_trecv(p->b.ep, in, ROOM, NULL, FI_ADDR_UNSPEC, i, 0, in));
        seen = conf_wait(p, &p->b, in);
        conf_check(!seen.err && seen.len == (size_t)i * 97 % ROOM && conf_holds(in, seen.len, i),
                   "message %u", i);
    }
    for (unsigned i = 0; i < MESSAGES; i++)
        conf_wait(p, &p->a, NULL);
    conf_quiet(p, 5);
    conf_pair_close(p);
    free(out);
    free(in);
}

static void send_both_ways(struct conf_pair *p, const char *out, size_t len, uint64_t each)
{
    for (uint64_t i = 0; i < each; i++) {
        conf_post(p, fi_tsend(p->a.ep, out, len, NULL, p->a.peer, i, &p->a));
        conf_post(p, fi_tsend(p->b.ep, out, len, NULL, p->b.peer, i, &p->b));
    }
}

static void one_size_both_ways(size_t len, uint64_t each)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    char *out = malloc(len), *in = calloc(2 * each, len);

    conf_check(out && in, "no memory");
    conf_fill(out, len, 3);
    send_both_ways(p, out, len, each);
    for (uint64_t i = 0; i < each; i++) {
        char *at_b = in + i * len, *at_a = in + (each + i) * len;

        conf_post(p, fi_trecv(p->b.ep, at_b, len, NULL, FI_ADDR_UNSPEC, i, 0, at_b));
        conf_post(p, fi_trecv(p->a.ep, at_a, len, NULL, FI_ADDR_UNSPEC, i, 0, at_a));
    }
    for (uint64_t i = 0; i < each; i++) {
        conf_check(!conf_wait(p, &p->b, in + i * len).err, "at b");
        conf_check(!conf_wait(p, &p->a, in + (each + i) * len).err, "at a");
        conf_wait(p, &p->a, &p->a);
        conf_wait(p, &p->b, &p->b);
    }
    for (uint64_t i = 0; i < 2 * each; i++)
        conf_check(!memcmp(in + i * len, out, len), "message %lu", (unsigned long)i);
    conf_quiet(p, 5);
    conf_pair_close(p);
    free(out);
    free(in);
}

/* Large messages both ways at once: neither end waits for the other to read first. More of them
 * than any queue holds, of sizes that each protocol has. */
static void both_ways(void)
{
    one_size_both_ways(2 << 20, 6);
    one_size_both_ways(100000, 100);
    one_size_both_ways(20000, 100);
}

const struct conf_case conf_full_cases[] = {
    {"full: sizes round every threshold", sizes_expected},
    {"full: the same sizes, unexpected", sizes_unexpected},
    {"full: the same sizes, written and read", sizes_rma},
    {"full: a full queue says so, then all arrives in order", full_queue},
    {"full: as many sends as are promised", as_promised},
    {"full: receives until the queue is full", full_of_receives},
    {"full: completions that nobody reads", unread_completions},
    {"full: an unexpected flood, received backwards", flood_backwards},
    {"full: large messages both ways at once", both_ways},
    {0},
};
