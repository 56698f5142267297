/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/queue/eq.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/info/abi.h"
#include "core/info/info.h"
#include "core/queue/cntr.h"
#include "core/queue/cq.h"
#include "core/queue/wait_set.h"

enum {
    SPARE_SIZE = 256 /* of data, private data of a connection too */
};

struct eq_event {
    struct list link;
    uint32_t event;
    bool error;   /* data holds a struct fi_eq_err_entry, and err_data behind it */
    bool foreign; /* written by the application: nothing in it is ours */
    bool spare;   /* goes back to the queue, not to the heap */
    size_t len;   /* of data, without err_data */
    _Alignas(max_align_t) unsigned char data[];
};

static bool is_cm(const struct eq_event *event)
{
    return !event->error && !event->foreign &&
           (event->event == FI_CONNREQ || event->event == FI_CONNECTED ||
            event->event == FI_SHUTDOWN);
}

static void release(struct eq *eq, struct eq_event *event)
{
    if (!event || !event->spare) {
        free(event);
        return;
    }
    pthread_mutex_lock(&eq->mutex);
    eq->spare = event;
    pthread_mutex_unlock(&eq->mutex);
}

/* Frees an event that was not read, with the info that it carries. */
static void discard(struct eq *eq, struct eq_event *event)
{
    if (is_cm(event))
        info_free(((struct fi_eq_cm_entry *)event->data)->info);
    release(eq, event);
}

/* ---- Writing ---- */

static struct eq_event *take_spare(struct eq *eq, size_t size)
{
    struct eq_event *event;

    if (size > SPARE_SIZE)
        return NULL;
    pthread_mutex_lock(&eq->mutex);
    event = eq->spare;
    eq->spare = NULL;
    pthread_mutex_unlock(&eq->mutex);
    return event;
}

static struct eq_event *make(struct eq *eq, const void *data, size_t len, size_t more)
{
    struct eq_event *event = malloc(sizeof(*event) + len + more);

    if (event)
        event->spare = false;
    else
        event = take_spare(eq, len + more);
    if (!event)
        return NULL;
    list_init(&event->link);
    event->event = 0;
    event->error = false;
    event->foreign = false;
    event->len = len;
    if (len)
        memcpy(event->data, data, len);
    return event;
}

static void queue(struct eq *eq, struct eq_event *event)
{
    pthread_mutex_lock(&eq->mutex);
    list_attach(&event->link, &eq->events);
    atomic_fetch_add(&eq->pending, 1);
    pthread_mutex_unlock(&eq->mutex);
    wait_signal(&eq->wait);
}

int eq_write(struct eq *eq, uint32_t number, const void *entry, size_t len)
{
    struct eq_event *event = make(eq, entry, len, 0);

    if (!event)
        return -FI_ENOMEM;
    event->event = number;
    queue(eq, event);
    return 0;
}

int eq_write_error(struct eq *eq, const struct fi_eq_err_entry *entry)
{
    size_t size = entry->err_data ? entry->err_data_size : 0;
    struct eq_event *event = make(eq, entry, sizeof(*entry), size);
    struct fi_eq_err_entry *error;

    if (!event)
        return -FI_ENOMEM;
    event->error = true;
    error = (struct fi_eq_err_entry *)event->data;
    error->err_data = size ? event->data + sizeof(*error) : NULL;
    error->err_data_size = size;
    if (size)
        memcpy(error->err_data, entry->err_data, size);
    queue(eq, event);
    return 0;
}

/* fi_eq_write. */
static ssize_t user_write(struct fid_eq *fid, uint32_t number, const void *buf, size_t len,
                          uint64_t flags)
{
    struct eq *eq = object_of(fid, struct eq, fid);
    struct eq_event *event;

    if (!eq->writable || flags || (len && !buf))
        return -FI_EINVAL;
    event = make(eq, buf, len, 0);
    if (!event)
        return -FI_ENOMEM;
    event->event = number;
    event->foreign = true;
    queue(eq, event);
    return (ssize_t)len;
}

/* fid is the first member of every entry that the library writes. */
static bool is_about(const struct eq_event *event, const struct fid *fid)
{
    const struct fid *about;

    if (event->foreign || event->len < sizeof(about))
        return false;
    memcpy(&about, event->data, sizeof(about));
    return about == fid;
}

