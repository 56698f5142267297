/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel numbers the sockets of a port in the order in which they were bound; when one closes,
 * the last one takes its number. The page follows that rule. Where processes died in an order that
 * is not known, or left a socket to a child, the page is wrong. So an endpoint sends an inquiry to
 * itself after each change, and when it has heard nothing for a while: it comes back where the
 * number is right. Else it sends one by each number, and the one that comes back has its own.
 * Nothing else shows it: a packet of another endpoint may have come here long ago, or when that had
 * no owner.
 */
#include "transports/uet/nic/share.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "transports/uet/nic/bpf.h"
#include "transports/uet/nic/steer.h"
#include "transports/uet/nic/sweep.h"

#ifndef F_OFD_GETLK
#define F_OFD_GETLK 36
#define F_OFD_SETLK 37
#endif
#ifndef SO_ATTACH_REUSEPORT_CBPF
#define SO_ATTACH_REUSEPORT_CBPF 51
#endif

enum {
    VERSION = 2,
    GUARD = STEER_SLOTS, /* the byte whose lock guards the page; those before it are of slots */
    PATH_SIZE = 160,
    TRIES = 2000, /* of a millisecond */
    NONE = 0xff,
    GHOSTS = 4, /* sockets that no endpoint has any more, and a child of its process holds */
};

/* ns */
#define SETTLED UINT64_C(20000000) /* packets that were steered before a change have come */
#define SILENCE UINT64_C(20000000) /* after which an endpoint asks for its number; doubled up to */
#define SILENCE_MAX UINT64_C(1000000000)

struct page {
    uint32_t version;
    _Atomic uint32_t members;
    _Atomic uint64_t changed;            /* ns: when the kernel was told last */
    _Atomic uint32_t doubts;             /* counts what may have made numbers wrong */
    uint32_t spread;                     /* of these, what the endpoints were woken for */
    uint8_t last_slot, last_block;       /* that were given */
    uint8_t order[STEER_SLOTS];          /* slots, as the kernel numbers their sockets */
    _Atomic uint8_t at[STEER_SLOTS];     /* the other way; NONE: the slot is free */
    _Atomic uint8_t owner[STEER_BLOCKS]; /* slots; NONE: it is free */
};

struct uet_share {
    struct page *page;
    int file, socket;
    unsigned slot; /* NONE: it has not joined */
    bool guarded;
    union addr addr;
    uint64_t secret;
    bool asks;          /* an inquiry is under way */
    bool suspects;      /* that its number is wrong */
    bool inquired;      /* inquiries have come, since uet_share_look was called last */
    uint64_t asked;     /* page->changed for which it has asked last, and: */
    uint64_t confirmed; /* for which its number is known to be right */
    uint64_t since;     /* ns: silence, or the last inquiry */
    uint64_t wait;      /* ns: so long from then on to the next one */
    uint64_t suspected; /* ns: packets of others were looked at */
    pid_t process;
    char path[PATH_SIZE];
};

/* ---- Locks of bytes ---- */

static int lock_byte(const struct uet_share *share, short type, unsigned byte)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};

    return fcntl(share->file, F_OFD_SETLK, &lock) ? -errno : 0;
}

static bool is_locked_by_others(const struct uet_share *share, unsigned byte)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};

    return fcntl(share->file, F_OFD_GETLK, &lock) || lock.l_type != F_UNLCK;
}

static int guard(struct uet_share *share, unsigned tries)
{
    int rc;

    while ((rc = lock_byte(share, F_WRLCK, GUARD)) && --tries)
        usleep(1000);
    share->guarded = !rc;
    return rc == -EACCES ? -FI_EAGAIN : rc;
}

static void unguard(struct uet_share *share)
{
    if (share->guarded)
        lock_byte(share, F_UNLCK, GUARD);
    share->guarded = false;
}

/* ---- The page ---- */

