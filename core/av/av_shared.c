/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/av/av_shared.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/av/av_impl.h"
#include "core/av/av_map.h"
#include "core/av/av_table.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/net/addr.h"

struct av_shared {
    struct av_segment segment;
    struct av_map map;
    bool damaged;
    bool busy;        /* the journal is: listeners that look things up leave it alone */
    long long looked; /* when progress did, in milliseconds; atomic */
    struct av_journal journal;
};

static const char *part_of(const struct av *av)
{
    return av->domain->fabric->part;
}

static int damage(struct av *av, const char *what)
{
    struct av_shared *shared = av->shared;

    if (!shared->damaged)
        LOG_WARN(part_of(av), FI_LOG_AV,
                 "%s: %s; addresses stay as they are, and changes are refused",
                 shared->segment.path, what);
    shared->damaged = true;
    return -FI_EIO;
}

/* ---- Applying changes of others ---- */

static bool is_address(const struct av *av, const struct av_change *change)
{
    const char *text = change->addr;
    union addr parsed;

    if (av->format == FI_ADDR_STR)
        return memchr(text, 0, change->size) == text + change->size - 1 && av_usable(av, text);
    return !addr_import(av->format, change->addr, change->size, &parsed) &&
           addr_size(&parsed.sa) == change->size && av_usable(av, &parsed);
}

static int take_insertion(struct av *av, const struct av_change *change)
{
    uint64_t index;
    bool fresh;
    int rc;

    if (!is_address(av, change))
        return -FI_EIO;
    rc = av_table_insert(av->table, change->addr, &index, &fresh);
    if (rc)
        return rc;
    if (index != change->index) {
        if (!av_table_remove_again(av->table, index))
            av_table_remove(av->table, index);
        return -FI_EIO;
    }
    if (fresh)
        av_tell_inserted(av, index);
    return 0;
}

static int take_removal(struct av *av, const struct av_change *change)
{
    if (!av_table_get(av->table, change->index))
        return -FI_EIO;
    if (av_table_remove_again(av->table, change->index))
        return 0;
    av_tell_removed(av, change->index);
    av_table_remove(av->table, change->index);
    return 0;
}

static int take_all(struct av *av)
{
    struct av_journal *journal = &av->shared->journal;
    struct av_change change;
    int count = 0, rc;

    while ((rc = av_journal_next(journal, &change)) > 0) {
        rc = change.kind == AV_INSERTED ? take_insertion(av, &change) : take_removal(av, &change);
        if (rc)
            break;
        av_journal_taken(journal, &change);
        count++;
    }
    return rc ? rc : count;
}

int av_shared_catch_up(struct av *av)
{
    struct av_shared *shared = av->shared;
    int rc;

    if (shared->damaged)
        return -FI_EIO;
    if (shared->busy || shared->segment.fd < 0)
        return 0;
    rc = av_journal_look(&shared->journal);
    if (rc > 0) {
        shared->busy = true;
        rc = take_all(av);
        shared->busy = false;
        av_map_cover(&shared->map, av_table_limit(av->table));
    }
    return rc == -FI_EIO ? damage(av, "what other processes wrote there makes no sense") : rc;
}

/* An index that is not known, on any thread. */
static void missing(void *owner)
{
    struct av *av = owner;

    pthread_mutex_lock(&av->mutex);
    av_shared_catch_up(av);
    pthread_mutex_unlock(&av->mutex);
}

/* ---- Progress ---- */

static struct av *followed_by(struct progress_source *source)
{
    return object_of(source, struct av_listener, source)->av;
}

/* An insertion may wait for another process: progress does not wait for it. */
static int look(struct av *av)
{
    int rc = 0;

    if (pthread_mutex_trylock(&av->mutex))
        return 0;
    rc = av_shared_catch_up(av);
    pthread_mutex_unlock(&av->mutex);
    return rc;
}

static void follow(struct progress_source *source)
{
    struct av *av = followed_by(source);
    long long now = clock_coarse_ms();

    if (now == __atomic_load_n(&av->shared->looked, __ATOMIC_RELAXED))
        return;
    __atomic_store_n(&av->shared->looked, now, __ATOMIC_RELAXED);
    look(av);
}

static int follow_to_sleep(struct progress_source *source)
{
    return look(followed_by(source)) > 0 ? -FI_EAGAIN : 0;
}

void av_attach(struct av *av, struct av_listener *listener)
{
    if (listener->av)
        return;
    pthread_mutex_lock(&av->mutex);
    list_attach(&listener->link, &av->listeners);
    pthread_mutex_unlock(&av->mutex);
    listener->av = av;
    listener->source =
        (struct progress_source){.poll = follow, .trywait = follow_to_sleep, .fd = PROGRESS_NO_FD};
    list_init(&listener->source.link);
    if (!av->shared || !listener->progress)
        return;
    /* Without it what others insert is still found where it is asked for. */
    progress_lock(listener->progress);
    (void)progress_attach(listener->progress, &listener->source);
    progress_unlock(listener->progress);
}

