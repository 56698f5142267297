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

static struct trace_track track_of(const struct trace_event *call)
{
    return (struct trace_track){call->file, call->record.layer, trace_object_of(call), 0};
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
    if (WEFT_TRACE_NUMBER(x->object) != WEFT_TRACE_NUMBER(y->object))
        return WEFT_TRACE_NUMBER(x->object) < WEFT_TRACE_NUMBER(y->object) ? -1 : 1;
    return 0;
}

static void place(struct trace_lanes *lanes, int64_t (*busy)[LANES],
                  const struct trace_model *model, int index)
{
    const struct trace_op *op = &model->ops[index];
    const struct trace_track key = track_of(&model->events[op->call]);
    const struct trace_track *found =
        bsearch(&key, lanes->tracks, (size_t)lanes->track_count, sizeof(key), by_place);
    int track = (int)(found - lanes->tracks), lane = 0;

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

/* In the order that they are shown in. */
static void find_tracks(struct trace_lanes *lanes, const struct trace_model *model,
                        struct trace_range range)
{
    int count = 0;

    for (int i = 0; i < model->op_count; i++)
        if (overlaps(model, &model->ops[i], range))
            lanes->tracks[count++] = track_of(&model->events[model->ops[i].call]);
    qsort(lanes->tracks, (size_t)count, sizeof(*lanes->tracks), by_place);
    for (int i = 0; i < count; i++)
        if (!i || by_place(&lanes->tracks[lanes->track_count - 1], &lanes->tracks[i]) != 0)
            lanes->tracks[lanes->track_count++] = lanes->tracks[i];
}

bool trace_lanes_init(struct trace_lanes *lanes, const struct trace_model *model,
                      struct trace_range range)
{
    int64_t(*busy)[LANES];

    memset(lanes, 0, sizeof(*lanes));
    lanes->lane = malloc((size_t)(model->op_count + 1) * sizeof(int));
    lanes->track = malloc((size_t)(model->op_count + 1) * sizeof(int));
    lanes->tracks = malloc((size_t)(model->op_count + 1) * sizeof(*lanes->tracks));
    if (!lanes->lane || !lanes->track || !lanes->tracks) {
        trace_lanes_finish(lanes);
        return false;
    }
    find_tracks(lanes, model, range);
    busy = calloc((size_t)lanes->track_count + 1, sizeof(*busy));
    if (!busy) {
        trace_lanes_finish(lanes);
        return false;
    }
    for (int i = 0; i < model->op_count; i++) {
        lanes->lane[i] = TRACE_NONE;
        if (overlaps(model, &model->ops[i], range))
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
