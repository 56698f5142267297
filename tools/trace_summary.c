/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the time went: by layer, operation and size class. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trace_print.h"

struct sample {
    const char *below, *what;
    unsigned layer;
    int size_class; /* 0: no byte; n: 2^(n-1) to 2^n - 1; -1: not known */
    int64_t ns;     /* -1: no completion */
    int refused;
};

static int size_class(uint64_t len)
{
    return len ? 64 - __builtin_clzll(len) : 0;
}

static int by_group(const void *a, const void *b)
{
    const struct sample *x = a, *y = b;
    int names = strcmp(x->below, y->below), whats = strcmp(x->what, y->what);

    if (x->layer != y->layer)
        return x->layer > y->layer ? -1 : 1; /* upper layers first */
    if (names || whats)
        return names ? names : whats;
    if (x->size_class != y->size_class)
        return x->size_class - y->size_class;
    return x->ns < y->ns ? -1 : x->ns > y->ns;
}

static bool one_group(const struct sample *x, const struct sample *y)
{
    return x->layer == y->layer && x->size_class == y->size_class && !strcmp(x->what, y->what) &&
           !strcmp(x->below, y->below);
}

static void print_size(int class, char *text, size_t size)
{
    static const char *const units[] = {"", "k", "M", "G", "T", "P", "E"};
    int low = class - 1;

    if (class < 1)
        snprintf(text, size, class ? "?" : "0");
    else
        snprintf(text, size, "%u%s..", 1u << (low % 10), units[low / 10]);
}

static double us_at(const struct sample *samples, int index)
{
    return (double)samples[index].ns / 1000;
}

/* Samples of one group are sorted: first those that never completed, then by time. */
static void print_group(const struct sample *samples, int count, FILE *out)
{
    int open = 0, refused = 0, timed;
    double total = 0;
    char size[16];

    for (int i = 0; i < count; i++) {
        refused += samples[i].refused;
        if (samples[i].ns < 0)
            open += !samples[i].refused;
        else
            total += (double)samples[i].ns / 1000;
    }
    timed = count - open - refused;
    print_size(samples->size_class, size, sizeof(size));
    fprintf(out, "%d %-22s %-18s %8s %8d %8d", (int)samples->layer, samples->below, samples->what,
            size, count - refused, refused);
    samples += count - timed;
    if (timed)
        fprintf(out, " %10.3f %10.3f %10.3f %10.3f %12.3f\n", us_at(samples, 0),
                us_at(samples, timed / 2), us_at(samples, (int)((double)timed * 0.99)),
                us_at(samples, timed - 1), total);
    else
        fprintf(out, " %10s %10s %10s %10s %12s\n", "-", "-", "-", "-", "-");
}

/* The bytes that a receive got, not the room it had; of all its messages, where it has several. -1:
 * nothing yet, or its queue does not say. */
static int64_t *receive_sizes(const struct trace_model *model)
{
    int64_t *sizes = malloc((size_t)(model->op_count + 1) * sizeof(*sizes));

    for (int i = 0; sizes && i < model->op_count; i++)
        sizes[i] = -1;
    for (int i = 0; sizes && i < model->event_count; i++) {
        const struct trace_event *event = &model->events[i];

        if (!trace_is_completion(event) || event->op == TRACE_NONE || !event->record.inside ||
            event->record.len > INT64_MAX / 2)
            continue;
        if (sizes[event->op] < 0 || sizes[event->op] > INT64_MAX / 2)
            sizes[event->op] = 0;
        sizes[event->op] += (int64_t)event->record.len;
    }
    return sizes;
}

/* A message that the lower asks for a receive of (peer get_tag) has its own size. */
static int class_of(const struct trace_model *model, const struct trace_event *event,
                    const int64_t *receives)
{
    if (trace_class_of(model, event) != TRACE_RECV || trace_what(model, event)[0] != 'f')
        return size_class(event->record.len);
    if (event->op == TRACE_NONE || receives[event->op] < 0)
        return -1;
    return size_class((uint64_t)receives[event->op]);
}

static int gather(const struct trace_model *model, struct trace_range range,
                  const int64_t *receives, struct sample *samples)
{
    int count = 0;

    for (int i = 0; i < model->event_count; i++) {
        const struct trace_event *event = &model->events[i];
        const struct trace_op *op = event->op == TRACE_NONE ? NULL : &model->ops[event->op];
        struct sample *sample = &samples[count];

        if (event->ns < range.from || event->ns > range.to ||
            trace_class_of(model, event) == TRACE_OTHER)
            continue;
        sample->below = trace_layer(model, event);
        sample->what = trace_what(model, event);
        sample->layer = event->record.layer;
        sample->size_class = class_of(model, event, receives);
        sample->ns = op && op->done != TRACE_NONE ? trace_op_end(model, op) - event->ns : -1;
        sample->refused = event->record.result < 0;
        count++;
    }
    return count;
}

bool trace_print_summary(const struct trace_model *model, struct trace_range range, FILE *out)
{
    struct sample *samples = malloc((size_t)(model->event_count + 1) * sizeof(*samples));
    int64_t *receives = receive_sizes(model);
    int count;

    if (!samples || !receives) {
        free(samples);
        free(receives);
        return false;
    }
    count = gather(model, range, receives, samples);
    free(receives);
    qsort(samples, (size_t)count, sizeof(*samples), by_group);
    trace_print_files(model, out);
    fprintf(out, "# from the call to the completion, microseconds; sizes in bytes\n");
    fprintf(out, "%-24s %-18s %8s %8s %8s %10s %10s %10s %10s %12s\n", "# layer over", "operation",
            "size", "count", "refused", "min", "p50", "p99", "max", "sum");
    for (int first = 0, i = 1; i <= count; i++) {
        if (i < count && one_group(&samples[first], &samples[i]))
            continue;
        print_group(&samples[first], i - first, out);
        first = i;
    }
    free(samples);
    return true;
}
