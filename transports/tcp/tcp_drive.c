/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/tcp/tcp_drive.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "transports/tcp/tcp_atomic.h"
#include "transports/tcp/tcp_conn.h"
#include "transports/tcp/tcp_domain.h"
#include "transports/tcp/tcp_fast.h"
#include "transports/tcp/tcp_receive.h"
#include "transports/tcp/tcp_send.h"
#include "transports/tcp/tcp_uring_io.h"

enum {
    HOT_TRIES = 512, /* fruitless looks after which a connection cools */
    POLL_EVERY = 32, /* progress calls, while something is hot */
    EVENTS = 64,     /* of one epoll_wait */
    STREAK = 16,     /* messages after which a hot one leaves epoll */
    BULK = 16384,    /* bytes of a payload still to come that epoll tells of */
};

/* epoll reports each message to the poller. While messages follow each other and no reader sleeps
 * on the fd, polling the socket costs less. */
static void received(struct tcp_poller *poller, struct tcp_conn *conn)
{
    conn->tries = 0;
    if (conn->streak < STREAK && ++conn->streak == STREAK && !progress_watched(poller->progress) &&
        !conn->blocked && !list_empty(&conn->hot))
        tcp_poller_disarm(conn);
}

static void unblock(struct tcp_conn *conn)
{
    if (!conn->blocked)
        return;
    tcp_poller_unblock(conn);
    tcp_send_flush(conn->tx);
}

static bool can_read(const struct tcp_conn *conn)
{
    return conn->readable || conn->ended || conn->rx->stash;
}

/* Tries again where no event may come. */
static void send_and_receive(struct tcp_conn *conn)
{
    if (!conn->promised)
        unblock(conn);
    tcp_send_flush(conn->tx);
    if (can_read(conn))
        tcp_receive_progress(conn->rx);
}

/* Posts made meanwhile leave; reading can wait. */
static void send_only(struct tcp_conn *conn)
{
    tcp_send_flush(conn->tx);
    if (can_read(conn) || (conn->blocked && !conn->promised))
        tcp_poller_work(conn);
}

static inline void do_work(struct tcp_poller *poller)
{
    if (!list_empty(&poller->work))
        tcp_poller_work_off(poller, send_and_receive);
}

/* Ends what `driving` began. */
static inline void stop_driving(struct tcp_poller *poller)
{
    poller->driving = false;
    if (!list_empty(&poller->work))
        tcp_poller_work_off(poller, send_only);
}

/* A recv() locks the socket even when that is empty; segments that come meanwhile wait in its
 * backlog, and are taken out one by one, each with an acknowledgement of its own. epoll_wait locks
 * nothing, so that several segments gather for one call. */
static void await_bulk(struct tcp_poller *poller, struct tcp_conn *conn)
{
    conn->streak = 0;
    tcp_poller_arm(conn);
    poller->until_poll = 0;
}

static bool look_further(struct tcp_poller *poller, struct tcp_conn *conn)
{
    const struct tcp_rx *rx = conn->rx;

    if (rx->paused || rx->stash || conn->fd < 0)
        return false;
    if (!rx->active || rx->left < BULK || conn->readable)
        return tcp_receive_progress(conn->rx);
    await_bulk(poller, conn);
    return false;
}

/* The processor has forgotten its callers after a system call, and mispredicts each return: the
 * look that mostly finds nothing is made here, not two calls deeper. */
static inline bool look_at(struct tcp_poller *poller, struct tcp_conn *conn)
{
    ssize_t got;

    if (!tcp_receive_plain(conn->rx) || conn->fd < 0)
        return look_further(poller, conn);
    got = recv(conn->fd, poller->buffer, TCP_BUFFER, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) {
        conn->readable = false;
        return false;
    }
    return tcp_receive_got(conn->rx, got < 0 ? -errno : got);
}

/* A report may call back and change the hot list: each turn takes the first and puts it last. */
static void look_at_hot(struct tcp_poller *poller)
{
    for (unsigned left = poller->hot_count; left && !list_empty(&poller->hot); left--) {
        struct tcp_conn *conn = list_item(poller->hot.next, struct tcp_conn, hot);

        if (poller->hot_count > 1) {
            list_detach(&conn->hot);
            list_attach(&conn->hot, &poller->hot);
        }
        /* epoll tells of room only when a third of the socket buffer is free. */
        unblock(conn);
        if (look_at(poller, conn))
            received(poller, conn);
        else if (++conn->tries > HOT_TRIES)
            tcp_poller_cool(conn);
    }
}

