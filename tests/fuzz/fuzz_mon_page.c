/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes as a page file of the layer monitor: what is read of it can be shown.
 * Input: bytes that go over those of a sound header where not 0 (HEAD of them, then its tail from
 * the texts on), then those of a block.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/top_view.h"
#include "tests/fuzz/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    HEAD = offsetof(struct weft_monitor_header, host),
    TEXTS = 64,
    BLOCKS = 2
};

static void sound_header(struct weft_monitor_header *header)
{
    memset(header, 0, sizeof(*header));
    memcpy(header->magic, WEFT_MONITOR_MAGIC, sizeof(header->magic));
    header->version = WEFT_MONITOR_VERSION;
    header->state = WEFT_MONITOR_CLOSED;
    header->header_size = sizeof(*header);
    header->block_size = sizeof(struct weft_monitor_block);
    header->block_count = BLOCKS;
    header->object_count = 2;
    header->call_count = 3;
    strcpy(header->names[0], "fi_tsend");
    strcpy(header->names[1], "fi_trecv");
    strcpy(header->names[2], "fi_cq_read");
    header->objects[0].serial = header->objects[1].serial = 1;
}

static size_t put(uint8_t *to, size_t room, const uint8_t **data, size_t *size)
{
    size_t len = *size < room ? *size : room;

    for (size_t i = 0; i < len; i++)
        if ((*data)[i])
            to[i] = (*data)[i];
    *data += len;
    *size -= len;
    return len;
}

static void check_texts(const struct mon_page *page)
{
    for (const char *c = page->header.program; *c; c++) {
#ifdef FUZZ_PLANTED
        must(*c != '?'); /* as if no text could need cleaning */
#endif
        must(*c >= ' ' && *c <= '~');
    }
    must(strlen(page->header.stack) < sizeof(page->header.stack));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t room =
        sizeof(struct weft_monitor_header) + BLOCKS * sizeof(struct weft_monitor_block);
    static const struct top_view view = {.objects = true, .rows = 40, .columns = 100};
    static const struct top_view raw = {.raw = true};
    static struct mon_page *page;
    static FILE *nowhere;
    static uint8_t *bytes;
    struct mon_file file = {.path = (char *)"x", .life = MON_UNKNOWN};
    struct top_reading reading = {.files = &file, .count = 1, .seconds = 1};
    struct mon_source source;
    char why[128];

    bytes = bytes ? bytes : malloc(room);
    page = page ? page : malloc(sizeof(*page));
    nowhere = nowhere ? nowhere : fopen("/dev/null", "we");
    must(bytes && page && nowhere);
    memset(bytes, 0, room);
    sound_header((struct weft_monitor_header *)bytes);
    put(bytes, HEAD, &data, &size);
    put(bytes + offsetof(struct weft_monitor_header, program), TEXTS, &data, &size);
    put(bytes + sizeof(struct weft_monitor_header), sizeof(struct weft_monitor_block), &data,
        &size);
    source = mon_source_memory(bytes, room);
    if (!mon_page_read(&source, page, why, sizeof(why)))
        return 0;
    check_texts(page);
    file.page = page;
    top_print(&view, NULL, &reading, "x", nowhere);
    top_print(&view, &reading, &reading, "x", nowhere);
    top_print(&raw, NULL, &reading, "x", nowhere);
    return 0;
}
