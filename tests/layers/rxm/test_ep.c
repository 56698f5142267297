/* SPDX-License-Identifier: BSD-2-Clause */
/* The additions of rxm to its connections: addressing, connections on demand, and their ends. */
#include "rdm.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <stdio.h>
#include <unistd.h>

#define SPEC "rxm(tags=pass,unreachable_timeout=300ms,retry_pause=2ms);tcp"

static char buffer[64];

static void receive(struct rdm *rdm, fi_addr_t from, uint64_t tag, void *context)
{
    assert_int_equal(fi_trecv(rdm->ep, buffer, sizeof(buffer), NULL, from, tag, 0, context), 0);
}

static void unknown_peer_is_nobody_until_inserted(void **state)
{
    struct rdm_net net;
    struct rdm a, b;
    struct rdm *const *both = RDM_ENDS(&a, &b);
    struct fi_cq_tagged_entry entry;
    fi_addr_t to_b, from_a, src = 0;
    int first, second, third;

    rdm_net_open(&net, SPEC, 0);
    rdm_open(&a, &net, 0);
    rdm_open(&b, &net, 0);
    to_b = rdm_insert(&a, &b.name);

    receive(&b, FI_ADDR_UNSPEC, 1, &first);
    rdm_send(&a, to_b, both, 1, NULL);
    assert_int_equal(rdm_next(&b, both, NULL, &src, NULL), 0);
    assert_true(src == FI_ADDR_NOTAVAIL);

    /* Came from an unknown peer, and is found by its address as soon as there is one. */
    rdm_send(&a, to_b, both, 2, NULL);
    rdm_drive(both, 20);
    assert_int_equal(fi_cq_read(b.cq, &entry, 1), -FI_EAGAIN);
    from_a = rdm_insert(&b, &a.name);
    receive(&b, from_a, 2, &second);
    assert_int_equal(rdm_next(&b, both, NULL, &src, NULL), 0);
    assert_true(src == from_a);

    receive(&b, from_a, 3, &third);
    rdm_send(&a, to_b, both, 3, NULL);
    assert_int_equal(rdm_next(&b, both, NULL, &src, NULL), 0);
    assert_true(src == from_a);
    rdm_close(&a);
    rdm_close(&b);
    rdm_net_close(&net);
}

static void unknown_source_is_an_error_where_asked(void **state)
{
    struct rdm_net net;
    struct rdm a, b;
    struct rdm *const *both = RDM_ENDS(&a, &b);
    struct sockaddr_in from;
    struct fi_cq_err_entry error = {.err_data = &from, .err_data_size = sizeof(from)};
    fi_addr_t to_b, back;
    int context;

    rdm_net_open(&net, SPEC, FI_MSG | FI_TAGGED | FI_SOURCE | FI_SOURCE_ERR);
    rdm_open(&a, &net, 0);
    rdm_open(&b, &net, 0);
    to_b = rdm_insert(&a, &b.name);
    receive(&b, FI_ADDR_UNSPEC, 1, &context);
    rdm_send(&a, to_b, both, 1, NULL);
    assert_int_equal(rdm_next(&b, both, NULL, NULL, &error), FI_EADDRNOTAVAIL);
    assert_ptr_equal(error.op_context, &context);
    assert_int_equal(error.err_data_size, sizeof(from));
    assert_memory_equal(&from, &a.name, sizeof(from));
    /* An answer to it uses the connection that there is. */
    back = rdm_insert(&b, &from);
    assert_int_equal(fi_tinject(b.ep, "x", 1, back, 5), 0);
    rdm_close(&a);
    rdm_close(&b);
    rdm_net_close(&net);
}

