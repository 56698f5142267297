/* SPDX-License-Identifier: BSD-2-Clause */
/* The user's posts go into the ring at once, or into the backlog of the link. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/fork.h"
#include "core/base/iov.h"
#include "transports/shm/shm_backlog.h"
#include "transports/shm/shm_fast.h"
#include "transports/shm/shm_op.h"

/* A post in the making. */
struct making {
    struct shm_ep *ep;
    const struct op *post;
    struct shm_link *link;
    size_t len;
    bool held;                       /* the peer takes no payload that it has not asked for */
    const struct shm_atomic *atomic; /* that post is of, or NULL */
};

/* Posts on making->link: 0 or -FI_EAGAIN. */
typedef ssize_t post_on(struct making *making);

/* ---- Where to ---- */

/* Accepts the operation and ends it with an error: no endpoint listens there. */
static ssize_t unreachable(struct shm_ep *ep, const struct op *post, int err)
{
    struct fi_cq_err_entry entry = {
        .op_context = post->context,
        .flags = post->kind,
        .err = err,
        .prov_errno = err,
        .src_addr = FI_ADDR_NOTAVAIL,
    };

    if (op_is_inject(post))
        return -err;
    complete_error(&ep->base.binding, binding_kind_of(post->kind), &entry);
    return 0;
}

static ssize_t find(struct shm_ep *ep, fi_addr_t dest, struct shm_link **link)
{
    if (!ep->base.enabled || ep->forks != fork_generation)
        return -FI_EOPBADSTATE;
    shm_av_forget_peers(ep);
    return shm_link_find(ep, dest, link);
}

static inline struct shm_link *known(const struct shm_ep *ep, fi_addr_t dest)
{
    if (__builtin_expect(dest >= ep->peer_count || ep->forks != fork_generation, 0))
        return NULL;
    return ep->peers[dest];
}

/* The orders that keep a post behind the reads before it. A fetch is done, and a message taken,
 * when it arrives, while the target may still be sending what was read. */
static uint64_t behind_reads(const struct op *post)
{
    if (post->kind & FI_SEND)
        return FI_ORDER_SAR;
    if (post->kind & FI_ATOMIC)
        return FI_ORDER_WAR | (post->kind & FI_READ ? FI_ORDER_RAR : 0);
    return post->kind & FI_WRITE ? FI_ORDER_WAR | FI_ORDER_RMA_WAR : 0;
}

/* A post of the backlog is not behind itself. */
static ssize_t begin_carefully(struct making *making)
{
    struct shm_link *link = making->link;
    uint64_t behind = link->behind & (SHM_A_LATE_POST - 1);

    if (behind >= SHM_A_READ && making->ep->order & behind_reads(making->post))
        return -FI_EAGAIN;
    if (behind % SHM_A_READ && making->ep->order & (FI_ORDER_SAW | FI_ORDER_WAW | FI_ORDER_RAW |
                                                    FI_ORDER_RMA_WAW | FI_ORDER_RMA_RAW))
        return -FI_EAGAIN;
    making->held = link->tx.held && shm_tx_held(&link->tx);
    return 0;
}

/* A fence waits for all operations before it. */
static inline ssize_t begin_on(struct making *making)
{
    if (__builtin_expect(making->post->flags & FI_FENCE && !list_empty(&making->link->ops), 0))
        return -FI_EAGAIN;
    if (__builtin_expect(making->link->behind || making->link->tx.held, 0))
        return begin_carefully(making);
    return 0;
}

/* 0: there is a link. Positive: done, the operation has ended in an error. Negative: refused. */
static inline ssize_t begin(struct making *making)
{
    struct shm_ep *ep = making->ep;
    const struct op *post = making->post;
    ssize_t rc;

    if (post->flags & FI_INJECT && making->len > SHM_INJECT)
        return -FI_EMSGSIZE;
    making->link = known(ep, post->peer);
    if (__builtin_expect(
            !making->link || atomic_load_explicit(&ep->stale_peers, memory_order_relaxed), 0)) {
        rc = find(ep, post->peer, &making->link);
        if (rc > 0)
            return (rc = unreachable(ep, post, (int)rc)) ? rc : 1;
        if (rc)
            return rc;
    }
    if (__builtin_expect(making->link->behind >= SHM_A_LATE_POST, 0))
        return -FI_EAGAIN;
    return begin_on(making);
}

static ssize_t full(const struct making *making)
{
    if (making->link->tx.broken)
        shm_link_fail(making->link, FI_EIO);
    return -FI_EAGAIN;
}

