/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory.h"

#include <netinet/in.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include <rdma/fi_errno.h>

#include "core/base/list.h"
#include "transports/uet/nic/nic.h"
#include "transports/uet/nic/path.h"
#include "transports/uet/wire/address.h"

enum {
    WAITING = 64, /* packets */
    PIECES = 16,
    HEAD = 512, /* bytes of a packet's first piece */
    BATCH = 32, /* packets that one look takes */
    REFUSALS = 16,
    STEP = 1000, /* ns */
    PAYLOAD = 1024,
    HOSTS = 0x0a000001, /* as switch_addr numbers them */
};

#define SECOND UINT64_C(1000000000)

/* A packet that waits for uet_nic_flush: what it names is read only then. */
struct leaving {
    union addr to;
    struct iovec iov[PIECES];
    size_t count;
    uint8_t head[HEAD];
    uint8_t *copy; /* of the other pieces, where they do not stay */
};

struct arrived {
    struct list link;
    union addr from;
    size_t len;
    uint8_t bytes[];
};

struct uet_nic {
    unsigned port;
    union addr addr;
    struct leaving leaving[WAITING];
    unsigned waiting;
    struct list inbox; /* struct arrived */
    struct uet_nic_refusal refusals[REFUSALS];
    unsigned refused;
};

struct memory memory;
static struct uet_nic **ports;

/* ---- The world ---- */

static void refuse(unsigned from, unsigned port, const uint8_t *bytes, size_t len)
{
    struct uet_nic *sender = ports[from];
    struct uet_nic_refusal *refusal;

    memory.refused++;
    if (!sender || sender->refused == REFUSALS)
        return;
    refusal = &sender->refusals[sender->refused++];
    refusal->to = switch_addr(port);
    refusal->len = len < UET_NIC_QUOTE ? len : UET_NIC_QUOTE;
    memcpy(refusal->quote, bytes, refusal->len);
}

static void deliver(void *arg, unsigned port, const union addr *from, const uint8_t *bytes,
                    size_t len)
{
    struct arrived *arrived;

    if (!ports[port]) {
        refuse(ntohl(from->in.sin_addr.s_addr) - HOSTS, port, bytes, len);
        return;
    }
    arrived = malloc(sizeof(*arrived) + len);
    if (!arrived)
        abort();
    arrived->from = *from;
    arrived->len = len;
    memcpy(arrived->bytes, bytes, len);
    list_init(&arrived->link);
    list_attach(&arrived->link, &ports[port]->inbox);
}

void memory_begin(uint64_t seed, unsigned count)
{
    uint64_t before = memory.sw.now;

    memory = (struct memory){.step = STEP, .payload = PAYLOAD};
    switch_init(&memory.sw, seed, count);
    memory.sw.now = (before / SECOND + 1) * SECOND; /* time never goes back */
    memory.sw.deliver = deliver;
    ports = calloc(count, sizeof(struct uet_nic *));
    if (!ports)
        abort();
}

void memory_end(void)
{
    for (unsigned i = 0; i < memory.sw.ports; i++)
        if (ports[i])
            abort();
    switch_finish(&memory.sw);
    free(ports);
}

/* In the place of the C library's: a function that a program links itself comes first. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
    now->tv_sec = (time_t)(memory.sw.now / SECOND);
    now->tv_nsec = (long)(memory.sw.now % SECOND);
    return 0;
}

ssize_t getrandom(void *bytes, size_t len, unsigned flags)
{
    for (size_t i = 0; i < len; i++)
        ((uint8_t *)bytes)[i] = (uint8_t)switch_random(&memory.sw);
    return (ssize_t)len;
}

/* Nothing else runs in this world, whatever shares the processor outside of it. */
int sched_yield(void)
{
    return 0;
}

/* ---- nic/path.h ---- */

uint32_t uet_path_longest(int mtu)
{
    return memory.payload;
}

uint32_t uet_path_payload(struct uet_paths *paths, const union addr *from, const union addr *to,
                          uint32_t most, uint32_t otherwise)
{
    return memory.payload;
}

/* ---- nic/nic.h ---- */

static bool is_port(const union addr *addr)
{
    return addr->sa.sa_family == AF_INET &&
           ntohl(addr->in.sin_addr.s_addr) - HOSTS < memory.sw.ports;
}

int uet_nic_open(const union addr *addr, const struct uet_nic_settings *settings,
                 struct uet_nic **ret_nic)
{
    unsigned port = 0;
    struct uet_nic *nic;

    if (is_port(addr))
        port = ntohl(addr->in.sin_addr.s_addr) - HOSTS;
    else
        while (port < memory.sw.ports && ports[port])
            port++;
    if (port == memory.sw.ports)
        return -FI_EADDRNOTAVAIL;
    if (ports[port])
        return -FI_EADDRINUSE;
    nic = calloc(1, sizeof(*nic));
    if (!nic)
        return -FI_ENOMEM;
    nic->port = port;
    nic->addr = switch_addr(port);
    memory.dscp = settings->dscp;
    list_init(&nic->inbox);
    ports[port] = nic;
    *ret_nic = nic;
    return 0;
}

