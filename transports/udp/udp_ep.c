/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/udp/udp_ep.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/domain/base.h"
#include "core/info/info.h"
#include "core/net/tclass.h"
#include "transports/udp/udp_group.h"

/* ---- Waiting ---- */

static int watch_socket(const struct udp_ep *ep, const struct udp_socket *sock, int op,
                        uint32_t interest)
{
    struct epoll_event event = {.events = interest};

    return epoll_ctl(ep->epoll_fd, op, sock->fd, &event) ? -errno : 0;
}

/* A second ADD, after one of several has failed, finds what the first has left. */
static int watch_all(const struct udp_ep *ep, uint32_t interest)
{
    int op = ep->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    int rc = watch_socket(ep, &ep->main, op, interest);

    if (ep->hot.sock.fd >= 0 && (!rc || rc == -EEXIST))
        rc = watch_socket(ep, &ep->hot.sock, op, interest & EPOLLIN);
    list_for_each (pos, &ep->groups) {
        const struct udp_group *group = list_item(pos, struct udp_group, link);

        if (group->sock.fd >= 0 && (!rc || rc == -EEXIST))
            rc = watch_socket(ep, &group->sock, op, interest & EPOLLIN);
    }
    return rc == -EEXIST ? 0 : rc;
}

int udp_ep_watch(struct udp_ep *ep)
{
    uint32_t reading = recv_queue_count(&ep->posted) ? EPOLLIN : 0;
    uint32_t interest = reading | (udp_batch_waiting(ep->batch) ? EPOLLOUT : 0);
    int rc = 0;

    if (!ep->watched || interest != ep->interest)
        rc = watch_all(ep, interest);
    if (rc)
        return rc;
    ep->watched = true;
    ep->interest = interest;
    return 0;
}

/* As long as no thread may sleep: an epoll fd that holds a socket costs each datagram the kernel's
 * time, at its sender, too. */
static void unwatch(struct udp_ep *ep)
{
    watch_socket(ep, &ep->main, EPOLL_CTL_DEL, 0);
    if (ep->hot.sock.fd >= 0)
        watch_socket(ep, &ep->hot.sock, EPOLL_CTL_DEL, 0);
    list_for_each (pos, &ep->groups) {
        const struct udp_group *group = list_item(pos, struct udp_group, link);

        if (group->sock.fd >= 0)
            watch_socket(ep, &group->sock, EPOLL_CTL_DEL, 0);
    }
    ep->watched = false;
}

int udp_ep_add_socket(struct udp_ep *ep, const struct udp_socket *sock)
{
    udp_options_apply(ep, sock);
    return ep->watched ? watch_socket(ep, sock, EPOLL_CTL_ADD, ep->interest & EPOLLIN) : 0;
}

static struct udp_ep *of_source(struct progress_source *source)
{
    return object_of(source, struct udp_ep, source);
}

static void poll_ep(struct progress_source *source)
{
    struct udp_ep *ep = of_source(source);

    if (__builtin_expect(progress_forked(ep->base.binding.progress), 0))
        return;
    if (ep->watched && progress_may_disarm(ep->base.binding.progress, &ep->looks))
        unwatch(ep);
    if (__builtin_expect(udp_batch_waiting(ep->batch), 0))
        udp_batch_flush(ep);
    udp_receive(ep);
}

static int trywait(struct progress_source *source)
{
    struct udp_ep *ep = of_source(source);

    if (progress_forked(ep->base.binding.progress))
        return 0;
    if (udp_batch_waiting(ep->batch))
        udp_batch_flush(ep);
    if (ep->base.eq)
        udp_errors_read(ep); /* they would wake it for ever */
    udp_hot_before_sleep(&ep->hot);
    ep->looks = 0;
    return udp_ep_watch(ep) ? -FI_EAGAIN : 0;
}

/* ---- Enabling ---- */

static void av_changed(struct av_listener *listener, fi_addr_t addr)
{
    atomic_store_explicit(&object_of(listener, struct udp_ep, listener)->stale, true,
                          memory_order_release);
}

