/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sweep SPEC KIND STRIDE [N]: messages and remote memory between two endpoints, again and again,
 * with the N-th allocation or system call of the library failing, N = 1, 1 + STRIDE, ... In each
 * run every accepted operation ends once, everything closes, the next round works, and nothing is
 * left over. Each N in a process of its own.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "failing.h"

enum {
    MESSAGES = 4,
    OPS = 2 * MESSAGES + 2,
    LARGEST = 2 << 20,
    POST_MS = 2500,  /* of what may never be accepted, since something has failed */
    ARRIVE_MS = 200, /* likewise */
    END_MS = 60000,
    RUN_SECONDS = 600
};

static const size_t sizes[MESSAGES] = {8, 3000, 200000, LARGEST};

struct end {
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    fi_addr_t peer;
};

struct scene {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_mr *mr;
    struct end ends[2];
    char *out, *in[MESSAGES], *memory;
    bool accepted[OPS];
    int ended[OPS], failed; /* completions, and how many of all were errors */
    bool second;            /* after one in which something may have failed */
};

/* The report of the swept process to the one that counts. */
struct report {
    unsigned counted;
    int err, round;
    unsigned long place;
    char what[64], wrong[160];
};

static struct report *report;
static const char *spec;

static long long now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (long long)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static _Noreturn void wrong(const char *what, long number)
{
    const char *name = failing_what(&report->err, &report->place);

    snprintf(report->what, sizeof report->what, "%s", name ? name : "nothing");
    snprintf(report->wrong, sizeof report->wrong, "%s (%ld)", what, number);
    _exit(1);
}

static int open_fds(void)
{
    int count = 0;

    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* ---- Opening and closing ---- */

static int getinfo(struct scene *scene)
{
    struct fi_info *hints = fi_allocinfo();
    const char *node = strstr(spec, "shm") ? NULL : "127.0.0.1";
    int rc;

    if (!hints)
        return -FI_ENOMEM;
    hints->caps = FI_MSG | FI_TAGGED | FI_RMA;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->control_progress = hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    rc = fi_getinfo(FI_VERSION(2, 6), node, NULL, node ? FI_SOURCE : 0, hints, &scene->info);
    fi_freeinfo(hints);
    return rc;
}

static int open_end(struct scene *scene, struct end *end)
{
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_FD};
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    int rc;

    rc = fi_cq_open(scene->domain, &cq, &end->cq, NULL);
    if (!rc)
        rc = fi_av_open(scene->domain, &av, &end->av, NULL);
    if (!rc)
        rc = fi_endpoint(scene->domain, scene->info, &end->ep, NULL);
    if (!rc)
        rc = fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV);
    if (!rc)
        rc = fi_ep_bind(end->ep, &end->av->fid, 0);
    if (!rc)
        rc = fi_enable(end->ep);
    return rc;
}

static int introduce(struct end *from, struct end *to)
{
    char address[256];
    size_t len = sizeof address;
    int rc = fi_getname(&to->ep->fid, address, &len);

    if (!rc && fi_av_insert(from->av, address, 1, &from->peer, 0, NULL) != 1)
        rc = -FI_ENOMEM;
    return rc;
}

static int open_scene(struct scene *scene)
{
    int rc = getinfo(scene);

    if (!rc)
        rc = fi_fabric(scene->info->fabric_attr, &scene->fabric, NULL);
    if (!rc)
        rc = fi_domain(scene->fabric, scene->info, &scene->domain, NULL);
    for (int i = 0; i < 2 && !rc; i++)
        rc = open_end(scene, &scene->ends[i]);
    for (int i = 0; i < 2 && !rc; i++)
        rc = introduce(&scene->ends[i], &scene->ends[1 - i]);
    if (!rc)
        rc = fi_mr_reg(scene->domain, scene->memory, LARGEST, FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
                       5, 0, &scene->mr, NULL);
    return rc;
}

