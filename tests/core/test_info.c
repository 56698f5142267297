/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "core/info/info.h"
#include "core/info/nic.h"

#define V1_4 FI_VERSION(1, 4)
#define V1_5 FI_VERSION(1, 5)
#define V2_6 FI_VERSION(2, 6)

#define MSG_ALL (FI_MSG | FI_SEND | FI_RECV)
#define RMA_ALL (FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define MR_BASIC3 (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)

/* A typical offer of a software part. */
static struct fi_info *make_offer(void)
{
    struct fi_info *offer = info_alloc();

    offer->caps = MSG_ALL | RMA_ALL | FI_TAGGED | FI_MULTI_RECV | FI_LOCAL_COMM | FI_REMOTE_COMM |
                  FI_DIRECTED_RECV | FI_SOURCE | FI_RMA_EVENT;
    offer->addr_format = FI_SOCKADDR_IN;
    offer->tx_attr->msg_order = offer->rx_attr->msg_order = FI_ORDER_SAS | FI_ORDER_RAW;
    offer->tx_attr->op_flags = FI_INJECT | FI_DELIVERY_COMPLETE;
    offer->tx_attr->inject_size = 128;
    offer->tx_attr->size = 1024;
    offer->rx_attr->size = 1024;
    offer->tx_attr->iov_limit = offer->rx_attr->iov_limit = 4;
    offer->tx_attr->tclass = INFO_ANY_TCLASS;
    offer->ep_attr->type = FI_EP_RDM;
    offer->ep_attr->protocol = FI_PROTO_XNET;
    offer->ep_attr->protocol_version = 1;
    offer->ep_attr->max_msg_size = 1 << 20;
    offer->ep_attr->max_order_raw_size = 4096;
    offer->ep_attr->max_order_waw_size = 4096;
    offer->ep_attr->mem_tag_format = 0xaaaaaaaaaaaaaaaa;
    offer->ep_attr->tx_ctx_cnt = offer->ep_attr->rx_ctx_cnt = 1;
    offer->domain_attr->threading = FI_THREAD_SAFE;
    offer->domain_attr->control_progress = FI_PROGRESS_AUTO;
    offer->domain_attr->resource_mgmt = FI_RM_ENABLED;
    offer->domain_attr->mr_key_size = 8;
    offer->domain_attr->cq_data_size = 8;
    offer->domain_attr->max_ep_tx_ctx = offer->domain_attr->max_ep_rx_ctx = 1;
    info_set_string(&offer->domain_attr->name, "eth0");
    info_set_string(&offer->fabric_attr->name, "10.0.0.0/24");
    return offer;
}

/* ---- Memory ---- */

static void fill(struct fi_info *info)
{
    static uint8_t key[] = {1, 2, 3};

    info->caps = FI_MSG;
    info->handle = (fid_t)info;
    info_set_src(info, "source", 7);
    info_set_dest(info, "dest", 5);
    info_set_string(&info->domain_attr->name, "domain");
    info_set_string(&info->fabric_attr->name, "fabric");
    info_set_string(&info->fabric_attr->prov_name, "tcp");
    info->ep_attr->auth_key = memcpy(malloc(3), key, 3);
    info->ep_attr->auth_key_size = 3;
    info->domain_attr->auth_key = memcpy(malloc(3), key, 3);
    info->domain_attr->auth_key_size = 3;
    info->nic = nic_create();
    info->nic->device_attr->name = strdup("nic");
    info->nic->link_attr->network_type = strdup("Ethernet");
    info->nic->bus_attr->bus_type = FI_BUS_PCI;
}

static void a_copy_shares_nothing(void **state)
{
    struct fi_info *info = info_alloc(), *copy;

    fill(info);
    info->next = info_alloc();
    copy = info_dup(info);
    assert_null(copy->next);
    assert_ptr_equal(copy->handle, info);
    info_free(info);
    assert_string_equal(copy->src_addr, "source");
    assert_int_equal(copy->dest_addrlen, 5);
    assert_string_equal(copy->domain_attr->name, "domain");
    assert_string_equal(copy->fabric_attr->prov_name, "tcp");
    assert_int_equal(copy->ep_attr->auth_key[2], 3);
    assert_int_equal(copy->domain_attr->auth_key[0], 1);
    assert_string_equal(copy->nic->device_attr->name, "nic");
    assert_string_equal(copy->nic->link_attr->network_type, "Ethernet");
    assert_int_equal(copy->nic->bus_attr->bus_type, FI_BUS_PCI);
    assert_int_equal(copy->nic->fid.fclass, FI_CLASS_NIC);
    info_free(copy);
}

