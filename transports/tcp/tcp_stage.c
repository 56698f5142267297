/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The thread exists while a connection that has ever let a record wait is open. It looks once a
 * millisecond, and sleeps without end when nothing has waited for a while; a stage that opens then
 * wakes it. It holds the mutex of the list while it looks, and no other lock: a connection that
 * leaves the list is not looked at any more.
 */
#include "transports/tcp/tcp_stage.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "transports/tcp/tcp_ep.h"

enum {
    LEAD = 4,             /* posts of a run that leave at once, before any has filled a call */
    SMALL = 2048,         /* bytes of a record that may wait */
    GATHERED = 16 * 1024, /* bytes that are worth a system call */
    PENALTY_MIN = 64,
    PENALTY_MAX = 65536,
    STAGES_MAX = 1024, /* connections that the thread looks at */
    LOOK_NS = 1000000,
    IDLE_LOOKS = 64, /* before it sleeps */
};

/* One run of the thread: a process may have a second one while the first still ends. */
struct helper {
    pthread_t thread;
    bool stop;
};

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    struct list stages;
    unsigned count;
    struct helper *helper;
    atomic_bool asleep;
} late = {.mutex = PTHREAD_MUTEX_INITIALIZER,
          .cond = PTHREAD_COND_INITIALIZER,
          .stages = {&late.stages, &late.stages}};

/* ---- The thread ---- */

static void help(struct tcp_stage *stage)
{
    unsigned open = TCP_STAGE_OPEN;

    if (!atomic_compare_exchange_strong(&stage->state, &open, TCP_STAGE_TAKEN))
        return;
    ssize_t sent = tcp_tx_send_ahead(&stage->ep->tx, stage->ep->fd);
    /* A full socket may have room at the next look. */
    bool again = sent < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOBUFS);
    stage->ahead = sent > 0 ? (size_t)sent : 0;
    atomic_store(&stage->state, again ? TCP_STAGE_OPEN : TCP_STAGE_SENT);
}

/* True when anything waits. */
static bool look(void)
{
    bool any = false;

    list_for_each (pos, &late.stages) {
        struct tcp_stage *stage = list_item(pos, struct tcp_stage, link);
        unsigned turn;

        if (atomic_load(&stage->state) != TCP_STAGE_OPEN)
            continue;
        any = true;
        turn = atomic_load_explicit(&stage->turn, memory_order_relaxed);
        if (turn == stage->seen)
            help(stage);
        stage->seen = turn;
    }
    return any;
}

static void nap(void)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LOOK_NS;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    pthread_cond_clockwait(&late.cond, &late.mutex, CLOCK_MONOTONIC, &until);
}

static void *run(void *arg)
{
    struct helper *helper = arg;
    unsigned idle = 0;

    pthread_mutex_lock(&late.mutex);
    while (!helper->stop) {
        idle = look() ? 0 : idle + 1;
        if (idle < IDLE_LOOKS) {
            nap();
            continue;
        }
        /* Who opens a stage from here on sees this, or this look sees the stage. */
        atomic_store(&late.asleep, true);
        if (!look() && !helper->stop)
            pthread_cond_wait(&late.cond, &late.mutex);
        atomic_store(&late.asleep, false);
        idle = 0;
    }
    pthread_mutex_unlock(&late.mutex);
    return NULL;
}

static void wake(void)
{
    pthread_mutex_lock(&late.mutex);
    pthread_cond_broadcast(&late.cond);
    pthread_mutex_unlock(&late.mutex);
}

/* ---- Its list ---- */

static void reset_in_child(void)
{
    pthread_mutex_init(&late.mutex, NULL);
    pthread_cond_init(&late.cond, NULL);
    list_init(&late.stages);
    late.count = 0;
    late.helper = NULL;
    atomic_store(&late.asleep, false);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, reset_in_child);
}

static struct helper *start_helper(void)
{
    struct helper *helper = calloc(1, sizeof(*helper));
    sigset_t all, before;
    int rc;

