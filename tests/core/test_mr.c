/* SPDX-License-Identifier: BSD-2-Clause */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/domain/mr_watch.h"
#include "core/info/abi.h"
#include "core/progress/progress.h"
#include "core/queue/cntr.h"

/* A domain with its map, by hand: nothing of fabrics is needed here. */
struct bed {
    struct fabric fabric;
    struct domain domain;
    struct fi_info info;
    struct fi_domain_attr attr;
    struct mr_map *map;
    struct fid_mr *mr;
};

static struct bed bed;

static void lay(int mode)
{
    memset(&bed, 0, sizeof(bed));
    bed.attr.mr_mode = mode;
    bed.attr.mr_key_size = 8;
    bed.attr.mr_iov_limit = 4;
    bed.info.domain_attr = &bed.attr;
    bed.info.caps = FI_RMA_EVENT;
    bed.fabric.api_version = FI_VERSION(2, 6);
    bed.fabric.abi = ABI_1_9;
    bed.fabric.part = "test";
    bed.domain.fabric = &bed.fabric;
    bed.domain.info = &bed.info;
    bed.domain.fid.mr = &mr_ops;
    list_init(&bed.domain.reports.list);
    assert_int_equal(mr_map_create(&bed.domain, &bed.map), 0);
}

static void clear(void)
{
    assert_false(children_any(&bed.domain.children));
    if (bed.domain.reports.common)
        progress_release(bed.domain.reports.common);
    mr_map_destroy(bed.map);
}

static int reg(void *buf, size_t len, uint64_t access, uint64_t key, struct fid_mr **mr)
{
    return fi_mr_reg(&bed.domain.fid, buf, len, access, 0, key, 0, mr, NULL);
}

/* A look-up of one piece; the region is released at once. */
static int look(uint64_t key, uint64_t addr, size_t len, uint64_t access, struct iovec *iov)
{
    struct iovec pieces[4];
    size_t count = 4;
    char *found = len ? mr_find(bed.map, key, addr, len, access) : NULL;
    struct mr *mr;
    int rc = mr_resolve(bed.map, key, addr, len, access, pieces, &count, &mr);

    /* It may refuse what the other one grants, and never the other way round. */
    if (found) {
        assert_int_equal(rc, 0);
        assert_ptr_equal(found, pieces[0].iov_base);
    }
    if (rc)
        return rc;
    assert_int_equal(count, len ? 1 : 0);
    if (iov)
        *iov = pieces[0];
    mr_release(mr);
    return 0;
}

static void bounds_do_not_overflow(void **state)
{
    static char buf[100];
    struct iovec iov;

    lay(0);
    assert_int_equal(reg(buf, 100, FI_REMOTE_WRITE | FI_REMOTE_READ, 7, &bed.mr), 0);
    assert_int_equal(fi_mr_key(bed.mr), 7);
    assert_int_equal(look(7, 10, 90, FI_REMOTE_WRITE, &iov), 0);
    assert_ptr_equal(iov.iov_base, buf + 10);
    assert_int_equal(iov.iov_len, 90);
    assert_int_equal(look(7, 100, 0, FI_REMOTE_WRITE, NULL), 0);
    assert_int_equal(look(7, 101, 0, FI_REMOTE_WRITE, NULL), 0); /* of no bytes */
    assert_int_equal(look(8, 0, 0, FI_REMOTE_WRITE, NULL), 0);
    assert_int_equal(look(7, 10, 91, FI_REMOTE_WRITE, NULL), -FI_EINVAL);
    assert_int_equal(look(7, UINT64_MAX, 1, FI_REMOTE_WRITE, NULL), -FI_EINVAL);
    assert_int_equal(look(7, UINT64_MAX - 4, 10, FI_REMOTE_WRITE, NULL), -FI_EINVAL);
    assert_int_equal(look(7, 1, SIZE_MAX, FI_REMOTE_WRITE, NULL), -FI_EINVAL);
    assert_int_equal(look(8, 0, 1, FI_REMOTE_WRITE, NULL), -FI_EACCES);
    fi_close(&bed.mr->fid);
    assert_int_equal(look(7, 0, 1, FI_REMOTE_WRITE, NULL), -FI_EACCES);
    assert_int_equal(reg((void *)(UINTPTR_MAX - 5), 10, FI_REMOTE_READ, 1, &bed.mr), -FI_EINVAL);
    clear();
}