static void lists_append_at_the_end_and_a_copy_is_of_one(void **state)
{
    struct fi_info *list = NULL, *copy;

    for (uint64_t i = 1; i <= 3; i++) {
        struct fi_info *info = info_alloc();

        info->caps = i;
        info_append(&list, info);
    }
    assert_int_equal(list->caps, 1);
    assert_int_equal(list->next->caps, 2);
    assert_int_equal(list->next->next->caps, 3);
    assert_null(list->next->next->next);
    copy = info_dup(list);
    info_free(list);
    assert_int_equal(copy->caps, 1);
    assert_null(copy->next);
    info_free(copy);
    info_free(NULL);
}

static void missing_attrs_stay_missing_in_a_copy_and_are_completed(void **state)
{
    struct fi_info *info = calloc(1, sizeof(*info)), *copy;

    info->ep_attr = calloc(1, sizeof(*info->ep_attr));
    info->ep_attr->type = FI_EP_MSG;
    copy = info_dup(info);
    assert_null(copy->tx_attr);
    assert_int_equal(copy->ep_attr->type, FI_EP_MSG);
    info_free(copy);
    copy = info_complete(info);
    assert_non_null(copy->tx_attr);
    assert_non_null(copy->rx_attr);
    assert_non_null(copy->domain_attr);
    assert_non_null(copy->fabric_attr);
    assert_int_equal(copy->ep_attr->type, FI_EP_MSG);
    assert_int_equal(copy->mode, 0);
    info_free(copy);
    info_free(info);
}

static void av_auth_key_has_no_bytes_to_copy(void **state)
{
    struct fi_info *info = info_alloc(), *copy;

    info->domain_attr->auth_key_size = FI_AV_AUTH_KEY;
    copy = info_dup(info);
    assert_true(copy->domain_attr->auth_key_size == FI_AV_AUTH_KEY);
    info_free(copy);
    info_free(info);
}

/* ---- Capabilities ---- */

static void capabilities_imply_their_modifiers(void **state)
{
    static const uint64_t cases[][2] = {
        {0, 0},
        {FI_MSG, MSG_ALL},
        {FI_TAGGED, FI_TAGGED | FI_SEND | FI_RECV},
        {FI_MSG | FI_SEND, FI_MSG | FI_SEND},
        {FI_RMA, RMA_ALL},
        {FI_RMA | FI_READ, FI_RMA | FI_READ},
        {FI_ATOMIC | FI_SEND, FI_ATOMIC | FI_SEND | (RMA_ALL & ~FI_RMA)},
        {FI_MSG | FI_RMA | FI_RECV, FI_MSG | FI_RECV | RMA_ALL},
        {FI_SOURCE, FI_SOURCE},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        assert_true(caps_expand(cases[i][0]) == cases[i][1]);
}

/* ---- Refusals ---- */

typedef void edit_fn(struct fi_info *offer, struct fi_info *hints);

/* Checks an offer against hints after `edit`; `sentence` NULL: it is accepted. */
static void assert_check(uint32_t version, edit_fn *edit, const char *sentence)
{
    struct fi_info *offer = make_offer(), *hints = info_alloc();
    struct reasons *reasons = reasons_create();
    const char *said;
    int ret;

    edit(offer, hints);
    ret = info_check(offer, hints, version, reasons);
    said = reasons_summary(reasons);
    if (sentence) {
        assert_int_equal(ret, -FI_ENODATA);
        assert_non_null(said);
        assert_string_equal(said, sentence);
        assert_int_equal(info_check(offer, hints, version, NULL), -FI_ENODATA);
    } else if (ret) {
        fail_msg("refused: %s", said);
    }
    reasons_destroy(reasons);
    info_free(offer);
    info_free(hints);
}

#define EDIT(name, ...)                                                                            \
    static void name(struct fi_info *o, struct fi_info *h)                                         \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
    }

EDIT(nothing, (void)o)
EDIT(ep_type, h->ep_attr->type = FI_EP_DGRAM; h->caps = FI_ATOMIC)
EDIT(domain_name, info_set_string(&h->domain_attr->name, "ib0"))
EDIT(fabric_name, info_set_string(&h->fabric_attr->name, "net"))
EDIT(same_names, info_set_string(&h->domain_attr->name, "eth0"))
EDIT(atomics, h->caps = FI_MSG | FI_ATOMIC)
EDIT(atomics_read, h->caps = FI_MSG | FI_ATOMIC | FI_READ)
EDIT(send_only, o->caps = FI_MSG | FI_SEND; h->caps = FI_MSG)
EDIT(secondary, h->caps = FI_MSG | FI_FENCE)
EDIT(all_caps, h->caps = o->caps)
EDIT(tagged_directed, h->caps = FI_TAGGED | FI_TAGGED_DIRECTED_RECV | FI_EXACT_DIRECTED_RECV)
EDIT(tx_caps, h->tx_attr->caps = FI_ATOMIC)
EDIT(unknown_cap, h->caps = 1)
EDIT(protocol, h->ep_attr->protocol = FI_PROTO_RXM)
EDIT(protocol_version, h->ep_attr->protocol_version = 2)
EDIT(mode, o->mode = FI_CONTEXT | FI_MSG_PREFIX; h->mode = FI_CONTEXT)
EDIT(mode_given, o->mode = FI_CONTEXT; h->mode = FI_CONTEXT | FI_CONTEXT2)
EDIT(format, h->addr_format = FI_ADDR_STR)
EDIT(format_sockaddr, h->addr_format = FI_SOCKADDR)
EDIT(format_ip, h->addr_format = FI_SOCKADDR_IP)
EDIT(format_in6, h->addr_format = FI_SOCKADDR_IN6)
EDIT(threading, o->domain_attr->threading = FI_THREAD_DOMAIN;
     h->domain_attr->threading = FI_THREAD_SAFE)
