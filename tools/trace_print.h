/* SPDX-License-Identifier: BSD-2-Clause */
/* The outputs of fi_trace from a linked model. Times are shown in microseconds from the first
 * event. */
#ifndef WEFT_TRACE_PRINT_H
#define WEFT_TRACE_PRINT_H

#include <stdio.h>

#include "trace_model.h"

/* Events and operations of which something is in from..to, ns. */
struct trace_range {
    int64_t from, to;
};

void trace_print_text(const struct trace_model *model, struct trace_range range, FILE *out);
void trace_print_csv(const struct trace_model *model, struct trace_range range, FILE *out);
/* False without memory. */
bool trace_print_summary(const struct trace_model *model, struct trace_range range, FILE *out);
/* The trace event format of Chrome, which Perfetto reads too. */
bool trace_print_json(const struct trace_model *model, struct trace_range range, FILE *out);
bool trace_print_svg(const struct trace_model *model, struct trace_range range, FILE *out);

/* Is some of a file not there? And what: "; 5 older records were overwritten", each behind
 * `before`.
 */
bool trace_incomplete(const struct trace_model *model, int file);
void trace_print_losses(const struct trace_model *model, int file, const char *before, FILE *out);

/* ---- Between the printers ---- */

/* A line for each file, with what it has lost. */
void trace_print_files(const struct trace_model *model, FILE *out);

/* Rows of spans: those of one endpoint that overlap stand in several lanes. */
struct trace_lanes {
    int *lane;       /* of each operation; TRACE_NONE: out of range */
    int *track;      /* of each operation */
    int track_count; /* of layers and endpoints, by process */
    struct trace_track {
        int file;
        unsigned layer;
        uint64_t object; /* WEFT_TRACE_NAMED */
        int lanes;
    } * tracks;
};

bool trace_lanes_init(struct trace_lanes *lanes, const struct trace_model *model,
                      struct trace_range range);
void trace_lanes_finish(struct trace_lanes *lanes);

/* "FI_INJECT, FI_COMPLETION"; bits without a name as "flags 0x...". */
void trace_print_flags(uint64_t flags, FILE *out);
/* The arguments, in brackets, of a call that is no data transfer. */
void trace_print_control(const struct trace_model *model, const struct trace_event *event,
                         FILE *out);

/* When an operation ended: its completion, or its call when it has none. */
int64_t trace_op_end(const struct trace_model *model, const struct trace_op *op);

#endif
