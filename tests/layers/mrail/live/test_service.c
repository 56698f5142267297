/* SPDX-License-Identifier: BSD-2-Clause */
/* Where rails listen: at the port that a service is, or where an address in hints says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <sys/socket.h>

#include "../../pair.h"

enum {
    TRIES = 20, /* for a port that neither rail's protocol has in use */
    NAME = 216,
};

static const char *spec = "mrail;[rxm;tcp(iface=lo)+rxd;udp(iface=lo)]";

static in_port_t free_port(void)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&addr, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
    close(fd);
    return addr.sin_port;
}

static int inquire(const char *service, const void *src, size_t len, struct fi_info **info)
{
    struct fi_info *hints = fi_allocinfo();
    int rc;

    hints->caps = FI_MSG;
    hints->ep_attr->type = FI_EP_RDM;
    if (src) {
        hints->src_addr = malloc(len);
        memcpy(hints->src_addr, src, len);
        hints->src_addrlen = len;
    }
    setenv("FI_PROVIDER", spec, 1);
    rc = fi_getinfo(FI_VERSION(2, 0), NULL, service, service ? FI_SOURCE : 0, hints, info);
    fi_freeinfo(hints);
    return rc;
}

/* The address of an endpoint of that info; false: it cannot listen there. */
static bool listens(struct fi_info *info, unsigned char *name, size_t *len)
{
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT};
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    int rc;

    assert_int_equal(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
    assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
    assert_int_equal(fi_cq_open(domain, &cq_attr, &cq, NULL), 0);
    assert_int_equal(fi_av_open(domain, &av_attr, &av, NULL), 0);
    assert_int_equal(fi_endpoint(domain, info, &ep, NULL), 0);
    assert_int_equal(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_ep_bind(ep, &av->fid, 0), 0);
    rc = fi_enable(ep);
    *len = NAME;
    if (!rc)
        assert_int_equal(fi_getname(&ep->fid, name, len), 0);
    assert_int_equal(fi_close(&ep->fid), 0);
    assert_int_equal(fi_close(&av->fid), 0);
    assert_int_equal(fi_close(&cq->fid), 0);
    assert_int_equal(fi_close(&domain->fid), 0);
    assert_int_equal(fi_close(&fabric->fid), 0);
    return !rc;
}

/* How often an address has these two bytes. */
static unsigned count_port(const unsigned char *name, size_t len, in_port_t port)
{
    unsigned count = 0;

    for (size_t i = 0; i + sizeof(port) <= len; i++)
        count += !memcmp(name + i, &port, sizeof(port));
    return count;
}

/* Opens an endpoint at a port, of both rails; the port. */
static in_port_t open_at_a_port(unsigned char *name, size_t *len)
{
    for (int i = 0; i < TRIES; i++) {
        in_port_t port = free_port();
        struct fi_info *info;
        char service[8];
        bool done;

        snprintf(service, sizeof(service), "%u", ntohs(port));
        assert_int_equal(inquire(service, NULL, 0, &info), 0);
        done = listens(info, name, len);
        assert_int_equal(info->src_addrlen, done ? *len : info->src_addrlen);
        fi_freeinfo(info);
        if (done)
            return port;
    }
    fail_msg("no port that is free");
    return 0;
}

static void rails_listen_at_the_port_of_the_service(void **state)
{
    unsigned char name[NAME];
    size_t len;
    in_port_t port = open_at_a_port(name, &len);

    assert_true(count_port(name, len, port) >= 2);
}

/* Two cannot listen at one port of one interface. */
static void one_rail_of_an_interface_has_the_port(void **state)
{
    const char *other = spec;
    unsigned char name[NAME];
    in_port_t port;
    size_t len;

    spec = "mrail(same=yes);[rxm;tcp(iface=lo)+rxm;tcp(iface=lo)]";
    port = open_at_a_port(name, &len);
    assert_int_equal(count_port(name, len, port), 1);
    spec = other;
}

/* An address that an endpoint had, of which a rail is kept that the bracket has. */
static void rails_listen_where_hints_say(void **state)
{
    unsigned char name[NAME], again[NAME];
    size_t len, again_len;
    struct fi_info *info;

    open_at_a_port(name, &len);
    assert_int_equal(inquire(NULL, name, len, &info), 0);
    assert_true(listens(info, again, &again_len));
    assert_int_equal(again_len, len);
    assert_memory_equal(again, name, len);
    fi_freeinfo(info);
}

static void addresses_of_others_are_refused(void **state)
{
    struct sockaddr_in other = {.sin_family = AF_INET, .sin_port = htons(7)};
    unsigned char name[NAME];
    struct fi_info *info;
    size_t len;

    assert_int_equal(inquire(NULL, &other, sizeof(other), &info), -FI_ENODATA);
    open_at_a_port(name, &len);
    name[len / 2] ^= 1;
    assert_int_equal(inquire(NULL, name, len, &info), -FI_ENODATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rails_listen_at_the_port_of_the_service),
        cmocka_unit_test(one_rail_of_an_interface_has_the_port),
        cmocka_unit_test(rails_listen_where_hints_say),
        cmocka_unit_test(addresses_of_others_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