/* From NULL on, as MPI's dynamic windows have it: what counts is what is accessed. */
static void a_region_may_be_the_whole_address_space(void **state)
{
    static const int modes[] = {0, FI_MR_VIRT_ADDR};
    static char buf[100];
    struct iovec iov;

    for (unsigned i = 0; i < 2; i++) {
        lay(modes[i]);
        assert_int_equal(reg(NULL, SIZE_MAX, FI_REMOTE_WRITE, 1, &bed.mr), 0);
        assert_int_equal(look(1, (uintptr_t)buf, 100, FI_REMOTE_WRITE, &iov), 0);
        assert_ptr_equal(iov.iov_base, buf);
        assert_int_equal(look(1, 0, 1, FI_REMOTE_WRITE, NULL), 0);
        assert_int_equal(look(1, UINTPTR_MAX - 1, 1, FI_REMOTE_WRITE, NULL), 0);
        assert_int_equal(look(1, UINTPTR_MAX, 1, FI_REMOTE_WRITE, NULL), -FI_EINVAL);
        assert_int_equal(look(1, UINTPTR_MAX - 1, 2, FI_REMOTE_WRITE, NULL), -FI_EINVAL);
        fi_close(&bed.mr->fid);
        assert_int_equal(reg(NULL, 10, FI_REMOTE_WRITE, 1, &bed.mr), 0);
        assert_int_equal(look(1, 10, 1, FI_REMOTE_WRITE, NULL), -FI_EINVAL);
        fi_close(&bed.mr->fid);
        clear();
    }
}

static void virtual_addresses_start_at_the_buffer(void **state)
{
    static char buf[100];
    struct iovec iov;
    uint64_t key;

    lay(FI_MR_BASIC);
    assert_int_equal(reg(buf, 100, FI_REMOTE_READ, 7, &bed.mr), 0);
    key = fi_mr_key(bed.mr);
    assert_int_not_equal(key, 7);
    assert_int_equal(look(key, (uintptr_t)buf + 5, 10, FI_REMOTE_READ, &iov), 0);
    assert_ptr_equal(iov.iov_base, buf + 5);
    assert_int_equal(look(key, (uintptr_t)buf - 1, 10, FI_REMOTE_READ, NULL), -FI_EINVAL);
    assert_int_equal(look(key, (uintptr_t)buf + 95, 6, FI_REMOTE_READ, NULL), -FI_EINVAL);
    assert_int_equal(look(key, 0, 1, FI_REMOTE_READ, NULL), -FI_EINVAL);
    fi_close(&bed.mr->fid);
    clear();
}

static void a_plain_region_is_found_without_a_lock(void **state)
{
    static char buf[100];
    struct iovec pieces[2] = {{buf, 10}, {buf + 20, 10}};
    struct fid_mr *other;

    lay(0);
    assert_int_equal(reg(buf, 100, FI_REMOTE_WRITE, 7, &bed.mr), 0);
    assert_null(mr_find(bed.map, 7, 0, 1, FI_REMOTE_WRITE)); /* it may get counters */
    fi_close(&bed.mr->fid);
    bed.info.caps = 0;
    assert_int_equal(reg(buf, 100, FI_REMOTE_WRITE, 7, &bed.mr), 0);
    assert_ptr_equal(mr_find(bed.map, 7, 0, 100, FI_REMOTE_WRITE), buf);
    assert_ptr_equal(mr_find(bed.map, 7, 99, 1, FI_REMOTE_WRITE), buf + 99);
    assert_null(mr_find(bed.map, 7, 99, 2, FI_REMOTE_WRITE));
    assert_null(mr_find(bed.map, 7, 100, 1, FI_REMOTE_WRITE));
    assert_null(mr_find(bed.map, 7, UINT64_MAX, 1, FI_REMOTE_WRITE));
    assert_null(mr_find(bed.map, 7, 1, SIZE_MAX, FI_REMOTE_WRITE));
    assert_null(mr_find(bed.map, 7, 0, 1, FI_REMOTE_READ));
    assert_null(mr_find(bed.map, 8, 0, 1, FI_REMOTE_WRITE));
    assert_int_equal(fi_mr_regv(&bed.domain.fid, pieces, 2, FI_REMOTE_READ, 0, 9, 0, &other, NULL),
                     0);
    assert_null(mr_find(bed.map, 9, 0, 1, FI_REMOTE_READ));
    fi_close(&other->fid);
    fi_close(&bed.mr->fid);
    assert_null(mr_find(bed.map, 7, 0, 1, FI_REMOTE_WRITE));
    clear();
}

