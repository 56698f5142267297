/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The process and endpoint behind a peer's address. A trace tells the addresses of endpoints whose
 * program asked for them (fi_getname), and what addresses were inserted (replay_names.c). Traces
 * before version 4 do not, and programs may know addresses from elsewhere:
 *
 * Most programs insert the addresses of all processes in one order: then a number means the same
 * process in every trace, and the numbers of the processes are those under which most messages that
 * are sent to another are received there, as far as tags and lengths tell (the search starts
 * from the order of the files and swaps numbers for as long as that gets better). Where that does
 * not fit, a peer of an endpoint is the endpoint in which most of its messages arrived by the links
 * of the model; of two endpoints it is the other one. All that is left aside for addresses of a
 * group's members: a trace tells these.
 */
#include <stdlib.h>

#include <rdma/fabric.h>

#include "hash.h"
#include "replay_plan.h"

enum {
    BUCKETS = 64, /* of tags and lengths */
    ROUNDS = 64   /* of swaps, at most */
};

/* Messages, by tag and length. */
struct histogram {
    unsigned count[BUCKETS];
};

/* How many messages for what endpoint `ep` calls `peer` arrived in endpoint `to`. */
struct peer_vote {
    int ep, to;
    uint64_t peer;
    unsigned votes;
};

struct replay_peers {
    const struct replay_plan *plan;
    struct replay_names *names;
    bool numbered;
    int *process_of;         /* by number */
    int *endpoint_of;        /* by process, where each has one */
    struct peer_vote *votes; /* sorted */
    int vote_count;
};

/* The messages that a process sent to a number. */
struct pair {
    uint64_t key; /* the process, the number */
    struct histogram sent;
    UT_hash_handle hh;
};

struct counts {
    struct histogram *to; /* sent to a number */
    struct histogram *by; /* received by a process */
    struct pair *pairs;   /* of processes and numbers that could be their own */
    unsigned sent;
    bool fits; /* all peers have numbers below that of the processes */
    bool full; /* no memory */
};

/* ---- Numbers ---- */

static unsigned bucket_of(uint64_t tag, uint64_t len)
{
    return (unsigned)(((tag ^ len * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu) >> 58);
}

static uint64_t pair_key(int from, int number)
{
    return (uint64_t)from << 32 | (uint32_t)number;
}

static struct pair *pair_of(const struct counts *counts, int from, int number)
{
    const uint64_t key = pair_key(from, number);
    struct pair *pair;

    HASH_FIND(hh, counts->pairs, &key, sizeof(key), pair);
    return pair;
}

static struct pair *add_pair(struct counts *counts, int from, int number)
{
    struct pair *pair = calloc(1, sizeof(*pair));

    if (!pair)
        return NULL;
    pair->key = pair_key(from, number);
    HASH_ADD(hh, counts->pairs, key, sizeof(pair->key), pair);
    if (hash_has(pair))
        return pair;
    free(pair);
    return NULL;
}

static void count_sent(struct counts *counts, int from, int number, unsigned bucket)
{
    struct pair *pair = pair_of(counts, from, number);

    if (!pair)
        pair = add_pair(counts, from, number);
    if (!pair) {
        counts->full = true;
        return;
    }
    pair->sent.count[bucket]++;
    counts->to[number].count[bucket]++;
    counts->sent++;
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
        if (class == TRACE_SEND)
            count_sent(counts, call->file, (int)call->record.peer,
                       bucket_of(call->record.tag, call->record.len));
    }
}

/* How many of the messages for a number could have been received by a process: of others. */
static unsigned fit(const struct counts *counts, int number, int process)
{
    const struct pair *pair = pair_of(counts, process, number);
    unsigned sum = 0;

    for (int bucket = 0; bucket < BUCKETS; bucket++) {
        unsigned received = counts->by[process].count[bucket];
        unsigned sent = counts->to[number].count[bucket];

        sent -= pair ? pair->sent.count[bucket] : 0;
        sum += sent < received ? sent : received;
    }
    return sum;
}

/* Swaps the processes of two numbers where more messages fit then; how many more. */
static unsigned swap(const struct counts *counts, int *process_of, int a, int b)
{
    const int one = process_of[a], two = process_of[b];
    const unsigned now = fit(counts, a, one) + fit(counts, b, two);
    const unsigned then = fit(counts, a, two) + fit(counts, b, one);

    if (then <= now)
        return 0;
    process_of[a] = two;
    process_of[b] = one;
    return then - now;
}

static void find_numbers(struct replay_peers *peers, const struct counts *counts)
{
    int processes = peers->plan->process_count, *numbers = peers->process_of;
    unsigned best = 0, before;
    int rounds = ROUNDS;

    for (int i = 0; i < processes; i++)
        best += fit(counts, i, numbers[i]);
    do {
        before = best;
        for (int a = 0; a < processes && best < counts->sent; a++)
            for (int b = a + 1; b < processes; b++)
                best += swap(counts, numbers, a, b);
    } while (best > before && --rounds);
    /* Some messages may never have been received. */
    peers->numbered = (uint64_t)best * 10 >= (uint64_t)counts->sent * 9;
}

