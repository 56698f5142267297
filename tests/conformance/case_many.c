/* SPDX-License-Identifier: BSD-2-Clause */
/* Several of everything in one process, and threads by each of the threading levels. */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf.h"

enum {
    LANES = 4,
    EACH = 300,
    GUESTS = 1000 /* their tags, which may come late: no other message has them */
};

/* Two endpoints that only one thread touches. */
static void exchange(struct conf_pair *p, unsigned id, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        uint64_t out = (uint64_t)id << 32 | i, in = 0;
        struct conf_ep *from = i % 2 ? &p->a : &p->b, *to = i % 2 ? &p->b : &p->a;

        conf_post(p, fi_trecv(to->ep, &in, 8, NULL, FI_ADDR_UNSPEC, i, 0, &in));
        conf_post(p, fi_tsend(from->ep, &out, 8, NULL, from->peer, i, &out));
        conf_wait(p, to, &in);
        conf_wait(p, from, &out);
        conf_check(in == out, "lane %u, message %u: %#lx", id, i, (unsigned long)in);
    }
}

struct lane {
    struct conf_pair *pair;
    unsigned id;
};

static void *run_lane(void *opaque)
{
    struct lane *lane = opaque;

    exchange(lane->pair, lane->id, EACH);
    return NULL;
}

static void run_lanes(struct lane *lanes)
{
    pthread_t threads[LANES];

    for (int i = 0; i < LANES; i++)
        conf_check(!pthread_create(&threads[i], NULL, run_lane, &lanes[i]), "pthread_create");
    for (int i = 0; i < LANES; i++)
        pthread_join(threads[i], NULL);
}

/* FI_THREAD_DOMAIN: each thread has a domain. */
static void domains_and_threads(void)
{
    struct lane lanes[LANES];

    for (unsigned i = 0; i < LANES; i++)
        lanes[i] =
            (struct lane){conf_pair_open((struct conf_want){.threading = FI_THREAD_DOMAIN}), i};
    run_lanes(lanes);
    for (int i = 0; i < LANES; i++) {
        conf_quiet(lanes[i].pair, 2);
        conf_pair_close(lanes[i].pair);
    }
}

/* Endpoints of one domain, each pair with its queues, each used by one thread. */
static void endpoints_and_threads(enum fi_threading threading, enum fi_progress progress)
{
    struct conf_want want = {.threading = threading, .progress = progress};
    struct conf_fabric home;
    struct lane lanes[LANES];

    conf_fabric_open(&home, &want);
    for (unsigned i = 0; i < LANES; i++) {
        struct conf_pair *p = calloc(1, sizeof *p);

        p->home = home;
        p->want = want;
        conf_ep_open(&p->a, &home, &want);
        conf_ep_open(&p->b, &home, &want);
        conf_introduce(&p->a, &p->b);
        conf_introduce(&p->b, &p->a);
        lanes[i] = (struct lane){p, i};
    }
    run_lanes(lanes);
    for (int i = 0; i < LANES; i++) {
        conf_ep_close(&lanes[i].pair->a);
        conf_ep_close(&lanes[i].pair->b);
        free(lanes[i].pair);
    }
    conf_fabric_close(&home);
}

static void thread_each_endpoint(void)
{
    endpoints_and_threads(FI_THREAD_ENDPOINT, FI_PROGRESS_MANUAL);
    endpoints_and_threads(FI_THREAD_COMPLETION, FI_PROGRESS_MANUAL);
    endpoints_and_threads(FI_THREAD_FID, FI_PROGRESS_MANUAL);
    endpoints_and_threads(FI_THREAD_SAFE, FI_PROGRESS_MANUAL);
    endpoints_and_threads(FI_THREAD_COMPLETION, FI_PROGRESS_AUTO);
}

