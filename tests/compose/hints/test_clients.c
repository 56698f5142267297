/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hints of other projects' programs, and the families that they get: provider and endpoint type, in
 * order, equal ones that follow each other once. `want` is what the parts that are here must give;
 * `lacks` says what a program that gets nothing, or less than elsewhere, waits for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#define RMA_ALL (FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define COMM (FI_LOCAL_COMM | FI_REMOTE_COMM)
#define CONTEXTS (FI_CONTEXT | FI_CONTEXT2)
#define MR_BASIC3 (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)
#define DELIVERED (FI_COMPLETION | FI_DELIVERY_COMPLETE)

#define NOTHING ""
#define BOTH "tcp FI_EP_RDM, tcp;ofi_rxm FI_EP_RDM, "
#define ALL BOTH "udp;ofi_rxd FI_EP_RDM, "
#define SHM "shm FI_EP_RDM, " /* last: it does not reach other nodes */

struct client {
    const char *name;
    uint32_t version;
    uint64_t caps, mode, order, op_flags;
    int mr_mode;
    enum fi_threading threading;
    enum fi_progress progress; /* data and control */
    enum fi_av_type av_type;
    enum fi_resource_mgmt resource_mgmt;
    size_t cq_data_size, inject_size;
    uint32_t protocol, addr_format;
    uint64_t domain_mode;
    const char *provider, *domain, *node;
    const char *want, *lacks;
    int want_mr_mode; /* of the first info, when not 0 */
};

