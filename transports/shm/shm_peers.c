/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/shm/shm_peers.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "transports/shm/shm_listener.h"

enum {
    FIRST_BUCKETS = 16,
};

/* An address at which no endpoint listened. */
struct absent {
    struct list list;
    fi_addr_t addr;
    long long looked; /* ms: last */
    long long until;  /* ms; later operations end in errors */
    bool gone;        /* an endpoint was there: no wait for a start */
    bool logged;
};

/* ---- By number ---- */

static void forget(struct shm_link **links, size_t count, const struct shm_link *link)
{
    for (size_t i = 0; i < count; i++) {
        if (!link || links[i] == link)
            links[i] = NULL;
    }
}

void shm_peers_forget(struct shm_ep *ep, const struct shm_link *link)
{
    forget(ep->peers, ep->peer_count, link);
    for (int i = 0; ep->more && i < SHM_CONTEXTS - 1; i++)
        forget(ep->more[i].links, ep->more[i].count, link);
}

static int grow(struct shm_link ***links, size_t *old, size_t count)
{
    struct shm_link **more = realloc(*links, count * sizeof(struct shm_link *));

    if (!more)
        return -FI_ENOMEM;
    memset(more + *old, 0, (count - *old) * sizeof(struct shm_link *));
    *links = more;
    *old = count;
    return 0;
}

int shm_peers_set(struct shm_ep *ep, unsigned context, fi_addr_t index, struct shm_link *link)
{
    struct shm_peers *peers = NULL;
    int rc = 0;

    if (context && !ep->more)
        ep->more = calloc(SHM_CONTEXTS - 1, sizeof(*ep->more));
    if (context && !ep->more)
        return -FI_ENOMEM;
    if (context)
        peers = &ep->more[context - 1];
    if (index >= (peers ? peers->count : ep->peer_count))
        rc = grow(peers ? &peers->links : &ep->peers, peers ? &peers->count : &ep->peer_count,
                  av_limit(ep->base.av));
    if (rc)
        return rc;
    (peers ? peers->links : ep->peers)[index] = link;
    link->chosen = true;
    return 0;
}

struct shm_link *shm_peers_get(const struct shm_ep *ep, unsigned context, fi_addr_t index)
{
    if (!context)
        return index < ep->peer_count ? ep->peers[index] : NULL;
    if (!ep->more || index >= ep->more[context - 1].count)
        return NULL;
    return ep->more[context - 1].links[index];
}

/* ---- By name ---- */

static struct list *bucket_in(struct list *buckets, unsigned count, const char *name)
{
    struct list *bucket = &buckets[shm_name_hash(name) % count];

    assert(bucket->prev);
    return bucket;
}

static bool widen(struct shm_ep *ep)
{
    unsigned count = ep->bucket_count ? 4 * ep->bucket_count : FIRST_BUCKETS;
    struct list *buckets = calloc(count, sizeof(*buckets));

    if (!buckets)
        return ep->bucket_count;
    for (unsigned i = 0; i < count; i++)
        list_init(&buckets[i]);
    for (unsigned i = 0; i < ep->bucket_count; i++) {
        list_for_each_safe (pos, after, &ep->buckets[i]) {
            struct shm_link *link = list_item(pos, struct shm_link, named);

            list_detach(pos);
            list_attach(pos, bucket_in(buckets, count, link->name));
        }
    }
    free(ep->buckets);
    ep->buckets = buckets;
    ep->bucket_count = count;
    return true;
}

bool shm_peers_add(struct shm_link *link)
{
    struct shm_ep *ep = link->ep;

    if (ep->named_count >= ep->bucket_count && !widen(ep))
        return false;
    ep->named_count++;
    list_attach(&link->named, bucket_in(ep->buckets, ep->bucket_count, link->name));
    return true;
}

void shm_peers_remove(struct shm_link *link)
{
    if (list_empty(&link->named))
        return;
    list_detach(&link->named);
    link->ep->named_count--;
}

