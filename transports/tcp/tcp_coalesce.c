/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The thread exists while a connection that has ever let a record wait is open. It looks once a
 * millisecond, and sleeps without end when nothing has waited for a while; a stage that opens then
 * wakes it. It holds the mutex of the list while it looks, and no other lock: a connection that
 * leaves the list is not looked at any more.
 */
#include "transports/tcp/tcp_coalesce.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "core/base/deadline.h"
#include "transports/tcp/tcp_conn.h"
#include "transports/tcp/tcp_poller.h"
#include "transports/tcp/tcp_uring.h"

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

static void help(struct tcp_coalesce *coalesce)
{
    unsigned open = TCP_COALESCE_OPEN;

    if (!atomic_compare_exchange_strong(&coalesce->state, &open, TCP_COALESCE_TAKEN))
        return;
    ssize_t sent = coalesce->send(coalesce);
    /* A full socket may have room at the next look. */
    bool again = sent < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOBUFS);
    coalesce->ahead = sent > 0 ? (size_t)sent : 0;
    atomic_store(&coalesce->state, again ? TCP_COALESCE_OPEN : TCP_COALESCE_SENT);
}

/* True when anything waits. */
static bool look(void)
{
    bool any = false;

    list_for_each (pos, &late.stages) {
        struct tcp_coalesce *coalesce = list_item(pos, struct tcp_coalesce, link);
        unsigned turn;

        if (atomic_load(&coalesce->state) != TCP_COALESCE_OPEN)
            continue;
        any = true;
        turn = atomic_load_explicit(&coalesce->turn, memory_order_relaxed);
        if (turn == coalesce->seen)
            help(coalesce);
        coalesce->seen = turn;
    }
    return any;
}

static void nap(void)
{
    struct timespec until = deadline_in(LOOK_NS);

    deadline_wait_cond(&late.cond, &late.mutex, &until);
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
        /* A thread that opens a stage from here on sees this, or this look sees the stage. */
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

static bool join(struct tcp_coalesce *coalesce)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    if (coalesce->joined)
        return true;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&late.mutex);
    if (!late.helper)
        late.helper = start_helper();
    if (late.helper && late.count < STAGES_MAX) {
        list_attach(&coalesce->link, &late.stages);
        late.count++;
        coalesce->joined = true;
    }
    pthread_mutex_unlock(&late.mutex);
    return coalesce->joined;
}

void tcp_coalesce_leave(struct tcp_coalesce *coalesce)
{
    struct helper *helper = NULL;

    if (!coalesce->joined || progress_forked(coalesce->conn->poller->progress))
        return;
    pthread_mutex_lock(&late.mutex);
    list_detach(&coalesce->link);
    coalesce->joined = false;
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

/* ---- The progress domain ---- */

void tcp_coalesce_init(struct tcp_coalesce *coalesce, struct tcp_conn *conn,
                       ssize_t (*send)(struct tcp_coalesce *coalesce))
{
    list_init(&coalesce->link);
    coalesce->conn = conn;
    coalesce->send = send;
    coalesce->lead = LEAD;
    coalesce->penalty = PENALTY_MIN;
    atomic_init(&coalesce->state, TCP_COALESCE_OURS);
    atomic_init(&coalesce->turn, 0);
}

bool tcp_coalesce_wants(struct tcp_coalesce *coalesce, size_t size, bool company)
{
    const struct tcp_conn *conn = coalesce->conn;

    if (coalesce->epoch != conn->poller->epoch) {
        coalesce->epoch = conn->poller->epoch;
        coalesce->run = 0;
        coalesce->bytes = 0;
    }
    if (++coalesce->run <= coalesce->lead && !company)
        return false;
    if (coalesce->abstain) {
        coalesce->abstain--;
        return false;
    }
    if (size > SMALL || conn->blocked || conn->error || !conn->settings->coalesce)
        return false;
    coalesce->bytes += (uint32_t)size;
    if (coalesce->bytes > GATHERED) {
        coalesce->bytes = 0;
        return false;
    }
    /* A sleeper, or a thread that sleeps, would not see it. */
    return list_empty(&conn->uring->flights) && !progress_watched(conn->poller->progress) &&
           join(coalesce);
}

void tcp_coalesce_open(struct tcp_coalesce *coalesce)
{
    coalesce->open = true;
    atomic_store(&coalesce->state, TCP_COALESCE_OPEN);
    if (__builtin_expect(atomic_load(&late.asleep), 0))
        wake();
}

void tcp_coalesce_gathered(struct tcp_coalesce *coalesce)
{
    coalesce->bytes = 0;
    coalesce->lead = 1;
    if (coalesce->penalty > PENALTY_MIN)
        coalesce->penalty -= coalesce->penalty / 16;
}

/* The thread had to help. Where the caller was not running meanwhile, that says nothing about what
 * it will do next time. */
static void lose_trust(struct tcp_coalesce *coalesce)
{
    struct rusage usage;

    getrusage(RUSAGE_THREAD, &usage);
    if (usage.ru_nivcsw != coalesce->switches) {
        coalesce->switches = usage.ru_nivcsw;
        return;
    }
    coalesce->lead = LEAD;
    coalesce->abstain = coalesce->penalty;
    if (coalesce->penalty < PENALTY_MAX)
        coalesce->penalty *= 2;
}

void tcp_coalesce_close(struct tcp_coalesce *coalesce)
{
    unsigned open = TCP_COALESCE_OPEN;

    coalesce->open = false;
    while (!atomic_compare_exchange_strong(&coalesce->state, &open, TCP_COALESCE_OURS)) {
        if (open == TCP_COALESCE_SENT || progress_forked(coalesce->conn->poller->progress))
            break;
        sched_yield();
        open = TCP_COALESCE_OPEN;
    }
    if (open == TCP_COALESCE_OPEN)
        return;
    atomic_store_explicit(&coalesce->state, TCP_COALESCE_OURS, memory_order_relaxed);
    lose_trust(coalesce);
}
