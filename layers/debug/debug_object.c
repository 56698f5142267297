/* SPDX-License-Identifier: BSD-2-Clause */
/* Which objects are open, what hangs on what, and closing in the wrong order. */
#include <stdio.h>
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "layers/debug/debug.h"

static const char *class_name(size_t fclass)
{
    switch (fclass) {
    case FI_CLASS_FABRIC: return "fabric";
    case FI_CLASS_DOMAIN: return "domain";
    case FI_CLASS_PEP: return "passive ep";
    case FI_CLASS_SEP: return "scalable ep";
    case FI_CLASS_SRX_CTX: return "srx";
    case FI_CLASS_STX_CTX: return "stx";
    case FI_CLASS_AV: return "av";
    case FI_CLASS_AV_SET: return "av set";
    case FI_CLASS_MR: return "mr";
    case FI_CLASS_EQ: return "eq";
    case FI_CLASS_CQ: return "cq";
    case FI_CLASS_CNTR: return "cntr";
    case FI_CLASS_MC: return "mc";
    case FI_CLASS_WAIT: return "wait set";
    case FI_CLASS_POLL: return "poll set";
    default: return "ep";
    }
}

const char *debug_name(const struct debug_object *object, char text[DEBUG_NAME])
{
    snprintf(text, DEBUG_NAME, "%s %u", class_name(object->fid->fclass), object->number);
    return text;
}

void *debug_opened(struct fid *fid, struct fid *parent, size_t size)
{
    struct debug_object *up = parent ? debug_of(parent) : NULL;
    struct debug_object *object = up ? calloc(1, size) : NULL;
    struct debug_layer *layer = up ? up->layer : NULL;

    if (!object)
        return NULL;
    object->layer = layer;
    object->fid = fid;
    object->parent = up;
    list_init(&object->users);
    list_init(&object->uses);
    pthread_mutex_lock(&layer->mutex);
    object->number = ++layer->numbers;
    list_attach(&object->link, &layer->objects);
    up->children++;
    pthread_mutex_unlock(&layer->mutex);
    *hook_own(fid) = object;
    return object;
}

static bool is_open_locked(const struct debug_layer *layer, const struct fid *fid)
{
    list_for_each (pos, &layer->objects)
        if (list_item(pos, struct debug_object, link)->fid == fid)
            return true;
    return false;
}

bool debug_is_open(struct debug_layer *layer, const struct fid *fid)
{
    bool open;

    pthread_mutex_lock(&layer->mutex);
    open = is_open_locked(layer, fid);
    pthread_mutex_unlock(&layer->mutex);
    return open;
}

/* ---- Closing ---- */

/* Of those that keep it open, one by name. Mutex held; "": none. */
static void name_holder(const struct debug_object *object, char text[DEBUG_NAME])
{
    text[0] = 0;
    if (!list_empty(&object->users)) {
        debug_name(list_item(object->users.next, struct debug_use, by_target)->user, text);
        return;
    }
    if (!object->children)
        return;
    list_for_each (pos, &object->layer->objects) {
        const struct debug_object *child = list_item(pos, struct debug_object, link);

        if (child->parent == object)
            debug_name(child, text);
    }
}

static void check_close(struct debug_object *object)
{
    char whom[DEBUG_NAME], holder[DEBUG_NAME];
    int in_use = 0;

    pthread_mutex_lock(&object->layer->mutex);
    name_holder(object, holder);
    if (object->fid->fclass == FI_CLASS_MR)
        in_use = debug_flight_count(object_of(object, struct debug_mr, object));
    pthread_mutex_unlock(&object->layer->mutex);
    if (holder[0])
        debug_report(object->layer->reporter, DEBUG_CLOSE_ORDER, "fi_close",
                     debug_name(object, whom), "%s, which needs it, is still open", holder);
    if (in_use)
        debug_report(object->layer->reporter, DEBUG_REGION_IN_USE, "fi_close",
                     debug_name(object, whom), "%d operations under way use its descriptor",
                     in_use);
}

