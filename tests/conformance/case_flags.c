/* SPDX-License-Identifier: BSD-2-Clause */
/* Flags of operations: when they complete, in which order, whether they say so. */
#include <stdlib.h>
#include <string.h>

#include "conf.h"

enum {
    REGION = 1 << 20,
    SMALL = 32
};

static ssize_t write_with(struct conf_pair *p, void *local, size_t len, struct conf_region *region,
                          size_t offset, uint64_t flags)
{
    struct iovec iov = {local, len};
    struct fi_rma_iov remote = {region->base + offset, len, region->key};
    struct fi_msg_rma msg = {.msg_iov = &iov,
                             .iov_count = 1,
                             .addr = p->a.peer,
                             .rma_iov = &remote,
                             .rma_iov_count = 1,
                             .context = local,
                             .data = 0x99};

    return fi_writemsg(p->a.ep, &msg, flags);
}

static ssize_t send_with(struct conf_pair *p, void *local, size_t len, uint64_t tag, uint64_t flags)
{
    struct iovec iov = {local, len};
    struct fi_msg_tagged msg = {
        .msg_iov = &iov, .iov_count = 1, .addr = p->a.peer, .tag = tag, .context = local};

    return fi_tsendmsg(p->a.ep, &msg, flags);
}

/* A level that holds for messages and writes of each size; delivered bytes are in place. */
static void level(uint64_t flag)
{
    bool there = flag & (FI_DELIVERY_COMPLETE | FI_COMMIT_COMPLETE);
    static const size_t sizes[] = {0, 1, 100, 5000, 100000, REGION};
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    char *out = malloc(REGION), *in = malloc(REGION);
    struct conf_region region;

    conf_region_open(p, &region, REGION, FI_REMOTE_WRITE);
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        conf_fill(out, sizes[i], i);
        conf_post(p, write_with(p, out, sizes[i], &region, 0, flag | FI_COMPLETION));
        conf_check(!conf_wait(p, &p->a, out).err, "a write of %zu", sizes[i]);
        conf_check(!there || conf_holds(region.memory, sizes[i], i),
                   "a write of %zu completed before it was delivered", sizes[i]);
        conf_post(p, fi_trecv(p->b.ep, in, REGION, NULL, FI_ADDR_UNSPEC, i, 0, in));
        conf_post(p, send_with(p, out, sizes[i], i, flag | FI_COMPLETION));
        conf_check(!conf_wait(p, &p->a, out).err, "a send of %zu", sizes[i]);
        conf_check(!there || conf_holds(in, sizes[i], i),
                   "a message of %zu completed before it was delivered", sizes[i]);
        conf_check(!conf_wait(p, &p->b, in).err && conf_holds(in, sizes[i], i), "message of %zu",
                   sizes[i]);
    }
    conf_quiet(p, 5);
    conf_region_close(&region);
    conf_pair_close(p);
    free(out);
    free(in);
}

static void inject_complete(void)
{
    conf_need("INJECT_COMPLETE");
    level(FI_INJECT_COMPLETE);
}

static void transmit_complete(void)
{
    conf_need("TRANSMIT_COMPLETE");
    level(FI_TRANSMIT_COMPLETE);
}

/* Looks at memory that the library may be writing, which is an error then, and no race to report.
 */
__attribute__((no_sanitize("thread"), noinline)) static bool is_there(const volatile char *in,
                                                                      const char *out, size_t len)
{
    while (len && in[len - 1] == out[len - 1])
        len--;
    return !len;
}

/* Drives until the counter tells of an inject of `out` to `there`: first without the target. */
static void counts_when_there(struct conf_pair *const p[2], uint64_t before, const char *there,
                              const char *out, const char *call)
{
    struct conf_ep *from = &p[0]->a;
    uint64_t errors = fi_cntr_readerr(from->sent);
    long long deadline = conf_now_ms() + CONF_TIMEOUT_MS;
    bool counted = false;

    for (long looks = 0; !counted; looks++) {
        conf_drive_pair(p[0]);
        if (looks >= 1000)
            conf_drive_pair(p[1]);
        counted = fi_cntr_read(from->sent) > before;
        conf_check(fi_cntr_readerr(from->sent) == errors, "%s ended in error", call);
        conf_check(conf_now_ms() < deadline, "%s was never counted", call);
        conf_check(!counted || is_there(there, out, SMALL), "%s counts before it is there", call);
    }
}