/* Endpoints of different domains, opened beside one another, talk. */
static void across_domains(void)
{
    enum {
        DOMAINS = 4
    };
    struct conf_pair *pairs[DOMAINS];

    for (int i = 0; i < DOMAINS; i++)
        pairs[i] = conf_pair_open((struct conf_want){0});
    for (unsigned i = 0; i < DOMAINS; i++)
        for (unsigned j = 0; j < DOMAINS; j++) {
            fi_addr_t to = conf_insert(&pairs[i]->a, &pairs[j]->b, 0, 0);
            char *out = malloc(100000), *in = malloc(100000);

            conf_fill(out, 100000, i * DOMAINS + j);
            conf_post(pairs[j],
                      fi_trecv(pairs[j]->b.ep, in, 100000, NULL, FI_ADDR_UNSPEC, 3, 0, in));
            while (fi_tsend(pairs[i]->a.ep, out, 100000, NULL, to, 3, out) == -FI_EAGAIN) {
                conf_drive_pair(pairs[i]);
                conf_drive_pair(pairs[j]);
            }
            for (long long end = conf_now_ms() + CONF_TIMEOUT_MS;
                 !conf_has(&pairs[j]->b, in) || !conf_has(&pairs[i]->a, out);) {
                conf_drive_pair(pairs[i]);
                conf_drive_pair(pairs[j]);
                conf_check(conf_now_ms() < end, "from domain %u to %u", i, j);
            }
            conf_wait(pairs[j], &pairs[j]->b, in);
            conf_wait(pairs[i], &pairs[i]->a, out);
            conf_check(conf_holds(in, 100000, i * DOMAINS + j), "data from %u to %u", i, j);
            free(out);
            free(in);
        }
    for (int i = 0; i < DOMAINS; i++)
        conf_pair_close(pairs[i]);
}

/* Several endpoints, one queue for all that they do, one vector. */
static void one_queue(void)
{
    enum {
        ENDS = 6
    };
    struct conf_fabric home;
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE};
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    struct fid_ep *ends[ENDS];
    struct fid_cq *cq;
    struct fid_av *av;
    fi_addr_t at[ENDS];
    uint32_t in[ENDS][ENDS];
    int got = 0;

    conf_fabric_open(&home, &(struct conf_want){0});
    conf_check(!fi_cq_open(home.domain, &cq_attr, &cq, NULL), "fi_cq_open");
    conf_check(!fi_av_open(home.domain, &av_attr, &av, NULL), "fi_av_open");
    for (int i = 0; i < ENDS; i++) {
        char address[256];
        size_t len = sizeof address;

        conf_check(!fi_endpoint(home.domain, home.info, &ends[i], NULL), "fi_endpoint");
        conf_check(!fi_ep_bind(ends[i], &cq->fid, FI_TRANSMIT | FI_RECV), "bind");
        conf_check(!fi_ep_bind(ends[i], &av->fid, 0) && !fi_enable(ends[i]), "enable");
        conf_check(!fi_getname(&ends[i]->fid, address, &len), "fi_getname");
        conf_check(fi_av_insert(av, address, 1, &at[i], 0, NULL) == 1, "fi_av_insert");
    }
    for (uint32_t i = 0; i < ENDS; i++)
        for (uint32_t j = 0; j < ENDS; j++) {
            uint32_t word = i << 16 | j;
            ssize_t rc;

            while ((rc = fi_trecv(ends[j], &in[i][j], 4, NULL, FI_ADDR_UNSPEC, i, 0, &in[i][j])) ==
                   -FI_EAGAIN)
                fi_cq_read(cq, NULL, 0);
            conf_check(!rc, "recv");
            while (fi_tinject(ends[i], &word, 4, at[j], i) == -FI_EAGAIN)
                fi_cq_read(cq, NULL, 0);
        }
    for (long long end = conf_now_ms() + CONF_TIMEOUT_MS; got < ENDS * ENDS;) {
        struct fi_cq_tagged_entry entry;

        if (fi_cq_read(cq, &entry, 1) == 1)
            got++;
        conf_check(conf_now_ms() < end, "%d of %d", got, ENDS * ENDS);
    }
    for (uint32_t i = 0; i < ENDS; i++)
        for (uint32_t j = 0; j < ENDS; j++)
            conf_check(in[i][j] == (i << 16 | j), "from %u to %u", i, j);
    for (int i = 0; i < ENDS; i++)
        conf_check(!fi_close(&ends[i]->fid), "fi_close");
    conf_check(!fi_close(&cq->fid) && !fi_close(&av->fid), "fi_close");
    conf_fabric_close(&home);
}

