/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Introduction. The side that has something to send makes the memory, connects, and sends a HELLO
 * with it and with its bell; from then on it may write. The other side answers a WELCOME with its
 * bell. Messages of one byte wake a sleeper. All that comes from the socket is checked.
 */
#include "transports/shm/shm_link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/fork.h"
#include "core/log.h"
#include "transports/shm/shm_fork.h"
#include "transports/shm/shm_op.h"
#include "transports/shm/shm_peers.h"
#include "transports/shm/shm_place.h"
#include "transports/shm/shm_xpmem.h"

enum {
    VERSION = 4,
    BACKLOG = 4096,
    EVENTS = 64,
    HELLO_FDS = 2,
    WORDS = 64, /* read from one socket before others have their turn */
    OVERFLOW_UID = 65534,
    SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
};

static const uint32_t magic = 0x57534d31; /* "WSM1" */

struct hello {
    uint32_t magic, version;
    uint32_t region;  /* bytes; 0 in a WELCOME */
    uint32_t number;  /* of the link in the bell that comes with it */
    uint32_t barrier; /* the sender of this can fence and be fenced */
    uint32_t one_way; /* and does not receive */
    int64_t segment;  /* its memory, for XPMEM; or 0 */
    char name[SHM_NAME_MAX];
};

/* ---- Memory ---- */

/* A memfd is a file to the kernel, which kills who makes one larger than is allowed. */
static int check_file_size(const struct shm_ep *ep, size_t size)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur >= size)
        return 0;
    LOG_WARN(ep->domain->base.fabric->part, FI_LOG_EP_CTRL,
             ": %s: files of %zu bytes are not allowed (ulimit -f), nor is shared memory then",
             ep->name, size);
    return -EFBIG;
}

static int make_memory(const struct shm_ep *ep, const char *what, size_t size, int *fd,
                       void **memory)
{
    int rc = check_file_size(ep, size);

    *fd = -1;
    if (rc)
        return rc;
    *fd = memfd_create(what, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*fd < 0)
        return -errno;
    *memory = MAP_FAILED;
    if (!ftruncate(*fd, (off_t)size) && !fcntl(*fd, F_ADD_SEALS, SEALS))
        *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (*memory != MAP_FAILED)
        return 0;
    rc = -errno;
    close(*fd);
    return rc;
}

/* Memory of the peer's: of the size that it must have, and that nobody can cut off. 0, FI_EIO, or
 * FI_ENOMEM, which is not the peer's fault. */
static int map_memory(int fd, size_t size, void **ret_memory)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat st;
    void *memory;

    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) || st.st_size != (off_t)size)
        return FI_EIO;
    memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return errno == ENOMEM || errno == EAGAIN ? FI_ENOMEM : FI_EIO;
    *ret_memory = memory;
    return 0;
}

/* ---- The listener ---- */

int shm_listener_bind(const char *name, unsigned context, int *listener)
{
    struct sockaddr_un sun;
    socklen_t len = shm_name_socket(name, context, &sun);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -errno;
    if (bind(fd, (struct sockaddr *)&sun, len)) {
        int rc = -errno;

        close(fd);
        return rc;
    }
    if (*listener >= 0)
        close(*listener);
    *listener = fd;
    return 0;
}

bool shm_listener_is_bound(const char *name)
{
    int fd = -1, rc = shm_listener_bind(name, 0, &fd);

    if (fd >= 0)
        close(fd);
    return rc == -EADDRINUSE;
}

int shm_listener_open(char *name, int *listener)
{
    static atomic_uint counter;
    char complete[SHM_NAME_MAX];
    int rc = -EADDRINUSE;

    if (!shm_name_is_open(name))
        return shm_listener_bind(name, 0, listener);
    for (int tries = 0; rc == -EADDRINUSE && tries < 65536; tries++) {
        rc = shm_name_complete(name, atomic_fetch_add(&counter, 1), complete);
        if (!rc)
            rc = shm_listener_bind(complete, 0, listener);
    }
    if (!rc)
        memcpy(name, complete, sizeof(complete));
    return rc;
}