static void counts_finish(struct counts *counts)
{
    struct pair *pair = counts->pairs, *next;

    HASH_CLEAR(hh, counts->pairs);
    for (; pair; pair = next) {
        next = pair->hh.next;
        free(pair);
    }
    free(counts->to);
    free(counts->by);
}

static bool number_processes(struct replay_peers *peers, const struct trace_model *model,
                             const int *op_of)
{
    const struct replay_plan *plan = peers->plan;
    struct counts counts = {0};
    bool ok;

    peers->process_of = calloc((size_t)plan->process_count + 1, sizeof(int));
    peers->endpoint_of = calloc((size_t)plan->process_count + 1, sizeof(int));
    if (!peers->process_of || !peers->endpoint_of)
        return false;
    for (int i = 0; i < plan->process_count; i++)
        peers->process_of[i] = i;
    for (int i = 0; i < plan->endpoint_count; i++)
        peers->endpoint_of[plan->endpoints[i].process] = i;
    if (plan->process_count <= 2 || plan->endpoint_count != plan->process_count)
        return true;
    counts.to = calloc((size_t)plan->process_count, sizeof(*counts.to));
    counts.by = calloc((size_t)plan->process_count, sizeof(*counts.by));
    ok = counts.to && counts.by;
    if (ok)
        count_messages(model, op_of, &counts);
    ok = ok && !counts.full;
    if (ok && counts.fits && counts.sent)
        find_numbers(peers, &counts);
    counts_finish(&counts);
    return ok;
}

/* ---- Votes ---- */

static int by_peer(const void *a, const void *b)
{
    const struct peer_vote *one = a, *two = b;

    if (one->ep != two->ep)
        return one->ep < two->ep ? -1 : 1;
    return one->peer < two->peer ? -1 : one->peer > two->peer;
}

static int by_vote(const void *a, const void *b)
{
    const struct peer_vote *one = a, *two = b;
    int order = by_peer(a, b);

    return order ? order : one->to < two->to ? -1 : one->to > two->to;
}

static bool count_arrivals(struct replay_peers *peers, const struct trace_model *model,
                           const int *op_of)
{
    struct peer_vote *votes = calloc((size_t)model->op_count + 1, sizeof(*votes));
    int count = 0;

    peers->votes = votes;
    if (!votes)
        return false;
    for (int i = 0; i < model->op_count; i++) {
        const struct trace_event *call = &model->events[model->ops[i].call], *there;
        int receive = model->ops[i].arrived;

        if (op_of[i] == TRACE_NONE || receive == TRACE_NONE || op_of[receive] == TRACE_NONE)
            continue;
        there = &model->events[model->ops[receive].call];
        votes[count++] =
            (struct peer_vote){.ep = peers->plan->processes[call->file].ops[op_of[i]].ep,
                               .to = peers->plan->processes[there->file].ops[op_of[receive]].ep,
                               .peer = call->record.peer,
                               .votes = 1};
    }
    qsort(votes, (size_t)count, sizeof(*votes), by_vote);
    for (int i = 0; i < count; i++) {
        if (i && by_vote(&votes[peers->vote_count - 1], &votes[i]) == 0)
            votes[peers->vote_count - 1].votes++;
        else
            votes[peers->vote_count++] = votes[i];
    }
    return true;
}

/* The endpoint with most votes; REPLAY_ANY: there is none. */
static int voted(const struct replay_peers *peers, int ep, uint64_t peer)
{
    const struct peer_vote key = {.ep = ep, .peer = peer};
    const struct peer_vote *end = peers->votes + peers->vote_count, *best;
    const struct peer_vote *it =
        bsearch(&key, peers->votes, (size_t)peers->vote_count, sizeof(key), by_peer);

    if (!it)
        return REPLAY_ANY;
    while (it > peers->votes && by_peer(it - 1, &key) == 0)
        it--;
    for (best = it; it < end && by_peer(it, &key) == 0; it++)
        best = it->votes > best->votes ? it : best;
    return best->to;
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

/* A group that the endpoint has joined tells the owner of an address. */
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
                                       const struct replay_plan *plan, const int *op_of,
                                       const int *layer)
{
    struct replay_peers *peers = calloc(1, sizeof(*peers));

    if (!peers)
        return NULL;
    peers->plan = plan;
    peers->names = replay_names_find(model, plan, layer);
    if (!peers->names || !number_processes(peers, model, op_of) ||
        !count_arrivals(peers, model, op_of)) {
        replay_peers_free(peers);
        return NULL;
    }
    return peers;
}

int replay_peers_of(const struct replay_peers *peers, int ep, uint64_t peer)
{
    int found = replay_names_of(peers->names, ep, peer);

    if (found == REPLAY_ANY)
        found = member_of(peers->plan, ep, peer);
    if (found == REPLAY_ANY && peers->numbered && peer < (uint64_t)peers->plan->process_count)
        found = peers->endpoint_of[peers->process_of[peer]];
    if (found == REPLAY_ANY)
        found = voted(peers, ep, peer);
    return found != REPLAY_ANY ? found : other_endpoint(peers->plan, ep);
}

void replay_peers_free(struct replay_peers *peers)
{
    if (!peers)
        return;
    replay_names_free(peers->names);
    free(peers->process_of);
    free(peers->endpoint_of);
    free(peers->votes);
    free(peers);
}
