/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters, bound in every way. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf.h"

enum {
    KINDS = 2
};

/* Of what a peer does; the others are bound for every end. */
static const uint64_t kinds[KINDS] = {FI_REMOTE_READ, FI_REMOTE_WRITE};
static struct fid_cntr *counters[2][KINDS];
static int opened;

static void one_for_each(struct conf_ep *end)
{
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};

    for (int i = 0; i < KINDS; i++) {
        conf_check(!fi_cntr_open(end->home->domain, &attr, &counters[opened][i], NULL), "open");
        conf_check(!fi_ep_bind(end->ep, &counters[opened][i]->fid, kinds[i]), "bind of kind %d", i);
    }
    opened++;
}

static void until(struct conf_pair *p, struct fid_cntr *cntr, uint64_t value, const char *what)
{
    for (long long end = conf_now_ms() + CONF_TIMEOUT_MS; fi_cntr_read(cntr) < value;) {
        conf_drive_pair(p);
        conf_check(conf_now_ms() < end, "%s: %lu of %lu", what, (unsigned long)fi_cntr_read(cntr),
                   (unsigned long)value);
    }
    conf_check(fi_cntr_read(cntr) == value, "%s: %lu, not %lu", what,
               (unsigned long)fi_cntr_read(cntr), (unsigned long)value);
}

static void close_all(struct conf_pair *p)
{
    conf_ep_close(&p->a);
    conf_ep_close(&p->b);
    for (int end = 0; end < 2; end++)
        for (int i = 0; i < KINDS; i++)
            conf_check(!fi_close(&counters[end][i]->fid), "a counter");
    opened = 0;
    conf_fabric_close(&p->home);
    free(p);
}

/* Counters of the target count accesses that it does not notice otherwise: reads and writes. */
static void every_kind(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){
        .caps = FI_MSG | FI_TAGGED | FI_RMA | FI_RMA_EVENT, .prepare = one_for_each});
    struct conf_region region;
    char local[64] = {0};

    conf_region_open(p, &region, 4096, FI_REMOTE_READ | FI_REMOTE_WRITE);
    for (int i = 0; i < 7; i++) {
        conf_post(p, fi_write(p->a.ep, local, 64, NULL, p->a.peer, region.base, region.key, NULL));
        conf_wait(p, &p->a, NULL);
    }
    for (int i = 0; i < 3; i++) {
        conf_post(p, fi_read(p->a.ep, local, 64, NULL, p->a.peer, region.base, region.key, NULL));
        conf_wait(p, &p->a, NULL);
    }
    until(p, counters[1][1], 7, "remote writes");
    until(p, counters[1][0], 3, "remote reads");
    until(p, p->a.sent, 10, "own writes and reads");
    conf_check(fi_cntr_read(counters[0][0]) == 0 && fi_cntr_read(counters[0][1]) == 0,
               "counted at the wrong end");
    conf_quiet(p, 5);
    conf_region_close(&region);
    close_all(p);
}

/* The fetch of a message, however large, counts as an access of memory at neither end. */
static void messages_are_no_accesses(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){
        .caps = FI_MSG | FI_TAGGED | FI_RMA | FI_RMA_EVENT, .prepare = one_for_each});
    const size_t size = 3 << 20;
    char *memory = malloc(2 * size), *in = memory + size;
    struct conf_region region;

    conf_check(memory != NULL, "no memory");
    memset(memory, 1, 2 * size);
    conf_region_open(p, &region, 4096, FI_REMOTE_READ | FI_REMOTE_WRITE);
    for (int i = 0; i < 3; i++) {
        conf_post(p, fi_trecv(p->b.ep, in, size, NULL, FI_ADDR_UNSPEC, 1, 0, in));
        conf_post(p, fi_tsend(p->a.ep, memory, size, NULL, p->a.peer, 1, memory));
        conf_check(!conf_wait(p, &p->b, in).err, "receive");
        conf_check(!conf_wait(p, &p->a, memory).err, "send");
    }
    conf_post(p, fi_write(p->a.ep, memory, 64, NULL, p->a.peer, region.base, region.key, NULL));
    conf_wait(p, &p->a, NULL);
    conf_post(p, fi_read(p->a.ep, memory, 64, NULL, p->a.peer, region.base, region.key, NULL));
    conf_wait(p, &p->a, NULL);
    until(p, counters[1][1], 1, "remote writes");
    until(p, counters[1][0], 1, "remote reads");
    conf_check(fi_cntr_read(counters[0][0]) == 0 && fi_cntr_read(counters[0][1]) == 0,
               "%lu reads, %lu writes of the sender's memory",
               (unsigned long)fi_cntr_read(counters[0][0]),
               (unsigned long)fi_cntr_read(counters[0][1]));
    conf_region_close(&region);
    close_all(p);
    free(memory);
}