static void *come_and_go(void *arg)
{
    static char buf[2000];

    for (unsigned i = 0; i < 2000; i++) {
        struct fid_mr *mrs[20];

        for (unsigned j = 0; j < 20; j++)
            if (reg(buf + j, 1, FI_REMOTE_WRITE, 100 + j, &mrs[j]))
                return "a region is refused";
        for (unsigned j = 0; j < 20; j++)
            fi_close(&mrs[j]->fid);
    }
    return NULL;
}

/* The table moves and grows meanwhile: what is found is always the region of that key. */
static void regions_come_and_go_while_others_look(void **state)
{
    static char buf[2][64];
    struct fid_mr *mrs[2];
    pthread_t thread;
    void *complaint;

    lay(0);
    bed.info.caps = 0;
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(reg(buf[i], 64, FI_REMOTE_WRITE, 1 + i, &mrs[i]), 0);
    assert_int_equal(pthread_create(&thread, NULL, come_and_go, NULL), 0);
    for (unsigned i = 0; i < 100000; i++) {
        char *found = mr_find(bed.map, 1 + i % 2, i % 64, 1, FI_REMOTE_WRITE);

        if (found)
            assert_ptr_equal(found, buf[i % 2] + i % 64);
        assert_int_equal(look(1 + i % 2, i % 64, 1, FI_REMOTE_WRITE, NULL), 0);
    }
    pthread_join(thread, &complaint);
    assert_null(complaint);
    for (unsigned i = 0; i < 2; i++)
        fi_close(&mrs[i]->fid);
    clear();
}

static void access_must_be_granted(void **state)
{
    static char buf[8];

    lay(0);
    assert_int_equal(reg(buf, 8, FI_REMOTE_READ | FI_WRITE, 1, &bed.mr), 0);
    assert_int_equal(look(1, 0, 8, FI_REMOTE_READ, NULL), 0);
    assert_int_equal(look(1, 0, 8, FI_REMOTE_WRITE, NULL), -FI_EACCES);
    assert_int_equal(look(1, 0, 8, FI_REMOTE_WRITE | FI_REMOTE_READ, NULL), -FI_EACCES);
    fi_close(&bed.mr->fid);
    clear();
}

static void keys_in_use_are_refused(void **state)
{
    struct fid_mr *local[2];
    static char buf[8];

    lay(0);
    assert_int_equal(reg(buf, 8, FI_REMOTE_READ, 5, &bed.mr), 0);
    assert_int_equal(reg(buf, 8, FI_REMOTE_READ, 5, &local[0]), -FI_ENOKEY);
    assert_int_equal(reg(buf, 8, FI_REMOTE_READ, FI_KEY_NOTAVAIL, &local[0]), -FI_EKEYREJECTED);
    assert_int_equal(reg(buf, 8, FI_SEND | FI_RECV, 5, &local[0]), 0);
    assert_int_equal(reg(buf, 8, FI_SEND | FI_RECV, 5, &local[1]), 0);
    fi_close(&local[0]->fid);
    fi_close(&local[1]->fid);
    assert_int_equal(look(5, 0, 8, FI_REMOTE_READ, NULL), 0);
    fi_close(&bed.mr->fid);
    clear();

    lay(0);
    bed.attr.mr_key_size = 2;
    mr_map_destroy(bed.map);
    assert_int_equal(mr_map_create(&bed.domain, &bed.map), 0);
    assert_int_equal(reg(buf, 8, FI_REMOTE_READ, 0x10000, &bed.mr), -FI_EKEYREJECTED);
    assert_int_equal(reg(buf, 8, FI_REMOTE_READ, 0xffff, &bed.mr), 0);
    fi_close(&bed.mr->fid);
    clear();
}