static unsigned members_of(const struct page *page)
{
    unsigned members = atomic_load_explicit(&page->members, memory_order_relaxed);

    return members < STEER_SLOTS ? members : STEER_SLOTS;
}

static void begin_page(struct page *page)
{
    if (page->version == VERSION)
        return;
    memset(page, 0, sizeof(*page));
    memset((void *)page->at, NONE, sizeof(page->at));
    memset((void *)page->owner, NONE, sizeof(page->owner));
    memset(page->order, NONE, sizeof(page->order));
    page->version = VERSION;
}

static void put_at(struct page *page, unsigned index, unsigned slot)
{
    page->order[index] = (uint8_t)slot;
    if (slot < STEER_SLOTS)
        page->at[slot] = (uint8_t)index;
}

/* Numbers of no endpoint are in the middle only. */
static void trim(struct page *page)
{
    unsigned members = members_of(page);

    while (members && page->order[members - 1] == NONE)
        members--;
    page->members = members;
}

/* The slot's socket has that number; which one has its former number is not known. */
static void set_number(struct page *page, unsigned slot, unsigned number)
{
    unsigned before = page->at[slot];

    if (before >= STEER_SLOTS)
        return;
    put_at(page, before, page->order[number]);
    put_at(page, number, slot);
    if (number >= members_of(page))
        page->members = number + 1;
    trim(page);
}

/* Its socket closes, and the last one takes its number. */
static void take_out(struct page *page, unsigned slot)
{
    unsigned index = page->at[slot], members = members_of(page);

    for (unsigned b = 0; b < STEER_BLOCKS; b++)
        if (page->owner[b] == slot)
            page->owner[b] = NONE;
    page->at[slot] = NONE;
    if (!members || index >= members)
        return;
    members--;
    if (index < members)
        put_at(page, index, page->order[members]);
    page->order[members] = NONE;
    page->members = members;
    trim(page);
}

/* Claims of processes that have died. True: there were some. */
static bool drop_dead(const struct uet_share *share)
{
    struct page *page = share->page;
    bool some = false;

    for (unsigned slot = STEER_SLOTS; slot-- > 0;) {
        if (page->at[slot] == NONE || slot == share->slot || is_locked_by_others(share, slot))
            continue;
        take_out(page, slot);
        some = true;
    }
    page->doubts += some;
    return some;
}

static void inquire(const struct uet_share *share, uint64_t secret, unsigned number)
{
    const struct steer_inquiry inquiry = {(uint8_t)number, secret, share->page->changed};
    uint8_t bytes[STEER_INQUIRY_SIZE];

    steer_inquiry_put(&inquiry, bytes);
    /* One that the kernel has no room for is lost, and the endpoint asks again. */
    sendto(share->socket, bytes, sizeof(bytes), MSG_DONTWAIT, &share->addr.sa,
           addr_size(&share->addr.sa));
}

/* Endpoints that sleep would not see that there are doubts. */
static void spread_doubts(const struct uet_share *share)
{
    struct page *page = share->page;

    for (unsigned i = 0; page->spread != page->doubts && i < members_of(page); i++)
        inquire(share, 0, i);
    page->spread = page->doubts;
}

static int attach(const struct uet_share *share)
{
    struct page *page = share->page;
    struct sock_filter filter[STEER_FILTER_MAX];
    struct sock_fprog program = {.filter = filter};
    struct steer_table table;

    page->changed = clock_ns();
    /* Also for one: the kernel would give a part to sockets that children keep. */
    if (!members_of(page))
        return 0;
    for (unsigned slot = 0; slot < STEER_SLOTS; slot++)
        table.slots[slot] = page->at[slot] < STEER_SLOTS ? (int16_t)page->at[slot] : -1;
    for (unsigned block = 0; block < STEER_BLOCKS; block++) {
        unsigned owner = page->owner[block];

        table.blocks[block] = owner < STEER_SLOTS ? table.slots[owner] : -1;
    }
    program.len = (unsigned short)steer_filter(&table, filter);
    if (setsockopt(share->socket, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program)))
        return -errno;
    spread_doubts(share);
    return 0;
}