/* Bound to a region: only what touches that region. */
static void of_a_region(void)
{
    struct conf_pair *p =
        conf_pair_open((struct conf_want){.caps = FI_MSG | FI_RMA | FI_RMA_EVENT});
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
    struct fid_cntr *cntr;
    struct conf_region one, other;
    char local[64] = {0};
    int rc;

    conf_region_open(p, &one, 4096, FI_REMOTE_WRITE | FI_REMOTE_READ);
    conf_region_open(p, &other, 4096, FI_REMOTE_WRITE | FI_REMOTE_READ);
    conf_check(!fi_cntr_open(p->home.domain, &attr, &cntr, NULL), "fi_cntr_open");
    rc = fi_mr_bind(one.mr, &cntr->fid, FI_REMOTE_WRITE);
    conf_check(!rc, "fi_mr_bind: %s", fi_strerror(-rc));
    for (int i = 0; i < 10; i++) {
        struct conf_region *to = i % 2 ? &one : &other;

        conf_post(p, fi_write(p->a.ep, local, 64, NULL, p->a.peer, to->base, to->key, NULL));
        conf_wait(p, &p->a, NULL);
    }
    until(p, cntr, 5, "writes of the region");
    conf_region_close(&one);
    conf_region_close(&other);
    conf_check(!fi_close(&cntr->fid), "close");
    conf_pair_close(p);
}

/* A region counts operations: a write to three ranges of it, one of them empty, counts once. */
static void of_several_ranges(void)
{
    conf_may_lack("ranges_as_one");

    struct conf_pair *p =
        conf_pair_open((struct conf_want){.caps = FI_MSG | FI_RMA | FI_RMA_EVENT});
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
    size_t limit = p->home.info->tx_attr->rma_iov_limit;
    struct conf_region region;
    struct fid_cntr *cntr;
    char local[16] = {0};
    struct iovec iov = {local, sizeof local};

    conf_region_open(p, &region, 4096, FI_REMOTE_WRITE);
    conf_check(!fi_cntr_open(p->home.domain, &attr, &cntr, NULL), "fi_cntr_open");
    conf_check(!fi_mr_bind(region.mr, &cntr->fid, FI_REMOTE_WRITE), "fi_mr_bind");
    for (uint64_t i = 1; i <= 10; i++) {
        struct fi_rma_iov ranges[] = {{region.base, 12, region.key},
                                      {region.base + 100, 4, region.key},
                                      {region.base + 200, 0, region.key}};
        struct fi_msg_rma msg = {.msg_iov = &iov,
                                 .iov_count = 1,
                                 .addr = p->a.peer,
                                 .rma_iov = ranges,
                                 .rma_iov_count = limit < 3 ? limit : 3,
                                 .context = local};

        ranges[0].len = limit < 2 ? sizeof local : 12;
        conf_post(p, fi_writemsg(p->a.ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE));
        conf_check(!conf_wait(p, &p->a, local).err, "write");
        until(p, cntr, i, "writes of the region");
    }
    conf_quiet(p, 5);
    conf_check(fi_cntr_read(cntr) == 10, "%lu writes counted of 10",
               (unsigned long)fi_cntr_read(cntr));
    conf_region_close(&region);
    conf_check(!fi_close(&cntr->fid), "close");
    conf_pair_close(p);
}

