/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints of different profiles, and of datagrams: each pair speaks what both have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
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
#include <rdma/fi_ext_uet.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "../../../support/again.h"
#include "../../../support/end.h"
#include "../../../support/other_host.h"

enum {
    LONG = 20000, /* bytes: more than a packet */
    CAPS_AT = 3,  /* in an address */
    AI_BASE = 1,
    AI_FULL = 2,
    HPC = 4,
    OPTIMIZED = 0x80, /* takes short headers */
};

static char out[LONG], in[LONG];

static const char *node = "127.0.0.1"; /* of endpoints that are opened from now on */

static struct fi_info *infos(const char *provider, enum fi_ep_type type, uint32_t protocol)
{
    struct fi_info *hints = fi_allocinfo(), *list = NULL;

    assert_non_null(hints);
    hints->fabric_attr->prov_name = strdup(provider);
    hints->ep_attr->type = type;
    hints->ep_attr->protocol = protocol;
    hints->domain_attr->mr_mode = 0;
    fi_getinfo(FI_VERSION(2, 6), node, NULL, FI_SOURCE, hints, &list);
    fi_freeinfo(hints);
    return list;
}

static void open_end(struct end *end, enum fi_ep_type type, uint32_t protocol)
{
    end_open(end, infos("uet", type, protocol), FI_CQ_FORMAT_TAGGED);
}

/* Drives both until `at` has a completion. */
static struct fi_cq_tagged_entry await(struct end *at, struct end *other)
{
    struct fi_cq_tagged_entry entry;
    ssize_t rc;

    while ((rc = fi_cq_read(at->cq, &entry, 1)) == -FI_EAGAIN)
        fi_cq_read(other->cq, NULL, 0);
    assert_int_equal(rc, 1);
    return entry;
}

static void pass_message(struct end *from, struct end *to, size_t len)
{
    struct fi_cq_tagged_entry entry;

    memset(out, (int)len, sizeof(out));
    memset(in, 0, sizeof(in));
    assert_int_equal(fi_recv(to->ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, in), 0);
    assert_int_equal(fi_send(from->ep, out, len, NULL, from->peer, out), 0);
    entry = await(to, from);
    assert_ptr_equal(entry.op_context, in);
    assert_int_equal(entry.len, len);
    assert_memory_equal(in, out, len);
    await(from, to);
}

/* ---- Infos ---- */

/* Layers over its datagrams may follow. */
static bool is_end(const struct fi_info *info)
{
    return !info || strcmp(info->fabric_attr->prov_name, "uet");
}

static void an_info_for_each_profile(void **state)
{
    const uint32_t protocols[] = {FI_PROTO_UET, FI_PROTO_UET_AI_FULL, FI_PROTO_UET_AI_BASE};
    struct fi_info *list = infos("uet(profile=any)", FI_EP_RDM, FI_PROTO_UNSPEC);
    const struct fi_info *info = list;

    for (size_t i = 0; i < 3; i++, info = info->next) {
        assert_non_null(info);
        assert_int_equal(info->ep_attr->protocol, protocols[i]);
        assert_int_equal(!!(info->caps & FI_READ), protocols[i] != FI_PROTO_UET_AI_BASE);
        assert_true(info->caps & FI_TAGGED && info->caps & FI_WRITE);
    }
    assert_true(is_end(info));
    fi_freeinfo(list);
}

static void a_named_profile_is_the_only_one(void **state)
{
    struct fi_info *list = infos("uet", FI_EP_RDM, FI_PROTO_UNSPEC);

    assert_non_null(list);
    assert_int_equal(list->ep_attr->protocol, FI_PROTO_UET);
    assert_true(is_end(list->next));
    fi_freeinfo(list);
    list = infos("uet(profile=ai-full)", FI_EP_RDM, FI_PROTO_UNSPEC);

    assert_non_null(list);
    assert_int_equal(list->ep_attr->protocol, FI_PROTO_UET_AI_FULL);
    assert_true(is_end(list->next));
    fi_freeinfo(list);
    list = infos("uet(profile=ai-base)", FI_EP_RDM, FI_PROTO_UET_AI_BASE);
    assert_non_null(list);
    assert_int_equal(list->ep_attr->max_msg_size, 8192);
    assert_false(list->caps & (FI_TAGGED | FI_RMA | FI_ATOMIC));
    fi_freeinfo(list);
}