/* Endpoints come and go while another serves them all. */
static void come_and_go(void)
{
    struct conf_want want = {0};
    struct conf_pair *p = conf_pair_open(want);
    struct conf_ep *guest = calloc(1, sizeof *guest);

    for (uint32_t i = 0; i < 60; i++) {
        uint32_t out = i, in = 0;

        memset(guest, 0, sizeof *guest);
        conf_ep_open(guest, &p->home, &want);
        conf_introduce(guest, &p->b);
        conf_post(p, fi_trecv(p->b.ep, &in, 4, NULL, FI_ADDR_UNSPEC, GUESTS + i, 0, &in));
        while (fi_tsend(guest->ep, &out, 4, NULL, guest->peer, GUESTS + i, &out) == -FI_EAGAIN) {
            conf_drive(guest);
            conf_drive_pair(p);
        }
        /* Every third leaves before it knows that its message has gone. */
        for (long long end = conf_now_ms() + CONF_TIMEOUT_MS;
             !conf_has(guest, &out) || (i % 3 && !conf_has(&p->b, &in));) {
            conf_drive(guest);
            conf_drive_pair(p);
            conf_check(conf_now_ms() < end, "guest %u", i);
        }
        conf_ep_close(guest);
        if (!conf_has(&p->b, &in)) {
            for (long long end = conf_now_ms() + 20; conf_now_ms() < end && !conf_has(&p->b, &in);)
                conf_drive_pair(p);
            if (!conf_has(&p->b, &in))
                conf_check(!fi_cancel(&p->b.ep->fid, &in), "a receive that is neither");
        }
        conf_wait(p, &p->b, &in);
    }
    exchange(p, 1, 10);
    conf_quiet(p, 5);
    conf_pair_close(p);
    free(guest);
}

static struct conf_pair *signalled;

static void *signal_later(void *opaque)
{
    (void)opaque;
    usleep(30000);
    fi_cq_signal(signalled->b.rx);
    return NULL;
}

/* fi_cq_signal ends a wait; FI_WAIT_POLLFD gives descriptors that can be polled. */
static void signals(void)
{
    static const enum fi_wait_obj objects[] = {FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_MUTEX_COND,
                                               FI_WAIT_YIELD, FI_WAIT_POLLFD};

    for (int i = 0; i < 5; i++) {
        struct conf_pair *p =
            conf_pair_open((struct conf_want){.wait = objects[i], .threading = FI_THREAD_SAFE});
        struct fi_cq_tagged_entry entry;
        long long start = conf_now_ms();
        pthread_t thread;
        ssize_t n;

        signalled = p;
        conf_check(!pthread_create(&thread, NULL, signal_later, NULL), "pthread_create");
        n = fi_cq_sread(p->b.rx, &entry, 1, NULL, CONF_TIMEOUT_MS);
        conf_check(n == -FI_EAGAIN || n == -FI_ECANCELED, "fi_cq_sread: %zd", n);
        conf_check(conf_now_ms() - start < CONF_TIMEOUT_MS / 2, "the signal did not wake it");
        pthread_join(thread, NULL);
        exchange(p, 1, 10);
        conf_pair_close(p);
    }
}

static void poll_fds(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){.wait = FI_WAIT_POLLFD});
    struct fid *fids[] = {&p->b.rx->fid};
    struct pollfd fds[64];
    struct fi_wait_pollfd wait = {.nfds = 64, .fd = fds};
    char in = 0;
    int rc;

    exchange(p, 1, 4);
    conf_post(p, fi_trecv(p->b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 1, 0, &in));
    conf_quiet(p, 2);
    conf_post(p, fi_tinject(p->a.ep, "p", 1, p->a.peer, 1));
    for (long long end = conf_now_ms() + CONF_TIMEOUT_MS; !conf_has(&p->b, &in);) {
        rc = fi_trywait(p->home.fabric, fids, 1);
        conf_check(!rc || rc == -FI_EAGAIN, "fi_trywait: %s", fi_strerror(-rc));
        if (!rc) {
            wait.nfds = 64;
            conf_check(!fi_control(&p->b.rx->fid, FI_GETWAIT, &wait), "FI_GETWAIT");
            conf_check(wait.nfds > 0 && wait.nfds <= 64, "%zu descriptors", wait.nfds);
            poll(fds, wait.nfds, 100);
        }
        conf_drive(&p->b);
        conf_drive(&p->a);
        conf_check(conf_now_ms() < end, "nothing came");
    }
    conf_check(in == 'p', "data");
    conf_wait(p, &p->b, &in);
    conf_pair_close(p);
}

const struct conf_case conf_many_cases[] = {
    {"many: a domain for each thread", domains_and_threads},
    {"many: a thread for each endpoint, by every level", thread_each_endpoint},
    {"many: across domains", across_domains},
    {"many: one queue for all endpoints", one_queue},
    {"many: endpoints come and go", come_and_go},
    {"many: fi_cq_signal wakes, with each wait object", signals},
    {"many: descriptors of FI_WAIT_POLLFD", poll_fds},
    {0},
};
