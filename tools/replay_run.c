/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process opens its endpoints, meets the others to exchange addresses, posts its operations in
 * the order of the trace, and before each waits for the completions that the program had seen by
 * then. A process that has nothing left to do drives its endpoints until all have finished: the
 * others may need it. Where there are fewer processors than processes, one that waits makes room
 * for them.
 */
#include "replay_run.h"

#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "replay_player.h"

enum {
    BATCH = 16,
    PATIENCE_NS = 250000000,
    MEET_OPENED = 0,
    MEET_READY,
    MEET_FINISHED
};

static int64_t now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

bool replay_fail(struct replay_player *player, const char *format, ...)
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

bool replay_check(struct replay_player *player, const char *what, ssize_t rc)
{
    return rc >= 0 || replay_fail(player, "%s: %s", what, fi_strerror((int)-rc));
}

static bool insert_addresses(struct replay_player *player)
{
    for (int i = 0; i < player->plan->endpoint_count; i++)
        if (fi_av_insert(player->av, player->shared->addresses[i].bytes, 1, &player->addrs[i], 0,
                         NULL) != 1)
            return replay_fail(player, "fi_av_insert: the address of an endpoint of %s is refused",
                               player->plan->processes[player->plan->endpoints[i].process].name);
    return true;
}

/* ---- Completions ---- */

static const char *op_name(const struct replay_op *op)
{
    return replay_class_names[op->class];
}

/* The operation of a context; -1: it is none of ours, as what a peer's write has told. */
static int number_of(const struct replay_player *player, const void *context)
{
    uintptr_t first = (uintptr_t)player->running, here = (uintptr_t)context;

    if (here >= first &&
        (here - first) / sizeof(struct replay_running) < (size_t)player->process->op_count)
        return (int)((here - first) / sizeof(struct replay_running));
    return -1;
}

void replay_moved(struct replay_player *player)
{
    player->moved = now();
    atomic_fetch_add_explicit(&player->shared->moves, 1, memory_order_relaxed);
    player->result->last = player->moved;
}

/*
 * A message in a receive for several. A stack may give one back with more room left than that of
 * the recording did: then it is posted again, as the program waits for its messages before it posts
 * another. It does not matter which receive gets which message.
 */
static void got_message(struct replay_player *player, int number, uint64_t flags)
{
    struct replay_running *running = &player->running[number];
    const struct replay_op *op = &player->process->ops[number];

    replay_moved(player);
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

static void completed(struct replay_player *player, const struct fi_cq_tagged_entry *entry)
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
    replay_moved(player);
    player->running[number].done = true;
    player->times[number] = player->moved - player->running[number].start;
    player->left -= op->class != REPLAY_RECV;
    player->result->not_cancelled += op->cancelled;
    if (op->class == REPLAY_RECV && op->completed && entry->len != op->done_len)
        player->result->other_lens++;
}

static bool failed_completion(struct replay_player *player)
{
    struct fi_cq_err_entry error = {0};
    ssize_t rc = fi_cq_readerr(player->cq, &error, 0);
    int number;

    if (rc == -FI_EAGAIN)
        return true;
    if (rc < 0)
        return replay_check(player, "fi_cq_readerr", rc);
    number = number_of(player, error.op_context);
    if (error.err == FI_ECANCELED && number >= 0 && player->running[number].cancelled) {
        replay_moved(player);
        player->left -=
            !player->running[number].done && player->process->ops[number].class != REPLAY_RECV;
        player->running[number].done = true;
        return true;
    }
    return replay_fail(player, "operation %d (%s): %s", number + 1,
                       number < 0 ? "of a peer" : op_name(&player->process->ops[number]),
                       fi_strerror(error.err));
}

static bool post_again(struct replay_player *player)
{
    while (player->again != REPLAY_NOBODY) {
        struct replay_running *running = &player->running[player->again];
        const struct replay_op *op = &player->process->ops[player->again];
        ssize_t rc = running->cancelled ? 0 : replay_post(player, op, running);

        if (rc == -FI_EAGAIN)
            return true;
        if (rc)
            return replay_check(player, "posting a receive again", rc);
        running->done = running->cancelled;
        player->again = running->again;
    }
    return true;
}

static bool progress(struct replay_player *player)
{
    struct fi_cq_tagged_entry entries[BATCH];
    ssize_t rc = fi_cq_read(player->cq, entries, BATCH);

    for (ssize_t i = 0; i < rc; i++)
        completed(player, &entries[i]);
    if (rc == -FI_EAVAIL)
        return failed_completion(player);
    if (rc < 0 && rc != -FI_EAGAIN)
        return replay_check(player, "fi_cq_read", rc);
    if (rc == -FI_EAGAIN && player->crowded)
        sched_yield();
    if (!post_again(player) || !replay_joins_progress(player))
        return false;
    return !atomic_load_explicit(&player->shared->failed, memory_order_relaxed);
}

static bool stuck(struct replay_player *player, const char *what, int number)
{
    if (now() - player->moved < (int64_t)player->settings->timeout_s * 1000000000)
        return false;
    replay_fail(player, "%s operation %d of %d (%s): nothing moves for %d s", what, number + 1,
                player->process->op_count, op_name(&player->process->ops[number]),
                player->settings->timeout_s);
    return true;
}

/* ---- Operations ---- */

