/* SPDX-License-Identifier: BSD-2-Clause */
#include "ends.h"

#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum {
    WAIT_SECONDS = 60, /* of a message that may be lost, when calls are made to fail */
};

static void ask(struct end *end, const char *spec, const struct end_want *want)
{
    struct fi_info *hints = fi_allocinfo();

    hints->caps = want->caps ? want->caps : FI_MSG | FI_TAGGED;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = want->threading ? want->threading : FI_THREAD_DOMAIN;
    hints->domain_attr->data_progress = want->progress ? want->progress : FI_PROGRESS_MANUAL;
    hints->domain_attr->control_progress = want->control;
    hints->domain_attr->mr_mode = 0;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = want->order;
    hints->fabric_attr->prov_name = strdup(spec);
    if (want->shared)
        hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
    if (want->name) {
        hints->src_addr = strdup(want->name);
        hints->src_addrlen = strlen(want->name) + 1;
        hints->addr_format = FI_ADDR_STR;
    }
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &end->info), 0);
    fi_freeinfo(hints);
}

static void open_srx(struct end *end, struct fid_peer_srx *peer)
{
    struct fi_peer_srx_context context = {.size = sizeof(context), .srx = peer};
    struct fi_rx_attr attr = {.op_flags = FI_PEER};

    assert_int_equal(
        fi_srx_context(end->domain, peer ? &attr : NULL, &end->srx, peer ? &context : NULL), 0);
}

void end_open_as(struct end *end, const char *spec, const struct end_want *want)
{
    struct fi_peer_cq_context context = {.size = sizeof(context), .cq = want->peer_cq};
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED,
                            .wait_obj = want->wait,
                            .flags = want->peer_cq ? FI_PEER : 0};
    struct fi_av_attr av = {.type = FI_AV_TABLE};

    memset(end, 0, sizeof(*end));
    ask(end, spec, want);
    if (want->beside) {
        end->domain = want->beside->domain;
    } else {
        assert_int_equal(fi_fabric(end->info->fabric_attr, &end->fabric, NULL), 0);
        assert_int_equal(fi_domain(end->fabric, end->info, &end->domain, NULL), 0);
    }
    assert_int_equal(fi_endpoint(end->domain, end->info, &end->ep, NULL), 0);
    assert_int_equal(fi_cq_open(end->domain, &cq, &end->cq, want->peer_cq ? &context : NULL), 0);
    assert_int_equal(fi_av_open(end->domain, want->av ? want->av : &av, &end->av, NULL), 0);
    assert_int_equal(fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_ep_bind(end->ep, &end->av->fid, 0), 0);
    if (want->shared && !want->srx)
        open_srx(end, want->peer_srx);
    if (want->shared)
        assert_int_equal(fi_ep_bind(end->ep, want->srx ? &want->srx->fid : &end->srx->fid, 0), 0);
    if (want->prepare)
        want->prepare(end);
    assert_int_equal(fi_enable(end->ep), 0);
}

void end_open(struct end *end, const char *spec)
{
    end_open_as(end, spec, &(struct end_want){.caps = 0});
}

void end_close(struct end *end)
{
    if (end->ep)
        assert_int_equal(fi_close(&end->ep->fid), 0);
    if (end->srx)
        assert_int_equal(fi_close(&end->srx->fid), 0);
    assert_int_equal(fi_close(&end->cq->fid), 0);
    assert_int_equal(fi_close(&end->av->fid), 0);
    if (end->fabric) {
        assert_int_equal(fi_close(&end->domain->fid), 0);
        assert_int_equal(fi_close(&end->fabric->fid), 0);
    }
    fi_freeinfo(end->info);
}

fi_addr_t end_know(struct end *end, const char *name)
{
    fi_addr_t addr;

    assert_int_equal(fi_av_insert(end->av, &name, 1, &addr, 0, NULL), 1);
    return addr;
}

void end_name(struct end *end, char *name)
{
    size_t len = END_NAME;

    assert_int_equal(fi_getname(&end->ep->fid, name, &len), 0);
}

fi_addr_t end_introduce(struct end *end, struct end *to)
{
    char name[END_NAME];

    end_name(to, name);
    return end_know(end, name);
}

unsigned end_open_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned count = 0;

    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

double end_seconds(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

void end_drive(struct end *end, struct end *other)
{
    fi_cq_read(end->cq, NULL, 0);
    if (other)
        fi_cq_read(other->cq, NULL, 0);
}

int end_wait(struct end *end, struct end *other, struct fi_cq_tagged_entry *entry)
{
    struct fi_cq_err_entry error = {0};
    double begin = end_seconds();
    ssize_t rc;

    while ((rc = fi_cq_read(end->cq, entry, 1)) == -FI_EAGAIN) {
        if (other)
            fi_cq_read(other->cq, NULL, 0);
        assert_true(end_seconds() - begin < WAIT_SECONDS);
    }
    if (rc == 1)
        return 0;
    assert_int_equal(rc, -FI_EAVAIL);
    assert_int_equal(fi_cq_readerr(end->cq, &error, 0), 1);
    memset(entry, 0, sizeof(*entry));
    entry->op_context = error.op_context;
    entry->flags = error.flags;
    return error.err;
}

/* ---- What the system forbids ---- */

void end_forbid_attaching(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) ||
        process_vm_readv(getpid(), NULL, 0, NULL, 0, 0) != -1 || errno != EPERM)
        _exit(END_SKIPPED);
}

void open_pipes(struct pipes *pipes)
{
    assert_int_equal(pipe(pipes->to), 0);
    assert_int_equal(pipe(pipes->from), 0);
}

void close_pipes(struct pipes *pipes)
{
    for (int i = 0; i < 2; i++) {
        close(pipes->to[i]);
        close(pipes->from[i]);
    }
}