/* A thousand keys come and go in random order; the table always knows exactly those that live. */
static void table_follows_a_model(void **state)
{
    enum {
        KEYS = 1000
    };
    static struct fid_mr *mrs[KEYS];
    static char buf[8];
    unsigned seed = 12345;

    lay(0);
    memset(mrs, 0, sizeof(mrs));
    for (int i = 0; i < 20000; i++) {
        unsigned k = (unsigned)rand_r(&seed) % KEYS;
        /* Keys that share their low or high bits. */
        uint64_t key = k & 1 ? (uint64_t)k << 48 : k;

        assert_int_equal(look(key, 0, 8, FI_REMOTE_READ, NULL), mrs[k] ? 0 : -FI_EACCES);
        if (mrs[k]) {
            fi_close(&mrs[k]->fid);
            mrs[k] = NULL;
        } else {
            assert_int_equal(reg(buf, 8, FI_REMOTE_READ, key, &mrs[k]), 0);
        }
    }
    for (int k = 0; k < KEYS; k++)
        if (mrs[k])
            fi_close(&mrs[k]->fid);
    clear();
}

static void provider_keys_are_distinct_and_wide(void **state)
{
    struct fid_mr *mrs[100];
    uint64_t any = 0, all = UINT64_MAX;
    static char buf[8];

    lay(FI_MR_PROV_KEY);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(reg(buf, 8, FI_REMOTE_READ, 0, &mrs[i]), 0);
        any |= fi_mr_key(mrs[i]);
        all &= fi_mr_key(mrs[i]);
        for (int j = 0; j < i; j++)
            assert_true(fi_mr_key(mrs[i]) != fi_mr_key(mrs[j]));
    }
    assert_true(any == UINT64_MAX);
    assert_true(all == 0);
    for (int i = 0; i < 100; i++)
        fi_close(&mrs[i]->fid);
    clear();
}

static void a_region_of_pieces_reads_through(void **state)
{
    static char a[10], b[20], c[30];
    struct iovec all[] = {{a, 10}, {b, 0}, {b, 20}, {c, 30}}, iov[4];
    struct mr *mr;
    size_t count = 4;

    lay(0);
    assert_int_equal(fi_mr_regv(&bed.domain.fid, all, 4, FI_REMOTE_READ, 0, 1, 0, &bed.mr, NULL),
                     0);
    assert_int_equal(mr_resolve(bed.map, 1, 5, 50, FI_REMOTE_READ, iov, &count, &mr), 0);
    assert_int_equal(count, 3);
    assert_ptr_equal(iov[0].iov_base, a + 5);
    assert_int_equal(iov[0].iov_len, 5);
    assert_ptr_equal(iov[1].iov_base, b);
    assert_int_equal(iov[1].iov_len, 20);
    assert_ptr_equal(iov[2].iov_base, c);
    assert_int_equal(iov[2].iov_len, 25);
    mr_release(mr);
    count = 2;
    assert_int_equal(mr_resolve(bed.map, 1, 5, 50, FI_REMOTE_READ, iov, &count, &mr),
                     -FI_ETOOSMALL);
    count = 1;
    assert_int_equal(mr_resolve(bed.map, 1, 10, 20, FI_REMOTE_READ, iov, &count, &mr), 0);
    assert_ptr_equal(iov[0].iov_base, b);
    mr_release(mr);
    fi_close(&bed.mr->fid);
    clear();
}

static void a_closed_region_lives_until_released(void **state)
{
    static char buf[8];
    struct iovec iov;
    size_t count = 1;
    struct mr *mr;

    lay(0);
    assert_int_equal(reg(buf, 8, FI_REMOTE_READ, 1, &bed.mr), 0);
    assert_int_equal(mr_resolve(bed.map, 1, 0, 8, FI_REMOTE_READ, &iov, &count, &mr), 0);
    assert_int_equal(fi_close(&bed.mr->fid), 0);
    assert_int_equal(look(1, 0, 8, FI_REMOTE_READ, NULL), -FI_EACCES);
    assert_true(children_any(&bed.domain.children));
    assert_int_equal(mr->len, 8);
    mr_release(mr);
    clear();
}

