/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests of hooks, by the public interface: two endpoints of one domain on any stack over loop,
 * and counts of what the process did meanwhile. */
#ifndef WEFT_TEST_PAIR_H
#define WEFT_TEST_PAIR_H

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "../support/again.h"
#include "../support/nomem.h"
#include "../support/heap.h"

struct pair {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_ep *ep[2];
    fi_addr_t to[2];
};

/* A call that starts an operation, again while there is no room for it. */
#define PAIR_POST(pair, call)                                                                      \
    do {                                                                                           \
        ssize_t post_rc;                                                                           \
        while ((post_rc = (call)) == -FI_EAGAIN)                                                   \
            fi_cq_read((pair)->cq, NULL, 0);                                                       \
        assert_int_equal(post_rc, 0);                                                              \
    } while (0)

static int pair_locks;

/* Attributes that the next domain is asked for. */
static enum fi_threading pair_threading = FI_THREAD_DOMAIN;
static uint64_t pair_caps; /* besides messages and RMA */

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    static int (*known)(pthread_mutex_t *);
    int (*lock)(pthread_mutex_t *) = __atomic_load_n(&known, __ATOMIC_RELAXED);

    if (!lock) {
        *(void **)&lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
        __atomic_store_n(&known, lock, __ATOMIC_RELAXED);
    }
    __atomic_fetch_add(&pair_locks, 1, __ATOMIC_RELAXED);
    return lock(mutex);
}

static inline struct fi_info *pair_info(const char *spec)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;

    hints->caps = FI_MSG | FI_TAGGED | FI_RMA | pair_caps;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->threading = pair_threading;
    hints->domain_attr->control_progress = FI_PROGRESS_CONTROL_UNIFIED;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    setenv("FI_PROVIDER", spec, 1);
    assert_int_equal(fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &info), 0);
    fi_freeinfo(hints);
    return info;
}

/* The result of fi_getinfo without hints for it, and if there is an info, of fi_fabric. */
static inline int pair_fabric_rc(const char *spec)
{
    struct fi_info *info = NULL;
    struct fid_fabric *fabric;
    int rc;

    setenv("FI_PROVIDER", spec, 1);
    rc = fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, NULL, &info);
    if (rc)
        return rc;
    rc = fi_fabric(info->fabric_attr, &fabric, NULL);
    if (!rc)
        fi_close(&fabric->fid);
    fi_freeinfo(info);
    return rc;
}

static inline void pair_open(struct pair *pair, const char *spec)
{
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .size = 256};
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    char address[256];
    size_t len;

    pair->info = pair_info(spec);
    assert_int_equal(fi_fabric(pair->info->fabric_attr, &pair->fabric, NULL), 0);
    assert_int_equal(fi_domain(pair->fabric, pair->info, &pair->domain, NULL), 0);
    assert_int_equal(fi_cq_open(pair->domain, &cq, &pair->cq, NULL), 0);
    assert_int_equal(fi_av_open(pair->domain, &av, &pair->av, NULL), 0);
    free(pair->info->src_addr);
    pair->info->src_addr = NULL;
    pair->info->src_addrlen = 0;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fi_endpoint(pair->domain, pair->info, &pair->ep[i], NULL), 0);
        assert_int_equal(fi_ep_bind(pair->ep[i], &pair->cq->fid, FI_TRANSMIT | FI_RECV), 0);
        assert_int_equal(fi_ep_bind(pair->ep[i], &pair->av->fid, 0), 0);
        assert_int_equal(fi_enable(pair->ep[i]), 0);
        len = sizeof(address);
        assert_int_equal(fi_getname(&pair->ep[i]->fid, address, &len), 0);
        assert_int_equal(fi_av_insert(pair->av, address, 1, &pair->to[i], 0, NULL), 1);
    }
}

static inline void pair_close(struct pair *pair)
{
    for (int i = 0; i < 2; i++)
        if (pair->ep[i])
            assert_int_equal(fi_close(&pair->ep[i]->fid), 0);
    assert_int_equal(fi_close(&pair->av->fid), 0);
    assert_int_equal(fi_close(&pair->cq->fid), 0);
    assert_int_equal(fi_close(&pair->domain->fid), 0);
    assert_int_equal(fi_close(&pair->fabric->fid), 0);
    fi_freeinfo(pair->info);
}

/* One tagged message from 0 to 1, both ends completed; false after an error. */
static inline bool pair_message(struct pair *pair, void *from, void *to, size_t len, uint64_t tag,
                                void *send_context, void *receive_context)
{
    struct fi_cq_tagged_entry entry;
    int left = 2;

    if (fi_trecv(pair->ep[1], to, len, NULL, FI_ADDR_UNSPEC, tag, 0, receive_context))
        return false;
    if (fi_tsend(pair->ep[0], from, len, NULL, pair->to[1], tag, send_context))
        return false;
    while (left) {
        ssize_t rc = fi_cq_read(pair->cq, &entry, 1);

        if (rc == 1)
            left--;
        else if (rc != -FI_EAGAIN)
            return false;
    }
    return true;
}

/* One message over that stack, from opening to closing. */
static inline void pair_message_over(const char *spec)
{
    char from[64] = "", to[64];
    struct pair pair;

    pair_open(&pair, spec);
    assert_true(pair_message(&pair, from, to, 8, 1, &from, &to));
    pair_close(&pair);
}

