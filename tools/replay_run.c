/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process opens its endpoints, meets the others to exchange addresses, posts its operations in
 * the order of the trace, and before each waits for the completions that the program had seen by
 * then. Whoever has nothing left to do drives its endpoints until all have finished: the others may
 * need it.
 */
#include "replay_run.h"

#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

enum {
    BATCH = 16,
    PATIENCE_NS = 250000000,
    POPULATE_MAX = 1 << 30,
    NOBODY = -1,
    MEET_OPENED = 0,
    MEET_READY,
    MEET_FINISHED
};

struct running {
    struct fi_context2 context; /* first: its address leads here */
    int64_t start;
    bool done, cancelled;
    unsigned messages; /* of a receive for several */
    int again;         /* the next one that waits to be posted again; NOBODY */
};

struct player {
    const struct replay_plan *plan;
    const struct replay_process *process;
    const struct replay_settings *settings;
    struct replay_shared *shared;
    struct replay_result *result;
    int index;
    int64_t *times, moved; /* moved: when something last went on */
    struct running *running;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_mr *local, *target;
    void *desc;
    char *buffers, *memory;
    struct fid_ep *eps[REPLAY_ENDPOINTS]; /* its own; others NULL */
    fi_addr_t addrs[REPLAY_ENDPOINTS];
    uint64_t impatient;                  /* sends of so many bytes are not waited for */
    uint64_t messages[REPLAY_ENDPOINTS]; /* in receives for several */
    int again;                           /* such receives that are to be posted again; NOBODY */
    uint64_t left;                       /* posted and not completed, of those that will complete */
};

static int64_t now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

__attribute__((format(printf, 2, 3))) static bool fail(struct player *player, const char *format,
                                                       ...)
{
    va_list args;

    if (!atomic_load(&player->shared->failed)) {
        va_start(args, format);
        vsnprintf(player->result->why, sizeof(player->result->why), format, args);
        va_end(args);
    }
    atomic_store(&player->shared->failed, 1);
    return false;
}

static bool check(struct player *player, const char *what, ssize_t rc)
{
    return rc >= 0 || fail(player, "%s: %s", what, fi_strerror((int)-rc));
}

/* ---- Opening ---- */

static bool choose_info(struct player *player)
{
    const struct replay_plan *plan = player->plan;
    struct fi_info *hints = fi_allocinfo();
    int rc;

    if (!hints)
        return fail(player, "there is no memory");
    hints->caps = (plan->messages ? FI_MSG : 0) | (plan->tagged ? FI_TAGGED : 0) |
                  (plan->rma ? FI_RMA : 0) | (plan->atomics ? FI_ATOMIC : 0) |
                  (plan->multi ? FI_MULTI_RECV : 0) | (plan->directed ? FI_DIRECTED_RECV : 0);
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    setenv("FI_PROVIDER", player->settings->stack, 1);
    unsetenv("FI_HOOK");
    rc = fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &player->info);
    fi_freeinfo(hints);
    if (rc)
        return fail(player,
                    "'%s' has no endpoint for what was recorded (%s); FI_EXPLAIN=1 in the "
                    "environment says why",
                    player->settings->stack, fi_strerror(-rc));
    return true;
}