/*
 * Nothing tells of an inject but a counter, and that counts as the endpoint's default says; an
 * injected write, which cannot be asked for more by a flag, is counted when it is there.
 */
static void injects_count_when_delivered(uint64_t op_flags)
{
    struct conf_want want = {.op_flags = op_flags};
    struct conf_pair *p[] = {conf_pair_open(want), conf_pair_open(want)};
    struct conf_ep *from = &p[0]->a, *at = &p[1]->b;
    fi_addr_t to = conf_insert(from, at, 0, 0);
    struct conf_region region;
    char out[SMALL], in[SMALL];

    conf_region_open(p[1], &region, SMALL, FI_REMOTE_WRITE);
    for (unsigned i = 0; i < 4; i++) { /* the first connects */
        uint64_t before = fi_cntr_read(from->sent);
        long long deadline = conf_now_ms() + CONF_TIMEOUT_MS;
        ssize_t rc;

        conf_fill(out, sizeof out, i);
        conf_post(p[1], fi_trecv(at->ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, i, 0, in));
        do {
            rc = fi_inject_write(from->ep, out, sizeof out, to, region.base, region.key);
            if (rc == -FI_EAGAIN) {
                conf_drive_pair(p[0]);
                conf_drive_pair(p[1]);
            }
        } while (rc == -FI_EAGAIN && conf_now_ms() < deadline);
        conf_check(!rc, "fi_inject_write: %s", fi_strerror((int)-rc));
        counts_when_there(p, before, region.memory, out, "fi_inject_write");
        before = fi_cntr_read(from->sent);
        conf_post(p[0], fi_tinject(from->ep, out, sizeof out, to, i));
        if (op_flags)
            counts_when_there(p, before, in, out, "fi_tinject");
        conf_check(!conf_wait(p[1], at, in).err, "the message");
        if (!op_flags)
            counts_when_there(p, before, in, out, "fi_tinject");
    }
    /* Acknowledgements pass while both ends are there: fi_close would wait for them. */
    for (long long end = conf_now_ms() + 30; conf_now_ms() < end;) {
        conf_quiet(p[0], 1);
        conf_quiet(p[1], 1);
    }
    conf_region_close(&region);
    conf_pair_close(p[0]);
    conf_pair_close(p[1]);
}

static void delivered(void)
{
    conf_need("DELIVERY_COMPLETE");
    level(FI_DELIVERY_COMPLETE);
    injects_count_when_delivered(FI_DELIVERY_COMPLETE);
    injects_count_when_delivered(0);
}

/* No memory is persistent and no info offers it; a post that names it waits as for delivery. */
static void commit_complete(void)
{
    level(FI_COMMIT_COMPLETE);
}

static ssize_t send_to(struct conf_ep *from, fi_addr_t to, void *local, uint64_t tag,
                       uint64_t flags)
{
    struct iovec iov = {local, SMALL};
    struct fi_msg_tagged msg = {
        .msg_iov = &iov, .iov_count = 1, .addr = to, .tag = tag, .context = local};

    return fi_tsendmsg(from->ep, &msg, flags);
}

/* The same of fi_tsend, which takes the endpoint's flags. */
static ssize_t send_by_default(struct conf_ep *from, fi_addr_t to, void *local, uint64_t tag,
                               uint64_t flags)
{
    flags |= FI_TRANSMIT;
    conf_check(!fi_control(&from->ep->fid, FI_SETOPSFLAG, &flags), "FI_SETOPSFLAG");
    return fi_tsend(from->ep, local, SMALL, NULL, to, tag, local);
}

