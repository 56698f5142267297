/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading files. Every number in one is checked before it is used. */
#include "trace_model.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_eq.h>

static void terminate(struct weft_trace_header *header)
{
    header->host[sizeof(header->host) - 1] = 0;
    header->program[sizeof(header->program) - 1] = 0;
    for (int i = 0; i < WEFT_TRACE_LAYERS; i++)
        header->layers[i][sizeof(header->layers[i]) - 1] = 0;
    for (int i = 0; i < WEFT_TRACE_NAMES; i++)
        header->names[i][sizeof(header->names[i]) - 1] = 0;
}

static const char *check_header(const struct weft_trace_header *header, size_t len)
{
    if (memcmp(header->magic, WEFT_TRACE_MAGIC, sizeof(header->magic)) != 0)
        return "it is no trace file of Weft";
    if (header->version >> 24 && !(header->version & 0xffffff))
        return "it was recorded on a machine with the other order of bytes";
    if (header->version < WEFT_TRACE_OLDEST || header->version > WEFT_TRACE_VERSION)
        return "its format is of another version of Weft: use the tools that came with the library "
               "that recorded it";
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
        if (model->event_room > INT_MAX / 2)
            return NULL;
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

static bool add_member(struct trace_model *model, struct trace_event *event, uint64_t member)
{
    if (model->member_count == model->member_room) {
        int room = model->member_room ? model->member_room * 2 : 64;
        uint64_t *members = realloc(model->members, (size_t)room * sizeof(*members));

        if (!members)
            return false;
        model->members = members;
        model->member_room = room;
    }
    if (!event->member_count)
        event->members = model->member_count;
    model->members[model->member_count++] = member;
    event->member_count++;
    return true;
}

static bool add_members(struct trace_model *model, struct trace_event *event,
                        const struct weft_trace_record *record)
{
    const uint64_t four[] = {record->buf, record->len, record->peer, record->tag};

    for (int i = 0; i < 4; i++)
        if (event->member_count < WEFT_TRACE_MEMBERS &&
            (uint64_t)event->member_count < event->record.len && !add_member(model, event, four[i]))
            return false;
    return true;
}

/* The arguments in MORE belong to the record before it. */
static bool add_more(struct trace_model *model, struct trace_event *event,
                     const struct weft_trace_record *record)
{
    const uint32_t version = model->files[event->file]->header.version;

    if (event->more++)
        return !trace_is_joined(event) || add_members(model, event, record);
    event->flags = record->buf;
    event->data = record->len;
    event->key = record->peer;
    event->elements = record->tag;
    if (event->record.kind == WEFT_TRACE_EVENT || trace_class_of(model, event) == TRACE_COLLECTIVE)
        event->typed = version >= WEFT_TRACE_GROUPS;
    else
        event->typed = version >= 2;
    return true;
}

static bool add_record(struct trace_model *model, int first, int file, int ring,
                       const struct weft_trace_record *record)
{
    struct trace_event *event;

    if (record->kind == WEFT_TRACE_NONE)
        return true;
    if (record->kind == WEFT_TRACE_MORE)
        return model->event_count == first ||
               add_more(model, &model->events[model->event_count - 1], record);
    event = new_event(model);
    if (!event)
        return false;
    event->record = *record;
    event->file = file;
    event->ring = ring;
    event->ns = to_ns(&model->files[file]->header, record->time);
    return true;
}

/* Of len bytes: fewer than a ring's where the file was cut short. */
static bool add_ring(struct trace_model *model, int file, int ring, const unsigned char *data,
                     uint64_t len)
{
    struct trace_file_info *info = model->files[file];
    uint64_t room = (info->header.ring_size - WEFT_TRACE_RING_HEAD) / info->header.record_size;
    uint64_t there = (len - WEFT_TRACE_RING_HEAD) / info->header.record_size;
    struct weft_trace_record record;
    struct weft_trace_ring head;
    int first = model->event_count;
    bool gap = false; /* the record before is not in the file */
    uint64_t from = 0;

    memcpy(&head, data, sizeof(head));
    if (!head.capacity || head.capacity > room || head.capacity & (head.capacity - 1)) {
        info->truncated += there >= room; /* else it is counted as cut short */
        return true;
    }
    if (head.head > head.capacity)
        from = head.head - head.capacity;
    info->lost += from;
    for (uint64_t n = from; n < head.head; n++) {
        uint64_t place = n & (head.capacity - 1);

        if (place >= there) {
            uint64_t skip = head.capacity - place - 1; /* the next is at the ring's beginning */

            if (skip >= head.head - n - 1)
                break;
            n += skip;
            gap = true;
            continue;
        }
        memcpy(&record, data + WEFT_TRACE_RING_HEAD + place * sizeof(record), sizeof(record));
        if (gap && record.kind == WEFT_TRACE_MORE)
            continue;
        gap = false;
        if (!add_record(model, first, file, ring, &record))
            return false;
    }
    return true;
}

static bool add_rings(struct trace_model *model, int file, const unsigned char *data, size_t len)
{
    struct trace_file_info *info = model->files[file];
    const uint64_t size = info->header.ring_size;
    uint64_t left = len - info->header.header_size;

    for (uint32_t i = 0; i < info->header.rings; i++) {
        if (left < size)
            info->truncated++;
        if (left <= WEFT_TRACE_RING_HEAD) {
            info->truncated += info->header.rings - i - 1;
            return true;
        }
        if (!add_ring(model, file, (int)i, data + len - left, left < size ? left : size))
            return false;
        left -= left < size ? left : size;
    }
    return true;
}

/* The file again, under this name or another, or a copy of it: all in it would be there twice. */
static const char *same_recording(const struct trace_model *model,
                                  const struct weft_trace_header *header)
{
    const struct weft_trace_clocks *begun = &header->clocks[0];

    for (int i = 0; begun->realtime_ns && i < model->file_count; i++) {
        const struct weft_trace_header *other = &model->files[i]->header;

        if (other->boot == header->boot && other->pid == header->pid &&
            !memcmp(&other->clocks[0], begun, sizeof(*begun)))
            return model->files[i]->name;
    }
    return NULL;
}

static bool make_room(struct trace_model *model)
{
    int room = model->file_room ? model->file_room * 2 : 16;
    struct trace_file_info **files;

    if (model->file_count < model->file_room)
        return true;
    files = realloc(model->files, (size_t)room * sizeof(struct trace_file_info *));
    if (!files)
        return false;
    model->files = files;
    model->file_room = room;
    return true;
}

bool trace_add(struct trace_model *model, const char *name, const void *data, size_t len, char *why,
               size_t why_size)
{
    const char *wrong = "there is no memory for it", *same = NULL;
    struct trace_file_info *info;

    if (len < sizeof(info->header)) {
        snprintf(why, why_size, "%s: it is too short for a trace file of Weft", name);
        return false;
    }
    info = make_room(model) ? calloc(1, sizeof(*info)) : NULL;
    if (info) {
        info->name = name;
        memcpy(&info->header, data, sizeof(info->header));
        wrong = check_header(&info->header, len);
        terminate(&info->header);
        same = wrong ? NULL : same_recording(model, &info->header);
    }
    if (same) {
        free(info);
        snprintf(why, why_size, "%s: it is the same recording as %s", name, same);
        return false;
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

/* All that is there now: the process may still be writing. NULL with errno. */
static void *read_all(int fd, size_t size, size_t *ret_len)
{
    char *data = malloc(size + 1);
    size_t len = 0;
    ssize_t rc = 1;

    while (data && len < size && rc > 0) {
        rc = read(fd, data + len, size - len);
        len += rc > 0 ? (size_t)rc : 0;
    }
    *ret_len = len;
    if (rc >= 0)
        return data;
    free(data);
    return NULL;
}

/* Of something else, which may be large, the beginning will do to say so. */
static size_t worth_reading(int fd, size_t size)
{
    char magic[sizeof(WEFT_TRACE_MAGIC)];

    if (size <= sizeof(struct weft_trace_header) ||
        pread(fd, magic, sizeof(magic), 0) != sizeof(magic) ||
        !memcmp(magic, WEFT_TRACE_MAGIC, sizeof(magic)))
        return size;
    return sizeof(struct weft_trace_header);
}

bool trace_add_file(struct trace_model *model, const char *path, char *why, size_t why_size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *data = NULL;
    struct stat info;
    size_t len = 0;
    bool ok;

    if (fd >= 0 && !fstat(fd, &info))
        data = read_all(fd, worth_reading(fd, (size_t)info.st_size), &len);
    if (!data) {
        snprintf(why, why_size, "%s: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return false;
    }
    close(fd);
    ok = trace_add(model, path, data, len, why, why_size);
    free(data);
    return ok;
}

void trace_free(struct trace_model *model)
{
    for (int i = 0; i < model->file_count; i++)
        free(model->files[i]);
    free(model->files);
    free(model->events);
    free(model->order);
    free(model->ops);
    free(model->members);
    memset(model, 0, sizeof(*model));
}
