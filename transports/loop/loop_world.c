/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "transports/loop/loop.h"

_Thread_local uint64_t loop_calls[LOOP_CALLS];

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct list ports = {&ports, &ports};

/* Below the range that Linux assigns by default, so that no endpoint holds a port that the kernel
 * gave to a test. */
enum {
    FIRST_FREE_PORT = 16384,
    FREE_PORTS = 32768 - FIRST_FREE_PORT
};
static unsigned last_given = FREE_PORTS - 1;

void loop_world_lock(void)
{
    pthread_mutex_lock(&mutex);
}

void loop_world_unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

struct loop_port *loop_port_look(const union addr *addr)
{
    list_for_each (pos, &ports) {
        struct loop_port *port = list_item(pos, struct loop_port, link);

        if (addr_equal(&port->addr.sa, &addr->sa))
            return port;
    }
    return NULL;
}

/* Gives the wanted address, with a free port where it has none. */
static int name_locked(struct loop_port *port, const union addr *addr)
{
    union addr wanted = *addr;

    if (addr_port(&wanted.sa)) {
        if (loop_port_look(&wanted))
            return -FI_EADDRINUSE;
        port->addr = wanted;
        return 0;
    }
    for (unsigned n = 0; n < FREE_PORTS; n++) {
        last_given = (last_given + 1) % FREE_PORTS; /* an address is not another's right after */
        addr_set_port(&wanted.sa, (uint16_t)(FIRST_FREE_PORT + last_given));
        if (loop_port_look(&wanted))
            continue;
        port->addr = wanted;
        return 0;
    }
    return -FI_EADDRINUSE;
}

int loop_port_open(const union addr *addr, struct loop_port **ret_port)
{
    struct loop_port *port = calloc(1, sizeof(*port));
    int rc;

    if (!port)
        return -FI_ENOMEM;
    list_init(&port->inbox);
    list_init(&port->done);
    atomic_init(&port->refs, 1);
    atomic_init(&port->armed, true);
    port->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    loop_world_lock();
    rc = name_locked(port, addr);
    if (!rc)
        list_attach(&port->link, &ports);
    loop_world_unlock();
    if (rc) {
        close(port->fd);
        free(port);
        return rc;
    }
    *ret_port = port;
    return 0;
}

int loop_port_rename(struct loop_port *port, const union addr *addr)
{
    int rc = 0;

    loop_world_lock();
    if (!addr_equal(&port->addr.sa, &addr->sa))
        rc = name_locked(port, addr);
    loop_world_unlock();
    return rc;
}

void loop_port_close(struct loop_port *port)
{
    loop_world_lock();
    list_detach(&port->link);
    loop_world_unlock();
    loop_port_release(port);
}

struct loop_port *loop_port_find(const union addr *addr)
{
    struct loop_port *port;

    loop_world_lock();
    port = loop_port_look(addr);
    if (port)
        loop_port_hold(port);
    loop_world_unlock();
    return port;
}

void loop_port_release(struct loop_port *port)
{
    if (!port || atomic_fetch_sub(&port->refs, 1) != 1)
        return;
    if (port->fd >= 0)
        close(port->fd);
    free(port);
}

void loop_port_wake(struct loop_port *port)
{
    uint64_t one = 1;

    if (!atomic_load(&port->armed) || !atomic_exchange(&port->armed, false))
        return;
    if (write(port->fd, &one, sizeof(one)) < 0)
        return; /* full: it is readable already */
}

void loop_port_arm(struct loop_port *port)
{
    uint64_t count;

    if (atomic_load(&port->armed))
        return;
    if (read(port->fd, &count, sizeof(count)) < 0)
        count = 0; /* the waker has not written yet: its wake will be for nothing */
    atomic_store(&port->armed, true);
}
