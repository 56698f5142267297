/* SPDX-License-Identifier: BSD-2-Clause */
/* Remote memory access, at the target: it alone checks keys, bounds, and access. */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/iov.h"
#include "core/domain/mr.h"
#include "core/op/atomic.h"
#include "transports/shm/shm_fast.h"
#include "transports/shm/shm_op.h"

/* One access as it arrived, with the memory that it means. */
struct access {
    uint32_t remote;
    bool has_data;
    uint64_t data, len;
    struct fi_rma_iov rma[SHM_IOV_LIMIT];
    size_t rma_count;
    struct iovec there[SHM_IOV_LIMIT];
    size_t there_count;
    struct iovec iov[SHM_PIECES];
    size_t count;
    struct mr *mrs[SHM_IOV_LIMIT];
    size_t mr_count;
};

static bool broken(struct shm_link *link)
{
    shm_link_fail(link, FI_EIO);
    return false;
}

static bool get_rma(struct shm_words *words, struct access *access)
{
    if (!access->rma_count || access->rma_count > SHM_IOV_LIMIT)
        return false;
    access->len = 0;
    for (size_t i = 0; i < access->rma_count; i++) {
        struct fi_rma_iov *rma = &access->rma[i];

        rma->addr = shm_get(words);
        rma->len = shm_get(words);
        rma->key = shm_get(words);
        if (__builtin_add_overflow(access->len, rma->len, &access->len))
            return false;
    }
    return !words->bad;
}

static bool get_there(struct shm_words *words, struct access *access)
{
    if (access->there_count > SHM_IOV_LIMIT)
        return false;
    for (size_t i = 0; i < access->there_count; i++) {
        access->there[i].iov_base = (void *)(uintptr_t)shm_get(words);
        access->there[i].iov_len = shm_get(words);
    }
    return !words->bad;
}

static void release(struct access *access)
{
    while (access->mr_count)
        mr_release(access->mrs[--access->mr_count]);
}

static int resolve(struct shm_ep *ep, struct access *access, uint64_t right)
{
    for (size_t i = 0; i < access->rma_count; i++) {
        const struct fi_rma_iov *rma = &access->rma[i];
        size_t count = SHM_IOV_LIMIT;
        int rc = mr_resolve(ep->domain->base.mrs, rma->key, rma->addr, rma->len, right,
                            access->iov + access->count, &count, &access->mrs[i]);

        if (rc) {
            release(access);
            return -rc;
        }
        access->mr_count++;
        access->count += count;
    }
    return 0;
}

/* ---- What the target learns of it ---- */

/* kind: BIND_REMOTE_WRITE, BIND_REMOTE_READ; flags: of a completion that carries data. rights: what
 * the regions count. */
static void tell(struct shm_link *link, enum binding_kind kind, uint64_t flags, uint64_t rights,
                 struct mr *const *mrs, size_t mr_count, size_t len, bool has_data, uint64_t data)
{
    struct shm_ep *ep = link->ep;

    mr_accessed(mrs, mr_count, rights);
    complete(&ep->base.binding, kind, has_data, NULL, flags | FI_REMOTE_CQ_DATA, len, NULL, data, 0,
             ep->knows_sources ? av_source(ep->base.av, link->addr) : FI_ADDR_NOTAVAIL);
}

void shm_remote_done(struct shm_ep *ep, struct shm_op *op)
{
    bool write = op->role == SHM_FETCHER;

    if (!op->own) /* an atomic operation was reported already */
        tell(op->link, write ? BIND_REMOTE_WRITE : BIND_REMOTE_READ, FI_RMA | FI_REMOTE_WRITE,
             write ? FI_REMOTE_WRITE : FI_REMOTE_READ, op->mrs, op->mr_count, op->total,
             op->has_data, op->data);
    shm_op_put(op);
}

/* The access becomes an operation, which owns the regions. NULL: the link has failed. */
static struct shm_op *begin(struct shm_link *link, struct access *access, enum shm_role role)
{
    struct shm_op *op = link->served < SHM_MOST_SERVED ? shm_op_get(link, role) : NULL;

    if (!op) {
        release(access);
        shm_link_fail(link, link->served < SHM_MOST_SERVED ? FI_ENOMEM : FI_EIO);
        return NULL;
    }
    op->remote = access->remote;
    op->has_data = access->has_data;
    op->data = access->data;
    op->len = op->total = access->len;
    op->count = access->count;
    for (size_t i = 0; i < access->count; i++)
        op->iov[i] = access->iov[i];
    op->there_count = access->there_count;
    for (size_t i = 0; i < access->there_count; i++)
        op->there[i] = access->there[i];
    op->mr_count = access->mr_count;
    for (size_t i = 0; i < access->mr_count; i++)
        op->mrs[i] = access->mrs[i];
    return op;
}

