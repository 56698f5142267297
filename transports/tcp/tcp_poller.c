/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/tcp/tcp_poller.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "transports/tcp/tcp_atomic.h"
#include "transports/tcp/tcp_domain.h"
#include "transports/tcp/tcp_ep.h"
#include "transports/tcp/tcp_receive.h"
#include "transports/tcp/tcp_send.h"

enum {
    HOT_MAX = 4,     /* endpoints that are looked at without epoll */
    HOT_TRIES = 512, /* fruitless looks after which one cools */
    POLL_EVERY = 32, /* progress calls, while something is hot */
    EVENTS = 64,     /* of one epoll_wait */
    STREAK = 16,     /* messages after which a hot one leaves epoll */
    BULK = 16384,    /* bytes of a payload still to come that epoll tells of */
};

/* ---- epoll ---- */

static int arm(struct tcp_poller *poller, struct tcp_ep *ep)
{
    struct epoll_event event = {
        .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
        .data.ptr = ep,
    };

    if (ep->armed || ep->fd < 0)
        return 0;
    if (epoll_ctl(poller->epoll_fd, EPOLL_CTL_ADD, ep->fd, &event))
        return -errno;
    ep->armed = true;
    return 0;
}

static void disarm(struct tcp_poller *poller, struct tcp_ep *ep)
{
    /* The epoll fd of a forked process is its parent's, too. */
    if (ep->armed && !progress_forked(poller->progress))
        epoll_ctl(poller->epoll_fd, EPOLL_CTL_DEL, ep->fd, NULL);
    ep->armed = false;
}

/* Adding a socket tells at once what has happened to it meanwhile. */
void tcp_poller_arm(struct tcp_poller *poller, struct tcp_ep *ep)
{
    if (arm(poller, ep)) {
        /* Without epoll it stays a matter of looking. */
        ep->rx.readable = true;
        tcp_poller_work(poller, ep);
    }
}

/* ---- Hot endpoints ---- */

static void leave_hot(struct tcp_poller *poller, struct tcp_ep *ep)
{
    if (list_empty(&ep->hot))
        return;
    list_detach(&ep->hot);
    poller->hot_count--;
}

static void cool(struct tcp_poller *poller, struct tcp_ep *ep)
{
    leave_hot(poller, ep);
    tcp_poller_arm(poller, ep);
}

/* epoll reports each message to the poller. While messages follow each other and no reader sleeps
 * on the fd, polling the socket costs less. */
static void received(struct tcp_poller *poller, struct tcp_ep *ep)
{
    ep->tries = 0;
    if (ep->streak < STREAK && ++ep->streak == STREAK && !progress_watched(poller->progress) &&
        !ep->tx.blocked && !list_empty(&ep->hot))
        disarm(poller, ep);
}

/* The hot endpoint with the most polls in vain; NULL when all have just received. */
static struct tcp_ep *coldest(struct tcp_poller *poller)
{
    struct tcp_ep *found = NULL;

    list_for_each (pos, &poller->hot) {
        struct tcp_ep *ep = list_item(pos, struct tcp_ep, hot);

        if (ep->tries > (found ? found->tries : 0))
            found = ep;
    }
    return found;
}

void tcp_poller_heat(struct tcp_poller *poller, struct tcp_ep *ep)
{
    if (!list_empty(&ep->hot) || ep->fd < 0)
        return;
    if (poller->hot_count == HOT_MAX) {
        struct tcp_ep *other = coldest(poller);

        if (!other)
            return;
        cool(poller, other);
    }
    ep->tries = 0;
    ep->streak = 0;
    list_attach(&ep->hot, &poller->hot);
    poller->hot_count++;
    tcp_cm_lull(ep->cm, ep);
}

void tcp_poller_work(struct tcp_poller *poller, struct tcp_ep *ep)
{
    if (list_empty(&ep->work) && ep->fd >= 0)
        list_attach(&ep->work, &poller->work);
}

void tcp_poller_end(struct tcp_poller *poller, struct tcp_ep *ep)
{
    if (list_empty(&ep->ended))
        list_attach(&ep->ended, &poller->ended);
}

