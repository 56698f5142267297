/* SPDX-License-Identifier: BSD-2-Clause */
/* Allocation number N fails, for N = 1, 2, ... until none does, in the life of two endpoints that
 * exchange a message: an error at the call concerned, or another try; nothing left behind. */
#include "nomem.h"
#include "rdm.h"

#if NOMEM_WORKS
struct end {
    struct fid_domain *domain;
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    fi_addr_t peer;
};

static void close_fid(struct fid *fid)
{
    if (fid)
        assert_int_equal(fi_close(fid), 0);
}

static void end_close(struct end *end)
{
    close_fid(end->ep ? &end->ep->fid : NULL);
    close_fid(end->cq ? &end->cq->fid : NULL);
    close_fid(end->av ? &end->av->fid : NULL);
}

static int end_open(struct end *end, struct fi_info *info, struct fid_domain *domain)
{
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_FD};
    int rc = fi_endpoint(domain, info, &end->ep, NULL);

    if (!rc)
        rc = fi_av_open(domain, &av_attr, &end->av, NULL);
    if (!rc)
        rc = fi_cq_open(domain, &cq_attr, &end->cq, NULL);
    if (!rc)
        rc = fi_ep_bind(end->ep, &end->av->fid, 0);
    if (!rc)
        rc = fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV);
    return rc ? rc : fi_enable(end->ep);
}

static int introduce(struct end *end, struct end *to)
{
    struct sockaddr_in name;
    size_t len = sizeof(name);
    int rc = fi_getname(&to->ep->fid, &name, &len);

    if (rc)
        return rc;
    return fi_av_insert(end->av, &name, 1, &end->peer, 0, NULL) == 1 ? 0 : -FI_ENOMEM;
}

static int take(struct end *end)
{
    struct fi_cq_err_entry error = {.err_data_size = 0};
    struct fi_cq_tagged_entry entry;
    ssize_t rc = fi_cq_read(end->cq, &entry, 1);

    if (rc == 1)
        return 1;
    if (rc == -FI_EAVAIL)
        return fi_cq_readerr(end->cq, &error, 0) == 1 ? -1 : 0;
    assert_int_equal(rc, -FI_EAGAIN);
    return 0;
}

/* A message and its unexpected twin; true when both ends have all, false when something failed. */
static bool exchange(struct end *a, struct end *b)
{
    static char in[2][8];
    long long limit = rdm_now_ms() + 10000;
    int posted = 0, sent = 0, got = 0, rc = 0;

    while (got < 4 && rc >= 0 && rdm_now_ms() < limit) {
        if (sent < 2 && !fi_tsend(a->ep, "payload", 8, NULL, a->peer, 1, NULL))
            sent++;
        if (posted < (sent == 2 ? 2 : 1) &&
            !fi_trecv(b->ep, in[posted], 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL))
            posted++;
        rc = take(a);
        got += rc > 0;
        if (rc >= 0) {
            rc = take(b);
            got += rc > 0;
        }
    }
    return got == 4;
}

static bool live_two_lives(struct fi_info *info)
{
    struct end a = {NULL}, b = {NULL};
    struct fid_fabric *fabric = NULL;
    struct fid_domain *domain = NULL;
    bool done = false;
    int rc = fi_fabric(info->fabric_attr, &fabric, NULL);

    if (!rc)
        rc = fi_domain(fabric, info, &domain, NULL);
    if (!rc)
        rc = end_open(&a, info, domain);
    if (!rc)
        rc = end_open(&b, info, domain);
    if (!rc)
        rc = introduce(&a, &b);
    if (!rc)
        done = exchange(&a, &b);
    assert_true(rc <= 0);
    end_close(&a);
    end_close(&b);
    close_fid(domain ? &domain->fid : NULL);
    close_fid(fabric ? &fabric->fid : NULL);
    return done;
}

static void sweep(const char *spec)
{
    struct rdm_net net;
    long before, failed = 0;
    int n = 0;

    rdm_net_open(&net, spec, 0);
    assert_true(live_two_lives(net.info)); /* what is made once is made */
    before = nomem_live;
    do {
        nomem_at = ++n;
        if (!live_two_lives(net.info))
            failed++;
        if (nomem_live > before)
            fail_msg("allocation %d: %ld left behind", n, nomem_live - before);
    } while (!nomem_at && n < 5000);
    nomem_at = 0;
    assert_in_range(n, 50, 4999);
    assert_in_range(failed, 10, n);
    rdm_net_close(&net);
}

static void every_allocation_may_fail(void **state)
{
    sweep("rxm(tags=pass);tcp");
}

static void every_allocation_may_fail_with_packets(void **state)
{
    sweep("rxm(tags=emulate);tcp");
}
#endif

int main(void)
{
#if NOMEM_WORKS
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(every_allocation_may_fail_with_packets),
    };

    return cmocka_run_group_tests_name("rxm_nomem", tests, NULL, NULL);
#else
    return 77;
#endif
}
