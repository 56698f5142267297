/* SPDX-License-Identifier: BSD-2-Clause */
/* A server that names a port and no address: which infos it gets, and that peers reach it at every
 * address of the host and are known by theirs. */
#include "pair.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../../support/end.h"
#include "../../../support/other_host.h"

enum {
    LIMIT_MS = 60000
};

static struct fi_info *hints_of(const char *spec, enum fi_ep_type type, uint32_t format)
{
    struct fi_info *hints = fi_allocinfo();

    hints->fabric_attr->prov_name = strdup(spec);
    hints->ep_attr->type = type;
    hints->caps = type == FI_EP_RDM ? FI_MSG | FI_TAGGED | FI_SOURCE : FI_MSG;
    hints->addr_format = format;
    return hints;
}

static struct fi_info *ask(struct fi_info *hints, const char *node, const char *service,
                           uint64_t flags)
{
    struct fi_info *list = NULL;

    fi_getinfo(FI_VERSION(1, 20), node, service, flags, hints, &list);
    fi_freeinfo(hints);
    return list;
}

static struct fi_info *server_info(enum fi_ep_type type, uint32_t format, uint16_t port)
{
    char service[8];

    snprintf(service, sizeof(service), "%u", port);
    return ask(hints_of("tcp", type, format), NULL, service, FI_SOURCE);
}

static bool is_any(const struct fi_info *info)
{
    const struct sockaddr_in *in = info->src_addr;
    const struct sockaddr_in6 *in6 = info->src_addr;

    return in->sin_family == AF_INET ? in->sin_addr.s_addr == htonl(INADDR_ANY)
                                     : IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr);
}

static bool has_ipv6(void)
{
    struct fi_info *list = server_info(FI_EP_RDM, FI_SOCKADDR_IN6, 0);
    bool has = list;

    fi_freeinfo(list);
    return has;
}

/* ---- Infos ---- */

static void a_port_alone_is_one_of_every_interface(void **state)
{
    static const enum fi_ep_type types[] = {FI_EP_RDM, FI_EP_MSG};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        struct fi_info *list = server_info(types[i], FI_FORMAT_UNSPEC, 7471);

        assert_non_null(list);
        assert_int_equal(list->addr_format, FI_SOCKADDR_IN);
        for (struct fi_info *info = list; info; info = info->next) {
            assert_true(is_any(info));
            assert_int_equal(((struct sockaddr_in *)info->src_addr)->sin_port, htons(7471));
            assert_string_equal(info->domain_attr->name, "tcp");
            assert_null(info->nic);
        }
        fi_freeinfo(list);
    }
}

static void the_any_address_of_the_hints_is_every_interface(void **state)
{
    struct fi_info *hints = hints_of("tcp", FI_EP_RDM, FI_SOCKADDR_IN), *list;
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(7471)};

    hints->src_addr = memcpy(malloc(sizeof(any)), &any, sizeof(any));
    hints->src_addrlen = sizeof(any);
    list = ask(hints, NULL, NULL, 0);
    assert_non_null(list);
    for (struct fi_info *info = list; info; info = info->next)
        assert_memory_equal(info->src_addr, &any, sizeof(any));
    fi_freeinfo(list);
}

/* An interface that was chosen or named is not widened to all. */
static void a_chosen_interface_stays(void **state)
{
    struct fi_info *hints = hints_of("tcp", FI_EP_MSG, FI_SOCKADDR_IN), *list;

    hints->domain_attr->name = strdup("lo");
    list = ask(hints, NULL, "7471", FI_SOURCE);
    assert_non_null(list);
    assert_false(is_any(list));
    fi_freeinfo(list);
    list = ask(hints_of("tcp(iface=lo)", FI_EP_MSG, FI_SOCKADDR_IN), NULL, "7471", FI_SOURCE);
    assert_non_null(list);
    assert_false(is_any(list));
    fi_freeinfo(list);
    list = ask(hints_of("tcp(domain=lo)", FI_EP_MSG, FI_SOCKADDR_IN), NULL, "7471", FI_SOURCE);
    assert_non_null(list);
    assert_false(is_any(list));
    fi_freeinfo(list);
}

