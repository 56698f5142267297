/* SPDX-License-Identifier: BSD-2-Clause */
/* Where spans stand: a track for each layer and endpoint, in it as few lanes as do not overlap. */
#include <stdlib.h>
#include <string.h>

#include "trace_print.h"

enum {
    LANES = 64 /* of a track; more would not be read */
};

int64_t trace_op_end(const struct trace_model *model, const struct trace_op *op)
{
    int64_t start = model->events[op->call].ns;
    int64_t end = op->done == TRACE_NONE ? start : model->events[op->done].ns;

    return end > start ? end : start;
}

static int find_track(struct trace_lanes *lanes, const struct trace_event *call)
{
    for (int i = 0; i < lanes->track_count; i++) {
        const struct trace_track *track = &lanes->tracks[i];

        if (track->file == call->file && track->layer == call->record.layer &&
            track->object == call->record.object)
            return i;
    }
    lanes->tracks[lanes->track_count] =
        (struct trace_track){call->file, call->record.layer, call->record.object, 0};
    return lanes->track_count++;
}

/* Upper layers above lower ones: later opened layers have higher numbers and stand on the earlier.
 */
static int by_place(const void *a, const void *b)
{
    const struct trace_track *x = a, *y = b;

    if (x->file != y->file)
        return x->file - y->file;
    if (x->layer != y->layer)
        return (int)y->layer - (int)x->layer;
    return x->object < y->object ? -1 : x->object > y->object;
}

enum {
    TRACKS = 1024
};

static void place(struct trace_lanes *lanes, int64_t (*busy)[LANES],
                  const struct trace_model *model, int index)
{
    const struct trace_op *op = &model->ops[index];
    int track = find_track(lanes, &model->events[op->call]), lane = 0;

    while (lane < LANES - 1 && busy[track][lane] > model->events[op->call].ns)
        lane++;
    busy[track][lane] = trace_op_end(model, op) + 1;
    lanes->lane[index] = lane;
    lanes->track[index] = track;
    if (lanes->tracks[track].lanes <= lane)
        lanes->tracks[track].lanes = lane + 1;
}

static bool overlaps(const struct trace_model *model, const struct trace_op *op,
                     struct trace_range range)
{
    return model->events[op->call].ns <= range.to && trace_op_end(model, op) >= range.from;
}

bool trace_lanes_init(struct trace_lanes *lanes, const struct trace_model *model,
                      struct trace_range range)
{
    int64_t(*busy)[LANES];

    memset(lanes, 0, sizeof(*lanes));
    lanes->lane = malloc((size_t)(model->op_count + 1) * sizeof(int));
    lanes->track = malloc((size_t)(model->op_count + 1) * sizeof(int));
    lanes->tracks = calloc(TRACKS, sizeof(*lanes->tracks));
    if (!lanes->lane || !lanes->track || !lanes->tracks) {
        trace_lanes_finish(lanes);
        return false;
    }
    /* Tracks first, in the order that they are shown in; operations are in the order of time. */
    for (int i = 0; i < model->op_count; i++)
        if (overlaps(model, &model->ops[i], range) && lanes->track_count < TRACKS - 1)
            find_track(lanes, &model->events[model->ops[i].call]);
    qsort(lanes->tracks, (size_t)lanes->track_count, sizeof(*lanes->tracks), by_place);
    busy = calloc((size_t)lanes->track_count + 1, sizeof(*busy));
    if (!busy) {
        trace_lanes_finish(lanes);
        return false;
    }
    for (int i = 0; i < model->op_count; i++) {
        lanes->lane[i] = TRACE_NONE;
        if (overlaps(model, &model->ops[i], range) && lanes->track_count < TRACKS - 1)
            place(lanes, busy, model, i);
    }
    free(busy);
    return true;
}

void trace_lanes_finish(struct trace_lanes *lanes)
{
    free(lanes->lane);
    free(lanes->track);
    free(lanes->tracks);
}
