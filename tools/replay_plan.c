/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

const char *const replay_class_names[REPLAY_CLASSES] = {
    "send",           "receive", "read",      "write",    "atomic",    "fetch",
    "compare",        "barrier", "broadcast", "alltoall", "allreduce", "allgather",
    "reduce_scatter", "reduce",  "scatter",   "gather"};

struct maker {
    const struct trace_model *model;
    struct replay_plan *plan;
    int *layer; /* the uppermost of each file */
    int *op_of; /* number in its process, by operation of the model; TRACE_NONE */
    struct replay_peers *peers;
    struct replay_groups *groups;
    char *why;
    size_t why_size;
};

#define REFUSE(maker, ...) (snprintf((maker)->why, (maker)->why_size, __VA_ARGS__), false)

/* ---- Files ---- */

static unsigned parts_of(const char *stack)
{
    unsigned parts = 1;

    for (; *stack; stack++)
        parts += *stack == ';';
    return parts;
}

/* Which layers have operations: WEFT_TRACE_LAYERS of each file. NULL without memory. */
static bool *used_layers(const struct trace_model *model)
{
    bool *used = calloc((size_t)model->file_count + 1, WEFT_TRACE_LAYERS);

    for (int i = 0; used && i < model->op_count; i++) {
        const struct trace_event *call = &model->events[model->ops[i].call];

        if (call->record.layer < WEFT_TRACE_LAYERS)
            used[call->file * WEFT_TRACE_LAYERS + call->record.layer] = true;
    }
    return used;
}

/* The one that stands on most; of equals the one that was opened last. */
static bool choose_layer(struct maker *maker, int file, const bool *used)
{
    const struct weft_trace_header *header = &maker->model->files[file]->header;
    unsigned best = 0;

    maker->layer[file] = TRACE_NONE;
    for (int i = 0; i < WEFT_TRACE_LAYERS; i++) {
        if (!used[i] || parts_of(header->layers[i]) < best)
            continue;
        best = parts_of(header->layers[i]);
        maker->layer[file] = i;
    }
    if (maker->layer[file] == TRACE_NONE)
        return REFUSE(maker, "%s: it has no data transfer", maker->model->files[file]->name);
    return true;
}

static bool check_file(struct maker *maker, int file, const bool *used)
{
    const struct trace_file_info *info = maker->model->files[file];

    if (info->lost)
        return REFUSE(maker,
                      "%s: its oldest %" PRIu64 " records were overwritten; record again with a "
                      "larger ring: trace(size=...)",
                      info->name, info->lost);
    if (info->truncated)
        return REFUSE(maker,
                      "%s: it is cut short, or damaged: records of %" PRIu32 " threads are missing",
                      info->name, info->truncated);
    if (info->header.rings_refused || info->header.rings_reused)
        return REFUSE(maker,
                      "%s: not all threads have their records in it; record again with "
                      "trace(threads=...)",
                      info->name);
    return choose_layer(maker, file, used);
}

static bool check_files(struct maker *maker)
{
    bool *used = used_layers(maker->model), ok = used || REFUSE(maker, "there is no memory");

    for (int file = 0; ok && file < maker->model->file_count; file++)
        ok = check_file(maker, file, used + file * WEFT_TRACE_LAYERS);
    free(used);
    return ok;
}

/* ---- Endpoints ---- */

static bool is_endpoint(const struct replay_plan *plan, int index, int process, uint32_t object)
{
    return index < plan->endpoint_count && plan->endpoints[index].process == process &&
           plan->endpoints[index].object == object;
}

int replay_endpoint_of(struct replay_plan *plan, int process, uint32_t object)
{
    int *found = &plan->processes[process].found;

    if (is_endpoint(plan, *found, process, object))
        return *found;
    for (int i = 0; i < plan->endpoint_count; i++)
        if (is_endpoint(plan, i, process, object))
            return *found = i;
    if (plan->endpoint_count == plan->endpoint_room) {
        int room = plan->endpoint_room ? plan->endpoint_room * 2 : 16;
        struct replay_endpoint *endpoints =
            realloc(plan->endpoints, (size_t)room * sizeof(*endpoints));

        if (!endpoints)
            return -1;
        plan->endpoints = endpoints;
        plan->endpoint_room = room;
    }
    plan->endpoints[plan->endpoint_count] = (struct replay_endpoint){process, object, 0, 0};
    return *found = plan->endpoint_count++;
}

