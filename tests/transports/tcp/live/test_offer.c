/* SPDX-License-Identifier: BSD-2-Clause */
/* The infos of tcp, and that the addresses in them are used. */
#include "pair.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct fi_info *ask(const char *spec, uint32_t format, const char *node, const char *service,
                           uint64_t flags, int want)
{
    struct fi_info *hints = fi_allocinfo(), *list = NULL;

    hints->fabric_attr->prov_name = strdup(spec);
    hints->ep_attr->type = FI_EP_MSG;
    hints->addr_format = format;
    assert_int_equal(fi_getinfo(FI_VERSION(1, 20), node, service, flags, hints, &list), want);
    fi_freeinfo(hints);
    return list;
}

static void a_node_to_reach_becomes_the_destination(void **state)
{
    struct fi_info *list = ask("tcp", FI_FORMAT_UNSPEC, "127.0.0.1", "7471", 0, 0);

    for (struct fi_info *info = list; info; info = info->next) {
        const struct sockaddr_in *dest = info->dest_addr, *src = info->src_addr;

        assert_int_equal(info->addr_format, FI_SOCKADDR_IN);
        assert_int_equal(ntohs(dest->sin_port), 7471);
        assert_int_equal(dest->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
        assert_int_equal(src->sin_port, 0);
        assert_string_equal(info->domain_attr->name, "lo");
        assert_string_equal(info->fabric_attr->name, "127.0.0.0/8");
        assert_int_equal(info->ep_attr->protocol, FI_PROTO_SOCK_TCP);
        assert_non_null(info->nic);
    }
    fi_freeinfo(list);
}

static void a_source_is_an_interface_and_a_port(void **state)
{
    struct fi_info *list = ask("tcp", FI_FORMAT_UNSPEC, "127.0.0.1", "7471", FI_SOURCE, 0);

    for (struct fi_info *info = list; info; info = info->next) {
        const struct sockaddr_in *src = info->src_addr;

        assert_int_equal(ntohs(src->sin_port), 7471);
        assert_null(info->dest_addr);
    }
    fi_freeinfo(list);
    ask("tcp", FI_FORMAT_UNSPEC, "192.0.2.254", NULL, FI_SOURCE, -FI_ENODATA);
    /* A port alone is one of every interface. */
    list = ask("tcp", FI_SOCKADDR_IN6, NULL, "7471", FI_SOURCE, 0);
    assert_int_equal(((struct sockaddr_in6 *)list->src_addr)->sin6_port, htons(7471));
    fi_freeinfo(list);
}

static void tags_come_with_a_shared_context(void **state)
{
    struct fi_info *list = ask("tcp(iface=lo)", FI_SOCKADDR_IN, NULL, NULL, 0, 0);
    int plain = 0, shared = 0;

    for (struct fi_info *info = list; info; info = info->next) {
        bool is_shared = info->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT;

        assert_int_equal(!!(info->caps & FI_TAGGED), is_shared);
        assert_string_equal(info->domain_attr->name, "lo");
        plain += !is_shared;
        shared += is_shared;
    }
    assert_int_equal(plain, 1);
    assert_int_equal(shared, 1);
    fi_freeinfo(list);
}

/* Asked for tags, the endpoint may match them in a queue of its own, too; that keeps no order of
 * posting, so an application that does not ask is offered none. */
static void tags_that_are_asked_need_no_shared_context(void **state)
{
    struct fi_info *hints = fi_allocinfo(), *list;

    hints->fabric_attr->prov_name = strdup("tcp(iface=lo)");
    hints->ep_attr->type = FI_EP_MSG;
    hints->addr_format = FI_SOCKADDR_IN;
    hints->caps = FI_TAGGED;
    assert_int_equal(fi_getinfo(FI_VERSION(1, 20), NULL, NULL, 0, hints, &list), 0);
    assert_int_equal(list->ep_attr->rx_ctx_cnt, 1);
    assert_true(list->caps & FI_TAGGED);
    assert_false(list->rx_attr->comp_order & FI_ORDER_STRICT);
    assert_int_equal(list->next->ep_attr->rx_ctx_cnt, FI_SHARED_CONTEXT);
    fi_freeinfo(list);
    hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
    assert_int_equal(fi_getinfo(FI_VERSION(1, 20), NULL, NULL, 0, hints, &list), 0);
    assert_int_equal(list->ep_attr->rx_ctx_cnt, FI_SHARED_CONTEXT);
    assert_null(list->next);
    fi_freeinfo(list);
    fi_freeinfo(hints);
}

static struct fi_info *ask_order(uint64_t tx, uint64_t rx, size_t war_size)
{
    struct fi_info *hints = fi_allocinfo(), *list;

    hints->fabric_attr->prov_name = strdup("tcp(iface=lo)");
    hints->ep_attr->type = FI_EP_MSG;
    hints->addr_format = FI_SOCKADDR_IN;
    hints->tx_attr->msg_order = tx;
    hints->rx_attr->msg_order = rx;
    hints->ep_attr->max_order_war_size = war_size;
    assert_int_equal(fi_getinfo(FI_VERSION(1, 20), NULL, NULL, 0, hints, &list), 0);
    fi_freeinfo(hints);
    return list;
}

/* An application that opens an info as it came must not pay for them. */
static void orders_behind_reads_are_for_who_asks(void **state)
{
    static const uint64_t all = FI_ORDER_STRICT | FI_ORDER_RMA_RAR | FI_ORDER_RMA_RAW |
                                FI_ORDER_RMA_WAR | FI_ORDER_RMA_WAW | FI_ORDER_ATOMIC_RAR |
                                FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW;
    static const uint64_t costly = FI_ORDER_WAR | FI_ORDER_SAR | FI_ORDER_RMA_WAR;
    struct fi_info *list = ask_order(0, 0, 0);

    assert_int_equal(list->tx_attr->msg_order & costly, 0);
    assert_int_equal(list->rx_attr->msg_order & costly, 0);
    assert_true(list->tx_attr->msg_order & FI_ORDER_SAS);
    fi_freeinfo(list);
    for (int i = 0; i < 64; i++) {
        if (!(all >> i & 1))
            continue;
        list = ask_order(1ULL << i, 0, 0);
        assert_true(list->tx_attr->msg_order == 1ULL << i);
        fi_freeinfo(list);
        list = ask_order(0, 1ULL << i, 0);
        assert_true(list->rx_attr->msg_order == 1ULL << i);
        assert_int_equal(list->tx_attr->msg_order & costly, 0);
        fi_freeinfo(list);
    }
    list = ask_order(all, all, 0);
    assert_true(list->tx_attr->msg_order == all && list->rx_attr->msg_order == all);
    assert_true(list->ep_attr->max_order_war_size == SIZE_MAX);
    fi_freeinfo(list);
    list = ask_order(0, 0, 1 << 20);
    assert_true(list->tx_attr->msg_order & FI_ORDER_WAR);
    assert_true(list->ep_attr->max_order_war_size == SIZE_MAX);
    fi_freeinfo(list);
}

static void parameters_select(void **state)
{
    fi_freeinfo(ask("tcp(iface=127.0.0.0/8)", FI_FORMAT_UNSPEC, NULL, NULL, 0, 0));
    ask("tcp(iface=nosuch0)", FI_FORMAT_UNSPEC, NULL, NULL, 0, -FI_ENODATA);
    ask("tcp(iface=lo)", FI_FORMAT_UNSPEC, "192.0.2.1", NULL, 0, -FI_ENODATA);
    struct fi_info *list =
        ask("tcp(tx_size=77,max_inject=200)", FI_FORMAT_UNSPEC, NULL, NULL, 0, 0);
    assert_int_equal(list->tx_attr->size, 77);
    assert_int_equal(list->tx_attr->inject_size, 200);
    fi_freeinfo(list);
}

/* The first of two free ports in a row. */
static unsigned free_ports(void)
{
    for (;;) {
        struct sockaddr_in address, next;
        int fd = raw_listen(&address);
        int other = socket(AF_INET, SOCK_STREAM, 0);

        next = address;
        next.sin_port = htons((uint16_t)(ntohs(address.sin_port) + 1));
        int rc = next.sin_port ? bind(other, (struct sockaddr *)&next, sizeof(next)) : -1;
        close(other);
        close(fd);
        if (!rc)
            return ntohs(address.sin_port);
    }
}

static void listeners_stay_in_the_port_range(void **state)
{
    struct pair first, second;
    unsigned low = free_ports();
    char spec[80];
    struct options options = {.spec = spec};
    uint16_t ports[2];

    snprintf(spec, sizeof(spec), "tcp(port_low_range=%u,port_high_range=%u)", low, low + 1);

    pair_listen(&first, &options);
    pair_listen(&second, &options);
    ports[0] = ntohs(((struct sockaddr_in *)&first.address)->sin_port);
    ports[1] = ntohs(((struct sockaddr_in *)&second.address)->sin_port);
    assert_int_equal((unsigned)ports[0] + ports[1], low + low + 1);
    struct fid_pep *third;
    assert_int_equal(fi_passive_ep(second.fabric, second.info, &third, NULL), 0);
    assert_int_equal(fi_pep_bind(third, &second.eq->fid, 0), 0);
    assert_int_equal(fi_listen(third), -FI_EADDRINUSE);
    assert_int_equal(fi_close(&third->fid), 0);
    pair_close(&first);
    pair_close(&second);
}

static void text_addresses_connect(void **state)
{
    struct fi_info *list = ask("tcp", FI_ADDR_STR, "127.0.0.1", NULL, FI_SOURCE, 0);
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_UNSPEC};
    struct pair pair = {.info = list};
    struct fi_eq_cm_entry entry;
    char name[128] = "", peer[128] = "";
    size_t len = 5;

    assert_int_equal(list->addr_format, FI_ADDR_STR);
    assert_string_equal(list->src_addr, "fi_sockaddr_in://127.0.0.1:0");
    assert_int_equal(fi_fabric(list->fabric_attr, &pair.fabric, NULL), 0);
    assert_int_equal(fi_eq_open(pair.fabric, &eq_attr, &pair.eq, NULL), 0);
    assert_int_equal(fi_passive_ep(pair.fabric, list, &pair.pep, NULL), 0);
    assert_int_equal(fi_pep_bind(pair.pep, &pair.eq->fid, 0), 0);
    assert_int_equal(fi_listen(pair.pep), 0);
    assert_int_equal(fi_getname(&pair.pep->fid, name, &len), -FI_ETOOSMALL);
    assert_in_range(len, 25, 40);
    assert_int_equal(fi_getname(&pair.pep->fid, name, &len), 0);
    assert_int_equal(strncmp(name, "fi_sockaddr_in://127.0.0.1:", 27), 0);
    side_open(&pair, &pair.a, list);
    assert_int_equal(fi_connect(pair.a.ep, "no address", NULL, 0), -FI_EINVAL);
    assert_int_equal(fi_connect(pair.a.ep, name, NULL, 0), 0);
    expect_event(&pair, FI_CONNREQ, &entry);
    assert_int_equal(entry.info->addr_format, FI_ADDR_STR);
    side_open(&pair, &pair.b, entry.info);
    fi_freeinfo(entry.info);
    assert_int_equal(fi_accept(pair.b.ep, NULL, 0), 0);
    expect_event(&pair, FI_CONNECTED, &entry);
    expect_event(&pair, FI_CONNECTED, &entry);
    len = sizeof(peer);
    assert_int_equal(fi_getpeer(pair.a.ep, peer, &len), 0);
    assert_string_equal(peer, name);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_to_reach_becomes_the_destination),
        cmocka_unit_test(a_source_is_an_interface_and_a_port),
        cmocka_unit_test(tags_come_with_a_shared_context),
        cmocka_unit_test(tags_that_are_asked_need_no_shared_context),
        cmocka_unit_test(orders_behind_reads_are_for_who_asks),
        cmocka_unit_test(parameters_select),
        cmocka_unit_test(listeners_stay_in_the_port_range),
        cmocka_unit_test(text_addresses_connect),
    };
    return cmocka_run_group_tests_name("tcp offer", tests, NULL, NULL);
}