int shm_link_start(struct shm_ep *ep)
{
    const struct shm_fabric *fabric = ep->domain->fabric;
    struct epoll_event event = {.events = EPOLLIN}, wake = event;
    void *memory = NULL;
    int rc;

    ep->source.fd = epoll_create1(EPOLL_CLOEXEC);
    if (ep->source.fd < 0)
        return -errno;
    rc = make_memory(ep, "weft-shm-bell", SHM_PAGE, &ep->bell_fd, &memory);
    if (rc)
        return rc;
    ep->bell = memory;
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

/* In a user namespace all whom it does not know have the same number. */
static bool is_same_user(const struct ucred *cred)
{
    if (cred->uid != geteuid())
        return false;
    if (cred->uid != OVERFLOW_UID)
        return true;
    return cred->pid && (!kill(cred->pid, 0) || errno != EPERM);
}

/* 0, -FI_ENOMEM, -FI_EACCES (a peer of another user), or what the kernel said. */
static int check_peer(const struct shm_link *link, struct ucred *cred, struct epoll_event *event)
{
    socklen_t len = sizeof(*cred);

    if (link->number == UINT32_MAX)
        return -FI_ENOMEM;
    if (getsockopt(link->fd, SOL_SOCKET, SO_PEERCRED, cred, &len))
        return -errno;
    if (!is_same_user(cred))
        return -FI_EACCES;
    return epoll_ctl(link->ep->source.fd, EPOLL_CTL_ADD, link->fd, event) ? -errno : 0;
}

/* Forks are held, since the socket was made. */
static int new_link(struct shm_ep *ep, int fd, struct shm_link **ret_link)
{
    struct shm_link *link = aligned_alloc(64, (sizeof(*link) + 63) & ~(size_t)63);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = link};
    struct ucred cred = {.pid = 0};
    int rc;

    if (!link)
        return -FI_ENOMEM;
    memset(link, 0, sizeof(*link));
    link->ep = ep;
    link->fd = fd;
    link->addr = FI_ADDR_UNSPEC;
    link->fence = true;
    link->cross_read = link->cross_tells = true;
    link->refs = 1;
    link->number = free_number(ep);
    list_init(&link->busy);
    list_init(&link->controls);
    list_init(&link->streams);
    list_init(&link->ops);
    list_init(&link->all);
    list_init(&link->held);
    list_init(&link->unasked);
    list_init(&link->named);
    rc = check_peer(link, &cred, &event);
    if (rc) {
        if (link->number < ep->number_free)
            ep->number_free = link->number;
        free(link);
        return rc;
    }
    link->pid = cred.pid;
    ep->numbers[link->number] = link;
    list_attach(&link->all, &ep->links);
    *ret_link = link;
    return 0;
}

static bool set_region(struct shm_link *link, void *region, int half, const char *name)
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

    shm_fork_hold();
    ep->numbers[link->number] = NULL;
    if (link->number < ep->number_free)
        ep->number_free = link->number;
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

/* The socket and the memory go; the struct stays for those who refer to it. */
static void tear_down(struct shm_link *link)
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
    if (link->bell)
        munmap(link->bell, SHM_PAGE);
    shm_link_unmap(link);
    link->region = NULL;
    link->bell = NULL;
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
}

void shm_link_bury(struct shm_ep *ep)
{
    while (!list_empty(&ep->dead)) {
        struct shm_link *link = list_item(ep->dead.next, struct shm_link, all);

        tear_down(link);
        while (!list_empty(&link->ops))
            shm_op_abort(list_item(link->ops.next, struct shm_op, link_ops), link->err);
        shm_link_release(link);
    }
}

static void drop_ops(struct shm_link *link)
{
    while (!list_empty(&link->ops)) {
        struct shm_op *op = list_item(link->ops.next, struct shm_op, link_ops);

        if (op->entry)
            op->entry->srx->owner_ops->free_entry(op->entry);
        shm_op_put(op);
    }
}

void shm_link_close_all(struct shm_ep *ep)
{
    list_join(&ep->dead, &ep->links);
    while (!list_empty(&ep->links)) {
        struct shm_link *link = list_item(ep->links.next, struct shm_link, all);

        if (ep->forks == fork_generation && link->region && !link->dead)
            shm_control_flush(link);
        drop_ops(link);
        tear_down(link);
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
    if (ep->bell)
        munmap(ep->bell, SHM_PAGE);
    if (ep->wake_fd >= 0)
        close(ep->wake_fd);
    ep->source.fd = ep->bell_fd = ep->wake_fd = -1;
    ep->bell = NULL;
}

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
                          .segment = link->ep->segment};

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
    int peek = link->bell ? 0 : MSG_PEEK;
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

/* The peer writes on this link. Whoever connects does; the other side may never, if both connected
 * at once, and then the page of its half is not touched here. */
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

/* The answer to an introduction. A peer that has gone needs none, but what it wrote is still to be
 * taken. One that is there is told when there will be none. */
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
            shm_bell_set(ep->bell, link->number);
    }
}

