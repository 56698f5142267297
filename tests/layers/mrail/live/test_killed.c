/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writer and target of large writes are processes, and one of them is killed when the first bytes
 * of a write have landed: each operation that the writer has posted ends once; the target is told
 * of no write that is not whole, nothing lands any more once its region is closed, and another
 * writer reaches it. Likewise with a reader and its target.
 */
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
#include <unistd.h>

#include <cmocka.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

enum {
    SIZE = 16 << 20,
    WRITES = 8,
    KEY = 7,
    SECONDS = 300, /* a process that takes longer hangs */
    LAST = 77,     /* data of a write that is to succeed */
};

struct shared {
    char name[256]; /* of the target */
    volatile bool named, over;
    volatile bool whole; /* the target was told of a write with LAST */
    volatile bool ended[WRITES];
    unsigned char memory[2][SIZE]; /* regions of the target: of the one that dies, of another */
};

struct host {
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_ep *ep;
};

static struct shared *shared;

/* The stack that a test runs on. */
struct setting {
    const char *spec;
    bool reads; /* the "writer" reads: the target's memory has ones, and the last region is its own
                 * memory */
};

static bool reads;

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static void open_host(struct host *host)
{
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_DATA, .size = 64};
    struct fi_info *hints = fi_allocinfo(), *info = NULL;
    struct fi_av_attr av = {.type = FI_AV_TABLE};

    hints->caps = FI_MSG | FI_RMA;
    hints->ep_attr->type = FI_EP_RDM;
    MUST(!fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &info));
    fi_freeinfo(hints);
    MUST(!fi_fabric(info->fabric_attr, &host->fabric, NULL));
    MUST(!fi_domain(host->fabric, info, &host->domain, NULL));
    MUST(!fi_cq_open(host->domain, &cq, &host->cq, NULL));
    MUST(!fi_av_open(host->domain, &av, &host->av, NULL));
    MUST(!fi_endpoint(host->domain, info, &host->ep, NULL));
    MUST(!fi_ep_bind(host->ep, &host->cq->fid, FI_TRANSMIT | FI_RECV));
    MUST(!fi_ep_bind(host->ep, &host->av->fid, 0));
    MUST(!fi_enable(host->ep));
    fi_freeinfo(info);
}

static void close_host(struct host *host)
{
    MUST(!fi_close(&host->ep->fid));
    MUST(!fi_close(&host->av->fid));
    MUST(!fi_close(&host->cq->fid));
    MUST(!fi_close(&host->domain->fid));
    MUST(!fi_close(&host->fabric->fid));
}

/* ---- The target ---- */

static void look(const struct host *host)
{
    struct fi_cq_data_entry entry;
    ssize_t rc = fi_cq_read(host->cq, &entry, 1);

    MUST(rc == -FI_EAGAIN || (rc == 1 && entry.flags & FI_REMOTE_CQ_DATA));
    if (rc == 1 && entry.data == LAST)
        shared->whole = true;
}

static void be_target(void)
{
    unsigned char *copy = malloc(SIZE), *source = malloc(SIZE);
    struct host host;
    struct fid_mr *mr[2];
    size_t len = sizeof(shared->name);

    open_host(&host);
    MUST(copy && source);
    if (reads)
        memset(source, 1, SIZE);
    for (unsigned i = 0; i < 2; i++)
        MUST(!fi_mr_reg(host.domain, reads && !i ? source : shared->memory[i], SIZE,
                        FI_REMOTE_WRITE | FI_REMOTE_READ, 0, KEY + i, 0, &mr[i], NULL));
    MUST(!fi_getname(&host.ep->fid, shared->name, &len));
    shared->named = true;
    while (!shared->over)
        look(&host);
    for (unsigned i = 0; i < 2; i++)
        MUST(!fi_close(&mr[i]->fid));
    memcpy(copy, shared->memory[0], SIZE);
    for (int i = 0; i < 200; i++, usleep(1000))
        look(&host);
    MUST(!memcmp(copy, shared->memory[0], SIZE));
    free(copy);
    free(source); /* nothing reads it any more */
    close_host(&host);
    _exit(0);
}

/* ---- The writer ---- */

/* The operation that has ended: its number; -1: none has. */
static int take_end(const struct host *host, bool *failed)
{
    struct fi_cq_err_entry error = {.err_data_size = 0};
    struct fi_cq_data_entry entry;
    ssize_t rc = fi_cq_read(host->cq, &entry, 1);
    const volatile bool *which;

    if (rc == -FI_EAGAIN)
        return -1;
    *failed = rc == -FI_EAVAIL;
    MUST(rc == 1 || (*failed && fi_cq_readerr(host->cq, &error, 0) == 1));
    which = *failed ? error.op_context : entry.op_context;
    MUST(which >= shared->ended && which < shared->ended + WRITES);
    MUST(!*which);
    shared->ended[which - shared->ended] = true;
    return (int)(which - shared->ended);
}

/* All of them end, once. Returns how many did not fail. */
static unsigned end_all(const struct host *host, unsigned posted)
{
    unsigned good = 0;
    bool failed;

    while (posted) {
        if (take_end(host, &failed) < 0)
            continue;
        posted--;
        good += !failed;
    }
    for (int i = 0; i < 200; i++, usleep(1000))
        MUST(take_end(host, &failed) < 0);
    return good;
}

