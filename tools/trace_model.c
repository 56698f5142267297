/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading files. Every number in one is checked before it is used. */
#include "trace_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>

/* ---- Names ---- */

static void terminate(struct weft_trace_header *header)
{
    header->host[sizeof(header->host) - 1] = 0;
    header->program[sizeof(header->program) - 1] = 0;
    for (int i = 0; i < WEFT_TRACE_LAYERS; i++)
        header->layers[i][sizeof(header->layers[i]) - 1] = 0;
    for (int i = 0; i < WEFT_TRACE_NAMES; i++)
        header->names[i][sizeof(header->names[i]) - 1] = 0;
}

bool trace_is_call(const struct trace_event *event)
{
    return event->record.kind >= WEFT_TRACE_CALL;
}

bool trace_is_completion(const struct trace_event *event)
{
    return event->record.kind == WEFT_TRACE_COMPLETION || event->record.kind == WEFT_TRACE_WRITTEN;
}

const char *trace_what(const struct trace_model *model, const struct trace_event *event)
{
    static const char *const names[] = {
        [WEFT_TRACE_NONE] = "nothing",          [WEFT_TRACE_MORE] = "more",
        [WEFT_TRACE_COMPLETION] = "completion", [WEFT_TRACE_WRITTEN] = "completion written",
        [WEFT_TRACE_EVENT] = "event",           [WEFT_TRACE_READ] = "fi_cq_read",
    };
    unsigned kind = event->record.kind;

    if (kind < WEFT_TRACE_CALL)
        return names[kind];
    kind -= WEFT_TRACE_CALL;
    if (kind >= WEFT_TRACE_NAMES || !model->files[event->file]->header.names[kind][0])
        return "unknown call";
    return model->files[event->file]->header.names[kind];
}

const char *trace_layer(const struct trace_model *model, const struct trace_event *event)
{
    const struct weft_trace_header *header = &model->files[event->file]->header;

    return event->record.layer < WEFT_TRACE_LAYERS ? header->layers[event->record.layer] : "?";
}

static const char *class_name(unsigned fclass)
{
    switch (fclass) {
    case FI_CLASS_FABRIC: return "fabric";
    case FI_CLASS_DOMAIN: return "domain";
    case FI_CLASS_EP: return "ep";
    case FI_CLASS_SEP: return "sep";
    case FI_CLASS_RX_CTX: return "rx";
    case FI_CLASS_SRX_CTX: return "srx";
    case FI_CLASS_TX_CTX: return "tx";
    case FI_CLASS_STX_CTX: return "stx";
    case FI_CLASS_PEP: return "pep";
    case FI_CLASS_AV: return "av";
    case FI_CLASS_AV_SET: return "av_set";
    case FI_CLASS_MR: return "mr";
    case FI_CLASS_EQ: return "eq";
    case FI_CLASS_CQ: return "cq";
    case FI_CLASS_CNTR: return "cntr";
    case FI_CLASS_MC: return "mc";
    default: return "object";
    }
}

char *trace_object_name(const struct trace_model *model, int file, uint32_t object, char *text,
                        size_t size)
{
    const struct weft_trace_header *header = &model->files[file]->header;
    unsigned fclass = FI_CLASS_UNSPEC;

    if (object && object <= WEFT_TRACE_OBJECTS)
        fclass = header->objects[object - 1].fclass;
    snprintf(text, size, "%s %u", class_name(fclass), object);
    return text;
}

static bool starts(const char *text, const char *prefix)
{
    return !strncmp(text, prefix, strlen(prefix));
}

enum trace_class trace_class_of(const struct trace_model *model, const struct trace_event *event)
{
    const char *what = trace_what(model, event);

    if (!trace_is_call(event))
        return TRACE_OTHER;
    /* The lower found the buffer of a receive: from there on it is receiving. */
    if (starts(what, "peer get") || starts(what, "peer start"))
        return TRACE_RECV;
    if (!starts(what, "fi_"))
        return TRACE_OTHER;
    what += 3;
    if (strstr(what, "atomic"))
        return TRACE_ATOMIC;
    if (starts(what, "inject_write") || starts(what, "write"))
        return TRACE_WRITING;
    if (starts(what, "read"))
        return TRACE_READING;
    if (starts(what, "send") || starts(what, "inject") || starts(what, "tsend") ||
        starts(what, "tinject"))
        return TRACE_SEND;
    if (starts(what, "recv") || starts(what, "trecv"))
        return TRACE_RECV;
    if (starts(what, "barrier") || starts(what, "broadcast") || starts(what, "all") ||
        starts(what, "reduce") || starts(what, "scatter") || starts(what, "gather") ||
        starts(what, "collective"))
        return TRACE_COLLECTIVE;
    return TRACE_OTHER;
}

/* ---- Files ---- */

