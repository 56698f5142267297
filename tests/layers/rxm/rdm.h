/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints of rxm over tcp on the loopback interface, several in one process, manual progress. */
#ifndef WEFT_TESTS_RXM_RDM_H
#define WEFT_TESTS_RXM_RDM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

enum {
    RDM_LIMIT_MS = 60000,
    RDM_ROUNDS_OF_MS = 50
};

struct rdm_net {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
};

struct rdm {
    struct rdm_net *net;
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_cntr *cntr; /* of cntr_flags, or NULL */
    struct sockaddr_in name;
};

static inline long long rdm_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* spec: what goes into prov_name; caps 0: MSG, TAGGED, RMA, DIRECTED_RECV, SOURCE. */
static inline void rdm_net_open_with(struct rdm_net *net, const char *spec, uint64_t caps,
                                     enum fi_threading threading)
{
    struct fi_info *hints = fi_allocinfo();

    assert_non_null(hints);
    hints->caps = caps ? caps : FI_MSG | FI_TAGGED | FI_RMA | FI_DIRECTED_RECV | FI_SOURCE;
    hints->mode = FI_CONTEXT;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = threading;
    hints->domain_attr->mr_mode =
        FI_MR_ENDPOINT | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->control_progress = FI_PROGRESS_CONTROL_UNIFIED;
    hints->addr_format = FI_SOCKADDR_IN;
    hints->fabric_attr->prov_name = strdup(spec);
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), "127.0.0.1", NULL, FI_SOURCE, hints, &net->info),
                     0);
    fi_freeinfo(hints);
    assert_int_equal(fi_fabric(net->info->fabric_attr, &net->fabric, NULL), 0);
    assert_int_equal(fi_domain(net->fabric, net->info, &net->domain, NULL), 0);
}

static inline void rdm_net_open(struct rdm_net *net, const char *spec, uint64_t caps)
{
    rdm_net_open_with(net, spec, caps, FI_THREAD_DOMAIN);
}

static inline void rdm_net_close(struct rdm_net *net)
{
    assert_int_equal(fi_close(&net->domain->fid), 0);
    assert_int_equal(fi_close(&net->fabric->fid), 0);
    fi_freeinfo(net->info);
}

static inline void rdm_open_cq(struct rdm *rdm)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_FD};

    assert_int_equal(fi_cq_open(rdm->net->domain, &attr, &rdm->cq, NULL), 0);
    assert_int_equal(fi_ep_bind(rdm->ep, &rdm->cq->fid, FI_TRANSMIT | FI_RECV), 0);
}

static inline void rdm_open_all(struct rdm *rdm, struct rdm_net *net, uint16_t port,
                                uint64_t cntr_flags, bool with_cq)
{
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    struct fi_cntr_attr cntr_attr = {.events = FI_CNTR_EVENTS_COMP};
    size_t len = sizeof(rdm->name);

    memset(rdm, 0, sizeof(*rdm));
    rdm->net = net;
    ((struct sockaddr_in *)net->info->src_addr)->sin_port = htons(port);
    assert_int_equal(fi_endpoint(net->domain, net->info, &rdm->ep, rdm), 0);
    assert_int_equal(fi_av_open(net->domain, &av_attr, &rdm->av, NULL), 0);
    assert_int_equal(fi_ep_bind(rdm->ep, &rdm->av->fid, 0), 0);
    if (with_cq)
        rdm_open_cq(rdm);
    if (cntr_flags) {
        assert_int_equal(fi_cntr_open(net->domain, &cntr_attr, &rdm->cntr, NULL), 0);
        assert_int_equal(fi_ep_bind(rdm->ep, &rdm->cntr->fid, cntr_flags), 0);
    }
    assert_int_equal(fi_enable(rdm->ep), 0);
    assert_int_equal(fi_getname(&rdm->ep->fid, &rdm->name, &len), 0);
    assert_int_equal(len, sizeof(rdm->name));
    assert_int_not_equal(rdm->name.sin_port, 0);
}