static const struct client clients[] = {
    {.name = "MPICH, full set",
     .version = FI_VERSION(2, 6),
     .caps = FI_MSG | RMA_ALL | FI_TAGGED | FI_DIRECTED_RECV | FI_MULTI_RECV | FI_ATOMIC,
     .mode = CONTEXTS | FI_ASYNC_IOV | FI_RX_CQ_DATA,
     .order = FI_ORDER_SAS | FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR |
              FI_ORDER_ATOMIC_WAW,
     .op_flags = DELIVERED,
     .mr_mode = MR_BASIC3 | FI_MR_ENDPOINT,
     .threading = FI_THREAD_DOMAIN,
     .progress = FI_PROGRESS_MANUAL,
     .av_type = FI_AV_TABLE,
     .resource_mgmt = FI_RM_ENABLED,
     .domain_mode = FI_RESTRICTED_COMP,
     .want = ALL SHM},
    {.name = "MPICH, without atomics",
     .version = FI_VERSION(2, 6),
     .caps = FI_MSG | RMA_ALL | FI_TAGGED | FI_DIRECTED_RECV | FI_MULTI_RECV,
     .mode = CONTEXTS | FI_ASYNC_IOV | FI_RX_CQ_DATA,
     .order = FI_ORDER_SAS,
     .op_flags = DELIVERED,
     .mr_mode = MR_BASIC3 | FI_MR_ENDPOINT,
     .threading = FI_THREAD_DOMAIN,
     .progress = FI_PROGRESS_MANUAL,
     .av_type = FI_AV_TABLE,
     .resource_mgmt = FI_RM_ENABLED,
     .domain_mode = FI_RESTRICTED_COMP,
     .want = ALL SHM},
    {.name = "MPICH, minimal set",
     .version = FI_VERSION(2, 6),
     .caps = FI_MSG | FI_MULTI_RECV | FI_RMA,
     .mode = CONTEXTS | FI_ASYNC_IOV | FI_RX_CQ_DATA,
     .order = FI_ORDER_SAS,
     .op_flags = FI_COMPLETION,
     .mr_mode = FI_MR_ENDPOINT,
     .threading = FI_THREAD_DOMAIN,
     .progress = FI_PROGRESS_MANUAL,
     .av_type = FI_AV_TABLE,
     .resource_mgmt = FI_RM_ENABLED,
     .want = ALL SHM},
    {.name = "Open MPI mtl/ofi",
     .version = FI_VERSION(1, 9),
     .caps = FI_MSG | FI_TAGGED | COMM | FI_DIRECTED_RECV,
     .mode = CONTEXTS,
     .order = FI_ORDER_SAS,
     .op_flags = FI_COMPLETION,
     .threading = FI_THREAD_DOMAIN,
     .av_type = FI_AV_MAP,
     .resource_mgmt = FI_RM_ENABLED,
     .cq_data_size = 4,
     .want = ALL},
    {.name = "Open MPI mtl/ofi, device memory",
     .version = FI_VERSION(1, 9),
     .caps = FI_MSG | FI_TAGGED | COMM | FI_DIRECTED_RECV | FI_HMEM,
     .mode = CONTEXTS,
     .order = FI_ORDER_SAS,
     .op_flags = FI_COMPLETION,
     .mr_mode = FI_MR_HMEM | FI_MR_ALLOCATED,
     .threading = FI_THREAD_DOMAIN,
     .av_type = FI_AV_MAP,
     .resource_mgmt = FI_RM_ENABLED,
     .want = NOTHING,
     .lacks = "device memory; the client asks again without"},
    {.name = "Open MPI btl/ofi",
     .version = FI_VERSION(1, 18),
     .caps = FI_RMA | FI_ATOMIC,
     .mode = CONTEXTS,
     .op_flags = DELIVERED,
     .mr_mode = MR_BASIC3 | FI_MR_ENDPOINT,
     .threading = FI_THREAD_DOMAIN,
     .av_type = FI_AV_MAP,
     .want = ALL SHM},
    {.name = "Open MPI btl/ofi, with messages",
     .version = FI_VERSION(1, 18),
     .caps = FI_MSG | FI_RMA | FI_ATOMIC,
     .mode = CONTEXTS,
     .op_flags = DELIVERED,
     .mr_mode = MR_BASIC3 | FI_MR_ENDPOINT,
     .threading = FI_THREAD_DOMAIN,
     .av_type = FI_AV_MAP,
     .want = ALL SHM},
    {.name = "Sandia OpenSHMEM, scalable",
     .version = FI_VERSION(1, 5),
     .caps = FI_RMA | FI_ATOMIC,
     .op_flags = FI_DELIVERY_COMPLETE,
     .threading = FI_THREAD_SAFE,
     .progress = FI_PROGRESS_AUTO,
     .inject_size = 16,
     .want = ALL SHM},
    {.name = "Sandia OpenSHMEM, basic",
     .version = FI_VERSION(1, 5),
     .caps = FI_RMA | FI_ATOMIC,
     .op_flags = FI_DELIVERY_COMPLETE,
     .mr_mode = MR_BASIC3,
     .threading = FI_THREAD_SAFE,
     .progress = FI_PROGRESS_AUTO,
     .inject_size = 16,
     .want = ALL SHM},
    {.name = "Sandia OpenSHMEM, events and counters at the target",
     .version = FI_VERSION(1, 5),
     .caps = FI_RMA | FI_ATOMIC | FI_RMA_EVENT | FI_FENCE,
     .op_flags = FI_DELIVERY_COMPLETE,
     .threading = FI_THREAD_SAFE,
     .progress = FI_PROGRESS_AUTO,
     .inject_size = 16,
     .want = ALL SHM},
    {.name = "Mercury tcp",
     .version = FI_VERSION(1, 20),
     .caps = FI_MSG | FI_TAGGED | FI_RMA | FI_DIRECTED_RECV | FI_MULTI_RECV,
     .mode = FI_ASYNC_IOV | FI_CONTEXT,
     .op_flags = FI_INJECT_COMPLETE,
     .mr_mode = MR_BASIC3 | FI_MR_LOCAL | FI_MR_ENDPOINT,
     .progress = FI_PROGRESS_MANUAL,
     .resource_mgmt = FI_RM_ENABLED,
     .protocol = FI_PROTO_XNET,
     .addr_format = FI_SOCKADDR_IN,
     .provider = "tcp",
     .node = "127.0.0.1",
     .want = BOTH},
    {.name = "Mercury tcp;ofi_rxm",
     .version = FI_VERSION(1, 20),
     .caps = FI_MSG | FI_TAGGED | FI_RMA | FI_DIRECTED_RECV | FI_MULTI_RECV,
     .mode = FI_ASYNC_IOV | FI_CONTEXT,
     .op_flags = FI_INJECT_COMPLETE,
     .mr_mode = MR_BASIC3 | FI_MR_LOCAL | FI_MR_ENDPOINT,
     .progress = FI_PROGRESS_MANUAL,
     .resource_mgmt = FI_RM_ENABLED,
     .protocol = FI_PROTO_RXM,
     .addr_format = FI_SOCKADDR_IN,
     .provider = "tcp;ofi_rxm",
     .node = "127.0.0.1",
     .want = "tcp;ofi_rxm FI_EP_RDM, "},
    {.name = "Mercury shm",
     .version = FI_VERSION(1, 20),
     .caps = FI_MSG | FI_TAGGED | FI_RMA | FI_DIRECTED_RECV | FI_MULTI_RECV,
     .mode = FI_ASYNC_IOV | FI_CONTEXT,
     .mr_mode = MR_BASIC3 | FI_MR_LOCAL | FI_MR_ENDPOINT,
     .protocol = FI_PROTO_SHM,
     .provider = "shm",
     .want = SHM},
    {.name = "aws-ofi-nccl RDMA",
     .version = FI_VERSION(1, 20),
     .caps = FI_MSG | FI_RMA | FI_HMEM | COMM,
     .mode = CONTEXTS,
     .mr_mode = MR_BASIC3 | FI_MR_LOCAL | FI_MR_HMEM | FI_MR_ENDPOINT,
     .threading = FI_THREAD_COMPLETION,
     .cq_data_size = 4,
     .want = NOTHING,
     .lacks = "device memory"},
    {.name = "aws-ofi-nccl SENDRECV",
     .version = FI_VERSION(1, 6),
     .caps = FI_TAGGED | FI_MSG | COMM,
     .mode = CONTEXTS,
     .order = FI_ORDER_SAS,
     .mr_mode = MR_BASIC3 | FI_MR_LOCAL | FI_MR_ENDPOINT,
     .threading = FI_THREAD_SAFE,
     .want = ALL},
    {.name = "NIXL discovery",
     .version = FI_VERSION(1, 18),
     .caps = FI_MSG | FI_RMA | COMM,
     .mode = FI_CONTEXT,
     .mr_mode = ~3,
     .threading = FI_THREAD_COMPLETION,
     .want = ALL},
    {.name = "NIXL rail",
     .version = FI_VERSION(1, 18),
     .caps = FI_MSG | FI_RMA | COMM,
     .mode = FI_CONTEXT,
     .mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED,
     .threading = FI_THREAD_COMPLETION,
     .domain = "lo",
     .want = ALL},
    {.name = "NVSHMEM",
     .version = FI_VERSION(2, 6),
     .caps = FI_RMA | FI_HMEM | FI_ATOMIC,
     .mode = FI_CONTEXT2,
     .op_flags = FI_DELIVERY_COMPLETE,
     .mr_mode = ~3,
     .threading = FI_THREAD_SAFE,
     .want = NOTHING,
     .lacks = "device memory, atomics"},
    {.name = "oneCCL",
     .version = FI_VERSION(1, 17),
     .caps = FI_TAGGED,
     .mode = FI_CONTEXT,
     .progress = FI_PROGRESS_MANUAL,
     .resource_mgmt = FI_RM_ENABLED,
     .want = ALL SHM},
    {.name = "Charm++",
     .version = FI_VERSION(1, 0),
     .caps = FI_TAGGED | FI_RMA | FI_REMOTE_READ,
     .mode = FI_CONTEXT,
     .threading = FI_THREAD_SAFE,
     .progress = FI_PROGRESS_MANUAL,
     .resource_mgmt = FI_RM_ENABLED,
     .want = ALL SHM,
     .want_mr_mode = FI_MR_BASIC},
    {.name = "GASNet, mr_mode 0",
     .version = FI_VERSION(1, 5),
     .caps = FI_RMA | FI_MSG | FI_MULTI_RECV,
     .threading = FI_THREAD_SAFE,
     .want = ALL SHM},
    {.name = "GASNet, all of mr_mode",
     .version = FI_VERSION(1, 5),
     .caps = FI_RMA | FI_MSG | FI_MULTI_RECV,
     .mr_mode = MR_BASIC3,
     .threading = FI_THREAD_DOMAIN,
     .want = ALL SHM},
};

