/* SPDX-License-Identifier: BSD-2-Clause */
/* Rails that fail under an endpoint, by the public interface. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../../pair.h"

#define LOSES "arq;fault(drop=100%,seed=1);udp(iface=lo)"

static struct pair pair;
static struct fid_eq *eq;

static void open_with_events(const char *spec)
{
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_NONE};
    char address[256];
    size_t len = sizeof(address);
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .size = 256};
    struct fi_av_attr av = {.type = FI_AV_TABLE};

    pair.info = pair_info(spec);
    assert_int_equal(fi_fabric(pair.info->fabric_attr, &pair.fabric, NULL), 0);
    assert_int_equal(fi_domain(pair.fabric, pair.info, &pair.domain, NULL), 0);
    assert_int_equal(fi_cq_open(pair.domain, &cq, &pair.cq, NULL), 0);
    assert_int_equal(fi_av_open(pair.domain, &av, &pair.av, NULL), 0);
    assert_int_equal(fi_eq_open(pair.fabric, &attr, &eq, NULL), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fi_endpoint(pair.domain, pair.info, &pair.ep[i], &pair), 0);
        assert_int_equal(fi_ep_bind(pair.ep[i], &pair.cq->fid, FI_TRANSMIT | FI_RECV), 0);
        assert_int_equal(fi_ep_bind(pair.ep[i], &pair.av->fid, 0), 0);
        assert_int_equal(fi_ep_bind(pair.ep[i], &eq->fid, 0), 0);
        assert_int_equal(fi_enable(pair.ep[i]), 0);
        len = sizeof(address);
        assert_int_equal(fi_getname(&pair.ep[i]->fid, address, &len), 0);
        assert_int_equal(fi_av_insert(pair.av, address, 1, &pair.to[i], 0, NULL), 1);
    }
}

static void drive(void)
{
    struct fi_cq_tagged_entry entry;

    assert_int_equal(fi_cq_read(pair.cq, &entry, 1), -FI_EAGAIN);
}

/* Large messages go by all rails, and by the ones that are left. */
static void messages(unsigned count)
{
    enum {
        SIZE = 1 << 20
    };
    char *from = malloc(SIZE), *to = malloc(SIZE);

    for (unsigned i = 0; i < count; i++) {
        memset(from, (int)i + 1, SIZE);
        assert_true(pair_message(&pair, from, to, SIZE, i, from, to));
        assert_memory_equal(from, to, SIZE);
    }
    free(from);
    free(to);
}

static void a_rail_that_loses_everything_is_down(void **state)
{
    struct fi_eq_err_entry error = {.err_data_size = 0};
    struct fi_eq_entry entry;
    uint32_t event;
    ssize_t rc;

    open_with_events("mrail(same=yes,rail_timeout=200ms);[" LOSES "+arq;udp(iface=lo)]");
    messages(8);
    while ((rc = fi_eq_read(eq, &event, &entry, sizeof(entry), 0)) == -FI_EAGAIN)
        drive();
    assert_int_equal(rc, -FI_EAVAIL);
    assert_int_equal(fi_eq_readerr(eq, &error, 0), sizeof(error));
    assert_int_equal(error.err, FI_ENETDOWN);
    assert_int_equal(error.data, 0);
    assert_ptr_equal(error.context, &pair);
    assert_true(error.fid == &pair.ep[0]->fid || error.fid == &pair.ep[1]->fid);
    messages(8);
    for (int i = 0; i < 2; i++)
        assert_int_equal(fi_close(&pair.ep[i]->fid), 0);
    assert_int_equal(fi_close(&eq->fid), 0);
    assert_int_equal(fi_close(&pair.av->fid), 0);
    assert_int_equal(fi_close(&pair.cq->fid), 0);
    assert_int_equal(fi_close(&pair.domain->fid), 0);
    assert_int_equal(fi_close(&pair.fabric->fid), 0);
    fi_freeinfo(pair.info);
}

static void rails_of_different_parts_carry_messages(void **state)
{
    static const char *const specs[] = {
        "mrail;[rxm;tcp(iface=lo)+arq;udp(iface=lo)]",
        "mrail;[shm+rxm;tcp(iface=lo)]",
        "mrail;[loop]",
        "mrail(same=yes,packet_size=8k);[rxm;tcp(iface=lo)+rxm;tcp(iface=lo)+rxm;tcp(iface=lo)]",
        "mrail;[noop;mrail;[rxm;tcp(iface=lo)]+rxd;udp(iface=lo)]",
        /* Keys of the rails' own choice, and memory that is registered. */
        "mrail(same=yes);[loop(shape=srd)+loop(shape=srd)]",
        "mrail(same=yes);[rxm;loop(shape=rdma)+rxm;loop(shape=rdma)]",
        "mrail(same=yes,reads=no);[rxm;loop(shape=rdma)+rxm;loop(shape=rdma)]",
    };

    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        print_message("%s\n", specs[i]);
        pair_open(&pair, specs[i]);
        messages(4);
        pair_close(&pair);
    }
}

/* The one error that ends it; what comes with it (the state of the other end ends, too) may be an
 * error of another operation. */
static void ends_with_an_error(void *context)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {.err_data_size = 0};
    ssize_t rc;

    while ((rc = fi_cq_read(pair.cq, &entry, 1)) == -FI_EAGAIN)
        ;
    assert_int_equal(rc, -FI_EAVAIL);
    assert_int_equal(fi_cq_readerr(pair.cq, &error, 0), 1);
    assert_ptr_equal(error.op_context, context);
    for (int i = 0; i < 1000; i++)
        drive();
}

/* Its packets are on both rails. Those that come after it was closed touch nothing. */
static void a_region_closed_under_an_access_ends_it(void **state)
{
    enum {
        SIZE = 32 << 20
    };
    char *from = malloc(SIZE), *region = calloc(1, SIZE), *then = malloc(SIZE);
    struct fid_mr *mr;
    uint64_t addr, key;

    assert_true(from && region && then);
    memset(from, 1, SIZE);
    for (unsigned reads = 0; reads < 2; reads++) {
        pair_open(&pair, "mrail(same=yes);[rxm;tcp(iface=lo)+rxm;tcp(iface=lo)]");
        messages(2);
        assert_int_equal(fi_mr_reg(pair.domain, region, SIZE, FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
                                   1, 0, &mr, NULL),
                         0);
        addr = pair.info->domain_attr->mr_mode & (FI_MR_VIRT_ADDR | FI_MR_BASIC)
                   ? (uint64_t)(uintptr_t)region
                   : 0;
        key = fi_mr_key(mr);
        memset(region, reads ? 2 : 0, SIZE);
        if (reads)
            assert_int_equal(fi_read(pair.ep[0], from, SIZE, NULL, pair.to[1], addr, key, from), 0);
        else
            assert_int_equal(fi_write(pair.ep[0], from, SIZE, NULL, pair.to[1], addr, key, from),
                             0);
        while (reads ? from[100000] != 2 : region[100000] != 1)
            drive();
        assert_int_equal(fi_close(&mr->fid), 0);
        memset(region, 3, SIZE);
        memcpy(then, region, SIZE);
        ends_with_an_error(from);
        assert_memory_equal(region, then, SIZE);
        messages(2);
        pair_close(&pair);
    }
    free(from);
    free(region);
    free(then);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rail_that_loses_everything_is_down),
        cmocka_unit_test(rails_of_different_parts_carry_messages),
        cmocka_unit_test(a_region_closed_under_an_access_ends_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