/* An access of no bytes is one of the region that it names; naming none is no error. */
static void of_no_bytes(void)
{
    struct conf_pair *p =
        conf_pair_open((struct conf_want){.caps = FI_MSG | FI_RMA | FI_RMA_EVENT});
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
    struct fid_cntr *writes, *reads;
    struct conf_region region;
    char local = 0;

    conf_region_open(p, &region, 4096, FI_REMOTE_WRITE | FI_REMOTE_READ);
    conf_check(!fi_cntr_open(p->home.domain, &attr, &writes, NULL), "fi_cntr_open");
    conf_check(!fi_cntr_open(p->home.domain, &attr, &reads, NULL), "fi_cntr_open");
    conf_check(!fi_mr_bind(region.mr, &writes->fid, FI_REMOTE_WRITE), "fi_mr_bind");
    conf_check(!fi_mr_bind(region.mr, &reads->fid, FI_REMOTE_READ), "fi_mr_bind");
    for (int i = 0; i < 4; i++) {
        uint64_t key = region.key + (i % 2 ? 0x123 : 0);

        conf_post(p, fi_write(p->a.ep, &local, 0, NULL, p->a.peer, region.base, key, &local));
        conf_check(!conf_wait(p, &p->a, &local).err, "a write of no bytes");
        conf_post(p, fi_read(p->a.ep, &local, 0, NULL, p->a.peer, region.base, key, &local));
        conf_check(!conf_wait(p, &p->a, &local).err, "a read of no bytes");
    }
    until(p, writes, 2, "writes of the region");
    until(p, reads, 2, "reads of the region");
    conf_quiet(p, 5);
    conf_check(fi_cntr_read(writes) == 2 && fi_cntr_read(reads) == 2, "%lu writes and %lu reads",
               (unsigned long)fi_cntr_read(writes), (unsigned long)fi_cntr_read(reads));
    conf_region_close(&region);
    conf_check(!fi_close(&writes->fid) && !fi_close(&reads->fid), "close");
    conf_pair_close(p);
}

/* Of the target: the kinds of the initiator have counters already. */
static void counts_bytes(struct conf_ep *end)
{
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_BYTES};

    conf_check(!fi_cntr_open(end->home->domain, &attr, &counters[opened][0], NULL), "open");
    conf_check(!fi_ep_bind(end->ep, &counters[opened][0]->fid, FI_REMOTE_WRITE), "bind");
    opened++;
}

static void written_bytes(struct conf_pair *p)
{
    struct conf_region region;
    char local[64] = {0};

    conf_region_open(p, &region, 4096, FI_REMOTE_WRITE);
    for (int i = 0; i < 3; i++) {
        conf_post(p, fi_write(p->a.ep, local, 64, NULL, p->a.peer, region.base, region.key, NULL));
        conf_wait(p, &p->a, NULL);
    }
    until(p, counters[1][0], 192, "bytes of remote writes");
    conf_region_close(&region);
}

static void bytes(void)
{
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_BYTES};
    struct conf_pair *p;
    struct fid_cntr *cntr;
    struct conf_fabric home;
    int rc;

    conf_fabric_open(&home, &(struct conf_want){0});
    rc = fi_cntr_open(home.domain, &attr, &cntr, NULL);
    if (rc == -FI_ENOSYS) {
        conf_fabric_close(&home);
        conf_need("byte_counters");
    }
    conf_check(!rc && !fi_close(&cntr->fid), "fi_cntr_open: %s", fi_strerror(-rc));
    conf_fabric_close(&home);
    p = conf_pair_open((struct conf_want){.caps = FI_MSG | FI_TAGGED | FI_RMA | FI_RMA_EVENT,
                                          .prepare = counts_bytes});
    written_bytes(p);
    conf_ep_close(&p->a);
    conf_ep_close(&p->b);
    for (int end = 0; end < 2; end++)
        conf_check(!fi_close(&counters[end][0]->fid), "a counter");
    opened = 0;
    conf_fabric_close(&p->home);
    free(p);
}

