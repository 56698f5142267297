/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/shm/shm_backlog.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/fi_errno.h>

#include "core/base/iov.h"
#include "core/base/log.h"

enum {
    LINGER_MS = 1000, /* without any that was taken */
    NAP_NS = 50000,
    LATE_ROOM = 120,
};

/* One post, with what it points to. Few bytes, since a burst keeps thousands. */
struct late {
    struct list list; /* of the link */
    struct shm_atomic what;
    bool is_atomic;
    size_t len;
    void *memory; /* its data: room, or of malloc */
    _Alignas(sizeof(void *)) char room[LATE_ROOM];
};

void shm_backlog_init(struct shm_ep *ep)
{
    pool_init(&ep->backlog, sizeof(struct late), 0);
}

void shm_backlog_finish(struct shm_ep *ep)
{
    pool_finish(&ep->backlog);
}

/* ---- In and out ---- */

/* Operands of atomic operations are the caller's again, always. */
static bool is_copied(const struct op *post, bool is_atomic)
{
    return is_atomic || op_is_inject(post) || post->flags & FI_INJECT;
}

/* Copies size bytes behind what is in the memory already, and returns where they are. */
static void *put(char **end, const void *from, size_t size)
{
    void *to = *end;

    if (size)
        memcpy(to, from, size);
    *end += size;
    return to;
}

/* Its payload, where the buffer is the caller's again, follows the segments, whose size is a
 * multiple of a pointer's. */
static bool keep(struct late *late, const struct op *post, const struct shm_atomic *atomic)
{
    bool copied = late->len && is_copied(post, atomic);
    size_t results = atomic ? atomic->result_count * sizeof(*atomic->result) : 0;
    size_t remote = post->rma_count * sizeof(*post->rma);
    size_t local = (copied ? 1 : post->count) * sizeof(*post->iov);
    size_t need = results + remote + local + (copied ? late->len : 0);
    struct iovec one = {.iov_len = late->len};
    char *end;

    late->memory = need <= sizeof(late->room) ? late->room : malloc(need);
    if (!late->memory)
        return false;
    end = late->memory;
    if (atomic) {
        late->what = *atomic;
        late->what.result = put(&end, atomic->result, results);
    }
    late->is_atomic = atomic;
    late->what.post = *post;
    late->what.post.desc = NULL;
    late->what.post.rma = put(&end, post->rma, remote);
    if (copied) {
        one.iov_base = end + sizeof(one);
        iov_copy(&one, 1, post->iov, post->count);
        late->what.post.iov = put(&end, &one, sizeof(one));
        late->what.post.count = 1;
    } else {
        late->what.post.iov = put(&end, post->iov, local);
    }
    return true;
}

static void free_late(struct shm_ep *ep, struct late *late)
{
    if (late->memory != late->room)
        free(late->memory);
    pool_put(&ep->backlog, late);
}

static void take_out(struct shm_link *link, struct late *late)
{
    list_detach(&late->list);
    link->behind -= SHM_A_LATE_POST;
    link->ep->tx_used--;
    free_late(link->ep, late);
}

/* The poster may never call again, and receives from this endpoint itself. */
static bool may_be_lost(const struct shm_link *link, const struct op *post)
{
    return op_is_inject(post) && link->own;
}

ssize_t shm_backlog_add(struct shm_link *link, const struct op *post,
                        const struct shm_atomic *atomic, size_t len)
{
    struct shm_ep *ep = link->ep;
    struct late *late = NULL;

    if (ep->tx_used < ep->base.tx_size && !may_be_lost(link, post))
        late = pool_get(&ep->backlog);
    if (!late)
        return -FI_EAGAIN;
    late->len = len;
    if (!keep(late, post, atomic)) {
        pool_put(&ep->backlog, late);
        return -FI_EAGAIN;
    }
    list_init(&late->list);
    list_attach(&late->list, &link->backlog);
    link->behind += SHM_A_LATE_POST;
    ep->tx_used++;
    shm_link_busy(link);
    return 0;
}

/* It stays in the list until it is posted, so that what an upper posts meanwhile waits. */
static bool post_first(struct shm_link *link)
{
    struct late *late = list_item(link->backlog.next, struct late, list);
    ssize_t rc;

    link->ep->tx_used--;
    rc = shm_post_again(link, &late->what.post, late->is_atomic ? &late->what : NULL, late->len);
    link->ep->tx_used++;
    if (!rc)
        take_out(link, late);
    return !rc;
}

bool shm_backlog_post(struct shm_link *link)
{
    bool all = true;

    if (link->posting) /* what an upper posts meanwhile waits for its turn */
        return false;
    link->posting = true;
    while (all && !list_empty(&link->backlog) && !link->dead)
        all = post_first(link);
    link->posting = false;
    return all;
}

/* ---- The end ---- */

void shm_backlog_fail(struct shm_link *link)
{
    struct shm_ep *ep = link->ep;

    while (!list_empty(&link->backlog)) {
        struct late *late = list_item(link->backlog.next, struct late, list);
        const struct op *post = &late->what.post;
        struct fi_cq_err_entry entry = {
            .op_context = post->context,
            .flags = post->kind,
            .err = link->err,
            .prov_errno = link->err,
            .src_addr = FI_ADDR_NOTAVAIL,
        };
        enum binding_kind kind = binding_kind_of(post->kind);

        take_out(link, late);
        complete_error(&ep->base.binding, kind, &entry);
    }
}

void shm_backlog_drop(struct shm_link *link)
{
    while (!list_empty(&link->backlog))
        take_out(link, list_item(link->backlog.next, struct late, list));
}

static bool has_inject(const struct shm_link *link)
{
    list_for_each (pos, &link->backlog) {
        if (op_is_inject(&list_item(pos, struct late, list)->what.post))
            return true;
    }
    return false;
}

/* Whether one of the links has to wait; *taken: of any of them, something was. */
static bool is_waiting(struct shm_ep *ep, bool *taken)
{
    bool waits = false;

    list_for_each_safe (pos, after, &ep->links) {
        struct shm_link *link = list_item(pos, struct shm_link, all);
        uint64_t before = link->tx.pos;

        if (link->dead || !has_inject(link) || shm_link_has_gone(link))
            continue;
        if (shm_control_flush(link))
            shm_backlog_post(link);
        *taken |= link->tx.pos != before;
        waits |= has_inject(link) && !link->tx.broken;
    }
    return waits;
}

void shm_backlog_linger(struct shm_ep *ep)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    long long last = clock_ms();
    bool taken = false;

    while (is_waiting(ep, &taken)) {
        if (taken)
            last = clock_ms();
        else if (clock_ms() - last > LINGER_MS)
            break;
        taken = false;
        nanosleep(&nap, NULL);
    }
    if (is_waiting(ep, &taken))
        LOG_WARN(ep->domain->base.fabric->part, FI_LOG_EP_DATA,
                 ": %s closes with messages that nobody takes; they are lost", ep->name);
}
