/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_log.h>

#include "core/info/info.h"
#include "core/info/names.h"
#include "core/info/nic.h"
#include "core/info/tostr.h"

static const char *flags(uint64_t value, enum fi_type type)
{
    return fi_tostr(&value, type);
}

static const char *value(uint32_t number, enum fi_type type)
{
    return fi_tostr(&number, type);
}

static void flags_are_listed_in_the_known_order(void **state)
{
    assert_string_equal(flags(0, FI_TYPE_CAPS), "");
    assert_string_equal(flags(FI_SEND | FI_RECV | FI_MSG, FI_TYPE_CAPS),
                        "FI_MSG, FI_RECV, FI_SEND");
    assert_string_equal(flags(FI_CONTEXT2 | FI_CONTEXT, FI_TYPE_MODE), "FI_CONTEXT, FI_CONTEXT2");
    assert_string_equal(flags(FI_ORDER_SAS | FI_ORDER_RAR, FI_TYPE_MSG_ORDER),
                        "FI_ORDER_RAR, FI_ORDER_SAS");
    assert_string_equal(flags(FI_INJECT | FI_MORE, FI_TYPE_OP_FLAGS), "FI_MORE, FI_INJECT");
    assert_string_equal(flags(FI_SEND | FI_TAGGED, FI_TYPE_CQ_EVENT_FLAGS), "FI_SEND, FI_TAGGED");
    assert_string_equal(value(FI_MR_VIRT_ADDR | FI_MR_LOCAL, FI_TYPE_MR_MODE),
                        "FI_MR_LOCAL, FI_MR_VIRT_ADDR");
}

static void values_have_their_names(void **state)
{
    assert_string_equal(value(FI_EP_RDM, FI_TYPE_EP_TYPE), "FI_EP_RDM");
    assert_string_equal(value(FI_PROTO_XNET, FI_TYPE_PROTOCOL), "FI_PROTO_XNET");
    assert_string_equal(value(0x80000001, FI_TYPE_PROTOCOL), "Provider specific");
    assert_string_equal(value(FI_PROGRESS_CONTROL_UNIFIED, FI_TYPE_PROGRESS),
                        "FI_PROGRESS_CONTROL_UNIFIED");
    assert_string_equal(value(FI_BFLOAT16, FI_TYPE_ATOMIC_TYPE), "FI_BFLOAT16");
    assert_string_equal(value(FI_CONNREQ, FI_TYPE_EQ_EVENT), "FI_CONNREQ");
    assert_string_equal(value(FI_LOG_DEBUG, FI_TYPE_LOG_LEVEL), "debug");
    assert_string_equal(value(FI_WAIT_POLLFD, FI_TYPE_WAIT_OBJ), "FI_WAIT_POLLFD");
    assert_string_equal(value(999, FI_TYPE_EP_TYPE), "Unknown");
    assert_string_equal(value(0, (enum fi_type)999), "Unknown type");
}

static void every_type_of_the_header_is_handled(void **state)
{
    static uint64_t zeros[64];

    for (int type = FI_TYPE_INFO; type <= FI_TYPE_WAIT_OBJ; type++)
        assert_string_not_equal(fi_tostr(zeros, (enum fi_type)type), "Unknown type");
}

static void the_version_is_that_of_the_api(void **state)
{
    assert_string_equal(fi_tostr(NULL, FI_TYPE_VERSION), "2.6.0");
}