/* ---- Each kind in a counter of its own ---- */

enum {
    ALL = 6
};

static const struct {
    const char *name;
    uint64_t kind;
} all[ALL] = {
    {"FI_SEND", FI_SEND},
    {"FI_RECV", FI_RECV},
    {"FI_READ", FI_READ},
    {"FI_WRITE", FI_WRITE},
    {"FI_REMOTE_READ", FI_REMOTE_READ},
    {"FI_REMOTE_WRITE", FI_REMOTE_WRITE},
};
static struct fid_cntr *each[2][ALL]; /* of a, which begins all operations, and of b */
static uint64_t expected[2][ALL];

static void all_apart(struct conf_ep *end)
{
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};

    for (int i = 0; i < ALL; i++) {
        conf_check(!fi_cntr_open(end->home->domain, &attr, &each[opened][i], NULL), "open");
        conf_check(!fi_ep_bind(end->ep, &each[opened][i]->fid, all[i].kind), "bind %s",
                   all[i].name);
    }
    opened++;
}

/* count more of one kind at a, and of another at b; and of no other. */
static void advance(struct conf_pair *p, const char *what, uint64_t count, uint64_t own,
                    uint64_t of_peer)
{
    for (int i = 0; i < ALL; i++) {
        expected[0][i] += all[i].kind == own ? count : 0;
        expected[1][i] += all[i].kind == of_peer ? count : 0;
    }
    for (int end = 0; end < 2; end++)
        for (int i = 0; i < ALL; i++)
            until(p, each[end][i], expected[end][i], all[i].name);
    conf_quiet(p, 2);
    for (int end = 0; end < 2; end++)
        for (int i = 0; i < ALL; i++)
            conf_check(fi_cntr_read(each[end][i]) == expected[end][i],
                       "%s: %s of %s is %lu, not %lu", what, all[i].name,
                       end ? "the target" : "the initiator",
                       (unsigned long)fi_cntr_read(each[end][i]), (unsigned long)expected[end][i]);
}

static void messages(struct conf_pair *p, char *out, char *in, size_t size)
{
    conf_post(p, fi_recv(p->b.ep, in, size, NULL, FI_ADDR_UNSPEC, in));
    conf_post(p, fi_send(p->a.ep, out, size, NULL, p->a.peer, out));
    conf_check(!conf_wait(p, &p->b, in).err && !conf_wait(p, &p->a, out).err, "fi_send");
    advance(p, "fi_send", 1, FI_SEND, FI_RECV);
    conf_post(p, fi_trecv(p->b.ep, in, size, NULL, FI_ADDR_UNSPEC, 1, 0, in));
    conf_post(p, fi_tsend(p->a.ep, out, size, NULL, p->a.peer, 1, out));
    conf_check(!conf_wait(p, &p->b, in).err && !conf_wait(p, &p->a, out).err, "fi_tsend");
    advance(p, "fi_tsend", 1, FI_SEND, FI_RECV);
}

static void accesses(struct conf_pair *p, const struct conf_region *to, char *local, size_t size)
{
    conf_post(p, fi_write(p->a.ep, local, size, NULL, p->a.peer, to->base, to->key, local));
    conf_check(!conf_wait(p, &p->a, local).err, "fi_write");
    advance(p, "fi_write", 1, FI_WRITE, FI_REMOTE_WRITE);
    conf_post(p, fi_read(p->a.ep, local, size, NULL, p->a.peer, to->base, to->key, local));
    conf_check(!conf_wait(p, &p->a, local).err, "fi_read");
    advance(p, "fi_read", 1, FI_READ, FI_REMOTE_READ);
}

