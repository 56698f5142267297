/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints of shm in one process or several, through the public interface. */
#ifndef WEFT_TESTS_SHM_ENDS_H
#define WEFT_TESTS_SHM_ENDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_peer.h>

enum {
    END_NAME = 256,
    END_SKIPPED = 77, /* what a process that lacks a right ends with */
    END_ALARM = 600,  /* s: of each process of a test, for alarm() */
};

struct end {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_ep *srx; /* opened here, or NULL */
};

/* Choices of a test; zero is the usual. */
struct end_want {
    uint64_t caps; /* 0: FI_MSG | FI_TAGGED */
    uint64_t order;
    enum fi_threading threading;
    enum fi_progress progress, control;
    enum fi_wait_obj wait;
    struct end *beside; /* its fabric and domain are used, which it closes */
    const char *name;   /* of the endpoint; NULL: the default */
    bool shared;        /* receives come from a shared context */
    struct fid_ep *srx; /* that; NULL: opened, end->srx */
    struct fi_av_attr *av;
    /* An upper's (FI_PEER), or NULL: they have no table of their own then. */
    struct fid_peer_cq *peer_cq;
    struct fid_peer_srx *peer_srx;    /* with shared */
    void (*prepare)(struct end *end); /* before it is enabled */
};

void end_open(struct end *end, const char *spec);
void end_open_as(struct end *end, const char *spec, const struct end_want *want);
void end_close(struct end *end);
/* An address in end's AV. */
fi_addr_t end_know(struct end *end, const char *name);
fi_addr_t end_introduce(struct end *end, struct end *to);
void end_name(struct end *end, char *name);

double end_seconds(void);
/* Reads one completion; 0, or the error that it ended with. Drives other (may be NULL), too. */
int end_wait(struct end *end, struct end *other, struct fi_cq_tagged_entry *entry);
/* Posts `expr` again while it says -FI_EAGAIN, driving both. */
#define end_post(end, other, expr)                                                                 \
    do {                                                                                           \
        ssize_t end_rc_;                                                                           \
        while ((end_rc_ = (expr)) == -FI_EAGAIN)                                                   \
            end_drive(end, other);                                                                 \
        assert_int_equal(end_rc_, 0);                                                              \
    } while (0)
void end_drive(struct end *end, struct end *other);

/* Between a test and the process that it forks. */
struct pipes {
    int to[2], from[2];
};
void open_pipes(struct pipes *pipes);
void close_pipes(struct pipes *pipes);

/* Descriptors that this process has, with the one that counts them. */
unsigned end_open_fds(void);

/* From now on this process, and its children, may attach to none (seccomp); else it ends. */
void end_forbid_attaching(void);

#endif