/* ---- Arrival ---- */

static void get_numbers(struct shm_words *words, struct access *access)
{
    uint64_t numbers = shm_get(words);

    access->remote = (uint32_t)numbers;
    access->rma_count = numbers >> 32 & 0xff;
    access->there_count = numbers >> 40 & 0xff;
    access->count = access->mr_count = 0;
}

/* The head of an access of one line to one segment, each word read once. NULL: it is not one, or
 * mr_resolve is to say what is wrong with it. */
static inline char *quick_target(struct shm_link *link, const char *body, uint64_t right,
                                 uint32_t *remote, uint64_t *len)
{
    struct shm_words words = {.at = body, .end = body + SHM_ACCESS_WORDS};
    uint64_t numbers = shm_get(&words), addr = shm_get(&words), key;

    *len = shm_get(&words);
    key = shm_get(&words);
    if (__builtin_expect(numbers >> 32 != 1, 0))
        return NULL;
    *remote = (uint32_t)numbers;
    return mr_find(link->ep->domain->base.mrs, key, addr, *len, right);
}

/* The payload of a write is behind its words, or in bulk. NULL: it is not as long as they say. */
static inline const char *quick_payload(const struct shm_link *link, struct shm_head head,
                                        const char *body, uint64_t len, uint64_t *pos)
{
    struct shm_words words = {.at = body + SHM_ACCESS_WORDS, .end = body + head.bytes};

    if (!head.flags)
        return len + SHM_ACCESS_WORDS == head.bytes ? words.at : NULL;
    *pos = shm_get(&words);
    return shm_get(&words) == len && !words.bad ? shm_rx_bulk(&link->rx, *pos, len) : NULL;
}

static inline bool quick_write(struct shm_link *link, struct shm_head head, const char *body)
{
    uint64_t len;
    uint32_t remote;
    char *memory;

    if (__builtin_expect(head.flags || head.bytes <= SHM_ACCESS_WORDS || head.bytes > SHM_BODY_LINE,
                         0))
        return false;
    memory = quick_target(link, body, FI_REMOTE_WRITE, &remote, &len);
    if (__builtin_expect(!memory || len + SHM_ACCESS_WORDS != head.bytes, 0))
        return false;
    shm_fast_copy(memory, body + SHM_ACCESS_WORDS, len);
    shm_rx_consume_line(&link->rx);
    shm_control_fin(link, remote);
    complete(&link->ep->base.binding, BIND_REMOTE_WRITE, false, NULL, 0, len, NULL, 0, 0, 0);
    return true;
}

/* The same of several lines, or through bulk. */
static inline bool quick_large_write(struct shm_link *link, struct shm_head head, const char *body)
{
    uint64_t len, pos = 0;
    uint32_t remote;
    const char *payload;
    char *memory;

    if (head.flags & ~SHM_IN_BULK || head.bytes <= SHM_ACCESS_WORDS)
        return false;
    memory = quick_target(link, body, FI_REMOTE_WRITE, &remote, &len);
    payload = memory ? quick_payload(link, head, body, len, &pos) : NULL;
    if (!payload)
        return false;
    shm_fast_copy(memory, payload, len);
    if (head.flags)
        shm_rx_bulk_done(&link->rx, pos, len);
    shm_rx_consume(&link->rx, head);
    shm_control_fin(link, remote);
    complete(&link->ep->base.binding, BIND_REMOTE_WRITE, false, NULL, 0, len, NULL, 0, 0, 0);
    return true;
}

/* Answered at once, where nothing else is under way and there is room. */
static inline bool quick_read(struct shm_link *link, struct shm_head head, const char *body)
{
    char *memory, *answer;
    uint64_t len;
    uint32_t remote;

    if (__builtin_expect(head.flags || head.bytes != SHM_ACCESS_WORDS ||
                             !list_empty(&link->streams) || link->dead,
                         0))
        return false;
    memory = quick_target(link, body, FI_REMOTE_READ, &remote, &len);
    if (__builtin_expect(!memory || !len || len > SHM_BODY_LINE - sizeof(uint64_t), 0))
        return false;
    answer = shm_tx_line_or_more(&link->tx);
    if (__builtin_expect(!answer, 0))
        return false;
    shm_fast_copy(shm_put(answer + SHM_WORD, remote), memory, len);
    shm_rx_consume_line(&link->rx);
    link->ep->idle = 0;
    shm_tx_publish_line(
        &link->tx, answer,
        (struct shm_head){.op = SHM_DATA, .bytes = (uint16_t)(sizeof(uint64_t) + len)});
    shm_link_notify(link);
    complete(&link->ep->base.binding, BIND_REMOTE_READ, false, NULL, 0, len, NULL, 0, 0, 0);
    return true;
}

