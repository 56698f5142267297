/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/tcp/tcp_set.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/log.h"
#include "transports/tcp/tcp_atomic.h"
#include "transports/tcp/tcp_domain.h"
#include "transports/tcp/tcp_ep.h"

enum {
    HOT_MAX = 4,     /* endpoints that are looked at without epoll */
    HOT_TRIES = 512, /* fruitless looks after which one cools */
    POLL_EVERY = 32, /* progress calls, while something is hot */
    EVENTS = 64,     /* of one epoll_wait */
    STREAK = 16,     /* messages after which a hot one leaves epoll */
};

/* ---- epoll ---- */

static int arm(struct tcp_set *set, struct tcp_ep *ep)
{
    struct epoll_event event = {
        .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
        .data.ptr = ep,
    };

    if (ep->armed || ep->fd < 0)
        return 0;
    if (epoll_ctl(set->epoll_fd, EPOLL_CTL_ADD, ep->fd, &event))
        return -errno;
    ep->armed = true;
    return 0;
}

static void disarm(struct tcp_set *set, struct tcp_ep *ep)
{
    /* The epoll fd of a forked process is its parent's, too. */
    if (ep->armed && !unit_forked(set->unit))
        epoll_ctl(set->epoll_fd, EPOLL_CTL_DEL, ep->fd, NULL);
    ep->armed = false;
}

/* Adding a socket tells at once what has happened to it meanwhile. */
void tcp_set_arm(struct tcp_set *set, struct tcp_ep *ep)
{
    if (arm(set, ep)) {
        /* Without epoll it stays a matter of looking. */
        ep->rx.readable = true;
        tcp_set_work(set, ep);
    }
}

/* ---- Hot endpoints ---- */

static void leave_hot(struct tcp_set *set, struct tcp_ep *ep)
{
    if (list_empty(&ep->hot))
        return;
    list_detach(&ep->hot);
    set->hot_count--;
}

static void cool(struct tcp_set *set, struct tcp_ep *ep)
{
    leave_hot(set, ep);
    tcp_set_arm(set, ep);
}

/* epoll calls back for every message. Where one follows the other, and nobody sleeps on the fd, a
 * look costs less. */
static void received(struct tcp_set *set, struct tcp_ep *ep)
{
    ep->tries = 0;
    if (ep->streak < STREAK && ++ep->streak == STREAK && !unit_watched(set->unit) &&
        !ep->tx.blocked && !list_empty(&ep->hot))
        disarm(set, ep);
}

/* The one that has been looked at in vain for longest; NULL when all have just received. */
static struct tcp_ep *coldest(struct tcp_set *set)
{
    struct tcp_ep *found = NULL;

    list_for_each (pos, &set->hot) {
        struct tcp_ep *ep = list_item(pos, struct tcp_ep, hot);

        if (ep->tries > (found ? found->tries : 0))
            found = ep;
    }
    return found;
}

void tcp_set_heat(struct tcp_set *set, struct tcp_ep *ep)
{
    if (!list_empty(&ep->hot) || ep->fd < 0)
        return;
    if (set->hot_count == HOT_MAX) {
        struct tcp_ep *other = coldest(set);

        if (!other)
            return;
        cool(set, other);
    }
    ep->tries = 0;
    ep->streak = 0;
    list_attach(&ep->hot, &set->hot);
    set->hot_count++;
    tcp_cm_lull(ep->cm, ep);
}

void tcp_set_work(struct tcp_set *set, struct tcp_ep *ep)
{
    if (list_empty(&ep->work) && ep->fd >= 0)
        list_attach(&ep->work, &set->work);
}

void tcp_set_end(struct tcp_set *set, struct tcp_ep *ep)
{
    if (list_empty(&ep->ended))
        list_attach(&ep->ended, &set->ended);
}

bool tcp_set_fail_ended(struct tcp_set *set)
{
    bool some = !list_empty(&set->ended);

    while (!list_empty(&set->ended)) {
        struct tcp_ep *ep = list_item(set->ended.next, struct tcp_ep, ended);

        list_detach(&ep->ended);
        tcp_ep_fail(ep, ep->tx.error ? ep->tx.error : FI_ENOTCONN);
    }
    return some;
}

static void unblock(struct tcp_ep *ep)
{
    if (!ep->tx.blocked)
        return;
    ep->tx.blocked = false;
    ep->set->blocked--;
    tcp_tx_flush(ep);
}

/* Tries again where no event may come. */
static void flush(struct tcp_ep *ep)
{
    if (!ep->tx.promised)
        unblock(ep);
    tcp_tx_flush(ep);
}

static bool can_read(const struct tcp_ep *ep)
{
    return ep->rx.readable || ep->rx.ended || ep->rx.stash;
}

