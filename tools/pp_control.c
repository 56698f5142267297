/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * On the wire, as observed of libfabric 1.17: a name is its length (32 bits, big endian), its
 * address format (32 bits, as in memory) and its bytes; a sync is "q" from the client and "a" back,
 * each with its 0; a count is decimal text in 10 bytes, answered by "cnt ok" with its 0.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "pp.h"

enum {
    COUNT_BYTES = 10,
    NAME_LIMIT = 4096
};

static const char sync_ask[] = "q", sync_answer[] = "a", count_answer[] = "cnt ok";

/* ---- Opening ---- */

static int bind_port(int fd, int family, uint16_t port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    int on = 1;

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (family == AF_INET6)
        return bind(fd, (struct sockaddr *)&in6, sizeof(in6));
    return bind(fd, (struct sockaddr *)&in, sizeof(in));
}

static int accept_client(struct pp *pp)
{
    int family = pp->options.ipv6 ? AF_INET6 : AF_INET;
    int listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int ret = 0;

    if (listener < 0)
        return pp_failed("control socket", -errno);
    if (bind_port(listener, family, pp->options.server_port) || listen(listener, 1)) {
        ret = -errno;
        fprintf(stderr, "cannot listen on port %u: %s; -B PORT takes another\n",
                pp->options.server_port, fi_strerror(-ret));
    } else {
        pp_debug(pp, "waiting for a client on port %u", pp->options.server_port);
        do
            pp->control = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        while (pp->control < 0 && errno == EINTR);
        if (pp->control < 0)
            ret = pp_failed("accept", -errno);
    }
    close(listener);
    return ret;
}

static int connect_to(struct pp *pp, const struct addrinfo *to)
{
    int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -errno;
    if ((pp->options.client_port && bind_port(fd, to->ai_family, pp->options.client_port)) ||
        connect(fd, to->ai_addr, to->ai_addrlen)) {
        int ret = -errno;

        close(fd);
        return ret;
    }
    pp->control = fd;
    return 0;
}

static int connect_server(struct pp *pp)
{
    struct addrinfo hints = {.ai_family = pp->options.ipv6 ? AF_INET6 : AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM};
    struct addrinfo *list;
    char port[8];
    int ret;

    snprintf(port, sizeof(port), "%u", pp->options.server_port);
    ret = getaddrinfo(pp->options.server, port, &hints, &list);
    if (ret) {
        fprintf(stderr, "cannot resolve '%s': %s\n", pp->options.server, gai_strerror(ret));
        return -FI_ENODATA;
    }
    ret = -FI_ENODATA;
    for (const struct addrinfo *to = list; to && ret; to = to->ai_next)
        ret = connect_to(pp, to);
    freeaddrinfo(list);
    if (ret)
        fprintf(stderr,
                "cannot connect to %s, port %s: %s; the other side is `fi_pingpong` without an "
                "address, and -P PORT names its port\n",
                pp->options.server, port, fi_strerror(-ret));
    return ret;
}

int control_open(struct pp *pp)
{
    struct timeval limit = {.tv_sec = PP_TIMEOUT_MS / 1000};
    int on = 1, ret = pp->options.server ? connect_server(pp) : accept_client(pp);

    if (ret)
        return ret;
    setsockopt(pp->control, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(pp->control, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(pp->control, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    pp_debug(pp, "control channel is open");
    return 0;
}

void control_close(struct pp *pp)
{
    if (pp->control >= 0)
        close(pp->control);
    pp->control = -1;
}

bool control_broken(const struct pp *pp)
{
    struct pollfd fd = {.fd = pp->control, .events = POLLRDHUP};

    return poll(&fd, 1, 0) > 0 && (fd.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

/* ---- Exchanges ---- */

static int send_bytes(struct pp *pp, const void *bytes, size_t len)
{
    const char *at = bytes;

    while (len) {
        ssize_t ret = send(pp->control, at, len, MSG_NOSIGNAL);

        if (ret < 0 && errno == EINTR)
            continue;
        if (ret <= 0)
            return pp_failed("control channel: send", -errno);
        at += ret;
        len -= (size_t)ret;
    }
    return 0;
}

static int receive_bytes(struct pp *pp, void *bytes, size_t len)
{
    char *at = bytes;

    while (len) {
        ssize_t ret = recv(pp->control, at, len, 0);

        if (ret < 0 && errno == EINTR)
            continue;
        if (ret < 0 && errno == EAGAIN)
            return pp_failed("control channel: the other side is silent", -FI_ETIMEDOUT);
        if (ret < 0)
            return pp_failed("control channel: receive", -errno);
        if (!ret)
            return pp_failed("control channel: the other side hung up", -FI_ECONNRESET);
        at += ret;
        len -= (size_t)ret;
    }
    return 0;
}

static int expect(struct pp *pp, const char *text, size_t size)
{
    char got[16];
    int ret = receive_bytes(pp, got, size);

    if (ret)
        return ret;
    if (!memcmp(got, text, size))
        return 0;
    got[size - 1] = 0;
    fprintf(stderr, "control channel: '%s' came instead of '%s'; are all options alike?\n", got,
            text);
    return -FI_EPROTO;
}

int control_send_name(struct pp *pp, uint32_t format, const void *name, size_t len)
{
    uint32_t wire_len = htonl((uint32_t)len);
    int ret = send_bytes(pp, &wire_len, sizeof(wire_len));

    if (!ret)
        ret = send_bytes(pp, &format, sizeof(format));
    return ret ? ret : send_bytes(pp, name, len);
}

int control_receive_name(struct pp *pp, uint32_t *format, void **name, size_t *len)
{
    uint32_t wire_len;
    int ret = receive_bytes(pp, &wire_len, sizeof(wire_len));

    if (!ret)
        ret = receive_bytes(pp, format, sizeof(*format));
    if (ret)
        return ret;
    *len = ntohl(wire_len);
    if (!*len || *len > NAME_LIMIT) {
        fprintf(stderr, "control channel: an address of %zu bytes came\n", *len);
        return -FI_EPROTO;
    }
    *name = malloc(*len);
    if (!*name)
        return pp_failed("malloc", -FI_ENOMEM);
    ret = receive_bytes(pp, *name, *len);
    if (ret) {
        free(*name);
        *name = NULL;
    }
    return ret;
}

int control_sync(struct pp *pp)
{
    int ret;

    if (pp->options.server) {
        ret = send_bytes(pp, sync_ask, sizeof(sync_ask));
        return ret ? ret : expect(pp, sync_answer, sizeof(sync_answer));
    }
    ret = expect(pp, sync_ask, sizeof(sync_ask));
    return ret ? ret : send_bytes(pp, sync_answer, sizeof(sync_answer));
}

int control_exchange_count(struct pp *pp, unsigned long mine, unsigned long *theirs)
{
    char text[COUNT_BYTES + 1] = {0};
    int ret;

    if (pp->options.server) {
        *theirs = mine;
        snprintf(text, COUNT_BYTES, "%lu", mine);
        ret = send_bytes(pp, text, COUNT_BYTES);
        return ret ? ret : expect(pp, count_answer, sizeof(count_answer));
    }
    ret = receive_bytes(pp, text, COUNT_BYTES);
    if (ret)
        return ret;
    *theirs = strtoul(text, NULL, 10);
    return send_bytes(pp, count_answer, sizeof(count_answer));
}