bool tcp_poller_fail_ended(struct tcp_poller *poller)
{
    bool some = !list_empty(&poller->ended);

    while (!list_empty(&poller->ended)) {
        struct tcp_ep *ep = list_item(poller->ended.next, struct tcp_ep, ended);

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
    ep->poller->blocked--;
    tcp_send_flush(ep);
}

/* Tries again where no event may come. */
static void flush(struct tcp_ep *ep)
{
    if (!ep->tx.promised)
        unblock(ep);
    tcp_send_flush(ep);
}

static bool can_read(const struct tcp_rx *rx)
{
    return rx->readable || rx->ended || rx->stash;
}

static void do_work(struct tcp_poller *poller)
{
    struct list todo;

    if (list_empty(&poller->work))
        return;
    list_init(&todo);
    list_join(&poller->work, &todo);
    while (!list_empty(&todo)) {
        struct tcp_ep *ep = list_item(todo.next, struct tcp_ep, work);

        list_detach(&ep->work);
        flush(ep);
        if (can_read(&ep->rx))
            tcp_receive_progress(ep);
    }
}

/* Posts made meanwhile leave; reading can wait. */
static void flush_work(struct tcp_poller *poller)
{
    struct list todo;

    list_init(&todo);
    list_join(&poller->work, &todo);
    while (!list_empty(&todo)) {
        struct tcp_ep *ep = list_item(todo.next, struct tcp_ep, work);

        list_detach(&ep->work);
        tcp_send_flush(ep);
        if (can_read(&ep->rx) || (ep->tx.blocked && !ep->tx.promised))
            tcp_poller_work(poller, ep);
    }
}

/* Ends what `driving` began. */
static inline void stop_driving(struct tcp_poller *poller)
{
    poller->driving = false;
    if (!list_empty(&poller->work))
        flush_work(poller);
}

/* A recv() locks the socket even when that is empty; segments that come meanwhile wait in its
 * backlog, and are taken out one by one, each with an acknowledgement of its own. epoll_wait locks
 * nothing, so that several segments gather for one call. */
static void await_bulk(struct tcp_poller *poller, struct tcp_ep *ep)
{
    ep->streak = 0;
    tcp_poller_arm(poller, ep);
    poller->until_poll = 0;
}

static bool look_further(struct tcp_poller *poller, struct tcp_ep *ep)
{
    const struct tcp_rx *rx = &ep->rx;

    if (rx->paused || rx->stash || ep->fd < 0)
        return false;
    if (!rx->active || rx->left < BULK || rx->readable)
        return tcp_receive_progress(ep);
    await_bulk(poller, ep);
    return false;
}

/* The processor has forgotten its callers after a system call, and mispredicts each return: the
 * look that mostly finds nothing is made here, not two calls deeper. */
static inline bool look_at(struct tcp_poller *poller, struct tcp_ep *ep)
{
    ssize_t got;

    if (!tcp_receive_plain(&ep->rx) || ep->fd < 0)
        return look_further(poller, ep);
    got = recv(ep->fd, poller->buffer, TCP_BUFFER, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) {
        ep->rx.readable = false;
        return false;
    }
    return tcp_receive_got(ep, got < 0 ? -errno : got);
}

/* A report may call back and change the hot list: each turn takes the first and puts it last. */
static void look_at_hot(struct tcp_poller *poller)
{
    for (unsigned left = poller->hot_count; left && !list_empty(&poller->hot); left--) {
        struct tcp_ep *ep = list_item(poller->hot.next, struct tcp_ep, hot);

        if (poller->hot_count > 1) {
            list_detach(&ep->hot);
            list_attach(&ep->hot, &poller->hot);
        }
        /* epoll tells of room only when a third of the socket buffer is free. */
        unblock(ep);
        if (look_at(poller, ep))
            received(poller, ep);
        else if (++ep->tries > HOT_TRIES)
            cool(poller, ep);
    }
}

/* True when the event led to work. */
static bool handle(struct tcp_poller *poller, struct tcp_ep *ep, uint32_t events)
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
        if (tcp_receive_progress(ep)) {
            ep->tries = 0;
            tcp_poller_heat(poller, ep);
        }
    } else if (events & (EPOLLHUP | EPOLLERR)) {
        /* Nothing can be sent any more; received messages wait for their receives. */
        ep->tx.error = FI_ECONNRESET;
        tcp_send_finish(ep, FI_ECONNRESET);
    }
    return true;
}

static bool poll_events(struct tcp_poller *poller)
{
    struct epoll_event events[EVENTS];
    bool useful = false;
    int count = epoll_wait(poller->epoll_fd, events, EVENTS, 0);

    for (int i = 0; i < count; i++)
        useful |= handle(poller, events[i].data.ptr, events[i].events);
    return useful;
}

/* A peer that hangs up on several endpoints has sent to all of them before. */
static void take_ended(struct tcp_poller *poller)
{
    if (list_empty(&poller->ended))
        return;
    look_at_hot(poller);
    poll_events(poller);
    tcp_poller_fail_ended(poller);
}

void tcp_poller_drive(struct tcp_poller *poller)
{
    if (poller->driving)
        return;
    if (poller->ring) {
        tcp_uring_progress(poller);
        return;
    }
    poller->driving = true;
    do_work(poller);
    take_ended(poller);
    stop_driving(poller);
}

static void poll_source(struct progress_source *source)
{
    struct tcp_poller *poller = object_of(source, struct tcp_poller, source);

    if (progress_forked(poller->progress))
        return;
    poller->epoch++;
    poller->driving = true;
    do_work(poller);
    /* Before the look, lest it delay the answer to what that finds. */
    if (!poller->hot_count || poller->blocked > HOT_MAX || !poller->until_poll) {
        poller->until_poll = POLL_EVERY;
        poll_events(poller);
    } else {
        poller->until_poll--;
    }
    look_at_hot(poller);
    take_ended(poller);
    stop_driving(poller);
}