/* Both, or none. 0, FI_EIO, FI_ENOMEM. */
static int map_both(const int *fds, bool first, void **bell, void **region)
{
    int err = map_memory(fds[0], SHM_PAGE, bell);

    if (err || !first)
        return err;
    err = map_memory(fds[1], SHM_REGION, region);
    if (err)
        munmap(*bell, SHM_PAGE);
    return err;
}

/* 0, FI_EIO, or FI_ENOMEM: nothing was done. */
static int introduce(struct shm_link *link, const struct hello *hello, const int *fds)
{
    bool first = !link->region;
    void *bell, *region;
    int err;

    if (hello->magic != magic || hello->version != VERSION || link->bell ||
        !shm_name_is_sound(hello->name) || (first && hello->region != SHM_REGION))
        return FI_EIO;
    err = map_both(fds, first, &bell, &region);
    if (err)
        return err;
    link->bell = bell;
    link->bell_number = hello->number;
    link->barrier = hello->barrier && shm_fence_available();
    link->fence = !link->barrier;
    link->one_way = hello->one_way;
    if (link->ep->domain->fabric->xpmem != SHM_OFF && shm_xpmem_is_there())
        link->segment = hello->segment;
    if (first && !set_region(link, region, 1, hello->name)) {
        shm_link_fail(link, FI_ENOMEM);
    } else if (first) {
        welcome(link);
        hear_first(link);
    }
    return 0;
}

static int heed(struct shm_link *link, ssize_t n, const struct hello *hello, const int *fds)
{
    /* What is read here wakes nobody any more. */
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

/* One message. What finds no place for its descriptors in the process is lost, and what was sent
 * into memory that finds none: until there is some it stays in the kernel's queue. False: no more
 * for now. */
static bool listen_once(struct shm_link *link)
{
    bool peeked = !link->bell, lost;
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

/* Reads the socket to its end, or as much as it may say at a time. */
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

/* The next request, or NULL; false when there is none. */
static bool accept_link(struct shm_ep *ep, struct shm_link **link)
{
    int fd;

    *link = NULL;
    shm_fork_hold();
    fd = accept4(ep->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0 && new_link(ep, fd, link))
        close(fd);
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
    if (!link->bell)
        listen_to(link);
    if (!link->bell)
        return;
    shm_bell_set(link->bell, link->bell_number);
    /* A bell may be lost, if another peer scribbles on it: what is said here is not. */
    if (shm_tx_is_asked(&link->tx) || !link->told)
        link->told |= send(link->fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

/* ---- Finding and connecting ---- */

static int connect_link(struct shm_ep *ep, const struct sockaddr_un *sun, socklen_t len,
                        struct shm_link **link)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), rc;

    if (fd < 0)
        return -errno;
    rc = connect(fd, (const struct sockaddr *)sun, len) ? -errno : new_link(ep, fd, link);
    if (rc)
        close(fd);
    return rc;
}

/* Makes the memory, and says so. */
static int request(struct shm_link *link, const char *name)
{
    struct shm_ep *ep = link->ep;
    struct hello hello;
    void *region = NULL;
    int region_fd, rc = make_memory(ep, "weft-shm-link", SHM_REGION, &region_fd, &region);

    if (rc)
        return rc;
    shm_place(shm_numa(), region, 1, link->pid);
    if (!set_region(link, region, 0, name))
        rc = -FI_ENOMEM;
    hello = make_hello(link, SHM_REGION);
    if (!rc)
        rc = say(link, &hello, region_fd);
    close(region_fd);
    /* It closed, or died, with the request in its queue: nobody is there. */
    return rc == -ECONNRESET || rc == -EPIPE ? -ECONNREFUSED : rc;
}

static int connect_to(struct shm_ep *ep, const char *name, unsigned context,
                      struct shm_link **ret_link)
{
    struct sockaddr_un sun;
    socklen_t len = shm_name_socket(name, context, &sun);
    struct shm_link *link;
    int rc;

    shm_fork_hold();
    rc = connect_link(ep, &sun, len, &link);
    shm_fork_let();
    if (rc)
        return rc;
    link->context = (uint8_t)context;
    rc = request(link, name);
    if (rc) {
        tear_down(link);
        shm_link_release(link);
        return rc;
    }
    link->told = true; /* by the request */
    *ret_link = link;
    return 0;
}

int shm_link_find(struct shm_ep *ep, fi_addr_t dest, struct shm_link **ret_link)
{
    unsigned bits = ep->av->rx_ctx_bits, context = bits ? (unsigned)(dest >> (64 - bits)) : 0;
    fi_addr_t index = bits ? dest & UINT64_MAX >> bits : dest;
    const char *name = av_addr(ep->av, index);
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
