/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every fi_info that fi_getinfo returns keeps what its hints ask, opens as it was returned (fabric,
 * domain, endpoint, enable), and is found again under its own provider name. The hints are drawn;
 * HINTS_SEED repeats a run, HINTS_ROUNDS makes it longer.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

static uint32_t seed;

static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

/* One chance in n. */
static int chance(uint32_t n)
{
    return !draw(n);
}

static uint64_t draw_flags(const uint64_t *flags, size_t count, uint32_t rarity)
{
    uint64_t drawn = 0;

    for (size_t i = 0; i < count; i++)
        drawn |= chance(rarity) ? flags[i] : 0;
    return drawn;
}

#define DRAW(values) ((values)[draw(sizeof(values) / sizeof((values)[0]))])
#define DRAW_FLAGS(flags, rarity) draw_flags(flags, sizeof(flags) / sizeof((flags)[0]), rarity)

static const char *const providers[] = {
    NULL,
    NULL,
    "tcp",
    "tcp",
    "tcp;ofi_rxm",
    "rxm;tcp",
    "noop;rxm;noop;tcp",
    "noop;tcp",
    "tcp(iface=lo)",
    "rxm(retry_pause=20ms);tcp",
    "lnx;[shm+rxm;tcp]",
    "noop;lnx;[noop;shm+rxm;tcp(iface=lo)]",
    "mrail;[rxm;tcp(iface=lo)+rxd;udp(iface=lo)]",
    "noop;mrail;[lnx;[shm+rxm;tcp]+rxd;udp]",
};
static const uint32_t versions[] = {
    FI_VERSION(1, 0),  FI_VERSION(1, 4),  FI_VERSION(1, 5), FI_VERSION(1, 9),
    FI_VERSION(1, 17), FI_VERSION(1, 20), FI_VERSION(2, 0), FI_VERSION(2, 6),
};
static const uint64_t caps[] = {
    FI_MSG,  FI_TAGGED,     FI_RMA,        FI_DIRECTED_RECV, FI_SOURCE,    FI_SEND,
    FI_RECV, FI_MULTI_RECV, FI_LOCAL_COMM, FI_REMOTE_COMM,   FI_RMA_EVENT,
};
static const uint64_t orders[] = {FI_ORDER_SAS, FI_ORDER_WAW, FI_ORDER_RAW, FI_ORDER_SAW};
static const int mr_modes[] = {FI_MR_LOCAL,    FI_MR_VIRT_ADDR, FI_MR_ALLOCATED,
                               FI_MR_PROV_KEY, FI_MR_ENDPOINT,  FI_MR_RMA_EVENT};
static const uint32_t formats[] = {FI_SOCKADDR_IN, FI_SOCKADDR, FI_SOCKADDR_IN6, FI_ADDR_STR};
static const char *const nodes[] = {"127.0.0.1", "localhost", "::1"};

static void draw_domain(struct fi_domain_attr *attr, uint32_t version)
{
    attr->threading = chance(2) ? draw(FI_THREAD_ENDPOINT + 1) : FI_THREAD_UNSPEC;
    attr->control_progress = draw(3);
    attr->data_progress = draw(3);
    attr->resource_mgmt = chance(2) ? FI_RM_ENABLED : FI_RM_UNSPEC;
    attr->av_type = chance(2) ? FI_AV_TABLE : FI_AV_UNSPEC;
    if (FI_VERSION_LT(version, FI_VERSION(1, 5)))
        attr->mr_mode = (int)draw(3);
    else
        for (size_t i = 0; i < sizeof(mr_modes) / sizeof(mr_modes[0]); i++)
            attr->mr_mode |= chance(2) ? mr_modes[i] : 0;
    if (chance(4))
        attr->cq_data_size = 4;
    if (chance(4))
        attr->name = strdup("lo");
}

static struct fi_info *draw_hints(uint32_t version)
{
    struct fi_info *hints = fi_allocinfo();
    const char *provider = DRAW(providers);

    hints->caps = chance(8) ? 0 : DRAW_FLAGS(caps, 4);
    hints->mode = chance(2) ? ~0ull : chance(2) ? FI_CONTEXT | FI_CONTEXT2 : 0;
    hints->addr_format = chance(3) ? DRAW(formats) : 0;
    hints->ep_attr->type = draw(4);
    if (hints->ep_attr->type == FI_EP_DGRAM)
        hints->ep_attr->type = FI_EP_RDM;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = chance(2) ? DRAW_FLAGS(orders, 3) : 0;
    hints->tx_attr->op_flags = chance(4) ? FI_COMPLETION : 0;
    hints->tx_attr->size = chance(4) ? 64 : 0;
    hints->tx_attr->inject_size = chance(4) ? 16 : 0;
    hints->ep_attr->max_msg_size = chance(4) ? 1 << 20 : 0;
    if (provider)
        hints->fabric_attr->prov_name = strdup(provider);
    draw_domain(hints->domain_attr, version);
    return hints;
}

