/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "conf.h"

enum {
    REGION = 4 << 20,
    BASIC = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY
};

static void write_read(int mr_mode)
{
    static const size_t sizes[] = {0, 1, 8, 128, 129, 4096, 65536, 1048576, REGION - 64};
    struct conf_pair *p = conf_pair_open((struct conf_want){.mr_mode = mr_mode});
    char *local = malloc(REGION), *back = malloc(REGION);
    struct conf_region t;
    struct conf_seen seen;

    conf_region_open(p, &t, REGION, FI_REMOTE_READ | FI_REMOTE_WRITE);
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        conf_fill(local, sizes[i], i);
        memset(back, 0, sizes[i]);
        conf_post(p,
                  fi_write(p->a.ep, local, sizes[i], NULL, p->a.peer, t.base + 64, t.key, local));
        seen = conf_wait(p, &p->a, local);
        conf_check(!seen.err && (seen.flags & FI_WRITE) && (seen.flags & FI_RMA), "write: %d, %#lx",
                   seen.err, (unsigned long)seen.flags);
        conf_post(p, fi_read(p->a.ep, back, sizes[i], NULL, p->a.peer, t.base + 64, t.key, back));
        seen = conf_wait(p, &p->a, back);
        conf_check(!seen.err && (seen.flags & FI_READ) && (seen.flags & FI_RMA), "read: %d, %#lx",
                   seen.err, (unsigned long)seen.flags);
        conf_check(conf_holds(back, sizes[i], i), "data of %zu", sizes[i]);
        conf_check(conf_holds(t.memory + 64, sizes[i], i), "target memory of %zu", sizes[i]);
    }
    conf_quiet(p, 5);
    conf_region_close(&t);
    conf_pair_close(p);
    free(local);
    free(back);
}

static void scalable(void)
{
    write_read(0);
}

static void basic(void)
{
    write_read(BASIC);
}

static void write_data(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    char local[100];
    struct conf_region t;
    struct conf_seen seen;

    conf_region_open(p, &t, REGION, FI_REMOTE_WRITE);
    conf_fill(local, sizeof local, 1);
    conf_post(p,
              fi_writedata(p->a.ep, local, 100, NULL, 0xabcdef, p->a.peer, t.base, t.key, local));
    conf_check(!conf_wait(p, &p->a, local).err, "fi_writedata");
    for (long long end = conf_now_ms() + CONF_TIMEOUT_MS; !p->b.seen_count;) {
        conf_drive_pair(p);
        conf_check(conf_now_ms() < end, "no completion at the target");
    }
    seen = p->b.seen[--p->b.seen_count];
    conf_check((seen.flags & (FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA)) ==
                       (FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA) &&
                   seen.data == 0xabcdef,
               "flags %#lx data %#lx", (unsigned long)seen.flags, (unsigned long)seen.data);
    conf_check(conf_holds(t.memory, 100, 1), "data");
    conf_post(p, fi_inject_write(p->a.ep, local, 8, p->a.peer, t.base + 200, t.key));
    for (long long end = conf_now_ms() + CONF_TIMEOUT_MS; memcmp(t.memory + 200, local, 8) != 0;) {
        conf_drive_pair(p);
        conf_check(conf_now_ms() < end, "fi_inject_write did not arrive");
    }
    conf_quiet(p, 5);
    conf_region_close(&t);
    conf_pair_close(p);
}

/* The bytes of the write are in the target's memory when its completion is there. */
static void delivery_complete(void)
{
    conf_need("DELIVERY_COMPLETE");
    struct conf_pair *p = conf_pair_open((struct conf_want){.op_flags = FI_DELIVERY_COMPLETE});
    char local[4096];
    struct conf_region t;

    conf_region_open(p, &t, REGION, FI_REMOTE_WRITE);
    for (unsigned i = 0; i < 50; i++) {
        conf_fill(local, sizeof local, i);
        conf_post(p, fi_write(p->a.ep, local, sizeof local, NULL, p->a.peer, t.base, t.key, local));
        conf_check(!conf_wait(p, &p->a, local).err, "fi_write");
        conf_check(conf_holds(t.memory, sizeof local, i), "completed before it was delivered");
    }
    conf_region_close(&t);
    conf_pair_close(p);
}