/* ---- Opening ---- */

/* A page for each user, network and address: the kernel has a group for each. */
static void name_page(const union addr *addr, char path[PATH_SIZE])
{
    char prefix[64], text[ADDR_TEXT_MAX];
    struct stat network = {.st_ino = 0};

    uet_sweep_prefix(prefix, sizeof(prefix));
    if (stat("/proc/self/ns/net", &network))
        network.st_ino = 0;
    snprintf(path, PATH_SIZE, "%s%llu-%s", prefix, (unsigned long long)network.st_ino,
             addr_text(&addr->sa, text, sizeof(text)));
}

static bool is_own_file(const struct uet_share *share, const struct stat *status)
{
    struct stat named;

    return S_ISREG(status->st_mode) && status->st_uid == geteuid() && !lstat(share->path, &named) &&
           named.st_ino == status->st_ino && named.st_dev == status->st_dev;
}

/* The file, guarded. The last one to leave takes it away, perhaps just now. */
static int open_file(struct uet_share *share)
{
    struct stat status;
    int rc;

    for (int tries = 0; tries < 8; tries++) {
        share->file = open(share->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (share->file < 0)
            return -errno;
        rc = guard(share, TRIES);
        if (rc)
            return rc;
        if (fstat(share->file, &status))
            return -errno;
        if (is_own_file(share, &status))
            return ftruncate(share->file, sizeof(struct page)) ? -errno : 0;
        close(share->file);
        share->file = -1;
    }
    return -FI_EAGAIN;
}

static int open_page(struct uet_share *share)
{
    int rc = open_file(share);

    if (rc)
        return rc;
    share->page =
        mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED, share->file, 0);
    if (share->page == MAP_FAILED) {
        share->page = NULL;
        return -errno;
    }
    begin_page(share->page);
    return 0;
}

static bool has_live(const struct uet_share *share)
{
    for (unsigned slot = 0; slot < STEER_SLOTS; slot++)
        if (share->page->at[slot] != NONE && is_locked_by_others(share, slot))
            return true;
    return false;
}

/* By sockets that are not on the page: of processes with another /dev/shm, or of ended ones that
 * left them to children. */