/* Runs what in a child; its exit code, or 256 + the signal that ended it. */
static inline int pair_child(int (*what)(const char *spec), const char *spec)
{
    pid_t pid = fork();
    int status;

    if (!pid)
        _exit(what(spec));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

enum {
    PAIR_ROUNDS = 500
};

/* From now on any system call but exit(2) ends the process. (Strict mode would take the time stamp
 * counter away too.) */
static inline bool pair_forbid_system_calls(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof(rules) / sizeof(*rules), rules};

    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
           !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* The memory that posts of every kind read and write. */
struct pair_memory {
    char from[64], to[64];
    struct fid_mr *mr; /* of to */
    uint64_t addr;     /* of it, for others */
};

static inline void pair_memory_open(struct pair *pair, struct pair_memory *memory)
{
    bool virtual = pair->info->domain_attr->mr_mode & (FI_MR_VIRT_ADDR | FI_MR_BASIC);

    memset(memory, 0, sizeof(*memory));
    assert_int_equal(fi_mr_reg(pair->domain, memory->to, sizeof(memory->to),
                               FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1, 0, &memory->mr,
                               NULL),
                     0);
    memory->addr = virtual ? (uint64_t)(uintptr_t)memory->to : 0;
}

/* So many entries of the queue, by the calls that there are. */
static inline bool pair_completed(struct pair *pair, int left)
{
    struct fi_cq_tagged_entry entry;
    fi_addr_t from;

    for (int turn = 0; left; turn++) {
        ssize_t rc =
            turn % 2 ? fi_cq_readfrom(pair->cq, &entry, 1, &from) : fi_cq_read(pair->cq, &entry, 1);

        if (rc == 1)
            left--;
        else if (rc != -FI_EAGAIN)
            return false;
    }
    return true;
}

/* A message by each form of the calls, a write and a read. */
static inline bool pair_round(struct pair *pair, struct pair_memory *memory)
{
    struct iovec out = {memory->from, 8}, in = {memory->to, 8};
    struct fi_msg send = {.msg_iov = &out, .iov_count = 1, .addr = pair->to[1], .context = pair};
    struct fi_msg receive = {
        .msg_iov = &in, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = memory};
    struct fid_ep *from = pair->ep[0], *to = pair->ep[1];
    uint64_t key = fi_mr_key(memory->mr);

    return !fi_trecv(to, memory->to, 8, NULL, FI_ADDR_UNSPEC, 1, 0, memory) &&
           !fi_tsend(from, memory->from, 8, NULL, pair->to[1], 1, pair) &&
           pair_completed(pair, 2) &&
           !fi_trecv(to, memory->to, 8, NULL, FI_ADDR_UNSPEC, 1, 0, memory) &&
           !fi_tinject(from, memory->from, 8, pair->to[1], 1) && pair_completed(pair, 1) &&
           !fi_recv(to, memory->to, 8, NULL, FI_ADDR_UNSPEC, memory) &&
           !fi_sendv(from, &out, NULL, 1, pair->to[1], pair) && pair_completed(pair, 2) &&
           !fi_recvmsg(to, &receive, FI_COMPLETION) && !fi_sendmsg(from, &send, FI_COMPLETION) &&
           pair_completed(pair, 2) &&
           !fi_write(from, memory->from, 8, NULL, pair->to[1], memory->addr, key, pair) &&
           pair_completed(pair, 1) &&
           !fi_read(from, memory->from, 8, NULL, pair->to[1], memory->addr, key, pair) &&
           pair_completed(pair, 1);
}

/* In a child: rounds with a kernel that ends the process at the first system call. */
static inline int pair_without_system_calls(const char *spec)
{
    struct pair_memory memory;
    struct pair pair;
    bool ok = true;

    pair_open(&pair, spec);
    pair_memory_open(&pair, &memory);
    ok = pair_round(&pair, &memory);
    ok = ok && pair_forbid_system_calls();
    for (int i = 0; ok && i < PAIR_ROUNDS; i++)
        ok = pair_round(&pair, &memory);
    syscall(SYS_exit, ok ? 0 : 1);
    return 1;
}

/* The cost of PAIR_ROUNDS rounds over a stack. */
struct pair_cost {
    int locks;
    long allocations; /* 0 beside a sanitizer */
    bool same_heap;
};

static inline struct pair_cost pair_cost_of(const char *spec)
{
    struct pair_memory memory;
    size_t before;
    struct pair_cost cost;
    struct pair pair;
    bool ok = true;

    pair_open(&pair, spec);
    pair_memory_open(&pair, &memory);
    assert_true(pair_round(&pair, &memory));
    before = heap_in_use();
    pair_locks = 0;
    cost.allocations = nomem_made;
    for (int i = 0; i < PAIR_ROUNDS; i++)
        ok = ok && pair_round(&pair, &memory);
    cost.allocations = nomem_made - cost.allocations;
    cost.locks = pair_locks;
    cost.same_heap = before == heap_in_use();
    assert_true(ok);
    assert_int_equal(fi_close(&memory.mr->fid), 0);
    pair_close(&pair);
    return cost;
}

/* Messages and RMA over that stack, which is a hook on loop, take no lock that those over loop do
 * not, and no memory, not even for a while. */
static inline void pair_costs_nothing(const char *spec)
{
    struct pair_cost without = pair_cost_of("loop"), with = pair_cost_of(spec);

    assert_int_equal(with.locks, without.locks);
    assert_int_equal(with.allocations, without.allocations);
    assert_true(with.same_heap);
}

/* They make no system call either. */
static inline void pair_makes_no_system_call(const char *spec)
{
#if defined(__SANITIZE_THREAD__)
    skip(); /* its runtime makes some */
#endif
    if (again_is_emulated())
        skip(); /* so does an emulator */
    assert_int_equal(pair_child(pair_without_system_calls, spec), 0);
}

#endif
