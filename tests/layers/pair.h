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
#include <malloc.h>
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

struct pair {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_ep *ep[2];
    fi_addr_t to[2];
};

static int pair_locks;

/* What the next domain is asked for. */
static enum fi_threading pair_threading = FI_THREAD_DOMAIN;

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

    hints->caps = FI_MSG | FI_TAGGED | FI_RMA;
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

/* What fi_fabric says of it. */
static inline int pair_fabric_rc(const char *spec)
{
    struct fi_info *info = pair_info(spec);
    struct fid_fabric *fabric;
    int rc = fi_fabric(info->fabric_attr, &fabric, NULL);

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
    PAIR_MESSAGES = 2000
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

/* In a child: messages with a kernel that ends the process at the first system call. */
static inline int pair_without_system_calls(const char *spec)
{
    char from[64] = "", to[64];
    struct pair pair;
    bool ok = true;

    pair_open(&pair, spec);
    ok = pair_message(&pair, from, to, 8, 1, &pair, &from);
    ok = ok && pair_forbid_system_calls();
    for (int i = 0; ok && i < PAIR_MESSAGES; i++)
        ok = pair_message(&pair, from, to, 8, 1, &pair, &from);
    syscall(SYS_exit, ok ? 0 : 1);
    return 1;
}

/* Locks taken for PAIR_MESSAGES messages, and whether the heap is as it was before them. */
static inline int pair_locks_of(const char *spec, bool *same_heap)
{
    struct mallinfo2 before, after;
    char from[64] = "", to[64];
    struct pair pair;
    int locks;

    pair_open(&pair, spec);
    assert_true(pair_message(&pair, from, to, 8, 1, &pair, &from));
    pair_locks = 0;
    before = mallinfo2();
    for (int i = 0; i < PAIR_MESSAGES; i++)
        assert_true(pair_message(&pair, from, to, 8, 1, &pair, &from));
    after = mallinfo2();
    locks = pair_locks;
    *same_heap = before.uordblks == after.uordblks;
    pair_close(&pair);
    return locks;
}

#endif
