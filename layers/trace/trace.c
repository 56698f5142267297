/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/base/path.h"
#include "core/hook/hook_part.h"
#include "core/part/part.h"
#include "layers/trace/trace.h"

static void fill_ops(struct hook_ops *ops)
{
    trace_data_ops(ops);
    trace_control_ops(ops);
    trace_peer_ops(ops);
    trace_group_ops(ops);
    trace_object_ops(ops);
}

struct weft_trace_record *trace_amend(const struct trace_object *object, uint64_t place)
{
    static _Thread_local struct weft_trace_record nowhere;
    struct trace_ring *ring = place == TRACE_NOWHERE ? NULL : trace_ring_of(object->file);

    return ring && ring->head - place <= ring->mask ? &ring->records[place & ring->mask] : &nowhere;
}

void trace_object_init(struct trace_object *object, size_t fclass, uint32_t above)
{
    struct weft_trace_record record = {.layer = object->layer, .fclass = (uint8_t)fclass};

    record.object = object->number = trace_file_object(object->file, object->layer, fclass, above);
    object->fclass = record.fclass;
    memcpy(&object->who, (char *)&record + offsetof(struct weft_trace_record, kind),
           sizeof(object->who));
}

static struct trace_object *fabric_object(struct trace_file *file, const struct open_args *args)
{
    const char *below = args->attr && args->attr->prov_name ? args->attr->prov_name : "?";
    struct trace_object *object = calloc(1, sizeof(*object));

    if (!object)
        return NULL;
    object->file = file;
    object->log = params_bool(args->params, "log");
    object->layer = (uint8_t)trace_file_layer(file, below);
    trace_object_init(object, FI_CLASS_FABRIC, 0);
    return object;
}

static int trace_create(const struct open_args *args, void **own)
{
    struct trace_file *file;
    char why[4200];
    int rc =
        trace_file_open(params_string(args->params, "file"), params_size(args->params, "size"),
                        (unsigned)params_int(args->params, "threads"), &file, why, sizeof(why));

    if (rc) {
        log_user("trace: %s", why);
        return rc;
    }
    if (params_bool(args->params, "log") && !log_enabled("trace", FI_LOG_TRACE, FI_LOG_EP_DATA))
        log_user("trace: the lines that 'log' asks for are shown with FI_LOG_LEVEL=trace");
    *own = fabric_object(file, args);
    return *own ? 0 : -FI_ENOMEM;
}

static void trace_destroy(void *own)
{
    struct trace_object *object = own;

    trace_file_layer_done(object->file, object->layer);
    free(object);
}

static struct hook_part hook = {.fill = fill_ops, .create = trace_create, .destroy = trace_destroy};

static const char *const aliases[] = {"hook", "hook_trace", NULL};

static const struct param_def params[] = {
    PARAM_CHECKED(
        "file", PARAM_STRING, "weft-trace.%p", path_check,
        "Where to record: %p is the process, %h the host. An older trace of that name is "
        "replaced, another file is an error; where another process records into it, '.' and "
        "the number of this one are added. Only its owner may read it. /dev/shm keeps disks "
        "out of the times."),
    PARAM_NUMBER("size", PARAM_SIZE, "4m", 4096, 1ll << 32,
                 "Bytes for each thread, rounded up to a power of two; a record has 64. The newest "
                 "stay. Of layers with the same file, the first that is opened decides."),
    PARAM_SWITCH("log", "0",
                 "Calls, completions and events as lines of the log, too, when they have ended "
                 "(FI_LOG_LEVEL=trace shows them). That takes its time."),
    PARAM_NUMBER("threads", PARAM_INT, "64", 1, 4096,
                 "The most threads that have records in the file. Later threads take the place "
                 "of threads that have ended, or are not recorded."),
    {.key = NULL},
};

const struct part trace_part = {
    .name = "trace",
    .prov_name = "ofi_hook_trace",
    .aliases = aliases,
    .summary = "records every call, completion and event into a file",
    .description =
        "Writes calls with their arguments and result, completions and events at its place in "
        "the stack into a ring in a mapped file, one for each thread, with time stamps. "
        "fi_trace(1) shows the file as text, as a table of where the time went, as a picture, "
        "or for a trace viewer. The records can be read after a crash.\n\n"
        "It may stand at several places of a stack at once; layers with the same file then show "
        "what each part between them made of an operation.\n\n"
        "Reads of a completion queue that give nothing are counted and not recorded, reads of "
        "counters are not recorded. Nothing on the path locks, allocates or makes a system "
        "call, except for the first record of a thread. A file that cannot be written is an "
        "error of fi_fabric; a disk that is full later leaves the threads that come later "
        "unrecorded, and says so once. The child of a fork is not recorded.",
    .hook = &hook,
    HOOK_PART,
    .params = params,
    .offer = part_offer_same,
};
