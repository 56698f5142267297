/* SPDX-License-Identifier: BSD-2-Clause */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conf.h"

static int open_fds(void)
{
    int count = 0;

    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void close_order(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});

    conf_check(fi_close(&p->home.fabric->fid) == -FI_EBUSY, "a fabric with a domain closes");
    conf_check(fi_close(&p->home.domain->fid) == -FI_EBUSY, "a domain with endpoints closes");
    conf_check(fi_close(&p->a.tx->fid) == -FI_EBUSY, "a queue in use closes");
    conf_check(fi_close(&p->a.av->fid) == -FI_EBUSY, "an address vector in use closes");
    conf_pair_close(p);
}

/* An endpoint closes with operations outstanding: no completion, no touched buffer afterwards. */
static void close_with_work(void)
{
    enum {
        BIG = 4 << 20
    };
    struct conf_want want = {0};
    struct conf_pair *p = conf_pair_open(want);
    char *out = malloc(BIG), *in = malloc(BIG);
    struct fi_cq_tagged_entry entry;

    conf_fill(out, BIG, 1);
    for (uint64_t i = 0; i < 4; i++) {
        conf_post(p, fi_trecv(p->b.ep, in, BIG, NULL, FI_ADDR_UNSPEC, i, 0, in));
        conf_post(p, fi_tsend(p->a.ep, out, BIG, NULL, p->a.peer, i, out));
    }
    conf_check(!fi_close(&p->b.ep->fid), "fi_close with receives and data on the way");
    while (fi_cq_read(p->b.rx, &entry, 1) > 0)
        ;
    memset(in, 0x77, BIG);
    for (long long end = conf_now_ms() + 100; conf_now_ms() < end;)
        conf_drive(&p->a);
    conf_check(fi_cq_read(p->b.rx, &entry, 1) == -FI_EAGAIN, "a completion after the close");
    for (size_t i = 0; i < BIG; i++)
        conf_check(in[i] == 0x77, "the buffer was written after the close");
    conf_check(!fi_close(&p->a.ep->fid), "fi_close with sends outstanding");
    fi_close(&p->a.tx->fid);
    fi_close(&p->a.rx->fid);
    fi_close(&p->a.sent->fid);
    fi_close(&p->a.received->fid);
    fi_close(&p->a.av->fid);
    fi_close(&p->b.tx->fid);
    fi_close(&p->b.rx->fid);
    fi_close(&p->b.sent->fid);
    fi_close(&p->b.received->fid);
    fi_close(&p->b.av->fid);
    conf_fabric_close(&p->home);
    free(p);
    free(out);
    free(in);
}

/* Descriptors that the first message opens for the process stay. */
static void opens_leak_nothing(void)
{
    int before = 0, after;

    for (int i = 0; i < 21; i++) {
        struct conf_pair *p = conf_pair_open((struct conf_want){.wait = FI_WAIT_FD});
        char in, out = 'x';

        conf_post(p, fi_recv(p->b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, &in));
        conf_post(p, fi_send(p->a.ep, &out, 1, NULL, p->a.peer, &out));
        conf_wait(p, &p->b, &in);
        conf_pair_close(p);
        if (!i)
            before = open_fds();
    }
    after = open_fds();
    conf_check(after <= before, "%d file descriptors became %d", before, after);
}

/* ---- A second process ---- */

struct process {
    pid_t pid;
    int to, from; /* pipes */
};

static void transfer(int fd, void *data, size_t len, bool out)
{
    ssize_t n = out ? write(fd, data, len) : read(fd, data, len);

    conf_check(n == (ssize_t)len, "the other process has gone");
}

struct hello {
    char address[256];
    uint64_t len;
};

static struct hello own_hello(struct conf_ep *end)
{
    struct hello hello = {.len = sizeof hello.address};
    size_t len = sizeof hello.address;

    conf_check(!fi_getname(&end->ep->fid, hello.address, &len), "fi_getname");
    hello.len = len;
    return hello;
}

/* The child: receives forever, or answers each message, until it is told or killed. */
static _Noreturn void child_serve(struct conf_want want, int in, int out, bool answer)
{
    struct conf_pair *one = calloc(1, sizeof *one);
    struct hello hello;
    char *buffer = malloc(1 << 20);

    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a case that ends early does not end it */
    alarm(CONF_CASE_SECONDS);
    conf_fabric_open(&one->home, &want);
    conf_ep_open(&one->a, &one->home, &want);
    hello = own_hello(&one->a);
    transfer(out, &hello, sizeof hello, true);
    transfer(in, &hello, sizeof hello, false);
    conf_check(fi_av_insert(one->a.av, hello.address, 1, &one->a.peer, 0, NULL) == 1, "av");
    for (;;) {
        while (fi_trecv(one->a.ep, buffer, 1 << 20, NULL, FI_ADDR_UNSPEC, 1, 0, buffer) ==
               -FI_EAGAIN)
            conf_drive(&one->a);
        while (!conf_has(&one->a, buffer))
            conf_drive(&one->a);
        one->a.seen_count = 0;
        while (answer && fi_tinject(one->a.ep, buffer, 8, one->a.peer, 2) == -FI_EAGAIN)
            conf_drive(&one->a);
    }
}

