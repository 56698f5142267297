/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams one by one: what arrives, what is refused, what is reported. */
#include "ends.h"

#include <netinet/in.h>
#include <string.h>

static char out[70000], in[70000];

static const struct options plain = {.caps = FI_SOURCE};

static void datagrams_arrive_as_they_are(void **state)
{
    size_t lens[] = {1, 0, 8, 1400, 65507};
    struct fi_cq_tagged_entry entry;
    fi_addr_t src;

    ends_open(&plain);
    assert_int_equal(a.info->ep_attr->max_msg_size, 65507);
    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        memset(in, 0, sizeof(in));
        fill(out, lens[i], (unsigned)i);
        receive(&b, in, sizeof(in));
        send_to(&a, a.peer, out, lens[i]);
        entry = expect(a.tx, out, NULL);
        assert_int_equal(entry.flags, FI_MSG | FI_SEND);
        entry = expect(b.rx, in, &src);
        assert_int_equal(entry.flags, FI_MSG | FI_RECV);
        assert_int_equal(entry.len, lens[i]);
        assert_ptr_equal(entry.buf, in);
        assert_int_equal(src, b.peer);
        check_filled(in, lens[i], (unsigned)i);
    }
    assert_int_equal(fi_cntr_read(a.sent), 5);
    assert_int_equal(fi_cntr_read(b.received), 5);
    ends_close();
}

static void over(const char *node, uint32_t format)
{
    struct options options = {.node = node, .format = format, .caps = FI_SOURCE};
    struct fi_info *info = ask(&options);
    fi_addr_t src;

    if (!info)
        return; /* a kernel without IPv6 */
    fi_freeinfo(info);
    ends_open(&options);
    assert_int_equal(a.info->addr_format, format);
    for (int i = 0; i < 3; i++) { /* the second has a known source */
        receive(&b, in, 100);
        send_to(&a, a.peer, out, 100);
        expect(a.tx, out, NULL);
        expect(b.rx, in, &src);
        assert_int_equal(src, b.peer);
    }
    /* A peer that is removed is a stranger. */
    assert_int_equal(fi_av_remove(b.av, &b.peer, 1, 0), 0);
    receive(&b, in, 100);
    send_to(&a, a.peer, out, 100);
    expect(b.rx, in, &src);
    assert_int_equal(src, FI_ADDR_NOTAVAIL);
    ends_close();
}

static void every_format_of_addresses(void **state)
{
    over("127.0.0.1", FI_SOCKADDR_IN);
    over("::1", FI_SOCKADDR_IN6);
    over("127.0.0.1", FI_ADDR_STR);
}

static void segments_go_and_come(void **state)
{
    struct iovec from[9], to[9];

    ends_open(&plain);
    fill(out, 80, 3);
    memset(in, 0, 80);
    for (size_t i = 0; i < 9; i++) {
        from[i] = (struct iovec){out + 10 * i, 10};
        to[i] = (struct iovec){in + 16 * i, 16};
    }
    assert_int_equal(fi_recvv(b.ep, to, NULL, 8, FI_ADDR_UNSPEC, in), 0);
    assert_int_equal(fi_sendv(a.ep, from, NULL, 8, a.peer, out), 0);
    assert_int_equal(fi_sendv(a.ep, from, NULL, 9, a.peer, out), -FI_EINVAL);
    assert_int_equal(fi_recvv(b.ep, to, NULL, 9, FI_ADDR_UNSPEC, in), -FI_EINVAL);
    expect(a.tx, out, NULL);
    assert_int_equal(expect(b.rx, in, NULL).len, 80);
    check_filled(in, 80, 3);
    ends_close();
}

static void injects_take_the_longest_and_say_nothing(void **state)
{
    ends_open(&plain);
    fill(out, 65507, 9);
    receive(&b, in, sizeof(in));
    assert_int_equal(fi_inject(a.ep, out, 65507, a.peer), 0);
    memset(out, 0, 65507);
    assert_int_equal(expect(b.rx, in, NULL).len, 65507);
    check_filled(in, 65507, 9);
    expect_nothing(a.tx);
    assert_int_equal(fi_cntr_read(a.sent), 1);
    ends_close();
}