/* The program had used its buffers before, mostly: what is not too large is there at once. */
static char *map_memory(uint64_t size)
{
    const int now = size <= POPULATE_MAX ? MAP_POPULATE : MAP_NORESERVE;
    char *memory =
        mmap(NULL, size + 64, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | now, -1, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

static bool open_memory(struct player *player)
{
    const uint64_t local = player->process->buffers.size, target = player->process->target.size;
    const int mode = player->info->domain_attr->mr_mode;
    struct replay_target *told = &player->shared->targets[player->index];

    player->buffers = map_memory(local);
    player->memory = map_memory(target);
    if (!player->buffers || !player->memory)
        return fail(player, "there is no memory for %" PRIu64 " bytes of buffers", local + target);
    if (mode & FI_MR_LOCAL) {
        if (!check(player, "fi_mr_reg",
                   fi_mr_reg(player->domain, player->buffers, local + 64,
                             FI_SEND | FI_RECV | FI_READ | FI_WRITE, 0, 1, 0, &player->local,
                             NULL)))
            return false;
        player->desc = fi_mr_desc(player->local);
    }
    if (!target)
        return true;
    if (!check(player, "fi_mr_reg",
               fi_mr_reg(player->domain, player->memory, target, FI_REMOTE_READ | FI_REMOTE_WRITE,
                         0, 2, 0, &player->target, NULL)))
        return false;
    told->base = mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)player->memory : 0;
    told->key = fi_mr_key(player->target);
    return true;
}

/* What came into the receives of the program has to fit into these, whatever the stack's limit. */
static bool set_multi(struct player *player, int number)
{
    const struct replay_endpoint *it = &player->plan->endpoints[number];
    size_t least = (size_t)(it->largest < it->smallest ? it->largest : it->smallest);

    return !least || check(player, "fi_setopt(FI_OPT_MIN_MULTI_RECV)",
                           fi_setopt(&player->eps[number]->fid, FI_OPT_ENDPOINT,
                                     FI_OPT_MIN_MULTI_RECV, &least, sizeof(least)));
}

static bool open_endpoint(struct player *player, int number)
{
    struct replay_address *address = &player->shared->addresses[number];
    size_t len = sizeof(address->bytes);
    struct fid_ep *ep;

    if (!check(player, "fi_endpoint", fi_endpoint(player->domain, player->info, &ep, NULL)))
        return false;
    player->eps[number] = ep;
    if (!check(player, "fi_ep_bind", fi_ep_bind(ep, &player->cq->fid, FI_TRANSMIT | FI_RECV)) ||
        !check(player, "fi_ep_bind", fi_ep_bind(ep, &player->av->fid, 0)) ||
        !set_multi(player, number) || !check(player, "fi_enable", fi_enable(ep)) ||
        !check(player, "fi_getname", fi_getname(&ep->fid, address->bytes, &len)))
        return false;
    if (len > sizeof(address->bytes))
        return fail(player, "addresses of '%s' are too long", player->settings->stack);
    address->len = (uint32_t)len;
    return true;
}

static bool open_endpoints(struct player *player)
{
    bool first = true;

    for (int i = 0; i < player->plan->endpoint_count; i++) {
        if (player->plan->endpoints[i].process != player->index)
            continue;
        /* Further ones want an address of their own. */
        if (!first) {
            free(player->info->src_addr);
            player->info->src_addr = NULL;
            player->info->src_addrlen = 0;
        }
        first = false;
        if (!open_endpoint(player, i))
            return false;
    }
    return true;
}

static bool open_all(struct player *player)
{
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE};
    struct fi_av_attr av = {.type = FI_AV_TABLE};

    if (!choose_info(player))
        return false;
    cq.size = player->info->tx_attr->size + player->info->rx_attr->size;
    av.count = (size_t)player->plan->endpoint_count;
    return check(player, "fi_fabric",
                 fi_fabric(player->info->fabric_attr, &player->fabric, NULL)) &&
           check(player, "fi_domain",
                 fi_domain(player->fabric, player->info, &player->domain, NULL)) &&
           check(player, "fi_cq_open", fi_cq_open(player->domain, &cq, &player->cq, NULL)) &&
           check(player, "fi_av_open", fi_av_open(player->domain, &av, &player->av, NULL)) &&
           open_memory(player) && open_endpoints(player);
}

static void close_fid(struct fid *fid)
{
    if (fid)
        fi_close(fid);
}

static void close_all(struct player *player)
{
    for (int i = 0; i < REPLAY_ENDPOINTS; i++)
        close_fid(player->eps[i] ? &player->eps[i]->fid : NULL);
    close_fid(player->local ? &player->local->fid : NULL);
    close_fid(player->target ? &player->target->fid : NULL);
    close_fid(player->av ? &player->av->fid : NULL);
    close_fid(player->cq ? &player->cq->fid : NULL);
    close_fid(player->domain ? &player->domain->fid : NULL);
    close_fid(player->fabric ? &player->fabric->fid : NULL);
    fi_freeinfo(player->info);
    free(player->running);
}