static bool post(struct replay_player *player, int number)
{
    const struct replay_op *op = &player->process->ops[number];
    struct replay_running *running = &player->running[number];
    bool silent = op->class != REPLAY_RECV && replay_fits_inject(player, op);
    ssize_t rc;

    running->start = now();
    while ((rc = replay_post(player, op, running)) == -FI_EAGAIN) {
        if (!progress(player) || stuck(player, "posting", number))
            return false;
    }
    if (rc)
        return replay_fail(player, "operation %d (%s of %" PRIu64 " bytes): %s", number + 1,
                           op_name(op), op->len, fi_strerror((int)-rc));
    player->moved = now();
    atomic_fetch_add_explicit(&player->shared->moves, 1, memory_order_relaxed);
    player->result->last = player->moved;
    player->left += !silent && op->class != REPLAY_RECV;
    return true;
}

/* ---- The course ---- */

/* Until all are here. */
static bool meet(struct replay_player *player, int point)
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

static bool keep_pace(struct replay_player *player, int64_t until)
{
    while (now() < until)
        if (!progress(player))
            return false;
    player->moved = now();
    return true;
}

/* Has any process done anything since `last`, which is brought up to date? */
static bool anything_moved(const struct replay_player *player, unsigned *last)
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
static bool wait_for_send(struct replay_player *player, int number)
{
    const struct replay_op *op = &player->process->ops[number];
    int64_t since = now();
    unsigned last = 0;

    while (!player->running[number].done && !replay_fits_inject(player, op) &&
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

static bool cancel(struct replay_player *player, int number)
{
    struct replay_running *running = &player->running[number];
    ssize_t rc;

    if (running->done)
        return true;
    running->cancelled = true;
    rc = fi_cancel(&player->eps[player->process->ops[number].ep]->fid, running);
    return rc == -FI_ENOENT ||
           replay_check(player, "fi_cancel", rc); /* it may be done, and not read */
}

static bool wait_for(struct replay_player *player, const struct replay_step *step)
{
    const struct replay_op *op = &player->process->ops[step->op];

    while (step->messages ? player->messages[op->ep] < step->messages
                          : !player->running[step->op].done) {
        if (!progress(player) || stuck(player, "waiting for", step->op))
            return false;
    }
    return true;
}

/* ---- Groups ---- */

static bool stuck_joining(struct replay_player *player, int number)
{
    if (now() - player->moved < (int64_t)player->settings->timeout_s * 1000000000)
        return false;
    replay_fail(player, "joining group %d of %d: nothing moves for %d s", number + 1,
                player->process->group_count, player->settings->timeout_s);
    return true;
}

static bool join(struct replay_player *player, int number)
{
    ssize_t rc;

    while ((rc = replay_join(player, number)) == -FI_EAGAIN)
        if (!progress(player) || stuck_joining(player, number))
            return false;
    if (!replay_check(player, "fi_join_collective", rc))
        return false;
    replay_moved(player);
    return true;
}

static bool wait_for_join(struct replay_player *player, int number)
{
    while (!replay_joined(player, number))
        if (!progress(player) || stuck_joining(player, number))
            return false;
    return true;
}

static bool play_step(struct replay_player *player, const struct replay_step *step)
{
    const struct replay_op *op = &player->process->ops[step->op];

    if (step->kind != REPLAY_WAIT && step->kind != REPLAY_JOINED && player->settings->pace &&
        !keep_pace(player, player->result->first + step->ns))
        return false;
    if (step->kind == REPLAY_JOIN)
        return join(player, step->op);
    if (step->kind == REPLAY_JOINED)
        return wait_for_join(player, step->op);
    if (step->kind == REPLAY_POST)
        return post(player, step->op);
    if (step->kind == REPLAY_CANCEL)
        return cancel(player, step->op);
    if (!op->cancelled &&
        (op->class == REPLAY_SEND || op->class == REPLAY_WRITE || op->class == REPLAY_ATOMIC))
        return wait_for_send(player, step->op);
    return wait_for(player, step);
}

static bool play(struct replay_player *player)
{
    int last = 0;

    player->result->first = player->result->last = player->moved = now();
    for (int i = 0; i < player->process->step_count; i++) {
        if (player->process->steps[i].kind == REPLAY_POST)
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

static bool make_room(struct replay_player *player)
{
    const size_t endpoints = (size_t)player->plan->endpoint_count;

    player->running = calloc((size_t)player->process->op_count, sizeof(*player->running));
    player->eps = calloc(endpoints, sizeof(struct fid_ep *));
    player->addrs = calloc(endpoints, sizeof(*player->addrs));
    player->messages = calloc(endpoints, sizeof(*player->messages));
    return (player->running && player->eps && player->addrs && player->messages) ||
           replay_fail(player, "there is no memory");
}

bool replay_run(const struct replay_plan *plan, int index, const struct replay_settings *settings,
                struct replay_shared *shared, int64_t *times)
{
    static struct replay_player player;
    bool ok;

    player = (struct replay_player){.plan = plan,
                                    .process = &plan->processes[index],
                                    .settings = settings,
                                    .shared = shared,
                                    .result = &shared->results[index],
                                    .index = index,
                                    .impatient = UINT64_MAX,
                                    .again = REPLAY_NOBODY,
                                    .crowded = plan->process_count > sysconf(_SC_NPROCESSORS_ONLN),
                                    .times = times};
    for (int i = 0; i < player.process->op_count; i++)
        times[i] = -1;
    ok = make_room(&player) && replay_open(&player) && meet(&player, MEET_OPENED) &&
         insert_addresses(&player) && meet(&player, MEET_READY) && play(&player) &&
         meet(&player, MEET_FINISHED);
    replay_close(&player);
    return ok;
}