/* ---- Payload ---- */

static inline void gather(char *to, const struct op *post, size_t len)
{
    if (__builtin_expect(post->count == 1 && len == sizeof(uint64_t), 1)) {
        memcpy(to, post->iov[0].iov_base, sizeof(uint64_t));
        return;
    }
    for (size_t i = 0; i < post->count; i++) {
        if (post->iov[i].iov_len)
            memcpy(to, post->iov[i].iov_base, post->iov[i].iov_len);
        to += post->iov[i].iov_len;
    }
}

static void gather_bulk(struct making *making, char *to)
{
    const struct op *post = making->post;
    struct shm_store store = shm_store_begin(&making->link->stores, making->len);

    for (size_t i = 0; i < post->count; i++) {
        if (post->iov[i].iov_len)
            shm_store_piece(&store, to, post->iov[i].iov_base, post->iov[i].iov_len);
        to += post->iov[i].iov_len;
    }
    shm_store_end(&making->link->stores, &store);
}

static bool fits_inline(size_t header, size_t len)
{
    return len <= SHM_INLINE && header + len <= SHM_BODY_MAX;
}

/* Room for a body with `header` bytes before the payload; *bulk where a large payload goes, after
 * being written there. NULL: full. */
static char *reserve(struct making *making, size_t header, struct shm_head *head, uint64_t *pos)
{
    struct shm_tx *tx = &making->link->tx;
    bool in_line = fits_inline(header, making->len);
    char *body, *bulk;

    if (!in_line)
        head->flags |= SHM_IN_BULK;
    head->bytes = (uint16_t)(header + (in_line ? making->len : 2 * sizeof(uint64_t)));
    body = shm_tx_reserve(tx, head->bytes);
    if (!body || in_line)
        return body;
    bulk = shm_tx_bulk(tx, making->len, pos);
    if (!bulk)
        return NULL;
    gather_bulk(making, bulk);
    shm_tx_bulk_commit(tx, *pos, making->len);
    return body;
}

static inline void publish(struct making *making, char *body, struct shm_head head, uint64_t pos)
{
    if (head.flags & SHM_IN_BULK) {
        body = shm_put(body, pos);
        shm_put(body, making->len);
    } else {
        gather(body, making->post, making->len);
    }
    shm_tx_publish(&making->link->tx, head);
    if (head.flags & SHM_IN_BULK && making->len < SHM_STORE_LEAST && !making->ep->idle)
        shm_tx_bulk_ahead(&making->link->tx, making->len);
    shm_ep_sent(making->ep, &making->link->tx, head.bytes);
    shm_link_notify(making->link);
}

/* The operation that waits for the peer's answer. *op NULL: -FI_EAGAIN. */
static struct shm_op *new_op(struct making *making, enum shm_role role)
{
    const struct op *post = making->post;
    struct shm_op *op;

    if (making->ep->tx_used >= making->ep->base.tx_size)
        return NULL;
    op = shm_op_get(making->link, role);
    if (!op)
        return NULL;
    op->kind = binding_kind_of(post->kind);
    op->context = post->context;
    op->flags = post->kind;
    op->wanted = !op_is_inject(post) &&
                 completion_wanted(making->ep->base.binding.tx_selective, post->flags);
    return op;
}

/* The same for an operation that was made first, since what is in bulk must get into a message:
 * NULL puts it back. op NULL: there is none. */
static char *reserve_for(struct shm_op *op, struct making *making, size_t header,
                         struct shm_head *head, uint64_t *pos)
{
    char *body = op ? reserve(making, header, head, pos) : NULL;

    if (op && !body)
        shm_op_put(op);
    return body;
}

static void keep_memory(struct shm_op *op, const struct making *making)
{
    op->count = making->post->count;
    for (size_t i = 0; i < op->count; i++)
        op->iov[i] = making->post->iov[i];
    op->len = op->total = making->len;
}

/* A buffer that is the caller's again at once. */
static bool keep_copy(struct shm_op *op, const struct making *making)
{
    op->own = malloc(making->len);
    if (!op->own)
        return false;
    gather(op->own, making->post, making->len);
    op->iov[0] = (struct iovec){op->own, making->len};
    op->count = 1;
    return true;
}

static char *put_segments(char *body, const struct op *post)
{
    for (size_t i = 0; i < post->count; i++) {
        body = shm_put(body, (uint64_t)(uintptr_t)post->iov[i].iov_base);
        body = shm_put(body, post->iov[i].iov_len);
    }
    return body;
}

/* ---- Messages ---- */

