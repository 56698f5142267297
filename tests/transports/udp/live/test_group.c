/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast groups on the loopback interface. */
#include "ends.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char out[100], in[100], other[100];

static const struct options member = {.caps = FI_MULTICAST | FI_SOURCE};

static struct sockaddr_in group_addr(const char *host, uint16_t port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port)};

    assert_int_equal(inet_pton(AF_INET, host, &addr.sin_addr), 1);
    return addr;
}

/* A free port. */
static uint16_t free_port(void)
{
    struct sockaddr_in addr = group_addr("127.0.0.1", 0);
    socklen_t len = sizeof(addr);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&addr, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
    close(fd);
    return ntohs(addr.sin_port);
}

static struct fid_mc *join(struct end *end, const void *addr, uint64_t flags)
{
    struct fi_eq_entry entry;
    struct fid_mc *mc;
    uint32_t event;

    assert_int_equal(fi_join(end->ep, addr, flags, &mc, in), 0);
    assert_int_equal(fi_eq_read(end->eq, &event, &entry, sizeof(entry), 0), sizeof(entry));
    assert_int_equal(event, FI_JOIN_COMPLETE);
    assert_ptr_equal(entry.fid, &mc->fid);
    assert_ptr_equal(entry.context, in);
    return mc;
}

static void members_receive_and_others_do_not(void **state)
{
    struct sockaddr_in addr = group_addr("239.7.7.7", free_port());
    struct fid_mc *sender, *receiver;
    fi_addr_t src;

    ends_open(&member);
    sender = join(&a, &addr, FI_SEND);
    receiver = join(&b, &addr, FI_RECV);
    for (int i = 0; i < 3; i++) {
        receive(&a, other, 100);
        receive(&b, in, 100);
        fill(out, 50, (unsigned)i);
        send_flags(&a, fi_mc_addr(sender), out, 50, FI_MULTICAST | FI_COMPLETION);
        expect(a.tx, out, NULL);
        assert_int_equal(expect(b.rx, in, &src).len, 50);
        assert_int_equal(src, b.peer);
        check_filled(in, 50, (unsigned)i);
    }
    expect_nothing(a.rx); /* it only sends */
    /* Datagrams to the endpoint itself come as before. */
    receive(&b, in, 100);
    send_to(&a, a.peer, out, 10);
    assert_int_equal(expect(b.rx, in, NULL).len, 10);
    /* A member that only receives does not send; a group that was left is none. */
    assert_int_equal(fi_send(b.ep, out, 1, NULL, fi_mc_addr(receiver), out), -FI_EINVAL);
    assert_int_equal(fi_close(&receiver->fid), 0);
    receive(&b, in, 100);
    send_flags(&a, fi_mc_addr(sender), out, 50, FI_MULTICAST);
    expect_nothing(b.rx);
    fi_addr_t left = fi_mc_addr(sender);
    assert_int_equal(fi_close(&sender->fid), 0);
    assert_int_equal(fi_send(a.ep, out, 1, NULL, left, out), -FI_EINVAL);
    ends_close();
}

static void two_members_of_a_node_both_receive(void **state)
{
    struct sockaddr_in addr = group_addr("239.7.7.8", free_port());
    struct fid_mc *one, *two;

    ends_open(&member);
    one = join(&a, &addr, 0);
    two = join(&b, &addr, 0);
    receive(&a, other, 100);
    receive(&b, in, 100);
    assert_int_equal(fi_send(b.ep, out, 20, NULL, fi_mc_addr(two), out), 0);
    assert_int_equal(expect(b.rx, in, NULL).len, 20);
    assert_int_equal(expect(a.rx, other, NULL).len, 20);
    assert_int_equal(fi_close(&one->fid), 0);
    assert_int_equal(fi_close(&two->fid), 0);
    ends_close();
}

