/* SPDX-License-Identifier: BSD-2-Clause */
#include "peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "again.h"

enum {
    RECEIVES_MAX = 64,
    FIRST_PORT = 12000,
    PORTS = 20000,
};

/* ---- The one that tells ---- */

static bool is_free(uint16_t port, int type)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, type, 0);
    bool bound = !bind(fd, (struct sockaddr *)&any, sizeof any);

    close(fd);
    return bound;
}

/* Below those that the kernel gives to sockets that name none. */
static uint16_t free_port(void)
{
    for (unsigned i = 0; i < PORTS; i++) {
        uint16_t port = (uint16_t)(FIRST_PORT + ((unsigned)getpid() * 31 + i * 7919) % PORTS);

        if (is_free(port, SOCK_STREAM) && is_free(port, SOCK_DGRAM))
            return port;
    }
    conf_check(false, "no port from %d on is free", FIRST_PORT);
    return 0;
}

void peer_place(struct peer *at)
{
    struct sockaddr_in sin = {.sin_family = AF_INET};

    if (conf_offers->address == FI_ADDR_STR) {
        at->address_len = 1 + (size_t)snprintf(at->address, sizeof at->address,
                                               "fi_ns://conformance-%d:1", (int)getpid());
        return;
    }
    sin.sin_port = htons(free_port());
    memcpy(at->address, &sin, sizeof sin);
    at->address_len = sizeof sin;
}

struct peer peer_start(const struct peer *at)
{
    struct peer peer = {0};
    char fd[16], where[256] = "";
    int ends[2];

    conf_need("processes");
    conf_check(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), "socketpair");
    snprintf(fd, sizeof fd, "%d", ends[1]);
    if (at && conf_offers->address == FI_ADDR_STR)
        memcpy(where, at->address, at->address_len);
    else if (at)
        snprintf(where, sizeof where, "%u",
                 ntohs(((const struct sockaddr_in *)(const void *)at->address)->sin_port));
    fflush(NULL);
    peer.pid = fork();
    conf_check(peer.pid >= 0, "fork");
    if (peer.pid == 0) {
        close(ends[0]);
        exec_again(
            (char *[]){"conformance", "--peer", (char *)(uintptr_t)conf_spec, fd, where, NULL});
        _exit(127);
    }
    close(ends[1]);
    peer.fd = ends[0];
    peer.address_len = (size_t)recv(peer.fd, peer.address, sizeof peer.address, 0);
    conf_check(peer.address_len > 0 && peer.address_len <= sizeof peer.address,
               "the other process did not start");
    return peer;
}

void peer_tell(struct peer *peer, const struct peer_order *order)
{
    conf_check(send(peer->fd, order, sizeof *order, MSG_NOSIGNAL) == sizeof *order, "send: %s",
               strerror(errno));
}

struct peer_answer peer_answered(struct conf_pair *pair, struct peer *peer)
{
    struct peer_answer answer;
    long long end = conf_now_ms() + CONF_TIMEOUT_MS;
    ssize_t n;

    while ((n = recv(peer->fd, &answer, sizeof answer, MSG_DONTWAIT)) < 0) {
        conf_check(errno == EAGAIN, "the other process: %s", strerror(errno));
        conf_drive_pair(pair);
        conf_check(conf_now_ms() < end, "no answer of the other process");
    }
    conf_check(n == sizeof answer, "the other process has gone");
    return answer;
}

struct peer_answer peer_ask(struct conf_pair *pair, struct peer *peer, struct peer_order order)
{
    peer_tell(peer, &order);
    return peer_answered(pair, peer);
}

void peer_meet(struct peer *peer, struct conf_ep *end)
{
    struct peer_order order = {.op = PEER_INSERT};
    struct peer_answer answer;

    order.address_len = sizeof order.address;
    conf_check(!fi_getname(&end->ep->fid, order.address, &order.address_len), "fi_getname");
    conf_check(fi_av_insert(end->av, peer->address, 1, &end->peer, 0, NULL) == 1, "fi_av_insert");
    peer_tell(peer, &order);
    conf_check(recv(peer->fd, &answer, sizeof answer, 0) == sizeof answer && !answer.err,
               "the other process cannot insert our address");
}

