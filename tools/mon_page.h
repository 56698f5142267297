/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Page files of the layer monitor (weft/monitor.h), read. The contents of a file are not trusted:
 * numbers are checked, texts are made fit for a terminal. Files are copied with pread: one that is
 * cut short meanwhile is an error and no SIGBUS, and no memory is taken for its holes.
 */
#ifndef WEFT_MON_PAGE_H
#define WEFT_MON_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/monitor.h>

struct mon_sum {
    uint64_t calls, bytes, again, failed; /* of all data transfers, in both directions */
    uint64_t sent, received; /* bytes: given to sends, writes, atomics; completed receives */
    uint64_t counts[WEFT_MONITOR_COUNTS];
};

struct mon_object {
    uint64_t serial; /* 0: none */
    uint32_t fclass, parent, threads;
    char name[48];
    struct mon_sum sum;
};

struct mon_page {
    struct weft_monitor_header header; /* checked; texts end and are printable */
    struct mon_sum sum;
    uint32_t threads;
    uint64_t again[WEFT_MONITOR_CALLS], failed[WEFT_MONITOR_CALLS];
    struct weft_monitor_cell cells[WEFT_MONITOR_CALLS][WEFT_MONITOR_SIZES];
    struct mon_object objects[WEFT_MONITOR_OBJECTS + 1]; /* 0: all others */
};

/* Where bytes come from: reads len of them at offset; false: there are not so many. */
struct mon_source {
    bool (*read)(const struct mon_source *source, void *buf, size_t len, uint64_t offset);
    int fd;
    const void *data;
    size_t len;
};
struct mon_source mon_source_fd(int fd);
struct mon_source mon_source_memory(const void *data, size_t len);

/* False: page is undefined, and why has half a sentence. */
bool mon_page_read(const struct mon_source *source, struct mon_page *page, char *why,
                   size_t why_size);

/* Operations accepted and not completed; -1 where that cannot be known (entries without flags,
 * receives for several messages). */
int64_t mon_depth(const struct mon_page *page, const struct mon_sum *sum, bool receives);
/* ns that `part` (0 to 1) of the timed operations of a class took at most; 0: none was timed.
 * before: of an earlier reading, taken off; may be NULL. */
uint64_t mon_quantile(const struct weft_monitor_times *times,
                      const struct weft_monitor_times *before, double part);
uint64_t mon_timed(const struct weft_monitor_times *times, const struct weft_monitor_times *before);

enum mon_life {
    MON_RUNS,
    MON_CLOSED,  /* closed, and its file lingers */
    MON_GONE,    /* its process has ended without closing, or another one has its number now */
    MON_UNKNOWN, /* of another machine or another space of process numbers */
};
enum mon_life mon_life(const struct weft_monitor_header *header);

/* A process to show; page NULL: the file cannot be read, for the reason in why. */
struct mon_file {
    char *path;
    struct mon_page *page;
    enum mon_life life;
    char why[128];
};

/* All files at path (a file, or a folder and those below it), by name. Returns how many, or -1 with
 * errno: path itself cannot be read. mon_files_free. */
int mon_files_read(const char *path, struct mon_file **files);
void mon_files_free(struct mon_file *files, int count);

/* $FI_OFI_HOOK_MONITOR_BASEPATH or its default, with the user's folder or without. */
void mon_default_path(char *path, size_t size, bool all_users);

#endif
