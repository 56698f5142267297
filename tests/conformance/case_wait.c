/* SPDX-License-Identifier: BSD-2-Clause */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "conf.h"

/* The first message makes the connection, so that a waiter waits for a message alone. */
static void warm(struct conf_pair *p)
{
    char in, out = 'w';

    conf_post(p, fi_trecv(p->b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 0, 0, &in));
    conf_post(p, fi_tsend(p->a.ep, &out, 1, NULL, p->a.peer, 0, &out));
    conf_wait(p, &p->b, &in);
    conf_wait(p, &p->a, &out);
}

static void sread_with(enum fi_wait_obj wait, enum fi_progress progress)
{
    struct conf_pair *p = conf_pair_open(
        (struct conf_want){.wait = wait, .threading = FI_THREAD_SAFE, .progress = progress});
    struct conf_late late;
    struct fi_cq_tagged_entry entry;
    char in = 0;
    long long start;
    ssize_t n;

    warm(p);
    conf_post(p, fi_trecv(p->b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 1, 0, &in));
    start = conf_now_ms();
    n = fi_cq_sread(p->b.rx, &entry, 1, NULL, 12);
    conf_check(n == -FI_EAGAIN, "nothing is there, but fi_cq_sread says %zd", n);
    conf_check(conf_now_ms() - start >= 10, "it waited %lld ms of 12", conf_now_ms() - start);
    conf_send_late(&late, p, 'z');
    n = fi_cq_sread(p->b.rx, &entry, 1, NULL, CONF_TIMEOUT_MS);
    conf_check(n == 1 && entry.op_context == &in && in == 'z', "fi_cq_sread: %zd", n);
    conf_late_join(&late);
    conf_pair_close(p);
}

static void sread_fd(void)
{
    sread_with(FI_WAIT_FD, FI_PROGRESS_MANUAL);
}

static void sread_unspec(void)
{
    sread_with(FI_WAIT_UNSPEC, FI_PROGRESS_MANUAL);
}

static void sread_mutex(void)
{
    sread_with(FI_WAIT_MUTEX_COND, FI_PROGRESS_MANUAL);
}

static void sread_yield(void)
{
    sread_with(FI_WAIT_YIELD, FI_PROGRESS_MANUAL);
}

static void sread_auto(void)
{
    sread_with(FI_WAIT_FD, FI_PROGRESS_AUTO);
    sread_with(FI_WAIT_MUTEX_COND, FI_PROGRESS_AUTO);
}

/* The application sleeps in its own poll() on the queue's fd until a message is there. */
static void sleep_for_one(struct conf_pair *p)
{
    struct conf_late late;
    struct fid *fids[] = {&p->b.rx->fid};
    struct fi_cq_tagged_entry entry;
    struct pollfd fd = {.events = POLLIN};
    char in = 0;
    ssize_t n;
    int rc = 0, sleeps = 0;

    conf_check(!fi_control(&p->b.rx->fid, FI_GETWAIT, &fd.fd), "FI_GETWAIT");
    conf_post(p, fi_trecv(p->b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 1, 0, &in));
    conf_fall_asleep(p, fids[0]);
    conf_send_late(&late, p, 'p');
    do {
        conf_check(rc || poll(&fd, 1, CONF_TIMEOUT_MS) == 1, "the fd did not wake the application");
        sleeps += !rc;
        n = fi_cq_read(p->b.rx, &entry, 1);
        rc = n == -FI_EAGAIN ? fi_trywait(p->home.fabric, fids, 1) : 0;
        conf_check(!rc || rc == -FI_EAGAIN, "fi_trywait: %s", fi_strerror(-rc));
    } while (n == -FI_EAGAIN);
    conf_check(n == 1 && in == 'p', "fi_cq_read: %zd", n);
    conf_check(sleeps < 1000, "it slept %d times: the fd is always readable", sleeps);
    conf_late_join(&late);
}

static void own_poll(void)
{
    struct conf_pair *p =
        conf_pair_open((struct conf_want){.wait = FI_WAIT_FD, .threading = FI_THREAD_SAFE});

    warm(p);
    sleep_for_one(p);
    conf_pair_close(p);
}

/* Looks at memory that the library may be writing: what this case is about, and no race to report.
 */
__attribute__((no_sanitize("thread"), noinline)) static bool arrived(const volatile char *in,
                                                                     const char *out, size_t len)
{
    while (len && in[len - 1] == out[len - 1])
        len--;
    return !len;
}

