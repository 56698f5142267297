/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/layer/packet_ep.h"

#include <sched.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "core/info/info.h"

#define NS_OF_MS 1000000
#define SPIN_NS 200000 /* a deadline that is nearer is not worth a sleep */

enum {
    CLOSE_MS = 2000 /* for peers that are slow to take packets */
};

/* ---- Of struct endpoint_ops ---- */

int packet_ep_atomic_valid(struct ep *ep, uint64_t function, enum fi_datatype datatype,
                           enum fi_op op, size_t *count)
{
    return -FI_EOPNOTSUPP;
}

int packet_ep_cancel(struct endpoint *base, void *context)
{
    return recv_queue_cancel(&packet_ep_of(base)->posted, &base->binding, context);
}

int packet_ep_take_reader(const struct packet_ep *ep, const void *value, size_t len,
                          struct packet_reader *reader)
{
    const struct packet_reader *asked = value;

    if (len != sizeof(*asked) || ep->base.enabled)
        return -FI_EINVAL;
    if (asked->of != &ep->fid)
        return -FI_ENOPROTOOPT;
    *reader = *asked;
    return 0;
}

size_t packet_ep_limit(struct endpoint *base, int option)
{
    switch (option) {
    case FI_OPT_MAX_MSG_SIZE: return packet_ep_of(base)->info->ep_attr->max_msg_size;
    case FI_OPT_INJECT_MSG_SIZE: return packet_ep_of(base)->copy_size;
    default: return 0;
    }
}

size_t packet_ep_tx_used(const struct endpoint *base)
{
    return packet_ep_of(base)->sends.used;
}

size_t packet_ep_rx_used(struct endpoint *base)
{
    return recv_queue_count(&packet_ep_of(base)->posted);
}

int packet_ep_set_close_wait(struct endpoint *base, const void *value, size_t len)
{
    struct packet_ep *ep = packet_ep_of(base);

    if (len != sizeof(ep->close_ms))
        return -FI_EINVAL;
    memcpy(&ep->close_ms, value, len);
    return 0;
}

/* ---- Sends ---- */

int packet_ep_get_send(struct packet_ep *ep, void **ret_send)
{
    void *send = pool_get(&ep->sends);

    if (!send)
        return ep->sends.used >= ep->base.tx_size ? -FI_EAGAIN : -FI_ENOMEM;
    *ret_send = send;
    return 0;
}

void packet_ep_sent(struct packet_ep *ep, void *context, bool wanted, int err)
{
    struct fi_cq_err_entry entry = {
        .op_context = context,
        .flags = FI_MSG | FI_SEND,
        .err = err,
        .prov_errno = err,
        .src_addr = FI_ADDR_NOTAVAIL,
    };

    if (err)
        complete_error(&ep->base.binding, BIND_SEND, &entry);
    else
        complete(&ep->base.binding, BIND_SEND, wanted, context, FI_MSG | FI_SEND, 0, NULL, 0, 0,
                 FI_ADDR_NOTAVAIL);
}

static ssize_t send_locked(struct packet_ep *ep, const struct op *op)
{
    int rc;

    if (__builtin_expect(progress_forked(ep->progress), 0))
        return -FI_EOPBADSTATE;
    if (__builtin_expect(av_watch_any(&ep->watch), 0))
        ep->ops->take_av_changes(ep);
    rc = ep->ops->send(ep, op);
    if (rc)
        return rc;
    if (!(op->flags & FI_MORE) && !ep->running) {
        if (packet_ep_is_ready(ep))
            ep->ops->run(ep);
    } else if (op->flags & FI_MORE && progress_has_thread(ep->progress))
        progress_wake(ep->progress); /* if nothing follows after all */
    return 0;
}

static ssize_t check_send(const struct packet_ep *ep, const struct op *op)
{
    /* The peer's layer has it, and not its application; and packets have no room for data. */
    const uint64_t impossible = FI_REMOTE_CQ_DATA | FI_DELIVERY_COMPLETE | FI_COMMIT_COMPLETE;

    if (__builtin_expect(!ep->base.enabled, 0))
        return -FI_EOPBADSTATE;
    if (__builtin_expect(!!(op->flags & impossible), 0))
        return -FI_EOPNOTSUPP;
    if (__builtin_expect(op->count > ep->segments, 0))
        return -FI_EINVAL;
    if (__builtin_expect(op->len > ep->info->ep_attr->max_msg_size, 0) && op->len > ep->longest)
        return -FI_EMSGSIZE;
    if (__builtin_expect(op->flags & FI_INJECT && op->len > ep->copy_size, 0))
        return -FI_EMSGSIZE;
    return 0;
}