static void without_a_port_infos_are_of_interfaces(void **state)
{
    struct fi_info *list = ask(hints_of("tcp", FI_EP_MSG, FI_SOCKADDR_IN), NULL, NULL, 0);

    for (struct fi_info *info = list; info; info = info->next)
        assert_false(is_any(info));
    assert_non_null(list);
    fi_freeinfo(list);
}

/* The info alone leads back to it: applications keep names, and ask again. */
static void its_domain_is_found_by_name(void **state)
{
    struct fi_info *hints = hints_of("tcp", FI_EP_RDM, FI_SOCKADDR_IN), *list;

    hints->domain_attr->name = strdup("tcp");
    list = ask(hints, NULL, NULL, 0);
    assert_non_null(list);
    assert_true(is_any(list));
    fi_freeinfo(list);
}

/* ---- Reliable datagrams ---- */

static struct end server;
static uint16_t server_port;

static void open_server(uint32_t format)
{
    end_open(&server, server_info(FI_EP_RDM, format, 0), FI_CQ_FORMAT_TAGGED);
    server_port = ((struct sockaddr_in *)server.name)->sin_port; /* there in IPv6, too */
    assert_int_not_equal(server_port, 0);
}

/* A client that knows the server at that address. */
static void open_client(struct end *client, const char *node)
{
    uint32_t format = strchr(node, ':') ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN;
    char service[8];

    snprintf(service, sizeof(service), "%u", ntohs(server_port));
    end_open(client, ask(hints_of("tcp", FI_EP_RDM, format), node, service, 0),
             FI_CQ_FORMAT_TAGGED);
    assert_int_equal(fi_av_insert(client->av, client->info->dest_addr, 1, &client->peer, 0, NULL),
                     1);
}

static void expect_from(struct end *receiver, struct end *sender, fi_addr_t want, const char *what)
{
    struct fi_cq_tagged_entry entry = {.flags = 0}, other;
    long long limit = now_ms() + LIMIT_MS;
    fi_addr_t from = 0;

    while (!(entry.flags & FI_RECV)) {
        ssize_t rc = fi_cq_readfrom(receiver->cq, &entry, 1, &from);

        if (rc != 1)
            entry.flags = 0;
        assert_true(rc == 1 || rc == -FI_EAGAIN);
        assert_true(now_ms() < limit);
        if (sender != receiver)
            fi_cq_read(sender->cq, &other, 1);
    }
    assert_int_equal(entry.len, strlen(what));
    assert_true(from == want);
}

static ssize_t send_text(struct end *end, struct end *other, fi_addr_t to, const char *what)
{
    struct fi_cq_tagged_entry entry;
    long long limit = now_ms() + LIMIT_MS;
    ssize_t rc;

    while ((rc = fi_send(end->ep, what, strlen(what), NULL, to, NULL)) == -FI_EAGAIN) {
        assert_true(now_ms() < limit);
        fi_cq_read(other->cq, &entry, 1);
    }
    return rc;
}

static void pass(struct end *from, struct end *to, fi_addr_t dest, fi_addr_t source,
                 const char *what)
{
    char in[32];

    assert_int_equal(fi_recv(to->ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, NULL), 0);
    assert_int_equal(send_text(from, to, dest, what), 0);
    expect_from(to, from, source, what);
    assert_memory_equal(in, what, strlen(what));
}

/* The server knows the client by the name that it says, as fabtests' servers do; each finds the
 * other's messages by it. first: the server speaks before it has a connection. */
static void talk_over(const char *node, bool first)
{
    struct end client;
    fi_addr_t client_addr;

    open_client(&client, node);
    assert_int_equal(fi_av_insert(server.av, client.name, 1, &client_addr, 0, NULL), 1);
    if (!first)
        pass(&client, &server, client.peer, client_addr, "to the server");
    pass(&server, &client, client_addr, client.peer, "to the client");
    pass(&client, &server, client.peer, client_addr, "to the server again");
    assert_int_equal(fi_av_remove(server.av, &client_addr, 1, 0), 0);
    end_close(&client);
}