static void endpoint_regions_need_bind_and_enable(void **state)
{
    static char buf[8];
    struct fid ep = {.fclass = FI_CLASS_EP};

    lay(FI_MR_ENDPOINT);
    assert_int_equal(reg(buf, 8, FI_REMOTE_READ, 1, &bed.mr), 0);
    assert_int_equal(look(1, 0, 8, FI_REMOTE_READ, NULL), -FI_EACCES);
    assert_int_equal(fi_mr_enable(bed.mr), -FI_EOPBADSTATE);
    assert_int_equal(fi_mr_bind(bed.mr, &ep, 0), 0);
    assert_int_equal(look(1, 0, 8, FI_REMOTE_READ, NULL), -FI_EACCES);
    assert_int_equal(fi_mr_enable(bed.mr), 0);
    assert_int_equal(look(1, 0, 8, FI_REMOTE_READ, NULL), 0);
    assert_int_equal(fi_mr_refresh(bed.mr, NULL, 0, 0), 0);
    fi_close(&bed.mr->fid);
    clear();
}

static void counters_hold_and_are_held(void **state)
{
    static char buf[8];
    struct cntr cntr = {.domain = &bed.domain};

    cntr.fid.fid.fclass = FI_CLASS_CNTR;
    lay(FI_MR_RMA_EVENT);
    assert_int_equal(progress_create_control("test", &cntr.progress), 0);
    assert_int_equal(
        fi_mr_reg(&bed.domain.fid, buf, 8, FI_REMOTE_WRITE, 0, 1, FI_RMA_EVENT, &bed.mr, NULL), 0);
    assert_int_equal(look(1, 0, 8, FI_REMOTE_WRITE, NULL), -FI_EACCES);
    assert_int_equal(fi_mr_bind(bed.mr, &cntr.fid.fid, 0), -FI_EBADFLAGS);
    assert_int_equal(fi_mr_bind(bed.mr, &cntr.fid.fid, FI_REMOTE_WRITE), 0);
    assert_int_equal(fi_mr_bind(bed.mr, &cntr.fid.fid, FI_REMOTE_WRITE), -FI_EINVAL);
    assert_true(children_any(&cntr.children));
    assert_int_equal(fi_mr_enable(bed.mr), 0);
    assert_int_equal(look(1, 0, 8, FI_REMOTE_WRITE, NULL), 0);
    assert_int_equal(fi_mr_bind(bed.mr, &cntr.fid.fid, FI_REMOTE_READ), -FI_EOPBADSTATE);
    fi_close(&bed.mr->fid);
    assert_false(children_any(&cntr.children));
    progress_release(cntr.progress);
    clear();
}

static void raw_keys_travel(void **state)
{
    uint64_t base, mapped, raw = 0;
    size_t size = 4;
    static char buf[8];

    lay(FI_MR_RAW | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR);
    assert_int_equal(reg(buf, 8, FI_REMOTE_WRITE, 0, &bed.mr), 0);
    assert_true(fi_mr_key(bed.mr) == FI_KEY_NOTAVAIL);
    assert_int_equal(fi_mr_raw_attr(bed.mr, &base, (uint8_t *)&raw, &size, 0), -FI_ETOOSMALL);
    assert_int_equal(size, 8);
    assert_int_equal(fi_mr_raw_attr(bed.mr, &base, (uint8_t *)&raw, &size, 0), 0);
    assert_true(base == (uintptr_t)buf);
    struct fi_mr_map_raw map = {0, base, (uint8_t *)&raw, size, &mapped};
    assert_int_equal(mr_domain_control(&bed.domain.fid.fid, FI_MAP_RAW_MR, &map), 0);
    assert_int_equal(look(mapped, base, 8, FI_REMOTE_WRITE, NULL), 0);
    assert_int_equal(mr_domain_control(&bed.domain.fid.fid, FI_UNMAP_KEY, &mapped), 0);
    map.key_size = 9;
    assert_int_equal(mr_domain_control(&bed.domain.fid.fid, FI_MAP_RAW_MR, &map), -FI_EINVAL);
    fi_close(&bed.mr->fid);
    clear();
}

