/* SPDX-License-Identifier: BSD-2-Clause */
/* An fi_info as programs of older releases lay it out, each struct ending where memory ends. */
#ifndef WEFT_TESTS_OLD_LAYOUTS_H
#define WEFT_TESTS_OLD_LAYOUTS_H

#include <sys/mman.h>
#include <unistd.h>

#include <rdma/fabric.h>

/* The sizes that programs compiled at each level have, as published. At 1.0 api_version is padding.
 */
static const struct {
    size_t info, tx, ep, domain, fabric;
} published[] = {
    {112, 72, 80, 120, 32}, /* FABRIC_1.0 */
    {112, 72, 96, 184, 32}, /* 1.1 */
    {120, 72, 96, 184, 32}, /* 1.2 */
    {120, 80, 96, 192, 32}, /* 1.3 */
    {120, 80, 96, 200, 32}, /* 1.7 */
    {120, 80, 96, 208, 32}, /* 1.8 */
    {120, 80, 96, 224, 32}, /* 1.9 */
};

enum {
    LEVEL_1_0,
    LEVEL_1_1,
    LEVEL_1_2,
    LEVEL_1_3,
    LEVEL_1_7,
    LEVEL_1_8,
    LEVEL_1_9
};

#define LEVELS 7

#define FENCES 8

/* Structs that end where readable memory ends: one byte too many is a SIGSEGV. */
struct fences {
    char *maps[FENCES];
    size_t used;
};

static void *fenced(struct fences *fences, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *map = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(map != MAP_FAILED);
    assert_int_equal(mprotect(map + page, page, PROT_NONE), 0);
    assert_true(fences->used < FENCES);
    fences->maps[fences->used++] = map;
    return map + page - size;
}

static void fences_finish(struct fences *fences)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    while (fences->used)
        munmap(fences->maps[--fences->used], 2 * page);
}

/* Fills as much of a field as lies within `size` bytes of `base`. */
#define PUT(base, size, type, field, value)                                                        \
    do {                                                                                           \
        if (offsetof(type, field) + sizeof(((type *)0)->field) <= (size))                          \
            ((type *)(base))->field = (value);                                                     \
    } while (0)

static uint8_t old_key[4] = {1, 2, 3, 4};
static char old_name[] = "name";

static struct fi_info *old_info(struct fences *fences, int level)
{
    size_t n;
    void *attr;
    struct fi_info *info = fenced(fences, published[level].info);

    info->caps = FI_MSG;
    info->src_addr = old_name;
    info->src_addrlen = sizeof(old_name);

    n = published[level].tx;
    attr = fenced(fences, n);
    PUT(attr, n, struct fi_tx_attr, rma_iov_limit, 7);
    PUT(attr, n, struct fi_tx_attr, tclass, FI_TC_BULK_DATA);
    info->tx_attr = attr;

    info->rx_attr = fenced(fences, sizeof(struct fi_rx_attr));
    info->rx_attr->iov_limit = 3;

    n = published[level].ep;
    attr = fenced(fences, n);
    PUT(attr, n, struct fi_ep_attr, rx_ctx_cnt, 5);
    PUT(attr, n, struct fi_ep_attr, auth_key_size, sizeof(old_key));
    PUT(attr, n, struct fi_ep_attr, auth_key, old_key);
    info->ep_attr = attr;

    n = published[level].domain;
    attr = fenced(fences, n);
    PUT(attr, n, struct fi_domain_attr, name, old_name);
    PUT(attr, n, struct fi_domain_attr, max_ep_srx_ctx, 9);
    PUT(attr, n, struct fi_domain_attr, mr_cnt, 11);
    PUT(attr, n, struct fi_domain_attr, tclass, FI_TC_LOW_LATENCY);
    PUT(attr, n, struct fi_domain_attr, max_ep_auth_key, 13);
    PUT(attr, n, struct fi_domain_attr, max_group_id, 15);
    PUT(attr, n, struct fi_domain_attr, max_err_cntr_value, 17);
    info->domain_attr = attr;

    n = published[level].fabric;
    attr = fenced(fences, n);
    PUT(attr, n, struct fi_fabric_attr, prov_name, old_name);
    PUT(attr, n, struct fi_fabric_attr, prov_version, 19);
    PUT(attr, n, struct fi_fabric_attr, api_version, FI_VERSION(1, 5));
    info->fabric_attr = attr;
    return info;
}

/* Is info, in the current layout, a copy of old_info's with what `level` lacks zero? */
static void old_info_check(const struct fi_info *info, int level)
{
    assert_int_equal(info->caps, FI_MSG);
    assert_string_equal(info->src_addr, old_name);
    assert_null(info->nic);
    assert_int_equal(info->tx_attr->rma_iov_limit, 7);
    assert_int_equal(info->tx_attr->tclass, level >= LEVEL_1_3 ? FI_TC_BULK_DATA : 0);
    assert_int_equal(info->rx_attr->iov_limit, 3);
    assert_int_equal(info->ep_attr->rx_ctx_cnt, 5);
    assert_int_equal(info->ep_attr->auth_key_size, level >= LEVEL_1_1 ? sizeof(old_key) : 0);
    if (level >= LEVEL_1_1)
        assert_memory_equal(info->ep_attr->auth_key, old_key, sizeof(old_key));
    else
        assert_null(info->ep_attr->auth_key);
    assert_string_equal(info->domain_attr->name, old_name);
    assert_ptr_not_equal(info->domain_attr->name, old_name);
    assert_int_equal(info->domain_attr->max_ep_srx_ctx, 9);
    assert_int_equal(info->domain_attr->mr_cnt, level >= LEVEL_1_1 ? 11 : 0);
    assert_int_equal(info->domain_attr->tclass, level >= LEVEL_1_3 ? FI_TC_LOW_LATENCY : 0);
    assert_int_equal(info->domain_attr->max_ep_auth_key, level >= LEVEL_1_7 ? 13 : 0);
    assert_int_equal(info->domain_attr->max_group_id, level >= LEVEL_1_8 ? 15 : 0);
    assert_int_equal(info->domain_attr->max_err_cntr_value, level >= LEVEL_1_9 ? 17 : 0);
    assert_string_equal(info->fabric_attr->prov_name, old_name);
    assert_int_equal(info->fabric_attr->prov_version, 19);
    assert_int_equal(info->fabric_attr->api_version, level >= LEVEL_1_1 ? FI_VERSION(1, 5) : 0);
}

#endif