static void peers_reach_it_at_every_address(void **state)
{
    char other[INET_ADDRSTRLEN];

    open_server(FI_SOCKADDR_IN);
    talk_over("127.0.0.1", false);
    talk_over("127.0.0.1", true);
    if (other_host(other)) {
        talk_over(other, false);
        talk_over(other, true);
    }
    end_close(&server);
    if (!has_ipv6())
        return;
    open_server(FI_SOCKADDR_IN6);
    talk_over("::1", false);
    talk_over("::1", true);
    end_close(&server);
}

/* fi_getname gives an address, which an application may hand to peers on other hosts. */
static void its_name_is_one_that_peers_reach(void **state)
{
    struct sockaddr_in name;
    char other[INET_ADDRSTRLEN], text[INET_ADDRSTRLEN];

    open_server(FI_SOCKADDR_IN);
    memcpy(&name, server.name, sizeof(name));
    assert_int_not_equal(name.sin_addr.s_addr, htonl(INADDR_ANY));
    if (other_host(other))
        assert_int_not_equal(name.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    inet_ntop(AF_INET, &name.sin_addr, text, sizeof(text));
    talk_over(text, true);
    end_close(&server);
}

/* By its name, and by another of its addresses. */
static void it_can_send_to_itself(void **state)
{
    for (int by_name = 0; by_name <= 1; by_name++) {
        struct sockaddr_in self;
        fi_addr_t addr;

        open_server(FI_SOCKADDR_IN);
        memcpy(&self, server.name, sizeof(self));
        if (!by_name)
            self.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        assert_int_equal(fi_av_insert(server.av, &self, 1, &addr, 0, NULL), 1);
        pass(&server, &server, addr, addr, "to myself");
        end_close(&server);
    }
}

/* No endpoint is there. */
static void the_any_address_names_no_peer(void **state)
{
    struct sockaddr_in any = {.sin_family = AF_INET};
    fi_addr_t addr;

    open_server(FI_SOCKADDR_IN);
    any.sin_port = server_port;
    assert_int_equal(fi_av_insert(server.av, &any, 1, &addr, 0, NULL), 0);
    assert_true(addr == FI_ADDR_NOTAVAIL);
    end_close(&server);
}

static bool received(struct end *end, const char *what)
{
    struct fi_cq_tagged_entry entry;
    fi_addr_t from;

    if (fi_cq_readfrom(end->cq, &entry, 1, &from) != 1 || !(entry.flags & FI_RECV))
        return false;
    assert_int_equal(entry.len, strlen(what));
    assert_true(from == end->peer);
    return true;
}

/* Neither is bound to an address that could be compared. */
static void two_of_them_may_dial_each_other_at_once(void **state)
{
    struct end other;
    char in[2][16];

    open_server(FI_SOCKADDR_IN);
    end_open(&other, server_info(FI_EP_RDM, FI_SOCKADDR_IN, 0), FI_CQ_FORMAT_TAGGED);
    end_meet(&server, &other);
    for (int i = 0; i < 3; i++) {
        long long limit = now_ms() + LIMIT_MS;
        int got = 0;

        assert_int_equal(fi_recv(server.ep, in[0], sizeof(in[0]), NULL, FI_ADDR_UNSPEC, NULL), 0);
        assert_int_equal(fi_recv(other.ep, in[1], sizeof(in[1]), NULL, FI_ADDR_UNSPEC, NULL), 0);
        assert_int_equal(fi_send(server.ep, "ping", 4, NULL, server.peer, NULL), 0);
        assert_int_equal(fi_send(other.ep, "pong!", 5, NULL, other.peer, NULL), 0);
        while (got < 2) {
            got += received(&server, "pong!");
            got += received(&other, "ping");
            assert_true(now_ms() < limit);
        }
    }
    end_close(&other);
    end_close(&server);
}

static void its_port_is_taken(void **state)
{
    struct fid_ep *ep;
    struct fi_info *info;

    open_server(FI_SOCKADDR_IN);
    info = server_info(FI_EP_RDM, FI_SOCKADDR_IN, ntohs(server_port));
    assert_int_equal(fi_endpoint(server.domain, info, &ep, NULL), 0);
    assert_int_equal(fi_ep_bind(ep, &server.cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_ep_bind(ep, &server.av->fid, 0), 0);
    assert_int_equal(fi_enable(ep), -FI_EADDRINUSE);
    assert_int_equal(fi_close(&ep->fid), 0);
    fi_freeinfo(info);
    end_close(&server);
}

/* ---- Connections ---- */

static void connect_to(struct pair *pair, const char *host)
{
    struct sockaddr_in *address = (struct sockaddr_in *)&pair->address;
    struct fi_eq_cm_entry entry;
    struct fi_info *hints = hints_of("tcp", FI_EP_MSG, FI_SOCKADDR_IN), *info;
    static uint8_t in[64], out[64];

    info = ask(hints, host, "1", 0);
    assert_int_equal(inet_pton(AF_INET, host, &address->sin_addr), 1);
    side_open(pair, &pair->a, info);
    assert_int_equal(fi_connect(pair->a.ep, address, NULL, 0), 0);
    expect_event(pair, FI_CONNREQ, &entry);
    /* Where the request came in, which the name of the listener cannot say. */
    assert_int_equal(((struct sockaddr_in *)entry.info->src_addr)->sin_addr.s_addr,
                     address->sin_addr.s_addr);
    side_open(pair, &pair->b, entry.info);
    fi_freeinfo(entry.info);
    assert_int_equal(fi_accept(pair->b.ep, NULL, 0), 0);
    expect_event(pair, FI_CONNECTED, &entry);
    expect_event(pair, FI_CONNECTED, &entry);
    fill(out, sizeof(out), 1);
    receive_and_send(pair, in, out, sizeof(out));
    expect_both(pair, in, out, sizeof(out));
    side_close(&pair->a);
    side_close(&pair->b);
    fi_freeinfo(info);
}

static void a_listener_accepts_on_every_interface(void **state)
{
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_UNSPEC};
    struct pair pair;
    char other[INET_ADDRSTRLEN];

    memset(&pair, 0, sizeof(pair));
    pair.info = server_info(FI_EP_MSG, FI_SOCKADDR_IN, 0);
    assert_int_equal(fi_fabric(pair.info->fabric_attr, &pair.fabric, NULL), 0);
    assert_int_equal(fi_eq_open(pair.fabric, &eq_attr, &pair.eq, NULL), 0);
    assert_int_equal(fi_passive_ep(pair.fabric, pair.info, &pair.pep, &pair), 0);
    assert_int_equal(fi_pep_bind(pair.pep, &pair.eq->fid, 0), 0);
    assert_int_equal(fi_listen(pair.pep), 0);
    pair.address_len = sizeof(pair.address);
    assert_int_equal(fi_getname(&pair.pep->fid, &pair.address, &pair.address_len), 0);
    connect_to(&pair, "127.0.0.1");
    if (other_host(other))
        connect_to(&pair, other);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_port_alone_is_one_of_every_interface),
        cmocka_unit_test(the_any_address_of_the_hints_is_every_interface),
        cmocka_unit_test(a_chosen_interface_stays),
        cmocka_unit_test(without_a_port_infos_are_of_interfaces),
        cmocka_unit_test(its_domain_is_found_by_name),
        cmocka_unit_test(peers_reach_it_at_every_address),
        cmocka_unit_test(its_name_is_one_that_peers_reach),
        cmocka_unit_test(it_can_send_to_itself),
        cmocka_unit_test(the_any_address_names_no_peer),
        cmocka_unit_test(two_of_them_may_dial_each_other_at_once),
        cmocka_unit_test(its_port_is_taken),
        cmocka_unit_test(a_listener_accepts_on_every_interface),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