static void sub_regions_stay_inside_their_base(void **state)
{
    static char buf[100];
    struct iovec iov = {buf + 10, 20};
    struct fi_mr_attr attr = {
        .mr_iov = &iov, .iov_count = 1, .access = FI_REMOTE_READ, .requested_key = 2};
    struct fid_mr *sub;

    lay(0);
    assert_int_equal(reg(buf, 100, FI_REMOTE_WRITE, 1, &bed.mr), 0);
    attr.base_mr = bed.mr;
    assert_int_equal(fi_mr_regattr(&bed.domain.fid, &attr, 0, &sub), 0);
    assert_int_equal(look(2, 0, 20, FI_REMOTE_READ, NULL), 0);
    assert_int_equal(look(2, 0, 21, FI_REMOTE_READ, NULL), -FI_EINVAL);
    assert_int_equal(fi_close(&bed.mr->fid), -FI_EBUSY);
    fi_close(&sub->fid);
    iov.iov_len = 91;
    assert_int_equal(fi_mr_regattr(&bed.domain.fid, &attr, 0, &sub), -FI_EINVAL);
    assert_int_equal(fi_close(&bed.mr->fid), 0);
    clear();
}

static void what_is_not_supported_is_refused(void **state)
{
    static char buf[8];
    struct iovec iov[5] = {{buf, 8}, {buf, 8}, {buf, 8}, {buf, 8}, {buf, 8}};
    struct fi_mr_attr attr = {
        .mr_iov = iov, .iov_count = 1, .access = FI_REMOTE_READ, .iface = FI_HMEM_CUDA};

    lay(0);
    assert_int_equal(fi_mr_regattr(&bed.domain.fid, &attr, 0, &bed.mr), -FI_ENOSYS);
    bed.fabric.api_version = FI_VERSION(1, 8);
    assert_int_equal(fi_mr_regattr(&bed.domain.fid, &attr, 0, &bed.mr), 0);
    fi_close(&bed.mr->fid);
    bed.fabric.api_version = FI_VERSION(2, 0);
    attr.iface = FI_HMEM_SYSTEM;
    attr.auth_key_size = 4;
    assert_int_equal(fi_mr_regattr(&bed.domain.fid, &attr, 0, &bed.mr), -FI_ENOSYS);
    attr.auth_key_size = 0;
    assert_int_equal(fi_mr_regattr(&bed.domain.fid, &attr, FI_MR_DMABUF, &bed.mr), -FI_ENOSYS);
    assert_int_equal(fi_mr_regattr(&bed.domain.fid, &attr, FI_MR_SINGLE_USE, &bed.mr),
                     -FI_EBADFLAGS);
    attr.iov_count = 5;
    assert_int_equal(fi_mr_regattr(&bed.domain.fid, &attr, 0, &bed.mr), -FI_EINVAL);
    attr.iov_count = 0;
    assert_int_equal(fi_mr_regattr(&bed.domain.fid, &attr, 0, &bed.mr), -FI_EINVAL);
    clear();
}

static void a_caller_of_old_headers_is_not_read_past_its_struct(void **state)
{
    static char buf[8];
    struct iovec iov = {buf, 8};
    struct fi_mr_attr attr;

    lay(0);
    bed.fabric.abi = ABI_1_3;
    memset(&attr, 0xa5, sizeof(attr));
    memset(&attr, 0, offsetof(struct fi_mr_attr, hmem_data));
    attr.mr_iov = &iov;
    attr.iov_count = 1;
    attr.access = FI_REMOTE_READ;
    assert_int_equal(fi_mr_regattr(&bed.domain.fid, &attr, 0, &bed.mr), 0);
    fi_close(&bed.mr->fid);
    clear();
}

/* ---- Whose accesses ---- */