static bool insert_addresses(struct player *player)
{
    for (int i = 0; i < player->plan->endpoint_count; i++)
        if (fi_av_insert(player->av, player->shared->addresses[i].bytes, 1, &player->addrs[i], 0,
                         NULL) != 1)
            return fail(player, "fi_av_insert: the address of an endpoint of %s is refused",
                        player->plan->processes[player->plan->endpoints[i].process].name);
    return true;
}

/* ---- Completions ---- */

static const char *op_name(const struct replay_op *op)
{
    return replay_class_names[op->class];
}

/* The operation of a context; -1: it is none of ours, as what a peer's write has told. */
static int number_of(const struct player *player, const void *context)
{
    uintptr_t first = (uintptr_t)player->running, here = (uintptr_t)context;

    if (here >= first &&
        (here - first) / sizeof(struct running) < (size_t)player->process->op_count)
        return (int)((here - first) / sizeof(struct running));
    return -1;
}

static void has_moved(struct player *player)
{
    player->moved = now();
    atomic_fetch_add_explicit(&player->shared->moves, 1, memory_order_relaxed);
    player->result->last = player->moved;
}

/*
 * A message in a receive for several. A stack may give one back with more room left than that of
 * the recording did: then it is posted again, as the program waits for its messages before it posts
 * another. Who gets which message does not matter.
 */
static void got_message(struct player *player, int number, uint64_t flags)
{
    struct running *running = &player->running[number];
    const struct replay_op *op = &player->process->ops[number];

    has_moved(player);
    if (flags & FI_RECV) {
        running->messages++;
        player->messages[op->ep]++;
        player->times[number] = player->moved - running->start;
    }
    if (!(flags & FI_MULTI_RECV))
        return;
    running->done = running->cancelled || running->messages >= op->messages;
    if (running->done)
        return;
    running->again = player->again;
    player->again = number;
}

static void completed(struct player *player, const struct fi_cq_tagged_entry *entry)
{
    int number = number_of(player, entry->op_context);
    const struct replay_op *op;

    if (number < 0 || player->running[number].done)
        return;
    op = &player->process->ops[number];
    if (op->multi) {
        got_message(player, number, entry->flags);
        return;
    }
    has_moved(player);
    player->running[number].done = true;
    player->times[number] = player->moved - player->running[number].start;
    player->left -= op->class != REPLAY_RECV;
    player->result->not_cancelled += op->cancelled;
    if (op->class == REPLAY_RECV && op->completed && entry->len != op->done_len)
        player->result->other_lens++;
}

static bool failed_completion(struct player *player)
{
    struct fi_cq_err_entry error = {0};
    ssize_t rc = fi_cq_readerr(player->cq, &error, 0);
    int number;

    if (rc == -FI_EAGAIN)
        return true;
    if (rc < 0)
        return check(player, "fi_cq_readerr", rc);
    number = number_of(player, error.op_context);
    if (error.err == FI_ECANCELED && number >= 0 && player->running[number].cancelled) {
        has_moved(player);
        player->left -=
            !player->running[number].done && player->process->ops[number].class != REPLAY_RECV;
        player->running[number].done = true;
        return true;
    }
    return fail(player, "operation %d (%s): %s", number + 1,
                number < 0 ? "of a peer" : op_name(&player->process->ops[number]),
                fi_strerror(error.err));
}

static ssize_t post_once(struct player *player, const struct replay_op *op,
                         struct running *running);

static bool post_again(struct player *player)
{
    while (player->again != NOBODY) {
        struct running *running = &player->running[player->again];
        const struct replay_op *op = &player->process->ops[player->again];
        ssize_t rc = running->cancelled ? 0 : post_once(player, op, running);

        if (rc == -FI_EAGAIN)
            return true;
        if (rc)
            return check(player, "posting a receive again", rc);
        running->done = running->cancelled;
        player->again = running->again;
    }
    return true;
}