static void addresses_tell_the_profile(void **state)
{
    struct end base, full, hpc;

    open_end(&base, FI_EP_RDM, FI_PROTO_UET_AI_BASE);
    open_end(&full, FI_EP_RDM, FI_PROTO_UET_AI_FULL);
    open_end(&hpc, FI_EP_RDM, FI_PROTO_UET);
    assert_int_equal(base.name[CAPS_AT], AI_BASE);
    assert_int_equal(full.name[CAPS_AT], AI_BASE | AI_FULL);
    assert_int_equal(hpc.name[CAPS_AT], AI_BASE | AI_FULL | HPC | OPTIMIZED);
    end_close(&base);
    end_close(&full);
    end_close(&hpc);
}

/* ---- Pairs ---- */

/* Their packets are as long as the route between them takes, not as each interface does. */
static void interfaces_of_different_mtu_meet(void **state)
{
    char text[INET_ADDRSTRLEN];
    struct end a, b;
    struct fid_mr *mr;

    if (again_is_emulated() || !other_host(text))
        skip(); /* an emulator does not tell the MTU of routes */
    open_end(&a, FI_EP_RDM, FI_PROTO_UET);
    node = text;
    open_end(&b, FI_EP_RDM, FI_PROTO_UET);
    node = "127.0.0.1";
    end_meet(&a, &b);
    pass_message(&a, &b, LONG);
    pass_message(&b, &a, LONG);
    memset(out, 7, sizeof(out));
    assert_int_equal(fi_mr_reg(b.domain, out, LONG, FI_REMOTE_READ, 0, 5, 0, &mr, NULL), 0);
    assert_int_equal(fi_read(a.ep, in, LONG, NULL, a.peer, 0, 5, in), 0);
    assert_ptr_equal(await(&a, &b).op_context, in);
    assert_memory_equal(in, out, LONG);
    fi_close(&mr->fid);
    memset(out, 9, sizeof(out));
    assert_int_equal(fi_mr_reg(a.domain, out, LONG, FI_REMOTE_READ, 0, 5, 0, &mr, NULL), 0);
    assert_int_equal(fi_read(b.ep, in, LONG, NULL, b.peer, 0, 5, in), 0);
    assert_ptr_equal(await(&b, &a).op_context, in);
    assert_memory_equal(in, out, LONG);
    fi_close(&mr->fid);
    end_close(&a);
    end_close(&b);
}

static void errors_are_told_in_words(void **state)
{
    struct end a, b;
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};
    ssize_t rc;

    open_end(&a, FI_EP_RDM, FI_PROTO_UET);
    open_end(&b, FI_EP_RDM, FI_PROTO_UET);
    end_meet(&a, &b);
    assert_int_equal(fi_write(a.ep, out, 8, NULL, a.peer, 0, 12345, out), 0);
    while ((rc = fi_cq_read(a.cq, &entry, 1)) == -FI_EAGAIN)
        fi_cq_read(b.cq, NULL, 0);
    assert_int_equal(rc, -FI_EAVAIL);
    assert_int_equal(fi_cq_readerr(a.cq, &error, 0), 1);
    assert_int_equal(error.err, FI_EACCES);
    assert_non_null(
        strstr(fi_cq_strerror(a.cq, error.prov_errno, error.err_data, NULL, 0), " key"));
    assert_string_equal(fi_cq_strerror(a.cq, FI_EOTHER, NULL, NULL, 0), fi_strerror(FI_EOTHER));
    end_close(&a);
    end_close(&b);
}

static void full_and_hpc_send_long_messages(void **state)
{
    struct end a, b;

    open_end(&a, FI_EP_RDM, FI_PROTO_UET);
    open_end(&b, FI_EP_RDM, FI_PROTO_UET_AI_FULL);
    end_meet(&a, &b);
    pass_message(&a, &b, LONG);
    pass_message(&b, &a, LONG);
    end_close(&a);
    end_close(&b);
}

static void to_base_there_are_packets_and_writes_only(void **state)
{
    struct end a, b;
    uint64_t one = 1, result = 0;
    size_t most = 0, len = sizeof(most);

    open_end(&a, FI_EP_RDM, FI_PROTO_UET);
    open_end(&b, FI_EP_RDM, FI_PROTO_UET_AI_BASE);
    end_meet(&a, &b);
    pass_message(&a, &b, 8192);
    pass_message(&b, &a, 8192);
    assert_int_equal(fi_send(a.ep, out, 8193, NULL, a.peer, NULL), -FI_EMSGSIZE);
    assert_int_equal(fi_send(b.ep, out, 8193, NULL, b.peer, NULL), -FI_EMSGSIZE);
    assert_int_equal(fi_read(a.ep, in, 8, NULL, a.peer, 0, 1, NULL), -FI_EOPNOTSUPP);
    assert_int_equal(
        fi_fetch_atomic(a.ep, &one, 1, NULL, &result, NULL, a.peer, 0, 1, FI_UINT64, FI_SUM, NULL),
        -FI_EOPNOTSUPP);
    assert_int_equal(fi_getopt(&b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MAX_MSG_SIZE, &most, &len), 0);
    assert_int_equal(most, 8192);
    end_close(&a);
    end_close(&b);
}