static void messages_outlive_their_connection(void **state)
{
    struct rdm_net net;
    struct rdm a, b;
    struct rdm *const *both = RDM_ENDS(&a, &b);
    struct rdm *const *rest = RDM_ENDS(&b);
    fi_addr_t to_b, from_a, src;

    rdm_net_open(&net, SPEC, 0);
    rdm_open(&a, &net, 0);
    rdm_open(&b, &net, 0);
    to_b = rdm_insert(&a, &b.name);
    from_a = rdm_insert(&b, &a.name);
    for (uint64_t tag = 0; tag < 20; tag++)
        rdm_send(&a, to_b, both, tag, NULL);
    rdm_drive(both, 20);
    rdm_close(&a);
    rdm_drive(rest, 50);
    for (uint64_t tag = 20; tag-- > 0;) {
        receive(&b, from_a, tag, NULL);
        assert_int_equal(rdm_next(&b, rest, NULL, &src, NULL), 0);
        assert_true(src == from_a);
    }
    rdm_close(&b);
    rdm_net_close(&net);
}

static void restarted_peer_is_dialled_again(void **state)
{
    struct rdm_net net;
    struct rdm a, b;
    struct rdm *const *both = RDM_ENDS(&a, &b);
    struct rdm *const *rest = RDM_ENDS(&a);
    fi_addr_t to_b;
    uint16_t port;

    rdm_net_open(&net, SPEC, 0);
    rdm_open(&a, &net, 0);
    rdm_open(&b, &net, 0);
    to_b = rdm_insert(&a, &b.name);
    for (int life = 0; life < 4; life++) {
        int posted, sent;

        receive(&b, FI_ADDR_UNSPEC, 7, &posted);
        rdm_send(&a, to_b, both, 7, &sent);
        assert_int_equal(rdm_next(&b, both, NULL, NULL, NULL), 0);
        assert_int_equal(rdm_next(&a, both, NULL, NULL, NULL), 0);
        port = ntohs(b.name.sin_port);
        rdm_close(&b);
        rdm_drive(rest, life * 10); /* noticed, or not */
        rdm_open(&b, &net, port);
    }
    rdm_close(&a);
    rdm_close(&b);
    rdm_net_close(&net);
}

static void removed_address_leads_nowhere_and_its_number_elsewhere(void **state)
{
    struct rdm_net net;
    struct rdm a, b, c;
    struct rdm *const *all = RDM_ENDS(&a, &b, &c);
    fi_addr_t addr, again;
    int at_b, at_c;

    rdm_net_open(&net, SPEC, 0);
    rdm_open(&a, &net, 0);
    rdm_open(&b, &net, 0);
    rdm_open(&c, &net, 0);
    addr = rdm_insert(&a, &b.name);
    receive(&b, FI_ADDR_UNSPEC, 1, &at_b);
    rdm_send(&a, addr, all, 1, NULL);
    assert_int_equal(rdm_next(&b, all, NULL, NULL, NULL), 0);
    assert_int_equal(rdm_next(&a, all, NULL, NULL, NULL), 0);

    assert_int_equal(fi_av_remove(a.av, &addr, 1, 0), 0);
    assert_int_equal(fi_tinject(a.ep, "x", 1, addr, 1), -FI_EINVAL);
    again = rdm_insert(&a, &c.name);
    assert_true(again == addr);
    receive(&c, FI_ADDR_UNSPEC, 1, &at_c);
    rdm_send(&a, again, all, 1, NULL);
    assert_int_equal(rdm_next(&c, all, NULL, NULL, NULL), 0);
    rdm_close(&a);
    rdm_close(&b);
    rdm_close(&c);
    rdm_net_close(&net);
}

static void same_address_twice_is_one_connection(void **state)
{
    struct rdm_net net;
    struct rdm a, b;
    struct rdm *const *both = RDM_ENDS(&a, &b);
    fi_addr_t one, two, src, from_a;

    rdm_net_open(&net, SPEC, 0);
    rdm_open(&a, &net, 0);
    rdm_open(&b, &net, 0);
    one = rdm_insert(&a, &b.name);
    two = rdm_insert(&a, &b.name);
    from_a = rdm_insert(&b, &a.name);
    rdm_insert(&b, &a.name);
    receive(&b, FI_ADDR_UNSPEC, 1, NULL);
    rdm_send(&a, two, both, 1, NULL);
    assert_int_equal(rdm_next(&b, both, NULL, &src, NULL), 0);
    assert_true(src == from_a);
    receive(&b, FI_ADDR_UNSPEC, 2, NULL);
    assert_int_equal(fi_av_remove(a.av, &two, 1, 0), 0);
    rdm_send(&a, one, both, 2, NULL);
    assert_int_equal(rdm_next(&b, both, NULL, &src, NULL), 0);
    rdm_close(&a);
    rdm_close(&b);
    rdm_net_close(&net);
}

