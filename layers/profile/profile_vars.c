/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/profile/profile_vars.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "layers/profile/profile_count.h"

/* Ours are numbered apart from those of fi_profile.h. */
enum {
    OWN = 1 << 24
};

enum var {
    VAR_UNEXPECTED,
    VAR_CONN_REQUEST,
    VAR_CONN_ACCEPT,
    VAR_CONN_REJECT,
    VAR_CALLS,
    VAR_AGAIN,
    VAR_RETRIED,
    VAR_FAILED,
    VAR_BYTES_SENT,
    VAR_COMPLETIONS,
    VAR_ERRORS,
    VAR_UNEXPECTED_SEEN,
    VAR_UNEXPECTED_MOST,
    VARS,
};

#define UINT64_VAR(number, text, what)                                                             \
    {                                                                                              \
        .id = (number), .datatype_sel = fi_primitive_type, .datatype.primitive = FI_UINT64,        \
        .size = sizeof(uint64_t), .name = (text), .desc = (what)                                   \
    }

static const struct fi_profile_desc vars[VARS] = {
    [VAR_UNEXPECTED] = UINT64_VAR(FI_VAR_UNEXP_MSG_CNT, "unexp_msg_cnt",
                                  "messages that wait for their receive, now"),
    [VAR_CONN_REQUEST] = UINT64_VAR(FI_VAR_CONN_REQUEST, "conn_request", "calls of fi_connect"),
    [VAR_CONN_ACCEPT] = UINT64_VAR(FI_VAR_CONN_ACCEPT, "conn_accept", "calls of fi_accept"),
    [VAR_CONN_REJECT] = UINT64_VAR(FI_VAR_CONN_REJECT, "conn_reject", "calls of fi_reject"),
    [VAR_CALLS] = UINT64_VAR(OWN, "calls", "data transfers that were accepted"),
    [VAR_AGAIN] = UINT64_VAR(OWN + 1, "again", "data transfers that were answered -FI_EAGAIN"),
    [VAR_RETRIED] = UINT64_VAR(OWN + 2, "retried", "data transfers accepted after a refusal"),
    [VAR_FAILED] = UINT64_VAR(OWN + 3, "failed", "data transfers with another error"),
    [VAR_BYTES_SENT] = UINT64_VAR(OWN + 4, "bytes_sent", "bytes of sends and writes"),
    [VAR_COMPLETIONS] = UINT64_VAR(OWN + 5, "completions", "completions without error"),
    [VAR_ERRORS] = UINT64_VAR(OWN + 6, "errors", "completions in error"),
    [VAR_UNEXPECTED_SEEN] =
        UINT64_VAR(OWN + 7, "unexp_msg_seen", "messages that came before their receive"),
    [VAR_UNEXPECTED_MOST] =
        UINT64_VAR(OWN + 8, "unexp_msg_most", "the most of them that were seen to wait at once"),
};

/* Behind the others; only where the part that matches is below and can say. */
static const struct fi_profile_desc queue_var = {
    .id = FI_VAR_UNEXP_MSG_QUEUE,
    .datatype_sel = fi_defined_type,
    .datatype.defined = FI_TYPE_CQ_ERR_ENTRY,
    .size = sizeof(struct fi_cq_err_entry),
    .name = "unexp_msg_queue",
    .desc = "messages that wait for their receive, one entry each",
};

static const struct fi_profile_desc events[] = {
    {.id = FI_EVENT_UNEXP_MSG_RECVD,
     .name = "unexp_msg_recvd",
     .desc = "a message came that nobody waits for"},
    {.id = FI_EVENT_UNEXP_MSG_MATCHED,
     .name = "unexp_msg_matched",
     .desc = "a message that waited has met its receive, or is discarded"},
};
enum {
    EVENTS = sizeof(events) / sizeof(*events)
};

struct handle {
    struct fid_profile fid; /* first */
    struct profile *profile;
    const struct fid *target; /* NULL: closed */
    struct list link;
    uint64_t base[VARS], snapshot[VARS];
    bool frozen;
    void *queue; /* as it was frozen; NULL: there was no memory, or nothing */
    size_t queue_size;
    struct {
        int (*function)(struct fid_profile *, struct fi_profile_desc *, void *, size_t, void *);
        void *context;
    } callbacks[EVENTS];
};

static struct handle *handle_of(struct fid_profile *fid)
{
    return object_of(fid, struct handle, fid);
}

/* ---- Values ---- */

static void add_up(const struct profile_counts *counts, uint64_t values[VARS])
{
    for (int kind = 0; kind < OP_CALLS; kind++) {
        enum op_class class = op_class((enum op_call)kind);

        values[VAR_CALLS] += profile_accepted(counts, (enum op_call)kind);
        values[VAR_AGAIN] += counts->again[kind];
        values[VAR_RETRIED] += counts->retried[kind];
        values[VAR_FAILED] += counts->failed[kind];
        if (class == OP_CLASS_SEND || class == OP_CLASS_WRITE)
            values[VAR_BYTES_SENT] += counts->bytes[kind];
    }
}

