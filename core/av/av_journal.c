/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A change is a header, 8 bytes, and its address, filled up to 8 bytes. Written first, published
 * after: only the length in the segment's header counts; bytes behind it were not published, and
 * the next writer overwrites them. Both are done by system calls, so that a hostile file is at
 * worst wrong bytes in memory of our own, which do not change while they are looked at.
 */
#include "core/av/av_journal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

struct head {
    uint32_t index;
    uint16_t kind;
    uint16_t size;
};

enum {
    UNIT = 8,
    GROWTH_LEAST = 4096,
    GROWTH_MOST = 1 << 20,
};

_Static_assert(sizeof(struct head) == UNIT, "a change begins with one unit");

static uint32_t units_of(size_t size)
{
    return 1 + (uint32_t)((size + UNIT - 1) / UNIT);
}

static off_t offset_of(uint64_t units)
{
    return (off_t)(AV_SEGMENT_START + units * UNIT);
}

void av_journal_init(struct av_journal *journal, struct av_segment *segment)
{
    journal->segment = segment;
    journal->seen = journal->known = 0;
    journal->room = 0;
    journal->start = journal->filled = 0;
}

/* ---- Reading ---- */

int av_journal_look(struct av_journal *journal)
{
    uint32_t used;
    const off_t at = (off_t)offsetof(struct av_segment_header, used);

    if (pread(journal->segment->fd, &used, sizeof(used), at) != (ssize_t)sizeof(used) ||
        used > AV_JOURNAL_MAX || used < journal->seen)
        return -FI_EIO;
    journal->known = used;
    return used != journal->seen;
}

/* From the next change on. */
static int fill(struct av_journal *journal)
{
    size_t want = (size_t)(journal->known - journal->seen) * UNIT;
    ssize_t got;

    want = want < sizeof(journal->buffer) ? want : sizeof(journal->buffer);
    got = pread(journal->segment->fd, journal->buffer, want, offset_of(journal->seen));
    if (got != (ssize_t)want)
        return -FI_EIO;
    journal->start = 0;
    journal->filled = want;
    return 0;
}

/* The change at the front of the buffer, as far as it is there: bytes that it takes, or 0. */
static size_t size_at_front(const struct av_journal *journal, struct head *head)
{
    size_t left = journal->filled - journal->start;

    if (left < UNIT)
        return 0;
    memcpy(head, (const char *)journal->buffer + journal->start, sizeof(*head));
    return (size_t)units_of(head->size) * UNIT <= left ? (size_t)units_of(head->size) * UNIT : 0;
}

static bool makes_sense(const struct head *head)
{
    switch (head->kind) {
    case AV_INSERTED: return head->size && head->size <= AV_CHANGE_MAX;
    case AV_REMOVED: return !head->size;
    default: return false;
    }
}

int av_journal_next(struct av_journal *journal, struct av_change *change)
{
    struct head head;

    if (journal->seen == journal->known)
        return 0;
    if (!size_at_front(journal, &head) && (fill(journal) || !size_at_front(journal, &head)))
        return -FI_EIO;
    if (!makes_sense(&head))
        return -FI_EIO;
    *change = (struct av_change){
        .kind = head.kind,
        .index = head.index,
        .size = head.size,
        .addr = (const char *)journal->buffer + journal->start + UNIT,
    };
    return 1;
}

void av_journal_taken(struct av_journal *journal, const struct av_change *change)
{
    journal->seen += units_of(change->size);
    journal->start += (size_t)units_of(change->size) * UNIT;
    if (journal->seen == journal->known)
        journal->start = journal->filled = 0;
}

/* ---- Writing: the buffer holds what is before `seen` and not in the file ---- */

static int flush(struct av_journal *journal)
{
    off_t at = offset_of(journal->seen) - (off_t)journal->filled;

    if (journal->filled && pwrite(journal->segment->fd, journal->buffer, journal->filled, at) !=
                               (ssize_t)journal->filled)
        return -FI_EIO;
    journal->filled = 0;
    return 0;
}

int av_journal_reserve(struct av_journal *journal, size_t size)
{
    uint64_t end = journal->seen + units_of(size), need = (uint64_t)offset_of(end), more;
    int rc;

    if (end > AV_JOURNAL_MAX)
        return -FI_ENOSPC;
    if (need <= journal->room)
        return 0;
    more = need / 2 < GROWTH_MOST ? need / 2 : GROWTH_MOST;
    more = (more + GROWTH_LEAST) / GROWTH_LEAST * GROWTH_LEAST;
    do {
        rc = posix_fallocate(journal->segment->fd, offset_of(journal->seen), (off_t)more);
    } while (rc == EINTR);
    if (rc)
        return -rc;
    journal->room = (uint64_t)offset_of(journal->seen) + more;
    return 0;
}

int av_journal_append(struct av_journal *journal, const struct av_change *change)
{
    struct head head = {change->index, (uint16_t)change->kind, (uint16_t)change->size};
    size_t units = units_of(change->size);
    uint64_t *at;

    if (journal->filled + units * UNIT > sizeof(journal->buffer) && flush(journal))
        return -FI_EIO;
    at = &journal->buffer[journal->filled / UNIT];
    at[units - 1] = 0;
    memcpy(at, &head, sizeof(head));
    if (change->size)
        memcpy(at + 1, change->addr, change->size);
    journal->filled += units * UNIT;
    journal->seen += (uint32_t)units;
    return 0;
}

int av_journal_publish(struct av_journal *journal)
{
    const off_t at = (off_t)offsetof(struct av_segment_header, used);

    if (journal->known == journal->seen)
        return 0;
    if (flush(journal) || pwrite(journal->segment->fd, &journal->seen, sizeof(journal->seen), at) !=
                              (ssize_t)sizeof(journal->seen))
        return -FI_EIO;
    journal->known = journal->seen;
    return 0;
}