static void do_work(struct tcp_set *set)
{
    struct list todo;

    if (list_empty(&set->work))
        return;
    list_init(&todo);
    list_join(&set->work, &todo);
    while (!list_empty(&todo)) {
        struct tcp_ep *ep = list_item(todo.next, struct tcp_ep, work);

        list_detach(&ep->work);
        flush(ep);
        if (can_read(ep))
            tcp_rx_progress(ep);
    }
}

/* What was posted meanwhile leaves; what is to be read can wait. */
static void flush_work(struct tcp_set *set)
{
    struct list todo;

    list_init(&todo);
    list_join(&set->work, &todo);
    while (!list_empty(&todo)) {
        struct tcp_ep *ep = list_item(todo.next, struct tcp_ep, work);

        list_detach(&ep->work);
        tcp_tx_flush(ep);
        if (can_read(ep) || (ep->tx.blocked && !ep->tx.promised))
            tcp_set_work(set, ep);
    }
}

/* Ends what `driving` began. */
static inline void stop_driving(struct tcp_set *set)
{
    set->driving = false;
    if (!list_empty(&set->work))
        flush_work(set);
}

/* The processor has forgotten its callers after a system call, and mispredicts each return: the
 * look that mostly finds nothing is made here, not two calls deeper. */
static inline bool look_at(struct tcp_set *set, struct tcp_ep *ep)
{
    ssize_t got;

    if (!tcp_rx_plain(&ep->rx) || ep->fd < 0)
        return !ep->rx.paused && !ep->rx.stash && tcp_rx_progress(ep);
    got = recv(ep->fd, set->buffer, TCP_BUFFER, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) {
        ep->rx.readable = false;
        return false;
    }
    return tcp_rx_received(ep, got < 0 ? -errno : got);
}

/* A report may call back and change who is hot: each turn takes the first and puts it last. */
static void look_at_hot(struct tcp_set *set)
{
    for (unsigned left = set->hot_count; left && !list_empty(&set->hot); left--) {
        struct tcp_ep *ep = list_item(set->hot.next, struct tcp_ep, hot);

        if (set->hot_count > 1) {
            list_detach(&ep->hot);
            list_attach(&ep->hot, &set->hot);
        }
        /* epoll tells of room only when a third of the socket buffer is free. */
        unblock(ep);
        if (look_at(set, ep))
            received(set, ep);
        else if (++ep->tries > HOT_TRIES)
            cool(set, ep);
    }
}

