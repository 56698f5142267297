/* SPDX-License-Identifier: BSD-2-Clause */
/* rails=per_msg: no order is offered, and operations of each kind go by every network, as profile
 * counts them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <rdma/fi_atomic.h>

#include "../mrail/live/counted.h"
#include "../pair.h"

enum {
    MANY = 64,
    LARGE = 300000,
};

static struct fi_info *offered(const char *spec, uint64_t caps, uint64_t order)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;
    int rc;

    hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | caps;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = order;
    setenv("FI_PROVIDER", spec, 1);
    rc = fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &info);
    assert_true(!rc || rc == -FI_ENODATA);
    fi_freeinfo(hints);
    return info;
}

static void no_order_is_offered(void **state)
{
    static const char *const spec = "lnx(rails=per_msg,same=yes);[rxm;tcp(iface=lo)+rxm;"
                                    "tcp(iface=lo)]";
    static const uint64_t orders[] = {FI_ORDER_SAS,     FI_ORDER_RAW,     FI_ORDER_WAW,
                                      FI_ORDER_RAR,     FI_ORDER_RMA_WAW, FI_ORDER_ATOMIC_RAW,
                                      FI_ORDER_RMA_RAR, FI_ORDER_SAW};
    struct fi_info *info = offered(spec, 0, 0);

    assert_non_null(info);
    for (const struct fi_info *at = info; at; at = at->next) {
        assert_int_equal(at->tx_attr->msg_order, FI_ORDER_NONE);
        assert_int_equal(at->rx_attr->msg_order, FI_ORDER_NONE);
        assert_int_equal(at->tx_attr->comp_order, FI_ORDER_NONE);
        assert_int_equal(at->rx_attr->comp_order, FI_ORDER_NONE);
        assert_int_equal(at->ep_attr->max_order_raw_size, 0);
        assert_int_equal(at->ep_attr->max_order_war_size, 0);
        assert_int_equal(at->ep_attr->max_order_waw_size, 0);
        assert_int_equal((at->caps | at->tx_attr->caps) & FI_FENCE, 0);
    }
    fi_freeinfo(info);
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++)
        assert_null(offered(spec, 0, orders[i]));
    assert_null(offered(spec, FI_FENCE, 0));
}

/* A peer has one network, or shared memory: nothing overtakes. */
static void one_network_keeps_its_order(void **state)
{
    struct fi_info *info =
        offered("lnx(rails=per_msg);[shm+rxm;tcp(iface=lo)]", FI_FENCE, FI_ORDER_SAS);

    assert_non_null(info);
    assert_true(info->tx_attr->msg_order & FI_ORDER_SAS);
    fi_freeinfo(info);
}

static void wait_for(struct pair *pair, unsigned *ends, unsigned count)
{
    struct fi_cq_tagged_entry entry;

    while (count) {
        ssize_t rc = fi_cq_read(pair->cq, &entry, 1);

        assert_true(rc == 1 || rc == -FI_EAGAIN);
        if (rc != 1)
            continue;
        assert_int_equal(++*(unsigned *)entry.op_context, 1);
        count--;
    }
    for (int i = 0; i < 100; i++)
        assert_int_equal(fi_cq_read(pair->cq, &entry, 1), -FI_EAGAIN);
    memset(ends, 0, 2 * MANY * sizeof(*ends));
}

static void fill(char *bytes, size_t len, unsigned number)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = (char)(i * 7 + i / 251 + number);
}

/* Each by a tag of its own, since they may overtake. */
static void messages(struct pair *pair, unsigned *ends)
{
    char *from = malloc((size_t)MANY * LARGE), *to = calloc(MANY, LARGE);

    assert_true(from && to);
    for (unsigned i = 0; i < MANY; i++) {
        size_t len = i % 4 == 3 ? LARGE : i % 4 * 3000 + 8;

        fill(from + (size_t)i * LARGE, len, i);
        PAIR_POST(pair, fi_trecv(pair->ep[1], to + (size_t)i * LARGE, len, NULL, pair->to[0], i, 0,
                                 &ends[i]));
    }
    for (unsigned i = 0; i < MANY; i++)
        PAIR_POST(pair, fi_tsend(pair->ep[0], from + (size_t)i * LARGE,
                                 i % 4 == 3 ? LARGE : i % 4 * 3000 + 8, NULL, pair->to[1], i,
                                 &ends[MANY + i]));
    wait_for(pair, ends, 2 * MANY);
    for (unsigned i = 0; i < MANY; i++)
        assert_memory_equal(from + (size_t)i * LARGE, to + (size_t)i * LARGE,
                            i % 4 == 3 ? LARGE : i % 4 * 3000 + 8);
    free(from);
    free(to);
}