/* port 0: any. */
static inline void rdm_open(struct rdm *rdm, struct rdm_net *net, uint16_t port)
{
    rdm_open_all(rdm, net, port, 0, true);
}

static inline void rdm_open_counted(struct rdm *rdm, struct rdm_net *net, uint64_t cntr_flags,
                                    bool with_cq)
{
    rdm_open_all(rdm, net, 0, cntr_flags, with_cq);
}

static inline void rdm_close(struct rdm *rdm)
{
    assert_int_equal(fi_close(&rdm->ep->fid), 0);
    if (rdm->cq)
        assert_int_equal(fi_close(&rdm->cq->fid), 0);
    if (rdm->cntr)
        assert_int_equal(fi_close(&rdm->cntr->fid), 0);
    assert_int_equal(fi_close(&rdm->av->fid), 0);
    memset(rdm, 0, sizeof(*rdm));
}

static inline fi_addr_t rdm_insert(struct rdm *rdm, const struct sockaddr_in *name)
{
    fi_addr_t addr = FI_ADDR_UNSPEC;

    assert_int_equal(fi_av_insert(rdm->av, name, 1, &addr, 0, NULL), 1);
    return addr;
}

static inline void rdm_progress(struct rdm *const *ends)
{
    for (; *ends; ends++) {
        if ((*ends)->cq)
            fi_cq_read((*ends)->cq, NULL, 0);
        else
            fi_cntr_read((*ends)->cntr);
    }
}

/* A port where nothing listens, and that no other program gets while the socket is open; an
 * endpoint of the library may have it too. */
static inline int rdm_bind(struct sockaddr_in *name)
{
    socklen_t len = sizeof(*name);
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

    *name = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)name, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)name, &len), 0);
    return fd;
}

/* Progress of all ends given (NULL-terminated) for some milliseconds, and for no fewer rounds than
 * a process makes in them that has the processor. */
static inline void rdm_drive(struct rdm *const *ends, int ms)
{
    long long end = rdm_now_ms() + ms;
    int rounds = 0;

    do
        rdm_progress(ends);
    while (++rounds < ms * RDM_ROUNDS_OF_MS || rdm_now_ms() < end);
}

/* The next completion of end, driving the others; fails the test after a minute. Returns the code
 * of an error. */
static inline int rdm_next(struct rdm *end, struct rdm *const *ends,
                           struct fi_cq_tagged_entry *entry, fi_addr_t *src,
                           struct fi_cq_err_entry *error)
{
    struct fi_cq_err_entry unused = {.err_data_size = 0};
    struct fi_cq_tagged_entry dropped;
    long long limit = rdm_now_ms() + RDM_LIMIT_MS;
    ssize_t rc;

    if (!error)
        error = &unused;
    for (;;) {
        rc = fi_cq_readfrom(end->cq, entry ? entry : &dropped, 1, src);
        if (rc == 1)
            return 0;
        if (rc == -FI_EAVAIL) {
            assert_int_equal(fi_cq_readerr(end->cq, error, 0), 1);
            return error->err;
        }
        assert_int_equal(rc, -FI_EAGAIN);
        assert_true(rdm_now_ms() < limit);
        rdm_progress(ends);
    }
}

/* Tries again while -FI_EAGAIN; the buffer is static. */
static inline void rdm_send(struct rdm *from, fi_addr_t to, struct rdm *const *ends, uint64_t tag,
                            void *context)
{
    static const char text[64] = "of which all know what it says";
    long long limit = rdm_now_ms() + RDM_LIMIT_MS;
    ssize_t rc;

    while ((rc = fi_tsend(from->ep, text, sizeof(text), NULL, to, tag, context)) == -FI_EAGAIN) {
        assert_true(rdm_now_ms() < limit);
        rdm_progress(ends);
    }
    assert_int_equal(rc, 0);
}

#define RDM_ENDS(...)                                                                              \
    (struct rdm *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

#endif