static void base_compares_whole_tags(void **state)
{
    struct end a, b;

    open_end(&a, FI_EP_RDM, FI_PROTO_UET);
    open_end(&b, FI_EP_RDM, FI_PROTO_UET_AI_BASE);
    end_meet(&a, &b);
    assert_int_equal(fi_trecv(b.ep, in, 8, NULL, FI_ADDR_UNSPEC, 5, 1, NULL), -FI_EOPNOTSUPP);
    assert_int_equal(fi_trecv(b.ep, in, 8, NULL, FI_ADDR_UNSPEC, 5, 0, in), 0);
    assert_int_equal(fi_tsend(a.ep, out, 8, NULL, a.peer, 5, out), 0);
    assert_int_equal(await(&b, &a).tag, 5);
    await(&a, &b);
    end_close(&a);
    end_close(&b);
}

static void base_writes_to_memory(void **state)
{
    struct end a, b;
    struct fid_mr *mr;

    open_end(&a, FI_EP_RDM, FI_PROTO_UET_AI_BASE);
    open_end(&b, FI_EP_RDM, FI_PROTO_UET_AI_BASE);
    end_meet(&a, &b);
    assert_int_equal(fi_mr_reg(b.domain, in, sizeof(in), FI_REMOTE_WRITE, 0, 7, 0, &mr, NULL), 0);
    memset(out, 9, sizeof(out));
    memset(in, 0, sizeof(in));
    assert_int_equal(fi_write(a.ep, out, LONG, NULL, a.peer, 0, 7, out), 0);
    assert_ptr_equal(await(&a, &b).op_context, out);
    assert_memory_equal(in, out, LONG);
    fi_close(&mr->fid);
    end_close(&a);
    end_close(&b);
}

/* ---- Datagrams ---- */

static void datagrams_reach_both_kinds(void **state)
{
    struct end a, b;

    open_end(&a, FI_EP_DGRAM, FI_PROTO_UNSPEC);
    open_end(&b, FI_EP_RDM, FI_PROTO_UET);
    end_meet(&a, &b);
    pass_message(&a, &b, 100);
    /* A datagram endpoint has no packet delivery contexts. */
    assert_int_equal(fi_send(b.ep, out, 100, NULL, b.peer, out), 0);
    {
        struct fi_cq_err_entry error = {0};

        while (fi_cq_readerr(b.cq, &error, 0) == -FI_EAGAIN) {
            fi_cq_read(a.cq, NULL, 0);
            fi_cq_read(b.cq, NULL, 0);
        }
        assert_int_equal(error.err, FI_EOPNOTSUPP);
    }
    end_close(&a);
    end_close(&b);
}

static void a_datagram_has_data(void **state)
{
    struct end a, b;
    struct fi_cq_data_entry entry;
    struct fi_cq_tagged_entry tagged;

    open_end(&a, FI_EP_DGRAM, FI_PROTO_UNSPEC);
    open_end(&b, FI_EP_DGRAM, FI_PROTO_UNSPEC);
    end_meet(&a, &b);
    assert_int_equal(fi_recv(b.ep, in, 8, NULL, FI_ADDR_UNSPEC, in), 0);
    assert_int_equal(fi_senddata(a.ep, out, 8, NULL, 0x1234567890, a.peer, out), 0);
    tagged = await(&b, &a);
    memcpy(&entry, &tagged, sizeof(entry));
    assert_true(entry.flags & FI_REMOTE_CQ_DATA);
    assert_int_equal(entry.data, 0x1234567890);
    end_close(&a);
    end_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_info_for_each_profile),
        cmocka_unit_test(a_named_profile_is_the_only_one),
        cmocka_unit_test(addresses_tell_the_profile),
        cmocka_unit_test(errors_are_told_in_words),
        cmocka_unit_test(interfaces_of_different_mtu_meet),
        cmocka_unit_test(full_and_hpc_send_long_messages),
        cmocka_unit_test(to_base_there_are_packets_and_writes_only),
        cmocka_unit_test(base_compares_whole_tags),
        cmocka_unit_test(base_writes_to_memory),
        cmocka_unit_test(datagrams_reach_both_kinds),
        cmocka_unit_test(a_datagram_has_data),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
