/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the network says of datagrams that were sent: ICMP errors, which the kernel keeps for a
 * socket with IP_RECVERR. Whoever knows an endpoint's address and that of a peer can forge one. So
 * it is a report in the event queue, and no more: no operation ends by it, no address is given up.
 * An event queue that nobody reads keeps some of them, and the others are forgotten.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <time.h>

#include <linux/errqueue.h>
#include <rdma/fi_errno.h>

#include "transports/udp/udp_ep.h"

enum {
    REPORTS_MAX = 64, /* that an event queue holds */
    READS_MAX = 64,   /* at once */
    CONTROL_SIZE = 512,
};

static fi_addr_t find_peer(struct udp_ep *ep, const union addr *to)
{
    char text[ADDR_TEXT_MAX];

    if (ep->addr_format != FI_ADDR_STR)
        return av_find(ep->base.av, to);
    addr_to_str(&to->sa, text, sizeof(text));
    return av_find(ep->base.av, text);
}

static void report(struct udp_ep *ep, const struct sock_extended_err *what, const union addr *to)
{
    char raw[ADDR_TEXT_MAX];
    struct fi_eq_err_entry entry = {
        .fid = &ep->fid.fid,
        .context = ep->fid.fid.context,
        .data = find_peer(ep, to),
        .err = (int)what->ee_errno,
        .prov_errno =
            what->ee_errno == EMSGSIZE ? (int)what->ee_info : what->ee_type << 8 | what->ee_code,
        .err_data = raw,
        .err_data_size = sizeof(raw),
    };

    if (atomic_load(&ep->base.eq->pending) >= REPORTS_MAX)
        return;
    addr_export(ep->addr_format, &to->sa, raw, &entry.err_data_size);
    eq_write_error(ep->base.eq, &entry);
}

static const struct sock_extended_err *find_error(struct msghdr *header)
{
    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(header); cmsg; cmsg = CMSG_NXTHDR(header, cmsg))
        if ((cmsg->cmsg_level == IPPROTO_IP && cmsg->cmsg_type == IP_RECVERR) ||
            (cmsg->cmsg_level == IPPROTO_IPV6 && cmsg->cmsg_type == IPV6_RECVERR))
            return (const struct sock_extended_err *)(const void *)CMSG_DATA(cmsg);
    return NULL;
}

/* One of those that the kernel keeps: 1, 0: it is of no interest, -1: there is none. */
static int read_one(struct udp_ep *ep)
{
    union {
        size_t align; /* of a struct cmsghdr */
        char bytes[CONTROL_SIZE];
    } control;
    union addr to = {.sa.sa_family = AF_UNSPEC};
    struct msghdr header = {
        .msg_name = &to,
        .msg_namelen = sizeof(to),
        .msg_control = &control,
        .msg_controllen = sizeof(control),
    };
    const struct sock_extended_err *what;

    if (recvmsg(ep->main.fd, &header, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
        return -1;
    what = find_error(&header);
    /* What this node refuses is the answer to the call that sends. */
    if (!what || !addr_size(&to.sa) ||
        (what->ee_origin != SO_EE_ORIGIN_ICMP && what->ee_origin != SO_EE_ORIGIN_ICMP6))
        return 0;
    report(ep, what, &to);
    return 1;
}

unsigned udp_errors_read(struct udp_ep *ep)
{
    unsigned reports = 0;

    for (int i = 0; i < READS_MAX; i++) {
        int rc = read_one(ep);

        if (rc < 0)
            break;
        reports += (unsigned)rc;
    }
    return reports;
}

void udp_errors_ask(const struct udp_socket *sock)
{
    udp_socket_set(sock, IP_RECVERR, IPV6_RECVERR, 1);
}

void udp_errors_poll(struct progress_source *source)
{
    udp_errors_read(object_of(source, struct udp_ep, errors));
}

int udp_errors_trywait(struct progress_source *source)
{
    return udp_errors_read(object_of(source, struct udp_ep, errors)) ? -FI_EAGAIN : 0;
}
