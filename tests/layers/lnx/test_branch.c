/* SPDX-License-Identifier: BSD-2-Clause */
/* Which branch carries an operation: a hook in one of them makes a send of its own fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <cmocka.h>

#include "../pair.h"

static ssize_t send_one(struct pair *pair)
{
    static char byte;
    ssize_t rc;

    do {
        fi_cq_read(pair->cq, NULL, 0);
        rc = fi_inject(pair->ep[0], &byte, 1, pair->to[1]);
    } while (rc == -FI_EAGAIN);
    return rc;
}

static void operations_take_turns_with_rails_per_msg(void **state)
{
    struct pair pair;

    pair_open(&pair, "lnx(rails=per_msg,same=yes);[loop+fault(fail=send:2);loop]");
    assert_int_equal(pair.info->tx_attr->msg_order, 0);
    assert_int_equal(pair.info->caps & FI_FENCE, 0);
    for (int i = 0; i < 4; i++) {
        ssize_t rc = send_one(&pair);

        /* The second send of the second branch is the fourth, or the third: peers begin in turn. */
        assert_int_equal(rc, i == (pair.to[1] % 2 ? 2 : 3) ? -FI_EIO : 0);
    }
    pair_close(&pair);
}

static void a_peer_has_one_branch_otherwise(void **state)
{
    struct pair pair;

    pair_open(&pair, "lnx(same=yes);[loop+fault(fail=send:2);loop]");
    assert_int_not_equal(pair.info->tx_attr->msg_order, 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(send_one(&pair), pair.to[1] % 2 && i == 1 ? -FI_EIO : 0);
    pair_close(&pair);
}

/* fail=recv:1 is of the first receive that the branch is given. */
static void receives_go_to_the_only_branch_and_to_none_of_two(void **state)
{
    static char byte;
    struct pair pair;

    pair_open(&pair, "lnx;[fault(fail=recv:1);shm]");
    assert_int_equal(fi_recv(pair.ep[1], &byte, 1, NULL, FI_ADDR_UNSPEC, NULL), -FI_EIO);
    assert_int_equal(fi_recv(pair.ep[1], &byte, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
    pair_close(&pair);
    pair_open(&pair, "lnx;[fault(fail=recv:1);shm+fault(fail=recv:1);rxm;tcp(iface=lo)]");
    assert_int_equal(fi_recv(pair.ep[1], &byte, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
    pair_close(&pair);
}

static void set_permitted(struct pair *pair, bool permitted)
{
    assert_int_equal(fi_setopt(&pair->ep[0]->fid, FI_OPT_ENDPOINT, FI_OPT_SHARED_MEMORY_PERMITTED,
                               &permitted, sizeof(permitted)),
                     0);
}

/* fail=send:2 is of the second send by shared memory. */
static void shared_memory_is_out_where_it_is_not_permitted(void **state)
{
    struct pair pair;

    pair_open(&pair, "lnx;[fault(fail=send:2);shm+rxm;tcp(iface=lo)]");
    assert_int_equal(send_one(&pair), 0);
    set_permitted(&pair, false);
    for (int i = 0; i < 4; i++)
        assert_int_equal(send_one(&pair), 0);
    set_permitted(&pair, true);
    assert_int_equal(send_one(&pair), -FI_EIO);
    pair_close(&pair);
}

static void without_a_network_it_cannot_be_taken_out(void **state)
{
    bool permitted = false;
    struct pair pair;

    pair_open(&pair, "lnx;[shm]");
    assert_int_equal(fi_setopt(&pair.ep[0]->fid, FI_OPT_ENDPOINT, FI_OPT_SHARED_MEMORY_PERMITTED,
                               &permitted, sizeof(permitted)),
                     -FI_EOPNOTSUPP);
    pair_close(&pair);
}

static fi_addr_t insert(struct pair *pair, struct fid_ep *peer)
{
    char address[256];
    size_t len = sizeof(address);
    fi_addr_t addr;

    assert_int_equal(fi_getname(&peer->fid, address, &len), 0);
    assert_int_equal(fi_av_insert(pair->av, address, 1, &addr, 0, NULL), 1);
    return addr;
}

/* Until it is sent, both ends being driven; then for a while, so that it arrives. */
static void send_to(struct pair *from, fi_addr_t to, uint64_t tag, struct pair *other)
{
    static const char bytes[8];
    int more = 1000;
    ssize_t rc;

    do {
        rc = fi_tinject(from->ep[0], bytes, sizeof(bytes), to, tag);
        fi_cq_read(from->cq, NULL, 0);
        fi_cq_read(other->cq, NULL, 0);
    } while (rc == -FI_EAGAIN);
    assert_int_equal(rc, 0);
    while (more--) {
        fi_cq_read(from->cq, NULL, 0);
        fi_cq_read(other->cq, NULL, 0);
    }
}

/* Within half a minute: a receiver without memory has dropped the connection, and the message. */
static void receive_from(struct pair *to, fi_addr_t from, uint64_t tag, struct pair *other)
{
    static struct fi_context2 context;
    struct fi_cq_tagged_entry entry;
    fi_addr_t source = FI_ADDR_NOTAVAIL;
    const time_t start = time(NULL);
    char bytes[8];
    ssize_t rc;

    assert_int_equal(fi_trecv(to->ep[0], bytes, sizeof(bytes), NULL, from, tag, 0, &context), 0);
    do {
        fi_cq_read(other->cq, NULL, 0);
        rc = fi_cq_readfrom(to->cq, &entry, 1, &source);
    } while (rc == -FI_EAGAIN && time(NULL) - start < 30);
    assert_int_equal(rc, 1);
    assert_ptr_equal(entry.op_context, &context);
    assert_int_equal(source, from);
}

/* A network's peers have other numbers there than in the join, where some are reached otherwise. */
static void every_branch_tells_sources_as_the_join_numbers_them(void **state)
{
    struct pair near, far;
    fi_addr_t to, from;

    pair_caps = FI_SOURCE | FI_DIRECTED_RECV;
    pair_open(&near, "lnx;[loop+rxm;tcp(iface=lo)]");
    pair_open(&far, "lnx;[rxm;tcp(iface=lo)]");
    pair_caps = 0;
    to = insert(&far, near.ep[0]);
    send_to(&far, to, 1, &near); /* of a stranger yet */
    from = insert(&near, far.ep[0]);
    assert_int_equal(from, 2);
    receive_from(&near, from, 1, &far);
    send_to(&far, to, 2, &near);
    receive_from(&near, from, 2, &far);
    pair_close(&far);
    pair_close(&near);
}

/* As if the peer were on another node: its token, which the branch's name in the address begins
 * with, is another one. */
static fi_addr_t insert_of_another_node(struct pair *pair, struct fid_ep *peer)
{
    enum {
        SUM = 1,
        TOKEN = 6 /* behind version, sum, count, kind and lengths */
    };
    unsigned char address[256];
    size_t len = sizeof(address);
    fi_addr_t addr;

    assert_int_equal(fi_getname(&peer->fid, address, &len), 0);
    address[TOKEN]++;
    address[SUM]++;
    if (!address[TOKEN])
        address[SUM]--; /* it had been 255 */
    assert_int_equal(fi_av_insert(pair->av, address, 1, &addr, 0, NULL), 1);
    return addr;
}

static void a_peer_of_another_node_is_reached_by_the_network(void **state)
{
    struct pair pair;

    pair_open(&pair, "lnx;[fault(fail=send:1);shm+rxm;tcp(iface=lo)]");
    send_to(&pair, insert_of_another_node(&pair, pair.ep[1]), 1, &pair);
    assert_int_equal(send_one(&pair), -FI_EIO);
    pair_close(&pair);
}

/* The address in the error of a message from an unknown peer. */
static fi_addr_t insert_told(struct pair *to, struct pair *other)
{
    static struct fi_context2 context;
    struct fi_cq_err_entry error = {0};
    struct fi_cq_tagged_entry entry;
    fi_addr_t addr;
    char bytes[8];
    ssize_t rc;

    assert_int_equal(
        fi_trecv(to->ep[0], bytes, sizeof(bytes), NULL, FI_ADDR_UNSPEC, 1, 0, &context), 0);
    do {
        fi_cq_read(other->cq, NULL, 0);
        rc = fi_cq_read(to->cq, &entry, 1);
    } while (rc == -FI_EAGAIN);
    assert_int_equal(rc, -FI_EAVAIL);
    assert_int_equal(fi_cq_readerr(to->cq, &error, 0), 1);
    assert_int_equal(error.err, FI_EADDRNOTAVAIL);
    assert_int_equal(error.len, 8);
    assert_int_equal(error.err_data_size, 56); /* as all addresses of the bracket */
    assert_int_equal(fi_av_insert(to->av, error.err_data, 1, &addr, 0, NULL), 1);
    return addr;
}

/* By a branch that is the second here, and the only one there. */
static void a_strangers_address_is_one_of_the_join(void **state)
{
    struct pair near, far;
    fi_addr_t to, from;

    pair_caps = FI_SOURCE | FI_SOURCE_ERR | FI_DIRECTED_RECV;
    pair_open(&near, "lnx;[loop+rxm;tcp(iface=lo)]");
    pair_open(&far, "lnx;[rxm;tcp(iface=lo)]");
    pair_caps = 0;
    assert_true(near.info->caps & FI_SOURCE_ERR);
    to = insert(&far, near.ep[0]);
    send_to(&far, to, 1, &near);
    from = insert_told(&near, &far);
    send_to(&far, to, 2, &near); /* of a peer that is known now */
    receive_from(&near, from, 2, &far);
    send_to(&near, from, 3, &far);
    receive_from(&far, to, 3, &near);
    pair_close(&far);
    pair_close(&near);
}

/* Between branches and queues there is nothing that could translate. */
static void an_endpoint_with_source_errors_wants_such_a_domain(void **state)
{
    struct fi_info *info;
    struct fid_ep *ep;
    struct pair pair;

    pair_open(&pair, "lnx;[loop]");
    assert_int_equal(pair.info->caps & FI_SOURCE_ERR, 0); /* it was not asked for */
    info = fi_dupinfo(pair.info);
    info->caps |= FI_SOURCE | FI_SOURCE_ERR;
    assert_int_equal(fi_endpoint(pair.domain, info, &ep, NULL), -FI_EINVAL);
    fi_freeinfo(info);
    pair_close(&pair);
}

/* The endpoint's address with a branch in front that we lack: it has the same one in the branch. */
static fi_addr_t insert_with_another_branch(struct pair *pair, struct fid_ep *peer)
{
    static const unsigned char other[] = {1, 1, 3 << 5, 1, 7}; /* its kind, forms, one byte */
    enum {
        SUM = 1,
        COUNT,
        HEAD,
    };
    unsigned char address[256];
    size_t len = sizeof(address);
    unsigned sum;
    fi_addr_t addr;

    assert_int_equal(fi_getname(&peer->fid, address, &len), 0);
    memmove(address + HEAD + sizeof(other), address + HEAD, len - HEAD - sizeof(other));
    memcpy(address + HEAD, other, sizeof(other));
    address[COUNT]++;
    sum = (unsigned)len;
    for (size_t i = 0; i < len; i++)
        sum += i == SUM ? 0 : address[i];
    address[SUM] = (unsigned char)sum;
    assert_int_equal(fi_av_insert(pair->av, address, 1, &addr, 0, NULL), 1);
    return addr;
}

/* By the only branch, which counts them as one: its number of the second is not the join's. */
static void a_peer_of_two_addresses_is_sent_to_by_both(void **state)
{
    enum {
        BEFORE = 4
    };
    char from[8] = "", to[8];
    struct pair pair;

    pair_open(&pair, "lnx;[rxm;tcp(iface=lo)]");
    for (uint64_t tag = 1; tag <= BEFORE; tag++) /* further ones look at nothing that is new */
        assert_true(pair_message(&pair, from, to, sizeof(from), tag, from, to));
    pair.to[1] = insert_with_another_branch(&pair, pair.ep[1]);
    assert_int_equal(pair.to[1], 2);
    for (uint64_t tag = 1; tag <= BEFORE; tag++)
        assert_true(pair_message(&pair, from, to, sizeof(from), tag, from, to));
    pair.to[1] = 1;
    assert_true(pair_message(&pair, from, to, sizeof(from), 3, from, to));
    pair_close(&pair);
}

/* Of the info, or set before the endpoint is enabled: they are the branch's too. */
static void receives_have_the_flags_of_the_endpoint(void **state)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .size = 8};
    uint64_t flags = FI_RECV | FI_COMPLETION;
    struct pair pair;
    struct fid_ep *ep;
    struct fid_cq *cq;
    fi_addr_t to;
    char byte;

    for (int set = 0; set < 2; set++) {
        pair_open(&pair, *state);
        assert_int_equal(fi_cq_open(pair.domain, &attr, &cq, NULL), 0);
        pair.info->rx_attr->op_flags = set ? 0 : FI_COMPLETION;
        assert_int_equal(fi_endpoint(pair.domain, pair.info, &ep, NULL), 0);
        if (set)
            assert_int_equal(fi_control(&ep->fid, FI_SETOPSFLAG, &flags), 0);
        assert_int_equal(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION),
                         0);
        assert_int_equal(fi_ep_bind(ep, &pair.av->fid, 0), 0);
        assert_int_equal(fi_enable(ep), 0);
        to = insert(&pair, ep);
        assert_int_equal(fi_recv(ep, &byte, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
        pair.to[1] = to;
        assert_int_equal(send_one(&pair), 0);
        for (ssize_t rc = 0; rc != 1; fi_cq_read(pair.cq, NULL, 0)) {
            struct fi_cq_tagged_entry entry;

            rc = fi_cq_read(cq, &entry, 1);
            assert_true(rc == 1 || rc == -FI_EAGAIN);
        }
        assert_int_equal(fi_close(&ep->fid), 0);
        assert_int_equal(fi_close(&cq->fid), 0);
        pair_close(&pair);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_take_turns_with_rails_per_msg),
        cmocka_unit_test(a_peer_has_one_branch_otherwise),
        cmocka_unit_test(receives_go_to_the_only_branch_and_to_none_of_two),
        cmocka_unit_test(shared_memory_is_out_where_it_is_not_permitted),
        cmocka_unit_test(every_branch_tells_sources_as_the_join_numbers_them),
        cmocka_unit_test(without_a_network_it_cannot_be_taken_out),
        cmocka_unit_test(a_peer_of_another_node_is_reached_by_the_network),
        cmocka_unit_test(a_strangers_address_is_one_of_the_join),
        cmocka_unit_test_prestate(receives_have_the_flags_of_the_endpoint,
                                  (void *)"lnx;[rxm;tcp(iface=lo)]"),
        cmocka_unit_test_prestate(receives_have_the_flags_of_the_endpoint,
                                  (void *)"lnx;[loop+rxm;tcp(iface=lo)]"),
        cmocka_unit_test(a_peer_of_two_addresses_is_sent_to_by_both),
        cmocka_unit_test(an_endpoint_with_source_errors_wants_such_a_domain),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
