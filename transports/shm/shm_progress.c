/* SPDX-License-Identifier: BSD-2-Clause */
/* A round of progress: hot rings, the bell, what waits to be written, now and then the sockets. */
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <sys/resource.h>

#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "core/base/fork.h"
#include "core/base/log.h"
#include "transports/shm/shm_backlog.h"
#include "transports/shm/shm_fast.h"
#include "transports/shm/shm_op.h"
#include "transports/shm/shm_ticks.h"

enum {
    BATCH = 64,           /* messages of a link in a round */
    IDLE_LOOKS = 8,       /* idle rounds between looks at the clock */
    ROUND_LOOKS = 1024,   /* rounds until the sockets may be looked at, whatever happens */
    SWEEPS = 64,          /* rounds between looks at a cold ring */
    LOOK_TICKS = 100000,  /* about 50 us of a clock of 2 GHz */
    YIELD_TICKS = 200000, /* of silence, before the core is offered to others */
    LEAST_TICKS = 4000,
    PROBE_TICKS = 50000,
    PROBES = 8,            /* one of so many waits is a patient one */
    OTHERS_TICKS = 6000,   /* a yield that takes longer has let another thread run */
    IN_VAIN = 3,           /* yields that return at once, before they are doubted */
    VAIN_TICKS = 40000000, /* about 20 ms: the core was wanted all the time */
    NAPS = 128,
    ARMED_ROUNDS = 4096,
    AWAKE_ROUNDS = 256, /* idle rounds before a sleep: 20 to 50 us */
};

/* ---- Hot and cold ---- */

void shm_heat(struct shm_link *link)
{
    struct shm_ep *ep = link->ep;

    if (link->hot)
        return;
    if (ep->hot_count < SHM_HOT && !ep->armed) {
        link->hot = true;
        link->taken = 1;
        ep->hot[ep->hot_count++] = link;
        atomic_store_explicit(&link->rx.credits->polled, 1, memory_order_relaxed);
    } else {
        shm_doorbell_set(ep->doorbell, link->number);
    }
}

void shm_cool(struct shm_link *link)
{
    struct shm_ep *ep = link->ep;

    for (unsigned i = 0; i < ep->hot_count; i++) {
        if (ep->hot[i] == link)
            ep->hot[i] = ep->hot[--ep->hot_count];
    }
    link->hot = false;
    if (ep->forks == fork_generation)
        atomic_store_explicit(&link->rx.credits->polled, 0, memory_order_relaxed);
}

/* After this nothing that was sent while a ring was hot goes unseen: it is in the ring by now. */
static void look_once_more(struct shm_ep *ep, struct shm_link *const *links, unsigned count)
{
    shm_fence_all();
    for (unsigned i = 0; i < count; i++) {
        if (shm_link_quiet(links[i]))
            continue;
        shm_link_heard(links[i]);
        shm_doorbell_set(ep->doorbell, links[i]->number);
    }
}

/* Cools silent links, to make room for others. */
static __attribute__((noinline)) void cool_silent(struct shm_ep *ep)
{
    struct shm_link *cooled[SHM_HOT];
    unsigned count = 0;

    for (unsigned i = ep->hot_count; i-- > 0;) {
        struct shm_link *link = ep->hot[i];

        if (!link->taken) {
            cooled[count++] = link;
            shm_cool(link);
        } else {
            link->taken = 0;
        }
    }
    if (count)
        look_once_more(ep, cooled, count);
}

/* ---- Taking messages ---- */

static bool take_one(struct shm_link *link, struct shm_head head, const char *body)
{
    switch (head.op) {
    case SHM_MSG: return shm_take_message(link, head, body);
    case SHM_RTS: return shm_take_announced(link, head, body);
    case SHM_CTS: return shm_take_cts(link, head, body);
    case SHM_DATA: return shm_take_data(link, head, body);
    case SHM_FIN: return shm_take_fin(link, head, body);
    case SHM_ERROR: return shm_take_error(link, head, body);
    case SHM_WRITE: return shm_take_write(link, head, body);
    case SHM_FETCH: return shm_take_fetch(link, head, body);
    case SHM_READ: return shm_take_read(link, head, body);
    case SHM_ATOMIC: return shm_take_atomic(link, head, body);
    case SHM_WHERE: return shm_take_where(link, head, body);
    case SHM_PAD: shm_rx_consume(&link->rx, head); return true;
    default: shm_link_fail(link, FI_EIO); return false;
    }
}