/* Everybody sends to everybody, himself included, before anybody has made progress. */
static void all_connect_to_all_at_once(void **state)
{
    enum {
        ENDS = 6,
        ROUNDS = 3
    };
    struct rdm_net net;
    struct rdm ends[ENDS];
    struct rdm *list[ENDS + 1] = {NULL};
    fi_addr_t addrs[ENDS][ENDS];

    rdm_net_open(&net, SPEC, 0);
    for (int i = 0; i < ENDS; i++) {
        rdm_open(&ends[i], &net, 0);
        list[i] = &ends[i];
    }
    for (int i = 0; i < ENDS; i++)
        for (int j = 0; j < ENDS; j++) {
            addrs[i][j] = rdm_insert(&ends[i], &ends[j].name);
            for (int round = 0; round < ROUNDS; round++)
                receive(&ends[i], FI_ADDR_UNSPEC, (uint64_t)j, NULL);
            fi_tinject(ends[i].ep, "x", 1, addrs[i][j] + 0, 99); /* starts the dial */
        }
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < ENDS; i++)
            for (int j = 0; j < ENDS; j++)
                rdm_send(&ends[i], addrs[i][j], list, (uint64_t)i, NULL);
    for (int i = 0; i < ENDS; i++)
        for (int n = 0; n < 2 * ENDS * ROUNDS; n++)
            assert_int_equal(rdm_next(&ends[i], list, NULL, NULL, NULL), 0);
    for (int i = 0; i < ENDS; i++)
        rdm_close(&ends[i]);
    rdm_net_close(&net);
}

/* ---- Peers that are none ---- */

static int listen_at(struct sockaddr_in *name)
{
    int fd = rdm_bind(name);

    assert_int_equal(listen(fd, 16), 0);
    return fd;
}

static void put_header(uint8_t *bytes, uint8_t type, uint16_t len)
{
    memset(bytes, 0, 32);
    bytes[0] = 3;
    bytes[1] = type;
    bytes[3] = (uint8_t)len;
    if (type != 6)
        bytes[24] = 1;
}

/* Posts, and returns the error that it ends in. */
static int error_of_a_post(struct rdm *a, fi_addr_t to)
{
    struct fi_cq_err_entry error = {.err_data_size = 0};
    struct rdm *const *only = RDM_ENDS(a);
    int context, rc;

    rdm_send(a, to, only, 1, &context);
    rc = rdm_next(a, only, NULL, NULL, &error);
    assert_ptr_equal(error.op_context, &context);
    assert_true(error.flags & FI_SEND);
    return rc;
}

/* After its patience, and then for a while at once: test_cm.c has that in its own time. */
static void nobody_there_is_an_error_of_each_operation(void **state)
{
    struct rdm_net net;
    struct rdm a;
    struct sockaddr_in name;
    fi_addr_t to;
    int fd = rdm_bind(&name);
    long long start;

    rdm_net_open(&net, SPEC, 0);
    rdm_open(&a, &net, 0);
    to = rdm_insert(&a, &name);
    for (int i = 0; i < 2; i++) {
        start = rdm_now_ms();
        assert_int_equal(error_of_a_post(&a, to), FI_ECONNREFUSED);
        assert_true(i || rdm_now_ms() - start >= 250);
    }
    close(fd);
    rdm_close(&a);
    rdm_net_close(&net);
}

