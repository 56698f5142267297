/* SPDX-License-Identifier: BSD-2-Clause */
/* The infos of udp, and addresses that are gone by the time they are used. */
#include "ends.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

static void the_attributes_are_those_of_datagrams(void **state)
{
    struct fi_info *info = ask(&(struct options){0});

    assert_non_null(info);
    assert_int_equal(info->ep_attr->type, FI_EP_DGRAM);
    assert_int_equal(info->ep_attr->protocol, FI_PROTO_UDP);
    assert_int_equal(info->ep_attr->max_msg_size, 65507);
    assert_int_equal(info->tx_attr->inject_size, 65507);
    assert_int_equal(info->tx_attr->msg_order, FI_ORDER_NONE);
    assert_int_equal(info->mode, 0);
    assert_int_equal(info->domain_attr->mr_mode, 0);
    assert_string_equal(info->domain_attr->name, "lo");
    assert_string_equal(info->fabric_attr->name, "127.0.0.0/8");
    assert_non_null(info->nic);
    fi_freeinfo(info);
}

static struct fi_info *ask_for(uint64_t caps, size_t data)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;

    hints->fabric_attr->prov_name = strdup("udp");
    hints->ep_attr->type = FI_EP_DGRAM; /* rxd has the others over it */
    hints->caps = caps;
    hints->domain_attr->cq_data_size = data;
    if (fi_getinfo(FI_VERSION(1, 20), NULL, NULL, 0, hints, &info))
        info = NULL;
    fi_freeinfo(hints);
    return info;
}

static void what_datagrams_cannot_do_is_not_offered(void **state)
{
    const uint64_t lacking[] = {FI_TAGGED, FI_RMA, FI_ATOMIC, FI_DIRECTED_RECV, FI_FENCE};
    const uint64_t there = FI_MSG | FI_MULTICAST | FI_SOURCE | FI_SOURCE_ERR | FI_MULTI_RECV |
                           FI_LOCAL_COMM | FI_REMOTE_COMM | FI_AV_USER_ID | FI_SHARED_AV;
    struct fi_info *info;

    for (size_t i = 0; i < sizeof(lacking) / sizeof(lacking[0]); i++)
        assert_null(ask_for(lacking[i], 0));
    info = ask_for(there, 0);
    assert_non_null(info);
    assert_int_equal(info->caps & there, there);
    fi_freeinfo(info);
}

/* Without FI_PROVIDER, for hints that want datagrams, it is the first; others are where they were.
 * */
static void it_is_found_without_its_name(void **state)
{
    struct fi_info *hints = fi_allocinfo(), *list = NULL;
    bool datagrams = false;

    hints->ep_attr->type = FI_EP_DGRAM;
    assert_int_equal(fi_getinfo(FI_VERSION(1, 20), NULL, NULL, 0, hints, &list), 0);
    assert_string_equal(list->fabric_attr->prov_name, "udp");
    fi_freeinfo(list);
    fi_freeinfo(hints);
    assert_int_equal(fi_getinfo(FI_VERSION(1, 20), NULL, NULL, 0, NULL, &list), 0);
    for (struct fi_info *info = list; info; info = info->next) {
        /* Reliable ones first, connected ones last: as upstream lists them. */
        assert_false(datagrams && info->ep_attr->type == FI_EP_RDM);
        datagrams = datagrams || info->ep_attr->type == FI_EP_DGRAM;
        assert_int_equal(!strcmp(info->fabric_attr->prov_name, "udp"),
                         info->ep_attr->type == FI_EP_DGRAM);
    }
    assert_true(datagrams);
    fi_freeinfo(list);
}

static void an_interface_that_is_not_there_gives_nothing(void **state)
{
    assert_null(ask(&(struct options){.spec = "udp(iface=nosuch0)"}));
    assert_null(ask(&(struct options){.node = "192.0.2.254"}));
}

/* It was there when fi_getinfo was asked. */
static void an_address_that_is_gone_is_an_error(void **state)
{
    struct fi_info *info = ask(&(struct options){0});
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_ep *ep;

    assert_int_equal(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
    assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
    ((struct sockaddr_in *)info->src_addr)->sin_addr.s_addr = htonl(0xc00002fe);
    assert_int_equal(fi_endpoint(domain, info, &ep, NULL), -FI_EADDRNOTAVAIL);
    info->ep_attr->type = FI_EP_RDM;
    assert_int_equal(fi_endpoint(domain, info, &ep, NULL), -FI_EINVAL);
    assert_int_equal(fi_close(&domain->fid), 0);
    assert_int_equal(fi_close(&fabric->fid), 0);
    fi_freeinfo(info);
}

static void ports_are_of_the_range(void **state)
{
    struct options options = {.spec = "udp(port_low_range=27100,port_high_range=27101)"};
    struct sockaddr_in addr;
    size_t len = sizeof(addr);
    struct fid_ep *third;

    ends_open(&options);
    assert_int_equal(fi_getname(&a.ep->fid, &addr, &len), 0);
    assert_in_range(ntohs(addr.sin_port), 27100, 27101);
    assert_int_equal(fi_endpoint(a.domain, a.info, &third, NULL), -FI_EADDRINUSE);
    ends_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_attributes_are_those_of_datagrams),
        cmocka_unit_test(what_datagrams_cannot_do_is_not_offered),
        cmocka_unit_test(it_is_found_without_its_name),
        cmocka_unit_test(an_interface_that_is_not_there_gives_nothing),
        cmocka_unit_test(an_address_that_is_gone_is_an_error),
        cmocka_unit_test(ports_are_of_the_range),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
