/* SPDX-License-Identifier: BSD-2-Clause */
/* Infos have the interface (struct fid_nic), and offer nothing that cannot be opened. */
#include <net/if.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_uet.h>

static size_t mtu_of(const char *name)
{
    struct ifreq request = {.ifr_mtu = 0};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    strncpy(request.ifr_name, name, sizeof(request.ifr_name) - 1);
    assert_int_equal(ioctl(fd, SIOCGIFMTU, &request), 0);
    close(fd);
    return (size_t)request.ifr_mtu;
}

static void check_nic(const struct fi_info *info)
{
    const struct fid_nic *nic = info->nic;

    assert_non_null(nic);
    assert_int_equal(nic->fid.fclass, FI_CLASS_NIC);
    assert_string_equal(nic->device_attr->name, info->domain_attr->name);
    assert_int_equal(nic->link_attr->mtu, mtu_of(info->domain_attr->name));
    assert_int_equal(nic->link_attr->state, FI_LINK_UP);
    assert_string_equal(nic->link_attr->network_type, "Ethernet");
    assert_int_equal(nic->bus_attr->bus_type, FI_BUS_UNKNOWN);
}

static void each_info_has_its_interface(void **state)
{
    struct fi_info *hints = fi_allocinfo(), *list, *copy;
    unsigned found = 0;

    hints->fabric_attr->prov_name = strdup("uet(iface=lo|*)");
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &list), 0);
    for (struct fi_info *info = list; info; info = info->next) {
        check_nic(info);
        if (!strcmp(info->nic->link_attr->address, "127.0.0.1")) {
            assert_string_equal(info->nic->device_attr->name, "lo");
            found++;
        }
        copy = fi_dupinfo(info);
        check_nic(copy);
        assert_ptr_not_equal(copy->nic, info->nic);
        assert_string_equal(copy->nic->link_attr->address, info->nic->link_attr->address);
        fi_freeinfo(copy);
    }
    assert_true(found > 0);
    fi_freeinfo(list);
    fi_freeinfo(hints);
}

/* One that is at all addresses has none. */
static void the_any_address_has_no_interface(void **state)
{
    struct fi_info *hints = fi_allocinfo(), *list;

    hints->fabric_attr->prov_name = strdup("uet");
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), NULL, "5000", FI_SOURCE, hints, &list), 0);
    assert_null(list->nic);
    fi_freeinfo(list);
    fi_freeinfo(hints);
}

/* arq, which rxd puts above datagrams, knows no addresses of this form: what it made of them could
 * not be enabled. */
static void packets_of_datagrams_are_not_offered(void **state)
{
    static const char *const specs[] = {"uet", "rxd;uet", "rxd;arq;uet"};
    struct fi_info *hints = fi_allocinfo(), *list;

    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG | FI_NAMED_RX_CTX;
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        hints->fabric_attr->prov_name = strdup(specs[i]);
        assert_int_equal(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &list), -FI_ENODATA);
        free(hints->fabric_attr->prov_name);
    }
    hints->fabric_attr->prov_name = strdup("rxd;uet(profile=ai-base)");
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &list), 0);
    assert_true(list->domain_attr->max_ep_rx_ctx > 1);
    fi_freeinfo(list);
    fi_freeinfo(hints);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_info_has_its_interface),
        cmocka_unit_test(the_any_address_has_no_interface),
        cmocka_unit_test(packets_of_datagrams_are_not_offered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