static void forget_arrived(struct arrived *arrived)
{
    list_detach(&arrived->link);
    free(arrived);
}

static void leave(struct uet_nic *nic, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct leaving *leaving = &nic->leaving[i];

        switch_send(&memory.sw, nic->port, &leaving->to, leaving->iov, leaving->count);
        free(leaving->copy);
    }
    nic->waiting -= count;
    memmove(nic->leaving, nic->leaving + count, nic->waiting * sizeof(nic->leaving[0]));
    for (unsigned i = 0; i < nic->waiting; i++)
        nic->leaving[i].iov[0].iov_base = nic->leaving[i].head;
}

void uet_nic_close(struct uet_nic *nic)
{
    if (!nic)
        return;
    leave(nic, nic->waiting);
    list_for_each_safe (pos, after, &nic->inbox)
        forget_arrived(list_item(pos, struct arrived, link));
    ports[nic->port] = NULL;
    free(nic);
}

const union addr *uet_nic_addr(const struct uet_nic *nic)
{
    return &nic->addr;
}

uint16_t uet_nic_pid(const struct uet_nic *nic)
{
    return 0;
}

uint64_t uet_nic_ids(const struct uet_nic *nic)
{
    return UINT64_MAX;
}

bool uet_nic_more_ids(struct uet_nic *nic)
{
    return false;
}

/* A waiter polls every millisecond. */
int uet_nic_fd(const struct uet_nic *nic)
{
    return -1;
}

/* The pieces that go with the call: in one. */
static void copy_rest(struct leaving *leaving)
{
    size_t len = 0;

    for (size_t i = 1; i < leaving->count; i++)
        len += leaving->iov[i].iov_len;
    leaving->copy = len ? malloc(len) : NULL;
    if (len && !leaving->copy)
        abort();
    len = 0;
    for (size_t i = 1; i < leaving->count; i++) {
        if (leaving->iov[i].iov_len)
            memcpy(leaving->copy + len, leaving->iov[i].iov_base, leaving->iov[i].iov_len);
        leaving->iov[i].iov_base = leaving->copy + len;
        len += leaving->iov[i].iov_len;
    }
}

void uet_nic_send(struct uet_nic *nic, const union addr *to, const struct iovec *iov, size_t count,
                  bool stays)
{
    struct leaving *leaving;

    if (count > PIECES || iov[0].iov_len > HEAD)
        abort();
    if (nic->waiting == WAITING)
        leave(nic, 1);
    leaving = &nic->leaving[nic->waiting++];
    leaving->to = *to;
    leaving->count = count;
    leaving->copy = NULL;
    memcpy(leaving->iov, iov, count * sizeof(*iov));
    memcpy(leaving->head, iov[0].iov_base, iov[0].iov_len);
    leaving->iov[0].iov_base = leaving->head;
    if (!stays)
        copy_rest(leaving);
}

unsigned uet_nic_waiting(const struct uet_nic *nic)
{
    return nic->waiting;
}

bool uet_nic_flush(struct uet_nic *nic)
{
    if (nic->waiting && memory.full && switch_random(&memory.sw) % 1000 < memory.full) {
        leave(nic, nic->waiting / 2);
        return false;
    }
    leave(nic, nic->waiting);
    return true;
}

bool uet_nic_warms(const struct uet_nic *nic)
{
    return false;
}

int uet_nic_heat(struct uet_nic *nic)
{
    return -1;
}

void uet_nic_freeze(struct uet_nic *nic)
{
}

void uet_nic_before_sleep(struct uet_nic *nic)
{
}

void uet_nic_forget(struct uet_nic *nic)
{
    memory.forgotten += nic->waiting;
    leave(nic, nic->waiting);
}

unsigned uet_nic_receive(struct uet_nic *nic, uint64_t now,
                         void (*take)(void *arg, const union addr *from, const uint8_t *bytes,
                                      size_t len, bool marked),
                         void *arg, bool *more)
{
    unsigned count = 0;

    switch_run(&memory.sw, memory.sw.now);
    for (; count < BATCH && !list_empty(&nic->inbox); count++) {
        struct arrived *arrived = list_item(nic->inbox.next, struct arrived, link);

        take(arg, &arrived->from, arrived->bytes, arrived->len, memory.marking);
        forget_arrived(arrived);
    }
    *more = !list_empty(&nic->inbox);
    if (!count)
        memory.sw.now += memory.step;
    return count;
}

uint64_t uet_nic_due(const struct uet_nic *nic)
{
    return UINT64_MAX;
}

bool uet_nic_refusal(struct uet_nic *nic, struct uet_nic_refusal *refusal)
{
    if (!nic->refused)
        return false;
    *refusal = nic->refusals[--nic->refused];
    return true;
}

bool uet_nic_is_refused(const struct uet_nic *nic)
{
    return nic->refused > 0;
}

uint64_t uet_nic_damaged(const struct uet_nic *nic)
{
    return 0;
}

uint64_t uet_nic_misled(const struct uet_nic *nic)
{
    return 0;
}
