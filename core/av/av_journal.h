/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The changes of a named address vector, in their order: a process that makes the same changes to
 * its own table has the same addresses at the same indices (docs/design/av.md). Bytes of
 * other processes: every length and kind is checked here; whether the addresses make sense, and the
 * indices are those of the own table, by the caller. Needs the AV's control lock.
 */
#ifndef WEFT_CORE_AV_AV_JOURNAL_H
#define WEFT_CORE_AV_AV_JOURNAL_H

#include "core/av/av_segment.h"

enum {
    AV_CHANGE_MAX = 512,       /* bytes of an address */
    AV_JOURNAL_MAX = 1 << 27,  /* in units of 8 bytes: 1 GiB */
    AV_JOURNAL_BUFFER = 16384, /* bytes that are read and written at once */
};

enum av_change_kind {
    AV_INSERTED = 1,
    AV_REMOVED = 2
};

/* One insertion or removal. addr: as the AV's format has it, strings with their 0; of a removal
 * there is none. */
struct av_change {
    enum av_change_kind kind;
    uint32_t index;
    size_t size;
    const void *addr;
};

struct av_journal {
    struct av_segment *segment;
    uint32_t seen; /* progress domains that the own table has, with those that wait in the buffer */
    uint32_t known; /* progress domains that were published when last looked */
    uint64_t room;  /* bytes of the file that there is memory for */
    size_t start;   /* bytes of the buffer that were taken; 0 when writing */
    size_t filled;  /* bytes of the buffer that were read, or are to be written */
    uint64_t buffer[AV_JOURNAL_BUFFER / 8];
};

/* At its begin. */
void av_journal_init(struct av_journal *journal, struct av_segment *segment);

/* Is there anything to be read? One system call. 0, 1, -FI_EIO: it cannot be. */
int av_journal_look(struct av_journal *journal);
/* The next change, valid until the next call, at most as many as av_journal_look has found. 1; 0:
 * there is none; -FI_EIO: the next bytes are no valid change. Only av_journal_taken goes past
 * it. */
int av_journal_next(struct av_journal *journal, struct av_change *change);
void av_journal_taken(struct av_journal *journal, const struct av_change *change);

/* With the segment locked and everything read: room for a change of an address of `size` bytes.
 * -FI_ENOSPC. */
int av_journal_reserve(struct av_journal *journal, size_t size);
/* Writes it where room was reserved; readers see it from av_journal_publish on. -FI_EIO. */
int av_journal_append(struct av_journal *journal, const struct av_change *change);
int av_journal_publish(struct av_journal *journal);

#endif