unsigned shm_link_take(struct shm_link *link)
{
    struct shm_head head = {0};
    const char *body;
    unsigned count = 0;

    link->pause = false;
    while (count < BATCH && !link->dead && !link->pause) {
        if (!shm_rx_head(&link->rx, &head, &body))
            break;
        if (shm_fast_take(link, head, body))
            count++;
        else if (!shm_rx_fits(&link->rx, head))
            shm_link_fail(link, FI_EIO);
        else if (take_one(link, head, body))
            count++;
        else
            break;
    }
    link->taken += count;
    return count;
}

bool shm_link_quiet(struct shm_link *link)
{
    return !link->region || shm_rx_is_quiet(&link->rx);
}

bool shm_link_is_empty(struct shm_link *link)
{
    if (link->region)
        shm_link_take(link);
    return shm_link_quiet(link);
}

void shm_link_heard(struct shm_link *link)
{
    link->heard = true;
    if (list_empty(&link->unasked))
        list_attach(&link->unasked, &link->ep->unasked);
}

unsigned shm_link_take_cold(struct shm_link *link)
{
    struct shm_ep *ep = link->ep;
    unsigned count;

    if (!link->region || link->dead)
        return 0;
    count = shm_link_take(link);
    if (link->dead)
        return count;
    if (count && !link->hot && ep->hot_count < SHM_HOT && !ep->armed)
        shm_heat(link);
    /* The sender does not announce the rest of a batch again. */
    if (!link->hot && !shm_link_quiet(link))
        shm_doorbell_set(ep->doorbell, link->number);
    return count;
}

static unsigned answer_number(struct shm_link *link)
{
    if (!link || !link->region)
        return 0;
    if (!link->heard)
        shm_link_heard(link);
    return shm_link_take_cold(link);
}

static __attribute__((noinline)) unsigned answer_bell(struct shm_ep *ep)
{
    uint64_t summary = atomic_exchange(&ep->doorbell->summary, 0);
    unsigned count = 0;

    for (; summary; summary &= summary - 1) {
        unsigned word = (unsigned)__builtin_ctzll(summary);
        uint64_t bits = atomic_exchange(&ep->doorbell->words[word], 0);

        for (; bits; bits &= bits - 1) {
            uint32_t number = word * 64 + (unsigned)__builtin_ctzll(bits);

            for (; number < ep->number_count; number += SHM_DOORBELL_BITS)
                count += answer_number(ep->numbers[number]);
        }
    }
    return count;
}

/* A cold ring at a time, in case that its bell was lost. The first message of a peer is announced
 * on the socket, too, so that its ring need not be touched before. */
static unsigned sweep(struct shm_ep *ep)
{
    struct shm_link *link;

    if (!ep->number_count)
        return 0;
    ep->sweep = (ep->sweep + 1) % ep->number_count;
    link = ep->numbers[ep->sweep];
    return link && link->heard ? shm_link_take_cold(link) : 0;
}

/* ---- Writing ---- */

/* Streams belong to earlier posts, for which one in the backlog may have to wait. */
static bool write_all(struct shm_link *link)
{
    bool written = shm_control_flush(link);

    if (!written)
        return false;
    if (__builtin_expect(!list_empty(&link->backlog), 0))
        written = shm_backlog_post(link);
    return shm_stream(link) && written;
}

static void write_busy(struct shm_ep *ep)
{
    list_for_each_safe (pos, after, &ep->busy) {
        struct shm_link *link = list_item(pos, struct shm_link, busy);

        if (link->dead) {
            list_detach(&link->busy);
            continue;
        }
        if (write_all(link))
            list_detach(&link->busy);
        if (link->tx.broken)
            shm_link_fail(link, FI_EIO);
    }
}

/* ---- The round ---- */

static bool look_is_due(struct shm_ep *ep, uint64_t now)
{
    if (now - ep->looked <= LOOK_TICKS)
        return false;
    ep->looked = now;
    return true;
}

/*
 * ---- Waiting ----
 *
 * With more processes than cores the peer may need this core. A yield that takes long shows that
 * another thread wanted it; from then on the waiter yields after every look, and starts to yield
 * sooner in later waits, down to a few looks: with many processes most of the time would go into
 * waits that cannot end. A message that arrives before the first yield tells how long the next
 * waits should poll; one wait of PROBES polls longer, to find out. While no other thread wants the
 * core nothing of this happens.
 *
 * The thread waits, not the endpoint: while another endpoint that the thread drives has messages it
 * keeps the core, and of several idle endpoints one yields. It does not yield while other threads
 * wait for a lock of the library either: it may hold that lock, and they get the core with it.
 *
 * A yield gives the core only to threads of the same scheduler group. Processes in containers, or
 * each with a session of its own from its launcher (autogroups), are in several groups, and get the
 * core when the time slice is over. So if the kernel preempts the thread soon after several yields
 * returned at once, another group wants the core, and for a while the thread takes the shortest
 * sleeps instead.
 */