static struct process spawn(struct conf_want want, bool answer)
{
    int down[2], up[2];
    struct process process;

    conf_need("processes");
    conf_check(!pipe(down) && !pipe(up), "pipe");
    fflush(NULL);
    process.pid = fork();
    if (process.pid == 0) {
        close(down[1]);
        close(up[0]);
        child_serve(want, down[0], up[1], answer);
    }
    close(down[0]);
    close(up[1]);
    process.to = down[1];
    process.from = up[0];
    return process;
}

static void meet(struct process *process, struct conf_ep *end)
{
    struct hello hello, mine = own_hello(end);

    transfer(process->from, &hello, sizeof hello, false);
    transfer(process->to, &mine, sizeof mine, true);
    conf_check(fi_av_insert(end->av, hello.address, 1, &end->peer, 0, NULL) == 1, "fi_av_insert");
}

static void end_child(struct process *process)
{
    kill(process->pid, SIGKILL);
    waitpid(process->pid, NULL, 0);
    close(process->to);
    close(process->from);
}

static void one_exchange(struct conf_pair *p, struct conf_ep *end)
{
    uint64_t out = 7, in = 0;
    struct conf_seen seen;

    conf_post(p, fi_trecv(end->ep, &in, 8, NULL, FI_ADDR_UNSPEC, 2, 0, &in));
    conf_post(p, fi_tsend(end->ep, &out, 8, NULL, end->peer, 1, &out));
    seen = conf_wait(p, end, &in);
    conf_check(!seen.err && in == 7, "no answer: %s", fi_strerror(seen.err));
    conf_wait(p, end, &out);
}

static bool send_big(struct conf_pair *p, const char *out, size_t len, void *context)
{
    ssize_t rc = fi_tsend(p->a.ep, out, len, NULL, p->a.peer, 1, context);

    conf_check(!rc || rc == -FI_EAGAIN, "fi_tsend: %s", fi_strerror((int)-rc));
    return !rc;
}

/* SIGKILL in the middle of a transfer: every operation ends, in error; the rest goes on, and a new
 * process can be talked to. */
static void peer_killed(void)
{
    enum {
        BIG = 1 << 20,
        FIRST = 4,
        OPS = 32
    };
    struct conf_want want = {0};
    struct conf_pair *p;
    struct process victim = spawn(want, false), second;
    static char contexts[OPS];
    char *out = malloc(BIG);
    int posted = 0, ended = 0, failed = 0;
    long long end;

    p = conf_pair_open(want);
    meet(&victim, &p->a);
    conf_fill(out, BIG, 1);
    for (end = conf_now_ms() + CONF_TIMEOUT_MS; posted < FIRST || !p->a.seen_count;) {
        posted += posted < FIRST && send_big(p, out, BIG, &contexts[posted]);
        conf_drive(&p->a);
        conf_check(conf_now_ms() < end, "nothing is taken");
    }
    kill(victim.pid, SIGSTOP);
    /* More than is on the way by itself; or the queue stays full. */
    for (end = conf_now_ms() + 1000; posted < OPS && conf_now_ms() < end;) {
        posted += send_big(p, out, BIG, &contexts[posted]);
        conf_drive(&p->a);
    }
    end_child(&victim);
    for (end = conf_now_ms() + CONF_TIMEOUT_MS; (int)p->a.seen_count < posted;) {
        conf_drive(&p->a);
        conf_check(conf_now_ms() < end, "%zu of %d operations ended", p->a.seen_count, posted);
    }
    for (int i = 0; i < posted; i++) {
        struct conf_seen seen = conf_wait(p, &p->a, &contexts[i]);

        ended++;
        failed += seen.err != 0;
    }
    conf_check(failed > 0, "no operation failed");
    conf_quiet(p, 50);
    second = spawn(want, true);
    meet(&second, &p->b);
    one_exchange(p, &p->b);
    end_child(&second);
    conf_pair_close(p);
    free(out);
    (void)ended;
}