static void what_cannot_be_sent_is_refused(void **state)
{
    size_t limit = 0, len = sizeof(limit);

    ends_open(&plain);
    assert_int_equal(fi_getopt(&a.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MAX_MSG_SIZE, &limit, &len), 0);
    assert_int_equal(limit, 65507);
    assert_int_equal(fi_send(a.ep, out, 65508, NULL, a.peer, out), -FI_EMSGSIZE);
    assert_int_equal(fi_inject(a.ep, out, 65508, a.peer), -FI_EMSGSIZE);
    assert_int_equal(fi_send(a.ep, out, 1, NULL, 77, out), -FI_EINVAL);
    assert_int_equal(fi_send(a.ep, out, 1, NULL, FI_ADDR_UNSPEC, out), -FI_EINVAL);
    assert_int_equal(fi_senddata(a.ep, out, 1, NULL, 5, a.peer, out), -FI_EOPNOTSUPP);
    struct fi_msg msg = {.addr = a.peer, .context = out};
    assert_int_equal(fi_sendmsg(a.ep, &msg, FI_DELIVERY_COMPLETE), -FI_EOPNOTSUPP);
    expect_nothing(a.tx);
    assert_int_equal(fi_cntr_read(a.sent), 0);
    ends_close();
}

static void what_is_too_long_for_its_receive_is_cut(void **state)
{
    struct fi_cq_err_entry error;

    ends_open(&plain);
    fill(out, 1000, 4);
    in[10] = 77;
    receive(&b, in, 10);
    send_to(&a, a.peer, out, 1000);
    error = expect_failure(b.rx, in, FI_ETRUNC);
    assert_int_equal(error.len, 10);
    assert_int_equal(error.olen, 990);
    check_filled(in, 10, 4);
    assert_int_equal(in[10], 77);
    assert_int_equal(fi_cntr_readerr(b.received), 1);
    /* The next is whole. */
    receive(&b, in, 1000);
    send_to(&a, a.peer, out, 1000);
    assert_int_equal(expect(b.rx, in, NULL).len, 1000);
    ends_close();
}

static void what_comes_before_its_receive_is_kept(void **state)
{
    ends_open(&plain);
    for (unsigned i = 0; i < 5; i++) {
        out[i] = (char)i;
        send_to(&a, a.peer, out + i, 1);
        expect(a.tx, out + i, NULL);
    }
    expect_nothing(b.rx);
    for (unsigned i = 0; i < 5; i++)
        receive(&b, in + i, 1);
    for (unsigned i = 0; i < 5; i++) {
        expect(b.rx, in + i, NULL);
        assert_int_equal(in[i], i);
    }
    ends_close();
}

/* More than one read of the kernel can give. */
static void many_arrive_in_their_order(void **state)
{
    enum {
        MANY = 500
    };

    ends_open(&plain);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < MANY; i++)
            receive(&b, in + 4 * i, 4);
        assert_int_equal(fi_rx_size_left(b.ep), b.info->rx_attr->size - MANY);
        for (unsigned i = 0; i < MANY; i++) {
            memcpy(out + 4 * i, &i, 4);
            send_to(&a, a.peer, out + 4 * i, 4);
            expect(a.tx, out + 4 * i, NULL);
        }
        for (unsigned i = 0; i < MANY; i++)
            assert_int_equal(expect(b.rx, in + 4 * i, NULL).len, 4);
        assert_memory_equal(in, out, 4 * MANY);
    }
    ends_close();
}

static void receives_are_cancelled(void **state)
{
    ends_open(&plain);
    for (int i = 0; i < 3; i++)
        receive(&b, in + i, 1);
    assert_int_equal(fi_cancel(&b.ep->fid, in + 1), 0);
    assert_int_equal(fi_cancel(&b.ep->fid, in + 7), -FI_ENOENT);
    expect_failure(b.rx, in + 1, FI_ECANCELED);
    send_to(&a, a.peer, out, 1);
    send_to(&a, a.peer, out, 1);
    expect(b.rx, in, NULL);
    expect(b.rx, in + 2, NULL);
    ends_close();
}

static void completions_are_selective_where_that_is_asked(void **state)
{
    struct iovec iov = {in, 1};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = in};

    ends_open(&(struct options){.selective = true});
    receive(&b, in, 1);
    assert_int_equal(fi_recvmsg(b.ep, &msg, FI_COMPLETION), 0);
    send_to(&a, a.peer, out, 1);
    send_flags(&a, a.peer, out, 1, FI_COMPLETION);
    expect(a.tx, out, NULL);
    expect(b.rx, in, NULL);
    expect_nothing(a.tx);
    expect_nothing(b.rx);
    assert_int_equal(fi_cntr_read(a.sent), 2);
    assert_int_equal(fi_cntr_read(b.received), 2);
    ends_close();
}