static void let_go(struct debug_object *object)
{
    list_for_each_safe (pos, after, &object->uses) {
        struct debug_use *use = list_item(pos, struct debug_use, by_user);

        list_detach(&use->by_user);
        list_detach(&use->by_target);
        free(use);
    }
    list_for_each_safe (pos, after, &object->users) {
        struct debug_use *use = list_item(pos, struct debug_use, by_target);

        list_detach(&use->by_user);
        list_detach(&use->by_target);
        free(use);
    }
    if (object->parent)
        object->parent->children--;
    list_detach(&object->link);
}

/* Frees the fields that only this class has. Mutex held. */
static void finish_class(struct debug_object *object, size_t fclass)
{
    switch (fclass) {
    case FI_CLASS_AV: free(object_of(object, struct debug_av, object)->bits); break;
    case FI_CLASS_MR: list_detach(&object_of(object, struct debug_mr, object)->region); break;
    case FI_CLASS_EP:
    case FI_CLASS_SEP:
    case FI_CLASS_TX_CTX:
    case FI_CLASS_RX_CTX:
    case FI_CLASS_SRX_CTX: debug_flight_forget(object_of(object, struct debug_ep, object)); break;
    default: break;
    }
}

static void report_unread(struct debug_object *object, int count, int errors, int first)
{
    char whom[DEBUG_NAME];

    if (errors)
        debug_report(object->layer->reporter, DEBUG_UNREAD, "fi_close", debug_name(object, whom),
                     "%d completions and %d errors were never read, the first of these: %s", count,
                     errors, fi_strerror(first));
    else if (count)
        debug_report(object->layer->reporter, DEBUG_UNREAD, "fi_close", debug_name(object, whom),
                     "%d completions were never read", count);
}

/* Unread completions are counted by reading them, once nothing can add to them. Cancelled
 * operations ended as the program asked, by fi_cancel, fi_shutdown, or in closing an endpoint:
 * most close their queues right behind. */
static void check_unread(struct hook_cq *cq, struct debug_object *object)
{
    struct fi_cq_tagged_entry entry = {0};
    struct fi_cq_err_entry error;
    int count = 0, errors = 0, cancelled = 0, first = 0;
    ssize_t rc = 1;

    if (object_of(object, struct debug_cq, object)->peer || !list_empty(&object->users))
        return;
    while (rc > 0 && count + errors + cancelled < 100000) {
        rc = fi_cq_read(cq->lower, &entry, 1);
        count += rc == 1;
        if (rc != -FI_EAVAIL)
            continue;
        error = (struct fi_cq_err_entry){0};
        rc = fi_cq_readerr(cq->lower, &error, 0);
        cancelled += rc == 1 && error.err == FI_ECANCELED;
        errors += rc == 1 && error.err != FI_ECANCELED;
        first = first || error.err == FI_ECANCELED ? first : error.err;
    }
    report_unread(object, count, errors, first);
}

static int close_object(struct fid *fid)
{
    struct debug_object *object = debug_of(fid);
    struct debug_layer *layer = object ? object->layer : NULL;
    size_t fclass = fid->fclass;
    int rc;

    if (!object)
        return hook_fid_ops(fclass)->close(fid);
    check_close(object);
    if (fclass == FI_CLASS_CQ)
        check_unread(object_of(fid, struct hook_cq, fid.fid), object);
    rc = hook_fid_ops(fclass)->close(fid);
    if (rc)
        return rc;
    pthread_mutex_lock(&layer->mutex);
    finish_class(object, fclass);
    let_go(object);
    pthread_mutex_unlock(&layer->mutex);
    free(object);
    return 0;
}

/* ---- Binding ---- */

void debug_used(struct debug_object *user, struct debug_object *target)
{
    struct debug_use *use = malloc(sizeof(*use));

    if (!use)
        return;
    use->user = user;
    use->target = target;
    pthread_mutex_lock(&user->layer->mutex);
    list_attach(&use->by_user, &user->uses);
    list_attach(&use->by_target, &target->users);
    pthread_mutex_unlock(&user->layer->mutex);
}

void debug_unused(struct debug_object *user, const struct debug_object *target)
{
    pthread_mutex_lock(&user->layer->mutex);
    list_for_each_safe (pos, after, &user->uses) {
        struct debug_use *use = list_item(pos, struct debug_use, by_user);

        if (use->target != target)
            continue;
        list_detach(&use->by_user);
        list_detach(&use->by_target);
        free(use);
        break;
    }
    pthread_mutex_unlock(&user->layer->mutex);
}