static void assert_keeps(const struct fi_info *info, const struct fi_info *hints)
{
    const struct fi_domain_attr *got = info->domain_attr, *asked = hints->domain_attr;

    assert_int_equal(hints->caps & ~info->caps, 0);
    assert_int_equal(info->mode & ~hints->mode, 0);
    assert_true(!hints->ep_attr->type || info->ep_attr->type == hints->ep_attr->type);
    assert_true(!asked->threading || got->threading == asked->threading);
    assert_true(!asked->data_progress || got->data_progress == asked->data_progress);
    assert_true(!asked->control_progress || got->control_progress == asked->control_progress);
    assert_true(!asked->av_type || got->av_type == asked->av_type);
    assert_true(!asked->name || !strcmp(got->name, asked->name));
    assert_true(got->cq_data_size >= asked->cq_data_size);
    assert_int_equal(hints->tx_attr->msg_order & ~info->tx_attr->msg_order, 0);
    assert_true(info->tx_attr->size >= hints->tx_attr->size);
    assert_true(info->tx_attr->inject_size >= hints->tx_attr->inject_size);
    assert_true(info->ep_attr->max_msg_size >= hints->ep_attr->max_msg_size);
    assert_non_null(info->fabric_attr->name);
    assert_non_null(info->domain_attr->name);
}

struct objects {
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_eq *eq;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_ep *srx, *ep;
};

static void open_endpoint(struct objects *o, struct fi_info *info)
{
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
    struct fi_av_attr av_attr = {.type = info->domain_attr->av_type};
    struct fi_eq_attr eq_attr = {0};

    assert_int_equal(fi_cq_open(o->domain, &cq_attr, &o->cq, NULL), 0);
    assert_int_equal(fi_endpoint(o->domain, info, &o->ep, NULL), 0);
    if (info->ep_attr->type == FI_EP_MSG) {
        assert_int_equal(fi_eq_open(o->fabric, &eq_attr, &o->eq, NULL), 0);
        assert_int_equal(fi_ep_bind(o->ep, &o->eq->fid, 0), 0);
    } else {
        assert_int_equal(fi_av_open(o->domain, &av_attr, &o->av, NULL), 0);
        assert_int_equal(fi_ep_bind(o->ep, &o->av->fid, 0), 0);
    }
    if (info->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT) {
        assert_int_equal(fi_srx_context(o->domain, info->rx_attr, &o->srx, NULL), 0);
        assert_int_equal(fi_ep_bind(o->ep, &o->srx->fid, 0), 0);
    }
    assert_int_equal(fi_ep_bind(o->ep, &o->cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_enable(o->ep), 0);
}

static void close_fid(struct fid *fid)
{
    assert_int_equal(fi_close(fid), 0);
}

static void assert_opens(struct fi_info *info)
{
    struct objects o = {0};

    assert_int_equal(fi_fabric(info->fabric_attr, &o.fabric, NULL), 0);
    assert_int_equal(fi_domain(o.fabric, info, &o.domain, NULL), 0);
    open_endpoint(&o, info);
    close_fid(&o.ep->fid);
    if (o.srx)
        close_fid(&o.srx->fid);
    if (o.av)
        close_fid(&o.av->fid);
    close_fid(&o.cq->fid);
    if (o.eq)
        close_fid(&o.eq->fid);
    close_fid(&o.domain->fid);
    close_fid(&o.fabric->fid);
}

/* Asked for by what the info says, the first answer is of the same stack. */
static void assert_found_again(uint32_t version, const struct fi_info *info)
{
    struct fi_info *hints = fi_allocinfo(), *again = NULL;

    hints->mode = ~0ull;
    hints->domain_attr->mr_mode = info->domain_attr->mr_mode;
    hints->fabric_attr->prov_name = strdup(info->fabric_attr->prov_name);
    hints->fabric_attr->name = strdup(info->fabric_attr->name);
    hints->domain_attr->name = strdup(info->domain_attr->name);
    hints->ep_attr->type = info->ep_attr->type;
    hints->ep_attr->protocol = info->ep_attr->protocol;
    assert_int_equal(fi_getinfo(version, NULL, NULL, 0, hints, &again), 0);
    assert_string_equal(again->fabric_attr->prov_name, info->fabric_attr->prov_name);
    fi_freeinfo(again);
    fi_freeinfo(hints);
}

/* Returns how many infos there were. */
static int check_round(void)
{
    uint32_t version = DRAW(versions);
    const char *node = chance(3) ? DRAW(nodes) : NULL;
    const char *service = node && chance(2) ? "0" : NULL;
    struct fi_info *hints = draw_hints(version), *infos = NULL;
    uint64_t flags = node ? FI_SOURCE : 0;
    int rc, count = 0;

    if (node && hints->addr_format == FI_ADDR_STR)
        node = "fi_sockaddr_in://127.0.0.1:0", service = NULL;
    rc = fi_getinfo(version, node, service, flags, hints, &infos);
    if (rc != -FI_ENODATA)
        assert_int_equal(rc, 0);
    for (struct fi_info *info = infos; info; info = info->next) {
        assert_keeps(info, hints);
        assert_opens(info);
        if (chance(4))
            assert_found_again(version, info);
        count++;
    }
    fi_freeinfo(infos);
    fi_freeinfo(hints);
    return count;
}

static void every_info_opens_as_returned(void **state)
{
    const char *given = getenv("HINTS_SEED"), *rounds = getenv("HINTS_ROUNDS");
    int count = rounds ? atoi(rounds) : 300;
    int answered = 0, infos = 0;

    seed = given ? (uint32_t)strtoul(given, NULL, 0) : 20261120;
    for (int i = 0; i < count; i++) {
        uint32_t start = seed;
        int found;

        print_message("HINTS_SEED=%u HINTS_ROUNDS=1\n", start);
        found = check_round();
        answered += found > 0;
        infos += found;
    }
    print_message("%d of %d hints answered, %d infos opened\n", answered, count, infos);
    /* Returning little is no way to pass. */
    if (count >= 100)
        assert_true(answered * 5 > count);
}

static void null_hints_open(void **state)
{
    struct fi_info *infos = NULL;

    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, NULL, &infos), 0);
    for (struct fi_info *info = infos; info; info = info->next)
        assert_opens(info);
    fi_freeinfo(infos);
}