/* ---- Operations ---- */

static const struct trace_event *call_of(const struct maker *maker, int op)
{
    return &maker->model->events[maker->model->ops[op].call];
}

static bool is_above(const struct maker *maker, const struct trace_event *call)
{
    return call->record.layer == maker->layer[call->file];
}

/* Of atomics, a trace has elements. */
static bool read_len(struct maker *maker, const struct trace_event *call,
                     struct replay_process *process, struct replay_op *op)
{
    if (replay_is_collective(op))
        return true;
    op->len = call->record.len;
    if (!replay_is_atomic(op))
        return true;
    if (op->len > UINT32_MAX)
        return REFUSE(maker, "%s: it is damaged: an atomic of %" PRIu64 " elements", process->name,
                      op->len);
    op->len *= op->size;
    if (op->class != REPLAY_ATOMIC && op->len > process->operand_len)
        process->operand_len = op->len;
    return true;
}

static void set_multi(struct replay_plan *plan, const struct replay_op *op)
{
    struct replay_endpoint *endpoint = &plan->endpoints[op->ep];

    plan->multi = true;
    if (!endpoint->smallest || op->len < endpoint->smallest)
        endpoint->smallest = op->len;
}

static bool read_op(struct maker *maker, int index, struct replay_process *process,
                    struct replay_op *op)
{
    const struct trace_op *from = &maker->model->ops[index];
    const struct trace_event *call = call_of(maker, index);

    if (op->multi && op->tagged)
        return REFUSE(maker,
                      "%s: it has tagged receives for several messages (FI_MULTI_RECV), which "
                      "cannot be replayed",
                      process->name);
    op->ep = replay_endpoint_of(maker->plan, call->file, call->record.object);
    if (op->ep < 0)
        return REFUSE(maker, "there is no memory");
    op->tag = call->record.tag;
    op->ignore = op->class == REPLAY_RECV ? call->key : 0;
    op->cq_data = call->data;
    op->offset = call->record.buf;
    if (!read_len(maker, call, process, op))
        return false;
    if (op->multi)
        set_multi(maker->plan, op);
    if (from->done != TRACE_NONE && !op->multi) {
        const struct trace_event *done = &maker->model->events[from->done];

        op->completed = done->record.result == 0;
        op->done_len = done->record.len;
        op->ns = done->ns - call->ns;
    }
    if (!replay_memory_add(&process->buffers, op->offset, op->len) ||
        !replay_memory_add(&process->buffers, op->result, op->result_len))
        return REFUSE(maker, "there is no memory");
    return true;
}

/* Room for what each process may have; not more by much, since every process gets a copy of it. */
static bool make_processes(struct maker *maker)
{
    const struct trace_model *model = maker->model;
    struct replay_plan *plan = maker->plan;
    struct {
        int ops, steps;
    } *rooms = calloc((size_t)model->file_count + 1, sizeof(*rooms));
    bool ok;

    plan->processes = calloc((size_t)model->file_count + 1, sizeof(*plan->processes));
    ok = rooms && plan->processes;
    plan->process_count = plan->processes ? model->file_count : 0;
    for (int i = 0; ok && i < model->event_count; i++) {
        const struct trace_event *event = &model->events[i];

        rooms[event->file].ops += trace_is_call(event) && event->op != TRACE_NONE;
        rooms[event->file].steps += !trace_is_address(model, event);
    }
    for (int i = 0; ok && i < plan->process_count; i++) {
        struct replay_process *process = &plan->processes[i];

        process->name = model->files[i]->name;
        process->ops = calloc((size_t)rooms[i].ops + 1, sizeof(*process->ops));
        process->steps = calloc((size_t)rooms[i].steps + 1, sizeof(*process->steps));
        ok = process->ops && process->steps;
    }
    free(rooms);
    return ok || REFUSE(maker, "there is no memory");
}

