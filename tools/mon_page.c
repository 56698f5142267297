/* SPDX-License-Identifier: BSD-2-Clause */
#include "mon_page.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- Sources ---- */

static bool read_fd(const struct mon_source *source, void *buf, size_t len, uint64_t offset)
{
    size_t done = 0;

    while (done < len) {
        ssize_t rc = pread(source->fd, (char *)buf + done, len - done, (off_t)(offset + done));

        if (rc == 0 || (rc < 0 && errno != EINTR))
            return false;
        done += rc > 0 ? (size_t)rc : 0;
    }
    return true;
}

static bool read_memory(const struct mon_source *source, void *buf, size_t len, uint64_t offset)
{
    if (offset > source->len || len > source->len - offset)
        return false;
    memcpy(buf, (const char *)source->data + offset, len);
    return true;
}

struct mon_source mon_source_fd(int fd)
{
    return (struct mon_source){.read = read_fd, .fd = fd};
}

struct mon_source mon_source_memory(const void *data, size_t len)
{
    return (struct mon_source){.read = read_memory, .data = data, .len = len};
}

/* ---- The header ---- */

static void clean(char *text, size_t size)
{
    text[size - 1] = 0;
    for (; *text; text++)
        if (!isprint((unsigned char)*text))
            *text = '?';
}

static void clean_texts(struct weft_monitor_header *header)
{
    clean(header->host, sizeof(header->host));
    clean(header->program, sizeof(header->program));
    clean(header->job, sizeof(header->job));
    clean(header->stack, sizeof(header->stack));
    clean(header->whole, sizeof(header->whole));
    for (int i = 0; i < WEFT_MONITOR_CALLS; i++)
        clean(header->names[i], sizeof(header->names[i]));
    for (int i = 0; i < WEFT_MONITOR_OBJECTS; i++)
        clean(header->objects[i].name, sizeof(header->objects[i].name));
}

static const char *check(const struct weft_monitor_header *header)
{
    if (memcmp(header->magic, WEFT_MONITOR_MAGIC, sizeof(header->magic)) != 0)
        return "it is no page file of Weft";
    if (header->version != WEFT_MONITOR_VERSION)
        return "its format is of another version of Weft: use the tools that came with its library";
    if (header->state != WEFT_MONITOR_OPEN && header->state != WEFT_MONITOR_CLOSED)
        return "its header is not complete";
    if (header->header_size < sizeof(*header) || header->header_size > 1 << 24 ||
        header->block_size < sizeof(struct weft_monitor_block) || header->block_size > 1 << 24 ||
        header->block_size % 8 || header->header_size % 8)
        return "its header is damaged: sizes";
    if (header->block_count > WEFT_MONITOR_BLOCKS || header->object_count > WEFT_MONITOR_OBJECTS ||
        header->call_count > WEFT_MONITOR_CALLS)
        return "its header is damaged: counts";
    return NULL;
}

/* ---- Sums ---- */

static bool starts(const char *text, const char *prefix)
{
    return !strncmp(text, prefix, strlen(prefix));
}

enum direction {
    SENT,
    RECEIVED,
    NO_TRANSFER
};

static enum direction direction_of(const char *call)
{
    if (!starts(call, "fi_") || starts(call, "fi_mr_") || starts(call, "fi_cq_"))
        return NO_TRANSFER;
    if (starts(call, "fi_recv") || starts(call, "fi_trecv") || starts(call, "fi_read"))
        return RECEIVED;
    return SENT;
}

static void add_call(struct mon_sum *sum, const char *name, const struct weft_monitor_block *block,
                     unsigned call)
{
    enum direction direction = direction_of(name);
    uint64_t count = 0, bytes = 0;

    for (int i = 0; i < WEFT_MONITOR_SIZES; i++) {
        count += block->cells[call][i].count;
        bytes += block->cells[call][i].bytes;
    }
    if (starts(name, "fi_cq_"))
        sum->received += bytes;
    if (direction == NO_TRANSFER)
        return;
    sum->calls += count;
    sum->bytes += bytes;
    sum->again += block->again[call];
    sum->failed += block->failed[call];
    if (direction == SENT)
        sum->sent += bytes;
}