static void an_info_prints_in_the_known_layout(void **state)
{
    static const char *const lines[] = {
        "fi_info:\n    caps: [ FI_MSG, FI_RMA ]\n    mode: [  ]\n    addr_format: FI_SOCKADDR_IN\n",
        "    src_addr: fi_sockaddr_in://10.0.0.1:7471\n    dest_addr: (null)\n    handle: (nil)\n",
        "    fi_tx_attr:\n        caps: [  ]\n        mode: [  ]\n        op_flags: [  ]\n",
        "        msg_order: [  ]\n        inject_size: 64\n",
        "    fi_ep_attr:\n        type: FI_EP_MSG\n        protocol: FI_PROTO_SOCK_TCP\n",
        "        mem_tag_format: 0xaaaaaaaaaaaaaaaa\n",
        "    fi_domain_attr:\n        domain: 0x0\n        name: eth0\n",
        "        threading: FI_THREAD_SAFE\n",
        "        mr_mode: [ FI_MR_LOCAL ]\n",
        "    fi_fabric_attr:\n        name: (null)\n        prov_name: tcp\n"
        "        prov_version: 116.0\n        api_version: 1.16\n    nic: (nil)\n",
    };
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(7471)};
    struct fi_info *info = info_alloc();
    const char *text, *at;

    inet_pton(AF_INET, "10.0.0.1", &in.sin_addr);
    info->caps = FI_MSG | FI_RMA;
    info->addr_format = FI_SOCKADDR_IN;
    info_set_src(info, &in, sizeof(in));
    info->tx_attr->inject_size = 64;
    info->ep_attr->type = FI_EP_MSG;
    info->ep_attr->protocol = FI_PROTO_SOCK_TCP;
    info->ep_attr->mem_tag_format = 0xaaaaaaaaaaaaaaaa;
    info_set_string(&info->domain_attr->name, "eth0");
    info->domain_attr->threading = FI_THREAD_SAFE;
    info->domain_attr->mr_mode = FI_MR_LOCAL;
    info_set_string(&info->fabric_attr->prov_name, "tcp");
    info->fabric_attr->prov_version = FI_VERSION(116, 0);
    info->fabric_attr->api_version = FI_VERSION(1, 16);
    at = text = fi_tostr(info, FI_TYPE_INFO);
    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
        at = strstr(at, lines[i]);
        if (!at)
            fail_msg("not found, or out of order:\n%s\nin:\n%s", lines[i], text);
    }
    info_free(info);
}

static void a_nic_prints_its_attributes(void **state)
{
    struct fi_info *info = info_alloc();
    const char *text;

    info->nic = nic_create();
    info->nic->device_attr->name = strdup("mlx5_0");
    info->nic->link_attr->state = FI_LINK_UP;
    info->nic->link_attr->mtu = 4096;
    info->nic->bus_attr->bus_type = FI_BUS_PCI;
    info->nic->bus_attr->attr.pci.bus_id = 3;
    text = fi_tostr(info, FI_TYPE_INFO);
    assert_non_null(strstr(text, "    nic:\n        fi_device_attr:\n            name: mlx5_0\n"));
    assert_non_null(strstr(text, "            driver: (null)\n"));
    assert_non_null(strstr(text, "            fi_pci_attr:\n                domain_id: 0\n"
                                 "                bus_id: 3\n"));
    assert_non_null(strstr(text, "            mtu: 4096\n            speed: 0\n"
                                 "            state: FI_LINK_UP\n"));
    info_free(info);
}

