/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two pairs of processes share a line: a veth between two namespaces, as two hosts, with a bucket
 * of tokens (tbf) in front of it. Each has its share of the bytes, for every congestion control.
 * Skipped without the right to make namespaces, and where the kernel has no tbf.
 *
 * The line is slow, so that it and not the processors is what they share; WEFT_SHARE_MBIT says
 * otherwise. Rates are printed, not judged.
 */
#include <fcntl.h>
#include <sched.h>
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
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "line.h"

enum {
    FLOWS = 2,
    SIZE = 1 << 18,
    WINDOW = 8,
    SETTLES = 24 << 20, /* bytes of both: until then they come to their shares */
    COUNTED = 64 << 20, /* bytes of both that are judged, */
    PERIODS = 8,        /* and so often as many more: cubic windows may need seconds to meet */
};

/* Of all processes. */
struct shared {
    struct line_name end[FLOWS][LINE_ENDS];
    volatile uint64_t bytes[FLOWS]; /* that the receiver has */
};

static struct shared *shared;
static pid_t pids[FLOWS][LINE_ENDS];

static unsigned mbit(void)
{
    const char *text = getenv("WEFT_SHARE_MBIT");

    return text ? (unsigned)strtoul(text, NULL, 10) : 200;
}

/* ---- A host's process ---- */

static void post(struct line_host *host, int end, void *buf)
{
    ssize_t rc;

    do
        rc = end ? fi_recv(host->ep, buf, SIZE, NULL, FI_ADDR_UNSPEC, buf)
                 : fi_send(host->ep, buf, SIZE, NULL, host->peer, buf);
    while (rc == -FI_EAGAIN && fi_cq_read(host->cq, NULL, 0) == -FI_EAGAIN);
    line_must(rc, end ? "fi_recv" : "fi_send");
}

/* Streams until it is killed. */
static _Noreturn void be_host(int flow, int end, const char *stack)
{
    struct fi_cq_msg_entry entry;
    struct line_host host;
    char *memory = calloc(WINDOW, SIZE); /* buffers, which are contexts */

    line_must(!memory, "memory");
    line_enter(end);
    line_open(&host, stack);
    line_meet(&host, shared->end[flow], end);
    for (int i = 0; i < WINDOW; i++)
        post(&host, end, memory + (size_t)i * SIZE);
    for (;;) {
        ssize_t rc = fi_cq_sread(host.cq, &entry, 1, NULL, 1000);

        if (rc == -FI_EAGAIN)
            continue;
        line_must(rc != 1, "fi_cq_sread");
        if (end)
            shared->bytes[flow] += entry.len;
        post(&host, end, entry.op_context);
    }
}

/* ---- The test ---- */

static int tear_down(void **state)
{
    for (int i = 0; i < FLOWS * LINE_ENDS; i++) {
        pid_t *pid = &pids[i / LINE_ENDS][i % LINE_ENDS];

        if (*pid > 0) {
            kill(*pid, SIGKILL);
            waitpid(*pid, NULL, 0);
        }
        *pid = 0;
    }
    line_remove();
    return 0;
}

static uint64_t all_bytes(const uint64_t bytes[FLOWS])
{
    uint64_t sum = 0;

    for (int i = 0; i < FLOWS; i++)
        sum += bytes[i];
    return sum;
}

/* Until the receivers have so many in all; what each has. */
static void wait_for_bytes(uint64_t count, uint64_t bytes[FLOWS])
{
    do {
        usleep(1000);
        for (int i = 0; i < FLOWS; i++) {
            bytes[i] = shared->bytes[i];
            for (int end = 0; end < LINE_ENDS; end++)
                assert_int_equal(waitpid(pids[i][end], NULL, WNOHANG), 0);
        }
    } while (all_bytes(bytes) < count);
}

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Jain's index of what each has more than before: 1 if all have the same, 1 / FLOWS if one has
 * all. */
static double fairness(const uint64_t before[FLOWS], const uint64_t after[FLOWS])
{
    double sum = 0, squares = 0;

    for (int i = 0; i < FLOWS; i++) {
        double more = (double)(after[i] - before[i]);

        sum += more;
        squares += more * more;
    }
    return sum * sum / (FLOWS * squares);
}

static void start_hosts(const char *stack)
{
    memset(shared, 0, sizeof(*shared));
    for (int i = 0; i < FLOWS * LINE_ENDS; i++) {
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (!pid)
            be_host(i / LINE_ENDS, i % LINE_ENDS, stack);
        pids[i / LINE_ENDS][i % LINE_ENDS] = pid;
    }
}

static void share(const char *stack)
{
    uint64_t before[FLOWS], after[FLOWS];
    double index = 0, began;

    start_hosts(stack);
    wait_for_bytes(SETTLES, before);
    began = seconds();
    for (uint64_t i = 1; i <= PERIODS && index < 0.8; i++) {
        wait_for_bytes(all_bytes(before) + i * COUNTED, after);
        index = fairness(before, after);
        print_message("%s: %.1f and %.1f MB of %.0f Mbit/s of %u, Jain's index %.3f\n", stack,
                      (double)(after[0] - before[0]) / 1e6, (double)(after[1] - before[1]) / 1e6,
                      (double)(all_bytes(after) - all_bytes(before)) * 8e-6 / (seconds() - began),
                      mbit(), index);
    }
    assert_true(index >= 0.8);
}

static void two_flows_share_a_line(void **state)
{
    static const char *const stacks[] = {
        "rxd;udp(iface=line)",
        "rxd;arq(cc=ecn);udp(iface=line)",
        "rxd;arq(cc=cubic);udp(iface=line)",
    };

    for (size_t i = 0; i < sizeof(stacks) / sizeof(stacks[0]); i++) {
        tear_down(NULL);
        if (!line_make(mbit(), 1500))
            skip();
        share(stacks[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(two_flows_share_a_line, tear_down),
    };

    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
