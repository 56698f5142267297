/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who a peer is: a trace has no addresses of the network.
 *
 * Most programs insert the addresses of all processes in one order: then a number means the same
 * process in every trace, and the numbers of the processes are those under which most messages that
 * are sent to somebody are received there, as far as tags and lengths tell (the search starts
 * from the order of the files and swaps numbers for as long as that gets better). Where that does
 * not fit, a peer of an endpoint is the endpoint in which most of its messages arrived by the links
 * of the model; of two endpoints it is the other one. All that is left aside for addresses of a
 * group's members: a trace tells who those are.
 */
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>

#include "replay_plan.h"

enum {
    PEERS = 4096,
    BUCKETS = 64 /* of tags and lengths */
};

/* Messages, by tag and length. */
struct histogram {
    unsigned count[BUCKETS];
};

struct replay_peers {
    const struct replay_plan *plan;
    bool numbered;
    int process_of[TRACE_FILES]; /* by number */
    struct peer_votes {
        int ep;
        uint64_t peer;
        unsigned votes[REPLAY_ENDPOINTS];
    } * votes;
    int vote_count, vote_room;
};

struct counts {
    struct histogram to[TRACE_FILES][TRACE_FILES + 1]; /* sent by a process to a number */
    struct histogram by[TRACE_FILES];                  /* received by a process */
    unsigned sent;
    bool fits; /* all peers have numbers below that of the processes */
};

/* ---- Numbers ---- */