static void two_processes(void)
{
    struct conf_want want = {0};
    struct process server = spawn(want, true);
    struct conf_pair *p = conf_pair_open(want);

    meet(&server, &p->a);
    for (int i = 0; i < 300; i++)
        one_exchange(p, &p->a);
    end_child(&server);
    conf_pair_close(p);
}

/* A child after fork may close what it has, and that does not disturb the parent. */
static void fork_leaves_parent_alone(void)
{
    struct conf_want want = {.progress = FI_PROGRESS_AUTO, .threading = FI_THREAD_SAFE};
    struct process server = spawn(want, true);
    struct conf_pair *p = conf_pair_open(want);
    int status;
    pid_t pid;

    meet(&server, &p->a);
    one_exchange(p, &p->a);
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        char out = 1;
        ssize_t rc;

        alarm(CONF_CASE_SECONDS);
        rc = fi_tsend(p->a.ep, &out, 1, NULL, p->a.peer, 1, &out);
        if (rc == 0)
            _exit(5);
        fi_close(&p->a.ep->fid);
        exit(0);
    }
    conf_check(waitpid(pid, &status, 0) == pid && WIFEXITED(status), "the child died: %#x", status);
    conf_check(WEXITSTATUS(status) == 0, "the child's send was accepted");
    for (int i = 0; i < 20; i++)
        one_exchange(p, &p->a);
    end_child(&server);
    conf_pair_close(p);
}

/* exit() while the progress thread runs and everything is open. */
static void exit_with_thread(void)
{
    struct conf_pair *p = conf_pair_open(
        (struct conf_want){.progress = FI_PROGRESS_AUTO, .threading = FI_THREAD_SAFE});
    char in, out = 'x';

    conf_post(p, fi_recv(p->b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, &in));
    conf_post(p, fi_send(p->a.ep, &out, 1, NULL, p->a.peer, &out));
    conf_wait(p, &p->b, &in);
    exit(0);
}

/* Several endpoints, queues and vectors in one domain, all with each other. */
static void many_endpoints(void)
{
    enum {
        ENDS = 8
    };
    struct conf_want want = {0};
    struct conf_pair *p = conf_pair_open(want);
    struct conf_ep *ends = calloc(ENDS, sizeof *ends);
    fi_addr_t at[ENDS][ENDS];
    static char out[ENDS], in[ENDS][ENDS];
    ssize_t rc;

    for (int i = 0; i < ENDS; i++)
        conf_ep_open(&ends[i], &p->home, &want);
    for (int i = 0; i < ENDS; i++)
        for (int j = 0; j < ENDS; j++) {
            struct hello hello = own_hello(&ends[j]);

            conf_check(fi_av_insert(ends[i].av, hello.address, 1, &at[i][j], 0, NULL) == 1, "av");
            do {
                rc = fi_trecv(ends[i].ep, &in[i][j], 1, NULL, FI_ADDR_UNSPEC, (uint64_t)j, 0,
                              &in[i][j]);
            } while (rc == -FI_EAGAIN);
            conf_check(!rc, "fi_trecv");
        }
    for (int i = 0; i < ENDS; i++) {
        out[i] = (char)('a' + i);
        for (int j = 0; j < ENDS; j++)
            while (fi_tinject(ends[i].ep, &out[i], 1, at[i][j], (uint64_t)i) == -FI_EAGAIN)
                for (int k = 0; k < ENDS; k++)
                    conf_drive(&ends[k]);
    }
    for (long long end = conf_now_ms() + CONF_TIMEOUT_MS;;) {
        size_t seen = 0;

        for (int k = 0; k < ENDS; k++) {
            conf_drive(&ends[k]);
            seen += ends[k].seen_count;
        }
        if (seen == ENDS * ENDS)
            break;
        conf_check(conf_now_ms() < end, "%zu of %d arrived", seen, ENDS * ENDS);
    }
    for (int i = 0; i < ENDS; i++)
        for (int j = 0; j < ENDS; j++)
            conf_check(in[i][j] == 'a' + j, "from %d at %d: %c", j, i, in[i][j]);
    for (int i = 0; i < ENDS; i++)
        conf_ep_close(&ends[i]);
    free(ends);
    conf_pair_close(p);
}

const struct conf_case conf_life_cases[] = {
    {"life: nothing closes before its children", close_order},
    {"life: close with work outstanding", close_with_work},
    {"life: opening and closing leaks no fd", opens_leak_nothing},
    {"life: two processes", two_processes},
    {"life: many endpoints in one domain", many_endpoints},
    {"life: a peer is killed in mid-transfer", peer_killed},
    {"life: fork leaves the parent alone", fork_leaves_parent_alone},
    {"life: exit with a progress thread", exit_with_thread},
    {0},
};
