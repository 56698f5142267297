/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address vectors: fi_addr_t -> address and back. An fi_addr_t is an index, for FI_AV_MAP too. The
 * data path reads av_addr without a lock: entries never move and are published with release order.
 * An inserted address costs its own size and about 16 bytes. Source: fi_av(3).
 */
#ifndef WEFT_CORE_AV_AV_H
#define WEFT_CORE_AV_AV_H

#include <pthread.h>

#include <rdma/fi_domain.h>

#include "core/base/fid.h"
#include "core/base/list.h"
#include "core/progress/progress.h"

enum {
    AV_CONTEXT_BITS = 8,
    AV_KEY_MAX = 16, /* bytes of an authorization key */
};

struct eq;

struct av;
struct av_keys;
struct av_shared;
struct av_table;

/* Told of changes; embedded in endpoints. Called with the AV's control lock held, from the thread
 * that inserts or removes, or, where another process did, from one that looks an address up or
 * drives the progress domain (which is then locked): after the address can be found, before it is
 * taken away. May not call back into the AV but av_addr, av_find and av_source. */
struct av_listener {
    struct list link;
    void (*inserted)(struct av_listener *listener, fi_addr_t addr);
    void (*removed)(struct av_listener *listener, fi_addr_t addr);
    struct progress
        *progress; /* that drives the owner; while it is attached it looks for those changes */
    struct av *av; /* this and the next are av_attach's */
    struct progress_source source;
};

/*
 * Addresses of a part's own form: bytes of one size, of which the first two are not both 0. Its
 * functions are called with the AV's control lock held, but for `closed`.
 */
struct av_kind {
    size_t size;        /* of an address */
    size_t object_size; /* of a struct that begins with a struct av */
    /* Can an endpoint have this address? Anything may be in its `size` bytes. */
    bool (*usable)(const struct av *av, const void *addr);
    /* It has got an index, and av_source(av, index) is known; a failure makes it a failed
     * insertion. */
    int (*inserted)(struct av *av, fi_addr_t index, const void *addr);
    void (*removed)(struct av *av, fi_addr_t index);
    /* av_source of one that there is has changed. */
    void (*identified)(struct av *av, fi_addr_t index);
    /* The AV is about to be freed; nothing is bound to it. */
    void (*closed)(struct av *av);
    /* Is this an authorization key of the part's form? NULL: any bytes are. */
    bool (*key_usable)(const struct av *av, const void *key, size_t size);
};

/*
 * An authorization key of an AV whose domain was opened with FI_AV_AUTH_KEY: it has an fi_addr_t,
 * which means all peers with that key, and each address is inserted under a key. Only addresses of
 * a part's own form have keys.
 */
struct av_key {
    fi_addr_t addr; /* FI_ADDR_NOTAVAIL: there is none of this number */
    size_t size;
    uint8_t bytes[AV_KEY_MAX];
    size_t users; /* addresses under it */
};

struct av {
    struct fid_av fid;
    struct domain *domain;
    struct children children; /* endpoints bound */
    struct eq *eq;            /* for FI_EVENT, or NULL */
    uint32_t format;          /* FI_SOCKADDR_IN, FI_SOCKADDR_IN6, FI_ADDR_STR, ... */
    uint64_t flags;           /* of fi_av_open */
    unsigned rx_ctx_bits;     /* upper bits of an fi_addr_t that name a receive context; 0: none */
    pthread_mutex_t mutex;    /* the control lock; recursive, for av_find in listeners */
    struct list listeners;
    struct av_table *table;
    struct av_shared *shared;   /* of a named one, or NULL */
    const struct av_kind *kind; /* of addresses of a part's own form, or NULL */
    struct av_keys *keys;       /* with FI_AV_AUTH_KEY, or NULL */
    bool identifies;            /* an address may have a user id that is not its index. Atomic */
};

/*
 * Addresses are of domain->info's addr_format. attr as fi_av_open: TABLE and MAP alike, UNSPEC is
 * answered with TABLE; other formats -FI_ENOSYS; FI_EVENT, FI_AV_USER_ID, FI_READ, FI_SYMMETRIC are
 * taken, other flags -FI_EBADFLAGS. rx_ctx_bits is 0 to AV_CONTEXT_BITS, else -FI_EINVAL; all calls
 * but those of endpoints take fi_addr_t without those bits.
 *
 * A named AV (core/av/av_shared.h) is shared with all processes that open the name in a domain of
 * the same name, of which info has FI_SHARED_AV, else -FI_ENOSYS. FI_READ, which needs a name and
 * an AV that there is (-FI_ENOENT), is to look and not to change: insertions and removals are
 * -FI_EPERM. Indices are the same whatever map_addr is; where it is 0 it becomes core/av/av_map.h's
 * array.
 *
 * An address that is inserted again keeps its fi_addr_t, and is there until it was removed as
 * often; listeners hear of the first insertion and of the last removal. Addresses that no endpoint
 * can have (port 0, or the any address) are failed insertions.
 */
int av_open(struct domain *domain, struct fi_av_attr *attr, struct fid_av **av, void *context);
/* The same for addresses of a part's own form. They have no names: fi_av_insertsvc, fi_av_insertsym
 * and named AVs are -FI_ENOSYS. Where the domain's auth_key_size is FI_AV_AUTH_KEY, which needs a
 * kind (-FI_ENOSYS), the AV has authorization keys, and addresses are inserted under one. */
int av_open_kind(struct domain *domain, struct fi_av_attr *attr, const struct av_kind *kind,
                 struct fid_av **av, void *context);

/* The address of addr (a sockaddr of either family, or a string), or NULL when it is not inserted.
 * Valid until it is removed. Lock-free. */
const void *av_addr(const struct av *av, fi_addr_t addr);
/* The fi_addr_t of an address, or FI_ADDR_NOTAVAIL. */
fi_addr_t av_find(struct av *av, const void *addr);
/* The source that completions report for addr: addr, or its user id (FI_AV_USER_ID). Lock-free. */
fi_addr_t av_user_id(const struct av *av, fi_addr_t addr); /* where there may be one */
static inline fi_addr_t av_source(const struct av *av, fi_addr_t addr)
{
    bool identifies = __atomic_load_n(&av->identifies, __ATOMIC_RELAXED);

    return __builtin_expect(identifies, 0) ? av_user_id(av, addr) : addr;
}
/* Gives it one. Control lock held. -FI_ENOMEM. */
int av_identify(struct av *av, fi_addr_t addr, fi_addr_t user_id);
/* How many indices have ever been used: all valid fi_addr_t are below. */
size_t av_limit(const struct av *av);

/* A zeroed one, or one that is attached already. The listener's progress domain, if it has one,
 * unlocked. */
void av_attach(struct av *av, struct av_listener *listener);
/* Also one that was never attached. */
void av_detach(struct av *av, struct av_listener *listener);

/* ---- Authorization keys; lock-free ---- */

/* The key that the address was inserted under, or that addr is itself; NULL: it has none. */
const struct av_key *av_key_of(const struct av *av, fi_addr_t addr);
/* The key of these bytes; of those with numbers below `limit`. NULL: there is none. */
const struct av_key *av_key_find(const struct av *av, const void *bytes, size_t size, size_t limit);
/* Numbers of keys that there are so far are below it. 0: the AV has no keys. */
size_t av_key_limit(const struct av *av);

#endif
