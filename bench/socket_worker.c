/* SPDX-License-Identifier: BSD-2-Clause */
/* The floor: one TCP connection, busy polling, nothing around it. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

struct socket_state {
    int fd;
    int side;
    struct bench_buffer buffer;
    struct bench_memory memory;
};

static void send_all(int fd, const char *data, size_t len)
{
    while (len) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno != EAGAIN)
            bench_die("send: %s", strerror(errno));
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        }
    }
}

static void recv_all(int fd, char *data, size_t len)
{
    while (len) {
        ssize_t n = recv(fd, data, len, MSG_DONTWAIT);

        if (n == 0 || (n < 0 && errno != EAGAIN))
            bench_die("recv: %s", n ? strerror(errno) : "connection closed");
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        }
    }
}

static void *socket_open(const char *library, const char *spec, int side, int pipe)
{
    struct socket_state *state = calloc(1, sizeof *state);
    struct sockaddr_in sin = {.sin_family = AF_INET};
    socklen_t len = sizeof sin;
    int one = 1;

    (void)library;
    if (!state)
        bench_die("out of memory");
    state->side = side;
    state->memory.start = bench_resident();
    sin.sin_addr.s_addr = inet_addr(bench_host[side]);
    state->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (side == 0) {
        int listener = state->fd;

        if (bind(listener, (struct sockaddr *)&sin, sizeof sin) || listen(listener, 1))
            bench_die("cannot listen: %s", strerror(errno));
        getsockname(listener, (struct sockaddr *)&sin, &len);
        pipe_write(pipe, &sin, sizeof sin);
        pipe_read(pipe, &sin, sizeof sin);
        state->fd = accept(listener, NULL, NULL);
        close(listener);
    } else {
        struct sockaddr_in none = sin;

        pipe_write(pipe, &none, sizeof none);
        pipe_read(pipe, &sin, sizeof sin);
        if (connect(state->fd, (struct sockaddr *)&sin, sizeof sin))
            bench_die("cannot connect: %s", strerror(errno));
    }
    setsockopt(state->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    state->memory.idle = state->memory.peer = bench_resident();
    return state;
}

/* The reply of a byte that ends a window, or all of them. */
static void reply(struct socket_state *state)
{
    char ack = 0;

    if (state->side == 1)
        recv_all(state->fd, &ack, 1);
    else
        send_all(state->fd, &ack, 1);
}

static uint64_t socket_run(void *opaque, const struct bench_window *window)
{
    struct socket_state *state = opaque;
    bool answered = window->kind == BENCH_LATENCY;
    uint64_t start;

    bench_buffer_fit(&state->buffer, window);
    start = bench_now();
    for (uint64_t i = 0; i < window->count; i++) {
        char *buffer = bench_buffer_next(&state->buffer, window);

        if (state->side == 1) {
            send_all(state->fd, buffer, window->size);
            if (answered)
                recv_all(state->fd, buffer, window->size);
        } else {
            recv_all(state->fd, buffer, window->size);
            if (answered)
                send_all(state->fd, buffer, window->size);
        }
        if (window->kind == BENCH_WINDOW && (i + 1) % window->window == 0)
            reply(state);
    }
    if (!answered && window->kind != BENCH_WINDOW)
        reply(state);
    return bench_now() - start;
}

/* The kernel does it. */
static void socket_progress(void *opaque)
{
    (void)opaque;
}

static void socket_memory(void *opaque, struct bench_memory *memory)
{
    *memory = ((struct socket_state *)opaque)->memory;
}

static uint64_t socket_getinfo(void *opaque, uint64_t count)
{
    (void)opaque;
    (void)count;
    return 0;
}

static void socket_close(void *opaque)
{
    struct socket_state *state = opaque;

    close(state->fd);
    free(state->buffer.base);
    free(state);
}

const struct bench_worker bench_socket_worker = {
    .open = socket_open,
    .run = socket_run,
    .progress = socket_progress,
    .memory = socket_memory,
    .getinfo = socket_getinfo,
    .close = socket_close,
};