static void progress_ring(struct progress_source *source)
{
    tcp_uring_progress(object_of(source, struct tcp_poller, source));
}

static int trywait_ring(struct progress_source *source)
{
    return tcp_uring_trywait(object_of(source, struct tcp_poller, source));
}

/* The events that epoll holds must be taken before a sleep: being edges, they would keep the fd
 * readable for nothing. */
static int trywait(struct progress_source *source)
{
    struct tcp_poller *poller = object_of(source, struct tcp_poller, source);

    list_for_each (pos, &poller->hot)
        tcp_poller_arm(poller, list_item(pos, struct tcp_ep, hot));
    if (!list_empty(&poller->work))
        return -FI_EAGAIN;
    poller->driving = true;
    bool useful = poll_events(poller);
    take_ended(poller);
    stop_driving(poller);
    return useful || !list_empty(&poller->work) ? -FI_EAGAIN : 0;
}

static void set_destroy(struct tcp_poller *poller)
{
    if (poller->ring)
        tcp_uring_close(poller);
    if (poller->epoll_fd >= 0)
        close(poller->epoll_fd);
    pool_finish(&poller->ops);
    pool_finish(&poller->targets);
    pool_finish(&poller->atomics);
    free(poller->buffer);
    free(poller);
}

static void use_epoll(struct tcp_poller *poller)
{
    poller->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    poller->source.fd = poller->epoll_fd;
    poller->source.poll = poll_source;
    poller->source.trywait = trywait;
}

/* As the parameter io says, or, where that is not to be had, with sockets. */
static void choose_io(struct tcp_poller *poller)
{
    struct tcp_fabric *fabric = poller->domain->fabric;
    const char *why;
    int rc;

    poller->epoll_fd = -1;
    if (!fabric->settings.uring) {
        use_epoll(poller);
        return;
    }
    rc = tcp_uring_open(poller, &why);
    if (rc) {
        tcp_fabric_say_no_uring(fabric, why, rc);
        use_epoll(poller);
        return;
    }
    poller->source.fd = tcp_uring_fd(poller);
    poller->source.poll = progress_ring;
    poller->source.trywait = trywait_ring;
}

static struct tcp_poller *set_create(struct tcp_domain *domain, struct progress *progress)
{
    struct tcp_poller *poller = calloc(1, sizeof(*poller));

    if (!poller)
        return NULL;
    poller->domain = domain;
    poller->progress = progress;
    list_init(&poller->link);
    list_init(&poller->hot);
    list_init(&poller->work);
    list_init(&poller->ended);
    pool_init(&poller->ops,
              sizeof(struct tcp_op) + TCP_WIRE_MAX + domain->fabric->settings.max_inject, 0);
    pool_init(&poller->targets, sizeof(struct tcp_target), 0);
    pool_init(&poller->atomics, sizeof(struct tcp_atomic), 0);
    poller->buffer = malloc(TCP_BUFFER);
    list_init(&poller->source.link);
    choose_io(poller);
    if (!poller->buffer || poller->source.fd < 0 || progress_attach(progress, &poller->source)) {
        set_destroy(poller);
        return NULL;
    }
    return poller;
}

int tcp_poller_join(struct tcp_domain *domain, struct progress *progress,
                    struct tcp_poller **result)
{
    struct tcp_poller *found = NULL;

    pthread_mutex_lock(&domain->mutex);
    list_for_each (pos, &domain->sets) {
        struct tcp_poller *poller = list_item(pos, struct tcp_poller, link);

        if (progress_root(poller->progress) == progress_root(progress))
            found = poller;
    }
    if (!found) {
        found = set_create(domain, progress);
        if (found) {
            progress_hold(progress);
            list_attach(&found->link, &domain->sets);
        }
    }
    if (found)
        found->users++;
    pthread_mutex_unlock(&domain->mutex);
    *result = found;
    return found ? 0 : -FI_ENOMEM;
}

struct progress *tcp_poller_leave(struct tcp_poller *poller)
{
    struct tcp_domain *domain = poller->domain;
    struct progress *progress = NULL;

    pthread_mutex_lock(&domain->mutex);
    if (--poller->users == 0) {
        progress = poller->progress;
        list_detach(&poller->link);
        progress_detach(progress, &poller->source);
        set_destroy(poller);
    }
    pthread_mutex_unlock(&domain->mutex);
    return progress;
}

int tcp_poller_add(struct tcp_poller *poller, struct tcp_ep *ep)
{
    return poller->ring ? tcp_uring_add(ep) : arm(poller, ep);
}

void tcp_poller_remove(struct tcp_poller *poller, struct tcp_ep *ep)
{
    leave_hot(poller, ep);
    disarm(poller, ep);
    list_detach(&ep->work);
    list_detach(&ep->ended);
    if (ep->tx.blocked) {
        ep->tx.blocked = false;
        poller->blocked--;
    }
}