static void watch_av(struct udp_ep *ep)
{
    ep->knows_sources = ep->base.caps & (FI_SOURCE | FI_SOURCE_ERR);
    ep->listener.inserted = av_changed;
    ep->listener.removed = av_changed;
    ep->listener.progress = ep->base.binding.progress;
    av_attach(ep->base.av, &ep->listener);
}

/* A queue that is read by itself hears of errors, too. */
static int attach_errors(struct udp_ep *ep)
{
    struct progress *control = ep->fabric->plain.control;
    int rc;

    if (!ep->base.eq || ep->errors_attached)
        return 0;
    udp_errors_ask(&ep->main);
    if (ep->errors_fd < 0)
        ep->errors_fd = epoll_create1(EPOLL_CLOEXEC);
    if (ep->errors_fd < 0)
        return -errno;
    ep->errors.fd = ep->errors_fd;
    progress_lock(control);
    rc = progress_watched(control) ? udp_errors_arm(ep) : 0; /* a thread may sleep already */
    if (!rc)
        rc = progress_attach(control, &ep->errors);
    progress_unlock(control);
    ep->errors_attached = !rc;
    return rc;
}

static int attach_source(struct udp_ep *ep)
{
    int rc;

    if (ep->epoll_fd < 0)
        ep->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (ep->epoll_fd < 0)
        return -errno;
    ep->source.fd = ep->epoll_fd;
    progress_lock(ep->base.binding.progress);
    rc = progress_watched(ep->base.binding.progress) ? udp_ep_watch(ep) : 0; /* likewise */
    if (!rc)
        rc = progress_attach(ep->base.binding.progress, &ep->source);
    ep->attached = !rc;
    progress_unlock(ep->base.binding.progress);
    return rc;
}

/* A second try after a failure finds what the first has left. */
static int enable(struct endpoint *base)
{
    struct udp_ep *ep = udp_ep_of(base);
    int rc = attach_errors(ep);

    if (rc)
        return rc;
    watch_av(ep);
    ep->posted.most = base->rx_size;
    return attach_source(ep);
}

/* ---- Closing ---- */

static void detach(struct udp_ep *ep)
{
    struct progress *progress = ep->base.binding.progress;

    if (ep->errors_attached) {
        progress_lock(ep->fabric->plain.control);
        progress_detach(ep->fabric->plain.control, &ep->errors);
        progress_unlock(ep->fabric->plain.control);
    }
    if (!ep->attached)
        return;
    progress_lock(progress);
    progress_detach(progress, &ep->source);
    if (udp_batch_waiting(ep->batch) && !progress_forked(progress))
        udp_batch_flush(ep);
    udp_groups_orphan(ep);
    progress_unlock(progress);
}

static void tell_drops(const struct udp_ep *ep)
{
    char text[ADDR_TEXT_MAX];

    if (ep->main.drops)
        LOG_INFO(ep->fabric->base.part, FI_LOG_EP_DATA,
                 "%s: the kernel has dropped %u datagrams in all",
                 addr_text(&ep->main.addr.sa, text, sizeof(text)), ep->main.drops);
}

static void free_ep(struct udp_ep *ep)
{
    udp_receive_finish(ep);
    udp_socket_close(&ep->main);
    udp_socket_close(&ep->hot.sock);
    if (ep->epoll_fd >= 0)
        close(ep->epoll_fd);
    if (ep->errors_fd >= 0)
        close(ep->errors_fd);
    free(ep->batch);
    free(ep->memory);
    free(ep);
}

static int close_ep(struct endpoint *base)
{
    struct udp_ep *ep = udp_ep_of(base);

    if (ep->listener.inserted)
        av_detach(base->av, &ep->listener);
    detach(ep);
    tell_drops(ep);
    endpoint_finish(base);
    free_ep(ep);
    return 0;
}

/* ---- Opening ---- */

static size_t limit(struct endpoint *base, int option)
{
    bool there = option == FI_OPT_MAX_MSG_SIZE || option == FI_OPT_INJECT_MSG_SIZE;

    return there ? udp_ep_of(base)->message_max : 0;
}

static size_t tx_used(const struct endpoint *base)
{
    return udp_batch_waiting(udp_ep_of(base)->batch);
}

static size_t rx_used(struct endpoint *base)
{
    return recv_queue_count(&udp_ep_of(base)->posted);
}