static ssize_t post_send(struct packet_ep *ep, struct op *op)
{
    ssize_t rc = endpoint_settle(&ep->base, op);

    if (!rc)
        rc = check_send(ep, op);
    if (rc)
        return rc;
    progress_lock(ep->progress);
    rc = send_locked(ep, op);
    if (__builtin_expect(rc == -FI_EAGAIN && ep->top, 0))
        progress_poll(ep->progress); /* a poster that does nothing but try again gets on too */
    if (ep->top)
        progress_posted(ep->progress);
    progress_unlock(ep->progress);
    return rc;
}

ssize_t packet_ep_post(struct ep *base, struct op *op)
{
    struct packet_ep *ep = object_of(base, struct packet_ep, base.base);

    return op->group == OP_GROUP_RECV ? packet_ep_post_receive(ep, op) : post_send(ep, op);
}

/* ---- Deadlines and sleeps ---- */

void packet_ep_set_timer(struct packet_ep *ep, struct timer *timer, uint64_t due)
{
    int64_t at = due < INT64_MAX ? (int64_t)due : INT64_MAX;

    if (due == UINT64_MAX)
        timer_stop(timer);
    else if (list_empty(&timer->link) || at < timer->due)
        timer_start(timer, &ep->timers, at);
}

bool packet_ep_has_work(const struct packet_ep *ep)
{
    return packet_ep_is_ready(ep) || !list_empty(&ep->timers);
}

bool packet_ep_is_busy(struct packet_ep *ep)
{
    return atomic_load(&ep->watch.any) || !list_empty(&ep->arrived) || !list_empty(&ep->ready);
}

int packet_ep_sleep(struct packet_ep *ep, int64_t now, int64_t latest)
{
    int64_t due = timers_next(&ep->timers);

    if (due > latest)
        due = latest;
    if (due == TIMER_NEVER)
        return 0;
    if (due <= now + SPIN_NS)
        return -FI_EAGAIN;
    return wake_timer_set(&ep->timer, ep->progress, due / NS_OF_MS + 1, now / NS_OF_MS) ? -FI_EAGAIN
                                                                                        : 0;
}

void packet_ep_quiet_timer(struct packet_ep *ep)
{
    if (!list_empty(&ep->timer.source.link) && clock_ms() >= ep->timer.due_ms)
        wake_timer_clear(&ep->timer, ep->progress, ep->timer.due_ms + 1);
}

/* ---- Life ---- */

void packet_ep_init(struct packet_ep *ep, const struct packet_ep_ops *ops,
                    const struct endpoint_attr *attr, struct fi_info *info)
{
    struct endpoint_attr mine = *attr;

    mine.info = info;
    mine.caps &= ~(FI_TAGGED | FI_RMA | FI_ATOMIC);
    mine.fclass = FI_CLASS_EP;
    mine.iov_limit = RECV_QUEUE_IOV;
    mine.min_multi_recv = info->ep_attr->max_msg_size;
    endpoint_init(&ep->base, &mine);
    ep->base.needs_av = true;
    ep->base.needs_srx = ep->base.needs_stx = false;
    ep->ops = ops;
    ep->info = info;
    ep->progress = &progress_none;
    ep->close_ms = CLOSE_MS;
    list_init(&ep->ready);
    list_init(&ep->timers);
    list_init(&ep->arrived);
    list_init(&ep->saved);
    wake_timer_init(&ep->timer);
    av_watch_init(&ep->watch);
}

void packet_ep_begin(struct packet_ep *ep)
{
    ep->progress = ep->base.binding.progress;
    ep->top = binding_is_top(&ep->base.binding);
    ep->posted.most = ep->base.rx_size;
    ep->sends.limit = ep->base.tx_size;
}

void packet_ep_finish(struct packet_ep *ep)
{
    endpoint_finish(&ep->base);
    recv_queue_finish(&ep->posted);
    pool_finish(&ep->sends);
    av_watch_finish(&ep->watch);
    info_free(ep->info);
}

void packet_ep_drain(struct packet_ep *ep, uint32_t ms, bool (*busy)(const struct packet_ep *ep))
{
    long long end = clock_ms() + ms;
    bool goes_on = true;

    while (goes_on && clock_ms() < end) {
        progress_lock(ep->progress);
        progress_poll(ep->progress);
        goes_on = busy(ep);
        progress_unlock(ep->progress);
        if (goes_on) {
            binding_drive_others(&ep->base.binding);
            sched_yield();
        }
    }
}
