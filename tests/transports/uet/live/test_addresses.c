/* SPDX-License-Identifier: BSD-2-Clause */
/* A million addresses in one vector: what they take, and that each is found. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_ext_uet.h>

#include "../../../support/heap.h"

enum {
    COUNT = 1000000,
    EACH = 64, /* bytes, at most */
    HOST_AT = 16,
};

static void make(uint8_t bytes[FI_ADDR_UET_SIZE], uint32_t number)
{
    const uint8_t head[] = {0x55, 1, 0x1f, 7, 0x12, 0xb9, 0, 0, 0, 15, 0, 1};
    uint32_t host = htonl(0x0b000000 + number);

    memset(bytes, 0, FI_ADDR_UET_SIZE);
    memcpy(bytes, head, sizeof(head));
    memcpy(bytes + HOST_AT, &host, sizeof(host));
}

static void a_million_addresses(void **state)
{
    struct fi_info *hints = fi_allocinfo(), *info;
    struct fi_av_attr attr = {.type = FI_AV_TABLE, .count = COUNT};
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    uint8_t bytes[FI_ADDR_UET_SIZE], found[FI_ADDR_UET_SIZE];
    size_t before, len;

    hints->fabric_attr->prov_name = strdup("uet");
    hints->ep_attr->type = FI_EP_RDM;
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), "127.0.0.1", NULL, FI_SOURCE, hints, &info), 0);
    assert_int_equal(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
    assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
    before = heap_in_use();
    assert_int_equal(fi_av_open(domain, &attr, &av, NULL), 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        fi_addr_t addr;

        make(bytes, i);
        assert_int_equal(fi_av_insert(av, bytes, 1, &addr, 0, NULL), 1);
        assert_int_equal(addr, i);
    }
    print_message("%zu bytes for each address\n", (heap_in_use() - before) / COUNT);
    assert_true(heap_in_use() - before <= (size_t)COUNT * EACH);
    for (uint32_t i = 0; i < COUNT; i += 9973) {
        make(bytes, i);
        len = sizeof(found);
        assert_int_equal(fi_av_lookup(av, i, found, &len), 0);
        assert_memory_equal(found, bytes, sizeof(bytes));
    }
    fi_close(&av->fid);
    fi_close(&domain->fid);
    fi_close(&fabric->fid);
    fi_freeinfo(info);
    fi_freeinfo(hints);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_million_addresses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