EDIT(threading_less, h->domain_attr->threading = FI_THREAD_COMPLETION)
EDIT(progress, o->domain_attr->progress = FI_PROGRESS_MANUAL;
     h->domain_attr->progress = FI_PROGRESS_AUTO)
EDIT(progress_open, h->domain_attr->progress = FI_PROGRESS_AUTO)
EDIT(unified, h->domain_attr->control_progress = FI_PROGRESS_CONTROL_UNIFIED)
EDIT(resources, o->domain_attr->resource_mgmt = FI_RM_DISABLED;
     h->domain_attr->resource_mgmt = FI_RM_ENABLED)
EDIT(av_type, o->domain_attr->av_type = FI_AV_MAP; h->domain_attr->av_type = FI_AV_TABLE)
EDIT(av_type_open, h->domain_attr->av_type = FI_AV_TABLE)
EDIT(order, h->tx_attr->msg_order = FI_ORDER_SAS | FI_ORDER_WAR)
EDIT(op_flags, h->tx_attr->op_flags = FI_COMMIT_COMPLETE | FI_COMPLETION)
EDIT(op_flags_given, h->tx_attr->op_flags = FI_INJECT | FI_COMPLETION;
     h->rx_attr->op_flags = FI_COMPLETION)
EDIT(inject, h->tx_attr->inject_size = 129)
EDIT(iov, h->rx_attr->iov_limit = 5)
EDIT(max_msg, h->ep_attr->max_msg_size = 2 << 20)
EDIT(raw_size, h->ep_attr->max_order_raw_size = 8192)
EDIT(cq_data, h->domain_attr->cq_data_size = 9)
EDIT(counts_open, h->domain_attr->cq_cnt = 1000; h->domain_attr->max_cntr_value = UINT64_MAX)
EDIT(cq_cnt, o->domain_attr->cq_cnt = 10; h->domain_attr->cq_cnt = 11)
EDIT(shared_rx, h->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT)
EDIT(shared_rx_given, h->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
     o->domain_attr->max_ep_srx_ctx = 1)
EDIT(own_rx, h->ep_attr->rx_ctx_cnt = 1; o->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT)
EDIT(many_tx, h->ep_attr->tx_ctx_cnt = 2)
EDIT(tag_wide, o->ep_attr->mem_tag_format = 0xaaaaaaaa; h->ep_attr->mem_tag_format = 0x1ffffffff)
EDIT(tag_mpi, h->ep_attr->mem_tag_format = FI_TAG_MPI)
EDIT(ep_key, h->ep_attr->auth_key_size = 4)
EDIT(av_key, h->domain_attr->auth_key_size = FI_AV_AUTH_KEY)
EDIT(resources_unknown, h->domain_attr->resource_mgmt = 99)
EDIT(av_type_unknown, h->domain_attr->av_type = 99)
EDIT(comp_order_unknown, h->tx_attr->comp_order = 1ull << 50)
EDIT(tx_receives, h->tx_attr->caps = FI_RECV | FI_SOURCE)
EDIT(rx_sends, h->rx_attr->caps = FI_SEND)
EDIT(tx_does_both, h->tx_attr->caps = FI_MSG | FI_RECV | FI_SEND)
EDIT(tclass_unknown, o->tx_attr->tclass = INFO_ANY_TCLASS; h->tx_attr->tclass = 0x777)
EDIT(tclass_no_dscp, o->tx_attr->tclass = INFO_ANY_TCLASS; h->tx_attr->tclass = FI_TC_DSCP | 64)
EDIT(tclass_dscp, o->tx_attr->tclass = INFO_ANY_TCLASS; h->tx_attr->tclass = fi_tc_dscp_set(63))
EDIT(tclass_label, o->tx_attr->tclass = INFO_ANY_TCLASS; h->tx_attr->tclass = FI_TC_NETWORK_CTRL)
EDIT(tclass, h->domain_attr->tclass = FI_TC_LOW_LATENCY)
EDIT(tclass_given, h->tx_attr->tclass = FI_TC_LOW_LATENCY;
     h->domain_attr->tclass = FI_TC_BEST_EFFORT)