static bool progress(struct player *player)
{
    struct fi_cq_tagged_entry entries[BATCH];
    ssize_t rc = fi_cq_read(player->cq, entries, BATCH);

    for (ssize_t i = 0; i < rc; i++)
        completed(player, &entries[i]);
    if (rc == -FI_EAVAIL)
        return failed_completion(player);
    if (rc < 0 && rc != -FI_EAGAIN)
        return check(player, "fi_cq_read", rc);
    if (!post_again(player))
        return false;
    return !atomic_load_explicit(&player->shared->failed, memory_order_relaxed);
}

static bool stuck(struct player *player, const char *what, int number)
{
    if (now() - player->moved < (int64_t)player->settings->timeout_s * 1000000000)
        return false;
    fail(player, "%s operation %d of %d (%s): nothing moves for %d s", what, number + 1,
         player->process->op_count, op_name(&player->process->ops[number]),
         player->settings->timeout_s);
    return true;
}

/* ---- Operations ---- */

static ssize_t post_send(const struct player *player, const struct replay_op *op,
                         struct running *running, bool inject)
{
    const fi_addr_t to = player->addrs[op->peer];
    struct fid_ep *ep = player->eps[op->ep];
    const char *buf = player->buffers + op->offset;

    if (inject && op->tagged)
        return op->data ? fi_tinjectdata(ep, buf, op->len, op->cq_data, to, op->tag)
                        : fi_tinject(ep, buf, op->len, to, op->tag);
    if (inject)
        return op->data ? fi_injectdata(ep, buf, op->len, op->cq_data, to)
                        : fi_inject(ep, buf, op->len, to);
    if (op->tagged)
        return op->data
                   ? fi_tsenddata(ep, buf, op->len, player->desc, op->cq_data, to, op->tag, running)
                   : fi_tsend(ep, buf, op->len, player->desc, to, op->tag, running);
    return op->data ? fi_senddata(ep, buf, op->len, player->desc, op->cq_data, to, running)
                    : fi_send(ep, buf, op->len, player->desc, to, running);
}

/* With flags of its own: what the program asked of its completion. */
static ssize_t post_flagged_send(struct player *player, const struct replay_op *op,
                                 struct running *running)
{
    struct iovec iov = {player->buffers + op->offset, op->len};
    uint64_t flags = op->flags | FI_COMPLETION | (op->data ? FI_REMOTE_CQ_DATA : 0);
    struct fid_ep *ep = player->eps[op->ep];
    const struct fi_msg_tagged tagged = {.msg_iov = &iov,
                                         .desc = &player->desc,
                                         .iov_count = 1,
                                         .addr = player->addrs[op->peer],
                                         .tag = op->tag,
                                         .context = running,
                                         .data = op->cq_data};
    const struct fi_msg msg = {.msg_iov = &iov,
                               .desc = &player->desc,
                               .iov_count = 1,
                               .addr = player->addrs[op->peer],
                               .context = running,
                               .data = op->cq_data};

    return op->tagged ? fi_tsendmsg(ep, &tagged, flags) : fi_sendmsg(ep, &msg, flags);
}

static ssize_t post_multi(struct player *player, const struct replay_op *op,
                          struct running *running)
{
    struct iovec iov = {player->buffers + op->offset, op->len};
    const struct fi_msg msg = {.msg_iov = &iov,
                               .desc = &player->desc,
                               .iov_count = 1,
                               .addr = op->peer == REPLAY_ANY ? FI_ADDR_UNSPEC
                                                              : player->addrs[op->peer],
                               .context = running};

    return fi_recvmsg(player->eps[op->ep], &msg, FI_MULTI_RECV | FI_COMPLETION);
}

static ssize_t post_recv(struct player *player, const struct replay_op *op, struct running *running)
{
    const fi_addr_t from = op->peer == REPLAY_ANY ? FI_ADDR_UNSPEC : player->addrs[op->peer];
    struct fid_ep *ep = player->eps[op->ep];
    char *buf = player->buffers + op->offset;

    return op->tagged ? fi_trecv(ep, buf, op->len, player->desc, from, op->tag, op->ignore, running)
                      : fi_recv(ep, buf, op->len, player->desc, from, running);
}