static void bind_endpoint(struct debug_ep *ep, struct fid *target, uint64_t flags)
{
    struct debug_object *object = debug_of(target);

    if (target->fclass == FI_CLASS_AV)
        ep->av = object ? object_of(object, struct debug_av, object) : NULL;
    if (target->fclass != FI_CLASS_CQ || !object)
        return;
    if (flags & FI_TRANSMIT) {
        ep->tx = object_of(object, struct debug_cq, object);
        ep->tx_selective = flags & FI_SELECTIVE_COMPLETION;
    }
    if (flags & FI_RECV) {
        ep->rx = object_of(object, struct debug_cq, object);
        ep->rx_selective = flags & FI_SELECTIVE_COMPLETION;
    }
}

static bool is_endpoint(size_t fclass)
{
    return fclass == FI_CLASS_EP || fclass == FI_CLASS_SEP || fclass == FI_CLASS_TX_CTX ||
           fclass == FI_CLASS_RX_CTX || fclass == FI_CLASS_SRX_CTX;
}

static bool binds_late(const struct fid *target)
{
    return target && (target->fclass == FI_CLASS_CNTR || target->fclass == FI_CLASS_STX_CTX);
}

static int bind_object(struct fid *fid, struct fid *target, uint64_t flags)
{
    struct debug_object *object = debug_of(fid);
    char whom[DEBUG_NAME];
    int rc;

    if (!object)
        return hook_fid_ops(fid->fclass)->bind(fid, target, flags);
    if (target && !debug_is_open(object->layer, target)) {
        debug_report(object->layer->reporter, DEBUG_CLOSED, "fi_bind", debug_name(object, whom),
                     "what is bound to it, %p, is no open object of this stack", (void *)target);
        return -FI_EINVAL;
    }
    if (is_endpoint(fid->fclass) && !binds_late(target) &&
        atomic_load(&object_of(object, struct debug_ep, object)->enabled))
        debug_report(object->layer->reporter, DEBUG_BOUND_LATE, "fi_bind", debug_name(object, whom),
                     "it is enabled already");
    rc = hook_fid_ops(fid->fclass)->bind(fid, target, flags);
    if (rc || !target)
        return rc;
    if (debug_of(target))
        debug_used(object, debug_of(target));
    if (is_endpoint(fid->fclass))
        bind_endpoint(object_of(object, struct debug_ep, object), target, flags);
    return 0;
}

/* ---- Control ---- */

static int control_object(struct fid *fid, int command, void *arg)
{
    struct debug_object *object = debug_of(fid);
    struct debug_ep *ep;
    int rc;

    rc = hook_fid_ops(fid->fclass)->control(fid, command, arg);
    if (object && fid->fclass == FI_CLASS_MR)
        debug_region_named(object_of(fid, struct fid_mr, fid));
    if (rc || !object || !is_endpoint(fid->fclass))
        return rc;
    ep = object_of(object, struct debug_ep, object);
    switch (command) {
    case FI_ENABLE: atomic_store(&ep->enabled, true); break;
    case FI_SETOPSFLAG:
        if (*(const uint64_t *)arg & FI_TRANSMIT)
            ep->tx_op_flags = *(const uint64_t *)arg & ~FI_TRANSMIT;
        else
            ep->rx_op_flags = *(const uint64_t *)arg & ~FI_RECV;
        break;
    default: break;
    }
    return 0;
}

static struct fi_ops fid_ops = {
    .size = sizeof(fid_ops),
    .close = close_object,
    .bind = bind_object,
    .control = control_object,
    .ops_open = hook_ops_open,
    .tostr = enosys_tostr,
    .ops_set = hook_ops_set,
};

void debug_object_ops(struct hook_ops *ops)
{
    ops->domain_fid = ops->ep_fid = ops->pep_fid = ops->stx_fid = ops->cq_fid = ops->cntr_fid =
        ops->eq_fid = ops->av_fid = ops->av_set_fid = ops->mr_fid = ops->mc_fid = ops->wait_fid =
            ops->poll_fid = &fid_ops;
}
