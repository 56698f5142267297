/* SPDX-License-Identifier: BSD-2-Clause */
/* A server that names a port and no address takes what comes to any address of its node, and
 * answers from that one: a peer takes its packets from no other. */
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/fi_ext_uet.h>

#include "../../../support/end.h"

enum {
    HOST_AT = 16,
    LONG = 300000,
};

static struct end server, client;
static char out[LONG], in[LONG];

static struct fi_info *ask(const char *spec, const char *node, const char *service)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;

    hints->fabric_attr->prov_name = strdup(spec);
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_SOURCE;
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), node, service, FI_SOURCE, hints, &info), 0);
    fi_freeinfo(hints);
    return info;
}

static uint32_t host_of(const void *address)
{
    uint32_t host;

    memcpy(&host, (const uint8_t *)address + HOST_AT, sizeof(host));
    return ntohl(host);
}

/* The end of the operation at one end; both are driven. */
static fi_addr_t await(struct end *end, const struct end *other)
{
    struct fi_cq_msg_entry entry;
    fi_addr_t from = FI_ADDR_NOTAVAIL;
    ssize_t rc;

    while ((rc = fi_cq_readfrom(end->cq, &entry, 1, &from)) == -FI_EAGAIN)
        fi_cq_read(other->cq, NULL, 0);
    assert_int_equal(rc, 1);
    return from;
}

/* It ends when the peer has it, and says so. */
static fi_addr_t sends(struct end *from, struct end *to, size_t len)
{
    struct iovec iov = {out, len};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = from->peer};
    fi_addr_t source;

    memset(in, 0, len);
    assert_int_equal(fi_recv(to->ep, in, len, NULL, FI_ADDR_UNSPEC, NULL), 0);
    assert_int_equal(fi_sendmsg(from->ep, &msg, FI_TRANSMIT_COMPLETE), 0);
    source = await(to, from);
    await(from, to);
    assert_memory_equal(in, out, len);
    return source;
}

static void talk(const uint8_t name[FI_ADDR_UET_SIZE])
{
    end_open(&client, ask("uet", "127.0.0.1", NULL), FI_CQ_FORMAT_MSG);
    assert_int_equal(fi_av_insert(client.av, name, 1, &client.peer, 0, NULL), 1);
    assert_int_equal(fi_av_insert(server.av, client.name, 1, &server.peer, 0, NULL), 1);
    for (int i = 0; i < 3; i++) {
        size_t len = i % 2 ? LONG : 8;

        assert_int_equal(sends(&client, &server, len), server.peer);
        assert_int_equal(sends(&server, &client, len), client.peer);
    }
    assert_int_equal(fi_av_remove(server.av, &server.peer, 1, 0), 0);
    end_close(&client);
}

static void a_port_alone_is_one_of_every_address(void **state)
{
    static const uint32_t hosts[] = {INADDR_LOOPBACK, INADDR_LOOPBACK + 4, INADDR_LOOPBACK + 1024};
    uint8_t name[FI_ADDR_UET_SIZE];

    end_open(&server, ask("uet", NULL, "0"), FI_CQ_FORMAT_MSG);
    assert_int_equal(host_of(server.info->src_addr), INADDR_ANY);
    assert_string_equal(server.info->domain_attr->name, "uet");
    assert_int_not_equal(host_of(server.name), INADDR_ANY);
    talk(server.name);
    memcpy(name, server.name, sizeof(name));
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        uint32_t host = htonl(hosts[i]);

        memcpy(name + HOST_AT, &host, sizeof(host));
        talk(name);
    }
    end_close(&server);
}

/* A peer that has sent nothing hears from the address that the name has. */
static void the_first_word_is_from_its_name(void **state)
{
    end_open(&server, ask("uet", NULL, "0"), FI_CQ_FORMAT_MSG);
    end_open(&client, ask("uet", "127.0.0.1", NULL), FI_CQ_FORMAT_MSG);
    end_meet(&server, &client);
    assert_int_equal(sends(&server, &client, 8), client.peer);
    assert_int_equal(sends(&client, &server, LONG), server.peer);
    end_close(&client);
    end_close(&server);
}

/* A trailer is of both addresses, and a layer tells its name: theirs is one of the interfaces. */
static void some_have_one_address(void **state)
{
    static const char *const specs[] = {"uet(crc=yes)", "rxd;uet(profile=ai-base)"};

    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        struct fi_info *info = ask(specs[i], NULL, "0");

        assert_int_not_equal(host_of(info->src_addr), INADDR_ANY);
        fi_freeinfo(info);
    }
}

int main(void)
{
    for (size_t i = 0; i < LONG; i++)
        out[i] = (char)(i * 7 + i / 251);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_port_alone_is_one_of_every_address),
        cmocka_unit_test(the_first_word_is_from_its_name),
        cmocka_unit_test(some_have_one_address),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