static void must_close(struct fid *fid, const char *what)
{
    int rc = fid ? fi_close(fid) : 0;

    if (rc)
        wrong(what, rc);
}

#define CLOSE(object) must_close((object) ? &(object)->fid : NULL, "fi_close(" #object ")")

static void close_scene(struct scene *scene)
{
    CLOSE(scene->mr);
    for (int i = 0; i < 2; i++) {
        CLOSE(scene->ends[i].ep);
        CLOSE(scene->ends[i].cq);
        CLOSE(scene->ends[i].av);
    }
    CLOSE(scene->domain);
    CLOSE(scene->fabric);
    if (scene->info)
        fi_freeinfo(scene->info);
}

/* ---- Operations: 0-3 receives, 4-7 sends, 8 a write, 9 a read; the context is the number ---- */

static void ended(struct scene *scene, void *context, int err)
{
    size_t op = (size_t)((bool *)context - scene->accepted);

    if (op >= OPS || !scene->accepted[op])
        wrong("a completion of nothing", (long)op);
    if (scene->ended[op]++)
        wrong("a second completion of operation", (long)op);
    scene->failed += err != 0;
}

static void drive(struct scene *scene)
{
    for (int i = 0; i < 2; i++) {
        struct fi_cq_tagged_entry entry;
        ssize_t n;

        while ((n = fi_cq_read(scene->ends[i].cq, &entry, 1)) == 1)
            ended(scene, entry.op_context, 0);
        if (n == -FI_EAVAIL) {
            struct fi_cq_err_entry error = {0};

            if (fi_cq_readerr(scene->ends[i].cq, &error, 0) == 1)
                ended(scene, error.op_context, error.err);
        }
    }
}

static ssize_t post_one(struct scene *scene, int op)
{
    struct end *a = &scene->ends[0], *b = &scene->ends[1];
    void *context = &scene->accepted[op];

    if (op < MESSAGES)
        return fi_trecv(b->ep, scene->in[op], sizes[op], NULL, FI_ADDR_UNSPEC, (uint64_t)op, 0,
                        context);
    if (op < 2 * MESSAGES)
        return fi_tsend(a->ep, scene->out, sizes[op - MESSAGES], NULL, a->peer,
                        (uint64_t)(op - MESSAGES), context);
    if (op == 2 * MESSAGES)
        return fi_write(a->ep, scene->out, 5000, NULL, a->peer, 0, 5, context);
    return fi_read(a->ep, scene->out + LARGEST, 5000, NULL, a->peer, 8000, 5, context);
}

static bool all_ended(const struct scene *scene, int from, int to)
{
    for (int op = from; op < to; op++)
        if (scene->accepted[op] && !scene->ended[op])
            return false;
    return true;
}

/* Nothing has failed, or that was the time before. */
static bool sound(const struct scene *scene)
{
    unsigned long place;
    int err;

    return scene->second || !failing_what(&err, &place);
}

static void run_scene(struct scene *scene)
{
    for (int op = 0; op < OPS; op++) {
        ssize_t rc;

        scene->accepted[op] = true; /* it may complete inside */
        for (long long begin = now_ms(); (rc = post_one(scene, op)) == -FI_EAGAIN &&
                                         now_ms() - begin < (sound(scene) ? END_MS : POST_MS);)
            drive(scene);
        scene->accepted[op] = rc == 0;
        scene->failed += rc != 0;
    }
    for (long long end = now_ms() + END_MS; !all_ended(scene, MESSAGES, OPS);) {
        drive(scene);
        if (now_ms() > end)
            wrong("sends, the write or the read did not end", scene->failed);
    }
    /* Receives end when their message comes, or are taken back. */
    for (long long begin = now_ms();
         !all_ended(scene, 0, MESSAGES) && now_ms() - begin < (sound(scene) ? END_MS : ARRIVE_MS);)
        drive(scene);
    for (int op = 0; op < MESSAGES; op++)
        if (scene->accepted[op] && !scene->ended[op])
            fi_cancel(&scene->ends[1].ep->fid, &scene->accepted[op]);
    for (long long end = now_ms() + END_MS; !all_ended(scene, 0, MESSAGES);) {
        drive(scene);
        if (now_ms() > end)
            wrong("receives did not end", scene->failed);
    }
}

