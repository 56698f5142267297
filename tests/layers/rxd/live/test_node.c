/* SPDX-License-Identifier: BSD-2-Clause */
/* An endpoint that is found by a node and a service, over a lower whose addresses say more than
 * those (uet's have capabilities, and an initiator): rxd and srd take its packets for those of the
 * address that the application has. */
#include <stdio.h>
#include <unistd.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "tests/support/end.h"
#include "tests/support/patience.h"

enum {
    LEN = 100000,
    TRIES = 50 /* of services that others may have */
};

static uint8_t out[LEN], in[LEN];

static struct fi_info *at_service(const char *spec, unsigned service, uint64_t flags)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;
    char text[16];

    assert_non_null(hints);
    hints->caps = FI_MSG | FI_TAGGED;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = strdup(spec);
    snprintf(text, sizeof(text), "%u", service);
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), "127.0.0.1", text, flags, hints, &info), 0);
    fi_freeinfo(hints);
    return info;
}

/* The service that it got. */
static unsigned open_server(const char *spec, struct end *server)
{
    for (unsigned i = 0; i < TRIES; i++) {
        unsigned service = 200 + ((unsigned)getpid() + 7 * i) % 3500;
        struct fi_info *info = at_service(spec, service, FI_SOURCE);
        struct fid_fabric *fabric;
        struct fid_domain *domain;
        struct fid_ep *ep;
        int rc;

        assert_int_equal(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
        assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
        rc = fi_endpoint(domain, info, &ep, NULL);
        if (!rc)
            fi_close(&ep->fid);
        fi_close(&domain->fid);
        fi_close(&fabric->fid);
        if (rc) {
            fi_freeinfo(info);
            continue;
        }
        end_open(server, info, FI_CQ_FORMAT_TAGGED);
        return service;
    }
    fail_msg("no service is free");
    return 0;
}

static void pass(struct end *from, fi_addr_t to, struct end *at, size_t len)
{
    struct fi_cq_tagged_entry entry;
    unsigned ended = 0;

    memset(in, 0, sizeof(in));
    assert_int_equal(fi_trecv(at->ep, in, len, NULL, FI_ADDR_UNSPEC, 1, 0, in), 0);
    while (fi_tsend(from->ep, out, len, NULL, to, 1, out) == -FI_EAGAIN)
        fi_cq_read(at->cq, NULL, 0);
    for (struct patience p = {0}; ended < 2;) {
        assert_true(patience_lasts(&p));
        ended += fi_cq_read(from->cq, &entry, 1) == 1;
        ended += fi_cq_read(at->cq, &entry, 1) == 1;
    }
    assert_memory_equal(in, out, len);
}

static void both_ways(const char *spec)
{
    struct end server, client;
    unsigned service = open_server(spec, &server);
    struct fi_info *info = at_service(spec, service, 0);
    fi_addr_t to_server, to_client;

    assert_non_null(info->dest_addr);
    assert_memory_not_equal(info->dest_addr, server.name, server.name_len);
    end_open(&client, fi_dupinfo(info), FI_CQ_FORMAT_TAGGED);
    assert_int_equal(fi_av_insert(client.av, info->dest_addr, 1, &to_server, 0, NULL), 1);
    pass(&client, to_server, &server, 8);
    assert_int_equal(fi_av_insert(server.av, client.name, 1, &to_client, 0, NULL), 1);
    for (size_t len = 1; len <= LEN; len *= 10) {
        pass(&server, to_client, &client, len);
        pass(&client, to_server, &server, len);
    }
    fi_freeinfo(info);
    end_close(&client);
    end_close(&server);
}

static void of_rxd(void **state)
{
    both_ways("rxd;uet(profile=ai-base)");
}

static void of_srd(void **state)
{
    both_ways("srd;uet(profile=ai-base)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_rxd),
        cmocka_unit_test(of_srd),
    };

    for (size_t i = 0; i < sizeof(out); i++)
        out[i] = (uint8_t)(i * 7 + i / 255);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