static void a_region_is_for_its_key_and_its_endpoint(void **state)
{
    const uint8_t key[3] = {1, 2, 3}, other[3] = {1, 2, 4};
    char data[8];
    const struct iovec iov = {data, sizeof(data)};
    struct fi_mr_attr attr = {.mr_iov = &iov,
                              .iov_count = 1,
                              .access = FI_REMOTE_READ,
                              .auth_key_size = 3,
                              .auth_key = (uint8_t *)(uintptr_t)key};
    struct fid ep = {.fclass = FI_CLASS_EP}, ep2 = {.fclass = FI_CLASS_EP};
    struct mr_requester who = {&ep, key, 3, FI_ADDR_UNSPEC};
    struct mr *mr;

    lay(FI_MR_ENDPOINT);
    assert_int_equal(fi_mr_regattr(&bed.domain.fid, &attr, 0, &bed.mr), -FI_ENOSYS);
    bed.domain.auth_key_size = 3;
    assert_int_equal(fi_mr_regattr(&bed.domain.fid, &attr, FI_AUTH_KEY, &bed.mr), -FI_EBADFLAGS);
    assert_int_equal(fi_mr_regattr(&bed.domain.fid, &attr, 0, &bed.mr), 0);
    assert_int_equal(fi_mr_bind(bed.mr, &ep, 0), 0);
    assert_int_equal(fi_mr_enable(bed.mr), 0);
    mr = object_of(bed.mr, struct mr, fid);
    assert_true(mr_permits(mr, &who));
    assert_true(mr_permits(NULL, &who));
    who.ep = &ep2;
    assert_false(mr_permits(mr, &who));
    who.ep = &ep;
    who.key = other;
    assert_false(mr_permits(mr, &who));
    who.key = NULL;
    assert_false(mr_permits(mr, &who));
    assert_int_equal(fi_close(&bed.mr->fid), 0);
    clear();
}

enum {
    OWN_FLAG = 1 << 20
};

static uint64_t make_key(const struct domain *domain, uint64_t flags, uint64_t random,
                         unsigned attempt)
{
    return attempt | (flags & OWN_FLAG);
}

static void a_part_makes_keys_of_its_own(void **state)
{
    struct fid_mr *mrs[3];
    char data[8];

    lay(FI_MR_PROV_KEY);
    bed.domain.make_key = make_key;
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(reg(data, 8, FI_REMOTE_READ, 77, &mrs[i]), 0);
        assert_int_equal(fi_mr_key(mrs[i]), i);
    }
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(fi_close(&mrs[i]->fid), 0);
    clear();
}

static void a_part_has_flags_of_its_own(void **state)
{
    struct fid_mr *mr;
    char data[8];

    lay(FI_MR_PROV_KEY);
    bed.domain.make_key = make_key;
    assert_int_equal(fi_mr_reg(&bed.domain.fid, data, 8, FI_REMOTE_READ, 0, 0, OWN_FLAG, &mr, NULL),
                     -FI_EBADFLAGS);
    bed.domain.mr_flags = OWN_FLAG;
    assert_int_equal(fi_mr_reg(&bed.domain.fid, data, 8, FI_REMOTE_READ, 0, 0, OWN_FLAG, &mr, NULL),
                     0);
    assert_int_equal(fi_mr_key(mr), OWN_FLAG);
    assert_int_equal(fi_close(&mr->fid), 0);
    clear();
}

static unsigned told; /* times */

static void tell(void *arg)
{
    assert_ptr_equal(arg, &told);
    told++;
}

static void a_watch_is_told_when_its_region_is_closed(void **state)
{
    static char data[64];
    struct iovec pieces[4];
    struct mr_watch *watch[3];
    struct progress *progress;
    size_t count = 4;
    struct mr *mr;

    lay(0);
    assert_int_equal(progress_create(&bed.attr, "test", NULL, &progress), 0);
    assert_int_equal(reg(data, sizeof(data), FI_REMOTE_WRITE, 7, &bed.mr), 0);
    assert_int_equal(mr_resolve(bed.map, 7, 0, 8, FI_REMOTE_WRITE, pieces, &count, &mr), 0);
    progress_lock(progress);
    for (int i = 0; i < 3; i++) {
        watch[i] = mr_watch_open(mr, progress, tell, &told);
        assert_non_null(watch[i]);
    }
    mr_watch_close(watch[1]);
    mr_watch_close(NULL);
    progress_unlock(progress);
    told = 0;
    assert_int_equal(fi_close(&bed.mr->fid), 0);
    assert_int_equal(told, 2);
    progress_lock(progress);
    mr_watch_close(watch[0]);
    mr_watch_close(watch[2]);
    assert_null(mr_watch_open(mr, progress, tell, &told));
    progress_unlock(progress);
    mr_release(mr);
    progress_release(progress);
    clear();
}