void av_detach(struct av *av, struct av_listener *listener)
{
    if (!listener->av)
        return;
    if (av->shared && listener->progress) {
        progress_lock(listener->progress);
        progress_detach(listener->progress, &listener->source);
        progress_unlock(listener->progress);
    }
    pthread_mutex_lock(&av->mutex);
    list_detach(&listener->link);
    pthread_mutex_unlock(&av->mutex);
    listener->av = NULL;
}

/* ---- Changes of our own ---- */

static const char *why_not(int rc)
{
    switch (rc) {
    case -FI_EBUSY: return "another process changes it, and does not come to an end";
    case -FI_EOPBADSTATE: return "it belongs to the process that this one was forked from";
    default: return "what other processes did to it cannot be taken in";
    }
}

int av_shared_begin(struct av *av, const char *call)
{
    struct av_shared *shared = av->shared;
    int rc = shared->damaged ? -FI_EIO : 0;

    if (!shared->segment.writer) {
        LOG_WARN(part_of(av), FI_LOG_AV, "%s: the address vector was opened with FI_READ", call);
        return -FI_EPERM;
    }
    if (!rc)
        rc = av_segment_lock(&shared->segment);
    if (!rc) {
        rc = av_shared_catch_up(av);
        if (rc < 0)
            av_segment_unlock(&shared->segment);
    }
    shared->busy = rc >= 0;
    if (rc < 0)
        LOG_WARN(part_of(av), FI_LOG_AV, "%s: %s: %s", call, shared->segment.path, why_not(rc));
    return rc < 0 ? rc : 0;
}

int av_shared_end(struct av *av)
{
    struct av_shared *shared = av->shared;
    int rc = shared->damaged ? -FI_EIO : av_journal_publish(&shared->journal);

    if (rc)
        damage(av, "cannot be written");
    shared->busy = false;
    av_segment_unlock(&shared->segment);
    av_map_cover(&shared->map, av_table_limit(av->table));
    return rc;
}

static int note(struct av *av, const struct av_change *change)
{
    if (!av->shared->damaged && !av_journal_append(&av->shared->journal, change))
        return 0;
    return damage(av, "cannot be written");
}

int av_shared_insert(struct av *av, const void *addr, uint64_t *index, bool *fresh)
{
    struct av_change change = {.kind = AV_INSERTED, .size = av_addr_size(av, addr), .addr = addr};
    int rc = av_journal_reserve(&av->shared->journal, change.size);

    if (!rc)
        rc = av_table_insert(av->table, addr, index, fresh);
    if (rc)
        return rc;
    change.index = (uint32_t)*index;
    rc = note(av, &change);
    if (rc && !av_table_remove_again(av->table, *index))
        av_table_remove(av->table, *index);
    return rc;
}

int av_shared_removed(struct av *av, uint64_t index)
{
    struct av_change change = {.kind = AV_REMOVED, .index = (uint32_t)index};
    int rc = av_journal_reserve(&av->shared->journal, 0);

    return rc ? rc : note(av, &change);
}

/* ---- Opening and closing ---- */

static int open_parts(struct av *av, const struct fi_av_attr *attr)
{
    struct av_segment_want want = {
        .domain = av->domain->info->domain_attr->name,
        .name = attr->name,
        .format = av->format,
        .reader = attr->flags & FI_READ,
    };
    struct av_shared *shared = av->shared;
    char why[AV_WHY_MAX];
    int rc = av_segment_open(&shared->segment, &want, why);

    if (rc) {
        LOG_WARN(part_of(av), FI_LOG_AV, "fi_av_open: %s", why);
        return rc;
    }
    av_journal_init(&shared->journal, &shared->segment);
    av_table_share(av->table, missing, av);
    rc = av_map_open(&shared->map, attr->map_addr, attr->count);
    if (!rc)
        rc = av_shared_catch_up(av);
    return rc < 0 ? rc : 0;
}

int av_shared_open(struct av *av, struct fi_av_attr *attr)
{
    int rc;

    av->shared = calloc(1, sizeof(*av->shared));
    if (!av->shared)
        return -FI_ENOMEM;
    av->shared->segment.fd = -1;
    list_init(&av->shared->segment.all);
    rc = open_parts(av, attr);
    if (rc)
        av_shared_close(av);
    else if (!attr->map_addr)
        attr->map_addr = av->shared->map.entries;
    return rc;
}

void av_shared_close(struct av *av)
{
    if (!av->shared)
        return;
    av_segment_close(&av->shared->segment);
    av_map_close(&av->shared->map);
    free(av->shared);
    av->shared = NULL;
}