static void a_failed_operation_says_whom_it_could_not_reach(void **state)
{
    static const char *const specs[] = {SPEC, "rxm(tags=emulate,unreachable_timeout=0);tcp"};

    for (int i = 0; i < 2; i++) {
        struct fi_cq_err_entry error = {.err_data_size = 0};
        char text[128], expected[128];
        struct sockaddr_in name;
        struct rdm_net net;
        struct rdm a;
        int fd = rdm_bind(&name);

        rdm_net_open(&net, specs[i], 0);
        rdm_open(&a, &net, 0);
        rdm_send(&a, rdm_insert(&a, &name), RDM_ENDS(&a), 1, NULL);
        assert_int_equal(rdm_next(&a, RDM_ENDS(&a), NULL, NULL, &error), FI_ECONNREFUSED);
        snprintf(expected, sizeof(expected), "cannot connect to 127.0.0.1:%u: Connection refused",
                 ntohs(name.sin_port));
        assert_string_equal(
            fi_cq_strerror(a.cq, error.prov_errno, error.err_data, text, sizeof(text)), expected);
        close(fd);
        rdm_close(&a);
        rdm_net_close(&net);
    }
}

/* The peer comes up while everybody sleeps: the thread dials again by its timer. */
static void automatic_progress_dials_again_by_itself(void **state)
{
    struct rdm_net net;
    struct rdm a, b;
    struct sockaddr_in name;
    fi_addr_t to;
    int fd = rdm_bind(&name);

    rdm_net_open(&net, "rxm(tags=pass,retry_pause=50ms);tcp", 0);
    assert_int_equal(fi_close(&net.domain->fid), 0);
    net.info->domain_attr->threading = FI_THREAD_SAFE;
    net.info->domain_attr->progress = FI_PROGRESS_AUTO;
    net.info->domain_attr->control_progress = FI_PROGRESS_AUTO;
    assert_int_equal(fi_domain(net.fabric, net.info, &net.domain, NULL), 0);
    rdm_open(&a, &net, 0);
    to = rdm_insert(&a, &name);
    assert_int_equal(fi_tsend(a.ep, "x", 1, NULL, to, 1, NULL), 0);
    usleep(60000);
    rdm_open(&b, &net, ntohs(name.sin_port));
    close(fd);
    receive(&b, FI_ADDR_UNSPEC, 1, NULL);
    assert_int_equal(rdm_next(&b, RDM_ENDS(&b), NULL, NULL, NULL), 0);
    rdm_close(&a);
    rdm_close(&b);
    rdm_net_close(&net);
}

/* The answer of an upstream rxm to us. */
static void foreign_refusal_ends_at_once(void **state)
{
    uint8_t answer[64];
    struct rdm_net net;
    struct rdm a;
    struct rdm *const *only = RDM_ENDS(&a);
    struct sockaddr_in name;
    fi_addr_t to;
    struct fi_cq_err_entry error = {.err_data_size = 0};
    int fd = listen_at(&name), conn, sent;

    rdm_net_open(&net, "rxm(tags=pass,unreachable_timeout=60m);tcp", 0);
    rdm_open(&a, &net, 0);
    to = rdm_insert(&a, &name);
    assert_int_equal(fi_tsend(a.ep, "x", 1, NULL, to, 1, &sent), 0);
    rdm_drive(only, 10);
    conn = accept(fd, NULL, NULL);
    rdm_drive(only, 20);
    assert_int_equal(recv(conn, answer, sizeof(answer), 0), 52); /* 8 bytes and a trailer */
    put_header(answer, 6, 2);
    answer[32] = answer[33] = 1;
    assert_int_equal(send(conn, answer, 34, 0), 34);
    assert_int_equal(rdm_next(&a, only, NULL, NULL, &error), FI_ECONNREFUSED);
    assert_ptr_equal(error.op_context, &sent);
    close(conn);
    close(fd);
    rdm_close(&a);
    rdm_net_close(&net);
}