static ssize_t post_rma(struct player *player, const struct replay_op *op, struct running *running,
                        bool inject)
{
    const struct replay_target *target =
        &player->shared->targets[player->plan->endpoints[op->peer].process];
    const fi_addr_t to = player->addrs[op->peer];
    const uint64_t addr = target->base + op->remote;
    struct fid_ep *ep = player->eps[op->ep];
    char *buf = player->buffers + op->offset;

    if (op->class == REPLAY_READ)
        return fi_read(ep, buf, op->len, player->desc, to, addr, target->key, running);
    if (inject)
        return op->data ? fi_inject_writedata(ep, buf, op->len, op->cq_data, to, addr, target->key)
                        : fi_inject_write(ep, buf, op->len, to, addr, target->key);
    return op->data ? fi_writedata(ep, buf, op->len, player->desc, op->cq_data, to, addr,
                                   target->key, running)
                    : fi_write(ep, buf, op->len, player->desc, to, addr, target->key, running);
}

/* Results of all go to one place: what comes back is not looked at. */
static ssize_t post_atomic(struct player *player, const struct replay_op *op,
                           struct running *running, bool inject)
{
    const struct replay_target *target =
        &player->shared->targets[player->plan->endpoints[op->peer].process];
    const fi_addr_t to = player->addrs[op->peer];
    const uint64_t addr = target->base + op->remote;
    const size_t count = (size_t)(op->len / op->size);
    const enum fi_datatype type = (enum fi_datatype)op->datatype;
    const enum fi_op atomic_op = (enum fi_op)op->atomic_op;
    struct fid_ep *ep = player->eps[op->ep];
    char *buf = atomic_op == FI_ATOMIC_READ ? NULL : player->buffers + op->offset;
    char *result = player->buffers + player->process->operands;
    const char *compare = result + player->process->operand_len;
    void *desc = player->desc;

    if (op->class == REPLAY_FETCH)
        return fi_fetch_atomic(ep, buf, count, desc, result, desc, to, addr, target->key, type,
                               atomic_op, running);
    if (op->class == REPLAY_COMPARE)
        return fi_compare_atomic(ep, buf, count, desc, compare, desc, result, desc, to, addr,
                                 target->key, type, atomic_op, running);
    if (inject)
        return fi_inject_atomic(ep, buf, count, to, addr, target->key, type, atomic_op);
    return fi_atomic(ep, buf, count, desc, to, addr, target->key, type, atomic_op, running);
}

static bool fits_inject(const struct player *player, const struct replay_op *op)
{
    return op->inject && op->len <= player->info->tx_attr->inject_size;
}

static ssize_t post_once(struct player *player, const struct replay_op *op, struct running *running)
{
    if (op->multi)
        return post_multi(player, op, running);
    if (op->class == REPLAY_RECV)
        return post_recv(player, op, running);
    if (replay_is_atomic(op))
        return post_atomic(player, op, running, fits_inject(player, op));
    if (op->class != REPLAY_SEND)
        return post_rma(player, op, running, fits_inject(player, op));
    if (op->flags && !op->inject)
        return post_flagged_send(player, op, running);
    return post_send(player, op, running, fits_inject(player, op));
}

static bool post(struct player *player, int number)
{
    const struct replay_op *op = &player->process->ops[number];
    struct running *running = &player->running[number];
    bool silent = op->class != REPLAY_RECV && fits_inject(player, op);
    ssize_t rc;

    running->start = now();
    while ((rc = post_once(player, op, running)) == -FI_EAGAIN) {
        if (!progress(player) || stuck(player, "posting", number))
            return false;
    }
    if (rc)
        return fail(player, "operation %d (%s of %" PRIu64 " bytes): %s", number + 1, op_name(op),
                    op->len, fi_strerror((int)-rc));
    player->moved = now();
    atomic_fetch_add_explicit(&player->shared->moves, 1, memory_order_relaxed);
    player->result->last = player->moved;
    player->left += !silent && op->class != REPLAY_RECV;
    return true;
}

/* ---- The course ---- */

/* Until all are here. */
static bool meet(struct player *player, int point)
{
    atomic_fetch_add(&player->shared->met[point], 1);
    while (atomic_load(&player->shared->met[point]) < player->plan->process_count) {
        if (!progress(player))
            return false;
        if (point != MEET_FINISHED)
            usleep(50);
        else
            sched_yield();
    }
    return true;
}