static void injected(struct conf_pair *p, const struct conf_region *to, char *in)
{
    conf_post(p, fi_recv(p->b.ep, in, 8, NULL, FI_ADDR_UNSPEC, in));
    conf_post(p, fi_inject(p->a.ep, "message", 8, p->a.peer));
    conf_check(!conf_wait(p, &p->b, in).err, "fi_inject");
    advance(p, "fi_inject", 1, FI_SEND, FI_RECV);
    conf_post(p, fi_trecv(p->b.ep, in, 8, NULL, FI_ADDR_UNSPEC, 2, 0, in));
    conf_post(p, fi_tinject(p->a.ep, "message", 8, p->a.peer, 2));
    conf_check(!conf_wait(p, &p->b, in).err, "fi_tinject");
    advance(p, "fi_tinject", 1, FI_SEND, FI_RECV);
    for (int i = 0; i < 3; i++)
        conf_post(p, fi_inject_write(p->a.ep, "message", 8, p->a.peer, to->base, to->key));
    advance(p, "fi_inject_write", 3, FI_WRITE, FI_REMOTE_WRITE);
}

static void count_each(struct conf_pair *p)
{
    static const size_t sizes[] = {8, 2 << 20};
    char *out = calloc(2, sizes[1]), *in = out + sizes[1];
    struct conf_region region;

    conf_check(out != NULL, "no memory");
    memset(expected, 0, sizeof expected);
    conf_region_open(p, &region, sizes[1], FI_REMOTE_READ | FI_REMOTE_WRITE);
    for (int i = 0; i < 2; i++) {
        messages(p, out, in, sizes[i]);
        accesses(p, &region, out, sizes[i]);
    }
    injected(p, &region, in);
    conf_region_close(&region);
    conf_ep_close(&p->a);
    conf_ep_close(&p->b);
    for (int end = 0; end < 2; end++)
        for (int i = 0; i < ALL; i++)
            conf_check(!fi_close(&each[end][i]->fid), "a counter");
    opened = 0;
    conf_fabric_close(&p->home);
    free(p);
    free(out);
}

static void each_of_its_own(void)
{
    count_each(conf_pair_open((struct conf_want){.caps = FI_MSG | FI_TAGGED | FI_RMA | FI_RMA_EVENT,
                                                 .no_cntrs = true,
                                                 .prepare = all_apart}));
}

/* Sandia OpenSHMEM binds counters to an endpoint that is enabled; here to one with connections. */
static void bound_late(void)
{
    struct conf_pair *p = conf_pair_open(
        (struct conf_want){.caps = FI_MSG | FI_TAGGED | FI_RMA | FI_RMA_EVENT, .no_cntrs = true});
    char out = 1, in = 0;

    for (int i = 0; i < 2; i++) {
        struct conf_ep *from = i ? &p->b : &p->a, *to = i ? &p->a : &p->b;

        conf_post(p, fi_recv(to->ep, &in, 1, NULL, FI_ADDR_UNSPEC, &in));
        conf_post(p, fi_send(from->ep, &out, 1, NULL, from->peer, &out));
        conf_check(!conf_wait(p, to, &in).err && !conf_wait(p, from, &out).err, "fi_send");
    }
    conf_check(fi_ep_bind(p->a.ep, &p->a.av->fid, 0) < 0, "a second address vector");
    all_apart(&p->a);
    all_apart(&p->b);
    conf_check(fi_ep_bind(p->a.ep, &each[0][0]->fid, FI_SEND) < 0, "a second counter of sends");
    count_each(p);
}

