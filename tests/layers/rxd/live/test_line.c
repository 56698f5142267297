/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How much of a line of 1 Gbit/s is payload of rxd;udp, and through 1 % of loss: the rate of
 * messages of 1 MiB, whose bytes are compared, beside that of the line, in rounds with a stream of
 * TCP. One round has to do. A round in which TCP does not fill the line, or the two processes have
 * waited for processors, says nothing against it. Skipped where too few others are left, in builds
 * with sanitizers, without the right to make namespaces, and where the kernel has no tbf.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "line.h"
#include "tests/support/shell.h"

enum {
    SIZE = 1 << 20,
    WORDS = SIZE / 8,
    WINDOW = 16,
    SETTLES = 12, /* messages, until the rate is that of the line */
    COUNTED = 48,
    ALL = SETTLES + COUNTED,
    ROUNDS = 6,
    JUDGED = 2, /* of them, at least, say something */
    MBIT = 1000,
    MTU = 9000,
    PORT = 4711,
};

/* Of all processes. */
struct shared {
    struct line_name name[LINE_ENDS];
    volatile bool ready, done;         /* the receiver is */
    volatile bool over[LINE_ENDS];     /* all that it has posted has ended */
    volatile double rate;              /* bytes a second that it has got */
    volatile double waited[LINE_ENDS]; /* for a processor, of the time that it took */
};

static struct shared *shared;
static pid_t pids[LINE_ENDS];

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Seconds that the process has waited for a processor; 0 where the kernel does not say. */
static double waited(void)
{
    FILE *file = fopen("/proc/self/schedstat", "r");
    double ran, ns = 0;

    if (file && fscanf(file, "%lf %lf", &ran, &ns) != 2)
        ns = 0;
    if (file)
        fclose(file);
    return ns / 1e9;
}

/* Another message has come, of so many. */
static void count_message(unsigned come)
{
    static double began;

    if (come == SETTLES)
        began = seconds();
    if (come == ALL) {
        shared->rate = (double)COUNTED * SIZE / (seconds() - began);
        __sync_synchronize();
        shared->done = true;
    }
}

/* ---- The stream beside it ---- */

static void be_raw_receiver(int fd, const struct sockaddr *at, socklen_t len)
{
    static char bytes[SIZE];
    int peer;

    line_must(bind(fd, at, len) || listen(fd, 1), "listen");
    shared->ready = true;
    peer = accept(fd, NULL, NULL);
    line_must(peer < 0, "accept");
    for (unsigned come = 1; come <= ALL; come++) {
        line_must(recv(peer, bytes, SIZE, MSG_WAITALL) != SIZE, "recv");
        count_message(come);
    }
}

static void be_raw_sender(int fd, const struct sockaddr *to, socklen_t len)
{
    static char bytes[SIZE];

    while (!shared->ready)
        usleep(1000);
    line_must(connect(fd, to, len), "connect");
    for (unsigned i = 0; i < ALL; i++) {
        for (size_t at = 0; at < SIZE;) {
            ssize_t n = send(fd, bytes + at, SIZE - at, MSG_NOSIGNAL);

            line_must(n <= 0, "send");
            at += (size_t)n;
        }
    }
    while (!shared->done)
        usleep(1000);
}

static void be_raw(int end)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    line_must(fd < 0 || inet_pton(AF_INET, "10.79.0.2", &addr.sin_addr) != 1, "socket");
    if (end)
        be_raw_receiver(fd, (struct sockaddr *)&addr, sizeof(addr));
    else
        be_raw_sender(fd, (struct sockaddr *)&addr, sizeof(addr));
}

/* ---- Messages ---- */

static uint64_t word_of(uint64_t number, size_t i)
{
    return (number + 1) * UINT64_C(0x9E3779B97F4A7C15) + i;
}

static void fill(uint64_t *message, uint64_t number)
{
    message[0] = number;
    for (size_t i = 1; i < WORDS; i++)
        message[i] = word_of(number, i);
}

/* Each comes once, as it was sent. */
static void check(uint64_t *message)
{
    static bool seen[ALL];
    bool wrong = message[0] >= ALL || seen[message[0]];

    for (size_t i = 1; i < WORDS; i++)
        wrong |= message[i] != word_of(message[0], i);
    line_must(wrong, "other bytes than those that were sent");
    seen[message[0]] = true;
    memset(message, 0, SIZE);
}

static void post(struct line_host *host, int end, uint64_t *message)
{
    ssize_t rc;

    do
        rc = end ? fi_recv(host->ep, message, SIZE, NULL, FI_ADDR_UNSPEC, message)
                 : fi_send(host->ep, message, SIZE, NULL, host->peer, message);
    while (rc == -FI_EAGAIN && fi_cq_read(host->cq, NULL, 0) == -FI_EAGAIN);
    line_must(rc, end ? "fi_recv" : "fi_send");
}