void eq_forget(struct eq *eq, const struct fid *fid)
{
    struct list dropped;

    list_init(&dropped);
    pthread_mutex_lock(&eq->mutex);
    list_for_each_safe (item, after, &eq->events) {
        if (!is_about(list_item(item, struct eq_event, link), fid))
            continue;
        list_detach(item);
        list_attach(item, &dropped);
        atomic_fetch_sub(&eq->pending, 1);
    }
    pthread_mutex_unlock(&eq->mutex);
    list_for_each_safe (item, after, &dropped)
        discard(eq, list_item(item, struct eq_event, link));
}

/* ---- Reading ---- */

static struct eq_event *first(const struct eq *eq)
{
    return list_empty(&eq->events) ? NULL : list_item(eq->events.next, struct eq_event, link);
}

static void remove_locked(struct eq *eq, struct eq_event *event)
{
    list_detach(&event->link);
    atomic_fetch_sub(&eq->pending, 1);
}

/* Private data behind a cm entry is cut to the room that there is (fi_eq(3)); anything else must
 * fit. */
static ssize_t copy_out(const struct eq_event *event, uint32_t *number, void *buf, size_t len)
{
    size_t needed = is_cm(event) ? sizeof(struct fi_eq_cm_entry) : event->len;

    if (len < needed || (event->len && !buf))
        return -FI_ETOOSMALL;
    if (len > event->len)
        len = event->len;
    if (len)
        memcpy(buf, event->data, len);
    if (number)
        *number = event->event;
    return (ssize_t)len;
}

static ssize_t take(struct eq *eq, uint32_t *number, void *buf, size_t len, uint64_t flags)
{
    struct eq_event *event, *done = NULL;
    ssize_t rc;

    pthread_mutex_lock(&eq->mutex);
    event = first(eq);
    if (!event) {
        rc = -FI_EAGAIN;
    } else if (event->error) {
        rc = -FI_EAVAIL;
    } else {
        rc = copy_out(event, number, buf, len);
        if (rc >= 0 && !(flags & FI_PEEK)) {
            remove_locked(eq, event);
            done = event;
        }
    }
    pthread_mutex_unlock(&eq->mutex);
    release(eq, done);
    return rc;
}

static void drive(struct eq *eq)
{
    progress_lock(eq->progress);
    progress_poll(eq->progress);
    progress_unlock(eq->progress);
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *number, void *buf, size_t len, uint64_t flags)
{
    struct eq *eq = object_of(fid, struct eq, fid);

    if (flags & ~FI_PEEK)
        return -FI_EINVAL;
    if (progress_forked(eq->progress))
        return -FI_EOPBADSTATE;
    if (!atomic_load(&eq->pending))
        drive(eq);
    return take(eq, number, buf, len, flags);
}

static struct eq_event *first_error(const struct eq *eq)
{
    list_for_each (item, &eq->events) {
        struct eq_event *event = list_item(item, struct eq_event, link);

        if (event->error)
            return event;
    }
    return NULL;
}

/* The caller's struct may be shorter than ours, and before API 1.5 it had no err_data_size. */
static void show_error(const struct eq *eq, const struct eq_event *event,
                       struct fi_eq_err_entry *out)
{
    struct fi_eq_err_entry entry = *(const struct fi_eq_err_entry *)event->data;
    size_t size = abi_eq_err_entry_size(eq->fabric->abi);
    /* A caller that passes the last entry in again, unchanged, passes our own buffer, not one of
     * its own. */
    bool own_buffer = out->err_data == event->data + sizeof(entry) ||
                      (eq->shown && out->err_data == eq->shown->data + sizeof(entry));