static const char *check_header(const struct weft_trace_header *header, size_t len)
{
    if (memcmp(header->magic, WEFT_TRACE_MAGIC, sizeof(header->magic)) != 0)
        return "it is no trace file of Weft";
    if (header->version < WEFT_TRACE_OLDEST || header->version > WEFT_TRACE_VERSION)
        return "it has a format that this fi_trace does not know";
    if (header->record_size != sizeof(struct weft_trace_record) ||
        header->header_size < sizeof(*header) || header->header_size > len)
        return "its header is damaged";
    if (header->ring_size <= WEFT_TRACE_RING_HEAD || header->ring_size > (uint64_t)1 << 40)
        return "its header is damaged: the size of a ring";
    return NULL;
}

/* By the two readings of the clocks. */
static int64_t to_ns(const struct weft_trace_header *header, uint64_t ticks)
{
    const struct weft_trace_clocks *first = &header->clocks[0], *last = &header->clocks[1];
    double rate = 1, ns;

    if (header->clock == WEFT_TRACE_CLOCK_TSC && last->ticks > first->ticks &&
        last->monotonic_ns > first->monotonic_ns)
        rate = (double)(last->monotonic_ns - first->monotonic_ns) /
               (double)(last->ticks - first->ticks);
    ns = (double)(int64_t)(ticks - first->ticks) * rate;
    return ns < 1e18 && ns > -1e18 ? (int64_t)ns : 0;
}

static struct trace_event *new_event(struct trace_model *model)
{
    struct trace_event *event;

    if (model->event_count == model->event_room) {
        int room = model->event_room ? model->event_room * 2 : 4096;

        event = realloc(model->events, (size_t)room * sizeof(*event));
        if (!event)
            return NULL;
        model->events = event;
        model->event_room = room;
    }
    event = &model->events[model->event_count++];
    memset(event, 0, sizeof(*event));
    event->parent = event->op = TRACE_NONE;
    return event;
}

/* The arguments in MORE belong to the record before it. */
static bool add_record(struct trace_model *model, int first, int file, int ring,
                       const struct weft_trace_record *record)
{
    struct trace_event *event;

    if (record->kind == WEFT_TRACE_NONE)
        return true;
    if (record->kind == WEFT_TRACE_MORE) {
        if (model->event_count > first) {
            event = &model->events[model->event_count - 1];
            event->more = true;
            event->flags = record->buf;
            event->data = record->len;
            event->key = record->peer;
            event->elements = record->tag;
            event->typed = model->files[file]->header.version >= 2;
        }
        return true;
    }
    event = new_event(model);
    if (!event)
        return false;
    event->record = *record;
    event->file = file;
    event->ring = ring;
    event->ns = to_ns(&model->files[file]->header, record->time);
    return true;
}

static bool add_ring(struct trace_model *model, int file, int ring, const unsigned char *data)
{
    struct trace_file_info *info = model->files[file];
    uint64_t room = (info->header.ring_size - WEFT_TRACE_RING_HEAD) / info->header.record_size;
    struct weft_trace_record record;
    struct weft_trace_ring head;
    int first = model->event_count;
    uint64_t from = 0;

    memcpy(&head, data, sizeof(head));
    if (!head.capacity || head.capacity > room || head.capacity & (head.capacity - 1)) {
        info->truncated++;
        return true;
    }
    if (head.head > head.capacity)
        from = head.head - head.capacity;
    info->lost += from;
    for (uint64_t n = from; n < head.head; n++) {
        memcpy(&record, data + WEFT_TRACE_RING_HEAD + (n & (head.capacity - 1)) * sizeof(record),
               sizeof(record));
        if (!add_record(model, first, file, ring, &record))
            return false;
    }
    return true;
}

static bool add_rings(struct trace_model *model, int file, const unsigned char *data, size_t len)
{
    struct trace_file_info *info = model->files[file];
    uint64_t whole = (len - info->header.header_size) / info->header.ring_size;
    uint32_t rings = info->header.rings < whole ? info->header.rings : (uint32_t)whole;

    info->truncated = info->header.rings - rings;
    for (uint32_t i = 0; i < rings; i++)
        if (!add_ring(model, file, (int)i,
                      data + info->header.header_size + i * info->header.ring_size))
            return false;
    return true;
}

bool trace_add(struct trace_model *model, const char *name, const void *data, size_t len, char *why,
               size_t why_size)
{
    const char *wrong = "there is no memory for it";
    struct trace_file_info *info;

    if (len < sizeof(info->header)) {
        snprintf(why, why_size, "%s: it is too short for a trace file of Weft", name);
        return false;
    }
    info = model->file_count < TRACE_FILES ? calloc(1, sizeof(*info)) : NULL;
    if (info) {
        info->name = name;
        memcpy(&info->header, data, sizeof(info->header));
        wrong = check_header(&info->header, len);
        terminate(&info->header);
    }
    if (!wrong) {
        model->files[model->file_count++] = info;
        if (add_rings(model, model->file_count - 1, data, len))
            return true;
        wrong = "there is no memory for it";
    } else {
        free(info);
    }
    snprintf(why, why_size, "%s: %s", name, wrong);
    return false;
}

void trace_free(struct trace_model *model)
{
    for (int i = 0; i < model->file_count; i++)
        free(model->files[i]);
    free(model->events);
    free(model->order);
    free(model->ops);
    memset(model, 0, sizeof(*model));
}