/* Automatic progress: a large message passes while neither application calls anything. */
static void automatic(void)
{
    enum {
        BIG = 8 << 20
    };
    struct conf_pair *p = conf_pair_open(
        (struct conf_want){.progress = FI_PROGRESS_AUTO, .threading = FI_THREAD_SAFE});
    char *out = malloc(BIG), *in = malloc(BIG);

    warm(p);
    conf_fill(out, BIG, 2);
    conf_post(p, fi_trecv(p->b.ep, in, BIG, NULL, FI_ADDR_UNSPEC, 5, 0, in));
    conf_post(p, fi_tsend(p->a.ep, out, BIG, NULL, p->a.peer, 5, out));
    for (long long end = conf_now_ms() + CONF_TIMEOUT_MS; !arrived(in, out, BIG);) {
        usleep(5000);
        conf_check(conf_now_ms() < end, "no progress without a call");
    }
    conf_wait(p, &p->b, in);
    conf_wait(p, &p->a, out);
    conf_check(conf_holds(in, BIG, 2), "the bytes");
    conf_pair_close(p);
    free(out);
    free(in);
}

enum {
    THREADS = 4,
    EACH = 2000
};

struct sender {
    struct conf_pair *pair;
    atomic_int *received;
    unsigned id;
};

static void *send_many(void *opaque)
{
    struct sender *sender = opaque;
    uint32_t word;

    for (unsigned i = 0; i < EACH; i++) {
        ssize_t rc;

        word = sender->id << 16 | i;
        while ((rc = fi_tinject(sender->pair->a.ep, &word, 4, sender->pair->a.peer, sender->id)) ==
               -FI_EAGAIN)
            fi_cq_read(sender->pair->a.tx, NULL, 0);
        conf_check(!rc, "fi_tinject: %s", fi_strerror((int)-rc));
    }
    return NULL;
}

static void *receive_many(void *opaque)
{
    struct sender *sender = opaque;
    struct fi_cq_tagged_entry entry;

    for (unsigned i = 0; i < EACH; i++) {
        uint32_t *word = calloc(1, sizeof *word);
        ssize_t rc;

        while ((rc = fi_trecv(sender->pair->b.ep, word, 4, NULL, FI_ADDR_UNSPEC, sender->id, 0,
                              word)) == -FI_EAGAIN)
            fi_cq_read(sender->pair->b.rx, NULL, 0);
        conf_check(!rc, "fi_trecv: %s", fi_strerror((int)-rc));
    }
    while (atomic_load(sender->received) < THREADS * EACH) {
        if (fi_cq_read(sender->pair->b.rx, &entry, 1) != 1)
            continue;
        conf_check(*(uint32_t *)entry.op_context >> 16 == entry.tag, "a word of another thread");
        free(entry.op_context);
        atomic_fetch_add(sender->received, 1);
    }
    return NULL;
}

static void threads_with(enum fi_progress progress)
{
    struct conf_pair *p =
        conf_pair_open((struct conf_want){.progress = progress, .threading = FI_THREAD_SAFE});
    struct sender senders[THREADS];
    pthread_t threads[2 * THREADS];
    atomic_int received = 0;

    warm(p);
    for (unsigned i = 0; i < THREADS; i++) {
        senders[i] = (struct sender){p, &received, i};
        conf_check(!pthread_create(&threads[2 * i], NULL, receive_many, &senders[i]), "thread");
        conf_check(!pthread_create(&threads[2 * i + 1], NULL, send_many, &senders[i]), "thread");
    }
    for (unsigned i = 0; i < 2 * THREADS; i++) {
        /* Senders may end with data still queued: this thread drives a's side. */
        while (pthread_tryjoin_np(threads[i], NULL))
            fi_cq_read(p->a.tx, NULL, 0);
    }
    conf_pair_close(p);
}

static void threads_manual(void)
{
    threads_with(FI_PROGRESS_MANUAL);
}

static void threads_auto(void)
{
    threads_with(FI_PROGRESS_AUTO);
}

const struct conf_case conf_wait_cases[] = {
    {"wait: fi_cq_sread, fd", sread_fd},
    {"wait: fi_cq_sread, unspec", sread_unspec},
    {"wait: fi_cq_sread, mutex and condition", sread_mutex},
    {"wait: fi_cq_sread, yield", sread_yield},
    {"wait: fi_cq_sread, automatic progress", sread_auto},
    {"wait: own poll() on the fd, fi_trywait", own_poll},
    {"wait: automatic progress needs no call", automatic},
    {"wait: threads, manual progress", threads_manual},
    {"wait: threads, automatic progress", threads_auto},
    {0},
};