static void accesses(struct pair *pair, unsigned *ends)
{
    static uint64_t region[MANY], words[MANY];
    const uint64_t one = 1;
    bool virtual = pair->info->domain_attr->mr_mode & (FI_MR_VIRT_ADDR | FI_MR_BASIC);
    uint64_t base = virtual ? (uint64_t)(uintptr_t)region : 0, key;
    struct fid_mr *mr;

    assert_int_equal(fi_mr_reg(pair->domain, region, sizeof(region),
                               FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL),
                     0);
    key = fi_mr_key(mr);
    for (unsigned i = 0; i < MANY; i++) {
        words[i] = i * 11 + 1;
        PAIR_POST(pair, fi_write(pair->ep[0], &words[i], 8, NULL, pair->to[1], base + 8ull * i, key,
                                 &ends[i]));
    }
    wait_for(pair, ends, MANY);
    for (unsigned i = 0; i < MANY; i++)
        PAIR_POST(pair, fi_atomic(pair->ep[0], &one, 1, NULL, pair->to[1], base + 8ull * i, key,
                                  FI_UINT64, FI_SUM, &ends[i]));
    wait_for(pair, ends, MANY);
    memset(words, 0, sizeof(words));
    for (unsigned i = 0; i < MANY; i++)
        PAIR_POST(pair, fi_read(pair->ep[0], &words[i], 8, NULL, pair->to[1], base + 8ull * i, key,
                                &ends[i]));
    wait_for(pair, ends, MANY);
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(words[i], i * 11 + 2);
    assert_int_equal(fi_close(&mr->fid), 0);
}

/* Calls of that kind in both reports. */
static void both_have(char path[2][64], const char *const *names, size_t count)
{
    char text[2][65536];

    for (int i = 0; i < 2; i++)
        snprintf(text[i], sizeof(text[i]), "%s", report_of(path[i]));
    for (size_t name = 0; name < count; name++) {
        unsigned long calls[2] = {0, 0};

        for (int i = 0; i < 2; i++)
            for (const char *row = text[i]; (row = strstr(row, names[name])); row++)
                calls[i] += calls_at(row);
        print_message("%s: %lu and %lu\n", names[name], calls[0], calls[1]);
        assert_true(calls[0] >= MANY / 4 && calls[1] >= MANY / 4);
    }
}

static void each_kind_goes_by_every_network(void **state)
{
    static const char *const kinds[] = {"\"fi_tsend", "\"fi_write", "\"fi_read", "\"fi_atomic"};
    char spec[300], path[2][64];
    unsigned ends[2 * MANY] = {0};
    struct pair pair;

    for (int i = 0; i < 2; i++)
        snprintf(path[i], sizeof(path[i]), "/tmp/weft-turns-%d-%d", (int)getpid(), i);
    snprintf(spec, sizeof(spec),
             "lnx(rails=per_msg,same=yes);[profile(file=\"%s\",format=json);rxm;tcp(iface=lo)+"
             "profile(file=\"%s\",format=json);rxm;tcp(iface=lo)]",
             path[0], path[1]);
    pair_caps = FI_ATOMIC | FI_DIRECTED_RECV;
    pair_open(&pair, spec);
    messages(&pair, ends);
    accesses(&pair, ends);
    pair_close(&pair);
    both_have(path, kinds, sizeof(kinds) / sizeof(kinds[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_order_is_offered),
        cmocka_unit_test(one_network_keeps_its_order),
        cmocka_unit_test(each_kind_goes_by_every_network),
    };

    return cmocka_run_group_tests_name("lnx, operations in turn", tests, NULL, NULL);
}
