/* SPDX-License-Identifier: BSD-2-Clause */
/* Options between an upper and its udp endpoint: core/base/seam.h. */
#include <errno.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/net/tclass.h"
#include "transports/udp/udp_ep.h"
#include "transports/udp/udp_group.h"

enum {
    NOTES_ALL = OPT_NOTES_ECN | OPT_NOTES_WAITED | OPT_NOTES_WAITED_EACH
};

static int read_number(const void *value, size_t len, uint32_t most, uint32_t *number)
{
    if (len != sizeof(*number))
        return -FI_EINVAL;
    memcpy(number, value, sizeof(*number));
    return *number > most ? -FI_EINVAL : 0;
}

/* Of the main socket, and of that of the hot peer. */
static int set_both(const struct udp_ep *ep, int option, int option6, int value)
{
    int rc = udp_socket_set(&ep->main, option, option6, value);

    if (!rc && ep->hot.sock.fd >= 0)
        rc = udp_socket_set(&ep->hot.sock, option, option6, value);
    return rc;
}

static int set_fragments(struct endpoint *base, const void *value, size_t len)
{
    static const int modes[][2] = {
        [OPT_FRAGMENTS_ALLOWED] = {IP_PMTUDISC_WANT, IPV6_PMTUDISC_WANT},
        [OPT_FRAGMENTS_NEVER] = {IP_PMTUDISC_DO, IPV6_PMTUDISC_DO},
        [OPT_FRAGMENTS_PROBE] = {IP_PMTUDISC_PROBE, IPV6_PMTUDISC_PROBE},
    };
    struct udp_ep *ep = udp_ep_of(base);
    uint32_t mode;
    int rc = read_number(value, len, OPT_FRAGMENTS_PROBE, &mode);

    if (rc)
        return rc;
    return set_both(ep, IP_MTU_DISCOVER, IPV6_MTU_DISCOVER,
                    modes[mode][ep->main.addr.sa.sa_family == AF_INET6]);
}

static int set_ecn(struct endpoint *base, const void *value, size_t len)
{
    struct udp_ep *ep = udp_ep_of(base);
    uint32_t ecn;
    int rc = read_number(value, len, 3, &ecn);

    if (rc)
        return rc;
    return set_both(ep, IP_TOS, IPV6_TCLASS, (int)(tclass_dscp(ep->tclass) << 2 | ecn));
}

static void ask_for_notes(const struct udp_ep *ep, const struct udp_socket *sock)
{
    int waited = udp_ep_is_timed(ep), ecn = !!(ep->notes & OPT_NOTES_ECN);

    setsockopt(sock->fd, SOL_SOCKET, SO_TIMESTAMPNS, &waited, sizeof(waited));
    udp_socket_set(sock, IP_RECVTOS, IPV6_RECVTCLASS, ecn);
}

void udp_options_ask(const struct udp_ep *ep)
{
    ask_for_notes(ep, &ep->main);
    if (ep->hot.sock.fd >= 0)
        ask_for_notes(ep, &ep->hot.sock);
    list_for_each (pos, &ep->groups)
        ask_for_notes(ep, &list_item(pos, struct udp_group, link)->sock);
}

static int set_notes(struct endpoint *base, const void *value, size_t len)
{
    struct udp_ep *ep = udp_ep_of(base);
    uint32_t notes;
    int rc = read_number(value, len, NOTES_ALL, &notes);

    if (rc)
        return rc;
    ep->notes = notes;
    udp_options_ask(ep);
    return 0;
}

/* There is none, so it may be forbidden. */
static int set_shared_memory(struct endpoint *base, const void *value, size_t len)
{
    return len == sizeof(bool) ? 0 : -FI_EINVAL;
}

size_t udp_ep_kept(struct endpoint *base)
{
    int has = 0;
    socklen_t len = sizeof(has);

    if (getsockopt(udp_ep_of(base)->main.fd, SOL_SOCKET, SO_RCVBUF, &has, &len) || has < 0)
        return 0;
    return (size_t)has / 2; /* the kernel counts its own share, too */
}

void udp_options_apply(const struct udp_ep *ep, const struct udp_socket *sock)
{
    if (ep->notes)
        ask_for_notes(ep, sock);
}

const struct endpoint_option udp_options[] = {
    {.name = OPT_FRAGMENTS, .kind = OPTION_FUNCTION, .set = set_fragments},
    {.name = OPT_ECN, .kind = OPTION_FUNCTION, .set = set_ecn},
    {.name = OPT_NOTES, .kind = OPTION_FUNCTION, .set = set_notes},
    {.name = FI_OPT_SHARED_MEMORY_PERMITTED, .kind = OPTION_FUNCTION, .set = set_shared_memory},
    {.name = OPT_KEPT, .kind = OPTION_SIZE, .size = udp_ep_kept},
    {.name = OPT_DROPS, .kind = OPTION_SIZE, .size = udp_ep_drops},
    {.name = OPT_TRAINS, .kind = OPTION_FUNCTION, .set = udp_train_set, .answer = udp_train_ask},
    {.name = 0},
};
