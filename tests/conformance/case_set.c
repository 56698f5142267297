/* SPDX-License-Identifier: BSD-2-Clause */
/* Wait sets and poll sets: fi_poll(3). */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "conf.h"

enum {
    WAKES_MAX = 1000
};

/* The first message makes the connection; then nothing of b's is new to its set. */
static void settle(struct conf_pair *p)
{
    char in, out = 'w';
    int rc;

    conf_post(p, fi_trecv(p->b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 0, 0, &in));
    conf_post(p, fi_tsend(p->a.ep, &out, 1, NULL, p->a.peer, 0, &out));
    conf_wait(p, &p->b, &in);
    conf_wait(p, &p->a, &out);
    while (!(rc = fi_wait(p->b.set, 0)))
        conf_drive_pair(p);
    conf_check(rc == -FI_ETIMEDOUT, "fi_wait: %s", fi_strerror(-rc));
}

static void wakes(enum fi_wait_obj obj, enum fi_progress progress)
{
    struct conf_pair *p = conf_pair_open(
        (struct conf_want){.set = obj, .threading = FI_THREAD_SAFE, .progress = progress});
    struct conf_late late;
    struct fi_cq_tagged_entry entry;
    long long start;
    char in = 0;
    int rc, woken = 0;
    ssize_t n;

    settle(p);
    conf_post(p, fi_trecv(p->b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 1, 0, &in));
    start = conf_now_ms();
    rc = fi_wait(p->b.set, 12);
    conf_check(rc == -FI_ETIMEDOUT, "nothing is there, but fi_wait says %s", fi_strerror(-rc));
    conf_check(conf_now_ms() - start >= 10, "it waited %lld ms of 12", conf_now_ms() - start);
    conf_send_late(&late, p, 's');
    while ((n = fi_cq_read(p->b.rx, &entry, 1)) == -FI_EAGAIN) {
        rc = fi_wait(p->b.set, CONF_TIMEOUT_MS);
        conf_check(!rc, "fi_wait: %s", fi_strerror(-rc));
        conf_check(++woken < WAKES_MAX, "fi_wait returns for nothing");
    }
    conf_check(n == 1 && entry.op_context == &in && in == 's', "fi_cq_read: %zd", n);
    conf_late_join(&late);
    conf_pair_close(p);
}

static void every_object(void)
{
    static const enum fi_wait_obj objects[] = {FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_POLLFD,
                                               FI_WAIT_MUTEX_COND, FI_WAIT_YIELD};

    for (int i = 0; i < 5; i++) {
        wakes(objects[i], FI_PROGRESS_MANUAL);
        wakes(objects[i], FI_PROGRESS_AUTO);
    }
}

/* The fd that FI_GETWAIT gives, asked for in either way. */
static int fd_of(struct fid_wait *set, enum fi_wait_obj obj)
{
    struct pollfd one;
    struct fi_wait_pollfd many = {.nfds = 1, .fd = &one};
    enum fi_wait_obj kind = FI_WAIT_NONE;
    int fd = -1;

    conf_check(!fi_control(&set->fid, FI_GETWAITOBJ, &kind) && kind == obj, "FI_GETWAITOBJ: %d",
               (int)kind);
    if (obj == FI_WAIT_FD) {
        conf_check(!fi_control(&set->fid, FI_GETWAIT, &fd), "FI_GETWAIT");
        return fd;
    }
    conf_check(!fi_control(&set->fid, FI_GETWAIT, &many) && many.nfds == 1, "FI_GETWAIT");
    return one.fd;
}

/* The application sleeps in its own poll() until a message is there. */
static void sleep_for_one(struct conf_pair *p, enum fi_wait_obj obj)
{
    struct conf_late late;
    struct fid *fids[] = {&p->b.set->fid};
    struct pollfd fd = {.fd = fd_of(p->b.set, obj), .events = POLLIN};
    struct fi_cq_tagged_entry entry;
    char in = 0;
    int rc = 0, sleeps = 0;
    ssize_t n;

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
    conf_check(sleeps < WAKES_MAX, "it slept %d times", sleeps);
    conf_late_join(&late);
}