EDIT(local_needed, o->domain_attr->mr_mode = FI_MR_LOCAL)
EDIT(local_mode, o->domain_attr->mr_mode = FI_MR_LOCAL; h->mode = FI_LOCAL_MR)
EDIT(basic3_needed, o->domain_attr->mr_mode = MR_BASIC3)
EDIT(basic3_given, o->domain_attr->mr_mode = MR_BASIC3; h->domain_attr->mr_mode = MR_BASIC3)
EDIT(basic_asked, o->domain_attr->mr_mode = MR_BASIC3; h->domain_attr->mr_mode = FI_MR_BASIC)
EDIT(scalable_asked, o->domain_attr->mr_mode = FI_MR_PROV_KEY;
     h->domain_attr->mr_mode = FI_MR_SCALABLE)
EDIT(both_asked, h->domain_attr->mr_mode = FI_MR_BASIC | FI_MR_SCALABLE)
EDIT(bits_asked, h->domain_attr->mr_mode = MR_BASIC3)
EDIT(endpoint_needed, o->domain_attr->mr_mode = FI_MR_ENDPOINT)

static const struct {
    uint32_t version;
    edit_fn *edit;
    const char *sentence;
} refusals[] = {
    {V2_6, nothing, NULL},
    {V2_6, ep_type, "ep_attr->type: asked FI_EP_DGRAM, offered FI_EP_RDM"},
    {V2_6, domain_name, "domain_attr->name: asked 'ib0', offered 'eth0'"},
    {V2_6, fabric_name, "fabric_attr->name: asked 'net', offered '10.0.0.0/24'"},
    {V2_6, same_names, NULL},
    {V2_6, atomics, "caps: asked FI_ATOMIC, offered FI_MSG, FI_RMA, FI_TAGGED, FI_DIRECTED_RECV"},
    {V2_6, atomics_read,
     "caps: asked FI_ATOMIC, offered FI_MSG, FI_RMA, FI_TAGGED, FI_DIRECTED_RECV"},
    {V2_6, send_only, "caps: asked FI_RECV, offered FI_MSG, FI_SEND"},
    {V2_6, secondary,
     "caps: asked FI_FENCE, offered FI_MSG, FI_RMA, FI_TAGGED, FI_MULTI_RECV, FI_LOCAL_COMM, "
     "FI_REMOTE_COMM, FI_RMA_EVENT, FI_SOURCE, FI_DIRECTED_RECV"},
    {V2_6, all_caps, NULL},
    {V2_6, tagged_directed, NULL},
    {V2_6, tx_caps,
     "tx_attr->caps: asked FI_ATOMIC, offered FI_MSG, FI_RMA, FI_TAGGED, FI_DIRECTED_RECV"},
    {V2_6, unknown_cap, "caps: asked 0x1, offered FI_MSG, FI_RMA, FI_TAGGED, FI_DIRECTED_RECV"},
    {V2_6, protocol, "ep_attr->protocol: asked FI_PROTO_RXM, offered FI_PROTO_XNET"},
    {V2_6, protocol_version, "ep_attr->protocol_version: asked 2, offered 1"},
    {V2_6, mode, "mode: needs FI_MSG_PREFIX, which the hints do not allow"},
    {V2_6, mode_given, NULL},
    {V2_6, format, "addr_format: asked FI_ADDR_STR, offered FI_SOCKADDR_IN"},
    {V2_6, format_sockaddr, NULL},
    {V2_6, format_ip, NULL},
    {V2_6, format_in6, "addr_format: asked FI_SOCKADDR_IN6, offered FI_SOCKADDR_IN"},
    {V2_6, threading, "domain_attr->threading: asked FI_THREAD_SAFE, offered FI_THREAD_DOMAIN"},
    {V2_6, threading_less, NULL},
    {V2_6, progress, "domain_attr->progress: asked FI_PROGRESS_AUTO, offered FI_PROGRESS_MANUAL"},
    {V2_6, progress_open, NULL},
    {V2_6, unified, NULL},
    {V2_6, resources,
     "domain_attr->resource_mgmt: asked 'FI_RM_ENABLED', offered 'FI_RM_DISABLED'"},
    {V2_6, av_type, "domain_attr->av_type: asked FI_AV_TABLE, offered FI_AV_MAP"},
    {V2_6, av_type_open, NULL},
    {V2_6, order, "tx_attr->msg_order: asked FI_ORDER_WAR, offered FI_ORDER_RAW, FI_ORDER_SAS"},
    {V2_6, op_flags,
     "tx_attr->op_flags: asked FI_COMMIT_COMPLETE, offered FI_INJECT, FI_DELIVERY_COMPLETE"},
    {V2_6, op_flags_given, NULL},
    {V2_6, inject, "tx_attr->inject_size: asked 129, offered 128"},
    {V2_6, iov, "rx_attr->iov_limit: asked 5, offered 4"},
    {V2_6, max_msg, "ep_attr->max_msg_size: asked 2097152, offered 1048576"},
    {V2_6, raw_size, "ep_attr->max_order_raw_size: asked 8192, offered 4096"},
    {V2_6, cq_data, "domain_attr->cq_data_size: asked 9, offered 8"},
    {V2_6, counts_open, NULL},
    {V2_6, cq_cnt, "domain_attr->cq_cnt: asked 11, offered 10"},
    {V2_6, shared_rx, "ep_attr->rx_ctx_cnt: asked 'FI_SHARED_CONTEXT', offered '1'"},
    {V2_6, shared_rx_given, NULL},
    {V2_6, own_rx, "ep_attr->rx_ctx_cnt: asked '1', offered 'FI_SHARED_CONTEXT'"},
    {V2_6, many_tx, "ep_attr->tx_ctx_cnt: asked 2, offered 1"},
    {V2_6, tag_wide, "ep_attr->mem_tag_format: asked 0x1ffffffff, offered 0xaaaaaaaa"},
    {V2_6, tag_mpi, NULL},
    {V2_6, ep_key, "ep_attr->auth_key_size: asked 4, offered 0"},
    {V1_4, ep_key, NULL},
    {V2_6, av_key,
     "domain_attr->auth_key_size: asked 'FI_AV_AUTH_KEY', offered 'no authorization keys'"},
    {V2_6, tclass, "domain_attr->tclass: asked 0x201, offered 0x0"},
    {V2_6, tclass_given, NULL},
    {V2_6, tclass_unknown,
     "tx_attr->tclass: asked 0x777, which is neither a DSCP of 0 to 63 nor a label"},
    {V2_6, tclass_no_dscp,
     "tx_attr->tclass: asked 0x140, which is neither a DSCP of 0 to 63 nor a label"},
    {V2_6, tclass_dscp, NULL},
    {V2_6, tclass_label, NULL},
    {V2_6, resources_unknown,
     "domain_attr->resource_mgmt: asked '99', offered 'the values of fi_domain(3)'"},
    {V2_6, av_type_unknown,
     "domain_attr->av_type: asked '99', offered 'the values of fi_domain(3)'"},
    {V2_6, comp_order_unknown, "tx_attr->comp_order: asked 0x4000000000000, offered none"},
    {V2_6, tx_receives,
     "tx_attr->caps: asked FI_RECV, FI_SOURCE, offered FI_MSG, FI_RMA, FI_TAGGED, FI_READ, "
     "FI_WRITE, FI_SEND"},
    {V2_6, rx_sends,
     "rx_attr->caps: asked FI_SEND, offered FI_MSG, FI_RMA, FI_TAGGED, FI_RECV, FI_REMOTE_READ, "
     "FI_REMOTE_WRITE, FI_MULTI_RECV, FI_RMA_EVENT, FI_SOURCE, FI_DIRECTED_RECV"},
    {V2_6, tx_does_both, NULL},
    {V2_6, local_needed, "domain_attr->mr_mode: needs FI_MR_LOCAL, which the hints do not allow"},
    {V2_6, local_mode, "domain_attr->mr_mode: needs FI_MR_LOCAL, which the hints do not allow"},
    {V1_4, local_needed, "mode: needs FI_LOCAL_MR, which the hints do not allow"},
    {V1_4, local_mode, NULL},
    {V1_4, basic3_needed, NULL},
    {V1_5, basic3_needed,
     "domain_attr->mr_mode: needs FI_MR_VIRT_ADDR, FI_MR_ALLOCATED, FI_MR_PROV_KEY, which the "
     "hints do not allow"},
    {V1_5, basic3_given, NULL},
    {V1_4, basic_asked, NULL},
    {V1_5, basic_asked, NULL},
    {V1_4, scalable_asked,
     "domain_attr->mr_mode: needs FI_MR_PROV_KEY, which the hints and API version do not "
     "allow"},
    {V1_5, both_asked,
     "domain_attr->mr_mode: asked FI_MR_BASIC, FI_MR_SCALABLE; FI_MR_BASIC and FI_MR_SCALABLE "
     "stand alone, and other bits need API version 1.5"},
    {V1_4, bits_asked,
     "domain_attr->mr_mode: asked FI_MR_VIRT_ADDR, FI_MR_ALLOCATED, FI_MR_PROV_KEY; "
     "FI_MR_BASIC and FI_MR_SCALABLE stand alone, and other bits need API version 1.5"},
    {V1_4, endpoint_needed,
     "domain_attr->mr_mode: needs FI_MR_ENDPOINT, which the hints and API version do not "
     "allow"},
};