    if (!helper)
        return NULL;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&helper->thread, NULL, run, helper);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc) {
        free(helper);
        return NULL;
    }
    pthread_setname_np(helper->thread, "weft-late");
    return helper;
}

static bool join(struct tcp_stage *stage)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    if (stage->joined)
        return true;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&late.mutex);
    if (!late.helper)
        late.helper = start_helper();
    if (late.helper && late.count < STAGES_MAX) {
        list_attach(&stage->link, &late.stages);
        late.count++;
        stage->joined = true;
    }
    pthread_mutex_unlock(&late.mutex);
    return stage->joined;
}

void tcp_stage_leave(struct tcp_stage *stage)
{
    struct helper *helper = NULL;

    if (!stage->joined || unit_forked(stage->ep->set->unit))
        return;
    pthread_mutex_lock(&late.mutex);
    list_detach(&stage->link);
    stage->joined = false;
    if (--late.count == 0) {
        helper = late.helper;
        late.helper = NULL;
        helper->stop = true;
        pthread_cond_broadcast(&late.cond);
    }
    pthread_mutex_unlock(&late.mutex);
    if (!helper)
        return;
    pthread_join(helper->thread, NULL);
    free(helper);
}

/* ---- The unit ---- */

void tcp_stage_init(struct tcp_stage *stage, struct tcp_ep *ep)
{
    list_init(&stage->link);
    stage->ep = ep;
    stage->lead = LEAD;
    stage->penalty = PENALTY_MIN;
    atomic_init(&stage->state, TCP_STAGE_OURS);
    atomic_init(&stage->turn, 0);
}

bool tcp_stage_wants(struct tcp_stage *stage, size_t size, bool company)
{
    const struct tcp_ep *ep = stage->ep;

    if (stage->epoch != ep->set->epoch) {
        stage->epoch = ep->set->epoch;
        stage->run = 0;
        stage->bytes = 0;
    }
    if (++stage->run <= stage->lead && !company)
        return false;
    if (stage->abstain) {
        stage->abstain--;
        return false;
    }
    if (size > SMALL || ep->tx.blocked || ep->tx.error || !ep->domain->fabric->settings.coalesce)
        return false;
    stage->bytes += (uint32_t)size;
    if (stage->bytes > GATHERED) {
        stage->bytes = 0;
        return false;
    }
    /* A sleeper, or a thread that sleeps, would not see it. */
    return list_empty(&ep->uring.flights) && !unit_watched(ep->set->unit) && join(stage);
}

void tcp_stage_open(struct tcp_stage *stage)
{
    stage->open = true;
    atomic_store(&stage->state, TCP_STAGE_OPEN);
    if (__builtin_expect(atomic_load(&late.asleep), 0))
        wake();
}

void tcp_stage_gathered(struct tcp_stage *stage)
{
    stage->bytes = 0;
    stage->lead = 1;
    if (stage->penalty > PENALTY_MIN)
        stage->penalty -= stage->penalty / 16;
}

/* The thread had to help. Where the caller was not running meanwhile, that says nothing about what
 * it will do next time. */
static void lose_trust(struct tcp_stage *stage)
{
    struct rusage usage;

    getrusage(RUSAGE_THREAD, &usage);
    if (usage.ru_nivcsw != stage->switches) {
        stage->switches = usage.ru_nivcsw;
        return;
    }
    stage->lead = LEAD;
    stage->abstain = stage->penalty;
    if (stage->penalty < PENALTY_MAX)
        stage->penalty *= 2;
}

void tcp_stage_close(struct tcp_stage *stage)
{
    unsigned open = TCP_STAGE_OPEN;

    stage->open = false;
    while (!atomic_compare_exchange_strong(&stage->state, &open, TCP_STAGE_OURS)) {
        if (open == TCP_STAGE_SENT || unit_forked(stage->ep->set->unit))
            break;
        sched_yield();
        open = TCP_STAGE_OPEN;
    }
    if (open == TCP_STAGE_OPEN)
        return;
    atomic_store_explicit(&stage->state, TCP_STAGE_OURS, memory_order_relaxed);
    lose_trust(stage);
}