static void own_poll_on(enum fi_wait_obj obj)
{
    struct conf_pair *p =
        conf_pair_open((struct conf_want){.set = obj, .threading = FI_THREAD_SAFE});

    settle(p);
    sleep_for_one(p, obj);
    conf_pair_close(p);
}

static void own_poll(void)
{
    own_poll_on(FI_WAIT_FD);
    own_poll_on(FI_WAIT_POLLFD);
}

static void *write_later(void *eq)
{
    struct fi_eq_entry entry = {.context = eq};

    usleep(20000);
    conf_check(fi_eq_write(eq, FI_NOTIFY, &entry, sizeof entry, 0) == sizeof entry, "fi_eq_write");
    return NULL;
}

static void event_queue(void)
{
    struct fi_wait_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
    struct fi_eq_attr eq_attr = {.flags = FI_WRITE, .wait_obj = FI_WAIT_SET};
    struct conf_fabric home;
    struct fi_eq_entry entry;
    struct fid_wait *set;
    struct fid_eq *eq;
    pthread_t thread;
    uint32_t event = 0;
    int rc;

    conf_fabric_open(&home, &(struct conf_want){.threading = FI_THREAD_SAFE});
    conf_check(!fi_wait_open(home.fabric, &attr, &set), "fi_wait_open");
    eq_attr.wait_set = set;
    conf_check(!fi_eq_open(home.fabric, &eq_attr, &eq, NULL), "fi_eq_open");
    rc = fi_wait(set, 20);
    conf_check(rc == -FI_ETIMEDOUT, "nothing is there, but fi_wait says %s", fi_strerror(-rc));
    conf_check(!pthread_create(&thread, NULL, write_later, eq), "pthread_create");
    rc = fi_wait(set, CONF_TIMEOUT_MS);
    conf_check(!rc, "fi_wait: %s", fi_strerror(-rc));
    conf_check(fi_eq_read(eq, &event, &entry, sizeof entry, 0) == sizeof entry &&
                   event == FI_NOTIFY && entry.context == eq,
               "fi_eq_read");
    pthread_join(thread, NULL);
    conf_check(fi_close(&set->fid) == -FI_EBUSY, "a set with a queue is closed");
    conf_check(!fi_close(&eq->fid) && !fi_close(&set->fid), "close");
    conf_fabric_close(&home);
}

static void bad_wait_sets(void)
{
    struct fi_wait_attr attr = {.wait_obj = FI_WAIT_NONE};
    struct fi_cq_attr cq_attr = {.wait_obj = FI_WAIT_SET};
    struct fi_cntr_attr cntr_attr = {.wait_obj = FI_WAIT_SET};
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_SET};
    struct conf_fabric home;
    struct fid_wait *set;
    struct fid_cntr *cntr;
    struct fid_cq *cq;
    struct fid_eq *eq;

    conf_fabric_open(&home, &(struct conf_want){0});
    conf_check(fi_wait_open(home.fabric, &attr, &set) == -FI_EINVAL, "FI_WAIT_NONE");
    attr.wait_obj = FI_WAIT_SET;
    conf_check(fi_wait_open(home.fabric, &attr, &set) == -FI_EINVAL, "FI_WAIT_SET");
    attr = (struct fi_wait_attr){.wait_obj = FI_WAIT_FD, .flags = 1};
    conf_check(fi_wait_open(home.fabric, &attr, &set) == -FI_EINVAL, "flags");
    conf_check(fi_cq_open(home.domain, &cq_attr, &cq, NULL) == -FI_EINVAL, "a queue without set");
    conf_check(fi_cntr_open(home.domain, &cntr_attr, &cntr, NULL) == -FI_EINVAL,
               "a counter without set");
    conf_check(fi_eq_open(home.fabric, &eq_attr, &eq, NULL) == -FI_EINVAL,
               "an event queue without set");
    conf_fabric_close(&home);
}

/* ---- Poll sets ---- */

static bool told(void *const *contexts, int count, const void *context)
{
    for (int i = 0; i < count; i++)
        if (contexts[i] == context)
            return true;
    return false;
}