/* The link to that name that has been sent on, or else any. The AV's numbers lose their link when
 * an address is removed; a link that was accepted earlier may have been introduced later, and
 * messages over it would overtake those still in the other. */
struct shm_link *shm_peers_find(const struct shm_ep *ep, const char *name, unsigned context)
{
    struct shm_link *first = NULL;

    if (!ep->bucket_count)
        return NULL;
    list_for_each (pos, &ep->buckets[shm_name_hash(name) % ep->bucket_count]) {
        struct shm_link *link = list_item(pos, struct shm_link, named);

        if (link->dead || link->ended || link->one_way || link->context != context ||
            !shm_name_equal(link->name, name))
            continue;
        if (link->chosen)
            return link;
        if (!first)
            first = link;
    }
    return first;
}

/* ---- Absent peers ---- */

void shm_absent_forget(struct shm_ep *ep, fi_addr_t dest)
{
    list_for_each_safe (pos, after, &ep->absent) {
        struct absent *absent = list_item(pos, struct absent, list);

        if (dest != FI_ADDR_UNSPEC && absent->addr != dest)
            continue;
        list_detach(&absent->list);
        free(absent);
    }
}

/* The process that the name tells of is dead. In another pid namespace its number means nothing
 * here, but then its endpoint is there, even if it is not enabled yet. */
static bool is_dead(const char *name)
{
    pid_t pid = shm_name_pid(name);

    return pid && kill(pid, 0) && errno == ESRCH && !shm_listener_is_bound(name);
}

static struct absent *find_absent(const struct shm_ep *ep, fi_addr_t dest)
{
    list_for_each (pos, &ep->absent) {
        struct absent *absent = list_item(pos, struct absent, list);

        if (absent->addr == dest)
            return absent;
    }
    return NULL;
}

bool shm_absent_lately(const struct shm_ep *ep, fi_addr_t dest)
{
    const struct absent *absent = find_absent(ep, dest);
    long long now = absent ? clock_ms() : 0;

    return absent && now == absent->looked && now < absent->until;
}

static struct absent *new_absent(struct shm_ep *ep, fi_addr_t dest, long long until)
{
    struct absent *absent = malloc(sizeof(*absent));

    if (!absent)
        return NULL;
    *absent = (struct absent){.addr = dest, .until = until};
    list_init(&absent->list);
    list_attach(&absent->list, &ep->absent);
    return absent;
}

void shm_absent_gone(struct shm_ep *ep, const char *name, unsigned context)
{
    unsigned bits = ep->base.av->rx_ctx_bits;
    fi_addr_t dest = av_find(ep->base.av, name);
    struct absent *absent;

    if (dest == FI_ADDR_NOTAVAIL || (context && !bits))
        return;
    if (bits)
        dest |= (fi_addr_t)context << (64 - bits);
    absent = find_absent(ep, dest);
    if (!absent)
        absent = new_absent(ep, dest, 0);
    if (absent)
        absent->gone = true;
}

int shm_absent_wait(struct shm_ep *ep, fi_addr_t dest, const char *name)
{
    struct absent *absent = find_absent(ep, dest);
    long long now = clock_ms();

    if (!absent)
        absent = new_absent(ep, dest, now + ep->domain->fabric->connect_ms);
    if (!absent)
        return -FI_ENOMEM;
    /* A new endpoint has bound the name, and does not listen yet. */
    if (absent->gone && shm_listener_is_bound(name)) {
        absent->gone = absent->logged = false;
        absent->until = now + ep->domain->fabric->connect_ms;
    }
    absent->looked = now;
    if (now < absent->until && !is_dead(name))
        return -FI_EAGAIN;
    if (!absent->logged)
        LOG_WARN(ep->domain->base.fabric->part, FI_LOG_EP_CTRL,
                 ": %s: nobody listens at %s, of this user and in this network namespace", ep->name,
                 name);
    absent->logged = true;
    return FI_ECONNREFUSED;
}