static void a_strangers_address_is_told(void **state)
{
    struct fi_cq_err_entry error;
    struct end stranger;
    fi_addr_t src;

    ends_open(&(struct options){.caps = FI_SOURCE | FI_SOURCE_ERR});
    end_open(&stranger, &plain);
    receive(&b, in, 10);
    send_to(&stranger, introduce(&stranger, &b), out, 10);
    error = expect_failure(b.rx, in, FI_EADDRNOTAVAIL);
    assert_int_equal(error.len, 10);
    assert_int_equal(error.err_data_size, sizeof(struct sockaddr_in));
    assert_int_equal(fi_av_insert(b.av, error.err_data, 1, &src, 0, NULL), 1);
    assert_int_equal(src, introduce(&b, &stranger));
    fi_addr_t again;
    receive(&b, in, 10);
    send_to(&stranger, 0, out, 10);
    expect(b.rx, in, &again);
    assert_int_equal(again, src);
    end_close(&stranger);
    ends_close();
}

/* A port without an address is one of every interface, and its name one that peers reach. */
static void a_port_alone_is_one_of_every_interface(void **state)
{
    struct options server = {.port = "0", .caps = FI_SOURCE, .format = FI_SOCKADDR_IN};
    struct sockaddr_in name;
    size_t len = sizeof(name);
    fi_addr_t from;

    end_open(&a, &server);
    assert_int_equal(((struct sockaddr_in *)a.info->src_addr)->sin_addr.s_addr, htonl(INADDR_ANY));
    assert_string_equal(a.info->domain_attr->name, "udp");
    end_open(&b, &plain);
    a.peer = introduce(&a, &b);
    assert_int_equal(fi_getname(&a.ep->fid, &name, &len), 0);
    assert_int_not_equal(name.sin_addr.s_addr, htonl(INADDR_ANY));
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(fi_av_insert(b.av, &name, 1, &b.peer, 0, NULL), 1);
    receive(&a, in, 8);
    send_to(&b, b.peer, "request", 8);
    expect(a.rx, in, &from);
    assert_true(from == a.peer);
    receive(&b, in, 8);
    send_to(&a, a.peer, "answer", 7);
    expect(b.rx, in, &from);
    assert_true(from == b.peer);
    ends_close();
}

static void a_name_may_be_chosen(void **state)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in first, second;
    size_t len = sizeof(first);
    struct fid_ep *ep;

    ends_open(&plain);
    assert_int_equal(fi_endpoint(a.domain, a.info, &ep, NULL), 0);
    assert_int_equal(fi_getname(&ep->fid, &first, &len), 0);
    assert_int_equal(fi_setname(&ep->fid, &addr, sizeof(addr)), 0);
    assert_int_equal(fi_getname(&ep->fid, &second, &len), 0);
    assert_int_not_equal(second.sin_port, 0);
    len = 3;
    assert_int_equal(fi_getname(&ep->fid, &second, &len), -FI_ETOOSMALL);
    assert_int_equal(len, sizeof(second));
    assert_int_equal(fi_close(&ep->fid), 0);
    assert_int_equal(fi_setname(&a.ep->fid, &addr, sizeof(addr)), -FI_EOPBADSTATE);
    ends_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(datagrams_arrive_as_they_are),
        cmocka_unit_test(every_format_of_addresses),
        cmocka_unit_test(segments_go_and_come),
        cmocka_unit_test(injects_take_the_longest_and_say_nothing),
        cmocka_unit_test(what_cannot_be_sent_is_refused),
        cmocka_unit_test(what_is_too_long_for_its_receive_is_cut),
        cmocka_unit_test(what_comes_before_its_receive_is_kept),
        cmocka_unit_test(many_arrive_in_their_order),
        cmocka_unit_test(receives_are_cancelled),
        cmocka_unit_test(completions_are_selective_where_that_is_asked),
        cmocka_unit_test(a_strangers_address_is_told),
        cmocka_unit_test(a_name_may_be_chosen),
        cmocka_unit_test(a_port_alone_is_one_of_every_interface),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