static __attribute__((noinline)) bool take_any_write(struct shm_link *link, struct shm_head head,
                                                     const char *body)
{
    struct shm_words words = shm_words(body, head);
    struct shm_payload payload;
    struct access access;
    struct iovec from;
    int err;

    if (quick_large_write(link, head, body))
        return true;
    get_numbers(&words, &access);
    access.has_data = head.flags & SHM_CQ_DATA;
    access.data = access.has_data ? shm_get(&words) : 0;
    if (!get_rma(&words, &access) || !shm_payload(link, head, &words, &payload) ||
        payload.len != access.len)
        return broken(link);
    err = resolve(link->ep, &access, FI_REMOTE_WRITE);
    if (!err) {
        from = (struct iovec){(void *)(uintptr_t)payload.bytes, payload.len};
        iov_copy(access.iov, access.count, &from, 1);
    }
    shm_taken(link, head, &payload);
    if (err) {
        shm_control_error(link, access.remote, err);
        return true;
    }
    shm_control_fin(link, access.remote);
    tell(link, BIND_REMOTE_WRITE, FI_RMA | FI_REMOTE_WRITE, FI_REMOTE_WRITE, access.mrs,
         access.mr_count, access.len, access.has_data, access.data);
    release(&access);
    return true;
}

bool shm_take_write(struct shm_link *link, struct shm_head head, const char *body)
{
    return __builtin_expect(quick_write(link, head, body), 1) || take_any_write(link, head, body);
}

bool shm_take_fetch(struct shm_link *link, struct shm_head head, const char *body)
{
    struct shm_words words = shm_words(body, head);
    struct access access;
    struct shm_op *op;
    int err;

    get_numbers(&words, &access);
    access.has_data = head.flags & SHM_CQ_DATA;
    access.data = access.has_data ? shm_get(&words) : 0;
    if (!get_rma(&words, &access) || !get_there(&words, &access))
        return broken(link);
    shm_rx_consume(&link->rx, head);
    err = resolve(link->ep, &access, FI_REMOTE_WRITE);
    if (err) {
        shm_control_error(link, access.remote, err);
        return true;
    }
    op = begin(link, &access, SHM_FETCHER);
    if (op)
        shm_fetch(op);
    return op;
}

bool shm_take_read(struct shm_link *link, struct shm_head head, const char *body)
{
    struct shm_words words = shm_words(body, head);
    struct access access;
    struct shm_op *op;
    bool asks;
    int err;

    if (__builtin_expect(quick_read(link, head, body), 1))
        return true;
    access.has_data = false;
    access.data = 0;
    get_numbers(&words, &access);
    asks = access.there_count == 1;
    access.there_count = 0;
    if (!get_rma(&words, &access))
        return broken(link);
    shm_rx_consume(&link->rx, head);
    err = resolve(link->ep, &access, FI_REMOTE_READ);
    if (err) {
        shm_control_error(link, access.remote, err);
        return true;
    }
    op = begin(link, &access, SHM_GIVER);
    if (op && asks && shm_cma_tells(op))
        shm_control_where(op);
    else if (op)
        shm_give(op);
    return op;
}

/* The answer to a read that has asked. */
bool shm_take_where(struct shm_link *link, struct shm_head head, const char *body)
{
    struct shm_words words = shm_words(body, head);
    uint64_t number = shm_get(&words), remote = shm_get(&words);
    struct shm_op *op = shm_op_find(link, (uint32_t)number, SHM_IN, SHM_IN);
    uint64_t count = number >> 32;

    if (words.bad || !op || !op->asks || !count || count > SHM_IOV_LIMIT)
        return broken(link);
    for (size_t i = 0; i < count; i++) {
        op->there[i].iov_base = (void *)(uintptr_t)shm_get(&words);
        op->there[i].iov_len = shm_get(&words);
    }
    if (words.bad)
        return broken(link);
    shm_rx_consume(&link->rx, head);
    op->asks = false;
    op->there_count = (uint8_t)count;
    op->remote = (uint32_t)remote;
    shm_cma_read(op);
    return true;
}

/* ---- Atomic operations ---- */

struct todo {
    enum fi_op op;
    enum fi_datatype datatype;
    uint64_t way; /* as the message says */
    size_t size;  /* of an element */
    const char *operand, *compare;
    char result[SHM_INLINE], *results; /* where they go; NULL: nowhere */
};