static struct fi_info *hints_of(const struct client *client)
{
    struct fi_info *hints = fi_allocinfo();
    struct fi_domain_attr *domain = hints->domain_attr;

    hints->caps = client->caps;
    hints->mode = client->mode;
    hints->addr_format = client->addr_format;
    hints->ep_attr->type = FI_EP_RDM;
    hints->ep_attr->protocol = client->protocol;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = client->order;
    hints->tx_attr->op_flags = client->op_flags;
    hints->tx_attr->inject_size = client->inject_size;
    domain->mode = client->domain_mode;
    domain->mr_mode = client->mr_mode;
    domain->threading = client->threading;
    domain->data_progress = domain->control_progress = client->progress;
    domain->av_type = client->av_type;
    domain->resource_mgmt = client->resource_mgmt;
    domain->cq_data_size = client->cq_data_size;
    if (client->provider)
        hints->fabric_attr->prov_name = strdup(client->provider);
    if (client->domain)
        domain->name = strdup(client->domain);
    return hints;
}

static void families_of(const struct fi_info *infos, char *text, size_t size)
{
    char last[256] = "";

    text[0] = 0;
    for (; infos; infos = infos->next) {
        char type[64], family[256];

        fi_tostr_r(type, sizeof(type), &infos->ep_attr->type, FI_TYPE_EP_TYPE);
        snprintf(family, sizeof(family), "%s %s, ", infos->fabric_attr->prov_name, type);
        if (strcmp(family, last))
            strncat(text, family, size - strlen(text) - 1);
        strcpy(last, family);
    }
}