struct insider {
    struct progress *progress;
    atomic_bool inside, left;
};

/* As a copy into a region that was resolved before it is closed. */
static void *stay_inside(void *arg)
{
    struct insider *insider = arg;

    progress_lock(insider->progress);
    atomic_store(&insider->inside, true);
    usleep(20000);
    atomic_store(&insider->left, true);
    progress_unlock(insider->progress);
    return NULL;
}

static void closing_waits_for(enum fi_progress data_progress, bool remote)
{
    static char buf[100];
    struct fi_domain_attr attr = {
        .threading = FI_THREAD_SAFE,
        .control_progress = data_progress,
        .data_progress = data_progress,
    };
    struct insider insider = {0};
    struct progress *idle;
    pthread_t thread;

    lay(0);
    assert_int_equal(progress_group_create(&bed.domain.progress_group), 0);
    assert_int_equal(progress_create(&attr, "test", bed.domain.progress_group, &idle), 0);
    assert_int_equal(progress_create(&attr, "test", bed.domain.progress_group, &insider.progress),
                     0);
    assert_int_equal(reg(buf, 100, remote ? FI_REMOTE_WRITE : FI_SEND, 7, &bed.mr), 0);
    assert_int_equal(pthread_create(&thread, NULL, stay_inside, &insider), 0);
    while (!atomic_load(&insider.inside))
        sched_yield();
    assert_int_equal(fi_close(&bed.mr->fid), 0);
    if (remote)
        assert_true(atomic_load(&insider.left));
    pthread_join(thread, NULL);
    progress_release(insider.progress);
    progress_group_sync(bed.domain.progress_group);
    progress_release(idle);
    progress_group_release(bed.domain.progress_group);
    clear();
}

static void closing_waits_for_accesses_under_way(void **state)
{
    closing_waits_for(FI_PROGRESS_MANUAL, true);
    closing_waits_for(FI_PROGRESS_AUTO, true);
    closing_waits_for(FI_PROGRESS_MANUAL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_do_not_overflow),
        cmocka_unit_test(a_region_may_be_the_whole_address_space),
        cmocka_unit_test(virtual_addresses_start_at_the_buffer),
        cmocka_unit_test(a_plain_region_is_found_without_a_lock),
        cmocka_unit_test(regions_come_and_go_while_others_look),
        cmocka_unit_test(access_must_be_granted),
        cmocka_unit_test(keys_in_use_are_refused),
        cmocka_unit_test(table_follows_a_model),
        cmocka_unit_test(provider_keys_are_distinct_and_wide),
        cmocka_unit_test(a_region_of_pieces_reads_through),
        cmocka_unit_test(a_closed_region_lives_until_released),
        cmocka_unit_test(endpoint_regions_need_bind_and_enable),
        cmocka_unit_test(counters_hold_and_are_held),
        cmocka_unit_test(raw_keys_travel),
        cmocka_unit_test(sub_regions_stay_inside_their_base),
        cmocka_unit_test(what_is_not_supported_is_refused),
        cmocka_unit_test(a_caller_of_old_headers_is_not_read_past_its_struct),
        cmocka_unit_test(a_region_is_for_its_key_and_its_endpoint),
        cmocka_unit_test(a_part_makes_keys_of_its_own),
        cmocka_unit_test(a_part_has_flags_of_its_own),
        cmocka_unit_test(a_watch_is_told_when_its_region_is_closed),
        cmocka_unit_test(closing_waits_for_accesses_under_way),
    };

    return cmocka_run_group_tests_name("core/domain/mr", tests, NULL, NULL);
}
