/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The floor of datagrams: two UDP sockets, busy polling, nothing around them. They are not
 * connected, as an endpoint with many peers is not. Messages of a window leave in pieces that the
 * kernel cuts (UDP_SEGMENT) and are read as it puts them together (UDP_GRO); one that is longer
 * than a datagram is several. Nothing is sent again: of a window that the kernel's buffers may not
 * hold the receiver grants a part at a time, by a datagram of a byte.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#define UDP_GRO 104
#endif

enum {
    DATAGRAM_MAX = 65507,
    PIECE_BYTES = 65000, /* of datagrams that the kernel cuts */
    PIECE_MAX = 64,
    BUFFER_BYTES = 8 << 20, /* of the kernel */
    AHEAD = 2 << 20,        /* bytes of a window that leave without a grant */
    GRANT = 1 << 20,        /* bytes that one of the receiver's is for */
    LOOKS = 1 << 20,        /* in vain, between looks at the clock */
};
#define SILENCE UINT64_C(10000000000) /* ns: longer than a window, so that datagrams are lost */

struct datagram_state {
    int fd, side;
    struct sockaddr_in peer;
    size_t datagram; /* bytes of the longest that is not cut on its way */
    size_t ahead;    /* bytes of the window that have left and were not granted */
    size_t replies;  /* to it, still to come */
    struct bench_buffer buffer;
    struct bench_memory memory;
    struct iovec iov[PIECE_MAX];
    char piece[1 << 16];
};

static void send_one(struct datagram_state *state, const char *data, size_t len)
{
    while (sendto(state->fd, data, len, MSG_DONTWAIT, (struct sockaddr *)&state->peer,
                  sizeof state->peer) < 0)
        if (errno != EAGAIN && errno != ENOBUFS)
            bench_die("sendto: %s", strerror(errno));
}

/* Bytes received, one datagram or several. */
static size_t recv_one(struct datagram_state *state, char *data, size_t len)
{
    uint64_t since = 0;
    ssize_t n;

    for (unsigned looks = 1; (n = recvfrom(state->fd, data, len, MSG_DONTWAIT, NULL, NULL)) < 0;
         looks++) {
        if (errno != EAGAIN)
            bench_die("recvfrom: %s", strerror(errno));
        if (looks % LOOKS)
            continue;
        since = since ? since : bench_now();
        if (bench_now() - since > SILENCE)
            bench_die("datagram: nothing comes: some were lost, or the other end has died");
    }
    return (size_t)n;
}

/* MTU of the path to a peer, without the headers of IP and UDP. */
static size_t longest(const struct sockaddr_in *peer)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0), mtu = 0;
    socklen_t len = sizeof mtu;

    if (connect(fd, (const struct sockaddr *)peer, sizeof *peer) ||
        getsockopt(fd, IPPROTO_IP, IP_MTU, &mtu, &len))
        bench_die("IP_MTU: %s", strerror(errno));
    close(fd);
    return mtu - 28 < DATAGRAM_MAX ? (size_t)mtu - 28 : DATAGRAM_MAX;
}

/* Bytes of one call: with small packets as many as the kernel segments at once. */
static size_t chunk(const struct datagram_state *state, size_t left)
{
    size_t most = state->datagram;

    if (left > most && 2 * most <= PIECE_BYTES)
        most *= PIECE_BYTES / most < PIECE_MAX ? PIECE_BYTES / most : PIECE_MAX;
    return left < most ? left : most;
}

/* Bytes of datagrams that the kernel has put together count as apart. */
static void take_replies(struct datagram_state *state)
{
    size_t count = recv_one(state, state->piece, sizeof state->piece);

    state->replies -= count;
    state->ahead -= state->ahead < count * GRANT ? state->ahead : count * GRANT;
}

/* Until so many bytes of the window may leave, too. Of one without grants all may. */
static void await_grant(struct datagram_state *state, size_t len)
{
    while (state->replies > 1 && state->ahead + len > AHEAD)
        take_replies(state);
    state->ahead += len;
}

static void send_message(struct datagram_state *state, const char *data, size_t len)
{
    for (size_t at = 0; at < len; at += chunk(state, len - at)) {
        await_grant(state, chunk(state, len - at));
        send_one(state, data + at, chunk(state, len - at));
    }
}

static void recv_message(struct datagram_state *state, char *data, size_t len)
{
    for (size_t at = 0; at < len;)
        at += recv_one(state, data + at, len - at);
}

/* ---- Windows ---- */

static void set_cut(struct datagram_state *state, int size)
{
    if (setsockopt(state->fd, SOL_UDP, UDP_SEGMENT, &size, sizeof size))
        bench_die("UDP_SEGMENT: %s", strerror(errno));
}

/* Messages that are longer than a datagram leave in datagrams of the path's length. */
static void cut_long(struct datagram_state *state, const struct bench_window *window)
{
    bool cut = window->size > state->datagram && 2 * state->datagram <= PIECE_BYTES;

    set_cut(state, cut ? (int)state->datagram : 0);
}