static void add_block(struct mon_page *page, const struct weft_monitor_block *block)
{
    struct mon_object *object =
        &page->objects[block->object <= WEFT_MONITOR_OBJECTS ? block->object : 0];

    for (unsigned call = 0; call < page->header.call_count; call++) {
        const char *name = page->header.names[call];

        add_call(&object->sum, name, block, call);
        add_call(&page->sum, name, block, call);
        page->again[call] += block->again[call];
        page->failed[call] += block->failed[call];
        for (int i = 0; i < WEFT_MONITOR_SIZES; i++) {
            page->cells[call][i].count += block->cells[call][i].count;
            page->cells[call][i].bytes += block->cells[call][i].bytes;
        }
    }
    for (int i = 0; i < WEFT_MONITOR_COUNTS; i++) {
        object->sum.counts[i] += block->counts[i];
        page->sum.counts[i] += block->counts[i];
    }
    object->threads += block->thread != 0;
}

/* Blocks of one thread are of different objects: the result is the largest number of one object. */
static void count_threads(struct mon_page *page)
{
    for (int i = 0; i <= WEFT_MONITOR_OBJECTS; i++)
        if (page->objects[i].threads > page->threads)
            page->threads = page->objects[i].threads;
}

static void name_objects(struct mon_page *page)
{
    for (uint32_t i = 0; i < page->header.object_count; i++) {
        const struct weft_monitor_object *from = &page->header.objects[i];
        struct mon_object *to = &page->objects[i + 1];

        to->serial = from->serial;
        to->fclass = from->fclass;
        to->parent = from->parent <= WEFT_MONITOR_OBJECTS ? from->parent : 0;
        memcpy(to->name, from->name, sizeof(to->name));
    }
}

/* ---- Reading ---- */

/* Once. `same` tells whether counts stayed where they were meanwhile. */
static const char *read_once(const struct mon_source *source, struct mon_page *page, bool *same)
{
    const size_t moving_at = offsetof(struct weft_monitor_header, moving);
    struct weft_monitor_block block;
    const char *wrong;
    uint64_t moving;

    memset(page, 0, sizeof(*page));
    if (!source->read(source, &page->header, sizeof(page->header), 0))
        return "it is too short for a page file of Weft";
    wrong = check(&page->header);
    if (wrong)
        return wrong;
    clean_texts(&page->header);
    for (uint32_t i = 0; i < page->header.block_count; i++) {
        if (!source->read(source, &block, sizeof(block),
                          page->header.header_size + i * page->header.block_size))
            return "it is too short for its blocks";
        add_block(page, &block);
    }
    *same = source->read(source, &moving, sizeof(moving), moving_at) &&
            moving == page->header.moving && moving % 2 == 0;
    name_objects(page);
    count_threads(page);
    return NULL;
}

enum {
    TRIES = 8 /* a process that dies while it moves counts leaves `moving` odd */
};

bool mon_page_read(const struct mon_source *source, struct mon_page *page, char *why,
                   size_t why_size)
{
    const char *wrong = NULL;
    bool same = false;

    for (int i = 0; i < TRIES && !same && !wrong; i++)
        wrong = read_once(source, page, &same);
    if (wrong)
        snprintf(why, why_size, "%s", wrong);
    return !wrong;
}

/* ---- What follows from counts ---- */

int64_t mon_depth(const struct mon_page *page, const struct mon_sum *sum, bool receives)
{
    uint64_t awaited = sum->counts[receives ? WEFT_MONITOR_AWAITED_RX : WEFT_MONITOR_AWAITED_TX];
    uint64_t done = sum->counts[receives ? WEFT_MONITOR_DONE_RX : WEFT_MONITOR_DONE_TX];

    if (sum->counts[WEFT_MONITOR_DONE] || (receives && page->header.multi))
        return -1;
    return awaited > done ? (int64_t)(awaited - done) : 0;
}

static uint64_t since(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

uint64_t mon_timed(const struct weft_monitor_times *times, const struct weft_monitor_times *before)
{
    uint64_t count = 0;

    for (int i = 0; i < WEFT_MONITOR_BUCKETS; i++)
        count += since(times->buckets[i], before ? before->buckets[i] : 0);
    return count;
}

uint64_t mon_quantile(const struct weft_monitor_times *times,
                      const struct weft_monitor_times *before, double part)
{
    const double exact = (double)mon_timed(times, before) * part;
    uint64_t wanted = (uint64_t)exact, seen = 0, end = 0;

    wanted += (double)wanted < exact || !wanted; /* of two, p99 is the larger */
    for (unsigned i = 0; i < WEFT_MONITOR_BUCKETS && seen < wanted; i++) {
        uint64_t here = since(times->buckets[i], before ? before->buckets[i] : 0);

        seen += here;
        if (here)
            end = weft_monitor_bucket_end(i);
    }
    return end;
}