/* One bad access: an error at the initiator, nothing written, and the peers talk on. */
static void refused(uint64_t access, uint64_t offset, size_t len, uint64_t key_change, bool read)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    char *local = calloc(1, len), in = 0, out = 'y';
    struct conf_region t;
    struct conf_seen seen;

    conf_region_open(p, &t, REGION, access);
    memset(local, 1, len);
    if (read)
        conf_post(p, fi_read(p->a.ep, local, len, NULL, p->a.peer, t.base + offset,
                             t.key + key_change, local));
    else
        conf_post(p, fi_writedata(p->a.ep, local, len, NULL, 1, p->a.peer, t.base + offset,
                                  t.key + key_change, local));
    seen = conf_wait(p, &p->a, local);
    /* A plain write completes when it is sent; its refusal then shows at the next operation. */
    conf_check(seen.err || !read, "a read that is not allowed succeeds");
    for (size_t i = 0; i < REGION; i++)
        conf_check(t.memory[i] == 0, "byte %zu of the region was written", i);
    p->a.seen_count = p->b.seen_count = 0;
    conf_post(p, fi_recv(p->b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, &in));
    for (int tries = 0; tries < 100 && !in; tries++) {
        conf_post(p, fi_send(p->a.ep, &out, 1, NULL, p->a.peer, &out));
        if (!conf_wait(p, &p->a, &out).err)
            for (long long end = conf_now_ms() + 200; conf_now_ms() < end && !in;)
                conf_drive_pair(p);
    }
    conf_check(in == 'y', "the peers do not talk any more");
    conf_region_close(&t);
    conf_pair_close(p);
    free(local);
}

static void bad_key(void)
{
    refused(FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 100, 0x123, false);
    refused(FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 100, 0x123, true);
}

static void bad_access(void)
{
    refused(FI_REMOTE_READ, 0, 100, 0, false);
    refused(FI_REMOTE_WRITE, 0, 100, 0, true);
}

static void bad_range(void)
{
    refused(FI_REMOTE_READ | FI_REMOTE_WRITE, REGION - 50, 100, 0, false);
    refused(FI_REMOTE_READ | FI_REMOTE_WRITE, REGION - 50, 100, 0, true);
    refused(FI_REMOTE_READ | FI_REMOTE_WRITE, UINT64_MAX - 20, 100, 0, true);
}

/* Writes and reads beside messages, all outstanding together. */
static void mixed(void)
{
    enum {
        OPS = 200
    };
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    static uint64_t out[OPS], in[OPS], got[OPS];
    bool ordered = p->home.info->tx_attr->msg_order & (FI_ORDER_RAW | FI_ORDER_RMA_RAW);
    struct conf_region t;

    conf_region_open(p, &t, REGION, FI_REMOTE_READ | FI_REMOTE_WRITE);
    for (size_t i = 0; i < OPS; i++) {
        out[i] = i + 1;
        conf_post(p, fi_trecv(p->b.ep, &got[i], 8, NULL, FI_ADDR_UNSPEC, i, 0, &got[i]));
        conf_post(p, fi_write(p->a.ep, &out[i], 8, NULL, p->a.peer, t.base + 8 * i, t.key, NULL));
        conf_post(p, fi_tsend(p->a.ep, &out[i], 8, NULL, p->a.peer, i, NULL));
        conf_post(p, fi_read(p->a.ep, &in[i], 8, NULL, p->a.peer, t.base + 8 * i, t.key, &in[i]));
    }
    for (size_t i = 0; i < OPS; i++) {
        conf_wait(p, &p->a, &in[i]);
        conf_check(in[i] == i + 1 || (!in[i] && !ordered), "read %zu after write: %lu", i,
                   (unsigned long)in[i]);
        conf_wait(p, &p->b, &got[i]);
        conf_check(got[i] == i + 1, "message %zu", i);
        conf_wait(p, &p->a, NULL);
        conf_wait(p, &p->a, NULL);
    }
    conf_quiet(p, 5);
    conf_region_close(&t);
    conf_pair_close(p);
}

const struct conf_case conf_rma_cases[] = {
    {"rma: write and read, offsets and own keys", scalable},
    {"rma: write and read, virtual addresses", basic},
    {"rma: remote CQ data, inject", write_data},
    {"rma: delivery complete waits for the target", delivery_complete},
    {"rma: a wrong key is refused", bad_key},
    {"rma: a missing right is refused", bad_access},
    {"rma: out of range is refused", bad_range},
    {"rma: reads, writes and messages together", mixed},
    {0},
};
