/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "efa.h"
#include "loop.h"
#include "node.h"
#include "object.h"
#include "packet.h"
#include "report.h"
#include "settings.h"

enum {
    BACKLOG = 1024,
    READ_BURST = 16, /* packets of one connection before the others have their turn */
    LIST_AGE_MS = 50,
};

/* The socket of another process's packets to us. */
struct inlet {
    struct list link;
    struct watch watch;
};

static struct list inlets = {&inlets, &inlets};
static struct watch listener = {.fd = -1};
static unsigned own_id;
static union {
    struct wire_packet header;
    char bytes[sizeof(struct wire_packet) + WIRE_PAYLOAD + 1];
} buffer;

unsigned node_id(void)
{
    return own_id;
}

socklen_t node_address(struct sockaddr_un *address, const char *name)
{
    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    int length = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1,
                          "weft-emulator/%s/%s", settings()->net, name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

bool node_peer_trusted(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == getuid() || peer.uid == 0);
}

static void close_inlet(struct inlet *inlet)
{
    loop_unwatch(&inlet->watch);
    list_detach(&inlet->link);
    close(inlet->watch.fd);
    free(inlet);
}

static void read_inlet(struct watch *watch, uint32_t events)
{
    struct inlet *inlet = list_item(watch, struct inlet, watch);
    struct wire_packet packet;
    const char *why;

    for (int i = 0; i < READ_BURST; i++) {
        ssize_t count = recv(watch->fd, buffer.bytes, sizeof(buffer.bytes), MSG_DONTWAIT);
        if (count < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (count <= 0) {
            close_inlet(inlet);
            return;
        }
        if (!wire_decode(buffer.bytes, (size_t)count, &packet, &why)) {
            report_say("a packet of %zd bytes was dropped: %s", count, why);
            continue;
        }
        packet_receive(&packet, buffer.bytes + sizeof(packet));
    }
}

static void accept_inlet(struct watch *watch, uint32_t events)
{
    int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0)
        return;
    struct inlet *inlet = node_peer_trusted(fd) ? calloc(1, sizeof(*inlet)) : NULL;
    if (!inlet) {
        close(fd);
        return;
    }
    inlet->watch.fd = fd;
    inlet->watch.ready = read_inlet;
    if (loop_watch(&inlet->watch, EPOLLIN)) {
        close(fd);
        free(inlet);
        return;
    }
    list_attach(&inlet->link, &inlets);
}

/* Takes the first free number, from one that the seed and the process decide. */
static int claim_number(int fd)
{
    struct sockaddr_un address;
    char name[16];
    unsigned first = settings()->limits.reuse ? 0 : (unsigned)getpid() + settings_random();
    unsigned count = 1u << (EFA_NUMBER_BITS - efa_place_bits());

    for (unsigned i = 0; i < count; i++) {
        own_id = (first + i) % count;
        /* The last one would make queue pair numbers that mean "multicast". */
        if (own_id == WIRE_NODES - 1)
            continue;
        snprintf(name, sizeof(name), "node%u", own_id);
        socklen_t length = node_address(&address, name);
        if (bind(fd, (struct sockaddr *)&address, length) == 0)
            return 0;
        if (errno != EADDRINUSE)
            return errno;
    }
    report_say("all %u numbers of processes are taken in network '%s'", count, settings()->net);
    return EAGAIN;
}

/* A child of fork is another process: its sockets are the parent's, and the objects too. */
static void leave_to_parent(void)
{
    if (listener.fd >= 0)
        close(listener.fd);
    listener.fd = -1;
    while (!list_empty(&inlets)) {
        struct inlet *inlet = list_item(inlets.next, struct inlet, link);
        list_detach(&inlet->link);
        close(inlet->watch.fd);
        free(inlet);
    }
    link_forget_all();
    object_forget_all();
}

int node_start(void)
{
    static bool watching;

    if (listener.fd >= 0)
        return 0;
    int rc = loop_start();
    if (!rc && !watching)
        rc = pthread_atfork(NULL, NULL, leave_to_parent);
    if (rc)
        return rc;
    watching = true;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno;
    rc = claim_number(fd);
    if (!rc && listen(fd, BACKLOG))
        rc = errno;
    listener.fd = fd;
    listener.ready = accept_inlet;
    if (!rc)
        rc = loop_watch(&listener, EPOLLIN);
    if (rc) {
        close(fd);
        listener.fd = -1;
    }
    return rc;
}

static unsigned read_list(unsigned *ids, unsigned max)
{
    char line[512], prefix[80];
    unsigned count = 0;
    FILE *file = fopen("/proc/net/unix", "re");

    snprintf(prefix, sizeof(prefix), "@weft-emulator/%s/node", settings()->net);
    while (file && count < max && fgets(line, sizeof(line), file)) {
        char *name = strstr(line, prefix);
        if (!name)
            continue;
        unsigned id = (unsigned)strtoul(name + strlen(prefix), NULL, 10);
        bool seen = id >= WIRE_NODES;
        for (unsigned i = 0; i < count && !seen; i++)
            seen = ids[i] == id;
        if (!seen)
            ids[count++] = id;
    }
    if (file)
        fclose(file);
    return count;
}

unsigned node_list(unsigned *ids, unsigned max)
{
    static unsigned known[WIRE_NODES], count;
    static uint64_t read_at;

    if (!read_at || loop_now() - read_at > LIST_AGE_MS * 1000000ull) {
        count = read_list(known, WIRE_NODES);
        read_at = loop_now();
    }
    unsigned taken = count < max ? count : max;
    memcpy(ids, known, taken * sizeof(*ids));
    return taken;
}