static void a_refusal_names_the_attribute_what_was_asked_and_offered(void **state)
{
    for (size_t i = 0; i < sizeof(refusals) / sizeof(*refusals); i++)
        assert_check(refusals[i].version, refusals[i].edit, refusals[i].sentence);
}

static void null_hints_take_every_mode(void **state)
{
    static const uint32_t versions[] = {V1_4, V1_5, V2_6};
    struct fi_info *hints = info_complete(NULL);

    for (size_t i = 0; i < sizeof(versions) / sizeof(*versions); i++) {
        struct fi_info *offer = make_offer();

        offer->mode = FI_CONTEXT2;
        offer->domain_attr->mr_mode = MR_BASIC3 | FI_MR_LOCAL;
        assert_int_equal(info_check(offer, hints, versions[i], NULL), 0);
        info_settle(offer, hints, versions[i]);
        assert_int_equal(offer->domain_attr->mr_mode,
                         versions[i] == V1_4 ? FI_MR_BASIC : (MR_BASIC3 | FI_MR_LOCAL));
        assert_true(offer->mode == (versions[i] == V1_4 ? FI_CONTEXT2 | FI_LOCAL_MR : FI_CONTEXT2));
        info_free(offer);
    }
    info_free(hints);
}

/* ---- Settling ---- */