static bool is_port_taken(const struct uet_share *share)
{
    int fd = socket(share->addr.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool taken =
        fd >= 0 && bind(fd, &share->addr.sa, addr_size(&share->addr.sa)) && errno == EADDRINUSE;

    if (fd >= 0)
        close(fd);
    return taken;
}

int uet_share_open(const union addr *addr, struct uet_share **ret_share)
{
    struct uet_share *share = calloc(1, sizeof(*share));
    int rc;

    if (!share)
        return -FI_ENOMEM;
    share->file = share->socket = -1;
    share->slot = NONE;
    share->process = getpid();
    share->addr = *addr;
    share->wait = SILENCE;
    name_page(addr, share->path);
    rc = open_page(share);
    if (!rc)
        uet_sweep(share->path);
    if (!rc && getrandom(&share->secret, sizeof(share->secret), 0) != sizeof(share->secret))
        rc = -FI_EAGAIN;
    if (!rc && !has_live(share) && is_port_taken(share))
        rc = -FI_EADDRINUSE;
    if (rc) {
        uet_share_close(share, -1);
        return rc;
    }
    *ret_share = share;
    return 0;
}

/* ---- Claims ---- */

static bool take_slot(struct uet_share *share, unsigned slot)
{
    if (share->page->at[slot] != NONE || lock_byte(share, F_WRLCK, slot))
        return false;
    share->slot = slot;
    return true;
}

/* Slot 0, which addresses without a PIDonFEP mean; else the one that was free for longest, since
 * packets for its former owner may be under way. */
static bool choose_slot(struct uet_share *share, int wanted)
{
    if (wanted >= 0)
        return wanted < STEER_SLOTS && take_slot(share, (unsigned)wanted);
    if (take_slot(share, 0))
        return true;
    for (unsigned i = 1; i <= STEER_SLOTS; i++) {
        unsigned slot = (share->page->last_slot + i) % STEER_SLOTS;

        if (take_slot(share, slot)) {
            share->page->last_slot = (uint8_t)slot;
            return true;
        }
    }
    return false;
}

static bool claim_block(const struct uet_share *share)
{
    struct page *page = share->page;

    for (unsigned i = 1; i <= STEER_BLOCKS; i++) {
        unsigned block = (page->last_block + i) % STEER_BLOCKS;

        if (page->owner[block] != NONE)
            continue;
        page->owner[block] = (uint8_t)share->slot;
        page->last_block = (uint8_t)block;
        return true;
    }
    return false;
}

static void leave(struct uet_share *share)
{
    take_out(share->page, share->slot);
    lock_byte(share, F_UNLCK, share->slot);
    attach(share);
    share->slot = NONE;
}

int uet_share_join(struct uet_share *share, int fd, int wanted)
{
    struct page *page = share->page;
    int rc;

    share->socket = fd;
    if (drop_dead(share))
        attach(share);
    if (members_of(page) >= STEER_SLOTS || !choose_slot(share, wanted))
        return -FI_EADDRINUSE;
    if (!claim_block(share)) {
        share->slot = NONE;
        return -FI_EADDRINUSE;
    }
    put_at(page, members_of(page), share->slot);
    page->members = members_of(page) + 1;
    rc = attach(share);
    if (rc) {
        LOG_INFO("uet", FI_LOG_EP_CTRL, "endpoints do not share a port: the kernel says: %s",
                 strerror(-rc));
        leave(share);
        return -FI_EOPNOTSUPP;
    }
    unguard(share);
    return 0;
}

void uet_share_close(struct uet_share *share, int fd)
{
    struct stat status;

    if (!share) {
        if (fd >= 0)
            close(fd);
        return;
    }
    if (share->page && share->process == getpid() && (share->guarded || !guard(share, TRIES))) {
        if (share->socket >= 0)
            drop_dead(share);
        if (share->slot != NONE)
            leave(share);
        if (!members_of(share->page) && !fstat(share->file, &status) && is_own_file(share, &status))
            unlink(share->path);
    }
    if (fd >= 0)
        close(fd);
    unguard(share); /* a child may have the file still, and the lock with it */
    if (share->page)
        munmap(share->page, sizeof(struct page));
    if (share->file >= 0)
        close(share->file);
    free(share);
}

unsigned uet_share_slot(const struct uet_share *share)
{
    return share->slot;
}

uint64_t uet_share_blocks(const struct uet_share *share)
{
    uint64_t blocks = 0;

    for (unsigned block = 0; block < STEER_BLOCKS; block++)
        if (share->page->owner[block] == share->slot)
            blocks |= UINT64_C(1) << block;
    return blocks;
}

bool uet_share_grow(struct uet_share *share)
{
    bool grown;

    if (share->process != getpid() || guard(share, TRIES))
        return false;
    drop_dead(share);
    grown = claim_block(share) && !attach(share);
    unguard(share);
    return grown;
}

/* ---- Packets of others ---- */

bool uet_share_has_company(const struct uet_share *share)
{
    return atomic_load_explicit(&share->page->members, memory_order_relaxed) > 1 ||
           atomic_load_explicit(&share->page->changed, memory_order_relaxed) != share->confirmed;
}

/* The slot that the packet is for. NONE: that of no endpoint. */
static unsigned owner_of(const struct uet_share *share, struct steer steer)
{
    const struct page *page = share->page;
    unsigned slot = steer.number;

    if (steer.kind != STEER_SLOT && steer.kind != STEER_BLOCK)
        return NONE;
    if (steer.kind == STEER_BLOCK)
        slot = atomic_load_explicit(&page->owner[steer.number], memory_order_relaxed);
    if (slot >= STEER_SLOTS || page->at[slot] == NONE)
        return NONE;
    return slot;
}

/* Claims of the dead are given back. False: another process is at the page. */
static bool bury(struct uet_share *share)
{
    if (share->process != getpid() || guard(share, 1))
        return false;
    if (drop_dead(share))
        attach(share);
    unguard(share);
    return true;
}

/* Once in a while: strays may come without end. */
static void suspect(struct uet_share *share, uint64_t now)
{
    if (now < share->suspected + SETTLED || !bury(share))
        return;
    share->suspected = now;
    share->suspects = true;
}

bool uet_share_is_foreign(struct uet_share *share, uint64_t now, const uint8_t *bytes, size_t len)
{
    struct steer steer = steer_of(bytes, len);
    unsigned owner = owner_of(share, steer);

    if (owner == share->slot || owner == NONE)
        return false;
    if (now > atomic_load_explicit(&share->page->changed, memory_order_relaxed) + SETTLED) {
        suspect(share, now);
        owner = owner_of(share, steer);
    }
    return owner != share->slot && owner != NONE;
}

/* ---- The own number ---- */

/* The kernel has put an inquiry by the right number into our queue before the call returns; so
 * where there is nothing, the number is wrong, and so it is where the last one has not come. An
 * inquiry by a number that there is not comes to any socket, but behind the one by the true
 * number. */
static void ask(struct uet_share *share)
{
    unsigned numbers = share->asks ? STEER_SLOTS : members_of(share->page) + GHOSTS;
    bool again = share->asks;
    int size = 0;

    if (share->process != getpid())
        return;
    share->asks = true;
    inquire(share, share->secret, share->page->at[share->slot]);
    if (!again && (ioctl(share->socket, FIONREAD, &size) || size))
        return;
    for (unsigned i = 0; i < numbers && i < STEER_SLOTS; i++)
        inquire(share, share->secret, i);
}

void uet_share_look(struct uet_share *share, uint64_t now, bool came)
{
    uint64_t changed = atomic_load_explicit(&share->page->changed, memory_order_relaxed);
    bool reason = share->suspects || share->asked != changed;

    if (came && !share->inquired && !share->asks) {
        share->since = now;
        share->wait = SILENCE;
    }
    share->inquired = false;
    if (!reason && now < share->since + share->wait)
        return;
    if (reason)
        share->wait = SILENCE;
    else
        bury(share);
    share->suspects = false;
    share->asked = changed;
    share->since = now;
    share->wait = share->wait < SILENCE_MAX ? 2 * share->wait : SILENCE_MAX;
    ask(share);
}

uint64_t uet_share_due(const struct uet_share *share)
{
    return uet_share_has_company(share) ? share->since + share->wait : UINT64_MAX;
}

/* False: it is to ask again. */
static bool move_to(struct uet_share *share, const struct steer_inquiry *inquiry)
{
    struct page *page = share->page;
    bool valid;

    if (page->changed != inquiry->version || inquiry->number >= STEER_SLOTS)
        return false;
    if (inquiry->number == page->at[share->slot]) {
        share->confirmed = inquiry->version;
        return true;
    }
    if (share->process != getpid() || guard(share, 1))
        return false;
    valid = page->changed == inquiry->version && !drop_dead(share);
    if (valid) {
        set_number(page, share->slot, inquiry->number);
        page->doubts++;
    }
    attach(share);
    unguard(share);
    return valid;
}

void uet_share_hear(struct uet_share *share, const uint8_t *bytes)
{
    const struct steer_inquiry inquiry = steer_inquiry_get(bytes);

    share->inquired = true;
    if (!share->asks || inquiry.secret != share->secret)
        return;
    share->asks = false;
    share->suspects |= !move_to(share, &inquiry);
}
