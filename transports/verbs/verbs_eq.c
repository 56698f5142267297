/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/verbs/verbs_eq.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "transports/verbs/verbs_port.h"

enum {
    EVENTS = 64,       /* of one round */
    PRIVATE_MAX = 255, /* a length of rdma_cm is a byte */
};

int verbs_eq_write(struct eq *eq, uint32_t type, struct fid *fid, struct fi_info *info,
                   const void *data, size_t len)
{
    union {
        struct fi_eq_cm_entry entry;
        uint8_t room[sizeof(struct fi_eq_cm_entry) + VERBS_CM_DATA];
    } event = {.entry = {.fid = fid, .info = info}};

    if (len)
        memcpy(event.entry.data, data, len);
    return eq_write(eq, type, &event, sizeof(event.entry) + len);
}

/* Acknowledged at once: an id can only be destroyed, or move, without events that are not. */
static bool next_event(struct verbs_eq *eq)
{
    struct verbs_cm_event event = {0};
    uint8_t raw[PRIVATE_MAX];
    struct rdma_cm_event *theirs;
    struct verbs_cm_user *user;
    size_t len;

    if (verbs_cm_lib.get_cm_event(eq->channel, &theirs))
        return false;
    event.type = theirs->event;
    event.status = theirs->status;
    event.id = theirs->id;
    event.param = theirs->param.conn;
    len = theirs->param.conn.private_data_len;
    if (len)
        memcpy(raw, theirs->param.conn.private_data, len);
    event.param.private_data = NULL;
    event.malformed = !verbs_private_get(raw, len, &event.data, &event.len);
    user = theirs->event == RDMA_CM_EVENT_CONNECT_REQUEST ? theirs->listen_id->context
                                                          : theirs->id->context;
    verbs_cm_lib.ack_cm_event(theirs);
    if (user)
        user->event(user, &event);
    return true;
}

static void poll_source(struct progress_source *source)
{
    struct verbs_eq *eq = object_of(source, struct verbs_eq, source);

    for (int i = 0; i < EVENTS && next_event(eq); i++)
        continue;
}

static int trywait(struct progress_source *source)
{
    return 0; /* the channel's fd is readable while there is an event */
}

static void destroy(struct verbs_eq *eq)
{
    if (eq->progress) {
        verbs_port_finish(eq);
        progress_lock(eq->progress);
        progress_detach(eq->progress, &eq->source);
        progress_unlock(eq->progress);
        progress_release(eq->progress);
    }
    if (eq->channel)
        verbs_cm_lib.destroy_event_channel(eq->channel);
    free(eq);
}

static int open_channel(struct verbs_eq *eq)
{
    int flags;

    eq->channel = verbs_cm_lib.create_event_channel();
    if (!eq->channel)
        return verbs_error(-1);
    flags = fcntl(eq->channel->fd, F_GETFL);
    if (flags < 0 || fcntl(eq->channel->fd, F_SETFL, flags | O_NONBLOCK))
        return verbs_error(-1);
    eq->source.fd = eq->channel->fd;
    eq->source.poll = poll_source;
    eq->source.trywait = trywait;
    return 0;
}

static int create(struct verbs_fabric *fabric, struct verbs_eq **ret_eq)
{
    struct verbs_eq *eq = calloc(1, sizeof(*eq));
    int rc;

    if (!eq)
        return -FI_ENOMEM;
    eq->fabric = fabric;
    list_init(&eq->watches);
    list_init(&eq->source.link);
    rc = open_channel(eq);
    if (!rc)
        rc = progress_create_control("verbs", &eq->progress);
    if (!rc) {
        progress_lock(eq->progress);
        rc = progress_attach(eq->progress, &eq->source);
        progress_unlock(eq->progress);
    }
    if (rc)
        destroy(eq);
    else
        *ret_eq = eq;
    return rc;
}

static int eq_close(struct fid *fid)
{
    struct verbs_eq *eq = object_of(fid->ops, struct verbs_eq, ops);
    struct verbs_fabric *fabric = eq->fabric;
    int rc;

    children_hold(&fabric->base.children); /* the fabric must outlive this */
    rc = eq->eq_ops->close(fid);
    if (!rc) {
        pthread_mutex_lock(&fabric->mutex);
        list_detach(&eq->link);
        pthread_mutex_unlock(&fabric->mutex);
        destroy(eq);
    }
    children_release(&fabric->base.children);
    return rc;
}

int verbs_eq_open(struct fid_fabric *fid, struct fi_eq_attr *attr, struct fid_eq **ret_eq,
                  void *context)
{
    struct verbs_fabric *fabric = object_of(fid, struct verbs_fabric, base.fid);
    struct verbs_eq *eq;
    int rc = create(fabric, &eq);

    if (rc)
        return rc;
    rc = eq_open(&fabric->base, eq->progress, attr, ret_eq, context);
    if (rc) {
        destroy(eq);
        return rc;
    }
    eq->eq = object_of(*ret_eq, struct eq, fid);
    eq->eq_ops = (*ret_eq)->fid.ops;
    eq->ops = *eq->eq_ops;
    eq->ops.close = eq_close;
    (*ret_eq)->fid.ops = &eq->ops;
    pthread_mutex_lock(&fabric->mutex);
    list_attach(&eq->link, &fabric->eqs);
    pthread_mutex_unlock(&fabric->mutex);
    return 0;
}

struct verbs_eq *verbs_eq_of(struct verbs_fabric *fabric, const struct eq *eq)
{
    struct verbs_eq *found = NULL;

    pthread_mutex_lock(&fabric->mutex);
    list_for_each (item, &fabric->eqs) {
        struct verbs_eq *one = list_item(item, struct verbs_eq, link);

        if (one->eq == eq)
            found = one;
    }
    pthread_mutex_unlock(&fabric->mutex);
    return found;
}