static struct fi_info *settled(uint32_t version, edit_fn *edit)
{
    struct fi_info *offer = make_offer(), *hints = info_alloc();

    edit(offer, hints);
    assert_int_equal(info_check(offer, hints, version, NULL), 0);
    assert_int_equal(info_settle(offer, hints, version), 0);
    info_free(hints);
    return offer;
}

EDIT(ask_msg, h->caps = FI_MSG)
EDIT(ask_recv, h->caps = FI_TAGGED | FI_RECV)
EDIT(ask_source, h->caps = FI_MSG | FI_SOURCE)
EDIT(ask_tx, h->caps = FI_MSG | FI_RMA; h->tx_attr->caps = FI_MSG)

static void capabilities_are_those_asked_and_what_costs_nothing(void **state)
{
    static const struct {
        edit_fn *edit;
        uint64_t caps, tx, rx;
    } cases[] = {
        {ask_msg, MSG_ALL | FI_MULTI_RECV | FI_LOCAL_COMM | FI_REMOTE_COMM, FI_MSG | FI_SEND,
         FI_MSG | FI_RECV | FI_MULTI_RECV},
        {ask_recv, FI_TAGGED | FI_RECV | FI_LOCAL_COMM | FI_REMOTE_COMM, FI_TAGGED,
         FI_TAGGED | FI_RECV},
        {ask_source, MSG_ALL | FI_SOURCE | FI_MULTI_RECV | FI_LOCAL_COMM | FI_REMOTE_COMM,
         FI_MSG | FI_SEND, FI_MSG | FI_RECV | FI_SOURCE | FI_MULTI_RECV},
        {ask_tx, MSG_ALL | RMA_ALL | FI_MULTI_RECV | FI_LOCAL_COMM | FI_REMOTE_COMM,
         FI_MSG | FI_SEND,
         FI_MSG | FI_RMA | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_MULTI_RECV},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct fi_info *info = settled(V2_6, cases[i].edit);

        assert_true(info->caps == cases[i].caps);
        assert_true(info->tx_attr->caps == cases[i].tx);
        assert_true(info->rx_attr->caps == cases[i].rx);
        info_free(info);
    }
}

EDIT(ask_nothing, o->caps |= FI_TAGGED_MULTI_RECV | FI_TAGGED_DIRECTED_RECV)
EDIT(ask_tagged, o->caps |= FI_TAGGED_MULTI_RECV; h->caps = FI_TAGGED)
EDIT(ask_tagged_multi, o->caps |= FI_TAGGED_MULTI_RECV; h->caps = FI_TAGGED | FI_TAGGED_MULTI_RECV)
EDIT(ask_rx_multi, o->caps |= FI_TAGGED_MULTI_RECV;
     h->rx_attr->caps = FI_TAGGED | FI_RECV | FI_TAGGED_MULTI_RECV)

/* Older programs refuse an info with a bit that they do not know: upstream's fi_getinfo_test does.
 */
