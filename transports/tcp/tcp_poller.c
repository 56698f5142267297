/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/tcp/tcp_poller.h"

#include <errno.h>
#include <sys/epoll.h>

#include <rdma/fi_errno.h>

#include "transports/tcp/tcp_conn.h"

/* ---- epoll ---- */

static int arm(struct tcp_conn *conn)
{
    struct epoll_event event = {
        .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
        .data.ptr = conn,
    };

    if (conn->armed || conn->fd < 0)
        return 0;
    if (epoll_ctl(conn->poller->epoll_fd, EPOLL_CTL_ADD, conn->fd, &event))
        return -errno;
    conn->armed = true;
    return 0;
}

void tcp_poller_disarm(struct tcp_conn *conn)
{
    /* The epoll fd of a forked process is its parent's, too. */
    if (conn->armed && !progress_forked(conn->poller->progress))
        epoll_ctl(conn->poller->epoll_fd, EPOLL_CTL_DEL, conn->fd, NULL);
    conn->armed = false;
}

/* Adding a socket tells at once what has happened to it meanwhile. */
void tcp_poller_arm(struct tcp_conn *conn)
{
    if (arm(conn)) {
        /* Without epoll it stays a matter of looking. */
        conn->readable = true;
        tcp_poller_work(conn);
    }
}

void tcp_poller_block(struct tcp_conn *conn, bool promised)
{
    conn->blocked = true;
    conn->promised = promised;
    conn->poller->blocked++;
    tcp_poller_heat(conn);
    tcp_poller_arm(conn);
    if (!promised)
        tcp_poller_work(conn);
}

void tcp_poller_unblock(struct tcp_conn *conn)
{
    if (!conn->blocked)
        return;
    conn->blocked = false;
    conn->poller->blocked--;
}

/* ---- Hot endpoints ---- */

static void leave_hot(struct tcp_conn *conn)
{
    if (list_empty(&conn->hot))
        return;
    list_detach(&conn->hot);
    conn->poller->hot_count--;
}

void tcp_poller_cool(struct tcp_conn *conn)
{
    leave_hot(conn);
    tcp_poller_arm(conn);
}

/* The hot endpoint with the most polls in vain; NULL when all have just received. */
static struct tcp_conn *coldest(struct tcp_poller *poller)
{
    struct tcp_conn *found = NULL;

    list_for_each (pos, &poller->hot) {
        struct tcp_conn *conn = list_item(pos, struct tcp_conn, hot);

        if (conn->tries > (found ? found->tries : 0))
            found = conn;
    }
    return found;
}

void tcp_poller_heat(struct tcp_conn *conn)
{
    struct tcp_poller *poller = conn->poller;

    if (!list_empty(&conn->hot) || conn->fd < 0)
        return;
    if (poller->hot_count == TCP_HOT_MAX) {
        struct tcp_conn *other = coldest(poller);

        if (!other)
            return;
        tcp_poller_cool(other);
    }
    conn->tries = 0;
    conn->streak = 0;
    list_attach(&conn->hot, &poller->hot);
    poller->hot_count++;
    tcp_cm_lull(&conn->guard);
}

void tcp_poller_work(struct tcp_conn *conn)
{
    if (list_empty(&conn->work) && conn->fd >= 0)
        list_attach(&conn->work, &conn->poller->work);
}

void tcp_poller_work_off(struct tcp_poller *poller, void (*turn)(struct tcp_conn *conn))
{
    struct list todo;

    list_init(&todo);
    list_join(&poller->work, &todo);
    while (!list_empty(&todo)) {
        struct tcp_conn *conn = list_item(todo.next, struct tcp_conn, work);

        list_detach(&conn->work);
        turn(conn);
    }
}

void tcp_poller_end(struct tcp_conn *conn)
{
    if (list_empty(&conn->ending))
        list_attach(&conn->ending, &conn->poller->ended);
}

bool tcp_poller_fail_ended(struct tcp_poller *poller)
{
    bool some = !list_empty(&poller->ended);

    while (!list_empty(&poller->ended)) {
        struct tcp_conn *conn = list_item(poller->ended.next, struct tcp_conn, ending);

        list_detach(&conn->ending);
        tcp_conn_fail(conn, FI_ENOTCONN);
    }
    return some;
}

int tcp_poller_add(struct tcp_conn *conn)
{
    return conn->poller->io ? conn->poller->io->add(conn) : arm(conn);
}

void tcp_poller_remove(struct tcp_conn *conn)
{
    leave_hot(conn);
    tcp_poller_disarm(conn);
    list_detach(&conn->work);
    list_detach(&conn->ending);
    tcp_poller_unblock(conn);
}
