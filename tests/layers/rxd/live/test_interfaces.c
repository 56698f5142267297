/* SPDX-License-Identifier: BSD-2-Clause */
/* Peers on interfaces of different MTU: each takes packets, and gives answers, of its own size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "../../../support/end.h"
#include "../../../support/other_host.h"

enum {
    LONG = 100000,
    KEY = 3,
};

struct host {
    struct end end;
    struct fid_mr *mr;
    uint64_t memory[LONG / 8];
};

static struct host near, far;
static uint64_t out[LONG / 8], in[LONG / 8];

/* node NULL: of every interface. */
static void open_host(struct host *host, const char *node)
{
    struct fi_info *hints = fi_allocinfo(), *info;

    assert_non_null(hints);
    hints->caps = FI_MSG | FI_RMA | FI_ATOMIC;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = 0;
    hints->fabric_attr->prov_name = strdup("rxd;udp");
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), node, node ? NULL : "0", FI_SOURCE, hints, &info),
                     0);
    fi_freeinfo(hints);
    end_open(&host->end, info, FI_CQ_FORMAT_TAGGED);
    assert_int_equal(fi_mr_reg(host->end.domain, host->memory, LONG,
                               FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &host->mr, NULL),
                     0);
}

static void close_host(struct host *host)
{
    assert_int_equal(fi_close(&host->mr->fid), 0);
    end_close(&host->end);
}

static void await(struct end *at, struct end *other, const void *context)
{
    struct fi_cq_tagged_entry entry;
    ssize_t rc;

    while ((rc = fi_cq_read(at->cq, &entry, 1)) == -FI_EAGAIN)
        fi_cq_read(other->cq, NULL, 0);
    assert_int_equal(rc, 1);
    assert_ptr_equal(entry.op_context, context);
}

static void pass_all(struct host *from, struct host *to)
{
    assert_int_equal(fi_recv(to->end.ep, in, LONG, NULL, FI_ADDR_UNSPEC, in), 0);
    assert_int_equal(fi_send(from->end.ep, out, LONG, NULL, from->end.peer, out), 0);
    await(&to->end, &from->end, in);
    assert_memory_equal(in, out, LONG);
    await(&from->end, &to->end, out);
    assert_int_equal(fi_write(from->end.ep, out, LONG, NULL, from->end.peer, 0, KEY, out), 0);
    await(&from->end, &to->end, out);
    memset(in, 0, sizeof(in));
    assert_int_equal(fi_read(from->end.ep, in, LONG, NULL, from->end.peer, 0, KEY, in), 0);
    await(&from->end, &to->end, in);
    assert_memory_equal(in, out, LONG);
}

/* The largest atomics of the initiator: results, too, which the target may have to cut. */
static void add_all(struct host *from, struct host *to)
{
    size_t most = 0;

    assert_int_equal(fi_fetch_atomicvalid(from->end.ep, FI_UINT64, FI_SUM, &most), 0);
    assert_in_range(most, 1, LONG / 8);
    memset(in, 0, sizeof(in));
    assert_int_equal(
        fi_atomic(from->end.ep, out, most, NULL, from->end.peer, 0, KEY, FI_UINT64, FI_SUM, out),
        0);
    assert_int_equal(fi_fetch_atomic(from->end.ep, out, most, NULL, in, NULL, from->end.peer, 0,
                                     KEY, FI_UINT64, FI_SUM, in),
                     0);
    await(&from->end, &to->end, out);
    await(&from->end, &to->end, in);
    for (size_t i = 0; i < most; i++) {
        assert_int_equal(in[i], 2 * out[i]); /* it was written before */
        assert_int_equal(to->memory[i], 3 * out[i]);
    }
}

static void interfaces_of_different_mtu_meet(void **state)
{
    char text[INET_ADDRSTRLEN];

    if (!other_host(text))
        skip();
    open_host(&near, "127.0.0.1");
    open_host(&far, text);
    end_meet(&near.end, &far.end);
    for (size_t i = 0; i < LONG / 8; i++)
        out[i] = i * 2654435761U;
    pass_all(&near, &far);
    add_all(&near, &far);
    pass_all(&far, &near);
    add_all(&far, &near);
    close_host(&near);
    close_host(&far);
}

/* near knows it by another address than far's name says. */
static void open_far_everywhere(void)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    open_host(&near, "127.0.0.1");
    open_host(&far, NULL);
    assert_string_equal(far.end.info->domain_attr->name, "udp");
    addr.sin_port = ((struct sockaddr_in *)(void *)far.end.name)->sin_port;
    assert_int_equal(fi_av_insert(near.end.av, &addr, 1, &near.end.peer, 0, NULL), 1);
    assert_int_equal(fi_av_insert(far.end.av, near.end.name, 1, &far.end.peer, 0, NULL), 1);
    for (size_t i = 0; i < LONG / 8; i++)
        out[i] = i * 2654435761U;
}

static void an_endpoint_of_every_interface_is_reached(void **state)
{
    open_far_everywhere();
    pass_all(&near, &far);
    pass_all(&far, &near);
    close_host(&near);
    close_host(&far);
}

/* A peer that has sent it nothing yet knows it by its address vector. */
static void an_endpoint_of_every_interface_speaks_first(void **state)
{
    open_far_everywhere();
    pass_all(&far, &near);
    pass_all(&near, &far);
    close_host(&near);
    close_host(&far);
}

/* Layers that add something to it have no address of it in packets. */
static void layers_above_leave_it_every_interface(void **state)
{
    static const struct {
        uint64_t caps, order;
        const char *layer;
    } above[] = {{FI_TRIGGER, 0, ";ofi_trigger"},
                 {0, FI_ORDER_STRICT, ";ofi_order"},
                 {FI_TRIGGER, FI_ORDER_STRICT, ";ofi_order;ofi_trigger"}};

    for (size_t i = 0; i < sizeof(above) / sizeof(above[0]); i++) {
        struct fi_info *hints = fi_allocinfo(), *info;

        assert_non_null(hints);
        hints->caps = FI_MSG | above[i].caps;
        hints->addr_format = FI_SOCKADDR_IN;
        hints->ep_attr->type = FI_EP_RDM;
        hints->tx_attr->comp_order = above[i].order;
        hints->fabric_attr->prov_name = strdup("rxd;udp");
        assert_int_equal(fi_getinfo(FI_VERSION(2, 6), NULL, "0", FI_SOURCE, hints, &info), 0);
        assert_non_null(strstr(info->fabric_attr->prov_name, above[i].layer));
        assert_int_equal(((struct sockaddr_in *)info->src_addr)->sin_addr.s_addr,
                         htonl(INADDR_ANY));
        fi_freeinfo(info);
        fi_freeinfo(hints);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interfaces_of_different_mtu_meet),
        cmocka_unit_test(an_endpoint_of_every_interface_is_reached),
        cmocka_unit_test(an_endpoint_of_every_interface_speaks_first),
        cmocka_unit_test(layers_above_leave_it_every_interface),
    };

    return cmocka_run_group_tests_name("rxd: interfaces", tests, NULL, NULL);
}
