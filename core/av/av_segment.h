/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The file in /dev/shm behind a named address vector (docs/design/av.md): access to it, whether any
 * process holds it, and the lock of its writers. It is not mapped: a process that truncates the
 * file cannot crash another. A writer is an AV that may insert, a reader one that may not.
 */
#ifndef WEFT_CORE_AV_AV_SEGMENT_H
#define WEFT_CORE_AV_AV_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/list.h"

enum {
    AV_NAME_MAX = 128, /* of a name, without its 0 */
    AV_PATH_MAX = 280, /* of the file's path */
    AV_WHY_MAX = 480,  /* of a sentence about what was refused */
};

/* The first bytes of the file; the journal (core/av/av_journal.h) follows at AV_SEGMENT_START. */
struct av_segment_header {
    char magic[8];
    uint32_t version;
    uint32_t format; /* of the addresses: fi_info.addr_format */
    uint32_t used;   /* length of the published journal, in units of 8 bytes */
    uint32_t zero;   /* for later */
};

enum {
    AV_SEGMENT_START = 64
};

struct av_segment {
    struct list all; /* segments of this process, for fork */
    int fd;          /* -1: closed, as after a fork in the child */
    bool writer;     /* it may insert, and the name stays while it is open */
    bool locked;     /* av_segment_lock */
    char path[AV_PATH_MAX];
};

struct av_segment_want {
    const char *domain; /* name of the domain: its processes share, others do not */
    const char *name;
    uint32_t format;
    bool reader;
};

/*
 * A writer makes a missing file, replaces one that no writer holds any more, else joins. A reader
 * joins, or -FI_ENOENT. -FI_EINVAL: a bad name, addresses of another format, or a file that is none
 * of ours; -FI_EACCES, -FI_ENOSPC, ... from the system; -FI_EBUSY: a process that makes or removes
 * it does not come to an end within seconds. why gets a sentence.
 */
int av_segment_open(struct av_segment *segment, const struct av_segment_want *want,
                    char why[AV_WHY_MAX]);
/* Also one that could not be opened. The last writer removes the name; the child of a fork frees,
 * and touches nothing else. */
void av_segment_close(struct av_segment *segment);

/* One writer at a time; not recursive. -FI_EBUSY after seconds, -FI_EOPBADSTATE when closed. */
int av_segment_lock(struct av_segment *segment);
void av_segment_unlock(struct av_segment *segment);

#endif
