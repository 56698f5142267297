/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/tcp/tcp_cm.h"

#include <errno.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

enum {
    EVENTS = 64
};

int tcp_cm_watch(struct tcp_cm *cm, int fd, uint32_t events, struct tcp_cm_item *item)
{
    struct epoll_event event = {.events = events, .data.ptr = item};

    return epoll_ctl(cm->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

int tcp_cm_rewatch(struct tcp_cm *cm, int fd, uint32_t events, struct tcp_cm_item *item)
{
    struct epoll_event event = {.events = events, .data.ptr = item};

    return epoll_ctl(cm->epoll_fd, EPOLL_CTL_MOD, fd, &event) ? -errno : 0;
}

void tcp_cm_unwatch(struct tcp_cm *cm, int fd)
{
    /* The epoll fd of a forked process is its parent's, too. */
    if (!progress_forked(cm->progress))
        epoll_ctl(cm->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

/* ---- Connected endpoints ---- */

void tcp_cm_guard(struct tcp_guard *guard, int fd)
{
    pthread_mutex_lock(&guard->cm->watch_mutex);
    guard->fd = fd;
    list_attach(&guard->unwatched, &guard->cm->unwatched);
    pthread_mutex_unlock(&guard->cm->watch_mutex);
}

void tcp_cm_lull(struct tcp_guard *guard)
{
    pthread_mutex_lock(&guard->cm->watch_mutex);
    if (guard->watched) {
        guard->watched = false;
        tcp_cm_unwatch(guard->cm, guard->fd);
        list_attach(&guard->unwatched, &guard->cm->unwatched);
    }
    pthread_mutex_unlock(&guard->cm->watch_mutex);
}

void tcp_cm_unguard(struct tcp_guard *guard)
{
    pthread_mutex_lock(&guard->cm->watch_mutex);
    list_detach(&guard->unwatched);
    if (guard->watched)
        tcp_cm_unwatch(guard->cm, guard->fd);
    guard->watched = false;
    pthread_mutex_unlock(&guard->cm->watch_mutex);
}

/* The EQ has a reader. Changes since are events at once. */
static void watch_all(struct tcp_cm *cm)
{
    pthread_mutex_lock(&cm->watch_mutex);
    while (!list_empty(&cm->unwatched)) {
        struct tcp_guard *guard = list_item(cm->unwatched.next, struct tcp_guard, unwatched);

        list_detach(&guard->unwatched);
        guard->watched = !tcp_cm_watch(cm, guard->fd, EPOLLRDHUP | EPOLLET, &guard->item);
    }
    pthread_mutex_unlock(&cm->watch_mutex);
}

/* ---- Deadlines ---- */

static struct tcp_handshake *first_waiting(struct tcp_cm *cm)
{
    return list_empty(&cm->waiting) ? NULL
                                    : list_item(cm->waiting.next, struct tcp_handshake, link);
}

void tcp_cm_wait(struct tcp_cm *cm, struct tcp_handshake *handshake)
{
    struct list *pos = &cm->waiting;

    while (pos->prev != &cm->waiting &&
           list_item(pos->prev, struct tcp_handshake, link)->deadline > handshake->deadline)
        pos = pos->prev;
    list_detach(&handshake->link);
    list_attach_before(&handshake->link, pos);
}

void tcp_cm_arm(struct tcp_cm *cm)
{
    struct tcp_handshake *first = first_waiting(cm);
    long long next = first ? first->deadline : 0;

    /* The timer of a forked process is its parent's, too. */
    if (progress_forked(cm->progress))
        return;
    if (list_empty(&cm->resting))
        cm->retry = 0;
    else if (!cm->retry)
        cm->retry = clock_ms() + TCP_CM_RETRY_MS;
    if (cm->retry && (!next || cm->retry < next))
        next = cm->retry;
    if (next == cm->armed)
        return;

    long long left = next ? next - clock_ms() : 0;
    struct itimerspec spec = {{0, 0}, {0, 0}};
    if (next && left < 1)
        left = 1;
    spec.it_value.tv_sec = left / 1000;
    spec.it_value.tv_nsec = left % 1000 * 1000000;
    timerfd_settime(cm->timer_fd, 0, &spec, NULL);
    cm->armed = next;
}

static void expire(struct tcp_cm *cm)
{
    uint64_t count;
    long long now = clock_ms();
    struct tcp_handshake *first;

    while (read(cm->timer_fd, &count, sizeof(count)) < 0 && errno == EINTR)
        ;
    cm->armed = 0;
    while ((first = first_waiting(cm)) && first->deadline <= now) {
        if (first->ep)
            tcp_connect_expired(first);
        else
            tcp_pep_expired(first);
    }
    if (cm->retry && cm->retry <= now)
        tcp_pep_wake(cm);
    tcp_cm_arm(cm);
}

/* The timer comes last: it frees what other events of the batch may point to. */
static void poll_source(struct progress_source *source)
{
    struct tcp_cm *cm = object_of(source, struct tcp_cm, source);
    struct epoll_event events[EVENTS];
    bool timer = false;

    if (progress_forked(cm->progress))
        return;
    watch_all(cm);
    int count = epoll_wait(cm->epoll_fd, events, EVENTS, 0);
    for (int i = 0; i < count; i++) {
        struct tcp_cm_item *item = events[i].data.ptr;

        if (item == &cm->timer)
            timer = true;
        else
            item->ready(item, events[i].events);
    }
    if (timer)
        expire(cm);
}

static int trywait(struct progress_source *source)
{
    watch_all(object_of(source, struct tcp_cm, source));
    return 0;
}

static int open_fds(struct tcp_cm *cm)
{
    cm->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    cm->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (cm->epoll_fd < 0 || cm->timer_fd < 0)
        return -errno;
    return tcp_cm_watch(cm, cm->timer_fd, EPOLLIN, &cm->timer);
}

/* Also of one half made. */
static void destroy(struct tcp_cm *cm)
{
    if (cm->progress) {
        progress_lock(cm->progress);
        progress_detach(cm->progress, &cm->source);
        progress_unlock(cm->progress);
        progress_release(cm->progress);
    }
    if (cm->timer_fd >= 0)
        close(cm->timer_fd);
    if (cm->epoll_fd >= 0)
        close(cm->epoll_fd);
    pthread_mutex_destroy(&cm->watch_mutex);
    free(cm);
}

static int create(struct tcp_fabric *fabric, struct tcp_cm **result)
{
    struct tcp_cm *cm = calloc(1, sizeof(*cm));

    if (!cm)
        return -FI_ENOMEM;
    cm->fabric = fabric;
    cm->epoll_fd = cm->timer_fd = -1;
    list_init(&cm->link);
    list_init(&cm->waiting);
    list_init(&cm->resting);
    list_init(&cm->unwatched);
    pthread_mutex_init(&cm->watch_mutex, NULL);
    list_init(&cm->source.link);
    int rc = open_fds(cm);
    if (!rc)
        rc = progress_create_control(fabric->base.part, &cm->progress);
    if (rc) {
        destroy(cm);
        return rc;
    }
    cm->source.fd = cm->epoll_fd;
    cm->source.poll = poll_source;
    cm->source.trywait = trywait;
    progress_lock(cm->progress);
    rc = progress_attach(cm->progress, &cm->source);
    progress_unlock(cm->progress);
    if (rc)
        destroy(cm);
    else
        *result = cm;
    return rc;
}

/* ---- The EQ ---- */

static int eq_close(struct fid *fid)
{
    struct tcp_cm *cm = object_of(fid->ops, struct tcp_cm, ops);
    struct tcp_fabric *fabric = cm->fabric;

    /* The fabric must outlive this. */
    children_hold(&fabric->base.children);
    int rc = cm->eq_ops->close(fid);
    if (!rc) {
        pthread_mutex_lock(&fabric->cms_mutex);
        list_detach(&cm->link);
        pthread_mutex_unlock(&fabric->cms_mutex);
        destroy(cm);
    }
    children_release(&fabric->base.children);
    return rc;
}

static int join_fabric(struct tcp_fabric *fabric, struct tcp_cm *cm)
{
    pthread_mutex_lock(&fabric->cms_mutex);
    int rc = fabric->control_auto ? progress_start_thread(cm->progress) : 0;
    if (!rc)
        list_attach(&cm->link, &fabric->cms);
    pthread_mutex_unlock(&fabric->cms_mutex);
    return rc;
}

int tcp_eq_open(struct fid_fabric *fid, struct fi_eq_attr *attr, struct fid_eq **eq, void *context)
{
    struct tcp_fabric *fabric = object_of(fid, struct tcp_fabric, base.fid);
    struct tcp_cm *cm;
    int rc = create(fabric, &cm);

    if (rc)
        return rc;
    rc = join_fabric(fabric, cm);
    if (rc)
        goto destroy_cm;
    rc = eq_open(&fabric->base, cm->progress, attr, eq, context);
    if (rc)
        goto leave_fabric;
    cm->eq_ops = (*eq)->fid.ops;
    cm->ops = *cm->eq_ops;
    cm->ops.close = eq_close;
    (*eq)->fid.ops = &cm->ops;
    return 0;

leave_fabric:
    pthread_mutex_lock(&fabric->cms_mutex);
    list_detach(&cm->link);
    pthread_mutex_unlock(&fabric->cms_mutex);
destroy_cm:
    destroy(cm);
    return rc;
}

/* ---- One exchange ---- */

void tcp_handshake_destroy(struct tcp_handshake *handshake)
{
    if (!handshake)
        return;
    list_detach(&handshake->link);
    pcap_flow_close(handshake->flow);
    if (handshake->fd >= 0) {
        if (handshake->phase != TCP_PHASE_RAISED)
            tcp_cm_unwatch(handshake->cm, handshake->fd);
        close(handshake->fd);
    }
    free(handshake);
}

int tcp_handshake_read(struct tcp_handshake *handshake, const char **why)
{
    for (;;) {
        int want = tcp_cm_decode(handshake->bytes, handshake->have, &handshake->message, why);

        if (want < 0)
            return want;
        if (handshake->have == (size_t)want)
            return 1;
        ssize_t got = recv(handshake->fd, handshake->bytes + handshake->have,
                           (size_t)want - handshake->have, MSG_DONTWAIT);
        if (got == 0) {
            *why = "closed by the peer";
            return -FI_ECONNRESET;
        }
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return 0;
        if (got < 0) {
            int err = errno;

            *why = fi_strerror(err);
            return -err;
        }
        if (pcap_on(handshake->flow))
            pcap_received_buffer(handshake->flow, handshake->bytes + handshake->have, (size_t)got);
        handshake->have += (size_t)got;
    }
}

int tcp_handshake_send(struct tcp_handshake *handshake, enum tcp_cm_type type, const void *data,
                       size_t data_len)
{
    uint8_t bytes[TCP_CM_MAX];
    size_t len = tcp_cm_encode(type, data, data_len, bytes);
    ssize_t sent = send(handshake->fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (sent < 0)
        return -errno;
    if (pcap_on(handshake->flow))
        pcap_sent_buffer(handshake->flow, bytes, (size_t)sent);
    return (size_t)sent == len ? 0 : -FI_EIO;
}

struct tcp_handshake *tcp_handshake_claim(struct tcp_fabric *fabric, const struct fid *handle)
{
    struct tcp_handshake *found = NULL;

    pthread_mutex_lock(&fabric->raised_mutex);
    list_for_each (pos, &fabric->raised) {
        struct tcp_handshake *handshake = list_item(pos, struct tcp_handshake, link);

        if (&handshake->fid == handle)
            found = handshake;
    }
    if (found) {
        list_detach(&found->link);
        found->pep = NULL;
    }
    pthread_mutex_unlock(&fabric->raised_mutex);
    return found;
}

/* ---- Sockets ---- */

void tcp_socket_tune(const struct tcp_settings *settings, int fd)
{
    const int on = 1;

    if (settings->nodelay)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static bool is_local(int fd)
{
    union addr own, peer;
    socklen_t own_size = sizeof(own), peer_size = sizeof(peer);

    return !getsockname(fd, &own.sa, &own_size) && !getpeername(fd, &peer.sa, &peer_size) &&
           addr_same_host(&own.sa, &peer.sa);
}

/* Inside of a host no network is to be spared. A congestion control that paces what it sends (bbr)
 * mistakes the moment at which a receiver looks for a distance. reno is in every kernel, open to
 * every program, and without losses never in the way. */
void tcp_socket_connected(const struct tcp_settings *settings, int fd)
{
    static const char reno[] = "reno";
    int bytes = settings->local_buffer_size > INT_MAX ? INT_MAX : (int)settings->local_buffer_size;

    if (!is_local(fd))
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, reno, sizeof(reno) - 1);
    if (settings->local_buffer_size != SIZE_MAX)
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

int tcp_socket(const struct tcp_settings *settings, sa_family_t family)
{
    const int on = 1;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    tcp_socket_tune(settings, fd);
    return fd;
}