    if (FI_VERSION_LT(eq->fabric->api_version, FI_VERSION(1, 5))) {
        size = offsetof(struct fi_eq_err_entry, err_data_size);
    } else if (out->err_data_size && out->err_data && !own_buffer) {
        if (entry.err_data_size > out->err_data_size)
            entry.err_data_size = out->err_data_size;
        if (entry.err_data_size)
            memcpy(out->err_data, entry.err_data, entry.err_data_size);
        entry.err_data = out->err_data;
    }
    memcpy(out, &entry, size);
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *out, uint64_t flags)
{
    struct eq *eq = object_of(fid, struct eq, fid);
    struct eq_event *event, *before = NULL;

    if (flags & ~FI_PEEK)
        return -FI_EINVAL;
    pthread_mutex_lock(&eq->mutex);
    event = first_error(eq);
    if (event) {
        show_error(eq, event, out);
        if (!(flags & FI_PEEK)) {
            remove_locked(eq, event);
            before = eq->shown;
            eq->shown = event;
        }
    }
    pthread_mutex_unlock(&eq->mutex);
    release(eq, before);
    return event ? (ssize_t)abi_eq_err_entry_size(eq->fabric->abi) : -FI_EAGAIN;
}

/* ---- Waiting ---- */

/* Drives when nothing is queued, and says how long a reader that has armed may sleep, in
 * milliseconds (0: not at all, -1: no limit). */
static int drive_before_sleep(struct eq *eq)
{
    int sleep_ms;

    if (atomic_load(&eq->pending))
        return 0;
    progress_lock(eq->progress);
    progress_poll(eq->progress);
    sleep_ms = progress_reader_sleep_ms(eq->progress, wait_fd(&eq->wait) >= 0);
    progress_unlock(eq->progress);
    return sleep_ms;
}

static ssize_t eq_sread(struct fid_eq *fid, uint32_t *number, void *buf, size_t len, int timeout,
                        uint64_t flags)
{
    struct eq *eq = object_of(fid, struct eq, fid);
    long long start = clock_ms();

    if (flags & ~FI_PEEK)
        return -FI_EINVAL;
    if (progress_forked(eq->progress))
        return -FI_EOPBADSTATE;
    for (;;) {
        int left = wait_left(timeout, start), sleep_ms;
        unsigned armed = wait_arm(&eq->wait);
        ssize_t rc;

        sleep_ms = drive_before_sleep(eq);
        rc = take(eq, number, buf, len, flags);
        if (rc != -FI_EAGAIN) {
            if (atomic_load(&eq->pending))
                wait_signal(&eq->wait); /* arming took the signal from other sleepers */
            return rc;
        }
        if (left == 0)
            return -FI_EAGAIN;
        if (left >= 0 && (sleep_ms < 0 || sleep_ms > left))
            sleep_ms = left;
        if (sleep_ms && wait_block(&eq->wait, armed, sleep_ms) == -FI_EINTR)
            return -FI_EAGAIN;
    }
}

/* For the wait set that the queue is in. */
static bool look_for_set(struct wait *wait, int *sleep_ms)
{
    struct eq *eq = object_of(wait, struct eq, wait);

    wait_arm(wait);
    *sleep_ms = drive_before_sleep(eq);
    return atomic_load(&eq->pending);
}

static int trywait(struct wait *wait)
{
    struct eq *eq = object_of(wait, struct eq, wait);
    int rc;

    wait_arm(&eq->wait);
    if (atomic_load(&eq->pending))
        return -FI_EAGAIN;
    if (progress_has_thread(eq->progress))
        return 0;
    if (!progress_trylock(eq->progress))
        return -FI_EAGAIN;
    if (wait_fd(&eq->wait) < 0 || progress_sleep_ms(eq->progress) >= 0)
        rc = -FI_EAGAIN; /* nothing would wake the caller */
    else
        rc = progress_trywait(eq->progress);
    progress_unlock(eq->progress);
    return rc;
}

static const struct wait_member member = {.look = look_for_set, .trywait = trywait};

static int trywait_eq(struct eq *eq)
{
    return eq->wait.outer ? wait_set_trywait(eq->wait.outer) : trywait(&eq->wait);
}

int fids_trywait(struct fid **fids, int count)
{
    for (int i = 0; i < count; i++) {
        struct cntr *cntr = cntr_of(fids[i]);
        struct cq *cq = cq_of(fids[i]);
        struct eq *eq = eq_of(fids[i]);
        struct wait *set = wait_set_of(fids[i]);
        int rc = cq     ? cq_trywait(cq)
                 : eq   ? trywait_eq(eq)
                 : cntr ? cntr_trywait(cntr)
                 : set  ? wait_set_trywait(set)
                        : -FI_EINVAL;

        if (rc)
            return rc;
    }
    return 0;
}