/* Why nothing of a process is left to do: the reason that most have. */
static bool refuse_all(struct maker *maker, const struct replay_process *process)
{
    int most = 0;

    for (int i = 1; i < REPLAY_LEFT; i++)
        most = process->left[i] > process->left[most] ? i : most;
    return REFUSE(maker, "%s: none of its operations can be replayed (%s)", process->name,
                  replay_left_texts[most]);
}

static bool read_ops(struct maker *maker)
{
    for (int i = 0; i < maker->model->op_count; i++) {
        const struct trace_event *call = call_of(maker, i);
        struct replay_process *process = &maker->plan->processes[call->file];
        struct replay_op *op = &process->ops[process->op_count];
        enum replay_left left;

        if (!is_above(maker, call))
            continue;
        memset(op, 0, sizeof(*op));
        left = trace_class_of(maker->model, call) == TRACE_COLLECTIVE
                   ? replay_groups_read(maker->groups, i, op)
                   : replay_form_read(maker->model, call, op);
        if (left != REPLAY_LEFT) {
            process->left[left]++;
            continue;
        }
        if (!read_op(maker, i, process, op))
            return false;
        maker->op_of[i] = process->op_count++;
    }
    for (int i = 0; i < maker->plan->process_count; i++)
        if (!maker->plan->processes[i].op_count)
            return refuse_all(maker, &maker->plan->processes[i]);
    return true;
}

/* ---- Peers ---- */

/* A receive from any source is replayed as such, unless its endpoint has one peer only. */
static bool wants_peer(const struct replay_op *op, const struct trace_event *call)
{
    return !replay_is_collective(op) &&
           (op->class != REPLAY_RECV || call->record.peer != FI_ADDR_UNSPEC);
}

static bool set_peer(struct maker *maker, int index)
{
    const struct trace_event *call = call_of(maker, index);
    struct replay_process *process = &maker->plan->processes[call->file];
    struct replay_op *op = &process->ops[maker->op_of[index]];

    op->peer = REPLAY_ANY;
    if (!wants_peer(op, call))
        return true;
    op->peer = replay_peers_of(maker->peers, op->ep, call->record.peer);
    if (op->peer == REPLAY_ANY && call->record.peer == FI_ADDR_UNSPEC)
        return REFUSE(maker,
                      "%s: whom endpoint %" PRIu32
                      " is connected to cannot be told; record where programs give addresses, as "
                      "above rxm",
                      process->name, call->record.object);
    if (op->peer == REPLAY_ANY)
        return REFUSE(maker,
                      "%s: who its peer %" PRIu64
                      " is cannot be told: none of its messages arrived "
                      "in another of the traces; name those of all processes",
                      process->name, call->record.peer);
    maker->plan->directed |= op->class == REPLAY_RECV;
    maker->plan->rma |= replay_is_remote(op) && !replay_is_atomic(op);
    maker->plan->atomics |= replay_is_atomic(op);
    maker->plan->tagged |= op->tagged;
    if (replay_is_remote(op) &&
        !replay_memory_add(&maker->plan->processes[maker->plan->endpoints[op->peer].process].target,
                           op->tag, op->len))
        return REFUSE(maker, "there is no memory");
    return true;
}

static bool set_peers(struct maker *maker)
{
    maker->peers = replay_peers_find(maker->model, maker->plan, maker->op_of, maker->layer);
    if (!maker->peers)
        return REFUSE(maker, "there is no memory");
    for (int i = 0; i < maker->model->op_count; i++) {
        if (maker->op_of[i] != TRACE_NONE && !set_peer(maker, i))
            return false;
    }
    return true;
}

/* Messages of one process among others have a send in another file, as far as the traces show
 * it. */
static bool count_strange(struct maker *maker)
{
    const struct trace_model *model = maker->model;
    bool *known = calloc((size_t)model->op_count + 1, sizeof(*known));

    if (!known)
        return REFUSE(maker, "there is no memory");
    for (int i = 0; i < model->op_count; i++)
        if (model->ops[i].arrived != TRACE_NONE)
            known[model->ops[i].arrived] = true;
    for (int i = 0; i < model->op_count; i++) {
        struct replay_process *process = &maker->plan->processes[call_of(maker, i)->file];
        const struct replay_op *op = &process->ops[maker->op_of[i]];

        if (maker->op_of[i] == TRACE_NONE || op->class != REPLAY_RECV || !op->completed)
            continue;
        process->received++;
        process->strange += !known[i];
    }
    free(known);
    return true;
}