static ssize_t announce(struct making *making, struct shm_head head)
{
    const struct op *post = making->post;
    bool segments = making->len > SHM_CHUNK; /* worth attaching for */
    struct shm_op *op;
    char *body;

    head.op = SHM_RTS;
    head.bytes = (uint16_t)(sizeof(uint64_t) * (2 + (head.flags & SHM_TAGGED ? 1u : 0) +
                                                (head.flags & SHM_CQ_DATA ? 1u : 0) +
                                                (segments ? 2 * post->count : 0)));
    body = shm_tx_reserve(&making->link->tx, head.bytes);
    op = body ? new_op(making, SHM_OUT) : NULL;
    if (!op)
        return full(making);
    keep_memory(op, making);
    if (post->flags & FI_INJECT && making->len && !keep_copy(op, making)) {
        shm_op_put(op);
        return -FI_EAGAIN;
    }
    if (head.flags & SHM_TAGGED)
        body = shm_put(body, post->tag);
    if (head.flags & SHM_CQ_DATA)
        body = shm_put(body, post->data);
    body = shm_put(body, op->id | (segments ? (uint64_t)post->count << 32 : 0));
    body = shm_put(body, making->len);
    if (segments)
        put_segments(body, post);
    shm_tx_publish(&making->link->tx, head);
    shm_link_notify(making->link);
    return 0;
}

/* A message that the peer is to say it has received. */
static ssize_t send_answered(struct making *making, struct shm_head head)
{
    const struct op *post = making->post;
    size_t header = sizeof(uint64_t) *
                    (1 + (head.flags & SHM_TAGGED ? 1u : 0) + (head.flags & SHM_CQ_DATA ? 1u : 0));
    struct shm_op *op;
    uint64_t pos = 0;
    char *body;

    if (making->ep->tx_used >= making->ep->base.tx_size)
        return full(making);
    head.flags |= SHM_ANSWER;
    op = new_op(making, SHM_OUT);
    body = reserve_for(op, making, header, &head, &pos);
    if (!body)
        return full(making);
    if (head.flags & SHM_TAGGED)
        body = shm_put(body, post->tag);
    if (head.flags & SHM_CQ_DATA)
        body = shm_put(body, post->data);
    body = shm_put(body, op->id);
    publish(making, body, head, pos);
    return 0;
}

static inline ssize_t send_now(struct making *making, struct shm_head head)
{
    const struct op *post = making->post;
    struct binding *binding = &making->ep->base.binding;
    size_t header = sizeof(uint64_t) *
                    ((head.flags & SHM_TAGGED ? 1u : 0) + (head.flags & SHM_CQ_DATA ? 1u : 0));
    uint64_t pos = 0;
    char *body = reserve(making, header, &head, &pos);

    if (__builtin_expect(!body, 0))
        return full(making);
    if (head.flags & SHM_TAGGED)
        body = shm_put(body, post->tag);
    if (head.flags & SHM_CQ_DATA)
        body = shm_put(body, post->data);
    publish(making, body, head, pos);
    complete(binding, BIND_SEND,
             !op_is_inject(post) && completion_wanted(binding->tx_selective, post->flags),
             post->context, post->kind, 0, NULL, 0, 0, FI_ADDR_NOTAVAIL);
    return 0;
}

static inline ssize_t send_on(struct making *making)
{
    const struct op *post = making->post;
    struct shm_head head = {.op = SHM_MSG,
                            .flags = (post->kind & FI_TAGGED ? SHM_TAGGED : 0) |
                                     (post->flags & FI_REMOTE_CQ_DATA ? SHM_CQ_DATA : 0)};

    if (__builtin_expect(making->len > SHM_CHUNK || making->held, 0))
        return announce(making, head);
    if (__builtin_expect(!!(post->flags & OP_DELIVERED), 0))
        return send_answered(making, head);
    return send_now(making, head);
}

/* ---- Remote memory access ---- */

static bool remote_fits(const struct op *post, size_t len)
{
    size_t there = 0;

    for (size_t i = 0; i < post->rma_count; i++)
        there += post->rma[i].len;
    return post->rma_count && post->rma_count <= SHM_IOV_LIMIT && there == len;
}

static char *put_remote(char *body, const struct op *post)
{
    for (size_t i = 0; i < post->rma_count; i++) {
        body = shm_put(body, post->rma[i].addr);
        body = shm_put(body, post->rma[i].len);
        body = shm_put(body, post->rma[i].key);
    }
    return body;
}

static size_t remote_words(const struct op *post)
{
    return 1 + (post->flags & FI_REMOTE_CQ_DATA ? 1u : 0) + 3 * post->rma_count;
}

