/* SPDX-License-Identifier: BSD-2-Clause */
/* A reader of one queue or counter of a domain drives the other endpoints of that domain, too: here
 * the target of an access, whose own queues are not read. */
#include <poll.h>
#include <stdlib.h>

#include "conf.h"

static struct conf_pair *open_pair(enum fi_threading threading, enum fi_wait_obj wait)
{
    return conf_pair_open((struct conf_want){
        .caps = FI_MSG | FI_RMA, .threading = threading, .wait = wait, .cntr_wait = wait});
}

/* An access that takes the target to answer, posted while the target's queues are not read. */
static void ask(struct conf_pair *p, struct conf_region *from, char *to, size_t len)
{
    ssize_t rc;

    conf_order(p);
    while ((rc = fi_read(p->a.ep, to, len, NULL, p->a.peer, from->base, from->key, to)) ==
           -FI_EAGAIN)
        conf_drive(&p->a);
    conf_check(!rc, "fi_read: %s", fi_strerror((int)-rc));
}

static void took(struct conf_pair *p, ssize_t n, const struct fi_cq_tagged_entry *entry,
                 const char *to, size_t len)
{
    conf_check(n == 1 && entry->op_context == to, "fi_cq_read: %zd", n);
    conf_check(conf_holds(to, len, 7), "what was read");
    conf_order(p); /* the target's thread may have answered, and its memory is filled again */
}

static void read_queue(struct conf_pair *p, struct conf_region *from, char *to, size_t len)
{
    long long end = conf_now_ms() + CONF_TIMEOUT_MS;
    struct fi_cq_tagged_entry entry;
    ssize_t n;

    ask(p, from, to, len);
    while ((n = fi_cq_read(p->a.tx, &entry, 1)) == -FI_EAGAIN)
        conf_check(conf_now_ms() < end, "the target does not move");
    took(p, n, &entry, to, len);
}

static void sleep_at_queue(struct conf_pair *p, struct conf_region *from, char *to, size_t len)
{
    struct fi_cq_tagged_entry entry;

    ask(p, from, to, len);
    took(p, fi_cq_sread(p->a.tx, &entry, 1, NULL, CONF_TIMEOUT_MS), &entry, to, len);
}

static void sleep_at_fd(struct conf_pair *p, struct conf_region *from, char *to, size_t len)
{
    struct fid *fids[] = {&p->a.tx->fid};
    struct fi_cq_tagged_entry entry;
    struct pollfd fd = {.events = POLLIN};
    ssize_t n;

    conf_check(!fi_control(&p->a.tx->fid, FI_GETWAIT, &fd.fd), "FI_GETWAIT");
    ask(p, from, to, len);
    while ((n = fi_cq_read(p->a.tx, &entry, 1)) == -FI_EAGAIN) {
        if (!fi_trywait(p->home.fabric, fids, 1))
            conf_check(poll(&fd, 1, CONF_TIMEOUT_MS) == 1, "the fd does not wake the application");
    }
    took(p, n, &entry, to, len);
}

/* A counter that only the reader has, of another endpoint than the target. */
static void with_counter(struct conf_pair *p, struct conf_region *from, char *to, size_t len,
                         bool sleeps)
{
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = p->want.cntr_wait};
    long long end = conf_now_ms() + CONF_TIMEOUT_MS;
    struct fi_cq_tagged_entry entry;
    struct fid_cntr *cntr;
    int rc;

    conf_check(!fi_cntr_open(p->home.domain, &attr, &cntr, NULL), "fi_cntr_open");
    conf_check(!fi_ep_bind(p->a.ep, &cntr->fid, FI_READ), "bind");
    ask(p, from, to, len);
    if (sleeps) {
        rc = fi_cntr_wait(cntr, 1, CONF_TIMEOUT_MS);
        conf_check(!rc, "fi_cntr_wait: %s", fi_strerror(-rc));
    }
    while (fi_cntr_read(cntr) < 1)
        conf_check(conf_now_ms() < end, "the target does not move");
    took(p, fi_cq_read(p->a.tx, &entry, 1), &entry, to, len);
    conf_region_close(from);
    conf_ep_close(&p->a);
    conf_check(!fi_close(&cntr->fid), "close");
    conf_ep_close(&p->b);
    conf_fabric_close(&p->home);
    free(p);
}

static void each_size(struct conf_pair *p,
                      void (*run)(struct conf_pair *p, struct conf_region *from, char *to,
                                  size_t len))
{
    static const size_t sizes[] = {8, 4096, 2 << 20};
    char *to = calloc(1, sizes[2]);
    struct conf_region from;

    conf_check(to != NULL, "no memory");
    conf_region_open(p, &from, sizes[2], FI_REMOTE_READ);
    for (int i = 0; i < 3; i++) {
        conf_fill(from.memory, sizes[i], 7);
        run(p, &from, to, sizes[i]);
    }
    conf_region_close(&from);
    conf_pair_close(p);
    free(to);
}

static void by_reading(void)
{
    static const enum fi_threading levels[] = {FI_THREAD_SAFE, FI_THREAD_FID, FI_THREAD_ENDPOINT,
                                               FI_THREAD_COMPLETION, FI_THREAD_DOMAIN};

    for (int i = 0; i < 5; i++)
        each_size(open_pair(levels[i], FI_WAIT_NONE), read_queue);
}

static void by_sleeping(void)
{
    static const enum fi_wait_obj objects[] = {FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_MUTEX_COND,
                                               FI_WAIT_YIELD};

    for (int i = 0; i < 4; i++)
        each_size(open_pair(FI_THREAD_SAFE, objects[i]), sleep_at_queue);
    each_size(open_pair(FI_THREAD_SAFE, FI_WAIT_FD), sleep_at_fd);
}

static void by_a_counter(void)
{
    for (int sleeps = 0; sleeps < 2; sleeps++) {
        struct conf_pair *p = conf_pair_open((struct conf_want){.caps = FI_MSG | FI_RMA,
                                                                .threading = FI_THREAD_SAFE,
                                                                .cntr_wait = FI_WAIT_UNSPEC,
                                                                .no_cntrs = true});
        struct conf_region from;
        char to[64];

        conf_region_open(p, &from, sizeof to, FI_REMOTE_READ);
        conf_fill(from.memory, sizeof to, 7);
        with_counter(p, &from, to, sizeof to, sleeps);
    }
}

const struct conf_case conf_domain_cases[] = {
    {"domain: reading a queue moves all endpoints", by_reading},
    {"domain: who sleeps at a queue moves all endpoints", by_sleeping},
    {"domain: reading a counter moves all endpoints", by_a_counter},
    {NULL, NULL},
};