static uint64_t function_of(const struct todo *todo)
{
    if (todo->way == SHM_WAY_COMPARE)
        return FI_COMPARE_ATOMIC;
    return todo->way ? FI_FETCH_ATOMIC : 0;
}

/* 0, or a positive error for the peer, which should have checked. */
static int check(const struct todo *todo, const struct access *access)
{
    if (!todo->size || !atomic_valid(todo->datatype, todo->op, function_of(todo)))
        return FI_EOPNOTSUPP;
    for (size_t i = 0; i < access->rma_count; i++) {
        if (access->rma[i].len % todo->size)
            return FI_EINVAL;
    }
    return 0;
}

static void apply(struct todo *todo, const struct access *access)
{
    atomic_apply_pieces(todo->op, todo->datatype, access->iov, access->count,
                        todo->op == FI_ATOMIC_READ ? NULL : todo->operand,
                        todo->way == SHM_WAY_COMPARE ? todo->compare : NULL, todo->results);
}

static int resolve_atomic(struct shm_link *link, const struct todo *todo, struct access *access)
{
    int err = check(todo, access);

    if (!err)
        err = resolve(link->ep, access, atomic_access(todo->op, function_of(todo)));
    if (!err && !atomic_is_whole(todo->datatype, access->iov, access->count)) {
        release(access);
        err = FI_EINVAL;
    }
    return err;
}

/* The result leaves at once, if there is room, or with what is streamed. Regions are released. */
static bool answer(struct shm_link *link, struct access *access, struct todo *todo)
{
    bool own = todo->results != todo->result;
    struct shm_op *op;

    access->there_count = 0;
    access->iov[0] = (struct iovec){todo->results, access->len};
    access->count = 1;
    op = begin(link, access, SHM_GIVER);
    if (op && !own && list_empty(&link->streams) && shm_send_data(link, op)) {
        shm_op_put(op);
        return true;
    }
    if (op)
        op->own = own ? todo->results : malloc(access->len);
    if (!op || !op->own) {
        if (!op && own)
            free(todo->results);
        shm_link_fail(link, FI_ENOMEM);
        return false;
    }
    if (!own)
        memcpy(op->own, todo->result, access->len);
    op->iov[0].iov_base = op->own;
    shm_give(op);
    return true;
}

/* 0 and done, or why not, for the peer. */
static int do_atomic(struct shm_link *link, struct access *access, struct todo *todo)
{
    int err = resolve_atomic(link, todo, access);

    if (err)
        return err;
    todo->results = NULL;
    if (todo->way)
        todo->results = access->len <= sizeof(todo->result) ? todo->result : malloc(access->len);
    if (todo->way && !todo->results) {
        release(access);
        return FI_ENOMEM;
    }
    apply(todo, access);
    tell(link, todo->way ? BIND_REMOTE_READ : BIND_REMOTE_WRITE, FI_ATOMIC,
         atomic_access(todo->op, function_of(todo)), access->mrs, access->mr_count, access->len,
         false, 0);
    release(access);
    return 0;
}

static bool get_todo(struct shm_words *words, struct todo *todo)
{
    uint64_t what = shm_get(words);

    todo->op = (enum fi_op)(what & 0xff);
    todo->datatype = (enum fi_datatype)(what >> 8 & 0xff);
    todo->way = what >> 16;
    todo->size = atomic_size(todo->datatype);
    return todo->way <= SHM_WAY_COMPARE;
}

bool shm_take_atomic(struct shm_link *link, struct shm_head head, const char *body)
{
    struct shm_words words = shm_words(body, head);
    struct shm_payload payload;
    struct access access;
    struct todo todo;
    size_t operands;
    int err;

    get_numbers(&words, &access);
    if (!get_todo(&words, &todo))
        return broken(link);
    access.has_data = false;
    access.data = 0;
    if (!get_rma(&words, &access) || !access.len || access.len > SHM_ATOMIC_MAX ||
        !shm_payload(link, head, &words, &payload))
        return broken(link);
    operands = todo.op == FI_ATOMIC_READ ? 0 : access.len;
    if (payload.len != operands + (todo.way == SHM_WAY_COMPARE ? access.len : 0))
        return broken(link);
    todo.operand = payload.bytes;
    todo.compare = payload.bytes + operands;
    err = do_atomic(link, &access, &todo);
    shm_taken(link, head, &payload);
    if (err)
        shm_control_error(link, access.remote, err);
    else if (todo.way)
        return answer(link, &access, &todo);
    else
        shm_control_fin(link, access.remote);
    return true;
}