static uint64_t numbers(const struct shm_op *op, const struct op *post, bool segments)
{
    return op->id | (uint64_t)post->rma_count << 32 | (segments ? (uint64_t)post->count << 40 : 0);
}

/* A write that the target fetches. */
static ssize_t announce_write(struct making *making)
{
    const struct op *post = making->post;
    struct shm_head head = {.op = SHM_FETCH,
                            .flags = post->flags & FI_REMOTE_CQ_DATA ? SHM_CQ_DATA : 0};
    struct shm_op *op;
    char *body;

    head.bytes = (uint16_t)(sizeof(uint64_t) * (remote_words(post) + 2 * post->count));
    body = shm_tx_reserve(&making->link->tx, head.bytes);
    op = body ? new_op(making, SHM_OUT) : NULL;
    if (!op)
        return full(making);
    keep_memory(op, making);
    op->behind = SHM_BIG_WRITE;
    making->link->behind += SHM_BIG_WRITE;
    body = shm_put(body, numbers(op, post, true));
    if (head.flags & SHM_CQ_DATA)
        body = shm_put(body, post->data);
    put_segments(put_remote(body, post), post);
    shm_tx_publish(&making->link->tx, head);
    shm_link_notify(making->link);
    return 0;
}

static ssize_t write_on(struct making *making)
{
    const struct op *post = making->post;
    struct shm_head head = {.op = SHM_WRITE,
                            .flags = post->flags & FI_REMOTE_CQ_DATA ? SHM_CQ_DATA : 0};
    struct shm_op *op;
    uint64_t pos = 0;
    char *body;

    if (making->len > SHM_CHUNK)
        return announce_write(making);
    if (making->ep->tx_used >= making->ep->base.tx_size)
        return full(making);
    op = new_op(making, SHM_OUT);
    body = reserve_for(op, making, sizeof(uint64_t) * remote_words(post), &head, &pos);
    if (!body)
        return full(making);
    body = shm_put(body, numbers(op, post, false));
    if (head.flags & SHM_CQ_DATA)
        body = shm_put(body, post->data);
    publish(making, put_remote(body, post), head, pos);
    return 0;
}

static ssize_t read_on(struct making *making)
{
    const struct op *post = making->post;
    struct shm_head head = {.op = SHM_READ,
                            .bytes = (uint16_t)(sizeof(uint64_t) * (1 + 3 * post->rma_count))};
    struct shm_op *op;
    char *body;

    body = shm_tx_reserve(&making->link->tx, head.bytes);
    op = body ? new_op(making, SHM_IN) : NULL;
    if (!op)
        return full(making);
    keep_memory(op, making);
    op->behind = making->ep->orders_reads ? SHM_A_READ : 0;
    making->link->behind += op->behind;
    op->asks = shm_cma_reads(op);
    body = shm_put(body, op->id | (uint64_t)post->rma_count << 32 | (uint64_t)op->asks << 40);
    put_remote(body, post);
    shm_tx_publish(&making->link->tx, head);
    shm_link_notify(making->link);
    return 0;
}

static ssize_t atomic_on(struct making *making)
{
    const struct shm_atomic *atomic = making->atomic;
    const struct op *post = making->post;
    struct shm_head head = {.op = SHM_ATOMIC};
    struct shm_op *op;
    uint64_t pos = 0, way;
    char *body;

    if (making->ep->tx_used >= making->ep->base.tx_size)
        return full(making);
    op = new_op(making, post->function ? SHM_IN : SHM_OUT);
    body = reserve_for(op, making, sizeof(uint64_t) * (1 + remote_words(post)), &head, &pos);
    if (!body)
        return full(making);
    op->count = atomic->result_count;
    for (size_t i = 0; i < op->count; i++)
        op->iov[i] = atomic->result[i];
    op->len = op->total = atomic->bytes;
    way = post->function == FI_COMPARE_ATOMIC ? SHM_WAY_COMPARE
          : post->function                    ? SHM_WAY_FETCH
                                              : 0;
    body = shm_put(body, numbers(op, post, false));
    body = shm_put(body, post->op | (uint64_t)post->datatype << 8 | way << 16);
    publish(making, put_remote(body, post), head, pos);
    return 0;
}

/* ---- Posting ---- */

static inline __attribute__((always_inline)) ssize_t try_post(struct making *making, post_on *on)
{
    ssize_t rc = begin(making);

    if (__builtin_expect(!rc, 1))
        return on(making);
    return rc > 0 ? 0 : rc;
}