/* Until the set tells of it; other contexts that it tells of are left alone. */
static void poll_until(struct conf_pair *p, struct fid_poll *set, const void *context)
{
    long long end = conf_now_ms() + CONF_TIMEOUT_MS;
    void *contexts[4];
    int n;

    do {
        fi_cq_read(p->a.tx, NULL, 0);
        n = fi_poll(set, contexts, 4);
        conf_check(n >= 0, "fi_poll: %s", fi_strerror(-n));
        conf_check(conf_now_ms() < end, "fi_poll does not tell of it");
    } while (!told(contexts, n, context));
}

static void poll_set(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    struct fi_poll_attr attr = {0};
    struct fid_poll *set;
    void *contexts[4];
    char in, out = 'x';

    conf_check(!fi_poll_open(p->home.domain, &attr, &set), "fi_poll_open");
    conf_check(!fi_poll_add(set, &p->b.rx->fid, 0), "fi_poll_add");
    conf_check(fi_poll(set, contexts, 4) == 0, "there is something");
    conf_post(p, fi_trecv(p->b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 0, 0, &in));
    conf_post(p, fi_tsend(p->a.ep, &out, 1, NULL, p->a.peer, 0, &out));
    poll_until(p, set, &p->b.rx);
    conf_check(fi_poll(set, contexts, 1) == 1 && contexts[0] == &p->b.rx, "it is still there");
    conf_wait(p, &p->b, &in);
    conf_check(fi_poll(set, contexts, 4) == 0, "it was read");
    conf_check(!fi_poll_del(set, &p->b.rx->fid, 0), "fi_poll_del");
    conf_check(!fi_poll_add(set, &p->b.received->fid, 0), "fi_poll_add");
    poll_until(p, set, &p->b.received);
    conf_check(fi_poll(set, contexts, 4) == 0, "the counter has not changed");
    conf_check(!fi_cntr_add(p->b.received, 5) && fi_poll(set, contexts, 4) == 0,
               "what the application adds is nothing new");
    conf_post(p, fi_tsend(p->a.ep, &out, 1, NULL, p->a.peer, 0, &out));
    conf_post(p, fi_trecv(p->b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 0, 0, &in));
    poll_until(p, set, &p->b.received);
    conf_check(fi_cntr_read(p->b.received) == 7, "the counter's value");
    conf_check(!fi_poll_del(set, &p->b.received->fid, 0), "fi_poll_del");
    conf_check(!fi_close(&set->fid), "close");
    conf_pair_close(p);
}

static void bad_poll_sets(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    struct fi_poll_attr attr = {.flags = 1};
    struct fid_poll *set;
    void *context;

    conf_check(fi_poll_open(p->home.domain, &attr, &set) == -FI_EINVAL, "flags");
    attr.flags = 0;
    conf_check(!fi_poll_open(p->home.domain, &attr, &set), "fi_poll_open");
    conf_check(fi_close(&p->home.domain->fid) == -FI_EBUSY, "the domain of a poll set");
    conf_check(fi_poll_add(set, &p->a.ep->fid, 0) == -FI_EINVAL, "an endpoint");
    conf_check(fi_poll_add(set, &p->a.rx->fid, 1) == -FI_EINVAL, "flags");
    conf_check(fi_poll_del(set, &p->a.rx->fid, 0) == -FI_EINVAL, "not in the set");
    conf_check(!fi_poll_add(set, &p->a.rx->fid, 0), "fi_poll_add");
    conf_check(fi_poll_add(set, &p->a.rx->fid, 0) == -FI_EINVAL, "twice");
    conf_check(fi_poll(set, &context, -1) == -FI_EINVAL, "a negative count");
    conf_check(fi_close(&set->fid) == -FI_EBUSY, "a set with a queue");
    conf_check(fi_close(&p->a.rx->fid) == -FI_EBUSY, "a queue in a set");
    conf_check(!fi_poll_del(set, &p->a.rx->fid, 0) && !fi_close(&set->fid), "close");
    conf_pair_close(p);
}

const struct conf_case conf_set_cases[] = {
    {"set: fi_wait sleeps and wakes, every wait object", every_object},
    {"set: own poll() on the wait set, fi_trywait", own_poll},
    {"set: event queues in a wait set", event_queue},
    {"set: bad wait sets are refused", bad_wait_sets},
    {"set: fi_poll tells of queues and counters", poll_set},
    {"set: bad poll sets are refused, close in order", bad_poll_sets},
    {0},
};