/* The number of what failed, or -1 when it could not even open. */
static int play(char *memory, bool second)
{
    static struct scene scene;
    int result = -1;

    memset(&scene, 0, sizeof scene);
    scene.memory = memory;
    scene.second = second;
    scene.out = memory + LARGEST;
    for (int i = 0; i < MESSAGES; i++)
        scene.in[i] = memory + (size_t)(3 + i) * LARGEST;
    memset(scene.out, 0x31, LARGEST);
    if (!open_scene(&scene)) {
        run_scene(&scene);
        result = scene.failed;
        for (int i = 0; !result && i < MESSAGES; i++)
            if (memcmp(scene.in[i], scene.out, sizes[i]) != 0)
                wrong("data", i);
    }
    close_scene(&scene);
    return result;
}

/* Three times, as what is made once for a process is no leak. */
static _Noreturn void child(enum failing_kind kind, unsigned at, char *memory)
{
    long live = 0;
    int fds = 0;

    alarm(RUN_SECONDS);
    for (int round = 0; round < 3; round++) {
        const char *what;
        unsigned counted;
        int rc;

        report->round = round;
        failing_start(kind, at);
        rc = play(memory, false);
        counted = failing_stop();
        what = failing_what(&report->err, &report->place);
        if (!round)
            report->counted = counted;
        if (rc && !what)
            wrong("nothing was made to fail, but this did", rc);
        rc = play(memory, true);
        if (rc)
            wrong("the next time does not work", rc);
        if (round == 2 && failing_live() > live)
            wrong("allocations left", failing_live() - live);
        if (round == 2 && open_fds() > fds)
            wrong("descriptors left", open_fds() - fds);
        live = failing_live();
        fds = open_fds();
    }
    exit(0);
}

static bool run(enum failing_kind kind, unsigned at, char *memory)
{
    int status;
    pid_t pid;

    memset(report, 0, sizeof *report);
    fflush(NULL);
    pid = fork();
    if (pid == 0)
        child(kind, at, memory);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return false;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    printf("%s, call %u, round %d (%s at %#lx: %s): %s%s\n", spec, at, report->round, report->what,
           report->place, strerror(report->err), report->wrong,
           WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "");
    return false;
}

int main(int argc, char **argv)
{
    unsigned stride = argc > 3 ? (unsigned)atoi(argv[3]) : 0, first, last;
    int failures = 0;
    enum failing_kind kind;
    char *memory;

    if (argc < 4 || argc > 5 || !stride) {
        fprintf(stderr, "usage: sweep SPEC alloc|call STRIDE [N]\n");
        return 2;
    }
    spec = argv[1];
    kind = argv[2][0] == 'a' ? FAILING_ALLOCATION : FAILING_SYSTEM_CALL;
    if (kind == FAILING_ALLOCATION && !FAILING_ALLOCATIONS)
        return 77;
    setenv("FI_PROVIDER", spec, 1);
    setenv("FI_RXM_CONNECT_TIMEOUT", "5s", 1);
    setenv("FI_LOG_LEVEL", "none", 0);
    report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memory = malloc((size_t)(3 + MESSAGES) * LARGEST);
    if (!memory || !run(kind, 0, memory)) {
        free(memory);
        return 1;
    }
    last = report->counted;
    first = argc == 5 ? (unsigned)atoi(argv[4]) : 1 + (unsigned)(getpid() % (int)stride);
    for (unsigned at = first; at <= last; at += stride) {
        failures += !run(kind, at, memory);
        if (argc == 5)
            break;
    }
    printf("%s: %u calls, each %u. from %u: %d failures\n", spec, last, stride, first, failures);
    free(memory);
    return failures != 0;
}
