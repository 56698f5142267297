/* SPDX-License-Identifier: BSD-2-Clause */
/* Cases that take seconds or gigabytes; not in every run. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "conf.h"
#include "offers.h"

/* Where addresses have 32 bits there is nothing above 4 GiB. */
#if SIZE_MAX > UINT32_MAX

/* Above 4 GiB: 32 bits of length would be seen at once. The pages out of which is sent are all the
 * same one of zeroes, but for some marked ones; the receive's memory is real. */
static const size_t HUGE_SIZE = (4ULL << 30) + 12345;

struct huge {
    char *out, *in;
};

static size_t mark_at(unsigned i)
{
    static const size_t marks[] = {0, 4095, (1ULL << 31) - 1, (1ULL << 32) - 2, (1ULL << 32) + 1};

    return i < 5 ? marks[i] : HUGE_SIZE - 1;
}

static void need_memory(size_t bytes)
{
    FILE *file = fopen("/proc/meminfo", "r");
    unsigned long long kib = 0;
    char line[128];

    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
            break;
    if (file)
        fclose(file);
    if (kib && kib << 10 < bytes)
        conf_skip("it takes %zu MiB of memory, and %llu MiB are available", bytes >> 20, kib >> 10);
}

/* Needs a stack with so long messages; memory for the received bytes, and as much again: for the
 * stack, and for processes that start meanwhile. */
static struct huge huge_open(void)
{
    if (conf_offers->known && conf_offers->max_msg_size < HUGE_SIZE)
        conf_skip("a message has %" PRIu64 " bytes at most", conf_offers->max_msg_size);
    need_memory(HUGE_SIZE + (1ULL << 30));

    struct huge huge = {.out = mmap(NULL, HUGE_SIZE, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
                        .in = mmap(NULL, HUGE_SIZE, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)};

    conf_check(huge.out != MAP_FAILED && huge.in != MAP_FAILED, "mmap");
    for (unsigned i = 0; i < 6; i++)
        huge.out[mark_at(i)] = (char)(i + 1);
    return huge;
}

static void huge_compare(struct huge *huge)
{
    for (unsigned i = 0; i < 6; i++)
        conf_check(huge->in[mark_at(i)] == (char)(i + 1), "the byte at %zu", mark_at(i));
    conf_check(!memcmp(huge->in, huge->out, HUGE_SIZE), "data");
    memset(huge->in, 0x55, 1);
    munmap(huge->in, HUGE_SIZE);
    munmap(huge->out, HUGE_SIZE);
}

static struct conf_seen wait_long(struct conf_pair *p, struct conf_ep *end, void *context)
{
    for (long long until = conf_now_ms() + 300000; !conf_has(end, context);) {
        conf_drive_pair(p);
        conf_check(conf_now_ms() < until, "no completion in 300 s");
    }
    return conf_wait(p, end, context);
}

static void huge_message(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    struct huge huge = huge_open();
    struct conf_seen seen;

    conf_post(p, fi_trecv(p->b.ep, huge.in, HUGE_SIZE, NULL, FI_ADDR_UNSPEC, 1, 0, huge.in));
    conf_post(p, fi_tsend(p->a.ep, huge.out, HUGE_SIZE, NULL, p->a.peer, 1, huge.out));
    seen = wait_long(p, &p->b, huge.in);
    conf_check(!seen.err && seen.len == HUGE_SIZE, "%s, length %lu", fi_strerror(seen.err),
               (unsigned long)seen.len);
    conf_check(!wait_long(p, &p->a, huge.out).err, "the send");
    huge_compare(&huge);
    conf_pair_close(p);
}

static void huge_rma(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    struct fid_mr *mr;

    for (int read = 0; read < 2; read++) {
        struct huge huge = huge_open();
        char *target = read ? huge.out : huge.in, *local = read ? huge.in : huge.out;

        conf_check(!fi_mr_reg(p->home.domain, target, HUGE_SIZE, FI_REMOTE_READ | FI_REMOTE_WRITE,
                              0, 7, 0, &mr, NULL),
                   "fi_mr_reg");
        if (read)
            conf_post(p, fi_read(p->a.ep, local, HUGE_SIZE, NULL, p->a.peer, 0, 7, local));
        else
            conf_post(p, fi_write(p->a.ep, local, HUGE_SIZE, NULL, p->a.peer, 0, 7, local));
        conf_check(!wait_long(p, &p->a, local).err, "the %s", read ? "read" : "write");
        for (long long until = conf_now_ms() + 60000; huge.in[HUGE_SIZE - 1] != 6;) {
            conf_drive_pair(p);
            conf_check(conf_now_ms() < until, "the last byte");
        }
        conf_check(!fi_close(&mr->fid), "fi_close(mr)");
        huge_compare(&huge);
    }
    conf_pair_close(p);
}

#endif

const struct conf_case conf_long_cases[] = {
#if SIZE_MAX > UINT32_MAX
    {"long: a message above 4 GiB", huge_message},
    {"long: a write and a read above 4 GiB", huge_rma},
#endif
    {0},
};