/* To a domain that makes no progress: complete is only what is in place. */
static void complete_when_there(ssize_t (*send)(struct conf_ep *from, fi_addr_t to, void *local,
                                                uint64_t tag, uint64_t flags))
{
    static const uint64_t levels[] = {0, FI_DELIVERY_COMPLETE, FI_COMMIT_COMPLETE};
    struct conf_pair *p[] = {conf_pair_open((struct conf_want){0}),
                             conf_pair_open((struct conf_want){0})};
    struct conf_ep *from = &p[0]->a, *at = &p[1]->b;
    fi_addr_t to = conf_insert(from, at, 0, 0);
    char out[SMALL], in[SMALL];

    for (unsigned i = 0; i < sizeof levels / sizeof *levels; i++) { /* the first connects */
        ssize_t rc;

        memset(in, 0, sizeof in);
        conf_fill(out, sizeof out, i + 1);
        conf_post(p[1], fi_trecv(at->ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, i, 0, in));
        while ((rc = send(from, to, out, i, levels[i] | FI_COMPLETION)) == -FI_EAGAIN) {
            conf_drive_pair(p[0]);
            conf_drive_pair(p[1]);
        }
        conf_check(!rc, "send: %s", fi_strerror((int)-rc));
        for (int look = 0; look < 1000 && levels[i]; look++)
            conf_drive_pair(p[0]);
        conf_check(!levels[i] || !conf_has(from, out) || is_there(in, out, sizeof in),
                   "level %u: complete before it is there", i);
        while (!conf_has(from, out) || !conf_has(at, in)) {
            conf_drive_pair(p[0]);
            conf_drive_pair(p[1]);
        }
        conf_check(!conf_wait(p[0], from, out).err && !conf_wait(p[1], at, in).err, "errors");
        conf_check(conf_holds(in, sizeof in, i + 1), "data");
    }
    conf_pair_close(p[0]);
    conf_pair_close(p[1]);
}

static void not_before_it_is_there(void)
{
    conf_need("DELIVERY_COMPLETE");
    complete_when_there(send_to);
}

static void not_before_it_is_there_by_default(void)
{
    conf_need("DELIVERY_COMPLETE");
    conf_need("flags_at_run_time");
    complete_when_there(send_by_default);
}

static void match_complete(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    uint64_t defaults = FI_TRANSMIT | FI_MATCH_COMPLETE;
    struct conf_region region;
    char out[32] = {0};

    conf_region_open(p, &region, sizeof out, FI_REMOTE_WRITE);
    conf_check(send_with(p, out, sizeof out, 1, FI_MATCH_COMPLETE) == -FI_EOPNOTSUPP, "a send");
    conf_check(write_with(p, out, sizeof out, &region, 0, FI_MATCH_COMPLETE) == -FI_EOPNOTSUPP,
               "a write");
    conf_check(fi_control(&p->a.ep->fid, FI_SETOPSFLAG, &defaults) < 0,
               "as the default of an endpoint");
    conf_quiet(p, 5);
    conf_region_close(&region);
    conf_pair_close(p);
}

/* FI_INJECT of the calls with flags: the memory is free at once, and there is a completion. */
static void inject_flag(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    size_t limit = p->home.info->tx_attr->inject_size;
    char *out = malloc(limit), *in = malloc(limit);
    struct conf_region region;

    conf_region_open(p, &region, limit, FI_REMOTE_WRITE);
    for (unsigned i = 0; i < 50; i++) {
        conf_fill(out, limit, i);
        conf_post(p, send_with(p, out, limit, i, FI_INJECT | FI_COMPLETION));
        memset(out, 0, limit);
        conf_wait(p, &p->a, out);
        conf_post(p, fi_trecv(p->b.ep, in, limit, NULL, FI_ADDR_UNSPEC, i, 0, in));
        conf_wait(p, &p->b, in);
        conf_check(conf_holds(in, limit, i), "message %u", i);
        conf_fill(out, limit, i + 1);
        conf_post(p, write_with(p, out, limit, &region, 0,
                                FI_INJECT | FI_DELIVERY_COMPLETE | FI_COMPLETION));
        memset(out, 0, limit);
        conf_wait(p, &p->a, out);
        conf_check(conf_holds(region.memory, limit, i + 1), "write %u", i);
    }
    conf_quiet(p, 5);
    conf_region_close(&region);
    conf_pair_close(p);
    free(out);
    free(in);
}

