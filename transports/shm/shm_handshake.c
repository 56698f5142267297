/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Introduction. The side that has something to send makes the memory, connects, and sends a HELLO
 * with it and with its bell; from then on it may write. The other side answers a WELCOME with its
 * bell. Messages of one byte wake a sleeper. All that comes from the socket is checked.
 */
#include "transports/shm/shm_link_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "transports/shm/shm_fork.h"
#include "transports/shm/shm_memory.h"
#include "transports/shm/shm_numa.h"
#include "transports/shm/shm_peers.h"
#include "transports/shm/shm_xpmem.h"

enum {
    VERSION = 5,
    EVENTS = 64,
    HELLO_FDS = 2,
    WORDS = 64, /* read from one socket before others have their turn */
};

static const uint32_t magic = 0x57534d31; /* "WSM1" */

struct hello {
    uint32_t magic, version;
    uint32_t region;  /* bytes; 0 in a WELCOME */
    uint32_t number;  /* of the link in the bell that comes with it */
    uint32_t barrier; /* the sender of this can fence and be fenced */
    uint32_t one_way; /* and does not receive */
    int64_t segment;  /* its memory, for XPMEM; or 0 */
    uint64_t stamp;   /* of the link, at its sender; 0: none */
    uint64_t stamp_at;
    char name[SHM_NAME_MAX];
};

/* ---- Words on the socket ---- */

static int say(struct shm_link *link, const struct hello *hello, int region_fd)
{
    char space[CMSG_SPACE(HELLO_FDS * sizeof(int))] = {0};
    int fds[HELLO_FDS] = {link->ep->bell_fd, region_fd};
    size_t count = region_fd >= 0 ? 2 : 1;
    struct iovec iov = {(void *)(uintptr_t)hello, sizeof(*hello)};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = space,
                         .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

    cmsg->cmsg_level = SOL_SOCKET;
    cmsg->cmsg_type = SCM_RIGHTS;
    cmsg->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(cmsg), fds, count * sizeof(int));
    return sendmsg(link->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(*hello) ? 0 : -errno;
}

static struct hello make_hello(struct shm_link *link, uint32_t region)
{
    struct hello hello = {.magic = magic,
                          .version = VERSION,
                          .region = region,
                          .number = link->number,
                          .barrier = shm_fence_available(),
                          .one_way = link->ep->fid.fid.fclass == FI_CLASS_TX_CTX,
                          .segment = link->ep->segment,
                          .stamp = atomic_load(&link->stamp),
                          .stamp_at = (uint64_t)(uintptr_t)&link->stamp};

    memcpy(hello.name, link->ep->name, sizeof(hello.name));
    return hello;
}

/* Bytes of the next message on the socket, 0 at its end, negative: nothing. Descriptors go to fds,
 * -1 where there are none; *lost: for want of a place in the process. As long as there is something
 * to be introduced, the message stays where it is. */
static ssize_t hear(struct shm_link *link, struct hello *hello, int *fds, bool *lost)
{
    char space[CMSG_SPACE(HELLO_FDS * sizeof(int))];
    struct iovec iov = {hello, sizeof(*hello)};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space)};
    struct cmsghdr *cmsg;
    int peek = link->doorbell ? 0 : MSG_PEEK;
    ssize_t n = recvmsg(link->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | peek);

    *lost = false;
    for (int i = 0; i < HELLO_FDS; i++)
        fds[i] = -1;
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? -1 : 0;
    for (cmsg = CMSG_FIRSTHDR(&msg); cmsg; cmsg = CMSG_NXTHDR(&msg, cmsg)) {
        if (cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS)
            memcpy(fds, CMSG_DATA(cmsg),
                   cmsg->cmsg_len - CMSG_LEN(0) < HELLO_FDS * sizeof(int)
                       ? cmsg->cmsg_len - CMSG_LEN(0)
                       : HELLO_FDS * sizeof(int));
    }
    *lost = msg.msg_flags & MSG_CTRUNC && fds[HELLO_FDS - 1] < 0;
    return n;
}

/* Notes that the peer writes on this link. The connecting side does; the accepting side may never
 * do so, if both connected at once, and then the page of its half is not touched here. */
static void hear_first(struct shm_link *link)
{
    bool first = !link->heard;

    shm_link_heard(link);
    if (first)
        shm_heat(link);
}

/* Descriptors on their way count for a whole user, and may be too many for now. */
static bool is_passing(int rc)
{
    return rc == -ETOOMANYREFS || rc == -ENOBUFS;
}

/* The answer to an introduction. A peer that has gone needs none, but its messages are still to be
 * taken. A live peer learns by a shutdown of the socket that none will come. */
static void welcome(struct shm_link *link)
{
    struct hello hello = make_hello(link, 0);
    int rc = say(link, &hello, -1);

    link->owes = is_passing(rc);
    link->ep->owes |= link->owes;
    if (rc && !link->owes)
        shutdown(link->fd, SHUT_WR);
}