static const char *eq_strerror(struct fid_eq *fid, int prov_errno, const void *err_data, char *buf,
                               size_t len)
{
    const char *text = fi_strerror(prov_errno < 0 ? -prov_errno : prov_errno);

    if (!buf || !len)
        return text;
    snprintf(buf, len, "%s", text);
    return buf;
}

static struct fi_ops_eq own_ops = {
    .size = sizeof(own_ops),
    .read = eq_read,
    .readerr = eq_readerr,
    .write = user_write,
    .sread = eq_sread,
    .strerror = eq_strerror,
};

struct eq *eq_of(struct fid *fid)
{
    struct fid_eq *eq = object_of(fid, struct fid_eq, fid);

    return fid->fclass == FI_CLASS_EQ && eq->ops == &own_ops ? object_of(eq, struct eq, fid) : NULL;
}

/* ---- Opening and closing ---- */

static int eq_close(struct fid *fid)
{
    struct eq *eq = object_of(fid, struct eq, fid.fid);

    if (children_any(&eq->children))
        return -FI_EBUSY;
    wait_set_leave(&eq->wait);
    progress_unwatch(eq->progress, &eq->watch);
    progress_release(eq->progress);
    wait_finish(&eq->wait);
    list_for_each_safe (item, after, &eq->events)
        discard(eq, list_item(item, struct eq_event, link));
    release(eq, eq->shown);
    free(eq->spare);
    pthread_mutex_destroy(&eq->mutex);
    children_release(&eq->fabric->children);
    free(eq);
    return 0;
}

static int eq_control(struct fid *fid, int command, void *arg)
{
    struct eq *eq = object_of(fid, struct eq, fid.fid);

    switch (command) {
    case FI_GETWAIT: return wait_get(&eq->wait, arg);
    case FI_GETWAITOBJ: *(enum fi_wait_obj *)arg = wait_kind(&eq->wait); return 0;
    default: return -FI_ENOSYS;
    }
}

static struct fi_ops fid_ops = {
    .size = sizeof(fid_ops),
    .close = eq_close,
    .bind = enosys_bind,
    .control = eq_control,
    NO_FID_TABLES,
};

static int init(struct eq *eq, struct fabric *fabric, struct progress *progress,
                const struct fi_eq_attr *attr, void *context)
{
    int rc;

    fid_init(&eq->fid.fid, FI_CLASS_EQ, context, &fid_ops);
    eq->fid.ops = &own_ops;
    eq->fabric = fabric;
    eq->progress = progress;
    eq->writable = attr->flags & FI_WRITE;
    list_init(&eq->events);
    rc = wait_init(&eq->wait, attr->wait_obj, attr->wait_set);
    if (rc)
        return rc;
    if (wait_fd(&eq->wait) >= 0 && !progress_has_thread(progress)) {
        rc = progress_watch(progress, &eq->watch, wait_fd(&eq->wait));
        if (rc) {
            wait_finish(&eq->wait);
            return rc;
        }
    }
    pthread_mutex_init(&eq->mutex, NULL);
    progress_hold(progress);
    children_hold(&fabric->children);
    wait_set_join(&eq->wait, &member);
    return 0;
}

int eq_open(struct fabric *fabric, struct progress *progress, const struct fi_eq_attr *attr,
            struct fid_eq **ret_eq, void *context)
{
    static const struct fi_eq_attr defaults;
    struct eq *eq;
    int rc;

    if (!attr)
        attr = &defaults;
    if (attr->flags & ~(FI_WRITE | FI_AFFINITY))
        return -FI_EINVAL;
    eq = calloc(1, sizeof(*eq));
    if (!eq)
        return -FI_ENOMEM;
    eq->spare = calloc(1, sizeof(*eq->spare) + SPARE_SIZE);
    rc = eq->spare ? init(eq, fabric, progress, attr, context) : -FI_ENOMEM;
    if (rc) {
        free(eq->spare);
        free(eq);
        return rc;
    }
    eq->spare->spare = true;
    *ret_eq = &eq->fid;
    return 0;
}
