/* SPDX-License-Identifier: BSD-2-Clause */
/* Making and freeing links; shm_handshake.c has the messages on their sockets. */
#include "transports/shm/shm_link_impl.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/fork.h"
#include "core/base/log.h"
#include "core/match/match_entry.h"
#include "transports/shm/shm_backlog.h"
#include "transports/shm/shm_fork.h"
#include "transports/shm/shm_memory.h"
#include "transports/shm/shm_op.h"
#include "transports/shm/shm_peers.h"
#include "transports/shm/shm_xpmem.h"

enum {
    BACKLOG = 4096,
    OVERFLOW_UID = 65534,
};

int shm_link_start(struct shm_ep *ep)
{
    const struct shm_fabric *fabric = ep->domain->fabric;
    struct epoll_event event = {.events = EPOLLIN}, wake = event;
    void *memory = NULL;
    int rc;

    ep->source.fd = epoll_create1(EPOLL_CLOEXEC);
    if (ep->source.fd < 0)
        return -errno;
    rc = shm_memory_make(ep, "weft-shm-bell", SHM_PAGE, &ep->bell_fd, &memory);
    if (rc)
        return rc;
    ep->doorbell = memory;
    if (fabric->xpmem != SHM_OFF)
        ep->segment = shm_xpmem_segment(fabric->base.part, fabric->xpmem == SHM_ON);
    ep->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    wake.data.ptr = ep;
    if (ep->wake_fd < 0 || epoll_ctl(ep->source.fd, EPOLL_CTL_ADD, ep->wake_fd, &wake))
        return -errno;
    if (ep->listener >= 0 && (listen(ep->listener, BACKLOG) ||
                              epoll_ctl(ep->source.fd, EPOLL_CTL_ADD, ep->listener, &event)))
        return -errno;
    return 0;
}

/* ---- Making and freeing ---- */

static uint32_t free_number(struct shm_ep *ep)
{
    uint32_t old = ep->number_count, count = old ? 2 * old : 16;
    struct shm_link **numbers;

    for (uint32_t i = ep->number_free; i < ep->number_count; i++) {
        if (!ep->numbers[i]) {
            ep->number_free = i + 1;
            return i;
        }
    }
    numbers = realloc(ep->numbers, count * sizeof(struct shm_link *));
    if (!numbers)
        return UINT32_MAX;
    memset(numbers + old, 0, (count - old) * sizeof(struct shm_link *));
    ep->numbers = numbers;
    ep->number_count = count;
    ep->number_free = old + 1;
    return old;
}

/* In a user namespace all users without a mapping have the same number. */
static bool is_same_user(const struct ucred *cred)
{
    if (cred->uid != geteuid())
        return false;
    if (cred->uid != OVERFLOW_UID)
        return true;
    return cred->pid && (!kill(cred->pid, 0) || errno != EPERM);
}