static void welcome_again(struct shm_ep *ep)
{
    ep->owes = false;
    list_for_each_safe (pos, after, &ep->links) {
        struct shm_link *link = list_item(pos, struct shm_link, all);

        if (!link->owes)
            continue;
        welcome(link);
        /* The peer could ring nothing until now. */
        if (!link->owes)
            shm_doorbell_set(ep->doorbell, link->number);
    }
}

/* Both, or none. 0, FI_EIO, FI_ENOMEM. */
static int map_both(const int *fds, bool first, void **doorbell, void **region)
{
    int err = shm_memory_map(fds[0], SHM_PAGE, doorbell);

    if (err || !first)
        return err;
    err = shm_memory_map(fds[1], SHM_REGION, region);
    if (err)
        munmap(*doorbell, SHM_PAGE);
    return err;
}

/* 0, FI_EIO, or FI_ENOMEM: nothing was done. */
static int introduce(struct shm_link *link, const struct hello *hello, const int *fds)
{
    bool first = !link->region;
    void *doorbell, *region;
    int err;

    if (hello->magic != magic || hello->version != VERSION || link->doorbell ||
        !shm_name_is_sound(hello->name) || (first && hello->region != SHM_REGION))
        return FI_EIO;
    err = map_both(fds, first, &doorbell, &region);
    if (err)
        return err;
    link->doorbell = doorbell;
    link->bell_number = hello->number;
    link->barrier = hello->barrier && shm_fence_available();
    link->fence = !link->barrier;
    link->one_way = hello->one_way;
    link->peer_stamp = hello->stamp;
    link->peer_stamp_at = hello->stamp_at;
    if (link->ep->domain->fabric->xpmem != SHM_OFF && shm_xpmem_is_there())
        link->segment = hello->segment;
    if (first && !shm_link_set_region(link, region, 1, hello->name)) {
        shm_link_fail(link, FI_ENOMEM);
    } else if (first) {
        welcome(link);
        hear_first(link);
    }
    return 0;
}

static int heed(struct shm_link *link, ssize_t n, const struct hello *hello, const int *fds)
{
    /* Bytes that are read here wake no sleeper any more. */
    if (!link->ep->in_progress)
        shm_wake(link->ep);
    if (n == 0) {
        link->ended = true;
        /* Or it has said nothing, in so many words: then this is the end, which is seen again. */
        shutdown(link->fd, SHUT_RDWR);
        return 0;
    }
    if (n != 1 || !link->region)
        return n == sizeof(*hello) ? introduce(link, hello, fds) : FI_EIO;
    hear_first(link);
    return 0;
}

static void say_it_waits(struct shm_ep *ep)
{
    if (!ep->waits_for_place)
        LOG_WARN(ep->domain->base.fabric->part, FI_LOG_EP_CTRL,
                 ": %s: no descriptors or no memory for connections; they wait", ep->name);
    ep->waits_for_place = true;
}

/* Reads one message. An introduction is peeked at first: the kernel drops descriptors for which the
 * process has no free slot, and there may be no memory for the link; until there is room for both
 * it stays in the kernel's queue. False: no more for now. */
static bool listen_once(struct shm_link *link)
{
    bool peeked = !link->doorbell, lost;
    struct hello hello;
    int fds[HELLO_FDS], err;
    ssize_t n = hear(link, &hello, fds, &lost);

    if (n < 0)
        return false;
    err = lost && peeked ? FI_ENOMEM : heed(link, n, &hello, fds);
    for (int fd = 0; fd < HELLO_FDS; fd++) {
        if (fds[fd] >= 0)
            close(fds[fd]);
    }
    if (err == FI_ENOMEM) {
        say_it_waits(link->ep);
        return false;
    }
    if (peeked && n)
        n = recv(link->fd, &hello, 1, MSG_DONTWAIT);
    if (err)
        shm_link_fail(link, err);
    return n > 0;
}

/* Reads the socket until it is empty, at most WORDS messages at a time. */
static void listen_to(struct shm_link *link)
{
    for (int i = 0; i < WORDS && !link->dead && listen_once(link); i++)
        ;
}

/* There is a request, and there are descriptors for it and its introduction. */
static bool may_accept(struct shm_ep *ep)
{
    struct pollfd state = {.fd = ep->listener, .events = POLLIN};
    int spare[1 + HELLO_FDS], count = 0;

    if (ep->listener < 0 || poll(&state, 1, 0) != 1)
        return false;
    while (count <= HELLO_FDS && (spare[count] = fcntl(ep->listener, F_DUPFD_CLOEXEC, 0)) >= 0)
        count++;
    for (int i = 0; i < count; i++)
        close(spare[i]);
    if (count <= HELLO_FDS)
        say_it_waits(ep);
    return count > HELLO_FDS;
}

/* The next request, or NULL where it was refused; false when there is none, or no memory for one:
 * it waits, since its sender may have been told already that its messages are on their way. */