/* A request of an upstream rxm: 24 bytes, of which the first 8 would do as a native request. */
static void foreign_request_is_refused_in_its_own_words(void **state)
{
    static const uint8_t refused[] = {3, 6, 0, 2};
    uint8_t request[56], answer[64];
    struct rdm_net net;
    struct rdm a;
    struct rdm *const *only = RDM_ENDS(&a);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    rdm_net_open(&net, SPEC, 0);
    rdm_open(&a, &net, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a.name, sizeof(a.name)), 0);
    put_header(request, 0, 24);
    memset(request + 32, 0, 24);
    memcpy(request + 32, "\x01\x02\x04\x03\xfa\x4e\x02\x00\x00\x40", 10);
    assert_int_equal(send(fd, request, sizeof(request), 0), sizeof(request));
    rdm_drive(only, 50);
    assert_int_equal(recv(fd, answer, sizeof(answer), MSG_DONTWAIT), 34);
    assert_memory_equal(answer, refused, sizeof(refused));
    assert_memory_equal(answer + 32, "\x01\x01", 2);
    close(fd);
    rdm_close(&a);
    rdm_net_close(&net);
}

/* ---- Addresses ---- */

struct plain {
    struct fid_ep *ep;
    struct fid_av *av;
    struct fid_cq *cq;
    char name[128];
    size_t name_len;
};

static void plain_open(struct plain *end, struct fi_info *info, struct fid_domain *domain)
{
    struct fi_av_attr av_attr = {.type = FI_AV_MAP};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};

    end->name_len = sizeof(end->name);
    assert_int_equal(fi_endpoint(domain, info, &end->ep, NULL), 0);
    assert_int_equal(fi_av_open(domain, &av_attr, &end->av, NULL), 0);
    assert_int_equal(fi_cq_open(domain, &cq_attr, &end->cq, NULL), 0);
    assert_int_equal(fi_ep_bind(end->ep, &end->av->fid, 0), 0);
    assert_int_equal(fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_enable(end->ep), 0);
    assert_int_equal(fi_getname(&end->ep->fid, end->name, &end->name_len), 0);
}

static void plain_close(struct plain *end)
{
    assert_int_equal(fi_close(&end->ep->fid), 0);
    assert_int_equal(fi_close(&end->cq->fid), 0);
    assert_int_equal(fi_close(&end->av->fid), 0);
}

/* a sends to b; returns the source that b sees. */
static fi_addr_t pass_one(struct plain *a, struct plain *b, fi_addr_t to)
{
    struct fi_cq_tagged_entry entry;
    long long limit = rdm_now_ms() + RDM_LIMIT_MS;
    fi_addr_t src = 0;
    ssize_t rc;

    assert_int_equal(fi_recv(b->ep, buffer, sizeof(buffer), NULL, FI_ADDR_UNSPEC, NULL), 0);
    while ((rc = fi_inject(a->ep, "hello", 5, to)) == -FI_EAGAIN) {
        assert_true(rdm_now_ms() < limit);
        fi_cq_read(b->cq, NULL, 0);
    }
    assert_int_equal(rc, 0);
    while (fi_cq_readfrom(b->cq, &entry, 1, &src) != 1) {
        assert_true(rdm_now_ms() < limit);
        fi_cq_read(a->cq, NULL, 0);
    }
    assert_int_equal(entry.len, 5);
    return src;
}

static int plain_insert(struct plain *end, struct plain *other, uint32_t format, fi_addr_t *addr,
                        uint64_t flags)
{
    const char *texts[] = {other->name};

    return fi_av_insert(end->av, format == FI_ADDR_STR ? (const void *)texts : other->name, 1, addr,
                        flags, NULL);
}

static void in_format(uint32_t format, const char *node, uint64_t caps, uint64_t id)
{
    struct fi_info *hints = fi_allocinfo(), *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct plain a, b;
    fi_addr_t to_b, from_a;

    hints->caps = FI_MSG | FI_SOURCE | caps;
    hints->ep_attr->type = FI_EP_RDM;
    hints->addr_format = format;
    hints->fabric_attr->prov_name = strdup(SPEC);
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), node, NULL, FI_SOURCE, hints, &info), 0);
    fi_freeinfo(hints);
    assert_int_equal(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
    assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
    plain_open(&a, info, domain);
    plain_open(&b, info, domain);
    from_a = id;
    assert_int_equal(plain_insert(&a, &b, format, &to_b, 0), 1);
    assert_int_equal(plain_insert(&b, &a, format, &from_a, id ? FI_AV_USER_ID : 0), 1);
    assert_true(pass_one(&a, &b, to_b) == (id ? id : from_a));
    plain_close(&a);
    plain_close(&b);
    assert_int_equal(fi_close(&domain->fid), 0);
    assert_int_equal(fi_close(&fabric->fid), 0);
    fi_freeinfo(info);
}

