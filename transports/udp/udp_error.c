/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ICMP errors of datagrams that were sent, which the kernel keeps for a socket with IP_RECVERR. A
 * forger needs no more than the addresses of an endpoint and a peer. So an error is a report in the
 * event queue, and no more: no operation ends by it, no address is given up. An event queue that
 * the application does not read keeps some of them, and the others are forgotten.
 */
#include <errno.h>
#include <sys/epoll.h>

#include <rdma/fi_errno.h>

#include "core/net/icmp.h"
#include "transports/udp/udp_ep.h"

enum {
    REPORTS_MAX = 64, /* that an event queue holds */
    READS_MAX = 64,   /* at once */
};

static fi_addr_t find_peer(struct udp_ep *ep, const union addr *to)
{
    char text[ADDR_TEXT_MAX];

    if (ep->addr_format != FI_ADDR_STR)
        return av_find(ep->base.av, to);
    addr_to_str(&to->sa, text, sizeof(text));
    return av_find(ep->base.av, text);
}

static void report(struct udp_ep *ep, const struct icmp_error *error)
{
    char raw[ADDR_TEXT_MAX];
    struct fi_eq_err_entry entry = {
        .fid = &ep->fid.fid,
        .context = ep->fid.fid.context,
        .data = find_peer(ep, &error->to),
        .err = error->err,
        .prov_errno = error->err == EMSGSIZE ? (int)error->info : error->type << 8 | error->code,
        .err_data = raw,
        .err_data_size = sizeof(raw),
    };

    if (atomic_load(&ep->base.eq->pending) >= REPORTS_MAX)
        return;
    addr_export(ep->addr_format, &error->to.sa, raw, &entry.err_data_size);
    eq_write_error(ep->base.eq, &entry);
}

static unsigned read_errors(struct udp_ep *ep, int fd)
{
    struct icmp_error error;
    unsigned reports = 0;
    int rc;

    for (int i = 0; i < READS_MAX; i++) {
        rc = icmp_read(fd, &error, NULL, 0);
        if (rc < 0)
            break;
        if (rc)
            report(ep, &error);
        reports += (unsigned)rc;
    }
    return reports;
}

unsigned udp_errors_read(struct udp_ep *ep)
{
    int hot = atomic_load(&ep->hot.errors);
    unsigned reports = read_errors(ep, ep->main.fd);

    return hot < 0 ? reports : reports + read_errors(ep, hot);
}

void udp_errors_ask(const struct udp_socket *sock)
{
    icmp_ask(sock->fd, sock->addr.sa.sa_family);
}

void udp_errors_poll(struct progress_source *source)
{
    udp_errors_read(object_of(source, struct udp_ep, errors));
}

/* For nothing but errors. */
static int watch_errors(const struct udp_ep *ep, int fd)
{
    struct epoll_event event = {.events = 0};

    return epoll_ctl(ep->errors_fd, EPOLL_CTL_ADD, fd, &event) && errno != EEXIST ? -errno : 0;
}

/* The flag comes before the look at the hot peer's socket, which comes before a look at the flag:
 * one of two threads adds it. */
int udp_errors_arm(struct udp_ep *ep)
{
    int hot, rc;

    if (atomic_load_explicit(&ep->errors_armed, memory_order_relaxed))
        return 0;
    atomic_store(&ep->errors_armed, true);
    hot = atomic_load(&ep->hot.errors);
    rc = watch_errors(ep, ep->main.fd);
    if (!rc && hot >= 0)
        rc = watch_errors(ep, hot);
    if (rc)
        atomic_store(&ep->errors_armed, false);
    return rc;
}

void udp_errors_add_hot(struct udp_ep *ep)
{
    atomic_store(&ep->hot.errors, ep->hot.sock.fd);
    if (atomic_load(&ep->errors_armed) && watch_errors(ep, ep->hot.sock.fd))
        atomic_store(&ep->errors_armed, false); /* the next who sleeps tries again */
}

int udp_errors_trywait(struct progress_source *source)
{
    struct udp_ep *ep = object_of(source, struct udp_ep, errors);

    return udp_errors_arm(ep) || udp_errors_read(ep) ? -FI_EAGAIN : 0;
}
