/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters are bound to an endpoint that is enabled already, as Sandia OpenSHMEM does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_cq *cq;
static struct fid_av *av;
static struct fid_ep *ep;
static fi_addr_t self;

static void open_endpoint(void)
{
    struct fi_info *hints = fi_allocinfo();
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    char name[128];
    size_t len = sizeof(name);

    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = strdup("loop");
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &info), 0);
    fi_freeinfo(hints);
    assert_int_equal(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
    assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
    assert_int_equal(fi_cq_open(domain, &cq_attr, &cq, NULL), 0);
    assert_int_equal(fi_av_open(domain, &av_attr, &av, NULL), 0);
    assert_int_equal(fi_endpoint(domain, info, &ep, NULL), 0);
    assert_int_equal(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_ep_bind(ep, &av->fid, 0), 0);
    assert_int_equal(fi_enable(ep), 0);
    assert_int_equal(fi_getname(&ep->fid, name, &len), 0);
    assert_int_equal(fi_av_insert(av, name, 1, &self, 0, NULL), 1);
}

static void what_counts_is_bound_late(void **state)
{
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
    struct fi_cq_tagged_entry entry;
    struct fid_cntr *cntr;
    struct fid_stx *stx;
    char in;

    open_endpoint();
    assert_int_equal(fi_cntr_open(domain, &attr, &cntr, NULL), 0);
    assert_int_equal(fi_stx_context(domain, info->tx_attr, &stx, NULL), 0);
    assert_int_equal(fi_ep_bind(ep, &cntr->fid, FI_RECV), 0);
    assert_int_equal(fi_ep_bind(ep, &cntr->fid, FI_RECV), -FI_EINVAL);
    assert_int_equal(fi_ep_bind(ep, &stx->fid, 0), 0);
    assert_int_equal(fi_ep_bind(ep, &cq->fid, FI_RECV), -FI_EOPBADSTATE);
    assert_int_equal(fi_recv(ep, &in, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
    assert_int_equal(fi_inject(ep, "x", 1, self), 0);
    while (fi_cq_read(cq, &entry, 1) == -FI_EAGAIN)
        ;
    assert_int_equal(fi_cntr_read(cntr), 1);
    assert_int_equal(fi_close(&ep->fid), 0);
    assert_int_equal(fi_close(&cntr->fid), 0);
    assert_int_equal(fi_close(&stx->fid), 0);
    assert_int_equal(fi_close(&cq->fid), 0);
    assert_int_equal(fi_close(&av->fid), 0);
    assert_int_equal(fi_close(&domain->fid), 0);
    assert_int_equal(fi_close(&fabric->fid), 0);
    fi_freeinfo(info);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_counts_is_bound_late),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