static void read_all(struct handle *handle, uint64_t values[VARS])
{
    struct profile_depth *depth = &handle->profile->depth;
    struct profile_counts counts;

    profile_sum(handle->profile, &counts);
    memset(values, 0, VARS * sizeof(*values));
    add_up(&counts, values);
    values[VAR_CONN_REQUEST] = counts.connects;
    values[VAR_CONN_ACCEPT] = counts.accepts;
    values[VAR_CONN_REJECT] = counts.rejects;
    values[VAR_COMPLETIONS] = counts.completions;
    values[VAR_ERRORS] = counts.errors;
    values[VAR_UNEXPECTED_SEEN] = counts.unexpected;
    if (handle->target && atomic_load(&depth->any))
        values[VAR_UNEXPECTED] = profile_depth_ask(depth, handle->target);
    values[VAR_UNEXPECTED] += atomic_load(&depth->passed);
    values[VAR_UNEXPECTED_MOST] = atomic_load(&depth->most);
}

/* Levels and high-water marks do not return to 0 at a reset. */
static bool counts_up(enum var var)
{
    return var != VAR_UNEXPECTED && var != VAR_UNEXPECTED_MOST;
}

/* ---- The queue ---- */

static bool has_queue(const struct handle *handle)
{
    return handle->target && atomic_load(&handle->profile->depth.any);
}

static int read_queue(const struct handle *handle, void *data, size_t *size)
{
    size_t room = *size;

    if (!has_queue(handle) && !handle->frozen)
        return -FI_EINVAL;
    if (!handle->frozen)
        return profile_depth_list(&handle->profile->depth, handle->target, data, size);
    *size = handle->queue_size;
    if (room < handle->queue_size)
        return -FI_ETOOSMALL;
    if (handle->queue_size)
        memcpy(data, handle->queue, handle->queue_size);
    return 0;
}

static void thaw_queue(struct handle *handle)
{
    free(handle->queue);
    handle->queue = NULL;
    handle->queue_size = 0;
}

/* It may grow between the calls for its length and for its contents. */
static void freeze_queue(struct handle *handle)
{
    size_t size = 0;
    int rc = -FI_ETOOSMALL;

    thaw_queue(handle);
    while (has_queue(handle) && rc == -FI_ETOOSMALL) {
        void *room = realloc(handle->queue, size + 1);

        if (!room)
            break;
        handle->queue = room;
        rc = profile_depth_list(&handle->profile->depth, handle->target, room, &size);
    }
    if (rc)
        thaw_queue(handle);
    else
        handle->queue_size = size;
}

static ssize_t read_var(struct fid_profile *fid, uint32_t id, void *data, size_t *size)
{
    struct handle *handle = handle_of(fid);
    uint64_t values[VARS], value;
    int var = 0;

    if (id == FI_VAR_UNEXP_MSG_QUEUE)
        return size && (data || !*size) ? read_queue(handle, data, size) : -FI_EINVAL;
    while (var < VARS && vars[var].id != id)
        var++;
    if (var == VARS || !data || !size)
        return -FI_EINVAL;
    if (*size < sizeof(value)) {
        *size = sizeof(value);
        return -FI_ETOOSMALL;
    }
    if (handle->frozen)
        memcpy(values, handle->snapshot, sizeof(values));
    else
        read_all(handle, values);
    value = values[var] - (counts_up((enum var)var) ? handle->base[var] : 0);
    memcpy(data, &value, sizeof(value));
    *size = sizeof(value);
    return 0;
}

static void reset(struct fid_profile *fid, uint64_t flags)
{
    read_all(handle_of(fid), handle_of(fid)->base);
}

static void start_reads(struct fid_profile *fid, uint64_t flags)
{
    struct handle *handle = handle_of(fid);

    read_all(handle, handle->snapshot);
    freeze_queue(handle);
    handle->frozen = true;
}

static void end_reads(struct fid_profile *fid, uint64_t flags)
{
    handle_of(fid)->frozen = false;
    thaw_queue(handle_of(fid));
}

/* ---- Lists ---- */

static ssize_t query(const struct fi_profile_desc *from, size_t there, struct fi_profile_desc *list,
                     size_t *count)
{
    size_t given = list && *count < there ? *count : there;

    if (list)
        memcpy(list, from, given * sizeof(*list));
    *count = there;
    return list ? (ssize_t)given : 0;
}