static void young_capabilities_are_for_who_asks(void **state)
{
    static const struct {
        edit_fn *edit;
        uint64_t young;
    } cases[] = {
        {ask_nothing, 0},
        {ask_tagged, 0},
        {ask_tagged_multi, FI_TAGGED_MULTI_RECV},
        {ask_rx_multi, FI_TAGGED_MULTI_RECV},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct fi_info *info = settled(V2_6, cases[i].edit);
        uint64_t young = FI_TAGGED_MULTI_RECV | FI_TAGGED_DIRECTED_RECV | FI_EXACT_DIRECTED_RECV;

        assert_true((info->caps & young) == cases[i].young);
        assert_true((info->rx_attr->caps & young) == cases[i].young);
        info_free(info);
    }
}

static void all_capabilities_come_when_none_are_asked(void **state)
{
    struct fi_info *offer = make_offer(), *info = settled(V2_6, nothing);

    assert_true(info->caps == offer->caps);
    assert_true(info->tx_attr->caps ==
                (FI_MSG | FI_TAGGED | FI_RMA | FI_SEND | FI_READ | FI_WRITE));
    info_free(offer);
    info_free(info);
}

EDIT(ask_models, h->domain_attr->threading = FI_THREAD_DOMAIN;
     h->domain_attr->control_progress = FI_PROGRESS_CONTROL_UNIFIED;
     h->domain_attr->progress = FI_PROGRESS_MANUAL; h->domain_attr->av_type = FI_AV_TABLE;
     h->domain_attr->resource_mgmt = FI_RM_DISABLED; h->tx_attr->msg_order = FI_ORDER_SAS;
     h->tx_attr->size = 16; h->tx_attr->op_flags = FI_DELIVERY_COMPLETE)

static void models_come_back_as_asked_never_raised(void **state)
{
    struct fi_info *info = settled(V2_6, ask_models);

    assert_int_equal(info->domain_attr->threading, FI_THREAD_DOMAIN);
    assert_int_equal(info->domain_attr->control_progress, FI_PROGRESS_CONTROL_UNIFIED);
    assert_int_equal(info->domain_attr->progress, FI_PROGRESS_MANUAL);
    assert_int_equal(info->domain_attr->av_type, FI_AV_TABLE);
    assert_int_equal(info->domain_attr->resource_mgmt, FI_RM_DISABLED);
    assert_true(info->tx_attr->msg_order == FI_ORDER_SAS);
    assert_true(info->tx_attr->op_flags == FI_DELIVERY_COMPLETE);
    assert_int_equal(info->tx_attr->size, 16);
    assert_int_equal(info->rx_attr->size, 1024);
    assert_int_equal(info->tx_attr->inject_size, 128);
    assert_int_equal(info->ep_attr->max_order_raw_size, 0);
    info_free(info);
}

static void what_hints_leave_open_is_the_offers(void **state)
{
    struct fi_info *info = settled(V2_6, nothing);

    assert_int_equal(info->domain_attr->threading, FI_THREAD_SAFE);
    assert_int_equal(info->domain_attr->control_progress, FI_PROGRESS_AUTO);
    assert_int_equal(info->domain_attr->progress, FI_PROGRESS_MANUAL);
    assert_int_equal(info->domain_attr->av_type, FI_AV_UNSPEC);
    assert_true(info->tx_attr->msg_order == (FI_ORDER_SAS | FI_ORDER_RAW));
    assert_true(info->tx_attr->op_flags == 0);
    assert_int_equal(info->tx_attr->tclass, FI_TC_UNSPEC);
    assert_int_equal(info->ep_attr->max_order_raw_size, 4096);
    assert_int_equal(info->ep_attr->max_order_waw_size, 0);
    assert_int_equal(info->fabric_attr->api_version, V2_6);
    info_free(info);
}

EDIT(ask_basic, h->domain_attr->mr_mode = FI_MR_BASIC)
EDIT(ask_scalable, h->domain_attr->mr_mode = FI_MR_SCALABLE)
EDIT(need_local, o->domain_attr->mr_mode = FI_MR_LOCAL; h->mode = FI_LOCAL_MR;
     h->domain_attr->mr_mode = FI_MR_LOCAL)
EDIT(need_local_old, o->domain_attr->mr_mode = FI_MR_LOCAL; h->mode = FI_LOCAL_MR)
EDIT(need_virt, o->domain_attr->mr_mode = FI_MR_VIRT_ADDR;
     h->domain_attr->mr_mode = MR_BASIC3 | FI_MR_LOCAL)

