/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Trace files (weft/trace.h), read and linked: which call made which, which completion ended which
 * operation, which operation of an upper layer caused which of a lower one, which send arrived in
 * which receive of another process. The contents of files are not trusted.
 */
#ifndef WEFT_TRACE_MODEL_H
#define WEFT_TRACE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/trace.h>

enum {
    TRACE_NONE = -1
};

enum trace_class {
    TRACE_OTHER, /* no data transfer */
    TRACE_SEND,
    TRACE_RECV,
    TRACE_READING,
    TRACE_WRITING,
    TRACE_ATOMIC,
    TRACE_COLLECTIVE,
};

struct trace_event {
    int64_t ns; /* since the first event of all files */
    struct weft_trace_record record;
    unsigned more; /* records MORE behind it */
    bool typed; /* elements is valid; not in files of version 1, nor of collectives in version 2 */
    uint64_t flags, data, key, elements; /* of the first MORE */
    int members, member_count;           /* of a group that was joined: in model->members */
    int file, ring;
    int parent; /* the call that it happened inside of, or TRACE_NONE */
    int depth;  /* how many of those */
    int op;     /* that it starts or ends, or TRACE_NONE */
};

/* An operation: a data transfer that was accepted. All are indices, or TRACE_NONE. */
struct trace_op {
    int call, done; /* events; done: its completion; of a receive for several messages the last */
    int cause;      /* operation of a layer above */
    int arrived;    /* of a send: the receive, of another process, that got it */
};

struct trace_file_info {
    const char *name;
    struct weft_trace_header header;
    uint64_t lost;      /* records that were overwritten */
    uint32_t truncated; /* rings that the file should have, and has not whole */
};

struct trace_model {
    struct trace_file_info **files;
    int file_count, file_room;
    struct trace_event *events; /* by file and ring */
    int *order;                 /* of events, by time */
    int event_count, event_room;
    struct trace_op *ops;
    int op_count;
    uint64_t *members; /* fi_addr_t of groups */
    int member_count, member_room;
};

/* Adds the records of one file. name must outlive the model. False: it is no trace file, or there
 * is no memory; then why has a sentence. */
bool trace_add(struct trace_model *model, const char *name, const void *data, size_t len, char *why,
               size_t why_size);
/* The same with what is in the file `path`, which is the name. */
bool trace_add_file(struct trace_model *model, const char *path, char *why, size_t why_size);
/* Links all that was added. False without memory. */
bool trace_link(struct trace_model *model);
void trace_free(struct trace_model *model);

bool trace_is_call(const struct trace_event *event);
bool trace_is_completion(const struct trace_event *event);
/* No call: what address of the network belongs to an endpoint or a number. */
bool trace_is_address(const struct trace_model *model, const struct trace_event *event);
/* The completion of a join that says what the group is. */
bool trace_is_joined(const struct trace_event *event);
enum trace_class trace_class_of(const struct trace_model *model, const struct trace_event *event);
/* "fi_tsend", "fi_control", "completion", ... */
const char *trace_call(const struct trace_model *model, const struct trace_event *event);
/* The same by the function of the headers, of which several are one call: "fi_enable". */
const char *trace_what(const struct trace_model *model, const struct trace_event *event);
/* The stack under its layer: "tcp;ofi_rxm". */
const char *trace_layer(const struct trace_model *model, const struct trace_event *event);
/* The object of a record, as WEFT_TRACE_NAMED. */
uint64_t trace_object_of(const struct trace_event *event);
/* Of such an object: FI_CLASS_EP, ...; FI_CLASS_UNSPEC when the file does not say. */
unsigned trace_class_of_object(const struct trace_model *model, int file, uint64_t object);
/* "ep 7"; returns text. */
char *trace_object_name(const struct trace_model *model, int file, uint64_t object, char *text,
                        size_t size);

#endif