/* An earlier read does not see the changes of a fenced operation. */
static void fence(void)
{
    struct conf_pair *p;
    char *out = malloc(REGION), *in = malloc(REGION);
    struct conf_region region;

    conf_need("FENCE");
    p = conf_pair_open((struct conf_want){.caps = FI_MSG | FI_TAGGED | FI_RMA | FI_FENCE});
    conf_region_open(p, &region, REGION, FI_REMOTE_READ | FI_REMOTE_WRITE);
    for (unsigned i = 0; i < 20; i++) {
        conf_fill(region.memory, REGION, i);
        conf_fill(out, REGION, i + 1);
        conf_post(p, fi_read(p->a.ep, in, REGION, NULL, p->a.peer, region.base, region.key, in));
        conf_post(p, write_with(p, out, REGION, &region, 0,
                                FI_FENCE | FI_COMPLETION | FI_DELIVERY_COMPLETE));
        conf_check(!conf_wait(p, &p->a, out).err, "the write");
        conf_check(conf_has(&p->a, in), "the fenced write is done, the read before it is not");
        conf_check(!conf_wait(p, &p->a, in).err && conf_holds(in, REGION, i),
                   "the read saw what was fenced");
        conf_check(conf_holds(region.memory, REGION, i + 1), "the write");
    }
    /* A fenced message after a write: the write is there when the message is. */
    for (unsigned i = 0; i < 20; i++) {
        char byte = 1, got;

        conf_fill(out, REGION, i + 7);
        conf_post(p, fi_trecv(p->b.ep, &got, 1, NULL, FI_ADDR_UNSPEC, 1, 0, &got));
        conf_post(p, fi_write(p->a.ep, out, REGION, NULL, p->a.peer, region.base, region.key, out));
        conf_post(p, send_with(p, &byte, 1, 1, FI_FENCE | FI_COMPLETION));
        conf_wait(p, &p->b, &got);
        conf_check(conf_holds(region.memory, REGION, i + 7), "the message overtook the write");
        conf_wait(p, &p->a, out);
        conf_wait(p, &p->a, &byte);
    }
    conf_region_close(&region);
    conf_pair_close(p);
    free(out);
    free(in);
}

/* FI_MORE is a hint: messages posted with it arrive, with and without a last one. */
static void more(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    uint32_t out[100], in;

    for (uint32_t i = 0; i < 100; i++) {
        out[i] = i;
        conf_post(p, send_with(p, &out[i], 4, 1, FI_MORE | FI_COMPLETION));
    }
    for (uint32_t i = 0; i < 100; i++) {
        conf_post(p, fi_trecv(p->b.ep, &in, 4, NULL, FI_ADDR_UNSPEC, 1, 0, &in));
        conf_wait(p, &p->b, &in);
        conf_check(in == i, "%u instead of %u", in, i);
        conf_wait(p, &p->a, &out[i]);
    }
    conf_quiet(p, 5);
    conf_pair_close(p);
}

/* On a queue bound for selected completions: success is silent, errors are not. */
static void selected(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){.cq_flags = FI_SELECTIVE_COMPLETION});
    char out[200], in[200];
    struct conf_region region;
    struct conf_seen seen;

    conf_region_open(p, &region, 200, FI_REMOTE_WRITE);
    conf_fill(out, sizeof out, 1);
    conf_post(p, fi_trecv(p->b.ep, in, 100, NULL, FI_ADDR_UNSPEC, 1, 0, in));
    conf_post(p, send_with(p, out, 200, 1, 0));
    seen = conf_wait(p, &p->b, in);
    conf_check(seen.err == FI_ETRUNC, "a truncation without FI_COMPLETION: %s",
               fi_strerror(seen.err));
    conf_post(p, fi_trecv(p->b.ep, &in[1], 100, NULL, FI_ADDR_UNSPEC, 2, 0, &in[1]));
    conf_check(!fi_cancel(&p->b.ep->fid, &in[1]), "fi_cancel");
    conf_check(conf_wait(p, &p->b, &in[1]).err == FI_ECANCELED, "a cancel without FI_COMPLETION");
    conf_post(p, write_with(p, out, 200, &region, 0, 0));
    conf_post(p, write_with(p, out, 100, &region, 0, FI_COMPLETION | FI_DELIVERY_COMPLETE));
    conf_check(!conf_wait(p, &p->a, out).err, "the selected write");
    conf_quiet(p, 10);
    conf_await_data(p, region.memory, 200, 1);
    conf_region_close(&region);
    conf_pair_close(p);
}