static void addresses_may_be_texts(void **state)
{
    in_format(FI_ADDR_STR, "127.0.0.1", 0, 0);
}

static void addresses_may_be_long(void **state)
{
    in_format(FI_SOCKADDR_IN6, "::1", 0, 0);
}

static void sources_may_be_numbers_of_the_user(void **state)
{
    in_format(FI_SOCKADDR_IN, "127.0.0.1", FI_AV_USER_ID, 4711);
}

/* ---- Queues and counters ---- */

static void remote_write_counts_at_a_region(void **state)
{
    struct rdm_net net;
    struct rdm a, b;
    struct rdm *const *both = RDM_ENDS(&a, &b);
    static char target[4096];
    struct fid_mr *mr;
    fi_addr_t to_b;
    long long limit;

    rdm_net_open(&net, SPEC, FI_MSG | FI_TAGGED | FI_RMA | FI_RMA_EVENT);
    rdm_open(&a, &net, 0);
    rdm_open_counted(&b, &net, FI_REMOTE_WRITE, true);
    to_b = rdm_insert(&a, &b.name);
    assert_int_equal(
        fi_mr_reg(net.domain, target, sizeof(target), FI_REMOTE_WRITE, 0, 5, 0, &mr, NULL), 0);
    assert_int_equal(fi_mr_bind(mr, &b.ep->fid, 0), 0);
    fi_mr_enable(mr);
    while (fi_inject_write(a.ep, "hello", 5, to_b, 0, fi_mr_key(mr)) == -FI_EAGAIN)
        rdm_drive(both, 0);
    for (limit = rdm_now_ms() + RDM_LIMIT_MS; fi_cntr_read(b.cntr) < 1;) {
        rdm_drive(both, 0);
        assert_true(rdm_now_ms() < limit);
    }
    assert_memory_equal(target, "hello", 5);
    assert_int_equal(fi_close(&mr->fid), 0);
    rdm_close(&a);
    rdm_close(&b);
    rdm_net_close(&net);
}

static void endpoint_with_counters_only(void **state)
{
    struct rdm_net net;
    struct rdm a, b;
    struct rdm *const *both = RDM_ENDS(&a, &b);
    fi_addr_t to_b;
    long long limit = rdm_now_ms() + RDM_LIMIT_MS;

    rdm_net_open(&net, SPEC, 0);
    rdm_open_counted(&a, &net, FI_SEND | FI_RECV, false);
    rdm_open_counted(&b, &net, FI_SEND | FI_RECV, false);
    to_b = rdm_insert(&a, &b.name);
    receive(&b, FI_ADDR_UNSPEC, 1, NULL);
    rdm_send(&a, to_b, both, 1, NULL);
    while (fi_cntr_read(b.cntr) < 1 || fi_cntr_read(a.cntr) < 1) {
        rdm_progress(both);
        assert_true(rdm_now_ms() < limit);
    }
    rdm_close(&a);
    rdm_close(&b);
    rdm_net_close(&net);
}