static struct fi_info *infos_of(const char *spec)
{
    struct fi_info *hints = fi_allocinfo(), *infos = NULL;

    hints->mode = ~0ull;
    hints->domain_attr->mr_mode = ~3;
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG;
    setenv("FI_PROVIDER", spec, 1);
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &infos), 0);
    unsetenv("FI_PROVIDER");
    fi_freeinfo(hints);
    return infos;
}

/* Is it the branch's part of a name whose branches have no '+' in theirs? */
static int names_branch(const char *joined, unsigned branch, const char *name)
{
    size_t len;

    for (; branch && joined; branch--)
        joined = strchr(joined, '+') ? strchr(joined, '+') + 1 : NULL;
    if (!joined)
        return 0;
    len = strcspn(joined, "+");
    return strlen(name) == len && !memcmp(joined, name, len);
}

static void assert_joined(const struct fi_info *joins, unsigned branch, const struct fi_info *info)
{
    const char *fabric = info->fabric_attr->name, *domain = info->domain_attr->name;

    for (; joins; joins = joins->next) {
        if (names_branch(joins->fabric_attr->name, branch, fabric) &&
            names_branch(joins->domain_attr->name, branch, domain))
            return;
    }
    fail_msg("no join has %s, %s as its branch %u", fabric, domain, branch);
}

/* Of each branch each network is in a join, and each join opens. */
static void joins_are_on_each_network_of_a_branch(void **state)
{
    static const struct {
        const char *join, *branches[2];
    } specs[] = {
        {"lnx;[shm+rxm;tcp]", {"shm", "rxm;tcp"}},
        {"lnx;[rxm;tcp+rxd;udp]", {"rxm;tcp", "rxd;udp"}},
        {"mrail(same=yes);[rxm;tcp+rxd;udp(iface=lo)]", {"rxm;tcp", "rxd;udp(iface=lo)"}},
    };

    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        struct fi_info *joins = infos_of(specs[i].join);

        for (struct fi_info *info = joins; info; info = info->next) {
            print_message("%s: %s, %s\n", specs[i].join, info->fabric_attr->name,
                          info->domain_attr->name);
            setenv("FI_PROVIDER", specs[i].join, 1);
            assert_opens(info);
        }
        for (unsigned branch = 0; branch < 2; branch++) {
            struct fi_info *infos = infos_of(specs[i].branches[branch]);

            for (const struct fi_info *info = infos; info; info = info->next)
                assert_joined(joins, branch, info);
            fi_freeinfo(infos);
        }
        fi_freeinfo(joins);
    }
    unsetenv("FI_PROVIDER");
}

/* Plans and opens one spec, over and over. */
static void *open_spec(void *spec)
{
    for (int i = 0; i < 20; i++) {
        struct fi_info *hints = fi_allocinfo(), *infos = NULL;

        hints->mode = ~0ull;
        hints->fabric_attr->prov_name = strdup(spec);
        hints->ep_attr->type = FI_EP_RDM;
        if (fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &infos))
            return spec;
        assert_opens(infos);
        fi_freeinfo(infos);
        fi_freeinfo(hints);
    }
    return NULL;
}

static void threads_open_different_stacks_of_the_same_parts(void **state)
{
    static char *const specs[] = {"tcp(iface=lo)", "rxm(retry_pause=20ms);tcp", "tcp;ofi_rxm"};
    pthread_t threads[3];
    void *failed;

    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_spec, specs[i]), 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_hints_open),
        cmocka_unit_test(every_info_opens_as_returned),
        cmocka_unit_test(joins_are_on_each_network_of_a_branch),
        cmocka_unit_test(threads_open_different_stacks_of_the_same_parts),
    };

    return cmocka_run_group_tests_name("open", tests, NULL, NULL);
}
