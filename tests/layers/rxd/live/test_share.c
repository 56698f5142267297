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

#include "tests/support/shell.h"

enum {
    FLOWS = 2,
    ENDS = 2, /* of a flow: the sender and the receiver */
    SIZE = 1 << 18,
    WINDOW = 8,
    SETTLES = 24 << 20, /* bytes of both: until then they come to their shares */
    COUNTED = 64 << 20, /* bytes of both that are judged */
};

/* Of all processes. */
struct shared {
    struct {
        char name[64];
        volatile int named;
    } end[FLOWS][ENDS];
    volatile uint64_t bytes[FLOWS]; /* that the receiver has */
};

struct host {
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_ep *ep;
    fi_addr_t peer;
    char *memory; /* WINDOW buffers, which are contexts */
};

static struct shared *shared;
static char space[ENDS][32];
static pid_t pids[FLOWS][ENDS];

static void must(long rc, const char *what)
{
    if (!rc)
        return;
    fprintf(stderr, "%s: %ld\n", what, rc);
    _exit(1);
}

/* ---- The line ---- */

static unsigned mbit(void)
{
    const char *text = getenv("WEFT_SHARE_MBIT");

    return text ? (unsigned)strtoul(text, NULL, 10) : 200;
}

static bool make_line(void)
{
    bool made = true;

    for (int i = 0; made && i < ENDS; i++) {
        snprintf(space[i], sizeof(space[i]), "weft-share-%d-%d", (int)getpid(), i);
        made = run("ip netns add %s 2>/dev/null", space[i]);
    }
    made = made && run("ip link add name line netns %s type veth peer name line netns %s", space[0],
                       space[1]);
    for (int i = 0; made && i < ENDS; i++)
        made = run("ip -n %s addr add 10.79.0.%d/24 dev line && ip -n %s link set line up && "
                   "tc -n %s qdisc add dev line root tbf rate %umbit burst 64k latency 50ms",
                   space[i], i + 1, space[i], space[i], mbit());
    /* It has no carrier for a moment, and carries nothing until then. */
    for (int i = 0; made && i < ENDS; i++)
        made = run("for n in $(seq 1000); do "
                   "ip -n %s link show line | grep -q LOWER_UP && exit 0; sleep 0.02; done; exit 1",
                   space[i]);
    return made;
}

/* ---- A host's process ---- */

static void enter(int end)
{
    char path[64];
    int fd;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(path, sizeof(path), "/run/netns/%s", space[end]);
    fd = open(path, O_RDONLY);
    must(fd < 0 || setns(fd, CLONE_NEWNET), path);
    close(fd);
}

static void open_host(struct host *host, const char *stack)
{
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_UNSPEC};
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    struct fi_info *hints = fi_allocinfo(), *info;

    hints->caps = FI_MSG;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = strdup(stack);
    must(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &info), stack);
    must(fi_fabric(info->fabric_attr, &host->fabric, NULL), "fi_fabric");
    must(fi_domain(host->fabric, info, &host->domain, NULL), "fi_domain");
    must(fi_cq_open(host->domain, &cq, &host->cq, NULL), "fi_cq_open");
    must(fi_av_open(host->domain, &av, &host->av, NULL), "fi_av_open");
    must(fi_endpoint(host->domain, info, &host->ep, NULL), "fi_endpoint");
    must(fi_ep_bind(host->ep, &host->cq->fid, FI_TRANSMIT | FI_RECV), "the queue");
    must(fi_ep_bind(host->ep, &host->av->fid, 0), "the addresses");
    must(fi_enable(host->ep), "fi_enable");
    host->memory = calloc(WINDOW, SIZE);
    must(!host->memory, "memory");
}

static void meet(struct host *host, int flow, int end)
{
    size_t len = sizeof(shared->end[flow][end].name);

    must(fi_getname(&host->ep->fid, shared->end[flow][end].name, &len), "fi_getname");
    __sync_synchronize();
    shared->end[flow][end].named = 1;
    while (!shared->end[flow][!end].named)
        usleep(1000);
    must(fi_av_insert(host->av, shared->end[flow][!end].name, 1, &host->peer, 0, NULL) != 1,
         "fi_av_insert");
}

static void post(struct host *host, int end, void *buf)
{
    ssize_t rc;

    do
        rc = end ? fi_recv(host->ep, buf, SIZE, NULL, FI_ADDR_UNSPEC, buf)
                 : fi_send(host->ep, buf, SIZE, NULL, host->peer, buf);
    while (rc == -FI_EAGAIN && fi_cq_read(host->cq, NULL, 0) == -FI_EAGAIN);
    must(rc, end ? "fi_recv" : "fi_send");
}

/* Streams until it is killed. */
static _Noreturn void be_host(int flow, int end, const char *stack)
{
    struct fi_cq_msg_entry entry;
    struct host host;

    enter(end);
    open_host(&host, stack);
    meet(&host, flow, end);
    for (int i = 0; i < WINDOW; i++)
        post(&host, end, host.memory + (size_t)i * SIZE);
    for (;;) {
        ssize_t rc = fi_cq_sread(host.cq, &entry, 1, NULL, 1000);

        if (rc == -FI_EAGAIN)
            continue;
        must(rc != 1, "fi_cq_sread");
        if (end)
            shared->bytes[flow] += entry.len;
        post(&host, end, entry.op_context);
    }
}

/* ---- The test ---- */

static int tear_down(void **state)
{
    for (int i = 0; i < FLOWS * ENDS; i++) {
        pid_t *pid = &pids[i / ENDS][i % ENDS];

        if (*pid > 0) {
            kill(*pid, SIGKILL);
            waitpid(*pid, NULL, 0);
        }
        *pid = 0;
    }
    for (int i = 0; i < ENDS; i++)
        run("ip netns del %s 2>/dev/null", space[i]);
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
            for (int end = 0; end < ENDS; end++)
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

static void share(const char *stack)
{
    uint64_t before[FLOWS], after[FLOWS];
    double sum = 0, squares = 0, began;

    memset(shared, 0, sizeof(*shared));
    for (int i = 0; i < FLOWS * ENDS; i++) {
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (!pid)
            be_host(i / ENDS, i % ENDS, stack);
        pids[i / ENDS][i % ENDS] = pid;
    }
    wait_for_bytes(SETTLES, before);
    began = seconds();
    wait_for_bytes(all_bytes(before) + COUNTED, after);
    for (int i = 0; i < FLOWS; i++) {
        double more = (double)(after[i] - before[i]);

        sum += more;
        squares += more * more;
    }
    print_message("%s: %.1f and %.1f MB of %.0f Mbit/s of %u, Jain's index %.3f\n", stack,
                  (double)(after[0] - before[0]) / 1e6, (double)(after[1] - before[1]) / 1e6,
                  sum * 8e-6 / (seconds() - began), mbit(), sum * sum / (FLOWS * squares));
    assert_true(sum * sum / (FLOWS * squares) >= 0.8);
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
        if (!make_line())
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