static ssize_t query_vars(struct fid_profile *fid, struct fi_profile_desc *list, size_t *count)
{
    struct fi_profile_desc there[VARS + 1];

    if (!count)
        return -FI_EINVAL;
    memcpy(there, vars, sizeof(vars));
    there[VARS] = queue_var;
    return query(there, has_queue(handle_of(fid)) ? VARS + 1 : VARS, list, count);
}

static size_t events_there(const struct handle *handle)
{
    return atomic_load(&handle->profile->handles.matches_above) ? EVENTS : 0;
}

static ssize_t query_events(struct fid_profile *fid, struct fi_profile_desc *list, size_t *count)
{
    return count ? query(events, events_there(handle_of(fid)), list, count) : -FI_EINVAL;
}

/* ---- Events ---- */

static int reg_callback(struct fid_profile *fid, uint32_t id,
                        int (*callback)(struct fid_profile *, struct fi_profile_desc *, void *,
                                        size_t, void *),
                        void *context)
{
    struct handle *handle = handle_of(fid);
    struct profile_handles *handles = &handle->profile->handles;

    for (size_t i = 0; i < events_there(handle); i++) {
        if (events[i].id != id)
            continue;
        pthread_mutex_lock(&handles->mutex);
        handle->callbacks[i].function = callback;
        handle->callbacks[i].context = context;
        if (callback)
            atomic_store(&handles->called, true);
        pthread_mutex_unlock(&handles->mutex);
        return 0;
    }
    return -FI_EINVAL;
}

void profile_tell(struct profile *profile, uint32_t event)
{
    struct profile_handles *handles = &profile->handles;
    struct fi_profile_desc desc;
    size_t i = 0;

    if (!atomic_load_explicit(&handles->called, memory_order_relaxed))
        return;
    while (i < EVENTS && events[i].id != event)
        i++;
    pthread_mutex_lock(&handles->mutex);
    list_for_each (pos, &handles->list) {
        struct handle *handle = list_item(pos, struct handle, link);

        desc = events[i];
        if (handle->callbacks[i].function)
            handle->callbacks[i].function(&handle->fid, &desc, NULL, 0,
                                          handle->callbacks[i].context);
    }
    pthread_mutex_unlock(&handles->mutex);
}

void profile_matches_above(struct profile *profile)
{
    atomic_store(&profile->handles.matches_above, true);
}

/* ---- Their life ---- */

static int close_handle(struct fid *fid)
{
    struct handle *handle = object_of(fid, struct handle, fid.fid);

    /* Its fabric may be closed. */
    if (handle->profile) {
        struct profile_handles *handles = &handle->profile->handles;

        pthread_mutex_lock(&handles->mutex);
        list_detach(&handle->link);
        pthread_mutex_unlock(&handles->mutex);
    }
    thaw_queue(handle);
    free(handle);
    return 0;
}

static struct fi_ops fid_ops = {
    .size = sizeof(fid_ops),
    .close = close_handle,
    FID_CLOSES_ONLY,
};

static struct fi_profile_ops profile_ops = {
    .size = sizeof(profile_ops),
    .reset = reset,
    .query_vars = query_vars,
    .query_events = query_events,
    .read_var = read_var,
    .reg_callback = reg_callback,
    .start_reads = start_reads,
    .end_reads = end_reads,
};

int profile_handle_open(struct profile *profile, const struct fid *target, uint64_t flags,
                        void *context, void **ops)
{
    struct handle *handle;

    if (flags)
        return -FI_EBADFLAGS;
    handle = calloc(1, sizeof(*handle));
    if (!handle)
        return -FI_ENOMEM;
    fid_init(&handle->fid.fid, FI_CLASS_UNSPEC, context, &fid_ops);
    handle->fid.ops = &profile_ops;
    handle->profile = profile;
    handle->target = target;
    read_all(handle, handle->base);
    pthread_mutex_lock(&profile->handles.mutex);
    list_attach(&handle->link, &profile->handles.list);
    pthread_mutex_unlock(&profile->handles.mutex);
    *ops = &handle->fid;
    return 0;
}

void profile_handles_init(struct profile_handles *handles)
{
    pthread_mutexattr_t attr;

    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&handles->mutex, &attr);
    pthread_mutexattr_destroy(&attr);
    list_init(&handles->list);
}

/* Handles that are still open stay valid to be closed, and to nothing else. */
void profile_handles_finish(struct profile_handles *handles)
{
    list_for_each_safe (pos, after, &handles->list) {
        list_detach(pos);
        list_item(pos, struct handle, link)->profile = NULL;
    }
    pthread_mutex_destroy(&handles->mutex);
}

void profile_handles_forget(struct profile_handles *handles, const struct fid *target)
{
    pthread_mutex_lock(&handles->mutex);
    list_for_each (pos, &handles->list) {
        struct handle *handle = list_item(pos, struct handle, link);

        if (handle->target == target)
            handle->target = NULL;
    }
    pthread_mutex_unlock(&handles->mutex);
}