void peer_kill(struct peer *peer)
{
    kill(peer->pid, SIGKILL);
    waitpid(peer->pid, NULL, 0);
    close(peer->fd);
}

void peer_end(struct conf_pair *pair, struct peer *peer)
{
    struct peer_order order = {.op = PEER_QUIT};
    long long end = conf_now_ms() + CONF_TIMEOUT_MS;
    int status;

    peer_tell(peer, &order);
    while (waitpid(peer->pid, &status, WNOHANG) == 0) {
        conf_drive_pair(pair);
        conf_check(conf_now_ms() < end, "the other process does not end");
    }
    conf_check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the other process ends with %#x",
               (unsigned)status);
    close(peer->fd);
}

/* ---- The one that does ---- */

struct told {
    struct conf_fabric home;
    struct conf_ep end;
    int fd;
    char *region;
    size_t region_size;
    struct fid_mr *mr;
    struct {
        char *buffer;
        size_t size;
    } receives[RECEIVES_MAX];
    unsigned posted, arrived;
};

static struct conf_seen take(struct conf_ep *end, void *context)
{
    struct conf_seen seen;
    size_t i = 0;

    for (long long until = conf_now_ms() + CONF_TIMEOUT_MS; !conf_has(end, context);) {
        conf_drive(end);
        conf_check(conf_now_ms() < until, "the other process: no completion");
    }
    while (end->seen[i].context != context)
        i++;
    seen = end->seen[i];
    end->seen_count--;
    memmove(&end->seen[i], &end->seen[i + 1], (end->seen_count - i) * sizeof seen);
    return seen;
}

static void post_receive(struct told *told, const struct peer_order *order)
{
    unsigned slot = told->posted++ % RECEIVES_MAX;
    char *buffer = malloc(order->size + 1);
    ssize_t rc;

    told->receives[slot].buffer = buffer;
    told->receives[slot].size = order->size;
    buffer[order->size] = 0x55;
    do {
        rc = order->tagged
                 ? fi_trecv(told->end.ep, buffer, order->size, NULL, FI_ADDR_UNSPEC, order->tag, 0,
                            buffer)
                 : fi_recv(told->end.ep, buffer, order->size, NULL, FI_ADDR_UNSPEC, buffer);
        conf_drive(&told->end);
    } while (rc == -FI_EAGAIN);
    conf_check(!rc, "the other process: receive: %s", fi_strerror((int)-rc));
}

static struct peer_answer await_receive(struct told *told, const struct peer_order *order)
{
    unsigned slot = told->arrived++ % RECEIVES_MAX;
    char *buffer = told->receives[slot].buffer;
    struct conf_seen seen = take(&told->end, buffer);
    struct peer_answer answer = {
        .err = seen.err, .len = seen.len, .tag = seen.tag, .data = seen.data};
    size_t len = seen.err ? told->receives[slot].size : seen.len;

    answer.right =
        conf_holds(buffer, len, order->seed) && buffer[told->receives[slot].size] == 0x55;
    free(buffer);
    return answer;
}

static struct peer_answer send_one(struct told *told, const struct peer_order *order)
{
    char *buffer = malloc(order->size + 1);
    struct peer_answer answer = {0};
    ssize_t rc;

    conf_fill(buffer, order->size, order->seed);
    do {
        rc = order->tagged ? fi_tsenddata(told->end.ep, buffer, order->size, NULL, order->data,
                                          told->end.peer, order->tag, buffer)
                           : fi_senddata(told->end.ep, buffer, order->size, NULL, order->data,
                                         told->end.peer, buffer);
        conf_drive(&told->end);
    } while (rc == -FI_EAGAIN);
    answer.err = rc ? (int)-rc : take(&told->end, buffer).err;
    free(buffer);
    return answer;
}

static struct peer_answer make_region(struct told *told, const struct peer_order *order)
{
    struct peer_answer answer = {0};

    told->region = malloc(order->size);
    told->region_size = order->size;
    conf_fill(told->region, order->size, order->seed);
    answer.err = -fi_mr_reg(told->home.domain, told->region, order->size,
                            FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 11, 0, &told->mr, NULL);
    answer.key = answer.err ? 0 : fi_mr_key(told->mr);
    if (told->home.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR)
        answer.base = (uint64_t)(uintptr_t)told->region;
    return answer;
}