static void clients_get_their_families(void **state)
{
    int wrong = 0;

    for (size_t i = 0; i < sizeof(clients) / sizeof(clients[0]); i++) {
        const struct client *client = &clients[i];
        struct fi_info *hints = hints_of(client), *infos = NULL;
        uint64_t flags = client->node ? FI_SOURCE | FI_NUMERICHOST : 0;
        char families[1024];
        int rc = fi_getinfo(client->version, client->node, NULL, flags, hints, &infos);

        families_of(infos, families, sizeof(families));
        if (strcmp(families, client->want) || (rc && rc != -FI_ENODATA)) {
            print_message("%s: %d '%s', not '%s'\n", client->name, rc, families, client->want);
            setenv("FI_EXPLAIN", "1", 1);
            fi_getinfo(client->version, client->node, NULL, flags, hints, &infos);
            unsetenv("FI_EXPLAIN");
            wrong++;
        } else if (client->want_mr_mode) {
            assert_int_equal(infos->domain_attr->mr_mode, client->want_mr_mode);
        }
        fi_freeinfo(infos);
        fi_freeinfo(hints);
    }
    assert_int_equal(wrong, 0);
}

/* Three endpoints, as GASNet has, each with queues of its own. */
static void opens_endpoints(struct fid_domain *domain, struct fi_info *info, struct fid_av *av)
{
    struct fi_cq_attr attr = {.format =
                                  info->caps & FI_TAGGED ? FI_CQ_FORMAT_TAGGED : FI_CQ_FORMAT_DATA};
    struct fid_ep *ep[3];
    struct fid_cq *cq[3];

    for (int i = 0; i < 3; i++) {
        assert_int_equal(fi_endpoint(domain, info, &ep[i], NULL), 0);
        assert_int_equal(fi_cq_open(domain, &attr, &cq[i], NULL), 0);
        assert_int_equal(fi_ep_bind(ep[i], &cq[i]->fid, FI_TRANSMIT | FI_RECV), 0);
        assert_int_equal(fi_ep_bind(ep[i], &av->fid, 0), 0);
        assert_int_equal(fi_enable(ep[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fi_close(&ep[i]->fid), 0);
        assert_int_equal(fi_close(&cq[i]->fid), 0);
    }
}

/* Opens what the client was given, as it was given it. */
static void opens(const struct client *client, const struct fi_info *given)
{
    struct fi_av_attr attr = {.type = client->av_type ? client->av_type : FI_AV_TABLE};
    struct fi_info *info = fi_dupinfo(given);
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;

    assert_int_equal(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
    assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
    assert_int_equal(fi_av_open(domain, &attr, &av, NULL), 0);
    opens_endpoints(domain, info, av);
    assert_int_equal(fi_close(&av->fid), 0);
    assert_int_equal(fi_close(&domain->fid), 0);
    assert_int_equal(fi_close(&fabric->fid), 0);
    fi_freeinfo(info);
}

static void check_given(const struct client *client, const struct fi_info *info)
{
    if (client->threading)
        assert_int_equal(info->domain_attr->threading, client->threading);
    assert_true(info->src_addrlen <= FI_NAME_MAX); /* MPICH's buffer */
    assert_int_equal(info->caps & client->caps, client->caps);
    assert_int_equal(info->tx_attr->msg_order & client->order, client->order);
    if (client->domain)
        assert_string_equal(info->domain_attr->name, client->domain);
    opens(client, info);
}

/* By that stack, whose name, protocol and addresses are not those that some clients ask for by
 * name; lo: its domain on lo. No stack offers device memory. Returns how many were served. */
static int clients_get(const char *spec, const char *lo, const char *families_wanted)
{
    int wrong = 0, served = 0;

    setenv("FI_PROVIDER", spec, 1);
    for (size_t i = 0; i < sizeof(clients) / sizeof(clients[0]); i++) {
        struct client any = clients[i], *client = &any;
        bool wanted = !(client->caps & FI_HMEM);
        struct fi_info *hints, *infos = NULL;
        char families[1024];

        any.provider = NULL;
        any.protocol = any.addr_format = 0;
        any.domain = any.domain ? lo : NULL;
        hints = hints_of(client);
        fi_getinfo(client->version, NULL, NULL, 0, hints, &infos);
        families_of(infos, families, sizeof(families));
        if (strcmp(families, wanted ? families_wanted : NOTHING)) {
            print_message("%s: '%s'\n", client->name, families);
            wrong++;
        } else if (wanted) {
            check_given(client, infos);
            served++;
        }
        fi_freeinfo(infos);
        fi_freeinfo(hints);
    }
    unsetenv("FI_PROVIDER");
    assert_int_equal(wrong, 0);
    return served;
}

static void clients_get_a_join_that_they_name(void **state)
{
    assert_int_equal(
        clients_get("lnx;[shm+rxm;tcp]", "shm+lo", "lnx;[shm+tcp;ofi_rxm] FI_EP_RDM, "), 19);
}

static void clients_get_rails_that_they_name(void **state)
{
    assert_int_equal(clients_get("mrail(same=yes);[rxm;tcp(iface=lo)+rxm;tcp(iface=lo)]", "lo+lo",
                                 "ofi_mrail;[tcp;ofi_rxm+tcp;ofi_rxm] FI_EP_RDM, "),
                     19);
}

static void clients_get_messages_over_datagrams(void **state)
{
    assert_int_equal(clients_get("udp;ofi_rxd", "lo", "udp;ofi_rxd FI_EP_RDM, "), 19);
}

/* MPICH's first call, fi_info without options. */
static void null_hints_list_rdm_before_connections(void **state)
{
    struct fi_info *infos = NULL;
    char families[1024];

    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, NULL, &infos), 0);
    families_of(infos, families, sizeof(families));
    assert_string_equal(families, ALL SHM "udp FI_EP_DGRAM, tcp FI_EP_MSG, ");
    fi_freeinfo(infos);
}

/* The same for every version, on every stack; MPICH asks with version 0. */
static void null_hints_get_the_same_families_in_every_version(void **state)
{
    static const char *const specs[] = {
        "",
        "tcp",
        "tcp;ofi_rxm",
        "rxm(tags=pass);tcp",
        "rxm(use_srx=no);tcp",
        "trace;rxm;trace;tcp",
        "trigger;order;coll;noop;tcp",
        "coll;rxm;tcp",
        "debug;rxm;loop",
        "coll;shm",
        "order;shm",
        "loop",
        "lnx;[shm+rxm;tcp]",
        "mrail;[rxm;tcp(iface=lo)+rxd;udp(iface=lo)]",
    };
    uint32_t versions[32] = {0};
    size_t count = 1;

    for (uint32_t minor = 0; minor <= 21; minor++)
        versions[count++] = FI_VERSION(1, minor);
    for (uint32_t minor = 0; minor <= FI_MINOR_VERSION; minor++)
        versions[count++] = FI_VERSION(2, minor);
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        char wanted[1024], families[1024];

        setenv("FI_PROVIDER", specs[i], 1);
        for (size_t j = count; j--;) {
            struct fi_info *infos = NULL;

            assert_int_equal(fi_getinfo(versions[j], NULL, NULL, 0, NULL, &infos), 0);
            families_of(infos, families, sizeof(families));
            fi_freeinfo(infos);
            if (j == count - 1)
                strcpy(wanted, families);
            assert_string_equal(families, wanted);
        }
    }
    unsetenv("FI_PROVIDER");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_hints_list_rdm_before_connections),
        cmocka_unit_test(null_hints_get_the_same_families_in_every_version),
        cmocka_unit_test(clients_get_their_families),
        cmocka_unit_test(clients_get_a_join_that_they_name),
        cmocka_unit_test(clients_get_rails_that_they_name),
        cmocka_unit_test(clients_get_messages_over_datagrams),
    };

    return cmocka_run_group_tests_name("clients", tests, NULL, NULL);
}