/* True when the event was of use to anybody. */
static bool handle(struct tcp_set *set, struct tcp_ep *ep, uint32_t events)
{
    bool useful = ep->tx.blocked && events & EPOLLOUT;

    if (ep->fd < 0)
        return false;
    if (events & EPOLLOUT)
        unblock(ep);
    if (!(events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
        return useful;
    ep->rx.readable = true;
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        ep->rx.ended = true;
    if (!ep->rx.paused && !ep->rx.stash) {
        if (tcp_rx_progress(ep)) {
            ep->tries = 0;
            tcp_set_heat(set, ep);
        }
    } else if (events & (EPOLLHUP | EPOLLERR)) {
        /* Nothing can be sent any more; what has arrived waits for its receives. */
        ep->tx.error = FI_ECONNRESET;
        tcp_tx_finish(ep, FI_ECONNRESET);
    }
    return true;
}

static bool poll_events(struct tcp_set *set)
{
    struct epoll_event events[EVENTS];
    bool useful = false;
    int count = epoll_wait(set->epoll_fd, events, EVENTS, 0);

    for (int i = 0; i < count; i++)
        useful |= handle(set, events[i].data.ptr, events[i].events);
    return useful;
}

/* A peer that hangs up on several endpoints has sent to all of them before. */
static void take_ended(struct tcp_set *set)
{
    if (list_empty(&set->ended))
        return;
    look_at_hot(set);
    poll_events(set);
    tcp_set_fail_ended(set);
}

void tcp_set_drive(struct tcp_set *set)
{
    if (set->driving)
        return;
    if (set->ring) {
        tcp_uring_progress(set);
        return;
    }
    set->driving = true;
    do_work(set);
    take_ended(set);
    stop_driving(set);
}

static void progress(struct unit_source *source)
{
    struct tcp_set *set = object_of(source, struct tcp_set, source);

    if (unit_forked(set->unit))
        return;
    set->epoch++;
    set->driving = true;
    do_work(set);
    /* Before the look, lest it delay the answer to what that finds. */
    if (!set->hot_count || set->blocked > HOT_MAX || !set->until_poll) {
        set->until_poll = POLL_EVERY;
        poll_events(set);
    } else {
        set->until_poll--;
    }
    look_at_hot(set);
    take_ended(set);
    stop_driving(set);
}

static void progress_ring(struct unit_source *source)
{
    tcp_uring_progress(object_of(source, struct tcp_set, source));
}

static int trywait_ring(struct unit_source *source)
{
    return tcp_uring_trywait(object_of(source, struct tcp_set, source));
}

/* The events that epoll holds must be taken before a sleep: being edges, they would keep the fd
 * readable for nothing. */
static int trywait(struct unit_source *source)
{
    struct tcp_set *set = object_of(source, struct tcp_set, source);

    list_for_each (pos, &set->hot)
        tcp_set_arm(set, list_item(pos, struct tcp_ep, hot));
    if (!list_empty(&set->work))
        return -FI_EAGAIN;
    set->driving = true;
    bool useful = poll_events(set);
    take_ended(set);
    stop_driving(set);
    return useful || !list_empty(&set->work) ? -FI_EAGAIN : 0;
}

static void set_destroy(struct tcp_set *set)
{
    if (set->ring)
        tcp_uring_close(set);
    if (set->epoll_fd >= 0)
        close(set->epoll_fd);
    pool_finish(&set->ops);
    pool_finish(&set->targets);
    pool_finish(&set->atomics);
    free(set->buffer);
    free(set);
}

static void use_epoll(struct tcp_set *set)
{
    set->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    set->source.fd = set->epoll_fd;
    set->source.progress = progress;
    set->source.trywait = trywait;
}

/* As the parameter io says, or, where that is not to be had, with sockets. */
static void choose_io(struct tcp_set *set)
{
    struct tcp_fabric *fabric = set->domain->fabric;
    const char *why;
    int rc;

    set->epoll_fd = -1;
    if (!fabric->settings.uring) {
        use_epoll(set);
        return;
    }
    rc = tcp_uring_open(set, &why);
    if (rc) {
        tcp_fabric_say_no_uring(fabric, why, rc);
        use_epoll(set);
        return;
    }
    set->source.fd = tcp_uring_fd(set);
    set->source.progress = progress_ring;
    set->source.trywait = trywait_ring;
}

static struct tcp_set *set_create(struct tcp_domain *domain, struct unit *unit)
{
    struct tcp_set *set = calloc(1, sizeof(*set));

    if (!set)
        return NULL;
    set->domain = domain;
    set->unit = unit;
    list_init(&set->link);
    list_init(&set->hot);
    list_init(&set->work);
    list_init(&set->ended);
    pool_init(&set->ops, sizeof(struct tcp_op) + TCP_WIRE_MAX + domain->fabric->settings.max_inject,
              0);
    pool_init(&set->targets, sizeof(struct tcp_target), 0);
    pool_init(&set->atomics, sizeof(struct tcp_atomic), 0);
    set->buffer = malloc(TCP_BUFFER);
    list_init(&set->source.link);
    choose_io(set);
    if (!set->buffer || set->source.fd < 0 || unit_attach(unit, &set->source)) {
        set_destroy(set);
        return NULL;
    }
    return set;
}

int tcp_set_join(struct tcp_domain *domain, struct unit *unit, struct tcp_set **result)
{
    struct tcp_set *found = NULL;

    pthread_mutex_lock(&domain->mutex);
    list_for_each (pos, &domain->sets) {
        struct tcp_set *set = list_item(pos, struct tcp_set, link);

        if (unit_root(set->unit) == unit_root(unit))
            found = set;
    }
    if (!found) {
        found = set_create(domain, unit);
        if (found) {
            unit_hold(unit);
            list_attach(&found->link, &domain->sets);
        }
    }
    if (found)
        found->users++;
    pthread_mutex_unlock(&domain->mutex);
    *result = found;
    return found ? 0 : -FI_ENOMEM;
}

struct unit *tcp_set_leave(struct tcp_set *set)
{
    struct tcp_domain *domain = set->domain;
    struct unit *unit = NULL;

    pthread_mutex_lock(&domain->mutex);
    if (--set->users == 0) {
        unit = set->unit;
        list_detach(&set->link);
        unit_detach(unit, &set->source);
        set_destroy(set);
    }
    pthread_mutex_unlock(&domain->mutex);
    return unit;
}

int tcp_set_add(struct tcp_set *set, struct tcp_ep *ep)
{
    return set->ring ? tcp_uring_add(ep) : arm(set, ep);
}

void tcp_set_remove(struct tcp_set *set, struct tcp_ep *ep)
{
    leave_hot(set, ep);
    disarm(set, ep);
    list_detach(&ep->work);
    list_detach(&ep->ended);
    if (ep->tx.blocked) {
        ep->tx.blocked = false;
        set->blocked--;
    }
}