static void addresses_of_each_format_print(void **state)
{
    static const struct {
        uint32_t format;
        unsigned char bytes[32];
        size_t len;
        const char *text;
    } cases[] = {
        {FI_SOCKADDR, {AF_INET, 0, 3, 4, 5, 6, 7, 8}, 16, "fi_sockaddr_in://5.6.7.8:772"},
        {FI_SOCKADDR_IN6,
         {AF_INET6, 0, 3, 4, 0, 0, 0, 0, 0xfe, 0x80},
         28,
         "fi_sockaddr_in6://[fe80::]:772"},
        {FI_ADDR_STR, "fi_shm://12", 12, "fi_shm://12"},
        {FI_SOCKADDR_IN, {AF_INET}, 3, "fi_sockaddr://family 2, 3 bytes"},
        {FI_ADDR_CXI, {1, 2, 3, 4}, 4, "fi_addr_cxi://0x04030201"},
        {FI_ADDR_EFA, {1, 2}, 2, "fi_addr_efa://[]:0:0"},
        {FI_ADDR_UCX, {1, 0xff}, 2, "2 bytes: 01ff"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct fi_info *info = info_alloc();
        char expected[128];

        info->addr_format = cases[i].format;
        info_set_src(info, cases[i].bytes, cases[i].len);
        snprintf(expected, sizeof(expected), "    src_addr: %s\n", cases[i].text);
        if (!strstr(fi_tostr(info, FI_TYPE_INFO), expected))
            fail_msg("no %s in %s", expected, fi_tostr(info, FI_TYPE_INFO));
        info_free(info);
    }
}

static void an_error_entry_says_what_its_code_means(void **state)
{
    struct fi_cq_err_entry entry = {.err = FI_ECANCELED, .flags = FI_SEND, .tag = 7};
    const char *text = fi_tostr(&entry, FI_TYPE_CQ_ERR_ENTRY);

    assert_non_null(strstr(text, "    flags: [ FI_SEND ]\n"));
    assert_non_null(strstr(text, "    err: 125 (Operation canceled)\n"));
}

static void text_is_cut_to_the_buffer(void **state)
{
    uint64_t caps = FI_MSG | FI_RMA;
    struct fi_info *info = info_alloc();
    char text[64];

    memset(text, '#', sizeof(text));
    assert_ptr_equal(fi_tostr_r(text, 10, &caps, FI_TYPE_CAPS), text);
    assert_string_equal(text, "FI_MSG, F");
    assert_int_equal(text[10], '#');
    assert_null(fi_tostr_r(text, 0, &caps, FI_TYPE_CAPS));
    for (size_t size = 1; size < sizeof(text); size++) {
        memset(text, '#', sizeof(text));
        fi_tostr_r(text, size, info, FI_TYPE_INFO);
        assert_int_equal(strlen(text), size - 1);
        assert_int_equal(text[size], '#');
    }
    info_free(info);
}

static void *other_thread(void *arg)
{
    return fi_tostr(&(uint64_t){FI_RMA}, FI_TYPE_CAPS);
}

static void each_thread_has_a_buffer_of_its_own(void **state)
{
    const char *mine = flags(FI_MSG, FI_TYPE_CAPS);
    pthread_t thread;
    void *theirs;

    assert_int_equal(pthread_create(&thread, NULL, other_thread, NULL), 0);
    pthread_join(thread, &theirs);
    assert_ptr_not_equal(theirs, mine);
    assert_string_equal(mine, "FI_MSG");
}

static void sentences_name_bits_without_a_name(void **state)
{
    char text[TOSTR_MAX];

    assert_string_equal(tostr_value(text, sizeof(text), FI_TYPE_CAPS, FI_MSG | 1), "FI_MSG, 0x1");
    assert_string_equal(tostr_value(text, sizeof(text), FI_TYPE_CAPS, 0), "none");
    assert_string_equal(tostr_value(text, sizeof(text), FI_TYPE_EP_TYPE, 77), "77");
}

static void no_two_flags_of_a_table_share_a_bit(void **state)
{
    for (int type = 0; type <= FI_TYPE_WAIT_OBJ; type++) {
        const struct name_table *table = names_of((enum fi_type)type);
        uint64_t seen = 0;

        for (const struct name *name = table && table->flags ? table->names : NULL;
             name && name->text; name++) {
            assert_int_equal(seen & name->value, 0);
            seen |= name->value;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags_are_listed_in_the_known_order),
        cmocka_unit_test(values_have_their_names),
        cmocka_unit_test(every_type_of_the_header_is_handled),
        cmocka_unit_test(the_version_is_that_of_the_api),
        cmocka_unit_test(an_info_prints_in_the_known_layout),
        cmocka_unit_test(a_nic_prints_its_attributes),
        cmocka_unit_test(addresses_of_each_format_print),
        cmocka_unit_test(an_error_entry_says_what_its_code_means),
        cmocka_unit_test(text_is_cut_to_the_buffer),
        cmocka_unit_test(each_thread_has_a_buffer_of_its_own),
        cmocka_unit_test(sentences_name_bits_without_a_name),
        cmocka_unit_test(no_two_flags_of_a_table_share_a_bit),
    };

    return cmocka_run_group_tests_name("tostr", tests, NULL, NULL);
}