/* An IPv6 address of an interface that groups have a route to: the loopback has none. */
static bool find_ipv6(char *node, socklen_t size)
{
    struct fi_info *hints = fi_allocinfo(), *list = NULL;

    hints->fabric_attr->prov_name = strdup("udp");
    hints->addr_format = FI_SOCKADDR_IN6;
    node[0] = 0;
    fi_getinfo(FI_VERSION(1, 20), NULL, NULL, 0, hints, &list);
    for (struct fi_info *info = list; info && !node[0]; info = info->next) {
        const struct sockaddr_in6 *addr = info->src_addr;

        if (strcmp(info->domain_attr->name, "lo") && !addr->sin6_scope_id)
            inet_ntop(AF_INET6, &addr->sin6_addr, node, size);
    }
    fi_freeinfo(list);
    fi_freeinfo(hints);
    return node[0];
}

static void over_ipv6(void **state)
{
    char node[INET6_ADDRSTRLEN];
    struct options options = {.node = node, .caps = FI_MULTICAST};
    struct sockaddr_in6 addr = {.sin6_family = AF_INET6};
    struct fid_mc *sender, *receiver;

    if (!find_ipv6(node, sizeof(node)))
        skip();
    addr.sin6_port = htons(free_port());
    assert_int_equal(inet_pton(AF_INET6, "ff01::77", &addr.sin6_addr), 1);
    ends_open(&options);
    sender = join(&a, &addr, FI_SEND);
    receiver = join(&b, &addr, FI_RECV);
    receive(&b, in, 100);
    send_flags(&a, fi_mc_addr(sender), out, 50, FI_MULTICAST);
    assert_int_equal(expect(b.rx, in, NULL).len, 50);
    assert_int_equal(fi_close(&sender->fid), 0);
    assert_int_equal(fi_close(&receiver->fid), 0);
    ends_close();
}

static void what_is_no_group_is_refused(void **state)
{
    struct sockaddr_in addr = group_addr("10.0.0.1", 7);
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = 7};
    struct fid_mc *mc;

    ends_open(&member);
    assert_int_equal(fi_join(a.ep, &addr, 0, &mc, NULL), -FI_EINVAL);
    assert_int_equal(inet_pton(AF_INET6, "ff02::77", &six.sin6_addr), 1);
    assert_int_equal(fi_join(a.ep, &six, 0, &mc, NULL), -FI_EINVAL);
    assert_int_equal(fi_join(a.ep, NULL, 0, &mc, NULL), -FI_EINVAL);
    addr = group_addr("239.7.7.9", 0);
    assert_int_equal(fi_join(a.ep, &addr, FI_COLLECTIVE, &mc, NULL), -FI_EBADFLAGS);
    ends_close();
    ends_open(&(struct options){.caps = FI_SOURCE});
    assert_int_equal(fi_join(a.ep, &addr, 0, &mc, NULL), -FI_EOPNOTSUPP);
    ends_close();
    ends_open(&(struct options){.caps = FI_MULTICAST, .no_eq = true});
    assert_int_equal(fi_join(a.ep, &addr, 0, &mc, NULL), -FI_ENOEQ);
    ends_close();
}

static void an_endpoint_may_go_before_its_groups(void **state)
{
    struct sockaddr_in addr = group_addr("239.7.7.10", 0);
    struct fid_mc *mc;

    ends_open(&member);
    mc = join(&a, &addr, 0); /* at the endpoint's own port */
    assert_int_equal(fi_close(&a.ep->fid), 0);
    assert_int_equal(fi_close(&mc->fid), 0);
    assert_int_equal(fi_endpoint(a.domain, a.info, &a.ep, NULL), 0);
    ends_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_receive_and_others_do_not),
        cmocka_unit_test(two_members_of_a_node_both_receive),
        cmocka_unit_test(over_ipv6),
        cmocka_unit_test(what_is_no_group_is_refused),
        cmocka_unit_test(an_endpoint_may_go_before_its_groups),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