static struct peer_answer await_data(struct told *told)
{
    struct peer_answer answer = {0};

    for (long long until = conf_now_ms() + CONF_TIMEOUT_MS; !told->end.seen_count;) {
        conf_drive(&told->end);
        conf_check(conf_now_ms() < until, "the other process: no CQ data");
    }
    answer.data = told->end.seen[0].data;
    answer.right = !!(told->end.seen[0].flags & FI_REMOTE_CQ_DATA);
    told->end.seen_count--;
    memmove(&told->end.seen[0], &told->end.seen[1],
            told->end.seen_count * sizeof told->end.seen[0]);
    return answer;
}

static struct peer_answer flood(struct told *told, const struct peer_order *order)
{
    struct peer_answer answer = {.right = 1};
    uint32_t sent = 0, got = 0, in = 0;
    bool posted = false;

    for (long long until = conf_now_ms() + CONF_TIMEOUT_MS;
         sent < order->count || got < order->count;) {
        if (sent < order->count && !fi_tinject(told->end.ep, &sent, 4, told->end.peer, 7))
            sent++;
        if (!posted && got < order->count)
            posted = !fi_trecv(told->end.ep, &in, 4, NULL, FI_ADDR_UNSPEC, 8, 0, &in);
        conf_drive(&told->end);
        if (posted && conf_has(&told->end, &in)) {
            answer.right &= !take(&told->end, &in).err && in == got;
            got++;
            posted = false;
        }
        conf_check(conf_now_ms() < until, "the other process: %u of %u sent, %u got", sent,
                   order->count, got);
    }
    return answer;
}

static _Noreturn void quit(struct told *told)
{
    if (told->mr)
        conf_check(!fi_close(&told->mr->fid), "fi_close(mr)");
    conf_ep_close(&told->end);
    conf_fabric_close(&told->home);
    free(told->region);
    for (; told->arrived < told->posted; told->arrived++)
        free(told->receives[told->arrived % RECEIVES_MAX].buffer);
    free(told);
    exit(0);
}

static struct peer_answer obey(struct told *told, const struct peer_order *order)
{
    struct peer_answer answer = {0};

    switch (order->op) {
    case PEER_INSERT:
        answer.err = fi_av_insert(told->end.av, order->address, 1, &told->end.peer, 0, NULL) != 1;
        return answer;
    case PEER_RECV: post_receive(told, order); return answer;
    case PEER_ARRIVED: return await_receive(told, order);
    case PEER_SEND: return send_one(told, order);
    case PEER_REGION: return make_region(told, order);
    case PEER_COMPARE:
        answer.right = conf_holds(told->region + order->offset, order->size, order->seed);
        return answer;
    case PEER_DATA: return await_data(told);
    case PEER_FLOOD: return flood(told, order);
    case PEER_QUIT: break;
    }
    quit(told);
}

_Noreturn void peer_main(int argc, char **argv)
{
    struct told *told = calloc(1, sizeof *told);
    struct conf_want want = {0};
    struct peer_order order;
    char address[256];
    size_t len = sizeof address;

    conf_check(argc >= 2, "--peer FD ADDRESS");
    alarm(CONF_CASE_SECONDS);
    told->fd = atoi(argv[0]);
    if (argv[1][0] && conf_offers->address == FI_ADDR_STR)
        want.node = argv[1];
    else if (argv[1][0])
        want.service = argv[1];
    conf_fabric_open(&told->home, &want);
    conf_ep_open(&told->end, &told->home, &want);
    conf_check(!fi_getname(&told->end.ep->fid, address, &len), "fi_getname");
    conf_check(send(told->fd, address, len, 0) == (ssize_t)len, "send");
    for (;;) {
        struct pollfd fd = {.fd = told->fd, .events = POLLIN};
        struct peer_answer answer;

        /* Others need the processor too when nothing happens. */
        for (unsigned idle = 0; poll(&fd, 1, idle > 300) == 0; idle++)
            conf_drive(&told->end);
        if (recv(told->fd, &order, sizeof order, 0) != sizeof order)
            _exit(4);
        answer = obey(told, &order);
        if (send(told->fd, &answer, sizeof answer, MSG_NOSIGNAL) != sizeof answer)
            _exit(5);
    }
}
