/* SPDX-License-Identifier: BSD-2-Clause */
/* One reliable-datagram or datagram endpoint with all that it needs, by the public interface. */
#ifndef WEFT_TESTS_SUPPORT_END_H
#define WEFT_TESTS_SUPPORT_END_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

struct end {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_cq *cq; /* of sends and receives */
    struct fid_av *av;
    struct fid_ep *ep;
    fi_addr_t peer;
    _Alignas(8) uint8_t name[64];
    size_t name_len;
};

/* The first info of a stack over reliable packets, for a thread at a time. */
static inline struct fi_info *end_info(const char *spec, uint64_t caps, uint64_t order)
{
    struct fi_info *hints = fi_allocinfo(), *info;

    assert_non_null(hints);
    hints->caps = caps;
    hints->ep_attr->type = FI_EP_RDM;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = order;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = strdup(spec);
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &info), 0);
    fi_freeinfo(hints);
    return info;
}

/* Enabled, and it has its name. The info is the end's from now on. */
static inline void end_open_waiting(struct end *end, struct fi_info *info, enum fi_cq_format format,
                                    enum fi_wait_obj wait_obj)
{
    struct fi_cq_attr cq_attr = {.format = format, .wait_obj = wait_obj};
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};

    assert_non_null(info);
    end->info = info;
    assert_int_equal(fi_fabric(info->fabric_attr, &end->fabric, NULL), 0);
    assert_int_equal(fi_domain(end->fabric, info, &end->domain, NULL), 0);
    assert_int_equal(fi_cq_open(end->domain, &cq_attr, &end->cq, NULL), 0);
    assert_int_equal(fi_av_open(end->domain, &av_attr, &end->av, NULL), 0);
    assert_int_equal(fi_endpoint(end->domain, info, &end->ep, NULL), 0);
    assert_int_equal(fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_ep_bind(end->ep, &end->av->fid, 0), 0);
    assert_int_equal(fi_enable(end->ep), 0);
    end->name_len = sizeof(end->name);
    assert_int_equal(fi_getname(&end->ep->fid, end->name, &end->name_len), 0);
}

/* The same; its queue is read without waiting. */
static inline void end_open(struct end *end, struct fi_info *info, enum fi_cq_format format)
{
    end_open_waiting(end, info, format, FI_WAIT_NONE);
}

/* The same at an address of its info's format; len 0: at any. */
static inline void end_open_at(struct end *end, struct fi_info *info, enum fi_cq_format format,
                               const uint8_t *name, size_t len)
{
    if (len) {
        free(info->src_addr);
        info->src_addr = malloc(len);
        assert_non_null(info->src_addr);
        memcpy(info->src_addr, name, len);
        info->src_addrlen = len;
    }
    end_open(end, info, format);
}

/* Each knows the other as its peer. */
static inline void end_meet(struct end *a, struct end *b)
{
    assert_int_equal(fi_av_insert(a->av, b->name, 1, &a->peer, 0, NULL), 1);
    assert_int_equal(fi_av_insert(b->av, a->name, 1, &b->peer, 0, NULL), 1);
}

/* Was a post taken? There may be no room now, but that is all. */
static inline bool end_took(ssize_t rc)
{
    if (rc != -FI_EAGAIN)
        assert_int_equal(rc, 0);
    return !rc;
}

static inline void end_close(struct end *end)
{
    assert_int_equal(fi_close(&end->ep->fid), 0);
    assert_int_equal(fi_close(&end->av->fid), 0);
    assert_int_equal(fi_close(&end->cq->fid), 0);
    assert_int_equal(fi_close(&end->domain->fid), 0);
    assert_int_equal(fi_close(&end->fabric->fid), 0);
    fi_freeinfo(end->info);
}

#endif
