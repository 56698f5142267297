/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects that are closed. Their memory is kept for a while, with tables that report each call and
 * hand none down: so a use after the close is seen, and does not read freed memory. The last
 * CLOSED_KEPT of them are kept for the process, and as many memory regions, of which some programs
 * close very many; also when their fabric is closed, since that is when destructors run late.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "layers/debug/debug.h"

enum {
    CLOSED_KEPT = 1024
};

struct grave {
    struct list link;
    struct fid *fid;
    struct debug_reporter *reporter;
    char name[DEBUG_NAME];
};

struct graves {
    struct list list; /* oldest first */
    int count;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct graves regions = {.list = {&regions.list, &regions.list}};
static struct graves others = {.list = {&others.list, &others.list}};

static void grave_destroy(struct grave *grave)
{
    debug_reporter_release(grave->reporter);
    free(grave->fid); /* the first member of each object */
    free(grave);
}

/* Mutex held. The one that has been there longest, if there are too many; NULL. */
static struct grave *take_oldest(struct graves *graves)
{
    struct grave *oldest = list_item(graves->list.next, struct grave, link);

    if (graves->count <= CLOSED_KEPT)
        return NULL;
    list_detach(&oldest->link);
    graves->count--;
    return oldest;
}

void debug_retire(struct fid *fid)
{
    const struct debug_object *object = debug_of(fid);
    struct graves *graves = fid->fclass == FI_CLASS_MR ? &regions : &others;
    struct grave *grave = object ? malloc(sizeof(*grave)) : NULL, *oldest;

    if (!grave) {
        free(fid);
        return;
    }
    grave->fid = fid;
    debug_name(object, grave->name);
    grave->reporter = debug_reporter_hold(object->layer->reporter);
    debug_bury(fid);
    pthread_mutex_lock(&mutex);
    *hook_own(fid) = grave;
    list_attach(&grave->link, &graves->list);
    graves->count++;
    oldest = take_oldest(graves);
    pthread_mutex_unlock(&mutex);
    if (oldest)
        grave_destroy(oldest);
}

int debug_use_closed(struct fid *fid, const char *call)
{
    const struct grave *grave = *hook_own(fid);

    debug_report(grave->reporter, DEBUG_CLOSED, call, grave->name, "it is closed");
    return -FI_EINVAL;
}

static struct grave *find(const struct graves *graves, const struct fid *fid)
{
    list_for_each (pos, &graves->list)
        if (list_item(pos, struct grave, link)->fid == fid)
            return list_item(pos, struct grave, link);
    return NULL;
}

bool debug_is_closed(const struct debug_object *user, const char *call, const struct fid *fid)
{
    char whom[DEBUG_NAME], name[DEBUG_NAME] = "";
    const struct grave *grave;

    if (!fid || !user)
        return false;
    pthread_mutex_lock(&mutex);
    grave = find(&others, fid);
    grave = grave ? grave : find(&regions, fid);
    if (grave)
        memcpy(name, grave->name, sizeof(name));
    pthread_mutex_unlock(&mutex);
    if (!grave)
        return false;
    debug_report(user->layer->reporter, DEBUG_CLOSED, call, debug_name(user, whom),
                 "what it is given, %s, is closed", name);
    return true;
}