static void be_host(int end, const char *stack)
{
    uint64_t *memory = calloc(WINDOW, SIZE), number = 0;
    double began, before;
    struct fi_cq_msg_entry entry;
    struct line_host host;

    line_must(!memory, "memory");
    line_open(&host, stack);
    line_meet(&host, shared->name, end);
    began = seconds();
    before = waited();
    for (; number < WINDOW; number++) {
        fill(memory + number * WORDS, number);
        post(&host, end, memory + number * WORDS);
    }
    for (unsigned ended = 0; ended < ALL;) {
        ssize_t rc = fi_cq_sread(host.cq, &entry, 1, NULL, 1000);

        if (rc == -FI_EAGAIN)
            continue;
        line_must(rc != 1 || (end && entry.len != SIZE), "fi_cq_sread");
        ended++;
        if (end) {
            check(entry.op_context);
            count_message(ended);
        } else if (number < ALL) {
            fill(entry.op_context, number);
        }
        if (number++ < ALL)
            post(&host, end, entry.op_context);
    }
    shared->waited[end] = (waited() - before) / (seconds() - began);
    /* A receipt that is lost leaves again. */
    for (shared->over[end] = true; !shared->over[1 - end];)
        fi_cq_sread(host.cq, &entry, 1, NULL, 10);
}

/* ---- The test ---- */

static int tear_down(void **state)
{
    for (int i = 0; i < LINE_ENDS; i++) {
        if (pids[i] > 0) {
            kill(pids[i], SIGKILL);
            waitpid(pids[i], NULL, 0);
        }
        pids[i] = 0;
    }
    line_remove();
    return 0;
}

/* stack: NULL: a stream of TCP. The rate that the receiver has, of the line's. */
static double flow(const char *stack)
{
    int status;

    memset(shared, 0, sizeof(*shared));
    for (int end = 0; end < LINE_ENDS; end++) {
        pids[end] = fork();
        assert_true(pids[end] >= 0);
        if (pids[end])
            continue;
        line_enter(end);
        if (stack)
            be_host(end, stack);
        else
            be_raw(end);
        _exit(0);
    }
    for (int end = 0; end < LINE_ENDS; end++) {
        assert_int_equal(waitpid(pids[end], &status, 0), pids[end]);
        pids[end] = 0;
        assert_int_equal(status, 0);
    }
    return shared->rate / (MBIT * 125e3);
}

/* By the receiver's kernel, where it can. */
static bool kernel_loses(void)
{
    const char *space = line_space(1);

    return run("ip netns exec %s nft 'table inet lossy { chain in { type filter hook input "
               "priority 0; meta l4proto udp numgen random mod 100 < 1 drop; } }' 2>/dev/null",
               space) ||
           run("ip netns exec %s iptables -A INPUT -p udp -m statistic --mode random "
               "--probability 0.01 -j DROP 2>/dev/null",
               space);
}

static bool had_processors(void)
{
    return shared->waited[0] < 0.02 && shared->waited[1] < 0.02;
}

static bool sanitized(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return true;
#else
    return false;
#endif
}

static void payload_fills_the_line(void **state)
{
    const char *stack = "rxd;udp(iface=line)", *lossy = stack;
    double best = 0, best_lossy = 0;
    unsigned judged = 0;

    for (int round = 0; round < ROUNDS && (best < 0.95 || best_lossy < 0.8); round++) {
        double raw, whole, lost;
        bool quiet;

        tear_down(NULL);
        if (!line_make(MBIT, MTU))
            skip();
        raw = flow(NULL);
        whole = flow(stack);
        quiet = raw >= 0.95 && had_processors();
        if (!kernel_loses())
            lossy = "rxd;fault(drop=1%,seed=14);udp(iface=line)";
        lost = flow(lossy);
        quiet = quiet && had_processors();
        print_message("TCP %.3f; rxd %.3f; '%s', 1 %% lost, %.3f%s\n", raw, whole, lossy, lost,
                      quiet ? "" : "; not quiet");
        judged += quiet;
        best = whole > best ? whole : best;
        best_lossy = lost > best_lossy ? lost : best_lossy;
    }
    if (best >= 0.95 && best_lossy >= 0.8)
        return;
    if (judged < JUDGED || sanitized())
        skip();
    assert_true(best >= 0.95);
    assert_true(best_lossy >= 0.8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(payload_fills_the_line, tear_down),
    };

    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    return cmocka_run_group_tests_name("rxd: a line", tests, NULL, NULL);
}