static unsigned bucket_of(uint64_t tag, uint64_t len)
{
    return (unsigned)(((tag ^ len * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu) >> 58);
}

static void count_messages(const struct trace_model *model, const int *op_of, struct counts *counts)
{
    counts->fits = true;
    for (int i = 0; i < model->op_count; i++) {
        const struct trace_op *op = &model->ops[i];
        const struct trace_event *call = &model->events[op->call];
        enum trace_class class = trace_class_of(model, call);

        if (op_of[i] == TRACE_NONE)
            continue;
        if (class == TRACE_RECV && op->done != TRACE_NONE)
            counts->by[call->file].count[bucket_of(model->events[op->done].record.tag,
                                                   model->events[op->done].record.len)]++;
        if (class == TRACE_RECV || class == TRACE_COLLECTIVE)
            continue;
        if (call->record.peer >= (uint64_t)model->file_count) {
            counts->fits = false;
            return;
        }
        if (class != TRACE_SEND)
            continue;
        counts->to[call->file][call->record.peer]
            .count[bucket_of(call->record.tag, call->record.len)]++;
        counts->sent++;
    }
}

/* How many of the messages could have been received by another process with these numbers. */
static unsigned score(const struct counts *counts, const int *process_of, int processes)
{
    unsigned sum = 0;

    for (int number = 0; number < processes; number++) {
        const int there = process_of[number];

        for (int bucket = 0; bucket < BUCKETS; bucket++) {
            unsigned sent = 0, received = counts->by[there].count[bucket];

            for (int from = 0; from < processes; from++)
                if (from != there)
                    sent += counts->to[from][number].count[bucket];
            sum += sent < received ? sent : received;
        }
    }
    return sum;
}

static void swap(int *numbers, int a, int b)
{
    int kept = numbers[a];

    numbers[a] = numbers[b];
    numbers[b] = kept;
}

static void find_numbers(struct replay_peers *peers, const struct counts *counts)
{
    int processes = peers->plan->process_count, *numbers = peers->process_of;
    unsigned best = score(counts, numbers, processes);
    bool better = true;

    while (better) {
        better = false;
        for (int a = 0; a < processes; a++) {
            for (int b = a + 1; b < processes; b++) {
                unsigned now;

                swap(numbers, a, b);
                now = score(counts, numbers, processes);
                if (now > best) {
                    best = now;
                    better = true;
                } else {
                    swap(numbers, a, b);
                }
            }
        }
    }
    /* Some messages may never have been received. */
    peers->numbered = (uint64_t)best * 10 >= (uint64_t)counts->sent * 9;
}

static bool number_processes(struct replay_peers *peers, const struct trace_model *model,
                             const int *op_of)
{
    struct counts *counts;

    for (int i = 0; i < TRACE_FILES; i++)
        peers->process_of[i] = i;
    if (peers->plan->process_count <= 2 ||
        peers->plan->endpoint_count != peers->plan->process_count)
        return true;
    counts = calloc(1, sizeof(*counts));
    if (!counts)
        return false;
    count_messages(model, op_of, counts);
    if (counts->fits && counts->sent)
        find_numbers(peers, counts);
    free(counts);
    return true;
}

/* ---- Votes ---- */

static struct peer_votes *votes_of(struct replay_peers *peers, int ep, uint64_t peer)
{
    for (int i = 0; i < peers->vote_count; i++)
        if (peers->votes[i].ep == ep && peers->votes[i].peer == peer)
            return &peers->votes[i];
    if (peers->vote_count == PEERS)
        return NULL;
    if (peers->vote_count == peers->vote_room) {
        int room = peers->vote_room ? peers->vote_room * 2 : 16;
        struct peer_votes *votes = realloc(peers->votes, (size_t)room * sizeof(*votes));

        if (!votes)
            return NULL;
        peers->votes = votes;
        peers->vote_room = room;
    }
    memset(&peers->votes[peers->vote_count], 0, sizeof(*peers->votes));
    peers->votes[peers->vote_count].ep = ep;
    peers->votes[peers->vote_count].peer = peer;
    return &peers->votes[peers->vote_count++];
}

static void count_arrivals(struct replay_peers *peers, const struct trace_model *model,
                           const int *op_of)
{
    for (int i = 0; i < model->op_count; i++) {
        const struct trace_event *call = &model->events[model->ops[i].call], *there;
        int receive = model->ops[i].arrived;
        struct peer_votes *votes;
        int from, to;

        if (op_of[i] == TRACE_NONE || receive == TRACE_NONE || op_of[receive] == TRACE_NONE)
            continue;
        there = &model->events[model->ops[receive].call];
        from = peers->plan->processes[call->file].ops[op_of[i]].ep;
        to = peers->plan->processes[there->file].ops[op_of[receive]].ep;
        votes = votes_of(peers, from, call->record.peer);
        if (votes)
            votes->votes[to]++;
    }
}

/* The only other endpoint there is; REPLAY_ANY when there are several. */
static int other_endpoint(const struct replay_plan *plan, int ep)
{
    int other = REPLAY_ANY;

    if (plan->endpoint_count == 1)
        return ep;
    for (int i = 0; i < plan->endpoint_count; i++) {
        if (i == ep ||
            (plan->endpoints[i].process == plan->endpoints[ep].process && plan->process_count > 1))
            continue;
        if (other != REPLAY_ANY)
            return REPLAY_ANY;
        other = i;
    }
    return other;
}

/* ---- Groups ---- */

/* A group that the endpoint has joined says who has an address. */
static int member_of(const struct replay_plan *plan, int ep, uint64_t peer)
{
    const struct replay_process *process = &plan->processes[plan->endpoints[ep].process];

    for (int i = 0; i < process->group_count; i++) {
        const struct replay_group *group = &process->groups[i];

        for (uint32_t rank = 0; group->members[group->rank] == ep && rank < group->size; rank++)
            if (group->addrs[rank] == peer)
                return group->members[rank];
    }
    return REPLAY_ANY;
}

/* ---- All of it ---- */

struct replay_peers *replay_peers_find(const struct trace_model *model,
                                       const struct replay_plan *plan, const int *op_of)
{
    struct replay_peers *peers = calloc(1, sizeof(*peers));

    if (!peers)
        return NULL;
    peers->plan = plan;
    if (!number_processes(peers, model, op_of)) {
        replay_peers_free(peers);
        return NULL;
    }
    count_arrivals(peers, model, op_of);
    return peers;
}

int replay_peers_of(const struct replay_peers *peers, int ep, uint64_t peer)
{
    const struct replay_plan *plan = peers->plan;
    int best = member_of(plan, ep, peer);

    if (best != REPLAY_ANY)
        return best;
    for (int i = 0; peers->numbered && i < plan->endpoint_count; i++)
        if (peer < (uint64_t)plan->process_count &&
            plan->endpoints[i].process == peers->process_of[peer])
            return i;
    for (int i = 0; i < peers->vote_count; i++) {
        const struct peer_votes *it = &peers->votes[i];

        if (it->ep != ep || it->peer != peer)
            continue;
        for (int to = 0; to < plan->endpoint_count; to++)
            if (it->votes[to] && (best == REPLAY_ANY || it->votes[to] > it->votes[best]))
                best = to;
    }
    return best != REPLAY_ANY ? best : other_endpoint(plan, ep);
}

void replay_peers_free(struct replay_peers *peers)
{
    if (!peers)
        return;
    free(peers->votes);
    free(peers);
}