/* FI_SETOPSFLAG at run time, and what FI_GETOPSFLAG says then. */
static void flags_at_run_time(void)
{
    struct conf_pair *p;
    uint64_t flags = FI_TRANSMIT | FI_COMPLETION | FI_DELIVERY_COMPLETE, read = FI_TRANSMIT;
    struct conf_region region;
    char out[100];

    conf_need("flags_at_run_time");
    p = conf_pair_open((struct conf_want){.cq_flags = FI_SELECTIVE_COMPLETION});
    conf_region_open(p, &region, 100, FI_REMOTE_WRITE);
    conf_fill(out, 100, 1);
    conf_post(p, fi_write(p->a.ep, out, 100, NULL, p->a.peer, region.base, region.key, out));
    conf_await_data(p, region.memory, 100, 1); /* no order keeps it before the next one */
    conf_quiet(p, 10);
    conf_check(!fi_control(&p->a.ep->fid, FI_SETOPSFLAG, &flags), "FI_SETOPSFLAG");
    conf_check(!fi_control(&p->a.ep->fid, FI_GETOPSFLAG, &read), "FI_GETOPSFLAG");
    conf_check((read & (FI_COMPLETION | FI_DELIVERY_COMPLETE)) ==
                   (FI_COMPLETION | FI_DELIVERY_COMPLETE),
               "flags are %#lx", (unsigned long)read);
    conf_fill(out, 100, 2);
    conf_post(p, fi_write(p->a.ep, out, 100, NULL, p->a.peer, region.base, region.key, out));
    conf_check(!conf_wait(p, &p->a, out).err && conf_holds(region.memory, 100, 2), "delivered");
    flags = FI_TRANSMIT | FI_RECV;
    conf_check(fi_control(&p->a.ep->fid, FI_SETOPSFLAG, &flags) < 0, "flags of both directions");
    conf_quiet(p, 5);
    conf_region_close(&region);
    conf_pair_close(p);
}

/* Several pieces here into several places there, cut differently. */
static void rma_pieces(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    char *out = malloc(REGION), *in = malloc(REGION);
    struct conf_region region;

    conf_region_open(p, &region, REGION, FI_REMOTE_READ | FI_REMOTE_WRITE);
    for (unsigned i = 1; i < 16; i++) {
        size_t size = i < 8 ? 40U * i : 30000U * i, half = size / 2;
        struct iovec local[2] = {{out, size / 3}, {out + size / 3, size - size / 3}};
        struct iovec back[3] = {{in, 5}, {in + 5, half}, {in + 5 + half, size - half - 5}};
        struct fi_rma_iov remote[2] = {{region.base + 100 + half, half, region.key},
                                       {region.base + 110 + 2 * half, size - half, region.key}};
        struct fi_msg_rma msg = {.msg_iov = local,
                                 .iov_count = 2,
                                 .addr = p->a.peer,
                                 .rma_iov = remote,
                                 .rma_iov_count = 2,
                                 .context = out};

        conf_fill(out, size, i);
        conf_post(p, fi_writemsg(p->a.ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE));
        conf_check(!conf_wait(p, &p->a, out).err, "write %u", i);
        conf_check(!memcmp(region.memory + 100 + half, out, half) &&
                       !memcmp(region.memory + 110 + 2 * half, out + half, size - half),
                   "what was written, %zu", size);
        msg.msg_iov = back;
        msg.iov_count = 3;
        msg.context = in;
        memset(in, 0, size);
        conf_post(p, fi_readmsg(p->a.ep, &msg, FI_COMPLETION));
        conf_check(!conf_wait(p, &p->a, in).err && conf_holds(in, size, i), "read %u", i);
        conf_post(p, fi_writev(p->a.ep, local, NULL, 2, p->a.peer, region.base, region.key, out));
        conf_wait(p, &p->a, out);
        memset(in, 0, size);
        conf_post(p, fi_readv(p->a.ep, back, NULL, 3, p->a.peer, region.base, region.key, in));
        conf_check(!conf_wait(p, &p->a, in).err && conf_holds(in, size, i), "readv %u", i);
    }
    conf_quiet(p, 5);
    conf_region_close(&region);
    conf_pair_close(p);
    free(out);
    free(in);
}