static bool accept_link(struct shm_ep *ep, struct shm_link **link)
{
    int fd = -1;

    shm_fork_hold();
    *link = shm_link_new(ep);
    if (!*link)
        say_it_waits(ep);
    else
        fd = accept4(ep->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (*link && shm_link_open(*link, fd)) {
        *link = NULL;
        if (fd >= 0)
            close(fd);
    }
    shm_fork_let();
    return fd >= 0;
}

static void take_requests(struct shm_ep *ep)
{
    struct shm_link *link;

    while (may_accept(ep) && accept_link(ep, &link)) {
        ep->waits_for_place = false;
        if (link)
            listen_to(link);
    }
}

void shm_link_look(struct shm_ep *ep)
{
    struct epoll_event events[EVENTS];
    int count = epoll_wait(ep->source.fd, events, EVENTS, 0);

    for (int i = 0; i < count; i++) {
        struct shm_link *link = events[i].data.ptr;

        if (events[i].data.ptr == ep)
            continue; /* for sleepers; trywait takes it back */
        if (!link)
            take_requests(ep);
        else if (!link->dead)
            listen_to(link);
        if (link && link->ended && !link->dead && shm_link_is_empty(link))
            shm_link_fail(link, FI_ECONNRESET);
        else if (link && link->heard && !link->hot)
            shm_link_take_cold(link); /* the bell may not say so: another peer can write there */
    }
    if (ep->owes)
        welcome_again(ep);
}

void shm_link_ring(struct shm_link *link)
{
    if (!link->doorbell)
        listen_to(link);
    if (!link->doorbell)
        return;
    shm_doorbell_set(link->doorbell, link->bell_number);
    /* Another peer may erase a bell's bit by scribbling on it, but not this byte. */
    if (shm_tx_is_asked(&link->tx) || !link->told)
        link->told |= send(link->fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

/* ---- Finding and connecting ---- */

static int connect_link(struct shm_ep *ep, const struct sockaddr_un *sun, socklen_t len,
                        struct shm_link **link)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), rc = 0;

    if (fd < 0)
        return -errno;
    if (connect(fd, (const struct sockaddr *)sun, len))
        rc = -errno;
    else if (!(*link = shm_link_new(ep)))
        rc = -FI_ENOMEM;
    else
        rc = shm_link_open(*link, fd);
    if (rc) {
        *link = NULL;
        close(fd);
    }
    return rc;
}

/* Makes the memory, and says so. */
static int request(struct shm_link *link, const char *name)
{
    struct shm_ep *ep = link->ep;
    struct hello hello;
    void *region = NULL;
    int region_fd, rc = shm_memory_make(ep, "weft-shm-link", SHM_REGION, &region_fd, &region);

    if (rc)
        return rc;
    shm_numa_place(shm_numa(), region, 1, link->pid);
    if (!shm_link_set_region(link, region, 0, name))
        rc = -FI_ENOMEM;
    hello = make_hello(link, SHM_REGION);
    if (!rc)
        rc = say(link, &hello, region_fd);
    close(region_fd);
    /* The peer closed, or died, with the request in its queue: no endpoint listens there. */
    return rc == -ECONNRESET || rc == -EPIPE ? -ECONNREFUSED : rc;
}

static int connect_to(struct shm_ep *ep, const char *name, unsigned context,
                      struct shm_link **ret_link)
{
    struct sockaddr_un sun;
    socklen_t len = shm_name_socket(name, context, &sun);
    struct shm_link *link = NULL;
    int rc;

    shm_fork_hold();
    rc = connect_link(ep, &sun, len, &link);
    shm_fork_let();
    if (!link)
        return rc;
    link->context = (uint8_t)context;
    rc = request(link, name);
    if (rc) {
        shm_link_tear_down(link);
        shm_link_release(link);
        return rc;
    }
    link->told = true; /* by the request */
    *ret_link = link;
    return 0;
}

int shm_link_find(struct shm_ep *ep, fi_addr_t dest, struct shm_link **ret_link)
{
    unsigned bits = ep->base.av->rx_ctx_bits, context = bits ? (unsigned)(dest >> (64 - bits)) : 0;
    fi_addr_t index = bits ? dest & UINT64_MAX >> bits : dest;
    const char *name = av_addr(ep->base.av, index);
    struct shm_link *link;
    int rc = 0;

    if (!name || context >= SHM_CONTEXTS)
        return -FI_EINVAL;
    *ret_link = shm_peers_get(ep, context, index);
    if (*ret_link)
        return 0;
    link = shm_peers_find(ep, name, context);
    if (!link) {
        /* It may have asked for one already: two would do for one. */
        take_requests(ep);
        link = shm_peers_find(ep, name, context);
    }
    if (!link && shm_absent_lately(ep, dest))
        return -FI_EAGAIN;
    if (!link)
        rc = connect_to(ep, name, context, &link);
    if (rc == -ECONNREFUSED)
        return shm_absent_wait(ep, dest, name);
    if (is_passing(rc))
        rc = -FI_EAGAIN;
    if (rc)
        return rc;
    shm_absent_forget(ep, dest);
    rc = shm_peers_set(ep, context, index, link);
    if (!rc)
        *ret_link = link;
    return rc;
}