static void mr_mode_is_spelled_as_the_version_knows_it(void **state)
{
    static const struct {
        uint32_t version;
        edit_fn *edit;
        int mr_mode;
        uint64_t mode;
        int bits; /* info_mr_bits */
    } cases[] = {
        {V1_4, nothing, FI_MR_BASIC, 0, MR_BASIC3},
        {V1_4, ask_basic, FI_MR_BASIC, 0, MR_BASIC3},
        {V1_4, ask_scalable, FI_MR_SCALABLE, 0, 0},
        {V1_4, need_local_old, FI_MR_BASIC, FI_LOCAL_MR, MR_BASIC3 | FI_MR_LOCAL},
        {V1_5, nothing, 0, 0, 0},
        {V1_5, ask_basic, FI_MR_BASIC, 0, MR_BASIC3},
        {V1_5, ask_scalable, FI_MR_SCALABLE, 0, 0},
        {V1_5, need_local, FI_MR_LOCAL, 0, FI_MR_LOCAL},
        {V2_6, bits_asked, 0, 0, 0},
        {V2_6, need_virt, FI_MR_VIRT_ADDR, 0, FI_MR_VIRT_ADDR},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct fi_info *info = settled(cases[i].version, cases[i].edit);

        assert_int_equal(info->domain_attr->mr_mode, cases[i].mr_mode);
        assert_true(info->mode == cases[i].mode);
        assert_int_equal(info_mr_bits(info), cases[i].bits);
        info_free(info);
    }
}

static void give_key(struct fi_info *o, struct fi_info *h)
{
    o->ep_attr->auth_key_size = o->domain_attr->auth_key_size = 16;
    h->ep_attr->auth_key = memcpy(malloc(4), "key", 4);
    h->ep_attr->auth_key_size = 4;
}

static void auth_keys_are_the_applications(void **state)
{
    struct fi_info *info = settled(V2_6, give_key);

    assert_int_equal(info->ep_attr->auth_key_size, 4);
    assert_string_equal((char *)info->ep_attr->auth_key, "key");
    assert_int_equal(info->domain_attr->auth_key_size, 0);
    assert_null(info->domain_attr->auth_key);
    info_free(info);
}

EDIT(shared, h->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT; o->domain_attr->max_ep_srx_ctx = 1)

static void contexts_are_as_asked(void **state)
{
    struct fi_info *info = settled(V2_6, shared);

    assert_true(info->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT);
    assert_int_equal(info->ep_attr->tx_ctx_cnt, 1);
    info_free(info);
}

static void a_settled_info_is_accepted_as_hints(void **state)
{
    static edit_fn *const edits[] = {nothing, ask_msg, ask_models, ask_basic, shared, need_virt};

    for (size_t i = 0; i < sizeof(edits) / sizeof(*edits); i++) {
        struct fi_info *hints = settled(V2_6, edits[i]), *offer = make_offer();

        offer->domain_attr->max_ep_srx_ctx = 1;
        assert_int_equal(info_check(offer, hints, V2_6, NULL), 0);
        info_free(offer);
        info_free(hints);
    }
}

static void a_check_takes_well_under_ten_microseconds(void **state)
{
    struct fi_info *offer = make_offer(), *hints = info_alloc();
    struct timespec start, end;
    double us;

    hints->caps = FI_MSG | FI_RMA;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    for (int i = 0; i < 10000; i++)
        assert_int_equal(info_check(offer, hints, V2_6, NULL), 0);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    us = (double)(end.tv_sec - start.tv_sec) * 1e6 + (double)(end.tv_nsec - start.tv_nsec) / 1e3;
    print_message("info_check: %.3f us\n", us / 10000);
    assert_true(us / 10000 < 10);
    info_free(offer);
    info_free(hints);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_shares_nothing),
        cmocka_unit_test(lists_append_at_the_end_and_a_copy_is_of_one),
        cmocka_unit_test(missing_attrs_stay_missing_in_a_copy_and_are_completed),
        cmocka_unit_test(av_auth_key_has_no_bytes_to_copy),
        cmocka_unit_test(capabilities_imply_their_modifiers),
        cmocka_unit_test(a_refusal_names_the_attribute_what_was_asked_and_offered),
        cmocka_unit_test(null_hints_take_every_mode),
        cmocka_unit_test(capabilities_are_those_asked_and_what_costs_nothing),
        cmocka_unit_test(young_capabilities_are_for_who_asks),
        cmocka_unit_test(all_capabilities_come_when_none_are_asked),
        cmocka_unit_test(models_come_back_as_asked_never_raised),
        cmocka_unit_test(what_hints_leave_open_is_the_offers),
        cmocka_unit_test(mr_mode_is_spelled_as_the_version_knows_it),
        cmocka_unit_test(auth_keys_are_the_applications),
        cmocka_unit_test(contexts_are_as_asked),
        cmocka_unit_test(a_settled_info_is_accepted_as_hints),
        cmocka_unit_test(a_check_takes_well_under_ten_microseconds),
    };

    return cmocka_run_group_tests_name("info", tests, NULL, NULL);
}