/* Region 1 is that of a writer whose write is to succeed. */
static unsigned post_all(const struct host *host, unsigned char *bytes, fi_addr_t to,
                         unsigned count, unsigned region)
{
    unsigned posted = 0;
    ssize_t rc = 0;

    for (; posted < count && !rc; posted += !rc) {
        struct iovec iov = {bytes, SIZE};
        struct fi_rma_iov at = {0, SIZE, KEY + region};
        struct fi_msg_rma msg = {.msg_iov = &iov,
                                 .iov_count = 1,
                                 .addr = to,
                                 .rma_iov = &at,
                                 .rma_iov_count = 1,
                                 .context = (void *)&shared->ended[posted],
                                 .data = region ? LAST : 0};

        if (reads && !region)
            rc = fi_readmsg(host->ep, &msg, FI_COMPLETION);
        else
            rc = fi_writemsg(host->ep, &msg,
                             FI_COMPLETION | FI_REMOTE_CQ_DATA | FI_DELIVERY_COMPLETE);
        MUST(!rc || rc == -FI_EAGAIN);
    }
    return posted;
}

/* Until one of them fails, or (all_good) once. */
static void be_writer(unsigned count, bool all_good)
{
    unsigned char *own = malloc(SIZE), *bytes = reads && !all_good ? shared->memory[0] : own;
    struct host host;
    unsigned posted, good;
    fi_addr_t to;

    open_host(&host);
    if (bytes == own)
        memset(bytes, all_good ? 2 : 1, SIZE);
    while (!shared->named)
        usleep(1000);
    MUST(fi_av_insert(host.av, shared->name, 1, &to, 0, NULL) == 1);
    do {
        memset((void *)(uintptr_t)shared->ended, 0, sizeof(shared->ended));
        posted = post_all(&host, bytes, to, count, all_good);
        MUST(posted);
        good = end_all(&host, posted);
    } while (!all_good && good == posted);
    MUST(!all_good || good == count);
    close_host(&host);
    free(own);
    _exit(0);
}

/* ---- The test ---- */

static pid_t start(bool writes, unsigned count, bool all_good)
{
    pid_t pid = fork();

    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(SECONDS);
    if (writes)
        be_writer(count, all_good);
    be_target();
    return 0;
}

static void ends_well(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void kill_it(pid_t pid)
{
    int status;

    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
}

/* Waits until bytes of the first write have landed; fails if the process has ended. */
static void wait_for_bytes(pid_t pid)
{
    bool some = false;

    while (!some && !waitpid(pid, NULL, WNOHANG)) {
        for (size_t at = 100000; at < SIZE && !some; at += 50000)
            some = *(volatile unsigned char *)&shared->memory[0][at] == 1;
    }
    assert_true(some);
}

/* A target, and a writer whose writes are under way. */
static void begin(void **state, pid_t *target, pid_t *writer)
{
    const struct setting *setting = *state;

    memset(shared, 0, sizeof(*shared));
    setenv("FI_PROVIDER", setting->spec, 1);
    reads = setting->reads;
    print_message("%s, %s\n", setting->spec, reads ? "reads" : "writes");
    *target = start(false, 0, false);
    *writer = start(true, WRITES, false);
    wait_for_bytes(*writer);
}

static void a_killed_target_ends_all_writes(void **state)
{
    pid_t target, writer;

    begin(state, &target, &writer);
    kill_it(target);
    ends_well(writer);
}

static void a_killed_writer_leaves_its_target_alone(void **state)
{
    pid_t target, writer;

    begin(state, &target, &writer);
    kill_it(writer);
    ends_well(start(true, 1, true)); /* another one: its write is whole */
    for (size_t at = 0; at < SIZE; at++)
        assert_int_equal(shared->memory[1][at], 2);
    while (!shared->whole)
        usleep(1000);
    shared->over = true;
    ends_well(target);
}

/* At once: its region is closed while the rails may still have stripes of the dead writer's. */
static void a_target_closes_when_its_writer_is_killed(void **state)
{
    pid_t target, writer;

    begin(state, &target, &writer);
    kill_it(writer);
    shared->over = true;
    ends_well(target);
}

#define STRIPES "mrail(same=yes);[rxm;tcp(iface=lo)+rxm;tcp(iface=lo)]"
#define PACKETS "mrail(same=yes,reads=no);[rxm;tcp(iface=lo)+rxm;tcp(iface=lo)]"
#define EACH(test)                                                                                 \
    cmocka_unit_test_prestate(test, &settings[0]), cmocka_unit_test_prestate(test, &settings[1]),  \
        cmocka_unit_test_prestate(test, &settings[2]),                                             \
        cmocka_unit_test_prestate(test, &settings[3])

int main(void)
{
    static struct setting settings[] = {
        {STRIPES, false}, {PACKETS, false}, {STRIPES, true}, {PACKETS, true}};
    const struct CMUnitTest tests[] = {
        EACH(a_killed_target_ends_all_writes),
        EACH(a_killed_writer_leaves_its_target_alone),
        EACH(a_target_closes_when_its_writer_is_killed),
    };

    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