/* Errors are counted apart. */
static void errors(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    char out[100] = {0}, in[10];
    int rc = 0;

    conf_post(p, fi_trecv(p->b.ep, in, 10, NULL, FI_ADDR_UNSPEC, 1, 0, in));
    conf_post(p, fi_tsend(p->a.ep, out, 100, NULL, p->a.peer, 1, out));
    conf_check(conf_wait(p, &p->b, in).err == FI_ETRUNC, "truncation");
    conf_wait(p, &p->a, out);
    conf_check(fi_cntr_read(p->b.received) == 0 && fi_cntr_readerr(p->b.received) == 1,
               "%lu and %lu errors", (unsigned long)fi_cntr_read(p->b.received),
               (unsigned long)fi_cntr_readerr(p->b.received));
    /* One that came between a wait and the next was not waited for: once more then. */
    for (int tries = 0; rc != -FI_EAVAIL && tries < 10; tries++) {
        uint64_t before = fi_cntr_readerr(p->b.received);

        conf_post(p, fi_trecv(p->b.ep, in, 10, NULL, FI_ADDR_UNSPEC, 1, 0, in));
        conf_post(p, fi_tsend(p->a.ep, out, 100, NULL, p->a.peer, 1, out));
        do {
            rc = fi_cntr_wait(p->b.received, 1, 20);
            conf_drive(&p->a);
        } while (rc == -FI_ETIMEDOUT && fi_cntr_readerr(p->b.received) == before);
    }
    conf_check(rc == -FI_EAVAIL, "an error ends fi_cntr_wait: %s", fi_strerror(-rc));
    conf_check(!fi_cntr_seterr(p->b.received, 9) && fi_cntr_readerr(p->b.received) == 9, "seterr");
    conf_check(!fi_cntr_adderr(p->b.received, 2) && fi_cntr_readerr(p->b.received) == 11, "adderr");
    conf_pair_close(p);
}

static struct conf_pair *later_pair;

static void *inject_later(void *opaque)
{
    (void)opaque;
    usleep(30000);
    while (fi_tinject(later_pair->a.ep, "x", 1, later_pair->a.peer, 1) == -FI_EAGAIN)
        fi_cq_read(later_pair->a.tx, NULL, 0);
    return NULL;
}

static void sleep_with(enum fi_wait_obj wait, enum fi_progress progress)
{
    struct conf_pair *p;
    pthread_t thread;
    char in[2];
    int rc;

    p = conf_pair_open(
        (struct conf_want){.threading = FI_THREAD_SAFE, .progress = progress, .cntr_wait = wait});
    conf_post(p, fi_trecv(p->b.ep, &in[0], 1, NULL, FI_ADDR_UNSPEC, 1, 0, &in[0]));
    conf_post(p, fi_tinject(p->a.ep, "w", 1, p->a.peer, 1));
    conf_wait(p, &p->b, &in[0]);
    conf_post(p, fi_trecv(p->b.ep, &in[1], 1, NULL, FI_ADDR_UNSPEC, 1, 0, &in[1]));
    later_pair = p;
    conf_check(fi_cntr_wait(p->b.received, 2, 20) == -FI_ETIMEDOUT, "nothing is there");
    conf_check(!pthread_create(&thread, NULL, inject_later, NULL), "pthread_create");
    rc = fi_cntr_wait(p->b.received, 2, CONF_TIMEOUT_MS);
    conf_check(!rc && in[1] == 'x', "fi_cntr_wait: %s", fi_strerror(-rc));
    pthread_join(thread, NULL);
    conf_wait(p, &p->b, &in[1]);
    conf_pair_close(p);
}

static void waits(void)
{
    static const enum fi_wait_obj objects[] = {FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_MUTEX_COND,
                                               FI_WAIT_YIELD};

    for (int i = 0; i < 4; i++) {
        sleep_with(objects[i], FI_PROGRESS_MANUAL);
        sleep_with(objects[i], FI_PROGRESS_AUTO);
    }
}

const struct conf_case conf_cntr_cases[] = {
    {"cntr: remote reads and writes", every_kind},
    {"cntr: each kind in one of its own", each_of_its_own},
    {"cntr: each kind, bound after fi_enable", bound_late},
    {"cntr: messages are no accesses of memory", messages_are_no_accesses},
    {"cntr: of one region", of_a_region},
    {"cntr: of several ranges of a region", of_several_ranges},
    {"cntr: of accesses of no bytes", of_no_bytes},
    {"cntr: of bytes", bytes},
    {"cntr: errors are counted apart", errors},
    {"cntr: fi_cntr_wait sleeps and wakes", waits},
    {0},
};