/* The yields of this thread that returned at once, in a row. */
static _Thread_local struct {
    unsigned count;
    long switches;  /* of the thread, against its will, up to the last one */
    uint64_t since; /* the last one */
    unsigned naps;  /* offers to come that are sleeps */
} in_vain __attribute__((tls_model("initial-exec")));

/* A yield of this thread has ended. */
static void judge_yield(uint64_t began, uint64_t now)
{
    struct rusage usage;

    if (getrusage(RUSAGE_THREAD, &usage))
        return;
    if (in_vain.count >= IN_VAIN && usage.ru_nivcsw != in_vain.switches &&
        now - in_vain.since < VAIN_TICKS) {
        in_vain.count = 0;
        in_vain.naps = NAPS;
    } else if (now - began >= OTHERS_TICKS || usage.ru_nivcsw != in_vain.switches) {
        in_vain.count = 0;
    } else {
        in_vain.count++;
    }
    in_vain.switches = usage.ru_nivcsw;
    in_vain.since = now;
}

/* Until when. */
static uint64_t give_core(uint64_t began)
{
    static const struct timespec least = {0, 1};
    uint64_t now;

    if (in_vain.naps) {
        in_vain.naps--;
        nanosleep(&least, NULL);
        return shm_ticks();
    }
    sched_yield();
    now = shm_ticks();
    judge_yield(began, now);
    return now;
}

static uint64_t patience(struct shm_ep *ep)
{
    if (ep->hurry && ep->waits++ % PROBES == 0 && PROBE_TICKS > YIELD_TICKS >> ep->hurry)
        return PROBE_TICKS;
    return YIELD_TICKS >> ep->hurry;
}

static void offer_core(struct shm_ep *ep, uint64_t *now)
{
    uint64_t before = *now;

    if (progress_others_wait())
        return;
    if (ep->found_seen != progress_takes) {
        ep->found_seen = progress_takes;
        ep->silent_since = before;
        return;
    }
    *now = give_core(before);
    ep->found_seen = ++progress_takes; /* so that one offers it */
    if (*now - before < OTHERS_TICKS) {
        ep->hurry = 0;
        ep->silent_since = *now;
        ep->patience = YIELD_TICKS;
        return;
    }
    if (ep->patience && YIELD_TICKS >> ep->hurry > LEAST_TICKS)
        ep->hurry++;
    ep->patience = 0;
}

/* A message came in a wait, without a yield: it was worth that time. */
static void wait_paid(struct shm_ep *ep)
{
    uint64_t took;

    if (ep->idle < IDLE_LOOKS || !ep->patience)
        return;
    took = shm_ticks() - ep->silent_since;
    while (ep->hurry && (uint64_t)YIELD_TICKS >> ep->hurry < 2 * took)
        ep->hurry--;
}

static bool time_to_look(struct shm_ep *ep)
{
    uint64_t now = shm_ticks();

    if (ep->idle == IDLE_LOOKS) {
        ep->silent_since = now;
        ep->found_seen = progress_takes;
        ep->patience = patience(ep);
    }
    if (now - ep->silent_since > ep->patience)
        offer_core(ep, &now);
    if (!look_is_due(ep, now))
        return false;
    return true;
}

/* Whether messages may have been taken. */
static bool now_and_then(struct shm_ep *ep, unsigned taken)
{
    bool look = ep->look_now, took = false;

    ep->rounds++;
    if (taken) {
        progress_takes++;
        if (__builtin_expect(ep->hurry, 0))
            wait_paid(ep);
        ep->idle = 1;
    } else if (++ep->idle % IDLE_LOOKS == 0) {
        look |= time_to_look(ep);
    }
    if (ep->rounds % SWEEPS == 0)
        took = sweep(ep);
    if (ep->rounds % ROUND_LOOKS == 0) {
        look |= look_is_due(ep, shm_ticks());
        cool_silent(ep);
    }
    if (!look)
        return took;
    ep->look_now = false;
    shm_link_look(ep);
    shm_reclaim_some(ep, shm_ticks());
    shm_silence_look(ep);
    return true;
}

/*
 * ---- Sleeping ----
 *
 * Waking a sleeper takes longer than most answers take to arrive, and costs its peer a system call.
 * So trywait refuses while messages are there, or the endpoint has sent or taken one in the last
 * AWAKE_ROUNDS rounds; the waiter polls on.
 *
 * Once trywait has agreed the endpoint is armed: all rings are cold, and a sender that finds its
 * ring cold sets the doorbell and writes to the socket, once. To be woken again the receiver must
 * ask the sender again. It asks those that have written since, in memory that it shares with that
 * sender alone, so that no other peer can revoke it. A sleeper does not report that it has woken
 * up, and another thread may make progress while it sleeps; so the endpoint stays armed for
 * ARMED_ROUNDS rounds of progress. Disarming then wakes all sleepers, which arm it again.
 */