/* The order of writes that the stack has, of these or of all. */
static uint64_t order_of_writes(void)
{
    return conf_offers->msg_order & (FI_ORDER_WAW | FI_ORDER_RMA_WAW);
}

/* CQ data with writes, injected too: one completion at the target for each, in the order that was
 * asked for. */
static void rma_data_with(uint64_t msg_order)
{
    enum {
        WRITES = 200
    };
    uint64_t events = conf_offers->caps & FI_RMA_EVENT;
    struct conf_pair *p = conf_pair_open(
        (struct conf_want){.caps = FI_MSG | FI_RMA | events, .msg_order = msg_order});
    struct conf_region region;
    bool ordered = p->home.info->tx_attr->msg_order & (FI_ORDER_WAW | FI_ORDER_RMA_WAW);
    bool came[WRITES] = {false};
    uint64_t next = 0, word = 5;

    conf_check(!msg_order || ordered, "the order of writes is not there");
    conf_region_open(p, &region, 4096, FI_REMOTE_WRITE);
    for (uint64_t i = 0; i < WRITES; i++)
        conf_post(
            p, i % 2 ? fi_inject_writedata(p->a.ep, &word, 8, i, p->a.peer, region.base, region.key)
                     : fi_writedata(p->a.ep, &word, i % 9, NULL, i, p->a.peer, region.base,
                                    region.key, NULL));
    for (long long end = conf_now_ms() + CONF_TIMEOUT_MS; next < WRITES;) {
        conf_drive_pair(p);
        for (size_t i = 0; i < p->b.seen_count; i++) {
            struct conf_seen *seen = &p->b.seen[i];

            conf_check((seen->flags & FI_REMOTE_CQ_DATA) && seen->data < WRITES &&
                           !came[seen->data] && (!ordered || seen->data == next),
                       "%lu instead of %lu", (unsigned long)seen->data, (unsigned long)next);
            came[seen->data] = true;
            next++;
        }
        p->b.seen_count = 0;
        conf_check(conf_now_ms() < end, "%lu of 200", (unsigned long)next);
    }
    for (int i = 0; i < 100; i++)
        conf_wait(p, &p->a, NULL);
    conf_quiet(p, 5);
    conf_region_close(&region);
    conf_pair_close(p);
}

/* Where no order of writes is asked for, a lost packet may come behind those that follow it. */
static void rma_data(void)
{
    rma_data_with(0);
    if (order_of_writes())
        rma_data_with(order_of_writes());
}

const struct conf_case conf_flags_cases[] = {
    {"flags: FI_INJECT_COMPLETE", inject_complete},
    {"flags: FI_TRANSMIT_COMPLETE", transmit_complete},
    {"flags: FI_DELIVERY_COMPLETE is true", delivered},
    {"flags: FI_COMMIT_COMPLETE", commit_complete},
    {"flags: not complete before it is there", not_before_it_is_there},
    {"flags: not complete before it is there, by default", not_before_it_is_there_by_default},
    {"flags: FI_MATCH_COMPLETE is refused", match_complete},
    {"flags: FI_INJECT frees the buffer at once", inject_flag},
    {"flags: FI_FENCE", fence},
    {"flags: FI_MORE", more},
    {"flags: selective completion is silent, not of errors", selected},
    {"flags: changed at run time", flags_at_run_time},
    {"flags: pieces of remote memory", rma_pieces},
    {"flags: CQ data of writes, in order", rma_data},
    {0},
};