/* There is no room. A caller that reads no queue makes progress here; but an upper may post from
 * inside of a completion, where progress must not run: only what waits for this peer is posted, if
 * it has made room. An operation that then still finds none joins the link's backlog. */
static __attribute__((noinline)) ssize_t post_late(struct making *making, post_on *on)
{
    struct shm_ep *ep = making->ep;
    ssize_t rc = -FI_EAGAIN;

    if (ep->top && !ep->in_progress) {
        shm_progress_ep(ep);
        rc = try_post(making, on);
    } else if (making->link && shm_control_flush(making->link) && shm_backlog_post(making->link)) {
        rc = try_post(making, on);
    }
    if (rc != -FI_EAGAIN || !making->link)
        return rc;
    return shm_backlog_add(making->link, making->post, making->atomic, making->len);
}

static inline __attribute__((always_inline)) ssize_t post_locked(struct making *making, post_on *on)
{
    ssize_t rc;

    if (!making->ep->base.binding.progress)
        return -FI_EOPBADSTATE;
    progress_lock(making->ep->base.binding.progress);
    rc = try_post(making, on);
    if (__builtin_expect(rc == -FI_EAGAIN, 0))
        rc = post_late(making, on);
    progress_unlock(making->ep->base.binding.progress);
    return rc;
}

ssize_t shm_post_again(struct shm_link *link, const struct op *post,
                       const struct shm_atomic *atomic, size_t len)
{
    struct making making = {
        .ep = link->ep, .post = post, .link = link, .len = len, .atomic = atomic};
    ssize_t rc = begin_on(&making);

    if (rc)
        return rc;
    if (post->kind & FI_SEND)
        return send_on(&making);
    if (atomic)
        return atomic_on(&making);
    return post->kind & FI_WRITE ? write_on(&making) : read_on(&making);
}

static ssize_t post_message(struct shm_ep *ep, struct op *post)
{
    struct making making = {.ep = ep, .post = post};

    post->rma_count = 0; /* what waits is copied whole */
    if (post->count > SHM_IOV_LIMIT || !iov_total(post->iov, post->count, &making.len))
        return -FI_EINVAL;
    return post_locked(&making, send_on);
}

ssize_t shm_post_atomic(struct shm_ep *ep, const struct shm_atomic *atomic)
{
    struct making making = {.ep = ep, .post = &atomic->post, .atomic = atomic};

    iov_total(atomic->post.iov, atomic->post.count, &making.len);
    return post_locked(&making, atomic_on);
}

static ssize_t post_access(struct shm_ep *ep, const struct op *post, post_on *on)
{
    struct making making = {.ep = ep, .post = post};

    if (post->count > SHM_IOV_LIMIT || !iov_total(post->iov, post->count, &making.len) ||
        !remote_fits(post, making.len))
        return -FI_EINVAL;
    return post_locked(&making, on);
}

static ssize_t post_receive(struct shm_ep *ep, const struct op *op)
{
    ssize_t rc;

    if (!ep->base.match || ep->forks != fork_generation)
        return -FI_EOPBADSTATE;
    progress_lock(ep->base.binding.progress);
    rc = match_receive(ep->base.match, op);
    progress_unlock(ep->base.binding.progress);
    return rc;
}

/* The commonest ones of a layer, as those of shm_msg.c and shm_rma.c. */
static inline bool post_fast(struct shm_ep *ep, const struct op *op)
{
    if (op->count != 1)
        return false;
    if (op->kind & FI_SEND)
        return shm_fast_send(ep, op);
    if (op->group != OP_GROUP_RMA || op->rma_count != 1 || op->rma->len != op->iov->iov_len)
        return false;
    return op->kind & FI_WRITE ? shm_fast_access(ep, op, SHM_OUT, SHM_FAST_LINES)
                               : shm_fast_access(ep, op, SHM_IN, SHM_FAST_LINE);
}

ssize_t shm_post(struct ep *base, struct op *op)
{
    struct shm_ep *ep = object_of(base, struct shm_ep, base);
    ssize_t rc;

    if (op_is_receive(op))
        return post_receive(ep, op);
    rc = endpoint_settle(&ep->base, op);
    if (rc)
        return rc;
    if (post_fast(ep, op))
        return 0;
    switch (op->group) {
    case OP_GROUP_RMA:
        return op->kind & FI_WRITE ? post_access(ep, op, write_on) : post_access(ep, op, read_on);
    case OP_GROUP_ATOMIC: return shm_post_elements(ep, op);
    default: return post_message(ep, op);
    }
}