void shm_wake(struct shm_ep *ep)
{
    static const uint64_t one = 1;

    if (!ep->armed)
        return;
    ep->armed = false;
    /* A full counter is readable already. */
    ep->woken = write(ep->wake_fd, &one, sizeof(one)) == sizeof(one) || ep->woken;
}

/* Work that only this side can see, full rings and streams: their room comes back without a bell,
 * as does what it takes to answer an introduction. */
static bool has_work(const struct shm_ep *ep)
{
    return !list_empty(&ep->crosses) || !list_empty(&ep->busy) || !list_empty(&ep->dead) ||
           ep->owes || atomic_load(&ep->stale_sources) || atomic_load(&ep->doorbell->summary);
}

/* A message written before its sender was asked wakes no sleeper, and is in the ring by now. True
 * when there is one; its bit of the doorbell may have been cleared by then, so it is set again. */
static bool ask(struct shm_ep *ep)
{
    struct shm_link *cooled[SHM_HOT];
    unsigned count = ep->hot_count;

    for (unsigned i = 0; i < count; i++)
        cooled[i] = ep->hot[i];
    for (unsigned i = 0; i < count; i++)
        shm_cool(cooled[i]);
    list_for_each (pos, &ep->unasked)
        shm_rx_ask(&list_item(pos, struct shm_link, unasked)->rx);
    look_once_more(ep, cooled, count);
    list_for_each_safe (pos, after, &ep->unasked) {
        struct shm_link *link = list_item(pos, struct shm_link, unasked);

        if (shm_link_quiet(link))
            list_detach(pos);
        else
            shm_doorbell_set(ep->doorbell, link->number);
    }
    return !list_empty(&ep->unasked);
}

static bool arm(struct shm_ep *ep)
{
    uint64_t count;

    if (ep->woken && read(ep->wake_fd, &count, sizeof(count)) < 0)
        LOG_DEBUG(ep->domain->base.fabric->part, FI_LOG_EP_CTRL, ": nobody had been woken");
    ep->woken = false;
    ep->armed = true;
    ep->armed_rounds = 0;
    return ask(ep);
}

static void stay_armed(struct shm_ep *ep)
{
    bool more = !list_empty(&ep->unasked) && ask(ep);

    if (more || has_work(ep) || ++ep->armed_rounds > ARMED_ROUNDS)
        shm_wake(ep);
}

int shm_trywait(struct progress_source *source)
{
    struct shm_ep *ep = object_of(source, struct shm_ep, source);

    if (ep->forks != fork_generation)
        return 0;
    ep->look_now = true;
    if (has_work(ep) || ep->idle < AWAKE_ROUNDS)
        return -FI_EAGAIN;
    return arm(ep) || has_work(ep) ? -FI_EAGAIN : 0;
}

/* ---- The whole ---- */

void shm_progress_ep(struct shm_ep *ep)
{
    unsigned taken = 0;

    if (__builtin_expect(ep->in_progress || ep->forks != fork_generation, 0))
        return;
    ep->in_progress = true;
    if (__builtin_expect(atomic_load_explicit(&ep->stale_sources, memory_order_relaxed), 0))
        shm_av_catch_up(ep);
    for (unsigned i = 0; i < ep->hot_count; i++) {
        if (!shm_rx_is_quiet(&ep->hot[i]->rx))
            taken += shm_link_take(ep->hot[i]);
    }
    if (atomic_load_explicit(&ep->doorbell->summary, memory_order_relaxed))
        taken += answer_bell(ep);
    if (!list_empty(&ep->crosses)) {
        shm_cma_step(ep);
        taken++; /* a thread that copies is not idle, and offers no core */
    }
    /* After all messages are taken: an application that reads the completion of a receive may never
     * make progress again, and the sender waits for its FIN. */
    if (!list_empty(&ep->busy))
        write_busy(ep);
    if (__builtin_expect(now_and_then(ep, taken), 0) && !list_empty(&ep->busy))
        write_busy(ep);
    if (!list_empty(&ep->dead))
        shm_link_bury(ep);
    if (__builtin_expect(ep->armed, 0))
        stay_armed(ep);
    ep->in_progress = false;
}

void shm_look_soon(struct shm_ep *ep)
{
    if (!ep->base.enabled || !look_is_due(ep, shm_ticks()))
        return;
    ep->look_now = true;
    if (ep->top)
        shm_progress_ep(ep);
}

void shm_progress(struct progress_source *source)
{
    shm_progress_ep(object_of(source, struct shm_ep, source));
}