static void send_window(struct datagram_state *state, const struct bench_window *window)
{
    size_t fit = PIECE_BYTES / window->size, left = window->window;
    size_t most = fit < PIECE_MAX ? fit : PIECE_MAX;
    struct msghdr header = {.msg_name = &state->peer, .msg_namelen = sizeof state->peer};

    if (most < 2 || window->size > state->datagram) {
        cut_long(state, window);
        for (; left; left--)
            send_message(state, bench_buffer_next(&state->buffer, window), window->size);
        set_cut(state, 0);
        return;
    }
    set_cut(state, (int)window->size);
    header.msg_iov = state->iov;
    while (left) {
        header.msg_iovlen = left < most ? left : most;
        for (size_t i = 0; i < (size_t)header.msg_iovlen; i++)
            state->iov[i] = (struct iovec){bench_buffer_next(&state->buffer, window), window->size};
        await_grant(state, header.msg_iovlen * window->size);
        while (sendmsg(state->fd, &header, MSG_DONTWAIT) < 0)
            if (errno != EAGAIN && errno != ENOBUFS)
                bench_die("sendmsg: %s", strerror(errno));
        left -= header.msg_iovlen;
    }
    set_cut(state, 0);
}

static size_t grants_of(const struct bench_window *window)
{
    size_t bytes = window->size * window->window;

    return bytes > AHEAD ? bytes / GRANT : 0;
}

static void recv_window(struct datagram_state *state, const struct bench_window *window)
{
    size_t bytes = window->size * window->window, grants = grants_of(window), granted = 0;
    const char grant = 0;

    for (size_t at = 0; at < bytes;) {
        at += recv_one(state, state->piece, sizeof state->piece);
        for (; granted < grants && at >= (granted + 1) * GRANT; granted++)
            send_one(state, &grant, 1);
    }
}

static void run_windows(struct datagram_state *state, const struct bench_window *window)
{
    const char reply = 0;

    for (uint64_t done = 0; done < window->count; done += window->window) {
        if (state->side == 0) {
            recv_window(state, window);
            send_one(state, &reply, 1);
            continue;
        }
        state->ahead = 0;
        state->replies = grants_of(window) + 1;
        send_window(state, window);
        while (state->replies)
            take_replies(state);
    }
}

static void ping_pong(struct datagram_state *state, const struct bench_window *window)
{
    cut_long(state, window);
    for (uint64_t i = 0; i < window->count; i++) {
        char *buffer = bench_buffer_next(&state->buffer, window);

        if (state->side == 1)
            send_message(state, buffer, window->size);
        recv_message(state, buffer, window->size);
        if (state->side == 0)
            send_message(state, buffer, window->size);
    }
    set_cut(state, 0);
}

static uint64_t datagram_run(void *opaque, const struct bench_window *window)
{
    struct datagram_state *state = opaque;
    bool windows = window->kind == BENCH_WINDOW;
    int together = windows || window->size > state->datagram;
    uint64_t start;

    if (window->kind != BENCH_LATENCY && window->kind != BENCH_WINDOW)
        bench_die("datagrams without replies may be lost: -t latency,window");
    setsockopt(state->fd, SOL_UDP, UDP_GRO, &together, sizeof together);
    bench_buffer_fit(&state->buffer, window);
    start = bench_now();
    if (windows)
        run_windows(state, window);
    else
        ping_pong(state, window);
    return bench_now() - start;
}

/* ---- The worker ---- */

static void *datagram_open(const char *library, const char *spec, int side, int pipe)
{
    struct datagram_state *state = calloc(1, sizeof *state);
    struct sockaddr_in sin = {.sin_family = AF_INET};
    socklen_t len = sizeof sin;
    int bytes = BUFFER_BYTES;

    (void)library;
    (void)spec;
    if (!state)
        bench_die("out of memory");
    state->side = side;
    state->memory.start = bench_resident();
    sin.sin_addr.s_addr = inet_addr(bench_host[side]);
    state->fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (bind(state->fd, (struct sockaddr *)&sin, sizeof sin))
        bench_die("cannot bind: %s", strerror(errno));
    if (setsockopt(state->fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes))
        setsockopt(state->fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    getsockname(state->fd, (struct sockaddr *)&sin, &len);
    pipe_write(pipe, &sin, sizeof sin);
    pipe_read(pipe, &state->peer, sizeof state->peer);
    state->datagram = longest(&state->peer);
    state->memory.idle = state->memory.peer = bench_resident();
    return state;
}

/* The kernel does it. */
static void datagram_progress(void *opaque)
{
    (void)opaque;
}

static void datagram_memory(void *opaque, struct bench_memory *memory)
{
    *memory = ((struct datagram_state *)opaque)->memory;
}

static uint64_t datagram_getinfo(void *opaque, uint64_t count)
{
    (void)opaque;
    (void)count;
    return 0;
}

static void datagram_close(void *opaque)
{
    struct datagram_state *state = opaque;

    close(state->fd);
    free(state->buffer.base);
    free(state);
}

const struct bench_worker bench_datagram_worker = {
    .open = datagram_open,
    .run = datagram_run,
    .progress = datagram_progress,
    .memory = datagram_memory,
    .getinfo = datagram_getinfo,
    .close = datagram_close,
};