static void alias_differs_by_its_flags(void **state)
{
    struct rdm_net net;
    struct rdm a, b;
    struct rdm *const *both = RDM_ENDS(&a, &b);
    struct fi_cq_tagged_entry entry;
    struct fid_ep *alias = NULL;
    uint64_t flags = FI_TRANSMIT;
    fi_addr_t to_b;
    int sent;

    rdm_net_open(&net, SPEC, 0);
    rdm_open(&a, &net, 0);
    rdm_open(&b, &net, 0);
    to_b = rdm_insert(&a, &b.name);
    assert_int_equal(fi_ep_alias(a.ep, &alias, FI_TRANSMIT | FI_DELIVERY_COMPLETE), 0);
    assert_int_equal(fi_close(&a.ep->fid), -FI_EBUSY);
    assert_int_equal(fi_control(&alias->fid, FI_GETOPSFLAG, &flags), 0);
    assert_int_equal(flags, FI_DELIVERY_COMPLETE);
    receive(&b, FI_ADDR_UNSPEC, 1, NULL);
    while (fi_tsend(alias, "x", 1, NULL, to_b, 1, &sent) == -FI_EAGAIN)
        rdm_drive(both, 0);
    assert_int_equal(rdm_next(&a, both, &entry, NULL, NULL), 0);
    assert_ptr_equal(entry.op_context, &sent);
    assert_int_equal(rdm_next(&b, both, NULL, NULL, NULL), 0);
    assert_int_equal(fi_close(&alias->fid), 0);
    rdm_close(&a);
    rdm_close(&b);
    rdm_net_close(&net);
}

/* Its sends may fail; a receive context may be a target only. */
static void transmit_context_needs_a_queue(void **state)
{
    struct fi_av_attr attr = {.type = FI_AV_TABLE};
    struct fid_ep *sep, *tx, *rx;
    struct rdm_net net;
    struct fid_av *av;

    rdm_net_open(&net, SPEC, 0);
    assert_int_equal(fi_scalable_ep(net.domain, net.info, &sep, NULL), 0);
    assert_int_equal(fi_tx_context(sep, 0, NULL, &tx, NULL), 0);
    assert_int_equal(fi_rx_context(sep, 0, NULL, &rx, NULL), 0);
    assert_int_equal(fi_enable(rx), -FI_ENOAV);
    assert_int_equal(fi_av_open(net.domain, &attr, &av, NULL), 0);
    assert_int_equal(fi_scalable_ep_bind(sep, &av->fid, 0), 0);
    assert_int_equal(fi_enable(tx), -FI_ENOCQ);
    assert_int_equal(fi_enable(rx), 0);
    assert_int_equal(fi_close(&tx->fid), 0);
    assert_int_equal(fi_close(&rx->fid), 0);
    assert_int_equal(fi_close(&sep->fid), 0);
    assert_int_equal(fi_close(&av->fid), 0);
    rdm_net_close(&net);
}

static void what_is_not_there_says_so(void **state)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;

    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = strdup("rxm(tags=pass);tcp");
    hints->caps = FI_HMEM;
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &info), -FI_ENODATA);
    hints->caps = FI_COLLECTIVE; /* is not rxm's; coll stands on it */
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &info), 0);
    assert_true(info->caps & FI_COLLECTIVE);
    fi_freeinfo(info);
    fi_freeinfo(hints);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_peer_is_nobody_until_inserted),
        cmocka_unit_test(unknown_source_is_an_error_where_asked),
        cmocka_unit_test(messages_outlive_their_connection),
        cmocka_unit_test(restarted_peer_is_dialled_again),
        cmocka_unit_test(removed_address_leads_nowhere_and_its_number_elsewhere),
        cmocka_unit_test(same_address_twice_is_one_connection),
        cmocka_unit_test(all_connect_to_all_at_once),
        cmocka_unit_test(nobody_there_is_an_error_of_each_operation),
        cmocka_unit_test(a_failed_operation_says_whom_it_could_not_reach),
        cmocka_unit_test(automatic_progress_dials_again_by_itself),
        cmocka_unit_test(foreign_refusal_ends_at_once),
        cmocka_unit_test(foreign_request_is_refused_in_its_own_words),
        cmocka_unit_test(addresses_may_be_texts),
        cmocka_unit_test(addresses_may_be_long),
        cmocka_unit_test(sources_may_be_numbers_of_the_user),
        cmocka_unit_test(remote_write_counts_at_a_region),
        cmocka_unit_test(endpoint_with_counters_only),
        cmocka_unit_test(alias_differs_by_its_flags),
        cmocka_unit_test(transmit_context_needs_a_queue),
        cmocka_unit_test(what_is_not_there_says_so),
    };

    return cmocka_run_group_tests_name("rxm_ep", tests, NULL, NULL);
}