static int check_peer(const struct shm_link *link, int fd, struct ucred *cred)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = (void *)link};
    socklen_t len = sizeof(*cred);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, cred, &len))
        return -errno;
    if (!is_same_user(cred))
        return -FI_EACCES;
    return epoll_ctl(link->ep->source.fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

/* 0, which is none, where there is no randomness. */
static uint64_t random_stamp(void)
{
    uint64_t stamp;

    return getrandom(&stamp, sizeof(stamp), GRND_NONBLOCK) == sizeof(stamp) ? stamp : 0;
}

static void give_number_back(struct shm_link *link)
{
    struct shm_ep *ep = link->ep;

    ep->numbers[link->number] = NULL;
    if (link->number < ep->number_free)
        ep->number_free = link->number;
}

struct shm_link *shm_link_new(struct shm_ep *ep)
{
    struct shm_link *link = aligned_alloc(64, (sizeof(*link) + 63) & ~(size_t)63);

    if (!link)
        return NULL;
    memset(link, 0, sizeof(*link));
    link->ep = ep;
    link->fd = -1;
    link->addr = FI_ADDR_UNSPEC;
    link->fence = true;
    link->cross_read = link->cross_tells = true;
    link->refs = 1;
    link->number = free_number(ep);
    if (link->number == UINT32_MAX) {
        free(link);
        return NULL;
    }
    list_init(&link->busy);
    list_init(&link->controls);
    list_init(&link->backlog);
    list_init(&link->streams);
    list_init(&link->undecided);
    list_init(&link->ops);
    list_init(&link->all);
    list_init(&link->held);
    list_init(&link->unasked);
    list_init(&link->named);
    return link;
}

int shm_link_open(struct shm_link *link, int fd)
{
    struct shm_ep *ep = link->ep;
    struct ucred cred = {.pid = 0};
    int rc = check_peer(link, fd, &cred);

    if (rc) {
        give_number_back(link);
        free(link);
        return rc;
    }
    link->fd = fd;
    link->pid = cred.pid;
    link->own = cred.pid == getpid();
    atomic_init(&link->stamp, random_stamp());
    ep->numbers[link->number] = link;
    list_attach(&link->all, &ep->links);
    return 0;
}

bool shm_link_set_region(struct shm_link *link, void *region, int half, const char *name)
{
    link->region = region;
    shm_tx_init(&link->tx, region, half);
    shm_rx_init(&link->rx, region, !half);
    link->name = strndup(name, SHM_NAME_MAX - 1);
    if (!link->name || !shm_peers_add(link))
        return false;
    shm_av_resolve(link);
    return true;
}

void shm_link_release(struct shm_link *link)
{
    if (--link->refs)
        return;
    free(link->name);
    free(link);
}

static void close_socket(struct shm_link *link)
{
    struct shm_ep *ep = link->ep;

    atomic_store(&link->stamp, 0);
    shm_fork_hold();
    give_number_back(link);
    if (link->fd >= 0) {
        if (ep->forks == fork_generation) {
            epoll_ctl(ep->source.fd, EPOLL_CTL_DEL, link->fd, NULL);
            shutdown(link->fd, SHUT_RDWR);
        }
        close(link->fd);
    }
    link->fd = -1;
    shm_fork_let();
}

void shm_link_unmap(struct shm_link *link)
{
    shm_maps_close(link->maps);
    link->maps = NULL;
    link->segment = 0;
}

void shm_link_tear_down(struct shm_link *link)
{
    struct shm_ep *ep = link->ep;

    if (link->hot)
        shm_cool(link);
    while (!list_empty(&link->controls)) {
        struct list *first = link->controls.next;

        list_detach(first);
        pool_put(&ep->controls, first);
    }
    list_detach(&link->busy);
    list_detach(&link->held);
    list_detach(&link->unasked);
    list_detach(&link->all);
    shm_peers_remove(link);
    close_socket(link);
    if (link->region)
        munmap(link->region, SHM_REGION);
    if (link->doorbell)
        munmap(link->doorbell, SHM_PAGE);
    shm_link_unmap(link);
    link->region = NULL;
    link->doorbell = NULL;
}

void shm_link_fail(struct shm_link *link, int err)
{
    struct shm_ep *ep = link->ep;

    if (link->dead)
        return;
    if (err == FI_EIO || err == FI_ENOMEM)
        LOG_WARN(ep->domain->base.fabric->part, FI_LOG_EP_DATA, ": %s: %s %s (pid %d) %s", ep->name,
                 err == FI_EIO ? "what" : "no memory for what", link->name ? link->name : "a peer",
                 (int)link->pid,
                 err == FI_EIO ? "wrote makes no sense; it is cut off" : "wrote; it is cut off");
    link->dead = true;
    link->err = err;
    list_detach(&link->all);
    list_attach(&link->all, &ep->dead);
    shm_peers_forget(ep, link);
    if (link->name)
        shm_absent_gone(ep, link->name, link->context);
}

bool shm_link_has_gone(const struct shm_link *link)
{
    struct pollfd state = {.fd = link->fd, .events = POLLRDHUP};

    return poll(&state, 1, 0) == 1 && state.revents & (POLLRDHUP | POLLHUP | POLLERR);
}

void shm_link_bury(struct shm_ep *ep)
{
    while (!list_empty(&ep->dead)) {
        struct shm_link *link = list_item(ep->dead.next, struct shm_link, all);

        shm_link_tear_down(link);
        while (!list_empty(&link->ops))
            shm_op_abort(list_item(link->ops.next, struct shm_op, link_ops), link->err);
        shm_backlog_fail(link);
        shm_link_release(link);
    }
}

static void drop_ops(struct shm_link *link)
{
    while (!list_empty(&link->ops)) {
        struct shm_op *op = list_item(link->ops.next, struct shm_op, link_ops);

        if (op->entry)
            match_entry_free(op->entry);
        shm_op_put(op);
    }
    shm_backlog_drop(link);
}

void shm_link_close_all(struct shm_ep *ep)
{
    if (ep->forks == fork_generation)
        shm_backlog_linger(ep);
    list_join(&ep->dead, &ep->links);
    while (!list_empty(&ep->links)) {
        struct shm_link *link = list_item(ep->links.next, struct shm_link, all);

        if (ep->forks == fork_generation && link->region && !link->dead)
            shm_control_flush(link);
        link->dead = true; /* nothing begins any more */
        drop_ops(link);
        shm_link_tear_down(link);
        shm_link_release(link);
    }
    shm_absent_forget(ep, FI_ADDR_UNSPEC);
    shm_fork_hold();
    if (ep->listener >= 0)
        close(ep->listener);
    ep->listener = -1;
    shm_fork_let();
    if (ep->source.fd >= 0)
        close(ep->source.fd);
    if (ep->bell_fd >= 0)
        close(ep->bell_fd);
    if (ep->doorbell)
        munmap(ep->doorbell, SHM_PAGE);
    if (ep->wake_fd >= 0)
        close(ep->wake_fd);
    ep->source.fd = ep->bell_fd = ep->wake_fd = -1;
    ep->doorbell = NULL;
}