bool replay_plan_is_alone(const struct replay_plan *plan)
{
    const struct replay_process *process = &plan->processes[0];

    if (plan->process_count != 1 || plan->endpoint_count != 1)
        return false;
    for (int i = 0; i < process->op_count; i++)
        if (!replay_is_collective(&process->ops[i]))
            return true;
    return false;
}

/* ---- Memory ---- */

static bool set_memory(struct maker *maker)
{
    struct replay_plan *plan = maker->plan;

    for (int i = 0; i < plan->process_count; i++)
        if (!replay_memory_lay(&plan->processes[i].buffers) ||
            !replay_memory_lay(&plan->processes[i].target))
            return REFUSE(maker, "%s: its buffers are more than 256 GiB", plan->processes[i].name);
    for (int i = 0; i < plan->process_count; i++) {
        struct replay_process *process = &plan->processes[i];

        process->operands = process->buffers.size;
        process->buffers.size += 2 * process->operand_len;
        for (int n = 0; n < process->op_count; n++) {
            struct replay_op *op = &process->ops[n];

            op->offset = op->len ? replay_memory_offset(&process->buffers, op->offset) : 0;
            op->result = op->result_len ? replay_memory_offset(&process->buffers, op->result) : 0;
            if (replay_is_remote(op) && op->len)
                op->remote = replay_memory_offset(
                    &plan->processes[plan->endpoints[op->peer].process].target, op->tag);
        }
    }
    return true;
}

/* ---- All of it ---- */

static bool make(struct maker *maker)
{
    const struct trace_model *model = maker->model;
    struct replay_plan *plan = maker->plan;

    for (int i = 0; i < model->op_count; i++)
        maker->op_of[i] = TRACE_NONE;
    if (!make_processes(maker) || !check_files(maker))
        return false;
    maker->groups = replay_groups_find(model, maker->layer);
    if (!maker->groups)
        return REFUSE(maker, "there is no memory");
    if (!read_ops(maker))
        return false;
    if (!replay_groups_set(maker->groups, plan))
        return REFUSE(maker, "there is no memory");
    snprintf(plan->recorded, sizeof(plan->recorded), "%s",
             model->files[0]->header.layers[maker->layer[0]]);
    for (int i = 0; i < plan->process_count; i++)
        for (int n = 0; n < plan->processes[i].op_count; n++)
            plan->messages |=
                plan->processes[i].ops[n].class <= REPLAY_RECV && !plan->processes[i].ops[n].tagged;
    if (!set_peers(maker) || !count_strange(maker) || !set_memory(maker))
        return false;
    return replay_order_set(model, plan, maker->op_of, maker->layer, maker->why, maker->why_size);
}

bool replay_plan_make(const struct trace_model *model, struct replay_plan *plan, char *why,
                      size_t why_size)
{
    struct maker maker = {.model = model, .plan = plan, .why = why, .why_size = why_size};
    bool ok;

    memset(plan, 0, sizeof(*plan));
    maker.op_of = calloc((size_t)model->op_count + 1, sizeof(*maker.op_of));
    maker.layer = calloc((size_t)model->file_count + 1, sizeof(*maker.layer));
    ok = maker.op_of && maker.layer ? make(&maker) : REFUSE(&maker, "there is no memory");
    free(maker.op_of);
    free(maker.layer);
    replay_peers_free(maker.peers);
    replay_groups_free(maker.groups);
    if (!ok)
        replay_plan_free(plan);
    return ok;
}

void replay_plan_free(struct replay_plan *plan)
{
    for (int i = 0; i < plan->process_count; i++) {
        struct replay_process *process = &plan->processes[i];

        free(process->ops);
        free(process->steps);
        for (int n = 0; n < process->group_count; n++) {
            free(process->groups[n].members);
            free(process->groups[n].addrs);
        }
        free(process->groups);
        free(process->buffers.pieces);
        free(process->target.pieces);
    }
    free(plan->processes);
    free(plan->endpoints);
    memset(plan, 0, sizeof(*plan));
}