static int atomic_valid(struct ep *ep, uint64_t function, enum fi_datatype datatype, enum fi_op op,
                        size_t *count)
{
    return -FI_EOPNOTSUPP;
}

static const struct endpoint_ops ops = {
    .post = udp_post,
    .atomic_valid = atomic_valid,
    .limit = limit,
    .enable = enable,
    .close = close_ep,
    .cancel = udp_cancel,
    .tx_used = tx_used,
    .rx_used = rx_used,
    .options = udp_options,
    .keeps_eq = true,
};

static int open_main(struct udp_ep *ep, const struct domain *domain, const struct fi_info *info)
{
    uint32_t tclass = info->tx_attr->tclass;
    union addr src;
    int rc = addr_from_str(info->addr_format == FI_SOCKADDR_IN6 ? "[::]:0" : "0.0.0.0:0", SIZE_MAX,
                           &src);

    if (info->src_addr)
        rc = addr_import(info->addr_format, info->src_addr, info->src_addrlen, &src);
    if (!rc)
        rc = udp_socket_open(ep->fabric, &src, &ep->main);
    if (rc)
        return rc;
    ep->tclass = tclass != FI_TC_UNSPEC ? tclass : domain->info->domain_attr->tclass;
    tclass_set(ep->fabric->base.part, ep->main.fd, ep->tclass);
    return 0;
}

static int init(struct udp_ep *ep, struct udp_domain *domain, const struct fi_info *info,
                void *context)
{
    struct endpoint_attr attr = {
        .ops = &ops,
        .domain = &domain->base,
        .info = info,
        .caps = caps_expand(info->caps ? info->caps : FI_MSG) & ~(FI_TAGGED | FI_RMA | FI_ATOMIC),
        .fclass = FI_CLASS_EP,
        .context = context,
        .size = UDP_SIZE,
        .iov_limit = UDP_IOV_LIMIT,
    };
    size_t most;
    int rc;

    if (info->ep_attr->type != FI_EP_DGRAM)
        return -FI_EINVAL;
    ep->addr_format = info->addr_format;
    rc = open_main(ep, &domain->base, info);
    if (rc)
        return rc;
    most = udp_message_max(ep->main.addr.sa.sa_family, INT_MAX);
    ep->message_max = info->ep_attr->max_msg_size;
    if (!ep->message_max || ep->message_max > most)
        ep->message_max = most;
    /* A buffer is given back before a datagram could be too long for its rest. */
    attr.min_multi_recv = ep->message_max;
    endpoint_init(&ep->base, &attr);
    ep->base.needs_av = true;
    ep->base.needs_srx = ep->base.needs_stx = false;
    ep->source_err = attr.caps & FI_SOURCE_ERR;
    ep->fid.cm = &udp_cm_ops;
    return 0;
}

static struct udp_ep *create(struct udp_fabric *fabric)
{
    struct udp_ep *ep = calloc(1, sizeof(*ep));

    if (!ep)
        return NULL;
    ep->fabric = fabric;
    ep->main.fd = ep->hot.sock.fd = ep->epoll_fd = ep->errors_fd = -1;
    atomic_init(&ep->hot.errors, -1);
    ep->burst = 1;
    ep->gso = fabric->settings.gso;
    list_init(&ep->groups);
    list_init(&ep->listener.link);
    list_init(&ep->source.link);
    list_init(&ep->errors.link);
    ep->source.poll = poll_ep;
    ep->source.trywait = trywait;
    ep->errors.poll = udp_errors_poll;
    ep->errors.trywait = udp_errors_trywait;
    return ep;
}

int udp_ep_open(struct fid_domain *fid, struct fi_info *user_info, struct fid_ep **ret_ep,
                void *context)
{
    struct udp_domain *domain = object_of(fid, struct udp_domain, base.fid);
    struct fi_info *info = fabric_info(domain->base.fabric, user_info);
    struct udp_ep *ep = info ? create(domain->fabric) : NULL;
    int rc = -FI_ENOMEM;

    if (ep)
        rc = init(ep, domain, info, context);
    info_free(info);
    if (rc) {
        if (ep)
            free_ep(ep);
        return rc;
    }
    *ret_ep = &ep->fid;
    return 0;
}