/* True when the event led to work. */
static bool handle(struct tcp_poller *poller, struct tcp_conn *conn, uint32_t events)
{
    bool useful = conn->blocked && events & EPOLLOUT;

    if (conn->fd < 0)
        return false;
    if (events & EPOLLOUT)
        unblock(conn);
    if (!(events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
        return useful;
    conn->readable = true;
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        conn->ended = true;
    if (!conn->rx->paused && !conn->rx->stash) {
        if (tcp_receive_progress(conn->rx)) {
            conn->tries = 0;
            tcp_poller_heat(conn);
        }
    } else if (events & (EPOLLHUP | EPOLLERR)) {
        /* Nothing can be sent any more; received messages wait for their receives. */
        conn->error = FI_ECONNRESET;
        tcp_send_finish(conn->tx, FI_ECONNRESET);
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

void tcp_drive_pending(struct tcp_poller *poller)
{
    if (poller->driving)
        return;
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
    if (!poller->hot_count || poller->blocked > TCP_HOT_MAX || !poller->until_poll) {
        poller->until_poll = POLL_EVERY;
        poll_events(poller);
    } else {
        poller->until_poll--;
    }
    look_at_hot(poller);
    take_ended(poller);
    stop_driving(poller);
}

/* The events that epoll holds must be taken before a sleep: being edges, they would keep the fd
 * readable for nothing. */
static int trywait(struct progress_source *source)
{
    struct tcp_poller *poller = object_of(source, struct tcp_poller, source);

    list_for_each (pos, &poller->hot)
        tcp_poller_arm(list_item(pos, struct tcp_conn, hot));
    if (!list_empty(&poller->work))
        return -FI_EAGAIN;
    poller->driving = true;
    bool useful = poll_events(poller);
    take_ended(poller);
    stop_driving(poller);
    return useful || !list_empty(&poller->work) ? -FI_EAGAIN : 0;
}

static void poller_destroy(struct tcp_poller *poller)
{
    if (poller->io)
        poller->io->close(poller);
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
    }
}

static struct tcp_poller *poller_create(struct tcp_domain *domain, struct progress *progress)
{
    struct tcp_poller *poller = calloc(1, sizeof(*poller));
    size_t room = domain->fabric->settings.max_inject; /* of a record, for payload */

    if (!poller)
        return NULL;
    if (room < TCP_FAST_ROOM)
        room = TCP_FAST_ROOM;
    poller->domain = domain;
    poller->progress = progress;
    list_init(&poller->link);
    list_init(&poller->hot);
    list_init(&poller->work);
    list_init(&poller->ended);
    pool_init(&poller->ops, sizeof(struct tcp_op) + TCP_WIRE_MAX + room, 0);
    pool_init(&poller->targets, sizeof(struct tcp_target), 0);
    pool_init(&poller->atomics, sizeof(struct tcp_atomic), 0);
    poller->buffer = malloc(TCP_BUFFER);
    list_init(&poller->source.link);
    choose_io(poller);
    if (!poller->buffer || poller->source.fd < 0 || progress_attach(progress, &poller->source)) {
        poller_destroy(poller);
        return NULL;
    }
    return poller;
}

int tcp_drive_join(struct tcp_domain *domain, struct progress *progress, struct tcp_poller **result)
{
    struct tcp_poller *found = NULL;

    pthread_mutex_lock(&domain->mutex);
    list_for_each (pos, &domain->sets) {
        struct tcp_poller *poller = list_item(pos, struct tcp_poller, link);

        if (progress_root(poller->progress) == progress_root(progress))
            found = poller;
    }
    if (!found) {
        found = poller_create(domain, progress);
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

struct progress *tcp_drive_leave(struct tcp_poller *poller)
{
    struct tcp_domain *domain = poller->domain;
    struct progress *progress = NULL;

    pthread_mutex_lock(&domain->mutex);
    if (--poller->users == 0) {
        progress = poller->progress;
        list_detach(&poller->link);
        progress_detach(progress, &poller->source);
        poller_destroy(poller);
    }
    pthread_mutex_unlock(&domain->mutex);
    return progress;
}