static bool keep_pace(struct player *player, int64_t until)
{
    while (now() < until)
        if (!progress(player))
            return false;
    player->moved = now();
    return true;
}

/* Has any process done anything since `last`, which is brought up to date? */
static bool anything_moved(const struct player *player, unsigned *last)
{
    unsigned moves = atomic_load_explicit(&player->shared->moves, memory_order_relaxed);
    bool moved = moves != *last;

    *last = moves;
    return moved;
}

/*
 * Most programs go on when a send has completed because it has. But some post their receives later
 * than they happened to see it, and over a stack where a send waits for its receive they would not
 * wait. So when nothing moves anywhere, the course goes on, and sends of that size are not waited
 * for any more.
 */
static bool wait_for_send(struct player *player, int number)
{
    const struct replay_op *op = &player->process->ops[number];
    int64_t since = now();
    unsigned last = 0;

    while (!player->running[number].done && !fits_inject(player, op) &&
           op->len < player->impatient) {
        if (!progress(player))
            return false;
        if (anything_moved(player, &last)) {
            since = now();
        } else if (now() - since > PATIENCE_NS) {
            player->impatient = op->len;
            player->result->impatient = true;
        }
    }
    return true;
}

static bool cancel(struct player *player, int number)
{
    struct running *running = &player->running[number];
    ssize_t rc;

    if (running->done)
        return true;
    running->cancelled = true;
    rc = fi_cancel(&player->eps[player->process->ops[number].ep]->fid, running);
    return rc == -FI_ENOENT || check(player, "fi_cancel", rc); /* it may be done, and not read */
}

static bool wait_for(struct player *player, const struct replay_step *step)
{
    const struct replay_op *op = &player->process->ops[step->op];

    while (step->messages ? player->messages[op->ep] < step->messages
                          : !player->running[step->op].done) {
        if (!progress(player) || stuck(player, "waiting for", step->op))
            return false;
    }
    return true;
}

static bool play_step(struct player *player, const struct replay_step *step)
{
    const struct replay_op *op = &player->process->ops[step->op];

    if (step->kind != REPLAY_WAIT && player->settings->pace &&
        !keep_pace(player, player->result->first + step->ns))
        return false;
    if (step->kind == REPLAY_POST)
        return post(player, step->op);
    if (step->kind == REPLAY_CANCEL)
        return cancel(player, step->op);
    if (!op->cancelled &&
        (op->class == REPLAY_SEND || op->class == REPLAY_WRITE || op->class == REPLAY_ATOMIC))
        return wait_for_send(player, step->op);
    return wait_for(player, step);
}

static bool play(struct player *player)
{
    int last = 0;

    player->result->first = player->result->last = player->moved = now();
    for (int i = 0; i < player->process->step_count; i++) {
        last = player->process->steps[i].op;
        player->result->step = i;
        if (!play_step(player, &player->process->steps[i]))
            return false;
    }
    while (player->left)
        if (!progress(player) || stuck(player, "ending after", last))
            return false;
    return true;
}

bool replay_run(const struct replay_plan *plan, int index, const struct replay_settings *settings,
                struct replay_shared *shared, int64_t *times)
{
    static struct player player;
    bool ok;

    player = (struct player){.plan = plan,
                             .process = &plan->processes[index],
                             .settings = settings,
                             .shared = shared,
                             .result = &shared->results[index],
                             .index = index,
                             .impatient = UINT64_MAX,
                             .again = NOBODY,
                             .times = times};
    for (int i = 0; i < player.process->op_count; i++)
        times[i] = -1;
    player.running = calloc((size_t)player.process->op_count, sizeof(*player.running));
    ok = player.running || fail(&player, "there is no memory");
    ok = ok && open_all(&player) && meet(&player, MEET_OPENED) && insert_addresses(&player) &&
         meet(&player, MEET_READY) && play(&player) && meet(&player, MEET_FINISHED);
    close_all(&player);
    return ok;
}
